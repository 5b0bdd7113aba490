//! Memory that requests hold: what has arrived of them, and what it is decoded to. One client cannot have all of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ApiError;
use crate::limits::Limits;

/// What there is to hold.
pub(crate) struct MemoryBudget {
    bytes: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// What a request holds, until it is dropped.
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    client: IpAddr,
    bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, held: Mutex::default() })
    }

    /// Room for a request that holds nothing yet.
    pub(crate) fn request(self: &Arc<Self>, client: IpAddr) -> Reservation {
        Reservation { budget: self.clone(), client, bytes: 0 }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Holds so many bytes more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let (alone, most) = (self.bytes.saturating_add(bytes), Limits::client_share(self.budget.bytes));
        if alone > most {
            // It would not fit either if nobody else was here, so that there is no use in trying again.
            return Err(ApiError::too_large(format!(
                "the request has {} MiB as sent and decoded, where {} MiB are allowed",
                alone.div_ceil(1 << 20),
                most >> 20
            )));
        }
        let mut held = self.budget.held();
        let own = held.by_client.get(&self.client).copied().unwrap_or(0).saturating_add(bytes);
        if held.all.saturating_add(bytes) > self.budget.bytes {
            return Err(ApiError::overloaded("running requests use all of this server's memory"));
        }
        if own > most {
            return Err(ApiError::overloaded(
                "your running requests use all of the memory that one client may have",
            ));
        }
        held.all += bytes;
        held.by_client.insert(self.client, own);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.all -= self.bytes;
        if let Some(own) = held.by_client.get_mut(&self.client) {
            *own -= self.bytes;
            if *own == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_for_others_and_what_is_dropped_is_free_again() {
        let budget = MemoryBudget::new(100);
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut first = budget.request(one);
        first.grow(50).unwrap();
        let mut second = budget.request(one);
        let error = second.grow(26).unwrap_err();
        assert!(error.message.contains("one client") && error.retry_after == Some(1), "{error}");
        second.grow(25).unwrap();
        let mut third = budget.request(other);
        assert!(third.grow(26).unwrap_err().message.contains("all of this server's memory"));
        third.grow(25).unwrap();
        let error = third.grow(51).unwrap_err();
        assert_eq!((error.status.as_u16(), error.retry_after), (413, None), "never fits: {error}");
        drop(first);
        third.grow(50).unwrap();
        drop((second, third));
        let held = budget.held();
        assert!(held.all == 0 && held.by_client.is_empty());
    }
}
