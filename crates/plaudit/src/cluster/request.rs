//! From the `cluster` block of a config to a plan. Whatever cannot be is named with the line that asks for it.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use plaudit_cluster::placement::{
    ComponentPlaces, Culprit, GroupAsWritten, GroupEnvironment, PlacementError, Problem, Robot, Site,
    SiteMachine,
};
use plaudit_cluster::plan::{MachineAccess, PlanRequest, plan};
use plaudit_cluster::{LinkSettings, Plan, machine};

use super::VERSION;
use crate::config::LoadedConfig;
use crate::config::blocks::cluster::{Cluster, NodeAddress, NodeGroup, Ranks};
use crate::config::blocks::env::EnvType;
use crate::config::blocks::reward::WorkerType;
use crate::failure::Failure;
use crate::{program, run};

/// The config of a plan in its run directory: as it was written, so that a process tells what was asked for from what is a
/// default. `config.yaml` beside it is the learner's, with everything in it.
pub(crate) const CONFIG: &str = "config_as_written.yaml";

/// Plans a run. `hosts` are the machines in place of those that the config lists.
pub(crate) fn plan_of(
    loaded: &LoadedConfig,
    hosts: Option<&[String]>,
    run_dir: &Path,
) -> Result<Plan, Failure> {
    let cluster = &loaded.config.cluster;
    let nodes = nodes(loaded, hosts)?;
    let addresses = addresses(loaded, &nodes)?;
    let access = access(loaded, &nodes, &addresses)?;
    let machines = nodes.iter().zip(&access).map(|(node, access)| SiteMachine {
        host: node.host.clone(),
        gpus: node.gpus.unwrap_or_else(|| if access.ssh.is_none() { machine::gpus() } else { 0 }),
    });
    let wrong = |error: PlacementError| placement_failure(loaded, &error);
    let groups = groups(loaded)?;
    let site = Site::new(machines.collect(), groups).map_err(wrong)?;
    let asked: Vec<ComponentPlaces> = cluster
        .component_placement
        .iter()
        .map(|(components, placement)| ComponentPlaces {
            components: components.clone(),
            groups: placement.groups(),
            places: placement.places(),
        })
        .collect();
    let (learns, reward) = (learns(loaded), &loaded.config.reward);
    let request = PlanRequest {
        plaudit: VERSION.into(),
        name: dataflow_name(&run::run_name(loaded)),
        run_dir: run_dir.to_path_buf(),
        config: CONFIG.into(),
        directory: std::env::current_dir()
            .map_err(|error| Failure::runtime(format!("cannot tell which folder this is: {error}"), None))?,
        coordinator_port: port(cluster.coordinator_port),
        access,
        envs: if learns { loaded.config.env.train.total_num_envs.unwrap_or(1) } else { 1 },
        learns,
        // A model on a server has a process already.
        uses_reward: reward.use_reward_model && reward.worker_type == WorkerType::Local,
        link: link(cluster),
    };
    plan(&site, &asked, &request).map_err(wrong)
}

/// Whether there is something to learn. A config with a robot to evaluate on and no environments to train in is for a person
/// who moves that robot.
fn learns(loaded: &LoadedConfig) -> bool {
    let is_robot = loaded.config.env.eval.env_type == EnvType::Realworld;
    !is_robot || loaded.is_written("env.train")
}

/// A range of the config holds every port below this.
fn port(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn link(cluster: &Cluster) -> LinkSettings {
    let link = &cluster.link;
    LinkSettings {
        window: link.window,
        resend_secs: link.resend_secs,
        dead_secs: link.dead_secs,
        give_up_secs: link.give_up_secs,
    }
}

/// dora takes letters, numbers, `-`, `_` and `.` in a name.
fn dataflow_name(name: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    name.chars().map(plain).collect()
}

/// The machines by rank.
fn nodes(loaded: &LoadedConfig, hosts: Option<&[String]>) -> Result<Vec<NodeAddress>, Failure> {
    let cluster = &loaded.config.cluster;
    let declared = usize::try_from(cluster.num_nodes).unwrap_or(usize::MAX);
    let nodes = match hosts {
        // What else is known of a machine holds for the one that takes its place.
        Some(hosts) => {
            let known = |rank: usize| cluster.nodes.get(rank).cloned().unwrap_or_default();
            hosts
                .iter()
                .enumerate()
                .map(|(rank, host)| NodeAddress { host: host.clone(), ..known(rank) })
                .collect()
        }
        None if cluster.nodes.is_empty() && declared == 1 => vec![NodeAddress::default()],
        None => cluster.nodes.clone(),
    };
    let is_declared = loaded.is_written("cluster.num_nodes") || cluster.nodes.is_empty();
    if nodes.len() != declared && is_declared {
        let problem = Problem::MachineCount { declared, listed: nodes.len() };
        let hint = "list them by rank: cluster.nodes: [{host: 10.0.0.1}, {host: 10.0.0.2}]";
        return Err(loaded.problem("cluster.num_nodes", problem.to_string(), hint).into());
    }
    Ok(nodes)
}

/// Where each machine is.
fn addresses(loaded: &LoadedConfig, nodes: &[NodeAddress]) -> Result<Vec<IpAddr>, Failure> {
    let mut addresses = Vec::new();
    for (rank, node) in nodes.iter().enumerate() {
        let key = format!("cluster.nodes.{rank}.host");
        let address = resolve(&node.host).map_err(|why| {
            let hint = "write an address, or a name that this machine can look up (`getent hosts NAME`)";
            loaded.problem(&key, format!("`{}` does not resolve: {why}", node.host), hint)
        })?;
        addresses.push(address);
    }
    // Loopback is this machine for everybody, so it cannot be one of several.
    let outside = addresses.iter().any(|address| !address.is_loopback());
    if let Some(rank) = addresses.iter().position(|address| outside && address.is_loopback()) {
        let message =
            format!("`{}` is a machine's own name for itself: the others cannot reach it", nodes[rank].host);
        let hint = "write the address that the other machines reach it by";
        return Err(loaded.problem(&format!("cluster.nodes.{rank}.host"), message, hint).into());
    }
    Ok(addresses)
}

fn resolve(host: &str) -> Result<IpAddr, String> {
    let found = (host, 0u16).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    found.sort_by_key(IpAddr::is_ipv6); // what both have is used
    found.first().copied().ok_or_else(|| "it has no address".to_string())
}

/// Whether an address is one of this machine's.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn access(
    loaded: &LoadedConfig,
    nodes: &[NodeAddress],
    addresses: &[IpAddr],
) -> Result<Vec<MachineAccess>, Failure> {
    let cluster = &loaded.config.cluster;
    let own = program::path()
        .map_err(|error| Failure::runtime(format!("cannot tell where this program is: {error}"), None))?;
    let mut all = Vec::new();
    for (rank, (node, &address)) in nodes.iter().zip(addresses).enumerate() {
        for (name, text) in
            [("host", Some(&node.host)), ("ssh_host", node.ssh_host.as_ref()), ("user", node.user.as_ref())]
        {
            if text.is_some_and(|text| text.starts_with('-')) {
                let key = format!("cluster.nodes.{rank}.{name}");
                return Err(loaded.problem(&key, "ssh would take it for an option", "write a name").into());
            }
        }
        let target = node.ssh_host.as_ref().unwrap_or(&node.host);
        let target = node.user.as_ref().map_or_else(|| target.clone(), |user| format!("{user}@{target}"));
        // Machines with one address are several daemons on one machine.
        let before = addresses[..rank].iter().filter(|other| **other == address).count() as u64;
        let dora = node.dora.as_ref().or(cluster.dora.as_ref()).cloned().unwrap_or_else(|| "dora".into());
        all.push(MachineAccess {
            address,
            ssh: (!is_here(address)).then_some(target),
            ssh_port: node.ssh_port.map(port),
            plaudit: node.plaudit.as_ref().map_or_else(|| own.clone(), |path| program(path)),
            dora: program(&dora),
            data_port: port(cluster.data_port + before),
            daemon_port: port(cluster.daemon_port + before),
        });
    }
    Ok(all)
}

/// A program by its path, wherever it is started from; or by its name alone, as PATH has it.
fn program(path: &str) -> PathBuf {
    if path.contains('/') { std::path::absolute(path).unwrap_or_else(|_| path.into()) } else { path.into() }
}

fn groups(loaded: &LoadedConfig) -> Result<Vec<GroupAsWritten>, Failure> {
    let groups = loaded.config.cluster.node_groups.iter().enumerate();
    groups.map(|(at, group)| group_of(loaded, at, group)).collect()
}

fn group_of(loaded: &LoadedConfig, at: usize, group: &NodeGroup) -> Result<GroupAsWritten, Failure> {
    let robots = group.hardware.iter().flat_map(|hardware| &hardware.configs).map(|robot| Robot {
        address: robot.robot_ip.clone(),
        machine: usize::try_from(robot.node_rank).unwrap_or(usize::MAX),
    });
    let mut environments = Vec::new();
    for (number, written) in group.env_configs.iter().enumerate() {
        let mut variables = BTreeMap::new();
        for (name, value) in written.env_vars.iter().flatten() {
            let key = format!("cluster.node_groups.{at}.env_configs.{number}.env_vars");
            survives(name, &value.text()).map_err(|why| {
                let hint = "set it in the environment that plaudit and its daemons are started in";
                loaded.problem(&key, format!("{name}: {why}"), hint)
            })?;
            variables.insert(name.clone(), value.text());
        }
        environments
            .push(GroupEnvironment { machines: written.node_ranks.as_ref().map(Ranks::text), variables });
    }
    Ok(GroupAsWritten {
        label: group.label.as_ref().map(|label| label.text()),
        machines: group.node_ranks.as_ref().map(Ranks::text),
        robots: robots.collect(),
        environments,
        by_machine: group.ignore_hardware,
    })
}

/// Whether a variable reaches a process as it was written: dora refuses some names, expands `$`, and reads numbers as such.
fn survives(name: &str, value: &str) -> Result<(), &'static str> {
    let refused = ["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "ZENOH_CONFIG"];
    if refused.contains(&name) || name.starts_with("DORA_") {
        return Err("dora passes this variable on to no process");
    }
    if ["RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES"].contains(&name) {
        return Err("the placement decides it");
    }
    if name.is_empty() || name.contains(['=', '\0', ' ', '\t', '\n']) {
        return Err("this is no name of a variable");
    }
    if value.contains('$') {
        return Err("dora would expand the `$` in its value");
    }
    let changed =
        value.parse::<f64>().is_ok_and(|number| value.parse::<i64>().is_err() && number.to_string() != value);
    if changed || value.parse::<i64>().is_ok_and(|number| number.to_string() != value) {
        return Err("dora would write this number another way");
    }
    Ok(())
}

/// A placement that cannot be, at the line that asks for it.
fn placement_failure(loaded: &LoadedConfig, error: &PlacementError) -> Failure {
    let key = match &error.culprit {
        Culprit::Component(name) => format!("cluster.component_placement.{name}"),
        Culprit::Group(group) => format!("cluster.node_groups.{group}.label"),
        Culprit::GroupRanks(group) => format!("cluster.node_groups.{group}.node_ranks"),
        Culprit::Robot { group, robot } => format!("cluster.node_groups.{group}.hardware.configs.{robot}"),
        Culprit::Environment { group, environment } => {
            format!("cluster.node_groups.{group}.env_configs.{environment}.node_ranks")
        }
        Culprit::Machine(rank) => format!("cluster.nodes.{rank}"),
    };
    loaded.problem(&key, error.to_string(), hint(&error.problem)).into()
}

/// What to do about it.
fn hint(problem: &Problem) -> &'static str {
    match problem {
        Problem::NoSuchRank { kind: "machine", .. } => {
            "say how many GPUs a machine has with cluster.nodes[].gpus, or put several processes on one place: 0:0-3"
        }
        Problem::NoSuchRank { .. } => {
            "ranks count from 0; cluster.nodes[].gpus says how many GPUs a machine has"
        }
        Problem::NoSuchGroup { .. } | Problem::BadLabel { .. } => {
            "groups are declared in cluster.node_groups, with a label"
        }
        Problem::NoSuchComponent { .. } => {
            "leave it out; a model on a server of its own is `plaudit serve`, with reward.worker_type: api"
        }
        Problem::ComponentTwice { .. } => "write each component once",
        Problem::RobotPlacedTwice { .. }
        | Problem::RobotListedTwice { .. }
        | Problem::RobotOutside { .. } => {
            "give each robot one entry, on a machine of its group, and one env process"
        }
        Problem::NotForRobots { .. } => "place it in another group, such as one with GPUs",
        Problem::SeveralActors { .. } => {
            "place the actor on one GPU; reward models are trained on several by `mpirun` or `srun`"
        }
        Problem::NothingToLearn { .. } => "leave it out, or write env.train: a robot to learn with",
        Problem::IdleRollouts { .. } => "give rollout as many processes as env has, or fewer",
        Problem::UnevenEnvs { .. } => {
            "make env.train.total_num_envs a multiple of the number of env processes"
        }
        Problem::AcrossMachines { .. } | Problem::TwoKinds { .. } => {
            "give a process places of one machine and one kind"
        }
        Problem::NotRanks { .. }
        | Problem::Backwards { .. }
        | Problem::TooMany { .. }
        | Problem::GivenTwice { .. }
        | Problem::NotAscending { .. }
        | Problem::ProcessGap { .. }
        | Problem::Uneven { .. } => {
            "write places such as 0, 0-3, 0,2 or all, with processes after a colon: 0-1:0-3"
        }
        Problem::NoMachine | Problem::MachineCount { .. } => "list the machines in cluster.nodes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_dora_would_change_are_refused() {
        for (name, value, is_fine) in [
            ("OMP_NUM_THREADS", "32", true),
            ("MUJOCO_GL", "egl", true),
            ("RATE", "1.5", true),
            ("RATE", "1.50", false),
            ("CODE", "007", false),
            ("PATH", "$HOME/bin", false),
            ("LD_PRELOAD", "/lib/x.so", false),
            ("DORA_AUTH_TOKEN", "x", false),
            ("RANK", "3", false),
            ("a b", "x", false),
        ] {
            assert_eq!(survives(name, value).is_ok(), is_fine, "{name}={value}");
        }
    }

    #[test]
    fn names_are_those_dora_takes() {
        assert_eq!(dataflow_name("pick cube/1"), "pick-cube-1");
    }
}
