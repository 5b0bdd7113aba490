//! `plaudit eval`: a policy acts, and the environment's truth judges it.

use std::time::Instant;

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, Event, Policy, Seed};
use plaudit_rl::{Episode, Rollout};
use serde::{Deserialize, Serialize};

use crate::build;
use crate::cli::{ConfigArgs, Volume};
use crate::config::{self, Loaded};
use crate::failure::Failure;
use crate::load::Asked;
use crate::run::{Run, interrupted};
use crate::say;

/// Let a policy act and judge it by the environment's truth
///
/// Every environment of `env.eval` plays one episode per rollout, `env.eval.rollout_epoch` rollouts in all, so
/// that long episodes count as much as short ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit eval cartpole_random
  plaudit eval cartpole_random env.eval.total_num_envs=256 env.eval.rollout_epoch=20
  plaudit eval cartpole_random runner.resume_dir=logs/20260801-12:00:00-cartpole_random")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Does it.
    pub fn run(self, volume: Volume) -> Result<(), Failure> {
        let asked = Asked::from_args(&self.config)?;
        let loaded = config::load(&asked.disk, &asked.request)?;
        say::notices(&loaded.notices, volume);
        let mut env = build::env("env.eval", &loaded.config.env.eval)?;
        let mut policy = build::policy(&loaded.config.actor.model, &loaded.config.env.eval, env.spec())?;

        let mut run = Run::start(&loaded, "eval", "rollouts", rollouts(&loaded), volume)?;
        let tally: Tally = run.restore()?.unwrap_or_default();
        let outcome = evaluate(&mut run, &loaded, env.as_mut(), policy.as_mut(), tally);
        let tally = run.finish(outcome, &format!("plaudit eval {}", self.config.words.join(" ")))?;
        if self.json {
            say::out(&format!(
                "{}\n",
                serde_json::json!(tally.means().into_iter().collect::<serde_json::Map<_, _>>())
            ));
        }
        Ok(())
    }
}

fn rollouts(loaded: &Loaded) -> u64 {
    loaded.config.env.eval.rollout_epoch
}

/// What is known after some rollouts: all that a resumed evaluation needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tally {
    rollouts: u64,
    episodes: u64,
    successes_once: u64,
    successes_at_end: u64,
    sum_return: f64,
    sum_length: u64,
    returns: Vec<f64>,
}

impl Tally {
    fn add(&mut self, episode: &Episode) {
        self.episodes += 1;
        self.successes_once += u64::from(episode.success_once);
        self.successes_at_end += u64::from(episode.success_at_end);
        self.sum_return += episode.env_return;
        self.sum_length += episode.length;
        self.returns.push(episode.env_return);
    }

    /// Means over all episodes, under RLinf's names; `success_true` says who judged.
    fn means(&self) -> Vec<(String, serde_json::Value)> {
        self.metrics().into_iter().map(|(name, value)| (name, value.into())).collect()
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        let n = self.episodes.max(1) as f64;
        [
            ("eval/success_once", self.successes_once as f64 / n),
            ("eval/success_at_end", self.successes_at_end as f64 / n),
            ("eval/return", self.sum_return / n),
            ("eval/episode_len", self.sum_length as f64 / n),
            ("eval/reward", self.sum_return / self.sum_length.max(1) as f64),
            ("eval/num_trajectories", self.episodes as f64),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}

fn evaluate(
    run: &mut Run,
    loaded: &Loaded,
    env: &mut dyn Env,
    policy: &mut dyn Policy,
    mut tally: Tally,
) -> Result<(Tally, EndReason), Failure> {
    let seed = Seed::new(loaded.config.env.eval.seed).purpose("eval");
    while tally.rollouts < rollouts(loaded) {
        let began = Instant::now();
        let before = tally.sum_length;
        let start = if loaded.config.env.eval.use_fixed_reset_state_ids { 0 } else { tally.rollouts };
        play_once(env, policy, seed.index(start), |episode| tally.add(episode))?;
        tally.rollouts += 1;
        let steps_per_second = (tally.sum_length - before) as f64 / began.elapsed().as_secs_f64();
        let mut values = tally.metrics();
        values.push(("time/env_steps_per_second".into(), steps_per_second));
        run.emit(Event::Metrics { step: tally.rollouts, values });
        run.emit(Event::Progress { step: tally.rollouts });
        run.save(tally.rollouts, &tally)?;
        if interrupted() && tally.rollouts < rollouts(loaded) {
            return Ok((tally, EndReason::Interrupted));
        }
    }
    let (step, values) = (tally.rollouts, tally.returns.clone());
    run.emit(Event::Histogram { step, name: "eval/return".into(), values });
    Ok((tally, EndReason::Done))
}

/// One episode in every environment. A row that is done plays on unheard until the slowest is done too.
fn play_once(
    env: &mut dyn Env,
    policy: &mut dyn Policy,
    seed: Seed,
    mut hear: impl FnMut(&Episode),
) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::work(error, None);
    let mut open = vec![true; env.spec().num_envs];
    let mut rollout = Rollout::start(env, policy, seed, 0).map_err(|error| failed(&error))?;
    while open.iter().any(|&open| open) {
        rollout.advance().map_err(|error| failed(&error))?;
        for episode in rollout.take_finished() {
            if std::mem::replace(&mut open[episode.row], false) {
                hear(&episode);
            }
        }
    }
    Ok(())
}
