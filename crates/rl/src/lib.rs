//! Reinforcement learning: a policy acts in environments, what happens becomes segments, and segments teach.
//!
//! This crate knows environments, policies and rewards only through the traits of `plaudit-core`. Today it
//! steps ([`Rollout`]) and keeps count of episodes ([`Episodes`]); a [`Learner`] is one file each.
//!
//! ```
//! # use plaudit_core::*;
//! # struct Still(EnvSpec);
//! # impl Env for Still {
//! #     fn spec(&self) -> &EnvSpec { &self.0 }
//! #     fn reset(&mut self, _: Seed) -> Result<Obs, EnvError> { Ok(Obs::from_state(1, vec![0.0]).unwrap()) }
//! #     fn step(&mut self, _: &[f32]) -> Result<Step, EnvError> {
//! #         Ok(Step { obs: Obs::from_state(1, vec![0.0]).unwrap(), reward: vec![1.0], end: vec![End::No],
//! #                   success: vec![false], last: vec![], facts: vec![] })
//! #     }
//! #     fn watch(&mut self, _: Watch) {}
//! # }
//! # struct Zero;
//! # impl Policy for Zero {
//! #     fn act(&mut self, _: &Obs, _: Seed) -> Result<Decision, PolicyError> {
//! #         Ok(Decision { actions: vec![0.0], ..Decision::default() })
//! #     }
//! # }
//! # let spec = EnvSpec { id: "still".into(), num_envs: 1, state_width: 1, state_parts: vec![], max_episode_steps: None,
//! #     actions: ActionSpace::Discrete { n: 1 }, cameras: vec![], control_hz: 1.0 };
//! # let (mut env, mut policy) = (Still(spec), Zero);
//! use plaudit_rl::Rollout;
//!
//! let mut rollout = Rollout::start(&mut env, Seed::new(1), 0)?;
//! let played = rollout.play(&mut policy, 5)?;
//! assert_eq!(EnvReward.label(&played.segment)?.total, [1.0; 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod action_head;
mod actor_critic;
mod async_training;
mod categorical;
mod checkpoint;
mod cloning;
mod demonstrations;
mod episodes;
mod gae;
mod gaussian;
mod interventions;
mod learner;
pub mod naming;
mod plan;
pub mod ppo;
pub mod replay;
mod rollout;
mod rows;
pub mod sac;
mod schedule;
pub mod sight;
mod state_scale;
mod stretch;
mod successes;
mod training;
mod whereabouts;

pub use action_head::{ActionHead, Deviation, HeadKind};
pub use actor_critic::{
    ActorCritic, ActorCriticSettings, ActorPolicy, Inputs, Manner, Musing, Parameters, Thoughts,
};
pub use async_training::{AsyncPlan, AsyncTraining, Nobody, Onlooker};
pub use checkpoint::Checkpoint;
pub use cloning::{ClonedSoFar, Cloning};
pub use demonstrations::{Demonstrations, Unfit};
pub use episodes::{Episode, Episodes};
pub use gae::{Advantages, Bootstrap, Course, GaeSettings};
pub use learner::{Experience, LearnError, Learner, Metrics};
pub use rollout::{Decisions, Played, Rollout, RolloutError, Taken};
pub use schedule::{Schedule, Shape};
pub use state_scale::StateScale;
pub use training::{OnPaid, Training, TrainingError, TrainingPlan};
pub use whereabouts::Whereabouts;
