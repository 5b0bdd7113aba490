//! Progress as a distribution over bins.
//!
//! A network of progress has one output for each bin; bin `k` of `n` stands for the progress `k / (n - 1)`. A softmax makes the
//! outputs a distribution, whose mean is the answer and whose spread says how much the network knows. What is asked for one number
//! gets the logit of the mean, so that a network of progress can be used like a classifier.

/// The bins of a network's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressBins(usize);

/// What a network says about the progress in one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressDistribution {
    /// The probability of each bin.
    pub shares: Vec<f64>,
    /// Its mean, between 0 and 1.
    pub mean: f64,
    /// Its standard deviation: 0 for one bin, 0.29 where all bins are as likely, 0.5 at most.
    pub std: f64,
}

/// What is known of a frame's progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProgressLabel {
    /// How far the task is, between 0 and 1.
    At(f64),
    /// Nothing: every bin is as likely.
    Unknown,
}

/// Means closer to 0 or 1 are as good as these: a logit stays finite.
const CLOSEST: f64 = 1e-6;

impl ProgressBins {
    /// So many bins; there must be two at least.
    #[must_use]
    pub fn new(count: usize) -> Option<Self> {
        (count >= 2).then_some(Self(count))
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.0
    }

    /// The progress that a bin stands for.
    #[must_use]
    pub fn centre(self, bin: usize) -> f64 {
        bin as f64 / (self.0 - 1) as f64
    }

    /// The distribution that a label asks for: progress between two bins is divided between them (two-hot), so that the mean is the
    /// label.
    #[must_use]
    pub fn target(self, label: ProgressLabel) -> Vec<f64> {
        let ProgressLabel::At(progress) = label else { return vec![1.0 / self.0 as f64; self.0] };
        let at = progress.clamp(0.0, 1.0) * (self.0 - 1) as f64;
        let below = (at.floor() as usize).min(self.0 - 2);
        let above = at - below as f64;
        let mut target = vec![0.0; self.0];
        (target[below], target[below + 1]) = (1.0 - above, above);
        target
    }

    /// What a network's outputs for one frame mean.
    #[must_use]
    pub fn distribution(self, outputs: &[f32]) -> ProgressDistribution {
        let shares = softmax(outputs);
        let mean: f64 = shares.iter().enumerate().map(|(bin, share)| share * self.centre(bin)).sum();
        let variance: f64 =
            shares.iter().enumerate().map(|(bin, share)| share * (self.centre(bin) - mean).powi(2)).sum();
        ProgressDistribution { mean, std: variance.max(0.0).sqrt(), shares }
    }

    /// The cross entropy of one frame's outputs against a label, and its gradient by each of them.
    #[must_use]
    pub fn cross_entropy(self, outputs: &[f32], label: ProgressLabel) -> (f64, Vec<f64>) {
        let target = self.target(label);
        let highest = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = outputs.iter().map(|output| f64::from(output - highest).exp()).sum();
        let log_total = total.ln() + f64::from(highest);
        let cost = target
            .iter()
            .zip(outputs)
            .map(
                |(target, output)| {
                    if *target > 0.0 { target * (log_total - f64::from(*output)) } else { 0.0 }
                },
            )
            .sum();
        let gradient = softmax(outputs).into_iter().zip(&target).map(|(share, target)| share - target);
        (cost, gradient.collect())
    }

    /// The logit of the mean.
    #[must_use]
    pub fn logit(self, outputs: &[f32]) -> f64 {
        self.distribution(outputs).logit()
    }

    /// How that logit changes with each output.
    #[must_use]
    pub fn logit_gradient(self, outputs: &[f32]) -> Vec<f64> {
        let ProgressDistribution { shares, mean, .. } = self.distribution(outputs);
        let slope = 1.0 / (mean * (1.0 - mean)).max(CLOSEST);
        shares.iter().enumerate().map(|(bin, share)| slope * share * (self.centre(bin) - mean)).collect()
    }
}

impl ProgressDistribution {
    /// The logit of the mean.
    #[must_use]
    pub fn logit(&self) -> f64 {
        let mean = self.mean.clamp(CLOSEST, 1.0 - CLOSEST);
        (mean / (1.0 - mean)).ln()
    }
}

fn softmax(outputs: &[f32]) -> Vec<f64> {
    let highest = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = outputs.iter().map(|output| f64::from(output - highest).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / total).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        outputs: Vec<f32>,
        /// Not given: unknown.
        label: Option<f64>,
        loss: f64,
        gradient: Vec<f64>,
        mean: f64,
        std: f64,
        logit: f64,
        logit_gradient: Vec<f64>,
    }

    #[test]
    fn pytorch_agrees() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/torch/progress.json")).unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let bins = ProgressBins::new(case.outputs.len()).unwrap();
            let label = case.label.map_or(ProgressLabel::Unknown, ProgressLabel::At);
            let (loss, gradient) = bins.cross_entropy(&case.outputs, label);
            let found = bins.distribution(&case.outputs);
            let numbers = [loss, found.mean, found.std, bins.logit(&case.outputs)];
            let all = numbers.into_iter().chain(gradient).chain(bins.logit_gradient(&case.outputs));
            let expected = [case.loss, case.mean, case.std, case.logit].into_iter();
            for (found, expected) in all.zip(expected.chain(case.gradient).chain(case.logit_gradient)) {
                assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
            }
        }
    }

    #[test]
    fn the_mean_of_a_label_is_the_label() {
        for count in [2, 5, 20] {
            let bins = ProgressBins::new(count).unwrap();
            for label in [0.0, 0.03, 0.5, 0.77, 1.0] {
                let target = bins.target(ProgressLabel::At(label));
                let mean: f64 = target.iter().enumerate().map(|(bin, share)| share * bins.centre(bin)).sum();
                assert!(
                    (mean - label).abs() < 1e-12 && target.iter().filter(|share| **share > 0.0).count() <= 2
                );
            }
        }
        assert_eq!(ProgressBins::new(1), None);
    }
}
