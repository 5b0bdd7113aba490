//! Checkpoints that are written by a thread of their own, while the training goes on.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::checkpoint::Checkpoints;
use super::error::TrainError;

/// Writes a model, as it was when this was made, into a folder; that of a step with what going on needs.
pub type WriteModel = Box<dyn FnOnce(&Path) -> Result<(), TrainError> + Send>;

/// Which checkpoint.
pub(super) enum Destination {
    Best,
    /// That of a step.
    Step(u64),
}

impl Destination {
    /// Writes it.
    pub(super) fn fill(
        self,
        checkpoints: &Checkpoints,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        match self {
            Self::Best => checkpoints.save_best(write),
            Self::Step(step) => checkpoints.save(step, write),
        }
    }
}

/// A thread that writes checkpoints one after another. `T` is what whoever asks for one wants back when it is on disk.
pub(super) struct CheckpointWriter<T> {
    jobs: Option<SyncSender<(Checkpoints, Destination, WriteModel)>>,
    done: Receiver<Result<(), TrainError>>,
    thread: Option<JoinHandle<()>>,
    asked: VecDeque<T>,
    /// Of those, the first so many are on disk, or could not be written.
    settled: VecDeque<Result<(), TrainError>>,
}

/// Checkpoints that wait while one is written. Whoever asks for more waits as well, or memory would fill with models.
const WAITING: usize = 3;

impl<T> CheckpointWriter<T> {
    pub(super) fn new() -> Self {
        let (jobs, to_do) = sync_channel::<(Checkpoints, Destination, WriteModel)>(WAITING);
        let (tell, done) = channel();
        let work = move || {
            for (checkpoints, destination, write) in to_do {
                if tell.send(destination.fill(&checkpoints, write)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(work).ok();
        let jobs = thread.is_some().then_some(jobs);
        Self { jobs, done, thread, asked: VecDeque::new(), settled: VecDeque::new() }
    }

    /// Asks for a checkpoint.
    pub(super) fn write(
        &mut self,
        checkpoints: &Checkpoints,
        destination: Destination,
        write: WriteModel,
        on_disk: T,
    ) -> Result<(), TrainError> {
        let job = (checkpoints.clone(), destination, write);
        let refused = match &self.jobs {
            Some(jobs) => jobs.send(job).err().map(|job| job.0),
            None => Some(job),
        };
        if refused.is_some() {
            return Err(TrainError::Callback("the thread that writes checkpoints is gone".into()));
        }
        self.asked.push_back(on_disk);
        Ok(())
    }

    /// The next checkpoint that is on disk, or cannot be written, if there is one by now.
    pub(super) fn next_done(&mut self) -> Option<(T, Result<(), TrainError>)> {
        let done = self.settled.pop_front().or_else(|| self.done.try_recv().ok())?;
        Some((self.asked.pop_front()?, done))
    }

    /// Waits until everything that was asked for is on disk, or could not be written.
    pub(super) fn settle(&mut self) {
        while self.settled.len() < self.asked.len() {
            let gone = |_| Err(TrainError::Callback("the thread that writes checkpoints is gone".into()));
            self.settled.push_back(self.done.recv().unwrap_or_else(gone));
        }
    }
}

impl<T> Drop for CheckpointWriter<T> {
    /// Waits until what was asked for is written.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
