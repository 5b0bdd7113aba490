//! How a run looks, line by line.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use plaudit_core::{EndReason, Event, Level};
use plaudit_view::{LiveView, Size, Terminal};

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

fn started(steps: Option<u64>) -> Event {
    let (name, job, unit) = ("reward_training".into(), "train".into(), "updates".into());
    Event::Started { name, job, unit, step: 0, steps }
}

fn metrics(step: u64) -> Event {
    let t = step as f64;
    let values = [("train/loss", 1.0 / t), ("train/lr", 3e-4), ("env/success_once", 1.0 - 1.0 / t)];
    Event::Metrics { step, values: values.map(|(name, value)| (name.to_owned(), value)).into() }
}

/// Ten updates a second, metrics every ten.
fn view(steps: Option<u64>) -> LiveView {
    let mut view = LiveView::default();
    view.hear(&started(steps), secs(0.0));
    for step in (10..=630).step_by(10) {
        view.hear(&metrics(step), secs(step as f64 / 10.0));
    }
    view
}

#[track_caller]
fn check(view: &LiveView, at: f64, width: usize, expected: &[&str]) {
    let lines = view.render(secs(at), width, false);
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}
