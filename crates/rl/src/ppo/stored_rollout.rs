//! A rollout as it is stored until the next update: with the features of a frozen trunk in place of its images.

use plaudit_core::Obs;

use crate::actor_critic::ActorCritic;
use crate::learner::{Experience, LearnError};
use crate::replay::ObsBuffer;

/// A rollout, with features in place of its images where there is a frozen trunk.
#[derive(Debug)]
pub(super) struct StoredRollout {
    pub(super) experience: Experience,
    /// `[T + 1][B, F]`; rows of nothing without such a trunk.
    features: Vec<Vec<f32>>,
    /// The same of the last real observations.
    last_features: Vec<Vec<f32>>,
}

impl StoredRollout {
    pub(super) fn new(mut experience: Experience, networks: &ActorCritic) -> Result<Self, LearnError> {
        let segment = &mut experience.segment;
        let mut keep = |obs: &mut Obs| -> Result<Vec<f32>, LearnError> {
            let features = match networks.vision_encoder() {
                Some(vision_encoder) => vision_encoder.trunk_features(obs)?,
                None => Vec::new(),
            };
            networks.obs_batch(obs, &features)?; // does it fit?
            if networks.vision_encoder().is_none_or(|vision_encoder| vision_encoder.trunk().is_some()) {
                obs.cameras.clear();
            }
            Ok(features)
        };
        let features = segment.obs.iter_mut().map(&mut keep).collect::<Result<_, _>>()?;
        let last_features = segment.last.iter_mut().map(|(_, _, obs)| keep(obs)).collect::<Result<_, _>>()?;
        Ok(Self { experience, features, last_features })
    }

    /// Adds what a row saw at a step.
    pub(super) fn push_obs(&self, step: usize, row: usize, networks: &ActorCritic, into: &mut ObsBuffer) {
        let obs = &self.experience.segment.obs[step];
        into.push(obs.row(row), row_of(&self.features[step], row, obs.batch()), networks.image_cameras());
    }

    /// Adds the last real observation of an episode, in the order they are kept in.
    pub(super) fn push_last_obs(&self, at: usize, networks: &ActorCritic, into: &mut ObsBuffer) {
        into.push(
            self.experience.segment.last[at].2.row(0),
            &self.last_features[at],
            networks.image_cameras(),
        );
    }
}

fn row_of(features: &[f32], row: usize, rows: usize) -> &[f32] {
    let width = features.len() / rows;
    &features[row * width..(row + 1) * width]
}
