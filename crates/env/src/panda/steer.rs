//! How a script moves the tool: from where it should be to an action of any control mode.

use glam::DVec3;
use plaudit_core::{Decision, Obs, PolicyError, Rng, Seed};

use super::kinematics::{JOINTS, reach};
use super::{ControlMode, Pose};

/// Metres or radians that an action of 1 asks for.
const DELTA: f64 = 0.1;

/// How much of the way to ask for at once. Drives cover about half of what they are asked for in a step.
pub(crate) const QUICK: f64 = 2.0;
/// For heavy things, which turn between the fingers when they are jerked.
pub(crate) const GENTLE: f64 = 0.8;

/// The hand comes down when it is this near above a grip, and from this height.
const ABOVE: f64 = 0.006;
const HOVER: f64 = 0.07;
/// The tool is at a grip when it is this near.
const AT_GRIP: f64 = 0.012;

/// Where a tool at `tool` should go to hold something at `grip` from above, and whether the hand should be open.
pub(crate) fn descend(tool: Pose, grip: Pose) -> (Pose, bool) {
    let aside = (tool.position - grip.position).truncate().length()
        + 0.03 * tool.rotation.angle_between(grip.rotation);
    // A funnel: the nearer the hand is to being above the grip, the deeper it may go.
    let height = (4.0 * (aside - ABOVE)).clamp(0.0, HOVER);
    let arrived = tool.position.distance(grip.position) < AT_GRIP;
    (Pose::new(grip.position + DVec3::Z * height, grip.rotation), !arrived)
}

/// A script's actions: for each row, towards where `steer` says by its full state, which has `full` numbers.
pub(crate) fn act(
    (task, full): (&str, usize),
    (mode, noise): (ControlMode, f64),
    obs: &Obs,
    seed: Seed,
    steer: impl Fn(&[f32]) -> Steer,
) -> Result<Decision, PolicyError> {
    let width = obs.state_width();
    if width != full {
        let expected = format!("{task}'s full state of {full} numbers");
        return Err(PolicyError::Observation { expected, got: format!("{width} numbers") });
    }
    let mut actions = Vec::with_capacity(obs.batch() * mode.actions().width());
    for row in 0..obs.batch() {
        let mut rng = seed.index(row as u64).rng();
        steer(obs.row(row).state).act(mode, noise, &mut rng, &mut actions);
    }
    Ok(Decision { actions, ..Decision::default() })
}

/// Where the arm is and should be.
pub(crate) struct Steer {
    pub(crate) angles: [f64; JOINTS],
    pub(crate) tool: Pose,
    pub(crate) target: Pose,
    pub(crate) open: bool,
    /// [`QUICK`] or [`GENTLE`].
    pub(crate) gain: f64,
}

impl Steer {
    /// Appends the action that goes there, with normal noise of the deviation `noise` on every number.
    fn act(&self, mode: ControlMode, noise: f64, rng: &mut Rng, actions: &mut Vec<f32>) {
        let start = actions.len();
        match mode {
            ControlMode::PdJointDeltaPos => {
                let turn = self.turn(self.gain);
                let largest = turn.iter().fold(DELTA, |most: f64, turn| most.max(turn.abs()));
                actions.extend(turn.map(|turn| (turn / largest) as f32));
            }
            ControlMode::PdJointPos => {
                let turn = self.turn(self.gain.min(1.0)); // a place to go to: asking for more would overshoot
                actions.extend(std::array::from_fn::<_, JOINTS, _>(|k| (self.angles[k] + turn[k]) as f32));
            }
            ControlMode::PdEeDeltaPos => actions.extend(self.way()),
            ControlMode::PdEeDeltaPose => {
                actions.extend(self.way());
                let turn = (self.target.rotation * self.tool.rotation.conjugate()).to_scaled_axis();
                actions.extend(unit(-self.gain * turn));
            }
        }
        actions.push(if self.open { 1.0 } else { -1.0 });
        if noise > 0.0 {
            let scale = if mode == ControlMode::PdJointPos { DELTA * noise } else { noise };
            actions[start..].iter_mut().for_each(|action| *action += (scale * rng.normal()) as f32);
        }
    }

    /// So much of the joints' way to the target.
    fn turn(&self, part: f64) -> [f64; JOINTS] {
        let there = reach(&self.angles, self.target, 10);
        std::array::from_fn(|joint| part * (there[joint] - self.angles[joint]))
    }

    fn way(&self) -> [f32; 3] {
        unit(self.gain * (self.target.position - self.tool.position))
    }
}

/// Metres or radians as an action.
fn unit(way: DVec3) -> [f32; 3] {
    (way / DELTA).clamp(DVec3::NEG_ONE, DVec3::ONE).as_vec3().to_array()
}
