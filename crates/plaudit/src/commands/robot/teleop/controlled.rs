//! Teleoperation that another program drives: it begins and ends episodes, labels their frames, and holds the arm.

use std::path::Path;
use std::time::{Duration, Instant};

use plaudit_core::{End, Env, Seed, Step};
use plaudit_data::episode::{CollectionRun, Ending};
use plaudit_reward::LiveRule;
use plaudit_rl::{Rollout, TakenStep};
use plaudit_robot::{HoldCause, RobotEnv, SharedGuard, Watched};
use plaudit_view::{ControlServer, RunProcess};

use super::LOOKS_EVERY;
use super::display::{Rate, fact};
use crate::build::{self, BuiltRobot, EnvBlock, LiveModel, RobotHooks, StillPolicy};
use crate::cli::Verbosity;
use crate::commands::robot::bench;
use crate::config::LoadedConfig;
use crate::config::blocks::collection::Collection;
use crate::console;
use crate::episode_recorder::EpisodeRecorder;
use crate::failure::Failure;
use crate::robot::{
    EpisodeDone, FrameLabels, KeyTap, LiveScorer, ModelNow, PersonEnd, Phase, RemoteControl, Watch,
};
use crate::run::{interrupted, pending_notices};
use crate::workers::WorkerModels;

/// Drives a robot for whoever asks over the address in a folder, until somebody has had enough. Whatever ends it, the arm holds.
pub(super) fn run(
    mut loaded: LoadedConfig,
    folder: &Path,
    seconds: Option<f64>,
    verbosity: Verbosity,
) -> Result<(), Failure> {
    bench::refuse_no_robot(&loaded)?;
    let which = bench::robot_block(&loaded);
    keep_what_people_keep(&mut loaded, which);
    let failed = |error: &dyn std::fmt::Display| {
        Failure::runtime(format!("{}: {error}", folder.display()), "give another folder".to_string())
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    // Whoever wants to stop it later must know which process it is.
    RunProcess::this().map_or(Ok(()), |this| this.write(folder)).map_err(|error| failed(&error))?;
    let control = RemoteControl::new(folder, loaded.name.clone()).map_err(|error| failed(&error))?;
    // Before the arm is there: nobody has to wait for a model to hold it.
    let server =
        ControlServer::start(folder, std::sync::Arc::new(control.clone())).map_err(|error| failed(&error))?;
    let watch = Watch::start(control.clone()).map_err(|error| failed(&error))?;
    let result = ControlledSession::start(&loaded, which, folder, control.clone(), verbosity).and_then(
        |mut session| {
            session.play.ends =
                seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
            session.run()
        },
    );
    control.set_phase(Phase::Ended);
    // The session is gone by now, and with it its guard, which held the arm.
    drop((watch, server));
    result
}

/// A person says of each episode whether it is kept.
fn keep_what_people_keep(loaded: &mut LoadedConfig, which: EnvBlock) {
    let env = &mut loaded.config.env;
    let collection = match which {
        EnvBlock::Train => &mut env.train.data_collection,
        EnvBlock::Eval => &mut env.eval.data_collection,
    };
    let kept = Collection {
        only_success: false,
        target_success: None,
        target_failure: None,
        sample_rate_success: 1.0,
        sample_rate_fail: 1.0,
        ..collection.clone()
    };
    *collection = kept;
}

/// The model while it scores.
struct LiveModelScores {
    scorer: LiveScorer,
    rule: LiveRule,
}

/// Teleoperation while it runs.
struct ControlledSession {
    env: RobotEnv,
    seed: Seed,
    play: Play,
}

/// What an episode needs beside the arm.
struct Play {
    guard: SharedGuard,
    control: RemoteControl,
    recorder: EpisodeRecorder,
    scores: Option<LiveModelScores>,
    /// An episode that is as long as this waits for its end, and the arm holds.
    most_steps: u64,
    ends: Option<Instant>,
}

/// An episode that runs.
#[derive(Default)]
struct Running {
    number: u64,
    steps: u64,
    begun: Option<Instant>,
    /// The step whose frame is shown. It is recorded once it is known whether it is the last.
    shown: Option<TakenStep>,
    model: Option<ModelNow>,
    rate: Rate,
}

/// What comes after an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next one has to be begun.
    Begin,
    /// The environment has begun it: the last one broke off.
    HasBegun,
    /// Nothing.
    Nothing,
}

impl ControlledSession {
    fn start(
        loaded: &LoadedConfig,
        which: EnvBlock,
        folder: &Path,
        control: RemoteControl,
        verbosity: Verbosity,
    ) -> Result<Self, Failure> {
        let told = control.clone();
        let notify = Box::new(move |text: &str| {
            told.notice(text);
            console::eprintln(text);
        });
        // The keys are the page's: nothing is typed here.
        let hooks = RobotHooks {
            notify,
            keys: Some(KeyTap::default()),
            ends_by_pose: false,
            remote: Some(control.clone()),
        };
        let BuiltRobot { env, stop: _ } = build::robot(loaded, which, hooks)?;
        let scores = match build::live_model(loaded, which, env.spec(), &WorkerModels::Here)? {
            None => None,
            Some(LiveModel { model, rule, notices }) => {
                console::notices(&notices, verbosity);
                let scorer = LiveScorer::start(model).map_err(|error| Failure::runtime(error, None))?;
                Some(LiveModelScores { scorer, rule })
            }
        };
        let name = format!("{}-{}", std::process::id(), folder.display());
        let by = CollectionRun::New(&name);
        let recorder = EpisodeRecorder::start(loaded, which, env.spec(), folder.join("data"), by)?;
        for (_, text) in recorder.notices() {
            control.notice(&text);
        }
        control.set_recording(
            recorder.directory(),
            scores.as_ref().map(|scores| (scores.rule.level(), scores.rule.hold())),
        );
        let settings = which.settings(loaded);
        let play = Play {
            guard: env.guard(),
            control,
            recorder,
            scores,
            most_steps: settings.max_episode_steps.unwrap_or(u64::MAX),
            ends: None,
        };
        Ok(Self { env, seed: Seed::new(settings.seed).purpose("teleop"), play })
    }

    /// Plays episodes, and writes what was kept whatever ends them.
    fn run(mut self) -> Result<(), Failure> {
        let played = self.play();
        let is_over = self.play.is_over();
        // The arm holds before anything else is done.
        drop(self.env);
        let written = self.play.recorder.finish(Ending::Complete);
        match played {
            // A robot that nobody let move, since somebody has had enough, did not fail.
            Err(_) if is_over => written.map(drop),
            played => played.and(written.map(drop)),
        }
    }

    fn play(&mut self) -> Result<(), Failure> {
        let mut policy = StillPolicy { width: self.env.spec().actions.width() };
        let mut number = 0;
        while !self.play.is_over() {
            // Until the person says so the arm waits in here, and nothing is reset.
            let rollout = Rollout::start(&mut self.env, self.seed.index(number), 0);
            let mut rollout = rollout.map_err(|error| Failure::caused_by(&error))?;
            loop {
                let next = self.play.episode(&mut rollout, &mut policy, number)?;
                number += 1;
                match next {
                    Next::HasBegun => {}
                    Next::Begin => break,
                    Next::Nothing => return Ok(()),
                }
            }
        }
        Ok(())
    }
}

impl Play {
    fn is_over(&self) -> bool {
        interrupted() || self.control.has_ended() || self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// An episode, from the arm at its start to what the person says of it.
    fn episode(
        &mut self,
        rollout: &mut Rollout<'_>,
        policy: &mut StillPolicy,
        number: u64,
    ) -> Result<Next, Failure> {
        if self.is_over() {
            return Ok(Next::Nothing);
        }
        self.recorder.reset(rollout.obs());
        if let Some(scores) = &mut self.scores {
            scores.scorer.begin_episode(number);
            scores.rule.begin_episode();
        }
        self.control.episode_begins(number);
        let mut running = Running { number, begun: Some(Instant::now()), ..Running::default() };
        loop {
            self.control.obey_file();
            pending_notices().iter().for_each(|notice| self.control.notice(notice));
            if self.is_over() {
                return Ok(Next::Nothing);
            }
            if let Some((end, labels)) = self.control.take_end() {
                self.guard.lock().hold(HoldCause::Other("the episode is over".into()));
                running.end(self, end, &labels)?;
                return Ok(Next::Begin);
            }
            if running.steps >= self.most_steps {
                // Nobody acts, so that the watchdog holds the arm.
                std::thread::sleep(LOOKS_EVERY);
                continue;
            }
            let taken = rollout.advance(policy).map_err(|error| Failure::caused_by(&error))?;
            if taken.step.ends_invalid(0) {
                running.break_off(self, &taken)?;
                return Ok(Next::HasBegun);
            }
            running.step(self, taken)?;
        }
    }
}

impl Running {
    /// A step was taken: it is shown, and the one before it is recorded.
    fn step(&mut self, play: &mut Play, taken: TakenStep) -> Result<(), Failure> {
        self.steps += 1;
        self.rate.event(Instant::now());
        if let Some(before) = &self.shown {
            play.recorder.step(before, u64::MAX)?;
        }
        let step = &taken.step;
        play.control.step(step.success[0], fact(step, "held") > 0.0, self.rate.hz());
        if let Some(scores) = &mut play.scores {
            self.score(&play.control, scores, step)?;
        }
        self.shown = Some(taken);
        Ok(())
    }

    /// Shows the newest frame to the model, and takes what it has said of those before. It ends nothing: a person does.
    fn score(
        &mut self,
        control: &RemoteControl,
        scores: &mut LiveModelScores,
        step: &Step,
    ) -> Result<(), Failure> {
        let age = Duration::from_secs_f32(fact(step, "frame_age").max(0.0));
        scores.scorer.show(step.obs.clone(), age);
        let scored = scores.scorer.take().map_err(|error| Failure::caused_by(&error))?;
        for frame in scored {
            let is_success = scores.rule.take(frame.score, &frame.obs.row(0));
            let now = ModelNow {
                probability: frame.score.get(),
                threshold: scores.rule.level(),
                streak: scores.rule.streak(),
                hold: scores.rule.hold(),
                is_success,
                took_ms: 1e3 * frame.took.as_secs_f64(),
            };
            control.scored(now);
            self.model = Some(now);
        }
        Ok(())
    }

    /// A person has ended it, with the frame that is shown.
    fn end(&mut self, play: &mut Play, end: PersonEnd, labels: &FrameLabels) -> Result<(), Failure> {
        if let Some(mut last) = self.shown.take().filter(|_| end != PersonEnd::Discard) {
            let step = &mut last.step;
            step.end[0] = End::Terminated;
            step.last = vec![(0, step.obs.clone())];
            play.recorder.step_labelled(&last, u64::MAX, |episode| labels.write_into(episode, end))?;
        }
        self.tell(play, Some(end), labels);
        Ok(())
    }

    /// The arm, a camera or its server was lost: the episode is worthless.
    fn break_off(&mut self, play: &mut Play, broken: &TakenStep) -> Result<(), Failure> {
        play.recorder.step(broken, u64::MAX)?;
        self.tell(play, None, &play.control.labels());
        Ok(())
    }

    fn tell(&self, play: &Play, end: Option<PersonEnd>, labels: &FrameLabels) {
        let kept = play.recorder.kept();
        let done = EpisodeDone {
            number: self.number,
            end,
            steps: self.steps,
            seconds: self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
            model_success: self.model.map(|model| model.is_success),
            probability: self.model.map(|model| model.probability),
            spans: labels.spans(),
        };
        play.control.episode_ended(done, [kept.successes, kept.failures]);
    }
}
