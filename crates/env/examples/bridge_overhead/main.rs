//! What the bridge to Python costs, against stepping the same environments in Python directly.
//!
//! `PLAUDIT_ORACLE_PYTHON=venv/bin/python cargo run --release -p plaudit-env --example bridge_overhead`
//!
//! Both are measured in turns, so that what else the machine does falls on both. A turn's number is the
//! median of its steps; printed are the median turn and the spread over turns.
#![allow(clippy::print_stdout)] // it reports by printing

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use plaudit_core::{Env, Seed};
use plaudit_env::{Bridge, BridgeSettings, Make, Seeding, Vectorization};
use serde_json::json;

type AnyResult<T> = Result<T, Box<dyn std::error::Error>>;

const ROWS: usize = 16;
const TURNS: usize = 15;
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bridge_overhead/direct.py");

fn main() -> AnyResult<()> {
    let python = std::env::var("PLAUDIT_ORACLE_PYTHON").unwrap_or_else(|_| "python3".into());
    let null = |images: bool| {
        let kwargs = json!({"images": images}).as_object().cloned().unwrap_or_default();
        Make::Gymnasium {
            id: "Null-v0".into(),
            entry_point: None,
            kwargs,
            vectorization: Vectorization::Vector,
        }
    };
    let cart_poles = || BridgeSettings::gymnasium("CartPole-v1", ROWS).make;
    let cases = [
        // The same work as in Python: only the first episodes are seeded.
        ("cart_poles", cart_poles(), Seeding::FirstEpisode, 400),
        ("cart_poles", cart_poles(), Seeding::EveryEpisode, 400),
        ("state", null(false), Seeding::EveryEpisode, 1500),
        ("images", null(true), Seeding::EveryEpisode, 400),
    ];
    let mut direct = Direct::start(&python)?;
    println!("{ROWS} environments, microseconds a step: median of {TURNS} turns [least, most]");
    for (name, make, seeding, steps) in cases {
        let settings = BridgeSettings {
            python: python.clone().into(),
            import: vec![BESIDE.into()],
            make,
            seeding,
            ..BridgeSettings::gymnasium("", ROWS)
        };
        let mut env = Bridge::start(settings)?;
        let (mut alone, mut bridged) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            alone.push(direct.median(name, steps)?);
            bridged.push(median_step(&mut env, steps)?);
        }
        let apart: Vec<f64> = bridged.iter().zip(&alone).map(|(bridged, alone)| bridged - alone).collect();
        let ratio: Vec<f64> = bridged.iter().zip(&alone).map(|(bridged, alone)| bridged / alone).collect();
        println!(
            "{name:10} {seeding:12?}  in Python {}  bridged {}  overhead {}  ratio {}",
            spread(alone),
            spread(bridged),
            spread(apart),
            spread(ratio)
        );
    }
    Ok(())
}

fn median_step(env: &mut Bridge, steps: usize) -> AnyResult<f64> {
    let actions = vec![0.0; ROWS * env.spec().actions.width()];
    env.reset(Seed::new(0))?;
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        let before = Instant::now();
        std::hint::black_box(env.step(&actions)?);
        times.push(before.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&mut times))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(mut values: Vec<f64>) -> String {
    let middle = median(&mut values);
    format!("{middle:.1} [{:.1}, {:.1}]", values[0], values[values.len() - 1])
}

/// The loop in Python.
struct Direct {
    child: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Direct {
    fn start(python: &str) -> AnyResult<Self> {
        let mut child =
            Command::new(python).arg(BESIDE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asks = child.stdin.take().ok_or("no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Self { child, asks, answers })
    }

    fn median(&mut self, case: &str, steps: usize) -> AnyResult<f64> {
        writeln!(self.asks, "{case} {steps}")?;
        let line = self.answers.next().ok_or("the loop in Python ended")??;
        let mut times = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        Ok(median(&mut times))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
