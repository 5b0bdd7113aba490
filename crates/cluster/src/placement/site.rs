//! What there is to be placed on: machines, their GPUs, and groups of machines with robots.

use std::collections::BTreeMap;

use super::error::{Culprit, PlacementError, Problem};
use super::ranks::ranks;

/// The group that every machine is in.
pub const ALL_MACHINES: &str = "cluster";
/// The group whose places are machines, whatever hangs on them.
pub const BY_MACHINE: &str = "node";

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteMachine {
    /// Its address.
    pub host: String,
    /// How many GPUs it has.
    pub gpus: usize,
}

/// A robot, and the machine that it hangs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Robot {
    /// Where its controller is reached.
    pub address: Option<String>,
    /// The machine.
    pub machine: usize,
}

/// What processes on some machines of a group are started with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupEnvironment {
    /// The machines meant; not set: all of the group.
    pub machines: Option<String>,
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
}

/// A group of machines as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupAsWritten {
    /// Its name.
    pub label: Option<String>,
    /// Its machines; not set: all.
    pub machines: Option<String>,
    /// Its robots.
    pub robots: Vec<Robot>,
    /// What its processes are started with.
    pub environments: Vec<GroupEnvironment>,
    /// Whether its places are machines, whatever hangs on them.
    pub by_machine: bool,
}

/// A group of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub label: String,
    /// Its machines, by rank.
    pub machines: Vec<usize>,
    /// The numbers of its robots.
    pub robots: Vec<usize>,
    /// For each of its machines, what processes are started with.
    pub variables: BTreeMap<usize, BTreeMap<String, String>>,
    by_machine: bool,
}

/// A place of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Gpu { machine: usize, gpu: usize },
    Robot { machine: usize, robot: usize },
    Machine { machine: usize },
}

impl Resource {
    pub(super) fn machine(self) -> usize {
        match self {
            Self::Gpu { machine, .. } | Self::Robot { machine, .. } | Self::Machine { machine } => machine,
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Gpu { .. } => "GPU",
            Self::Robot { .. } => "robot",
            Self::Machine { .. } => "machine",
        }
    }
}

/// Everything that can be placed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The machines, by rank.
    pub machines: Vec<SiteMachine>,
    /// The groups, in the order they were written.
    pub groups: Vec<Group>,
    /// Every robot; its number is its place here.
    pub robots: Vec<Robot>,
}

impl Site {
    /// Machines and groups of them, if they fit together.
    pub fn new(machines: Vec<SiteMachine>, written: Vec<GroupAsWritten>) -> Result<Self, PlacementError> {
        if machines.is_empty() {
            return Culprit::Machine(0).err(Problem::NoMachine);
        }
        let mut site = Self { machines, groups: Vec::new(), robots: Vec::new() };
        for (at, group) in written.into_iter().enumerate() {
            site.add_group(at, group)?;
        }
        Ok(site)
    }

    fn add_group(&mut self, at: usize, written: GroupAsWritten) -> Result<(), PlacementError> {
        // A group without a name is there for its robots: RLinf's guides write such for one machine.
        let label = written.label.unwrap_or_default();
        let is_reserved = matches!(label.as_str(), ALL_MACHINES | BY_MACHINE);
        if is_reserved || self.groups.iter().any(|group| !label.is_empty() && group.label == label) {
            let why =
                if is_reserved { "the name has a meaning already" } else { "another group is called so" };
            return Culprit::Group(at).err(Problem::BadLabel { label, why });
        }
        let all = self.machines.len();
        let machines = match &written.machines {
            None => (0..all).collect(),
            Some(text) => ranks(text, all, "machine")
                .map_err(|problem| PlacementError { culprit: Culprit::GroupRanks(at), problem })?,
        };
        let mut variables = BTreeMap::new();
        for (environment, written) in written.environments.iter().enumerate() {
            let culprit = Culprit::Environment { group: at, environment };
            let meant = match &written.machines {
                None => machines.clone(),
                Some(text) => ranks(text, all, "machine")
                    .map_err(|problem| PlacementError { culprit: culprit.clone(), problem })?,
            };
            if let Some(&rank) = meant.iter().find(|machine| !machines.contains(machine)) {
                let there = format!("the group has {}", listed(&machines));
                return culprit.err(Problem::NoSuchRank { kind: "machine", rank, there });
            }
            for machine in meant {
                let here: &mut BTreeMap<_, _> = variables.entry(machine).or_default();
                here.extend(written.variables.clone());
            }
        }
        let robots = self.add_robots(at, &machines, written.robots)?;
        self.groups.push(Group { label, machines, robots, variables, by_machine: written.by_machine });
        Ok(())
    }

    fn add_robots(
        &mut self,
        group: usize,
        machines: &[usize],
        robots: Vec<Robot>,
    ) -> Result<Vec<usize>, PlacementError> {
        let mut numbers = Vec::new();
        for (robot, described) in robots.into_iter().enumerate() {
            let culprit = Culprit::Robot { group, robot };
            if !machines.contains(&described.machine) {
                let (machine, there) = (described.machine, listed(machines));
                return culprit.err(Problem::RobotOutside { machine, there });
            }
            if let Some(address) = &described.address
                && self.robots.iter().any(|other| other.address.as_ref() == Some(address))
            {
                return culprit.err(Problem::RobotListedTwice { address: address.clone() });
            }
            numbers.push(self.robots.len());
            self.robots.push(described);
        }
        Ok(numbers)
    }

    /// The places of a group, in order: its robots, or its GPUs, or its machines.
    pub(super) fn resources(&self, label: &str) -> Option<Vec<Resource>> {
        let every: Vec<usize> = (0..self.machines.len()).collect();
        let (machines, robots, by_machine): (&[usize], &[usize], bool) = match label {
            ALL_MACHINES => (&every, &[], false),
            BY_MACHINE => (&every, &[], true),
            _ => {
                let group = self.groups.iter().find(|group| group.label == label)?;
                (&group.machines, &group.robots, group.by_machine)
            }
        };
        if !by_machine && !robots.is_empty() {
            let place =
                |robot: &usize| Resource::Robot { machine: self.robots[*robot].machine, robot: *robot };
            return Some(robots.iter().map(place).collect());
        }
        let gpus = machines.iter().flat_map(|&machine| {
            (0..self.machines[machine].gpus).map(move |gpu| Resource::Gpu { machine, gpu })
        });
        let gpus: Vec<Resource> = if by_machine { Vec::new() } else { gpus.collect() };
        if gpus.is_empty() {
            return Some(machines.iter().map(|&machine| Resource::Machine { machine }).collect());
        }
        Some(gpus)
    }

    /// The groups that a machine is in.
    pub fn groups_of(&self, machine: usize) -> Vec<String> {
        let has_machine = |group: &&Group| group.machines.contains(&machine) && !group.label.is_empty();
        self.groups.iter().filter(has_machine).map(|group| group.label.clone()).collect()
    }

    /// The groups that were declared, in words.
    pub(super) fn labels(&self) -> String {
        let labels: Vec<&str> =
            self.groups.iter().map(|group| group.label.as_str()).filter(|label| !label.is_empty()).collect();
        if labels.is_empty() {
            "no group has a name".into()
        } else {
            format!("there are {}", labels.join(", "))
        }
    }
}

/// `machine 0`, `machines 0, 2`.
fn listed(machines: &[usize]) -> String {
    let numbers: Vec<String> = machines.iter().map(usize::to_string).collect();
    format!("machine{} {}", if machines.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
