//! Says when a learned reward stays the same, step after step: nothing can be learned from it.

use std::sync::{Arc, Mutex, PoisonError};

use plaudit_core::RewardColumn;

/// Steps of environments with one and the same reward, after which the run says so; then after ten times as many.
const CONSTANT_STEPS: u64 = 20_000;

/// Counts steps since the reward last changed. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct ConstantReward(Arc<Mutex<Count>>);

#[derive(Debug, Clone, Copy)]
struct Count {
    value: Option<f32>,
    steps: u64,
    /// When it is said next.
    due: u64,
}

impl Default for Count {
    fn default() -> Self {
        Self { value: None, steps: 0, due: CONSTANT_STEPS }
    }
}

impl ConstantReward {
    /// Takes the rewards of a segment.
    pub(super) fn take(&self, column: &RewardColumn) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for reward in &column.total {
            if count.value.is_some_and(|value| value != *reward) {
                *count = Count::default();
            }
            count.value = Some(*reward);
            count.steps += 1;
        }
    }

    /// What to say, if it is time to.
    pub(super) fn notice(&self) -> Option<String> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Count { value, steps, due } = *count;
        let value = value.filter(|_| steps >= due)?;
        count.due = steps.saturating_mul(10);
        Some(format!(
            "the reward has been {value} at each of the last {steps} steps: nothing can be learned from that. \
             `plaudit check` says what each kind of policy would earn; a policy that never succeeds needs \
             demonstrations (algorithm.cloning), or a reward that shows progress"
        ))
    }
}

#[cfg(test)]
mod tests {
    use plaudit_core::Term;

    use super::*;

    fn column(rewards: Vec<f32>) -> RewardColumn {
        RewardColumn::of_terms(vec![Term { name: "model".into(), weight: 1.0, values: rewards }], 0).unwrap()
    }

    #[test]
    fn a_reward_that_stays_the_same_is_named_once_and_again_much_later() {
        let constant = ConstantReward::default();
        let other = constant.clone();
        for _ in 0..199 {
            other.take(&column(vec![0.25; 100]));
        }
        assert_eq!(constant.notice(), None, "one hundred too few");
        other.take(&column(vec![0.25; 100]));
        let said = constant.notice().unwrap();
        assert!(said.contains("0.25 at each of the last 20000 steps"), "{said}");
        assert_eq!(constant.notice(), None);
        other.take(&column(vec![0.25; 180_000]));
        assert!(constant.notice().unwrap().contains("200000"));
    }

    #[test]
    fn one_other_reward_begins_the_count_anew() {
        let constant = ConstantReward::default();
        constant.take(&column(vec![0.0; 19_999]));
        constant.take(&column(vec![1.0]));
        constant.take(&column(vec![0.0; 19_999]));
        assert_eq!(constant.notice(), None);
        constant.take(&column(vec![0.0]));
        assert!(constant.notice().is_some());
    }
}
