//! Paying by single moments: at every step, at the ends of episodes, or as a potential.

use std::sync::Arc;

use plaudit_core::{End, Reward, RewardColumn, RewardError, Segment, Watch};

use super::runs::{Place, Run, runs};
use super::scores::Scores;
use super::temporal::{Levels, Pay, Rule, Span};
use super::terms::{Columns, Entry};
use crate::judge::Seat;

/// Pays by what a [`FrameJudge`](crate::FrameJudge) thinks of single moments.
pub struct FrameReward {
    /// How it is named and logged.
    pub entry: Entry,
    /// Who judges.
    pub seat: Arc<Seat>,
    /// When it pays.
    pub when: When,
    /// When the task counts as solved.
    pub rule: Rule,
    /// What a moment pays.
    pub pay: Pay,
}

/// When moments are judged, and how that is paid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// At every step, for what it led to.
    EveryStep,
    /// At the last step of each episode; other steps are paid 0.
    AtEnds,
    /// At every step, by the change of the score: `gamma * score' - score`. What follows a terminated episode is worth
    /// 0; after a truncated one the score counts. So going back and forth earns nothing, and the best policy stays the
    /// same.
    AsPotential {
        /// The discount of the learner.
        gamma: f32,
    },
}

impl FrameReward {
    /// What is judged: each run, with the outcomes asked about.
    fn asked<'a>(&self, runs: &'a [Run]) -> Vec<(&'a Run, Span)> {
        let whole = |run: &'a Run| (run, Span { from: run.elapsed + 1, to: run.last_number() });
        match self.when {
            When::EveryStep | When::AsPotential { .. } => runs.iter().map(whole).collect(),
            When::AtEnds => {
                let ended = runs.iter().filter(|run| run.end.is_end());
                ended.map(|run| (run, Span { from: run.last_number(), to: run.last_number() })).collect()
            }
        }
    }
}

impl Reward for FrameReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let seated = self.seat.current();
        let own = seated.judge.threshold();
        let filtered = self.rule.filters(own);
        let levels = match self.pay {
            // Every score is paid as it is, so that no threshold says where the reward sees success.
            Pay::Score if !filtered => Levels::EVEN_ODDS,
            _ => self.rule.levels(own),
        };
        let mut scores = Scores::new(&*seated.judge, segment);
        let runs = runs(segment);
        let asked = self.asked(&runs);
        let successes = self.rule.successes(segment, &asked, &mut scores, levels)?;

        let mut columns = Columns::new(segment.end.len(), 0.0);
        for ((run, span), successes) in asked.iter().zip(successes) {
            for (number, success) in (span.from..=span.to).zip(successes) {
                let t = run.start + number - run.elapsed - 1;
                let at = segment.at(t, run.row);
                let score = scores.of(run.place(segment, number)?);
                columns.scores[at] = score.get();
                columns.success[at] = success;
                columns.pay[at] = self.pay.amount(score, success, filtered);
                columns.bonus[at] = self.entry.bonus(segment.success[at]);
            }
        }
        if let When::AsPotential { gamma } = self.when {
            columns.pay = changes(segment, &mut scores, gamma)?;
        }
        let success = Some(std::mem::take(&mut columns.success));
        let column = self.entry.column(columns, &[], seated.version)?;
        RewardColumn { success, ..column }.finite(segment.batch())
    }

    fn context(&self) -> usize {
        // A potential looks at what a step began with; everything else begins with what it led to.
        let before =
            self.rule.outcomes_before().max(usize::from(matches!(self.when, When::AsPotential { .. })));
        // The newest of them is the segment's first observation.
        (before + self.seat.current().judge.reach()).saturating_sub(1)
    }

    fn watch(&self) -> Watch {
        match self.when {
            _ if self.seat.current().judge.cameras().is_empty() => Watch::Nothing,
            When::AtEnds if self.rule.is_momentary() && self.seat.current().judge.reach() == 0 => Watch::Ends,
            When::AtEnds | When::EveryStep | When::AsPotential { .. } => Watch::Everything,
        }
    }

    fn version(&self) -> u64 {
        self.seat.current().version
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(self.seat.refresh()?)
    }
}

/// `gamma * phi(outcome) - phi(seen before)` of every step.
fn changes(segment: &Segment, scores: &mut Scores<'_>, gamma: f32) -> Result<Vec<f32>, RewardError> {
    let places: Vec<_> =
        (0..segment.steps()).flat_map(|t| (0..segment.batch()).map(move |b| (t, b))).collect();
    scores.ask(places.iter().map(|&(t, b)| Place::Seen { t, b }))?;
    let change = |(t, b): (usize, usize)| {
        let after = match segment.end[segment.at(t, b)] {
            End::Terminated => 0.0,
            End::No | End::Truncated => scores.of(Place::outcome(segment, t, b)).get(),
        };
        gamma * after - scores.of(Place::Seen { t, b }).get()
    };
    Ok(places.into_iter().map(change).collect())
}
