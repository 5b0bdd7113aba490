//! An open reward model, with what pages say about it.

use std::path::Path;

use plaudit_core::{Obs, Score};
use plaudit_data::recording::Recording;
use plaudit_reward::audit::{AuditRule, Guarantee};
use plaudit_reward::open::{ModelLocation, OpenFrameModel, OpenOptions, RewardModel};
use plaudit_reward::{
    Latch, LiveRule, RecordingScorer, RecordingScorerError, RecordingScores, Rule, SuccessThreshold,
};

/// What a model says of itself, as far as curves show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelFacts {
    /// Scores above it mean success.
    pub(crate) threshold: f64,
    /// Whether the model says so itself; otherwise it is one half.
    pub(crate) has_threshold: bool,
    /// What the state must be as well, in words.
    pub(crate) guard: Option<String>,
    /// The rule that its audit promised something about.
    pub(crate) rule: AuditRule,
    /// What was promised, in words.
    pub(crate) promise: Option<String>,
    /// How its scores come about, where they are not of single frames.
    pub(crate) asked: Option<String>,
}

/// What a model says of an episode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EpisodeScores {
    pub(crate) scores: Vec<f32>,
    /// Whether the state is as it must be, where the model asks for that.
    pub(crate) guard: Option<Vec<bool>>,
    /// Whether the rule of its audit rewards each frame: threshold, guard, and so many frames in a row.
    pub(crate) rewarded: Vec<bool>,
}

/// An open model.
pub(super) struct OpenModel {
    scorer: RecordingScorer,
    pub(super) facts: ModelFacts,
}

impl OpenModel {
    pub(super) fn open(at: &Path, options: &OpenOptions) -> Result<Self, String> {
        let location = ModelLocation::find(at, None).map_err(|error| error.to_string())?;
        let model = RewardModel::open(&location, options.clone()).map_err(|error| error.to_string())?;
        let opened = match model {
            RewardModel::Classifier(model) => {
                let promised = model.card.guarantee;
                Self::of_frames(OpenFrameModel::Classifier(model), promised)
            }
            RewardModel::Custom(model) => {
                let promised = model.card.guarantee;
                Self::of_frames(OpenFrameModel::Custom(model), promised)
            }
            RewardModel::Server(server) => RecordingScorer::of_server(server).map(|scorer| {
                let facts = ModelFacts::of(scorer.threshold().map(f64::from), None);
                Self { scorer, facts }
            }),
            RewardModel::VisionLanguage(judge) => {
                let scorer = RecordingScorer::of_judge(*judge);
                let facts = ModelFacts { asked: scorer.asked(), ..ModelFacts::of(None, None) };
                Ok(Self { scorer, facts })
            }
        };
        opened.map_err(|error| error.to_string())
    }

    fn of_frames(opened: OpenFrameModel, promised: Option<Guarantee>) -> Result<Self, RecordingScorerError> {
        let threshold = opened.known().threshold;
        let scorer = RecordingScorer::of_frames(opened)?;
        let facts = ModelFacts { guard: scorer.conditions(), ..ModelFacts::of(threshold, promised) };
        Ok(Self { scorer, facts })
    }

    /// What it says of an episode. `progress` hears how many frames are done, and says whether to go on.
    pub(super) fn scores(
        &self,
        recording: &Recording,
        progress: &dyn Fn(usize) -> bool,
    ) -> Result<EpisodeScores, String> {
        let found = self.scorer.scores(recording, progress).map_err(|error| error.to_string())?;
        let RecordingScores { scores, guard } = found;
        let rewarded = self.facts.rewarded(&scores)?;
        Ok(EpisodeScores { scores, guard, rewarded })
    }
}

impl ModelFacts {
    fn of(threshold: Option<f64>, promised: Option<Guarantee>) -> Self {
        Self {
            threshold: threshold.unwrap_or(0.5),
            has_threshold: threshold.is_some(),
            guard: None,
            asked: None,
            promise: promised.as_ref().map(promise),
            rule: promised.and_then(|promised| promised.rule).unwrap_or(AuditRule::DEFAULT),
        }
    }

    /// Whether the rule rewards each frame.
    pub(crate) fn rewarded(&self, scores: &[f32]) -> Result<Vec<bool>, String> {
        let latch = match self.rule.leave {
            None => Latch::Threshold(SuccessThreshold::At(self.threshold)),
            Some(leave) => Latch::Hysteresis {
                enter: self.threshold as f32,
                leave: leave as f32,
                longest_episode: scores.len(),
            },
        };
        let mut rule = LiveRule::new(Rule { latch, guards: Vec::new(), hold: self.rule.hold }, None);
        let obs = Obs::from_state(1, Vec::new()).map_err(|error| error.to_string())?;
        let take = |score: &f32| rule.take(Score::new(*score).unwrap_or(Score::IMPOSSIBLE), &obs.row(0));
        Ok(scores.iter().map(take).collect())
    }
}

/// What was promised, in words.
fn promise(promised: &Guarantee) -> String {
    let percent = format!("{:.4}", 100.0 * promised.max_rate);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    format!("false alarms in at most {percent} % of episodes, with confidence {}", promised.confidence)
}
