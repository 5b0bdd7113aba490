//! The categorical distribution: one of n choices, by the softmax of n numbers.
//!
//! ```text
//! log π(i) = x_i − log Σ e^x        H = −Σ π log π
//! ```

use plaudit_core::Rng;

/// One row's distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Categorical<'a> {
    /// x.
    pub(crate) logits: &'a [f32],
}

impl Categorical<'_> {
    /// Samples a choice; returns it with its log-probability.
    pub(crate) fn sample(&self, rng: &mut Rng) -> (usize, f32) {
        let (mut left, norm) = (rng.unit() as f32, self.log_norm());
        let mut choice = 0;
        for (i, logit) in self.logits.iter().enumerate() {
            choice = i; // the last one, should rounding leave a rest
            left -= (logit - norm).exp();
            if left < 0.0 {
                break;
            }
        }
        (choice, self.logits[choice] - norm)
    }

    /// The likeliest choice.
    pub(crate) fn mode(&self) -> usize {
        let better = |best: usize, i: usize| if self.logits[i] > self.logits[best] { i } else { best };
        (1..self.logits.len()).fold(0, better)
    }

    /// log π(choice).
    pub(crate) fn log_prob(&self, choice: usize) -> f32 {
        self.logits[choice] - self.log_norm()
    }

    /// H.
    pub(crate) fn entropy(&self) -> f32 {
        let norm = self.log_norm();
        -self.logits.iter().map(|logit| (logit - norm).exp() * (logit - norm)).sum::<f32>()
    }

    /// Adds the gradient of x, given those of log π(choice) and of H.
    pub(crate) fn backward(&self, choice: usize, grad_log_prob: f32, grad_entropy: f32, grad: &mut [f32]) {
        let (norm, entropy) = (self.log_norm(), self.entropy());
        for (i, (logit, grad)) in self.logits.iter().zip(grad).enumerate() {
            let log_prob = logit - norm;
            let prob = log_prob.exp();
            let chosen = if i == choice { 1.0 } else { 0.0 };
            *grad += grad_log_prob * (chosen - prob) - grad_entropy * prob * (log_prob + entropy);
        }
    }

    /// log Σ e^x, without overflow.
    fn log_norm(&self) -> f32 {
        let most = self.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        most + self.logits.iter().map(|logit| (logit - most).exp()).sum::<f32>().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    #[test]
    fn choices_come_as_often_as_they_are_likely() {
        let distribution = Categorical { logits: &[0.0, 1.0, -1.0] };
        let mut counts = [0usize; 3];
        let mut rng = Seed::new(5).rng();
        for _ in 0..60_000 {
            let (choice, log_prob) = distribution.sample(&mut rng);
            assert_eq!(log_prob, distribution.log_prob(choice));
            counts[choice] += 1;
        }
        for (choice, count) in counts.iter().enumerate() {
            let share = *count as f32 / 60_000.0;
            // Four standard errors of a share are below 4 · 0.5 / √60000 = 0.0082.
            assert!((share - distribution.log_prob(choice).exp()).abs() < 0.0082, "{choice}: {share}");
        }
        assert_eq!(distribution.mode(), 1);
    }

    #[test]
    fn gradients_match_finite_differences() {
        let logits = [0.3f32, -0.2, 1.1];
        let loss = |logits: &[f32]| {
            let distribution = Categorical { logits };
            1.5 * f64::from(distribution.log_prob(2)) - 0.7 * f64::from(distribution.entropy())
        };
        let mut grad = [0.0; 3];
        Categorical { logits: &logits }.backward(2, 1.5, -0.7, &mut grad);
        for (i, grad) in grad.into_iter().enumerate() {
            let moved =
                |by: f32| -> [f32; 3] { std::array::from_fn(|j| logits[j] + if i == j { by } else { 0.0 }) };
            let difference = (loss(&moved(1e-2)) - loss(&moved(-1e-2))) / 2e-2;
            assert!((difference as f32 - grad).abs() < 1e-3, "{difference} {grad}");
        }
    }

    #[test]
    fn huge_logits_stay_finite() {
        let sure = Categorical { logits: &[1e30, 0.0] };
        assert_eq!((sure.log_prob(0), sure.mode()), (0.0, 0));
        assert_eq!(sure.sample(&mut Seed::new(1).rng()).0, 0);
    }
}
