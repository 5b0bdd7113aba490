//! Which environments there are, under the names users write.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ObsMode, SettingsError};

/// An environment, by the id users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EnvId {
    /// Balance a pole on a cart for 200 steps. Success: still up at the time limit.
    CartPoleV0,
    /// Balance a pole on a cart for 500 steps. Success: still up at the time limit.
    CartPoleV1,
    /// Swing a weak pendulum up and hold it. It never terminates. Success: within 0.2 rad of upright and
    /// slower than 0.5 rad/s, at this moment (Gymnasium itself defines none).
    PendulumV1,
    /// Swing the tip of a two-link arm above the line. Success: the tip is above it.
    AcrobotV1,
    /// Drive a weak car out of a valley. Success: it is at the flag.
    MountainCarContinuousV0,
    /// Grasp a cube and bring it to a goal in the air. Success: it is there and the robot stands still.
    PickCubeV1,
    /// The same, with a second camera that sees the scene from the side.
    PickCube3ViewV1,
    /// Grasp a peg and push it into a hole 3 mm wider on each side. Success: its head is half way through.
    PegInsertionSideV1,
}

impl EnvId {
    /// All there are, in the order to show them.
    pub const ALL: [Self; 8] = [
        Self::CartPoleV0,
        Self::CartPoleV1,
        Self::PendulumV1,
        Self::AcrobotV1,
        Self::MountainCarContinuousV0,
        Self::PickCubeV1,
        Self::PickCube3ViewV1,
        Self::PegInsertionSideV1,
    ];

    /// The id as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CartPoleV0 => "CartPole-v0",
            Self::CartPoleV1 => "CartPole-v1",
            Self::PendulumV1 => "Pendulum-v1",
            Self::AcrobotV1 => "Acrobot-v1",
            Self::MountainCarContinuousV0 => "MountainCarContinuous-v0",
            Self::PickCubeV1 => "PickCube-v1",
            Self::PickCube3ViewV1 => "PickCube3View-v1",
            Self::PegInsertionSideV1 => "PegInsertionSide-v1",
        }
    }

    /// Numbers in the full state of an environment whose state without cameras has only the
    /// first of them.
    pub fn full_state_width(self) -> Option<usize> {
        match self {
            Self::PickCubeV1 | Self::PickCube3ViewV1 => Some(crate::pick_cube::state_width(ObsMode::State)),
            Self::PegInsertionSideV1 => Some(crate::peg_insertion::state_width(ObsMode::State)),
            _ => None,
        }
    }

    /// Whether an episode is over when the task is solved.
    pub fn ends_at_success(self) -> bool {
        matches!(self, Self::PickCubeV1 | Self::PickCube3ViewV1 | Self::PegInsertionSideV1)
    }

    /// Steps after which an episode is truncated, unless the settings say otherwise.
    pub fn max_episode_steps(self) -> usize {
        match self {
            Self::CartPoleV0 | Self::PendulumV1 => 200,
            Self::CartPoleV1 | Self::AcrobotV1 => 500,
            Self::MountainCarContinuousV0 => 999,
            Self::PickCubeV1 | Self::PickCube3ViewV1 => 50,
            Self::PegInsertionSideV1 => 100,
        }
    }
}

impl fmt::Display for EnvId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<EnvId> for String {
    fn from(id: EnvId) -> Self {
        id.as_str().into()
    }
}

impl TryFrom<String> for EnvId {
    type Error = SettingsError;

    fn try_from(text: String) -> Result<Self, SettingsError> {
        text.parse()
    }
}

impl FromStr for EnvId {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let exact = Self::ALL.into_iter().find(|id| id.as_str() == text);
        exact.ok_or_else(|| SettingsError::UnknownId { id: text.into(), nearest: nearest(text) })
    }
}

/// The id that `text` was probably meant to be.
fn nearest(text: &str) -> EnvId {
    let alike = |id: EnvId| strsim::jaro_winkler(&text.to_lowercase(), &id.as_str().to_lowercase());
    EnvId::ALL.into_iter().max_by(|a, b| alike(*a).total_cmp(&alike(*b))).unwrap_or(EnvId::CartPoleV1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_written_and_typos_find_their_neighbour() {
        for id in EnvId::ALL {
            assert_eq!(id.as_str().parse::<EnvId>().unwrap(), id);
            assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        }
        let meant = |text: &str| match text.parse::<EnvId>() {
            Err(SettingsError::UnknownId { nearest, .. }) => nearest.as_str(),
            other => panic!("{other:?}"),
        };
        assert_eq!(meant("pendulum"), "Pendulum-v1");
        assert_eq!(meant("MountainCar-v0"), "MountainCarContinuous-v0");
        assert_eq!(meant("acrobot-v1"), "Acrobot-v1");
        assert_eq!(meant("PickCube"), "PickCube-v1");
        let error = serde_json::from_str::<EnvId>("\"Cartpole-v1\"").unwrap_err().to_string();
        assert!(error.contains("did you mean `CartPole-v1`?"), "{error}");
    }
}
