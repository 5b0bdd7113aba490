//! The embedded arms as simulated robots: their scenes, what a person prepares, and where the tool has to go.

use plaudit_core::{Env, EnvError, EnvSpec, Obs, Policy, Seed, Step};
use plaudit_env::{ControlMode, PegInsertionExpert, PickCubeExpert, SettingsError};
use plaudit_robot::{AxisBox, PrepareScene, SceneClient, TableReset, ToolPose};
use thiserror::Error;

/// Steps that the script may take to prepare or to solve a scene.
const MOST_STEPS: usize = 300;
/// Steps after success, until the tool stands still.
const SETTLE: usize = 15;
/// Scenes that are tried.
const MOST_SCENES: u64 = 30;
/// Where the base stands in the world of the embedded tables.
const BASE_X_M: f32 = -0.615;

/// A task that a simulated robot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SimulatedTask {
    /// A peg between the fingers, and a box with a hole: PegInsertionSide-v1
    PegInsertion,
    /// A cube on the table, and a place for it in the air: PickCube-v1
    PickCube,
}

/// Why there is no scene.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The environment broke.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The script has no way to move.
    #[error(transparent)]
    Script(#[from] SettingsError),
    /// The script solves none of the scenes.
    #[error("the script solves none of the scenes 0 to {}", MOST_SCENES - 1)]
    Unsolved,
}

/// A scene that the script solves.
#[derive(Debug, Clone)]
pub struct SimulatedScene {
    /// Of which the scene is number 0.
    pub seed: Seed,
    /// Where the tool is when an episode starts.
    pub start: ToolPose,
    /// Where it is when the task is solved.
    pub target: ToolPose,
    /// All the places that the script brings it to, in this scene and in those after it.
    pub way: AxisBox,
}

impl SimulatedTask {
    /// The script that solves it.
    pub fn expert(self) -> Result<Box<dyn Policy + Send>, SettingsError> {
        let mode = ControlMode::PdEeDeltaPose;
        Ok(match self {
            Self::PegInsertion => Box::new(PegInsertionExpert::new(mode)?),
            Self::PickCube => Box::new(PickCubeExpert::new(mode)),
        })
    }

    /// The task in words.
    pub fn instruction(self) -> &'static str {
        match self {
            Self::PegInsertion => "peg and insertion",
            Self::PickCube => "pick up the red cube and move it to the green goal",
        }
    }

    /// What a person does before an episode: the peg is put between the fingers, in front of the hole.
    pub fn prepare(self) -> Result<Option<PrepareScene>, SettingsError> {
        match self {
            Self::PickCube => Ok(None),
            Self::PegInsertion => {
                let mut expert = self.expert()?;
                Ok(Some(Box::new(move |env, obs| {
                    play(env, obs, expert.as_mut(), |step| is(step, "is_grasped") && is(step, "is_lined_up"))
                })))
            }
        }
    }

    /// Looks for a scene that the script solves, in an environment of its own; the tool's box is to have room for that one
    /// and the next `scenes - 1`.
    pub fn find_scene(
        self,
        env: &mut dyn Env,
        seed: Seed,
        scenes: u64,
    ) -> Result<SimulatedScene, SimulationError> {
        for number in 0..MOST_SCENES {
            let seed = seed.purpose("scene").index(number);
            let Some(Solution { start, target, mut way }) = self.solve(env, seed.index(0))? else { continue };
            for other in 1..scenes.max(1) {
                // A person would not solve every one, either.
                if let Some(solution) = self.solve(env, seed.index(other))? {
                    way = union(way, solution.way);
                }
            }
            return Ok(SimulatedScene { seed, start, target, way });
        }
        Err(SimulationError::Unsolved)
    }

    /// The state in which the first of the scenes begins.
    pub fn first_state(self, env: &mut dyn Env, scene: &SimulatedScene) -> Result<Vec<f32>, SimulationError> {
        let mut obs = env.reset(scene.seed.index(0))?;
        if let Some(prepare) = &mut self.prepare()? {
            obs = prepare(env, obs)?;
        }
        Ok(obs.state)
    }

    /// What the command line calls it.
    pub fn possible_word(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map_or_else(String::new, |value| value.get_name().into())
    }

    /// How the script solves a scene; nothing if it does not.
    fn solve(self, env: &mut dyn Env, seed: Seed) -> Result<Option<Solution>, SimulationError> {
        let mut expert = self.expert()?;
        let mut obs = env.reset(seed)?;
        if let Some(prepare) = &mut self.prepare()? {
            let Ok(prepared) = prepare(env, obs) else { return Ok(None) };
            obs = prepared;
        }
        let Some(start) = tool(env.spec(), &obs) else { return Ok(None) };
        let (spec, mut way) = (env.spec().clone(), point(start));
        let mut left = None;
        let settled = play(env, obs, expert.as_mut(), |step| {
            if let Some(pose) = tool(&spec, &step.obs) {
                way = union(way, point(pose));
            }
            left = left.map(|left: usize| left - 1).or(step.success[0].then_some(SETTLE));
            left == Some(0)
        });
        let target = settled.ok().and_then(|settled| tool(&spec, &settled));
        Ok(target.map(|target| Solution { start, target, way }))
    }
}

/// How the script solves a scene: from where to where, and all the places between.
struct Solution {
    start: ToolPose,
    target: ToolPose,
    way: AxisBox,
}

fn point(pose: ToolPose) -> AxisBox {
    AxisBox { min_m: pose.position_m, max_m: pose.position_m }
}

fn union(a: AxisBox, b: AxisBox) -> AxisBox {
    AxisBox { min_m: a.min_m.min(b.min_m), max_m: a.max_m.max(b.max_m) }
}

/// Lets a script act until something is true.
fn play(
    env: &mut dyn Env,
    mut obs: Obs,
    expert: &mut dyn Policy,
    mut is_done: impl FnMut(&Step) -> bool,
) -> Result<Obs, EnvError> {
    for number in 0..MOST_STEPS {
        let decided = expert.act(&obs, Seed::new(number as u64));
        let actions = decided.map_err(|error| EnvError::Backend(Box::new(error)))?.actions;
        let step = env.step(&actions)?;
        let done = is_done(&step);
        obs = step.obs;
        if done {
            return Ok(obs);
        }
    }
    Err(EnvError::Setting(format!("the script did not get there in {MOST_STEPS} steps").into()))
}

fn is(step: &Step, fact: &str) -> bool {
    step.facts
        .iter()
        .any(|(name, values)| &**name == fact && values.first().is_some_and(|value| *value > 0.0))
}

/// The tool in the base frame.
fn tool(spec: &EnvSpec, obs: &Obs) -> Option<ToolPose> {
    let part = spec.state_parts.iter().find(|part| &*part.name == "tcp_pose")?;
    let row = &obs.state[part.range.clone()];
    let number = |at: usize| f64::from(row[at]);
    let x = f64::from(row[0] - BASE_X_M);
    // The environment writes the real part first.
    ToolPose::from_xyz_quat([x, number(1), number(2), number(4), number(5), number(6), number(3)])
}

/// The simulated server resets its table: one scene after another, then the first again.
#[derive(Debug, Clone)]
pub struct SceneReset {
    /// The server.
    pub client: SceneClient,
    /// How many scenes there are.
    pub scenes: u64,
}

impl TableReset for SceneReset {
    fn reset(&mut self, episode: u64) -> Result<(), String> {
        self.client.reset_scene(Some(episode % self.scenes.max(1))).map_err(|error| error.to_string())
    }
}
