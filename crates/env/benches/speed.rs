//! How fast the environments are, per second of CPU time, and what they take in memory.
//!
//! `cargo bench -p plaudit-env --bench speed [-- classic state scaling images memory]`
#![allow(clippy::print_stdout)] // a bench reports by printing

use std::time::Instant;

use plaudit_core::{Env, FramesNeeded, Policy, Seed};
use plaudit_env::{
    ControlMode, EnvId, EnvSettings, PegInsertionExpert, PegInsertionSettings, PickCubeExpert,
    PickCubeSettings, RandomPolicy, make,
};

const TABLES: [EnvId; 2] = [EnvId::PickCubeV1, EnvId::PegInsertionSideV1];

type AnyResult = Result<(), Box<dyn std::error::Error>>;

fn main() -> AnyResult {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if want("classic") {
        report_classic()?;
    }
    if want("state") {
        for id in TABLES {
            for mode in [ControlMode::PdJointDeltaPos, ControlMode::PdEeDeltaPose] {
                let speed = with_threads(1, || tables(id, mode))?;
                println!("{id} state, {mode:?}: {speed:.0} steps/core-s");
            }
        }
    }
    if want("scaling") {
        TABLES.into_iter().try_for_each(report_scaling)?;
    }
    if want("images") {
        for id in [EnvId::PickCubeV1, EnvId::PickCube3ViewV1, EnvId::PegInsertionSideV1] {
            let speed = with_threads(1, || images(id))?;
            println!("{id} images, 128 x 128: {speed:.0} frames/core-s");
        }
    }
    if want("memory") {
        // Kept until both are measured: memory that was given back would be counted for nothing.
        let _both = TABLES.into_iter().map(memory).collect::<Result<Vec<_>, _>>()?;
    }
    Ok(())
}

fn report_classic() -> AnyResult {
    for id in [EnvId::CartPoleV1, EnvId::PendulumV1, EnvId::AcrobotV1, EnvId::MountainCarContinuousV0] {
        for num_envs in [64, 1024, 4096, 16384] {
            let alone = with_threads(1, || classic(id, num_envs))?;
            let all = with_threads(0, || classic(id, num_envs))?;
            println!(
                "{id} x {num_envs}: {:.1} M steps/s on one thread, {:.1} on all",
                alone / 1e6,
                all / 1e6
            );
        }
    }
    Ok(())
}

/// Runs `work` on so many threads; 0 is all there are.
fn with_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> Result<T, Box<dyn std::error::Error>> + Send,
) -> Result<T, Box<dyn std::error::Error>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| work().map_err(|error| error.to_string())).map_err(Into::into)
}

/// Steps per second of real time.
fn classic(id: EnvId, num_envs: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let mut env = make(&EnvSettings::new(id, num_envs))?;
    let obs = env.reset(Seed::new(1))?;
    let actions = RandomPolicy::new(env.spec().actions.clone()).act(&obs, Seed::new(2))?.actions;
    let (rounds, start) = (2_000_000 / num_envs, Instant::now());
    for _ in 0..rounds {
        env.step(&actions)?;
    }
    Ok((rounds * num_envs) as f64 / start.elapsed().as_secs_f64())
}

/// The best of so many rounds: other work on the machine only ever makes a round slower.
const ROUNDS: usize = 10;

/// Control steps per second of CPU time, resets included, while the expert works.
fn tables(id: EnvId, control_mode: ControlMode) -> Result<f64, Box<dyn std::error::Error>> {
    let mut settings = EnvSettings::new(id, 16);
    let mut expert: Box<dyn Policy> = if id == EnvId::PegInsertionSideV1 {
        settings.peg_insertion =
            Some(PegInsertionSettings { control_mode, ..PegInsertionSettings::default() });
        Box::new(PegInsertionExpert::new(control_mode)?)
    } else {
        settings.pick_cube = Some(PickCubeSettings { control_mode, ..PickCubeSettings::default() });
        Box::new(PickCubeExpert::new(control_mode))
    };
    let mut env = make(&settings)?;
    let mut obs = env.reset(Seed::new(1))?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut spent = 0.0;
        for _ in 0..50 {
            let actions = expert.act(&obs, Seed::new(0))?.actions;
            let start = cpu_secs();
            obs = env.step(&actions)?.obs;
            spent += cpu_secs() - start;
        }
        best = best.min(spent);
    }
    Ok(50.0 * 16.0 / best)
}

/// A large batch in real time on 1, 2, 4, … threads, in turns. The best of many short rounds is what the
/// machine does when it is quiet.
fn report_scaling(id: EnvId) -> AnyResult {
    const ROWS: usize = 256;
    let cores = std::thread::available_parallelism()?.get();
    let counts: Vec<usize> = (0..).map(|k| 1 << k).take_while(|count| *count <= cores).collect();
    let pools: Vec<_> = (counts.iter())
        .map(|count| rayon::ThreadPoolBuilder::new().num_threads(*count).build())
        .collect::<Result<_, _>>()?;
    let mut best = vec![f64::INFINITY; counts.len()];
    let mut env = make(&EnvSettings::new(id, ROWS))?;
    for round in 0..100 {
        // Before episodes end and rows come to differ.
        if round % 5 == 0 {
            env.reset(Seed::new(1))?;
        }
        for turn in 0..counts.len() {
            let at = (turn + round) % counts.len();
            let start = Instant::now();
            pools[at].install(|| env.step(&[0.1; ROWS * 8]).map_err(|error| error.to_string()))?;
            best[at] = best[at].min(start.elapsed().as_secs_f64());
        }
    }
    for (count, secs) in counts.into_iter().zip(&best) {
        let (speed, gain) = (ROWS as f64 / secs, best[0] / secs);
        println!(
            "{id} x {ROWS} on {count} threads: {speed:.0} steps/s in real time, {gain:.2} times one thread"
        );
    }
    Ok(())
}

/// Images per second of CPU time, the physics not counted.
fn images(id: EnvId) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = [f64::INFINITY; 2];
    let mut frames = 0;
    for (pass, watch) in [FramesNeeded::Nothing, FramesNeeded::Everything].into_iter().enumerate() {
        let mut env: Box<dyn Env> = make(&EnvSettings::new(id, 16))?;
        env.set_frames_needed(watch);
        env.reset(Seed::new(1))?;
        for _ in 0..ROUNDS {
            frames = 0;
            let start = cpu_secs();
            for _ in 0..20 {
                frames += 16 * env.step(&[0.1; 16 * 8])?.obs.cameras.len();
            }
            best[pass] = best[pass].min(cpu_secs() - start);
        }
    }
    Ok(frames as f64 / (best[1] - best[0]))
}

fn memory(id: EnvId) -> Result<Box<dyn Env>, Box<dyn std::error::Error>> {
    let before = resident_bytes();
    let mut env = make(&EnvSettings::new(id, 400))?;
    env.reset(Seed::new(1))?;
    for _ in 0..60 {
        env.step(&[-0.2; 400 * 8])?;
    }
    let each = (resident_bytes() - before) / 400.0;
    println!("{id}: {:.0} KiB of memory per environment", each / 1024.0);
    Ok(env)
}

/// CPU time of this thread where Linux reports it, else wall time.
fn cpu_secs() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let text = text.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    text.map_or_else(
        || std::time::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64()),
        |nanos| nanos * 1e-9,
    )
}

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").ok();
    text.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok())
        .map_or(0.0, |pages| pages * 4096.0)
}
