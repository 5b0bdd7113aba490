//! `plaudit eval`: a policy acts, and the environment's truth judges it.

use std::time::Instant;

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, Event, Level, Policy, Seed};
use plaudit_rl::{Episode, Rollout};
use plaudit_view::video::{Seen, VideoError, VideoRecorder};
use serde::{Deserialize, Serialize};

use crate::build::{self, Which};
use crate::cli::{ConfigArgs, Volume};
use crate::config::{self, Loaded, Notice};
use crate::failure::Failure;
use crate::keeper::Keeper;
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
        let mut env = build::env(&loaded, Which::Eval)?;
        let mut policy = build::policy(&loaded, Which::Eval, env.spec())?;
        say::notices(&without_effect(&loaded), volume);

        let mut run = Run::start(&loaded, "eval", "rollouts", rollouts(&loaded), volume)?;
        let tally: Tally = run.restore()?.unwrap_or_default();
        let video = build::video(&loaded, Which::Eval, env.spec(), run.video_directory())?;
        let keeper = match loaded.config.env.eval.data_collection.enabled {
            true => Some(Keeper::start(&loaded, Which::Eval, run.data_directory())?),
            false => None,
        };
        if let Some(text) = keeper.as_ref().and_then(Keeper::found) {
            run.emit(Event::Notice { level: Level::Info, text });
        }
        let mut stage = Stage { env: env.as_mut(), policy: policy.as_mut(), film: Film { video }, keeper };
        let outcome = evaluate(&mut run, &loaded, &mut stage, tally);
        stage.film.finish(&mut run);
        if let Some(keeper) = stage.keeper {
            let text = format!("{} episodes in {}", keeper.kept().all(), keeper.directory().display());
            keeper.finish()?;
            run.emit(Event::Notice { level: Level::Info, text });
        }
        let tally = run.finish(outcome, &self.config.command("eval"))?;
        if self.json {
            return say::out(&format!("{}\n", serde_json::Value::Object(tally.result())));
        }
        Ok(())
    }
}

/// Keys that were written and that an evaluation does not look at.
fn without_effect(loaded: &Loaded) -> Vec<Notice> {
    let ignored = [
        ("runner.ckpt_path", loaded.is_written("runner.ckpt_path")),
        ("reward.use_reward_model", loaded.config.reward.use_reward_model),
    ];
    let keys: Vec<_> = ignored.into_iter().filter(|(_, written)| *written).map(|(key, _)| key).collect();
    match keys.is_empty() {
        true => Vec::new(),
        false => vec![Notice { text: format!("an evaluation does not look at {}", keys.join(", ")) }],
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

    /// The metrics for programs: counts are whole numbers.
    fn result(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut result: serde_json::Map<_, _> =
            self.metrics().into_iter().map(|(name, value)| (name, value.into())).collect();
        result.insert("eval/num_trajectories".into(), self.episodes.into());
        result
    }

    /// Means over all episodes, under RLinf's names. Success is the environment's truth.
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

/// Who plays, who films it, and who keeps it.
struct Stage<'a> {
    env: &'a mut dyn Env,
    policy: &'a mut dyn Policy,
    film: Film,
    keeper: Option<Keeper>,
}

/// Videos of the evaluation. A video that cannot be written ends the filming, not the evaluation.
struct Film {
    video: Option<VideoRecorder>,
}

impl Film {
    fn try_to(&mut self, run: &mut Run, act: impl FnOnce(&mut VideoRecorder) -> Result<(), VideoError>) {
        let Some(video) = &mut self.video else { return };
        if let Err(error) = act(video) {
            self.video = None;
            let text = format!("no more videos: {error}");
            run.emit(Event::Notice { level: Level::Warning, text });
        }
    }

    fn finish(self, run: &mut Run) {
        match self.video.map(VideoRecorder::close) {
            None => {}
            Some(Ok(files)) => {
                let text = match files.last() {
                    Some(last) => format!("{} videos, the last {}", files.len(), last.path.display()),
                    None => "no video: nothing was seen".into(),
                };
                run.emit(Event::Notice { level: Level::Info, text });
            }
            Some(Err(error)) => {
                let text = format!("a video is missing: {error}");
                run.emit(Event::Notice { level: Level::Warning, text });
            }
        }
    }
}

fn evaluate(
    run: &mut Run,
    loaded: &Loaded,
    stage: &mut Stage<'_>,
    mut tally: Tally,
) -> Result<(Tally, EndReason), Failure> {
    let seed = Seed::new(loaded.config.env.eval.seed).purpose("eval");
    while tally.rollouts < rollouts(loaded) {
        let began = Instant::now();
        let before = tally.sum_length;
        let start = if loaded.config.env.eval.use_fixed_reset_state_ids { 0 } else { tally.rollouts };
        play_once(run, stage, seed.index(start), |episode| tally.add(episode))?;
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
    run: &mut Run,
    stage: &mut Stage<'_>,
    seed: Seed,
    mut hear: impl FnMut(&Episode),
) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::work(error, None);
    let mut open = vec![true; stage.env.spec().num_envs];
    let mut rollout = Rollout::start(stage.env, seed, 0).map_err(|error| failed(&error))?;
    stage.film.try_to(run, |video| video.start(rollout.obs()));
    if let Some(keeper) = &mut stage.keeper {
        keeper.reset(rollout.obs());
    }
    while open.iter().any(|&open| open) {
        let taken = rollout.advance(stage.policy).map_err(|error| failed(&error))?;
        stage.film.try_to(run, |video| video.step(Seen::from(&taken.step)));
        if let Some(keeper) = &mut stage.keeper {
            keeper.step(&taken, u64::MAX)?;
        }
        for episode in rollout.take_finished() {
            if std::mem::replace(&mut open[episode.row], false) {
                hear(&episode);
            }
        }
    }
    stage.film.try_to(run, |video| video.flush().map(drop));
    Ok(())
}
