//! Environments for any other program: a request per line on standard input, an answer per line on standard
//! output, both JSON.
//!
//! | request | answer |
//! |---|---|
//! | `"ids"` | `{"ids": ["CartPole-v1", ..]}` |
//! | `{"make": {"id": "CartPole-v1", "num_envs": 2}}` ([`EnvSettings`]) | `{"spec": ..}` |
//! | `{"watch": true}`: draw every image, or none | `{"watch": true}` |
//! | `{"reset": 7}`: the seed | `{"obs": ..}` |
//! | `{"step": [0, 1]}`: actions, row after row | `{"obs": .., "reward": .., "end": .., ..}` |
//!
//! A request that is refused is answered with `{"error": ".."}` and changes nothing. Images are written in
//! hexadecimal digits. `tests/gymnasium` talks to it as a Gymnasium environment.
//!
//! `cargo run -p plaudit-env --example step_server`

use std::fmt::Write as _;
use std::io::{BufRead, Write, stdin, stdout};

use plaudit_core::{ActionSpace, End, Env, EnvSpec, FramesNeeded, Obs, Seed, Step};
use plaudit_env::{EnvId, EnvSettings, make};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Ids,
    Make(EnvSettings),
    Watch(bool),
    Reset(u64),
    /// JSON has no infinity, but numbers that are infinite as `f32`.
    Step(Vec<f64>),
}

type AnyResult<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> AnyResult<()> {
    let mut env = None;
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let reply = answer(&line?, &mut env).unwrap_or_else(|error| json!({"error": error.to_string()}));
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str, env: &mut Option<Box<dyn Env>>) -> AnyResult<Value> {
    let request = serde_json::from_str(line)?;
    if matches!(request, Request::Ids) {
        return Ok(json!({"ids": EnvId::ALL}));
    }
    if let Request::Make(settings) = &request {
        return Ok(json!({"spec": spec_json(env.insert(make(settings)?).spec())}));
    }
    let env = env.as_mut().ok_or("there is no environment yet: `make` comes first")?;
    Ok(match request {
        Request::Ids | Request::Make(_) => Value::Null,
        Request::Watch(everything) => {
            env.set_frames_needed(if everything { FramesNeeded::Everything } else { FramesNeeded::Nothing });
            json!({"watch": everything})
        }
        Request::Reset(seed) => json!({"obs": obs_json(&env.reset(Seed::new(seed))?)}),
        Request::Step(actions) => {
            let actions: Vec<f32> = actions.into_iter().map(|value| value as f32).collect();
            step_json(&env.step(&actions)?)
        }
    })
}

fn spec_json(spec: &EnvSpec) -> Value {
    let actions = match &spec.actions {
        ActionSpace::Discrete { n } => json!({"n": n}),
        ActionSpace::Continuous { low, high } => json!({"low": low, "high": high}),
    };
    let cameras: Map<String, Value> =
        spec.cameras.iter().map(|(name, shape)| (name.to_string(), json!(shape))).collect();
    json!({
        "id": &*spec.id,
        "num_envs": spec.num_envs,
        "state_width": spec.state_width,
        "actions": actions,
        "cameras": cameras,
        "max_episode_steps": spec.max_episode_steps,
        "control_hz": spec.control_hz,
    })
}

fn obs_json(obs: &Obs) -> Value {
    let states: Vec<_> = (0..obs.batch()).map(|row| obs.row(row).state).collect();
    let images = obs.cameras.iter().map(|(name, frames)| {
        let each: Vec<_> = (0..frames.count()).map(|row| hexadecimal(frames.image(row))).collect();
        (name.to_string(), json!(each))
    });
    let tasks: Vec<&str> = obs.tasks.iter().map(|words| &**words).collect();
    json!({"state": states, "cameras": images.collect::<Map<_, _>>(), "tasks": tasks})
}

fn step_json(step: &Step) -> Value {
    let name = |end: &End| match end {
        End::No => "no",
        End::Terminated => "terminated",
        End::Truncated => "truncated",
    };
    let last = step.last.iter().map(|(row, obs)| (row.to_string(), obs_json(obs)));
    let facts = step.facts.iter().map(|(name, column)| (name.to_string(), json!(column)));
    json!({
        "obs": obs_json(&step.obs),
        "reward": step.reward,
        "end": step.end.iter().map(name).collect::<Vec<_>>(),
        "success": step.success,
        "last": last.collect::<Map<_, _>>(),
        "facts": facts.collect::<Map<_, _>>(),
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes anything
        text
    })
}
