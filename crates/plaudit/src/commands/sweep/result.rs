//! What came of a sweep: a page, and the same numbers as a table or as JSON.

use plaudit_view::{Interval, RunDir, SweepPage, SweepResult, SweptRun};
use serde_json::{Value, json};

use super::plan::Plan;
use crate::console;
use crate::failure::Failure;
use crate::output;

/// Writes the page, and prints the table.
pub(super) fn show(
    plan: &Plan,
    failures: &[(String, String)],
    metric: Option<&str>,
    as_json: bool,
) -> Result<(), Failure> {
    let finished = plan.runs.iter().filter(|run| failures.iter().all(|(name, _)| *name != run.name));
    let opened = finished.map(|run| {
        let dir = RunDir::open(&plan.folder.join(&run.folder));
        let dir = dir.map_err(|error| Failure::runtime(error, None))?;
        let (name, method, task) = (run.name.clone(), run.method.clone(), run.task.clone());
        Ok(SweptRun { dir, name, method, task })
    });
    let runs = opened.collect::<Result<Vec<_>, Failure>>()?;
    if runs.is_empty() {
        return Ok(()); // all failed, which has been said
    }
    let page = SweepPage::read(&plan.title, &runs, metric).map_err(|error| {
        Failure::usage(error, "give one of them with --metric; what ran is kept".to_string())
    })?;
    let place = plan.folder.join("report.html");
    output::write("--dir", &place, page.render(failures).as_bytes())?;
    match as_json {
        true => console::print(&format!("{}\n", to_json(page.result()))),
        false => {
            console::print(&format!("{}\nthe page about it: {}\n", table(page.result()), place.display()))
        }
    }
}

fn table(result: &SweepResult) -> String {
    let head = [result.metric.as_str(), "runs", "interquartile mean", "median", "mean"];
    let mut text = aligned(&head, &result.aggregate_rows());
    if !result.improvements.is_empty() {
        text += "\n\n";
        text += &aligned(&["is better than", "probability", "95 % interval"], &result.improvement_rows());
    }
    text
}

/// Columns beside each other.
fn aligned(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &&Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn to_json(result: &SweepResult) -> Value {
    let interval = |found: Interval| json!({"value": finite(found.middle), "low": finite(found.low), "high": finite(found.high)});
    let methods: Vec<Value> = result
        .methods
        .iter()
        .map(|one| {
            json!({
                "method": one.method,
                "runs": one.runs,
                "interquartile_mean": interval(one.interquartile_mean),
                "median": interval(one.median),
                "mean": interval(one.mean),
            })
        })
        .collect();
    let improvements: Vec<Value> = result
        .improvements
        .iter()
        .map(|(one, two, found)| {
            json!({
                "of": result.methods[*one].method,
                "over": result.methods[*two].method,
                "probability": interval(*found),
            })
        })
        .collect();
    json!({"metric": result.metric, "methods": methods, "probability_of_improvement": improvements})
}

fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}
