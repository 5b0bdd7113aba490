//! Who runs where: every process of a run, and every edge between two of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The format of `plan.json` that this version writes and reads.
pub const FORMAT: u32 = 1;

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
    /// The config as it was resolved: a file's name in the run directory.
    pub config: PathBuf,
    /// The machines by rank.
    pub machines: Vec<Machine>,
    /// Every process, by component and rank.
    pub processes: Vec<Process>,
    /// Who sends what to whom.
    pub edges: Vec<Edge>,
    /// How messages are kept from getting lost.
    pub link: LinkSettings,
}

impl Plan {
    /// The process that a component's rank runs in. A rollout that lives in an environment's process is found there.
    pub fn process(&self, component: Component, rank: usize) -> Option<&Process> {
        let serves = |process: &&Process| process.components.contains(&component) && process.rank == rank;
        self.processes.iter().find(serves)
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

/// A machine of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its rank among the machines.
    pub rank: usize,
    /// Its name for dora: `node-0`.
    pub id: String,
    /// Its address.
    pub host: String,
    /// The groups it belongs to.
    pub groups: Vec<String>,
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

/// One process: the worker command with this plan, its first component and its rank.
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
    /// Actor to every env: weights with their version, and what to play.
    Command,
    /// Env to actor: a finished segment.
    Segment,
    /// Env to one reward process: frames to score.
    Frames,
    /// Reward to one env: their scores.
    Scores,
    /// Env to one rollout, where it is a process of its own: observations.
    Obs,
    /// Rollout to one env: actions.
    Actions,
    /// Actor to every rollout that is a process of its own: weights with their version.
    Weights,
}

/// An output of one process that is an input of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// What it carries.
    pub port: Port,
    /// The process that sends.
    pub from: String,
    /// The sender's name for it. Edges of one sender that share it carry the same messages to all.
    pub output: String,
    /// The process that receives.
    pub to: String,
    /// The receiver's name for it; no two edges of a receiver share it.
    pub input: String,
    /// Messages that wait at the receiver before the oldest is dropped: more than the senders' window.
    pub queue: usize,
}

/// How messages are kept from getting lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// Messages that a sender leaves unanswered at most, on each edge.
    pub window: usize,
    /// A message that is unanswered for so long is sent again.
    pub resend_secs: f64,
    /// A process that is silent for so long is taken for dead.
    pub dead_secs: f64,
}
