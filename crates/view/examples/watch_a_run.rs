//! A run of a few seconds that only pretends to learn, to see how the terminal and the run directory look.
//!
//! ```text
//! cargo run -p plaudit-view --example watch_a_run            # in place, in colour
//! cargo run -p plaudit-view --example watch_a_run -- fail    # how a failure looks
//! cargo run -p plaudit-view --example watch_a_run | cat      # not a terminal: plain lines
//! ```

use std::error::Error;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use plaudit_core::{Emit, EndReason, Event, Level};
use plaudit_view::{Both, Recorder, RunDir, Terminal};

const STEPS: u64 = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let fails = std::env::args().any(|argument| argument == "fail");
    let run = RunDir::create(Path::new("logs"), "reward_training", SystemTime::now())?;
    run.write_config("runner:\n  max_steps: 300\n")?;
    let mut listeners = Both(Recorder::open(&run)?, Terminal::on(std::io::stdout(), true));
    pretend(&mut listeners, if fails { 120 } else { STEPS }, fails);
    listeners.0.lost_events().map_or(Ok(()), |lost_events| Err(lost_events.to_string().into()))
}

fn pretend(out: &mut dyn Emit, until: u64, fails: bool) {
    let (name, job, unit) = ("reward_training".into(), "train".into(), "updates".into());
    out.emit(Event::Started { name, job, unit, step: 0, steps: Some(STEPS) });
    out.emit(Event::Text { step: 0, name: "config".into(), text: "max_steps: 300".into() });
    for step in 1..=until {
        sleep(Duration::from_millis(25));
        out.emit(Event::Progress { step });
        if step % 5 == 0 {
            out.emit(Event::Metrics { step, values: metrics(step) });
        }
        if step == 60 {
            let text = "3 episodes have no success label and were left out of training".into();
            out.emit(Event::Notice { level: Level::Warning, text });
        }
        if step % 100 == 0 {
            out.emit(Event::Saved { step, path: format!("checkpoints/global_step_{step}") });
            let png = include_bytes!("../tests/fixtures/two_pixels.png").into();
            out.emit(Event::Image { step, name: "eval/camera".into(), height: 1, width: 2, png });
            out.emit(Event::Histogram { step, name: "scores".into(), values: scores(step) });
        }
    }
    let error = "the loss is not a number at step 120; lower the learning rate".into();
    let reason = if fails { EndReason::Failed { error } } else { EndReason::Done };
    out.emit(Event::Ended { step: until, reason });
}

/// Curves as one hopes for, with some noise.
fn metrics(step: u64) -> Vec<(String, f64)> {
    let t = step as f64 / STEPS as f64;
    let noise = |seed: f64| (step as f64 * seed).sin() * 0.02;
    let learned = 1.0 - (-4.0 * t).exp();
    [
        ("train/loss", 0.69 * (-4.0 * t).exp() + noise(3.1).abs()),
        ("train/accuracy", 0.5 + 0.48 * learned + noise(1.7)),
        ("train/lr", 3e-4 * (1.0 - t)),
        ("train/grad_norm", 2.4 * (-2.0 * t).exp() + 10.0 * noise(2.3).abs()),
        ("val/accuracy", 0.5 + 0.45 * learned + noise(0.9)),
        ("env/success_once", (0.9 * learned + noise(1.3)).clamp(0.0, 1.0)),
        ("env/return", 42.0 * learned * learned + 20.0 * noise(2.9)),
        ("time/step", 0.025),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn scores(step: u64) -> Vec<f64> {
    (0..200).map(|n| ((n * step) as f64 * 0.37).sin()).collect()
}
