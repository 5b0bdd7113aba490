//! Ranks as threads of one process: each hands its numbers to all others through memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use plaudit_core::{GradientSync, SumOnto, SyncError};

/// One rank of several in this process. When it is dropped, the others no longer wait for it.
#[derive(Debug)]
pub struct ThreadRank {
    rank: usize,
    meeting: Arc<Meeting>,
}

/// Where the ranks of a process meet.
#[derive(Debug)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Debug)]
struct MeetingState {
    /// How often all ranks were here.
    round: u64,
    /// Ranks that are here.
    arrived: usize,
    /// What each has brought.
    brought: Vec<Arc<[f32]>>,
    /// The first rank that left, and what it said.
    left: Option<(usize, String)>,
}

/// The ranks of a world of `world`, each for a thread of its own.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn ranks(world: usize) -> Vec<ThreadRank> {
    assert!(world > 0, "a training has at least one rank");
    let brought = vec![Arc::from([]); world];
    let state = Mutex::new(MeetingState { round: 0, arrived: 0, brought, left: None });
    let meeting = Arc::new(Meeting { state, changed: Condvar::new() });
    (0..world).map(|rank| ThreadRank { rank, meeting: meeting.clone() }).collect()
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, MeetingState> {
        // A rank that panicked has left, which is what the others look at.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all ranks are here, with what each has brought.
    fn wait(&self, rank: usize, own: Option<Arc<[f32]>>) -> Result<Vec<Arc<[f32]>>, SyncError> {
        let mut state = self.state();
        let round = state.round;
        if let Some(own) = own {
            state.brought[rank] = own;
        }
        state.arrived += 1;
        if state.arrived == state.brought.len() {
            state.arrived = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        while state.round == round {
            if let Some((rank, reason)) = state.left.clone() {
                return Err(SyncError::Peer { rank, reason });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.brought.clone())
    }

    fn leave(&self, rank: usize, reason: &str) {
        self.state().left.get_or_insert_with(|| (rank, reason.into()));
        self.changed.notify_all();
    }
}

impl ThreadRank {
    /// What every rank has brought. Nobody replaces it before all have it.
    fn exchange(&self, own: &[f32]) -> Result<Vec<Arc<[f32]>>, SyncError> {
        let all = self.meeting.wait(self.rank, Some(own.into()))?;
        self.meeting.wait(self.rank, None)?;
        Ok(all)
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() { "it panicked" } else { "it stopped before the others" };
        self.meeting.leave(self.rank, reason);
    }
}

impl GradientSync for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.meeting.state().brought.len()
    }

    fn reduce_scatter(
        &self,
        numbers: &[f32],
        lens: &[usize],
        sum: &mut [f32],
        mut onto: SumOnto,
    ) -> Result<(), SyncError> {
        let total: usize = lens.iter().sum();
        SyncError::check_len(numbers.len(), total)?;
        SyncError::check_len(sum.len(), lens[self.rank])?;
        let begin: usize = lens[..self.rank].iter().sum();
        for other in self.exchange(numbers)? {
            SyncError::check_len(other.len(), total)?;
            onto.put(&other[begin..][..sum.len()], sum);
        }
        Ok(())
    }

    fn all_gather(&self, own: &[f32], lens: &[usize], all: &mut [f32]) -> Result<(), SyncError> {
        SyncError::check_len(all.len(), lens.iter().sum())?;
        let mut rest = all;
        for (other, len) in self.exchange(own)?.iter().zip(lens) {
            SyncError::check_len(other.len(), *len)?;
            let (here, after) = rest.split_at_mut(*len);
            here.copy_from_slice(other);
            rest = after;
        }
        Ok(())
    }

    fn broadcast(&self, from: usize, numbers: &mut [f32]) -> Result<(), SyncError> {
        let own: &[f32] = if from == self.rank { numbers } else { &[] };
        let all = self.exchange(own)?;
        let sent = all.get(from).map_or(&[][..], |sent| sent);
        SyncError::check_len(sent.len(), numbers.len())?;
        numbers.copy_from_slice(sent);
        Ok(())
    }

    fn barrier(&self) -> Result<(), SyncError> {
        self.meeting.wait(self.rank, None).map(drop)
    }

    fn give_up(&self, reason: &str) {
        self.meeting.leave(self.rank, reason);
    }
}
