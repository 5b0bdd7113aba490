//! plaudit turns robot episodes into a learned reward, and a learned reward into a trained policy.
//!
//! It rests on one idea: **a reward is a function from a finished [`Segment`] of steps to one [`RewardColumn`]**. An [`Env`]
//! and a [`Policy`] make segments, a [`Reward`] labels them, and a learner improves the policy by what was labelled. Whatever
//! implements one of these traits can be used with all the rest: an environment of yours under PPO ([`rl`]), a reward in
//! a few lines, a model of yours that scores frames ([`reward::FrameRewardModel`]), or an image classifier that was trained
//! and audited here ([`reward`]).
//!
//! ```
//! use plaudit::env::{EnvId, EnvSettings, make};
//! use plaudit::rl::{ActorCriticSettings, Ppo, PpoSettings, Training, TrainingError, TrainingPlan};
//! use plaudit::{EnvReward, Seed};
//!
//! let mut env = make(&EnvSettings::new(EnvId::CartPoleV1, 8))?;
//! let networks = ActorCriticSettings::on_states(env.spec(), &[32, 32]);
//! let mut ppo = Ppo::new(&networks, PpoSettings::default(), Seed::new(1))?;
//! let plan = TrainingPlan { steps: 32, rollouts: 1 };
//! let (mut training, _) = Training::start(env.as_mut(), &EnvReward, plan, Seed::new(2), None)?;
//! for _ in 0..2 {
//!     let metrics = training.step(&mut ppo, |_| Ok::<_, TrainingError>(()))?;
//!     println!("{:?}", metrics.get("env/episode_len"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` has whole programs: scoring images with a checkpoint, training and auditing a classifier, a custom
//! environment with a custom reward, and a custom reward model in the loop. What is re-exported here is what they need; the
//! crates `plaudit-core`, `-reward`, `-rl`, `-env`, `-data` and `-nn` have the rest.
//!
//! The other modules are the binary: they read what users bring ([`config`]), turn choices into objects ([`build`]), and
//! run [`commands`]. They alone read config files, variables and flags, and they alone talk to the user.

pub use plaudit_core::{
    ActionSpace, Decision, DiscardEvents, End, Env, EnvError, EnvReward, EnvSpec, FrameShape, Frames,
    FramesNeeded, Obs, Policy, PolicyError, Reward, RewardColumn, RewardError, Score, Seed, Segment, Step,
    Term,
};

pub mod data {
    //! Episodes in any format, read one at a time.
    //!
    //! ```no_run
    //! use std::path::Path;
    //! use plaudit::data::{Recordings, Rules};
    //!
    //! let recordings = Recordings::open(Path::new("logs/run/collected_data"), &Rules::default())?;
    //! println!("{}: {} files", recordings.format.describe(), recordings.len());
    //! for recording in recordings.iter() {
    //!     let recording = recording?;
    //!     let (solved, steps) = (recording.success(), recording.actions().len());
    //!     println!("{}: {steps} steps, success {solved:?}", recording.name());
    //!     for at in 0..recording.len() {
    //!         let Some(frame) = recording.frame(at, "main_images")? else { continue };
    //!         println!("{:?}, {} bytes", frame.shape(), frame.pixels()?.len());
    //!     }
    //! }
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    pub use plaudit_data::recording::{
        BadFile, DatasetFormat, FileProblem, FrameImage, OpenError, Recording, Recordings, Rules,
        UnlabelledFrames,
    };
}

pub mod env {
    //! Environments that are built in.
    pub use plaudit_env::{EnvId, EnvSettings, make};
}

pub mod reward {
    //! Reward models: trained on labelled frames, audited, and used as a [`Reward`](crate::Reward).
    pub use plaudit_nn::Weights;
    pub use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Scorer, Trainer};
    pub use plaudit_reward::audit::{Audit, AuditError, AuditSettings, Auditor, Examination, Stored};
    pub use plaudit_reward::card::ModelCard;
    pub use plaudit_reward::dataset::{Frames as LabelledFrames, ViewKey};
    pub use plaudit_reward::hacking_monitor::HackingMonitor;
    pub use plaudit_reward::images::Png;
    pub use plaudit_reward::train::{Checkpoints, Settings as TrainSettings, Training};
    pub use plaudit_reward::{
        CameraView, Classifier, FrameReward, FrameRewardModel, FrameStack, ReloadableModel, RewardKind,
        RewardModelError, RewardTiming, Rule, TermSettings, WeightedSum,
    };
}

pub mod rl {
    //! Policies that learn by a reward.
    pub use plaudit_rl::ppo::{Ppo, PpoSettings};
    pub use plaudit_rl::{
        ActorCriticSettings, GaeSettings, Learner, Metrics, Training, TrainingError, TrainingPlan,
    };
}

pub mod build;
pub mod checkpoint;
pub mod cli;
#[cfg(unix)]
mod cluster;
pub mod commands;
pub mod config;
pub mod console;
pub mod device;
pub mod episode_recorder;
pub mod evaluation;
pub mod failure;
pub mod film;
pub mod frame_cache;
pub mod hacking_monitor;
mod hints;
pub mod interpreter;
pub mod lint;
pub mod load;
mod loggers;
pub mod online;
pub mod other_flags;
pub mod output;
pub mod program;
pub mod progress;
mod rank_log;
pub mod ranks;
mod remote_episodes;
pub mod robot;
pub mod run;
pub mod signals;
pub mod workers;
