//! From places to processes: on which machine each runs, and what it may use there.

use std::collections::BTreeMap;

use super::error::{Culprit, PlacementError, Problem};
use super::ranks::{numbered, processes_by_place};
use super::site::{ALL_MACHINES, Resource, Site};
use crate::plan::Component;

/// The places of a component, or of several written together (`actor,rollout`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentPlaces {
    /// Their names, as written.
    pub components: String,
    /// The groups of machines that places count in; none: all machines.
    pub groups: Vec<String>,
    /// The places.
    pub places: String,
}

/// A component and its processes, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedComponent {
    /// Which.
    pub component: Component,
    /// How it was written, for messages.
    pub written: ComponentPlaces,
    /// Its processes.
    pub processes: Vec<PlacedProcess>,
}

/// A process that has its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedProcess {
    /// The rank of its machine.
    pub machine: usize,
    /// The GPUs that it may use.
    pub gpus: Vec<usize>,
    /// The numbers of the robots that it moves.
    pub robots: Vec<usize>,
    /// Environment variables of its group there.
    pub variables: BTreeMap<String, String>,
    /// Why it is there.
    pub why: String,
}

/// Gives every component that was asked for its processes.
pub fn resolve(site: &Site, asked: &[ComponentPlaces]) -> Result<Vec<PlacedComponent>, PlacementError> {
    let mut placed: Vec<PlacedComponent> = Vec::new();
    for places in asked {
        let culprit = Culprit::Component(places.components.clone());
        let wrong = |problem| PlacementError { culprit: culprit.clone(), problem };
        let processes = processes(site, places).map_err(wrong)?;
        for name in places.components.split(',').map(str::trim) {
            let component = Component::ALL.into_iter().find(|component| component.name() == name);
            let component = component.ok_or_else(|| wrong(Problem::NoSuchComponent { name: name.into() }))?;
            if placed.iter().any(|other| other.component == component) {
                return culprit.err(Problem::ComponentTwice { name: component.name() });
            }
            if component != Component::Env && processes.iter().any(|process| !process.robots.is_empty()) {
                return culprit.err(Problem::NotForRobots { component: component.name() });
            }
            placed.push(PlacedComponent { component, written: places.clone(), processes: processes.clone() });
        }
    }
    placed.iter().try_for_each(one_process_for_each_robot)?;
    Ok(placed)
}

fn one_process_for_each_robot(placed: &PlacedComponent) -> Result<(), PlacementError> {
    let mut owner: BTreeMap<usize, usize> = BTreeMap::new();
    for (rank, process) in placed.processes.iter().enumerate() {
        for &robot in &process.robots {
            if let Some(first) = owner.insert(robot, rank) {
                let name = |rank: usize| format!("{}-{rank}", placed.component.name());
                let (first, second) = (name(first), name(rank));
                let problem = Problem::RobotPlacedTwice { robot, first, second };
                return Culprit::Component(placed.written.components.clone()).err(problem);
            }
        }
    }
    Ok(())
}

fn processes(site: &Site, asked: &ComponentPlaces) -> Result<Vec<PlacedProcess>, Problem> {
    let labels = if asked.groups.is_empty() { vec![ALL_MACHINES.to_string()] } else { asked.groups.clone() };
    let mut resources: Vec<(Resource, &str)> = Vec::new();
    for label in &labels {
        let here = site.resources(label);
        let no_group = || Problem::NoSuchGroup { label: label.clone(), there: site.labels() };
        resources.extend(here.ok_or_else(no_group)?.into_iter().map(|resource| (resource, label.as_str())));
    }
    let kind = resources.first().map_or("machine", |(resource, _)| resource.kind());
    let by_process = processes_by_place(&asked.places, resources.len(), kind).map_err(|problem| {
        let Problem::NoSuchRank { kind, rank, .. } = problem else { return problem };
        let whose =
            if asked.groups.is_empty() { String::new() } else { format!(" in {}", labels.join(", ")) };
        let there = format!("{}{whose}{}", numbered(kind, resources.len()), without_gpus(kind));
        Problem::NoSuchRank { kind, rank, there }
    })?;
    let placed = by_process.iter().enumerate().map(|(rank, places)| {
        let own: Vec<(Resource, &str)> = places.iter().map(|&place| resources[place]).collect();
        process(site, rank, &own, places)
    });
    placed.collect()
}

/// Places are machines only where nobody has a GPU, which surprises those who meant one.
fn without_gpus(kind: &str) -> &'static str {
    if kind == "machine" { " (places are machines, as none of these has GPUs)" } else { "" }
}

fn process(
    site: &Site,
    rank: usize,
    own: &[(Resource, &str)],
    places: &[usize],
) -> Result<PlacedProcess, Problem> {
    let (first, label) = own[0]; // a process has at least one place
    if let Some((other, _)) = own.iter().find(|(other, _)| other.machine() != first.machine()) {
        let (first, second) = (first.machine(), other.machine());
        return Err(Problem::AcrossMachines { process: rank, first, second });
    }
    if let Some((other, _)) = own.iter().find(|(other, _)| other.kind() != first.kind()) {
        return Err(Problem::TwoKinds { process: rank, first: first.kind(), second: other.kind() });
    }
    let machine = first.machine();
    let group = site.groups.iter().find(|group| group.label == label);
    let variables = group.and_then(|group| group.variables.get(&machine)).cloned().unwrap_or_default();
    let numbers: Vec<String> = places.iter().map(usize::to_string).collect();
    let whose = if group.is_some() { format!(" of {label}") } else { String::new() };
    let gpus = own.iter().filter_map(|(resource, _)| match resource {
        Resource::Gpu { gpu, .. } => Some(*gpu),
        _ => None,
    });
    let robots = own.iter().filter_map(|(resource, _)| match resource {
        Resource::Robot { robot, .. } => Some(*robot),
        _ => None,
    });
    Ok(PlacedProcess {
        machine,
        gpus: gpus.collect(),
        robots: robots.collect(),
        variables,
        why: format!("{} {}{whose}", first.kind(), numbers.join(", ")),
    })
}
