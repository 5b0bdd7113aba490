//! How a run looks, line by line.

use std::time::Duration;

use plaudit_core::{EndReason, Event};
use plaudit_view::{Entry, LiveView, Stamp, Summary};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

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
    view.on_event(&started(steps), secs(0.0));
    for step in (10..=630).step_by(10) {
        view.on_event(&metrics(step), secs(step as f64 / 10.0));
    }
    view
}

/// `expected` starts with a line break, so that it stands as it looks.
#[track_caller]
fn check(view: &LiveView, at: f64, width: usize, expected: &str) {
    let shown = view.render(secs(at), width, false).join("\n");
    assert_eq!(shown, expected.trim_start_matches('\n'), "\n{shown}\n");
}

#[test]
fn a_run_on_its_way() {
    let mut view = view(Some(1000));
    view.on_event(&Event::Saved { step: 600, path: "checkpoints/global_step_600".into() }, secs(63.0));
    check(
        &view,
        63.3,
        72,
        "
⠸ reward_training  train                                          1m 03s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━────────────────────────   63%
  630 of 1,000 updates · 10.0 updates/s · 36s left

  env/success_once    0.9984 →  ▁▆▇▇▇▇██████████████████
  train/loss        0.001587 ↘  █▃▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
  train/lr           3.00e-4 →  ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃

  saved step 600 in checkpoints/global_step_600",
    );
}

#[test]
fn a_narrow_terminal_keeps_the_numbers() {
    let mut view = view(Some(1000));
    let name = "train/actor/a_name_that_goes_on_and_on_and_on_loss".to_owned();
    view.on_event(&Event::Metrics { step: 640, values: vec![(name, f64::NAN)] }, secs(64.0));
    check(
        &view,
        64.0,
        40,
        "
⠋ reward_training  train          1m 04s
  ━━━━━━━━━━━━━━━━━━━━────────────   64%
  640 of 1,000 updates · 36s left

  env/success_once              0.9984 →
  train/loss                  0.001587 ↘
  …oes_on_and_on_and_on_loss       NaN
  train/lr                     3.00e-4 →",
    );
    check(
        &view,
        64.0,
        60,
        "
⠋ reward_training  train                              1m 04s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━───────────────────   64%
  640 of 1,000 updates · 10.0 updates/s · 36s left

  env/success_once                        0.9984 →  ▁▇▇█████
  train/loss                            0.001587 ↘  █▂▂▁▁▁▁▁
  …ame_that_goes_on_and_on_and_on_loss       NaN    ×
  train/lr                               3.00e-4 →  ▃▃▃▃▃▃▃▃",
    );
}

#[test]
fn a_run_without_a_known_end_has_no_bar() {
    check(
        &view(None),
        63.0,
        60,
        "
⠋ reward_training  train                              1m 03s
  630 updates · 10.0 updates/s

  env/success_once    0.9984 →  ▁▆▇▇▇▇██████████████████
  train/loss        0.001587 ↘  █▃▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
  train/lr           3.00e-4 →  ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃",
    );
}

#[test]
fn many_metrics_do_not_fill_the_screen() {
    let mut view = view(Some(1000)).with_metrics(3);
    view.on_event(&Event::Metrics { step: 640, values: vec![("time/step".into(), 0.1)] }, secs(64.0));
    check(
        &view,
        64.0,
        60,
        "
⠋ reward_training  train                              1m 04s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━───────────────────   64%
  640 of 1,000 updates · 10.0 updates/s · 36s left

  env/success_once    0.9984 →  ▁▆▇▇▇▇██████████████████
  train/loss        0.001587 ↘  █▃▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
  … 2 more in metrics.log",
    );
}

#[test]
fn every_way_to_end_is_told_apart() {
    let ended = |reason| {
        let mut view = view(Some(630)).with_metrics(0);
        view.on_event(&Event::Ended { step: 630, reason }, secs(63.0));
        view
    };
    check(
        &ended(EndReason::Done),
        99.0,
        60,
        "
✓ reward_training  train                              1m 03s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100%
  630 updates · 10.0 updates/s · done",
    );
    check(
        &ended(EndReason::Interrupted),
        99.0,
        60,
        "
■ reward_training  train                              1m 03s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100%
  630 updates · 10.0 updates/s · interrupted",
    );
    let error = "the loss is not a number at step 120; lower the learning rate, or clip gradients".into();
    check(
        &ended(EndReason::Failed { error }),
        99.0,
        60,
        "
✗ reward_training  train                              1m 03s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100%
  630 updates · 10.0 updates/s · failed
  the loss is not a number at step 120; lower the learning
  rate, or clip gradients",
    );
}

#[test]
fn a_run_read_from_its_log_looks_the_same() {
    let stamp = |secs| Stamp { wall_secs: 1e9 + secs, elapsed_secs: secs };
    let mut summary = Summary::default();
    let events = [(0.0, started(Some(20))), (1.0, metrics(10)), (2.0, metrics(20))];
    for (at, event) in events {
        summary.add(Entry { stamp: stamp(at), event, file: None });
    }
    check(
        &LiveView::of(&summary),
        0.0,
        60,
        "
… reward_training  train                                2.0s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100%
  20 updates · unfinished: still running, or killed

  env/success_once    0.9500    ▁█
  train/loss         0.05000    █▁
  train/lr           3.00e-4    ▃▃",
    );
    let event = Event::Ended { step: 20, reason: EndReason::Done };
    summary.add(Entry { stamp: stamp(2.0), event, file: None });
    check(
        &LiveView::of(&summary),
        0.0,
        60,
        "
✓ reward_training  train                                2.0s
  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  100%
  20 updates · done

  env/success_once    0.9500    ▁█
  train/loss         0.05000    █▁
  train/lr           3.00e-4    ▃▃",
    );
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        names in prop::collection::vec(".{0,80}", 0..5),
        value in prop::num::f64::ANY,
        (step, steps) in any::<(u64, Option<u64>)>(),
        error in ".{0,200}",
        width in 10_usize..120,
    ) {
        let mut view = LiveView::default();
        let (name, job, unit) = (names.concat(), names.concat(), names.concat());
        view.on_event(&Event::Started { name, job, unit, step: 0, steps }, secs(0.0));
        let values = names.iter().map(|name| (name.clone(), value)).collect();
        view.on_event(&Event::Metrics { step, values }, secs(1.0));
        let fits = |view: &LiveView| view.render(secs(2.0), width, false).iter().all(|line| line.width() <= width);
        prop_assert!(fits(&view));
        view.on_event(&Event::Ended { step, reason: EndReason::Failed { error } }, secs(2.0));
        prop_assert!(fits(&view));
    }
}
