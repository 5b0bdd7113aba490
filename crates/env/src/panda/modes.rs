//! What tasks at the table pay and show.

use serde::{Deserialize, Serialize};

/// What the environment pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardMode {
    /// What ManiSkill pays unless told otherwise: the dense reward over what success pays.
    #[default]
    Raw,
    /// 1 for success, else 0.
    OnlySuccess,
    /// ManiSkill's sparse reward: the same, since these tasks know no failure.
    Sparse,
    /// Every stage of the task adds its part: at most 5 in PickCube, 10 in PegInsertionSide.
    Dense,
    /// The dense reward over what success pays.
    NormalizedDense,
}

/// What is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObsMode {
    /// The full state: 42 numbers in PickCube, 43 in PegInsertionSide. No pictures unless somebody watches.
    #[default]
    State,
    /// What a robot could know without seeing, 29 and 25 numbers, and pictures of every step.
    Rgb,
}

impl RewardMode {
    /// What a step pays whose dense reward is `dense`, of at most `most`.
    pub(crate) fn pay(self, dense: f64, most: f64, success: bool) -> f64 {
        match self {
            Self::Raw | Self::NormalizedDense => dense / most,
            Self::Dense => dense,
            Self::OnlySuccess | Self::Sparse => f64::from(success),
        }
    }
}
