//! A segment as the episodes it holds: for each row, stretches of steps that no end interrupts.

use plaudit_core::{End, ObsRow, RewardError, Segment};

use crate::judge::Moment;

/// A moment of a segment, by where it stands. Two places are never the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// What row `b` showed before step `t`, or after the last one.
    Seen {
        /// The step.
        t: usize,
        /// The row.
        b: usize,
    },
    /// What row `b` showed last, when step `t` ended its episode.
    Last {
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

impl Place {
    /// Where the outcome of step `t` in row `b` stands.
    pub(crate) fn outcome(segment: &Segment, t: usize, b: usize) -> Self {
        match segment.end[segment.at(t, b)] {
            End::No => Self::Seen { t: t + 1, b },
            End::Terminated | End::Truncated => Self::Last { t, b },
        }
    }

    /// What is to be seen there.
    pub(crate) fn look(self, segment: &Segment) -> ObsRow<'_> {
        match self {
            Self::Seen { t, b } => segment.obs[t].row(b),
            Self::Last { t, b } => segment.outcome(t, b),
            Self::Context { back, b } => segment.context[segment.context.len() - back].row(b),
        }
    }

    /// What was to be seen one step earlier in the same episode; `None` of its first moment.
    fn before(self, segment: &Segment) -> Result<Option<Self>, RewardError> {
        let context = |back: usize, b: usize| match segment.elapsed[b] {
            elapsed if back > elapsed => Ok(None),
            _ if back <= segment.context.len() => Ok(Some(Self::Context { back, b })),
            elapsed => Err(RewardError::Context { needed: back, carried: segment.context.len(), elapsed }),
        };
        match self {
            Self::Last { t, b } => Ok(Some(Self::Seen { t, b })),
            Self::Seen { t: 0, b } => context(1, b),
            Self::Seen { t, b } if segment.end[segment.at(t - 1, b)].is_end() => Ok(None),
            Self::Seen { t, b } => Ok(Some(Self::Seen { t: t - 1, b })),
            Self::Context { back, b } => context(back + 1, b),
        }
    }

    /// What is to be seen there, and in up to `reach` moments before it.
    pub(crate) fn moment(self, segment: &Segment, reach: usize) -> Result<Moment<'_>, RewardError> {
        let (mut place, mut past) = (self, Vec::with_capacity(reach));
        while past.len() < reach
            && let Some(earlier) = place.before(segment)?
        {
            past.push(earlier.look(segment));
            place = earlier;
        }
        Ok(Moment::with_past(self.look(segment), past))
    }
}

/// Steps of one row that belong to one episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
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

impl Run {
    /// The number of the outcome of step `t`: an episode's first step leads to outcome 1.
    pub(crate) fn number(&self, t: usize) -> usize {
        self.elapsed + t - self.start + 1
    }

    /// The number of the last outcome.
    pub(crate) fn last_number(&self) -> usize {
        self.elapsed + self.stop - self.start
    }

    /// Where outcome `number` stands. Outcomes from before the segment stand in its context.
    pub(crate) fn place(&self, segment: &Segment, number: usize) -> Result<Place, RewardError> {
        let b = self.row;
        if number > self.elapsed {
            return Ok(Place::outcome(segment, self.start + number - self.elapsed - 1, b));
        }
        match self.elapsed - number {
            0 => Ok(Place::Seen { t: 0, b }),
            back if back <= segment.context.len() => Ok(Place::Context { back, b }),
            needed => {
                let (carried, elapsed) = (segment.context.len(), self.elapsed);
                Err(RewardError::Context { needed, carried, elapsed })
            }
        }
    }
}

/// The runs of a segment, row by row.
pub(crate) fn runs(segment: &Segment) -> Vec<Run> {
    let mut runs = Vec::new();
    for row in 0..segment.batch() {
        let (mut start, mut elapsed) = (0, segment.elapsed[row]);
        for t in 0..segment.steps() {
            let end = segment.end[segment.at(t, row)];
            if end.is_end() || t + 1 == segment.steps() {
                runs.push(Run { row, start, stop: t + 1, elapsed, end });
                (start, elapsed) = (t + 1, 0);
            }
        }
    }
    runs
}
