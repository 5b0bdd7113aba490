//! The losses of PPO, one number at a time, with their gradients.

/// The bounds of the losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossSettings {
    /// How far a ratio may fall below 1 and rise above it, ε.
    pub clip: [f32; 2],
    /// Bound of the loss for bad advantages, c of the dual clip (Ye et al., 2020).
    pub dual_clip: Option<f32>,
    /// How far a value may move from what it was.
    pub value_clip: Option<f32>,
    /// Where the value loss turns from square to straight, δ.
    pub huber_delta: f32,
    /// Weight of the distance to the policy that acted.
    pub kl_beta: f32,
    /// How that distance is estimated.
    pub kl: KlEstimate,
}

impl Default for LossSettings {
    fn default() -> Self {
        Self {
            clip: [0.2, 0.2],
            dual_clip: Some(3.0),
            value_clip: None,
            huber_delta: 100.0,
            kl_beta: 0.0,
            kl: KlEstimate::Plain,
        }
    }
}

/// How the distance between two policies is estimated from samples of the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KlEstimate {
    /// log π − log π_old.
    Plain,
    /// Its absolute value.
    Absolute,
    /// Half its square.
    Square,
    /// r − 1 − log r: never negative, little variance.
    LowVariance,
}

/// The loss of one action, and its gradient by log π.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PolicyLoss {
    pub(super) loss: f32,
    pub(super) grad: f32,
    /// π / π_old.
    pub(super) ratio: f32,
    /// The same after clipping.
    pub(super) clipped_ratio: f32,
    /// Whether the clip decides the loss.
    pub(super) is_clipped: bool,
    /// Whether the bound of the dual clip decides it.
    pub(super) is_dual_clipped: bool,
}

/// The loss of one value, and its gradient by that value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ValueLoss {
    pub(super) loss: f32,
    pub(super) grad: f32,
    /// Whether the clip decides the loss.
    pub(super) is_clipped: bool,
}

impl LossSettings {
    /// max(−A r, −A clip(r, 1 − ε, 1 + ε)), at most c |A|; plus β KL.
    pub(super) fn policy(&self, log_prob: f32, old_log_prob: f32, advantage: f32) -> PolicyLoss {
        let log_ratio = log_prob - old_log_prob;
        let ratio = log_ratio.exp();
        let clipped_ratio = ratio.clamp(1.0 - self.clip[0], 1.0 + self.clip[1]);
        let (free, clipped) = (-advantage * ratio, -advantage * clipped_ratio);
        let is_clipped = clipped > free;
        let (mut loss, mut grad) = if is_clipped { (clipped, 0.0) } else { (free, free) };
        let bound = self.dual_clip.map_or(f32::INFINITY, |c| c * advantage.abs());
        let is_dual_clipped = bound < loss;
        if is_dual_clipped {
            (loss, grad) = (bound, 0.0);
        }
        if self.kl_beta != 0.0 {
            let (distance, along) = self.kl.of(log_ratio, ratio);
            loss += self.kl_beta * distance;
            grad += self.kl_beta * along;
        }
        PolicyLoss { loss, grad, ratio, clipped_ratio, is_clipped, is_dual_clipped }
    }

    /// The larger of Huber(V − R) and Huber(V_old + clip(V − V_old) − R).
    pub(super) fn value(&self, value: f32, old: f32, target: f32) -> ValueLoss {
        let (free, grad) = self.huber(value - target);
        let Some(reach) = self.value_clip else {
            return ValueLoss { loss: free, grad, is_clipped: false };
        };
        let near = old + (value - old).clamp(-reach, reach);
        let (clipped, _) = self.huber(near - target);
        match clipped > free {
            true => ValueLoss { loss: clipped, grad: 0.0, is_clipped: true },
            false => ValueLoss { loss: free, grad, is_clipped: false },
        }
    }

    fn huber(&self, error: f32) -> (f32, f32) {
        let delta = self.huber_delta;
        match error.abs() < delta {
            true => (0.5 * error * error, error),
            false => (delta * (error.abs() - 0.5 * delta), delta * error.signum()),
        }
    }
}

impl KlEstimate {
    /// The distance, and its gradient by log π.
    fn of(self, log_ratio: f32, ratio: f32) -> (f32, f32) {
        match self {
            Self::Plain => (log_ratio, 1.0),
            Self::Absolute => (log_ratio.abs(), if log_ratio == 0.0 { 0.0 } else { log_ratio.signum() }),
            Self::Square => (0.5 * log_ratio * log_ratio, log_ratio),
            Self::LowVariance => (ratio - 1.0 - log_ratio, ratio - 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LossSettings {
        LossSettings {
            clip: [0.2, 0.3],
            dual_clip: Some(3.0),
            value_clip: Some(0.5),
            huber_delta: 1.0,
            kl_beta: 0.0,
            kl: KlEstimate::LowVariance,
        }
    }

    #[test]
    fn clips_bind_where_the_paper_says() {
        let check = |ratio: f32, advantage: f32, loss: f32, grad: f32| {
            let made = settings().policy(ratio.ln(), 0.0, advantage);
            assert!(
                (made.loss - loss).abs() < 1e-5 && (made.grad - grad).abs() < 1e-5,
                "{ratio} {advantage}: {made:?}"
            );
        };
        check(1.1, 2.0, -2.2, -2.2); // within: the plain gradient
        check(2.0, 1.0, -1.3, 0.0); // good and likelier already: no further
        check(0.5, 1.0, -0.5, -0.5); // good but less likely: all the way back
        check(0.5, -1.0, 0.8, 0.0); // bad and less likely already: no further
        check(2.0, -1.0, 2.0, 2.0); // bad and likelier: all the way back
        check(9.0, -1.0, 3.0, 0.0); // so much likelier that one sample would tear the policy: bounded
    }

    #[test]
    fn values_may_move_so_far() {
        let check = |value: f32, old: f32, target: f32, loss: f32, grad: f32| {
            let made = settings().value(value, old, target);
            assert!((made.loss - loss).abs() < 1e-6 && (made.grad - grad).abs() < 1e-6, "{value}: {made:?}");
        };
        check(1.2, 1.0, 1.0, 0.02, 0.2); // within reach
        check(2.0, 1.0, 2.0, 0.125, 0.0); // perfect, but it moved too far: the clipped error counts
        check(4.0, 1.0, 1.0, 2.5, 1.0); // far off: straight, not square
    }

    #[test]
    fn gradients_of_distances_match_finite_differences() {
        for kl in [KlEstimate::Plain, KlEstimate::Absolute, KlEstimate::Square, KlEstimate::LowVariance] {
            for log_ratio in [-0.7f32, 0.4] {
                let at = |x: f32| f64::from(kl.of(x, x.exp()).0);
                let grad = (at(log_ratio + 1e-2) - at(log_ratio - 1e-2)) / 2e-2;
                assert!((grad as f32 - kl.of(log_ratio, log_ratio.exp()).1).abs() < 1e-3, "{kl:?}");
            }
            assert_eq!(kl.of(0.0, 1.0).0, 0.0);
        }
    }
}
