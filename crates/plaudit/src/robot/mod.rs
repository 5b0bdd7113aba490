//! Robots as the binary knows them: the simulated one and its script, and the person who lets an arm move.

mod live_scores;
mod person;
mod script;
mod simulation;
mod tap;

pub use live_scores::{LiveScorer, ScoredFrame};
pub use person::{SimulatedPerson, TerminalPerson};
pub use script::ScriptPilot;
pub use simulation::{SceneReset, SimulatedScene, SimulatedTask, SimulationError};
pub use tap::{KeyTap, TappedPilot};
