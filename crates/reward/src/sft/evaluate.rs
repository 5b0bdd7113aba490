//! Measuring a judge on labelled windows.

use plaudit_core::{GradientSync, OneRank};
use plaudit_data::windows::{Objective, Windows};
use plaudit_nn::qwen3_vl::{Inputs, VlmError, VlmTrainer};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::InputFormat;
use crate::audit::OnScored;
use crate::train::{RankShares, TrainError};
use crate::trend::{LabelLogits, LocalVlm};

/// How well a judge does. Nothing of the answer was in the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgeMetrics {
    /// Windows measured on.
    pub windows: usize,
    /// Mean of minus the logarithm of the right answer's probability among those that may be given.
    pub loss: f64,
    /// Share of windows judged rightly.
    pub accuracy: f64,
    /// The same, each answer of an objective counting equally however many windows it has, and each objective too.
    pub balanced_accuracy: f64,
    /// By what was asked.
    pub objectives: Vec<ObjectiveMetrics>,
}

/// How well a judge answers one kind of question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveMetrics {
    /// What was asked.
    pub objective: Objective,
    /// Windows measured on.
    pub windows: usize,
    /// Mean of minus the logarithm of the right answer's probability.
    pub loss: f64,
    /// Share of windows judged rightly.
    pub accuracy: f64,
    /// The same, each answer counting equally.
    pub balanced_accuracy: f64,
    /// Of progress: how far the expected share of the task is off, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_error: Option<f64>,
    /// By the right answer, then by what was said; both in the order of the objective's answers.
    pub confusion: Vec<Vec<usize>>,
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

/// The answers' logits for one window, and which of them is right.
struct AnsweredWindow<'a> {
    logits: &'a [f32],
    right: usize,
}

impl ObjectiveMetrics {
    fn of(objective: Objective, answered: &[AnsweredWindow<'_>]) -> Self {
        let answers = objective.answers().len();
        let mut confusion = vec![vec![0; answers]; answers];
        let (mut loss, mut error) = (0.0, 0.0);
        for AnsweredWindow { logits, right } in answered {
            let logits: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            loss += largest + sum.ln() - logits[*right];
            let said = logits.iter().position(|logit| *logit == largest).unwrap_or(answers - 1);
            confusion[*right][said] += 1;
            let expected: f64 = powers.iter().enumerate().map(|(at, power)| at as f64 * power / sum).sum();
            error += (expected - *right as f64).abs() / (answers - 1) as f64;
        }
        let windows = answered.len();
        let mean = |sum: f64| sum / windows.max(1) as f64;
        let right = |answer: usize| confusion[answer][answer];
        let recalls = (0..answers).filter_map(|answer| recall(&confusion, answer));
        let recalls: Vec<f64> = recalls.collect();
        Self {
            objective,
            windows,
            loss: mean(loss),
            accuracy: mean((0..answers).map(right).sum::<usize>() as f64),
            balanced_accuracy: recalls.iter().sum::<f64>() / recalls.len().max(1) as f64,
            mean_error: (objective == Objective::Progress).then(|| mean(error)),
            confusion,
        }
    }

    /// Share of an answer's windows that were answered so.
    fn recall(&self, answer: usize) -> Option<f64> {
        recall(&self.confusion, answer)
    }
}

fn recall(confusion: &[Vec<usize>], answer: usize) -> Option<f64> {
    let windows: usize = confusion[answer].iter().sum();
    (windows > 0).then(|| confusion[answer][answer] as f64 / windows as f64)
}

impl JudgeMetrics {
    /// Of the logits of each window's answers, what was asked, and which answer is right.
    fn of(logits: &[Vec<f32>], asked: &[(Objective, usize)]) -> Self {
        let of_objective = |objective: Objective| {
            let windows = logits.iter().zip(asked).filter(|(_, (asked, _))| *asked == objective);
            let answered: Vec<AnsweredWindow<'_>> =
                windows.map(|(logits, (_, right))| AnsweredWindow { logits, right: *right }).collect();
            (!answered.is_empty()).then(|| ObjectiveMetrics::of(objective, &answered))
        };
        let objectives: Vec<ObjectiveMetrics> = Objective::ALL.into_iter().filter_map(of_objective).collect();
        let windows = asked.len();
        let mean = |number: fn(&ObjectiveMetrics) -> f64| {
            let weighted = objectives.iter().map(|found| number(found) * found.windows as f64);
            weighted.sum::<f64>() / windows.max(1) as f64
        };
        let balanced: f64 = objectives.iter().map(|found| found.balanced_accuracy).sum();
        Self {
            windows,
            loss: mean(|found| found.loss),
            accuracy: mean(|found| found.accuracy),
            balanced_accuracy: balanced / objectives.len().max(1) as f64,
            objectives,
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
        for found in &self.objectives {
            let objective = found.objective;
            match objective {
                Objective::Trend => {
                    let recalls = objective.answers().iter().enumerate();
                    values.extend(recalls.filter_map(|(answer, name)| {
                        Some((format!("eval/recall_{name}"), found.recall(answer)?))
                    }));
                }
                _ => values.push((format!("eval/{objective}_balanced_accuracy"), found.balanced_accuracy)),
            }
            values.extend(found.mean_error.map(|error| (format!("eval/{objective}_error"), error)));
        }
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
) -> Result<JudgeMetrics, TrainError> {
    evaluate_over_ranks(&OneRank, trainer, windows, input_format, batch)
}

/// [`evaluate_windows`] with batches shared among ranks; every rank gets the metrics of all.
pub(super) fn evaluate_over_ranks(
    ranks: &dyn GradientSync,
    trainer: &VlmTrainer,
    windows: &Windows,
    input_format: &InputFormat,
    batch: usize,
) -> Result<JudgeMetrics, TrainError> {
    let shares = RankShares::of(windows.len(), batch, ranks.world());
    let numbers: Vec<usize> = shares.batches(ranks.rank()).flatten().collect();
    let answers = AnswerTokens::of(windows, trainer)?;
    let ask = |inputs: &[Inputs]| trainer.label_logits(inputs, &answers.tokens);
    let show = |number: usize| input_format.inputs(trainer.processor(), windows, number);
    let own = ranks.agree(logits_of(&numbers, batch, &show, &ask, &|_, _| {}))?;
    let width = answers.tokens.len();
    let logits = shares.gather(ranks, own.concat(), width)?;
    let asked: Vec<(Objective, usize)> = windows.rows().map(|row| (row.objective, row.answer)).collect();
    let own = |(logits, (objective, _)): (&[f32], &(Objective, usize))| answers.own(logits, *objective);
    let logits: Vec<Vec<f32>> = logits.chunks_exact(width.max(1)).zip(&asked).map(own).collect();
    Ok(JudgeMetrics::of(&logits, &asked))
}

/// The first tokens of the answers of all objectives in some windows, one objective after the other.
struct AnswerTokens {
    objectives: Vec<Objective>,
    tokens: Vec<u32>,
}

impl AnswerTokens {
    fn of(windows: &Windows, trainer: &VlmTrainer) -> Result<Self, VlmError> {
        let objectives = windows.objectives();
        let tokenizer = trainer.processor().tokenizer();
        let tokens = objectives.iter().map(|objective| tokenizer.first_tokens(objective.answers()));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?.concat();
        Ok(Self { objectives, tokens })
    }

    /// Of all logits those of one objective's answers.
    fn own(&self, logits: &[f32], objective: Objective) -> Vec<f32> {
        let before = self.objectives.iter().take_while(|other| **other != objective);
        let begin: usize = before.map(|other| other.answers().len()).sum();
        logits[begin..begin + objective.answers().len()].to_vec()
    }
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
    let wrong = || VlmError::Input("the model has not one logit for each label".into());
    let logits = logits_of(numbers, batch, show, &ask, on_progress)?;
    let labels = |row: Vec<f32>| row.try_into().map(LabelLogits).map_err(|_| wrong().into());
    logits.into_iter().map(labels).collect()
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
) -> Result<Vec<Vec<f32>>, TrainError> {
    let mut logits = Vec::with_capacity(numbers.len());
    for some in numbers.chunks(batch.max(1)) {
        on_progress(logits.len(), numbers.len());
        let inputs: Vec<Inputs> = some.par_iter().map(|number| show(*number)).collect::<Result<_, _>>()?;
        logits.extend(ask(&inputs)?);
    }
    on_progress(numbers.len(), numbers.len());
    Ok(logits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_equally_however_many_windows_they_have() {
        let (positive, unclear) = (vec![2.0, 0.0, 0.0], vec![0.0, 0.0, 2.0]);
        let asked = [0, 0, 1, 2].map(|right| (Objective::Trend, right));
        let found = JudgeMetrics::of(&[positive.clone(), positive.clone(), positive, unclear], &asked);
        assert_eq!(found.objectives[0].confusion, [[2, 0, 0], [1, 0, 0], [0, 0, 1]]);
        assert_eq!(found.accuracy, 0.75);
        assert!((found.balanced_accuracy - 2.0 / 3.0).abs() < 1e-12);
        // The right one of three has e^2 / (e^2 + 2), the wrong one 1 / (e^2 + 2).
        let sum = (2.0_f64.exp() + 2.0).ln();
        assert!((found.loss - (3.0 * (sum - 2.0) + sum) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn an_answer_without_windows_is_not_counted() {
        let asked = [0, 0].map(|right| (Objective::Trend, right));
        let found = JudgeMetrics::of(&[vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]], &asked);
        assert_eq!((found.accuracy, found.balanced_accuracy), (0.5, 0.5));
        assert_eq!(found.values().iter().filter(|(name, _)| name.contains("recall")).count(), 1);
    }

    #[test]
    fn objectives_are_told_apart_and_count_equally() {
        // Sure of the digit 9 where 9 and 0 are right: no error, and all of the task.
        let mut digits = vec![0.0; 10];
        digits[9] = 100.0;
        let asked = [(Objective::Progress, 9), (Objective::Progress, 0), (Objective::Success, 1)];
        let found = JudgeMetrics::of(&[digits.clone(), digits, vec![0.0, 3.0]], &asked);
        let [progress, success] = &found.objectives[..] else { panic!("{found:?}") };
        assert_eq!((progress.objective, success.objective), (Objective::Progress, Objective::Success));
        assert!((progress.mean_error.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!((progress.balanced_accuracy, success.balanced_accuracy), (0.5, 1.0));
        assert_eq!((found.balanced_accuracy, found.windows), (0.75, 3));
    }
}
