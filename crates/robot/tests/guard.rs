//! The rules of safety, each by itself and all together in a million random actions. The clock is virtual.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::{FakeArm, Told, down, limits};
use glam::DVec3;
use plaudit_core::{Rng, Seed};
use plaudit_robot::{
    Clock, GripperCommand, Guard, HoldCause, Limits, Mode, Motion, Person, ToolPose, VirtualClock, Watched,
};

const STEP: Duration = Duration::from_millis(100);

struct Bench {
    clock: Arc<VirtualClock>,
    arm: FakeArm,
    guard: Guard,
}

impl Bench {
    fn with(limits: Limits) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let arm = FakeArm::new(clock.clone());
        let guard = Guard::new(Box::new(arm.clone()), limits, clock.clone()).unwrap();
        Self { clock, arm, guard }
    }

    /// Armed, and the first target sent.
    fn armed(limits: Limits) -> Self {
        let mut bench = Self::with(limits);
        bench.guard.arm(&Person::agreed("test"));
        bench.step(DVec3::ZERO).unwrap();
        bench
    }

    fn motion(&self, translation_m: DVec3) -> Motion {
        Motion { translation_m, rotation_rad: DVec3::ZERO, seen: self.clock.now(), by_person: false }
    }

    /// Observes, acts, and lets a period pass.
    fn step(&mut self, translation_m: DVec3) -> Result<plaudit_robot::Sent, HoldCause> {
        let observed = self.guard.observe().map(|_| ());
        let acted = observed.and_then(|()| self.guard.act(&self.motion(translation_m)));
        self.clock.advance(STEP);
        acted
    }

    fn is_hold(&self, target: ToolPose) -> bool {
        target.distance_m(self.arm.world().pose) < 1e-9
    }
}

/// What must hold of everything that an arm was told. Returns how many targets there were.
fn check_targets(arm: &FakeArm, limits: &Limits) -> usize {
    let (mut before, mut count) = (None::<(ToolPose, _)>, 0);
    let told = std::mem::take(&mut arm.world().told);
    for (time, told) in told {
        let Told::Target { target, measured } = told else { continue };
        count += 1;
        assert!(limits.workspace.contains(target, 0.0, 0.0), "{target:?} is outside");
        let (nearest, _) = limits.workspace.nearest(measured);
        let is_measured = target.distance_m(nearest) < 1e-9 && target.angle_rad(nearest) < 1e-6;
        let Some((last, last_time)) = before.replace((target, time)) else {
            assert!(is_measured, "the first target {target:?} is not the measured pose {measured:?}");
            continue;
        };
        let elapsed = time.since(last_time).min(STEP).as_secs_f64();
        let is_slow = target.distance_m(last) <= limits.max_speed_m_s * elapsed + 1e-9
            && target.angle_rad(last) <= limits.max_turn_rad_s * elapsed + 1e-6;
        assert!(
            is_slow || is_measured,
            "{elapsed} s from {last:?} to {target:?} with the arm at {measured:?}"
        );
        assert!(is_measured || !limits.workspace.crosses_keep_out(last, target), "{last:?} to {target:?}");
    }
    count
}

/// Invariants 1 and 2: a million random actions, with NaN, quaternion flips, pauses, pushes, lost states and recoveries.
#[test]
fn an_arm_of_which_nothing_is_asked_stays_where_that_began() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.01).unwrap();
    let rest = bench.step(DVec3::ZERO).unwrap().target;
    for _ in 0..20 {
        bench.arm.world().pose.position_m.z -= 0.001; // it gives way
        let sent = bench.step(DVec3::ZERO).unwrap();
        assert!(sent.target.distance_m(rest) < 1e-6, "it drifts: {:?} for {rest:?}", sent.target);
    }
    let measured = bench.arm.world().pose;
    let moved = bench.step(DVec3::X * 0.01).unwrap();
    assert!(moved.translation_m.x > 0.0 && moved.target.distance_m(measured) < 0.02, "it goes on from there");
}

#[test]
fn a_million_random_actions_keep_every_limit() {
    let mut limits = limits();
    limits.reflexes_per_minute = usize::MAX;
    let mut bench = Bench::armed(limits.clone());
    let mut rng = Seed::new(20).purpose("guard").rng();
    let (mut targets, mut reflexes) = (0, 0);
    for round in 0..1_000_000 {
        disturb(&bench, &mut rng);
        let mut vector = |size: f64| DVec3::from_array(std::array::from_fn(|_| rng.uniform(-size, size)));
        let mut motion = bench.motion(vector(0.1));
        motion.rotation_rad = vector(1.0);
        match rng.below(200) {
            0 => motion.translation_m.x = f64::NAN,
            1 => motion.rotation_rad.z = f64::INFINITY,
            2 => motion.translation_m *= 1e12,
            3 => motion.rotation_rad *= 1e9,
            _ => {}
        }
        // What it holds for is no matter here, only what reaches the arm.
        let _ = bench.guard.observe();
        let _ = match rng.below(100) {
            0 => bench.guard.approach(ToolPose::new(DVec3::new(2.0, -1.0, -1.0), down())).map(|_| ()),
            1 => {
                bench.guard.anchor();
                Ok(())
            }
            _ => bench.guard.act(&motion).map(|_| ()),
        };
        if *bench.guard.mode() == Mode::Reflex {
            reflexes += 1;
            let _ = bench.guard.recover();
        }
        bench.clock.advance(Duration::from_millis(if rng.below(50) == 0 {
            5000
        } else {
            rng.below(150) as u64
        }));
        bench.guard.tick();
        if round % 1000 == 999 {
            targets += check_targets(&bench.arm, &limits);
            // The next check begins with a first target.
            bench.arm.world().in_reflex = false;
            bench.guard.arm(&Person::agreed("test"));
        }
    }
    assert!(targets > 500_000 && reflexes > 1000, "{targets} targets, {reflexes} reflexes");
}

/// What happens to an arm in a laboratory.
fn disturb(bench: &Bench, rng: &mut Rng) {
    let mut world = bench.arm.world();
    world.flip = rng.below(2) == 0;
    world.nan = rng.below(300) == 0;
    world.is_reachable = rng.below(100) != 0;
    world.in_reflex |= rng.below(500) == 0;
    world.wrench.force_n.z = if rng.below(200) == 0 { 80.0 } else { 0.0 };
    if rng.below(400) == 0 {
        // Somebody pushes the arm, but not into the post.
        let (x, z) = (rng.uniform(0.25, 0.65), rng.uniform(0.25, 0.45));
        world.pose.position_m = DVec3::new(x, rng.uniform(-0.25, 0.25), z);
    }
}

/// Invariant 1: ways never lead through a keep-out box, and the arm is not stuck in front of it.
#[test]
fn ways_never_cross_a_keep_out_box() {
    let limits = limits();
    let mut bench = Bench::armed(limits.clone());
    bench.arm.world().pose.position_m = DVec3::new(0.45, 0.075, 0.1);
    bench.guard.anchor();
    for _ in 0..30 {
        bench.step(DVec3::X * 0.02).unwrap();
    }
    let x = bench.arm.world().pose.position_m.x;
    assert!((0.49..0.5).contains(&x), "{x}");
    for _ in 0..30 {
        bench.step(DVec3::Y * -0.02).unwrap();
    }
    assert!(bench.arm.world().pose.position_m.y < -0.1);
    check_targets(&bench.arm, &limits);
}

/// Invariant 2: the first target is the measured pose, also after a recovery.
#[test]
fn the_first_target_is_the_measured_pose() {
    let mut bench = Bench::armed(limits());
    assert!(bench.is_hold(bench.arm.targets()[0]));
    bench.step(DVec3::X).unwrap();
    let targets = bench.arm.targets();
    assert!((targets[1].distance_m(targets[0]) - 0.025).abs() < 1e-9, "0.25 m/s for 0.1 s");
    bench.arm.world().in_reflex = true;
    assert!(matches!(bench.step(DVec3::X), Err(HoldCause::Arm(_))));
    bench.guard.recover().unwrap();
    let before = bench.arm.world().pose;
    bench.step(DVec3::X).unwrap();
    assert!(bench.arm.targets().last().unwrap().distance_m(before) < 1e-9);
}

/// Invariant 2: a pause allows no larger step.
#[test]
fn a_pause_allows_no_larger_step() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.01).unwrap();
    bench.clock.advance(Duration::from_secs(30));
    bench.guard.observe().unwrap();
    let last = *bench.arm.targets().last().unwrap();
    let sent = bench.guard.act(&bench.motion(DVec3::X)).unwrap();
    assert!(sent.target.distance_m(last) < 0.025 + 1e-9);
}

/// Invariant 3.
#[test]
fn old_actions_move_nothing_and_silence_is_one_hold() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.05).unwrap();
    let old = bench.motion(DVec3::X * 0.05);
    bench.clock.advance(Duration::from_millis(201));
    bench.guard.observe().unwrap();
    assert!(matches!(bench.guard.act(&old), Err(HoldCause::ActionOld { .. })));
    let held = bench.arm.targets().len();
    assert!(bench.is_hold(bench.arm.targets()[held - 1]));
    for _ in 0..100 {
        bench.clock.advance(Duration::from_millis(20));
        bench.guard.tick();
        let _ = bench.guard.act(&old);
    }
    assert_eq!(bench.arm.targets().len(), held, "one hold, then silence");
    bench.step(DVec3::X * 0.01).unwrap();
    assert_eq!(bench.arm.targets().len(), held + 1, "a new action is passed on");
    bench.clock.advance(Duration::from_millis(250));
    bench.guard.tick();
    bench.guard.tick();
    assert_eq!(bench.arm.targets().len(), held + 2, "nobody acts: one hold");
}

/// Invariant 4, the arm's half; frames are the environment's.
#[test]
fn old_states_hold() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.05).unwrap();
    bench.clock.advance(Duration::from_millis(250));
    let cause = bench.guard.act(&bench.motion(DVec3::X * 0.05)).unwrap_err();
    assert!(matches!(cause, HoldCause::StateOld(age) if age == Duration::from_millis(350)), "{cause}");
    assert!(bench.is_hold(*bench.arm.targets().last().unwrap()));
    bench.arm.world().nan = true;
    assert_eq!(bench.guard.observe().unwrap_err(), HoldCause::NoPose);
}

/// Invariant 5.
#[test]
fn force_and_torque_hold_within_one_step() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.05).unwrap();
    bench.arm.world().wrench.force_n = DVec3::new(0.0, 30.0, -30.0);
    let cause = bench.step(DVec3::X * 0.05).unwrap_err();
    assert_eq!(cause.to_string(), "42.4 N press on the tool; at most 40 are allowed");
    let held = bench.arm.targets().len();
    bench.arm.world().wrench.force_n = DVec3::ZERO;
    bench.arm.world().wrench.torque_nm = DVec3::X * f64::NAN;
    assert!(matches!(bench.step(DVec3::X).unwrap_err(), HoldCause::Torque { .. }));
    assert_eq!(bench.arm.targets().len(), held, "still the same hold");
    bench.arm.world().wrench.torque_nm = DVec3::ZERO;
    bench.step(DVec3::X * 0.01).unwrap();
}

/// Invariant 6.
#[test]
fn a_third_reflex_in_a_minute_waits_for_a_person() {
    let mut bench = Bench::armed(limits());
    for count in 1..=3 {
        bench.arm.world().in_reflex = true;
        assert!(matches!(bench.step(DVec3::X * 0.01), Err(HoldCause::Arm(_))));
        let recovered = bench.arm.world().told.iter().filter(|(_, told)| *told == Told::Recover).count();
        assert_eq!(recovered, count - 1, "nobody but `recover` clears an error");
        if count < 3 {
            assert_eq!(*bench.guard.mode(), Mode::Reflex);
            assert_eq!(bench.step(DVec3::X * 0.01), Err(HoldCause::Reflex));
            bench.guard.recover().unwrap();
            bench.step(DVec3::ZERO).unwrap();
        }
    }
    assert_eq!(bench.guard.recover(), Err(HoldCause::Reflexes(3)));
    assert_eq!(bench.step(DVec3::ZERO), Err(HoldCause::Reflexes(3)));
    bench.arm.world().in_reflex = false;
    bench.guard.arm(&Person::agreed("test"));
    bench.step(DVec3::ZERO).unwrap();

    let mut seldom = Bench::armed(limits());
    for _ in 0..5 {
        seldom.arm.world().in_reflex = true;
        let _ = seldom.step(DVec3::X * 0.01);
        seldom.guard.recover().unwrap();
        seldom.step(DVec3::ZERO).unwrap();
        seldom.clock.advance(Duration::from_secs(40));
    }
    assert_eq!(*seldom.guard.mode(), Mode::Armed);
}

/// Invariant 6 for servers that do not say that the arm has stopped itself.
#[test]
fn an_arm_that_silently_stopped_is_noticed() {
    let mut bench = Bench::armed(Limits { stall_after: Some(Duration::from_millis(500)), ..limits() });
    bench.arm.world().reports_reflex = false;
    for _ in 0..20 {
        bench.step(DVec3::X * 0.005).unwrap();
        assert_eq!(*bench.guard.mode(), Mode::Armed, "slow is not stopped");
    }
    bench.arm.world().in_reflex = true;
    let noticed = (0..12).position(|_| bench.step(DVec3::X * 0.02).is_err());
    assert!(noticed.is_some_and(|steps| (5..9).contains(&steps)), "{noticed:?}");
    assert_eq!(*bench.guard.mode(), Mode::Reflex);
    bench.guard.recover().unwrap();
    // A tool that presses on something does not move either, but it feels that.
    bench.arm.world().rate_hz = 0.0;
    bench.arm.world().wrench.force_n.z = 10.0;
    for _ in 0..20 {
        bench.step(DVec3::X * 0.02).unwrap();
    }
}

/// Invariant 7.
#[test]
fn nothing_moves_before_a_person_armed_it_inside_of_its_box() {
    let mut bench = Bench::with(limits());
    assert_eq!(bench.step(DVec3::X), Err(HoldCause::NotArmed));
    assert_eq!(bench.guard.gripper(GripperCommand::Close), Err(HoldCause::NotArmed));
    assert_eq!(bench.guard.joint_reset(), Err(HoldCause::NotArmed));
    bench.clock.advance(Duration::from_millis(300));
    bench.guard.tick();
    bench.arm.world().pose.position_m = DVec3::new(0.63, 0.0, 0.2);
    bench.guard.arm(&Person::agreed("test"));
    assert!(
        matches!(bench.guard.act(&bench.motion(DVec3::X)), Err(HoldCause::StateOld(_))),
        "no fresh state"
    );
    let cause = bench.step(DVec3::ZERO).unwrap_err();
    assert!(cause.to_string().ends_with("confirm a guided move (+x)"), "{cause}");
    assert!(bench.arm.world().told.is_empty());
    bench.guard.arm_for_guided_move(&Person::agreed("test"));
    bench.step(DVec3::ZERO).unwrap();
    assert_eq!(bench.arm.targets()[0].position_m.x, 0.6, "the nearest place inside");
    bench.arm.world().pose.position_m = DVec3::new(0.8, 0.0, 0.2);
    bench.guard.arm_for_guided_move(&Person::agreed("test"));
    assert!(bench.step(DVec3::ZERO).is_err(), "too far for a guided move");
}

/// Invariant 8.
#[test]
fn with_a_dead_mans_switch_the_policy_moves_only_while_it_is_held() {
    let mut bench = Bench::with(Limits { dead_man: true, ..limits() });
    bench.guard.arm(&Person::agreed("test"));
    assert_eq!(bench.step(DVec3::X * 0.01), Err(HoldCause::DeadMan));
    assert!(bench.arm.targets().is_empty());
    for _ in 0..2 {
        bench.guard.observe().unwrap();
        let motion = Motion { by_person: true, ..bench.motion(DVec3::X * 0.05) };
        bench.guard.act(&motion).unwrap();
        bench.clock.advance(STEP);
    }
    assert_eq!(bench.step(DVec3::X * 0.05), Err(HoldCause::DeadMan));
    let targets = bench.arm.targets();
    assert_eq!(targets.len(), 3, "released: one hold");
}

/// Invariant 9 without its clock: a stop, and a guard that goes away, hold.
#[test]
fn stops_hold_for_good() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.05).unwrap();
    bench.clock.advance(Duration::from_millis(50));
    bench.guard.stop();
    let held = bench.arm.targets().len();
    assert!(bench.is_hold(bench.arm.targets()[held - 1]));
    bench.guard.arm(&Person::agreed("test"));
    assert_eq!(bench.step(DVec3::X), Err(HoldCause::Stopped));
    assert_eq!(bench.arm.targets().len(), held);

    let mut dropped = Bench::armed(limits());
    dropped.step(DVec3::X * 0.05).unwrap();
    let arm = dropped.arm.clone();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _guard = dropped.guard;
        panic!("somewhere");
    }));
    assert!(unwound.is_err());
    let pose = arm.world().pose;
    assert!(arm.targets().last().unwrap().distance_m(pose) < 1e-9);
}

/// Invariant 11.
#[test]
fn the_gripper_gets_one_command_in_a_while() {
    let mut bench = Bench::armed(limits());
    bench.guard.gripper(GripperCommand::Close).unwrap();
    for _ in 0..5 {
        bench.clock.advance(STEP);
        assert!(matches!(bench.guard.gripper(GripperCommand::Open), Err(HoldCause::GripperTooSoon(..))));
    }
    bench.clock.advance(STEP);
    bench.guard.gripper(GripperCommand::Open).unwrap();
    let told = bench.arm.world().told.iter().filter(|(_, told)| matches!(told, Told::Gripper(_))).count();
    assert_eq!(told, 2);
}

/// Invariant 12, the guard's half: what is reported is what was sent.
#[test]
fn what_is_reported_is_what_was_sent() {
    let mut bench = Bench::armed(limits());
    bench.guard.observe().unwrap();
    let measured = bench.guard.state().unwrap().pose;
    let motion =
        Motion { rotation_rad: DVec3::new(0.0, 0.0, 0.5), ..bench.motion(DVec3::new(0.0, -0.5, 0.01)) };
    let sent = bench.guard.act(&motion).unwrap();
    assert!(sent.is_clipped);
    let there = measured.moved(sent.translation_m, sent.rotation_rad);
    assert!(there.distance_m(sent.target) < 1e-12 && there.angle_rad(sent.target) < 1e-9);
    assert_eq!(sent.target, *bench.arm.targets().last().unwrap());
    assert!((sent.rotation_rad.length() - 0.1).abs() < 1e-9, "1 rad/s for 0.1 s");
}

#[test]
fn an_arm_that_somebody_moved_is_lost_and_found_where_it_is() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.01).unwrap();
    bench.arm.world().pose.position_m.y -= 0.12;
    bench.arm.world().target = None;
    let cause = bench.step(DVec3::ZERO).unwrap_err();
    assert!(matches!(cause, HoldCause::Lost { .. }), "{cause}");
    bench.step(DVec3::X).unwrap();
    assert!((bench.arm.targets().last().unwrap().position_m.y + 0.17).abs() < 1e-9);
}

#[test]
fn limits_that_limit_nothing_are_refused() {
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let limits = Limits { max_speed_m_s: wrong, ..limits() };
        let clock = Arc::new(VirtualClock::new());
        assert!(Guard::new(Box::new(FakeArm::new(clock.clone())), limits, clock).is_err());
    }
}

/// A person holds the arm: no recovery, no arming and no policy undoes that, and one that did not hear it is told again.
#[test]
fn an_arm_that_a_person_holds_stays_until_a_person_lets_it_go_on() {
    let mut bench = Bench::armed(limits());
    bench.step(DVec3::X * 0.01).unwrap();
    bench.arm.world().told.clear();
    bench.guard.hold_until_released(HoldCause::Other("a person".into()));
    assert!(bench.guard.is_holding());
    for _ in 0..20 {
        bench.guard.arm(&Person::agreed("test"));
        assert!(bench.guard.recover().is_ok());
        let cause = bench.step(DVec3::X * 0.01).unwrap_err();
        assert_eq!(cause.to_string(), "a person");
        assert!(bench.guard.approach(bench.arm.world().pose).is_err());
        assert!(bench.guard.gripper(GripperCommand::Close).is_err());
        bench.guard.tick();
    }
    let told = std::mem::take(&mut bench.arm.world().told);
    let targets: Vec<ToolPose> = told
        .iter()
        .filter_map(|(_, told)| if let Told::Target { target, .. } = told { Some(*target) } else { None })
        .collect();
    assert!(!targets.is_empty() && targets.iter().all(|target| bench.is_hold(*target)), "{targets:?}");
    bench.guard.release();
    let first = bench.step(DVec3::X * 0.01).unwrap();
    assert!(first.translation_m.length() < 1e-6, "it goes on from where it is: {first:?}");
    assert!(bench.step(DVec3::X * 0.01).unwrap().translation_m.x > 0.0);
}
