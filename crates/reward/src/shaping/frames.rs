//! Rewards from single frames: at every step, at the ends of episodes, or as a potential.

use std::sync::Arc;

use plaudit_core::{End, FramesNeeded, Reward, RewardColumn, RewardError, Segment};

use super::episodes::{EpisodeSlice, FrameIndex, episodes};
use super::scores::Scores;
use super::temporal::{RewardKind, Rule, Span, Thresholds};
use super::terms::{TermColumns, TermSettings};
use crate::models::ReloadableModel;

/// Rewards by the scores that a [`FrameRewardModel`](crate::FrameRewardModel) gives single frames.
pub struct FrameReward {
    /// How it is named and logged.
    pub term: TermSettings,
    /// The reward model.
    pub model: Arc<ReloadableModel>,
    /// At which steps it rewards.
    pub timing: RewardTiming,
    /// When the task counts as solved.
    pub rule: Rule,
    /// The reward of a frame.
    pub kind: RewardKind,
}

/// At which steps frames are scored, and how the scores become rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RewardTiming {
    /// At every step, for what it led to.
    PerStep,
    /// At the last step of each episode; other steps have reward 0.
    Terminal,
    /// At every step, by the change of the score: `gamma * score' - score`. What follows a terminated episode is worth
    /// 0; after a truncated one the score counts. So going back and forth earns nothing, and the best policy stays the
    /// same.
    Potential {
        /// The discount of the learner.
        gamma: f32,
    },
}

impl FrameReward {
    /// What is scored: each episode, with its outcomes in question.
    fn asked<'a>(&self, episodes: &'a [EpisodeSlice]) -> Vec<(&'a EpisodeSlice, Span)> {
        let whole = |episode: &'a EpisodeSlice| {
            (episode, Span { from: episode.elapsed + 1, to: episode.last_number() })
        };
        match self.timing {
            RewardTiming::PerStep | RewardTiming::Potential { .. } => episodes.iter().map(whole).collect(),
            RewardTiming::Terminal => {
                let ended = episodes.iter().filter(|episode| episode.end.is_end());
                ended
                    .map(|episode| (episode, Span { from: episode.last_number(), to: episode.last_number() }))
                    .collect()
            }
        }
    }
}

impl Reward for FrameReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let current = self.model.current();
        let own = current.model.threshold();
        let filtered = self.rule.filters(own);
        // Every score is the reward as it is, so that the config has no threshold which says where the reward sees success.
        let any_score = self.kind == RewardKind::Continuous && !self.rule.filters_scores(own);
        let thresholds = if any_score { Thresholds::of_any_score(own) } else { self.rule.thresholds(own) };
        let mut scores = Scores::new(&*current.model, segment);
        let episodes = episodes(segment);
        let asked = self.asked(&episodes);
        let successes = self.rule.successes(segment, &asked, &mut scores, thresholds)?;
        // Where guards alone decide about the reward, the score need not be one of success.
        let allowed = match any_score && filtered {
            true => self.rule.successes(segment, &asked, &mut scores, self.rule.thresholds(own))?,
            false => successes.clone(),
        };

        let mut columns = TermColumns::new(segment.end.len(), 0.0);
        for (((episode, span), successes), allowed) in asked.iter().zip(successes).zip(allowed) {
            for ((number, success), allowed) in (span.from..=span.to).zip(successes).zip(allowed) {
                let t = episode.start + number - episode.elapsed - 1;
                let at = segment.at(t, episode.row);
                let score = scores.of(episode.index(segment, number)?);
                columns.scores[at] = score.get();
                columns.success[at] = success;
                columns.reward[at] = self.kind.amount(score, allowed, filtered);
                columns.bonus[at] = self.term.bonus(segment.success[at]);
            }
        }
        if let RewardTiming::Potential { gamma } = self.timing {
            columns.reward = changes(segment, &mut scores, gamma)?;
        }
        let success = Some(std::mem::take(&mut columns.success));
        let column = self.term.column(columns, &[], current.version)?;
        RewardColumn { success, ..column }.finite(segment.batch())
    }

    fn context(&self) -> usize {
        // A potential looks at what a step began with; everything else begins with what it led to.
        let before = self
            .rule
            .outcomes_before()
            .max(usize::from(matches!(self.timing, RewardTiming::Potential { .. })));
        // The newest of them is the segment's first observation.
        (before + self.model.current().model.history_len()).saturating_sub(1)
    }

    fn frames_needed(&self) -> FramesNeeded {
        match self.timing {
            _ if self.model.current().model.cameras().is_empty() => FramesNeeded::Nothing,
            RewardTiming::Terminal
                if self.rule.is_momentary() && self.model.current().model.history_len() == 0 =>
            {
                FramesNeeded::Ends
            }
            RewardTiming::Terminal | RewardTiming::PerStep | RewardTiming::Potential { .. } => {
                FramesNeeded::Everything
            }
        }
    }

    fn version(&self) -> u64 {
        self.model.current().version
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(self.model.refresh()?)
    }
}

/// `gamma * phi(outcome) - phi(seen before)` of every step.
fn changes(segment: &Segment, scores: &mut Scores<'_>, gamma: f32) -> Result<Vec<f32>, RewardError> {
    let indices: Vec<_> =
        (0..segment.steps()).flat_map(|t| (0..segment.batch()).map(move |b| (t, b))).collect();
    scores.ask(indices.iter().map(|&(t, b)| FrameIndex::Obs { t, b }))?;
    let change = |(t, b): (usize, usize)| {
        let after = match segment.end[segment.at(t, b)] {
            End::Terminated => 0.0,
            End::No | End::Truncated => scores.of(FrameIndex::outcome(segment, t, b)).get(),
        };
        gamma * after - scores.of(FrameIndex::Obs { t, b }).get()
    };
    Ok(indices.into_iter().map(change).collect())
}
