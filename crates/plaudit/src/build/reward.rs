//! The reward a config describes: terms, each with a model and rules.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use plaudit_cluster::worker::ScoreClient;
use plaudit_compose::ComposeError;
use plaudit_core::{ActionSpace, EnvReward, EnvSpec, FramesNeeded, Reward};
use plaudit_env::EnvId;
use plaudit_nn::classifier::Device;
use plaudit_reward::custom::{CustomCard, CustomLocation, CustomModelError};
use plaudit_reward::dataset::{DatasetError, ViewKey};
use plaudit_reward::endpoint::ServerModel;
use plaudit_reward::hacking_monitor::AdjustableReward;
use plaudit_reward::online::OnlineTraining;
use plaudit_reward::open::{
    CheckpointNetwork, ClassifierCheckpoint, GivenNetwork, ModelLocation, OpenError, OpenFrameModel,
    OpenOptions,
};
use plaudit_reward::{
    CameraView, FrameDump, FrameReward, FrameRewardModel, Guard, History, Latch, LiveRule, MeanScoreModel,
    ReloadableModel, RewardKind, RewardModelError, RewardModelFile, RewardTiming, Rule, StateConditions,
    StateOnlyModel, SuccessThreshold, TermSettings, VersionedModel, WeightedSum, WindowReward, camera_for,
};

use super::EnvBlock;
use super::network;
use super::online::OnlineModel;
use super::stand_in::StandIns;
use crate::config::blocks::reward::{
    CombineMode, CompareWith, HistoryBuffer, OnFailure, RewardMode, RewardModelType, RewardSettings,
    RewardTerm, RewardType, TermSource, WorkerType,
};
use crate::config::{LoadedConfig, Notice};
use crate::device::{DeviceChoice, GpuWork, cpu_scores_faster, say_cpu};
use crate::hints::{self, NO_GPU};
use crate::interpreter;
use crate::workers::{ServedFrames, ServedJudge, WorkerModel, WorkerModels};

/// The folder of the second model, beside that of the reward model.
pub const SECOND_MODEL: &str = "second_model";

/// The reward of training in environments like these. Whatever is wrong with the model shows here, before the first step.
pub fn reward(loaded: &LoadedConfig, spec: &EnvSpec) -> Result<BuiltReward, ComposeError> {
    reward_from(loaded, spec, &WorkerModels::Here)
}

/// The same, with its main model in a worker of its own.
pub fn reward_from(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
    models: &WorkerModels,
) -> Result<BuiltReward, ComposeError> {
    let settings = &loaded.config.reward;
    if !settings.use_reward_model {
        return Ok(BuiltReward {
            reward: Box::new(EnvReward),
            monitored: None,
            online: None,
            notices: Vec::new(),
        });
    }
    let notices = RefCell::default();
    let online = RefCell::default();
    let term = |place: TermPlace<'_>, term: &RewardTerm| {
        let online = Some(&online);
        TermBuilder { loaded, spec, place, term, models, notices: &notices, stand_ins: None, online }.build()
    };
    let main = settings.main_term();
    let monitored = match settings.hacking_monitor.is_on() {
        true => Some(monitored(loaded, spec, &main, models, &notices, &online)?),
        false => None,
    };
    let learned: Box<dyn Reward> = match &monitored {
        Some(monitored) => Box::new(monitored.term.clone()),
        None => term(TermPlace::Main, &main)?,
    };
    let sum = weighted_sum(settings, learned, term)?;
    let mut notices = notices.into_inner();
    notices.dedup();
    Ok(BuiltReward { reward: Box::new(sum), monitored, online: online.into_inner(), notices })
}

/// The reward of a config with stand-ins for its models: what its rules make of scores.
pub(crate) fn simulated_reward(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
    stand_ins: StandIns<'_>,
) -> Result<Box<dyn Reward>, ComposeError> {
    let settings = &loaded.config.reward;
    let (notices, models) = (RefCell::default(), &WorkerModels::Here); // nothing is opened
    let term = |place: TermPlace<'_>, term: &RewardTerm| {
        TermBuilder {
            loaded,
            spec,
            place,
            term,
            models,
            notices: &notices,
            stand_ins: Some(stand_ins),
            online: None,
        }
        .build()
    };
    let learned = term(TermPlace::Main, &settings.main_term())?;
    Ok(Box::new(weighted_sum(settings, learned, term)?))
}

/// The model's term, the environment's and the further ones, each with its weight.
fn weighted_sum(
    settings: &RewardSettings,
    learned: Box<dyn Reward>,
    term: impl Fn(TermPlace<'_>, &RewardTerm) -> Result<Box<dyn Reward>, ComposeError>,
) -> Result<WeightedSum, ComposeError> {
    let mut sum = WeightedSum::default()
        .plus(settings.reward_weight as f32, learned)
        .plus(env_weight(settings) as f32, Box::new(EnvReward));
    for (name, further) in &settings.terms {
        sum = sum.plus(further.weight as f32, term(TermPlace::Further(name), further)?);
    }
    Ok(sum)
}

/// The weight of the environment's own reward beside a learned one.
pub(crate) fn env_weight(settings: &RewardSettings) -> f64 {
    match settings.combine_mode {
        CombineMode::Replace => 0.0,
        CombineMode::Add => 1.0,
        CombineMode::Weighted => settings.env_reward_weight,
    }
}

/// A reward, and the part of it that can be made stricter while it is monitored.
pub struct BuiltReward {
    /// The reward itself.
    pub reward: Box<dyn Reward>,
    /// What is monitored, if anything is.
    pub monitored: Option<MonitoredReward>,
    /// The training of its model, where that learns while a policy does.
    pub online: Option<OnlineTraining>,
    /// What the user should know about the models.
    pub notices: Vec<Notice>,
}

/// What the hacking monitor needs.
pub struct MonitoredReward {
    /// The learned term.
    pub term: Arc<AdjustableReward>,
    /// The second model to compare with, if there is one.
    pub second: Option<Arc<ReloadableModel>>,
    /// The second model that is asked beside another reference, if there is one.
    pub second_opinion: Option<Arc<ReloadableModel>>,
}

fn monitored(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
    main: &RewardTerm,
    models: &WorkerModels,
    notices: &RefCell<Vec<Notice>>,
    online: &RefCell<Option<OnlineTraining>>,
) -> Result<MonitoredReward, ComposeError> {
    let (place, online) = (TermPlace::Main, Some(online));
    let builder = TermBuilder { loaded, spec, place, term: main, models, notices, stand_ins: None, online };
    let term = Arc::new(AdjustableReward::new(builder.frames()?));
    let watch = &loaded.config.reward.hacking_monitor;
    let mut model = watch.model.clone();
    let is_named = model.model_path.is_some();
    if !is_named {
        model.model_path = main.model.model_path.as_deref().and_then(second_model_beside);
        // It was trained beside the first, as the same type of model.
        model.device.clone_from(&main.model.device);
        (model.model_type, model.caution) = (main.model.model_type, main.model.caution);
    }
    if model.model_path.is_none() {
        return Ok(MonitoredReward { term, second: None, second_opinion: None });
    }
    let main = RewardTerm { model, reward_threshold: SuccessThreshold::Checkpoint, ..main.clone() };
    let place = TermPlace::Second;
    let builder = TermBuilder::new(loaded, spec, place, &main, models, notices);
    let second = builder.frame_model()?;
    if second.current().model.history_len() > 0 {
        if !is_named && watch.compare_with != CompareWith::Model {
            return Ok(MonitoredReward { term, second: None, second_opinion: None });
        }
        let message = "a model with a frame history cannot score single frames";
        return Err(builder.problem("model.model_path", message, "give one whose image_keys have no @"));
    }
    Ok(match watch.compare_with {
        CompareWith::Model => MonitoredReward { term, second: Some(second), second_opinion: None },
        CompareWith::Environment | CompareWith::Person | CompareWith::None => {
            MonitoredReward { term, second: None, second_opinion: Some(second) }
        }
    })
}

/// The second model that `reward train` left beside a checkpoint, if it did.
pub(crate) fn second_model_beside(model: &str) -> Option<String> {
    let file = plaudit_nn::Weights::locate(model).ok()?;
    let second = file.parent()?.parent()?.join(SECOND_MODEL);
    second.join("model.safetensors").is_file().then(|| second.display().to_string())
}

/// Why models cannot see in environments like these what they need, if so. Models are not opened, but for their cards.
pub(crate) fn camera_problems(loaded: &LoadedConfig, spec: &EnvSpec) -> Vec<ComposeError> {
    let settings = &loaded.config.reward;
    let (notices, models) = (RefCell::default(), &WorkerModels::Here);
    let problem = |place: TermPlace<'_>, term: &RewardTerm| {
        let builder = TermBuilder::new(loaded, spec, place, term, models, &notices);
        builder.cameras_there().err()
    };
    let main = problem(TermPlace::Main, &settings.main_term());
    let further = settings.terms.iter().filter_map(|(name, term)| problem(TermPlace::Further(name), term));
    main.into_iter().chain(further).collect()
}

/// The model that scores the frames of filmed evaluations: the one that rewards training, if it scores single frames. Judges of
/// windows are too slow for every frame.
pub fn film_scorer(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
) -> Result<Option<Arc<ReloadableModel>>, ComposeError> {
    let settings = &loaded.config.reward;
    let mut main = settings.main_term();
    let of_frames = main.model.model_type.is_image_classifier();
    if !settings.use_reward_model || !loaded.config.env.eval.video_cfg.save_video || !of_frames {
        return Ok(None);
    }
    main.model.debug_save_dir = None; // that is for what is rewarded
    let notices = RefCell::default(); // which were reported when the reward was built
    let (place, models) = (TermPlace::Main, &WorkerModels::Here);
    let builder = TermBuilder::new(loaded, spec, place, &main, models, &notices);
    builder.frame_model().map(Some)
}

/// A model that scores a robot's frames while it moves, and what success takes.
pub struct LiveModel {
    /// The model.
    pub model: Arc<VersionedModel>,
    /// When the task counts as solved.
    pub rule: LiveRule,
    /// What the user should know about the model.
    pub notices: Vec<Notice>,
}

/// The model that scores the frames of a robot like this, here or in a reward worker; none without `use_reward_model`.
pub(crate) fn live_model(
    loaded: &LoadedConfig,
    which: EnvBlock,
    spec: &EnvSpec,
    models: &WorkerModels,
) -> Result<Option<LiveModel>, ComposeError> {
    let settings = &loaded.config.reward;
    if !settings.use_reward_model {
        return Ok(None);
    }
    let main = settings.main_term();
    let notices = RefCell::default();
    let place = TermPlace::Main;
    let builder = TermBuilder::new(loaded, spec, place, &main, models, &notices);
    if main.reward_mode == RewardMode::HistoryBuffer {
        let message = "windows are scored when they are full, and frames are to be scored as they come";
        return Err(builder.problem("reward_mode", message, "set it to per_step"));
    }
    let decides = settings.standalone_realworld;
    if decides && main.hysteresis.is_none() && main.reward_threshold == SuccessThreshold::NoFilter {
        let message = "the model alone decides about success, and every score would be one";
        return Err(builder.problem("reward_threshold", message, "set it as an audit says, such as 0.5"));
    }
    let model = builder.frame_model()?.current();
    let mut rule = builder.rule()?;
    if decides {
        // RLinf has the number of steps in the environment.
        rule.hold = rule.hold.max(at_least_one(which.settings(loaded).override_cfg.success_hold_steps));
    }
    let rule = LiveRule::new(rule, model.model.threshold());
    Ok(Some(LiveModel { model, rule, notices: notices.into_inner() }))
}

/// Which frames training needs: for the reward, for a policy on images (`policy_uses_images`), and for what is kept.
pub fn frames_needed(
    loaded: &LoadedConfig,
    which: EnvBlock,
    reward: &dyn Reward,
    policy_uses_images: bool,
) -> FramesNeeded {
    let settings = which.settings(loaded);
    let kept = settings.video_cfg.save_video || settings.data_collection.enabled;
    if kept || policy_uses_images { FramesNeeded::Everything } else { reward.frames_needed() }
}

/// Where a learned term stands in the config.
#[derive(Clone, Copy)]
pub(super) enum TermPlace<'a> {
    /// The reward model.
    Main,
    /// A further term, by its name.
    Further(&'a str),
    /// The second model of the hacking monitor.
    Second,
}

impl TermPlace<'_> {
    fn key(self) -> String {
        match self {
            Self::Main => "reward".into(),
            Self::Further(name) => format!("reward.terms.{name}"),
            Self::Second => "reward.hacking_monitor".into(),
        }
    }

    /// What it is called in the log.
    fn term_name(&self) -> &str {
        match self {
            Self::Main => "model",
            Self::Further(name) => name,
            Self::Second => "second",
        }
    }
}

/// Builds one learned term; problems point at the key they are about.
pub(super) struct TermBuilder<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) spec: &'a EnvSpec,
    place: TermPlace<'a>,
    pub(super) term: &'a RewardTerm,
    /// Where the main model is.
    models: &'a WorkerModels,
    /// What is said once everything is built.
    notices: &'a RefCell<Vec<Notice>>,
    /// What is used instead of models, where rules are simulated.
    pub(super) stand_ins: Option<StandIns<'a>>,
    /// Where the training of the main model goes, if it is to learn; a model elsewhere than in a reward does not.
    online: Option<&'a RefCell<Option<OnlineTraining>>>,
}

impl<'a> TermBuilder<'a> {
    /// A builder of a term whose model is a real one, and stays as it is.
    fn new(
        loaded: &'a LoadedConfig,
        spec: &'a EnvSpec,
        place: TermPlace<'a>,
        term: &'a RewardTerm,
        models: &'a WorkerModels,
        notices: &'a RefCell<Vec<Notice>>,
    ) -> Self {
        Self { loaded, spec, place, term, models, notices, stand_ins: None, online: None }
    }
}

impl TermBuilder<'_> {
    pub(super) fn problem(&self, key: &str, message: impl ToString, hint: impl Into<String>) -> ComposeError {
        self.loaded.problem(&format!("{}.{key}", self.place.key()), message.to_string(), hint)
    }

    /// Whether the config itself says something about a key of this term.
    pub(super) fn is_written(&self, key: &str) -> bool {
        self.loaded.is_written(&format!("{}.{key}", self.place.key()))
    }

    fn build(&self) -> Result<Box<dyn Reward>, ComposeError> {
        match (self.term.judges_windows(), self.term.reward_mode) {
            (true, RewardMode::Potential) => {
                Ok(Box::new(self.trend_potential(self.term_settings(), self.history()?)?))
            }
            (true, _) => Ok(Box::new(self.trend_windows(self.term_settings(), self.history()?)?)),
            (false, RewardMode::HistoryBuffer) => Ok(Box::new(self.windows(self.term_settings())?)),
            (false, _) => Ok(Box::new(self.frames()?)),
        }
    }

    fn term_settings(&self) -> TermSettings {
        TermSettings {
            name: self.place.term_name().into(),
            true_success_bonus: self.term.model.gt_success_bonus as f32,
            log_scores: self.term.use_reward_prob,
        }
    }

    /// A term computed from single frames.
    fn frames(&self) -> Result<FrameReward, ComposeError> {
        let gamma = self.loaded.config.algorithm.gamma as f32;
        let timing = match self.term.reward_mode {
            RewardMode::PerStep | RewardMode::HistoryBuffer => RewardTiming::PerStep,
            RewardMode::Terminal => RewardTiming::Terminal,
            RewardMode::Potential => RewardTiming::Potential { gamma },
        };
        let (term, model) = (self.term_settings(), self.frame_model()?);
        Ok(FrameReward { term, model, timing, rule: self.rule()?, kind: self.reward_kind() })
    }

    fn reward_kind(&self) -> RewardKind {
        match self.term.reward_type {
            RewardType::Continuous => RewardKind::Continuous,
            RewardType::Binary => RewardKind::Binary {
                success: self.term.success_reward as f32,
                fail: self.term.fail_reward as f32,
            },
        }
    }

    fn rule(&self) -> Result<Rule, ComposeError> {
        let latch = match (&self.term.hysteresis, self.spec.max_episode_steps) {
            (None, _) => Latch::Threshold(self.term.reward_threshold),
            (Some(levels), Some(longest_episode)) => {
                Latch::Hysteresis { enter: levels.enter as f32, leave: levels.leave as f32, longest_episode }
            }
            (Some(_), None) => {
                let message = "hysteresis spans whole episodes, and their length is not set";
                return Err(self.problem("hysteresis", message, "set env.train.max_episode_steps"));
            }
        };
        let guard = |text: &String| {
            let hint = format!("state has {} numbers: name a part, or write state[0]", self.spec.state_width);
            Guard::parse(text, &self.spec.state_parts, self.spec.state_width)
                .map_err(|error| self.problem("guards", error, hint))
        };
        let guards = match self.stand_ins {
            Some(_) => Vec::new(), // a simulated state says itself whether they hold
            None => {
                let own: Vec<Guard> = self.term.guards.iter().map(guard).collect::<Result<_, _>>()?;
                own.into_iter().chain(self.model_conditions()?).collect()
            }
        };
        Ok(Rule { latch, guards, hold: at_least_one(self.term.hold_steps) })
    }

    /// What a checkpoint says must hold of the state, beside a score above its threshold.
    pub(super) fn model_conditions(&self) -> Result<Vec<Guard>, ComposeError> {
        if self.term.source == TermSource::State || !self.term.model.model_type.is_image_classifier() {
            return Ok(Vec::new());
        }
        let path = self.term.model.model_path.as_ref().map(Path::new);
        let of_custom = || CustomCard::beside(&CustomLocation::find(path?)?).ok()?.conditions;
        let of_checkpoint = || ClassifierCheckpoint::read(path?).ok()?.card?.conditions;
        let conditions = if self.term.model.model_type.is_custom() { of_custom() } else { of_checkpoint() };
        let Some(conditions) = conditions else { return Ok(Vec::new()) };
        let found = self.spec.state_width;
        // A policy on images sees the first numbers of the full state that a script or a policy on states was recorded with.
        let full_state = self.spec.id.parse::<EnvId>().ok().and_then(EnvId::full_state_width);
        let is_beginning = full_state == Some(conditions.state_width) && found < conditions.state_width;
        if conditions.state_width != found && !is_beginning {
            let message = format!(
                "the model rewards only where {} holds in states of {} numbers, and this environment has {found}",
                conditions.text(),
                conditions.state_width
            );
            let hint = "let states be as where its episodes were collected (env.train.use_full_state), or train it without data.guards";
            return Err(self.problem("model.model_path", message, hint));
        }
        let observed = StateConditions { state_width: found, ..conditions };
        let hint =
            "let the environment show the whole state (env.train.use_full_state), or train the model again";
        observed.parse().map_err(|error| self.problem("model.model_path", error, hint))
    }

    /// The windows that are scored.
    fn history(&self) -> Result<History, ComposeError> {
        let model = &self.term.model;
        if self.stand_ins.is_none() {
            self.window_cameras()?;
        }
        let buffers = model.history_buffers.iter().map(|(name, buffer)| window(name, buffer)).collect();
        Ok(History::new(buffers))
    }

    /// The cameras of a term must be there.
    fn cameras_there(&self) -> Result<(), ComposeError> {
        if self.term.source == TermSource::State {
            return Ok(());
        }
        let uses_windows = self.term.judges_windows() || self.term.reward_mode == RewardMode::HistoryBuffer;
        if uses_windows {
            self.window_cameras()?;
        }
        if !self.term.model.model_type.is_image_classifier() {
            return self.judge_cameras();
        }
        let is_served =
            matches!(self.place, TermPlace::Main) && self.loaded.config.reward.worker_type == WorkerType::Api;
        if is_served {
            return Ok(()); // which cameras, the server says
        }
        let block = format!("{}.model", self.place.key());
        let given = network::given_network(self.loaded, &block, &self.term.model);
        let path = self.term.model.model_path.as_ref().map(Path::new);
        if self.term.model.model_type.is_custom() {
            let card = path.and_then(CustomLocation::find).and_then(|at| CustomCard::beside(&at).ok());
            let of_card = card.map(|card| card.image_keys).filter(|keys| !keys.is_empty());
            let keys = of_card.unwrap_or_else(|| network::scoring_network(&self.term.model).image_keys);
            return self.views(&keys).map(drop);
        }
        let keys = match path.and_then(|path| ClassifierCheckpoint::read(path).ok()) {
            Some(checkpoint) => checkpoint.network(&given).settings.image_keys,
            None => network::scoring_network(&self.term.model).image_keys,
        };
        self.views(&keys).map(drop)
    }

    /// The cameras of windows must be there.
    fn window_cameras(&self) -> Result<(), ComposeError> {
        for (name, buffer) in &self.term.model.history_buffers {
            for key in &buffer.history_keys {
                camera_for(key, &self.spec.cameras).map_err(|error| {
                    let key = format!("model.history_buffers.{name}.history_keys");
                    self.problem(&key, error, "name another camera")
                })?;
            }
        }
        Ok(())
    }

    fn windows(&self, term: TermSettings) -> Result<WindowReward, ComposeError> {
        let history = self.history()?;
        let model = MeanScoreModel {
            model: self.frame_model()?,
            threshold: self.term.reward_threshold,
            kind: self.reward_kind(),
        };
        Ok(WindowReward {
            term,
            model: Box::new(model),
            history,
            interval_reward: self.term.model.interval_reward as f32,
            to_every_step: self.term.history_reward_assign,
        })
    }

    /// The model that scores frames.
    fn frame_model(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        if let Some(stand_ins) = self.stand_ins {
            return Ok(Arc::new(ReloadableModel::fixed(Box::new(stand_ins.frame_model(self.term)))));
        }
        if self.term.source == TermSource::State {
            return Ok(Arc::new(ReloadableModel::fixed(Box::new(StateOnlyModel))));
        }
        if let Some(client) = self.reward_worker() {
            return match self.term.model.model_type {
                RewardModelType::Resnet | RewardModelType::Progress | RewardModelType::Custom => {
                    self.workers_classifier(client)
                }
                // Its model is the worker's.
                RewardModelType::Vlm => self.vlm_frame_judge(),
                RewardModelType::BufferedVlm => Err(self.only_windows()),
            };
        }
        match self.term.model.model_type {
            RewardModelType::Resnet | RewardModelType::Progress => self.image_classifier(),
            RewardModelType::Custom => match (self.place, self.loaded.config.reward.worker_type) {
                (TermPlace::Main, WorkerType::Api) => self.remote_classifier(),
                (TermPlace::Main, WorkerType::Local) | (TermPlace::Further(_) | TermPlace::Second, _) => {
                    self.custom_model()
                }
            },
            RewardModelType::Vlm => self.vlm_frame_judge(),
            RewardModelType::BufferedVlm => Err(self.only_windows()),
        }
    }

    fn only_windows(&self) -> ComposeError {
        let message = "this model scores windows of frames, and single frames are to be scored";
        self.problem("model.model_type", message, "set it to vlm or resnet")
    }

    /// The reward worker that has the main model, where there is one.
    pub(super) fn reward_worker(&self) -> Option<&Arc<ScoreClient>> {
        match (self.place, self.models) {
            (TermPlace::Main, WorkerModels::Worker(client)) => Some(client),
            (TermPlace::Main | TermPlace::Further(_) | TermPlace::Second, _) => None,
        }
    }

    /// An image classifier, in this process or on a server.
    fn image_classifier(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        match (self.place, self.loaded.config.reward.worker_type) {
            (TermPlace::Main, WorkerType::Api) => self.remote_classifier(),
            (TermPlace::Main, WorkerType::Local) | (TermPlace::Further(_) | TermPlace::Second, _) => {
                self.local_classifier()
            }
        }
    }

    /// What the config asks for.
    pub(super) fn device_choice(&self) -> Result<DeviceChoice, ComposeError> {
        let choice = self.term.model.device.parse();
        let choice: DeviceChoice = choice.map_err(|error: String| {
            self.problem("model.device", error, "auto takes the GPU if there is one")
        })?;
        Ok(choice.or_placed(self.loaded.config.cluster.gpu_of("reward")))
    }

    /// Where a model in this process computes.
    pub(super) fn device(&self, work: GpuWork) -> Result<Device, ComposeError> {
        let device = self.device_choice()?.resolve(work);
        device.map_err(|error| self.problem("model.device", error, NO_GPU))
    }

    fn local_classifier(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        let Some(path) = &self.term.model.model_path else {
            let message = "a learned reward without weights: an untrained network would give random rewards";
            let hint = "give the best_model folder of a reward model, from `plaudit reward train`";
            return Err(self.problem("model.model_path", message, hint));
        };
        let given = self.agreed_network(Path::new(path))?;
        let views = self.views(&given.image_keys.clone().unwrap_or_default())?;
        let finish = self.frame_dump();
        let caution = self.term.model.caution;
        let online = self
            .online
            .filter(|_| matches!(self.place, TermPlace::Main) && self.loaded.config.reward.online.is_on());
        let device = match online {
            None => self.scoring_device(Path::new(path), &given)?,
            Some(_) => self.device(GpuWork::Classifier)?, // it learns there as well
        };
        let learns = online.map(|slot| (slot, given.clone(), views.clone()));
        let load = move |path: &Path| {
            let model = ClassifierCheckpoint::read(path)?.open(&given, device)?;
            finish(Box::new(model.reward_model(views.clone()).with_caution(caution)))
        };
        let (first, source) =
            RewardModelFile::open(path, Box::new(load)).map_err(|error| self.unreadable(error))?;
        if let Some((slot, given, views)) = learns {
            let checkpoint =
                ClassifierCheckpoint::read(Path::new(path)).map_err(|error| self.unreadable(error))?;
            let (settings, version) = (checkpoint.network(&given).settings, first.version);
            let model =
                OnlineModel { builder: self, checkpoint: &checkpoint, settings, views, device, version };
            let training = model.training()?;
            let source = Box::new(training.source());
            slot.replace(Some(training));
            return Ok(Arc::new(ReloadableModel::with_source(first, Some(source))));
        }
        let follows = self.loaded.config.reward.reload_model;
        Ok(Arc::new(ReloadableModel::with_source(first, follows.then(|| Box::new(source) as _))))
    }

    /// Where a classifier scores the images of all environments at once.
    fn scoring_device(&self, path: &Path, given: &GivenNetwork) -> Result<Device, ComposeError> {
        if self.device_choice()? != DeviceChoice::Auto {
            return self.device(GpuWork::Classifier);
        }
        let checkpoint = ClassifierCheckpoint::read(path).map_err(|error| self.unreadable(error))?;
        let settings = checkpoint.network(given).settings;
        let images = self.loaded.config.env.train.total_num_envs.unwrap_or(1);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if !cpu_scores_faster(&settings, images, threads) {
            return self.device(GpuWork::Classifier);
        }
        say_cpu("rewards are computed", "so few images at once are scored sooner there in fp32");
        Ok(Device::Cpu)
    }

    /// A model of one's own making: an ONNX file, or a function in Python.
    fn custom_model(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        let location = self.custom_location()?;
        let options = self.custom_options();
        let finish = self.frame_dump();
        match location {
            CustomLocation::Python(_) => {
                self.refuse_reloading("a function in Python")?;
                let model = self.open_custom(location, &options)?;
                let views = self.views(&model.image_keys())?;
                let model = finish(Box::new(model.reward_model(views)));
                Ok(Arc::new(ReloadableModel::fixed(model.map_err(|error| self.unreadable(error))?)))
            }
            CustomLocation::Onnx(file) => {
                let model = self.open_custom(CustomLocation::Onnx(file.clone()), &options)?;
                let keys = model.image_keys();
                let views = self.views(&keys)?;
                // A file that is overwritten while the run goes on must stay a model of these views.
                let options = OpenOptions {
                    network: GivenNetwork { image_keys: Some(keys), ..GivenNetwork::default() },
                    ..options
                };
                let load = move |path: &Path| {
                    let location = CustomLocation::Onnx(path.into());
                    let model = OpenFrameModel::open_custom(location, &options)?;
                    finish(Box::new(model.reward_model(views.clone())))
                };
                let (first, source) =
                    RewardModelFile::open(&file, Box::new(load)).map_err(|error| self.unreadable(error))?;
                let follows = self.loaded.config.reward.reload_model;
                Ok(Arc::new(ReloadableModel::with_source(first, follows.then(|| Box::new(source) as _))))
            }
        }
    }

    /// Where a model of one's own making is.
    fn custom_location(&self) -> Result<CustomLocation, ComposeError> {
        let hint = "give an ONNX file (model.onnx) or a function in Python (my_reward.py:score), as docs/own-models.md says";
        let Some(path) = &self.term.model.model_path else {
            return Err(self.problem("model.model_path", "it is not set", hint));
        };
        CustomLocation::find(Path::new(path)).ok_or_else(|| {
            let message = format!("{path} is neither an ONNX file nor a function in a file of Python");
            self.problem("model.model_path", message, hint)
        })
    }

    fn custom_options(&self) -> OpenOptions {
        let block = format!("{}.model", self.place.key());
        let GivenNetwork { image_keys, .. } = network::given_network(self.loaded, &block, &self.term.model);
        let python = self.term.model.python.as_ref();
        OpenOptions {
            network: GivenNetwork { image_keys, ..GivenNetwork::default() },
            python: python.map_or_else(interpreter::default, Into::into),
            ..OpenOptions::default()
        }
    }

    fn open_custom(
        &self,
        location: CustomLocation,
        options: &OpenOptions,
    ) -> Result<OpenFrameModel, ComposeError> {
        let model = OpenFrameModel::open_custom(location, options).map_err(|error| {
            let (key, own) = match &error {
                OpenError::Custom(CustomModelError::Cameras { .. }) => ("model.image_keys", None),
                OpenError::Custom(
                    CustomModelError::Interpreter { .. } | CustomModelError::NoModule { .. },
                ) => ("model.python", None),
                OpenError::Custom(error) => ("model.model_path", hints::about(error)),
                _ => ("model.model_path", None),
            };
            let hint = own.unwrap_or_else(|| "docs/own-models.md says what such a model must be".into());
            self.problem(key, error, hint)
        })?;
        if let Some(text) = model.assumed() {
            self.notices.borrow_mut().push(Notice { text });
        }
        Ok(model)
    }

    /// A model of one's own making as a reward worker has it.
    fn served_custom(&self) -> Result<ServedFrames, ComposeError> {
        let model = self.open_custom(self.custom_location()?, &self.custom_options())?;
        let image_keys = model.image_keys();
        let model = model.reward_model(ServedFrames::views(image_keys.len()));
        Ok(ServedFrames::new(Box::new(model), image_keys))
    }

    /// The same behind `plaudit serve`. Its network is the server's business; which cameras it looks through, it says.
    fn remote_classifier(&self) -> Result<Arc<ReloadableModel>, ComposeError> {
        let reward = &self.loaded.config.reward;
        self.refuse_reloading("a server")?;
        if reward.api.on_failure == OnFailure::Skip {
            let message = "a frame without a score has no reward, so it cannot be skipped";
            return Err(self.loaded.problem("reward.api.on_failure", message, "set it to stop"));
        }
        match self.server(reward.api.model.clone())? {
            ServerModel::Frames(server) => {
                let views = self.views(&server.image_keys)?;
                let model = self.frame_dump()(Box::new(server.reward_model(views)));
                let model = model.map_err(|error| self.unreadable(error))?;
                Ok(Arc::new(ReloadableModel::fixed(model)))
            }
            ServerModel::Chat(server) => {
                let message = format!("the model at {} does not score frames", server.address());
                let hint = "serve an image classifier with `plaudit serve`, or set reward.model.model_type";
                Err(self.loaded.problem("reward.api.api_base", message, hint))
            }
        }
    }

    /// An image classifier in a reward worker of the same run. Its network is that worker's business.
    fn workers_classifier(&self, client: &Arc<ScoreClient>) -> Result<Arc<ReloadableModel>, ComposeError> {
        self.refuse_reloading("a reward worker")?;
        let views = self.views(&client.facts().image_keys)?;
        let model = self.frame_dump()(Box::new(WorkerModel::new(client.clone(), views)));
        Ok(Arc::new(ReloadableModel::fixed(model.map_err(|error| self.unreadable(error))?)))
    }

    pub(super) fn refuse_reloading(&self, place: &str) -> Result<(), ComposeError> {
        if !self.loaded.config.reward.reload_model {
            return Ok(());
        }
        let message = format!("a model on {place} is not reloaded: a run goes by the one that it began with");
        Err(self.loaded.problem("reward.reload_model", message, "set it to false"))
    }

    /// Keeps what a model is shown, if the config says so.
    pub(super) fn frame_dump(&self) -> impl Fn(BoxedModel) -> Result<BoxedModel, RewardModelError> + use<> {
        let (folder, threshold) = (self.term.model.debug_save_dir.clone(), self.term.reward_threshold);
        move |model| {
            let Some(folder) = &folder else { return Ok(model) };
            let threshold = threshold.level(model.threshold());
            Ok(Box::new(FrameDump::new(model, threshold, Path::new(folder))?))
        }
    }

    pub(super) fn unreadable(&self, error: impl ToString) -> ComposeError {
        self.problem("model.model_path", error, "give the folder or the file of a trained reward model")
    }

    /// The network, as its checkpoint says; what the config says must be the same. Of a checkpoint that says nothing, what
    /// its weights do not show is the config's, or else assumed, with a notice.
    fn agreed_network(&self, path: &Path) -> Result<GivenNetwork, ComposeError> {
        let checkpoint = match ModelLocation::find(path, None).map_err(|error| self.unreadable(error))? {
            ModelLocation::Classifier(path) => ClassifierCheckpoint::read(&path),
            ModelLocation::VisionLanguage(_) => {
                let message =
                    format!("{} is a vision-language model, not an image classifier", path.display());
                let hint = "set it to buffered_vlm (windows) or vlm (single frames)";
                return Err(self.problem("model.model_type", message, hint));
            }
            ModelLocation::Custom(location) => {
                let message =
                    format!("{location} is {}, not an image classifier of plaudit", location.kind());
                return Err(self.problem("model.model_type", message, "set it to custom"));
            }
            ModelLocation::Server(address) => {
                let message = format!("{address} is an address, and a path is meant here");
                let hint = format!("set reward.worker_type=api reward.api.api_base={address}");
                return Err(self.problem("model.model_path", message, hint));
            }
        };
        let checkpoint = checkpoint.map_err(|error| self.unreadable(error))?;
        let block = format!("{}.model", self.place.key());
        let given = network::given_network(self.loaded, &block, &self.term.model);
        let CheckpointNetwork { settings, differences, assumed } = checkpoint.network(&given);
        let is_progress = self.term.model.model_type.is_progress();
        if settings.bins().is_some() != is_progress {
            let (is, word) = match is_progress {
                true => ("an image success classifier", "resnet"),
                false => ("a progress model", "progress"),
            };
            let message = format!("the model in {} is {is}", path.display());
            return Err(self.problem("model.model_type", message, format!("set it to {word}")));
        }
        if let Some(first) = differences.first() {
            let message =
                format!("the model in {} was made with {}: {}", path.display(), first.key, first.is);
            let hint = network::overrides(&block, &differences);
            return Err(self.problem(&format!("model.{}", first.key), message, hint));
        }
        if let Some(assumed) = assumed {
            let [size, normalize] = ["image_size", "normalize"].map(|key| format!("{block}.{key}"));
            let size = format!("{size} (channels, height, width)");
            self.notices.borrow_mut().push(Notice { text: assumed.notice(path, &size, &normalize) });
        }
        // A file that is overwritten while the run goes on must stay a model of these views.
        Ok(GivenNetwork { image_keys: Some(settings.image_keys), ..given })
    }

    /// An image classifier as a reward worker has it.
    fn served_frames(&self) -> Result<ServedFrames, ComposeError> {
        let Some(path) = &self.term.model.model_path else {
            let message = "a reward worker without weights: an untrained network would give random rewards";
            let hint = "give the best_model folder of a reward model, from `plaudit reward train`";
            return Err(self.problem("model.model_path", message, hint));
        };
        let given = self.agreed_network(Path::new(path))?;
        let image_keys = given.image_keys.clone().unwrap_or_default();
        let device = self.device(GpuWork::Classifier)?;
        let opened = ClassifierCheckpoint::read(Path::new(path)).and_then(|file| file.open(&given, device));
        let model = opened.map_err(|error| self.unreadable(error))?;
        let model = model.reward_model(ServedFrames::views(image_keys.len()));
        Ok(ServedFrames::new(Box::new(model), image_keys))
    }

    /// A model's views in this environment. Images of another size are resized, as RLinf does it.
    fn views(&self, image_keys: &[String]) -> Result<Vec<CameraView>, ComposeError> {
        let hint = "name cameras of the environment, or leave it out for the main view";
        let wrong = |error: &dyn std::fmt::Display| self.problem("model.image_keys", error, hint);
        let view = |key: &String| {
            let ViewKey { camera, back } = key.parse().map_err(|error: DatasetError| wrong(&error))?;
            let (camera, _) = camera_for(&camera, &self.spec.cameras).map_err(|error| wrong(&error))?;
            Ok(CameraView { camera: camera.clone(), back })
        };
        image_keys.iter().map(view).collect()
    }
}

/// What a reward worker has.
pub enum ServedReward {
    /// A model of single frames.
    Frames(ServedFrames),
    /// A vision-language model.
    Judge(ServedJudge),
}

/// The main model of a config's reward, for a worker that has no environments: it looks through views by their number.
pub fn served_reward(loaded: &LoadedConfig) -> Result<ServedReward, ComposeError> {
    let main = loaded.config.reward.main_term();
    let spec = EnvSpec {
        id: "".into(),
        num_envs: 0,
        state_width: 0,
        state_parts: Vec::new(),
        actions: ActionSpace::Discrete { n: 1 },
        cameras: Vec::new(),
        max_episode_steps: None,
        control_hz: 1.0,
    };
    let (notices, models) = (RefCell::default(), &WorkerModels::Here);
    let place = TermPlace::Main;
    let builder = TermBuilder::new(loaded, &spec, place, &main, models, &notices);
    if !loaded.config.reward.use_reward_model || main.source == TermSource::State {
        let message = "a reward worker is placed, and there is no reward model";
        let hint = "set it to true, or leave reward out of cluster.component_placement";
        return Err(loaded.problem("reward.use_reward_model", message, hint));
    }
    builder.refuse_reloading("a reward worker")?;
    match main.model.model_type {
        RewardModelType::Resnet | RewardModelType::Progress => {
            builder.served_frames().map(ServedReward::Frames)
        }
        RewardModelType::Custom => builder.served_custom().map(ServedReward::Frames),
        RewardModelType::Vlm | RewardModelType::BufferedVlm => {
            builder.served_judge().map(ServedReward::Judge)
        }
    }
}

/// A model that scores frames.
type BoxedModel = Box<dyn FrameRewardModel>;

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
