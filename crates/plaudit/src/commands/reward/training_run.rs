//! The training of a reward model as a run: what `reward train` and `reward sft` share.

use std::path::Path;

use plaudit_core::{Emit, EndReason, Event};
use plaudit_reward::train::{Checkpoints, Progress, ResumePoint, StopReason, TrainCallbacks, TrainOutcome};
use serde::Serialize;

use super::train::failure;
use crate::config::LoadedConfig;
use crate::failure::Failure;
use crate::run::{Run, interrupted};

/// The callbacks of a training, which go to the run.
pub(super) struct RunCallbacks<'a>(pub(super) &'a mut Run);

impl Emit for RunCallbacks<'_> {
    fn emit(&mut self, event: Event) {
        self.0.emit(event);
    }
}

impl<M: Serialize> TrainCallbacks<M> for RunCallbacks<'_> {
    fn saved(&mut self, progress: &Progress<M>) -> Result<(), String> {
        self.0.save(progress.step, progress).map_err(|failure| failure.to_string())
    }

    fn stop(&self) -> bool {
        interrupted()
    }
}

/// The checkpoint that a run goes on from: the one that `runner.resume_dir` names, or the last.
pub(super) fn resume_point<M>(
    loaded: &LoadedConfig,
    checkpoints: &Checkpoints,
    progress: &Progress<M>,
) -> Result<ResumePoint, Failure> {
    let named = loaded.config.runner.resume_dir.as_deref().map(Path::new);
    let step = named.and_then(|path| path.file_name()?.to_str()?.strip_prefix("global_step_")?.parse().ok());
    checkpoints.resume(step.unwrap_or(progress.step)).map_err(failure)
}

/// How the run of a training ends.
pub(super) fn end_reason<M>(outcome: &TrainOutcome<M>) -> EndReason {
    match outcome.reason {
        StopReason::Interrupted => EndReason::Interrupted,
        StopReason::Finished | StopReason::NoImprovement => EndReason::Done,
    }
}
