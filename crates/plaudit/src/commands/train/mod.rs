//! `plaudit train`: a policy learns in its environments.

mod constant_reward;
mod train_mode;

pub use train_mode::TrainMode;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, EnvSpec, Event, Level, Reward, RewardColumn, Seed, Segment};
use plaudit_data::episode::CollectionRun;
use plaudit_nn::process_memory;
use plaudit_reward::hacking_monitor::HackingMonitor;
use plaudit_reward::online::OnlineTraining;
use plaudit_rl::{Cloning, Learner, Metrics, OnLabelled, RolloutState};
use serde::{Deserialize, Serialize};

use self::constant_reward::ConstantReward;
use self::train_mode::{ActiveTraining, RemoteSetup, RolloutSetup, StepError};
use super::eval;
use crate::build::{self, EnvBlock};
use crate::checkpoint::{self, CheckpointContents, Restored};
use crate::cli::{RunArgs, Verbosity};
use crate::config::blocks::algorithm::LossType;
use crate::config::blocks::env::EnvType;
use crate::config::{LoadedConfig, Purpose, yaml};
use crate::console;
use crate::episode_recorder::EpisodeRecorder;
use crate::evaluation::{Evaluator, Filming, json_number};
use crate::failure::Failure;
use crate::hacking_monitor;
use crate::load;
use crate::online;
use crate::run::{Run, interrupted};
use crate::workers::RemoteActor;

/// How often cloning reports its progress.
const CLONING_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Train a policy
///
/// One step: the policy acts in `env.train`, the reward labels the rollout, the learner updates. Checkpoints go to
/// `checkpoints/global_step_N` in the run directory; `runner.resume_dir` takes a run directory to go on exactly where
/// it was, or a checkpoint's folder to start a new run from there, with another reward for instance.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit train cartpole_ppo
  plaudit train pendulum_sac
  plaudit train maniskill_ppo_mlp \\
      runner.max_epochs=100 env.train.total_num_envs=256
  plaudit train maniskill_ppo_mlp \\
      runner.resume_dir=logs/20260801-12:00:00-maniskill_ppo_mlp
  plaudit eval maniskill_ppo_mlp \\
      runner.ckpt_path=logs/my_run/checkpoints/global_step_100")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    /// Print the last metrics as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let loaded = load::to_run(&self.config, verbosity)?;
        refuse_other_purposes(&loaded)?;
        let mut command = self.config.command("train");
        command.extend(self.json.then(|| "--json".to_string()));
        let result = match loaded.config.runner.only_eval {
            true => eval::run_evaluation(&loaded, &command, verbosity)?.result(),
            false => train(&loaded, &command, verbosity)?,
        };
        match self.json {
            true => console::print(&format!("{}\n", serde_json::Value::Object(result))),
            false => Ok(()),
        }
    }
}

pub(crate) fn refuse_other_purposes(loaded: &LoadedConfig) -> Result<(), Failure> {
    let what = match loaded.purpose {
        Purpose::Rl => return Ok(()),
        Purpose::RewardTraining => "a reward model",
        Purpose::JudgeTuning => "a vision-language judge",
    };
    let message = format!("this config trains {what}, not a policy");
    Err(loaded.problem("runner.task_type", message, "set it to embodied").into())
}

type Numbers = serde_json::Map<String, serde_json::Value>;

fn train(loaded: &LoadedConfig, command: &[String], verbosity: Verbosity) -> Result<Numbers, Failure> {
    let mode = build::train_mode(loaded)?; // first: a refusal must come before anything could move
    let env = build::env(loaded, EnvBlock::Train)?;
    train_in(loaded, command, verbosity, mode, TrainEnvs::Here(Some(env)))
}

/// Trains with environments in other processes.
pub(crate) fn train_elsewhere(
    loaded: &LoadedConfig,
    remote: Arc<RemoteActor>,
    verbosity: Verbosity,
) -> Result<(), Failure> {
    refuse_other_purposes(loaded)?;
    if loaded.config.reward.online.is_on() {
        let message = "a reward model does not learn while environments are in other processes";
        return Err(loaded.problem("reward.online.every", message, "set it to 0").into());
    }
    let mode = build::train_mode(loaded)?;
    if matches!(mode, TrainMode::Sync(_)) && loaded.config.env.train.env_type == EnvType::Realworld {
        let message = "a robot of another process learns asynchronously";
        return Err(loaded.problem("runner.asynchronous", message, "set it to true").into());
    }
    let evaluates = loaded.config.runner.val_check_interval > 0;
    if evaluates && loaded.config.env.eval.env_type == EnvType::Realworld {
        let message = "a robot of another process is not taken from training for an evaluation";
        let hint = "set it to -1; env/success_alone says how the policy does";
        return Err(loaded.problem("runner.val_check_interval", message, hint).into());
    }
    let command = ["plaudit".into(), "cluster".into(), "run".into()];
    train_in(loaded, &command, verbosity, mode, TrainEnvs::Elsewhere(remote)).map(drop)
}

/// Where the environments are.
enum TrainEnvs {
    /// In this process. They go to a thread of their own in asynchronous training.
    Here(Option<Box<dyn Env>>),
    /// In others.
    Elsewhere(Arc<RemoteActor>),
}

impl TrainEnvs {
    /// What they are like; nothing where they are in use already.
    fn spec(&self) -> Option<&EnvSpec> {
        match self {
            Self::Here(env) => env.as_ref().map(|env| env.spec()),
            Self::Elsewhere(remote) => Some(&remote.spec),
        }
    }
}

fn train_in(
    loaded: &LoadedConfig,
    command: &[String],
    verbosity: Verbosity,
    mode: TrainMode,
    mut envs: TrainEnvs,
) -> Result<Numbers, Failure> {
    let last_step = last_step(loaded);
    let spec = envs.spec().cloned().ok_or_else(train_mode::envs_in_use)?;
    let built = match &envs {
        TrainEnvs::Here(_) => build::reward(loaded, &spec)?,
        TrainEnvs::Elsewhere(remote) => build::reward_from(loaded, &spec, &remote.models)?,
    };
    let build::BuiltReward { reward, monitored, online, notices } = built;
    console::notices(&notices, verbosity);
    let reward: Arc<dyn Reward> = reward.into();
    let policy_uses_images = build::policy_uses_images(loaded);
    if let TrainEnvs::Here(Some(env)) = &mut envs {
        let frames = build::frames_needed(loaded, EnvBlock::Train, reward.as_ref(), policy_uses_images);
        env.set_frames_needed(frames);
    }
    let mut learner = build::learner(loaded, &spec, reward.as_ref(), last_step)?;
    let cloning = build::cloning(loaded, &spec)?;
    let evaluates = loaded.config.runner.val_check_interval > 0;
    let eval_env = if evaluates { Some(build::env(loaded, EnvBlock::Eval)?) } else { None };
    let from = match &envs {
        TrainEnvs::Here(_) => checkpoint_to_start_from(loaded)?,
        TrainEnvs::Elsewhere(remote) => remote.from.clone(),
    };
    if let Some(folder) = &from {
        checkpoint::restore(folder, learner.as_mut())?; // what does not fit shows before anything is made
    }
    let mut run = Run::start(loaded, "train", "steps", last_step, verbosity)?;
    let components = TrainComponents {
        envs: &mut envs,
        reward: &reward,
        monitored,
        online,
        learner: learner.as_mut(),
        cloning,
    };
    let outcome = Job::start(loaded, &mut run, components, mode, eval_env, from).and_then(|job| job.work());
    run.finish(outcome, command)
}

/// Where the run ends, if it does.
fn last_step(loaded: &LoadedConfig) -> Option<u64> {
    let runner = &loaded.config.runner;
    [runner.max_epochs, runner.max_steps].into_iter().filter_map(|limit| u64::try_from(limit).ok()).min()
}

/// The checkpoint that the config names, in a run of its own or another's.
fn checkpoint_to_start_from(loaded: &LoadedConfig) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = loaded.config.runner.resume_dir.as_ref().map(Path::new) else { return Ok(None) };
    if checkpoint::step_of(path).is_none() {
        return Ok(None); // a run directory, which knows its newest checkpoint
    }
    if path.is_dir() {
        return Ok(Some(path.into()));
    }
    let message = format!("{} is no folder", path.display());
    Err(loaded.problem("runner.resume_dir", message, "name a run directory or a checkpoint's folder").into())
}

/// The components of a training run.
struct TrainComponents<'a> {
    envs: &'a mut TrainEnvs,
    reward: &'a Arc<dyn Reward>,
    /// What of the reward is monitored.
    monitored: Option<build::MonitoredReward>,
    /// The training of its model, where that learns.
    online: Option<OnlineTraining>,
    learner: &'a mut dyn Learner,
    /// Behaviour cloning before reinforcement learning.
    cloning: Option<Cloning>,
}

/// What the state file of a run says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// The newest checkpoint's folder.
    checkpoint: String,
}

/// A training run under way.
struct Job<'a> {
    loaded: &'a LoadedConfig,
    run: &'a mut Run,
    training: Option<ActiveTraining<'a>>,
    learner: &'a mut dyn Learner,
    evaluator: Option<Evaluator>,
    hacking_monitor: Option<HackingMonitor>,
    online: Option<OnlineTraining>,
    /// Counts steps of a learned reward that stays the same.
    constant_reward: ConstantReward,
    /// Steps of learning done.
    step: u64,
    last_step: Option<u64>,
    /// The newest checkpoint, and its step.
    saved: Option<(u64, PathBuf)>,
    config: String,
    /// The newest numbers, for the result.
    numbers: Numbers,
}

impl<'a> Job<'a> {
    fn start(
        loaded: &'a LoadedConfig,
        run: &'a mut Run,
        components: TrainComponents<'a>,
        mode: TrainMode,
        eval_env: Option<Box<dyn Env>>,
        from: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let TrainComponents { envs, reward, monitored, mut online, learner, cloning } = components;
        let own = run.restore::<State>()?.map(|state| run.checkpoints_directory().join(state.checkpoint));
        if let (Some(online), Some(folder)) = (&mut online, &own) {
            online::restore(online, folder, run)?;
            reward.refresh().map_err(|error| Failure::caused_by(&error))?;
        }
        let from = own.or(from);
        let (mut step, mut resume_states, mut saved) = (0, Vec::new(), None);
        if let Some(folder) = from {
            step = checkpoint::step_of(&folder).unwrap_or(0);
            resume_states = continue_from(&folder, learner, run)?;
            let rows: usize = resume_states.iter().map(|state| state.past.len()).sum();
            if Some(rows) != envs.spec().map(|spec| spec.num_envs) {
                resume_states.clear();
            }
            saved = Some((step, folder));
        } else if let Some(cloning) = cloning {
            imitate(learner, &cloning, run)?;
        }
        relabel(learner, reward.as_ref(), run)?;
        let seed = Seed::new(loaded.config.env.train.seed).purpose("train");
        let records_episodes = loaded.config.env.train.data_collection.enabled;
        let data = run.data_directory();
        let episode_recorder = match envs.spec().filter(|_| records_episodes) {
            Some(spec) => {
                let by = CollectionRun::Anonymous;
                Some(EpisodeRecorder::start(loaded, EnvBlock::Train, spec, data.clone(), by)?)
            }
            None => None,
        };
        for (level, text) in episode_recorder.iter().flat_map(EpisodeRecorder::notices) {
            notify(run, level, &text);
        }
        let hacking_monitor = monitored.map(|monitored| hacking_monitor::start(loaded, monitored, run));
        let constant_reward = ConstantReward::default();
        let on_labelled =
            on_labelled(loaded, hacking_monitor.as_ref(), online.as_ref(), constant_reward.clone());
        // Whatever looks at frames later needs them: a policy on images, episodes that are recorded, the monitor, a replay that
        // is relabelled.
        let relabels = loaded.config.algorithm.loss_type == LossType::Sac;
        let keep_frames = build::policy_uses_images(loaded)
            || records_episodes
            || hacking_monitor.is_some()
            || online.is_some()
            || (relabels && loaded.config.reward.use_reward_model);
        let remote = RemoteSetup { keep_frames, step };
        let setup = RolloutSetup { envs, reward, seed, resume_states, episode_recorder, on_labelled, remote };
        let training = Some(ActiveTraining::start(mode, setup, learner, run)?);
        let data = if records_episodes { data.join("eval") } else { data };
        let evaluator = eval_env.map(|env| evaluator(loaded, env, data, run)).transpose()?;
        let config = yaml::to_yaml(&loaded.as_tree(), false);
        let last_step = last_step(loaded);
        let numbers = Numbers::new();
        Ok(Self {
            loaded,
            run,
            training,
            learner,
            evaluator,
            hacking_monitor,
            online,
            constant_reward,
            step,
            last_step,
            saved,
            config,
            numbers,
        })
    }

    /// Until the last step, or Ctrl-C.
    fn work(mut self) -> Result<(Numbers, EndReason), Failure> {
        let outcome = self.steps();
        let outcome = outcome.map_err(|failure| self.with_last_checkpoint(failure));
        if let Some(episode_recorder) = self.training.take().and_then(ActiveTraining::stop) {
            episode_recorder.close(self.run)?;
        }
        if let Some(evaluator) = self.evaluator.take() {
            evaluator.close(self.run)?;
        }
        outcome.map(|reason| (self.numbers, reason))
    }

    fn steps(&mut self) -> Result<EndReason, Failure> {
        let runner = &self.loaded.config.runner;
        let is_due =
            |interval: i64, step: u64| u64::try_from(interval).is_ok_and(|n| n > 0 && step.is_multiple_of(n));
        if self.step == 0 {
            if interrupted() {
                return Ok(EndReason::Interrupted); // during cloning or setup: there is nothing to save
            }
            self.evaluate()?; // before anything is learned
        }
        while self.last_step.is_none_or(|last| self.step < last) {
            self.learn()?;
            if let Some(online) = &mut self.online {
                online::after_update(online, self.step, self.run)?;
            }
            let is_last = self.last_step.is_some_and(|last| self.step >= last);
            let pauses = self.check_for_hacking()?;
            if is_last || is_due(runner.val_check_interval, self.step) {
                self.evaluate()?;
            }
            if is_last || is_due(runner.save_interval, self.step) || interrupted() || pauses {
                self.save()?;
            }
            if (interrupted() || pauses) && !is_last {
                return Ok(EndReason::Interrupted);
            }
        }
        Ok(EndReason::Done)
    }

    /// One step of learning.
    fn learn(&mut self) -> Result<(), Failure> {
        let Some(training) = &mut self.training else { return Ok(()) };
        let learned = match training.learn(self.learner, self.step + 1) {
            Ok(learned) => learned,
            Err(StepError::Other(failure)) => return Err(failure),
            Err(StepError::RewardFailed(failure)) => {
                self.save_before_exit();
                return Err(failure);
            }
        };
        let Some(mut metrics) = learned else { return Ok(()) };
        self.step += 1;
        if let Some(bytes) = process_memory::peak() {
            metrics.push("memory/peak_mib", bytes as f64 / f64::from(1 << 20));
        }
        let values = self.record(&metrics);
        self.run.emit(Event::Metrics { step: self.step, values });
        self.run.emit(Event::Progress { step: self.step });
        if let Some(text) = self.constant_reward.notice() {
            notify(self.run, Level::Warning, &format!("step {}: {text}", self.step));
        }
        Ok(())
    }

    /// Checks what was rewarded for reward hacking; says whether to save and stop.
    fn check_for_hacking(&mut self) -> Result<bool, Failure> {
        match &mut self.hacking_monitor {
            Some(monitor) => hacking_monitor::check(monitor, self.step, self.run),
            None => Ok(false),
        }
    }

    /// Evaluates the policy, if there are evaluation environments.
    fn evaluate(&mut self) -> Result<(), Failure> {
        let Some(evaluator) = &mut self.evaluator else { return Ok(()) };
        let began = Instant::now();
        let stats = evaluator.evaluate(self.run, self.learner.greedy().as_mut(), self.step)?;
        let mut metrics = Metrics::default();
        for (name, value) in stats.metrics() {
            metrics.push(name, value);
        }
        metrics.push("time/eval", began.elapsed().as_secs_f64());
        let values = self.record(&metrics);
        self.run.emit(Event::Metrics { step: self.step, values });
        Ok(())
    }

    fn record(&mut self, metrics: &Metrics) -> Vec<(String, f64)> {
        self.numbers.insert("step".into(), self.step.into());
        for (name, value) in metrics.iter() {
            self.numbers.insert(name.into(), json_number(value));
        }
        metrics.iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn save(&mut self) -> Result<(), Failure> {
        let rollout_states = self.training.as_ref().map(ActiveTraining::rollout_states).unwrap_or_default();
        let contents = CheckpointContents {
            step: self.step,
            learner: self.learner,
            rollout_states,
            config: &self.config,
        };
        let (online, run, step) = (&mut self.online, &mut *self.run, self.step);
        let checkpoints = run.checkpoints_directory();
        let more = |folder: &Path| match online {
            Some(online) => online::save(online, folder, step, run),
            None => Ok(()),
        };
        let folder = checkpoint::write(&checkpoints, &contents, more)?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.run.save(self.step, &State { checkpoint: name })?;
        self.saved = Some((self.step, folder));
        Ok(())
    }

    /// Saves what was learned up to the last whole step, for a run that has to stop: a reward server does not answer, say.
    /// An error here is not reported: the reason for stopping is.
    fn save_before_exit(&mut self) {
        let is_saved = self.saved.as_ref().is_some_and(|(step, _)| *step == self.step);
        if self.step > 0 && !is_saved {
            let _ = self.save();
        }
    }

    /// A failure, with what is safe in spite of it.
    fn with_last_checkpoint(&self, failure: Failure) -> Failure {
        let Failure::Runtime { message, help } = failure else { return failure };
        let safe = match &self.saved {
            Some((_, folder)) => format!("the last good checkpoint is {}", folder.display()),
            None => "nothing was saved before: set runner.save_interval to save more often".into(),
        };
        let help = help.map_or(safe.clone(), |help| format!("{help}; {safe}"));
        Failure::Runtime { message, help: Some(help) }
    }
}

/// What looks at labelled segments. The environment's own reward may well stay the same: many count steps.
fn on_labelled(
    loaded: &LoadedConfig,
    hacking_monitor: Option<&HackingMonitor>,
    online: Option<&OnlineTraining>,
    constant_reward: ConstantReward,
) -> Option<OnLabelled<'static>> {
    let mut monitor = hacking_monitor.map(HackingMonitor::on_labelled);
    let mut online = online.map(OnlineTraining::on_labelled);
    if !loaded.config.reward.use_reward_model {
        return None;
    }
    Some(Box::new(move |segment: &Segment, column: &RewardColumn| {
        constant_reward.take(column);
        if let Some(on_labelled) = &mut monitor {
            on_labelled(segment, column);
        }
        if let Some(on_labelled) = &mut online {
            on_labelled(segment, column);
        }
    }))
}

/// Where the policy is evaluated; what is filmed there is scored by the model that rewards it, where that can be.
fn evaluator(
    loaded: &LoadedConfig,
    env: Box<dyn Env>,
    data: PathBuf,
    run: &mut Run,
) -> Result<Evaluator, Failure> {
    let scorer = build::film_scorer(loaded, env.spec()).unwrap_or_else(|error| {
        notify(run, Level::Info, &format!("videos show no scores of the reward model: {error}"));
        None
    });
    let filming = Filming { scorer, env: build::film_env(loaded)? };
    Evaluator::new(loaded, env, filming, data, run)
}

/// Restores the learner from the checkpoint, and returns the states of its rollouts.
fn continue_from(
    folder: &Path,
    learner: &mut dyn Learner,
    run: &mut Run,
) -> Result<Vec<RolloutState>, Failure> {
    match checkpoint::restore(folder, learner)? {
        Restored::Learner(rollout_states) => Ok(rollout_states),
        Restored::Weights => {
            let text = format!("{} holds weights only: the optimiser starts fresh", folder.display());
            notify(run, Level::Warning, &text);
            Ok(Vec::new())
        }
    }
}

/// Behaviour cloning of a new policy. Ctrl-C ends it; a resumed run starts with it again.
fn imitate(learner: &mut dyn Learner, cloning: &Cloning, run: &mut Run) -> Result<(), Failure> {
    let (demos, steps) = (cloning.demos.len(), cloning.demos.iter().map(Segment::steps).sum::<usize>());
    let (began, mut reported_at) = (Instant::now(), Instant::now());
    let (mut done, mut losses) = (0, (0.0, 0.0));
    let mut on_progress = |step: u64, loss: f64| {
        (done, losses) = (step, (if step == 1 { loss } else { losses.0 }, loss));
        if reported_at.elapsed() > CLONING_REPORT_INTERVAL {
            reported_at = Instant::now();
            let left = began.elapsed().as_secs_f64() * (cloning.steps - step) as f64 / step as f64;
            let text =
                format!("cloning: {step} of {} steps, {left:.0} s left, loss {loss:.2}", cloning.steps);
            notify(run, Level::Info, &text);
        }
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    learner.imitate(cloning, &mut on_progress).map_err(|error| Failure::caused_by(&error))?;
    if done < cloning.steps {
        notify(run, Level::Info, "stopped during cloning: a resumed run starts with it again");
        return Ok(());
    }
    let text = format!(
        "cloned {demos} demonstrations of {steps} steps: loss {:.2} to {:.2} in {:.1} s",
        losses.0,
        losses.1,
        began.elapsed().as_secs_f64()
    );
    notify(run, Level::Info, &text);
    Ok(())
}

/// Relabels experience that another reward has labelled, where that can be.
fn relabel(learner: &mut dyn Learner, reward: &dyn Reward, run: &mut Run) -> Result<(), Failure> {
    let relabelled = learner.relabel(reward).map_err(|error| Failure::caused_by(&error))?;
    if relabelled > 0 {
        notify(
            run,
            Level::Info,
            &format!("relabelled {relabelled} steps of the replay, which another reward had labelled"),
        );
    }
    Ok(())
}

fn notify(run: &mut Run, level: Level, text: &str) {
    run.emit(Event::Notice { level, text: text.into() });
}
