//! The environments that come with plaudit.
//!
//! Everything here implements [`plaudit_core::Env`]: a batch of rows that are stepped together and reset
//! themselves. There is one engine for all of them (the private `batch` module): it counts steps and
//! episodes, truncates, resets, and spreads rows over threads. A task only knows how to start, step, and
//! show itself.
//!
//! * [Classic control](EnvId::CartPoleV1), step for step as in Gymnasium 1.x: cheap ground truth for testing
//!   learners.
//! * [PickCube](EnvId::PickCubeV1), the task of ManiSkill on a simulator of our own: a Panda arm as a Rapier
//!   multibody, cameras rendered by a software rasteriser, and an [expert](PickCubeExpert) that solves it.
//! * [PegInsertionSide](EnvId::PegInsertionSideV1), of the same family: a peg, a box, and 3 mm to spare on each
//!   side of the hole; again with an [expert](PegInsertionExpert).
//! * [Anything in Python](Bridge): what Gymnasium can make, and ManiSkill, in a process of its own.
//!
//! An episode is fully determined by the seed, the number of its row and the number of episodes that row has
//! finished. Threads do not matter, and neither does how rows are split over batches: a batch of 4 rows
//! that begins at [`first_row`](EnvSettings::first_row) 4 is the second half of a batch of 8. Rows of a
//! [group](EnvSettings::group_size) share their starts.
//!
//! ```
//! use plaudit_core::{Policy, Seed};
//! use plaudit_env::{EnvSettings, RandomPolicy, make};
//!
//! let mut env = make(&EnvSettings::new("CartPole-v1".parse()?, 8))?;
//! let mut policy = RandomPolicy::new(env.spec().actions.clone());
//! let seed = Seed::new(1234);
//! let mut obs = env.reset(seed.purpose("env"))?;
//! for t in 0..100 {
//!     let actions = policy.act(&obs, seed.purpose("policy").index(t))?.actions;
//!     obs = env.step(&actions)?.obs;
//! }
//! assert_eq!((obs.batch(), obs.state_width()), (8, 4));
//!
//! let typo = "CartPol-v1".parse::<plaudit_env::EnvId>().unwrap_err();
//! assert_eq!(typo.to_string(), "there is no environment `CartPol-v1`; did you mean `CartPole-v1`?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this crate is not: it trains nothing, records nothing and links no tensors.

mod batch;
mod bridge;
mod classic;
mod id;
mod make;
mod memory;
mod panda;
mod peg_insertion;
mod pick_cube;
mod random_policy;
mod render;
mod settings;

pub use batch::Diverged;
pub use bridge::{
    Arguments, Bridge, BridgeError, BridgeSettings, During, Make, PythonRobot, PythonRobotReading,
    PythonRobotSettings, PythonRobotSpec, PythonTeleopEvents, Seeding, Vectorization,
};
pub use id::EnvId;
pub use make::make;
pub use panda::{CameraName, CameraSettings, ControlMode, Engine, ObsMode, PixelLabel, RewardMode};
pub use peg_insertion::{PegInsertionExpert, PegInsertionPieces, PegInsertionSettings};
pub use pick_cube::{PickCubeExpert, PickCubeImage, PickCubeMoment, PickCubeSettings, render_pick_cube};
pub use random_policy::RandomPolicy;
pub use settings::{EnvSettings, SettingsError};
