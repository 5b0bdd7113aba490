//! Ranks as processes that `mpirun` or `srun` started, on one machine or several: MPI carries their numbers.
//!
//! MPI's own sums have an order that depends on the library, the sizes and the number of ranks. So slices travel to the rank
//! that owns them (`MPI_Alltoallv`), which sums them in the order of ranks. What travels is the same as in an all-reduce.
//!
//! A rank that dies takes the job with it: MPI ends the others. A training then goes on from its last checkpoint.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi::Threading;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use plaudit_core::{GradientSync, SumOnto, SyncError};

/// One rank of an MPI job. There is one in a process; MPI ends when it is dropped.
#[derive(Debug)]
pub struct MpiRank {
    rank: usize,
    world: usize,
    /// MPI allows one call at a time, from any thread. Nothing is there once this rank gave up.
    mpi: Mutex<Option<RunningMpi>>,
}

/// MPI between its beginning and its end, with memory that is used again for every exchange.
struct RunningMpi {
    universe: Universe,
    received: Vec<f32>,
}

impl std::fmt::Debug for RunningMpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunningMpi")
    }
}

impl MpiRank {
    /// Joins the job that started this process.
    ///
    /// # Errors
    /// When this process joined before, or the MPI library allows calls from its first thread only.
    pub fn join() -> Result<Self, SyncError> {
        let transport = |reason: &str| SyncError::Transport { reason: reason.into() };
        let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
            return Err(transport("MPI was started in this process before"));
        };
        if threading < Threading::Serialized {
            return Err(transport("this MPI library was built without MPI_THREAD_SERIALIZED"));
        }
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let mpi = Mutex::new(Some(RunningMpi { universe, received: Vec::new() }));
        Ok(Self { rank, world: size, mpi })
    }

    /// MPI's own all-reduce, to compare with: its order of sums depends on the library, the sizes and the ranks.
    ///
    /// # Errors
    /// When this rank gave up, or the lengths differ.
    pub fn all_reduce_in_any_order(&self, numbers: &[f32], all: &mut [f32]) -> Result<(), SyncError> {
        SyncError::check_len(all.len(), numbers.len())?;
        self.call(|world, _| {
            world.all_reduce_into(numbers, all, mpi::collective::SystemOperation::sum());
            Ok(())
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<RunningMpi>> {
        self.mpi.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call of MPI.
    fn call<T>(
        &self,
        work: impl FnOnce(SimpleCommunicator, &mut Vec<f32>) -> Result<T, SyncError>,
    ) -> Result<T, SyncError> {
        match &mut *self.running() {
            Some(RunningMpi { universe, received }) => work(universe.world(), received),
            None => Err(SyncError::Transport { reason: "this rank gave up before".into() }),
        }
    }
}

impl GradientSync for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn reduce_scatter(
        &self,
        numbers: &[f32],
        lens: &[usize],
        sum: &mut [f32],
        mut onto: SumOnto,
    ) -> Result<(), SyncError> {
        let (counts, places) = partition(lens)?;
        SyncError::check_len(numbers.len(), lens.iter().sum())?;
        SyncError::check_len(sum.len(), lens[self.rank])?;
        let len = sum.len();
        let (own_counts, own_places) = partition(&vec![len; self.world])?;
        self.call(|world, received| {
            received.resize(len * self.world, 0.0);
            let send = Partition::new(numbers, &counts[..], &places[..]);
            let mut receive = PartitionMut::new(&mut received[..], &own_counts[..], &own_places[..]);
            world.all_to_all_varcount_into(&send, &mut receive);
            if len > 0 {
                received.chunks_exact(len).for_each(|slice| onto.put(slice, sum));
            }
            Ok(())
        })
    }

    fn all_gather(&self, own: &[f32], lens: &[usize], all: &mut [f32]) -> Result<(), SyncError> {
        let (counts, places) = partition(lens)?;
        SyncError::check_len(own.len(), lens[self.rank])?;
        SyncError::check_len(all.len(), lens.iter().sum())?;
        self.call(|world, _| {
            let mut all = PartitionMut::new(all, &counts[..], &places[..]);
            world.all_gather_varcount_into(own, &mut all);
            Ok(())
        })
    }

    fn broadcast(&self, from: usize, numbers: &mut [f32]) -> Result<(), SyncError> {
        let (counts, _) = partition(&[from, numbers.len()])?;
        if from >= self.world {
            return Err(SyncError::Transport { reason: format!("there is no rank {from}") });
        }
        self.call(|world, _| {
            world.process_at_rank(counts[0]).broadcast_into(numbers);
            Ok(())
        })
    }

    fn barrier(&self) -> Result<(), SyncError> {
        self.call(|world, _| {
            world.barrier();
            Ok(())
        })
    }

    /// MPI does not end in order then: this process is expected to end with a failure, and whoever started the job ends the
    /// others.
    fn give_up(&self, _: &str) {
        if let Some(mpi) = self.running().take() {
            std::mem::forget(mpi.universe);
        }
    }
}

/// Lengths and places of slices as MPI counts them.
fn partition(lens: &[usize]) -> Result<(Vec<i32>, Vec<i32>), SyncError> {
    let mut end = 0_usize;
    let mut counts = Vec::with_capacity(lens.len());
    let mut places = Vec::with_capacity(lens.len());
    for len in lens {
        let count = |number: usize| {
            i32::try_from(number).map_err(|_| {
                let reason = format!("MPI counts up to {}, and these are {number} numbers", i32::MAX);
                SyncError::Transport { reason }
            })
        };
        counts.push(count(*len)?);
        places.push(count(end)?);
        end += len;
    }
    Ok((counts, places))
}
