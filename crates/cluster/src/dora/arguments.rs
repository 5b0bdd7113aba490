//! The words that dora's programs are started with.

use std::net::SocketAddr;

use super::files;
use crate::plan::{Machine, Plan, Process};

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).into()
}

fn dora_file(plan: &Plan, name: &str) -> String {
    plan.run_dir.join(files::FOLDER).join(name).display().to_string()
}

/// Where the coordinator listens.
fn coordinator_address(plan: &Plan) -> [String; 4] {
    let port = plan.coordinator_port.to_string();
    ["--coordinator-addr".into(), plan.head().address.to_string(), "--coordinator-port".into(), port]
}

/// The coordinator: bound to the first machine's address alone, and asking for a token.
pub fn coordinator(plan: &Plan) -> Vec<String> {
    let mut line = words(["coordinator", "--auth", "--quiet", "--interface"]);
    line.push(plan.head().address.to_string());
    line.extend(["--port".into(), plan.coordinator_port.to_string()]);
    line.extend(["--store".into(), format!("redb:{}", dora_file(plan, files::STORE))]);
    line
}

/// The daemon of a machine: bound to its address alone, dialling every other one, and looking for nobody else.
pub fn daemon(plan: &Plan, machine: &Machine) -> Vec<String> {
    let mut line = words(["daemon", "--quiet", "--zenoh-no-multicast", "--machine-id"]);
    line.push(machine.id.clone());
    line.extend(coordinator_address(plan));
    line.extend(["--local-listen-port".into(), machine.daemon_port.to_string()]);
    line.extend(["--zenoh-listen".into(), data_address(machine).to_string()]);
    let others = plan.machines.iter().filter(|other| other.rank != machine.rank);
    let others: Vec<String> = others.map(|other| format!("tcp/{}", data_address(other))).collect();
    if !others.is_empty() {
        line.extend(["--zenoh-connect".into(), others.join(",")]);
    }
    line.extend(["--zenoh-config-overlay".into(), dora_file(plan, files::OVERLAY)]);
    line
}

fn data_address(machine: &Machine) -> SocketAddr {
    SocketAddr::new(machine.address, machine.data_port)
}

/// What a process of the plan is started with, after the program's name.
pub fn worker(plan: &Plan, process: &Process) -> Vec<String> {
    let component = process.components[0].name(); // a process does something
    let mut line = words(["cluster", "worker", "--plan"]);
    line.push(plan.run_dir.join(Plan::FILE).display().to_string());
    line.extend(["--component".into(), component.into(), "--rank".into(), process.rank.to_string()]);
    line
}

/// Starts the processes.
pub fn start(plan: &Plan) -> Vec<String> {
    let mut line = words(["start", "--detach", "--name"]);
    line.extend([plan.name.clone(), dora_file(plan, files::GRAPH)]);
    line.extend(coordinator_address(plan));
    line
}

/// Ends the processes: asks them, and after so many seconds insists.
pub fn stop(plan: &Plan, grace_secs: u64) -> Vec<String> {
    let mut line = words(["stop", "--name"]);
    line.extend([plan.name.clone(), "--grace-duration".into(), format!("{grace_secs}s")]);
    line.extend(coordinator_address(plan));
    line
}

/// Ends the processes and starts them again.
pub fn restart(plan: &Plan, grace_secs: u64) -> Vec<String> {
    let mut line = words(["restart", "--name"]);
    line.extend([plan.name.clone(), "--grace-duration".into(), format!("{grace_secs}s")]);
    line.extend(coordinator_address(plan));
    line
}

/// The dataflows that the coordinator knows of, as lines of JSON.
pub fn list_dataflows(plan: &Plan) -> Vec<String> {
    let mut line = words(["list", "--format", "json"]);
    line.extend(coordinator_address(plan));
    line
}

/// The processes that run, as lines of JSON.
pub fn list_nodes(plan: &Plan) -> Vec<String> {
    let mut line = words(["node", "list", "--format", "json", "--dataflow"]);
    line.push(plan.name.clone());
    line.extend(coordinator_address(plan));
    line
}

/// The daemons that are connected, as a table.
pub fn list_machines(plan: &Plan) -> Vec<String> {
    let mut line = words(["cluster", "status"]);
    line.extend(coordinator_address(plan));
    line
}
