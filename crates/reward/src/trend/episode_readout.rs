//! How a judge is asked about an episode so far, and what it is shown.

use plaudit_data::windows::Objective;
use plaudit_nn::qwen3_vl::FrameSampling;

use super::card::WindowFormat;
use super::conversation::AnswerPlace;
use super::local::LocalVlm;
use super::readout::ReadoutSettings;
use super::word_readout::{TOPREWARD_PROMPT, WordReadout};
use crate::sft::DEFAULT_FPS;

/// Frames per second that a prefix is shown at, once few enough of its frames are chosen: what Qwen3-VL is used to.
pub const PREFIX_FPS: f64 = 2.0;
/// Frames of a window where nobody says how many a judge was tuned with.
const WINDOW: usize = 5;

/// How an episode so far is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixFormat {
    /// Frames that are shown at most, evenly spaced.
    pub frames: usize,
    /// Frames per second.
    pub fps: f64,
    /// Which of them the model sees.
    pub sampling: FrameSampling,
}

/// How a judge is asked about an episode.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeReadout {
    /// Whether windows show progress, as it was tuned; votes add up.
    Trend {
        /// Frames of a window.
        window: usize,
        /// Frames per second.
        fps: f64,
        /// Which frames it sees.
        sampling: FrameSampling,
        /// What is asked; not set: RLinf's question about the task.
        question: Option<String>,
        /// How answers are read.
        settings: ReadoutSettings,
    },
    /// A number of each prefix, from how likely words are.
    Words {
        /// What is asked; `{task}` is filled in.
        prompt: String,
        /// Where the answer stands.
        answer: AnswerPlace,
        /// How answers are read.
        readout: WordReadout,
    },
    /// Generative value learning (GVL): the percentages of all points at once, their frames in random order.
    Gvl,
}

impl PrefixFormat {
    /// As in the tuning of a judge that was tuned for what it is asked; else `most` frames at most.
    #[must_use]
    pub fn of(model: &LocalVlm, objective: Option<Objective>, most: usize) -> Self {
        let tuned = model
            .card()
            .zip(objective)
            .and_then(|(card, objective)| card.window.filter(|_| card.objectives.contains(&objective)));
        match tuned {
            Some(WindowFormat { frames, fps, sampling, .. }) => Self { frames, fps, sampling },
            None => Self { frames: most, fps: PREFIX_FPS, sampling: FrameSampling::All },
        }
    }
}

impl EpisodeReadout {
    /// Windows, as a judge was tuned with them.
    #[must_use]
    pub fn trend(model: &LocalVlm, question: Option<String>) -> Self {
        let window = model.window_format();
        Self::Trend {
            window: window.map_or(WINDOW, |window| window.frames),
            fps: window.map_or(DEFAULT_FPS, |window| window.fps),
            sampling: window.map(|window| window.sampling).unwrap_or_default(),
            question,
            settings: ReadoutSettings { temperature: model.temperature(), ..ReadoutSettings::default() },
        }
    }

    /// The log-probability that a model which was tuned for nothing calls the task done.
    #[must_use]
    pub fn topreward() -> Self {
        Self::Words {
            prompt: TOPREWARD_PROMPT.into(),
            answer: AnswerPlace::SameTurn,
            readout: WordReadout::topreward(),
        }
    }

    /// What a judge is asked that was tuned for an objective; nothing where that is not about an episode so far.
    #[must_use]
    pub fn of_objective(
        model: &LocalVlm,
        objective: Objective,
        task: &str,
        prefix: PrefixFormat,
    ) -> Option<Self> {
        let is_prefix = matches!(objective, Objective::Progress | Objective::Success);
        let readout = WordReadout::of_objective(objective).filter(|_| is_prefix)?;
        let extra_views = model.window_format().map_or(0, |window| window.cameras - 1);
        let prompt = objective.question(task, prefix.frames, extra_views);
        Some(Self::Words { prompt, answer: AnswerPlace::NextTurn, readout })
    }
}
