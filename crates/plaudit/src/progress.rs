//! How far a long piece of work is that is no run: a bar in a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Stderr, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plaudit_core::{Emit, Event};
use plaudit_view::Terminal;

use crate::cli::Verbosity;
use crate::console;

/// Work that is over sooner shows no bar.
const SHOW_AFTER: Duration = Duration::from_millis(300);
/// Logs get a line so often.
const LINE_INTERVAL: Duration = Duration::from_secs(3);

/// How much of a stage is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressUpdate {
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
pub struct ProgressBar(Option<Mutex<ProgressState>>);

struct ProgressState {
    job: &'static str,
    began: Instant,
    display: ProgressDisplay,
}

enum ProgressDisplay {
    Bar { terminal: Box<Terminal<Stderr>>, stage: Option<&'static str> },
    Lines { last: Instant },
}

impl ProgressBar {
    /// For a command of that name; nothing is shown to those who asked for quiet.
    pub fn new(job: &'static str, verbosity: Verbosity) -> Self {
        let began = Instant::now();
        let display = match stderr().is_terminal() {
            true => ProgressDisplay::Bar {
                terminal: Box::new(Terminal::on(stderr(), console::use_colour())),
                stage: None,
            },
            false => ProgressDisplay::Lines { last: began },
        };
        Self((!verbosity.quiet).then(|| Mutex::new(ProgressState { job, began, display })))
    }

    /// Says something beside the progress, unless somebody asked for quiet.
    pub fn note(&self, text: &str) {
        let Some(Ok(mut shown)) = self.0.as_ref().map(Mutex::lock) else { return };
        if let ProgressDisplay::Bar { terminal, .. } = &mut shown.display {
            terminal.erase();
        }
        console::eprintln(text);
    }

    /// Called as often as there is news, from any thread.
    pub fn show(&self, update: ProgressUpdate) {
        // If the lock is taken, another thread is about to show progress.
        if let Some(Ok(mut shown)) = self.0.as_ref().map(Mutex::try_lock)
            && shown.began.elapsed() >= SHOW_AFTER
        {
            shown.show(update);
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if let Some(Ok(mut shown)) = self.0.take().map(Mutex::into_inner)
            && let ProgressDisplay::Bar { terminal, .. } = &mut shown.display
        {
            terminal.erase();
        }
    }
}

impl ProgressState {
    fn show(&mut self, ProgressUpdate { what, unit, done, total }: ProgressUpdate) {
        match &mut self.display {
            ProgressDisplay::Bar { terminal, stage } => {
                if *stage != Some(what) {
                    *stage = Some(what);
                    let (name, job, unit) = (self.job.into(), what.into(), unit.into());
                    terminal.emit(Event::Started { name, job, unit, step: 0, steps: Some(total as u64) });
                }
                terminal.emit(Event::Progress { step: done as u64 });
            }
            ProgressDisplay::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                console::eprintln(&format!("{what}: {done} of {total} {unit}"));
            }
            ProgressDisplay::Lines { .. } => {}
        }
    }
}
