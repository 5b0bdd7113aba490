//! Reinforcement learning: a policy acts in environments, rollouts become segments, and a learner improves on them.
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
//! #                   success: vec![false], last: vec![], facts: vec![], interventions: vec![] })
//! #     }
//! #     fn set_frames_needed(&mut self, _: FramesNeeded) {}
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

mod action_chunks;
mod action_head;
mod actor_critic;
mod async_remote;
mod async_training;
mod categorical;
mod checkpoint;
mod cloning;
mod control_stats;
mod demonstrations;
mod episodes;
mod explorer;
mod gae;
mod gaussian;
mod interventions;
mod join_rows;
mod learner;
pub mod naming;
pub mod ppo;
mod real_time;
pub mod replay;
mod rollout;
mod rollout_progress;
mod rollout_state;
mod rollout_stats;
mod rollout_thread;
mod row_ops;
pub mod sac;
mod state_scale;
mod subsegment;
mod successes;
mod training;
pub mod vision_encoder;

pub use action_head::{ActionHead, HeadKind, StdKind};
pub use actor_critic::{
    ActionMode, ActorCritic, ActorCriticSettings, ActorPolicy, ForwardPass, InferenceBuffers, Inputs,
    ParamStatus,
};
pub use async_remote::{CollectedRollout, RemoteCollector};
pub use async_training::{AsyncPlan, AsyncTraining, NoCallback, StepCallback};
pub use checkpoint::Checkpoint;
pub use cloning::{Cloning, CloningCallback};
pub use demonstrations::{DemoConverter, DemoError};
pub use episodes::{Episode, Episodes};
pub use explorer::{ExplorerNetworks, ExplorerParams};
pub use gae::{Advantages, Bootstrap, GaeInputs, GaeSettings};
pub use join_rows::{JoinError, join_obs};
pub use learner::{CountSetting, Experience, LearnError, Learner, Metrics, SettingError};
pub use rollout::{Decisions, PlayedSegment, Rollout, RolloutError, TakenStep};
pub use rollout_state::RolloutState;
pub use state_scale::StateScale;
pub use training::{
    OnLabelled, RemoteEnvs, RemoteRollout, RemoteRollouts, Training, TrainingError, TrainingPlan,
};
