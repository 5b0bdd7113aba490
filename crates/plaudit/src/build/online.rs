//! A reward model that learns while a policy learns by it, as a config asks for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_compose::ComposeError;
use plaudit_core::Seed;
use plaudit_data::labelled::{LabelledData, ReadOptions, SplitOptions};
use plaudit_data::recording::Rules;
use plaudit_nn::classifier::{AdamW, ClassifierSettings, Device, Precision, Trainer};
use plaudit_reward::augment::Augment;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{DatasetError, Frames, SplitManifest, ViewKey, keep_decidable};
use plaudit_reward::online::{
    BuildModel, Hardening, HardeningData, ModelInUse, OnlineSettings, OnlineTraining, PolicyFrames,
    WhichFrames,
};
use plaudit_reward::open::{ClassifierCheckpoint, trained_model};
use plaudit_reward::{CameraView, RewardModelError, StateConditions};

use super::reward::TermBuilder;
use crate::config::LoadedConfig;
use crate::config::blocks::reward::RewardMode;

/// How images are augmented: as the recipe of reward training does it.
const AUGMENT: Augment = Augment {
    shift: 0.1,
    crop: 0.1,
    brightness: 0.1,
    contrast: 0.1,
    saturation: 0.0,
    hue: 0.0,
    blur: 0.0,
    cutout: 0.0,
};
/// The share of named episodes that are held out.
const HELD_OUT: f64 = 0.2;

/// What a model that learns is made of.
pub(super) struct OnlineModel<'a> {
    pub(super) builder: &'a TermBuilder<'a>,
    pub(super) checkpoint: &'a ClassifierCheckpoint,
    pub(super) settings: ClassifierSettings,
    pub(super) views: Vec<CameraView>,
    pub(super) device: Device,
    /// The version of the model in use.
    pub(super) version: u64,
}

impl OnlineModel<'_> {
    fn loaded(&self) -> &LoadedConfig {
        self.builder.loaded
    }

    fn problem(&self, key: &str, message: impl ToString, hint: &str) -> ComposeError {
        self.loaded().problem(&format!("reward.online.{key}"), message.to_string(), hint)
    }

    /// The training of the model, before its first round.
    pub(super) fn training(self) -> Result<OnlineTraining, ComposeError> {
        let data = self.data()?;
        let shapes = data.train.shapes().to_vec();
        let seed = Seed::new(self.loaded().config.env.train.seed).purpose("online reward");
        let settings = self.online_settings(seed);
        let which = match self.builder.term.reward_mode {
            RewardMode::Terminal => WhichFrames::Ends,
            RewardMode::PerStep | RewardMode::Potential | RewardMode::HistoryBuffer => WhichFrames::Rewarded,
        };
        let frames = PolicyFrames::new(which, self.views.clone(), shapes, settings.frames, seed)
            .with_guards(self.builder.model_conditions()?);
        let trainer = self.trainer()?;
        let threshold = self.checkpoint.card.as_ref().and_then(untempered_threshold);
        let hint = "name other data with reward.online.data_path and reward.online.held_out_path";
        let hardening = Hardening::new(settings, data, trainer, threshold)
            .map_err(|error| self.problem("data_path", error, hint))?;
        let background = self.loaded().config.runner.asynchronous;
        let card = self.checkpoint.card.clone().unwrap_or_else(|| ModelCard::of(self.settings.clone()));
        let in_use = ModelInUse { build: self.build_model(), card, version: self.version };
        Ok(OnlineTraining::new(hardening, frames, background, in_use))
    }

    fn online_settings(&self, seed: Seed) -> OnlineSettings {
        let online = &self.loaded().config.reward.online;
        OnlineSettings {
            every: online.every,
            steps: online.steps,
            batch: online.batch_size as usize,
            lr: online.lr,
            policy_frames: online.policy_frames,
            prior: online.prior,
            labelled_weight: online.labelled_weight,
            frames: online.frames as usize,
            min_frames: online.min_frames as usize,
            auc_margin: online.auc_margin,
            augment: AUGMENT,
            seed,
        }
    }

    /// Learns where the model in use scores, in single precision.
    fn trainer(&self) -> Result<Trainer, ComposeError> {
        let settings = ClassifierSettings { precision: Precision::Fp32, ..self.settings.clone() };
        let made = Trainer::on(self.device, &settings, AdamW::default(), 0).and_then(|mut trainer| {
            trainer.load(&self.checkpoint.weights)?;
            Ok(trainer)
        });
        made.map_err(|error| self.builder.unreadable(error))
    }

    fn build_model(&self) -> BuildModel {
        let (settings, views, device) = (self.settings.clone(), self.views.clone(), self.device);
        let caution = self.builder.term.model.caution;
        let dump = self.builder.frame_dump();
        Box::new(move |weights, threshold| {
            let model = trained_model(&settings, weights, device, views.clone(), threshold)
                .map_err(|error| RewardModelError::Backend(Box::new(error)))?;
            dump(Box::new(model.with_caution(caution)))
        })
    }

    /// The labelled frames, to learn from and held out.
    fn data(&self) -> Result<HardeningData, ComposeError> {
        let online = &self.loaded().config.reward.online;
        let (train, held_out) = match (&online.data_path, &online.held_out_path) {
            (Some(train), Some(held_out)) if train == held_out => {
                let message =
                    "it is learned from as well: a model would be checked by what it learned by heart";
                return Err(self.problem("held_out_path", message, "name other episodes"));
            }
            (Some(train), Some(held_out)) => {
                let train = self.read("data_path", &[train.into()])?;
                (train, self.read("held_out_path", &[held_out.into()])?)
            }
            (Some(path), None) => {
                let options = SplitOptions {
                    num_samples_per_episode: 0,
                    val_split: HELD_OUT,
                    fail_success_ratio: None,
                    seed: self.loaded().config.data.seed as i64,
                };
                self.split("data_path", Path::new(path), &options)?
            }
            (None, held_out) => self.data_of_card(held_out.as_deref())?,
        };
        Ok(HardeningData { train: Arc::new(train), held_out: Arc::new(held_out) })
    }

    /// What the model's card says it was trained and validated on.
    fn data_of_card(&self, held_out: Option<&str>) -> Result<(Frames, Frames), ComposeError> {
        let hint = "name labelled episodes, such as those the model was trained on";
        let dataset = self.checkpoint.card.as_ref().and_then(|card| card.dataset.as_ref());
        let Some(dataset) = dataset else {
            let message = "the model does not say what it learned from";
            return Err(self.problem("data_path", message, hint));
        };
        let paths = |split: &SplitManifest| split.paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        if let Some(held_out) = held_out {
            let train = self.read("data_path", &paths(&dataset.train))?;
            return Ok((train, self.read("held_out_path", &[held_out.into()])?));
        }
        let Some(val) = &dataset.val else {
            let message = "the model was not validated on anything, so that nothing is held out";
            return Err(self.problem("held_out_path", message, "name labelled episodes that it never saw"));
        };
        if val.paths.iter().all(|path| !dataset.train.paths.contains(path)) {
            let train = self.read("data_path", &paths(&dataset.train))?;
            return Ok((train, self.read("held_out_path", &paths(val))?));
        }
        let [path] = &val.paths[..] else {
            let message = "the model was trained on parts of several recordings";
            return Err(self.problem("data_path", message, "name it, and reward.online.held_out_path"));
        };
        let data = &self.loaded().config.data;
        let options = SplitOptions {
            num_samples_per_episode: data.num_samples_per_episode as usize,
            val_split: data.val_split,
            fail_success_ratio: (data.fail_success_ratio > 0.0).then_some(data.fail_success_ratio),
            seed: data.seed as i64,
        };
        let (train, held_out) = self.split("data_path", Path::new(path), &options)?;
        let found = SplitManifest::of(&held_out)
            .map_err(|error| self.problem("data_path", error, "copy the data again, or name other data"))?;
        if found.sha256 != val.sha256 {
            let message = format!("{path} is not split as it was when the model was trained on it");
            let hint = "set data.seed, data.val_split, data.num_samples_per_episode and data.fail_success_ratio as in that \
                        training, or name reward.online.data_path and reward.online.held_out_path";
            return Err(self.problem("data_path", message, hint));
        }
        Ok((train, held_out))
    }

    fn views(&self) -> Result<Vec<ViewKey>, DatasetError> {
        self.settings.image_keys.iter().map(|key| key.parse()).collect()
    }

    fn unreadable(&self, key: &str, error: &DatasetError) -> ComposeError {
        self.problem(key, error, "name labelled episodes with the cameras of the model")
    }

    /// One recording, with the frames that such a model can learn from.
    fn labelled(&self, path: &Path, views: &[ViewKey]) -> Result<LabelledData, DatasetError> {
        let (cameras, rules) = (ViewKey::cameras(views), Rules::default());
        let read = ReadOptions { cameras, rules };
        let mut data = LabelledData::read(path, &read, &|_| {})?;
        if let Some(conditions) = self.conditions() {
            keep_decidable(&mut data, conditions)?;
        }
        Ok(data)
    }

    fn conditions(&self) -> Option<&StateConditions> {
        self.checkpoint.card.as_ref()?.conditions.as_ref()
    }

    fn read(&self, key: &str, paths: &[PathBuf]) -> Result<Frames, ComposeError> {
        let read = || -> Result<Frames, DatasetError> {
            let views = self.views()?;
            let all = |path: &PathBuf| {
                let data = self.labelled(path, &views)?;
                let all = data.all();
                Ok((Arc::new(data), all))
            };
            Frames::new(&views, paths.iter().map(all).collect::<Result<_, DatasetError>>()?)
        };
        read().map_err(|error| self.unreadable(key, &error))
    }

    /// One recording in two parts, by episode.
    fn split(
        &self,
        key: &str,
        path: &Path,
        options: &SplitOptions,
    ) -> Result<(Frames, Frames), ComposeError> {
        let split = || -> Result<(Frames, Frames), DatasetError> {
            let views = self.views()?;
            let data = Arc::new(self.labelled(path, &views)?);
            let parts = data.split(options)?;
            let frames = |picks| Frames::new(&views, vec![(data.clone(), picks)]);
            Ok((frames(parts.train)?, frames(parts.val)?))
        };
        split().map_err(|error| self.unreadable(key, &error))
    }
}

/// The threshold of a checkpoint on scores as the network gives them, without the temperature of an audit.
fn untempered_threshold(card: &ModelCard) -> Option<f64> {
    let threshold = card.threshold?;
    let logit = (threshold / (1.0 - threshold)).ln() * card.temperature();
    Some(1.0 / (1.0 + (-logit).exp()))
}
