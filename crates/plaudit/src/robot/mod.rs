//! Robots as the binary knows them: the simulated one and its script, LeRobot's, and the person who lets an arm move.

mod lerobot;
mod live_scores;
mod person;
mod question;
mod remote;
mod script;
mod simulation;
mod tap;

pub use lerobot::LerobotArm;
pub use live_scores::{LiveScorer, ScoredFrame};
pub use person::{SimulatedPerson, TerminalPerson};
pub(crate) use question::{Question, ask_in};
pub use remote::RemoteControl;
pub(crate) use remote::{
    EpisodeDone, FrameLabels, ModelNow, PersonEnd, Phase, RemoteArm, RemotePerson, SharedCamera, StartGate,
    Watch,
};
pub use script::ScriptPilot;
pub use simulation::{SceneReset, SimulatedScene, SimulatedTask, SimulationError};
pub use tap::{KeyTap, TappedPilot};
