//! Measuring a judge on labelled windows.

use plaudit_core::{GradientSync, OneRank};
use plaudit_data::windows::Windows;
use plaudit_nn::qwen3_vl::{Inputs, VlmError, VlmTrainer};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{InputFormat, answers};
use crate::audit::OnScored;
use crate::metrics::LabelConfusion;
use crate::train::{RankShares, TrainError};
use crate::trend::{LabelLogits, LocalVlm};

/// How well a judge does. Nothing of the answer was in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrendMetrics {
    /// Windows measured on.
    pub windows: usize,
    /// Mean of minus the logarithm of the right label's probability among the three.
    pub loss: f64,
    /// Share of windows judged rightly.
    pub accuracy: f64,
    /// The same, each label counting equally however many windows it has.
    pub balanced_accuracy: f64,
    /// By the right label, then by what was said; both in the order positive, negative, unclear.
    pub confusion: LabelConfusion,
}

/// The number that makes a judge the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrendMonitor {
    /// Loss; lower is better.
    #[default]
    Loss,
    /// Accuracy with each label counting equally; higher is better.
    Accuracy,
}

impl TrendMetrics {
    /// Of the labels' logits and the right labels.
    #[must_use]
    pub fn of(logits: &[[f32; 3]], truth: &[usize]) -> Self {
        let mut loss = 0.0;
        let mut predicted = Vec::with_capacity(truth.len());
        for (logits, right) in logits.iter().zip(truth) {
            let logits = logits.map(f64::from);
            let largest = logits.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|logit| (logit - largest).exp()).sum();
            loss += largest + sum.ln() - logits[*right];
            predicted.push(logits.iter().position(|logit| *logit == largest).unwrap_or(2));
        }
        let confusion = LabelConfusion::of(&predicted, truth);
        Self {
            windows: truth.len(),
            loss: loss / truth.len().max(1) as f64,
            accuracy: confusion.accuracy(),
            balanced_accuracy: confusion.balanced_accuracy(),
            confusion,
        }
    }

    /// The number that is monitored.
    #[must_use]
    pub fn value(&self, monitor: TrendMonitor) -> f64 {
        match monitor {
            TrendMonitor::Loss => self.loss,
            TrendMonitor::Accuracy => self.balanced_accuracy,
        }
    }

    /// As events name it.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let mut values = vec![
            ("eval/val_loss".to_owned(), self.loss),
            ("eval/eval_accuracy".to_owned(), self.accuracy),
            ("eval/balanced_accuracy".to_owned(), self.balanced_accuracy),
        ];
        let recalls = answers().into_iter().enumerate();
        values.extend(recalls.filter_map(|(label, name)| {
            Some((format!("eval/recall_{name}"), self.confusion.recall(label)?))
        }));
        values
    }
}

/// Judges windows, so many at a time.
///
/// # Errors
/// When a window cannot be read or shown.
pub fn evaluate_windows(
    trainer: &VlmTrainer,
    windows: &Windows,
    input_format: &InputFormat,
    batch: usize,
) -> Result<TrendMetrics, TrainError> {
    evaluate_over_ranks(&OneRank, trainer, windows, input_format, batch)
}

/// [`evaluate_windows`] with batches shared among ranks; every rank gets the metrics of all.
pub(super) fn evaluate_over_ranks(
    ranks: &dyn GradientSync,
    trainer: &VlmTrainer,
    windows: &Windows,
    input_format: &InputFormat,
    batch: usize,
) -> Result<TrendMetrics, TrainError> {
    let shares = RankShares::of(windows.len(), batch, ranks.world());
    let numbers: Vec<usize> = shares.batches(ranks.rank()).flatten().collect();
    let labels = trainer.processor().tokenizer().first_tokens(&answers())?;
    let ask = |inputs: &[Inputs]| trainer.label_logits(inputs, &labels);
    let show = |number: usize| input_format.inputs(trainer.processor(), windows, number);
    let own = ranks.agree(logits_of(&numbers, batch, &show, &ask, &|_, _| {}))?;
    let logits = shares.gather(ranks, own.concat(), 3)?;
    let logits: Vec<[f32; 3]> = logits.chunks_exact(3).map(|row| [row[0], row[1], row[2]]).collect();
    let truth: Vec<usize> = windows.rows().map(|row| row.answer).collect();
    Ok(TrendMetrics::of(&logits, &truth))
}

/// The logits of the labels for windows as a judge sees them, so many at a time.
///
/// # Errors
/// When a window cannot be read or shown, or does not fit the judge.
pub fn window_logits(
    judge: &LocalVlm,
    numbers: &[usize],
    batch: usize,
    show: &EncodeWindow<'_>,
    on_progress: &OnScored<'_>,
) -> Result<Vec<LabelLogits>, TrainError> {
    let ask = |inputs: &[Inputs]| {
        let logits = judge.label_logits(inputs)?;
        Ok(logits.into_iter().map(|logits| logits.0.to_vec()).collect())
    };
    let logits = logits_of(numbers, batch, show, &ask, on_progress)?;
    Ok(logits.into_iter().map(LabelLogits).collect())
}

/// The logits of the labels after each question.
type AskLabels<'a> = dyn Fn(&[Inputs]) -> Result<Vec<Vec<f32>>, VlmError> + 'a;

/// What a judge sees of the window of a number.
pub type EncodeWindow<'a> = dyn Fn(usize) -> Result<Inputs, TrainError> + Sync + 'a;

fn logits_of(
    numbers: &[usize],
    batch: usize,
    show: &EncodeWindow<'_>,
    ask: &AskLabels<'_>,
    on_progress: &OnScored<'_>,
) -> Result<Vec<[f32; 3]>, TrainError> {
    let mut logits = Vec::with_capacity(numbers.len());
    for some in numbers.chunks(batch.max(1)) {
        on_progress(logits.len(), numbers.len());
        let inputs: Vec<Inputs> = some.par_iter().map(|number| show(*number)).collect::<Result<_, _>>()?;
        for row in ask(&inputs)? {
            logits.push([row[0], row[1], row[2]]);
        }
    }
    on_progress(numbers.len(), numbers.len());
    Ok(logits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_count_equally_however_many_windows_they_have() {
        let positive = [2.0, 0.0, 0.0];
        let unclear = [0.0, 0.0, 2.0];
        let found = TrendMetrics::of(&[positive, positive, positive, unclear], &[0, 0, 1, 2]);
        assert_eq!(found.confusion.0, [[2, 0, 0], [1, 0, 0], [0, 0, 1]]);
        assert_eq!(found.accuracy, 0.75);
        assert!((found.balanced_accuracy - 2.0 / 3.0).abs() < 1e-12);
        // The right one of three has e^2 / (e^2 + 2), the wrong one 1 / (e^2 + 2).
        let sum = (2.0_f64.exp() + 2.0).ln();
        assert!((found.loss - (3.0 * (sum - 2.0) + sum) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_label_without_windows_is_not_counted() {
        let found = TrendMetrics::of(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], &[0, 0]);
        assert_eq!((found.accuracy, found.balanced_accuracy), (0.5, 0.5));
        assert_eq!(found.values().iter().filter(|(name, _)| name.contains("recall")).count(), 1);
    }
}
