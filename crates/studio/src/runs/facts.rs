//! What the list says of a run.

use std::collections::VecDeque;
use std::path::Path;

use plaudit_core::{EndReason, Event, Level};
use plaudit_view::{Entry, RunProcess};

/// Notices of a run that are kept, the newest.
const NOTICES: usize = 200;
/// What people look at first, the most telling first.
const SHOWN: [&str; 6] =
    ["eval/success_once", "env/success_once", "eval/return", "env/return", "val/auc", "val/accuracy"];

/// What is known of a run from its log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunFacts {
    /// What it was called when it first started.
    pub(crate) title: String,
    pub(crate) job: String,
    pub(crate) unit: String,
    pub(crate) step: u64,
    pub(crate) steps: Option<u64>,
    pub(crate) started_secs: f64,
    /// When its log was written to last.
    pub(crate) wall_secs: f64,
    pub(crate) end: Option<EndReason>,
    pub(crate) saved: Option<u64>,
    /// Warnings, the newest last.
    pub(crate) warnings: VecDeque<String>,
    /// The newest value that people look at first.
    pub(crate) metric: Option<(String, f64)>,
    /// Why its log cannot be read further.
    pub(crate) broken: Option<String>,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Its process is there.
    Running,
    Done,
    /// Somebody stopped it; it saved.
    Stopped,
    Failed,
    /// It has no end, and no process that is known to be its own.
    Gone,
}

impl RunState {
    pub(super) fn of(facts: &RunFacts, run: &Path) -> Self {
        match &facts.end {
            Some(EndReason::Done) => Self::Done,
            Some(EndReason::Interrupted) => Self::Stopped,
            Some(EndReason::Failed { .. }) => Self::Failed,
            None if RunProcess::of(run).is_some_and(|process| process.is_alive()) => Self::Running,
            None => Self::Gone,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Gone => "no end",
        }
    }

    /// How a chip of it looks.
    pub(crate) fn tone(self) -> &'static str {
        match self {
            Self::Running | Self::Done => "good",
            Self::Failed => "bad",
            Self::Stopped | Self::Gone => "doubtful",
        }
    }
}

impl RunFacts {
    pub(super) fn add(&mut self, entry: Entry) {
        let Entry { stamp, event, .. } = entry;
        if self.started_secs == 0.0 {
            self.started_secs = stamp.wall_secs;
        }
        self.wall_secs = self.wall_secs.max(stamp.wall_secs);
        match event {
            Event::Started { name, job, unit, step, steps } => {
                if self.title.is_empty() {
                    self.title = name;
                }
                (self.job, self.unit, self.step, self.steps) = (job, unit, step, steps);
                self.end = None;
            }
            Event::Progress { step } => self.step = self.step.max(step),
            Event::Metrics { step, values } => {
                self.step = self.step.max(step);
                self.take(&values);
            }
            Event::Notice { level: Level::Warning, text } => {
                if self.warnings.len() >= NOTICES {
                    self.warnings.pop_front();
                }
                self.warnings.push_back(text);
            }
            Event::Saved { step, .. } => self.saved = Some(step),
            Event::Ended { step, reason } => {
                self.step = step;
                self.end = Some(reason);
            }
            Event::Notice { .. } | Event::Histogram { .. } | Event::Image { .. } | Event::Text { .. } => {}
        }
    }

    fn take(&mut self, values: &[(String, f64)]) {
        let rank = |name: &str| SHOWN.iter().position(|shown| *shown == name);
        let before = self.metric.as_ref().and_then(|(name, _)| rank(name)).unwrap_or(SHOWN.len());
        let best = values.iter().filter_map(|(name, value)| Some((rank(name)?, name, *value)));
        if let Some((rank, name, value)) = best.min_by_key(|(rank, ..)| *rank)
            && rank <= before
        {
            self.metric = Some((name.clone(), value));
        }
    }
}
