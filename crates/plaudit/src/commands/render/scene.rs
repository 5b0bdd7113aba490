//! What there is to draw at each step of a trajectory of an embedded task.

use plaudit_data::recording::SimulatorStates;
use plaudit_env::{CameraSettings, EnvId, PegInsertionPieces, PickCubeMoment};

/// Where the joints begin in what a simulator says of a robot: after its root's pose and speeds.
const JOINTS: usize = 13;
/// Seven joints of the arm and two fingers.
const JOINT_COUNT: usize = 9;
/// Numbers of a full state of PegInsertionSide, and what is where in it: half the edges of the peg, the pose of the hole, half
/// its width.
const PEG_STATE: usize = 43;

/// Why a trajectory cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub(super) enum SceneProblem {
    /// Nobody says which task it is.
    #[error("nothing says which task it is")]
    NoTask,
    /// A task that is not built in.
    #[error("`{0}` cannot be drawn here")]
    OtherTask(String),
    /// The simulator says nothing of a thing.
    #[error("the simulator's states have no `{name}`; they have {has}")]
    NoThing { name: &'static str, has: String },
    /// A robot that is no Panda.
    #[error("the robot has {found} numbers, where a Panda has {expected}")]
    OtherRobot { found: usize, expected: usize },
    /// Nobody says how large things are.
    #[error(
        "the sizes of peg and hole are not recorded: states of {found} numbers, where full ones have {PEG_STATE}"
    )]
    NoSizes { found: usize },
    /// Numbers that are no pose.
    #[error("step {at} has numbers that are no poses")]
    NoPose { at: usize },
    /// Nobody says how it went.
    #[error("nothing says whether it succeeded")]
    NoSuccess,
}

impl SceneProblem {
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoTask => "say it with --env-id PickCube-v1 or --env-id PegInsertionSide-v1",
            Self::OtherTask(_) => {
                "PickCube-v1 and PegInsertionSide-v1 are built in; replay others with images in ManiSkill"
            }
            Self::NoThing { .. } | Self::OtherRobot { .. } => {
                "is it what ManiSkill recorded of that task, with a Panda? --env-id names another one"
            }
            Self::NoSizes { .. } => "replay it with full states: replay_trajectory -o state",
            Self::NoPose { .. } => "the file is damaged, or the simulation went wrong there",
            Self::NoSuccess => "replay it: ManiSkill then records success",
        }
        .into()
    }
}

/// A trajectory as it is drawn.
pub(super) struct RecordedScene<'a> {
    robot: &'a [Vec<f32>],
    task: RecordedTask<'a>,
}

enum RecordedTask<'a> {
    PickCube { cube: &'a [Vec<f32>], goal: &'a [Vec<f32>] },
    PegInsertion { pieces: Box<PegInsertionPieces>, peg: &'a [Vec<f32>] },
}

impl<'a> RecordedScene<'a> {
    pub(super) fn of(
        asked: Option<&str>,
        states: &'a SimulatorStates,
        observed: &[Vec<f32>],
    ) -> Result<Self, SceneProblem> {
        let name = asked.or(states.env_id.as_deref()).ok_or(SceneProblem::NoTask)?;
        let task = match name.parse() {
            Ok(EnvId::PickCubeV1 | EnvId::PickCube3ViewV1) => {
                RecordedTask::PickCube { cube: thing(states, "cube")?, goal: thing(states, "goal_site")? }
            }
            Ok(EnvId::PegInsertionSideV1) => {
                let peg = thing(states, "peg")?;
                let case = thing(states, "box_with_hole")?;
                let state = observed.first().map(Vec::as_slice).unwrap_or_default();
                let sizes = || {
                    let (half, hole, radius) = (state.get(32..35)?, state.get(35..42)?, state.get(42)?);
                    let is_full = state.len() == PEG_STATE;
                    PegInsertionPieces::new(half, hole, *radius, case.first()?).filter(|_| is_full)
                };
                let pieces = sizes().ok_or(SceneProblem::NoSizes { found: state.len() })?;
                RecordedTask::PegInsertion { pieces: Box::new(pieces), peg }
            }
            _ => return Err(SceneProblem::OtherTask(name.into())),
        };
        Ok(Self { robot: robot(states)?, task })
    }

    /// What a camera sees at a step.
    pub(super) fn draw(
        &self,
        at: usize,
        camera: CameraSettings,
        show_goal: bool,
    ) -> Result<Vec<u8>, SceneProblem> {
        let row = |rows: &'a [Vec<f32>]| rows.get(at).map(Vec::as_slice).unwrap_or_default();
        let joints = row(self.robot).get(JOINTS..JOINTS + JOINT_COUNT).unwrap_or_default();
        let drawn = match &self.task {
            RecordedTask::PickCube { cube, goal } => {
                let goal = show_goal.then(|| row(goal));
                PickCubeMoment { joints, cube: row(cube), goal }.draw(camera)
            }
            RecordedTask::PegInsertion { pieces, peg } => pieces.draw(joints, row(peg), camera),
        };
        drawn.ok_or(SceneProblem::NoPose { at })
    }

    /// The joints and their speeds at each step.
    pub(super) fn joint_states(&self) -> Vec<Vec<f32>> {
        self.robot.iter().map(|row| row[JOINTS..].to_vec()).collect()
    }
}

/// A thing by its name, or by that of the first of several environments.
fn thing<'a>(states: &'a SimulatorStates, name: &'static str) -> Result<&'a [Vec<f32>], SceneProblem> {
    let found = states.actors.get(name).or_else(|| states.actors.get(&format!("{name}_0")));
    let has = || states.actors.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    found.map(Vec::as_slice).ok_or_else(|| SceneProblem::NoThing { name, has: has() })
}

/// The only robot, or the one that is called as a Panda.
fn robot(states: &SimulatorStates) -> Result<&[Vec<f32>], SceneProblem> {
    let all = &states.articulations;
    let named = all.iter().find(|(name, _)| name.starts_with("panda"));
    let rows =
        named.or_else(|| all.iter().next().filter(|_| all.len() == 1)).map(|(_, rows)| rows.as_slice());
    let has = || all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let rows = rows.ok_or_else(|| SceneProblem::NoThing { name: "panda", has: has() })?;
    let (found, expected) = (rows.first().map_or(0, Vec::len), JOINTS + 2 * JOINT_COUNT);
    match found == expected {
        true => Ok(rows),
        false => Err(SceneProblem::OtherRobot { found, expected }),
    }
}
