//! What scores of several runs on several tasks come to, and how sure that is.
//!
//! Interquartile mean, probability of improvement and performance profiles are those of "Deep Reinforcement
//! Learning at the Edge of the Statistical Precipice" (Agarwal et al., 2021), computed as the `rliable`
//! package does; its outputs are the fixture of the tests. Intervals are percentiles of a stratified
//! bootstrap: runs are sampled anew within each task. The bootstrap has its own seed, so that the same scores
//! have the same intervals.

use plaudit_core::{Rng, Seed};

use crate::report::{Interval, interquartile_mean};

/// Resamples behind an interval.
const RESAMPLES: u64 = 10_000;

/// The scores of one method: for each task, one of each run. A task without a finite score is left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores(Vec<Vec<f64>>);

/// One number for all scores of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The mean of the middle half of all runs of all tasks.
    InterquartileMean,
    /// The median over tasks of the mean over runs.
    Median,
    /// The mean over tasks of the mean over runs.
    Mean,
}

impl Scores {
    /// Scores by task. What is not finite is left out.
    #[must_use]
    pub fn new(tasks: Vec<Vec<f64>>) -> Self {
        let finite =
            |runs: Vec<f64>| -> Vec<f64> { runs.into_iter().filter(|score| score.is_finite()).collect() };
        Self(tasks.into_iter().map(finite).filter(|runs| !runs.is_empty()).collect())
    }

    /// How many scores there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn means(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().map(|runs| mean(runs.iter().copied()))
    }

    /// The number.
    #[must_use]
    pub fn aggregate(&self, aggregate: Aggregate) -> f64 {
        match aggregate {
            Aggregate::InterquartileMean => interquartile_mean(&self.0.concat()),
            Aggregate::Mean => mean(self.means()),
            Aggregate::Median => {
                let mut means: Vec<f64> = self.means().collect();
                means.sort_by(f64::total_cmp);
                percentile(&means, 0.5)
            }
        }
    }

    /// The number with its 95 % interval.
    #[must_use]
    pub fn interval(&self, aggregate: Aggregate) -> Interval {
        let seed = Seed::new(0).purpose("stratified bootstrap");
        let resampled = |index| self.resample(&mut seed.index(index).rng()).aggregate(aggregate);
        interval(self.aggregate(aggregate), (0..RESAMPLES).map(resampled).collect())
    }

    /// The share of runs above each threshold, with its 95 % interval.
    #[must_use]
    pub fn profile(&self, thresholds: &[f64]) -> Vec<Interval> {
        let seed = Seed::new(0).purpose("performance profile");
        let samples: Vec<Self> =
            (0..RESAMPLES / 10).map(|index| self.resample(&mut seed.index(index).rng())).collect();
        let at = |threshold: &f64| {
            let found = samples.iter().map(|sample| sample.share_above(*threshold)).collect();
            interval(self.share_above(*threshold), found)
        };
        thresholds.iter().map(at).collect()
    }

    fn share_above(&self, threshold: f64) -> f64 {
        let all = self.0.concat();
        all.iter().filter(|score| **score > threshold).count() as f64 / all.len() as f64
    }

    /// As many runs of each task, sampled among its own.
    fn resample(&self, rng: &mut Rng) -> Self {
        let mut of = |runs: &Vec<f64>| runs.iter().map(|_| runs[rng.below(runs.len())]).collect();
        Self(self.0.iter().map(&mut of).collect())
    }
}

/// How probable it is that a run of `one` is better than a run of `other`, averaged over tasks, with its 95 %
/// interval; equal runs count half. Nothing where they have not the same tasks.
#[must_use]
pub fn probability_of_improvement(one: &Scores, other: &Scores) -> Option<Interval> {
    if one.0.len() != other.0.len() || one.is_empty() {
        return None;
    }
    let seed = Seed::new(0).purpose("probability of improvement");
    let resampled = |index| {
        let mut rng = seed.index(index).rng();
        let (one, other) = (one.resample(&mut rng), other.resample(&mut rng));
        improvement(&one, &other)
    };
    Some(interval(improvement(one, other), (0..RESAMPLES).map(resampled).collect()))
}

fn improvement(one: &Scores, other: &Scores) -> f64 {
    let of_task = |(one, other): (&Vec<f64>, &Vec<f64>)| {
        let wins = |score: &f64| -> f64 {
            other.iter().map(|than| if score > than { 1.0 } else { f64::from(score == than) / 2.0 }).sum()
        };
        one.iter().map(wins).sum::<f64>() / (one.len() * other.len()) as f64
    };
    mean(one.0.iter().zip(&other.0).map(of_task))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_usize, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / count as f64
}

fn interval(middle: f64, mut found: Vec<f64>) -> Interval {
    found.sort_by(f64::total_cmp);
    Interval { middle, low: percentile(&found, 0.025), high: percentile(&found, 0.975) }
}

/// A percentile of sorted values, between two of them where it lies there.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1)) as f64 * share;
    let (below, part) = (place.floor() as usize, place.fract());
    match (sorted.get(below), sorted.get(below + 1)) {
        (Some(low), Some(high)) => low + part * (high - low),
        (Some(only), None) => *only,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_scores_are_left_out_and_others_decide() {
        let scores = Scores::new(vec![vec![0.5, f64::NAN], vec![], vec![1.0]]);
        assert_eq!(scores.len(), 2);
        assert_eq!(scores.aggregate(Aggregate::Mean), 0.75);
        assert!(Scores::new(vec![vec![f64::NAN]]).is_empty());
        assert!(Scores::default().aggregate(Aggregate::Mean).is_nan());
    }

    #[test]
    fn improvement_needs_the_same_tasks_and_equal_runs_count_half() {
        let of = |tasks: &[&[f64]]| Scores::new(tasks.iter().map(|runs| runs.to_vec()).collect());
        let both = |one: &[&[f64]], other: &[&[f64]]| probability_of_improvement(&of(one), &of(other));
        assert_eq!(both(&[&[1.0]], &[&[0.0], &[1.0]]), None);
        assert_eq!(both(&[&[1.0, 1.0]], &[&[1.0]]).unwrap().middle, 0.5);
        let certain = both(&[&[2.0, 3.0]], &[&[1.0, 0.0]]).unwrap();
        assert_eq!((certain.low, certain.middle, certain.high), (1.0, 1.0, 1.0));
    }

    #[test]
    fn one_run_has_no_spread_and_the_same_scores_the_same_interval() {
        let one = Scores::new(vec![vec![0.25]]).interval(Aggregate::InterquartileMean);
        assert_eq!((one.low, one.middle, one.high), (0.25, 0.25, 0.25));
        let several = Scores::new(vec![vec![0.1, 0.4, 0.8]]);
        let twice = [0, 1].map(|_| several.interval(Aggregate::InterquartileMean));
        assert_eq!(twice[0], twice[1]);
        assert!(twice[0].low < twice[0].middle && twice[0].middle < twice[0].high);
    }
}
