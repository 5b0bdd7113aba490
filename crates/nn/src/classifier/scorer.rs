//! A network for inference: loaded once, shared by threads.

use std::sync::Arc;

use super::device::{Device, image_tensors};
use super::error::ClassifierError;
use super::fold::{Folded, ParameterSource, fix_linears, fold};
use super::gpu::{GpuClassifier, GpuInput, GpuView, LayerTime};
use super::load;
use super::network::{self, ConvNorm, Linear, Network, Pass};
use super::parameters::{Id, Parameters, Role, Spec};
use super::progress::ProgressDistribution;
use super::settings::ClassifierSettings;
use crate::images::{ImageBatch, Preprocess};
use crate::kernels::spin_pool;
use crate::ops::images::FixedConv;
use crate::tensor::Tensor;
use crate::weights::Weights;

/// Images that go through the network at a time.
const CHUNK: usize = 256;
/// Pixels of the images that go through a network's wide layers at a time.
const WIDE_CHUNK: usize = 8 * 128 * 128;

/// What a pass on a GPU takes.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuTimes {
    /// Milliseconds of a whole pass, each time it was run.
    pub whole: Vec<f64>,
    /// What its kernels take.
    pub layers: Vec<LayerTime>,
}

/// Images ready for the network. Cloning shares them.
#[derive(Clone, Debug)]
pub(super) struct PreparedImages {
    views: Vec<Tensor<4>>,
}

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
    /// Linear layers, as convolutions of single pixels.
    linears: Vec<FixedConv>,
    /// The whole network on a GPU, if it is there. The CPU has its head alone then.
    gpu: Option<GpuClassifier>,
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
        let (network, specs) = network::build(&settings);
        load::check(&settings, &specs, weights)?;
        let stored = Stored { specs: &specs, weights };
        let gpu = match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(GpuClassifier::open(index, &settings, &network, &stored)?),
        };
        Ok(Self::from_numbers(settings, network, &specs, &stored, gpu))
    }

    /// A classifier from parameters in training.
    pub(super) fn of(settings: &ClassifierSettings, network: &Network, parameters: &Parameters) -> Self {
        Self::from_numbers(settings.clone(), network.clone(), &parameters.specs, parameters, None)
    }

    /// The same on a GPU, in the place of an earlier one if nobody else uses that.
    pub(super) fn on_gpu(
        index: usize,
        earlier: Option<Self>,
        settings: &ClassifierSettings,
        network: &Network,
        parameters: &Parameters,
    ) -> Result<Self, ClassifierError> {
        let earlier =
            earlier.and_then(|scorer| Arc::try_unwrap(scorer.inner).ok()).and_then(|inner| inner.gpu);
        let gpu = match earlier {
            Some(gpu) => {
                gpu.reload(parameters)?;
                gpu
            }
            None => GpuClassifier::open(index, settings, network, parameters)?,
        };
        let (settings, network) = (settings.clone(), network.clone());
        Ok(Self::from_numbers(settings, network, &parameters.specs, parameters, Some(gpu)))
    }

    fn from_numbers(
        settings: ClassifierSettings,
        network: Network,
        specs: &[Spec],
        numbers: &impl ParameterSource,
        gpu: Option<GpuClassifier>,
    ) -> Self {
        let convolutions = match gpu {
            None => fold(&network, numbers, settings.precision),
            Some(_) => Vec::new(),
        };
        let linears = fix_linears(&network, numbers);
        let in_trunk: Vec<Id> =
            network.convolutions.iter().flat_map(|layer| [layer.weight, layer.scale, layer.shift]).collect();
        let other = |(i, spec): (usize, &Spec)| {
            let used = matches!(spec.role, Role::Trained | Role::Frozen) && !in_trunk.contains(&Id(i));
            used.then(|| (numbers.numbers(Id(i)).into(), spec.shape.clone()))
        };
        let others = specs.iter().enumerate().map(other).collect();
        let preprocess = settings.preprocess();
        Self { inner: Arc::new(Inner { settings, preprocess, network, convolutions, others, linears, gpu }) }
    }

    /// The settings, with what was left open filled in.
    #[must_use]
    pub fn settings(&self) -> &ClassifierSettings {
        &self.inner.settings
    }

    /// The logit of each image, or of each time step if there are several cameras; of a network of progress, that of the mean
    /// progress. Batches may be of any size.
    ///
    /// # Errors
    /// When the images do not fit the model; see [`ImageError`](crate::images::ImageError). When a GPU fails.
    pub fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        let mut logits = Vec::with_capacity(images.len());
        for chunk in self.chunks(images)? {
            match &self.inner.gpu {
                Some(gpu) if self.inner.settings.bins().is_none() => {
                    logits.extend(gpu.logits(&GpuInput::new(&self.inner.preprocess, &chunk)?)?);
                }
                _ => logits.extend(self.logits_of(self.outputs(&chunk)?)),
            }
        }
        Ok(logits)
    }

    /// The number of the GPU that it is on, and CUDA's handle of the stream that it computes in. `None` on the CPU.
    #[must_use]
    pub fn gpu_stream(&self) -> Option<(usize, u64)> {
        self.inner.gpu.as_ref().map(GpuClassifier::order)
    }

    /// [`logits`](Self::logits) of images that lie in the memory of the GPU that it is on, of each camera in the order of `image_keys`;
    /// nothing on the CPU, and where they lie so that only a copy by way of the host helps. When this returns, they have been read.
    ///
    /// # Errors
    /// When there are as many cameras as the model does not have, or the GPU fails.
    ///
    /// # Safety
    /// Each view must hold `count` images of the network's size, in memory of that GPU that stays until this returns, and written before
    /// what is asked for from now on in the [stream](Self::gpu_stream) runs.
    #[allow(unsafe_code)] // an address cannot be checked
    pub unsafe fn logits_on_gpu(
        &self,
        views: &[GpuView],
        count: usize,
    ) -> Result<Option<Vec<f32>>, ClassifierError> {
        let Some(gpu) = &self.inner.gpu else { return Ok(None) };
        let keys = &self.inner.preprocess.keys;
        if views.len() != keys.len() {
            let why = format!("{} cameras for a model of {}", views.len(), keys.len());
            return Err(ClassifierError::Setting { key: "image_keys", why });
        }
        let (size, mut logits) = (gpu.batch_size()?, Vec::with_capacity(count));
        for start in (0..count).step_by(size) {
            let some = size.min(count - start);
            let views: Vec<GpuView> = views.iter().map(|view| view.from_image(start)).collect();
            let found = match self.inner.settings.bins() {
                None => gpu.logits_elsewhere(&views, some)?,
                Some(_) => gpu.features_elsewhere(&views, some)?.map(|features| self.head(&features)),
            };
            let Some(found) = found else { return Ok(None) };
            logits.extend(found);
        }
        Ok(Some(logits))
    }

    /// What a network of progress says about each image; `None` of a classifier.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn progress(
        &self,
        images: &ImageBatch<'_>,
    ) -> Result<Option<Vec<ProgressDistribution>>, ClassifierError> {
        let Some(bins) = self.inner.settings.bins() else { return Ok(None) };
        let mut found = Vec::with_capacity(images.len());
        for chunk in self.chunks(images)? {
            let outputs = self.outputs(&chunk)?;
            found.extend(outputs.chunks_exact(bins.count()).map(|outputs| bins.distribution(outputs)));
        }
        Ok(Some(found))
    }

    /// The outputs of the head for some images.
    fn outputs(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        match &self.inner.gpu {
            // The plan of a pass on a GPU ends in one number; a wider head is a small product, which the CPU has anyway.
            Some(gpu) => {
                let features = gpu.features(&GpuInput::new(&self.inner.preprocess, images)?)?;
                Ok(self.head_outputs(&features))
            }
            None => Ok(self.outputs_on_cpu(self.prepare(images)?)),
        }
    }

    /// One number for each image: its logit, or that of its mean progress.
    fn logits_of(&self, outputs: Vec<f32>) -> Vec<f32> {
        match self.inner.settings.bins() {
            Some(bins) => {
                outputs.chunks_exact(bins.count()).map(|outputs| bins.logit(outputs) as f32).collect()
            }
            None => outputs,
        }
    }

    /// A batch in parts that go through the network at once.
    fn chunks<'a>(&self, images: &ImageBatch<'a>) -> Result<Vec<ImageBatch<'a>>, ClassifierError> {
        let size = match &self.inner.gpu {
            Some(gpu) => gpu.batch_size()?,
            None => CHUNK,
        };
        let cut = |start: usize| images.slice(start..(start + size).min(images.len()));
        Ok((0..images.len()).step_by(size).map(cut).collect())
    }

    /// Images brought to the network's size and numbers, all at once.
    pub(super) fn prepare(&self, images: &ImageBatch<'_>) -> Result<PreparedImages, ClassifierError> {
        Ok(PreparedImages { views: image_tensors(&self.inner.preprocess, images)? })
    }

    fn outputs_on_cpu(&self, images: PreparedImages) -> Vec<f32> {
        // One image is forty short steps; see `spin_pool`.
        let _spinning = spin_pool::keep_spinning();
        self.inner.network.outputs(&mut InferencePass(&self.inner), images.views).into_vec()
    }

    /// Where it computes what on a GPU: milliseconds of a whole pass over so many images there, each time it is run, and of
    /// each kernel in it. `None` if it is on the CPU.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn gpu_times(&self, count: usize, repeats: usize) -> Result<Option<GpuTimes>, ClassifierError> {
        let Some(gpu) = &self.inner.gpu else { return Ok(None) };
        let (whole, layers) = gpu.times(count, repeats)?;
        Ok(Some(GpuTimes { whole, layers }))
    }

    /// What the trunk makes of the first camera's images.
    pub(super) fn trunk_features(&self, mut images: PreparedImages) -> Tensor<4> {
        let _spinning = spin_pool::keep_spinning();
        self.inner.network.first_trunk_features(&mut InferencePass(&self.inner), images.views.swap_remove(0))
    }

    /// For each image or time step the features that the head takes.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn features(&self, images: &ImageBatch<'_>) -> Result<Vec<Vec<f32>>, ClassifierError> {
        let mut rows = Vec::with_capacity(images.len());
        for chunk in self.chunks(images)? {
            if let Some(gpu) = &self.inner.gpu {
                rows.extend(gpu.features(&GpuInput::new(&self.inner.preprocess, &chunk)?)?);
                continue;
            }
            let views = self.prepare(&chunk)?.views;
            let features = self.inner.network.features(&mut InferencePass(&self.inner), views);
            let [_, width] = features.dims();
            rows.extend(features.numbers().chunks_exact(width).map(<[f32]>::to_vec));
        }
        Ok(rows)
    }

    /// The logits of [features](Self::features), as they are or changed.
    #[must_use]
    pub fn head(&self, features: &[Vec<f32>]) -> Vec<f32> {
        self.logits_of(self.head_outputs(features))
    }

    fn head_outputs(&self, features: &[Vec<f32>]) -> Vec<f32> {
        let (count, width) = (features.len(), features.first().map_or(0, Vec::len));
        if count == 0 || width == 0 {
            return Vec::new();
        }
        let features = Tensor::new(features.concat(), [count, width]);
        self.inner.network.outputs_of_features(&mut InferencePass(&self.inner), features).into_vec()
    }

    /// The probability of each image or time step: the sigmoid of its logit.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    pub fn probabilities(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        Ok(self.logits(images)?.into_iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect())
    }
}

/// The numbers of a checkpoint that was checked.
struct Stored<'a> {
    specs: &'a [Spec],
    weights: &'a Weights,
}

impl ParameterSource for Stored<'_> {
    fn numbers(&self, id: Id) -> Vec<f32> {
        let spec = &self.specs[id.0];
        spec.to_own(self.weights.f32(&spec.name).unwrap_or_default())
    }

    fn shape(&self, id: Id) -> [usize; 4] {
        self.specs[id.0].own_shape()
    }
}

impl ParameterSource for Parameters {
    fn numbers(&self, id: Id) -> Vec<f32> {
        self.flat(id).into_vec()
    }

    fn shape(&self, id: Id) -> [usize; 4] {
        self.specs[id.0].own_shape()
    }
}

/// The forward pass of inference.
struct InferencePass<'a>(&'a Inner);

impl Pass for InferencePass<'_> {
    fn parameter<const D: usize>(&self, id: Id) -> Tensor<D> {
        let (numbers, shape) =
            self.0.others[id.0].as_ref().unwrap_or_else(|| unreachable!("a parameter in use"));
        numbers.clone().reshape(std::array::from_fn(|axis| shape[axis]))
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

    fn stem(&mut self, layer: &ConvNorm, images: Tensor<4>) -> Tensor<4> {
        self.0.convolutions[layer.index].forward_pooled(images)
    }

    fn images_at_a_time(&self, pixels: usize) -> Option<usize> {
        Some((WIDE_CHUNK / pixels).max(1))
    }

    fn linear(&self, layer: &Linear, input: Tensor<2>) -> Tensor<2> {
        let [count, width] = input.dims();
        let output = self.0.linears[layer.index].forward(input.reshape([count, 1, 1, width]), None, false);
        let outputs = output.dims()[3];
        output.reshape([count, outputs])
    }

    fn dropout(&mut self, input: Tensor<2>, _share: f64) -> Tensor<2> {
        input
    }
}
