//! How far a long piece of work is that is no run: a bar in a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Stderr, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plaudit_core::{Emit, Event};
use plaudit_view::Terminal;

use crate::cli::Volume;
use crate::say;

/// Work that is over sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(300);
/// Logs get a line so often.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// So much of a stage is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doing {
    /// Which: `reading`.
    pub what: &'static str,
    /// What is counted: `episodes`.
    pub unit: &'static str,
    /// How many are done.
    pub done: usize,
    /// Of how many.
    pub total: usize,
}

/// Shows how far a command is. The bar is gone when this is dropped.
pub struct ProgressBar(Option<Mutex<Shown>>);

struct Shown {
    job: &'static str,
    began: Instant,
    how: How,
}

enum How {
    Bar { terminal: Box<Terminal<Stderr>>, stage: Option<&'static str> },
    Lines { last: Instant },
}

impl ProgressBar {
    /// For a command of that name; nothing is shown to those who asked for quiet.
    pub fn new(job: &'static str, volume: Volume) -> Self {
        let began = Instant::now();
        let how = match stderr().is_terminal() {
            true => How::Bar { terminal: Box::new(Terminal::on(stderr(), say::colour())), stage: None },
            false => How::Lines { last: began },
        };
        Self((!volume.quiet).then(|| Mutex::new(Shown { job, began, how })))
    }

    /// Called as often as there is news, from any thread.
    pub fn show(&self, doing: Doing) {
        // Whoever finds it taken has nothing to say: another thread is about to.
        if let Some(Ok(mut shown)) = self.0.as_ref().map(Mutex::try_lock)
            && shown.began.elapsed() >= PATIENCE
        {
            shown.show(doing);
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if let Some(Ok(mut shown)) = self.0.take().map(Mutex::into_inner)
            && let How::Bar { terminal, .. } = &mut shown.how
        {
            terminal.erase();
        }
    }
}

impl Shown {
    fn show(&mut self, Doing { what, unit, done, total }: Doing) {
        match &mut self.how {
            How::Bar { terminal, stage } => {
                if *stage != Some(what) {
                    *stage = Some(what);
                    let (name, job, unit) = (self.job.into(), what.into(), unit.into());
                    terminal.emit(Event::Started { name, job, unit, step: 0, steps: Some(total as u64) });
                }
                terminal.emit(Event::Progress { step: done as u64 });
            }
            How::Lines { last } if last.elapsed() >= BETWEEN_LINES => {
                *last = Instant::now();
                say::aside(&format!("{what}: {done} of {total} {unit}"));
            }
            How::Lines { .. } => {}
        }
    }
}
