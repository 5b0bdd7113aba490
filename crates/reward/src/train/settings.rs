//! How a classifier is trained.

use plaudit_nn::classifier::Loss;

use super::early_stop::Monitor;
use super::pace::Pace;
use crate::augment::Augment;
use crate::dataset::ClassBalance;

/// How a classifier is trained.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How fast and how long.
    pub pace: Pace,
    /// What makes a model the best.
    pub monitor: Monitor,
    /// What a wrong score costs.
    pub loss: Loss,
    /// How much frames of each label count.
    pub class_weight: ClassWeight,
    /// What happens to pictures on their way.
    pub augment: Augment,
}

/// How much frames of each label count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClassWeight {
    /// All the same.
    #[default]
    Even,
    /// Both labels the same in all, however many frames they have.
    Balanced,
    /// A success so many times as much as a failure.
    Success(f64),
}

impl ClassWeight {
    /// The weights of a success and of a failure; `None` where all count the same.
    pub(super) fn weights(self, balance: ClassBalance) -> Option<[f32; 2]> {
        let all = (balance.successes + balance.failures) as f32;
        match self {
            Self::Even => None,
            Self::Balanced => {
                Some([balance.successes, balance.failures].map(|count| all / (2.0 * count.max(1) as f32)))
            }
            Self::Success(weight) => Some([weight as f32, 1.0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_labels_weigh_the_same() {
        let balance = ClassBalance { successes: 10, failures: 30 };
        let [success, failure] = ClassWeight::Balanced.weights(balance).unwrap();
        assert_eq!((success * 10.0, failure * 30.0), (20.0, 20.0));
        assert_eq!(ClassWeight::Even.weights(balance), None);
        assert_eq!(ClassWeight::Success(2.5).weights(balance), Some([2.5, 1.0]));
    }
}
