//! The network of an image reward model, as configs describe it: for training and for scoring alike.

use plaudit_nn::classifier::ClassifierSettings;
use plaudit_reward::open::{GivenNetwork, SettingDifference};

use crate::config::LoadedConfig;
use crate::config::blocks::actor::ModelSettings;
use crate::config::blocks::reward::{Arch, Precision, RewardModelSettings};

/// What a config says about the network, wherever it stands.
pub(crate) struct NetworkConfig<'a> {
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

impl<'a> From<&'a RewardModelSettings> for NetworkConfig<'a> {
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

impl<'a> From<&'a ModelSettings> for NetworkConfig<'a> {
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

impl NetworkConfig<'_> {
    /// The same for the crate that builds it.
    pub(crate) fn settings(&self) -> ClassifierSettings {
        let image_keys = match self.image_keys {
            [] => vec!["main_images".into()],
            keys => keys.to_vec(),
        };
        ClassifierSettings {
            arch: self.arch,
            hidden_dim: (self.hidden_dim > 0).then_some(self.hidden_dim as usize),
            dropout: self.dropout,
            image_size: self.image_size.map(|side| side as usize),
            normalize: self.normalize,
            precision: self.precision,
            image_keys,
            shared_trunk: self.shared_trunk,
            num_spatial_blocks: self.num_spatial_blocks as usize,
            use_pretrain: self.use_pretrain,
            freeze_encoder: self.freeze_encoder,
        }
    }
}

/// What a config (its block `block`) says about the network of a checkpoint: the keys that are written.
pub(crate) fn given_network(loaded: &LoadedConfig, block: &str, model: &RewardModelSettings) -> GivenNetwork {
    let is_written = |key: &str| loaded.is_written(&format!("{block}.{key}"));
    let written = NetworkConfig::from(model).settings();
    GivenNetwork {
        arch: is_written("arch").then_some(written.arch),
        hidden_dim: is_written("hidden_dim").then_some(written.hidden_dim),
        image_size: is_written("image_size").then_some(written.image_size),
        normalize: is_written("normalize").then_some(written.normalize),
        image_keys: is_written("image_keys").then_some(written.image_keys),
        precision: is_written("precision").then_some(written.precision),
    }
}

/// The overrides that make a config say what a checkpoint was made with.
pub(crate) fn overrides(block: &str, differences: &[SettingDifference]) -> String {
    let word = |one: &SettingDifference| format!("{block}.{}={}", one.key, one.is.replace(", ", ","));
    let all: Vec<String> = differences.iter().map(word).collect();
    format!("set it as the checkpoint has it: {}", all.join(" "))
}
