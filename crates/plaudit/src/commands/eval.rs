//! `plaudit eval`: evaluates a policy by the environment's ground truth.

use std::time::Instant;

use clap::Args;
use plaudit_core::{Emit, EndReason, Event, Policy};

use crate::build::{self, EnvBlock};
use crate::cli::{RunArgs, Verbosity};
use crate::config::{LoadedConfig, Notice};
use crate::console;
use crate::evaluation::{EvalStats, Evaluator, Filming};
use crate::failure::Failure;
use crate::load;
use crate::run::{Run, interrupted};

/// Evaluate a policy by the environment's ground truth
///
/// Every environment of `env.eval` plays one episode per rollout, `env.eval.rollout_epoch` rollouts in all, so
/// that long episodes count as much as short ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit eval cartpole_random
  plaudit eval cartpole_random \\
      env.eval.total_num_envs=256 env.eval.rollout_epoch=20
  plaudit eval cartpole_ppo \\
      runner.ckpt_path=logs/my_run/checkpoints/global_step_100
  plaudit eval cartpole_random \\
      runner.resume_dir=logs/20260801-12:00:00-cartpole_random")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let loaded = load::to_run(&self.config, verbosity)?;
        let mut command = self.config.command("eval");
        command.extend(self.json.then(|| "--json".to_string()));
        let stats = run_evaluation(&loaded, &command, verbosity)?;
        if self.json {
            return console::print(&format!("{}\n", serde_json::Value::Object(stats.result())));
        }
        Ok(())
    }
}

/// An evaluation as a run of its own.
pub(super) fn run_evaluation(
    loaded: &LoadedConfig,
    command: &[String],
    verbosity: Verbosity,
) -> Result<EvalStats, Failure> {
    let env = build::env(loaded, EnvBlock::Eval)?;
    let mut policy = build::policy(loaded, EnvBlock::Eval, env.spec())?;
    console::notices(&without_effect(loaded), verbosity);
    let mut run = Run::start(loaded, "eval", "rollouts", loaded.config.env.eval.rollout_epoch, verbosity)?;
    let stats: EvalStats = run.restore()?.unwrap_or_default();
    let data = run.data_directory();
    let mut evaluator = Evaluator::new(loaded, env, Filming::default(), data, &mut run)?;
    let outcome = evaluate(&mut run, &mut evaluator, policy.as_mut(), stats);
    evaluator.close(&mut run)?;
    run.finish(outcome, command)
}

/// Keys that were written and that an evaluation does not look at.
fn without_effect(loaded: &LoadedConfig) -> Vec<Notice> {
    match loaded.config.reward.use_reward_model {
        true => vec![Notice { text: "an evaluation does not look at reward.use_reward_model".into() }],
        false => Vec::new(),
    }
}

fn evaluate(
    run: &mut Run,
    evaluator: &mut Evaluator,
    policy: &mut dyn Policy,
    mut stats: EvalStats,
) -> Result<(EvalStats, EndReason), Failure> {
    while stats.rollouts < evaluator.rollouts() {
        let began = Instant::now();
        let before = stats.sum_length;
        evaluator.play(run, policy, (stats.rollouts, stats.rollouts), &mut stats)?;
        let steps_per_second = (stats.sum_length - before) as f64 / began.elapsed().as_secs_f64();
        let mut values = stats.metrics();
        values.push(("time/env_steps_per_second".into(), steps_per_second));
        run.emit(Event::Metrics { step: stats.rollouts, values });
        run.emit(Event::Progress { step: stats.rollouts });
        run.save(stats.rollouts, &stats)?;
        if interrupted() && stats.rollouts < evaluator.rollouts() {
            return Ok((stats, EndReason::Interrupted));
        }
    }
    let (step, values) = (stats.rollouts, stats.returns.iter().map(|value| value.0).collect());
    run.emit(Event::Histogram { step, name: "eval/return".into(), values });
    Ok((stats, EndReason::Done))
}
