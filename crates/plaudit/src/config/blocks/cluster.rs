//! `cluster`: which machine does what.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::block::{block, plain};
use crate::config::range::AT_LEAST_ONE;

block! {
    /// Which machine does what. On one machine none of it is needed.
    Cluster as ClusterWritten {
        /// Machines that take part.
        #[range(AT_LEAST_ONE)]
        num_nodes: u64 = 1,
        /// For each component (`actor`, `env`, `rollout`, `reward`, …) the places it runs on.
        component_placement: IndexMap<String, Placement> = IndexMap::new(),
        /// Named groups of machines, with the robots attached to them.
        node_groups: Vec<NodeGroup> = Vec::new(),
    }
}

/// Something of a config that is not on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlacement {
    /// The key that says so.
    pub key: String,
    /// What it asks for.
    pub what: String,
}

impl Cluster {
    /// The first thing that would need another machine than this one.
    pub fn elsewhere(&self) -> Option<RemotePlacement> {
        if self.num_nodes > 1 {
            let what = format!("{} machines are asked for", self.num_nodes);
            return Some(RemotePlacement { key: "cluster.num_nodes".into(), what });
        }
        for (at, group) in self.node_groups.iter().enumerate() {
            if let Some(rank) = group.node_ranks.as_ref().and_then(Ranks::highest).filter(|rank| *rank > 0) {
                let what = format!("a group of machines has one of rank {rank}");
                return Some(RemotePlacement { key: format!("cluster.node_groups.{at}.node_ranks"), what });
            }
        }
        self.component_placement.iter().find_map(|(component, placement)| {
            let what = self.group_elsewhere(placement)?;
            Some(RemotePlacement { key: format!("cluster.component_placement.{component}"), what })
        })
    }

    /// Why a placement in groups of machines is not on this one.
    fn group_elsewhere(&self, placement: &Placement) -> Option<String> {
        let Placement::InGroup { node_group, placement } = placement else { return None };
        let label = node_group.text();
        let known = |name: &str| {
            let declared = self.node_groups.iter().filter_map(|group| group.label.as_ref());
            matches!(name, "cluster" | "node") || declared.map(GroupLabel::text).any(|label| label == name)
        };
        if let Some(name) = label.split(',').map(str::trim).find(|name| !known(name)) {
            return Some(format!("no group of machines is called `{name}`"));
        }
        let rank = placement.as_ref().and_then(Ranks::highest).filter(|rank| *rank > 0)?;
        (label == "node").then(|| format!("it is placed on the machine of rank {rank}"))
    }
}

/// Places such as `0`, `0-3`, `all` or `0-3:0-7` (resources, then processes), perhaps inside a node group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Placement {
    /// One place by its rank.
    Rank(u64),
    /// Ranges in RLinf's notation.
    Ranges(String),
    /// Ranges inside a named group of machines.
    InGroup {
        /// Label of one group, or several joined by commas.
        node_group: GroupLabel,
        /// Ranks inside the group.
        placement: Option<Ranks>,
    },
}

/// A label, which people like to write as a bare number (`4090`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GroupLabel {
    /// As text.
    Text(String),
    /// As a number.
    Number(u64),
}

impl GroupLabel {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// One rank, ranges as text, or a list of ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ranks {
    /// One rank.
    One(u64),
    /// Ranges such as `0-3`, `0,2` or `all`.
    Ranges(String),
    /// Several ranks.
    List(Vec<u64>),
}

impl Ranks {
    /// The highest rank that is named; `all` names none.
    fn highest(&self) -> Option<u64> {
        match self {
            Self::One(rank) => Some(*rank),
            Self::List(ranks) => ranks.iter().max().copied(),
            Self::Ranges(text) => {
                let resources = text.split(',').filter_map(|part| part.split(':').next());
                resources.filter_map(|range| range.rsplit('-').next()?.trim().parse().ok()).max()
            }
        }
    }
}

/// The value of an environment variable, which people like to write as a bare number (`OMP_NUM_THREADS: 32`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VariableValue {
    /// As text.
    Text(String),
    /// As a whole number.
    Integer(i64),
    /// As a number.
    Number(f64),
    /// As a boolean.
    Boolean(bool),
}

plain! {
    Placement: "places such as `0`, `0-3` or `all`, or `{node_group, placement}`",
    GroupLabel: "text",
    VariableValue: "text or number",
    Ranks: "ranks such as `0`, `0-3` or `all`"
}

block! {
    /// A named group of machines.
    NodeGroup as NodeGroupWritten {
        /// Its name.
        label: Option<GroupLabel> = None,
        /// The machines in it.
        node_ranks: Option<Ranks> = None,
        /// The robots attached to it.
        hardware: Option<Hardware> = None,
        /// Per-machine Python interpreters and environment variables.
        env_configs: Vec<NodeEnv> = Vec::new(),
        /// Count machines even where they have accelerators or robots.
        ignore_hardware: bool = false,
    }
}

block! {
    /// Robots of one type attached to a group of machines.
    Hardware as HardwareWritten {
        /// Which robot: `Franka`.
        r#type: String = "Franka".into(),
        /// One entry per robot.
        configs: Vec<RobotConfig> = Vec::new(),
    }
}

block! {
    /// One robot and what hangs on it.
    RobotConfig as RobotConfigWritten {
        /// Address of the controller.
        robot_ip: Option<String> = None,
        /// The machine it is attached to.
        node_rank: u64 = 0,
        /// Serial numbers of its cameras; not set: all that are found.
        camera_serials: Option<Vec<String>> = None,
        /// What the cameras are: `realsense`, `zed`, …
        camera_type: String = "realsense".into(),
        /// What the gripper is: `franka` or `robotiq`.
        gripper_type: String = "franka".into(),
        /// How the gripper is reached, where that is not through the arm.
        gripper_connection: Option<String> = None,
        /// The machine that runs the real-time loop, if another.
        controller_node_rank: Option<u64> = None,
        /// Skip the check that the robot answers.
        disable_validate: bool = false,
    }
}

block! {
    /// What one machine of a group needs.
    NodeEnv as NodeEnvWritten {
        /// The machines meant.
        node_ranks: Option<Ranks> = None,
        /// Python interpreter for simulators there.
        python_interpreter_path: Option<String> = None,
        /// Environment variables for processes there.
        env_vars: Vec<IndexMap<String, VariableValue>> = Vec::new(),
    }
}
