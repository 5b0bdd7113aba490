//! `plaudit collect`: a policy plays, and its episodes are kept.

use std::time::Instant;

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, Event, Level, Policy, Seed, Watch};
use plaudit_data::episode::Counts;
use plaudit_rl::{Rollout, RolloutError};

use crate::build::{self, Which};
use crate::cli::{ConfigArgs, Volume};
use crate::config::blocks::env::RewardRender;
use crate::config::{self, Loaded};
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::load::Asked;
use crate::run::{Run, interrupted};
use crate::say;

/// Let a policy play and keep its episodes
///
/// Episodes go to `data_collection.save_dir`, or to `data/` in the run directory, in `export_format`. Each is a file
/// that is complete or absent; a folder that holds episodes already gets more.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit collect pickcube_scripted --episodes 200 actor.model.noise=0.25
  plaudit collect pickcube_scripted env.eval.data_collection.export_format=npy
  plaudit collect pickcube_scripted env.eval.data_collection.target_success=100 env.eval.data_collection.target_failure=100")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: ConfigArgs,
    /// Stop after this many episodes, equally many of each environment. Where `only_success` is set, this many
    /// successes. Not given: when `target_success` and `target_failure` are met, or else after one episode per
    /// environment and `rollout_epoch`
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
}

impl Command {
    /// Does it.
    pub fn run(self, volume: Volume) -> Result<(), Failure> {
        let asked = Asked::from_args(&self.config)?;
        let mut loaded = config::load(&asked.disk, &asked.request)?;
        say::notices(&loaded.notices, volume);
        let which = which(&loaded);
        if let Some(episodes) = self.episodes {
            keep_so_many_successes(&mut loaded, which, episodes);
        }
        let mut env = build::env(&loaded, which)?;
        let mut policy = build::policy(&loaded, which, env.spec())?;
        // Pictures are what reward models learn from: they are drawn unless the config says never.
        if which.settings(&loaded).reward_render_mode != Some(RewardRender::Never) {
            env.watch(Watch::Everything);
        }
        let wanted = wanted(&self, &loaded, which);
        let mut run = Run::start(&loaded, "collect", "episodes", wanted, volume)?;
        let keeper = Keeper::start(&loaded, which, run.data_directory())?;
        if let Some(text) = keeper.found() {
            run.emit(Event::Notice { level: Level::Info, text });
        }
        let settings = which.settings(&loaded);
        let seed = Seed::new(settings.seed).purpose("collect");
        let plan = Plan { wanted, seed, restarts: settings.bridge.restarts };
        let outcome = collect(&mut run, env.as_mut(), policy.as_mut(), keeper, plan);
        run.finish(outcome, &self.config.command("collect")).map(drop)
    }
}

/// How much to collect, and how.
struct Plan {
    wanted: u64,
    seed: Seed,
    restarts: u64,
}

/// The environments that collect: those with `data_collection.enabled`, else those that are written.
fn which(loaded: &Loaded) -> Which {
    let config = &loaded.config.env;
    match (config.train.data_collection.enabled, config.eval.data_collection.enabled) {
        (true, _) => Which::Train,
        (false, true) => Which::Eval,
        (false, false) if loaded.is_written("env.train") => Which::Train,
        (false, false) => Which::Eval,
    }
}

/// Where successes alone are kept, the command line decides how many, not the recipe.
fn keep_so_many_successes(loaded: &mut Loaded, which: Which, episodes: u64) {
    let env = &mut loaded.config.env;
    let collection = match which {
        Which::Train => &mut env.train.data_collection,
        Which::Eval => &mut env.eval.data_collection,
    };
    if collection.only_success && collection.target_success.is_some() {
        collection.target_success = Some(episodes);
    }
}

/// How many episodes to keep at the most.
fn wanted(command: &Command, loaded: &Loaded, which: Which) -> u64 {
    let settings = which.settings(loaded);
    let collection = &settings.data_collection;
    let failures = if collection.only_success { Some(0) } else { collection.target_failure };
    let targets = collection.target_success.zip(failures).map(|(success, failure)| success + failure);
    let once = settings.total_num_envs.unwrap_or(1) as u64 * settings.rollout_epoch;
    command.episodes.or(targets).unwrap_or(once)
}

/// What a collection knows while it goes on.
struct Collecting<'a> {
    run: &'a mut Run,
    keeper: Keeper,
    wanted: u64,
    began: Instant,
    steps: u64,
    played: Counts,
}

impl Collecting<'_> {
    fn goes_on(&self) -> bool {
        self.keeper.kept().all() < self.wanted && !self.keeper.is_done() && !interrupted()
    }

    /// Plays from a reset until enough is kept, or the environments fail.
    fn play(&mut self, env: &mut dyn Env, policy: &mut dyn Policy, seed: Seed) -> Result<(), PlayError> {
        let num_envs = env.spec().num_envs as u64;
        let mut rollout = Rollout::start(env, seed, 0)?;
        self.keeper.reset(rollout.obs());
        while self.goes_on() {
            let taken = rollout.advance(policy)?;
            self.keeper.step(&taken, self.wanted)?;
            self.steps += num_envs;
            for episode in rollout.take_finished() {
                let played = &mut self.played;
                *(if episode.success_once { &mut played.successes } else { &mut played.failures }) += 1;
            }
            self.run.emit(Event::Progress { step: self.keeper.kept().all() });
            if self.steps.is_multiple_of(50 * num_envs) {
                self.report();
            }
        }
        Ok(())
    }

    fn report(&mut self) {
        let rate = self.steps as f64 / self.began.elapsed().as_secs_f64();
        self.run.emit(metrics(&self.keeper, self.played, rate));
    }
}

/// Why playing stopped: environments can be started again, a full disk cannot.
#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Keeping(#[from] Failure),
}

fn collect(
    run: &mut Run,
    env: &mut dyn Env,
    policy: &mut dyn Policy,
    keeper: Keeper,
    plan: Plan,
) -> Result<(Counts, EndReason), Failure> {
    // A later collection into the same folder must not play the same episodes again.
    let seed = plan.seed.index(keeper.already_there());
    let (wanted, began) = (plan.wanted, Instant::now());
    let mut collecting = Collecting { run, keeper, wanted, began, steps: 0, played: Counts::default() };
    for attempt in 0.. {
        match collecting.play(env, policy, seed.index(attempt)) {
            Ok(()) => break,
            Err(PlayError::Rollout(error)) if attempt < plan.restarts => {
                let text = format!("start {} of {}: {error}", attempt + 1, plan.restarts);
                collecting.run.emit(Event::Notice { level: Level::Warning, text });
            }
            Err(error) => return Err(kept_so_far(collecting.keeper, error)),
        }
    }
    collecting.report();
    let stopped = collecting.keeper.kept().all() < wanted && !collecting.keeper.is_done();
    let Collecting { run, keeper, .. } = collecting;
    let text = format!("{} episodes in {}", keeper.kept().all(), keeper.directory().display());
    let counts = keeper.finish()?;
    run.emit(Event::Notice { level: Level::Info, text });
    Ok((counts, if stopped { EndReason::Interrupted } else { EndReason::Done }))
}

/// The failure, and what is safe in spite of it.
fn kept_so_far(keeper: Keeper, error: PlayError) -> Failure {
    let place = keeper.directory().display().to_string();
    match (error, keeper.finish()) {
        (PlayError::Keeping(failure), _) => failure,
        (PlayError::Rollout(error), Ok(counts)) => {
            let help = format!(
                "the {} episodes before it are in {place}; bridge.restarts tries again",
                counts.all()
            );
            Failure::work(error, help)
        }
        (PlayError::Rollout(error), Err(_)) => Failure::work(error, None),
    }
}

fn metrics(keeper: &Keeper, played: Counts, steps_per_second: f64) -> Event {
    let kept = keeper.kept();
    let values = [
        ("env/success_once", played.successes as f64 / played.all().max(1) as f64),
        ("collect/episodes", kept.all() as f64),
        ("collect/successes", kept.successes as f64),
        ("collect/failures", kept.failures as f64),
        ("time/env_steps_per_second", steps_per_second),
        ("time/waited_for_disk_secs", keeper.waited_secs()),
    ];
    let values = values.map(|(name, value)| (name.to_string(), value)).into();
    Event::Metrics { step: kept.all(), values }
}
