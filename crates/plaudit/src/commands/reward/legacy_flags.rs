//! Legacy flags: those of earlier training scripts, as the overrides they mean.

use std::path::PathBuf;

use clap::Args;

use crate::cli::ConfigArgs;

/// The recipe that `plaudit reward train` takes unless another is named.
const RECIPE: &str = "reward_training";
/// The recipe that flags about `.npy` trajectories are for.
const SPATIAL_RECIPE: &str = "reward_training_spatial";

/// Flags of RLinf's earlier scripts. Each is an override of a config in other words.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Flags of earlier scripts, as words for keys (`*` needs --positive-dir)")]
pub(super) struct LegacyFlags {
    /// Episodes to train on: `data.data_path`
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Folder of successful .npy trajectories: trains the older classifier (recipe reward_training_spatial)
    #[arg(long, value_name = "DIR", requires = "negative_dir")]
    positive_dir: Option<PathBuf>,
    /// * Folder of failed .npy trajectories
    #[arg(long, value_name = "DIR", requires = "positive_dir")]
    negative_dir: Option<PathBuf>,
    /// Write the best model here as well: `.pt` as a checkpoint for PyTorch, or `.safetensors`
    #[arg(long, value_name = "FILE")]
    pub(super) output_checkpoint: Option<PathBuf>,
    /// * Weights of a pretrained ResNet-10: `actor.model.pretrained_encoder_path`
    #[arg(long, value_name = "FILE", requires = "positive_dir")]
    pretrained_encoder_path: Option<PathBuf>,
    /// * Only resnet10
    #[arg(long, value_name = "NAME", requires = "positive_dir", value_parser = ["resnet10"])]
    backbone: Option<String>,
    /// The camera: `actor.model.image_keys`
    #[arg(long, value_name = "KEY")]
    image_key: Option<String>,
    /// Channels, height and width: `actor.model.image_size`
    #[arg(long, value_names = ["C", "H", "W"], num_args = 3)]
    image_size: Option<Vec<u64>>,
    /// Frames per step: `actor.micro_batch_size` and `actor.global_batch_size`
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Times through the data: `runner.max_epochs`
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Learning rate: `actor.optim.lr`
    #[arg(long, value_name = "X")]
    lr: Option<f64>,
    /// Width of the head's hidden layer: `actor.model.hidden_dim`
    #[arg(long, value_name = "N")]
    hidden_dim: Option<u64>,
    /// * Blocks of the spatial pooling [default: 8]
    #[arg(long, value_name = "N", requires = "positive_dir")]
    num_spatial_blocks: Option<u64>,
    /// Keep every success as an image before training
    #[arg(long)]
    pub(super) visualize_positive: bool,
    /// Where those images go
    #[arg(long, value_name = "DIR", default_value = "positive_samples_vis")]
    pub(super) vis_output_dir: PathBuf,
}

impl LegacyFlags {
    /// The config that is meant: a recipe where none is named, and the flags as overrides before those that are written.
    pub(super) fn config(&self, given: &ConfigArgs) -> ConfigArgs {
        let named = given.config_name.is_some()
            || given.words.first().is_some_and(|word| !crate::load::looks_like_override(word));
        let mut words = given.words.clone();
        if !named {
            let recipe = if self.positive_dir.is_some() { SPATIAL_RECIPE } else { RECIPE };
            words.insert(0, recipe.into());
        }
        let place = usize::from(given.config_name.is_none());
        words.splice(place..place, self.overrides());
        ConfigArgs { words, ..given.clone() }
    }

    fn overrides(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| quoted(&path.display().to_string()));
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let size = self.image_size.as_ref().map(|size| format!("{size:?}"));
        let key = self.image_key.as_ref().map(|key| format!("[{}]", quoted(key)));
        let pairs = [
            ("data.data_path", path(&self.data)),
            ("data.positive_dir", path(&self.positive_dir)),
            ("data.negative_dir", path(&self.negative_dir)),
            ("actor.model.pretrained_encoder_path", path(&self.pretrained_encoder_path)),
            ("actor.model.image_keys", key),
            ("actor.model.image_size", size),
            ("actor.micro_batch_size", number(self.batch_size)),
            ("actor.global_batch_size", number(self.batch_size)),
            ("runner.max_epochs", number(self.epochs)),
            ("actor.optim.lr", self.lr.map(|lr| format!("{lr:e}"))),
            ("actor.model.hidden_dim", number(self.hidden_dim)),
            ("actor.model.num_spatial_blocks", number(self.num_spatial_blocks)),
        ];
        pairs.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect()
    }
}

/// A text as an override takes it, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> ConfigArgs {
        ConfigArgs { words: words.iter().map(ToString::to_string).collect(), ..ConfigArgs::default() }
    }

    #[test]
    fn flags_are_overrides_that_written_ones_beat() {
        let flags = LegacyFlags { data: Some("it's".into()), ..LegacyFlags::default() };
        let words = flags.config(&given(&["runner.max_epochs=3"])).words;
        assert_eq!(words, ["reward_training", "data.data_path='it\\'s'", "runner.max_epochs=3"]);
        let words = flags.config(&given(&["mine.yaml", "a=1"])).words;
        assert_eq!(words, ["mine.yaml", "data.data_path='it\\'s'", "a=1"]);
    }

    #[test]
    fn trajectories_have_a_recipe_of_their_own() {
        let flags = LegacyFlags {
            positive_dir: Some("p".into()),
            negative_dir: Some("n".into()),
            image_size: Some(vec![3, 64, 64]),
            lr: Some(1e-4),
            batch_size: Some(128),
            ..LegacyFlags::default()
        };
        let words = flags.config(&given(&[])).words;
        let expected = [
            "reward_training_spatial",
            "data.positive_dir='p'",
            "data.negative_dir='n'",
            "actor.model.image_size=[3, 64, 64]",
            "actor.micro_batch_size=128",
            "actor.global_batch_size=128",
            "actor.optim.lr=1e-4",
        ];
        assert_eq!(words, expected);
    }
}
