//! The network of an image reward model, as configs describe it: the one that is trained and the one that judges alike.

use plaudit_nn::classifier::{self, ClassifierSettings};

use crate::config::blocks::actor::ModelSettings;
use crate::config::blocks::reward::{Arch, Precision, RewardModelSettings};

/// What a config says about the network, wherever it stands.
pub(crate) struct Described<'a> {
    arch: Arch,
    hidden_dim: u64,
    dropout: f64,
    image_size: [u64; 3],
    normalize: bool,
    precision: Precision,
    image_keys: &'a [String],
    num_spatial_blocks: u64,
    shared_trunk: bool,
    use_pretrain: Option<bool>,
    freeze_encoder: bool,
}

impl<'a> From<&'a RewardModelSettings> for Described<'a> {
    fn from(model: &'a RewardModelSettings) -> Self {
        Self {
            arch: model.arch,
            hidden_dim: model.hidden_dim,
            dropout: model.dropout,
            image_size: model.image_size,
            normalize: model.normalize,
            precision: model.precision,
            image_keys: &model.image_keys,
            num_spatial_blocks: model.num_spatial_blocks,
            shared_trunk: ClassifierSettings::default().shared_trunk,
            use_pretrain: model.use_pretrain,
            freeze_encoder: model.freeze_encoder,
        }
    }
}

impl<'a> From<&'a ModelSettings> for Described<'a> {
    fn from(model: &'a ModelSettings) -> Self {
        Self {
            arch: model.arch,
            hidden_dim: model.hidden_dim,
            dropout: model.dropout,
            image_size: model.image_size,
            normalize: model.normalize,
            precision: model.precision,
            image_keys: &model.image_keys,
            num_spatial_blocks: model.num_spatial_blocks,
            shared_trunk: model.shared_trunk,
            use_pretrain: None,
            freeze_encoder: model.freeze_encoder,
        }
    }
}

impl Described<'_> {
    /// The same for the crate that builds it.
    pub(crate) fn settings(&self) -> ClassifierSettings {
        let image_keys = match self.image_keys {
            [] => vec!["main_images".into()],
            keys => keys.to_vec(),
        };
        ClassifierSettings {
            arch: arch(self.arch),
            hidden_dim: (self.hidden_dim > 0).then_some(self.hidden_dim as usize),
            dropout: self.dropout,
            image_size: self.image_size.map(|side| side as usize),
            normalize: self.normalize,
            precision: precision(self.precision),
            image_keys,
            shared_trunk: self.shared_trunk,
            num_spatial_blocks: self.num_spatial_blocks as usize,
            use_pretrain: self.use_pretrain,
            freeze_encoder: self.freeze_encoder,
        }
    }
}

fn arch(arch: Arch) -> classifier::Arch {
    match arch {
        Arch::Resnet18 => classifier::Arch::Resnet18,
        Arch::Resnet34 => classifier::Arch::Resnet34,
        Arch::Resnet50 => classifier::Arch::Resnet50,
        Arch::Resnet101 => classifier::Arch::Resnet101,
        Arch::Resnet152 => classifier::Arch::Resnet152,
        Arch::Resnet10 => classifier::Arch::Resnet10,
        Arch::Resnet10Spatial => classifier::Arch::Resnet10Spatial,
    }
}

pub(super) fn precision(precision: Precision) -> classifier::Precision {
    match precision {
        Precision::Fp32 => classifier::Precision::Fp32,
        Precision::Bf16 => classifier::Precision::Bf16,
        Precision::Fp16 => classifier::Precision::Fp16,
    }
}

/// A setting that a checkpoint was made with, and that a config says otherwise.
pub(crate) struct Difference {
    /// Its key in the model's block.
    pub(crate) key: &'static str,
    /// What the checkpoint was made with, as one would write it.
    pub(crate) is: String,
}

/// Where the network that a checkpoint was made with is another than the one that is written.
pub(crate) fn differences(own: &ClassifierSettings, written: &ClassifierSettings) -> Vec<Difference> {
    [
        ("arch", own.arch != written.arch, own.arch.name().to_string()),
        ("hidden_dim", own.hidden_dim != written.hidden_dim, own.hidden_dim.unwrap_or(0).to_string()),
        ("image_size", own.image_size != written.image_size, format!("{:?}", own.image_size)),
        ("normalize", own.normalize != written.normalize, own.normalize.to_string()),
        ("image_keys", own.image_keys != written.image_keys, format!("[{}]", own.image_keys.join(", "))),
    ]
    .into_iter()
    .filter(|(_, differs, _)| *differs)
    .map(|(key, _, is)| Difference { key, is })
    .collect()
}
