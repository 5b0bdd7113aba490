//! How a run is doing: what its processes last wrote of themselves, and what dora says of them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use plaudit_cluster::dora::NodeState;
use plaudit_cluster::worker::{LedgerLine, verify};
use plaudit_cluster::{Plan, Process};
use serde::Serialize;
use serde_json::Value;

use crate::workers::LedgerFile;

/// One process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WorkerStatus {
    pub(crate) process: String,
    pub(crate) machine: String,
    /// `Running`, …; `-` where dora does not know it.
    pub(crate) state: String,
    pub(crate) restarts: String,
    /// What it last wrote.
    pub(crate) last: Option<Value>,
    pub(crate) cpu: String,
    pub(crate) memory: String,
}

/// Every process of a plan.
pub(crate) fn workers(plan: &Plan, nodes: &[NodeState]) -> Vec<WorkerStatus> {
    let status = |process: &Process| {
        let node = nodes.iter().find(|node| node.node == process.id);
        let of = |field: fn(&NodeState) -> &String| {
            node.map_or_else(|| "-".to_string(), |node| field(node).clone())
        };
        WorkerStatus {
            process: process.id.clone(),
            machine: plan.machines[process.machine].id.clone(),
            state: of(|node| &node.status),
            restarts: of(|node| &node.restarts),
            last: last_line(plan, process),
            cpu: of(|node| &node.cpu),
            memory: of(|node| &node.memory),
        }
    };
    plan.processes.iter().map(status).collect()
}

/// What the learner took in, and whether it is all that was played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Segments {
    /// Segments that the learner has learned from, of all workers.
    pub(crate) taken_in: u64,
    /// How often a learner started.
    pub(crate) starts: usize,
    /// What is wrong: a segment that is missing, or was counted twice.
    pub(crate) problem: Option<String>,
}

/// What the ledger of a run says; nothing where no learner has started yet.
pub(crate) fn segments(plan: &Plan) -> Option<Segments> {
    let lines = LedgerFile::in_run(&plan.run_dir).lines().ok()?;
    let starts = lines.iter().filter(|line| matches!(line, LedgerLine::Start { .. })).count();
    (starts > 0).then(|| match verify(&lines) {
        Ok(taken_in) => Segments { taken_in: taken_in.iter().sum(), starts, problem: None },
        Err(error) => Segments { taken_in: 0, starts, problem: Some(error.to_string()) },
    })
}

impl Segments {
    /// In words for people.
    pub(crate) fn text(&self) -> String {
        let starts = match self.starts {
            1 => "the learner started once".to_string(),
            starts => format!("the learner started {starts} times"),
        };
        match &self.problem {
            None => format!("{} segments taken in, none lost or counted twice; {starts}\n", self.taken_in),
            Some(problem) => format!("segments: {problem}; {starts}\n"),
        }
    }
}

/// The most that the last line may be away from the end.
const TAIL: u64 = 16 << 10;

/// The last whole line that a process wrote about itself.
pub(crate) fn last_line(plan: &Plan, process: &Process) -> Option<Value> {
    let mut file = File::open(plan.status(process)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// The columns that come from the processes themselves, by their names there.
const COUNTS: [(&str, &str); 6] = [
    ("version", "version"),
    ("sent", "sent"),
    ("received", "received"),
    ("in_flight", "in flight"),
    ("resent", "resent"),
    ("rate", "per second"),
];

/// The table that people see.
pub(crate) fn table(workers: &[WorkerStatus]) -> String {
    let mut rows = vec![
        ["process", "machine", "state", "restarts"]
            .into_iter()
            .chain(COUNTS.iter().map(|(_, title)| *title))
            .chain(["CPU", "memory"])
            .map(String::from)
            .collect::<Vec<_>>(),
    ];
    for worker in workers {
        let mut row = vec![
            worker.process.clone(),
            worker.machine.clone(),
            worker.state.clone(),
            worker.restarts.clone(),
        ];
        row.extend(COUNTS.iter().map(|(key, _)| cell(worker.last.as_ref().and_then(|last| last.get(key)))));
        row.extend([worker.cpu.clone(), worker.memory.clone()]);
        rows.push(row);
    }
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // Words begin on the left, numbers end on the right.
            if column < 3 {
                format!("{cell:<width$}", width = *width)
            } else {
                format!("{cell:>width$}", width = *width)
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".into(),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(float) if !number.is_i64() && !number.is_u64() => format!("{float:.1}"),
            _ => number.to_string(),
        },
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_lines_up() {
        let worker = |process: &str, last: Option<Value>| WorkerStatus {
            process: process.into(),
            machine: "node-0".into(),
            state: "Running".into(),
            restarts: "1".into(),
            last,
            cpu: "3.0%".into(),
            memory: "40 MB".into(),
        };
        let last =
            json!({"version": 7, "sent": 1200, "received": 3, "in_flight": 2, "resent": 0, "rate": 12.34});
        let text = table(&[worker("env-0", Some(last)), worker("actor-0", None)]);
        let expected = "\
process  machine  state    restarts  version  sent  received  in flight  resent  per second   CPU  memory
env-0    node-0   Running         1        7  1200         3          2       0        12.3  3.0%   40 MB
actor-0  node-0   Running         1        -     -         -          -       -           -  3.0%   40 MB
";
        assert_eq!(text, expected);
    }
}
