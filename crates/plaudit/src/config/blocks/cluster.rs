//! `cluster`: which machine does what.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::block::{Kind, Setting, block};

block! {
    /// Which machine does what. On one machine none of it is needed.
    Cluster as ClusterWritten {
        /// Machines that take part.
        num_nodes: u64 = 1,
        /// For each component (`actor`, `env`, `rollout`, `reward`, …) the places it runs on.
        component_placement: IndexMap<String, Placement> = IndexMap::new(),
        /// Named groups of machines, with the robots attached to them.
        node_groups: Vec<NodeGroup> = Vec::new(),
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

macro_rules! placed {
    ($($type:ty: $words:literal),*) => {$(
        impl Setting for $type {
            type Written = Self;
            fn resolve(written: Self) -> Self { written }
            fn kind() -> Kind { Kind::Plain($words.into()) }
        }
    )*};
}

placed! {
    Placement: "places such as `0`, `0-3` or `all`, or `{node_group, placement}`",
    GroupLabel: "text",
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
        configs: Vec<RobotPlace> = Vec::new(),
    }
}

block! {
    /// One robot and what hangs on it.
    RobotPlace as RobotPlaceWritten {
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
        env_vars: Vec<IndexMap<String, String>> = Vec::new(),
    }
}
