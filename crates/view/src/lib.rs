//! The run directory, both sides: what a run writes, and what people see of it.
//!
//! A run reports about itself by emitting [`Event`](plaudit_core::Event)s, and does not care who listens. Here are the
//! listeners:
//!
//! ```text
//!                      ┌─► Recorder ─► RunDir: events.jsonl, metrics.log, tensorboard/, images/
//!   a run ─► events ───┤                  │
//!                      └─► Terminal       └─► EventLog ─► Summary ─► reports
//!                          (LiveView)                         └────► LiveView
//! ```
//!
//! - [`RunDir`] is the place: `logs/20260801-12:34:56-reward_training/`, one directory per run, never shared.
//! - [`Recorder`] writes every event there the moment it happens. A run that is killed loses at most the line in
//!   flight; a disk that is full loses events, says so, and never stops the run.
//! - [`EventLog`] and [`Summary`] read it back, while the run goes on or years later. The log is the one record:
//!   whatever is shown of a run can be shown again from it.
//! - [`LiveView`] is what a person sees: a state fed with events, and the lines that show it at a width and a time.
//!   It is pure, so its look is tested like any function. [`Terminal`] draws it in place, or writes plain lines
//!   where nobody watches.
//! - [`video`] writes what the environments looked like: MP4 or animated PNG, with step and reward in the image.
//!
//! This crate links nothing that trains, prints nothing by itself (output goes to the `Write` it is given), and reads
//! no flags and no environment variables: what to write, where, and in which colours is the caller's choice.
//!
//! ```
//! use std::time::SystemTime;
//! use plaudit_core::{Emit, EndReason, Event};
//! use plaudit_view::{Both, LiveView, Recorder, RunDir, Summary, Terminal};
//!
//! # let root = tempfile::tempdir()?;
//! # let root = root.path();
//! let run = RunDir::create(root, "reward_training", SystemTime::now())?;
//! run.write_config("seed: 42\n")?;
//!
//! // The run emits; the recorder and the terminal listen.
//! let mut listeners = Both(Recorder::open(&run)?, Terminal::plain(Vec::new()));
//! let (name, job, unit) = ("reward_training".into(), "train".into(), "updates".into());
//! listeners.emit(Event::Started { name, job, unit, step: 0, steps: Some(2) });
//! for step in 1..=2 {
//!     listeners.emit(Event::Metrics { step, values: vec![("train/loss".into(), 1.0 / step as f64)] });
//! }
//! listeners.emit(Event::Ended { step: 2, reason: EndReason::Done });
//! assert!(listeners.0.lost_events().is_none());
//!
//! // Later, or elsewhere.
//! let summary = Summary::read(&RunDir::open(run.path())?)?;
//! assert_eq!(summary.end, Some(EndReason::Done));
//! assert_eq!(summary.curves["train/loss"].last(), Some(0.5));
//! for line in LiveView::of(&summary).render(Default::default(), 80, false) {
//!     println!("{line}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod aggregate;
mod append;
mod board;
mod control;
pub mod format;
mod line;
mod live_view;
mod log;
mod metric_table;
mod metrics_log;
pub mod page;
mod paint;
mod recorder;
mod report;
mod run_dir;
mod run_process;
mod summary;
mod tail;
pub mod tensorboard;
mod terminal;
pub mod video;

pub use board::{Board, BoardState, RunProgress};
pub use control::{ControlClient, ControlError, ControlReply, ControlServer, Controlled, HOLD_FILE};
pub use line::{Entry, Stamp};
pub use live_view::LiveView;
pub use log::{EventLog, LogError};
pub use recorder::{Both, LostEvents, Recorder, Repair};
pub use report::{
    AuditedModel, Interval, MethodResult, ReportError, ReportedRun, RewardUsed, SweepPage, SweepResult,
    SweptRun, interquartile_mean, report,
};
pub use run_dir::{RunDir, RunError, write_atomically};
pub use run_process::RunProcess;
pub use summary::{Curve, Point, Summary};
pub use tail::EventTail;
pub use terminal::{Size, Terminal};
