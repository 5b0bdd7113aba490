//! A store of what was made lately, which never holds more than so much.

use std::collections::HashMap;
use std::hash::Hash;

/// What was made lately, by key.
pub(crate) struct Lru<K, V> {
    most: usize,
    held: usize,
    clock: u64,
    entries: HashMap<K, Entry<V>>,
}

struct Entry<V> {
    value: V,
    cost: usize,
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Lru<K, V> {
    /// Holds values that cost no more than this together.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: 0, clock: 0, entries: HashMap::new() }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    /// Keeps a value. What was not used for longest goes first; a value that costs more than all may is not kept.
    pub(crate) fn put(&mut self, key: K, value: V, cost: usize) {
        self.remove(&key);
        if cost > self.most {
            return;
        }
        while self.held + cost > self.most {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
        self.clock += 1;
        self.held += cost;
        self.entries.insert(key, Entry { value, cost, used: self.clock });
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.held -= entry.cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut kept = Lru::new(10);
        kept.put("a", 1, 4);
        kept.put("b", 2, 4);
        assert_eq!(kept.get(&"a"), Some(1));
        kept.put("c", 3, 4);
        assert_eq!((kept.get(&"a"), kept.get(&"b"), kept.get(&"c")), (Some(1), None, Some(3)));
        kept.put("d", 4, 11);
        assert_eq!(kept.get(&"d"), None, "too large");
        kept.put("a", 5, 9);
        assert_eq!((kept.get(&"a"), kept.get(&"c"), kept.held), (Some(5), None, 9));
    }
}
