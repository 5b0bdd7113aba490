//! Robots as the binary knows them: the simulated one and its script, and the person who lets an arm move.

mod person;
mod script;
mod simulation;

pub use person::{SimulatedPerson, TerminalPerson};
pub use script::ScriptPilot;
pub use simulation::{SceneReset, SimulatedScene, SimulatedTask, SimulationError};
