//! The reward a config describes: terms, each with a judge and rules.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use plaudit_compose::ComposeError;
use plaudit_core::{EnvReward, EnvSpec, Reward, Watch};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{ClassifierSettings, Device, Scorer};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{DatasetError, ViewKey};
use plaudit_reward::watch::Adjustable;
use plaudit_reward::{
    Classifier, Entry, FrameJudge, FrameReward, Gallery, Guard, History, JudgeError, JudgeFile, Latch, Pay,
    Rule, ScoredClips, Seat, Sight, StateAlone, Sum, When, WindowReward, camera_for,
};

use super::Which;
use super::network::{Described, Difference, differences};
use crate::config::Loaded;
use crate::config::blocks::reward::{
    CombineMode, CompareWith, HistoryBuffer, RewardMode, RewardModelType, RewardTerm, RewardType, TermSource,
};

/// What training in environments like these is paid. Whatever is wrong with the model shows here, before the first step.
pub fn reward(loaded: &Loaded, spec: &EnvSpec) -> Result<Paid, ComposeError> {
    let settings = &loaded.config.reward;
    if !settings.use_reward_model {
        return Ok(Paid { reward: Box::new(EnvReward), watched: None });
    }
    let env_weight = match settings.combine_mode {
        CombineMode::Replace => 0.0,
        CombineMode::Add => 1.0,
        CombineMode::Weighted => settings.env_reward_weight,
    };
    let term =
        |name: &str, key: String, term: &RewardTerm| TermBuilder { loaded, spec, name, key, term }.build();
    let main = settings.main_term();
    let watched = match settings.watch.is_on() {
        true => Some(watched(loaded, spec, &main)?),
        false => None,
    };
    let learned: Box<dyn Reward> = match &watched {
        Some(watched) => Box::new(watched.term.clone()),
        None => term("model", "reward".into(), &main)?,
    };
    let mut sum =
        Sum::default().plus(main.weight as f32, learned).plus(env_weight as f32, Box::new(EnvReward));
    for (name, further) in &settings.terms {
        sum = sum.plus(further.weight as f32, term(name, format!("reward.terms.{name}"), further)?);
    }
    Ok(Paid { reward: Box::new(sum), watched })
}

/// A reward, and the part of it that can be made stricter while it is watched.
pub struct Paid {
    /// What pays.
    pub reward: Box<dyn Reward>,
    /// What is watched, if anything is.
    pub watched: Option<Watched>,
}

/// What somebody who watches needs.
pub struct Watched {
    /// The learned term.
    pub term: Arc<Adjustable>,
    /// Who knows better, if that is a model.
    pub second: Option<Arc<Seat>>,
}

fn watched(loaded: &Loaded, spec: &EnvSpec, main: &RewardTerm) -> Result<Watched, ComposeError> {
    let builder = TermBuilder { loaded, spec, name: "model", key: "reward".into(), term: main };
    let term = Arc::new(Adjustable::new(builder.frames()?));
    let watch = &loaded.config.reward.watch;
    if watch.compare_with != CompareWith::Model {
        return Ok(Watched { term, second: None });
    }
    let main = RewardTerm { model: watch.model.clone(), reward_threshold: None, ..main.clone() };
    let builder = TermBuilder { loaded, spec, name: "second", key: "reward.watch".into(), term: &main };
    let second = builder.seat()?;
    if second.current().judge.reach() > 0 {
        let message = "a model that looks back cannot be asked about single frames";
        return Err(builder.problem("model.model_path", message, "give one whose image_keys have no @"));
    }
    Ok(Watched { term, second: Some(second) })
}

/// Which frames training needs: for the reward, for a policy that sees (`policy_sees`), and for what is kept.
pub fn frames_needed(loaded: &Loaded, which: Which, reward: &dyn Reward, policy_sees: bool) -> Watch {
    let settings = which.settings(loaded);
    let kept = settings.video_cfg.save_video || settings.data_collection.enabled;
    if kept || policy_sees { Watch::Everything } else { reward.watch() }
}

/// Builds one learned term; problems point at the key they are about.
pub(super) struct TermBuilder<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) spec: &'a EnvSpec,
    name: &'a str,
    /// Where the term stands in the config.
    key: String,
    pub(super) term: &'a RewardTerm,
}

impl TermBuilder<'_> {
    pub(super) fn problem(&self, key: &str, message: impl ToString, hint: impl Into<String>) -> ComposeError {
        self.loaded.problem(&format!("{}.{key}", self.key), message.to_string(), hint)
    }

    /// Whether the config itself says something about a key of this term.
    pub(super) fn is_written(&self, key: &str) -> bool {
        self.loaded.is_written(&format!("{}.{key}", self.key))
    }

    fn build(&self) -> Result<Box<dyn Reward>, ComposeError> {
        match (self.term.judges_windows(), self.term.reward_mode) {
            (true, RewardMode::Potential) => {
                Ok(Box::new(self.trend_potential(self.entry(), self.history()?)?))
            }
            (true, _) => Ok(Box::new(self.trend_windows(self.entry(), self.history()?)?)),
            (false, RewardMode::HistoryBuffer) => Ok(Box::new(self.windows(self.entry())?)),
            (false, _) => Ok(Box::new(self.frames()?)),
        }
    }

    fn entry(&self) -> Entry {
        Entry {
            name: self.name.into(),
            true_success_bonus: self.term.model.gt_success_bonus as f32,
            log_scores: self.term.use_reward_prob,
        }
    }

    /// A term that goes by single moments.
    fn frames(&self) -> Result<FrameReward, ComposeError> {
        let gamma = self.loaded.config.algorithm.gamma as f32;
        let when = match self.term.reward_mode {
            RewardMode::PerStep | RewardMode::HistoryBuffer => When::EveryStep,
            RewardMode::Terminal => When::AtEnds,
            RewardMode::Potential => When::AsPotential { gamma },
        };
        let (entry, seat) = (self.entry(), self.seat()?);
        Ok(FrameReward { entry, seat, when, rule: self.rule()?, pay: self.pay() })
    }

    fn pay(&self) -> Pay {
        match self.term.reward_type {
            RewardType::Continuous => Pay::Score,
            RewardType::Binary => {
                Pay::Verdict { success: self.term.success_reward as f32, fail: self.term.fail_reward as f32 }
            }
        }
    }

    fn threshold(&self) -> Option<f32> {
        self.term.reward_threshold.map(|threshold| threshold as f32)
    }

    fn rule(&self) -> Result<Rule, ComposeError> {
        let latch = match (&self.term.hysteresis, self.spec.max_episode_steps) {
            (None, _) => Latch::Threshold(self.threshold()),
            (Some(levels), Some(longest_episode)) => {
                Latch::Hysteresis { enter: levels.enter as f32, leave: levels.leave as f32, longest_episode }
            }
            (Some(_), None) => {
                let message = "hysteresis remembers whole episodes, and nobody says how long they are";
                return Err(self.problem("hysteresis", message, "set env.train.max_episode_steps"));
            }
        };
        let guard = |text: &String| {
            let hint = format!("state has {} numbers: name a part, or write state[0]", self.spec.state_width);
            Guard::parse(text, &self.spec.state_parts, self.spec.state_width)
                .map_err(|error| self.problem("guards", error, hint))
        };
        let guards = self.term.guards.iter().map(guard).collect::<Result<_, _>>()?;
        Ok(Rule { latch, guards, hold: at_least_one(self.term.hold_steps) })
    }

    /// The windows that are judged.
    fn history(&self) -> Result<History, ComposeError> {
        let model = &self.term.model;
        for (name, buffer) in &model.history_buffers {
            for key in &buffer.history_keys {
                camera_for(key, &self.spec.cameras).map_err(|error| {
                    self.problem(
                        &format!("model.history_buffers.{name}.history_keys"),
                        error,
                        "name another camera",
                    )
                })?;
            }
        }
        let buffers = model.history_buffers.iter().map(|(name, buffer)| window(name, buffer)).collect();
        Ok(History::new(buffers))
    }

    fn windows(&self, entry: Entry) -> Result<WindowReward, ComposeError> {
        let history = self.history()?;
        let judge = ScoredClips { seat: self.seat()?, threshold: self.threshold(), pay: self.pay() };
        Ok(WindowReward {
            entry,
            judge: Box::new(judge),
            history,
            between: self.term.model.interval_reward as f32,
            to_every_step: self.term.history_reward_assign,
        })
    }

    /// Who judges.
    fn seat(&self) -> Result<Arc<Seat>, ComposeError> {
        if self.term.source == TermSource::State {
            return Ok(Arc::new(Seat::of(Box::new(StateAlone))));
        }
        match self.term.model.model_type {
            RewardModelType::Resnet => self.classifier(),
            RewardModelType::Vlm => self.vlm_moments(),
            RewardModelType::BufferedVlm => {
                let message = "this judge looks at windows of frames, and single frames are to be judged";
                Err(self.problem("model.model_type", message, "set it to vlm or resnet"))
            }
        }
    }

    fn classifier(&self) -> Result<Arc<Seat>, ComposeError> {
        let model = &self.term.model;
        let Some(path) = &model.model_path else {
            let message = "a learned reward without weights: an untrained network would pay at random";
            let hint = "give the best_model folder of a reward model, from `plaudit reward train`";
            return Err(self.problem("model.model_path", message, hint));
        };
        let settings = self.settings_for(Path::new(path))?;
        let sights = self.sights(&settings)?;
        let (keep_in, threshold) = (model.debug_save_dir.clone(), self.threshold());
        let load = move |path: &Path| {
            let classifier = read_classifier(path, &settings, &sights)?;
            let Some(folder) = &keep_in else { return Ok(classifier) };
            let threshold = threshold.or(classifier.threshold()).unwrap_or(0.5);
            Ok(Box::new(Gallery::new(classifier, threshold, Path::new(folder))?) as Box<dyn FrameJudge>)
        };
        let (first, source) =
            JudgeFile::open(path, Box::new(load)).map_err(|error| self.unreadable(error))?;
        let follows = self.loaded.config.reward.reload_model;
        Ok(Arc::new(Seat::following(first, follows.then(|| Box::new(source) as _))))
    }

    fn unreadable(&self, error: impl ToString) -> ComposeError {
        self.problem("model.model_path", error, "give the folder or the file of a trained reward model")
    }

    /// The network, as its checkpoint says, or else as the config does. What is written in both must be the same.
    fn settings_for(&self, path: &Path) -> Result<ClassifierSettings, ComposeError> {
        if self.term.model.gpu.is_some() {
            let message = "image classifiers judge on the processor";
            return Err(self.problem("model.gpu", message, "leave it out; it is for vision-language judges"));
        }
        let written = Described::from(&self.term.model).settings();
        let weights = Weights::read(path).map_err(|error| self.unreadable(error))?;
        let card = ModelCard::from_header(weights.metadata()).map_err(|error| self.unreadable(error))?;
        let Some(ModelCard { settings: own, .. }) = card else { return Ok(written) };
        for Difference { key, is } in differences(&own, &written) {
            if self.is_written(&format!("model.{key}")) {
                let message = format!("the model in {} was made with {key}: {is}", path.display());
                return Err(self.problem(
                    &format!("model.{key}"),
                    message,
                    "write the same, or leave the key out",
                ));
            }
        }
        Ok(ClassifierSettings { precision: written.precision, ..own })
    }

    /// What the model's views are in this environment. Pictures of another size are resized, as RLinf does it.
    fn sights(&self, settings: &ClassifierSettings) -> Result<Vec<Sight>, ComposeError> {
        let hint = "name cameras of the environment, or leave it out for the main view";
        let wrong = |error: &dyn std::fmt::Display| self.problem("model.image_keys", error, hint);
        let sight = |key: &String| {
            let ViewKey { camera, back } = key.parse().map_err(|error: DatasetError| wrong(&error))?;
            let (camera, _) = camera_for(&camera, &self.spec.cameras).map_err(|error| wrong(&error))?;
            Ok(Sight { camera: camera.clone(), back })
        };
        settings.image_keys.iter().map(sight).collect()
    }
}

/// The classifier in a checkpoint, with the threshold that the checkpoint gives it.
fn read_classifier(
    path: &Path,
    settings: &ClassifierSettings,
    sights: &[Sight],
) -> Result<Box<dyn FrameJudge>, JudgeError> {
    let weights = Weights::read(path).map_err(|error| JudgeError::Backend(error.into()))?;
    let card =
        ModelCard::from_header(weights.metadata()).map_err(|error| JudgeError::Backend(error.into()))?;
    let temperature = card.as_ref().map_or(1.0, ModelCard::temperature);
    let known = card.as_ref().and_then(|card| card.known_successes.clone());
    let threshold = card.and_then(|card| card.threshold).map(|threshold| threshold as f32);
    let scorer = Scorer::new(settings, &weights, Device::Cpu);
    let scorer = scorer.map_err(|error| JudgeError::Backend(error.into()))?;
    Ok(Box::new(
        Classifier::new(scorer, sights.to_vec(), threshold).at_temperature(temperature).knowing(known),
    ))
}

fn at_least_one(number: u64) -> NonZeroUsize {
    NonZeroUsize::new(number as usize).unwrap_or(NonZeroUsize::MIN)
}

fn window(name: &str, buffer: &HistoryBuffer) -> plaudit_reward::HistoryBuffer {
    plaudit_reward::HistoryBuffer {
        name: name.into(),
        history_size: at_least_one(buffer.history_size),
        min_history_size: buffer.min_history_size as usize,
        input_interval: at_least_one(
            buffer.input_interval.filter(|steps| *steps > 0).unwrap_or(buffer.history_size),
        ),
        input_on_done: buffer.input_on_done,
    }
}
