//! Environments inside plaudit, looked at and played by their script, so that a config can be checked against them.

use plaudit_core::{Env, EnvSpec, FramesNeeded, Seed};

use super::{Builder, EnvBlock};
use crate::config::LoadedConfig;
use crate::config::blocks::env::{EnvSettings, EnvType};

/// Episodes of the script that are played.
pub(crate) const SCRIPTED_EPISODES: usize = 4;

/// A state of an episode that the script plays.
pub(crate) struct ScriptedState {
    /// The full state, which begins with what a policy sees beside images.
    pub(crate) state: Vec<f32>,
    /// Whether the task is solved in it.
    pub(crate) is_success: bool,
}

/// What the environments to train in are like, if plaudit has them inside.
pub(crate) fn embedded_spec(loaded: &LoadedConfig) -> Option<EnvSpec> {
    let one = few(loaded, 1);
    Some(embedded(loaded, &one)?.spec().clone())
}

/// States of episodes that the script plays in environments like those to train in; none where there is no script.
pub(crate) fn scripted_states(loaded: &LoadedConfig) -> Vec<ScriptedState> {
    let some =
        EnvSettings { use_full_state: true, ignore_terminations: true, ..few(loaded, SCRIPTED_EPISODES) };
    play(loaded, &some).unwrap_or_default()
}

fn few(loaded: &LoadedConfig, number: usize) -> EnvSettings {
    EnvSettings { total_num_envs: Some(number), group_size: 1, ..loaded.config.env.train.clone() }
}

fn embedded(loaded: &LoadedConfig, settings: &EnvSettings) -> Option<Box<dyn Env>> {
    let builder = Builder { loaded, which: EnvBlock::Train, settings, first_row: 0 };
    let is_ours =
        matches!(settings.env_type, EnvType::Embedded | EnvType::Maniskill) && builder.is_embedded();
    let mut env = if is_ours { builder.embedded().ok()? } else { return None };
    env.set_frames_needed(FramesNeeded::Nothing);
    Some(env)
}

fn play(loaded: &LoadedConfig, settings: &EnvSettings) -> Option<Vec<ScriptedState>> {
    let mut env = embedded(loaded, settings)?;
    let builder = Builder { loaded, which: EnvBlock::Train, settings, first_row: 0 };
    let mut script = builder.scripted(env.spec(), 0.0, 0.0).ok()?;
    let seed = Seed::new(0).purpose("lint");
    let mut obs = env.reset(seed).ok()?;
    let mut states = Vec::new();
    for number in 0..env.spec().max_episode_steps? {
        let decision = script.act(&obs, seed.index(number as u64)).ok()?;
        let step = env.step(&decision.actions).ok()?;
        for row in 0..SCRIPTED_EPISODES {
            let last = step.last.iter().find(|(ended, _)| *ended == row);
            let state = last.map_or_else(|| step.obs.row(row).state, |(_, obs)| obs.row(0).state);
            states.push(ScriptedState { state: state.to_vec(), is_success: step.success[row] });
        }
        obs = step.obs;
    }
    Some(states)
}
