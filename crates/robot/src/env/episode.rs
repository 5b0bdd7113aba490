//! Where episodes begin, what they are rewarded with, and what is written down of a step.

use std::time::Duration;

use glam::DVec3;
use plaudit_core::{
    BROKEN_LIMITS_FACT, Facts as NamedFacts, INVALID_FACT, PERIOD_FACT, PRE_RECORD_FACT, SEGMENT_FACT,
};

use super::RobotEnv;
use super::keys::{EpisodeKeys, KeyLabel, KeyLabels};
use crate::arm_loop::ArmEnv;
use crate::{HoldCause, ToolPose, Watched};

/// A reset has arrived when the tool is this near.
const ARRIVED_M: f64 = 0.008;
const ARRIVED_RAD: f64 = 0.06;
/// How long one try may take beyond the time that the speed limit asks for.
const SETTLE: Duration = Duration::from_secs(3);
/// A dense reward falls off by this over squared metres.
const DENSE_FALLOFF: f64 = 500.0;

/// What is written down of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) intervention: bool,
    pub(crate) clipped: bool,
    pub(crate) held: bool,
    pub(crate) invalid: bool,
    pub(crate) frame_age: Duration,
    pub(crate) overrun: Duration,
    pub(crate) period: Duration,
    pub(crate) force_n: f64,
    pub(crate) broken_limits: u64,
    pub(crate) time: Duration,
}

impl Facts {
    pub(crate) fn named(&self) -> NamedFacts {
        let flag = |is: bool| f32::from(u8::from(is));
        [
            ("intervention", flag(self.intervention)),
            ("clipped", flag(self.clipped)),
            ("held", flag(self.held)),
            (INVALID_FACT, flag(self.invalid)),
            ("frame_age", self.frame_age.as_secs_f32()),
            ("overrun", self.overrun.as_secs_f32()),
            (PERIOD_FACT, self.period.as_secs_f32()),
            ("force", self.force_n as f32),
            (BROKEN_LIMITS_FACT, self.broken_limits as f32),
            ("time", self.time.as_secs_f32()),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), vec![value]))
        .collect()
    }
}

impl RobotEnv {
    /// Whether the tool is where it should be.
    pub(super) fn is_near_target(&self, pose: ToolPose) -> bool {
        let off = (pose.position_m - self.task.target.position_m).abs();
        let is_turned = |most: f64| pose.angle_rad(self.task.target) <= most;
        off.cmple(self.task.near_m).all() && self.task.near_rad.is_none_or(is_turned)
    }

    pub(super) fn reward(&self, pose: ToolPose, is_near: bool, gripper_moved: bool) -> f32 {
        let reward = if is_near {
            1.0
        } else if self.task.dense_reward {
            (-DENSE_FALLOFF * pose.position_m.distance_squared(self.task.target.position_m)).exp()
        } else {
            0.0
        };
        let penalty = if gripper_moved { self.task.gripper_penalty } else { 0.0 };
        (self.task.reward_scale * (reward - penalty)) as f32
    }

    /// What a person says by key about the step that has just ended; nothing where keys say nothing. Asked once the frame of the step
    /// is there, so that a key is about what the person sees.
    pub(super) fn key_label(&mut self) -> Option<KeyLabel> {
        self.labels.as_ref()?;
        let (held, now) = (self.poll_pilot().held, self.arm.now());
        let pressed = std::mem::take(&mut self.pressed);
        self.labels.as_mut().map(|labels| labels.label(&pressed, &held, now))
    }

    /// What is written down about a recording that a person starts and ends.
    pub(super) fn recording_facts(&self, label: Option<KeyLabel>) -> NamedFacts {
        let label = label.filter(|_| self.task.keys == Some(EpisodeKeys::StartEnd));
        let facts = label.map(|label| {
            let is_before = f32::from(u8::from(!label.is_recorded));
            [(PRE_RECORD_FACT.into(), vec![is_before]), (SEGMENT_FACT.into(), vec![label.segment as f32])]
        });
        facts.into_iter().flatten().collect()
    }

    /// Brings the tool to the start of the next episode, and forgets the last one.
    pub(super) fn begin(&mut self) {
        self.episodes += 1;
        if self.come_to_start()
            && let Some(view) = &self.view
        {
            self.start = view.state.pose;
        }
        (self.held_steps, self.is_solved) = (0, false);
        (self.pilot_moved, self.gripper_told, self.stepped_at) = (None, None, None);
        if let Some(keys) = self.task.keys {
            // What was typed while nothing was shown means nothing.
            self.poll_pilot();
            self.pressed.clear();
            self.labels = Some(KeyLabels::begin(keys));
        }
        let mut rng = self.seed.purpose("pilot").index(self.episode()).rng();
        self.pilot_is_there = self.task.pilot_share >= 1.0 || rng.unit() < self.task.pilot_share;
        self.arm.begin();
    }

    /// Which episode this is, counted from 0.
    fn episode(&self) -> u64 {
        self.episodes - 1
    }

    /// Where the episode starts: seed and number decide.
    pub(super) fn start_of_episode(&self) -> ToolPose {
        let mut rng = self.seed.purpose("start").index(self.episode()).rng();
        let mut within = |half: f64| if half > 0.0 { rng.uniform(-half, half) } else { 0.0 };
        let aside = DVec3::new(within(self.task.random_xy_m), within(self.task.random_xy_m), 0.0);
        let wanted = self.task.reset_pose.moved(aside, DVec3::Z * within(self.task.random_yaw_rad));
        self.arm.guard.lock().limits().workspace.nearest(wanted).0
    }

    pub(super) fn reset_table(&mut self) -> Result<(), HoldCause> {
        self.arm.guard.lock().hold(HoldCause::Other("the table is reset".into()));
        self.parts.table.reset(self.episode()).map_err(HoldCause::Other)?;
        self.arm.guard.lock().anchor();
        Ok(())
    }

    /// Moves the tool to `goal`: up first, if it is below, then over.
    pub(super) fn bring_to(&mut self, goal: ToolPose) -> Result<(), HoldCause> {
        let mut missed = (f64::INFINITY, f64::INFINITY);
        for _ in 0..self.task.reset_tries.max(1) {
            let pose = self.arm.guard.lock().observe()?.pose;
            if pose.position_m.z < goal.position_m.z - ARRIVED_M {
                let above = DVec3::new(pose.position_m.x, pose.position_m.y, goal.position_m.z);
                self.approach(ToolPose::new(above, pose.rotation))?;
            }
            missed = self.approach(goal)?;
            if missed.0 < ARRIVED_M && missed.1 < ARRIVED_RAD {
                return Ok(());
            }
        }
        let (metres, radians) = missed;
        let cause = HoldCause::ResetMissed { metres, radians, tries: self.task.reset_tries.max(1) };
        Err(self.arm.guard.lock().wait_for_person(cause))
    }

    /// Sends targets towards `goal` until the tool is there or time is up; returns how far off it is.
    fn approach(&mut self, goal: ToolPose) -> Result<(f64, f64), HoldCause> {
        let (begun, period) = (self.arm.now(), self.arm.period());
        let mut due = begun;
        loop {
            if self.arm.stop.is_raised() {
                return Err(HoldCause::Stopped);
            }
            let off = {
                let mut guard = self.arm.guard.lock();
                let pose = guard.observe()?.pose;
                let off = (pose.distance_m(goal), pose.angle_rad(goal));
                guard.approach(goal)?;
                off
            };
            let limits = self.arm.guard.lock().limits().clone();
            let needed = (off.0 / limits.max_speed_m_s).max(off.1 / limits.max_turn_rad_s);
            let is_there = off.0 < ARRIVED_M && off.1 < ARRIVED_RAD;
            let is_late = self.arm.now().since(begun) > SETTLE + Duration::from_secs_f64(needed.min(60.0));
            if is_there || is_late {
                return Ok(off);
            }
            due = (due + period).max(self.arm.now());
            self.arm.clock.sleep_until(due);
        }
    }
}
