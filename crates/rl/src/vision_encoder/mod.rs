//! The vision encoder of policies and critics: every camera through an encoder, the state through a layer, all in one row.
//!
//! ```text
//! encoders.i   the image of camera i → 256
//!                learned   convolutions with ReLU, Linear → layer norm → tanh
//!                keypoints   convolutions, the mean position of each channel, Linear → layer norm → tanh
//!                frozen    a trunk that never changes, spatial embeddings, Linear → layer norm → tanh
//! state_proj   the state → Linear 64 → layer norm → tanh
//! what comes out   [encoders.0 | encoders.1 | … | state_proj]
//! ```
//!
//! A frozen trunk is no part of the parameters: its features of an image are computed once and kept.

mod encoder;
pub(crate) mod gpu;
mod shift;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use plaudit_core::{FrameShape, Frames, Obs, PolicyError, Seed};
use plaudit_nn::Weights;
use plaudit_nn::classifier::FrozenTrunk;
use plaudit_nn::dense::encoder::{ConvLayer, ConvReadout, Dropout};
use plaudit_nn::dense::{Activation, Bias, Init, LayerSpec, Mlp, MlpSpec, Norm, Scratch, Tape, TensorKind};

use self::encoder::{Encoder, EncoderTape};
pub use self::shift::shift;
pub(crate) use self::shift::shifts;
use crate::naming::{self, WeightsMismatch};
use crate::replay::ObsBuffer;
use crate::row_ops::{put, take};

/// PyTorch's gain for tanh.
const TANH_GAIN: f32 = 5.0 / 3.0;

/// Settings of a vision encoder.
#[derive(Debug, Clone)]
pub struct VisionEncoderSettings {
    /// The cameras, main view first.
    pub cameras: Vec<Arc<str>>,
    /// The kind of encoder.
    pub encoder_kind: EncoderKind,
    /// Outputs per image.
    pub outputs: usize,
    /// Numbers in a state.
    pub states: usize,
    /// Outputs of the state layer.
    pub state_outputs: usize,
    /// Widths of the layers that mix the encoded images and state (`mix_proj`).
    pub mix: Vec<usize>,
}

/// The kind of encoder.
#[derive(Debug, Clone)]
pub enum EncoderKind {
    /// Convolutions that learn with everything else. Images must be of this size.
    Learned {
        /// Size of an image.
        frame: FrameShape,
        /// From the image up.
        layers: Vec<ConvLayer>,
        /// What is taken of the last of them.
        readout: ConvReadout,
    },
    /// A trunk that never changes, below embeddings that learn what to read from its features.
    Frozen {
        /// The trunk, for all cameras.
        trunk: Arc<dyn Trunk>,
        /// Weighted sums over places that are taken of each channel.
        embeddings: usize,
        /// The share of those sums that training leaves out.
        dropout: f32,
    },
}

impl VisionEncoderSettings {
    /// As RLinf's policies on images are: 256 outputs of each image, 64 of the state, two layers of 256 above.
    pub fn new(cameras: Vec<Arc<str>>, states: usize, encoder_kind: EncoderKind) -> Self {
        Self { cameras, encoder_kind, outputs: 256, states, state_outputs: 64, mix: vec![256; 2] }
    }
}

impl VisionEncoderSettings {
    /// The cameras whose images are taken: none above a frozen trunk, which takes them before.
    pub fn image_cameras(&self) -> &[Arc<str>] {
        match self.encoder_kind {
            EncoderKind::Learned { .. } => &self.cameras,
            EncoderKind::Frozen { .. } => &[],
        }
    }

    /// Numbers that a frozen trunk makes of one observation; none without such a trunk.
    pub fn feature_width(&self) -> usize {
        match &self.encoder_kind {
            EncoderKind::Learned { .. } => 0,
            EncoderKind::Frozen { trunk, .. } => self.cameras.len() * trunk.shape().iter().product::<usize>(),
        }
    }
}

impl EncoderKind {
    /// Four layers of 32 channels after DrQ (Kostrikov et al., 2020), with strides for small images and two cores: of
    /// 64 x 64 pixels, 5 x 5 places are left.
    pub fn learned(frame: FrameShape) -> Self {
        let layers = [2, 2, 2, 1].map(|stride| ConvLayer { channels: 32, kernel: 3, stride });
        Self::Learned { frame, layers: layers.to_vec(), readout: ConvReadout::Flatten }
    }

    /// Four layers of 32 channels, with a spatial softmax over each: of 64 x 64 pixels, 11 x 11 places.
    pub fn keypoints(frame: FrameShape) -> Self {
        let layers = [2, 2, 1, 1].map(|stride| ConvLayer { channels: 32, kernel: 3, stride });
        Self::Learned { frame, layers: layers.to_vec(), readout: ConvReadout::Keypoints }
    }

    /// A trunk as RLinf uses it.
    pub fn frozen(trunk: Arc<dyn Trunk>) -> Self {
        Self::Frozen { trunk, embeddings: 8, dropout: 0.1 }
    }
}

/// Turns images into features, always in the same way.
pub trait Trunk: std::fmt::Debug + Send + Sync {
    /// Channels, rows and columns of the features of one image.
    fn shape(&self) -> [usize; 3];

    /// Features `[n, channels, rows, columns]`.
    fn features(&self, frames: &Frames) -> Result<Vec<f32>, PolicyError>;

    /// Its tensors, under the names they have in a file of the trunk alone.
    fn weights(&self) -> Weights;
}

impl Trunk for FrozenTrunk {
    fn shape(&self) -> [usize; 3] {
        FrozenTrunk::shape(self)
    }

    fn features(&self, frames: &Frames) -> Result<Vec<f32>, PolicyError> {
        if frames.shape.channels != 3 {
            let got = format!("images of {} channels", frames.shape.channels);
            return Err(PolicyError::Observation { expected: "images of 3 channels".into(), got });
        }
        let size = [frames.shape.height, frames.shape.width];
        FrozenTrunk::features(self, &frames.pixels, size).map_err(|error| PolicyError::Backend(error.into()))
    }

    fn weights(&self) -> Weights {
        FrozenTrunk::weights(self).clone()
    }
}

/// A batch of observations as a network takes them, borrowed from wherever they are kept.
#[derive(Debug, Clone, Default)]
pub struct ObsBatch<'a> {
    /// `[n, states]`.
    pub states: &'a [f32],
    /// Features of a frozen trunk, `[n, cameras · features]`; empty without one.
    pub features: &'a [f32],
    /// Images of each camera, `[n, height, width, channels]`; empty with a frozen trunk.
    pub images: Vec<&'a [u8]>,
}

impl<'a> From<&'a ObsBuffer> for ObsBatch<'a> {
    fn from(obs_buffer: &'a ObsBuffer) -> Self {
        let images = obs_buffer.images.iter().map(|(_, _, pixels)| &pixels[..]).collect();
        Self { states: &obs_buffer.states, features: &obs_buffer.features, images }
    }
}

/// The shapes of a vision encoder. Holds no parameters but those of a frozen trunk.
#[derive(Debug, Clone)]
pub struct VisionEncoder {
    cameras: Vec<Arc<str>>,
    /// Of the same shape for each camera, each with parameters of its own.
    encoder: Encoder,
    state_proj: Mlp,
    /// The hash of a frozen trunk, once somebody asked.
    trunk_hash: OnceLock<u64>,
}

/// What a forward pass keeps for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct VisionEncoderTape {
    encoders: Vec<EncoderTape>,
    state: Tape,
    state_scratch: Scratch,
    /// `[n, outputs]`.
    joined: Vec<f32>,
    /// Gradients of one part of what comes out.
    part: Vec<f32>,
    /// A camera's share of the features.
    features: Vec<f32>,
}

impl VisionEncoder {
    /// An encoder with these settings.
    pub fn new(settings: &VisionEncoderSettings) -> Self {
        let layer = squashed(settings.state_outputs);
        Self {
            cameras: settings.cameras.clone(),
            encoder: Encoder::new(&settings.encoder_kind, settings.outputs),
            state_proj: Mlp::new(MlpSpec { inputs: settings.states, layers: vec![layer] }),
            trunk_hash: OnceLock::new(),
        }
    }

    /// Its cameras.
    pub fn cameras(&self) -> &[Arc<str>] {
        &self.cameras
    }

    /// The cameras whose images it takes: none above a frozen trunk, which takes them before.
    pub fn image_cameras(&self) -> &[Arc<str>] {
        if self.trunk().is_some() { &[] } else { &self.cameras }
    }

    /// Numbers in a state.
    pub fn states(&self) -> usize {
        self.state_proj.inputs()
    }

    /// Numbers that come out.
    pub fn outputs(&self) -> usize {
        self.cameras.len() * self.encoder.outputs() + self.state_proj.outputs()
    }

    /// Numbers that a frozen trunk makes of one observation; none without such a trunk.
    pub fn features(&self) -> usize {
        self.cameras.len() * self.encoder.features()
    }

    /// How many parameters learn.
    #[allow(clippy::len_without_is_empty)] // there is always a state
    pub fn len(&self) -> usize {
        self.cameras.len() * self.encoder.len() + self.state_proj.len()
    }

    /// The trunk that never changes, if there is one.
    pub fn trunk(&self) -> Option<&Arc<dyn Trunk>> {
        self.encoder.trunk()
    }

    /// A hash of the frozen trunk; 0 without one.
    pub fn trunk_hash(&self) -> u64 {
        *self.trunk_hash.get_or_init(|| self.hash_trunk())
    }

    fn hash_trunk(&self) -> u64 {
        let tensors = self.trunk().map_or(Weights::new(), |trunk| trunk.weights());
        let mut hash = u64::from(!tensors.is_empty());
        for (name, tensor) in tensors.iter() {
            let bits = tensor.to_f32().unwrap_or_default().into_iter().map(f32::to_bits).map(u64::from);
            for part in name.bytes().map(u64::from).chain(bits) {
                hash = (hash ^ part).wrapping_mul(0x0000_0100_0000_01b3); // FNV-1a, by words
            }
        }
        hash
    }

    /// Parameters to begin with.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let each = (0..self.cameras.len()).map(|at| seed.purpose("encoder").index(at as u64));
        let mut params: Vec<f32> = each.flat_map(|seed| self.encoder.init(seed)).collect();
        params.extend(self.state_proj.init(seed.purpose("state")));
        params
    }

    /// What the frozen trunk makes of some observations, `[n, features]`; nothing without one.
    pub fn trunk_features(&self, obs: &Obs) -> Result<Vec<f32>, PolicyError> {
        let Some(trunk) = self.trunk() else { return Ok(Vec::new()) };
        let (each, n) = (self.encoder.features(), obs.batch());
        let mut all = vec![0.0; n * self.features()];
        for (at, name) in self.cameras.iter().enumerate() {
            let encoded = trunk.features(frames(obs, name)?)?;
            for (row, encoded) in all.chunks_exact_mut(self.features()).zip(encoded.chunks_exact(each)) {
                row[at * each..(at + 1) * each].copy_from_slice(encoded);
            }
        }
        Ok(all)
    }

    /// Observations as this takes them, once their cameras and widths are known to fit. `features` is what
    /// [`Self::trunk_features`] made of them.
    pub fn obs_batch<'a>(&self, obs: &'a Obs, features: &'a [f32]) -> Result<ObsBatch<'a>, PolicyError> {
        if obs.state_width() != self.states() {
            let expected = format!("states of {} numbers", self.states());
            return Err(PolicyError::Observation { expected, got: obs.state_width().to_string() });
        }
        let mut images = Vec::new();
        if let Some(shape) = self.encoder.frame() {
            for name in &self.cameras {
                let frames = frames(obs, name)?;
                if frames.shape != shape {
                    let (expected, got) = (sized(name, shape), sized(name, frames.shape));
                    return Err(PolicyError::Observation { expected, got });
                }
                images.push(&frames.pixels[..]);
            }
        }
        Ok(ObsBatch { states: &obs.state, features, images })
    }

    /// The encoded observations, `[n, outputs]`, with what [`Self::backward`] needs left on the tape.
    pub fn forward<'t>(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        n: usize,
        dropout: Dropout,
        tape: &'t mut VisionEncoderTape,
    ) -> &'t [f32] {
        self.prepare(n, tape);
        let VisionEncoderTape { encoders, state, joined, features, .. } = tape;
        for (at, encoder) in encoders.iter_mut().enumerate() {
            let (params, encoder_input) =
                (&params[self.place(at)], self.encoder_input(obs_batch, at, features));
            let dropout = each_camera(dropout, at);
            let encoded = self.encoder.forward(params, encoder_input, n, dropout, encoder);
            put(encoded, joined, self.column(at), self.outputs());
        }
        let encoded = self.state_proj.forward(&params[self.state_place()], obs_batch.states, n, state);
        put(encoded, joined, self.column(self.cameras.len()), self.outputs());
        joined
    }

    /// The same, without a backward pass.
    pub fn infer<'t>(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        n: usize,
        tape: &'t mut VisionEncoderTape,
    ) -> &'t [f32] {
        self.prepare(n, tape);
        let VisionEncoderTape { encoders, state_scratch, joined, features, .. } = tape;
        for (at, encoder) in encoders.iter_mut().enumerate() {
            let (params, encoder_input) =
                (&params[self.place(at)], self.encoder_input(obs_batch, at, features));
            let encoded = self.encoder.infer(params, encoder_input, n, encoder);
            put(encoded, joined, self.column(at), self.outputs());
        }
        let encoded = self.state_proj.infer(&params[self.state_place()], obs_batch.states, n, state_scratch);
        put(encoded, joined, self.column(self.cameras.len()), self.outputs());
        joined
    }

    /// Adds the gradients of the parameters to `grads`, given those of what came out, `[n, outputs]`, of the last
    /// forward pass on this tape.
    pub fn backward(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        tape: &mut VisionEncoderTape,
        grad_out: &[f32],
        grads: &mut [f32],
    ) {
        let VisionEncoderTape { encoders, state, part, features, .. } = tape;
        for (at, encoder) in encoders.iter_mut().enumerate() {
            take(grad_out, self.column(at), self.outputs(), part);
            let encoder_input = self.encoder_input(obs_batch, at, features);
            let place = self.place(at);
            self.encoder.backward(&params[place.clone()], encoder_input, encoder, part, &mut grads[place]);
        }
        take(grad_out, self.column(self.cameras.len()), self.outputs(), part);
        let place = self.state_place();
        self.state_proj.backward(&params[place.clone()], state, part, &mut grads[place], None);
    }

    /// Puts what learns among the weights, under RLinf's names where RLinf has it.
    pub fn export(&self, params: &[f32], into: &mut Weights) {
        for at in 0..self.cameras.len() {
            self.encoder.export(&params[self.place(at)], &format!("encoders.{at}."), into);
        }
        naming::export(&self.state_proj, &params[self.state_place()], &squashed_names("state_proj"), into);
    }

    /// Puts the trunk among the weights as well, so that they are all that acting needs.
    pub fn export_trunk(&self, into: &mut Weights) {
        let Some(trunk) = self.trunk() else { return };
        let tensors = trunk.weights();
        for at in 0..self.cameras.len() {
            for (name, tensor) in tensors.iter() {
                into.insert(format!("encoders.{at}.{TRUNK}{name}"), tensor.clone());
            }
        }
        into.insert_f32("img_mean", &[1, 1, 1, 3], &plaudit_nn::images::MEAN);
        into.insert_f32("img_std", &[1, 1, 1, 3], &plaudit_nn::images::STD);
    }

    /// Takes what learns from the weights.
    pub fn import(&self, params: &mut [f32], from: &Weights) -> Result<(), WeightsMismatch> {
        for at in 0..self.cameras.len() {
            self.encoder.import(&mut params[self.place(at)], &format!("encoders.{at}."), from)?;
        }
        let place = self.state_place();
        naming::import(&self.state_proj, &mut params[place], &squashed_names("state_proj"), from)
    }

    fn prepare(&self, n: usize, tape: &mut VisionEncoderTape) {
        tape.encoders.resize_with(self.cameras.len(), || self.encoder.tape());
        tape.joined.resize(n * self.outputs(), 0.0);
    }

    /// Where the parameters of a camera's encoder lie.
    fn place(&self, camera: usize) -> Range<usize> {
        camera * self.encoder.len()..(camera + 1) * self.encoder.len()
    }

    /// What the state goes through, and where its parameters lie.
    pub(crate) fn state_layer(&self) -> (&Mlp, Range<usize>) {
        (&self.state_proj, self.state_place())
    }

    fn state_place(&self) -> Range<usize> {
        self.cameras.len() * self.encoder.len()..self.len()
    }

    /// Where in a row of what comes out a camera's numbers stand; after the last camera, the state's.
    fn column(&self, camera: usize) -> Range<usize> {
        let start = camera * self.encoder.outputs();
        let width =
            if camera < self.cameras.len() { self.encoder.outputs() } else { self.state_proj.outputs() };
        start..start + width
    }

    /// What the encoder of a camera takes.
    fn encoder_input<'a>(
        &self,
        obs_batch: &'a ObsBatch<'_>,
        camera: usize,
        own: &'a mut Vec<f32>,
    ) -> encoder::EncoderInput<'a> {
        match obs_batch.images.get(camera) {
            Some(pixels) => encoder::EncoderInput::Pixels(pixels),
            None if self.cameras.len() == 1 => encoder::EncoderInput::Features(obs_batch.features),
            None => {
                let each = self.encoder.features();
                take(obs_batch.features, camera * each..(camera + 1) * each, self.features(), own);
                encoder::EncoderInput::Features(own)
            }
        }
    }
}

/// Where the trunk's tensors are in files of a policy.
pub const TRUNK: &str = "resnet_backbone.";

/// Linear, layer norm, tanh, as RLinf begins them.
pub(crate) fn squashed(width: usize) -> LayerSpec {
    LayerSpec {
        bias: Bias::Zero,
        norm: Norm::Layer,
        activation: Activation::Tanh,
        init: Init::KaimingNormalFanOut { gain: TANH_GAIN },
        ..LayerSpec::linear(width)
    }
}

/// A stack of such layers: a product, a norm and an activation are modules of their own.
pub(crate) fn squashed_names(module: &str) -> impl Fn(usize, TensorKind) -> String {
    move |layer, kind| {
        let norm = usize::from(matches!(kind, TensorKind::NormWeight | TensorKind::NormBias));
        format!("{module}.{}.{}", 3 * layer + norm, naming::leaf(kind))
    }
}

fn frames<'a>(obs: &'a Obs, camera: &Arc<str>) -> Result<&'a Frames, PolicyError> {
    let found = obs.cameras.iter().find(|(name, _)| name == camera);
    found.map(|(_, frames)| frames).ok_or_else(|| {
        let names: Vec<&str> = obs.cameras.iter().map(|(name, _)| &**name).collect();
        let got = if names.is_empty() { "no images".into() } else { names.join(", ") };
        PolicyError::Observation { expected: format!("images of `{camera}`"), got }
    })
}

fn sized(camera: &str, shape: FrameShape) -> String {
    let FrameShape { height, width, channels } = shape;
    format!("images of `{camera}` of {height}x{width}x{channels}")
}

/// Cameras leave out different numbers.
fn each_camera(dropout: Dropout, camera: usize) -> Dropout {
    match dropout {
        Dropout::On(seed) => Dropout::On(seed.index(camera as u64)),
        Dropout::Off => Dropout::Off,
    }
}
