//! Whether votes go with the environment's own measure of progress.

use plaudit_core::Seed;
use serde::Serialize;

use super::super::bootstrap::{Interval, bootstrap_interval};
use super::super::spearman;
use super::ScoredWindows;

/// Parts of about as many windows each that votes are averaged over.
const PARTS: usize = 10;

/// How votes and progress go together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Windows of which progress is known.
    pub windows: usize,
    /// Rank correlation of votes with progress, over all windows.
    pub rank: Option<Interval>,
    /// The same within an episode: the median of those in which both vary.
    pub rank_within_episodes: Option<f64>,
    /// Share of the windows of better and worse whose vote has the sign of their progress.
    pub same_direction: Option<f64>,
    /// Mean vote over windows of like progress, the least first.
    pub by_progress: Vec<VotesAtProgress>,
}

/// Windows of like progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VotesAtProgress {
    /// Their mean progress.
    pub progress: f64,
    /// Their mean vote.
    pub vote: f64,
    /// One vote in ten is lower.
    pub low: f64,
    /// One vote in ten is higher.
    pub high: f64,
    /// How many there are.
    pub windows: usize,
}

/// Compares votes with progress; `None` where no window says by how much things grew.
#[must_use]
pub fn agreement(windows: &ScoredWindows, temperature: f64, resamples: u64, seed: Seed) -> Option<Agreement> {
    let votes = windows.votes(temperature);
    let known = |numbers: &[usize]| -> (Vec<f64>, Vec<f64>) {
        numbers.iter().filter_map(|at| Some((votes[*at], windows.progress[*at]?))).unzip()
    };
    let all: Vec<usize> = (0..votes.len()).collect();
    let (all_votes, all_progress) = known(&all);
    if all_votes.is_empty() {
        return None;
    }
    let rank = bootstrap_interval(windows.episodes.len(), resamples, seed.purpose("agreement"), |chosen| {
        let numbers: Vec<usize> =
            chosen.iter().flat_map(|at| windows.episodes[*at].iter().copied()).collect();
        let (votes, progress) = known(&numbers);
        spearman(&votes, &progress)
    });
    let of_episode = |numbers: &Vec<usize>| {
        let (votes, progress) = known(numbers);
        spearman(&votes, &progress)
    };
    let mut within: Vec<f64> = windows.episodes.iter().filter_map(of_episode).collect();
    within.sort_by(f64::total_cmp);
    let moving = all.iter().filter(|at| windows.truth[**at] < 2);
    let signs: Vec<bool> = moving.filter_map(|at| Some(votes[*at] * windows.progress[*at]? > 0.0)).collect();
    let same = signs.iter().filter(|same| **same).count();
    Some(Agreement {
        windows: all_votes.len(),
        rank,
        rank_within_episodes: within.get(within.len() / 2).copied(),
        same_direction: (!signs.is_empty()).then(|| same as f64 / signs.len() as f64),
        by_progress: by_progress(&all_votes, &all_progress),
    })
}

fn by_progress(votes: &[f64], progress: &[f64]) -> Vec<VotesAtProgress> {
    let mut order: Vec<usize> = (0..votes.len()).collect();
    order.sort_by(|a, b| progress[*a].total_cmp(&progress[*b]));
    let part = |numbers: &[usize]| {
        let mean = |column: &[f64]| numbers.iter().map(|at| column[*at]).sum::<f64>() / numbers.len() as f64;
        let mut sorted: Vec<f64> = numbers.iter().map(|at| votes[*at]).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        VotesAtProgress {
            progress: mean(progress),
            vote: mean(votes),
            low: at(0.1),
            high: at(0.9),
            windows: numbers.len(),
        }
    };
    order.chunks(order.len().div_ceil(PARTS).max(1)).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::scored;
    use super::*;

    #[test]
    fn votes_that_grow_with_progress_agree() {
        let progress: Vec<f64> = (0..60).map(|at| (at as f64 - 30.0) / 10.0).collect();
        let logits: Vec<[f32; 3]> =
            progress.iter().map(|score| [*score as f32, -*score as f32, 0.0]).collect();
        let truth: Vec<usize> = progress
            .iter()
            .map(|score| {
                if *score > 0.0 {
                    0
                } else if *score < 0.0 {
                    1
                } else {
                    2
                }
            })
            .collect();
        let mut windows = scored(&logits, &truth, 6);
        assert_eq!(agreement(&windows, 1.0, 10, Seed::new(1)), None, "nobody knows how things grew");
        windows.progress = progress.iter().copied().map(Some).collect();
        let found = agreement(&windows, 1.0, 50, Seed::new(1)).unwrap();
        assert!(found.rank.unwrap().value > 0.999 && found.rank.unwrap().low > 0.99);
        assert_eq!(found.rank_within_episodes, Some(1.0));
        assert_eq!((found.windows, found.same_direction), (60, Some(1.0)));
        assert_eq!(found.by_progress.len(), 10);
        assert!(found.by_progress.windows(2).all(|pair| pair[0].vote < pair[1].vote));
        windows.progress = progress.iter().map(|score| Some(-score)).collect();
        let turned = agreement(&windows, 1.0, 50, Seed::new(1)).unwrap();
        assert!(turned.rank.unwrap().value < -0.999 && turned.same_direction == Some(0.0));
    }
}
