//! From scores to success: a threshold or hysteresis, guards on the state, and how long it must hold.

use std::num::NonZeroUsize;

use plaudit_core::{ObsRow, RewardError, Score, Segment};

use super::guard::Guard;
use super::runs::Run;
use super::scores::Scores;

/// The threshold of a judge that nobody told one.
const EVEN_ODDS: f32 = 0.5;

/// When the task counts as solved: the latch is on, every guard holds, and both have for `hold` steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What scores must be.
    pub latch: Latch,
    /// What the state must be as well.
    pub guards: Vec<Guard>,
    /// For how many steps on end, of the same episode.
    pub hold: NonZeroUsize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { latch: Latch::Threshold(None), guards: Vec::new(), hold: NonZeroUsize::MIN }
    }
}

/// What scores must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latch {
    /// Above a threshold; without one, above the judge's own.
    Threshold(Option<f32>),
    /// Goes on above `enter`, stays on until below `leave`. Off when an episode begins.
    Hysteresis {
        /// Above this it goes on.
        enter: f32,
        /// Below this it goes off.
        leave: f32,
        /// Steps of the longest episode, since it may have gone on at any of them.
        longest_episode: usize,
    },
}

/// What a moment pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pay {
    /// Its score where the task counts as solved, else 0. If nobody gave a threshold, its score.
    Score,
    /// One of two amounts.
    Verdict {
        /// Where the task counts as solved.
        success: f32,
        /// Anywhere else.
        fail: f32,
    },
}

impl Pay {
    /// For a moment with this score. `filtered` says that somebody gave a threshold or another rule.
    pub(crate) fn amount(self, score: Score, success: bool, filtered: bool) -> f32 {
        match self {
            Self::Score if success || !filtered => score.get(),
            Self::Score => 0.0,
            Self::Verdict { success: amount, .. } if success => amount,
            Self::Verdict { fail, .. } => fail,
        }
    }
}

/// A latch whose threshold is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels {
    enter: f32,
    leave: f32,
    /// Whether the state between the levels matters.
    remembers: bool,
}

impl Levels {
    /// More likely solved than not.
    pub(crate) const EVEN_ODDS: Self = Self { enter: EVEN_ODDS, leave: EVEN_ODDS, remembers: false };

    /// Whether a score alone decides, and how.
    pub(crate) fn decides(self, score: Score) -> Option<bool> {
        match score.get() {
            value if value > self.enter => Some(true),
            value if value < self.leave || !self.remembers => Some(false),
            _ => None,
        }
    }
}

/// The outcomes `from..=to` of an episode, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Rule {
    /// How many outcomes before the first one that is asked about may matter.
    pub(crate) fn outcomes_before(&self) -> usize {
        match self.latch {
            Latch::Threshold(_) => self.hold.get() - 1,
            Latch::Hysteresis { longest_episode, .. } => longest_episode.saturating_sub(1),
        }
    }

    /// Whether the end of an episode can be judged without what came before it.
    pub(crate) fn is_momentary(&self) -> bool {
        self.hold == NonZeroUsize::MIN && matches!(self.latch, Latch::Threshold(_))
    }

    /// Whether scores are filtered at all, by a judge that has this threshold of its own.
    pub(crate) fn filters(&self, own: Option<f32>) -> bool {
        let by_score = match self.latch {
            Latch::Threshold(None) => own.is_some(),
            Latch::Threshold(Some(threshold)) => threshold > 0.0,
            Latch::Hysteresis { .. } => true,
        };
        by_score || !self.guards.is_empty() || !self.is_momentary()
    }

    pub(crate) fn levels(&self, own: Option<f32>) -> Levels {
        match self.latch {
            Latch::Threshold(threshold) => {
                let level = threshold.or(own).unwrap_or(EVEN_ODDS);
                Levels { enter: level, leave: level, remembers: false }
            }
            Latch::Hysteresis { enter, leave, .. } => Levels { enter, leave, remembers: true },
        }
    }

    /// For each run, whether the task counts as solved at each outcome of its span.
    pub(crate) fn successes(
        &self,
        segment: &Segment,
        asked: &[(&Run, Span)],
        scores: &mut Scores<'_>,
        levels: Levels,
    ) -> Result<Vec<Vec<bool>>, RewardError> {
        let longer: Vec<_> = asked.iter().map(|(run, span)| (*run, self.with_hold(*span))).collect();
        let mut places = Vec::new();
        for (run, span) in &longer {
            for number in span.from..=span.to {
                places.push(run.place(segment, number)?);
            }
        }
        scores.ask(places)?;
        let before = state_before(segment, &longer, scores, levels)?;
        let mut successes = Vec::with_capacity(asked.len());
        for (((run, span), (_, longer)), mut on) in asked.iter().zip(&longer).zip(before) {
            let mut met = Vec::with_capacity(longer.to + 1 - longer.from);
            for number in longer.from..=longer.to {
                let place = run.place(segment, number)?;
                on = levels.decides(scores.of(place)).unwrap_or(on);
                met.push(on && self.guarded(&place.look(segment)));
            }
            let mut held = self.held(&met);
            successes.push(held.split_off(span.from - longer.from));
        }
        Ok(successes)
    }

    /// The span with as much before it as a success in its first moment must have held.
    fn with_hold(&self, span: Span) -> Span {
        Span { from: span.from.saturating_sub(self.hold.get() - 1).max(1), to: span.to }
    }

    fn guarded(&self, seen: &ObsRow<'_>) -> bool {
        self.guards.iter().all(|guard| guard.holds(seen))
    }

    /// Where the last `hold` of `met` are true. What was before the first does not count.
    fn held(&self, met: &[bool]) -> Vec<bool> {
        let mut streak = 0;
        let longer = |met: &bool| {
            streak = if *met { streak + 1 } else { 0 };
            streak >= self.hold.get()
        };
        met.iter().map(longer).collect()
    }
}

/// Whether the latch of each run is on just before its span. Only moments that could tell are looked at: one whose
/// score decides alone makes everything before it moot.
fn state_before(
    segment: &Segment,
    spans: &[(&Run, Span)],
    scores: &mut Scores<'_>,
    levels: Levels,
) -> Result<Vec<bool>, RewardError> {
    let mut states = vec![false; spans.len()];
    if !levels.remembers {
        return Ok(states);
    }
    let mut open: Vec<(usize, usize)> = spans.iter().map(|(_, span)| span.from).enumerate().collect();
    while !open.is_empty() {
        let place = |(at, number): &(usize, usize)| spans[*at].0.place(segment, *number);
        let places = open.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        scores.ask(places.iter().copied())?;
        let mut older = Vec::new();
        for ((at, number), place) in open.into_iter().zip(places) {
            match levels.decides(scores.of(place)) {
                Some(on) => states[at] = on,
                None if number > 1 => older.push((at, number - 1)),
                None => {} // the episode began, and it begins switched off
            }
        }
        open = older;
    }
    Ok(states)
}
