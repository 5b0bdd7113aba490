//! The vision encoder of a policy on images.

use std::path::PathBuf;
use std::sync::Arc;

use plaudit_compose::ComposeError;
use plaudit_core::{EnvSpec, FrameShape};
use plaudit_nn::Weights;
use plaudit_nn::classifier::FrozenTrunk;
use plaudit_rl::vision_encoder::{EncoderKind, TRUNK, VisionEncoderSettings};

use crate::config::LoadedConfig;
use crate::config::blocks::actor::{Backbone, ModelSettings, ModelType};
use crate::config::blocks::env::{EnvType, ObsMode};

/// Whether the policy takes images.
pub fn policy_uses_images(loaded: &LoadedConfig) -> bool {
    loaded.config.actor.model.model_type == ModelType::Cnn
}

/// The cameras that the policy looks through in environments like these; none where it takes states.
pub fn policy_cameras(loaded: &LoadedConfig, spec: &EnvSpec) -> Result<Vec<Arc<str>>, ComposeError> {
    if !policy_uses_images(loaded) {
        return Ok(Vec::new());
    }
    let cameras = Builder { loaded, spec, model: &loaded.config.actor.model }.cameras()?;
    Ok(cameras.into_iter().map(|(name, _)| name).collect())
}

/// The vision encoder for environments like these. A frozen trunk comes from `weights` of a policy that has one, or from the file
/// that the config names.
pub(super) fn vision_encoder(
    loaded: &LoadedConfig,
    spec: &EnvSpec,
    weights: Option<&Weights>,
) -> Result<VisionEncoderSettings, ComposeError> {
    let builder = Builder { loaded, spec, model: &loaded.config.actor.model };
    builder.refuse_without_images()?;
    let cameras = builder.cameras()?;
    let encoder_kind = match builder.model.backbone {
        Backbone::Conv => EncoderKind::learned(builder.one_size(&cameras)?),
        Backbone::Keypoints => EncoderKind::keypoints(builder.one_size(&cameras)?),
        Backbone::Resnet => builder.frozen(weights)?,
    };
    let names = cameras.into_iter().map(|(name, _)| name).collect();
    Ok(VisionEncoderSettings::new(names, spec.state_width, encoder_kind))
}

struct Builder<'a> {
    loaded: &'a LoadedConfig,
    spec: &'a EnvSpec,
    model: &'a ModelSettings,
}

impl Builder<'_> {
    fn problem(&self, key: &str, message: impl ToString, hint: impl Into<String>) -> ComposeError {
        self.loaded.problem(&format!("actor.model.{key}"), message.to_string(), hint)
    }

    fn refuse_without_images(&self) -> Result<(), ComposeError> {
        let env = &self.loaded.config.env;
        let evaluates = self.loaded.config.runner.val_check_interval > 0;
        for (key, settings, used) in [("env.train", &env.train, true), ("env.eval", &env.eval, evaluates)] {
            // A robot's cameras are always there.
            let is_robot = settings.env_type == EnvType::Realworld;
            if used && !is_robot && settings.init_params.obs_mode != ObsMode::Rgb {
                let message = "a cnn_policy takes images, and these environments give states only";
                let key = format!("{key}.init_params.obs_mode");
                return Err(self.loaded.problem(&key, message, "set it to rgb, or model_type to mlp_policy"));
            }
        }
        Ok(())
    }

    /// The cameras that the config names, or the first of the environment's.
    fn cameras(&self) -> Result<Vec<(Arc<str>, FrameShape)>, ComposeError> {
        let all = &self.spec.cameras;
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        let there = format!("{} has {}", self.spec.id, names.join(", "));
        let keys = &self.model.image_keys;
        if keys.is_empty() {
            let count = self.model.image_num as usize;
            if count == 0 || count > all.len() {
                let message = format!("{count} cameras, where {there}");
                return Err(self.problem("image_num", message, "name cameras in image_keys instead"));
            }
            return Ok(all[..count].to_vec());
        }
        let find = |key: &String| {
            let main = (key == "main_images").then(|| all.first()).flatten();
            let found = all.iter().find(|(name, _)| **name == **key).or(main).cloned();
            found.ok_or_else(|| {
                let hint = "name cameras it has; env.*.init_params.sensor_configs adds more";
                self.problem("image_keys", format!("there is no camera `{key}`: {there}"), hint)
            })
        };
        keys.iter().map(find).collect()
    }

    /// The size of all images, for convolutions that are trained.
    fn one_size(&self, cameras: &[(Arc<str>, FrameShape)]) -> Result<FrameShape, ComposeError> {
        let [channels, height, width] = self.model.image_size.map(|size| size as usize);
        let frame = FrameShape { height, width, channels };
        for (name, shape) in cameras {
            if *shape != frame {
                let FrameShape { height, width, channels } = shape;
                let message = format!("camera `{name}` gives {height}x{width} images of {channels} channels");
                let hint = format!(
                    "set image_size to [{channels}, {height}, {width}], or \
                     env.*.init_params.sensor_configs to {{width: {}, height: {}}}",
                    frame.width, frame.height
                );
                return Err(self.problem("image_size", message, hint));
            }
        }
        if height.min(width) < SMALLEST {
            let message = format!("{height}x{width} images are too small for four convolutions");
            return Err(self.problem("image_size", message, format!("at least {SMALLEST}x{SMALLEST}")));
        }
        Ok(frame)
    }

    /// A trunk that was trained before.
    fn frozen(&self, weights: Option<&Weights>) -> Result<EncoderKind, ComposeError> {
        let [_, height, width] = self.model.image_size.map(|size| size as usize);
        let prefix = format!("encoders.0.{TRUNK}");
        let of_policy = weights.map(|weights| weights.under(&prefix)).filter(|trunk| !trunk.is_empty());
        let (key, trunk) = match of_policy {
            Some(trunk) => ("model_path", trunk),
            None => self.trunk_file()?,
        };
        let hint = "name resnet10_pretrained.pt, or set backbone to conv";
        let trunk =
            FrozenTrunk::new(&trunk, [height, width]).map_err(|error| self.problem(key, error, hint))?;
        Ok(EncoderKind::frozen(Arc::new(trunk)))
    }

    fn trunk_file(&self) -> Result<(&'static str, Weights), ComposeError> {
        let (model, encoder) = (self.model, &self.model.encoder_config);
        let (key, path) = match (&encoder.ckpt_path, &model.model_path, &encoder.ckpt_name) {
            (Some(path), _, _) => ("encoder_config.ckpt_path", PathBuf::from(path)),
            (None, Some(folder), Some(name)) if PathBuf::from(folder).is_dir() => {
                ("model_path", PathBuf::from(folder).join(name))
            }
            (None, Some(path), _) => ("model_path", PathBuf::from(path)),
            (None, None, _) => {
                let message = "a frozen resnet needs weights from elsewhere, and no file is named";
                let hint = "set encoder_config.ckpt_path to a trained trunk, or backbone to conv: \
                            convolutions that learn with the policy";
                return Err(self.problem("backbone", message, hint));
            }
        };
        let hint = "name the file of the trunk, or the folder that holds encoder_config.ckpt_name";
        let weights = Weights::read(&path).map_err(|error| self.problem(key, error, hint))?;
        Ok((key, weights))
    }
}

/// The smallest image of which four convolutions leave something: 31 → 15 → 7 → 3 → 1.
const SMALLEST: usize = 31;
