//! A run in brief: what it was, how far it came, and the curve of every metric.

use indexmap::IndexMap;
use plaudit_core::{EndReason, Event, Level};

use crate::line::{Entry, Stamp};
use crate::log::{EventLog, LogError};
use crate::run_dir::RunDir;

/// A run in brief.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// What it does: `train`, `eval`, …
    pub job: String,
    /// What a step is, in the plural.
    pub unit: String,
    /// How it ended; nothing while it runs, or where it was killed: the log has no end then.
    pub end: Option<EndReason>,
    /// The last step that was reported.
    pub step: u64,
    /// The step it should end at, when that is known.
    pub steps: Option<u64>,
    /// When it first started, in seconds since the epoch.
    pub started_secs: f64,
    /// How long it ran, without the pauses between its sessions.
    pub ran_secs: f64,
    /// How often it was started: 1, and 1 more for each time it was resumed.
    pub sessions: u32,
    /// Every metric, in order of appearance.
    pub curves: IndexMap<String, Curve>,
    /// The last state that is safe on disk: its step, and where, relative to the run directory.
    pub saved: Option<(u64, String)>,
    /// All notices.
    pub notices: Vec<(Level, String)>,
    /// When the last event of the current session happened, by its own clock.
    session_secs: f64,
}

/// The values of a metric over a run. A resumed run replaces what came after the step it resumed from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// The points, in order.
    pub points: Vec<Point>,
}

impl Curve {
    /// The latest value.
    #[must_use]
    pub fn last(&self) -> Option<f64> {
        self.points.last().map(|point| point.value)
    }
}

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The step it belongs to.
    pub step: u64,
    /// When it was measured.
    pub stamp: Stamp,
    /// The value.
    pub value: f64,
}

impl Summary {
    /// Reads the log of a run from its first line to its last.
    ///
    /// # Errors
    /// [`LogError`] when it cannot be read.
    pub fn read(run: &RunDir) -> Result<Self, LogError> {
        let mut summary = Self::default();
        for entry in EventLog::open(run)? {
            summary.add(entry?);
        }
        Ok(summary)
    }

    /// Takes one more event into account.
    pub fn add(&mut self, entry: Entry) {
        let Entry { stamp, event, .. } = entry;
        self.keep_time(stamp, &event);
        match event {
            Event::Started { name, job, unit, step, steps } => {
                (self.name, self.job, self.unit, self.step, self.steps) = (name, job, unit, step, steps);
                self.end = None;
                self.sessions += 1;
                self.forget_after(step);
            }
            Event::Progress { step } | Event::Histogram { step, .. } | Event::Image { step, .. } => {
                self.reach(step)
            }
            Event::Text { step, .. } => self.reach(step),
            Event::Metrics { step, values } => {
                self.reach(step);
                for (name, value) in values {
                    self.curves.entry(name).or_default().points.push(Point { step, stamp, value });
                }
            }
            Event::Notice { level, text } => self.notices.push((level, text)),
            Event::Saved { step, path } => self.saved = Some((step, path)),
            Event::Ended { step, reason } => {
                self.step = step;
                self.end = Some(reason);
            }
        }
    }

    fn reach(&mut self, step: u64) {
        self.step = self.step.max(step);
    }

    /// A run that starts again takes back what came after the step it starts from.
    fn forget_after(&mut self, step: u64) {
        for curve in self.curves.values_mut() {
            curve.points.retain(|point| step > 0 && point.step <= step);
        }
    }

    fn keep_time(&mut self, stamp: Stamp, event: &Event) {
        if self.sessions == 0 {
            self.started_secs = stamp.wall_secs;
        }
        if matches!(event, Event::Started { .. }) {
            self.session_secs = stamp.elapsed_secs;
        }
        self.ran_secs += (stamp.elapsed_secs - self.session_secs).max(0.0);
        self.session_secs = stamp.elapsed_secs;
    }
}
