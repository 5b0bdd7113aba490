//! `plaudit eval`: a policy acts, and the environment's truth judges it.

use std::time::Instant;

use clap::Args;
use plaudit_core::{Emit, EndReason, Event, Policy};

use crate::build::{self, Which};
use crate::cli::{ConfigArgs, Volume};
use crate::config::{self, Loaded, Notice};
use crate::evaluation::{Stage, Tally};
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
  plaudit eval cartpole_ppo runner.ckpt_path=logs/20260801-12:00:00-cartpole_ppo/checkpoints/global_step_100
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
        let tally = judge(&loaded, &self.config.command("eval"), volume)?;
        if self.json {
            return say::out(&format!("{}\n", serde_json::Value::Object(tally.result())));
        }
        Ok(())
    }
}

/// An evaluation as a run of its own.
pub(super) fn judge(loaded: &Loaded, command: &[String], volume: Volume) -> Result<Tally, Failure> {
    let env = build::env(loaded, Which::Eval)?;
    let mut policy = build::policy(loaded, Which::Eval, env.spec())?;
    say::notices(&without_effect(loaded), volume);
    let mut run = Run::start(loaded, "eval", "rollouts", loaded.config.env.eval.rollout_epoch, volume)?;
    let tally: Tally = run.restore()?.unwrap_or_default();
    let data = run.data_directory();
    let mut stage = Stage::new(loaded, env, data, &mut run)?;
    let outcome = evaluate(&mut run, &mut stage, policy.as_mut(), tally);
    stage.close(&mut run)?;
    run.finish(outcome, command)
}

/// Keys that were written and that an evaluation does not look at.
fn without_effect(loaded: &Loaded) -> Vec<Notice> {
    match loaded.config.reward.use_reward_model {
        true => vec![Notice { text: "an evaluation does not look at reward.use_reward_model".into() }],
        false => Vec::new(),
    }
}

fn evaluate(
    run: &mut Run,
    stage: &mut Stage,
    policy: &mut dyn Policy,
    mut tally: Tally,
) -> Result<(Tally, EndReason), Failure> {
    while tally.rollouts < stage.rollouts() {
        let began = Instant::now();
        let before = tally.sum_length;
        stage.play(run, policy, tally.rollouts, &mut tally)?;
        let steps_per_second = (tally.sum_length - before) as f64 / began.elapsed().as_secs_f64();
        let mut values = tally.metrics();
        values.push(("time/env_steps_per_second".into(), steps_per_second));
        run.emit(Event::Metrics { step: tally.rollouts, values });
        run.emit(Event::Progress { step: tally.rollouts });
        run.save(tally.rollouts, &tally)?;
        if interrupted() && tally.rollouts < stage.rollouts() {
            return Ok((tally, EndReason::Interrupted));
        }
    }
    let (step, values) = (tally.rollouts, tally.returns.clone());
    run.emit(Event::Histogram { step, name: "eval/return".into(), values });
    Ok((tally, EndReason::Done))
}
