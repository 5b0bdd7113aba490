//! Evaluation: a policy acts in its evaluation environments, and the environment's ground truth measures success.

use std::path::PathBuf;
use std::sync::Arc;

use plaudit_core::{Emit, Env, Event, FramesNeeded, JsonNumber, Policy, Seed};
use plaudit_data::episode::CollectionRun;
use plaudit_reward::ReloadableModel;
use plaudit_rl::{Episode, Rollout};
use serde::{Deserialize, Serialize};

use crate::build::{self, EnvBlock};
use crate::config::LoadedConfig;
use crate::episode_recorder::EpisodeRecorder;
use crate::failure::Failure;
use crate::film::Film;
use crate::run::{Run, interrupted};

/// Evaluates a policy: the environments, their film, and the recorder of their episodes.
pub struct Evaluator {
    env: Box<dyn Env>,
    film: Film,
    /// A few environments for the film, if it has its own.
    filmed: Option<Box<dyn Env>>,
    episode_recorder: Option<EpisodeRecorder>,
    seed: Seed,
    /// Whether every evaluation starts from the same states.
    same_starts: bool,
    rollouts: u64,
}

/// How evaluations are filmed, beside what `env.eval.video_cfg` says.
#[derive(Default)]
pub struct Filming {
    /// The model that scores the frames.
    pub scorer: Option<Arc<ReloadableModel>>,
    /// Environments of its own, in which the policy plays the first rows again. Not set: the film is of the evaluation.
    pub env: Option<Box<dyn Env>>,
}

impl Evaluator {
    /// Makes ready to film and to keep, as `env.eval` asks for; episodes go to `data` unless it names another place.
    pub fn new(
        loaded: &LoadedConfig,
        mut env: Box<dyn Env>,
        filming: Filming,
        data: PathBuf,
        run: &mut Run,
    ) -> Result<Self, Failure> {
        let settings = &loaded.config.env.eval;
        let Filming { scorer, env: filmed } = filming;
        let film =
            Film::new(build::video(loaded, EnvBlock::Eval, env.spec(), run.video_directory())?, scorer);
        if filmed.is_some() {
            env.set_frames_needed(FramesNeeded::Nothing);
        }
        let episode_recorder = match settings.data_collection.enabled {
            true => {
                let by = CollectionRun::Anonymous;
                Some(EpisodeRecorder::start(loaded, EnvBlock::Eval, env.spec(), data, by)?)
            }
            false => None,
        };
        for (level, text) in episode_recorder.iter().flat_map(EpisodeRecorder::notices) {
            run.emit(Event::Notice { level, text });
        }
        Ok(Self {
            env,
            film,
            filmed,
            episode_recorder,
            seed: Seed::new(settings.seed).purpose("eval"),
            same_starts: settings.use_fixed_reset_state_ids,
            rollouts: settings.rollout_epoch,
        })
    }

    /// How many rollouts an evaluation has.
    pub fn rollouts(&self) -> u64 {
        self.rollouts
    }

    /// A whole evaluation. `number` tells it from others of the same run: the steps that were learned before it.
    pub fn evaluate(
        &mut self,
        run: &mut Run,
        policy: &mut dyn Policy,
        number: u64,
    ) -> Result<EvalStats, Failure> {
        let mut stats = EvalStats::default();
        for rollout in 0..self.rollouts {
            self.play(run, policy, (number, number * self.rollouts + rollout), &mut stats)?;
        }
        Ok(stats)
    }

    /// One episode in every environment, at `step` of the run, by the starts of `number`. A row that is done keeps stepping
    /// uncounted until the slowest is done too.
    pub fn play(
        &mut self,
        run: &mut Run,
        policy: &mut dyn Policy,
        (step, number): (u64, u64),
        stats: &mut EvalStats,
    ) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::runtime(error, None);
        let seed = self.seed.index(if self.same_starts { 0 } else { number });
        let mut open = vec![true; self.env.spec().num_envs];
        let mut rollout = Rollout::start(self.env.as_mut(), seed, 0).map_err(|error| failed(&error))?;
        let is_filmed = self.filmed.is_none();
        if is_filmed {
            self.film.start(run, rollout.obs());
        }
        if let Some(episode_recorder) = &mut self.episode_recorder {
            episode_recorder.reset(rollout.obs());
        }
        while open.iter().any(|&open| open) {
            let taken = rollout.advance(policy).map_err(|error| failed(&error))?;
            if is_filmed {
                self.film.step(run, &taken.step);
            }
            if let Some(episode_recorder) = &mut self.episode_recorder {
                episode_recorder.step(&taken, u64::MAX)?;
            }
            for episode in rollout.take_finished() {
                // An episode that a robot broke off says nothing about the policy: it is played again.
                if episode.invalid && !interrupted() {
                    continue;
                }
                if std::mem::replace(&mut open[episode.row], false) && !episode.invalid {
                    stats.add(&episode);
                }
            }
        }
        stats.rollouts += 1;
        if let Some(env) = &mut self.filmed {
            self.film.play(run, policy, env.as_mut(), seed)?;
        }
        self.film.cut(run, step);
        Ok(())
    }

    /// Finishes films and files, and reports where they are.
    pub fn close(self, run: &mut Run) -> Result<(), Failure> {
        self.film.finish(run);
        if let Some(episode_recorder) = self.episode_recorder {
            episode_recorder.close(run)?;
        }
        Ok(())
    }
}

/// What is known after some rollouts: all that a resumed evaluation needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalStats {
    /// Rollouts played.
    pub rollouts: u64,
    episodes: u64,
    successes_once: u64,
    successes_at_end: u64,
    sum_return: JsonNumber,
    /// Steps of all episodes.
    pub sum_length: u64,
    /// The return of each episode. An environment may give rewards that are not finite.
    pub returns: Vec<JsonNumber>,
}

impl EvalStats {
    fn add(&mut self, episode: &Episode) {
        self.episodes += 1;
        self.successes_once += u64::from(episode.success_once);
        self.successes_at_end += u64::from(episode.success_at_end);
        self.sum_return.0 += episode.env_return;
        self.sum_length += episode.length;
        self.returns.push(JsonNumber(episode.env_return));
    }

    /// The metrics for programs: counts are whole numbers.
    pub fn result(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut result: serde_json::Map<_, _> =
            self.metrics().into_iter().map(|(name, value)| (name, json_number(value))).collect();
        result.insert("eval/num_trajectories".into(), self.episodes.into());
        result
    }

    /// Means over all episodes, under RLinf's names. Success is the environment's ground truth.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let n = self.episodes.max(1) as f64;
        [
            ("eval/success_once", self.successes_once as f64 / n),
            ("eval/success_at_end", self.successes_at_end as f64 / n),
            ("eval/return", self.sum_return.0 / n),
            ("eval/episode_len", self.sum_length as f64 / n),
            ("eval/reward", self.sum_return.0 / self.sum_length.max(1) as f64),
            ("eval/num_trajectories", self.episodes as f64),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}

/// A metric for programs.
pub(crate) fn json_number(value: f64) -> serde_json::Value {
    serde_json::to_value(JsonNumber(value)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_that_are_not_finite_are_reported_and_survive_a_resume() {
        let odd = JsonNumber(f64::NAN);
        let stats = EvalStats { episodes: 1, sum_return: odd, returns: vec![odd], ..EvalStats::default() };
        assert_eq!(stats.result()["eval/return"], "NaN");
        let saved = serde_json::to_string(&stats).unwrap();
        let restored: EvalStats = serde_json::from_str(&saved).unwrap();
        assert!(restored.sum_return.0.is_nan() && restored.returns[0].0.is_nan(), "{saved}");
    }
}
