//! What names a network: its architecture and everything that decides its shapes and its arithmetic.

use serde::{Deserialize, Serialize};

use super::error::ClassifierError;
use super::progress::ProgressBins;
use crate::images::Preprocess;

/// The networks there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// torchvision's ResNet-18 with RLinf's head.
    Resnet18,
    /// torchvision's ResNet-34 with RLinf's head.
    Resnet34,
    /// torchvision's ResNet-50 with RLinf's head.
    Resnet50,
    /// torchvision's ResNet-101 with RLinf's head.
    Resnet101,
    /// torchvision's ResNet-152 with RLinf's head.
    Resnet152,
    /// ResNet-10 with group normalisation, its features averaged, and a small classifier.
    Resnet10,
    /// The older `BinaryRewardClassifier`: ResNet-10 with group normalisation, spatial learned embeddings, and a
    /// classifier over the cameras.
    Resnet10Spatial,
}

impl Arch {
    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resnet18 => "resnet18",
            Self::Resnet34 => "resnet34",
            Self::Resnet50 => "resnet50",
            Self::Resnet101 => "resnet101",
            Self::Resnet152 => "resnet152",
            Self::Resnet10 => "resnet10",
            Self::Resnet10Spatial => "resnet10_spatial",
        }
    }

    pub(super) fn family(self) -> Family {
        match self {
            Self::Resnet18 | Self::Resnet34 | Self::Resnet50 | Self::Resnet101 | Self::Resnet152 => {
                Family::Torchvision
            }
            Self::Resnet10 => Family::Small,
            Self::Resnet10Spatial => Family::SmallSpatial,
        }
    }

    /// Whether its features are pooled by learned spatial embeddings, with a trunk of its own for each camera.
    pub(super) fn pools_spatially(self) -> bool {
        match self.family() {
            Family::SmallSpatial => true,
            Family::Torchvision | Family::Small => false,
        }
    }
}

/// Networks that are built alike, but for their depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Batch normalisation, averaged features, RLinf's head.
    Torchvision,
    /// Group normalisation, averaged features, a small classifier.
    Small,
    /// Group normalisation, spatial learned embeddings, a classifier over the cameras.
    SmallSpatial,
}

/// The numbers that the network computes with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    Fp32,
    /// Products of 16-bit brain floats (or scaled integers), sums in 32 bits. Weights are kept in 32 bits while
    /// training.
    Bf16,
    /// 16-bit floats where the device has them; elsewhere weights rounded to them and 32-bit arithmetic.
    Fp16,
}

impl Precision {
    /// What the kernels of the CPU multiply in.
    pub(crate) fn on_cpu(self) -> crate::kernels::Precision {
        match self {
            Self::Bf16 => crate::kernels::Precision::Bf16,
            Self::Fp32 | Self::Fp16 => crate::kernels::Precision::F32,
        }
    }
}

/// A network, by everything that decides its shapes and its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifierSettings {
    /// The architecture.
    pub arch: Arch,
    /// Width of the hidden layer of the head; without one, the head is a single layer.
    pub hidden_dim: Option<usize>,
    /// Share of the head's inputs that are dropped while training.
    pub dropout: f64,
    /// Channels, rows and columns that images are brought to.
    pub image_size: [usize; 3],
    /// Whether ImageNet's mean and standard deviation are taken off.
    pub normalize: bool,
    /// The numbers it computes with.
    pub precision: Precision,
    /// The cameras, in the order their features are joined.
    pub image_keys: Vec<String>,
    /// Whether all cameras go through the same trunk, or each has its own.
    pub shared_trunk: bool,
    /// `resnet10_spatial`: embeddings learned for each channel.
    pub num_spatial_blocks: usize,
    /// `resnet10_spatial`: whether embeddings are learned over spatial positions (`true`) or over the average of them
    /// (`false`). Not given, it is read off the checkpoint; without a checkpoint it is `true`.
    pub use_pretrain: Option<bool>,
    /// Whether the trunk keeps its weights, and its normalisation the statistics it has.
    pub freeze_encoder: bool,
    /// A network of progress: the bins of its distribution. `None`: a classifier, with one logit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_bins: Option<usize>,
}

impl Default for ClassifierSettings {
    fn default() -> Self {
        Self {
            arch: Arch::Resnet18,
            hidden_dim: None,
            dropout: 0.1,
            image_size: [3, 224, 224],
            normalize: true,
            precision: Precision::Fp32,
            image_keys: vec!["main_images".to_owned()],
            shared_trunk: true,
            num_spatial_blocks: 8,
            use_pretrain: None,
            freeze_encoder: false,
            progress_bins: None,
        }
    }
}

/// A trunk halves the image five times.
pub(super) const REDUCTION: usize = 32;

impl ClassifierSettings {
    pub(super) fn check(&self) -> Result<(), ClassifierError> {
        let wrong = |key, why: String| Err(ClassifierError::Setting { key, why });
        let [channels, height, width] = self.image_size;
        if channels != 3 {
            return wrong("image_size", format!("{channels} channels; the networks take images of 3"));
        }
        if height == 0 || width == 0 {
            return wrong("image_size", format!("{height}x{width} has no pixels"));
        }
        if self.image_keys.is_empty() {
            return wrong("image_keys", "no camera is named".into());
        }
        let twice = self.image_keys.iter().enumerate().find(|(i, key)| self.image_keys[..*i].contains(key));
        if let Some((_, key)) = twice {
            return wrong("image_keys", format!("camera `{key}` is named twice"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong("dropout", format!("{} is not a share between 0 and 1", self.dropout));
        }
        if self.hidden_dim == Some(0) || self.num_spatial_blocks == 0 {
            return wrong(
                "hidden_dim",
                "a layer of no width; leave `hidden_dim` out for a single layer".into(),
            );
        }
        if let Some(bins) = self.progress_bins.filter(|bins| ProgressBins::new(*bins).is_none()) {
            return wrong(
                "progress_bins",
                format!("{bins} bins; a distribution over progress needs 2 at least"),
            );
        }
        Ok(())
    }

    /// The bins of a network of progress; nothing of a classifier.
    #[must_use]
    pub fn bins(&self) -> Option<ProgressBins> {
        self.progress_bins.and_then(ProgressBins::new)
    }

    /// Outputs of the head.
    pub(super) fn outputs(&self) -> usize {
        self.bins().map_or(1, ProgressBins::count)
    }

    pub(super) fn preprocess(&self) -> Preprocess {
        let [channels, height, width] = self.image_size;
        Preprocess { keys: self.image_keys.clone(), channels, height, width, normalize: self.normalize }
    }

    /// Whether spatial embeddings are learned over positions.
    pub(super) fn per_position(&self) -> bool {
        self.use_pretrain.unwrap_or(true)
    }

    /// The trunk's output for an image: rows and columns.
    pub(super) fn feature_size(&self) -> [usize; 2] {
        let [_, height, width] = self.image_size;
        [height.div_ceil(REDUCTION), width.div_ceil(REDUCTION)]
    }

    /// Whether each camera has its own trunk.
    pub(super) fn separate_trunks(&self) -> bool {
        self.arch.pools_spatially() || (self.image_keys.len() > 1 && !self.shared_trunk)
    }
}
