//! The rules that are asked for, over a model whose scores are written beside the state.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;
use plaudit_reward::custom::ImageScorer;
use plaudit_reward::dataset::ViewKey;
use plaudit_reward::{
    CameraView, Classifier, FrameReward, FrameRewardModel, FrameStack, Guard, History, HistoryBuffer, Latch,
    MeanScoreModel, ReloadableModel, RewardKind, RewardModelError, RewardTiming, Rule, SuccessThreshold,
    TermSettings, WindowReward,
};
use pyo3::prelude::*;

use super::Scorer;
use crate::error::{failed, input};
use crate::model::{Kind, OpenModel};

/// What the learned term is called.
const TERM: &str = "model";
/// A window's reward where there is none.
const NO_WINDOW: f32 = 0.0;

/// Reads the score that stands after an observation's state.
struct WrittenScore {
    threshold: Option<f32>,
}

impl FrameRewardModel for WrittenScore {
    fn cameras(&self) -> &[Arc<str>] {
        &[]
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let read = |(frame, stack): (usize, &FrameStack<'_>)| {
            let value = stack.now().state.last().copied().unwrap_or(f32::NAN);
            Score::new(value).ok_or(RewardModelError::NotAScore { value, frame })
        };
        frames.iter().enumerate().map(read).collect()
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }
}

/// What was asked for, as Python has it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Options {
    pub(super) mode: String,
    pub(super) threshold: Option<f64>,
    pub(super) filter: bool,
    pub(super) hysteresis: Option<(f32, f32)>,
    pub(super) hold: NonZeroUsize,
    pub(super) success_reward: Option<f32>,
    pub(super) fail_reward: f32,
    pub(super) gamma: f32,
    pub(super) guards: Vec<String>,
    pub(super) state_parts: Vec<(String, usize, usize)>,
    pub(super) state_width: usize,
    pub(super) window: NonZeroUsize,
    pub(super) interval: NonZeroUsize,
    pub(super) longest_episode: usize,
    pub(super) task: Option<String>,
    pub(super) cameras: Vec<String>,
}

/// When single frames are rewarded; none where windows are.
pub(super) fn timing(options: &Options) -> PyResult<Option<RewardTiming>> {
    match options.mode.as_str() {
        "per_step" => Ok(Some(RewardTiming::PerStep)),
        "terminal" => Ok(Some(RewardTiming::Terminal)),
        "potential" => Ok(Some(RewardTiming::Potential { gamma: options.gamma })),
        "history_buffer" => Ok(None),
        mode => {
            let hint = "pass \"per_step\", \"terminal\", \"history_buffer\" or \"potential\"";
            Err(input(format!("there is no mode `{mode}`"), hint))
        }
    }
}

fn threshold(options: &Options) -> SuccessThreshold {
    match (options.filter, options.threshold) {
        (false, _) => SuccessThreshold::NoFilter,
        (true, None) => SuccessThreshold::Checkpoint,
        (true, Some(threshold)) => SuccessThreshold::At(threshold),
    }
}

fn kind(options: &Options) -> RewardKind {
    match options.success_reward {
        Some(success) => RewardKind::Binary { success, fail: options.fail_reward },
        None => RewardKind::Continuous,
    }
}

fn written(model: &OpenModel) -> Arc<ReloadableModel> {
    Arc::new(ReloadableModel::fixed(Box::new(WrittenScore { threshold: model.threshold })))
}

pub(super) fn frame_reward(
    model: &OpenModel,
    options: &Options,
    timing: RewardTiming,
) -> PyResult<FrameReward> {
    let latch = match options.hysteresis {
        Some((enter, leave)) => Latch::Hysteresis { enter, leave, longest_episode: options.longest_episode },
        None => Latch::Threshold(threshold(options)),
    };
    let rule = Rule { latch, guards: guards(model, options)?, hold: options.hold };
    let term = TermSettings::named(TERM);
    Ok(FrameReward { term, model: written(model), timing, rule, kind: kind(options) })
}

/// What the state must be: what the caller says, and what the model was trained with.
fn guards(model: &OpenModel, options: &Options) -> PyResult<Vec<Guard>> {
    let part = |(name, start, end): &(String, usize, usize)| plaudit_core::StatePart {
        name: name.as_str().into(),
        range: *start..*end,
    };
    let parts: Vec<_> = options.state_parts.iter().map(part).collect();
    let parse = |text: &String| {
        let hint = format!("the state has {} numbers: write state[0], or name a part", options.state_width);
        Guard::parse(text, &parts, options.state_width).map_err(|error| input(error.to_string(), hint))
    };
    let mut guards = options.guards.iter().map(parse).collect::<PyResult<Vec<_>>>()?;
    let conditions = match &model.kind {
        Kind::Classifier { card, .. } => card.conditions.as_ref(),
        Kind::Custom(model) => model.card.conditions.as_ref(),
        Kind::Frames(_) | Kind::Judge(_) => None,
    };
    if let Some(conditions) = conditions {
        if conditions.state_width != options.state_width {
            let message = format!(
                "the model rewards only where {} holds in states of {} numbers, and this environment has {}",
                conditions.text(),
                conditions.state_width,
                options.state_width
            );
            return Err(input(
                message,
                "let the environment show the whole state, or train the model without data.guards",
            ));
        }
        guards.extend(conditions.parse().map_err(|error| failed(&error))?);
    }
    Ok(guards)
}

pub(super) fn window_reward(model: &OpenModel, options: &Options, judges: bool) -> PyResult<WindowReward> {
    if options.hold.get() > 1 || options.hysteresis.is_some() || !options.guards.is_empty() {
        let message = "hold, hysteresis and guards are of single frames, and windows are scored";
        return Err(input(message, "leave them out, or set mode=\"per_step\""));
    }
    let frames = options.window;
    let history = History::new(vec![HistoryBuffer {
        name: "history_window".into(),
        history_size: frames,
        min_history_size: frames.get(),
        input_interval: options.interval,
        input_on_done: false,
    }]);
    let scored: Box<dyn plaudit_reward::ClipRewardModel> = match (&model.kind, judges) {
        (Kind::Judge(judge), true) => {
            let cameras = options.cameras.iter().map(|name| name.as_str().into()).collect();
            Box::new(judge.of_trend(cameras, options.task.as_deref(), frames.get()))
        }
        _ => Box::new(MeanScoreModel {
            model: written(model),
            threshold: threshold(options),
            kind: kind(options),
        }),
    };
    let term = TermSettings::named(TERM);
    Ok(WindowReward { term, model: scored, history, interval_reward: NO_WINDOW, to_every_step: false })
}

/// What scores frames: a classifier looks through its views, whatever they are stacked of.
pub(super) fn scorer(open: Arc<OpenModel>) -> PyResult<Scorer> {
    let (scorer, temperature): (Arc<dyn ImageScorer>, f64) = match &open.kind {
        Kind::Classifier { scorer, card } => (Arc::new(scorer.clone()), card.temperature()),
        Kind::Custom(model) => (model.scorer.clone(), model.card.temperature()),
        Kind::Frames(_) | Kind::Judge(_) => return Ok(Scorer::Frames(open)),
    };
    let view = |key: &String| {
        let ViewKey { camera, back } =
            key.parse().map_err(|error: plaudit_reward::dataset::DatasetError| failed(&error))?;
        Ok(CameraView { camera: camera.into(), back })
    };
    let views = open.image_keys.iter().map(view).collect::<PyResult<_>>()?;
    let classifier = Classifier::of(scorer, open.image_keys.clone(), views, open.threshold);
    Ok(Scorer::Stacks(classifier.at_temperature(temperature)))
}
