//! Random numbers that depend on *what* they are for, never on *when* or *where* they are sampled.
//!
//! A [`Seed`] names a place in a tree of streams: `run seed / env 17 / episode 3 / reset`. Each name is
//! hashed into a key, and an [`Rng`] counts upwards from zero under that key through Philox4x32-10
//! (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Two threads that sample for
//! different envs can therefore never disturb each other, and a run gives the same numbers on 1 and on 64
//! cores.

/// A place in the tree of random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed {
    key: u64,
    /// What the numbers of the branches count from.
    first: u64,
}

impl Seed {
    /// The root of a tree: what a user writes as `seed: 1234`.
    pub fn new(value: u64) -> Self {
        Self::at(splitmix(value))
    }

    /// The two numbers that name this place, for a message to another machine.
    pub fn to_parts(self) -> [u64; 2] {
        [self.key, self.first]
    }

    /// The place that two numbers of [`Self::to_parts`] name.
    pub fn from_parts([key, first]: [u64; 2]) -> Self {
        Self { key, first }
    }

    fn at(key: u64) -> Self {
        Self { key, first: 0 }
    }

    /// A named branch, for a purpose: `seed.purpose("reset")`.
    #[must_use]
    pub fn purpose(self, name: &str) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325u64; // FNV-1a: short, stable names need no more
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self::at(splitmix(self.key ^ splitmix(hash)))
    }

    /// A numbered branch: one per env, episode, worker or step.
    #[must_use]
    pub fn index(self, number: u64) -> Self {
        let number = number.wrapping_add(self.first);
        Self::at(splitmix(
            self.key.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ splitmix(number ^ 0x5851_f42d_4c95_7f2d),
        ))
    }

    /// The same place, whose branch 0 is its branch `row`. Whoever holds the rows from `row` of a larger batch, and numbers
    /// them from 0, samples what the whole batch would have sampled for them.
    #[must_use]
    pub fn from_row(self, row: u64) -> Self {
        Self { first: self.first.wrapping_add(row), ..self }
    }

    /// The generator at this place, at the start of its stream.
    pub fn rng(self) -> Rng {
        Rng { key: [self.key as u32, (self.key >> 32) as u32], position: 0, block: [0; 4] }
    }
}

/// SplitMix64's finaliser: every bit of the input changes about half of the output.
fn splitmix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A stream of random numbers. Its whole state is a key and a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    key: [u32; 2],
    position: u64,
    block: [u32; 4],
}

impl Rng {
    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        let lane = (self.position % 4) as usize;
        if lane == 0 {
            self.block = philox(self.counter(self.position / 4), self.key);
        }
        self.position += 1;
        self.block[lane]
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform among `0..n`, without the bias of a remainder.
    ///
    /// # Panics
    /// If `n` is zero: there is nothing to choose from.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "a choice among nothing");
        let n = n as u64;
        loop {
            let product = u128::from(self.u64()) * u128::from(n);
            // Lemire's method: the low half shows whether this sample fell into the uneven rest.
            if product as u64 >= n.wrapping_neg() % n {
                return (product >> 64) as usize;
            }
        }
    }

    /// Standard normal (Box-Muller; the second value is dropped so that every sample costs the same).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Fisher-Yates, from the end.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    fn counter(&self, block: u64) -> [u32; 4] {
        [block as u32, (block >> 32) as u32, 0, 0]
    }
}

/// Philox4x32 with ten rounds: a counter and a key in, four random words out.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let left = u64::from(counter[0]) * 0xd251_1f53;
        let right = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (right >> 32) as u32 ^ counter[1] ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ counter[3] ^ key[1],
            left as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The published known answers of Random123's philox4x32-10.
    #[test]
    fn philox_gives_the_published_answers() {
        let check = |counter, key, expected: [u32; 4]| assert_eq!(philox(counter, key), expected);
        check([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let mut rng = Seed::new(7).rng();
        let samples: Vec<f64> = (0..200_000).map(|_| rng.normal()).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        // Four standard errors: 4/sqrt(200000) = 0.009 for the mean, sqrt(2) times that for the variance.
        assert!(mean.abs() < 0.009, "{mean}");
        assert!((variance - 1.0).abs() < 0.013, "{variance}");
    }

    #[test]
    fn branches_differ_and_do_not_depend_on_order() {
        let root = Seed::new(1);
        let mut seen = std::collections::HashSet::new();
        for env in 0..100 {
            for episode in 0..100 {
                assert!(seen.insert(root.purpose("reset").index(env).index(episode).rng().u64()));
            }
        }
        assert_ne!(root.purpose("reset").rng().u64(), root.purpose("policy").rng().u64());
        assert_ne!(root.index(1).index(2).rng().u64(), root.index(2).index(1).rng().u64());
    }

    proptest! {
        #[test]
        fn rows_of_a_part_sample_what_the_whole_samples(seed: u64, first in 0u64..1000, row in 0u64..1000) {
            let seed = Seed::new(seed).index(3);
            prop_assert_eq!(seed.from_row(first).index(row), seed.index(first + row));
            prop_assert_eq!(seed.from_row(first).index(row).index(row), seed.index(first + row).index(row));
        }

        #[test]
        fn below_stays_below(seed: u64, n in 1usize..1000) {
            prop_assert!(Seed::new(seed).rng().below(n) < n);
        }

        #[test]
        fn a_shuffle_keeps_every_item(seed: u64, n in 0usize..50) {
            let mut items: Vec<usize> = (0..n).collect();
            Seed::new(seed).rng().shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..n).collect::<Vec<_>>());
        }
    }
}
