//! `graph.yml`: every process of a plan as dora starts it.

use std::fmt::Write;

use super::arguments::worker;
use super::files;
use super::shell::{json, line};
use crate::plan::{Plan, Process};

/// A process that fails is started again, so often in so many seconds.
const MAX_RESTARTS: u32 = 20;
const RESTART_WINDOW_SECS: f64 = 120.0;
/// It waits so long before, then twice as long, up to the longest.
const RESTART_DELAY_SECS: f64 = 0.5;
const LONGEST_RESTART_DELAY_SECS: f64 = 2.0;
/// A learner may take its time to save what it knows when everybody else is done.
const FINISH_GRACE_SECS: f64 = 600.0;

/// The file's text.
pub fn graph(plan: &Plan) -> String {
    let mut out =
        format!("# {}: generated from plan.json, and overwritten by the next run.\nnodes:\n", plan.name);
    for process in &plan.processes {
        // Writing to a text does not fail.
        let _ = node(&mut out, plan, process);
    }
    out
}

fn node(out: &mut String, plan: &Plan, process: &Process) -> std::fmt::Result {
    let machine = &plan.machines[process.machine];
    let folder = plan.run_dir.join(files::FOLDER);
    writeln!(out, "  - id: {}", process.id)?;
    writeln!(out, "    path: {}", json(&machine.plaudit.display().to_string()))?;
    writeln!(out, "    args: {}", json(&line(&worker(plan, process))))?;
    let folder = json(&folder.display().to_string());
    writeln!(out, "    deploy: {{machine: {}, working_dir: {folder}}}", machine.id)?;
    writeln!(out, "    shared_memory_pool_size: {}", process.pool_bytes)?;
    writeln!(out, "    restart_policy: on-failure")?;
    writeln!(out, "    max_restarts: {MAX_RESTARTS}")?;
    writeln!(out, "    restart_window: {RESTART_WINDOW_SECS:?}")?;
    writeln!(out, "    restart_delay: {RESTART_DELAY_SECS:?}")?;
    writeln!(out, "    max_restart_delay: {LONGEST_RESTART_DELAY_SECS:?}")?;
    writeln!(out, "    finish_grace_secs: {FINISH_GRACE_SECS:?}")?;
    writeln!(out, "    env:")?;
    for (name, value) in &process.environment {
        writeln!(out, "      {}: {}", json(name), json(value))?;
    }
    let inputs: Vec<_> = plan.inputs(&process.id).collect();
    if !inputs.is_empty() {
        writeln!(out, "    inputs:")?;
    }
    for edge in inputs {
        writeln!(
            out,
            "      {}: {{source: {}/{}, queue_size: {}}}",
            edge.input, edge.from, edge.output, edge.queue
        )?;
    }
    let outputs: Vec<&str> = plan.outputs(&process.id).map(|edge| edge.output.as_str()).collect();
    writeln!(out, "    outputs: [{}]", outputs.join(", "))
}
