//! The reward of PegInsertionSide, as ManiSkill defines it.

use glam::DVec3;

use crate::panda::RewardMode;

/// The ground truth that the reward is computed from. Places are in the frame of the hole, which goes along x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Truth {
    /// From the tool to the place on the peg where it should be held.
    pub(crate) tool_to_grip: f64,
    pub(crate) is_grasped: bool,
    pub(crate) head: DVec3,
    pub(crate) middle: DVec3,
    pub(crate) hole_radius: f64,
}

/// The dense reward of success, which no other step reaches.
const MOST: f64 = 10.0;
/// How far from the middle of the box the head may be.
const DEEP_ENOUGH: f64 = -0.015;
/// A peg is lined up when head and middle are this near to the hole's axis.
const LINED_UP: f64 = 0.01;

impl Truth {
    /// The head is in the hole, half way through the box or further.
    pub(crate) fn success(&self) -> bool {
        let within = |across: f64| across.abs() <= self.hole_radius;
        self.head.x >= DEEP_ENOUGH && within(self.head.y) && within(self.head.z)
    }

    /// Head and middle are near the hole's axis.
    pub(crate) fn is_lined_up(&self) -> bool {
        self.axis_distances().into_iter().all(|distance| distance < LINED_UP)
    }

    pub(crate) fn reward(&self, mode: RewardMode) -> f64 {
        mode.reward(self.dense(), MOST, self.success())
    }

    /// How far head and middle are from the hole's axis.
    fn axis_distances(&self) -> [f64; 2] {
        [self.head, self.middle].map(|place| place.y.hypot(place.z))
    }

    /// Reach 1, grasp 1, line up 3, insert 5: each stage counts once the one before it is done.
    fn dense(&self) -> f64 {
        if self.success() {
            return MOST;
        }
        let reached = 1.0 - (4.0 * self.tool_to_grip).tanh();
        if !self.is_grasped {
            return reached;
        }
        let [head, middle] = self.axis_distances();
        let lined_up = 3.0 * (1.0 - (0.5 * (head + middle) + 4.5 * head.max(middle)).tanh());
        let inserted = 5.0 * (1.0 - (5.0 * self.head.length()).tanh());
        reached + 1.0 + lined_up + f64::from(self.is_lined_up()) * inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_rewards_more_than_the_last() {
        let far = Truth {
            tool_to_grip: 0.2,
            is_grasped: false,
            head: DVec3::new(-0.3, 0.2, 0.0),
            middle: DVec3::new(-0.4, 0.2, 0.0),
            hole_radius: 0.023,
        };
        let near = Truth { tool_to_grip: 0.0, ..far };
        let grasped = Truth { is_grasped: true, ..near };
        let lined_up =
            Truth { head: DVec3::new(-0.12, 0.0, 0.0), middle: DVec3::new(-0.22, 0.0, 0.0), ..grasped };
        let halfway = Truth { head: DVec3::new(-0.06, 0.0, 0.0), ..lined_up };
        let done = Truth { head: DVec3::new(-0.01, 0.02, -0.02), ..lined_up };
        let rewards = [far, near, grasped, lined_up, halfway, done].map(|t| t.reward(RewardMode::Dense));
        assert!(rewards.windows(2).all(|pair| pair[0] < pair[1]), "{rewards:?}");
        // By hand: 1 - tanh(0.8), 1, 2 + 3 (1 - tanh(0.2 + 0.9)), 5 + 5 (1 - tanh(0.6)).
        for (got, expected) in rewards.into_iter().zip([0.335_963, 1.0, 2.598_503, 7.314_752]) {
            assert!((got - expected).abs() < 1e-5, "{got} {expected}");
        }
        assert_eq!(rewards[5], 10.0);
        assert_eq!([RewardMode::Raw, RewardMode::Sparse].map(|mode| done.reward(mode)), [1.0, 1.0]);
        assert_eq!(halfway.reward(RewardMode::OnlySuccess), 0.0);
        let beside = Truth { head: DVec3::new(0.0, 0.024, 0.0), ..done };
        assert!(!beside.success() && !beside.is_lined_up());
    }
}
