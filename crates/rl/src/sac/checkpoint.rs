//! Soft actor-critic on disk: networks, target, moments of the optimisers, temperature, and the replay.
//!
//! Beside the learner's own file lie `replay.pt` and, where there are demonstrations, `demos.pt` with what people added
//! to them, and `successes.pt` with the run's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_nn::Weights;
use plaudit_nn::dense::Adam;

use super::Sac;
use crate::naming::take;
use crate::replay::Replay;
use crate::{Checkpoint, LearnError, StateScale};

const TEMPERATURE: &str = "temperature";
const SCALE: &str = "state_scale";
const AVERAGE: &str = "policy_average";
const DEMOS: &str = "demos.pt";
const SUCCESSES: &str = "successes.pt";

/// Writes everything into a folder.
pub(super) fn save(sac: &Sac, folder: &Path) -> Result<(), LearnError> {
    let mut checkpoint = Checkpoint::default();
    let both = |policy: &[f32], critics: &[f32]| {
        let mut weights = Weights::new();
        sac.networks.export_policy(policy, &mut weights);
        sac.networks.export_critics(critics, &mut weights);
        weights
    };
    checkpoint.tensors("networks", both(&sac.policy, &sac.critics));
    checkpoint.tensors("adam_m", both(&sac.policy_adam.m, &sac.critic_adam.m));
    checkpoint.tensors("adam_v", both(&sac.policy_adam.v, &sac.critic_adam.v));
    if sac.networks.has_target() {
        let mut target = Weights::new();
        sac.networks.export_critics(&sac.target, &mut target);
        checkpoint.tensors("target", target);
    }
    if let Some(average) = &sac.average {
        let mut weights = Weights::new();
        sac.networks.export_policy(average, &mut weights);
        checkpoint.tensors(AVERAGE, weights);
    }
    let Adam { m, v, .. } = &sac.temperature.adam;
    let mut temperature = Weights::new();
    temperature.insert_f32("x_m_v", &[3], &[sac.temperature.x, m[0], v[0]]);
    checkpoint.tensors(TEMPERATURE, temperature);
    if let Some(StateScale { mean, deviation }) = &sac.networks.scale {
        let mut scale = Weights::new();
        scale.insert_f32("mean", &[mean.len()], mean);
        scale.insert_f32("deviation", &[deviation.len()], deviation);
        checkpoint.tensors(SCALE, scale);
    }
    checkpoint.count("updates", sac.updates);
    checkpoint.count("policy_steps", sac.policy_adam.step);
    checkpoint.count("critic_steps", sac.critic_adam.step);
    checkpoint.count("temperature_steps", sac.temperature.adam.step);
    checkpoint.trunk(sac.networks.vision_encoder.as_ref());
    checkpoint.write(folder)?;
    save_replay(&sac.replay, folder.join("replay.pt"))?;
    for (buffer, file) in [(&sac.demos, DEMOS), (&sac.successes, SUCCESSES)] {
        if let Some(buffer) = buffer {
            save_replay(buffer, folder.join(file))?;
        }
    }
    Ok(())
}

fn save_replay(replay: &Replay, path: PathBuf) -> Result<(), LearnError> {
    replay.save(&path).map_err(|error| LearnError::Checkpoint { path, problem: error.to_string() })
}

/// Becomes what was saved; an error changes nothing.
pub(super) fn restore(sac: &mut Sac, folder: &Path) -> Result<(), LearnError> {
    let checkpoint = Checkpoint::read(folder)?;
    checkpoint.same_trunk(sac.networks.vision_encoder.as_ref())?;
    let policy_of = |name: &str| {
        let mut params = vec![0.0; sac.policy.len()];
        let taken = sac.networks.import_policy(&mut params, &checkpoint.under(name));
        taken.map(|()| params).map_err(|mismatch| checkpoint.mismatch(mismatch))
    };
    let critics_of = |name: &str| {
        let mut params = vec![0.0; sac.critics.len()];
        let taken = sac.networks.import_critics(&mut params, &checkpoint.under(name));
        taken.map(|()| params).map_err(|mismatch| checkpoint.mismatch(mismatch))
    };
    let policy_adam = Adam {
        settings: sac.policy_adam.settings,
        step: checkpoint.counted("policy_steps")?,
        m: policy_of("adam_m")?,
        v: policy_of("adam_v")?,
    };
    let critic_adam = Adam {
        settings: sac.critic_adam.settings,
        step: checkpoint.counted("critic_steps")?,
        m: critics_of("adam_m")?,
        v: critics_of("adam_v")?,
    };
    let (policy, critics) = (policy_of("networks")?, critics_of("networks")?);
    let target = if sac.networks.has_target() { critics_of("target")? } else { Vec::new() };
    let average = sac.average.as_ref().map(|_| policy_of(AVERAGE)).transpose()?;
    let temperature = take(&checkpoint.under(TEMPERATURE), "x_m_v", &[3]);
    let temperature = temperature.map_err(|mismatch| checkpoint.mismatch(mismatch))?;
    let temperature_steps = checkpoint.counted("temperature_steps")?;
    let scale = scale(sac, &checkpoint)?;
    let updates = checkpoint.counted("updates")?;
    let replay = restored(&sac.replay, folder.join("replay.pt"))?;
    let demos = sac.demos.as_ref().map(|demos| restored(demos, folder.join(DEMOS))).transpose()?;
    // Before successes had a file of their own, they were among the demonstrations.
    let successes = sac.successes.as_ref().map(|own| match folder.join(SUCCESSES) {
        path if path.exists() => restored(own, path),
        _ => Ok(own.emptied()),
    });
    let successes = successes.transpose()?;

    Arc::make_mut(&mut sac.networks).scale = scale;
    sac.temperature.x = temperature[0];
    sac.temperature.adam.step = temperature_steps;
    (sac.temperature.adam.m[0], sac.temperature.adam.v[0]) = (temperature[1], temperature[2]);
    (sac.policy_adam, sac.critic_adam) = (policy_adam, critic_adam);
    (sac.policy, sac.critics, sac.target) = (Arc::new(policy), critics, target);
    sac.average = average.map(Arc::new);
    (sac.replay, sac.demos, sac.successes, sac.updates) = (replay, demos, successes, updates);
    if let Some(gpu) = &mut sac.gpu {
        gpu.is_current = false;
    }
    Ok(())
}

/// The scale that the networks were trained by, if they were.
fn scale(sac: &Sac, checkpoint: &Checkpoint) -> Result<Option<StateScale>, LearnError> {
    if sac.networks.scale.is_none() {
        return Ok(None);
    }
    let (kept, width) = (checkpoint.under(SCALE), sac.networks.states());
    let numbers = |name: &str| take(&kept, name, &[width]).map_err(|mismatch| checkpoint.mismatch(mismatch));
    Ok(Some(StateScale { mean: numbers("mean")?, deviation: numbers("deviation")? }))
}

fn restored(like: &Replay, path: PathBuf) -> Result<Replay, LearnError> {
    let mut replay = like.emptied();
    match replay.restore(&path) {
        Ok(()) => Ok(replay),
        Err(error) => Err(LearnError::UnreadableReplay { path, error }),
    }
}
