//! `plaudit collect`: runs a policy and records its episodes.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, EnvSpec, Event, FramesNeeded, Level, Policy, Seed};
use plaudit_data::episode::{CollectionRun, Counts, Ending};
use plaudit_rl::{Rollout, RolloutError};
use serde::{Deserialize, Serialize};

use crate::build::{self, EnvBlock};
use crate::cli::{RunArgs, Verbosity};
use crate::config::LoadedConfig;
use crate::config::blocks::env::{EnvType, RewardRender};
use crate::episode_recorder::EpisodeRecorder;
use crate::failure::Failure;
use crate::hints;
use crate::load;
use crate::run::{Run, interrupted};

/// Run a policy and record its episodes
///
/// Episodes go to `data_collection.save_dir`, or to `data/` in the run directory, in `export_format`. Each is a file
/// that is complete or absent. A folder that holds episodes already gets more, and none is ever overwritten: one
/// collection at a time writes to it. A collection that was stopped goes on with `runner.resume_dir`, and leaves the
/// files of one that never stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit collect pickcube_scripted --episodes 200 actor.model.noise=0.25
  plaudit collect pickcube_scripted \\
      env.eval.data_collection.export_format=npy
  plaudit collect pickcube_scripted \\
      env.eval.data_collection.target_success=100 \\
      env.eval.data_collection.target_failure=100
  plaudit collect pickcube_scripted --episodes 200 \\
      runner.resume_dir=logs/20260801-12:00:00-pickcube_scripted")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    /// Stop after this many episodes, equally many of each environment. Where `only_success` is set, this many
    /// successes. Not given: when `target_success` and `target_failure` are met, or else after one episode per
    /// environment and `rollout_epoch`; on a robot after `runner.num_data_episodes`
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let mut loaded = load::to_run(&self.config, verbosity)?;
        let which = which(&loaded);
        if let Some(episodes) = self.episodes {
            limit_successes(&mut loaded, which, episodes);
        }
        let mut env = build::env(&loaded, which)?;
        let mut policy = build::policy(&loaded, which, env.spec())?;
        // Reward models learn from images: they are rendered unless the config says never.
        if which.settings(&loaded).reward_render_mode != Some(RewardRender::Never) {
            env.set_frames_needed(FramesNeeded::Everything);
        }
        let wanted = wanted(&self, &loaded, which);
        let mut run = Run::start(&loaded, "collect", "episodes", wanted, verbosity)?;
        let outcome = match resumed(&run, wanted)? {
            Some(State { finished: true, .. }) => already_finished(&mut run, wanted),
            state => {
                let settings = which.settings(&loaded);
                let seed = Seed::new(settings.seed).purpose("collect");
                let mut plan = CollectPlan { wanted, seed, restarts: settings.bridge.restarts };
                let spec = env.spec();
                let (episode_recorder, state) =
                    episode_recorder(&mut run, &loaded, (which, spec), state, wanted)?;
                // A later collection into the same folder must not play the same episodes again.
                plan.seed = plan.seed.index(state.found);
                collect(&mut run, env.as_mut(), policy.as_mut(), episode_recorder, plan, state)
            }
        };
        run.finish(outcome, &self.as_words()).map(drop)
    }

    /// The command that asks for the same.
    fn as_words(&self) -> Vec<String> {
        let mut words = self.config.command("collect");
        words.extend(self.episodes.into_iter().flat_map(|n| ["--episodes".into(), n.to_string()]));
        words
    }
}

/// What a collection that goes on must know of how it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    /// By what the folders of its episodes know it.
    name: String,
    /// Episodes it was to keep.
    wanted: u64,
    /// Episodes that were in the folder before it.
    found: u64,
    /// Steps after which the environments failed and were started again, each time.
    failed_after: Vec<u64>,
    /// Whether all is collected.
    finished: bool,
}

/// The state of a collection that was stopped. Which episodes it keeps depends on how many it is to keep, so it goes on
/// with that number alone.
fn resumed(run: &Run, wanted: u64) -> Result<Option<State>, Failure> {
    let state: Option<State> = run.restore()?;
    match state {
        Some(state) if state.wanted != wanted => {
            let (path, before) = (run.path().display(), state.wanted);
            let message = format!("{path} was to collect {before} episodes, and is now asked for {wanted}");
            let help = format!(
                "resume with --episodes {before}; for more, start a new run, which adds to the same save_dir"
            );
            Err(Failure::usage(message, help))
        }
        state => Ok(state),
    }
}

fn already_finished(run: &mut Run, wanted: u64) -> Result<(Counts, EndReason), Failure> {
    let text =
        format!("this collection is finished; it was to collect {wanted} episodes. Start a new run for more");
    run.emit(Event::Notice { level: Level::Info, text });
    Ok((Counts::default(), EndReason::Done))
}

/// The recorder of episodes, of a collection that begins or that goes on.
fn episode_recorder(
    run: &mut Run,
    loaded: &LoadedConfig,
    (which, spec): (EnvBlock, &EnvSpec),
    state: Option<State>,
    wanted: u64,
) -> Result<(EpisodeRecorder, State), Failure> {
    let name = state.as_ref().map_or_else(new_name, |state| state.name.clone());
    let by = if state.is_some() { CollectionRun::Resumed(&name) } else { CollectionRun::New(&name) };
    let episode_recorder = EpisodeRecorder::start(loaded, which, spec, run.data_directory(), by)?;
    for (level, text) in episode_recorder.notices() {
        run.emit(Event::Notice { level, text });
    }
    let state = match state {
        Some(state) => state,
        None => {
            let found = episode_recorder.already_there();
            let state = State { name, wanted, found, failed_after: Vec::new(), finished: false };
            run.save(0, &state)?;
            state
        }
    };
    Ok((episode_recorder, state))
}

/// A name that no other collection has.
fn new_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

/// How much to collect, and how.
struct CollectPlan {
    wanted: u64,
    seed: Seed,
    restarts: u64,
}

/// The environments that collect: those with `data_collection.enabled`, else those that are written.
fn which(loaded: &LoadedConfig) -> EnvBlock {
    let config = &loaded.config.env;
    match (config.train.data_collection.enabled, config.eval.data_collection.enabled) {
        (true, _) => EnvBlock::Train,
        (false, true) => EnvBlock::Eval,
        (false, false) if loaded.is_written("env.train") => EnvBlock::Train,
        (false, false) => EnvBlock::Eval,
    }
}

/// Where successes alone are kept, the command line decides how many, not the recipe.
fn limit_successes(loaded: &mut LoadedConfig, which: EnvBlock, episodes: u64) {
    let env = &mut loaded.config.env;
    let collection = match which {
        EnvBlock::Train => &mut env.train.data_collection,
        EnvBlock::Eval => &mut env.eval.data_collection,
    };
    if collection.only_success && collection.target_success.is_some() {
        collection.target_success = Some(episodes);
    }
}

/// How many episodes to keep at the most.
fn wanted(command: &Command, loaded: &LoadedConfig, which: EnvBlock) -> u64 {
    let settings = which.settings(loaded);
    let collection = &settings.data_collection;
    let failures = if collection.only_success { Some(0) } else { collection.target_failure };
    let targets = collection.target_success.zip(failures).map(|(success, failure)| success + failure);
    let once = match settings.env_type {
        EnvType::Realworld => loaded.config.runner.num_data_episodes,
        _ => settings.total_num_envs.unwrap_or(1) as u64 * settings.rollout_epoch,
    };
    command.episodes.or(targets).unwrap_or(once)
}

/// What a collection knows while it goes on.
struct ActiveCollection<'a> {
    run: &'a mut Run,
    episode_recorder: EpisodeRecorder,
    wanted: u64,
    began: Instant,
    steps: u64,
    /// Steps of the batch since the environments were last started.
    steps_of_attempt: u64,
    played: Counts,
}

impl ActiveCollection<'_> {
    fn should_continue(&self) -> bool {
        self.episode_recorder.kept().all() < self.wanted && !self.episode_recorder.is_done() && !interrupted()
    }

    /// Plays from a reset until enough is kept, the environments fail, or `steps` are taken.
    fn play(
        &mut self,
        env: &mut dyn Env,
        policy: &mut dyn Policy,
        seed: Seed,
        steps: u64,
    ) -> Result<(), PlayError> {
        let num_envs = env.spec().num_envs as u64;
        self.steps_of_attempt = 0;
        let mut rollout = Rollout::start(env, seed, 0)?;
        self.episode_recorder.reset(rollout.obs());
        while self.should_continue() && self.steps_of_attempt < steps {
            let taken = rollout.advance(policy)?;
            self.steps_of_attempt += 1;
            self.episode_recorder.step(&taken, self.wanted)?;
            self.steps += num_envs;
            for episode in rollout.take_finished() {
                let played = &mut self.played;
                *(if episode.success_once { &mut played.successes } else { &mut played.failures }) += 1;
            }
            self.run.emit(Event::Progress { step: self.episode_recorder.kept().all() });
            if self.steps.is_multiple_of(50 * num_envs) {
                self.report();
            }
        }
        Ok(())
    }

    fn report(&mut self) {
        let rate = self.steps as f64 / self.began.elapsed().as_secs_f64();
        self.run.emit(metrics(&self.episode_recorder, self.played, rate));
    }
}

/// Why playing stopped: environments can be started again, a full disk cannot.
#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Recording(#[from] Failure),
}

fn collect(
    run: &mut Run,
    env: &mut dyn Env,
    policy: &mut dyn Policy,
    episode_recorder: EpisodeRecorder,
    plan: CollectPlan,
    mut state: State,
) -> Result<(Counts, EndReason), Failure> {
    let CollectPlan { wanted, seed, restarts } = plan;
    let (began, played) = (Instant::now(), Counts::default());
    let mut collecting =
        ActiveCollection { run, episode_recorder, wanted, began, steps: 0, steps_of_attempt: 0, played };
    for attempt in 0.. {
        // Where the environments failed before the collection was stopped, they are started again this time too.
        let failed_after = state.failed_after.get(attempt as usize).copied();
        match collecting.play(env, policy, seed.index(attempt), failed_after.unwrap_or(u64::MAX)) {
            Ok(()) if failed_after.is_some() && collecting.should_continue() => {}
            Ok(()) => break,
            Err(PlayError::Rollout(error)) if attempt < restarts => {
                let text = format!("start {} of {restarts}: {error}", attempt + 1);
                collecting.run.emit(Event::Notice { level: Level::Warning, text });
                state.failed_after.truncate(attempt as usize);
                state.failed_after.push(collecting.steps_of_attempt);
                collecting.run.save(collecting.episode_recorder.kept().all(), &state)?;
            }
            Err(error) => return Err(kept_so_far(collecting.episode_recorder, error)),
        }
    }
    collecting.report();
    state.finished =
        collecting.episode_recorder.kept().all() >= wanted || collecting.episode_recorder.is_done();
    let ActiveCollection { run, episode_recorder, .. } = collecting;
    let text =
        format!("{} episodes in {}", episode_recorder.kept().all(), episode_recorder.directory().display());
    let counts = episode_recorder.finish(if state.finished { Ending::Complete } else { Ending::Paused })?;
    run.save(counts.all(), &state)?;
    run.emit(Event::Notice { level: Level::Info, text });
    Ok((counts, if state.finished { EndReason::Done } else { EndReason::Interrupted }))
}

/// The failure, and what is safe in spite of it.
fn kept_so_far(episode_recorder: EpisodeRecorder, error: PlayError) -> Failure {
    let place = episode_recorder.directory().display().to_string();
    match (error, episode_recorder.finish(Ending::Paused)) {
        (PlayError::Recording(failure), _) => failure,
        (PlayError::Rollout(error), Ok(counts)) => {
            let kept = match counts.all() {
                0 => None,
                count => Some(format!("the {count} episodes before it are in {place}")),
            };
            let about = hints::about(&error).unwrap_or_else(|| "bridge.restarts tries again".into());
            Failure::runtime(error, hints::join([kept, Some(about)]))
        }
        (PlayError::Rollout(error), Err(_)) => Failure::runtime(error, None),
    }
}

fn metrics(episode_recorder: &EpisodeRecorder, played: Counts, steps_per_second: f64) -> Event {
    let kept = episode_recorder.kept();
    let values = [
        ("env/success_once", played.successes as f64 / played.all().max(1) as f64),
        ("collect/episodes", kept.all() as f64),
        ("collect/successes", kept.successes as f64),
        ("collect/failures", kept.failures as f64),
        ("time/env_steps_per_second", steps_per_second),
        ("time/waited_for_disk_secs", episode_recorder.waited_secs()),
    ];
    let values = values.map(|(name, value)| (name.to_string(), value)).into();
    Event::Metrics { step: kept.all(), values }
}
