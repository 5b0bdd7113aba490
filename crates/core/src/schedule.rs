//! How a learning rate moves, as Hugging Face's schedules do: `get_constant_schedule_with_warmup`,
//! `get_cosine_with_min_lr_schedule_with_warmup` and `get_linear_schedule_with_warmup`. Its first value is 0 when there is
//! a warm-up.

use std::f64::consts::PI;

/// A learning rate as a function of the steps taken so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The rate after warm-up.
    pub lr: f64,
    /// Steps over which it rises to that.
    pub warmup: u64,
    /// What it does afterwards.
    pub decay: LrDecay,
}

/// What a learning rate does after warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LrDecay {
    /// It stays.
    Constant,
    /// It falls along half a cosine.
    Cosine {
        /// The step it ends at, those of the warm-up counted.
        total: u64,
        /// The rate it ends at.
        min_lr: f64,
    },
    /// It falls in a straight line.
    Linear {
        /// The step it ends at, those of the warm-up counted.
        total: u64,
        /// The rate it ends at.
        min_lr: f64,
    },
}

impl Schedule {
    /// A rate that never changes.
    pub fn constant(lr: f64) -> Self {
        Self { lr, warmup: 0, decay: LrDecay::Constant }
    }

    /// The rate of a step, the first being 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.lr * step as f64 / self.warmup as f64;
        }
        let done = |total: u64| {
            let falling = total.saturating_sub(self.warmup).max(1) as f64;
            ((step - self.warmup) as f64 / falling).min(1.0)
        };
        let (left, min_lr) = match self.decay {
            LrDecay::Constant => return self.lr,
            LrDecay::Cosine { total, min_lr } => (0.5 * (1.0 + (PI * done(total)).cos()), min_lr),
            LrDecay::Linear { total, min_lr } => (1.0 - done(total), min_lr),
        };
        min_lr + (self.lr - min_lr) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas worked out by hand, for a learning rate of 0.01 over 10 steps, 4 of them warm-up.
    #[test]
    fn schedules_follow_their_formulas() {
        let check = |decay, rest: [f64; 8]| {
            let schedule = Schedule { lr: 0.01, warmup: 4, decay };
            let expected = [0.0, 0.0025, 0.005, 0.0075].into_iter().chain(rest);
            for (step, expected) in expected.enumerate() {
                let found = schedule.at(step as u64);
                assert!((found - expected).abs() < 1e-12, "{decay:?} {step}: {found} is not {expected}");
            }
        };
        check(LrDecay::Constant, [0.01; 8]);
        let sixth = 0.01 / 6.0;
        check(
            LrDecay::Linear { total: 10, min_lr: 0.0 },
            [0.01, 5.0 * sixth, 4.0 * sixth, 3.0 * sixth, 2.0 * sixth, sixth, 0.0, 0.0],
        );
        let cosine = [0.01, 0.009397114317029974, 0.00775, 0.0055, 0.0032500000000000007];
        let cosine =
            [cosine[0], cosine[1], cosine[2], cosine[3], cosine[4], 0.0016028856829700265, 0.001, 0.001];
        check(LrDecay::Cosine { total: 10, min_lr: 0.001 }, cosine);
    }

    #[test]
    fn no_warm_up_starts_at_the_top() {
        assert_eq!([0, 1000].map(|step| Schedule::constant(0.5).at(step)), [0.5, 0.5]);
        let decay = LrDecay::Cosine { total: 0, min_lr: 0.0 };
        let schedule = Schedule { lr: 0.1, warmup: 0, decay };
        assert_eq!([0, 1].map(|step| schedule.at(step)), [0.1, 0.0]);
        let decay = LrDecay::Linear { total: 10, min_lr: 0.2 };
        let schedule = Schedule { lr: 1.0, warmup: 0, decay };
        for (step, expected) in [(0, 1.0), (5, 0.6), (10, 0.2), (99, 0.2)] {
            assert!((schedule.at(step) - expected).abs() < 1e-12, "{step}: {}", schedule.at(step));
        }
    }
}
