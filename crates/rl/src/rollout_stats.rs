//! What is logged of the rollouts of one step of learning.

use std::sync::Arc;
use std::time::Duration;

use plaudit_core::RewardColumn;

use crate::control_stats::ControlStats;
use crate::{Episode, Metrics};

/// Statistics of the rollouts of one step of learning.
#[derive(Default)]
pub(crate) struct RolloutStats {
    /// Episodes that ended and are worth something.
    episodes: Vec<Episode>,
    /// Episodes that ended worthless.
    invalid: u64,
    env_steps: usize,
    /// Episodes that the reward scored, and those it saw solved.
    reward_success: Option<(u64, u64)>,
    terms: Vec<(Arc<str>, f64, usize)>,
    reward_secs: f64,
    /// How often a reward was asked again.
    reward_retries: u64,
    breakable: Option<BreakableStats>,
}

/// Where rows that may break are after a rollout.
#[derive(Debug, Clone, Copy)]
struct BreakableStats {
    /// Steps since the first start.
    total_steps: u64,
    /// Median and 99th percentile of the control period since this start, seconds.
    periods: Option<(f64, f64)>,
    broken_limits: Option<f64>,
}

impl RolloutStats {
    /// A rollout was played, and these episodes ended in it.
    pub(crate) fn add_rollout(&mut self, env_steps: usize, finished: Vec<Episode>) {
        self.env_steps += env_steps;
        let (invalid, sound): (Vec<_>, Vec<_>) = finished.into_iter().partition(|episode| episode.invalid);
        self.invalid += invalid.len() as u64;
        self.episodes.extend(sound);
    }

    /// The rollout was of rows that may break.
    pub(crate) fn add_breakable(&mut self, total_steps: u64, facts: &ControlStats) {
        let periods = facts.quantile(0.5).zip(facts.quantile(0.99));
        self.breakable = Some(BreakableStats { total_steps, periods, broken_limits: facts.broken_limits() });
    }

    /// A rollout was labelled; `success` counts the episodes that the reward scored, and those it saw solved.
    pub(crate) fn add_reward(&mut self, reward: &RewardColumn, success: Option<(u64, u64)>, took: Duration) {
        self.reward_secs += took.as_secs_f64();
        for term in &reward.terms {
            let sum = term.values.iter().map(|&value| f64::from(value)).sum();
            self.add_term(term.name.clone(), sum, term.values.len());
        }
        self.add_reward_success(success);
    }

    /// The reward failed, and is asked again.
    pub(crate) fn add_reward_retry(&mut self) {
        self.reward_retries += 1;
    }

    pub(crate) fn reward_secs(&self) -> f64 {
        self.reward_secs
    }

    /// Steps of all environments.
    pub(crate) fn env_steps(&self) -> usize {
        self.env_steps
    }

    fn add_term(&mut self, name: Arc<str>, sum: f64, count: usize) {
        match self.terms.iter_mut().find(|(other, ..)| *other == name) {
            Some((_, total, values)) => (*total, *values) = (*total + sum, *values + count),
            None => self.terms.push((name, sum, count)),
        }
    }

    fn add_reward_success(&mut self, success: Option<(u64, u64)>) {
        if let Some((episodes, solved)) = success {
            let counts = self.reward_success.get_or_insert((0, 0));
            *counts = (counts.0 + episodes, counts.1 + solved);
        }
    }

    /// Adds the statistics of a later rollout.
    pub(crate) fn merge(&mut self, later: Self) {
        self.episodes.extend(later.episodes);
        self.invalid += later.invalid;
        self.env_steps += later.env_steps;
        self.reward_secs += later.reward_secs;
        self.reward_retries += later.reward_retries;
        self.breakable = later.breakable.or(self.breakable);
        for (name, sum, count) in later.terms {
            self.add_term(name, sum, count);
        }
        self.add_reward_success(later.reward_success);
    }

    /// Means over the episodes that ended, under RLinf's names, and each term of the reward.
    pub(crate) fn push_to(&self, metrics: &mut Metrics) {
        let n = self.episodes.len() as f64;
        if !self.episodes.is_empty() {
            let mean = |of: fn(&Episode) -> f64| self.episodes.iter().map(of).sum::<f64>() / n;
            let once = mean(|episode| f64::from(u8::from(episode.success_once)));
            metrics.push("env/success_once", once);
            metrics.push("env/success_at_end", mean(|episode| f64::from(u8::from(episode.success_at_end))));
            metrics.push("env/return", mean(|episode| episode.env_return));
            metrics.push("env/episode_len", mean(|episode| episode.length as f64));
            metrics.push("env/reward", mean(|episode| episode.env_return / episode.length as f64));
            if let Some((scored, solved)) = self.reward_success.filter(|(scored, _)| *scored > 0) {
                metrics.push("env/success_true", once);
                metrics.push("env/success_by_model", solved as f64 / scored as f64);
            }
        }
        metrics.push("env/num_trajectories", n);
        if let Some(breakable) = self.breakable {
            self.push_breakable(breakable, metrics);
        }
        for (name, sum, count) in &self.terms {
            metrics.push(format!("reward/{name}"), sum / (*count).max(1) as f64);
        }
    }

    fn push_breakable(&self, breakable: BreakableStats, metrics: &mut Metrics) {
        if !self.episodes.is_empty() {
            let n = self.episodes.len() as f64;
            let alone = self.episodes.iter().filter(|episode| episode.success_alone).count();
            let steps: u64 = self.episodes.iter().map(|episode| episode.length).sum();
            let by_person: u64 = self.episodes.iter().map(|episode| episode.person_steps).sum();
            metrics.push("env/success_alone", alone as f64 / n);
            metrics.push("env/intervened", by_person as f64 / steps as f64);
        }
        metrics.push("env/invalid_episodes", self.invalid as f64);
        metrics.push("env/total_steps", breakable.total_steps as f64);
        if let Some((median, p99)) = breakable.periods {
            metrics.push("env/control_period_p50", median);
            metrics.push("env/control_period_p99", p99);
        }
        if let Some(broken) = breakable.broken_limits {
            metrics.push("env/broken_limits", broken);
        }
        if self.reward_retries > 0 {
            metrics.push("reward/retries", self.reward_retries as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::End;

    use super::*;
    use crate::episodes::new_episode;

    fn episode(success_alone: bool, person_steps: u64, invalid: bool) -> Episode {
        Episode {
            length: 10,
            success_once: true,
            success_alone,
            person_steps,
            invalid,
            end: End::Truncated,
            ..new_episode(0)
        }
    }

    #[test]
    fn broken_episodes_are_counted_apart_and_success_alone_is_the_policys() {
        let mut stats = RolloutStats::default();
        stats
            .add_rollout(25, vec![episode(true, 0, false), episode(false, 5, false), episode(true, 0, true)]);
        stats.add_breakable(25, &ControlStats::default());
        let mut later = RolloutStats::default();
        later.add_rollout(10, vec![episode(true, 0, false), episode(true, 1, false)]);
        later.add_breakable(35, &ControlStats::default());
        stats.merge(later);
        let mut metrics = Metrics::default();
        stats.push_to(&mut metrics);
        let value = |name: &str| metrics.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        assert_eq!(value("env/num_trajectories"), Some(4.0));
        assert_eq!(value("env/invalid_episodes"), Some(1.0));
        assert_eq!(value("env/success_alone"), Some(0.75));
        assert_eq!(value("env/intervened"), Some(0.15));
        assert_eq!(value("env/total_steps"), Some(35.0));
        assert_eq!(value("env/control_period_p50"), None, "nobody measured it");
        assert_eq!(stats.env_steps(), 35);
    }
}
