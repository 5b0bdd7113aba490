//! A policy acts in the environments it is judged in, and the environment's truth judges it.

use std::path::PathBuf;

use plaudit_core::{Emit, Env, Event, Level, Policy, Seed};
use plaudit_rl::{Episode, Rollout};
use plaudit_view::video::{Seen, VideoError, VideoRecorder};
use serde::{Deserialize, Serialize};

use crate::build::{self, Which};
use crate::config::Loaded;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::run::Run;

/// Where a policy is judged: the environments, who films them, and who keeps what they show.
pub struct Stage {
    env: Box<dyn Env>,
    film: Film,
    keeper: Option<Keeper>,
    seed: Seed,
    /// Whether every evaluation starts from the same states.
    same_starts: bool,
    rollouts: u64,
}

impl Stage {
    /// Makes ready to film and to keep, as `env.eval` asks for; episodes go to `data` unless it names another place.
    pub fn new(loaded: &Loaded, env: Box<dyn Env>, data: PathBuf, run: &mut Run) -> Result<Self, Failure> {
        let settings = &loaded.config.env.eval;
        let film = Film { video: build::video(loaded, Which::Eval, env.spec(), run.video_directory())? };
        let keeper = match settings.data_collection.enabled {
            true => Some(Keeper::start(loaded, Which::Eval, data)?),
            false => None,
        };
        if let Some(text) = keeper.as_ref().and_then(Keeper::found) {
            run.emit(Event::Notice { level: Level::Info, text });
        }
        Ok(Self {
            env,
            film,
            keeper,
            seed: Seed::new(settings.seed).purpose("eval"),
            same_starts: settings.use_fixed_reset_state_ids,
            rollouts: settings.rollout_epoch,
        })
    }

    /// How many rollouts an evaluation has.
    pub fn rollouts(&self) -> u64 {
        self.rollouts
    }

    /// A whole evaluation. `number` tells it from others of the same run.
    pub fn judge(&mut self, run: &mut Run, policy: &mut dyn Policy, number: u64) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        for rollout in 0..self.rollouts {
            self.play(run, policy, number * self.rollouts + rollout, &mut tally)?;
        }
        Ok(tally)
    }

    /// One episode in every environment. A row that is done plays on unheard until the slowest is done too.
    pub fn play(
        &mut self,
        run: &mut Run,
        policy: &mut dyn Policy,
        number: u64,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::work(error, None);
        let seed = self.seed.index(if self.same_starts { 0 } else { number });
        let mut open = vec![true; self.env.spec().num_envs];
        let mut rollout = Rollout::start(self.env.as_mut(), seed, 0).map_err(|error| failed(&error))?;
        self.film.try_to(run, |video| video.start(rollout.obs()));
        if let Some(keeper) = &mut self.keeper {
            keeper.reset(rollout.obs());
        }
        while open.iter().any(|&open| open) {
            let taken = rollout.advance(policy).map_err(|error| failed(&error))?;
            self.film.try_to(run, |video| video.step(Seen::from(&taken.step)));
            if let Some(keeper) = &mut self.keeper {
                keeper.step(&taken, u64::MAX)?;
            }
            for episode in rollout.take_finished() {
                if std::mem::replace(&mut open[episode.row], false) {
                    tally.add(&episode);
                }
            }
        }
        tally.rollouts += 1;
        self.film.try_to(run, |video| video.flush().map(drop));
        Ok(())
    }

    /// Finishes films and files, and says where they are.
    pub fn close(self, run: &mut Run) -> Result<(), Failure> {
        self.film.finish(run);
        if let Some(keeper) = self.keeper {
            keeper.close(run)?;
        }
        Ok(())
    }
}

/// Videos. One that cannot be written ends the filming, not the evaluation.
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

/// What is known after some rollouts: all that a resumed evaluation needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Rollouts played.
    pub rollouts: u64,
    episodes: u64,
    successes_once: u64,
    successes_at_end: u64,
    sum_return: f64,
    /// Steps of all episodes.
    pub sum_length: u64,
    /// The return of each episode.
    pub returns: Vec<f64>,
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
    pub fn result(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut result: serde_json::Map<_, _> =
            self.metrics().into_iter().map(|(name, value)| (name, value.into())).collect();
        result.insert("eval/num_trajectories".into(), self.episodes.into());
        result
    }

    /// Means over all episodes, under RLinf's names. Success is the environment's truth.
    pub fn metrics(&self) -> Vec<(String, f64)> {
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
