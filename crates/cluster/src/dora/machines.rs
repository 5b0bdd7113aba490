//! `cluster.yml`: the machines of a plan, for dora's own commands.

use std::fmt::Write;

use super::shell::json;
use crate::plan::Plan;

/// The file's text. dora's own way to bring a cluster up knows neither a token nor the settings of the data plane, so this
/// file is for its other commands.
pub fn machines(plan: &Plan) -> String {
    let head = plan.head();
    let mut out = String::from(
        "# The machines of this run. Do not bring them up with dora's own command: it asks nobody for a token, listens on every\n\
         # address, and leaves out the settings without which large messages get lost.\n",
    );
    let _ = writeln!(
        out,
        "coordinator: {{addr: {}, port: {}}}\nmachines:",
        json(&head.address.to_string()),
        plan.coordinator_port
    );
    for machine in &plan.machines {
        let (user, host) = match machine.ssh.as_deref().and_then(|ssh| ssh.split_once('@')) {
            Some((user, host)) => (Some(user), host),
            None => (None, machine.ssh.as_deref().unwrap_or(&machine.host)),
        };
        let _ = write!(out, "  - {{id: {}, host: {}", machine.id, json(host));
        if let Some(user) = user {
            let _ = write!(out, ", user: {}", json(user));
        }
        if let Some(port) = machine.ssh_port {
            let _ = write!(out, ", port: {port}");
        }
        let _ = write!(
            out,
            ", zenoh_addr: {}, zenoh_port: {}",
            json(&machine.address.to_string()),
            machine.data_port
        );
        let _ = writeln!(out, ", daemon_port: {}}}", machine.daemon_port);
    }
    out
}
