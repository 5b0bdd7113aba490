//! `plaudit robot teleop`: a person moves the arm, and the reward model says live what it thinks of that.

mod controlled;
mod display;
mod summary;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_core::{End, Env, EnvError, Seed, Step};
use plaudit_reward::LiveRule;
use plaudit_robot::{Key, RobotEnv, StopToken};

pub use self::display::Display;
use self::display::LiveState;
pub use self::summary::TeleopSummary;
use self::summary::{EpisodeEnd, EpisodeReport};
use super::bench;
use crate::build::{self, BuiltRobot, LiveModel, RobotHooks};
use crate::cli::{RunArgs, Verbosity};
use crate::config::LoadedConfig;
use crate::console;
use crate::failure::Failure;
use crate::load;
use crate::robot::{KeyTap, LiveScorer};
use crate::run::{listen_for_interrupts, pending_notices};
use crate::workers::WorkerModels;

/// A model in another process that has not answered for so long is not there.
const MODEL_ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How often somebody who waits for it looks.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// Move an arm by hand while the reward model scores what it sees
///
/// The pilot of the config moves the arm within its box: a SpaceMouse, a gamepad, keys, or on a simulated robot the script. The
/// reward model scores the newest frame on a thread of its own, and a line shows what it thinks: its probability and the
/// threshold, how old the frame is, how often it answers. With reward.standalone_realworld an episode ends when the
/// probability has been above the threshold for reward.hold_steps frames.
///
/// Keys: c this is a success, a this is a failure (both end the episode), q enough. Esc and Ctrl-C hold the arm.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot teleop realworld_teleop --local \\
      env.eval.override_cfg.robot_ip=sim env.eval.no_gripper=false \\
      reward.model.model_path=logs/reward/checkpoints/best_model
  plaudit robot teleop bench.yaml reward.worker_type=api \\
      reward.api.api_base=http://gpu:8000")]
pub struct Teleop {
    #[command(flatten)]
    config: RunArgs,
    /// End after so many episodes [default: at q or Ctrl-C]
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Print what happened as JSON at the end, and nothing before
    #[arg(long)]
    json: bool,
    /// Let another program drive it, as the studio does: it begins and ends episodes, labels their frames and holds the arm. What it
    /// asks goes to the address in DIR/control.json; episodes are recorded in DIR/data, unless the config says where
    #[arg(long, value_name = "DIR", conflicts_with_all = ["episodes", "json"])]
    control: Option<PathBuf>,
}

impl Teleop {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let loaded = load::to_teleoperate(&self.config, verbosity)?;
        listen_for_interrupts();
        if let Some(folder) = &self.control {
            return controlled::run(loaded, folder, self.seconds, verbosity);
        }
        let setup = TeleopSetup {
            display: Display::new(verbosity.quiet || self.json),
            models: WorkerModels::Here,
            episodes: self.episodes,
            seconds: self.seconds,
            on_step: Box::new(|| {}),
        };
        let summary = teleoperate(&loaded, setup, verbosity)?;
        if self.json {
            let value = serde_json::to_string(&summary)
                .map_err(|error| Failure::runtime(format!("cannot write JSON: {error}"), None))?;
            console::print(&format!("{value}\n"))?;
        } else {
            console::print(&summary.to_string())?;
        }
        let is_short = self.episodes.is_some_and(|wanted| (summary.episodes.len() as u64) < wanted);
        if is_short && self.seconds.is_none() { Err(Failure::Stopped) } else { Ok(()) }
    }
}

/// How a robot is teleoperated, beside what its config says.
pub struct TeleopSetup {
    /// Where lines go.
    pub display: Display,
    /// Where the reward model is.
    pub models: WorkerModels,
    /// Episodes after which it ends.
    pub episodes: Option<u64>,
    /// Seconds after which it ends.
    pub seconds: Option<f64>,
    /// Called at each step.
    pub on_step: Box<dyn Fn()>,
}

/// A person moves the arm until somebody has had enough. Whatever ends it, the arm holds.
pub fn teleoperate(
    loaded: &LoadedConfig,
    setup: TeleopSetup,
    verbosity: Verbosity,
) -> Result<TeleopSummary, Failure> {
    bench::refuse_no_robot(loaded)?;
    let mut session = Session::start(loaded, setup, verbosity)?;
    let result = session.run();
    session.display.end();
    let Session { env, summary, display, .. } = session;
    drop(env); // the arm holds before anything is said about it
    match result {
        Ok(()) => Ok(summary),
        Err(failure) => {
            if summary.steps > 0 {
                display.notice("the arm holds");
            }
            Err(failure)
        }
    }
}

/// The model while it scores.
struct LiveScores {
    scorer: LiveScorer,
    rule: LiveRule,
    /// Whether its word ends episodes.
    model_decides: bool,
    /// Where it is.
    models: WorkerModels,
}

/// Teleoperation while it runs.
struct Session {
    env: RobotEnv,
    stop: StopToken,
    keys: KeyTap,
    scores: Option<LiveScores>,
    display: Display,
    summary: TeleopSummary,
    seed: Seed,
    /// Whatever moves the arm is the pilot.
    still: Vec<f32>,
    begun: Instant,
    ends: Option<Instant>,
    episodes: Option<u64>,
    on_step: Box<dyn Fn()>,
}

/// What comes after an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The environment has begun another one.
    HasBegun,
    /// Another one has to be begun.
    Begin,
    /// Nothing.
    Nothing,
}

impl Session {
    fn start(loaded: &LoadedConfig, setup: TeleopSetup, verbosity: Verbosity) -> Result<Self, Failure> {
        let TeleopSetup { display, models, episodes, seconds, on_step } = setup;
        let which = bench::robot_block(loaded);
        let reward = &loaded.config.reward;
        let model_decides = reward.use_reward_model && reward.standalone_realworld;
        let keys = KeyTap::default();
        let hooks = RobotHooks {
            notify: display.notifier(),
            keys: Some(keys.clone()),
            ends_by_pose: !model_decides,
            remote: None,
        };
        let BuiltRobot { env, stop } = build::robot(loaded, which, hooks)?;
        let live = build::live_model(loaded, which, env.spec(), &models)?;
        let scores = match live {
            None => {
                display.notice("note: reward.use_reward_model is false, so nothing is scored");
                None
            }
            Some(LiveModel { model, rule, notices }) => {
                console::notices(&notices, verbosity);
                let scorer = LiveScorer::start(model).map_err(|error| Failure::runtime(error, None))?;
                Some(LiveScores { scorer, rule, model_decides, models })
            }
        };
        let width = env.spec().actions.width();
        let begun = Instant::now();
        let seconds = seconds.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        Ok(Self {
            env,
            stop,
            keys,
            scores,
            display,
            summary: TeleopSummary::default(),
            seed: Seed::new(which.settings(loaded).seed).purpose("teleop"),
            still: vec![0.0; width],
            begun,
            ends: seconds.map(|seconds| begun + seconds),
            episodes,
            on_step,
        })
    }

    /// Waits while the model is in a process that does not answer. Nobody steps meanwhile, so that the robot's watchdog holds
    /// the arm.
    fn wait_for_model(&mut self) -> Result<(), Failure> {
        let Some(scores) = &mut self.scores else { return Ok(()) };
        if !scores.models.is_silent(MODEL_ANSWERS_WITHIN) {
            return Ok(());
        }
        self.display.notice("the reward model does not answer: the arm holds");
        while scores.models.is_silent(MODEL_ANSWERS_WITHIN) {
            if self.stop.is_raised() || self.ends.is_some_and(|ends| Instant::now() >= ends) {
                return Ok(());
            }
            std::thread::sleep(LOOKS_EVERY);
        }
        // A model that is given up on says so here, and ends the session.
        scores.scorer.check().map_err(|error| Failure::caused_by(&error))?;
        self.display.notice("the reward model answers again: the arm goes on");
        Ok(())
    }

    fn run(&mut self) -> Result<(), Failure> {
        let result = self.drive();
        self.summary.seconds = self.begun.elapsed().as_secs_f64();
        self.summary.replaced = self.scores.as_ref().map_or(0, |scores| scores.scorer.replaced());
        result
    }

    fn drive(&mut self) -> Result<(), Failure> {
        let mut next = Next::Begin;
        loop {
            let number = self.summary.episodes.len() as u64;
            if self.is_over() || self.episodes.is_some_and(|wanted| number >= wanted) || next == Next::Nothing
            {
                return Ok(());
            }
            if next == Next::Begin {
                self.display.waits("the tool goes to its start");
                self.env.reset(self.seed.index(number)).map_err(|error| broken(&error))?;
            }
            if let Some(scores) = &mut self.scores {
                scores.scorer.begin_episode(number);
                scores.rule.begin_episode();
            }
            self.keys.take(); // what was typed during a reset means nothing
            next = self.episode(number)?;
        }
    }

    /// Whether somebody wants to stop, or the time is up.
    fn is_over(&self) -> bool {
        self.stop.is_raised() || self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    fn episode(&mut self, number: u64) -> Result<Next, Failure> {
        let (begun, mut live, mut steps) = (Instant::now(), LiveState::new(number, self.scores.is_some()), 0);
        loop {
            self.wait_for_model()?;
            if self.is_over() {
                return Ok(Next::Nothing);
            }
            let step = self.env.step(&self.still).map_err(|error| broken(&error))?;
            steps += 1;
            (self.on_step)();
            self.summary.count(&step);
            live.step(&step);
            let is_sure = self.score(&step, &mut live)?;
            for notice in pending_notices() {
                self.display.notice(&notice);
            }
            self.display.show(&live, begun.elapsed());
            let pressed = self.keys.take();
            let ended = if let Some(end) = said_by_key(&pressed) {
                Some((end, Next::Begin))
            } else if is_sure {
                Some((EpisodeEnd::Model, Next::Begin))
            } else {
                ended_by_env(&step).map(|end| (end, Next::HasBegun))
            };
            let wants_end = self.is_over() || pressed.contains(&Key::Char('q'));
            if let Some((end, next)) = ended.filter(|(end, _)| !wants_end || *end != EpisodeEnd::Broken) {
                let report = EpisodeReport {
                    end,
                    steps,
                    seconds: begun.elapsed().as_secs_f64(),
                    probability: live.score,
                    streak: live.streak,
                    model_success: live.is_success,
                    at_target: live.at_target,
                };
                self.display.episode(number, &report, live.hold)?;
                self.summary.episodes.push(report);
                return Ok(if wants_end { Next::Nothing } else { next });
            }
            if wants_end {
                return Ok(Next::Nothing);
            }
        }
    }

    /// Shows the newest frame to the model, and takes what it has said of those before. Whether its word ends the episode.
    fn score(&mut self, step: &Step, live: &mut LiveState) -> Result<bool, Failure> {
        let Some(LiveScores { scorer, rule, model_decides, .. }) = &mut self.scores else { return Ok(false) };
        // What follows an end belongs to another episode.
        if !step.end[0].is_end() {
            scorer.show(step.obs.clone(), live.frame_age);
        }
        let scored = scorer.take().map_err(|error| Failure::caused_by(&error))?;
        for frame in &scored {
            let is_success = rule.take(frame.score, &frame.obs.row(0));
            live.scored(frame, rule, is_success);
            self.summary.took_ms.push(1e3 * frame.took.as_secs_f64());
            if is_success && *model_decides {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What a person says about an episode.
fn said_by_key(pressed: &[Key]) -> Option<EpisodeEnd> {
    pressed.iter().find_map(|key| match key {
        Key::Char('c') => Some(EpisodeEnd::PersonSuccess),
        Key::Char('a') => Some(EpisodeEnd::PersonFailure),
        _ => None,
    })
}

fn ended_by_env(step: &Step) -> Option<EpisodeEnd> {
    match step.end[0] {
        End::No => None,
        _ if step.ends_invalid(0) => Some(EpisodeEnd::Broken),
        End::Terminated => Some(EpisodeEnd::Pose),
        End::Truncated => Some(EpisodeEnd::StepLimit),
    }
}

fn broken(error: &EnvError) -> Failure {
    Failure::caused_by(error)
}
