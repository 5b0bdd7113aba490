//! The image reward model that a config trains, and how.

use std::path::Path;

use plaudit_compose::ComposeError;
use plaudit_core::{LrDecay, Schedule, Seed};
use plaudit_data::recording::{BadFiles, DatasetFormat, Rules};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{
    AdamW, ClassifierError, ClassifierSettings, Device, Loss, Precision, Sharding, Trainer,
};
use plaudit_reward::augment::Augment;
use plaudit_reward::dataset::TimeWarp;
use plaudit_reward::train::{ClassWeight, EarlyStop, Length, LoopSettings, Settings, steps_per_epoch};

use super::network::trained_network;
use crate::config::LoadedConfig;
use crate::config::block::OneOrMore;
use crate::config::blocks::actor::{self, LrSchedule, ModelSettings, ShardingStrategy};
use crate::config::blocks::data::{Data, EpisodeSource};
use crate::config::blocks::reward::has_small_trunk;
use crate::config::blocks::runner::Runner;
use crate::device::{DeviceChoice, GpuWork};
use crate::hints::NO_GPU;

/// A path that a model would be trained on and validated on, if there is one.
pub(crate) fn trained_and_validated_on(data: &Data) -> Option<String> {
    let paths = |paths: &Option<OneOrMore<String>>| match paths {
        Some(OneOrMore::One(path)) => vec![path.clone()],
        Some(OneOrMore::More(paths)) => paths.clone(),
        None => Vec::new(),
    };
    if data.data_path.is_some() || data.positive_dir.is_some() {
        return None; // which is split by episode, and used instead
    }
    // Two names of one place are the same place.
    let place = |path: &String| Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
    let train: Vec<_> = paths(&data.train_data_paths).iter().map(place).collect();
    paths(&data.val_data_paths).into_iter().find(|path| train.contains(&place(path)))
}

/// Refuses to measure a model on what it learned from.
pub(crate) fn refuse_shared_data(loaded: &LoadedConfig) -> Result<(), ComposeError> {
    let Some(path) = trained_and_validated_on(&loaded.config.data) else { return Ok(()) };
    let message =
        format!("{path} is trained on as well: a model would be chosen by what it learned by heart");
    let hint = "name other episodes, or set data.data_path, which is split by episode";
    Err(loaded.problem("data.val_data_paths", message, hint))
}

/// Begins to open the GPU that a config may train on, while data is read.
pub fn open_device_early(loaded: &LoadedConfig, ranks: usize) {
    if let Ok(choice) = loaded.config.actor.model.device.parse::<DeviceChoice>()
        && ranks == 1
    {
        choice.open_early();
    }
}

/// Where a config trains its network, as one of so many ranks.
pub fn classifier_device(loaded: &LoadedConfig, ranks: usize) -> Result<Device, ComposeError> {
    let key = "actor.model.device";
    let model = &loaded.config.actor.model;
    let choice: DeviceChoice = model
        .device
        .parse()
        .map_err(|error: String| loaded.problem(key, error, "auto takes the GPU if there is one"))?;
    let has_fp16 = trained_network(model).precision == Precision::Fp16;
    match choice {
        DeviceChoice::Auto if ranks > 1 || has_fp16 => return Ok(Device::Cpu),
        DeviceChoice::Cuda(_) if ranks > 1 => {
            let message = format!("{ranks} ranks train on the CPU: they are not divided among GPUs");
            return Err(loaded.problem(key, message, "train with one rank, or set it to cpu"));
        }
        DeviceChoice::Cuda(_) if has_fp16 => {
            let message = "an image classifier is trained in bf16 or fp32 on a GPU, not in fp16";
            return Err(loaded.problem(key, message, "set actor.model.precision to bf16, or this to cpu"));
        }
        _ => (),
    }
    choice.resolve(GpuWork::Classifier).map_err(|error| loaded.problem(key, error.to_string(), NO_GPU))
}

/// The network of a config, with the weights that it names, or fresh ones, for one of so many ranks.
pub fn classifier(loaded: &LoadedConfig, ranks: usize) -> Result<Trainer, ComposeError> {
    let actor = &loaded.config.actor;
    let (model, optim) = (&actor.model, &actor.optim);
    let adamw = AdamW {
        betas: (optim.adam_beta1, optim.adam_beta2),
        eps: optim.adam_eps,
        weight_decay: optim.weight_decay,
    };
    let wrong = |error: ClassifierError| match error {
        ClassifierError::Setting { key, why } => {
            loaded.problem(&format!("actor.model.{key}"), why, "change what the message names")
        }
        ClassifierError::Gpu(error) => loaded.problem("actor.model.device", error.to_string(), NO_GPU),
        other => loaded.problem("actor.model", other.to_string(), "change what the message names"),
    };
    let device = classifier_device(loaded, ranks)?;
    let mut trainer = Trainer::on(device, &settings(loaded), adamw, actor.seed).map_err(wrong)?;
    match (&model.model_path, model.pretrained) {
        (Some(path), false) => load(loaded, "actor.model.model_path", path, |weights| trainer.load(weights))?,
        (Some(path), true) => {
            load(loaded, "actor.model.model_path", path, |weights| trainer.load_pretrained(weights))?;
        }
        (None, true) => {
            let message = "ImageNet weights are asked for, and nothing is downloaded";
            let hint = "set actor.model.model_path to torchvision's file, such as resnet18-f37072fd.pth, or this to false";
            return Err(loaded.problem("actor.model.pretrained", message, hint));
        }
        (None, false) => {}
    }
    if let Some(path) = &model.pretrained_encoder_path {
        let key = "actor.model.pretrained_encoder_path";
        load(loaded, key, path, |weights| trainer.load_pretrained(weights))?;
    }
    Ok(trainer)
}

fn load(
    loaded: &LoadedConfig,
    key: &str,
    path: &str,
    into: impl FnOnce(&Weights) -> Result<(), ClassifierError>,
) -> Result<(), ComposeError> {
    let weights = Weights::read(Path::new(path)).map_err(|error| {
        let hint = "name a checkpoint: a file (.pt, .safetensors), or the folder of one";
        loaded.problem(key, error.to_string(), hint)
    })?;
    into(&weights).map_err(|error| {
        let hint = "set what the message names under actor.model, such as actor.model.hidden_dim=256";
        loaded.problem(key, format!("{path}: {error}"), hint)
    })
}

fn settings(loaded: &LoadedConfig) -> ClassifierSettings {
    let model = &loaded.config.actor.model;
    ClassifierSettings { freeze_encoder: is_frozen(loaded, model), ..trained_network(model) }
}

/// Only the small trunk is ever frozen, and only one that has learned something, unless the config insists.
fn is_frozen(loaded: &LoadedConfig, model: &ModelSettings) -> bool {
    let learned = model.pretrained_encoder_path.is_some() || model.model_path.is_some();
    has_small_trunk(model.arch)
        && model.freeze_encoder
        && (learned || loaded.is_written("actor.model.freeze_encoder"))
}

/// How a classifier is trained on so many frames.
pub fn classifier_training(loaded: &LoadedConfig, frames: usize) -> Settings {
    let actor = &loaded.config.actor;
    Settings {
        loop_settings: LoopSettings {
            eval_batch: actor.eval_batch_size.unwrap_or(256) as usize,
            ..loop_settings(loaded, frames, "reward training")
        },
        monitor: loaded.config.runner.early_stop.monitor,
        loss: match actor.loss.focal_gamma {
            0.0 => Loss::Bce,
            gamma => Loss::Focal { gamma },
        },
        class_weight: match (actor.loss.success_weight, actor.loss.class_weight) {
            (Some(weight), _) => ClassWeight::Success(weight),
            (None, actor::ClassWeight::Even) => ClassWeight::Even,
            (None, actor::ClassWeight::Balanced) => ClassWeight::Balanced,
        },
        augment: augment(loaded),
        time_warp: time_warp(loaded),
        loader_threads: loader_threads(loaded),
    }
}

/// The most threads that make batches where the config does not say how many: a GPU that trains ResNet-18 in bf16 asks for no more.
const MOST_LOADER_THREADS: usize = 16;

fn loader_threads(loaded: &LoadedConfig) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    loaded
        .config
        .data
        .num_workers
        .map_or_else(|| cores().min(MOST_LOADER_THREADS), |threads| threads as usize)
}

/// How fast and how long a config trains on so many examples; `purpose` keeps its random numbers apart from others.
pub(super) fn loop_settings(loaded: &LoadedConfig, examples: usize, purpose: &str) -> LoopSettings {
    let (actor, runner) = (&loaded.config.actor, &loaded.config.runner);
    let micro_batch = actor.micro_batch_size.min(actor.global_batch_size) as usize;
    let global_batch = actor.global_batch_size as usize;
    let length = length(runner);
    let steps = length.steps(steps_per_epoch(examples, micro_batch, global_batch));
    let stop = &runner.early_stop;
    LoopSettings {
        micro_batch,
        global_batch,
        eval_batch: actor.eval_batch_size.map_or(micro_batch, |size| size as usize),
        length,
        val_interval: interval(runner.val_check_interval),
        save_interval: interval(runner.save_interval),
        early_stop: stop.enabled.then_some(EarlyStop { patience: stop.patience, min_delta: stop.min_delta }),
        schedule: schedule(&actor.optim, steps),
        clip: (actor.optim.clip_grad > 0.0).then_some(actor.optim.clip_grad),
        shuffle: loaded.config.data.shuffle,
        seed: Seed::new(actor.seed).purpose(purpose),
    }
}

/// What a config divides among so many ranks.
pub fn sharding(loaded: &LoadedConfig, world: usize) -> Result<Sharding, ComposeError> {
    let strategy = loaded.config.actor.sharding_strategy;
    match strategy {
        ShardingStrategy::NoShard => Ok(Sharding::Nothing),
        ShardingStrategy::ShardGradOp => Ok(Sharding::Optimizer),
        ShardingStrategy::FullShard | ShardingStrategy::HybridShard if world == 1 => Ok(Sharding::Nothing),
        ShardingStrategy::FullShard | ShardingStrategy::HybridShard => {
            let message =
                format!("`{}` divides the weights among ranks, which is not done here", strategy.word());
            let hint = "use shard_grad_op (the optimiser's state and gradients are divided) or no_shard";
            Err(loaded.problem("actor.sharding_strategy", message, hint))
        }
    }
}

/// How long a config trains.
fn length(runner: &Runner) -> Length {
    let limit = |number: i64| u64::try_from(number).ok();
    Length {
        max_epochs: limit(runner.max_epochs).filter(|epochs| *epochs > 0),
        max_steps: limit(runner.max_steps),
    }
}

fn interval(steps: i64) -> Option<u64> {
    u64::try_from(steps).ok().filter(|steps| *steps > 0)
}

fn schedule(optim: &actor::Optim, steps: u64) -> Schedule {
    let total = optim.total_training_steps.and_then(|steps| u64::try_from(steps).ok()).unwrap_or(steps);
    let by_share = (optim.lr_warmup_steps_ratio * total as f64) as u64;
    let min_lr = optim.min_lr;
    let decay = match optim.lr_scheduler {
        LrSchedule::Constant => LrDecay::Constant,
        LrSchedule::Cosine => LrDecay::Cosine { total, min_lr },
        LrSchedule::Linear => LrDecay::Linear { total, min_lr },
    };
    Schedule { lr: optim.lr, warmup: u64::try_from(optim.lr_warmup_steps).unwrap_or(by_share), decay }
}

/// The augmentation of training images.
pub fn augment(loaded: &LoadedConfig) -> Augment {
    let settings = &loaded.config.data.augment;
    Augment {
        shift: settings.shift,
        crop: settings.crop,
        brightness: settings.brightness,
        contrast: settings.contrast,
        saturation: settings.saturation,
        hue: settings.hue,
        blur: settings.blur,
        cutout: settings.cutout,
    }
}

/// How segments of demonstrations are played otherwise.
fn time_warp(loaded: &LoadedConfig) -> TimeWarp {
    let settings = &loaded.config.data.time_warp;
    TimeWarp {
        rewind: settings.rewind,
        stall: settings.stall,
        speed_up: settings.speed_up,
        cut: settings.cut,
    }
}

/// How recordings are read, as the config says.
pub fn reading_rules(loaded: &LoadedConfig) -> Rules {
    let data = &loaded.config.data;
    let format = data.source.map(|source| match source {
        EpisodeSource::Collected => DatasetFormat::Episodes,
        EpisodeSource::PreMerge => DatasetFormat::PreMerge,
        EpisodeSource::Frames => DatasetFormat::Frames,
        EpisodeSource::Trajectories => DatasetFormat::Trajectories,
        EpisodeSource::Transitions => DatasetFormat::Transitions,
        EpisodeSource::Keyboard => DatasetFormat::Keyboard,
    });
    Rules {
        format,
        success_reward: data.success_reward,
        labels: data.labels.as_ref().map(Into::into),
        success_last_frames: data.success_last_frames.map(|frames| frames as usize),
        idle_action: data.idle_action,
        bad_files: if data.skip_bad { BadFiles::Skip } else { BadFiles::Stop },
        ..Rules::default()
    }
}
