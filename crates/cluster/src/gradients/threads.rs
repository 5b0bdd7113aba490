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

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the work on every rank.
    fn on<T: Send>(
        world: usize,
        work: impl Fn(&dyn GradientSync) -> T + Sync,
    ) -> Vec<std::thread::Result<T>> {
        let work = &work;
        std::thread::scope(|scope| {
            let started: Vec<_> =
                ranks(world).into_iter().map(|rank| scope.spawn(move || work(&rank))).collect();
            started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        })
    }

    /// Numbers whose sum depends on the order.
    const NUMBERS: [f32; 3] = [1e8, 1.0, -1e8];

    #[test]
    fn sums_are_in_the_order_of_ranks() {
        let sums = on(3, |rank| {
            let own = [NUMBERS[rank.rank()], 2.0, rank.rank() as f32, 1.0];
            let (lens, mut sum) = ([1, 0, 3], vec![5.0; [1, 0, 3][rank.rank()]]);
            rank.reduce_scatter(&own, &lens, &mut sum, SumOnto::Nothing).unwrap();
            let mut all = [0.0; 4];
            rank.all_gather(&sum, &lens, &mut all).unwrap();
            rank.reduce_scatter(&own, &lens, &mut sum, SumOnto::Previous).unwrap();
            let mut mean = [NUMBERS[rank.rank()]; 2];
            rank.all_reduce_mean(&mut mean).unwrap();
            (all, sum, mean)
        });
        let sums: Vec<_> = sums.into_iter().map(Result::unwrap).collect();
        // (1e8 + 1) - 1e8 is 0 in single precision: the 1 is lost in the order of ranks.
        assert!(
            sums.iter().all(|(all, _, mean)| *all == [0.0, 6.0, 3.0, 3.0] && *mean == [0.0; 2]),
            "{sums:?}"
        );
        assert_eq!(sums[2].1, [12.0, 6.0, 6.0]);
    }

    #[test]
    fn words_and_numbers_reach_everybody() {
        let received = on(2, |rank| {
            let text = rank.broadcast_text(1, if rank.rank() == 1 { "grüezi" } else { "no" }).unwrap();
            (text, rank.gather_f64(0.1 + rank.rank() as f64).unwrap(), rank.any(rank.rank() == 1).unwrap())
        });
        for rank in received {
            assert_eq!(rank.unwrap(), ("grüezi".to_string(), vec![0.1, 1.1], true));
        }
    }

    #[test]
    fn nobody_waits_for_a_rank_that_is_gone() {
        let ended = on(3, |rank| match rank.rank() {
            0 => panic!("as it happens"),
            1 => Err(SyncError::Transport { reason: "own".into() }),
            _ => rank.barrier(),
        });
        let last = ended.into_iter().next_back().unwrap().unwrap().unwrap_err();
        let SyncError::Peer { rank, reason } = last else { panic!("{last}") };
        assert!(
            rank < 2 && (reason == "it panicked" || reason == "it stopped before the others"),
            "{reason}"
        );
    }

    #[test]
    fn whoever_differs_is_named() {
        let refused = on(3, |rank| {
            let config = if rank.rank() == 2 { "lr: 1\nseed: 2" } else { "lr: 1\nseed: 1" };
            rank.same_text("another config", config).unwrap_err().to_string()
        });
        let refused: Vec<String> = refused.into_iter().map(Result::unwrap).collect();
        let own = "rank 2 has another config than rank 0: `seed: 1` there, `seed: 2` here";
        assert_eq!(refused, [format!("rank 2 ended: {own}"), format!("rank 2 ended: {own}"), own.into()]);
    }

    #[test]
    fn slices_that_do_not_fit_are_refused() {
        let refused =
            on(2, |rank| rank.reduce_scatter(&[1.0], &[1, 1], &mut [0.0], SumOnto::Nothing).unwrap_err());
        for error in refused {
            assert_eq!(error.unwrap(), SyncError::Length { len: 1, expected: 2 });
        }
    }
}
