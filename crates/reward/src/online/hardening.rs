//! One round: a model learns from what it knows and from the policy's frames, and is checked.

use std::sync::Arc;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{
    BatchLoss, ClassifierError, NonNegativePu, ProgressBins, ProgressLabel, Scorer, Trainer,
};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

use super::policy_frames::PolicyFrame;
use super::{OnlineError, OnlineSettings, PolicyLabel};
use crate::dataset::{Batch, Frames, ProgressLabels};
use crate::train::{evaluate, progress_loss};

/// Frames scored at a time.
const BATCH: usize = 256;
/// Gradients are shortened to this length.
const CLIP: f64 = 1.0;
/// The threshold of a model without one.
const DEFAULT_THRESHOLD: f64 = 0.5;

/// What a model learns from beside the policy's frames, and what it is checked on.
#[derive(Clone)]
pub struct HardeningData {
    /// Labelled frames that it learned from before.
    pub train: Arc<Frames>,
    /// Labelled frames that it never learns from.
    pub held_out: Arc<Frames>,
}

/// A model that learns in rounds.
pub struct Hardening {
    settings: OnlineSettings,
    data: HardeningData,
    trainer: Trainer,
    successes: Vec<usize>,
    failures: Vec<usize>,
    progress: Option<(ProgressBins, ProgressLabels)>,
    /// The AUC of the first model on the held-out frames.
    first_auc: f64,
    /// The model in use, with the optimiser's moments.
    accepted: Weights,
    pub(super) threshold: f64,
    pub(super) rounds: u64,
}

/// What came of a round.
#[derive(Clone, Debug)]
pub struct RoundResult {
    /// Which it was, counted from 1.
    pub round: u64,
    /// The policy's frames that it learned from.
    pub frames: usize,
    /// The share of successes that they were taken to have.
    pub prior: f64,
    /// Mean loss of its steps.
    pub loss: f64,
    /// Share of the policy's frames that the model in use called solved before.
    pub called_before: f64,
    /// The same after.
    pub called: f64,
    /// AUC on the held-out frames.
    pub auc: f64,
    /// The lowest that was acceptable.
    pub lowest_auc: f64,
    /// What became of it.
    pub outcome: RoundOutcome,
}

/// What became of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum RoundOutcome {
    /// The model rewards from now on.
    Accepted {
        /// Scores above this mean success: the threshold of the highest F1 on the held-out frames.
        threshold: f64,
    },
    /// Its ranking of the held-out frames is too much worse: the model before stays in use.
    Worse,
    /// The loss is no number any more: the model before stays in use.
    NotFinite,
}

impl Hardening {
    /// A model that was trained on this data. Measures it on the held-out part.
    ///
    /// # Errors
    /// When a part lacks a label, or images do not fit the model.
    pub fn new(
        settings: OnlineSettings,
        data: HardeningData,
        mut trainer: Trainer,
        threshold: Option<f64>,
    ) -> Result<Self, OnlineError> {
        for (part, frames) in [("training", &data.train), ("held-out", &data.held_out)] {
            let balance = frames.balance();
            for (missing, count) in [("success", balance.successes), ("failure", balance.failures)] {
                if count == 0 {
                    return Err(OnlineError::OneClass { part, missing });
                }
            }
        }
        let (successes, failures) = (0..data.train.len()).partition(|number| data.train.success(*number));
        let progress = match trainer.settings().bins() {
            Some(bins) => {
                Some((bins, ProgressLabels::of(&data.train).map_err(crate::train::TrainError::from)?))
            }
            None => None,
        };
        let first_auc = auc(&trainer.scorer()?, &data.held_out)?.0;
        let accepted = trainer.state()?;
        let threshold = threshold.unwrap_or(DEFAULT_THRESHOLD);
        Ok(Self {
            settings,
            data,
            trainer,
            successes,
            failures,
            progress,
            first_auc,
            accepted,
            threshold,
            rounds: 0,
        })
    }

    /// How it learns.
    #[must_use]
    pub fn settings(&self) -> &OnlineSettings {
        &self.settings
    }

    /// The AUC of the first model on the held-out frames.
    #[must_use]
    pub fn first_auc(&self) -> f64 {
        self.first_auc
    }

    /// The weights of the model in use.
    #[must_use]
    pub fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        let stored = self.accepted.iter().filter(|(name, _)| !name.starts_with("optimizer."));
        stored.for_each(|(name, tensor)| weights.insert(name, tensor.clone()));
        weights
    }

    pub(super) fn state(&self) -> &Weights {
        &self.accepted
    }

    /// Goes on from a saved state.
    pub(super) fn restore(&mut self, state: Weights, threshold: f64, rounds: u64) -> Result<(), OnlineError> {
        self.trainer.restore(&state)?;
        (self.accepted, self.threshold, self.rounds) = (state, threshold, rounds);
        Ok(())
    }

    /// A round over these frames of the policy.
    ///
    /// # Errors
    /// When they do not fit the model.
    pub(super) fn round(&mut self, frames: &[PolicyFrame]) -> Result<RoundResult, OnlineError> {
        self.rounds += 1;
        let called_before = self.called(frames, self.threshold)?;
        let prior = self.settings.prior;
        let seed = self.settings.seed.purpose("online").index(self.rounds);
        let mut losses = Vec::new();
        for step in 0..self.settings.steps {
            losses.push(self.step(frames, prior, seed.index(step))?);
        }
        let loss = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        let (auc, threshold) = auc(&self.trainer.scorer()?, &self.data.held_out)?;
        let lowest_auc = self.first_auc - self.settings.auc_margin;
        let outcome = match (loss.is_finite() && auc.is_finite(), auc >= lowest_auc) {
            (true, true) => RoundOutcome::Accepted { threshold },
            (true, false) => RoundOutcome::Worse,
            (false, _) => RoundOutcome::NotFinite,
        };
        let called = self.called(frames, threshold)?;
        match outcome {
            RoundOutcome::Accepted { threshold } => {
                self.accepted = self.trainer.state()?;
                self.threshold = threshold;
            }
            RoundOutcome::Worse | RoundOutcome::NotFinite => self.trainer.restore(&self.accepted)?,
        }
        let (round, frames) = (self.rounds, frames.len());
        Ok(RoundResult { round, frames, prior, loss, called_before, called, auc, lowest_auc, outcome })
    }

    /// One step of the optimiser; gives its loss.
    fn step(&mut self, frames: &[PolicyFrame], prior: f64, seed: Seed) -> Result<f64, OnlineError> {
        let OnlineSettings { batch, augment, lr, labelled_weight, policy_frames, .. } = &self.settings;
        let mut rng = seed.purpose("order").rng();
        let mut pick =
            |from: &[usize]| -> Vec<usize> { (0..*batch).map(|_| from[rng.below(from.len())]).collect() };
        let (successes, failures) = (pick(&self.successes), pick(&self.failures));
        let all: Vec<usize> = (0..frames.len()).collect();
        let of_policy: Vec<&[Vec<u8>]> = pick(&all).into_iter().map(|number| &frames[number][..]).collect();
        let numbers = [successes, failures].concat();
        let images = Batch::augmented(&self.data.train, &numbers, augment, seed.purpose("augment"))
            .plus_unlabelled(&of_policy, self.data.train.cameras(), augment, seed.purpose("augment policy"));
        let losses = StepLoss {
            batch: *batch,
            prior,
            labelled_weight: *labelled_weight,
            policy_frames: *policy_frames,
            progress: self.progress.as_ref().map(|(bins, labels)| {
                (*bins, numbers.iter().map(|number| labels.get(*number)).collect::<Vec<_>>())
            }),
        };
        let images = images.images().map_err(ClassifierError::from)?;
        let found = self.trainer.accumulate_by(
            &images,
            &|outputs| losses.of(outputs),
            1.0,
            seed.purpose("dropout"),
        )?;
        self.trainer.step(*lr, Some(CLIP))?;
        Ok(found.loss)
    }

    /// The share of the policy's frames that the network calls solved at a threshold.
    fn called(&mut self, frames: &[PolicyFrame], threshold: f64) -> Result<f64, OnlineError> {
        let (scorer, mut called) = (self.trainer.scorer()?, 0);
        for some in frames.chunks(BATCH) {
            let pixels: Vec<Vec<u8>> = (0..self.data.train.views().len())
                .map(|view| some.iter().flat_map(|frame| frame[view].iter().copied()).collect())
                .collect();
            let views = self.data.train.views().iter().zip(self.data.train.shapes()).zip(&pixels);
            let keys: Vec<String> = self.data.train.views().iter().map(ToString::to_string).collect();
            let views = views.zip(&keys).map(|(((_, shape), pixels), key)| ViewPixels {
                key,
                pixels: Pixels::U8(pixels),
                layout: ImageLayout::Hwc,
                count: some.len(),
                height: shape.height,
                width: shape.width,
                channels: shape.channels,
            });
            let images = ImageBatch::new(views.collect()).map_err(ClassifierError::from)?;
            called +=
                scorer.probabilities(&images)?.iter().filter(|score| f64::from(**score) > threshold).count();
        }
        Ok(called as f64 / frames.len().max(1) as f64)
    }
}

/// The loss of a step: `batch` successes, as many failures, then the policy's frames.
struct StepLoss {
    batch: usize,
    prior: f64,
    labelled_weight: f64,
    policy_frames: PolicyLabel,
    /// Of a network of progress: its bins, and the labels of the successes and failures.
    progress: Option<(ProgressBins, Vec<Option<ProgressLabel>>)>,
}

impl StepLoss {
    fn of(&self, outputs: &[f32]) -> BatchLoss {
        let width = self.progress.as_ref().map_or(1, |(bins, _)| bins.count());
        let logits: Vec<f64> = match &self.progress {
            Some((bins, _)) => outputs.chunks_exact(width).map(|outputs| bins.logit(outputs)).collect(),
            None => outputs.iter().map(|output| f64::from(*output)).collect(),
        };
        let (labelled, mut gradients) = self.labelled(outputs, &logits);
        gradients.resize(outputs.len(), 0.0);
        gradients.iter_mut().for_each(|gradient| *gradient *= self.labelled_weight);
        let (policy, by_logit) = self.policy(&logits);
        let weight = 1.0 - self.labelled_weight;
        for (number, by_logit) in by_logit {
            let place = number * width..(number + 1) * width;
            let by_output = match &self.progress {
                Some((bins, _)) => bins.logit_gradient(&outputs[place.clone()]),
                None => vec![1.0],
            };
            for (gradient, by_output) in gradients[place].iter_mut().zip(by_output) {
                *gradient += weight * by_logit * by_output;
            }
        }
        BatchLoss { loss: self.labelled_weight * labelled + weight * policy, gradients }
    }

    /// What the labelled frames cost, and the gradient by their outputs.
    fn labelled(&self, outputs: &[f32], logits: &[f64]) -> (f64, Vec<f64>) {
        if let Some((bins, labels)) = &self.progress {
            let BatchLoss { loss, gradients } =
                progress_loss(*bins, &outputs[..labels.len() * bins.count()], labels);
            return (loss, gradients);
        }
        let label = |number: usize| if number < self.batch { 1.0 } else { 0.0 };
        let each = logits[..2 * self.batch].iter().enumerate();
        let each = each.map(|(number, logit)| cross_entropy(*logit, label(number)));
        let (costs, gradients): (Vec<f64>, Vec<f64>) = each.unzip();
        let count = costs.len().max(1) as f64;
        (costs.iter().sum::<f64>() / count, gradients.into_iter().map(|gradient| gradient / count).collect())
    }

    /// What the policy's frames cost beside the successes, and the gradient by logits.
    fn policy(&self, logits: &[f64]) -> (f64, Vec<(usize, f64)>) {
        let (successes, of_policy) = (&logits[..self.batch], &logits[2 * self.batch..]);
        let numbers = (0..self.batch).chain(2 * self.batch..logits.len());
        match self.policy_frames {
            PolicyLabel::Unlabelled => {
                let found = NonNegativePu::with_prior(self.prior).of(successes, of_policy);
                (found.risk, numbers.zip(found.positives.into_iter().chain(found.unlabelled)).collect())
            }
            PolicyLabel::Negative => {
                let positive = successes.iter().map(|logit| cross_entropy(*logit, 1.0));
                let each: Vec<_> =
                    positive.chain(of_policy.iter().map(|logit| cross_entropy(*logit, 0.0))).collect();
                let count = each.len().max(1) as f64;
                let loss = each.iter().map(|(cost, _)| cost).sum::<f64>() / count;
                (loss, numbers.zip(each.into_iter().map(|(_, gradient)| gradient / count)).collect())
            }
        }
    }
}

/// Binary cross entropy of a logit, and its derivative.
fn cross_entropy(logit: f64, label: f64) -> (f64, f64) {
    let cost = logit.max(0.0) - logit * label + (-logit.abs()).exp().ln_1p();
    (cost, 1.0 / (1.0 + (-logit).exp()) - label)
}

/// The AUC on labelled frames, and the threshold of the highest F1.
fn auc(scorer: &Scorer, frames: &Frames) -> Result<(f64, f64), OnlineError> {
    let found = evaluate(scorer, frames, BATCH)?;
    Ok((found.metrics.auc.unwrap_or(f64::NAN), found.metrics.threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every gradient of a step's loss is that of finite differences, for both kinds of networks and of labels.
    #[test]
    fn gradients_are_those_of_the_loss() {
        let bins = ProgressBins::new(4).unwrap();
        let labels = [1.0, 1.0, 0.25, 0.6].map(|progress| Some(ProgressLabel::At(progress))).to_vec();
        for policy_frames in [PolicyLabel::Unlabelled, PolicyLabel::Negative] {
            for progress in [None, Some((bins, labels.clone()))] {
                let width = progress.as_ref().map_or(1, |_| 4);
                let losses = StepLoss { batch: 2, prior: 0.5, labelled_weight: 0.3, policy_frames, progress };
                let outputs: Vec<f32> =
                    (0..6 * width).map(|at| ((at * 37 % 11) as f32 - 5.0) / 4.0).collect();
                let found = losses.of(&outputs);
                for at in 0..outputs.len() {
                    let moved = |by: f32| {
                        let mut outputs = outputs.clone();
                        outputs[at] += by;
                        losses.of(&outputs).loss
                    };
                    let measured = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                    assert!(
                        (found.gradients[at] - measured).abs() < 2e-4,
                        "{policy_frames:?} {at}: {} {measured}",
                        found.gradients[at]
                    );
                }
            }
        }
    }
}
