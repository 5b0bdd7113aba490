//! Who runs where: every process of a run, and every edge between two of them.

mod build;
mod picture;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use build::{LEAST_POOL_BYTES, LONGEST_MESSAGE, MachineAccess, PlanRequest, plan};
pub use picture::picture;

/// The format of `plan.json` that this version writes and reads.
pub const FORMAT: u32 = 2;

/// Everything that a process must know of the run it belongs to. The same file on every machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of plaudit that planned; every machine must have the same.
    pub plaudit: String,
    /// What the dataflow is called.
    pub name: String,
    /// The run directory: absolute, and the same path on every machine.
    pub run_dir: PathBuf,
    /// The config as it was written, composed: a file's name in the run directory.
    pub config: PathBuf,
    /// The folder that the run was started in: relative paths of the config begin there, on every machine that has it.
    pub directory: PathBuf,
    /// The port of the coordinator, on the first machine.
    pub coordinator_port: u16,
    /// The machines by rank.
    pub machines: Vec<Machine>,
    /// Every process, by component and rank.
    pub processes: Vec<Process>,
    /// Who sends what to whom.
    pub edges: Vec<Edge>,
    /// How messages are kept from getting lost.
    pub link: LinkSettings,
}

/// Why a plan cannot be read.
#[derive(Debug, Error)]
pub enum PlanFileError {
    /// The file is not there, or cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is no plan.
    #[error("{path} is no plan: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, with its line.
        error: serde_json::Error,
    },
    /// A plan of another version.
    #[error(
        "{path} was written by plaudit {plaudit} (format {format}), and this is {ours}: every machine needs the same version"
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Who wrote it.
        plaudit: String,
        /// Its format.
        format: u32,
        /// The version that reads it.
        ours: String,
    },
}

impl Plan {
    /// The name of the file in a run directory.
    pub const FILE: &'static str = "plan.json";

    /// Reads a plan that the same version of plaudit wrote.
    pub fn read(path: &Path, ours: &str) -> Result<Self, PlanFileError> {
        let unreadable = |error| PlanFileError::Unreadable { path: path.to_path_buf(), error };
        let malformed = |error| PlanFileError::Malformed { path: path.to_path_buf(), error };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        // Whose it is comes first: another version may have other fields.
        let author: Author = serde_json::from_str(&text).map_err(malformed)?;
        if author.format != FORMAT || author.plaudit != ours {
            let Author { format, plaudit } = author;
            let (path, ours) = (path.to_path_buf(), ours.to_string());
            return Err(PlanFileError::OtherVersion { path, plaudit, format, ours });
        }
        serde_json::from_str(&text).map_err(malformed)
    }

    /// The file's text.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Where a process writes.
    pub fn folder_of(&self, process: &Process) -> PathBuf {
        self.run_dir.join("workers").join(&process.id)
    }

    /// What a process last said of itself, line by line.
    pub fn status(&self, process: &Process) -> PathBuf {
        self.folder_of(process).join("status.jsonl")
    }

    /// What the process that leads the run says at its end.
    pub fn outcome(&self, process: &Process) -> PathBuf {
        self.folder_of(process).join("outcome.json")
    }

    /// The machine that the coordinator runs on.
    pub fn head(&self) -> &Machine {
        &self.machines[0] // a plan has a machine
    }

    /// The process that a component's rank runs in. A rollout that lives in an environment's process is found there.
    pub fn process(&self, component: Component, rank: usize) -> Option<&Process> {
        let serves = |process: &&Process| process.components.contains(&component) && process.rank == rank;
        self.processes.iter().find(serves)
    }

    /// The process whose word ends the run: the actor, or where nobody learns the robot's.
    pub fn leader(&self) -> Option<&Process> {
        self.process(Component::Actor, 0).or_else(|| self.process(Component::Env, 0))
    }

    /// Whether somebody learns. Else a person moves a robot.
    pub fn learns(&self) -> bool {
        self.process(Component::Actor, 0).is_some()
    }

    /// What a person who moves a robot reads, line by line.
    pub fn teleop_log(&self, process: &Process) -> PathBuf {
        self.folder_of(process).join("teleop.log")
    }

    /// The edges on which a process receives.
    pub fn inputs<'a>(&'a self, process: &'a str) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.to == process)
    }

    /// The edges on which a process sends.
    pub fn outputs<'a>(&'a self, process: &'a str) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.from == process)
    }
}

#[derive(Deserialize)]
struct Author {
    format: u32,
    plaudit: String,
}

/// A machine of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its rank among the machines.
    pub rank: usize,
    /// Its name for dora: `node-0`.
    pub id: String,
    /// Its name, as written.
    pub host: String,
    /// Its address, as the others reach it and as its programs bind to it.
    pub address: IpAddr,
    /// How commands get there; not set: it is the machine that the run is started on.
    pub ssh: Option<String>,
    /// The port of its ssh server, where that is not the usual one.
    pub ssh_port: Option<u16>,
    /// The groups it belongs to.
    pub groups: Vec<String>,
    /// How many GPUs it is said to have.
    pub gpus: usize,
    /// The program plaudit there.
    pub plaudit: PathBuf,
    /// The program dora there.
    pub dora: PathBuf,
    /// The port that its messages come in by.
    pub data_port: u16,
    /// The port by which its processes reach its daemon.
    pub daemon_port: u16,
    /// Environment variables of everything there.
    pub environment: BTreeMap<String, String>,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// Learns.
    Actor,
    /// Steps environments.
    Env,
    /// Chooses actions.
    Rollout,
    /// Scores frames.
    Reward,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Actor, Self::Env, Self::Rollout, Self::Reward];

    /// Its name in configs and in `plan.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Actor => "actor",
            Self::Env => "env",
            Self::Rollout => "rollout",
            Self::Reward => "reward",
        }
    }
}

/// One process: it is started with this plan, its first component and its rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name: `env-0`.
    pub id: String,
    /// What it does. The first gives it its name; an environment's process may choose the actions too.
    pub components: Vec<Component>,
    /// Its rank among the processes of its component.
    pub rank: usize,
    /// How many processes its component has.
    pub world_size: usize,
    /// The rank of its machine.
    pub machine: usize,
    /// The GPUs that it may use, numbered as on its machine.
    pub gpus: Vec<usize>,
    /// The robots that it moves, as numbered in the config.
    pub robots: Vec<usize>,
    /// Environments of the run that it steps: from the first number to before the second.
    pub envs: (usize, usize),
    /// Environment variables that it is started with.
    pub environment: BTreeMap<String, String>,
    /// Shared memory for its messages, in bytes; zero: it sends nothing.
    pub pool_bytes: u64,
    /// Why it runs there, for people.
    pub why: String,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Port {
    /// Actor to env: weights with their version, and what to play.
    Command,
    /// Env to actor: a finished segment.
    Segment,
    /// Env or actor to reward: frames to score.
    Frames,
    /// Reward to env or actor: their scores.
    Scores,
    /// Env to rollout: weights with their version, and what is seen.
    Observations,
    /// Rollout to env: what to do.
    Actions,
}

impl Port {
    /// What it carries, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "commands",
            Self::Segment => "segments",
            Self::Frames => "frames",
            Self::Scores => "scores",
            Self::Observations => "observations",
            Self::Actions => "actions",
        }
    }
}

/// An output of one process that is an input of another. Two processes that talk have one edge each way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// What it carries.
    pub port: Port,
    /// The process that sends.
    pub from: String,
    /// The sender's name for it: the receiver's name. No two edges of a sender share it.
    pub output: String,
    /// The process that receives.
    pub to: String,
    /// The receiver's name for it: the sender's name. No two edges of a receiver share it.
    pub input: String,
    /// Messages that wait at the receiver before the oldest is dropped: more than the senders' window.
    pub queue: usize,
}

/// How messages are kept from getting lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// Messages that a sender leaves unacknowledged at most, on each edge.
    pub window: usize,
    /// A message that is unanswered for so long is sent again.
    pub resend_secs: f64,
    /// A process that is silent for so long is taken for dead.
    pub dead_secs: f64,
    /// The learner saves its state and stops when a process has been dead for so long.
    pub give_up_secs: f64,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self { window: 8, resend_secs: 0.5, dead_secs: 5.0, give_up_secs: 120.0 }
    }
}
