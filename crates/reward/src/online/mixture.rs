//! What share of unlabelled frames are successes, by scores alone.
//!
//! Best bin estimation (Garg, Wu, Smola, Balakrishnan and Lipton, 2021). Successes among the unlabelled frames score as labelled
//! successes do. Above any score c there are therefore at least α q(c) of the unlabelled frames, where α is the share of successes among them and q(c)
//! the share of labelled successes above c; so the ratio of the two shares is never below α, and is α where nothing else scores so
//! high. The smallest ratio is taken, where "smallest" allows for how few frames are above a high c.

/// The confidence of the bound by which c is chosen is 1 − this.
const DELTA: f64 = 0.1;
/// How much wider than the bound the allowance is, as in the paper.
const GAMMA: f64 = 0.01;

/// The share of successes among unlabelled frames. Neither may be empty.
pub(super) fn share_of_successes(successes: &[f64], unlabelled: &[f64]) -> f64 {
    let (successes, unlabelled) = (descending(successes), descending(unlabelled));
    let width = |count: usize| ((4.0 / DELTA).ln() / (2.0 * count.max(1) as f64)).sqrt();
    let allowance = (1.0 + GAMMA) * (width(successes.len()) + width(unlabelled.len()));
    let (mut lowest, mut share) = (f64::INFINITY, 1.0);
    for (at, c) in successes.iter().enumerate() {
        if successes.get(at + 1) == Some(c) {
            continue; // those that score the same are above c together
        }
        let of_successes = (at + 1) as f64 / successes.len() as f64;
        let above = unlabelled.partition_point(|score| score >= c);
        let of_unlabelled = above as f64 / unlabelled.len().max(1) as f64;
        let bound = (of_unlabelled + allowance) / of_successes;
        if bound < lowest {
            (lowest, share) = (bound, of_unlabelled / of_successes);
        }
    }
    share.min(1.0)
}

fn descending(scores: &[f64]) -> Vec<f64> {
    let mut scores = scores.to_vec();
    scores.sort_by(|a, b| b.total_cmp(a));
    scores
}

#[cfg(test)]
mod tests {
    use plaudit_core::Seed;

    use super::*;

    const SHARES: &str = include_str!("mixture/shares.csv");

    /// The same by numpy, from every c and without sorting (`mixture/make_shares.py`).
    #[test]
    fn shares_are_those_of_the_definition() {
        for line in SHARES.lines().skip(1) {
            let values: Vec<f64> = line.split(',').map(|value| value.parse().unwrap()).collect();
            let [count, others, of, every, expected] = values[..] else { panic!("{line}") };
            let scores = |count: f64, step: u64, every: f64| -> Vec<f64> {
                let x = |at: u64| (at * step % of as u64) as f64 / of;
                let score = |at| if at % every as u64 == 0 { 0.4 + 0.6 * x(at) } else { 0.5 * x(at) };
                (0..count as u64).map(score).collect()
            };
            let found = share_of_successes(&scores(count, 7, 1.0), &scores(others, 3, every));
            assert!((found - expected).abs() < 1e-12, "{line}: {found}");
        }
    }

    /// Where tricks score lower than success, however little, the share is found; where they do not, it is too large, never too small.
    #[test]
    fn a_share_is_found_where_scores_tell_and_is_no_smaller_where_they_do_not() {
        let mut rng = Seed::new(1).purpose("mixture").rng();
        let mut scores = |count: usize, mean: f64| -> Vec<f64> {
            (0..count).map(|_| mean + 0.05 * rng.normal()).collect()
        };
        let successes = scores(600, 0.6);
        for (share, tricks, expected) in
            [(0.9, 0.1, 0.9), (0.5, 0.3, 0.5), (0.2, 0.4, 0.2), (0.5, 0.6, 1.0), (0.0, 0.1, 0.0)]
        {
            let of_success = (1000.0 * share) as usize;
            let mixed = [scores(of_success, 0.6), scores(1000 - of_success, tricks)].concat();
            let found = share_of_successes(&successes, &mixed);
            assert!((found - expected).abs() < 0.05, "{share}, tricks at {tricks}: {found}");
        }
    }
}
