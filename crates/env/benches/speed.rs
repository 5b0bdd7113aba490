//! How fast the environments are, per second of processor time, and what they take in memory.
//!
//! `cargo bench -p plaudit-env --bench speed [-- classic state pictures memory]`
#![allow(clippy::print_stdout)] // a bench reports by printing

use std::time::Instant;

use plaudit_core::{Env, Policy, Seed, Watch};
use plaudit_env::{ControlMode, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, RandomPolicy, make};

type Anything = Result<(), Box<dyn std::error::Error>>;

fn main() -> Anything {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if want("classic") {
        report_classic()?;
    }
    if want("state") {
        for mode in [ControlMode::PdJointDeltaPos, ControlMode::PdEeDeltaPose] {
            let speed = with_threads(1, || tables(mode))?;
            println!("PickCube state, {mode:?}: {speed:.0} steps/core-s");
        }
        for threads in [1, 0] {
            let (count, speed) = with_threads(threads, || Ok((rayon::current_num_threads(), crowd()?)))?;
            println!("PickCube x 256 on {count} threads: {speed:.0} steps/s");
        }
    }
    if want("pictures") {
        for id in [EnvId::PickCubeV1, EnvId::PickCube3ViewV1] {
            let speed = with_threads(1, || pictures(id))?;
            println!("{id} pictures, 128 x 128: {speed:.0} frames/core-s");
        }
    }
    if want("memory") {
        memory()?;
    }
    Ok(())
}

fn report_classic() -> Anything {
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

/// Control steps per second of processor time, resets included, while the expert grasps.
fn tables(control_mode: ControlMode) -> Result<f64, Box<dyn std::error::Error>> {
    let own = PickCubeSettings { control_mode, ..PickCubeSettings::default() };
    let settings = EnvSettings { pick_cube: Some(own), ..EnvSettings::new(EnvId::PickCubeV1, 16) };
    let mut env = make(&settings)?;
    let mut expert = PickCubeExpert::new(control_mode);
    let mut obs = env.reset(Seed::new(1))?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut spent = 0.0;
        for _ in 0..50 {
            let actions = expert.act(&obs, Seed::new(0))?.actions;
            let start = processor_secs();
            obs = env.step(&actions)?.obs;
            spent += processor_secs() - start;
        }
        best = best.min(spent);
    }
    Ok(50.0 * 16.0 / best)
}

/// Control steps of a large batch per second of real time.
fn crowd() -> Result<f64, Box<dyn std::error::Error>> {
    let mut env = make(&EnvSettings::new(EnvId::PickCubeV1, 256))?;
    env.reset(Seed::new(1))?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..5 {
            env.step(&[0.1; 256 * 8])?;
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(5.0 * 256.0 / best)
}

/// Pictures per second of processor time, the physics not counted.
fn pictures(id: EnvId) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = [f64::INFINITY; 2];
    let mut frames = 0;
    for (pass, watch) in [Watch::Nothing, Watch::Everything].into_iter().enumerate() {
        let mut env: Box<dyn Env> = make(&EnvSettings::new(id, 16))?;
        env.watch(watch);
        env.reset(Seed::new(1))?;
        for _ in 0..ROUNDS {
            frames = 0;
            let start = processor_secs();
            for _ in 0..20 {
                frames += 16 * env.step(&[0.1; 16 * 8])?.obs.cameras.len();
            }
            best[pass] = best[pass].min(processor_secs() - start);
        }
    }
    Ok(frames as f64 / (best[1] - best[0]))
}

fn memory() -> Anything {
    let before = resident_bytes();
    let mut env = make(&EnvSettings::new(EnvId::PickCubeV1, 400))?;
    env.reset(Seed::new(1))?;
    for _ in 0..60 {
        env.step(&[-0.2; 400 * 8])?;
    }
    let each = (resident_bytes() - before) / 400.0;
    println!("PickCube: {:.0} KiB of memory per environment", each / 1024.0);
    Ok(())
}

/// Processor time of this thread where Linux tells it, else the time of day.
fn processor_secs() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    told.map_or_else(
        || std::time::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64()),
        |nanos| nanos * 1e-9,
    )
}

fn resident_bytes() -> f64 {
    let told = std::fs::read_to_string("/proc/self/statm").ok();
    told.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok())
        .map_or(0.0, |pages| pages * 4096.0)
}
