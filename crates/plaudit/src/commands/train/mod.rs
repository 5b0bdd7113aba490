//! `plaudit train`: a policy learns in its environments.

mod pace;

pub use pace::Plan;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_core::{Emit, EndReason, Env, Event, Level, Reward, Seed, Segment};
use plaudit_rl::{Cloning, Learner, Metrics, Whereabouts};
use serde::{Deserialize, Serialize};

use self::pace::{Pace, Scene, Stumble};
use super::eval;
use crate::build::{self, Which};
use crate::checkpoint::{self, Found, Moment};
use crate::cli::{ConfigArgs, Volume};
use crate::config::{self, Loaded, Purpose, yaml};
use crate::evaluation::Stage;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::load::Asked;
use crate::memory;
use crate::run::{Run, interrupted};
use crate::say;
use crate::watcher::{Next, Watcher};

/// How often cloning says how far it is.
const CLONING_TOLD: Duration = Duration::from_secs(10);

/// Train a policy
///
/// One step: the policy acts in `env.train`, the reward pays, the learner improves. Checkpoints go to
/// `checkpoints/global_step_N` in the run directory; `runner.resume_dir` takes a run directory to go on exactly where
/// it was, or a checkpoint's folder to start a new run from there, with another reward for instance.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit train cartpole_ppo
  plaudit train pendulum_sac
  plaudit train maniskill_ppo_mlp runner.max_epochs=100 env.train.total_num_envs=256
  plaudit train maniskill_ppo_mlp runner.resume_dir=logs/20260801-12:00:00-maniskill_ppo_mlp
  plaudit eval maniskill_ppo_mlp runner.ckpt_path=logs/20260801-12:00:00-maniskill_ppo_mlp/checkpoints/global_step_100")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the last metrics as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Does it.
    pub fn run(self, volume: Volume) -> Result<(), Failure> {
        let asked = Asked::from_args(&self.config)?;
        let loaded = config::load(&asked.disk, &asked.request)?;
        say::notices(&loaded.notices, volume);
        refuse_other_purposes(&loaded)?;
        let command = self.config.command("train");
        let result = match loaded.config.runner.only_eval {
            true => eval::judge(&loaded, &command, volume)?.result(),
            false => train(&loaded, &command, volume)?,
        };
        match self.json {
            true => say::out(&format!("{}\n", serde_json::Value::Object(result))),
            false => Ok(()),
        }
    }
}

fn refuse_other_purposes(loaded: &Loaded) -> Result<(), Failure> {
    let what = match loaded.purpose {
        Purpose::Rl => return Ok(()),
        Purpose::RewardTraining => "a reward model",
        Purpose::JudgeTuning => "a vision-language judge",
    };
    let message = format!("this config trains {what}, not a policy");
    Err(loaded.problem("runner.task_type", message, "set it to embodied").into())
}

type Numbers = serde_json::Map<String, serde_json::Value>;

fn train(loaded: &Loaded, command: &[String], volume: Volume) -> Result<Numbers, Failure> {
    let last_step = last_step(loaded);
    let mut env = build::env(loaded, Which::Train)?;
    let build::Paid { reward, watched } = build::reward(loaded, env.spec())?;
    let reward: Arc<dyn Reward> = reward.into();
    let policy_sees = build::policy_sees(loaded);
    env.watch(build::frames_needed(loaded, Which::Train, reward.as_ref(), policy_sees));
    let plan = build::pace(loaded)?;
    let mut learner = build::learner(loaded, env.spec(), reward.as_ref(), last_step)?;
    let cloning = build::cloning(loaded, env.spec())?;
    let is_judged = loaded.config.runner.val_check_interval > 0;
    let judges = if is_judged { Some(build::env(loaded, Which::Eval)?) } else { None };
    let from = checkpoint_to_start_from(loaded)?;
    if let Some(folder) = &from {
        checkpoint::restore(folder, learner.as_mut())?; // what does not fit shows before anything is made
    }
    let mut run = Run::start(loaded, "train", "steps", last_step, volume)?;
    let mut env = Some(env);
    let cast = Cast { env: &mut env, reward: &reward, watched, learner: learner.as_mut(), cloning };
    let outcome = Job::start(loaded, &mut run, cast, plan, judges, from).and_then(|job| job.work());
    run.finish(outcome, command)
}

/// Where the run ends, if it does.
fn last_step(loaded: &Loaded) -> Option<u64> {
    let runner = &loaded.config.runner;
    [runner.max_epochs, runner.max_steps].into_iter().filter_map(|limit| u64::try_from(limit).ok()).min()
}

/// The checkpoint that the config names, in a run of its own or another's.
fn checkpoint_to_start_from(loaded: &Loaded) -> Result<Option<PathBuf>, Failure> {
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

/// Who plays.
struct Cast<'a> {
    env: &'a mut Option<Box<dyn Env>>,
    reward: &'a Arc<dyn Reward>,
    /// What of the reward is watched.
    watched: Option<build::Watched>,
    learner: &'a mut dyn Learner,
    /// What it does as others did before it learns.
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
    loaded: &'a Loaded,
    run: &'a mut Run,
    pace: Option<Pace<'a>>,
    learner: &'a mut dyn Learner,
    stage: Option<Stage>,
    watcher: Option<Watcher>,
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
        loaded: &'a Loaded,
        run: &'a mut Run,
        cast: Cast<'a>,
        plan: Plan,
        judges: Option<Box<dyn Env>>,
        from: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let Cast { env, reward, watched, learner, cloning } = cast;
        let from = match run.restore::<State>()? {
            Some(State { checkpoint }) => Some(run.checkpoints_directory().join(checkpoint)),
            None => from,
        };
        let (mut step, mut left, mut saved) = (0, None, None);
        if let Some(folder) = from {
            step = checkpoint::step_of(&folder).unwrap_or(0);
            let num_envs = env.as_ref().map(|env| env.spec().num_envs);
            left = continue_from(&folder, learner, run)?.filter(|left| Some(left.past.len()) == num_envs);
            saved = Some((step, folder));
        } else if let Some(cloning) = cloning {
            imitate(learner, &cloning, run)?;
        }
        repay(learner, reward.as_ref(), run)?;
        let seed = Seed::new(loaded.config.env.train.seed).purpose("train");
        let keeps = loaded.config.env.train.data_collection.enabled;
        let data = run.data_directory();
        let keeper = if keeps { Some(Keeper::start(loaded, Which::Train, data.clone())?) } else { None };
        if let Some(text) = keeper.as_ref().and_then(Keeper::found) {
            tell(run, Level::Info, &text);
        }
        let watcher = watched.map(|watched| Watcher::start(loaded, watched, run));
        let on_paid = watcher.as_ref().map(Watcher::on_paid);
        let scene = Scene { env, reward, seed, left, keeper, on_paid };
        let pace = Some(Pace::start(plan, scene, learner, run)?);
        let data = if keeps { data.join("eval") } else { data };
        let stage = judges.map(|env| Stage::new(loaded, env, data, run)).transpose()?;
        let config = yaml::to_yaml(&loaded.as_tree(), false);
        let last_step = last_step(loaded);
        let numbers = Numbers::new();
        Ok(Self { loaded, run, pace, learner, stage, watcher, step, last_step, saved, config, numbers })
    }

    /// Until the last step, or Ctrl-C.
    fn work(mut self) -> Result<(Numbers, EndReason), Failure> {
        let outcome = self.steps();
        let outcome = outcome.map_err(|failure| self.with_last_checkpoint(failure));
        if let Some(keeper) = self.pace.take().and_then(Pace::stop) {
            keeper.close(self.run)?;
        }
        if let Some(stage) = self.stage.take() {
            stage.close(self.run)?;
        }
        outcome.map(|reason| (self.numbers, reason))
    }

    fn steps(&mut self) -> Result<EndReason, Failure> {
        let runner = &self.loaded.config.runner;
        let is_due =
            |interval: i64, step: u64| u64::try_from(interval).is_ok_and(|n| n > 0 && step.is_multiple_of(n));
        if self.step == 0 {
            if interrupted() {
                return Ok(EndReason::Interrupted); // while it cloned, or got ready: there is nothing to keep
            }
            self.judge()?; // before anything is learned
        }
        while self.last_step.is_none_or(|last| self.step < last) {
            self.learn()?;
            let is_last = self.last_step.is_some_and(|last| self.step >= last);
            let pauses = self.watch()? == Next::Pause;
            if is_last || is_due(runner.val_check_interval, self.step) {
                self.judge()?;
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
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let learned = match pace.learn(self.learner, self.step + 1) {
            Ok(learned) => learned,
            Err(Stumble::Elsewhere(failure)) => return Err(failure),
            Err(Stumble::Unpaid(failure)) => {
                self.save_before_leaving();
                return Err(failure);
            }
        };
        let Some(mut metrics) = learned else { return Ok(()) };
        self.step += 1;
        if let Some(bytes) = memory::peak() {
            metrics.push("memory/peak_mib", bytes as f64 / f64::from(1 << 20));
        }
        let values = self.note(&metrics);
        self.run.emit(Event::Metrics { step: self.step, values });
        self.run.emit(Event::Progress { step: self.step });
        Ok(())
    }

    /// Whoever watches looks at what was paid for.
    fn watch(&mut self) -> Result<Next, Failure> {
        match &mut self.watcher {
            Some(watcher) => watcher.look(self.step, self.run),
            None => Ok(Next::GoOn),
        }
    }

    /// Lets the policy show what it can, if anybody is there to judge.
    fn judge(&mut self) -> Result<(), Failure> {
        let Some(stage) = &mut self.stage else { return Ok(()) };
        let began = Instant::now();
        let tally = stage.judge(self.run, self.learner.greedy().as_mut(), self.step)?;
        let mut metrics = Metrics::default();
        for (name, value) in tally.metrics() {
            metrics.push(name, value);
        }
        metrics.push("time/eval", began.elapsed().as_secs_f64());
        let values = self.note(&metrics);
        self.run.emit(Event::Metrics { step: self.step, values });
        Ok(())
    }

    fn note(&mut self, metrics: &Metrics) -> Vec<(String, f64)> {
        self.numbers.insert("step".into(), self.step.into());
        for (name, value) in metrics.iter() {
            self.numbers.insert(name.into(), value.into());
        }
        metrics.iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn save(&mut self) -> Result<(), Failure> {
        let whereabouts = self.pace.as_ref().and_then(Pace::whereabouts);
        let moment = Moment { step: self.step, learner: self.learner, whereabouts, config: &self.config };
        let folder = checkpoint::write(&self.run.checkpoints_directory(), &moment)?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.run.save(self.step, &State { checkpoint: name })?;
        self.saved = Some((self.step, folder));
        Ok(())
    }

    /// Saves what was learned up to the last whole step, for a run that has to stop: a server that judges stayed away, say.
    /// What goes wrong here is not told: the reason for stopping is.
    fn save_before_leaving(&mut self) {
        let is_saved = self.saved.as_ref().is_some_and(|(step, _)| *step == self.step);
        if self.step > 0 && !is_saved {
            let _ = self.save();
        }
    }

    /// A failure, with what is safe in spite of it.
    fn with_last_checkpoint(&self, failure: Failure) -> Failure {
        let Failure::Work { message, help } = failure else { return failure };
        let safe = match &self.saved {
            Some((_, folder)) => format!("the last good checkpoint is {}", folder.display()),
            None => "nothing was saved before: set runner.save_interval to save more often".into(),
        };
        let help = help.map_or(safe.clone(), |help| format!("{help}; {safe}"));
        Failure::Work { message, help: Some(help) }
    }
}

/// Puts the learner where the checkpoint says, and tells where the environments were.
fn continue_from(
    folder: &Path,
    learner: &mut dyn Learner,
    run: &mut Run,
) -> Result<Option<Whereabouts>, Failure> {
    match checkpoint::restore(folder, learner)? {
        Found::Learner(whereabouts) => Ok(whereabouts),
        Found::Weights => {
            let text = format!("{} holds weights alone: the optimiser begins anew", folder.display());
            tell(run, Level::Warning, &text);
            Ok(None)
        }
    }
}

/// Lets a new policy do as others did. Ctrl-C ends it; a run that goes on begins with it again.
fn imitate(learner: &mut dyn Learner, cloning: &Cloning, run: &mut Run) -> Result<(), Failure> {
    let (demos, steps) = (cloning.demos.len(), cloning.demos.iter().map(Segment::steps).sum::<usize>());
    let (began, mut told_at) = (Instant::now(), Instant::now());
    let (mut done, mut losses) = (0, (0.0, 0.0));
    let mut told = |step: u64, loss: f64| {
        (done, losses) = (step, (if step == 1 { loss } else { losses.0 }, loss));
        if told_at.elapsed() > CLONING_TOLD {
            told_at = Instant::now();
            let left = began.elapsed().as_secs_f64() * (cloning.steps - step) as f64 / step as f64;
            let text =
                format!("cloning: {step} of {} steps, {left:.0} s left, loss {loss:.2}", cloning.steps);
            tell(run, Level::Info, &text);
        }
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    learner.imitate(cloning, &mut told).map_err(|error| Failure::work(error, None))?;
    if done < cloning.steps {
        tell(run, Level::Info, "stopped while it cloned: the run would begin with that again");
        return Ok(());
    }
    let text = format!(
        "cloned {demos} demonstrations of {steps} steps: loss {:.2} to {:.2} in {:.1} s",
        losses.0,
        losses.1,
        began.elapsed().as_secs_f64()
    );
    tell(run, Level::Info, &text);
    Ok(())
}

/// Experience that another reward has paid is paid by this one, where that can be.
fn repay(learner: &mut dyn Learner, reward: &dyn Reward, run: &mut Run) -> Result<(), Failure> {
    let repaid = learner.repay(reward).map_err(|error| Failure::work(error, None))?;
    if repaid > 0 {
        tell(run, Level::Info, &format!("another reward had paid {repaid} steps of the replay: paid anew"));
    }
    Ok(())
}

fn tell(run: &mut Run, level: Level, text: &str) {
    run.emit(Event::Notice { level, text: text.into() });
}
