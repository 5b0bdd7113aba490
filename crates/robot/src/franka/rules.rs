//! What targets may be, when the arm must hold and how often it may be recovered: rules without a robot, on anybody's clock.

use std::collections::VecDeque;
use std::time::Duration;

use glam::DVec3;

use super::FrankaSettings;
use crate::serl::server::Refusal;
use crate::{Time, ToolPose, Twist};

/// A tool this near to its target is there: it need not be told to hold.
const THERE_M: f64 = 0.003;
const THERE_RAD: f64 = 0.02;
/// Recoveries are counted over this time, and so many are enough: an arm that stops itself again and again needs a person.
const RECOVERY_WINDOW: Duration = Duration::from_secs(60);
const MOST_RECOVERIES: usize = 3;
/// A state that has not changed for so long is none.
pub(super) const STATE_TIMEOUT: Duration = Duration::from_millis(300);

/// How fast a motion may get, and how fast it gets there and stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Budget {
    pub(super) speed: f64,
    pub(super) acceleration: f64,
    pub(super) jerk: f64,
}

impl Budget {
    /// Half a second from rest to full speed: what an arm does without meeting its own collision thresholds.
    pub(super) fn for_speed(speed: f64) -> Self {
        Self { speed, acceleration: speed / 0.5, jerk: 20.0 }
    }

    /// How far it still goes from this velocity. The budget is shared by three axes.
    fn stopping(self, velocity: DVec3) -> DVec3 {
        let velocity = velocity.clamp_length_max(self.speed);
        velocity * (velocity.length() / (2.0 * self.acceleration / 3f64.sqrt()))
    }
}

/// The target that is followed.
#[derive(Debug, Default)]
pub(super) struct FollowedTarget {
    /// The target, and when it came. None: the arm stays where control began.
    last: Option<(ToolPose, Time)>,
    is_held: bool,
}

impl FollowedTarget {
    /// Refuses a target that is too far from where the arm is.
    pub(super) fn check(settings: &FrankaSettings, at: ToolPose, target: ToolPose) -> Result<(), Refusal> {
        let (metres, radians) = (target.distance_m(at), target.angle_rad(at));
        let FrankaSettings { max_lead_m, max_lead_rad, .. } = settings;
        if metres <= *max_lead_m && radians <= *max_lead_rad {
            return Ok(());
        }
        let words = format!(
            "the target is {metres:.3} m and {radians:.2} rad from the arm; {max_lead_m} m and {max_lead_rad} rad are allowed"
        );
        Err((400, words))
    }

    /// Where the arm was told to go.
    pub(super) fn pose(&self) -> Option<ToolPose> {
        self.last.map(|(pose, _)| pose)
    }

    /// It was sent.
    pub(super) fn sent(&mut self, target: ToolPose, now: Time) {
        (self.last, self.is_held) = (Some((target, now)), false);
    }

    /// A hold was sent, and nothing after it.
    pub(super) fn held(&mut self) {
        self.is_held = true;
    }

    /// Where to hold, when nobody has sent a target for too long. `None` while targets come, and for an arm that is at its
    /// target or held already.
    pub(super) fn hold(
        &self,
        settings: &FrankaSettings,
        at: ToolPose,
        velocity: Twist,
        now: Time,
    ) -> Option<ToolPose> {
        let (target, since) = self.last?;
        let is_there = at.distance_m(target) < THERE_M && at.angle_rad(target) < THERE_RAD;
        let is_late = now.since(since) >= settings.hold_after;
        (is_late && !self.is_held && !is_there).then(|| resting_pose(settings, at, velocity, Some(target)))
    }
}

/// Where an arm comes to rest soonest: where it is, and as much further as braking takes. It never goes past its target.
pub(super) fn resting_pose(
    settings: &FrankaSettings,
    at: ToolPose,
    velocity: Twist,
    target: Option<ToolPose>,
) -> ToolPose {
    let (translation, rotation) = settings.budgets();
    let (further_m, further_rad) =
        (translation.stopping(velocity.linear_m_s), rotation.stopping(velocity.angular_rad_s));
    let rest = at.moved(further_m, further_rad);
    let Some(target) = target else { return rest };
    let is_before = further_m.length() < at.distance_m(target);
    let turns_before = further_rad.length() < at.angle_rad(target);
    ToolPose::new(
        if is_before { rest.position_m } else { target.position_m },
        if turns_before { rest.rotation } else { target.rotation },
    )
}

/// How often an arm was recovered lately. SERL's clients clear errors before every target: without a limit an arm that
/// stopped itself would go on as if nothing had happened.
#[derive(Debug, Default)]
pub(super) struct Recoveries(VecDeque<Time>);

impl Recoveries {
    /// Counts one, or says why it may not happen.
    pub(super) fn begin(&mut self, now: Time) -> Result<(), String> {
        while self.0.front().is_some_and(|first| now.since(*first) >= RECOVERY_WINDOW) {
            self.0.pop_front();
        }
        if self.0.len() >= MOST_RECOVERIES {
            let minute = RECOVERY_WINDOW.as_secs();
            return Err(format!(
                "it stopped itself {MOST_RECOVERIES} times within {minute} s: look at it first"
            ));
        }
        self.0.push_back(now);
        Ok(())
    }
}

/// Whether the robot's states still change.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The robot's own time, and when it was first seen.
    seen: Option<(u64, Time)>,
}

impl Freshness {
    /// Takes note of a state by the robot's own clock. An old one is refused.
    pub(super) fn check(&mut self, robot_ms: u64, now: Time) -> Result<(), Refusal> {
        match self.seen {
            Some((last, since)) if last == robot_ms => {
                let age = now.since(since);
                let words = || format!("the robot has sent no state for {} ms", age.as_millis());
                if age > STATE_TIMEOUT { Err((503, words())) } else { Ok(()) }
            }
            _ => {
                self.seen = Some((robot_ms, now));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use glam::DQuat;

    use super::*;
    use crate::{Clock, VirtualClock};

    fn settings() -> FrankaSettings {
        FrankaSettings::new("172.16.0.2")
    }

    fn at(x: f64) -> ToolPose {
        ToolPose::new(DVec3::new(x, 0.0, 0.3), DQuat::from_rotation_x(3.0))
    }

    fn along_x(speed: f64) -> Twist {
        Twist { linear_m_s: DVec3::new(speed, 0.0, 0.0), ..Twist::default() }
    }

    #[test]
    fn far_targets_are_refused_with_their_distance() {
        let check = |target| FollowedTarget::check(&settings(), at(0.5), target);
        assert_eq!(check(at(0.69)), Ok(()));
        let (status, words) = check(at(0.75)).unwrap_err();
        assert_eq!(status, 400);
        assert_eq!(words, "the target is 0.250 m and 0.00 rad from the arm; 0.2 m and 0.6 rad are allowed");
        let turned = at(0.5).moved(DVec3::ZERO, DVec3::new(0.0, 0.0, 0.7));
        assert!(check(turned).unwrap_err().1.contains("0.70 rad"));
        let flipped = ToolPose::new(at(0.5).position_m, -at(0.5).rotation);
        assert_eq!(check(flipped), Ok(()), "the same rotation");
    }

    #[test]
    fn an_arm_without_targets_holds_once_and_goes_on_with_the_next() {
        let (clock, settings) = (VirtualClock::new(), settings());
        let mut followed = FollowedTarget::default();
        let hold = |followed: &FollowedTarget, pose, now| followed.hold(&settings, pose, along_x(0.0), now);
        clock.advance(Duration::from_secs(10));
        assert_eq!(hold(&followed, at(0.5), clock.now()), None, "there was no target yet");

        followed.sent(at(0.6), clock.now());
        clock.advance(Duration::from_millis(499));
        assert_eq!(hold(&followed, at(0.55), clock.now()), None);
        clock.advance(Duration::from_millis(1));
        assert_eq!(hold(&followed, at(0.598), clock.now()), None, "it is there");
        let pose = hold(&followed, at(0.55), clock.now()).unwrap();
        assert!(pose.distance_m(at(0.55)) < 1e-9, "where it is");
        followed.held();
        clock.advance(Duration::from_secs(1));
        assert_eq!(hold(&followed, at(0.55), clock.now()), None, "one hold is enough");

        followed.sent(at(0.56), clock.now());
        assert_eq!(hold(&followed, at(0.55), clock.now()), None);
        clock.advance(Duration::from_millis(500));
        assert!(hold(&followed, at(0.55), clock.now()).is_some());
    }

    /// By hand: 0.25 m/s and 0.5 m/s² over three axes: 0.25² / (2 · 0.5 / √3) = 0.108 m.
    #[test]
    fn a_moving_arm_rests_where_it_can_stop_and_never_past_its_target() {
        let settings = settings();
        let rest = |speed, target| resting_pose(&settings, at(0.5), along_x(speed), target).position_m.x;
        assert!((rest(0.25, None) - 0.6083).abs() < 1e-3);
        assert!((rest(0.1, Some(at(0.7))) - 0.5173).abs() < 1e-3);
        assert!((rest(0.25, Some(at(0.55))) - 0.55).abs() < 1e-9, "the target is nearer");
        assert!(
            (rest(9.0, None) - rest(0.25, None)).abs() < 1e-9,
            "a speed that cannot be is no reason to go far"
        );
        let blocked = resting_pose(&settings, at(0.5), Twist::default(), Some(at(0.6)));
        assert!(blocked.distance_m(at(0.5)) < 1e-12, "an arm that is blocked does not press on");
    }

    #[test]
    fn the_fourth_recovery_in_a_minute_needs_a_person() {
        let (clock, mut recoveries) = (VirtualClock::new(), Recoveries::default());
        for _ in 0..3 {
            assert_eq!(recoveries.begin(clock.now()), Ok(()));
            clock.advance(Duration::from_secs(10));
        }
        let why = recoveries.begin(clock.now()).unwrap_err();
        assert_eq!(why, "it stopped itself 3 times within 60 s: look at it first");
        clock.advance(Duration::from_secs(30));
        assert_eq!(recoveries.begin(clock.now()), Ok(()), "the first is a minute ago");
        assert!(recoveries.begin(clock.now()).is_err());
    }

    #[test]
    fn a_state_that_does_not_change_is_none_after_a_while() {
        let (clock, mut freshness) = (VirtualClock::new(), Freshness::default());
        assert_eq!(freshness.check(1, clock.now()), Ok(()));
        clock.advance(Duration::from_millis(300));
        assert_eq!(freshness.check(1, clock.now()), Ok(()));
        clock.advance(Duration::from_millis(1));
        assert_eq!(
            freshness.check(1, clock.now()),
            Err((503, "the robot has sent no state for 301 ms".into()))
        );
        assert_eq!(freshness.check(2, clock.now()), Ok(()));
    }
}
