//! Training beyond one process: who runs where, what carries the messages, and who starts it all.
//!
//! A run is made of four components: [`Component::Env`] steps environments, [`Component::Rollout`] chooses actions,
//! [`Component::Reward`] scores frames, [`Component::Actor`] learns. In one process they are threads. This crate is
//! for the other cases, and has three steps, each a pure function of the one before:
//!
//! 1. [`placement`]: RLinf's grammar (`reward: 0-1`, `{node_group: "4090", placement: 0}`) and what it asks for;
//! 2. [`plan`]: every process with its machine, rank, GPUs and environment, and every edge between two of them;
//! 3. [`dora`]: the files by which dora places, starts, supervises and restarts these processes, and its command line.
//!
//! [`machine`] is what has to happen on each machine: its daemon, and the copy of what its processes write.
//!
//! A plan is a file, `plan.json`, in the run directory. Every process is started with it, and needs nothing else.
//!
//! And two for what then runs: [`link`], what carries messages between processes, and [`worker`], what each of them does.
//! Beside them, [`gradients`]: what carries the gradients of ranks that train one model together.
//!
//! What is not here: what the components compute (`rl`, `reward`, `env`).

pub mod dora;
pub mod gradients;
pub mod link;
#[cfg(unix)]
pub mod machine;
pub mod placement;
pub mod plan;
pub mod worker;

pub use plan::{Component, Edge, LinkSettings, Machine, Plan, Port, Process};
