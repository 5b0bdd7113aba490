//! A network that answers: loaded once, shared by threads.

use std::sync::Arc;

use burn::tensor::{Device as Backend, Tensor, TensorData};

use super::error::ClassifierError;
use super::fold::{Folded, Numbers, fold};
use super::load;
use super::network::{self, ConvNorm, Network, Pass};
use super::parameters::{Id, Parameters, Role, Spec, download, upload};
use super::settings::{ClassifierSettings, Device};
use crate::images::{ImageBatch, Preprocess};
use crate::weights::Weights;

/// Pictures that go through the network at a time.
const CHUNK: usize = 256;

/// A classifier ready to be asked. Cloning it shares the weights.
#[derive(Clone, Debug)]
pub struct Scorer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: ClassifierSettings,
    preprocess: Preprocess,
    network: Network,
    convolutions: Vec<Folded>,
    /// The parameters outside convolutions, with their shapes.
    others: Vec<Option<(Tensor<1>, Vec<usize>)>>,
    device: Backend,
}

impl Scorer {
    /// A classifier from a checkpoint. What the settings leave open is read off the checkpoint
    /// ([`ClassifierSettings::adapted_to`]).
    ///
    /// # Errors
    /// When the settings name no network, the checkpoint is of another, or the device is not there.
    pub fn new(
        settings: &ClassifierSettings,
        weights: &Weights,
        device: Device,
    ) -> Result<Self, ClassifierError> {
        settings.check()?;
        let (settings, _) = settings.adapted_to(weights);
        let device = device.open()?;
        let (network, specs) = network::build(&settings);
        load::check(&settings, &specs, weights)?;
        let stored = Stored { specs: &specs, weights };
        Ok(Self::from_numbers(settings, network, &specs, &stored, device))
    }

    /// A classifier from parameters in training.
    pub(super) fn of(settings: &ClassifierSettings, network: &Network, parameters: &Parameters) -> Self {
        let (specs, device) = (&parameters.specs, parameters.device.clone());
        Self::from_numbers(settings.clone(), network.clone(), specs, parameters, device)
    }

    fn from_numbers(
        settings: ClassifierSettings,
        network: Network,
        specs: &[Spec],
        numbers: &impl Numbers,
        device: Backend,
    ) -> Self {
        let convolutions = fold(&network, numbers, settings.precision.on_processor(), &device);
        let in_trunk: Vec<Id> =
            network.convolutions.iter().flat_map(|layer| [layer.weight, layer.scale, layer.shift]).collect();
        let other = |(i, spec): (usize, &Spec)| {
            let used = matches!(spec.role, Role::Trained | Role::Frozen) && !in_trunk.contains(&Id(i));
            used.then(|| (upload(numbers.numbers(Id(i)), &device), spec.shape.clone()))
        };
        let others = specs.iter().enumerate().map(other).collect();
        let preprocess = settings.preprocess();
        Self { inner: Arc::new(Inner { settings, preprocess, network, convolutions, others, device }) }
    }

    /// The settings, with what was left open filled in.
    #[must_use]
    pub fn settings(&self) -> &ClassifierSettings {
        &self.inner.settings
    }

    /// The logit of each picture, or of each moment if there are several cameras. Batches may be of any size.
    ///
    /// # Errors
    /// When the pictures do not fit the model; see [`ImageError`](crate::images::ImageError).
    pub fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        let mut logits = Vec::with_capacity(images.len());
        for start in (0..images.len()).step_by(CHUNK) {
            let chunk = images.slice(start..(start + CHUNK).min(images.len()));
            let views = self.inner.preprocess.apply(&chunk)?;
            let views = views
                .into_iter()
                .map(|numbers| picture_tensor(numbers, &self.inner.preprocess, &self.inner.device));
            let mut pass = Answer(&self.inner);
            logits.extend(download(self.inner.network.logits(&mut pass, views.collect())));
        }
        Ok(logits)
    }

    /// The probability of each picture or moment: the sigmoid of its logit.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn probabilities(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        Ok(self.logits(images)?.into_iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect())
    }
}

pub(super) fn picture_tensor(numbers: Vec<f32>, preprocess: &Preprocess, device: &Backend) -> Tensor<4> {
    let Preprocess { channels, height, width, .. } = *preprocess;
    let count = numbers.len() / (channels * height * width);
    Tensor::from_data(TensorData::new(numbers, [count, height, width, channels]), device)
}

/// The numbers of a checkpoint that was checked.
struct Stored<'a> {
    specs: &'a [Spec],
    weights: &'a Weights,
}

impl Numbers for Stored<'_> {
    fn numbers(&self, id: Id) -> Vec<f32> {
        let spec = &self.specs[id.0];
        spec.to_own(self.weights.f32(&spec.name).unwrap_or_default())
    }

    fn shape(&self, id: Id) -> [usize; 4] {
        self.specs[id.0].own_shape()
    }
}

impl Numbers for Parameters {
    fn numbers(&self, id: Id) -> Vec<f32> {
        download(self.flat(id))
    }

    fn shape(&self, id: Id) -> [usize; 4] {
        self.specs[id.0].own_shape()
    }
}

/// The pass that answers.
struct Answer<'a>(&'a Inner);

impl Pass for Answer<'_> {
    fn parameter<const D: usize>(&self, id: Id) -> Tensor<D> {
        let (numbers, shape) =
            self.0.others[id.0].as_ref().unwrap_or_else(|| unreachable!("a parameter in use"));
        numbers.clone().reshape::<D, _>(std::array::from_fn::<usize, D, _>(|axis| shape[axis]))
    }

    fn conv_norm(
        &mut self,
        layer: &ConvNorm,
        input: Tensor<4>,
        residual: Option<Tensor<4>>,
        relu: bool,
    ) -> Tensor<4> {
        self.0.convolutions[layer.index].forward(input, residual, relu)
    }

    fn dropout(&mut self, input: Tensor<2>, _share: f64) -> Tensor<2> {
        input
    }
}
