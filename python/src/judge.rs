//! A vision-language model as a reward model: what it is asked, and what its answers are worth.

use std::str::FromStr;
use std::sync::Arc;

use plaudit_core::{End, Obs, Score, Segment, StepRow};
use plaudit_data::windows::Objective;
use plaudit_nn::images::ViewPixels;
use plaudit_nn::qwen3_vl::FrameSampling;
use plaudit_reward::endpoint::ChatEndpoint;
use plaudit_reward::sft::DEFAULT_FPS;
use plaudit_reward::trend::{
    AnswerMode, AnswerPlace, FrameReadout, GenerationConfig, InputBuilder, JudgeCard, LabelRewards, LocalVlm,
    NonsenseGuard, Prompt, ReadoutSettings, TrendJudge, TrendModel, TrendReward, VlmFrameJudge, WordJudge,
    WordReadout,
};
use plaudit_reward::{Clip, ClipBuffer, ClipFrame, ClipRewardModel, FrameIndex};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{failed, failure, input};
use crate::model::observations;

/// Words of an answer at most, as the config's default has it.
const MAX_NEW_TOKENS: usize = 32;
/// The share of answers that may be nonsense: the caller sees each.
const MAX_NONSENSE: f64 = 1.0;

/// A model that answers.
pub(crate) struct Judge {
    model: Arc<dyn TrendModel>,
    card: JudgeCard,
}

/// How a window is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readout {
    /// How likely things get better.
    Trend,
    /// How far the task is, from 0 to 1.
    Progress,
    /// How likely the task is solved.
    Success,
}

impl FromStr for Readout {
    type Err = PyErr;

    fn from_str(text: &str) -> PyResult<Self> {
        match text {
            "trend" => Ok(Self::Trend),
            "progress" => Ok(Self::Progress),
            "success" => Ok(Self::Success),
            _ => Err(input(
                format!("there is no readout `{text}`"),
                "pass \"trend\", \"progress\" or \"success\"",
            )),
        }
    }
}

impl Judge {
    /// A model in this process.
    pub(crate) fn local(model: LocalVlm) -> Self {
        let card = model.card().cloned().unwrap_or_default();
        Self { model: Arc::new(model), card }
    }

    /// A model on a server.
    pub(crate) fn remote(model: ChatEndpoint) -> Self {
        let card = model.card().cloned().unwrap_or_default();
        Self { model: Arc::new(model), card }
    }

    /// The model of single frames.
    pub(crate) fn of_frames(&self, cameras: Vec<Arc<str>>, task: Option<&str>) -> VlmFrameJudge {
        VlmFrameJudge {
            model: self.model.clone(),
            input: self.input(cameras, task, 1, Prompt::Score),
            ask: AnswerMode::Text(generation()),
            readout: FrameReadout::Number,
            micro_batch: None,
            nonsense: NonsenseGuard::new(MAX_NONSENSE),
        }
    }

    /// The model of windows, by the trend.
    pub(crate) fn of_trend(&self, cameras: Vec<Arc<str>>, task: Option<&str>, frames: usize) -> TrendJudge {
        TrendJudge {
            model: self.model.clone(),
            input: self.input(cameras, task, frames, Prompt::Trend),
            ask: AnswerMode::Labels(generation()),
            readout: ReadoutSettings { temperature: self.card.temperature(), abstain_band: 0.0 },
            reward: TrendReward::Hard(LabelRewards::RLINF),
            micro_batch: None,
            nonsense: NonsenseGuard::new(MAX_NONSENSE),
        }
    }

    fn of_words(
        &self,
        cameras: Vec<Arc<str>>,
        task: Option<&str>,
        frames: usize,
        objective: Objective,
    ) -> PyResult<WordJudge> {
        let readout = WordReadout::of_objective(objective)
            .ok_or_else(|| input("this readout has no words", "pass readout=\"trend\""))?;
        Ok(WordJudge {
            model: self.model.clone(),
            input: self.input(cameras, task, frames, Prompt::Objective(objective)),
            readout,
            missing: 0.0,
            micro_batch: None,
            nonsense: NonsenseGuard::new(MAX_NONSENSE),
        })
    }

    /// What one window is worth.
    pub(crate) fn of_window(
        &self,
        views: &[ViewPixels<'_>],
        task: Option<&str>,
        readout: Readout,
    ) -> PyResult<f32> {
        let frames = views.first().map_or(0, |view| view.count);
        let cameras: Vec<Arc<str>> = views.iter().map(|view| view.key.into()).collect();
        let segment = as_segment(&observations(views, task)?)?;
        let clip = whole(&segment);
        match readout {
            Readout::Trend => {
                let judge = self.of_trend(cameras, task, frames);
                let answered = judge.score(&[clip]).map_err(|error| failed(&error))?.rewards;
                let score = answered.first().and_then(|answer| answer.score).map(Score::get);
                score.ok_or_else(|| failure("the judge gave no answer about the window", None))
            }
            Readout::Progress | Readout::Success => {
                let objective =
                    if readout == Readout::Progress { Objective::Progress } else { Objective::Success };
                let judge = self.of_words(cameras, task, frames, objective)?;
                let answered = judge.score(&[clip]).map_err(|error| failed(&error))?.rewards;
                Ok(answered.first().map_or(0.0, |answer| answer.reward))
            }
        }
    }

    /// Questions as the judge was tuned with them.
    fn input(
        &self,
        cameras: Vec<Arc<str>>,
        task: Option<&str>,
        window: usize,
        prompt: Prompt,
    ) -> InputBuilder {
        let tuned = self.card.window;
        let is_prefix = matches!(prompt, Prompt::Objective(_));
        InputBuilder {
            cameras,
            prompt,
            window,
            shown: tuned.filter(|_| is_prefix).map(|window| window.frames),
            default_task: task.map(String::from),
            system: None,
            layout: self.card.prompt_layout.unwrap_or_default(),
            answer: AnswerPlace::NextTurn,
            fps: tuned.map_or(DEFAULT_FPS, |window| window.fps),
            sampling: tuned.map_or_else(FrameSampling::default, |window| window.sampling),
        }
    }

    /// What it says about itself.
    pub(crate) fn card(&self, card: &Bound<'_, PyDict>) -> PyResult<()> {
        card.set_item("format", "plaudit judge")?;
        card.set_item("labels", self.card.labels.clone())?;
        card.set_item("label_temperature", self.card.temperature())?;
        card.set_item("questions", self.card.questions.clone())?;
        card.set_item("trained_on", self.card.trained_on.clone())?;
        card.set_item("validated_on", self.card.validated_on.clone())
    }
}

fn generation() -> GenerationConfig {
    GenerationConfig { max_new_tokens: MAX_NEW_TOKENS, temperature: 0.0 }
}

/// Frames of a window as an episode of one environment.
fn as_segment(frames: &Obs) -> PyResult<Segment> {
    let wrong = |error: plaudit_core::SegmentError| failed(&error);
    let mut segment = Segment::starting_at(frames.row(0).to_obs());
    for at in 1..frames.batch() {
        let step =
            StepRow { actions: Vec::new(), env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
        segment.push(step, frames.row(at).to_obs(), Vec::new()).map_err(wrong)?;
    }
    Ok(segment)
}

/// All of a segment as one window.
fn whole(segment: &Segment) -> Clip<'_> {
    let frame = |t: usize| ClipFrame { index: FrameIndex::Obs { t, b: 0 }, obs: segment.obs[t].row(0) };
    let frames = (0..segment.obs.len()).map(frame).collect();
    let buffers = vec![ClipBuffer { name: "history_window", frames }];
    Clip { segment, t: None, row: 0, buffers }
}
