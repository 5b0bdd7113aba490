//! A rollout as it is kept until it has taught: with what a frozen trunk made of its pictures in their place.

use plaudit_core::Obs;

use crate::actor_critic::ActorCritic;
use crate::learner::{Experience, LearnError};
use crate::replay::Views;

/// A rollout, and features in place of its pictures where there is a frozen trunk.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) experience: Experience,
    /// `[T + 1][B, F]`; rows of nothing without such a trunk.
    features: Vec<Vec<f32>>,
    /// The same of the last real observations.
    last_features: Vec<Vec<f32>>,
}

impl Kept {
    pub(super) fn new(mut experience: Experience, networks: &ActorCritic) -> Result<Self, LearnError> {
        let segment = &mut experience.segment;
        let mut keep = |obs: &mut Obs| -> Result<Vec<f32>, LearnError> {
            let features = match networks.sight() {
                Some(sight) => sight.look_through_trunk(obs)?,
                None => Vec::new(),
            };
            networks.look(obs, &features)?; // does it fit?
            if networks.sight().is_none_or(|sight| sight.trunk().is_some()) {
                obs.cameras.clear();
            }
            Ok(features)
        };
        let features = segment.obs.iter_mut().map(&mut keep).collect::<Result<_, _>>()?;
        let last_features = segment.last.iter_mut().map(|(_, _, obs)| keep(obs)).collect::<Result<_, _>>()?;
        Ok(Self { experience, features, last_features })
    }

    /// Adds what a row saw at a step.
    pub(super) fn see(&self, step: usize, row: usize, networks: &ActorCritic, into: &mut Views) {
        let obs = &self.experience.segment.obs[step];
        into.push(obs.row(row), row_of(&self.features[step], row, obs.batch()), networks.pictured());
    }

    /// Adds the last real observation of an episode, in the order they are kept in.
    pub(super) fn see_last(&self, at: usize, networks: &ActorCritic, into: &mut Views) {
        into.push(self.experience.segment.last[at].2.row(0), &self.last_features[at], networks.pictured());
    }
}

fn row_of(features: &[f32], row: usize, rows: usize) -> &[f32] {
    let width = features.len() / rows;
    &features[row * width..(row + 1) * width]
}
