//! A plan as a picture for the terminal: machines as boxes, processes in them, and what goes between.

use std::collections::BTreeMap;

use super::{Component, Machine, Plan, Process};

/// The picture, with a line break at its end.
pub fn picture(plan: &Plan) -> String {
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut out = format!(
        "{}: {} on {}\n\n",
        plan.name,
        counted(plan.processes.len(), "process").replace("processs", "processes"),
        counted(plan.machines.len(), "machine")
    );
    let rows: Vec<[String; 4]> = plan.processes.iter().map(row).collect();
    let widths = widths(&rows);
    let titles: Vec<String> = plan.machines.iter().map(|machine| title(plan, machine)).collect();
    let inner = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    let inner = titles.iter().map(|title| title.chars().count() + 1).max().unwrap_or(0).max(inner);
    for (machine, title) in plan.machines.iter().zip(&titles) {
        out += &format!("┌ {title} {}┐\n", "─".repeat(inner - title.chars().count()));
        let here = plan.processes.iter().zip(&rows).filter(|(process, _)| process.machine == machine.rank);
        let mut lines: Vec<String> = here.map(|(_, row)| padded(row, &widths)).collect();
        if lines.is_empty() {
            lines.push("nothing".into());
        }
        for line in lines {
            out += &format!("│ {line:<inner$} │\n");
        }
        out += &format!("└{}┘\n", "─".repeat(inner + 2));
    }
    out += "\n";
    out + &talks(plan)
}

fn title(plan: &Plan, machine: &Machine) -> String {
    let mut words = vec![machine.id.clone(), machine.host.clone()];
    words.extend(machine.groups.clone());
    if machine.gpus > 0 {
        words.push(format!("{} GPU{}", machine.gpus, if machine.gpus == 1 { "" } else { "s" }));
    }
    if machine.rank == plan.head().rank {
        words.push("coordinator".into());
    }
    words.join(" · ")
}

/// Name, what it may use, what it does, why it is there.
fn row(process: &Process) -> [String; 4] {
    let numbers = |ranks: &[usize]| ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let uses = match (&process.gpus[..], &process.robots[..]) {
        ([], []) => "CPU".into(),
        (gpus, []) => format!("GPU {}", numbers(gpus)),
        ([], robots) => format!("robot {}", numbers(robots)),
        (gpus, robots) => format!("robot {}, GPU {}", numbers(robots), numbers(gpus)),
    };
    [process.id.clone(), uses, duty(process), format!("({})", process.why)]
}

fn duty(process: &Process) -> String {
    let duties = process.components.iter().map(|component| match component {
        Component::Actor => "learns".to_string(),
        Component::Env => match process.envs {
            (first, end) if end == first + 1 => format!("steps environment {first}"),
            (first, end) => format!("steps environments {first} to {}", end.saturating_sub(1)),
        },
        Component::Rollout => "chooses actions".into(),
        Component::Reward => "scores frames".into(),
    });
    duties.collect::<Vec<_>>().join(", ")
}

fn widths(rows: &[[String; 4]]) -> [usize; 4] {
    let mut widths = [0; 4];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

fn padded(row: &[String; 4], widths: &[usize; 4]) -> String {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
    cells.join("  ").trim_end().to_string()
}

/// Which processes talk about what, and over what.
fn talks(plan: &Plan) -> String {
    let machine: BTreeMap<&str, usize> =
        plan.processes.iter().map(|process| (process.id.as_str(), process.machine)).collect();
    let mut lines = Vec::new();
    // Edges come in pairs, there and back.
    for pair in plan.edges.chunks(2) {
        let [there, back] = pair else { continue };
        let way = if machine.get(there.from.as_str()) == machine.get(there.to.as_str()) {
            "shared memory"
        } else {
            "network"
        };
        let who = format!("{} ⇄ {}", there.from, there.to);
        lines.push((who, format!("{} ⇄ {}", there.port.name(), back.port.name()), way));
    }
    let (who, what) = lines.iter().fold((0, 0), |(who, what), line| {
        (who.max(line.0.chars().count()), what.max(line.1.chars().count()))
    });
    let lines = lines.iter().map(|line| format!("  {:<who$}  {:<what$}  {}\n", line.0, line.1, line.2));
    lines.collect()
}
