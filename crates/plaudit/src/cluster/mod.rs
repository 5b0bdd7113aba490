//! Training on several machines, as a config asks for it: the plan, the machines, the run that is watched, and what people see.

pub(crate) mod drive;
pub(crate) mod mirror;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod supervise;

/// The version that every machine must have.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
