//! Writing the events of a run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plaudit_core::{Emit, Event};

use crate::append::Append;
use crate::line::{Stamp, read_line, write_line};
use crate::run_dir::{RunDir, RunError};
use crate::tensorboard::EventFile;
use crate::{metrics_log, write_atomically};

/// [`Event::Progress`] comes often and says little; the log keeps one in this time.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Writes the events of a run to `events.jsonl`, `metrics.log` and TensorBoard.
///
/// Every event is handed to the system before `emit` returns, so a killed run loses at most the line in flight.
/// The one exception is [`Event::Progress`], of which the log keeps one a second.
///
/// A disk that is full must not stop a run, nor go unnoticed: see [`Recorder::lost_events`].
#[derive(Debug)]
pub struct Recorder {
    run: RunDir,
    clock: Clock,
    events: Append,
    metrics: Append,
    tensorboard: EventFile,
    last_progress: Option<Instant>,
    repair: Option<Repair>,
    lost_events: Option<LostEvents>,
}

impl Recorder {
    /// Opens the logs of a run at their ends, and a new TensorBoard file.
    ///
    /// A last line that a crash left half-written is set aside in `events.jsonl.partial`; see [`Recorder::repair`].
    ///
    /// # Errors
    /// [`RunError::Busy`] when another process is recording this run; others when a file cannot be opened.
    pub fn open(run: &RunDir) -> Result<Self, RunError> {
        let clock = Clock::start();
        let mut events = Append::open(&run.events())?;
        events.claim()?;
        let repair = repair_events(&mut events, &run.events())?;
        let mut metrics = Append::open(&run.metrics_log())?;
        if !metrics.unfinished_line()?.is_empty() {
            metrics.push(b"\n")?;
        }
        for folder in [run.tensorboard(), run.images()] {
            std::fs::create_dir_all(&folder).map_err(|source| RunError::Create { path: folder, source })?;
        }
        let tensorboard = EventFile::create(&run.tensorboard(), clock.stamp().wall_secs)?;
        let run = run.clone();
        Ok(Self { run, clock, events, metrics, tensorboard, last_progress: None, repair, lost_events: None })
    }

    /// What had to be repaired when the log was opened, if anything.
    #[must_use]
    pub fn repair(&self) -> Option<&Repair> {
        self.repair.as_ref()
    }

    /// The first write that failed, and how many events are missing somewhere since. A run that ends should ask.
    #[must_use]
    pub fn lost_events(&self) -> Option<&LostEvents> {
        self.lost_events.as_ref()
    }

    /// Writes an event everywhere it belongs. Each place is tried, even when another fails.
    fn record(&mut self, event: &Event) -> Result<(), RunError> {
        let stamp = self.clock.stamp();
        let logged = self.log(stamp, event);
        let tabled = match event {
            Event::Metrics { step, values } => {
                self.metrics.push(metrics_log::table(stamp, *step, values).as_bytes())
            }
            _ => Ok(()),
        };
        let shown = self.tensorboard.add(stamp, event);
        logged.and(tabled).and(shown)
    }

    fn log(&mut self, stamp: Stamp, event: &Event) -> Result<(), RunError> {
        let file = match event {
            Event::Image { step, name, png, .. } => Some(self.store_image(*step, name, png)?),
            _ => None,
        };
        let line = write_line(stamp, event, file.as_deref())
            .map_err(|error| RunError::Write { path: self.run.events(), source: error.into() })?;
        self.events.push(&line)
    }

    /// Writes an image, and says where relative to the run directory.
    fn store_image(&self, step: u64, name: &str, png: &[u8]) -> Result<String, RunError> {
        let stem = format!("{step:08}-{}", plain(name));
        let names =
            (1..).map(|n: u32| if n == 1 { format!("{stem}.png") } else { format!("{stem}-{n}.png") });
        // The log is ours alone, so a name that is free now stays free.
        let free =
            names.map(|name| format!("images/{name}")).find(|file| !self.run.path().join(file).exists());
        let file = free.unwrap_or_default();
        write_atomically(&self.run.path().join(&file), png)?;
        Ok(file)
    }

    /// Whether the log can do without this event.
    fn is_idle_progress(&mut self, event: &Event) -> bool {
        if !matches!(event, Event::Progress { .. }) {
            return false;
        }
        let now = Instant::now();
        let idle = self.last_progress.is_some_and(|last| now - last < PROGRESS_EVERY);
        if !idle {
            self.last_progress = Some(now);
        }
        idle
    }
}

impl Emit for Recorder {
    fn emit(&mut self, event: Event) {
        if self.is_idle_progress(&event) {
            return;
        }
        if let Err(error) = self.record(&event) {
            match &mut self.lost_events {
                Some(lost_events) => lost_events.events += 1,
                none => *none = Some(LostEvents { error, events: 1 }),
            }
        }
    }
}

/// The name of an image as the name of a file.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().take(60).map(plain).collect()
}

/// Ends the log with a whole line: completes the last one if only its newline is missing, else sets it aside.
fn repair_events(events: &mut Append, path: &Path) -> Result<Option<Repair>, RunError> {
    let partial = events.unfinished_line()?;
    if partial.is_empty() {
        return Ok(None);
    }
    if read_line(&partial).is_ok() {
        events.push(b"\n")?;
        return Ok(None);
    }
    let kept = path.with_extension("jsonl.partial");
    write_atomically(&kept, &partial)?;
    events.cut(partial.len())?;
    Ok(Some(Repair { path: path.to_owned(), bytes: partial.len(), kept }))
}

/// A log that ended in the middle of a line, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The log.
    pub path: PathBuf,
    /// How much of the last line there was.
    pub bytes: usize,
    /// Where that is kept now.
    pub kept: PathBuf,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, kept } = self;
        let (path, kept) = (path.display(), kept.display());
        write!(
            f,
            "{path} ended in the middle of a line, as after a crash; its {bytes} bytes were moved to {kept}"
        )
    }
}

/// Events that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{events} events of this run are missing from its logs; the first failed because: {error}")]
pub struct LostEvents {
    /// Why the first failed.
    #[source]
    pub error: RunError,
    /// How many are missing from at least one log.
    pub events: u64,
}

/// Both clocks of a [`Stamp`].
#[derive(Debug)]
struct Clock {
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { started: Instant::now() }
    }

    fn stamp(&self) -> Stamp {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Stamp { wall_secs: to_micros(wall), elapsed_secs: to_micros(self.started.elapsed()) }
    }
}

/// Seconds, no finer than a microsecond: that is all a double holds of a time since the epoch.
fn to_micros(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Forwards events to two listeners, such as a [`Recorder`] and a [`Terminal`](crate::Terminal).
#[derive(Debug, Clone, Copy, Default)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Emit, B: Emit> Emit for Both<A, B> {
    fn emit(&mut self, event: Event) {
        self.0.emit(event.clone());
        self.1.emit(event);
    }
}
