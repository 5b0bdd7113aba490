//! The memo of a pickle: numbered places that objects are put in and got from.

use std::collections::HashMap;

use super::heap::Slot;

/// Places are numbered by the file. Honest files count up from zero, which a vector holds; a number that jumps
/// ahead goes to a table, so that a place of four billion costs one entry.
#[derive(Default)]
pub(crate) struct Memo {
    dense: Vec<Slot>,
    sparse: HashMap<u64, Slot>,
}

impl Memo {
    pub(crate) fn put(&mut self, place: u64, slot: Slot) {
        match usize::try_from(place) {
            Ok(index) if index < self.dense.len() => self.dense[index] = slot,
            Ok(index) if index == self.dense.len() => {
                self.sparse.remove(&place);
                self.dense.push(slot);
            }
            _ => {
                self.sparse.insert(place, slot);
            }
        }
    }

    /// Puts an object in the place that `MEMOIZE` means: the number of places in use.
    pub(crate) fn push(&mut self, slot: Slot) {
        self.put((self.dense.len() + self.sparse.len()) as u64, slot);
    }

    pub(crate) fn get(&self, place: u64) -> Option<Slot> {
        usize::try_from(place)
            .ok()
            .and_then(|index| self.dense.get(index))
            .or_else(|| self.sparse.get(&place))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_may_be_anywhere() {
        let mut memo = Memo::default();
        memo.put(u64::from(u32::MAX), Slot::Int(9));
        memo.put(0, Slot::Int(0));
        memo.put(2, Slot::Int(2));
        memo.put(1, Slot::Int(1));
        memo.put(2, Slot::Int(3));
        for (place, want) in [(0, 0), (1, 1), (2, 3), (u64::from(u32::MAX), 9)] {
            assert!(matches!(memo.get(place), Some(Slot::Int(found)) if found == want));
        }
        memo.push(Slot::Int(4));
        assert!(matches!(memo.get(4), Some(Slot::Int(4))));
        assert!(memo.get(3).is_none());
    }
}
