//! From scores to success: a threshold or hysteresis, guards on the state, and how long it must hold.

use std::num::NonZeroUsize;

use plaudit_core::{ObsRow, RewardError, Score, Segment};

use super::episodes::EpisodeSlice;
use super::guard::Guard;
use super::scores::Scores;

/// The threshold where neither config nor checkpoint has one.
const DEFAULT_THRESHOLD: f32 = 0.5;

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
        Self {
            latch: Latch::Threshold(SuccessThreshold::Checkpoint),
            guards: Vec::new(),
            hold: NonZeroUsize::MIN,
        }
    }
}

/// What scores must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latch {
    /// Above a threshold.
    Threshold(SuccessThreshold),
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

/// The score above which a frame shows success.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SuccessThreshold {
    /// The model's own, if its checkpoint has one.
    Checkpoint,
    /// None: every score counts as it is.
    NoFilter,
    /// This one.
    At(f64),
}

impl SuccessThreshold {
    /// Whether scores are filtered, for a model that has this threshold of its own.
    fn filters(self, own: Option<f32>) -> bool {
        match self {
            Self::Checkpoint => own.is_some(),
            Self::NoFilter => false,
            Self::At(_) => true,
        }
    }

    /// The score above which it is success, for a model that has this threshold of its own.
    #[must_use]
    pub fn level(self, own: Option<f32>) -> f32 {
        match self {
            Self::Checkpoint => own.unwrap_or(DEFAULT_THRESHOLD),
            Self::NoFilter => 0.0,
            Self::At(threshold) => threshold as f32,
        }
    }
}

/// How a score becomes a reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RewardKind {
    /// Its score where the task counts as solved, else 0. Without a threshold, its score.
    Continuous,
    /// One of two amounts.
    Binary {
        /// Where the task counts as solved.
        success: f32,
        /// Anywhere else.
        fail: f32,
    },
}

impl RewardKind {
    /// For a frame with this score. `filtered` says that there is a threshold or another rule.
    pub(crate) fn amount(self, score: Score, success: bool, filtered: bool) -> f32 {
        match self {
            Self::Continuous if success || !filtered => score.get(),
            Self::Continuous => 0.0,
            Self::Binary { success: amount, .. } if success => amount,
            Self::Binary { fail, .. } => fail,
        }
    }
}

/// A latch whose threshold is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    enter: f32,
    leave: f32,
    /// Whether the state between the levels matters.
    has_memory: bool,
}

impl Thresholds {
    /// Where every score is the reward as it is: more likely solved than not, or as likely as the model itself asks for. A model whose
    /// scores are all low rewards all the same, and a policy learns by it.
    pub(crate) fn of_any_score(own: Option<f32>) -> Self {
        let level = own.unwrap_or(DEFAULT_THRESHOLD).min(DEFAULT_THRESHOLD);
        Self { enter: level, leave: level, has_memory: false }
    }

    /// The score above which a frame is a success.
    pub(crate) fn level(self) -> f32 {
        self.enter
    }

    /// Whether a score alone decides, and how.
    pub(crate) fn decides(self, score: Score) -> Option<bool> {
        match score.get() {
            value if value > self.enter => Some(true),
            value if value < self.leave || !self.has_memory => Some(false),
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

    /// Whether the end of an episode can be scored without what came before it.
    pub(crate) fn is_momentary(&self) -> bool {
        self.hold == NonZeroUsize::MIN && matches!(self.latch, Latch::Threshold(_))
    }

    /// Whether scores are filtered at all, for a model that has this threshold of its own.
    pub(crate) fn filters(&self, own: Option<f32>) -> bool {
        self.filters_scores(own) || !self.guards.is_empty() || !self.is_momentary()
    }

    /// Whether a score can be too low, for a model that has this threshold of its own.
    pub(crate) fn filters_scores(&self, own: Option<f32>) -> bool {
        match self.latch {
            Latch::Threshold(threshold) => threshold.filters(own),
            Latch::Hysteresis { .. } => true,
        }
    }

    pub(crate) fn thresholds(&self, own: Option<f32>) -> Thresholds {
        match self.latch {
            Latch::Threshold(threshold) => {
                let level = threshold.level(own);
                Thresholds { enter: level, leave: level, has_memory: false }
            }
            Latch::Hysteresis { enter, leave, .. } => Thresholds { enter, leave, has_memory: true },
        }
    }

    /// For each episode, whether the task counts as solved at each outcome of its span.
    pub(crate) fn successes(
        &self,
        segment: &Segment,
        asked: &[(&EpisodeSlice, Span)],
        scores: &mut Scores<'_>,
        thresholds: Thresholds,
    ) -> Result<Vec<Vec<bool>>, RewardError> {
        let longer: Vec<_> = asked.iter().map(|(episode, span)| (*episode, self.with_hold(*span))).collect();
        let mut indices = Vec::new();
        for (episode, span) in &longer {
            for number in span.from..=span.to {
                indices.push(episode.index(segment, number)?);
            }
        }
        scores.ask(indices)?;
        let before = state_before(segment, &longer, scores, thresholds)?;
        let mut successes = Vec::with_capacity(asked.len());
        for (((episode, span), (_, longer)), mut on) in asked.iter().zip(&longer).zip(before) {
            let mut met = Vec::with_capacity(longer.to + 1 - longer.from);
            for number in longer.from..=longer.to {
                let index = episode.index(segment, number)?;
                on = thresholds.decides(scores.of(index)).unwrap_or(on);
                met.push(on && self.guarded(&index.obs(segment)));
            }
            let mut held = self.held(&met);
            successes.push(held.split_off(span.from - longer.from));
        }
        Ok(successes)
    }

    /// The span with as much before it as a success in its first frame must have held.
    fn with_hold(&self, span: Span) -> Span {
        Span { from: span.from.saturating_sub(self.hold.get() - 1).max(1), to: span.to }
    }

    fn guarded(&self, obs: &ObsRow<'_>) -> bool {
        self.guards.iter().all(|guard| guard.holds(obs))
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

/// Whether the latch of each episode is on just before its span. Only frames that can decide are scored: one whose
/// score decides alone makes everything before it moot.
fn state_before(
    segment: &Segment,
    spans: &[(&EpisodeSlice, Span)],
    scores: &mut Scores<'_>,
    thresholds: Thresholds,
) -> Result<Vec<bool>, RewardError> {
    let mut states = vec![false; spans.len()];
    if !thresholds.has_memory {
        return Ok(states);
    }
    let mut open: Vec<(usize, usize)> = spans.iter().map(|(_, span)| span.from).enumerate().collect();
    while !open.is_empty() {
        let index = |(at, number): &(usize, usize)| spans[*at].0.index(segment, *number);
        let indices = open.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        scores.ask(indices.iter().copied())?;
        let mut older = Vec::new();
        for ((at, number), index) in open.into_iter().zip(indices) {
            match thresholds.decides(scores.of(index)) {
                Some(on) => states[at] = on,
                None if number > 1 => older.push((at, number - 1)),
                None => {} // the episode began, and it begins switched off
            }
        }
        open = older;
    }
    Ok(states)
}
