//! A network that learns.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use plaudit_core::{GradientSync, Seed, SyncError};

use super::data_parallel::Sharding;
use super::device::{Device, image_tensors};
use super::error::ClassifierError;
use super::fold::{Folded, fold};
use super::gpu::{BatchImages, BatchMeasure, GpuInput, GpuSnapshot, GpuTrainer};
use super::load;
use super::loss::Loss;
use super::network::{self, ConvNorm, EPSILON, Network, Norm, Pass};
use super::optimizer::{AdamW, Optimizer, StepOutcome};
use super::parameters::{Id, Parameters, Role, Value};
use super::scorer::{GpuTimes, Scorer};
use super::settings::{ClassifierSettings, Precision};
use crate::gpu::GpuError;
use crate::images::{ImageBatch, Preprocess};
use crate::kernels::spin_pool;
use crate::ops::images;
use crate::tensor::Tensor;
use crate::weights::Weights;

/// How much of a batch's statistics goes into the running ones.
pub(super) const MOMENTUM: f64 = 0.1;

/// A classifier in training.
///
/// A step is one or more calls of [`accumulate`](Self::accumulate), then [`step`](Self::step). Everything that
/// follows is decided by the settings, the seeds and the batches: the same calls give bit-exact results, also after
/// [`state`](Self::state) was saved and [`restore`](Self::restore)d.
#[derive(Debug)]
pub struct Trainer {
    settings: ClassifierSettings,
    preprocess: Preprocess,
    network: Network,
    parameters: Parameters,
    optimizer: Optimizer,
    /// The layers of a frozen trunk.
    frozen: Option<Vec<Folded>>,
    /// The network as it answers now; made when asked for.
    scorer: Option<Scorer>,
    /// On the CPU: what came of batches and steps that were begun.
    begun: (VecDeque<Accumulated>, VecDeque<StepOutcome>),
    /// Steps that a GPU was asked for, and what came of them was not.
    steps_begun: u32,
    /// On a GPU: the network as it once answered, whose place the next may take.
    stale_scorer: Option<Scorer>,
    /// The network, its gradients and the optimizer's moments, if they are on a GPU; what is here is then as old as the last time it
    /// was asked for.
    gpu: Option<(usize, GpuTrainer)>,
    /// With several ranks: the statistics of the last batch, until all ranks have those of all.
    batch_statistics: Vec<BatchStatistics>,
}

/// What a batch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulated {
    /// Mean over the batch of each image's loss times its weight.
    pub loss: f64,
    /// The logits (of a network of progress, the outputs for all bins, image after image), in training mode: with dropout, and
    /// normalised over the batch.
    pub logits: Vec<f32>,
}

/// The images of a batch.
#[derive(Clone, Copy, Debug)]
pub enum TrainingImages<'a, 'p> {
    /// These.
    Given(&'a ImageBatch<'p>),
    /// Those that were [staged](Trainer::stage) last.
    Staged {
        /// How many time steps.
        count: usize,
    },
}

/// The loss of a batch, and its gradient by each output of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLoss {
    /// The loss.
    pub loss: f64,
    /// By each output, image after image.
    pub gradients: Vec<f64>,
}

impl Trainer {
    /// A classifier with fresh weights, on the CPU.
    ///
    /// # Errors
    /// When the settings name no network.
    pub fn new(settings: &ClassifierSettings, adamw: AdamW, seed: u64) -> Result<Self, ClassifierError> {
        Self::on(Device::Cpu, settings, adamw, seed)
    }

    /// A classifier with fresh weights.
    ///
    /// # Errors
    /// When the settings name no network, or the device is not there.
    pub fn on(
        device: Device,
        settings: &ClassifierSettings,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, ClassifierError> {
        settings.check()?;
        let (network, specs) = network::build(settings);
        let parameters = Parameters::fresh(specs, Seed::new(seed).purpose("weights"));
        let optimizer = Optimizer::new(adamw, &parameters);
        let gpu = match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some((index, GpuTrainer::open(index, settings, &network, &parameters)?)),
        };
        let (settings, preprocess) = (settings.clone(), settings.preprocess());
        Ok(Self {
            settings,
            preprocess,
            network,
            parameters,
            optimizer,
            frozen: None,
            scorer: None,
            begun: Default::default(),
            steps_begun: 0,
            stale_scorer: None,
            gpu,
            batch_statistics: Vec::new(),
        })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &ClassifierSettings {
        &self.settings
    }

    /// Where it trains.
    #[must_use]
    pub fn device(&self) -> Device {
        self.gpu.as_ref().map_or(Device::Cpu, |(index, _)| Device::Cuda(*index))
    }

    /// How many parameters are trained.
    #[must_use]
    pub fn trainable_parameters(&self) -> usize {
        self.parameters.specs.iter().filter(|spec| spec.role == Role::Trained).map(|spec| spec.len()).sum()
    }

    /// Replaces all weights by those of a checkpoint of the same network.
    ///
    /// # Errors
    /// When it is of another network; nothing is changed then, and the error says which setting to change.
    pub fn load(&mut self, weights: &Weights) -> Result<(), ClassifierError> {
        load::check(&self.settings, &self.parameters.specs, weights)?;
        self.fetch()?;
        for i in 0..self.parameters.specs.len() {
            if let Some(stored) = weights.get(&self.parameters.specs[i].name) {
                load::set(&mut self.parameters, Id(i), stored);
            }
        }
        self.weights_were_set()
    }

    /// Replaces the trunk's weights by those of a file trained on other images: torchvision's for ImageNet, or
    /// `resnet10_pretrained.pt`. The head stays as it is.
    ///
    /// # Errors
    /// When its trunk is another; nothing is changed then.
    pub fn load_pretrained(&mut self, weights: &Weights) -> Result<(), ClassifierError> {
        let replaced = load::pretrained(&self.settings, &self.parameters.specs, weights)?;
        self.fetch()?;
        for (id, stored) in replaced {
            load::set(&mut self.parameters, id, &stored);
        }
        self.weights_were_set()
    }

    /// Weights were changed from outside.
    fn weights_were_set(&mut self) -> Result<(), ClassifierError> {
        self.frozen = None;
        self.weights_moved();
        match &mut self.gpu {
            Some((_, gpu)) => Ok(gpu.upload(&self.parameters)?),
            None => Ok(()),
        }
    }

    /// The scorer no longer answers as the network does.
    fn weights_moved(&mut self) {
        let scorer = self.scorer.take();
        if self.gpu.is_some() {
            self.stale_scorer = scorer.or(self.stale_scorer.take());
        }
    }

    /// Brings the parameters from the GPU, if they are there.
    fn fetch(&mut self) -> Result<(), ClassifierError> {
        match &self.gpu {
            Some((_, gpu)) => Ok(gpu.download(&mut self.parameters)?),
            None => Ok(()),
        }
    }

    /// The parameters as they are now.
    fn current(&self) -> Result<Cow<'_, Parameters>, ClassifierError> {
        let Some((_, gpu)) = &self.gpu else { return Ok(Cow::Borrowed(&self.parameters)) };
        let mut parameters = self.parameters.clone();
        gpu.download(&mut parameters)?;
        Ok(Cow::Owned(parameters))
    }

    /// Runs a batch and adds `scale` times the gradient of its loss to those that wait for the next step.
    ///
    /// The loss is the mean of `weights[i] * loss(logit[i], labels[i])`. `seed` decides what is dropped; give each
    /// batch its own. If the loss is not finite, nothing is added and no statistics are touched.
    ///
    /// # Errors
    /// When images do not fit the model, or there are not as many labels and weights.
    pub fn accumulate(
        &mut self,
        images: &ImageBatch<'_>,
        labels: &[f32],
        weights: Option<&[f32]>,
        loss: Loss,
        scale: f64,
        seed: Seed,
    ) -> Result<Accumulated, ClassifierError> {
        self.begin(TrainingImages::Given(images), labels, weights, loss, scale, seed)?;
        self.finish()
    }

    /// [`accumulate`](Self::accumulate) in two parts: a GPU computes until [`finish`](Self::finish) asks for what came of it. Meanwhile
    /// the next images can be made, and [staged](Self::stage).
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn begin(
        &mut self,
        images: TrainingImages<'_, '_>,
        labels: &[f32],
        weights: Option<&[f32]>,
        loss: Loss,
        scale: f64,
        seed: Seed,
    ) -> Result<(), ClassifierError> {
        let count = match images {
            TrainingImages::Given(images) => images.len(),
            TrainingImages::Staged { count } => count,
        };
        check_labels(count, labels, weights)?;
        if self.settings.bins().is_some() {
            let what = "labels of success for a network of progress".to_owned();
            return Err(ClassifierError::Labels { what });
        }
        let images = match (images, &self.gpu) {
            (TrainingImages::Given(images), None) => {
                let measure = |logits: &[f32]| mean_loss(logits, labels, weights, loss);
                let given = self.accumulate_by(images, &measure, scale, seed)?;
                self.begun.0.push_back(given);
                return Ok(());
            }
            (TrainingImages::Given(images), Some(_)) => {
                BatchImages::Given(GpuInput::new(&self.preprocess, images)?)
            }
            (TrainingImages::Staged { .. }, _) => BatchImages::Staged,
        };
        let Some((_, gpu)) = &mut self.gpu else {
            return Err(ClassifierError::Labels { what: "images were staged for a CPU".to_owned() });
        };
        Ok(gpu.begin(&images, &BatchMeasure::Labels(labels, weights, loss), scale, seed)?)
    }

    /// What came of the first batch that was [begun](Self::begin) and not finished.
    ///
    /// # Errors
    /// When none was, or the GPU fails.
    pub fn finish(&mut self) -> Result<Accumulated, ClassifierError> {
        let Some((_, gpu)) = &mut self.gpu else {
            let nothing = || ClassifierError::Labels { what: "no batch was begun".to_owned() };
            return self.begun.0.pop_front().ok_or_else(nothing);
        };
        let given = gpu.finish()?;
        self.batch_is_done(&given);
        Ok(given)
    }

    /// Copies images to the GPU while it computes; they are those of the next batch, which is begun with
    /// [`TrainingImages::Staged`]. `false` on the CPU, where nothing is gained by it.
    ///
    /// # Errors
    /// When images do not fit the model, or the GPU fails.
    pub fn stage(&mut self, images: &ImageBatch<'_>) -> Result<bool, ClassifierError> {
        let Some((_, gpu)) = &mut self.gpu else { return Ok(false) };
        gpu.stage(&GpuInput::new(&self.preprocess, images)?)?;
        Ok(true)
    }

    fn accumulate_on_gpu(
        &mut self,
        images: &ImageBatch<'_>,
        measure: &BatchMeasure<'_>,
        scale: f64,
        seed: Seed,
    ) -> Result<Accumulated, ClassifierError> {
        let images = BatchImages::Given(GpuInput::new(&self.preprocess, images)?);
        let Some((_, gpu)) = &mut self.gpu else { unreachable!("asked for on a GPU alone") };
        gpu.begin(&images, measure, scale, seed)?;
        let given = gpu.finish()?;
        self.batch_is_done(&given);
        Ok(given)
    }

    /// A GPU has run a batch.
    fn batch_is_done(&mut self, given: &Accumulated) {
        if given.loss.is_finite() && !self.settings.freeze_encoder {
            self.count_batch();
            self.weights_moved();
        }
    }

    /// Counts a batch whose statistics went into the running ones.
    fn count_batch(&mut self) {
        for layer in &self.network.convolutions {
            if let Norm::Batch { counter, .. } = layer.norm
                && let Value::Count(batches) = &mut self.parameters.values[counter.0]
            {
                *batches += 1;
            }
        }
    }

    /// The same with any loss of a whole batch.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub fn accumulate_by(
        &mut self,
        images: &ImageBatch<'_>,
        loss: &dyn Fn(&[f32]) -> BatchLoss,
        scale: f64,
        seed: Seed,
    ) -> Result<Accumulated, ClassifierError> {
        if self.gpu.is_some() {
            return self.accumulate_on_gpu(images, &BatchMeasure::By(loss), scale, seed);
        }
        let _spinning = spin_pool::keep_spinning();
        // Weights stay in 32 bits while they learn, and so do images.
        let views = image_tensors(&self.preprocess, images)?;
        self.fold_frozen_trunk();
        let mut pass =
            TrainingPass::new(&self.parameters, self.settings.precision, self.frozen.as_deref(), seed);
        let logits = self.network.outputs(&mut pass, views);
        let answers = logits.numbers().to_vec();
        let BatchLoss { loss, gradients } = loss(&answers);
        let logit_gradients: Vec<f32> =
            gradients.into_iter().map(|gradient| (scale * gradient) as f32).collect();
        if !loss.is_finite() {
            return Ok(Accumulated { loss, logits: answers });
        }
        let mut gradients = logits.backward(logit_gradients.into());
        let TrainingPass { leaves, statistics, .. } = pass;
        for (i, leaf) in leaves.into_iter().enumerate() {
            if let Some(gradient) = leaf.and_then(|leaf| gradients.take(&leaf)) {
                self.optimizer.add(Id(i), gradient);
            }
        }
        match self.optimizer.ranks() {
            Some(_) => self.batch_statistics = statistics,
            None => statistics.into_iter().for_each(|statistics| self.update_running_statistics(statistics)),
        }
        self.weights_moved();
        Ok(Accumulated { loss, logits: answers })
    }

    /// Folds the layers of a frozen trunk, once.
    fn fold_frozen_trunk(&mut self) {
        if self.settings.freeze_encoder && self.frozen.is_none() {
            self.frozen = Some(fold(&self.network, &self.parameters, self.settings.precision));
        }
    }

    /// Moves running statistics towards those of a batch.
    fn update_running_statistics(&mut self, statistics: BatchStatistics) {
        let BatchStatistics { ids: [mean, variance, counter], batch_mean, batch_variance, count } =
            statistics;
        let unbiased = batch_variance * (count as f64 / (count as f64 - 1.0).max(1.0));
        for (id, batch) in [(mean, batch_mean), (variance, unbiased)] {
            let running = self.parameters.take(id);
            self.parameters.set(id, running * (1.0 - MOMENTUM) + batch * MOMENTUM);
        }
        if let Value::Count(batches) = &mut self.parameters.values[counter.0] {
            *batches += 1;
        }
    }

    /// Moves the weights by what was accumulated, shortened to length `clip` if it is longer, and forgets it. A
    /// gradient that is not finite moves nothing.
    ///
    /// # Errors
    /// When a GPU fails.
    pub fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, ClassifierError> {
        self.begin_step(lr, clip)?;
        self.finish_step()
    }

    /// [`step`](Self::step) in two parts: a GPU computes until [`finish_step`](Self::finish_step) asks for what came of it. Batches and one
    /// more step can be begun meanwhile, so that it never waits for the host; the bits are those of one thing after the other.
    ///
    /// A batch that runs when a step is begun is taken to have a finite loss. If it turns out to have none, the weights are worth
    /// nothing from there on.
    ///
    /// # Errors
    /// When a GPU fails, or what came of two steps was not asked for yet.
    pub fn begin_step(&mut self, lr: f64, clip: Option<f64>) -> Result<(), ClassifierError> {
        self.weights_moved();
        let Some((_, gpu)) = self.gpu.as_mut().filter(|(_, gpu)| gpu.can_step()) else {
            let outcome = match &self.gpu {
                Some(_) => StepOutcome { grad_norm: 0.0, skipped: false }, // nothing waits for a step
                None => {
                    let _spinning = spin_pool::keep_spinning();
                    self.optimizer.step(&mut self.parameters, lr, clip)
                }
            };
            self.begun.1.push_back(outcome);
            return Ok(());
        };
        if self.steps_begun > 1 {
            let what = "a third step before what came of the first was asked for";
            return Err(GpuError::Unsupported { what }.into());
        }
        // How many steps moved the weights before decides how far this one does; the last one may still turn out to be skipped.
        let moved = self.optimizer.step_after(lr, self.steps_begun);
        let skipped = self.optimizer.step_after(lr, self.steps_begun.saturating_sub(1));
        gpu.begin_step([&moved, &skipped], clip)?;
        self.steps_begun += 1;
        Ok(())
    }

    /// What came of the first step that was [begun](Self::begin_step) and not finished.
    ///
    /// # Errors
    /// When none was, or the GPU fails.
    pub fn finish_step(&mut self) -> Result<StepOutcome, ClassifierError> {
        if let Some(outcome) = self.begun.1.pop_front() {
            return Ok(outcome);
        }
        let Some((_, gpu)) = &mut self.gpu else {
            return Err(ClassifierError::Labels { what: "no step was begun".to_owned() });
        };
        let outcome = gpu.finish_step()?;
        self.steps_begun -= 1;
        if !outcome.skipped {
            self.optimizer.count_step();
        }
        Ok(outcome)
    }

    /// Learns together with other ranks from now on, beginning with the weights and the optimizer's state of rank 0.
    ///
    /// A step is then one or more times [`accumulate`](Self::accumulate) and [`reduce`](Self::reduce), and
    /// [`step_over_ranks`](Self::step_over_ranks). It is bit-exact with the step of one rank that accumulates the batches of all:
    /// first those of the first call, in the order of ranks, then those of the second. Each batch is normalised by its own
    /// statistics, and running statistics follow all of them in that order.
    ///
    /// # Errors
    /// When another rank is gone, or was given other frozen weights, or this one is on a GPU.
    pub fn join_ranks(
        &mut self,
        sync: Arc<dyn GradientSync>,
        sharding: Sharding,
    ) -> Result<(), ClassifierError> {
        if self.gpu.is_some() {
            return Err(ClassifierError::OnlyOnCpu {
                what: "training an image classifier with several ranks",
            });
        }
        self.weights_were_set()?;
        self.parameters.share(&*sync)?;
        self.optimizer.join(sync, sharding, &self.parameters);
        Ok(self.optimizer.share(&self.parameters)?)
    }

    /// After [`accumulate`](Self::accumulate) on every rank: sums what was accumulated, and updates running statistics.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn reduce(&mut self) -> Result<(), SyncError> {
        self.optimizer.reduce(&self.parameters)?;
        let Some(sync) = self.optimizer.ranks().cloned() else { return Ok(()) };
        let own = std::mem::take(&mut self.batch_statistics);
        let numbers = own.iter().flat_map(|layer| [&layer.batch_mean, &layer.batch_variance]);
        let numbers: Vec<f32> = numbers.flat_map(|tensor| tensor.numbers().to_vec()).collect();
        for numbers in sync.gather(&numbers)? {
            let mut rest = &numbers[..];
            for layer in &own {
                let (mean, after) = rest.split_at(layer.batch_mean.dims()[0]);
                let (variance, after) = after.split_at(mean.len());
                rest = after;
                let [batch_mean, batch_variance] = [mean, variance].map(|numbers| numbers.to_vec().into());
                let (ids, count) = (layer.ids, layer.count);
                self.update_running_statistics(BatchStatistics { ids, batch_mean, batch_variance, count });
            }
        }
        Ok(())
    }

    /// [`step`](Self::step) along what all ranks accumulated.
    ///
    /// # Errors
    /// When another rank is gone, or a GPU fails.
    pub fn step_over_ranks(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, ClassifierError> {
        if self.optimizer.ranks().is_none() {
            return self.step(lr, clip);
        }
        self.weights_moved();
        Ok(self.optimizer.step_over_ranks(&mut self.parameters, lr, clip)?)
    }

    /// [`state`](Self::state) with what all ranks have, on rank 0; nothing on the others. All of them call it.
    ///
    /// # Errors
    /// When another rank is gone, or a GPU fails.
    pub fn state_over_ranks(&self) -> Result<Option<Weights>, ClassifierError> {
        if self.optimizer.ranks().is_none() {
            return self.state().map(Some);
        }
        let is_first = self.optimizer.ranks().is_none_or(|sync| sync.rank() == 0);
        let mut state = is_first.then(|| self.parameters.weights());
        self.optimizer.save_over_ranks(&self.parameters, &mut state)?;
        Ok(state)
    }

    /// The logits in evaluation mode: nothing dropped, running statistics.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub fn predict(&mut self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        self.scorer()?.logits(images)
    }

    /// The network as it answers now, for other threads, where it is trained. It does not follow later steps.
    ///
    /// # Errors
    /// When a GPU fails.
    pub fn scorer(&mut self) -> Result<Scorer, ClassifierError> {
        if let Some(scorer) = &self.scorer {
            return Ok(scorer.clone());
        }
        self.fetch()?;
        let (settings, network, parameters) = (&self.settings, &self.network, &self.parameters);
        let scorer = match &self.gpu {
            Some((index, _)) => {
                Scorer::on_gpu(*index, self.stale_scorer.take(), settings, network, parameters)?
            }
            None => Scorer::of(settings, network, parameters),
        };
        Ok(self.scorer.insert(scorer).clone())
    }

    /// The weights, as PyTorch's model has them.
    ///
    /// # Errors
    /// When a GPU fails.
    pub fn weights(&self) -> Result<Weights, ClassifierError> {
        Ok(self.current()?.weights())
    }

    /// The weights and the optimizer's moments and steps: all that the next step depends on, if it comes after a
    /// [`step`](Self::step).
    ///
    /// # Errors
    /// When a GPU fails.
    pub fn state(&self) -> Result<Weights, ClassifierError> {
        let mut state = self.weights()?;
        match &self.gpu {
            Some((_, gpu)) if self.optimizer.has_moved() => {
                self.optimizer.with_moments(gpu.moments()?).save(&self.parameters, &mut state);
            }
            _ => self.optimizer.save(&self.parameters, &mut state),
        }
        Ok(state)
    }

    /// The network as it is now, with the optimizer's state if that is asked for, on its way from a GPU: another thread fetches it, and
    /// this one goes on. `None` on the CPU, before the first step, and where the GPU has no memory for another copy.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn snapshot(&self, with_state: bool) -> Result<Option<TrainerSnapshot>, ClassifierError> {
        let Some((_, gpu)) = self.gpu.as_ref().filter(|_| self.optimizer.has_moved()) else {
            return Ok(None);
        };
        match gpu.snapshot(with_state) {
            Ok(gpu) => {
                let (parameters, optimizer) = (self.parameters.clone(), self.optimizer.without_moments());
                Ok(Some(TrainerSnapshot { parameters, optimizer, gpu }))
            }
            Err(GpuError::Memory { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on from a saved [`state`](Self::state).
    ///
    /// # Errors
    /// When it is of another network; nothing is changed then.
    pub fn restore(&mut self, state: &Weights) -> Result<(), ClassifierError> {
        let mut weights = Weights::new();
        let stored = state.iter().filter(|(name, _)| !name.starts_with("optimizer."));
        stored.for_each(|(name, tensor)| weights.insert(name, tensor.clone()));
        self.load(&weights)?;
        self.optimizer.restore(&self.parameters, state);
        if let Some((_, gpu)) = &mut self.gpu {
            gpu.set_moments(|id, which| self.optimizer.moment(id, which))?;
            self.optimizer.forget_moments();
        }
        Ok(())
    }

    /// The gradients that wait for the next step, by parameter, for inspection.
    ///
    /// # Errors
    /// When a GPU fails.
    pub fn gradients(&self) -> Result<Weights, ClassifierError> {
        let mut gradients = Weights::new();
        if let Some((_, gpu)) = &self.gpu {
            for (id, gradient) in gpu.gradients()? {
                let spec = &self.parameters.specs[id.0];
                gradients.insert_f32(&spec.name, &spec.shape, &spec.to_torch(gradient));
            }
            return Ok(gradients);
        }
        for (spec, gradient) in self.parameters.specs.iter().zip(&self.optimizer.gradients) {
            if let Some(gradient) = gradient {
                gradients.insert_f32(&spec.name, &spec.shape, &spec.to_torch(gradient.numbers().to_vec()));
            }
        }
        Ok(gradients)
    }

    /// Where a step with so many images takes its time on a GPU, milliseconds of all of it each time it is run, and of each kernel in
    /// it, and bytes of memory there. `None` on the CPU. What was learned is lost.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn gpu_times(
        &mut self,
        count: usize,
        repeats: usize,
    ) -> Result<Option<(GpuTimes, usize)>, ClassifierError> {
        let Some((_, gpu)) = &mut self.gpu else { return Ok(None) };
        let (whole, layers) = gpu.times(count, repeats)?;
        Ok(Some((GpuTimes { whole, layers }, gpu.memory())))
    }
}

/// A classifier in training as it was when this was [made](Trainer::snapshot).
#[derive(Debug)]
pub struct TrainerSnapshot {
    parameters: Parameters,
    optimizer: Optimizer,
    gpu: GpuSnapshot,
}

impl TrainerSnapshot {
    /// Waits for it: the weights, as [`Trainer::weights`] gives them, and what [`Trainer::state`] gives, if that was asked for.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn fetch(mut self) -> Result<(Weights, Option<Weights>), ClassifierError> {
        let moments = self.gpu.fetch(&mut self.parameters)?;
        let weights = self.parameters.weights();
        let state = moments.map(|moments| {
            let mut state = weights.clone();
            self.optimizer.with_moments(moments).save(&self.parameters, &mut state);
            state
        });
        Ok((weights, state))
    }
}

fn check_labels(count: usize, labels: &[f32], weights: Option<&[f32]>) -> Result<(), ClassifierError> {
    let wrong = |what| Err(ClassifierError::Labels { what });
    if count == 0 {
        return wrong("a batch without images".to_owned());
    }
    if labels.len() != count {
        return wrong(format!("{} labels for {count} images", labels.len()));
    }
    if let Some(weights) = weights.filter(|weights| weights.len() != count) {
        return wrong(format!("{} weights for {count} images", weights.len()));
    }
    match labels.iter().position(|label| !(0.0..=1.0).contains(label)) {
        Some(i) => wrong(format!("label {} of image {i} is not between 0 and 1", labels[i])),
        None => Ok(()),
    }
}

/// The mean of each logit's loss times its weight.
fn mean_loss(logits: &[f32], labels: &[f32], weights: Option<&[f32]>, loss: Loss) -> BatchLoss {
    let (mut sum, mut gradients) = (0.0, Vec::with_capacity(logits.len()));
    for (i, (logit, label)) in logits.iter().zip(labels).enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[i])) / logits.len() as f64;
        let (cost, gradient) = loss.of(f64::from(*logit), f64::from(*label));
        sum += weight * cost;
        gradients.push(weight * gradient);
    }
    BatchLoss { loss: sum, gradients }
}

/// The statistics of a batch at one layer.
#[derive(Debug)]
struct BatchStatistics {
    /// Running mean, running variance, counter.
    ids: [Id; 3],
    batch_mean: Tensor<1>,
    batch_variance: Tensor<1>,
    count: usize,
}

/// The forward pass of training.
struct TrainingPass<'a> {
    parameters: &'a Parameters,
    precision: Precision,
    /// Those that learn, followed through the network.
    leaves: Vec<Option<Tensor<1>>>,
    frozen: Option<&'a [Folded]>,
    statistics: Vec<BatchStatistics>,
    seed: Seed,
    drops: u64,
}

impl<'a> TrainingPass<'a> {
    fn new(
        parameters: &'a Parameters,
        precision: Precision,
        frozen: Option<&'a [Folded]>,
        seed: Seed,
    ) -> Self {
        let leaf = |(i, value): (usize, &Value)| match value {
            Value::Numbers(tensor) if parameters.specs[i].role == Role::Trained => {
                Some(tensor.clone().require_grad())
            }
            _ => None,
        };
        let leaves = parameters.values.iter().enumerate().map(leaf).collect();
        Self {
            parameters,
            precision,
            leaves,
            frozen,
            statistics: Vec::new(),
            seed: seed.purpose("dropout"),
            drops: 0,
        }
    }
}

impl Pass for TrainingPass<'_> {
    fn parameter<const D: usize>(&self, id: Id) -> Tensor<D> {
        match &self.leaves[id.0] {
            Some(leaf) => leaf.clone().reshape(self.parameters.shape_of::<D>(id)),
            None => self.parameters.tensor(id),
        }
    }

    fn conv_norm(
        &mut self,
        layer: &ConvNorm,
        input: Tensor<4>,
        residual: Option<Tensor<4>>,
        relu: bool,
    ) -> Tensor<4> {
        if let Some(frozen) = self.frozen.filter(|_| layer.frozen) {
            return frozen[layer.index].forward(input, residual, relu);
        }
        let output =
            images::conv(input, self.parameter(layer.weight), layer.geometry(), self.precision.on_cpu());
        let parameters = [self.parameter(layer.scale), self.parameter(layer.shift)];
        let (mean, variance, counter) = match layer.norm {
            Norm::Group { groups } => {
                return images::group_norm_act(output, groups, parameters, residual, relu, EPSILON);
            }
            Norm::Batch { mean, variance, counter } => (mean, variance, counter),
        };
        let [n, h, w, _] = output.dims();
        let normed = images::batch_norm_act(output, parameters, residual, relu, EPSILON);
        self.statistics.push(BatchStatistics {
            ids: [mean, variance, counter],
            batch_mean: normed.mean,
            batch_variance: normed.variance,
            count: n * h * w,
        });
        normed.output
    }

    fn dropout(&mut self, input: Tensor<2>, share: f64) -> Tensor<2> {
        if share == 0.0 {
            return input;
        }
        let [rows, columns] = input.dims();
        let mask = dropout_mask(self.seed.index(self.drops), share, rows * columns);
        self.drops += 1;
        input * Tensor::new(mask, [rows, columns])
    }
}

/// What numbers are multiplied by, of which this share is dropped.
pub(super) fn dropout_mask(seed: Seed, share: f64, count: usize) -> Vec<f32> {
    let (mut rng, kept) = (seed.rng(), (1.0 / (1.0 - share)) as f32);
    (0..count).map(|_| if rng.unit() < share { 0.0 } else { kept }).collect()
}
