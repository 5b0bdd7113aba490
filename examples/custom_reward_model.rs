//! A reward model of your own in the training loop.
//!
//! A reward model scores what was observed; rules turn its scores into a reward column. This one looks at the angle of
//! CartPole's pole. One that looks at images asks for cameras, and is otherwise the same.

#![allow(clippy::print_stdout)] // an example shows what it found

use std::error::Error;
use std::sync::Arc;

use plaudit::env::{EnvId, EnvSettings, make};
use plaudit::reward::{
    FrameReward, FrameRewardModel, FrameStack, ReloadableModel, RewardKind, RewardModelError, RewardTiming,
    Rule, TermSettings,
};
use plaudit::rl::{ActorCriticSettings, Ppo, PpoSettings, Training, TrainingError, TrainingPlan};
use plaudit::{Score, Seed};

const UPDATES: usize = 15;

/// The nearer the pole is to upright, the higher the score.
struct Upright;

/// The angle at which CartPole ends an episode, in radians.
const FALLEN: f32 = 0.2095;

impl FrameRewardModel for Upright {
    fn cameras(&self) -> &[Arc<str>] {
        &[] // it needs no images
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let score = |frame: &FrameStack<'_>| {
            let angle = frame.now().state[2];
            Score::new(1.0 - (angle.abs() / FALLEN).min(1.0)).unwrap_or(Score::IMPOSSIBLE)
        };
        Ok(frames.iter().map(score).collect())
    }

    fn threshold(&self) -> Option<f32> {
        Some(0.5) // above it, the pole counts as upright
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut env =
        make(&EnvSettings { max_episode_steps: Some(90), ..EnvSettings::new(EnvId::CartPoleV1, 16) })?;
    let reward = FrameReward {
        term: TermSettings::named("upright"),
        model: Arc::new(ReloadableModel::fixed(Box::new(Upright))),
        timing: RewardTiming::PerStep,
        rule: Rule::default(), // solved where scores are above the model's own threshold
        kind: RewardKind::Continuous,
    };
    let networks = ActorCriticSettings::on_states(env.spec(), &[32, 32]);
    let mut ppo = Ppo::new(&networks, PpoSettings::default(), Seed::new(1))?;
    let plan = TrainingPlan { steps: 64, rollouts: 1 };
    let (mut training, _) = Training::start(env.as_mut(), &reward, plan, Seed::new(3), None)?;
    for update in 1..=UPDATES {
        let metrics = training.step(&mut ppo, |_| Ok::<_, TrainingError>(()))?;
        if update == 1 || update % 5 == 0 {
            let at = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
            println!(
                "update {update:>2}: the pole stands for {:.0} steps of 90, mean reward {:.2}",
                at("env/episode_len"),
                at("reward/upright")
            );
        }
    }
    Ok(())
}
