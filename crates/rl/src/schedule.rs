//! How a learning rate moves over a run.

use std::f64::consts::PI;

/// A learning rate as a function of the steps taken so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The rate after warm-up.
    pub lr: f64,
    /// Steps over which it rises to that.
    pub warmup: u64,
    /// What it does afterwards.
    pub shape: Shape,
}

/// What a learning rate does after warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// It stays.
    Constant,
    /// It falls along a half cosine.
    Cosine {
        /// The step it ends at.
        total: u64,
        /// The rate it ends at.
        min_lr: f64,
    },
    /// It falls in a straight line.
    Linear {
        /// The step it ends at.
        total: u64,
        /// The rate it ends at.
        min_lr: f64,
    },
}

impl Schedule {
    /// A rate that never changes.
    pub fn constant(lr: f64) -> Self {
        Self { lr, warmup: 0, shape: Shape::Constant }
    }

    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.lr * (step + 1) as f64 / self.warmup as f64;
        }
        let left = |total: u64| {
            let (gone, all) = (step - self.warmup, total.saturating_sub(self.warmup).max(1));
            1.0 - (gone as f64 / all as f64).min(1.0)
        };
        match self.shape {
            Shape::Constant => self.lr,
            Shape::Linear { total, min_lr } => min_lr + (self.lr - min_lr) * left(total),
            Shape::Cosine { total, min_lr } => {
                min_lr + (self.lr - min_lr) * 0.5 * (1.0 - (PI * left(total)).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_and_fall() {
        let check = |schedule: Schedule, expected: &[(u64, f64)]| {
            for (step, rate) in expected {
                assert!(
                    (schedule.at(*step) - rate).abs() < 1e-12,
                    "{schedule:?} at {step}: {}",
                    schedule.at(*step)
                );
            }
        };
        check(Schedule::constant(0.5), &[(0, 0.5), (1000, 0.5)]);
        check(Schedule { lr: 1.0, warmup: 4, shape: Shape::Constant }, &[(0, 0.25), (3, 1.0), (9, 1.0)]);
        let linear = Shape::Linear { total: 10, min_lr: 0.2 };
        check(Schedule { lr: 1.0, warmup: 0, shape: linear }, &[(0, 1.0), (5, 0.6), (10, 0.2), (99, 0.2)]);
        let cosine = Shape::Cosine { total: 12, min_lr: 0.0 };
        check(
            Schedule { lr: 1.0, warmup: 2, shape: cosine },
            &[(0, 0.5), (2, 1.0), (7, 0.5), (12, 0.0), (50, 0.0)],
        );
    }
}
