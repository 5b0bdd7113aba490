//! How a classifier is trained.

use plaudit_core::{LrDecay, Schedule, Seed};
use plaudit_nn::classifier::Loss;

use super::early_stop::Monitor;
use super::length::Length;
use super::loop_settings::LoopSettings;
use crate::augment::Augment;
use crate::dataset::{ClassBalance, TimeWarp};

/// How a classifier is trained.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How fast and how long.
    pub loop_settings: LoopSettings,
    /// What makes a model the best.
    pub monitor: Monitor,
    /// What a wrong score costs.
    pub loss: Loss,
    /// How much frames of each label count.
    pub class_weight: ClassWeight,
    /// What happens to images on their way.
    pub augment: Augment,
    /// A network of progress: how the time between the views of a frame stack is warped.
    pub time_warp: TimeWarp,
    /// On a GPU: threads that make batches before their turn. 0: batches are made when it is their turn.
    pub loader_threads: usize,
}

impl Settings {
    /// So many steps of 32 frames with a learning rate that falls from 1e-3, validated and saved at the end.
    #[must_use]
    pub fn for_steps(steps: u64) -> Self {
        let decay = LrDecay::Cosine { total: steps, min_lr: 0.0 };
        let schedule = Schedule { lr: 1e-3, warmup: steps / 10, decay };
        let loop_settings = LoopSettings {
            micro_batch: 32,
            global_batch: 32,
            eval_batch: 256,
            length: Length { max_epochs: None, max_steps: Some(steps) },
            val_interval: None,
            save_interval: None,
            early_stop: None,
            schedule,
            clip: Some(1.0),
            shuffle: true,
            seed: Seed::new(42),
        };
        Self {
            loop_settings,
            monitor: Monitor::Loss,
            loss: Loss::Bce,
            class_weight: ClassWeight::Balanced,
            augment: Augment::default(),
            time_warp: TimeWarp::default(),
            loader_threads: 4,
        }
    }
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
