//! Paying by votes that add up: a bounded potential, so that going back and forth earns nothing.
//!
//! The votes of an episode's windows, each from -1 to 1, are summed; the potential is `tanh(sum / votes)`, between -1 and 1.
//! A step is paid `gamma * phi' - phi`. Whatever happens in between, the discounted pay of a stretch of steps depends on the
//! potential at its two ends alone, and votes that cancel out leave the potential where it was.

use plaudit_core::{End, Reward, RewardColumn, RewardError, Score, Segment, Watch};

use super::history::History;
use super::runs::{Run, runs};
use super::terms::{Columns, Entry};
use crate::judge::{ClipJudge, JudgeError, Judged};

/// Pays by what the votes of a [`ClipJudge`] add up to; its verdicts' pay are the votes.
pub struct VoteReward {
    /// How it is named and logged.
    pub entry: Entry,
    /// Who votes.
    pub judge: Box<dyn ClipJudge>,
    /// Which steps have a window, and what it shows.
    pub history: History,
    /// The discount of the learner.
    pub gamma: f32,
    /// Votes that make the potential `tanh(1)`, three quarters of its bound.
    pub votes: f32,
    /// What the potential is worth when the task ends an episode.
    pub at_termination: AtTermination,
    /// Steps of the longest episode, since every vote of one counts.
    pub longest_episode: usize,
}

/// What the potential is worth when the task itself ends an episode. When the clock does, it keeps its worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtTermination {
    /// What it was: an episode is paid for where it got.
    Keep,
    /// 0: the best policy is then that of whatever else is paid, exactly.
    Zero,
}

impl Reward for VoteReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let mut clips = self.history.clips_before(segment)?;
        let past = clips.len();
        clips.extend(self.history.clips(segment)?);
        let Judged { verdicts, version } = self.judge.judge(&clips)?;
        if verdicts.len() != clips.len() {
            return Err(JudgeError::Answers { asked: clips.len(), answers: verdicts.len() }.into());
        }
        let mut columns = Columns::new(segment.end.len(), 0.0);
        let mut before = vec![0.0; segment.batch()];
        for (clip, verdict) in clips.iter().zip(&verdicts).take(past) {
            before[clip.row] += f64::from(verdict.pay);
        }
        for (clip, verdict) in clips.iter().zip(&verdicts).skip(past) {
            let Some(t) = clip.t else { continue };
            let at = segment.at(t, clip.row);
            columns.pay[at] = verdict.pay; // a vote so far
            columns.scores[at] = verdict.score.map_or(0.0, Score::get);
            columns.say(at, verdict.word);
        }
        columns.bonus = segment.success.iter().map(|success| self.entry.bonus(*success)).collect();
        for run in runs(segment) {
            let before = if run.elapsed > 0 { before[run.row] } else { 0.0 };
            self.pay(segment, &run, before, &mut columns.pay);
        }
        let column = self.entry.column(columns, self.judge.words(), version)?;
        column.finite(segment.batch())
    }

    fn context(&self) -> usize {
        // The oldest outcome that counts is an episode's first, and the newest is the segment's first observation.
        let episode = (self.longest_episode + self.judge.reach()).saturating_sub(2);
        episode.max(self.history.context(self.judge.reach()))
    }

    fn watch(&self) -> Watch {
        Watch::Everything
    }

    fn version(&self) -> u64 {
        self.judge.version()
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(self.judge.refresh()?)
    }
}

impl VoteReward {
    /// Puts pay in the place of votes, for the steps of a run before which votes came to `sum`.
    fn pay(&self, segment: &Segment, run: &Run, mut sum: f64, votes: &mut [f32]) {
        for t in run.start..run.stop {
            let at = segment.at(t, run.row);
            let phi = self.potential(sum);
            sum += f64::from(votes[at]);
            let after = match (segment.end[at], self.at_termination) {
                (End::Terminated, AtTermination::Zero) => 0.0,
                _ => self.potential(sum),
            };
            votes[at] = (f64::from(self.gamma) * after - phi) as f32;
        }
    }

    fn potential(&self, sum: f64) -> f64 {
        (sum / f64::from(self.votes)).tanh()
    }
}
