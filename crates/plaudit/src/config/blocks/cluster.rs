//! `cluster`: which machine does what.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::block::{block, plain};
use crate::config::range::{AT_LEAST_ONE, POSITIVE, Range};

/// A port that can be bound.
const PORT: Range = Range::Within(1.0, 65535.0);

block! {
    /// Which machine does what. In one process none of it is needed; `plaudit cluster` runs on several.
    Cluster as ClusterWritten {
        /// Machines that take part.
        #[range(AT_LEAST_ONE)]
        num_nodes: u64 = 1,
        /// The machines by rank, and how they are reached. Not set: this machine alone.
        nodes: Vec<NodeAddress> = Vec::new(),
        /// For each component (`actor`, `env`, `rollout`, `reward`, …) the places it runs on.
        component_placement: IndexMap<String, Placement> = IndexMap::new(),
        /// Named groups of machines, with the robots attached to them.
        node_groups: Vec<NodeGroup> = Vec::new(),
        /// How messages between processes are kept from getting lost.
        link: Link = Link::default(),
        /// The dora program, 1.1.0, where a machine does not name another. Not set: from PATH.
        dora: Option<String> = None,
        /// The port of dora's coordinator, on machine 0.
        #[range(PORT)]
        coordinator_port: u64 = 6013,
        /// The port by which messages of other machines come in. Machines with one address take the next ones.
        #[range(PORT)]
        data_port: u64 = 5456,
        /// The port by which processes reach the daemon of their machine. Machines with one address take the next ones.
        #[range(PORT)]
        daemon_port: u64 = 53291,
    }
}

block! {
    /// A machine, and how it is reached.
    NodeAddress as NodeAddressWritten {
        /// Its name or address, as the other machines reach it.
        host: String = "127.0.0.1".into(),
        /// Where ssh reaches it, where that is not `host`. Your own ssh is used, with its settings and keys.
        ssh_host: Option<String> = None,
        /// The user there. Not set: as ssh decides.
        user: Option<String> = None,
        /// The port of its ssh server. Not set: as ssh decides.
        #[range(PORT)]
        ssh_port: Option<u64> = None,
        /// How many GPUs it has. Not set: counted on this machine; none on others, so that places there are machines.
        gpus: Option<usize> = None,
        /// The plaudit program there, of the same version. Not set: where this one is.
        plaudit: Option<String> = None,
        /// The dora program there.
        dora: Option<String> = None,
    }
}

block! {
    /// How messages between processes are kept from getting lost.
    Link as LinkWritten {
        /// Messages that a sender leaves unacknowledged at most. Shared memory for so many is set aside.
        #[range(Range::Within(1.0, 1024.0))]
        window: usize = 8,
        /// A message that is unacknowledged for so many seconds is sent again.
        #[range(POSITIVE)]
        resend_secs: f64 = 0.5,
        /// A process that is silent for so many seconds is taken for dead.
        #[range(POSITIVE)]
        dead_secs: f64 = 5.0,
        /// The learner saves its state and stops when a process has been dead for so many seconds.
        #[range(POSITIVE)]
        give_up_secs: f64 = 120.0,
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
        if self.nodes.len() > 1 {
            let what = format!("{} machines are listed", self.nodes.len());
            return Some(RemotePlacement { key: "cluster.nodes".into(), what });
        }
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

    /// The first component that is to run in more than one place, and its places.
    pub fn several_places(&self) -> Option<(&str, &str)> {
        self.component_placement.iter().find_map(|(component, placement)| match placement {
            Placement::Ranges(text) => {
                let one = |(first, last): (&str, &str)| first.trim() == last.trim();
                let is_one = text.split_once('-').map_or(text.trim().parse::<u64>().is_ok(), one);
                (!is_one).then_some((component.as_str(), text.as_str()))
            }
            _ => None,
        })
    }

    /// The first GPU of this machine that a component is placed on, if everything is on this machine and it is placed by number.
    pub fn gpu_of(&self, component: &str) -> Option<usize> {
        if self.elsewhere().is_some() {
            return None;
        }
        let names = |key: &str| key.split(',').any(|name| name.trim() == component);
        let (_, placement) = self.component_placement.iter().find(|(key, _)| names(key))?;
        match placement {
            Placement::Rank(rank) => usize::try_from(*rank).ok(),
            Placement::List(ranks) => ranks.first().and_then(|rank| usize::try_from(*rank).ok()),
            Placement::Ranges(text) => text.split(['-', ',', ':']).next()?.trim().parse().ok(),
            Placement::InGroup { .. } => None,
        }
    }

    /// Why a placement in groups of machines is not on this one.
    fn group_elsewhere(&self, placement: &Placement) -> Option<String> {
        let Placement::InGroup { placement: ranks, .. } = placement else { return None };
        let labels = placement.groups();
        let known = |name: &str| {
            let declared = self.node_groups.iter().filter_map(|group| group.label.as_ref());
            matches!(name, "cluster" | "node") || declared.map(GroupLabel::text).any(|label| label == name)
        };
        if let Some(name) = labels.iter().find(|name| !known(name)) {
            return Some(format!("no group of machines is called `{name}`"));
        }
        let rank = ranks.as_ref().and_then(Ranks::highest).filter(|rank| *rank > 0)?;
        (labels == ["node"]).then(|| format!("it is placed on the machine of rank {rank}"))
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
    /// Several places.
    List(Vec<u64>),
    /// Ranges inside a named group of machines.
    InGroup {
        /// Label of one group, or several: joined by commas, or a list.
        node_group: Option<GroupLabels>,
        /// Ranks inside the group.
        placement: Option<Ranks>,
    },
}

impl Placement {
    /// The groups that the places count in; none: all machines.
    pub fn groups(&self) -> Vec<String> {
        match self {
            Self::InGroup { node_group: Some(GroupLabels::One(label)), .. } => {
                label.text().split(',').map(|label| label.trim().to_string()).collect()
            }
            Self::InGroup { node_group: Some(GroupLabels::Several(labels)), .. } => {
                labels.iter().map(GroupLabel::text).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The places, in RLinf's notation. A group alone is all of it.
    pub fn places(&self) -> String {
        match self {
            Self::Rank(rank) => rank.to_string(),
            Self::Ranges(text) => text.clone(),
            Self::List(ranks) => listed(ranks),
            Self::InGroup { placement, .. } => placement.as_ref().map_or_else(|| "all".into(), Ranks::text),
        }
    }
}

fn listed(ranks: &[u64]) -> String {
    ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// One label, or a list of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GroupLabels {
    /// One, or several joined by commas.
    One(GroupLabel),
    /// Several.
    Several(Vec<GroupLabel>),
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
    /// As text.
    pub fn text(&self) -> String {
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
    /// In RLinf's notation.
    pub fn text(&self) -> String {
        match self {
            Self::One(rank) => rank.to_string(),
            Self::Ranges(text) => text.clone(),
            Self::List(ranks) => listed(ranks),
        }
    }

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

impl VariableValue {
    /// As a process reads it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Boolean(value) => value.to_string(),
        }
    }
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
        /// Address of the controller; `sim` for a simulated robot. Used where `env.*.override_cfg.robot_ip` is not set.
        robot_ip: Option<String> = None,
        /// Its robot server, as the machine that it is attached to reaches it; plaudit's own key. Used where
        /// `env.*.override_cfg.server_url` is not set.
        server_url: Option<String> = None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_by_number_names_a_gpu_of_this_machine() {
        let rank = Placement::Rank;
        let text = |text: &str| Placement::Ranges(text.into());
        let in_group = Placement::InGroup { node_group: None, placement: Some(Ranks::One(1)) };
        for (key, placement, num_nodes, expected) in [
            ("actor", rank(1), 1, Some(1)),
            ("env, actor,rollout", text("2"), 1, Some(2)),
            ("actor", text("1-3"), 1, Some(1)),
            ("actor", text("2:0-1"), 1, Some(2)),
            ("actor", Placement::List(vec![3, 4]), 1, Some(3)),
            ("actor", text("all"), 1, None),
            ("actor", in_group, 1, None),
            ("reward", rank(1), 1, None),
            ("actor", rank(1), 2, None),
        ] {
            let component_placement = IndexMap::from([(key.to_owned(), placement.clone())]);
            let cluster = Cluster { num_nodes, component_placement, ..Cluster::default() };
            assert_eq!(cluster.gpu_of("actor"), expected, "{key} {placement:?} {num_nodes}");
        }
    }
}
