//! Python's `random.Random(seed)`, bit for bit, so that splits and shuffles equal those of Python's tools.
//!
//! The generator is MT19937 (Matsumoto and Nishimura, 1998), seeded by `init_by_array` with the absolute value of
//! the seed as 32-bit words. Everything above it follows CPython: `getrandbits`, rejection in `randbelow`, and
//! `shuffle` from the end.

const WORDS: usize = 624;
const MIDDLE: usize = 397;
const MATRIX: u32 = 0x9908_b0df;

/// The generator behind Python's `random.Random`.
///
/// ```
/// use plaudit_data::convert::PythonRandom;
///
/// let mut random = PythonRandom::new(42);
/// let mut items: Vec<u32> = (0..10).collect();
/// random.shuffle(&mut items);
/// assert_eq!(items, [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]); // as `random.Random(42).shuffle(list(range(10)))`
/// ```
#[derive(Clone, Debug)]
pub struct PythonRandom {
    state: Box<[u32; WORDS]>,
    next: usize,
}

impl PythonRandom {
    /// As `random.Random(seed)`. A seed and its negative give the same numbers, as they do in Python.
    #[must_use]
    pub fn new(seed: i64) -> Self {
        let size = seed.unsigned_abs();
        Self::from_words(&[size as u32, (size >> 32) as u32])
    }

    /// As `random.Random(seed)` for a seed of any size: the words of its absolute value, least first.
    #[must_use]
    pub fn from_words(words: &[u32]) -> Self {
        let used = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
        let zero = [0];
        let key = if words.is_empty() { &zero[..] } else { &words[..used] };
        let mut state = start(19_650_218);
        let mut at = 1;
        for round in 0..WORDS.max(key.len()) {
            let index = round % key.len();
            let mixed = mix(&state, at, 1_664_525);
            state[at] = mixed.wrapping_add(key[index]).wrapping_add(index as u32);
            at = step(&mut state, at);
        }
        for _ in 1..WORDS {
            state[at] = mix(&state, at, 1_566_083_941).wrapping_sub(at as u32);
            at = step(&mut state, at);
        }
        state[0] = 0x8000_0000;
        Self { state, next: WORDS }
    }

    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// As `getrandbits(count)`, for up to 64 bits; of one word the upper bits are used.
    ///
    /// # Panics
    /// If more than 64 bits are asked for.
    pub fn bits(&mut self, count: u32) -> u64 {
        assert!(count <= 64, "{count} bits do not fit 64");
        let mut bits = 0;
        for shift in (0..count).step_by(32) {
            let wanted = (count - shift).min(32);
            bits |= u64::from(self.u32() >> (32 - wanted)) << shift;
        }
        bits
    }

    /// As `randrange(limit)`: uniform among `0..limit`, by rejection sampling.
    ///
    /// # Panics
    /// If `limit` is zero: there is nothing to choose from.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "a choice among nothing");
        let count = usize::BITS - limit.leading_zeros();
        loop {
            let value = self.bits(count);
            if value < limit as u64 {
                return value as usize;
            }
        }
    }

    /// As `random()`: uniform in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let (high, low) = (self.u32() >> 5, self.u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// As `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    fn twist(&mut self) {
        let state = &mut self.state;
        for at in 0..WORDS {
            let joined = (state[at] & 0x8000_0000) | (state[(at + 1) % WORDS] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { MATRIX } else { 0 };
            state[at] = state[(at + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }
}

fn start(seed: u32) -> Box<[u32; WORDS]> {
    let mut state = Box::new([seed; WORDS]);
    for at in 1..WORDS {
        let before = state[at - 1];
        state[at] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(at as u32);
    }
    state
}

fn mix(state: &[u32; WORDS], at: usize, factor: u32) -> u32 {
    let before = state[at - 1];
    state[at] ^ (before ^ (before >> 30)).wrapping_mul(factor)
}

/// The next index; past the end the last word becomes the first, and it goes on at the second.
fn step(state: &mut [u32; WORDS], at: usize) -> usize {
    if at + 1 < WORDS {
        return at + 1;
    }
    state[0] = state[WORDS - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn oracle() -> Value {
        serde_json::from_str(include_str!("../../tests/convert/python_random.json")).unwrap()
    }

    fn numbers(value: &Value) -> Vec<u64> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    }

    #[test]
    fn random_numbers_equal_pythons() {
        for case in oracle()["draws"].as_array().unwrap() {
            let words: Vec<u32> = numbers(&case["words"]).iter().map(|word| *word as u32).collect();
            let mut random = PythonRandom::from_words(&words);
            if let Some(seed) = case["seed"].as_i64() {
                assert_eq!(PythonRandom::new(seed).state, random.state, "seed {seed}");
            }
            let name = &case["name"];
            assert_eq!([(); 3].map(|()| random.bits(32)).to_vec(), numbers(&case["bits32"]), "{name}");
            for [count, expected] in case["bits"].as_array().unwrap().iter().map(|pair| {
                let pair = numbers(pair);
                [pair[0], pair[1]]
            }) {
                assert_eq!(random.bits(count as u32), expected, "{count} bits of {name}");
            }
            let units: Vec<u64> = (0..4).map(|_| random.unit().to_bits()).collect();
            assert_eq!(units, numbers(&case["random_as_bits"]), "{name}");
            for pair in case["below"].as_array().unwrap() {
                let pair = numbers(pair);
                assert_eq!(random.below(pair[0] as usize) as u64, pair[1], "below {} of {name}", pair[0]);
            }
        }
    }

    /// Shuffles of 0 to 200 items and of some thousands in one stream each: one wrong random number anywhere shows.
    #[test]
    fn shuffles_of_all_lengths_equal_pythons() {
        for case in oracle()["shuffles"].as_array().unwrap() {
            let mut random = PythonRandom::new(case["seed"].as_i64().unwrap());
            for pair in case["crc_by_length"].as_array().unwrap() {
                let pair = numbers(pair);
                let mut items: Vec<u32> = (0..pair[0] as u32).collect();
                random.shuffle(&mut items);
                let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
                assert_eq!(u64::from(crc32fast::hash(&bytes)), pair[1], "{} items", pair[0]);
            }
        }
    }

    #[test]
    fn the_published_values() {
        let mut random = PythonRandom::new(42);
        assert_eq!([(); 3].map(|()| random.bits(32)), [2_746_317_213, 478_163_327, 107_420_369]);
    }

    proptest! {
        #[test]
        fn a_shuffle_keeps_every_item(seed: i64, length in 0usize..300) {
            let mut items: Vec<usize> = (0..length).collect();
            PythonRandom::new(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..length).collect::<Vec<_>>());
        }

        #[test]
        fn random_numbers_stay_below(seed: i64, limit in 1usize..1 << 40) {
            prop_assert!(PythonRandom::new(seed).below(limit) < limit);
        }
    }
}
