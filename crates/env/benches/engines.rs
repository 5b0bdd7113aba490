//! PickCube on Rapier and on MuJoCo, in turns, so that other work on the machine slows both alike.
//!
//! `cargo bench -p plaudit-env --features mujoco --bench engines`, set up as docs/mujoco.md says.
#![allow(clippy::print_stdout)] // a bench reports by printing

use plaudit_core::{Env, Obs, Policy, Seed};
use plaudit_env::{ControlMode, Engine, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, make};

type AnyResult<T> = Result<T, Box<dyn std::error::Error>>;

const ENGINES: [Engine; 2] = [Engine::Rapier, Engine::Mujoco];
const ROWS: usize = 16;
const EPISODE: usize = 50;
/// The best of so many rounds: other work on the machine only ever makes a round slower.
const ROUNDS: usize = 20;

fn main() -> AnyResult<()> {
    for engine in ENGINES {
        println!("{engine:?}: {:.0} KiB of memory per environment", kib_each(engine)?);
    }
    // One thread, whose own clock is read.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for mode in [ControlMode::PdJointDeltaPos, ControlMode::PdEeDeltaPose] {
        let [rapier, mujoco] = pool.install(|| speeds(mode).map_err(|error| error.to_string()))?;
        println!(
            "{mode:?}, steps/core-s: {rapier:.0} on Rapier, {mujoco:.0} on MuJoCo, {:.2} times",
            mujoco / rapier
        );
    }
    Ok(())
}

fn tables(engine: Engine, control_mode: ControlMode, num_envs: usize) -> AnyResult<Box<dyn Env>> {
    let own = PickCubeSettings { engine, control_mode, ..PickCubeSettings::default() };
    let settings = EnvSettings { pick_cube: Some(own), ..EnvSettings::new(EnvId::PickCubeV1, num_envs) };
    Ok(make(&settings)?)
}

/// Control steps per second of CPU time, resets included, while the expert works.
fn speeds(mode: ControlMode) -> AnyResult<[f64; 2]> {
    let mut runs = Vec::new();
    for engine in ENGINES {
        let mut env = tables(engine, mode, ROWS)?;
        let obs = env.reset(Seed::new(1))?;
        runs.push((env, obs));
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for ((env, obs), best) in runs.iter_mut().zip(&mut best) {
            *best = best.min(round(env.as_mut(), obs, mode)?);
        }
    }
    Ok(best.map(|secs| (EPISODE * ROWS) as f64 / secs))
}

/// Seconds of CPU time that the environment takes for as many steps as an episode may have.
fn round(env: &mut dyn Env, obs: &mut Obs, mode: ControlMode) -> AnyResult<f64> {
    let (mut expert, mut spent) = (PickCubeExpert::new(mode), 0.0);
    for _ in 0..EPISODE {
        let actions = expert.act(obs, Seed::new(0))?.actions;
        let start = cpu_secs()?;
        *obs = env.step(&actions)?.obs;
        spent += cpu_secs()? - start;
    }
    Ok(spent)
}

fn kib_each(engine: Engine) -> AnyResult<f64> {
    const MANY: usize = 400;
    let before = resident_kib()?;
    let mut env = tables(engine, ControlMode::default(), MANY)?;
    env.reset(Seed::new(1))?;
    for _ in 0..60 {
        env.step(&[-0.2; MANY * 8])?;
    }
    let each = (resident_kib()? - before) / MANY as f64;
    // What is given back would be counted for nothing in the next engine.
    std::mem::forget(env);
    Ok(each)
}

/// CPU time of this thread, from Linux.
fn cpu_secs() -> AnyResult<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: f64 = text.split_whitespace().next().ok_or("an empty schedstat")?.parse()?;
    Ok(nanos * 1e-9)
}

fn resident_kib() -> AnyResult<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = text.split_whitespace().nth(1).ok_or("a short statm")?.parse()?;
    Ok(pages * 4.0)
}
