//! Reward modes and observation modes of the table tasks.

use serde::{Deserialize, Serialize};

/// The reward of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardMode {
    /// ManiSkill's default: the dense reward divided by the reward of success.
    #[default]
    Raw,
    /// 1 for success, else 0.
    OnlySuccess,
    /// ManiSkill's sparse reward: the same, since these tasks know no failure.
    Sparse,
    /// Every stage of the task adds its part: at most 5 in PickCube, 10 in PegInsertionSide.
    Dense,
    /// The dense reward divided by the reward of success.
    NormalizedDense,
}

/// What is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObsMode {
    /// The full state: 42 numbers in PickCube, 43 in PegInsertionSide. No images unless requested.
    #[default]
    State,
    /// What a robot knows without cameras (29 and 25 numbers), and images of every step.
    Rgb,
}

impl RewardMode {
    /// The reward of a step whose dense reward is `dense`, of at most `most`.
    pub(crate) fn reward(self, dense: f64, most: f64, success: bool) -> f64 {
        match self {
            Self::Raw | Self::NormalizedDense => dense / most,
            Self::Dense => dense,
            Self::OnlySuccess | Self::Sparse => f64::from(success),
        }
    }
}
