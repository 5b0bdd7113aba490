//! The training of a reward model as a run: what `reward train` and `reward sft` share.

use std::path::Path;

use plaudit_core::{Emit, EndReason, Event, Level};
use plaudit_nn::classifier::Sharding;
use plaudit_reward::train::{
    Checkpoints, Progress, ResumePoint, StopReason, TrainCallbacks, TrainLoop, TrainOutcome, Trainable,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::train::failure;
use crate::config::{LoadedConfig, yaml};
use crate::failure::Failure;
use crate::rank_log::RankLog;
use crate::ranks::Rank;
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

/// The callbacks of a training on a rank that is not the first.
struct LogCallbacks(RankLog);

impl Emit for LogCallbacks {
    fn emit(&mut self, event: Event) {
        self.0.emit(event);
    }
}

impl<M> TrainCallbacks<M> for LogCallbacks {
    fn saved(&mut self, _: &Progress<M>) -> Result<(), String> {
        Ok(())
    }

    fn stop(&self) -> bool {
        interrupted()
    }
}

/// Refuses ranks that were not started alike; `data` says what they learn from.
pub(super) fn refuse_other_start(
    rank: &Rank,
    loaded: &LoadedConfig,
    data: impl FnOnce() -> String,
) -> Result<(), Failure> {
    rank.same("another version of plaudit", || env!("CARGO_PKG_VERSION").into())?;
    rank.same("another config", || yaml::to_yaml(&loaded.as_tree(), false))?;
    rank.same("other data", data)
}

/// How the first rank begins a run, and makes it ready to train.
pub(super) trait FirstRank<P: Trainable> {
    /// Makes or opens the run directory.
    fn start(&self) -> Result<Run, Failure>;

    /// Goes on from a checkpoint if there is one, and says what is trained.
    fn prepare(&self, run: &mut Run, training: &mut TrainLoop<P>) -> Result<(), Failure>;
}

/// A run that is over, and how its training ended.
pub(super) type TrainedRun<M> = (Run, Result<TrainOutcome<M>, Failure>);

/// Trains on this rank. The first has a run, the others a log in its directory.
pub(super) fn train_on_rank<P>(
    rank: &Rank,
    training: TrainLoop<P>,
    sharding: Sharding,
    first: &impl FirstRank<P>,
) -> Result<Option<TrainedRun<P::Metrics>>, Failure>
where
    P: Trainable<Metrics: Clone + Serialize + DeserializeOwned>,
{
    rank.agree(training.check_ranks(rank.sync.world()).map_err(failure))?;
    if !rank.is_first() {
        return train_on_other_rank(rank, training, sharding).map(|()| None);
    }
    let mut run = rank.agree(first.start())?;
    let outcome = train_on_first_rank(rank, training, sharding, first, &mut run);
    Ok(Some((run, outcome)))
}

fn train_on_first_rank<P>(
    rank: &Rank,
    mut training: TrainLoop<P>,
    sharding: Sharding,
    first: &impl FirstRank<P>,
    run: &mut Run,
) -> Result<TrainOutcome<P::Metrics>, Failure>
where
    P: Trainable<Metrics: Clone + Serialize + DeserializeOwned>,
{
    rank.sync.broadcast_text(0, &run.path().display().to_string())?;
    rank.agree(first.prepare(run, &mut training))?;
    if rank.sync.world() > 1 {
        let text = ranks_notice(rank, sharding);
        run.emit(Event::Notice { level: Level::Info, text });
    }
    training.join_ranks(rank.sync.clone(), sharding).map_err(failure)?;
    let checkpoints = Checkpoints::in_folder(&run.checkpoints_directory());
    training.run(&checkpoints, &mut RunCallbacks(run)).map_err(failure)
}

fn ranks_notice(rank: &Rank, sharding: Sharding) -> String {
    let (world, carrier) = (rank.sync.world(), rank.carrier);
    let sharded = match sharding {
        Sharding::Nothing => "",
        Sharding::Optimizer => ", the optimiser's state divided among them",
    };
    format!("{world} ranks ({carrier}){sharded}")
}

fn train_on_other_rank<P>(rank: &Rank, mut training: TrainLoop<P>, sharding: Sharding) -> Result<(), Failure>
where
    P: Trainable<Metrics: Clone + Serialize + DeserializeOwned>,
{
    crate::run::listen_for_interrupts();
    rank.agree(Ok::<(), Failure>(()))?;
    let run = rank.sync.broadcast_text(0, "")?;
    let run = Path::new(&run);
    let log = rank.agree(RankLog::open(run, rank.sync.rank(), rank.sync.world()))?;
    let mut callbacks = LogCallbacks(log);
    let checkpoints = Checkpoints::in_folder(&run.join("checkpoints"));
    let done = training
        .join_ranks(rank.sync.clone(), sharding)
        .and_then(|()| training.run(&checkpoints, &mut callbacks))
        .map_err(failure);
    match done {
        Ok(TrainOutcome { reason, progress }) => {
            callbacks.0.line(&format!("ended after step {}: {reason:?}", progress.step));
            if reason == StopReason::Interrupted { Err(Failure::Stopped) } else { Ok(()) }
        }
        Err(failure) => {
            callbacks.0.line(&failure.to_string());
            Err(failure)
        }
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
