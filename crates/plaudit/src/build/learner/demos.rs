//! Demonstrations, read and fitted to the environments: for the replay of RLPD, or for cloning.

use std::path::Path;

use plaudit_compose::ComposeError;
use plaudit_core::{ActionSpace, FramesNeeded, Reward, RewardColumn, RewardError, Segment};
use plaudit_data::demonstrations::{self, DemonstrationError};
use plaudit_env::EnvId;
use plaudit_reward::camera_for;
use plaudit_rl::replay::NewRollout;
use plaudit_rl::{Cloning, DemoConverter, DemoError};

use super::Builder;
use crate::build::vision_encoder::policy_uses_images;
use crate::config::blocks::algorithm::{CloningSettings, ReplaySettings};
use crate::config::blocks::env::EnvRewardMode;

const KEY: &str = "algorithm.demo_buffer.load_path";
const CLONING_KEY: &str = "algorithm.cloning.load_path";

/// Which of the cameras behind the main one a name in a pickled episode means: `extra_view_images` holds them all, in
/// their order, the one on the hand too.
fn further_camera(name: &str) -> Option<usize> {
    match name.strip_prefix("extra_view_images")? {
        "" => Some(0),
        place => place.strip_prefix('[')?.strip_suffix(']')?.parse().ok(),
    }
}

impl Builder<'_> {
    /// The demonstrations that a buffer starts from, labelled by `reward` as everything else will be.
    pub(super) fn demonstrations(
        &self,
        buffer: &ReplaySettings,
        reward: &dyn Reward,
    ) -> Result<Vec<NewRollout>, ComposeError> {
        let Some(path) = &buffer.load_path else {
            let message = "RLPD learns from demonstrations, and none are named";
            let hint =
                "name episodes (`plaudit collect pickcube_scripted` makes some), or leave demo_buffer out";
            return Err(self.loaded.problem(KEY, message, hint));
        };
        let path = Path::new(path);
        let frames_needed =
            if policy_uses_images(self.loaded) { FramesNeeded::Everything } else { reward.frames_needed() };
        let mut labelled = Vec::new();
        let ends_at_success = self.ends_at_success();
        let segments = self.segments(KEY, path, frames_needed, ends_at_success)?;
        for (number, segment) in segments.into_iter().enumerate() {
            let column = reward.label(&segment).map_err(|error| self.cannot_label(path, number, &error))?;
            let RewardColumn { total, version, .. } = column;
            labelled.push(NewRollout {
                segment,
                starts_chunk: Vec::new(),
                invalid: Vec::new(),
                reward: total,
                version,
            });
        }
        self.refuse_unrewarded(path, &labelled)?;
        Ok(labelled)
    }

    /// Behaviour cloning, if the config asks for it.
    pub(super) fn cloning(&self) -> Result<Option<Cloning>, ComposeError> {
        let algorithm = &self.loaded.config.algorithm;
        let Some(asked) = &algorithm.cloning else { return Ok(None) };
        let kept = || Some((KEY, algorithm.demo_buffer.as_ref()?.load_path.as_ref()?));
        let Some((key, path)) = asked.load_path.as_ref().map(|path| (CLONING_KEY, path)).or_else(kept) else {
            let hint = "name episodes: `plaudit collect pickcube_demos` makes some";
            return Err(self.loaded.problem(CLONING_KEY, "there is nothing to clone", hint));
        };
        if asked.batch_size == 0 {
            let message = "a batch needs at least one transition";
            return Err(self.loaded.problem("algorithm.cloning.batch_size", message, "256 is usual"));
        }
        let frames_needed =
            if policy_uses_images(self.loaded) { FramesNeeded::Everything } else { FramesNeeded::Nothing };
        // What follows success shows how to hold still.
        let demos = self.segments(key, Path::new(path), frames_needed, false)?;
        let (steps, batch) = (asked.steps, asked.batch_size as usize);
        let std = self.deviations(asked);
        Ok(Some(Cloning { demos, steps, batch, lr: asked.lr, std }))
    }

    /// The deviation of each number of an action that cloning leaves; nothing for choices.
    pub(super) fn deviations(&self, asked: &CloningSettings) -> Vec<f32> {
        match &self.spec.actions {
            ActionSpace::Discrete { .. } => Vec::new(),
            ActionSpace::Continuous { low, high } => {
                let half =
                    |low: f32, high: f32| if (high - low).is_finite() { (high - low) / 2.0 } else { 1.0 };
                low.iter().zip(high).map(|(&low, &high)| asked.std as f32 * half(low, high)).collect()
            }
        }
    }

    /// Whether success ends an episode of the run.
    fn ends_at_success(&self) -> bool {
        let is_embedded = self.spec.id.parse::<EnvId>().is_ok_and(EnvId::ends_at_success);
        is_embedded && !self.loaded.config.env.train.ignore_terminations
    }

    /// Whether the environment's own reward is that of success alone.
    fn rewards_success_only(&self) -> bool {
        let train = &self.loaded.config.env.train;
        matches!(train.reward_mode, EnvRewardMode::OnlySuccess | EnvRewardMode::Sparse)
            && !train.use_rel_reward
    }

    /// Episodes as segments of these environments; `key` is where the path was written.
    fn segments(
        &self,
        key: &str,
        path: &Path,
        frames_needed: FramesNeeded,
        ends_at_success: bool,
    ) -> Result<Vec<Segment>, ComposeError> {
        let episodes = demonstrations::read(path).map_err(|error| {
            let message = match &error {
                DemonstrationError::File(bad) => {
                    format!("{}: {}", bad.path.display(), bad.problem.with_hint())
                }
                other => other.to_string(),
            };
            self.loaded.problem(key, message, self.how_to_get_demos(path))
        })?;
        let camera = |name: &str| {
            let kept = further_camera(name).map(|at| self.spec.cameras.get(1 + at));
            let found = kept.unwrap_or_else(|| camera_for(name, &self.spec.cameras).ok());
            found.map(|(name, _)| name.clone())
        };
        let full_state = self.spec.id.parse::<EnvId>().ok().and_then(EnvId::full_state_width);
        let rewards_success_only = self.rewards_success_only();
        let fit = DemoConverter {
            spec: self.spec,
            camera: &camera,
            frames_needed,
            full_state,
            ends_at_success,
            rewards_success_only,
        };
        let fitted = episodes.iter().enumerate();
        fitted
            .map(|(number, episode)| {
                fit.segment(episode).map_err(|unfit| self.unfit_demo(key, path, number, &unfit))
            })
            .collect()
    }

    /// What to do about demonstrations that cannot be read: where there are none, how to collect some.
    fn how_to_get_demos(&self, path: &Path) -> String {
        if path.exists() && path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return "name a store, a LeRobot dataset, a replay buffer (.pt) or episodes (.pkl)".into();
        }
        let recipe = match self.spec.id.parse::<EnvId>() {
            Ok(EnvId::PickCubeV1 | EnvId::PickCube3ViewV1) => "pickcube_demos",
            Ok(EnvId::PegInsertionSideV1) => "peginsertion_scripted",
            _ => "CONFIG",
        };
        format!(
            "collect some: `plaudit collect {recipe} env.eval.data_collection.enabled=true \
             env.eval.data_collection.save_dir={}`",
            path.display()
        )
    }

    fn unfit_demo(&self, key: &str, path: &Path, number: usize, unfit: &DemoError) -> ComposeError {
        let message = format!("{}: episode {number} is no demonstration here: {unfit}", path.display());
        let hint = match unfit {
            DemoError::Width { what: "actions", .. } => "collect with the same actor.model.policy_setup",
            DemoError::Width { .. } => {
                "collect with the same env.train.init_params.obs_mode and use_full_state"
            }
            DemoError::Image { .. } => "collect with the same env.train.init_params.sensor_configs",
            _ => "leave it out of the folder, or collect it again",
        };
        self.loaded.problem(key, message, hint)
    }

    fn cannot_label(&self, path: &Path, number: usize, error: &RewardError) -> ComposeError {
        let message = format!("{}: episode {number} cannot be labelled: {error}", path.display());
        let hint = match error {
            RewardError::Camera { .. } => {
                "collect with images: env.train.init_params.obs_mode=rgb, use_full_state=true"
            }
            _ => "leave it out of the folder, or collect it again",
        };
        self.loaded.problem(KEY, message, hint)
    }

    /// Demonstrations without reward teach that what they show is worth nothing.
    fn refuse_unrewarded(&self, path: &Path, labelled: &[NewRollout]) -> Result<(), ComposeError> {
        let earns = labelled.iter().any(|demo| demo.reward.iter().any(|&reward| reward != 0.0));
        if earns || labelled.is_empty() {
            return Ok(());
        }
        let message =
            format!("{}: none of {} demonstrations gets any reward", path.display(), labelled.len());
        let hint = "the files may hold no rewards (LeRobot datasets do not), or the reward model sees no success in them";
        Err(self.loaded.problem(KEY, message, hint))
    }
}
