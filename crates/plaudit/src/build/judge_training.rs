//! The vision-language judge that a config tunes, on what, and how.

use std::path::{Path, PathBuf};

use plaudit_compose::ComposeError;
use plaudit_data::windows::{Objective, WindowReadOptions, WindowViews, Windows};
use plaudit_nn::classifier::{AdamW, Device};
use plaudit_nn::qwen3_vl::{
    Config, FineTuning, LoraConfig, NewModelFiles, Processor, TextConfig, VisionConfig, VlmError, VlmTrainer,
};
use plaudit_reward::sft::{InputFormat, JudgeSettings, SaveModel, TrendMonitor};
use plaudit_reward::trend::{JudgeCard, WindowFormat};

use super::classifier::loop_settings;
use crate::config::LoadedConfig;
use crate::config::block::OneOrMore;
use crate::config::blocks::actor::{ModelSettings, WeightInit};
use crate::config::blocks::data::WindowDataset;
use crate::config::blocks::runner::Monitor;
use crate::device::{DeviceChoice, GpuWork};
use crate::hints::{self, NO_GPU};

/// A judge that learns, and how it is written.
pub struct Judge {
    /// The model.
    pub trainer: VlmTrainer,
    /// Writes it: adapters as peft has them, or a Hugging Face folder.
    pub save: SaveModel<'static>,
}

/// The windows a config learns from, and those it is measured on.
pub struct JudgeData {
    /// To learn from.
    pub train: Windows,
    /// To be measured on.
    pub val: Option<Windows>,
}

/// The windows that a config names.
pub fn judge_data(loaded: &LoadedConfig) -> Result<JudgeData, ComposeError> {
    let data = &loaded.config.data;
    let views = match data.dataset_name {
        None | Some(WindowDataset::Trend) => WindowViews::All,
        Some(WindowDataset::SimpleTrend) => WindowViews::Main,
        Some(WindowDataset::Foreign) => {
            let message = "this dataset is one of RLinf's that is not read here";
            return Err(loaded.problem("data.dataset_name", message, "use vlm_trend_reward_sft"));
        }
    };
    let reading = WindowReadOptions {
        prompt_key: data.prompt_key.clone(),
        answer_key: data.answer_key.clone(),
        objectives: Objective::ALL.into(),
        data_root: data.data_root.as_ref().map(PathBuf::from),
        views,
    };
    let read = |key: &str, named: &OneOrMore<String>| {
        Windows::read(&paths(named), &reading).map_err(|error| {
            let otherwise =
                "name the segments.jsonl that `plaudit dataset windows` wrote, or its data.data_root";
            loaded.problem(key, error.to_string(), hints::about_windows(&error).unwrap_or(otherwise))
        })
    };
    let Some(train) = &data.train_data_paths else {
        let hint = "name the segments.jsonl that `plaudit dataset windows` wrote";
        return Err(loaded.problem("data.train_data_paths", "there is nothing to learn from", hint));
    };
    super::refuse_shared_data(loaded)?;
    let train = read("data.train_data_paths", train)?;
    let val = data.val_data_paths.as_ref().map(|paths| read("data.val_data_paths", paths)).transpose()?;
    Ok(JudgeData { train, val })
}

/// Where a config trains its judge, as one of so many ranks.
fn device(loaded: &LoadedConfig, ranks: usize) -> Result<Device, ComposeError> {
    let key = "actor.model.device";
    let model = &loaded.config.actor.model;
    let choice: DeviceChoice = model
        .device
        .parse()
        .map_err(|error: String| loaded.problem(key, error, "auto takes the GPU if there is one"))?;
    match choice {
        DeviceChoice::Auto if ranks > 1 || !model.is_lora => return Ok(Device::Cpu),
        DeviceChoice::Cuda(_) if ranks > 1 => {
            let message = format!("{ranks} ranks train on the CPU: they are not divided among GPUs");
            return Err(loaded.problem(key, message, "train with one rank, or set it to cpu"));
        }
        DeviceChoice::Cuda(_) if !model.is_lora => {
            let message = "all weights of a judge are trained on the CPU; on a GPU, adapters are";
            return Err(loaded.problem(key, message, "set actor.model.is_lora to true, or this to cpu"));
        }
        _ => (),
    }
    choice.resolve(GpuWork::VisionLanguage).map_err(|error| loaded.problem(key, error.to_string(), NO_GPU))
}

/// The model of a config, for one of so many ranks. A fresh one gets a tokenizer made of the questions in the data.
pub fn judge(loaded: &LoadedConfig, data: &JudgeData, ranks: usize) -> Result<Judge, ComposeError> {
    let questions = &data.train.prompts()[..];
    let model = &loaded.config.actor.model;
    let device = device(loaded, ranks)?;
    let hint = "name the folder of a Qwen3-VL model: config.json, tokenizer.json, *.safetensors";
    let mut judge = match (&model.model_path, model.init) {
        (Some(path), WeightInit::Pretrained) => {
            let wrong = |error: VlmError| match error.is_device_error() {
                true => loaded.problem("actor.model.device", error.to_string(), NO_GPU),
                false => loaded.problem("actor.model.model_path", error.to_string(), hint),
            };
            from_pretrained(loaded, Path::new(path), device).map_err(wrong)
        }
        (Some(path), WeightInit::Random) => {
            let wrong = |error: VlmError| loaded.problem("actor.model.model_path", error.to_string(), hint);
            refuse_adapters(loaded)?;
            random_like(loaded, Path::new(path)).map_err(wrong)
        }
        (None, WeightInit::Random) => {
            let hint = "change actor.model.text_config or vision_config";
            let wrong = |error: VlmError| loaded.problem("actor.model", error.to_string(), hint);
            refuse_adapters(loaded)?;
            let mut texts: Vec<&str> = questions.to_vec();
            labels(&data.train).for_each(|label| texts.push(label));
            from_scratch(loaded, &texts).map_err(wrong)
        }
        (None, WeightInit::Pretrained) => {
            let message = "there are no weights to start from, and nothing is downloaded";
            let hint = "set it to the folder of a Qwen3-VL model, or actor.model.init to random";
            Err(loaded.problem("actor.model.model_path", message, hint))
        }
    }?;
    judge.trainer.set_recompute(model.gradient_checkpointing);
    let card = card(loaded, data, questions)?;
    Ok(Judge { save: with_card(judge.save, card), trainer: judge.trainer })
}

/// More questions than this are not listed: they are of many tasks, and a new one is nothing strange.
const FEW_QUESTIONS: usize = 16;

/// What a judge that this config tunes says about itself.
fn card(loaded: &LoadedConfig, windows: &JudgeData, questions: &[&str]) -> Result<JudgeCard, ComposeError> {
    let data = &loaded.config.data;
    let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let all = |named: &Option<OneOrMore<String>>| {
        named.as_ref().map(paths).unwrap_or_default().into_iter().map(whole).collect()
    };
    Ok(JudgeCard {
        prompt_layout: Some(data.prompt_layout),
        window: window_format(loaded, &windows.train)?,
        objectives: windows.train.objectives(),
        labels: labels(&windows.train).map(String::from).collect(),
        label_temperature: None,
        questions: match questions.len() {
            0..=FEW_QUESTIONS => questions.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        },
        trained_on: all(&data.train_data_paths),
        validated_on: all(&data.val_data_paths),
    })
}

/// All that may be answered about some windows.
fn labels(windows: &Windows) -> impl Iterator<Item = &'static str> {
    windows.objectives().into_iter().flat_map(|objective| objective.answers().iter().copied())
}

/// Windows that are looked at for how all of them are shown.
const LOOKED_AT: usize = 64;

/// How windows are shown, where those that were looked at are all of one size and of as many frames and cameras.
fn window_format(loaded: &LoadedConfig, train: &Windows) -> Result<Option<WindowFormat>, ComposeError> {
    let InputFormat { frames: sampling, fps, size: shown_size, .. } = input_format(loaded);
    if let Some([0, _] | [_, 0]) = shown_size {
        let message = "a frame has at least one row and one column";
        return Err(loaded.problem("data.frame_size", message, "give height and width, such as [64, 64]"));
    }
    let format = |number: usize| {
        let views = train.frames(number).map_err(|error| {
            let hint = hints::about_windows(&error).unwrap_or("make the windows again");
            loaded.problem("data.train_data_paths", error.to_string(), hint)
        })?;
        let frame = views.first().and_then(|view| view.first());
        let own_size = frame.map_or([0; 2], |frame| [frame.height, frame.width]);
        let size = shown_size.unwrap_or(own_size);
        let frames = views.first().map_or(0, Vec::len);
        let is_pair = train.row(number).objective == Objective::Preference;
        let cameras = if is_pair { 1 } else { views.len() };
        Ok::<_, ComposeError>(WindowFormat { cameras, frames, size, sampling, fps })
    };
    // Two clips are no two cameras.
    let of_cameras = |number: &usize| train.row(*number).objective != Objective::Preference;
    let mut numbers: Vec<usize> = (0..train.len()).filter(of_cameras).collect();
    if numbers.is_empty() {
        numbers = (0..train.len()).collect();
    }
    let looked_at = numbers.len().min(LOOKED_AT);
    let mut formats = (0..looked_at).map(|at| format(numbers[at * numbers.len() / looked_at]));
    let Some(first) = formats.next().transpose()? else { return Ok(None) };
    for other in formats {
        if other? != first {
            return Ok(None);
        }
    }
    Ok(Some(first))
}

/// How windows become model inputs.
fn input_format(loaded: &LoadedConfig) -> InputFormat {
    let data = &loaded.config.data;
    let size = data.frame_size.map(|size| size.map(|side| side as usize));
    InputFormat { layout: data.prompt_layout, fps: data.video_fps, size, ..InputFormat::default() }
}

fn with_card(save: SaveModel<'static>, card: JudgeCard) -> SaveModel<'static> {
    Box::new(move |trainer, folder| {
        save(trainer, folder)?;
        let written = card.write(folder);
        written.map(drop).map_err(|error| VlmError::Config { file: error.file, problem: error.problem })
    })
}

fn paths(named: &OneOrMore<String>) -> Vec<PathBuf> {
    match named {
        OneOrMore::One(path) => vec![PathBuf::from(path)],
        OneOrMore::More(paths) => paths.iter().map(PathBuf::from).collect(),
    }
}

/// Adapters on random weights would leave nearly all of them random.
fn refuse_adapters(loaded: &LoadedConfig) -> Result<(), ComposeError> {
    if !loaded.config.actor.model.is_lora {
        return Ok(());
    }
    let message = "adapters need pretrained weights, and these are random";
    Err(loaded.problem("actor.model.is_lora", message, "set it to false, or actor.model.init to pretrained"))
}

fn from_pretrained(loaded: &LoadedConfig, folder: &Path, device: Device) -> Result<Judge, VlmError> {
    let actor = &loaded.config.actor;
    let fine_tuning =
        if actor.model.is_lora { FineTuning::Lora(lora(&actor.model)) } else { FineTuning::Full };
    let trainer = VlmTrainer::open(folder, device, &fine_tuning, adamw(loaded), actor.seed)?;
    let base = folder.to_path_buf();
    let save: SaveModel<'static> = Box::new(move |trainer, folder| match trainer.adapter()? {
        Some(adapter) => adapter.save(folder, base.to_str()),
        None => trainer.save_model(folder, Some(&base)),
    });
    Ok(Judge { trainer, save })
}

fn random_like(loaded: &LoadedConfig, folder: &Path) -> Result<Judge, VlmError> {
    let config = Config::read(&folder.join("config.json"))?;
    let processor = Processor::open(folder, &config)?;
    let trainer = random_init(loaded, config, processor)?;
    let base = folder.to_path_buf();
    Ok(Judge { trainer, save: Box::new(move |trainer, folder| trainer.save_model(folder, Some(&base))) })
}

fn from_scratch(loaded: &LoadedConfig, texts: &[&str]) -> Result<Judge, VlmError> {
    let fresh = NewModelFiles::new(sizes(&loaded.config.actor.model), texts)?;
    let trainer = random_init(loaded, fresh.config().clone(), fresh.processor()?)?;
    let save: SaveModel<'static> = Box::new(move |trainer, folder| {
        trainer.save_model(folder, None)?;
        fresh.write(folder)
    });
    Ok(Judge { trainer, save })
}

fn random_init(loaded: &LoadedConfig, config: Config, processor: Processor) -> Result<VlmTrainer, VlmError> {
    let actor = &loaded.config.actor;
    let spread = actor.model.initializer_range;
    VlmTrainer::from_scratch(config, processor, spread, adamw(loaded), actor.seed)
}

fn lora(model: &ModelSettings) -> LoraConfig {
    let default = LoraConfig::default();
    LoraConfig {
        rank: model.lora_rank as usize,
        alpha: model.lora_alpha.unwrap_or(model.lora_rank as f64),
        targets: if model.lora_targets.is_empty() { default.targets } else { model.lora_targets.clone() },
        freeze_vision: model.freeze_vit,
    }
}

fn adamw(loaded: &LoadedConfig) -> AdamW {
    let optim = &loaded.config.actor.optim;
    AdamW {
        betas: (optim.adam_beta1, optim.adam_beta2),
        eps: optim.adam_eps,
        weight_decay: optim.weight_decay,
    }
}

/// The sizes that a config gives; vocabulary and tokens follow from the tokenizer.
fn sizes(model: &ModelSettings) -> Config {
    let (text, vision) = (&model.text_config, &model.vision_config);
    let size = |number: u64| number as usize;
    Config {
        text: TextConfig {
            vocab: 1,
            width: size(text.hidden_size),
            layers: size(text.num_hidden_layers),
            heads: size(text.num_attention_heads),
            kv_heads: size(text.num_key_value_heads),
            head_width: size(text.head_dim),
            inner: size(text.intermediate_size),
            epsilon: 1e-6,
            theta: text.rope_theta,
            sections: text.mrope_section.map(size),
            max_positions: None,
        },
        vision: VisionConfig {
            width: size(vision.hidden_size),
            depth: size(vision.depth),
            heads: size(vision.num_heads),
            inner: size(vision.intermediate_size),
            patch: size(vision.patch_size),
            frames: size(vision.temporal_patch_size),
            merge: size(vision.spatial_merge_size),
            positions: size(vision.num_position_embeddings).isqrt(),
            deepstack: vision.deepstack_visual_indexes.iter().copied().map(size).collect(),
            theta: 10_000.0,
        },
        tied: true,
        image_token: 0,
        video_token: 0,
    }
}

/// How a judge is trained on so many windows.
pub fn judge_training(loaded: &LoadedConfig, windows: usize) -> Result<JudgeSettings, ComposeError> {
    let data = &loaded.config.data;
    let monitor = match loaded.config.runner.early_stop.monitor {
        Monitor::Loss => TrendMonitor::Loss,
        Monitor::Accuracy => TrendMonitor::Accuracy,
        Monitor::Auc | Monitor::AveragePrecision => {
            let message = "this number is for two labels, and a judge has three";
            let hint = "use val_loss or val_accuracy";
            return Err(loaded.problem("runner.early_stop.monitor", message, hint));
        }
    };
    Ok(JudgeSettings {
        loop_settings: loop_settings(loaded, windows, "judge training"),
        monitor,
        target_tokens: data.loss,
        input_format: input_format(loaded),
    })
}
