//! A vision-language judge, as recordings are shown to it: asked about the episode so far, at a few points.

use plaudit_data::recording::Recording;
use plaudit_data::windows::Objective;
use plaudit_nn::qwen3_vl::PromptLayout;

use super::RecordingScorerError;
use crate::open::OpenVlm;
use crate::trend::{EpisodeClip, EpisodeJudge, EpisodeReadout, EpisodeValues, JudgeCard, PrefixFormat};

/// Points of an episode that are asked about.
const POINTS: usize = 16;
/// Frames of an episode so far that are shown at most, where the judge was tuned with no number of them.
const MOST_FRAMES: usize = 16;

pub(super) struct JudgeScorer {
    judge: OpenVlm,
    asked: Asked,
}

/// What a judge is asked: what it was tuned for, or the question for models that were tuned for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Whether the episode so far is a success.
    Success,
    /// How far the episode so far is.
    Progress,
    /// Whether windows show progress.
    Trend,
    /// How likely a model that was tuned for nothing calls the episode so far done.
    Topreward,
}

impl Asked {
    /// What comes nearest to success, of what the judge was tuned for. One without a card was tuned for trends if it has adapters.
    fn of(card: Option<&JudgeCard>, has_adapters: bool) -> Self {
        let tuned = |objective| card.is_some_and(|card| card.objectives.contains(&objective));
        match card {
            _ if tuned(Objective::Success) => Self::Success,
            _ if tuned(Objective::Progress) => Self::Progress,
            None if !has_adapters => Self::Topreward,
            _ => Self::Trend,
        }
    }

    fn objective(self) -> Option<Objective> {
        match self {
            Self::Success => Some(Objective::Success),
            Self::Progress => Some(Objective::Progress),
            Self::Trend => Some(Objective::Trend),
            Self::Topreward => None,
        }
    }

    /// The score while nothing was asked yet.
    fn unknown(self) -> f32 {
        match self {
            Self::Trend => 0.5,
            Self::Success | Self::Progress | Self::Topreward => 0.0,
        }
    }

    /// What was read at each point as scores from 0 to 1; where nothing could be read, none.
    fn scores(self, values: &[Option<f64>]) -> Vec<Option<f32>> {
        let mut sum = 0.0;
        let score = |value: &Option<f64>| {
            value.map(|value| match self {
                Self::Success | Self::Progress => value.clamp(0.0, 1.0) as f32,
                Self::Topreward => value.exp().clamp(0.0, 1.0) as f32,
                Self::Trend => {
                    // A vote between -1 and 1: what it added to those before.
                    let vote = value - sum;
                    sum = value;
                    (0.5 + 0.5 * vote).clamp(0.0, 1.0) as f32
                }
            })
        };
        values.iter().map(score).collect()
    }
}

impl JudgeScorer {
    pub(super) fn of(judge: OpenVlm) -> Self {
        let asked = Asked::of(judge.model.card(), judge.folder.lora.is_some());
        Self { judge, asked }
    }

    /// How its scores come about, in words.
    pub(super) fn asked(&self) -> String {
        match self.asked {
            Asked::Success => {
                format!("how likely the episode so far is a success, asked at {POINTS} points")
            }
            Asked::Progress => format!("how far the episode so far is, asked at {POINTS} points"),
            Asked::Trend => {
                "how likely the last window got better, above one half, or worse, below it".into()
            }
            Asked::Topreward => {
                format!(
                    "how likely it calls the episode so far done, untuned (TOPReward), at {POINTS} points"
                )
            }
        }
    }

    /// A score for each observation: that of the last point up to it.
    pub(super) fn scores(
        &self,
        recording: &Recording,
        progress: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<f32>, RecordingScorerError> {
        if !progress(0) {
            return Err(RecordingScorerError::Stopped);
        }
        let cameras = self.cameras(recording)?;
        let judge = self.episode_judge(recording)?;
        let found = judge.values(&EpisodeClip::of_recording(recording, &cameras))?;
        let EpisodeValues { points, values, .. } = found;
        let mut scores = vec![self.asked.unknown(); recording.len()];
        for (point, score) in points.into_iter().zip(self.asked.scores(&values)) {
            if let Some(score) = score {
                scores[point..].fill(score);
            }
        }
        Ok(scores)
    }

    /// As many cameras as it was tuned with; the main one where nobody says how many.
    fn cameras(&self, recording: &Recording) -> Result<Vec<String>, RecordingScorerError> {
        let wanted = self.judge.model.window_format().map_or(1, |window| window.cameras);
        let mut cameras = recording.cameras();
        if cameras.len() < wanted {
            return Err(RecordingScorerError::Cameras { wanted, recorded: cameras });
        }
        cameras.truncate(wanted);
        Ok(cameras)
    }

    fn episode_judge(&self, recording: &Recording) -> Result<EpisodeJudge<'_>, RecordingScorerError> {
        let model = &self.judge.model;
        let card = model.card();
        let tuned = card.and_then(|card| card.questions.first().filter(|_| card.questions.len() == 1));
        let task = recording.task().map(str::trim).filter(|task| !task.is_empty());
        let has_question = self.asked == Asked::Trend && tuned.is_some();
        let task = match task {
            None if !has_question => return Err(RecordingScorerError::Task),
            task => task.unwrap_or_default().to_string(),
        };
        let objective = self.asked.objective();
        let prefix = PrefixFormat::of(model, objective, MOST_FRAMES);
        let of_prefix =
            objective.and_then(|objective| EpisodeReadout::of_objective(model, objective, &task, prefix));
        let readout = match (of_prefix, self.asked) {
            (Some(readout), _) => readout,
            (None, Asked::Topreward) => EpisodeReadout::topreward(),
            (None, _) => EpisodeReadout::trend(model, tuned.cloned()),
        };
        let layout = card.and_then(|card| card.prompt_layout).unwrap_or(PromptLayout::VideosFirst);
        Ok(EpisodeJudge { model, task, layout, points: POINTS, prefix, readout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_is_asked_what_it_was_tuned_for() {
        let tuned =
            |objectives: &[Objective]| JudgeCard { objectives: objectives.into(), ..JudgeCard::default() };
        let mixed = tuned(&[Objective::Trend, Objective::Progress, Objective::Success]);
        assert_eq!(Asked::of(Some(&mixed), true), Asked::Success);
        assert_eq!(Asked::of(Some(&tuned(&[Objective::Progress])), false), Asked::Progress);
        assert_eq!(Asked::of(Some(&tuned(&[])), false), Asked::Trend, "a card that does not say");
        assert_eq!(Asked::of(None, true), Asked::Trend, "adapters of others");
        assert_eq!(Asked::of(None, false), Asked::Topreward);
    }

    #[test]
    fn sums_of_votes_become_votes_again() {
        let values = [Some(1.0), Some(0.5), None, Some(0.5)];
        assert_eq!(Asked::Trend.scores(&values), [Some(1.0), Some(0.25), None, Some(0.5)]);
        assert_eq!(Asked::Topreward.scores(&[Some(0.0), Some(f64::NEG_INFINITY)]), [Some(1.0), Some(0.0)]);
    }
}
