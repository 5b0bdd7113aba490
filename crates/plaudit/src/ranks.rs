//! Ranks: the threads or processes that share one training, as they were asked for.
//!
//! `--ranks` makes threads of this process. `mpirun` and `srun` start processes that find each other by MPI, if this program
//! was built with it; if it was not, each of them would train alone in silence, so that is refused.

use std::sync::Arc;

use clap::Args;
use plaudit_cluster::gradients::threads;
use plaudit_core::{GradientSync, OneRank};
use plaudit_nn::kernels::with_own_threads;

use crate::cli::Verbosity;
use crate::failure::Failure;

/// How a training is shared.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Ranks (docs/data-parallel.md; `mpirun` and `srun` start them as processes)")]
pub struct RankArgs {
    /// Share each step among so many ranks of this process; each computes on its part of the cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: Option<u16>,
    /// Carry gradients by NCCL, over a GPU for each rank of a machine (feature `nccl`)
    #[arg(long)]
    nccl: bool,
}

/// Who takes part in a command: threads of this process, or this process as one of several.
pub(crate) enum Launch {
    /// All ranks are here.
    Here {
        /// How many.
        ranks: usize,
        /// Whether NCCL carries gradients.
        nccl: bool,
    },
    /// This process is one of them.
    Process(Rank),
}

/// One rank, and who the others are.
pub(crate) struct Rank {
    /// The other ranks.
    pub(crate) sync: Arc<dyn GradientSync>,
    /// What carries numbers between them, in a word.
    pub(crate) carrier: &'static str,
    /// What started this process as one of several.
    launcher: Option<&'static str>,
}

impl RankArgs {
    /// The flags that would ask for the same.
    pub(crate) fn command(&self) -> Vec<String> {
        let ranks = self.ranks.iter().flat_map(|ranks| ["--ranks".to_string(), ranks.to_string()]);
        ranks.chain(self.nccl.then(|| "--nccl".to_string())).collect()
    }
}

impl Launch {
    /// Who takes part, by the flags and by what started this process.
    pub(crate) fn of(args: &RankArgs) -> Result<Self, Failure> {
        if args.nccl && !cfg!(feature = "nccl") {
            let help =
                "build it with `cargo build --release --features nccl`, or leave --nccl out".to_string();
            return Err(Failure::usage("this program was built without NCCL", help));
        }
        let Some(launcher) = Launcher::found() else {
            return Ok(Self::Here { ranks: args.ranks.unwrap_or(1).into(), nccl: args.nccl });
        };
        if args.ranks.is_some() {
            let message = format!("{launcher}, and --ranks asks for threads beside");
            let help = "leave --ranks out: every process is a rank".to_string();
            return Err(Failure::usage(message, help));
        }
        let rank = process_rank(&launcher)?;
        Ok(Self::Process(if args.nccl { rank.over_nccl()? } else { rank }))
    }

    /// How many ranks there are.
    pub(crate) fn world(&self) -> usize {
        match self {
            Self::Here { ranks, .. } => *ranks,
            Self::Process(rank) => rank.sync.world(),
        }
    }

    /// Of several processes one alone talks.
    pub(crate) fn verbosity(&self, asked: Verbosity) -> Verbosity {
        match self {
            Self::Process(rank) if !rank.is_first() => Verbosity { quiet: true, verbose: false },
            _ => asked,
        }
    }

    /// Goes on only if all processes can.
    pub(crate) fn agree<T>(&self, own: Result<T, Failure>) -> Result<T, Failure> {
        match self {
            Self::Here { .. } => own,
            Self::Process(rank) => rank.agree(own),
        }
    }

    /// Does the work on every rank that is here, and gives what the first of them found.
    pub(crate) fn run<T: Send>(
        self,
        work: impl Fn(&Rank) -> Result<T, Failure> + Sync,
    ) -> Result<T, Failure> {
        match self {
            Self::Here { ranks: 1, nccl: false } => {
                work(&Rank { sync: Arc::new(OneRank), carrier: "one rank", launcher: None })
            }
            Self::Here { ranks, nccl } => on_threads(ranks, nccl, &work),
            Self::Process(rank) => {
                let done = rank.finish(work(&rank));
                match done {
                    // Whose own fault it was says so; the first rank says it for the rest.
                    Err(Failure::OtherRank { .. }) if !rank.is_first() => Err(Failure::Stopped),
                    done => done,
                }
            }
        }
    }
}

impl Rank {
    /// Whether this rank writes and talks.
    pub(crate) fn is_first(&self) -> bool {
        self.sync.rank() == 0
    }

    /// A command as it must be typed to start these ranks again.
    pub(crate) fn started_by(&self, command: Vec<String>) -> Vec<String> {
        match self.launcher {
            Some(program) => [program.into(), "-n".into(), self.sync.world().to_string()]
                .into_iter()
                .chain(command)
                .collect(),
            None => command,
        }
    }

    /// Goes on only if all ranks can. What the first rank has to say, the others need not repeat.
    pub(crate) fn agree<T>(&self, own: Result<T, Failure>) -> Result<T, Failure> {
        let first_failed = self.sync.any(own.is_err() && self.is_first())?;
        match self.sync.agree(own) {
            Err(_) if first_failed && !self.is_first() => Err(Failure::Stopped),
            agreed => agreed,
        }
    }

    /// Refuses ranks that were started with something else than the first. `what` reads like `another config`.
    pub(crate) fn same(&self, what: &str, own: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.sync.world() == 1 { Ok(()) } else { Ok(self.sync.same_text(what, &own())?) }
    }

    /// A failure of this rank is not waited for by the others.
    fn finish<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done
            && !matches!(failure, Failure::Stopped)
        {
            self.sync.give_up(&failure.to_string());
        }
        done
    }

    #[cfg(feature = "nccl")]
    fn over_nccl(self) -> Result<Self, Failure> {
        let gpu = local_rank().unwrap_or(self.sync.rank());
        let sync = plaudit_cluster::gradients::nccl::NcclRank::join(self.sync, gpu).map_err(|error| {
            let help = "give each rank of a machine a GPU of its own, or leave --nccl out".to_string();
            Failure::runtime(error, help)
        })?;
        Ok(Self { sync: Arc::new(sync), carrier: "NCCL", launcher: self.launcher })
    }

    #[cfg(not(feature = "nccl"))]
    fn over_nccl(self) -> Result<Self, Failure> {
        Ok(self) // refused before
    }
}

/// Every rank on a thread of its own, with its part of the cores.
fn on_threads<T: Send>(
    world: usize,
    nccl: bool,
    work: &(impl Fn(&Rank) -> Result<T, Failure> + Sync),
) -> Result<T, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let one = |sync: threads::ThreadRank| {
        let rank = Rank { sync: Arc::new(sync), carrier: "threads", launcher: None };
        let no_threads =
            |error: std::io::Error| Failure::runtime(format!("cannot start a rank: {error}"), None);
        with_own_threads((cores / world).max(1), || {
            let rank = if nccl { rank.over_nccl()? } else { rank };
            let done = work(&rank);
            rank.finish(done)
        })
        .unwrap_or_else(|error| Err(no_threads(error)))
    };
    let done: Vec<Result<T, Failure>> = std::thread::scope(|scope| {
        let ranks: Vec<_> =
            threads::ranks(world).into_iter().map(|rank| scope.spawn(move || one(rank))).collect();
        let joined = ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(panicked())));
        joined.collect()
    });
    result_of_ranks(done)
}

fn panicked() -> Failure {
    Failure::runtime("a rank panicked", "this is a bug in plaudit; the last checkpoint is whole".to_string())
}

/// What the first rank found; if ranks failed, what the one said whose fault it was.
fn result_of_ranks<T>(done: Vec<Result<T, Failure>>) -> Result<T, Failure> {
    let mut first = None;
    let mut reported = None;
    for result in done {
        match result {
            Ok(found) => first = first.or(Some(found)),
            Err(failure) => match (&reported, &failure) {
                (None, _)
                | (
                    Some(Failure::OtherRank { .. } | Failure::Stopped),
                    Failure::Runtime { .. } | Failure::Usage { .. } | Failure::Config(_),
                ) => {
                    reported = Some(failure);
                }
                _ => {}
            },
        }
    }
    match (reported, first) {
        (Some(failure), _) => Err(failure),
        (None, Some(found)) => Ok(found),
        (None, None) => Err(panicked()),
    }
}

/// What started this process as one of several.
struct Launcher {
    program: &'static str,
    processes: usize,
}

/// Who says in which variable how many processes it started. Slurm sets `SLURM_NTASKS` also for a script that runs once;
/// `SLURM_STEP_NUM_TASKS` is set by `srun` alone.
const LAUNCHERS: [(&str, &str); 4] = [
    ("mpirun", "OMPI_COMM_WORLD_SIZE"),
    ("mpirun", "PMI_SIZE"),
    ("mpirun", "MV2_COMM_WORLD_SIZE"),
    ("srun", "SLURM_STEP_NUM_TASKS"),
];

impl Launcher {
    fn found() -> Option<Self> {
        let started = |(program, variable): (&'static str, &str)| {
            let processes = std::env::var(variable).ok()?.trim().parse().ok().filter(|count| *count > 1)?;
            Some(Self { program, processes })
        };
        LAUNCHERS.into_iter().find_map(started)
    }
}

impl std::fmt::Display for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} started {} processes", self.program, self.processes)
    }
}

/// This process among those that a launcher started.
#[cfg(feature = "mpi")]
fn process_rank(launcher: &Launcher) -> Result<Rank, Failure> {
    let rank = plaudit_cluster::gradients::mpi::MpiRank::join()?;
    if rank.world() != launcher.processes {
        let message = format!("{launcher}, and MPI knows of {}", rank.world());
        let help =
            "build with the MPI library whose mpirun is used; with Slurm: `srun --mpi=pmix`".to_string();
        rank.give_up(&message);
        return Err(Failure::usage(message, help));
    }
    Ok(Rank { sync: Arc::new(rank), carrier: "MPI", launcher: Some(launcher.program) })
}

#[cfg(not(feature = "mpi"))]
fn process_rank(launcher: &Launcher) -> Result<Rank, Failure> {
    let message = format!(
        "{launcher}, and this program was built without MPI: each of them would train alone on the same data"
    );
    let help =
        "build it with `cargo build --release --features mpi`, or start it once with --ranks N".to_string();
    Err(Failure::usage(message, help))
}

/// Which rank of its machine this is.
#[cfg(feature = "nccl")]
fn local_rank() -> Option<usize> {
    let variables =
        ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"];
    variables.iter().find_map(|variable| std::env::var(variable).ok()?.trim().parse().ok())
}

/// Ranks that give the error of one of them.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_at_fault_is_reported() {
        let peer = || Failure::OtherRank { message: "rank 1 ended: x".into(), help: None };
        let result =
            |done: Vec<Result<u8, Failure>>| result_of_ranks(done).map_err(|failure| failure.to_string());
        assert_eq!(result(vec![Ok(1), Ok(2)]), Ok(1));
        assert_eq!(result(vec![Err(peer()), Err(Failure::runtime("x", None))]), Err("x".into()));
        assert_eq!(result(vec![Err(Failure::runtime("x", None)), Err(peer())]), Err("x".into()));
        assert_eq!(result(vec![Err(Failure::Stopped), Err(Failure::Stopped)]), Err("stopped".into()));
    }

    #[test]
    fn ranks_on_threads_meet_and_fail_together() {
        let sum = on_threads(3, false, &|rank: &Rank| {
            Ok(rank.sync.gather_f64(rank.sync.rank() as f64)?.iter().sum::<f64>())
        });
        assert_eq!(sum.map_err(|failure| failure.to_string()), Ok(3.0));
        let failed = on_threads(3, false, &|rank: &Rank| {
            rank.agree(if rank.sync.rank() == 1 { Err(Failure::runtime("full", None)) } else { Ok(()) })
        });
        assert_eq!(failed.map_err(|failure| failure.to_string()), Err("full".into()));
    }
}
