//! A segment as the episodes it holds: for each row, subsegments that no end interrupts.

use plaudit_core::{End, ObsRow, RewardError, Segment};

use crate::models::FrameStack;

/// Which observation of a segment. Two indices never mean the same observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameIndex {
    /// What row `b` showed before step `t`, or after the last one.
    Obs {
        /// The step.
        t: usize,
        /// The row.
        b: usize,
    },
    /// What row `b` showed last, when step `t` ended its episode.
    FinalObs {
        /// The step.
        t: usize,
        /// The row.
        b: usize,
    },
    /// What row `b` showed before the segment; 1 is the newest.
    Context {
        /// How far back.
        back: usize,
        /// The row.
        b: usize,
    },
}

impl FrameIndex {
    /// The index of the outcome of step `t` in row `b`.
    pub(crate) fn outcome(segment: &Segment, t: usize, b: usize) -> Self {
        match segment.end[segment.at(t, b)] {
            End::No => Self::Obs { t: t + 1, b },
            End::Terminated | End::Truncated => Self::FinalObs { t, b },
        }
    }

    /// The observation.
    pub(crate) fn obs(self, segment: &Segment) -> ObsRow<'_> {
        match self {
            Self::Obs { t, b } => segment.obs[t].row(b),
            Self::FinalObs { t, b } => segment.outcome(t, b),
            Self::Context { back, b } => segment.context[segment.context.len() - back].row(b),
        }
    }

    /// The index one step earlier in the same episode; `None` of its first observation.
    fn previous(self, segment: &Segment) -> Result<Option<Self>, RewardError> {
        let context = |back: usize, b: usize| match segment.elapsed[b] {
            elapsed if back > elapsed => Ok(None),
            _ if back <= segment.context.len() => Ok(Some(Self::Context { back, b })),
            elapsed => Err(RewardError::Context { needed: back, carried: segment.context.len(), elapsed }),
        };
        match self {
            Self::FinalObs { t, b } => Ok(Some(Self::Obs { t, b })),
            Self::Obs { t: 0, b } => context(1, b),
            Self::Obs { t, b } if segment.end[segment.at(t - 1, b)].is_end() => Ok(None),
            Self::Obs { t, b } => Ok(Some(Self::Obs { t: t - 1, b })),
            Self::Context { back, b } => context(back + 1, b),
        }
    }

    /// The observation, stacked with up to `history_len` observations before it.
    pub(crate) fn stack(self, segment: &Segment, history_len: usize) -> Result<FrameStack<'_>, RewardError> {
        let (mut index, mut past) = (self, Vec::with_capacity(history_len));
        while past.len() < history_len
            && let Some(earlier) = index.previous(segment)?
        {
            past.push(earlier.obs(segment));
            index = earlier;
        }
        Ok(FrameStack::with_history(self.obs(segment), past))
    }
}

/// Steps of one row that belong to one episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpisodeSlice {
    pub(crate) row: usize,
    /// Its first step in the segment.
    pub(crate) start: usize,
    /// One past its last step.
    pub(crate) stop: usize,
    /// Steps the episode had before `start`.
    pub(crate) elapsed: usize,
    /// How its last step ended; `No` if the segment ends first.
    pub(crate) end: End,
}

impl EpisodeSlice {
    /// The number of the outcome of step `t`: an episode's first step leads to outcome 1.
    pub(crate) fn number(&self, t: usize) -> usize {
        self.elapsed + t - self.start + 1
    }

    /// The number of the last outcome.
    pub(crate) fn last_number(&self) -> usize {
        self.elapsed + self.stop - self.start
    }

    /// The index of outcome `number`. Outcomes from before the segment are in its context.
    pub(crate) fn index(&self, segment: &Segment, number: usize) -> Result<FrameIndex, RewardError> {
        let b = self.row;
        if number > self.elapsed {
            return Ok(FrameIndex::outcome(segment, self.start + number - self.elapsed - 1, b));
        }
        match self.elapsed - number {
            0 => Ok(FrameIndex::Obs { t: 0, b }),
            back if back <= segment.context.len() => Ok(FrameIndex::Context { back, b }),
            needed => {
                let (carried, elapsed) = (segment.context.len(), self.elapsed);
                Err(RewardError::Context { needed, carried, elapsed })
            }
        }
    }
}

/// The episodes of a segment, row by row.
pub(crate) fn episodes(segment: &Segment) -> Vec<EpisodeSlice> {
    let mut episodes = Vec::new();
    for row in 0..segment.batch() {
        let (mut start, mut elapsed) = (0, segment.elapsed[row]);
        for t in 0..segment.steps() {
            let end = segment.end[segment.at(t, row)];
            if end.is_end() || t + 1 == segment.steps() {
                episodes.push(EpisodeSlice { row, start, stop: t + 1, elapsed, end });
                (start, elapsed) = (t + 1, 0);
            }
        }
    }
    episodes
}
