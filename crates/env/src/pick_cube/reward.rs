//! The reward of PickCube, as ManiSkill defines it.

use crate::panda::RewardMode;

/// The ground truth that the reward is computed from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Truth {
    pub(crate) tool_to_cube: f64,
    pub(crate) cube_to_goal: f64,
    /// The length of the seven joint speeds taken together.
    pub(crate) arm_speed: f64,
    pub(crate) is_grasped: bool,
    pub(crate) is_obj_placed: bool,
    pub(crate) is_robot_static: bool,
}

/// The dense reward of success, which no other step reaches.
const MOST: f64 = 5.0;

impl Truth {
    /// The cube is at the goal and the robot has come to rest. Holding the cube is not asked for.
    pub(crate) fn success(&self) -> bool {
        self.is_obj_placed && self.is_robot_static
    }

    pub(crate) fn reward(&self, mode: RewardMode) -> f64 {
        mode.reward(self.dense(), MOST, self.success())
    }

    /// Reach, grasp, place, stand still: each adds up to 1.
    fn dense(&self) -> f64 {
        if self.success() {
            return MOST;
        }
        let near = |distance: f64| 1.0 - (5.0 * distance).tanh();
        let (grasped, placed) = (f64::from(self.is_grasped), f64::from(self.is_obj_placed));
        near(self.tool_to_cube) + grasped + grasped * near(self.cube_to_goal) + placed * near(self.arm_speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_rewards_more_than_the_last() {
        let far = Truth {
            tool_to_cube: 0.2,
            cube_to_goal: 0.3,
            arm_speed: 1.0,
            is_grasped: false,
            is_obj_placed: false,
            is_robot_static: false,
        };
        let near = Truth { tool_to_cube: 0.0, ..far };
        let grasped = Truth { is_grasped: true, ..near };
        let placed = Truth { cube_to_goal: 0.02, is_obj_placed: true, ..grasped };
        let done = Truth { arm_speed: 0.1, is_robot_static: true, ..placed };
        let rewards = [far, near, grasped, placed, done].map(|truth| truth.reward(RewardMode::Dense));
        assert!(rewards.windows(2).all(|pair| pair[0] < pair[1]), "{rewards:?}");
        // By hand: 1 - tanh(1), then 1, then 2 + 1 - tanh(1.5).
        assert!((rewards[0] - 0.238_405_8).abs() < 1e-6);
        assert_eq!(rewards[1], 1.0);
        assert!((rewards[2] - 2.094_851_7).abs() < 1e-6);
        assert_eq!(rewards[4], 5.0);
        assert_eq!(done.reward(RewardMode::Raw), 1.0);
        assert_eq!(done.reward(RewardMode::Sparse), 1.0);
        assert_eq!(placed.reward(RewardMode::OnlySuccess), 0.0);
    }
}
