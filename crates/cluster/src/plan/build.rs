//! From placed components to a plan.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use super::{Component, Edge, FORMAT, LinkSettings, Machine, Plan, Port, Process};
use crate::placement::{
    ComponentPlaces, Culprit, PlacedComponent, PlacedProcess, PlacementError, Problem, Site, resolve,
};

/// The longest message that is sent in one piece, in bytes: a part of four mebibytes and its header.
pub const LONGEST_MESSAGE: u64 = (4 << 20) + 64;
/// The least shared memory that a process is given for its messages: dora's own default loses messages of some megabytes.
pub const LEAST_POOL_BYTES: u64 = 64 << 20;

/// Variables that say where libraries are. dora hands them on only from the environment of its daemon.
const SEARCH_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// What keeps glibc from giving the memory of every message of some megabytes back to the system, and from asking for it anew, page by
/// page, for the next one: that takes three times as long as the message. Other C libraries do not read them.
const KEEP_MEMORY: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "33554432"), ("MALLOC_TRIM_THRESHOLD_", "1073741824")];

/// How a machine is reached, and where its programs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineAccess {
    /// Its address, as the others reach it.
    pub address: IpAddr,
    /// `user@host` for ssh; not set: this machine.
    pub ssh: Option<String>,
    /// The port of its ssh server.
    pub ssh_port: Option<u16>,
    /// The program plaudit there.
    pub plaudit: PathBuf,
    /// The program dora there.
    pub dora: PathBuf,
    /// The port that its messages come in by.
    pub data_port: u16,
    /// The port by which its processes reach its daemon.
    pub daemon_port: u16,
}

/// What is to be planned, beside the places.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// The version of plaudit.
    pub plaudit: String,
    /// What the run is called.
    pub name: String,
    /// The run directory, absolute.
    pub run_dir: PathBuf,
    /// The name of the config in it.
    pub config: PathBuf,
    /// The folder that the run was started in.
    pub directory: PathBuf,
    /// The port of the coordinator.
    pub coordinator_port: u16,
    /// For each machine of the site, how it is reached.
    pub access: Vec<MachineAccess>,
    /// Environments in all.
    pub envs: usize,
    /// Whether frames are scored by a model.
    pub uses_reward: bool,
    /// Whether somebody learns. Else a person moves a robot: there is no actor, and nothing chooses actions.
    pub learns: bool,
    /// How messages are kept from getting lost.
    pub link: LinkSettings,
}

/// Who runs where.
pub fn plan(site: &Site, asked: &[ComponentPlaces], request: &PlanRequest) -> Result<Plan, PlacementError> {
    let placed = resolve(site, asked)?;
    let find = |component| placed.iter().find(|placed| placed.component == component);
    for component in [Component::Actor, Component::Rollout].into_iter().filter(|_| !request.learns) {
        if let Some(placed) = find(component) {
            let problem = Problem::NothingToLearn { component: component.name() };
            return Culprit::Component(placed.written.components.clone()).err(problem);
        }
    }
    let actor = match find(Component::Actor) {
        Some(placed) => placed.processes.clone(),
        None if request.learns => vec![beside(site, None, "not placed: the first machine")],
        None => Vec::new(),
    };
    if let (Some(placed), 2..) = (find(Component::Actor), actor.len()) {
        let problem = Problem::SeveralActors { processes: actor.len() };
        return Culprit::Component(placed.written.components.clone()).err(problem);
    }
    let envs = find(Component::Env).map_or_else(
        || vec![PlacedProcess { why: "not placed: the first machine".into(), ..PlacedProcess::default() }],
        |placed| placed.processes.clone(),
    );
    share_out(request.envs, &envs, find(Component::Env))?;
    let rollouts = find(Component::Rollout);
    if let Some(placed) = rollouts.filter(|placed| placed.processes.len() > envs.len()) {
        let problem = Problem::IdleRollouts { rollouts: placed.processes.len(), envs: envs.len() };
        return Culprit::Component(placed.written.components.clone()).err(problem);
    }
    let rollouts = rollouts.map(|placed| placed.processes.clone());
    let apart = rollouts.clone().filter(|rollouts| !is_shared(&envs, rollouts));
    let unplaced =
        if request.learns { "not placed: beside the actor" } else { "not placed: the first machine" };
    let rewards = find(Component::Reward)
        .map_or_else(|| vec![beside(site, actor.first(), unplaced)], |placed| placed.processes.clone());
    let rewards = if request.uses_reward { rewards } else { Vec::new() };
    let mut processes = processes_of(Component::Actor, &actor);
    let shared = match (&apart, request.learns) {
        (None, true) => EnvRollouts::Here(rollouts.as_deref()),
        (Some(_), _) | (_, false) => EnvRollouts::Apart,
    };
    processes.extend(env_processes(&envs, &shared, request.envs));
    processes.extend(apart.iter().flat_map(|apart| processes_of(Component::Rollout, apart)));
    processes.extend(processes_of(Component::Reward, &rewards));
    let edges = edges(&processes, request.link.window);
    for process in &mut processes {
        finish(process, site, &edges, request.link.window);
    }
    Ok(Plan {
        format: FORMAT,
        plaudit: request.plaudit.clone(),
        name: request.name.clone(),
        run_dir: request.run_dir.clone(),
        config: request.config.clone(),
        directory: request.directory.clone(),
        coordinator_port: request.coordinator_port,
        machines: machines(site, request),
        processes,
        edges,
        link: request.link,
    })
}

/// A process that nobody placed: with another, or on the first machine with its first GPU.
fn beside(site: &Site, other: Option<&PlacedProcess>, why: &str) -> PlacedProcess {
    let first_gpu = (site.machines[0].gpus > 0).then_some(0); // a site has a machine
    let (machine, gpus) =
        other.map_or((0, first_gpu.into_iter().collect()), |other| (other.machine, other.gpus.clone()));
    PlacedProcess { machine, gpus, why: why.into(), ..PlacedProcess::default() }
}

fn share_out(
    envs: usize,
    processes: &[PlacedProcess],
    placed: Option<&PlacedComponent>,
) -> Result<(), PlacementError> {
    if envs.is_multiple_of(processes.len()) && envs > 0 {
        return Ok(());
    }
    let name = placed.map_or_else(|| "env".to_string(), |placed| placed.written.components.clone());
    Culprit::Component(name).err(Problem::UnevenEnvs { envs, processes: processes.len() })
}

/// Whether each rollout stands beside the environment of its rank, so that one process can be both.
fn is_shared(envs: &[PlacedProcess], rollouts: &[PlacedProcess]) -> bool {
    let machines = |processes: &[PlacedProcess]| -> Vec<usize> {
        processes.iter().map(|process| process.machine).collect()
    };
    machines(envs) == machines(rollouts)
}

/// Who chooses the actions of environments.
enum EnvRollouts<'a> {
    /// Their own processes, which may also use what rollouts were given.
    Here(Option<&'a [PlacedProcess]>),
    /// Processes of their own, or a person.
    Apart,
}

fn env_processes(envs: &[PlacedProcess], rollouts: &EnvRollouts<'_>, all: usize) -> Vec<Process> {
    let mut processes = processes_of(Component::Env, envs);
    let share = all / envs.len();
    for (rank, process) in processes.iter_mut().enumerate() {
        process.envs = (rank * share, (rank + 1) * share);
    }
    let EnvRollouts::Here(rollouts) = rollouts else { return processes };
    for (rank, process) in processes.iter_mut().enumerate() {
        process.components.push(Component::Rollout);
        if let Some(rollout) = rollouts.and_then(|rollouts| rollouts.get(rank)) {
            process.gpus.extend(&rollout.gpus);
            process.gpus.sort_unstable();
            process.gpus.dedup();
        }
    }
    processes
}

fn processes_of(component: Component, placed: &[PlacedProcess]) -> Vec<Process> {
    let process = |(rank, placed): (usize, &PlacedProcess)| Process {
        id: format!("{}-{rank}", component.name()),
        components: vec![component],
        rank,
        world_size: 0,
        machine: placed.machine,
        gpus: placed.gpus.clone(),
        robots: placed.robots.clone(),
        envs: (0, 0),
        environment: placed.variables.clone(),
        pool_bytes: 0,
        why: placed.why.clone(),
    };
    let mut processes: Vec<Process> = placed.iter().enumerate().map(process).collect();
    let world_size = processes.len();
    processes.iter_mut().for_each(|process| process.world_size = world_size);
    processes
}

/// What follows from the other processes: shared memory for the messages, and the variables that ranks are told by.
fn finish(process: &mut Process, site: &Site, edges: &[Edge], window: usize) {
    let receivers = edges.iter().filter(|edge| edge.from == process.id).count() as u64;
    let needed = (window as u64 + 2) * LONGEST_MESSAGE * receivers;
    process.pool_bytes = needed.max(LEAST_POOL_BYTES);
    process.environment.retain(|name, _| !SEARCH_PATHS.contains(&name.as_str()));
    for (name, value) in KEEP_MEMORY {
        process.environment.entry(name.into()).or_insert_with(|| value.into());
    }
    process.environment.insert("RANK".into(), process.rank.to_string());
    process.environment.insert("WORLD_SIZE".into(), process.world_size.to_string());
    if site.machines[process.machine].gpus > 0 {
        let gpus: Vec<String> = process.gpus.iter().map(usize::to_string).collect();
        // A process that was given no GPU sees none.
        process.environment.insert("CUDA_VISIBLE_DEVICES".into(), gpus.join(","));
    }
}

/// Who talks to whom. What env processes share is dealt out by rank.
fn edges(processes: &[Process], window: usize) -> Vec<Edge> {
    let of = |component: Component| -> Vec<&Process> {
        processes.iter().filter(|process| process.components[0] == component).collect()
    };
    let (actors, envs) = (of(Component::Actor), of(Component::Env));
    let (rollouts, rewards) = (of(Component::Rollout), of(Component::Reward));
    let mut edges = Vec::new();
    let mut talk = |one: &Process, other: &Process, there: Port, back: Port| {
        // Parts, acknowledgements and greetings, of a sender that resends.
        let queue = 4 * window + 64;
        for (port, from, to) in [(there, one, other), (back, other, one)] {
            let (from, to) = (from.id.clone(), to.id.clone());
            edges.push(Edge { port, output: to.clone(), input: from.clone(), from, to, queue });
        }
    };
    for actor in &actors {
        envs.iter().for_each(|env| talk(actor, env, Port::Command, Port::Segment));
        rewards.iter().for_each(|reward| talk(actor, reward, Port::Frames, Port::Scores));
    }
    // Neighbours share a rollout, so that it can choose for their rows together.
    for (rank, env) in envs.iter().enumerate().filter(|_| !rollouts.is_empty()) {
        talk(env, rollouts[rank * rollouts.len() / envs.len()], Port::Observations, Port::Actions);
    }
    for (env, reward) in dealt_out(&envs, &rewards) {
        talk(env, reward, Port::Frames, Port::Scores);
    }
    edges
}

/// Each of the fewer serves, or is served by, every so many-th of the others.
fn dealt_out<'a>(envs: &[&'a Process], others: &[&'a Process]) -> Vec<(&'a Process, &'a Process)> {
    if others.is_empty() {
        return Vec::new();
    }
    let pairs =
        (0..envs.len().max(others.len())).map(|at| (envs[at % envs.len()], others[at % others.len()]));
    pairs.collect()
}

fn machines(site: &Site, request: &PlanRequest) -> Vec<Machine> {
    let both = site.machines.iter().zip(&request.access).enumerate();
    both.map(|(rank, (machine, access))| {
        let groups = site.groups.iter().filter_map(|group| group.variables.get(&rank));
        let paths = groups.flatten().filter(|(name, _)| SEARCH_PATHS.contains(&name.as_str()));
        Machine {
            rank,
            id: format!("node-{rank}"),
            host: machine.host.clone(),
            address: access.address,
            ssh: access.ssh.clone(),
            ssh_port: access.ssh_port,
            groups: site.groups_of(rank),
            gpus: machine.gpus,
            plaudit: access.plaudit.clone(),
            dora: access.dora.clone(),
            data_port: access.data_port,
            daemon_port: access.daemon_port,
            environment: paths
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<BTreeMap<String, String>>(),
        }
    })
    .collect()
}
