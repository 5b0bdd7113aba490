//! The vision-language judge a config describes: the model, its prompt, and the rewards for its answers.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plaudit_compose::ComposeError;
use plaudit_data::windows::Objective;
use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::gpu::GpuError;
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout, Quantization, VlmError};
use plaudit_reward::endpoint::{
    ChatEndpoint, EndpointCallbacks, EndpointError, EndpointSettings, ServerModel,
};
use plaudit_reward::open::{ModelLocation, OpenError, OpenOptions, OpenVlm};
use plaudit_reward::sft::DEFAULT_FPS;
use plaudit_reward::trend::{
    AnswerMode, AnswerPlace, CachedModel, FrameReadout, GenerationConfig, InputBuilder, JudgeCard,
    JudgeFolder, LabelRewards, LocalVlm, NonsenseGuard, PREFIX_FPS, Prompt, PromptCheck, ReadoutSettings,
    TOPREWARD_PROMPT, TrendJudge, TrendModel, TrendReward, UnknownPrompt, VlmFrameJudge, WindowFormat,
    WordJudge, WordReadout, WordReadoutError,
};
use plaudit_reward::{
    ClipRewardModel, FrameRewardModel, History, ReloadableModel, TermSettings, VoteCounting, VoteReward,
    WindowReward, camera_for,
};

use super::reward::TermBuilder;
use super::stand_in::SimulatedJudge;
use crate::config::block::Choice;
use crate::config::blocks::reward::{Readout, WorkerType};
use crate::device::{DeviceChoice, GpuWork};
use crate::hints::{self, NO_GPU};
use crate::run;
use crate::workers::{ServedJudge, WorkerJudge};

/// RLinf's builders of questions.
const INPUT_BUILDERS: &[(&str, InputBuilderKind)] = &[
    ("vlm_trend_reward_input_builder", InputBuilderKind::Trend),
    ("video_vlm_input_builder", InputBuilderKind::Video),
    ("buffered_vlm_input_builder", InputBuilderKind::Trend),
    ("base_vlm_input_builder", InputBuilderKind::Moment),
    ("base_input_builder", InputBuilderKind::Moment),
];

/// RLinf's parsers of answers; `base_reward_parser` is what it has where none is named.
const PARSERS: &[(&str, ParserKind)] = &[
    ("vlm_trend_reward_parser", ParserKind::Trend),
    ("score_parser", ParserKind::Score),
    ("base_reward_parser", ParserKind::Unspecified),
];

/// How questions are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputBuilderKind {
    /// Two cameras, a video each.
    Trend,
    /// One camera.
    Video,
    /// A single frame of each camera.
    Moment,
}

/// How answers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserKind {
    Trend,
    Score,
    /// What fits the kind of model.
    Unspecified,
}

/// Rollouts whose answers a potential keeps cached.
const CACHED_ROLLOUTS: usize = 4;

/// The model that answers, and its card.
struct AnsweringModel {
    model: Arc<dyn TrendModel>,
    card: JudgeCard,
}

/// Where a judge computes, and with which numbers: those of a GPU are 16 bits.
///
/// # Errors
/// When a GPU was asked for and cannot be used.
pub fn judge_device(choice: DeviceChoice, bf16: bool) -> Result<(Device, Precision), GpuError> {
    let device = choice.resolve(GpuWork::VisionLanguage)?;
    let is_half = bf16 || device != Device::Cpu;
    Ok((device, if is_half { Precision::Bf16 } else { Precision::Fp32 }))
}

impl TermBuilder<'_> {
    /// A term of windows that a vision-language model judges.
    pub(super) fn trend_windows(
        &self,
        term: TermSettings,
        history: History,
    ) -> Result<WindowReward, ComposeError> {
        let model = self.clip_model(self.label_rewards(), |model| model)?;
        Ok(WindowReward {
            term,
            model,
            history,
            interval_reward: self.term.model.interval_reward as f32,
            to_every_step: self.term.history_reward_assign,
        })
    }

    /// A term of the potential that the votes of a vision-language model add up to.
    pub(super) fn trend_potential(
        &self,
        term: TermSettings,
        history: History,
    ) -> Result<VoteReward, ComposeError> {
        let Some(longest_episode) = self.spec.max_episode_steps else {
            let message = "a potential adds up the votes of whole episodes, and their length is not set";
            return Err(self.problem("reward_mode", message, "set env.train.max_episode_steps"));
        };
        let model = &self.term.model;
        let rollout = longest_episode.saturating_mul(self.spec.num_envs);
        let cached = |model| -> Arc<dyn TrendModel> {
            Arc::new(CachedModel::new(model, rollout.saturating_mul(CACHED_ROLLOUTS)))
        };
        let judge = self.clip_model(TrendReward::Votes { soft: model.soft_reward }, cached)?;
        Ok(VoteReward {
            term,
            model: judge,
            history,
            gamma: self.loaded.config.algorithm.gamma as f32,
            potential_votes: model.potential_votes as f32,
            at_termination: model.potential_end,
            longest_episode,
            counting: match model.readout {
                Readout::Logits | Readout::Text => VoteCounting::Sum,
                Readout::Words | Readout::Topreward | Readout::Progress | Readout::Success => {
                    VoteCounting::Newest
                }
            },
        })
    }

    /// A vision-language model that judges single frames.
    pub(super) fn vlm_frame_judge(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        if !matches!(self.term.model.readout, Readout::Logits | Readout::Text) {
            let message = "this readout is of windows, and single frames are to be judged";
            let hint = "set model.model_type: buffered_vlm, with a history of one frame if need be";
            return Err(self.problem("model.readout", message, hint));
        }
        if self.builder(InputBuilderKind::Moment)? != InputBuilderKind::Moment {
            let message = "this builder shows windows, and single frames are to be judged";
            let hint = "set base_vlm_input_builder, or reward.model.model_type: buffered_vlm";
            return Err(self.problem("model.input_builder_name", message, hint));
        }
        let parser = self.parser()?;
        let input = self.input(InputBuilderKind::Moment)?;
        let ask = self.ask(parser == ParserKind::Trend);
        let AnsweringModel { model, card } = self.model(&ask)?;
        let input = self.as_tuned(&card, input)?;
        let readout = match parser {
            ParserKind::Trend => FrameReadout::Trend(self.readout(&card)),
            ParserKind::Score | ParserKind::Unspecified => FrameReadout::Number,
        };
        let judge = VlmFrameJudge {
            model,
            input,
            ask,
            readout,
            micro_batch: self.micro_batch(),
            nonsense: NonsenseGuard::new(self.term.model.max_invalid),
        };
        Ok(Arc::new(ReloadableModel::fixed(Box::new(judge) as Box<dyn FrameRewardModel>)))
    }

    /// What scores windows; `wrap` may wrap the model that answers.
    fn clip_model(
        &self,
        reward: TrendReward,
        wrap: impl FnOnce(Arc<dyn TrendModel>) -> Arc<dyn TrendModel>,
    ) -> Result<Box<dyn ClipRewardModel>, ComposeError> {
        match self.stand_ins {
            Some(_) => Ok(Box::new(SimulatedJudge { reward })),
            None => match self.word_readout()? {
                Some(readout) => Ok(Box::new(self.word_judge(readout, wrap)?)),
                None => Ok(Box::new(self.trend_judge(reward, wrap)?)),
            },
        }
    }

    /// How words of one's own are read, where they are.
    fn word_readout(&self) -> Result<Option<WordReadout>, ComposeError> {
        let model = &self.term.model;
        match model.readout {
            Readout::Logits | Readout::Text => {
                if model.words.is_empty() {
                    return Ok(None);
                }
                let message = "words are named, and answers are not read by them";
                Err(self.problem("model.words", message, "set model.readout: words, or leave them out"))
            }
            Readout::Topreward => Ok(Some(WordReadout::topreward())),
            Readout::Progress | Readout::Success => {
                Ok(model.readout.objective().and_then(WordReadout::of_objective))
            }
            Readout::Words => {
                if model.input_builder_params.prompt.is_none() {
                    let message = "the judge is to answer with words of one's own, and nobody asks for them";
                    let hint =
                        "ask a question whose answer is one of them; {task} and {frames} are filled in";
                    return Err(self.problem("model.input_builder_params.prompt", message, hint));
                }
                let temperature = model.label_temperature.unwrap_or(1.0);
                let (words, values) = (model.words.clone(), model.word_values.clone());
                WordReadout::new(words, values, model.word_measure, temperature).map(Some).map_err(|error| {
                    let key = match error {
                        WordReadoutError::TooFew { .. } => "model.words",
                        WordReadoutError::Values { .. } => "model.word_values",
                    };
                    self.problem(key, error, "such as words: [\"Yes\", \"No\"], word_values: [1, 0]")
                })
            }
        }
    }

    /// A judge whose answer is a number.
    fn word_judge(
        &self,
        readout: WordReadout,
        wrap: impl FnOnce(Arc<dyn TrendModel>) -> Arc<dyn TrendModel>,
    ) -> Result<WordJudge, ComposeError> {
        let input = self.input(self.window_builder()?)?;
        let input = match (self.term.model.readout, &input.prompt) {
            (Readout::Topreward, Prompt::Trend) => InputBuilder {
                prompt: Prompt::Own(TOPREWARD_PROMPT.into()),
                answer: AnswerPlace::SameTurn,
                ..input
            },
            (readout @ (Readout::Progress | Readout::Success), Prompt::Trend) => {
                let prompt = readout.objective().map_or(Prompt::Trend, Prompt::Objective);
                InputBuilder { prompt, ..input }
            }
            _ => input,
        };
        let ask = AnswerMode::Words(readout.words().into());
        let AnsweringModel { model, card } = self.model(&ask)?;
        Ok(WordJudge {
            model: wrap(model),
            input: self.as_tuned(&card, input)?,
            readout,
            missing: self.term.model.interval_reward as f32,
            micro_batch: self.micro_batch(),
            nonsense: NonsenseGuard::new(self.term.model.max_invalid),
        })
    }

    /// How windows become questions.
    fn window_builder(&self) -> Result<InputBuilderKind, ComposeError> {
        let builder = self.builder(InputBuilderKind::Trend)?;
        if builder == InputBuilderKind::Moment {
            let message = "this builder shows single frames, and windows are to be judged";
            let hint = "set vlm_trend_reward_input_builder, or reward.model.model_type: vlm";
            return Err(self.problem("model.input_builder_name", message, hint));
        }
        Ok(builder)
    }

    /// A judge of windows; `wrap` may wrap its model.
    fn trend_judge(
        &self,
        reward: TrendReward,
        wrap: impl FnOnce(Arc<dyn TrendModel>) -> Arc<dyn TrendModel>,
    ) -> Result<TrendJudge, ComposeError> {
        if self.parser()? == ParserKind::Score {
            let message = "windows are judged by their trend, not by a score";
            return Err(self.problem("model.reward_parser_name", message, "set vlm_trend_reward_parser"));
        }
        let input = self.input(self.window_builder()?)?;
        let ask = self.ask(true);
        let AnsweringModel { model, card } = self.model(&ask)?;
        Ok(TrendJudge {
            model: wrap(model),
            input: self.as_tuned(&card, input)?,
            ask,
            readout: self.readout(&card),
            reward,
            micro_batch: self.micro_batch(),
            nonsense: NonsenseGuard::new(self.term.model.max_invalid),
        })
    }

    fn label_rewards(&self) -> TrendReward {
        let (model, parser) = (&self.term.model, &self.term.model.reward_parser_params);
        let rewards = LabelRewards {
            positive: parser.positive_reward as f32,
            negative: parser.negative_reward as f32,
            unclear: parser.unclear_reward as f32,
            invalid: parser.invalid_reward as f32,
            missing: model.interval_reward as f32,
        };
        if model.soft_reward { TrendReward::Soft(rewards) } else { TrendReward::Hard(rewards) }
    }

    fn micro_batch(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.term.model.infer_micro_batch_size as usize)
    }

    fn readout(&self, card: &JudgeCard) -> ReadoutSettings {
        let model = &self.term.model;
        let temperature = model.label_temperature.unwrap_or_else(|| card.temperature());
        ReadoutSettings { temperature, abstain_band: model.abstain_band as f32 }
    }

    /// How windows were shown to the judge when it learned what it is asked now. Other questions are asked as `reward eval` asks
    /// them: all frames, at a rate that models are used to.
    fn tuned_window(&self, card: &JudgeCard) -> Option<WindowFormat> {
        let objective = self.term.model.readout.objective()?;
        card.window.filter(|_| objective == Objective::Trend || card.objectives.contains(&objective))
    }

    /// Questions as the judge was tuned with them: where the text stands, which frames it sees and at which rate. The config
    /// may say the same, and nothing else.
    fn as_tuned(&self, card: &JudgeCard, input: InputBuilder) -> Result<InputBuilder, ComposeError> {
        let same = "write the same, or leave the key out";
        let layout = match card.prompt_layout {
            Some(tuned) if tuned != input.layout && self.is_written("model.prompt_layout") => {
                let message = format!("the judge was tuned with prompt_layout: {}", tuned.word());
                return Err(self.problem("model.prompt_layout", message, same));
            }
            tuned => tuned.unwrap_or(input.layout),
        };
        let window = self.tuned_window(card);
        let is_trend = matches!(self.term.model.readout, Readout::Logits | Readout::Text);
        let (sampling, fps) =
            if is_trend { (input.sampling, input.fps) } else { (FrameSampling::All, PREFIX_FPS) };
        let sampling = match (window.map(|window| window.sampling), self.frames_seen()?) {
            (Some(tuned), Some(written)) if tuned != written => {
                let message = match tuned {
                    FrameSampling::All => "the judge was tuned with every frame of a window",
                    FrameSampling::Sampled => {
                        "the judge was tuned with the frames that its processor samples"
                    }
                };
                return Err(self.problem("model.subprocessor_kwargs", message, same));
            }
            (tuned, written) => tuned.or(written).unwrap_or(sampling),
        };
        // Words that the answer finishes stand last, whatever the judge is used to.
        let layout = if input.answer == AnswerPlace::SameTurn { PromptLayout::VideosFirst } else { layout };
        let fps = window.map_or(fps, |window| window.fps);
        // An episode so far is shown by as many frames as in the tuning.
        let is_prefix = matches!(input.prompt, Prompt::Objective(_));
        let shown = window.filter(|_| is_prefix).map(|window| window.frames).or(input.shown);
        Ok(InputBuilder { layout, sampling, fps, shown, ..input })
    }

    /// What is wanted of the model; `labels` says that labels would do.
    fn ask(&self, labels: bool) -> AnswerMode {
        let model = &self.term.model;
        let generation = GenerationConfig {
            max_new_tokens: model.max_new_tokens as usize,
            temperature: if model.do_sample { model.temperature } else { 0.0 },
        };
        match model.readout {
            Readout::Logits if labels => AnswerMode::Labels(generation),
            // Single frames are scored in words, whatever windows are.
            _ => AnswerMode::Text(generation),
        }
    }

    fn parser(&self) -> Result<ParserKind, ComposeError> {
        let name = &self.term.model.reward_parser_name;
        self.named("model.reward_parser_name", name.as_deref(), PARSERS, ParserKind::Unspecified)
    }

    fn builder(&self, unspecified: InputBuilderKind) -> Result<InputBuilderKind, ComposeError> {
        let name = &self.term.model.input_builder_name;
        self.named("model.input_builder_name", name.as_deref(), INPUT_BUILDERS, unspecified)
    }

    /// One of a table, by a name in any case.
    fn named<T: Copy>(
        &self,
        key: &str,
        name: Option<&str>,
        table: &[(&str, T)],
        unspecified: T,
    ) -> Result<T, ComposeError> {
        let Some(name) = name else { return Ok(unspecified) };
        let found = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = table.iter().map(|(known, _)| *known).collect();
            self.problem(key, format!("there is no `{name}`"), format!("one of {}", names.join(", ")))
        })
    }

    fn input(&self, builder: InputBuilderKind) -> Result<InputBuilder, ComposeError> {
        let params = &self.term.model.input_builder_params;
        let (key, keys) = match builder {
            InputBuilderKind::Moment => ("image_keys", params.image_keys.clone()),
            InputBuilderKind::Trend => ("video_keys", params.video_keys.clone()),
            InputBuilderKind::Video if self.is_written("model.input_builder_params.video_keys") => {
                ("video_keys", params.video_keys.clone())
            }
            InputBuilderKind::Video => ("video_keys", vec!["main_images".into()]),
        };
        let key = format!("model.input_builder_params.{key}");
        if keys.is_empty() {
            return Err(self.problem(&key, "the judge would get no images", "name cameras: [main_images]"));
        }
        let camera = |name: &String| {
            let found = camera_for(name, &self.spec.cameras).map_err(|error| {
                self.problem(&key, error, "name cameras of the environment, or let it have more of them")
            });
            found.map(|(camera, _)| camera.clone())
        };
        let sizes = self.term.model.history_buffers.iter();
        let named = sizes.clone().find(|(name, _)| *name == "history_window").or(sizes.last());
        Ok(InputBuilder {
            cameras: keys.iter().map(camera).collect::<Result<_, _>>()?,
            prompt: match (&params.prompt, builder) {
                (Some(text), _) => Prompt::Own(text.clone()),
                (None, InputBuilderKind::Moment) => Prompt::Score,
                (None, InputBuilderKind::Trend | InputBuilderKind::Video) => Prompt::Trend,
            },
            window: named.map_or(1, |(_, buffer)| buffer.history_size as usize),
            shown: None,
            default_task: params.default_task_description.clone(),
            system: params.system_prompt.clone(),
            layout: self.term.model.prompt_layout,
            answer: AnswerPlace::NextTurn,
            fps: DEFAULT_FPS,
            sampling: FrameSampling::default(),
        })
    }

    /// The cameras that the judge is shown must be there.
    pub(super) fn judge_cameras(&self) -> Result<(), ComposeError> {
        let unspecified = match self.term.model.model_type.scores_windows() {
            true => InputBuilderKind::Trend,
            false => InputBuilderKind::Moment,
        };
        self.input(self.builder(unspecified)?).map(drop)
    }

    /// The model that answers what it will be asked: of a reward worker, where there is one, on a server, or here.
    fn model(&self, ask: &AnswerMode) -> Result<AnsweringModel, ComposeError> {
        if let Some(client) = self.reward_worker() {
            self.refuse_reloading("a reward worker")?;
            let judge = WorkerJudge::new(client.clone()).map_err(|problem| {
                self.problem("model.model_type", problem, "give all processes of a run the same config")
            })?;
            let card = judge.card.clone();
            return Ok(AnsweringModel { model: with_prompt_check(Arc::new(judge), &card), card });
        }
        match self.loaded.config.reward.worker_type {
            WorkerType::Api => {
                let endpoint = self.endpoint()?;
                // How its answers are read is decided before anything is rewarded.
                endpoint.decide(ask).map_err(|error| self.server_problem(&error))?;
                let card = endpoint.card().cloned().unwrap_or_default();
                Ok(AnsweringModel { model: with_prompt_check(Arc::new(endpoint), &card), card })
            }
            WorkerType::Local => {
                let model = self.local()?;
                let card = model.card().cloned().unwrap_or_default();
                Ok(AnsweringModel { model: with_prompt_check(Arc::new(model), &card), card })
            }
        }
    }

    /// A vision-language model as a reward worker has it.
    pub(super) fn served_judge(&self) -> Result<ServedJudge, ComposeError> {
        let model = self.local()?;
        let card = model.card().cloned().unwrap_or_default();
        let served = ServedJudge::new(Arc::new(model), &card);
        served.map_err(|error| self.problem("model.model_path", error, "audit the judge again"))
    }

    /// Where a judge in this process computes. The choice is free only in 16 bits, which is all that a GPU computes with.
    fn judge_device(&self) -> Result<Device, ComposeError> {
        match self.device_choice()? {
            DeviceChoice::Auto if self.term.model.precision != Precision::Bf16 => Ok(Device::Cpu),
            _ => self.device(GpuWork::VisionLanguage),
        }
    }

    fn local(&self) -> Result<LocalVlm, ComposeError> {
        let model = &self.term.model;
        let Some(folder) = &model.model_path else {
            let message = "a vision-language model is to judge, and its path is not set";
            let hint = "give its Hugging Face folder, or serve it elsewhere with reward.worker_type: api";
            return Err(self.problem("model.model_path", message, hint));
        };
        let device = self.judge_device()?;
        if device == Device::Cpu && model.quantization != Quantization::None {
            let message = "weights of eight bits are for a GPU, and this model computes on the CPU";
            let hint = "set it to none, or reward.model.precision to bf16 and reward.model.device to cuda";
            return Err(self.problem("model.quantization", message, hint));
        }
        let options = OpenOptions {
            device,
            precision: model.precision,
            quantization: model.quantization,
            ..OpenOptions::default()
        };
        let opened = OpenVlm::open(self.judge_folder(Path::new(folder))?, &options);
        let opened = opened.map_err(|error| match error {
            OpenError::Vlm(error @ VlmError::Adapter { .. }) => {
                let hint = "give a folder that peft saved, or RLinf's checkpoint of this model's fine-tuning";
                self.problem("model.lora_path", error, hint)
            }
            OpenError::Vlm(error) if error.is_device_error() => {
                let cpu = Some(NO_GPU.into());
                let hint = hints::join([hints::about(&error), cpu]).unwrap_or_default();
                self.problem("model.device", error, hint)
            }
            error => self.problem("model.model_path", error, "give the folder of a Qwen3-VL model"),
        });
        Ok(opened?.model)
    }

    /// The folders that `model_path` and `lora_path` mean; the first may also be a run of `plaudit reward sft`.
    fn judge_folder(&self, path: &Path) -> Result<JudgeFolder, ComposeError> {
        let lora = self.term.model.lora_path.as_ref().map(Path::new);
        if let Some(lora) = lora.filter(|lora| !lora.exists()) {
            let message = format!("{}: there is no such file or folder", lora.display());
            let hint = "give a folder that peft saved, or leave the key empty for the model without adapters";
            return Err(self.problem("model.lora_path", message, hint));
        }
        let found = ModelLocation::find(path, lora).map_err(|error| {
            let hint = "set it to that model's folder, and model.lora_path to the adapters";
            self.problem("model.model_path", error, hint)
        })?;
        match found {
            ModelLocation::VisionLanguage(folder) => Ok(folder),
            // The folder's own error says what is missing in it.
            ModelLocation::Classifier(path) => Ok(JudgeFolder::with(&path, None)),
            ModelLocation::Custom(location) => {
                let message = format!("{location} is {}, not a vision-language model", location.kind());
                Err(self.problem("model.model_type", message, "set it to custom"))
            }
            ModelLocation::Server(address) => {
                let message = format!("{address} is an address, and a path is meant here");
                let hint = format!("set reward.worker_type=api reward.api.api_base={address}");
                Err(self.problem("model.model_path", message, hint))
            }
        }
    }

    /// Which frames of a video the model sees, where the config says so; other settings of processors are the folder's own.
    fn frames_seen(&self) -> Result<Option<FrameSampling>, ComposeError> {
        let mut frames = None;
        for (processor, settings) in &self.term.model.subprocessor_kwargs {
            for (key, value) in &settings.0 {
                frames = match (processor.as_str(), key.as_str(), value.as_bool()) {
                    ("video_processor", "do_sample_frames", Some(true)) => Some(FrameSampling::Sampled),
                    ("video_processor", "do_sample_frames", Some(false)) => Some(FrameSampling::All),
                    _ => {
                        let message = format!("`{key}` of the {processor} cannot be changed here");
                        let hint =
                            "change it in the model's folder; here, video_processor: {do_sample_frames: …}";
                        return Err(self.problem("model.subprocessor_kwargs", message, hint));
                    }
                };
            }
        }
        Ok(frames)
    }

    /// The vision-language model on a server.
    fn endpoint(&self) -> Result<ChatEndpoint, ComposeError> {
        let last_part = |path: &String| Some(Path::new(path).file_name()?.to_string_lossy().into_owned());
        let written = self.loaded.config.reward.api.model.clone();
        let named = written.or_else(|| self.term.model.model_path.as_ref().and_then(last_part));
        let Some(model) = named else {
            let message = "the name of the server's model is not set".to_string();
            let hint = "set it to a name that GET /v1/models lists";
            return Err(self.loaded.problem("reward.api.model", message, hint));
        };
        match self.server(Some(model))? {
            ServerModel::Chat(server) => Ok(*server),
            // It takes chats as well, and answers with words that are read like any other.
            ServerModel::Frames(server) => Ok(server.in_words()),
        }
    }

    /// The model of this name that the server has; the first, if none is named.
    pub(super) fn server(&self, model: Option<String>) -> Result<ServerModel, ComposeError> {
        let api = &self.loaded.config.reward.api;
        let Some(api_base) = &api.api_base else {
            let message = "a server is to judge, and its address is not set".to_string();
            let hint = "set it to its address, such as http://127.0.0.1:8000";
            return Err(self.loaded.problem("reward.api.api_base", message, hint));
        };
        let settings = EndpointSettings {
            model,
            api_key: std::env::var(&api.api_key_env).ok().filter(|key| !key.is_empty()),
            sampling_params: api.sampling_params.0.clone().into_iter().collect(),
            timeout: Duration::from_secs_f64(api.timeout_secs),
            give_up: Duration::from_secs_f64(api.give_up_secs),
            concurrency: NonZeroUsize::new(api.concurrency as usize).unwrap_or(NonZeroUsize::MIN),
            on_failure: api.on_failure,
            ..EndpointSettings::at(api_base)
        };
        let callbacks =
            EndpointCallbacks { notify: Arc::new(run::notify_soon), stop: Arc::new(run::interrupted) };
        ServerModel::open(settings, callbacks).map_err(|error| self.server_problem(&error))
    }

    fn server_problem(&self, error: &EndpointError) -> ComposeError {
        let key = match error {
            EndpointError::Model { .. } => "model",
            EndpointError::Access { .. } => "api_key_env",
            _ => "api_base",
        };
        let docs = Some("see docs/serve.md and docs/trend.md for servers and their settings".into());
        let hint = hints::join([hints::about(error), docs]).unwrap_or_default();
        self.loaded.problem(&format!("reward.api.{key}"), error.to_string(), hint)
    }
}

/// A model that says when it is asked what it was not tuned for.
fn with_prompt_check(model: Arc<dyn TrendModel>, card: &JudgeCard) -> Arc<dyn TrendModel> {
    match card.questions.is_empty() {
        true => model,
        false => Arc::new(PromptCheck::new(model, card.questions.clone(), Arc::new(warn_of_prompt))),
    }
}

fn warn_of_prompt(unknown: &UnknownPrompt) {
    run::notify_soon(&format!(
        "{unknown}; make windows with the task in the environment's words, or set \
         reward.model.input_builder_params.prompt"
    ));
}
