//! The network of an image reward model, as configs describe it: for training and for scoring alike.

use plaudit_nn::classifier::ClassifierSettings;
use plaudit_reward::open::{GivenNetwork, SettingDifference};

use crate::config::LoadedConfig;
use crate::config::blocks::actor::{ModelSettings, ModelType};
use crate::config::blocks::reward::RewardModelSettings;

/// What a config says about the network, in whichever block of those that have its keys.
macro_rules! network {
    ($model:expr, $shared_trunk:expr, $use_pretrain:expr, $progress_bins:expr) => {
        ClassifierSettings {
            arch: $model.arch,
            hidden_dim: ($model.hidden_dim > 0).then_some($model.hidden_dim as usize),
            dropout: $model.dropout,
            image_size: $model.image_size.map(|side| side as usize),
            normalize: $model.normalize,
            precision: $model.precision,
            image_keys: match &$model.image_keys[..] {
                [] => vec!["main_images".into()],
                keys => keys.to_vec(),
            },
            shared_trunk: $shared_trunk,
            num_spatial_blocks: $model.num_spatial_blocks as usize,
            use_pretrain: $use_pretrain,
            freeze_encoder: $model.freeze_encoder,
            progress_bins: $progress_bins,
        }
    };
}

/// The network of a reward model that scores.
pub(crate) fn scoring_network(model: &RewardModelSettings) -> ClassifierSettings {
    network!(model, ClassifierSettings::default().shared_trunk, model.use_pretrain, None)
}

/// The network of a reward model that is trained.
pub(crate) fn trained_network(model: &ModelSettings) -> ClassifierSettings {
    let bins = (model.model_type == ModelType::Progress).then_some(model.progress_bins as usize);
    network!(model, model.shared_trunk, None, bins)
}

/// What a config (its block `block`) says about the network of a checkpoint: the keys that are written.
pub(crate) fn given_network(loaded: &LoadedConfig, block: &str, model: &RewardModelSettings) -> GivenNetwork {
    let is_written = |key: &str| loaded.is_written(&format!("{block}.{key}"));
    let written = scoring_network(model);
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
