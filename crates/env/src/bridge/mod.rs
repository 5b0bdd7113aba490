//! Environments that run in Python: anything Gymnasium can make, and ManiSkill.
//!
//! A [`Bridge`] starts the user's own interpreter, has it make the environments, and steps them as a
//! [`plaudit_core::Env`]. The simulator stays in a process of its own: if it crashes, training does not.
//!
//! ```no_run
//! use plaudit_core::{Env, Seed};
//! use plaudit_env::{Bridge, BridgeSettings};
//!
//! let settings = BridgeSettings {
//!     python: "venv/bin/python".into(),
//!     ..BridgeSettings::gymnasium("HalfCheetah-v5", 16)
//! };
//! let mut env = Bridge::start(settings)?;
//! env.reset(Seed::new(1))?;
//! let step = env.step(&[0.0; 16 * 6])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! How it works: crate `pyprocess` starts the process and has it run `child.py`. It answers what the environments are like; we
//! check that, lay out the memory file, and both sides map it. From then on a step is two bytes to the process and one byte
//! back. All numbers and pixels lie in the shared memory.

mod description;
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod env;
mod error;
mod layout;
#[cfg(target_os = "linux")]
mod reader;
mod robot;
#[cfg(target_os = "linux")]
mod running;
mod settings;

pub use env::Bridge;
pub use error::{BridgeError, During};
pub use robot::{PythonRobot, PythonRobotReading, PythonRobotSettings, PythonRobotSpec, PythonTeleopEvents};
pub use settings::{Arguments, BridgeSettings, Make, Seeding, Vectorization};
