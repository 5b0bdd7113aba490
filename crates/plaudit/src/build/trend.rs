//! The vision-language judge a config describes: who answers, what it is asked, and how its answers are paid.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plaudit_compose::ComposeError;
use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{Frames, PromptLayout, VlmError};
use plaudit_reward::endpoint::{self, Attendant, Endpoint, EndpointError, EndpointSettings};
use plaudit_reward::trend::{
    Amounts, Ask, Familiar, Generation, InputBuilder, JudgeCard, JudgeFolder, LocalVlm, LocalVlmSettings,
    MomentReading, Prompt, Reading, Remembered, TrendJudge, TrendModel, TrendPay, VlmMoments,
};
use plaudit_reward::{AtTermination, Entry, FrameJudge, History, Seat, VoteReward, WindowReward, camera_for};

use super::network;
use super::reward::TermBuilder;
use crate::config::blocks::reward::{self as blocks, OnFailure, PotentialEnd, Readout, WorkerType};
use crate::run;

/// RLinf's builders of questions.
const INPUT_BUILDERS: &[(&str, Builder)] = &[
    ("vlm_trend_reward_input_builder", Builder::Trend),
    ("video_vlm_input_builder", Builder::Video),
    ("buffered_vlm_input_builder", Builder::Trend),
    ("base_vlm_input_builder", Builder::Moment),
    ("base_input_builder", Builder::Moment),
];

/// RLinf's parsers of answers; `base_reward_parser` is what it has where nobody names one.
const PARSERS: &[(&str, Parser)] = &[
    ("vlm_trend_reward_parser", Parser::Trend),
    ("score_parser", Parser::Score),
    ("base_reward_parser", Parser::Unsaid),
];

/// How questions are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builder {
    /// Two cameras, a video each.
    Trend,
    /// One camera.
    Video,
    /// One picture of a moment for each camera.
    Moment,
}

/// How answers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parser {
    Trend,
    Score,
    /// What fits the kind of model.
    Unsaid,
}

/// How many answers a potential remembers beyond those of one rollout.
const REMEMBERED_ROLLOUTS: usize = 4;

/// Who answers, and what is known of it.
struct Answering {
    model: Arc<dyn TrendModel>,
    card: JudgeCard,
}

/// Where a judge computes, and with which numbers: those of a GPU are 16 bits.
pub fn judge_device(gpu: Option<usize>, bf16: bool) -> (Device, Precision) {
    match gpu {
        Some(number) => (Device::Cuda(number), Precision::Bf16),
        None => (Device::Cpu, if bf16 { Precision::Bf16 } else { Precision::Fp32 }),
    }
}

fn written_layout(layout: blocks::PromptLayout) -> PromptLayout {
    match layout {
        blocks::PromptLayout::VideosFirst => PromptLayout::VideosFirst,
        blocks::PromptLayout::SharedPrefix => PromptLayout::SharedPrefix,
    }
}

impl TermBuilder<'_> {
    /// A term paid by windows that a vision-language model judges.
    pub(super) fn trend_windows(&self, entry: Entry, history: History) -> Result<WindowReward, ComposeError> {
        let judge = self.trend_judge(self.amounts_paid(), |model| model)?;
        Ok(WindowReward {
            entry,
            judge: Box::new(judge),
            history,
            between: self.term.model.interval_reward as f32,
            to_every_step: self.term.history_reward_assign,
        })
    }

    /// A term paid by what the votes of a vision-language model add up to.
    pub(super) fn trend_potential(&self, entry: Entry, history: History) -> Result<VoteReward, ComposeError> {
        let Some(longest_episode) = self.spec.max_episode_steps else {
            let message =
                "a potential adds up the votes of whole episodes, and nobody says how long they are";
            return Err(self.problem("reward_mode", message, "set env.train.max_episode_steps"));
        };
        let model = &self.term.model;
        let rollout = longest_episode.saturating_mul(self.spec.num_envs);
        let remembering = |model| -> Arc<dyn TrendModel> {
            Arc::new(Remembered::new(model, rollout.saturating_mul(REMEMBERED_ROLLOUTS)))
        };
        let judge = self.trend_judge(TrendPay::Votes { soft: model.soft_reward }, remembering)?;
        Ok(VoteReward {
            entry,
            judge: Box::new(judge),
            history,
            gamma: self.loaded.config.algorithm.gamma as f32,
            votes: model.potential_votes as f32,
            at_termination: match model.potential_end {
                PotentialEnd::Keep => AtTermination::Keep,
                PotentialEnd::Zero => AtTermination::Zero,
            },
            longest_episode,
        })
    }

    /// A vision-language model that judges single moments.
    pub(super) fn vlm_moments(&self) -> Result<Arc<Seat>, ComposeError> {
        if self.builder(Builder::Moment)? != Builder::Moment {
            let message = "this builder shows windows, and single moments are to be judged";
            let hint = "set base_vlm_input_builder, or reward.model.model_type: buffered_vlm";
            return Err(self.problem("model.input_builder_name", message, hint));
        }
        let parser = self.parser()?;
        let input = self.input(Builder::Moment)?;
        let Answering { model, card } = self.model()?;
        let reading = match parser {
            Parser::Trend => MomentReading::Trend(self.reading(&card)),
            Parser::Score | Parser::Unsaid => MomentReading::Number,
        };
        let judge = VlmMoments {
            model,
            input,
            ask: self.ask(matches!(reading, MomentReading::Trend(_))),
            reading,
            micro_batch: self.micro_batch(),
        };
        Ok(Arc::new(Seat::of(Box::new(judge) as Box<dyn FrameJudge>)))
    }

    /// A judge of windows, by what `dressed` makes of the model.
    fn trend_judge(
        &self,
        pay: TrendPay,
        dressed: impl FnOnce(Arc<dyn TrendModel>) -> Arc<dyn TrendModel>,
    ) -> Result<TrendJudge, ComposeError> {
        if self.parser()? == Parser::Score {
            let message = "windows are judged by their trend, not by a score";
            return Err(self.problem("model.reward_parser_name", message, "set vlm_trend_reward_parser"));
        }
        let builder = self.builder(Builder::Trend)?;
        if builder == Builder::Moment {
            let message = "this builder shows single moments, and windows are to be judged";
            let hint = "set vlm_trend_reward_input_builder, or reward.model.model_type: vlm";
            return Err(self.problem("model.input_builder_name", message, hint));
        }
        let input = self.input(builder)?;
        let Answering { model, card } = self.model()?;
        Ok(TrendJudge {
            model: dressed(model),
            input: InputBuilder { layout: self.layout(&card)?, ..input },
            ask: self.ask(true),
            reading: self.reading(&card),
            pay,
            micro_batch: self.micro_batch(),
        })
    }

    fn amounts_paid(&self) -> TrendPay {
        let (model, parser) = (&self.term.model, &self.term.model.reward_parser_params);
        let amounts = Amounts {
            positive: parser.positive_reward as f32,
            negative: parser.negative_reward as f32,
            unclear: parser.unclear_reward as f32,
            invalid: parser.invalid_reward as f32,
            missing: model.interval_reward as f32,
        };
        if model.soft_reward { TrendPay::Soft(amounts) } else { TrendPay::Hard(amounts) }
    }

    fn micro_batch(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.term.model.infer_micro_batch_size as usize)
    }

    fn reading(&self, card: &JudgeCard) -> Reading {
        let model = &self.term.model;
        let temperature = model.label_temperature.unwrap_or_else(|| card.temperature());
        Reading { temperature, abstain_band: model.abstain_band as f32 }
    }

    /// Where the words stand: as the judge was tuned, which the config may say too.
    fn layout(&self, card: &JudgeCard) -> Result<PromptLayout, ComposeError> {
        let written = written_layout(self.term.model.prompt_layout);
        match card.prompt_layout {
            Some(tuned) if tuned != written && self.is_written("model.prompt_layout") => {
                let word = match tuned {
                    PromptLayout::VideosFirst => "videos_first",
                    PromptLayout::SharedPrefix => "shared_prefix",
                };
                let message = format!("the judge was tuned with prompt_layout: {word}");
                Err(self.problem("model.prompt_layout", message, "write the same, or leave the key out"))
            }
            Some(tuned) => Ok(tuned),
            None => Ok(written),
        }
    }

    /// What is wanted of the model; `labels` says that labels would do.
    fn ask(&self, labels: bool) -> Ask {
        let model = &self.term.model;
        let generation = Generation {
            max_new_tokens: model.max_new_tokens as usize,
            temperature: if model.do_sample { model.temperature } else { 0.0 },
        };
        match model.readout {
            Readout::Logits if labels => Ask::Labels(generation),
            Readout::Logits | Readout::Text => Ask::Text(generation),
        }
    }

    fn parser(&self) -> Result<Parser, ComposeError> {
        let name = &self.term.model.reward_parser_name;
        self.named("model.reward_parser_name", name.as_deref(), PARSERS, Parser::Unsaid)
    }

    fn builder(&self, unsaid: Builder) -> Result<Builder, ComposeError> {
        let name = &self.term.model.input_builder_name;
        self.named("model.input_builder_name", name.as_deref(), INPUT_BUILDERS, unsaid)
    }

    /// One of a table, by a name in any case.
    fn named<T: Copy>(
        &self,
        key: &str,
        name: Option<&str>,
        table: &[(&str, T)],
        unsaid: T,
    ) -> Result<T, ComposeError> {
        let Some(name) = name else { return Ok(unsaid) };
        let found = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = table.iter().map(|(known, _)| *known).collect();
            self.problem(key, format!("there is no `{name}`"), format!("one of {}", names.join(", ")))
        })
    }

    fn input(&self, builder: Builder) -> Result<InputBuilder, ComposeError> {
        let params = &self.term.model.input_builder_params;
        let (key, keys) = match builder {
            Builder::Moment => ("image_keys", params.image_keys.clone()),
            Builder::Trend => ("video_keys", params.video_keys.clone()),
            Builder::Video if self.is_written("model.input_builder_params.video_keys") => {
                ("video_keys", params.video_keys.clone())
            }
            Builder::Video => ("video_keys", vec!["main_images".into()]),
        };
        let key = format!("model.input_builder_params.{key}");
        if keys.is_empty() {
            return Err(self.problem(&key, "the judge would see nothing", "name cameras: [main_images]"));
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
                (None, Builder::Moment) => Prompt::Score,
                (None, Builder::Trend | Builder::Video) => Prompt::Trend,
            },
            window: named.map_or(1, |(_, buffer)| buffer.history_size as usize),
            default_task: params.default_task_description.clone(),
            system: params.system_prompt.clone(),
            layout: written_layout(self.term.model.prompt_layout),
        })
    }

    /// Who answers.
    fn model(&self) -> Result<Answering, ComposeError> {
        match self.loaded.config.reward.worker_type {
            WorkerType::Api => {
                Ok(Answering { model: Arc::new(self.endpoint()?), card: JudgeCard::default() })
            }
            WorkerType::Local => {
                let model = self.local()?;
                let card = model.card().cloned().unwrap_or_default();
                let model: Arc<dyn TrendModel> = Arc::new(model);
                let questions = card.questions.clone();
                let model = match questions.is_empty() {
                    true => model,
                    false => Arc::new(Familiar::new(model, questions, Arc::new(run::tell_soon))),
                };
                Ok(Answering { model, card })
            }
        }
    }

    fn local(&self) -> Result<LocalVlm, ComposeError> {
        let model = &self.term.model;
        let Some(folder) = &model.model_path else {
            let message = "a vision-language model is to judge, and nobody says where it is";
            let hint = "give its Hugging Face folder, or serve it elsewhere with reward.worker_type: api";
            return Err(self.problem("model.model_path", message, hint));
        };
        let JudgeFolder { model: folder, lora } = self.judge_folder(Path::new(folder))?;
        let opened = LocalVlm::open(LocalVlmSettings {
            folder: &folder,
            lora: lora.as_deref(),
            device: model.gpu.map_or(Device::Cpu, |number| Device::Cuda(number as usize)),
            precision: network::precision(model.precision),
            frames: self.frames_seen()?,
        });
        opened.map_err(|error| match error {
            VlmError::Adapter { .. } => {
                let hint = "give a folder that peft saved, or RLinf's checkpoint of this model's fine-tuning";
                self.problem("model.lora_path", error, hint)
            }
            error if error.is_of_device() => {
                let hint = "leave it out to compute on the processor";
                self.problem("model.gpu", error, hint)
            }
            error => self.problem("model.model_path", error, "give the folder of a Qwen3-VL model"),
        })
    }

    /// The folders that `model_path` and `lora_path` mean; the first may also be a run of `plaudit reward sft`.
    fn judge_folder(&self, path: &Path) -> Result<JudgeFolder, ComposeError> {
        if let Some(lora) = &self.term.model.lora_path {
            return Ok(JudgeFolder::with(path, Some(Path::new(lora))));
        }
        let found = JudgeFolder::find(path).map_err(|error| {
            let hint = "set it to that model's folder, and model.lora_path to the adapters";
            self.problem("model.model_path", error, hint)
        })?;
        Ok(found.unwrap_or_else(|| JudgeFolder::with(path, None)))
    }

    /// Which frames of a video the model sees; other settings of processors are the folder's own.
    fn frames_seen(&self) -> Result<Frames, ComposeError> {
        let mut frames = Frames::Sampled;
        for (processor, settings) in &self.term.model.subprocessor_kwargs {
            for (key, value) in &settings.0 {
                frames = match (processor.as_str(), key.as_str(), value.as_bool()) {
                    ("video_processor", "do_sample_frames", Some(true)) => Frames::Sampled,
                    ("video_processor", "do_sample_frames", Some(false)) => Frames::All,
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

    fn endpoint(&self) -> Result<Endpoint, ComposeError> {
        let api = &self.loaded.config.reward.api;
        let problem = |key: &str, message: String, hint: &str| {
            self.loaded.problem(&format!("reward.api.{key}"), message, hint)
        };
        let Some(api_base) = api.api_base.clone() else {
            let message = "a server is to judge, and nobody says where it is".into();
            return Err(problem("api_base", message, "set it to its address, such as http://127.0.0.1:8000"));
        };
        let last_part = |path: &String| Some(Path::new(path).file_name()?.to_string_lossy().into_owned());
        let named = api.model.clone().or_else(|| self.term.model.model_path.as_ref().and_then(last_part));
        let Some(model) = named else {
            let message = "nobody says which of the server's models judges".into();
            return Err(problem("model", message, "set it to a name that GET /v1/models lists"));
        };
        let settings = EndpointSettings {
            api_base,
            model,
            api_key: std::env::var(&api.api_key_env).ok().filter(|key| !key.is_empty()),
            sampling_params: api.sampling_params.0.clone().into_iter().collect(),
            timeout: Duration::from_secs_f64(api.timeout_secs),
            give_up: Duration::from_secs_f64(api.give_up_secs),
            concurrency: NonZeroUsize::new(api.concurrency as usize).unwrap_or(NonZeroUsize::MIN),
            on_failure: match api.on_failure {
                OnFailure::Stop => endpoint::OnFailure::Stop,
                OnFailure::Skip => endpoint::OnFailure::Skip,
            },
        };
        let attendant = Attendant { tell: Arc::new(run::tell_soon), stop: Arc::new(run::interrupted) };
        Endpoint::open(settings, attendant).map_err(|error| {
            let key = match error {
                EndpointError::Model { .. } => "model",
                EndpointError::Access { .. } => "api_key_env",
                _ => "api_base",
            };
            problem(key, error.to_string(), "see docs/trend.md for servers and their settings")
        })
    }
}
