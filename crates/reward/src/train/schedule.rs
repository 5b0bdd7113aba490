//! How the learning rate moves, as Hugging Face's schedules do: `get_constant_schedule_with_warmup`,
//! `get_cosine_with_min_lr_schedule_with_warmup` and `get_linear_schedule_with_warmup`. Its first value is 0 when there is
//! a warm-up.

/// The learning rate at every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest.
    pub lr: f64,
    /// Where a falling one ends.
    pub min_lr: f64,
    /// Steps over which it rises to `lr`.
    pub warmup_steps: u64,
    /// Steps over which it falls, those of the rise counted.
    pub total_steps: u64,
    /// How it moves after the rise.
    pub shape: Shape,
}

/// How a learning rate moves after its rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// It stays.
    #[default]
    Constant,
    /// Along half a cosine.
    Cosine,
    /// In a straight line.
    Linear,
}

impl Schedule {
    /// The learning rate of a step, the first being 0.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return self.lr * step as f64 / self.warmup_steps as f64;
        }
        let falling = self.total_steps.saturating_sub(self.warmup_steps).max(1) as f64;
        let done = ((step - self.warmup_steps) as f64 / falling).min(1.0);
        let left = match self.shape {
            Shape::Constant => return self.lr,
            Shape::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
            Shape::Linear => 1.0 - done,
        };
        self.min_lr + (self.lr - self.min_lr) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas worked out by hand, for a learning rate of 0.01 over 10 steps, 4 of them warm-up.
    #[test]
    fn schedules_follow_their_formulas() {
        let check = |shape, min_lr, expected: [f64; 12]| {
            let schedule = Schedule { lr: 0.01, min_lr, warmup_steps: 4, total_steps: 10, shape };
            for (step, expected) in expected.into_iter().enumerate() {
                let found = schedule.at(step as u64);
                assert!((found - expected).abs() < 1e-12, "{shape:?} {step}: {found} is not {expected}");
            }
        };
        let rise = [0.0, 0.0025, 0.005, 0.0075];
        let with = |rest: [f64; 8]| -> [f64; 12] {
            std::array::from_fn(|at| if at < 4 { rise[at] } else { rest[at - 4] })
        };
        check(Shape::Constant, 0.0, with([0.01; 8]));
        let sixth = 0.01 / 6.0;
        check(
            Shape::Linear,
            0.0,
            with([0.01, 5.0 * sixth, 4.0 * sixth, 3.0 * sixth, 2.0 * sixth, sixth, 0.0, 0.0]),
        );
        let cosine = [0.01, 0.009397114317029974, 0.00775, 0.0055, 0.0032500000000000007];
        let cosine =
            [cosine[0], cosine[1], cosine[2], cosine[3], cosine[4], 0.0016028856829700265, 0.001, 0.001];
        check(Shape::Cosine, 0.001, with(cosine));
    }

    #[test]
    fn no_warm_up_starts_at_the_top() {
        let schedule =
            Schedule { lr: 0.1, min_lr: 0.0, warmup_steps: 0, total_steps: 0, shape: Shape::Cosine };
        assert_eq!(schedule.at(0), 0.1);
        assert_eq!(schedule.at(1), 0.0);
    }
}
