//! What guard and environment promise of arms that follow joint positions, on a virtual clock.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plaudit_core::{End, Env, FrameShape, Frames, INVALID_FACT, Seed, Step};
use plaudit_robot::{
    AskPerson, Clock, HoldCause, JointAction, JointArm, JointArmError, JointArmSpec, JointEnv, JointGuard,
    JointLimits, JointMotion, JointParts, JointRange, JointState, JointTask, LeaderEvents, Mode, Person,
    StopToken, TakeOver, Time, VirtualClock, Watched,
};
use proptest::prelude::*;

const HZ: f64 = 20.0;
const RANGES: [(&str, f64, f64, f64); 2] = [("pan.pos", -90.0, 90.0, 4.0), ("grip.pos", 0.0, 100.0, 10.0)];

/// What the arm is like now.
struct World {
    at: Vec<f64>,
    goal: Option<Vec<f64>>,
    /// Every goal, where the arm was then, and when.
    told: Vec<(Time, Vec<f64>, Vec<f64>)>,
    /// What the next observation fails with.
    fails: Option<JointArmError>,
    /// What the next command fails with; the motors may have got it all the same.
    deaf: Option<JointArmError>,
    /// How long an observation takes.
    takes: Duration,
    /// Between these seconds, what arrives is 400 ms old.
    stale: Range<f64>,
    leader: Option<Vec<f64>>,
    events: LeaderEvents,
    reconnects: usize,
    /// Between these seconds something blocks the joints.
    blocked: Range<f64>,
    moved_until: Time,
}

#[derive(Clone)]
struct FakeArm {
    world: Arc<Mutex<World>>,
    clock: Arc<VirtualClock>,
    spec: JointArmSpec,
}

impl FakeArm {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let joints: Vec<Arc<str>> = RANGES.iter().map(|(name, ..)| (*name).into()).collect();
        let mut state = joints.clone();
        state.push("load".into());
        let spec = JointArmSpec {
            state,
            joints,
            cameras: vec![("front".into(), FrameShape::rgb(4, 6))],
            has_leader: true,
            has_events: true,
        };
        let world = World {
            at: vec![10.0, 50.0],
            goal: None,
            told: Vec::new(),
            fails: None,
            deaf: None,
            takes: Duration::ZERO,
            stale: 0.0..0.0,
            leader: None,
            events: LeaderEvents::default(),
            reconnects: 0,
            blocked: 0.0..0.0,
            moved_until: clock.now(),
        };
        Self { world: Arc::new(Mutex::new(world)), clock, spec }
    }

    /// The world at this time: joints cover most of the way to their goals in a period.
    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let part = 1.0 - (-30.0 * now.since(world.moved_until).as_secs_f64()).exp();
        world.moved_until = now;
        let is_blocked = world.blocked.contains(&now.elapsed().as_secs_f64());
        if let (Some(goal), false) = (world.goal.clone(), is_blocked) {
            for (at, goal) in world.at.iter_mut().zip(goal) {
                *at += part * (goal - *at);
            }
        }
        world
    }

    fn goals(&self) -> Vec<Vec<f64>> {
        self.world().told.iter().map(|(_, goal, _)| goal.clone()).collect()
    }

    fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        drop(self.world());
    }
}

impl JointArm for FakeArm {
    fn spec(&self) -> &JointArmSpec {
        &self.spec
    }

    fn observe(&mut self) -> Result<JointState, JointArmError> {
        let takes = self.world().takes;
        self.clock.advance(takes);
        let world = self.world();
        if let Some(error) = &world.fails {
            return Err(error.clone());
        }
        let mut numbers = world.at.clone();
        numbers.push(0.5);
        let now = self.clock.now().elapsed();
        let is_stale = world.stale.contains(&now.as_secs_f64());
        let age = if is_stale { Duration::from_millis(400) } else { Duration::ZERO };
        Ok(JointState {
            positions: world.at.clone(),
            numbers,
            frames: vec![Arc::new(Frames { shape: FrameShape::rgb(4, 6), pixels: vec![7; 72] })],
            leader: world.leader.clone(),
            events: world.events,
            time: Time::after_start(now.saturating_sub(age)),
        })
    }

    fn target(&mut self, positions: &[f64]) -> Result<Vec<f64>, JointArmError> {
        let mut world = self.world();
        if let Some(error) = world.deaf.take() {
            return Err(error);
        }
        let (now, at) = (self.clock.now(), world.at.clone());
        world.told.push((now, positions.to_vec(), at));
        world.goal = Some(positions.to_vec());
        Ok(positions.to_vec())
    }

    fn reconnect(&mut self) -> Result<(), JointArmError> {
        let mut world = self.world();
        world.reconnects += 1;
        world.fails = None;
        Ok(())
    }
}

fn limits() -> JointLimits {
    let range = |(name, low, high, max_step): (&str, f64, f64, f64)| JointRange {
        name: name.into(),
        low,
        high,
        max_step,
    };
    JointLimits::new(RANGES.into_iter().map(range).collect(), HZ)
}

fn guard(arm: &FakeArm) -> JointGuard {
    JointGuard::new(Box::new(arm.clone()), limits(), arm.clock.clone()).unwrap()
}

fn armed(arm: &FakeArm) -> JointGuard {
    let mut guard = guard(arm);
    guard.arm(&Person::agreed("a test")).unwrap();
    guard
}

fn to(arm: &FakeArm, target: [f64; 2]) -> JointMotion {
    JointMotion { target: target.to_vec(), seen: arm.clock.now() }
}

fn late() -> JointArmError {
    JointArmError::Late("no answer for 100 ms".into())
}

#[test]
fn nothing_moves_before_a_person_has_armed_it_and_the_first_target_is_where_it_is() {
    let arm = FakeArm::new();
    let mut guard = guard(&arm);
    guard.observe().unwrap();
    assert_eq!(guard.act(&to(&arm, [20.0, 50.0])), Err(HoldCause::NotArmed));
    assert!(guard.approach(&[20.0, 50.0]).is_err() && arm.goals().is_empty());
    guard.arm(&Person::agreed("a test")).unwrap();
    guard.observe().unwrap();
    guard.act(&to(&arm, [20.0, 50.0])).unwrap();
    assert_eq!(arm.goals(), [[10.0, 50.0]]);
    arm.wait(50);
    guard.observe().unwrap();
    let sent = guard.act(&to(&arm, [20.0, 50.0])).unwrap();
    assert_eq!((sent.target, sent.is_clipped), (vec![14.0, 50.0], true));
}

#[test]
fn an_arm_outside_of_its_limits_does_not_begin() {
    let arm = FakeArm::new();
    arm.world().at = vec![95.0, 50.0];
    let mut guard = armed(&arm);
    guard.observe().unwrap();
    let cause = guard.act(&to(&arm, [80.0, 50.0])).unwrap_err();
    assert!(cause.to_string().contains("`pan.pos` is at 95.00, outside of -90 to 90"), "{cause}");
    assert!(arm.goals().is_empty());
    arm.world().at = vec![93.0, 50.0]; // sagged by less than a step
    guard.observe().unwrap();
    guard.act(&to(&arm, [80.0, 50.0])).unwrap();
    assert_eq!(arm.goals(), [[90.0, 50.0]]);
}

#[test]
fn limits_that_do_not_limit_are_refused() {
    let refused = |change: &dyn Fn(&mut JointLimits)| {
        let (arm, mut limits) = (FakeArm::new(), limits());
        change(&mut limits);
        JointGuard::new(Box::new(arm.clone()), limits, arm.clock.clone()).err().unwrap().to_string()
    };
    assert!(refused(&|limits| limits.joints[0].low = 100.0).contains("`pan.pos` may go from 100 to 90"));
    assert!(refused(&|limits| limits.joints[1].max_step = f64::NAN).contains("`grip.pos` may go NaN"));
    assert!(refused(&|limits| limits.joints[1].name = "x".into()).contains("the limits are for pan.pos, x"));
    assert!(refused(&|limits| drop(limits.joints.pop())).contains("the joints are pan.pos, grip.pos"));
    assert!(refused(&|limits| limits.max_lag_steps = 0.0).contains("0 steps behind"));
}

#[test]
fn without_fresh_actions_it_holds_once_where_it_is() {
    let arm = FakeArm::new();
    let mut guard = armed(&arm);
    for _ in 0..3 {
        guard.observe().unwrap();
        guard.act(&to(&arm, [30.0, 50.0])).unwrap();
        arm.wait(50);
    }
    let old = JointMotion { target: vec![30.0, 50.0], seen: Time::default() };
    arm.wait(150);
    let sent = arm.goals().len();
    assert!(matches!(guard.act(&old), Err(HoldCause::ActionOld { .. })));
    let (_, goal, at) = arm.world().told.last().unwrap().clone();
    assert_eq!(goal, at, "it holds where it is");
    for _ in 0..100 {
        arm.wait(50);
        guard.tick();
    }
    assert_eq!(arm.goals().len(), sent + 1, "once, then there is silence");
}

#[test]
fn a_failure_moves_nothing_and_the_next_target_is_where_the_arm_is() {
    let arm = FakeArm::new();
    let mut guard = armed(&arm);
    for _ in 0..3 {
        guard.observe().unwrap();
        guard.act(&to(&arm, [30.0, 50.0])).unwrap();
        arm.wait(50);
    }
    guard.observe().unwrap();
    arm.world().deaf = Some(late());
    let before = arm.goals().len();
    assert!(guard.act(&to(&arm, [30.0, 50.0])).is_err());
    arm.world().fails = Some(late());
    arm.wait(1000);
    guard.tick();
    guard.tick();
    assert_eq!(arm.goals().len(), before, "where it is is not known");
    arm.world().fails = None;
    guard.observe().unwrap();
    let at = arm.world().at.clone();
    guard.act(&to(&arm, [30.0, 50.0])).unwrap();
    assert_eq!(arm.goals().last().unwrap(), &at);
}

#[test]
fn a_joint_that_stays_behind_or_is_moved_by_hand_makes_it_hold() {
    let arm = FakeArm::new();
    let mut guard = armed(&arm);
    guard.observe().unwrap();
    guard.act(&to(&arm, [10.0, 50.0])).unwrap();
    arm.world().blocked = 0.0..1e9;
    let mut result = Ok(());
    for _ in 0..20 {
        arm.wait(50);
        guard.observe().unwrap();
        result = guard.act(&to(&arm, [80.0, 50.0])).map(drop);
        if result.is_err() {
            break;
        }
    }
    let cause = result.unwrap_err();
    assert!(matches!(&cause, HoldCause::JointLost { joint, .. } if joint == "pan.pos"), "{cause}");
    assert_eq!(arm.goals().last().unwrap(), &[10.0, 50.0], "it holds where it is");
    let furthest = arm.goals().iter().map(|goal| goal[0]).fold(0.0, f64::max);
    assert!(furthest <= 10.0 + 6.0 * 4.0, "a blocked joint pushes against {furthest}");
}

#[test]
fn an_arm_that_is_gone_waits_for_a_person_and_is_connected_anew() {
    let arm = FakeArm::new();
    let mut guard = armed(&arm);
    guard.observe().unwrap();
    guard.act(&to(&arm, [20.0, 50.0])).unwrap();
    arm.world().fails = Some(JointArmError::Gone("the process exited".into()));
    assert!(guard.observe().is_err());
    assert!(matches!(guard.mode(), Mode::NeedsPerson(_)));
    assert_eq!(arm.world().reconnects, 0, "nobody agreed yet");
    assert!(guard.act(&to(&arm, [20.0, 50.0])).is_err());
    guard.arm(&Person::agreed("a test")).unwrap();
    assert_eq!((arm.world().reconnects, guard.mode()), (1, &Mode::Armed));
    guard.stop();
    assert!(guard.arm(&Person::agreed("a test")).is_err(), "stopped is stopped");
}

#[test]
fn a_stop_holds_the_measured_position_for_good() {
    let arm = FakeArm::new();
    let mut guard = armed(&arm);
    for _ in 0..4 {
        guard.observe().unwrap();
        guard.act(&to(&arm, [80.0, 50.0])).unwrap();
        arm.wait(20);
    }
    guard.stop();
    let (_, goal, at) = arm.world().told.last().unwrap().clone();
    assert_eq!(goal, at);
    let count = arm.goals().len();
    guard.observe().unwrap();
    assert_eq!(guard.act(&to(&arm, [80.0, 50.0])), Err(HoldCause::Stopped));
    drop(guard);
    assert_eq!(arm.goals().len(), count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked for, when, and whatever fails: targets stay within the limits, move by at most a step, and after a
    /// break begin where the arm is.
    #[test]
    fn no_target_leaves_its_limits_or_jumps(
        orders in prop::collection::vec((0u8..12, -300.0..300.0f64, -300.0..300.0f64, 0u64..400), 1..400)
    ) {
        let arm = FakeArm::new();
        let mut guard = armed(&arm);
        for (kind, pan, grip, wait) in orders {
            arm.wait(if kind == 0 { wait } else { 50 });
            let target = match kind {
                1 => [f64::NAN, grip],
                2 => [f64::INFINITY, grip],
                _ => [pan, grip],
            };
            match kind {
                3 => arm.world().deaf = Some(late()),
                4 => arm.world().fails = Some(late()),
                5 => arm.world().fails = None,
                6 => guard.tick(),
                7 => drop(guard.approach(&target)),
                8 => arm.world().at[0] = pan.clamp(-94.0, 94.0),
                9 => drop(guard.hold(HoldCause::Other("a test".into()))),
                _ => {}
            }
            let _ = guard.observe();
            let _ = guard.act(&to(&arm, target));
        }
        let told = arm.world().told.clone();
        let steps = limits();
        for (at, (_, goal, _)) in told.iter().enumerate() {
            for (joint, range) in steps.joints.iter().enumerate() {
                prop_assert!((range.low..=range.high).contains(&goal[joint]), "{goal:?}");
                let before = if at > 0 { told[at - 1].1[joint] } else { told[at].2[joint] };
                let is_step = (goal[joint] - before).abs() <= range.max_step + 1e-9;
                // A hold, or the first target after a break, is where the arm is, within its limits.
                let there = told[at].2[joint].clamp(range.low, range.high);
                prop_assert!(is_step || (goal[joint] - there).abs() < 1e-9, "{:?}", &told[at]);
            }
        }
    }
}

struct Agrees;

impl AskPerson for Agrees {
    fn may_move(&mut self, _why: &str) -> Option<Person> {
        Some(Person::agreed("a test"))
    }
}

struct Refuses;

impl AskPerson for Refuses {
    fn may_move(&mut self, _why: &str) -> Option<Person> {
        None
    }
}

fn task() -> JointTask {
    JointTask { max_episode_steps: Some(50), take_over: TakeOver::Moved, ..JointTask::new("Desk-v1", HZ) }
}

fn env(arm: &FakeArm, task: JointTask) -> (JointEnv, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let notices = said.clone();
    let parts = JointParts {
        guard: guard(arm),
        person: Box::new(Agrees),
        clock: arm.clock.clone(),
        stop: StopToken::new(),
        notify: Box::new(move |text| notices.lock().unwrap().push(text.to_string())),
        watchdog: false,
    };
    (JointEnv::new(task, parts).unwrap(), said)
}

fn fact(step: &Step, name: &str) -> f32 {
    step.facts.iter().find(|(fact, _)| &**fact == name).unwrap().1[0]
}

/// What a step did, in the policy's numbers.
fn done(step: &Step, asked: &[f32]) -> Vec<f32> {
    step.interventions.first().map_or_else(|| asked.to_vec(), |intervention| intervention.action.clone())
}

#[test]
fn a_policy_moves_the_joints_and_sees_them_in_the_robots_order() {
    let arm = FakeArm::new();
    let (mut env, _) = env(&arm, task());
    let spec = env.spec().clone();
    assert_eq!((spec.state_width, spec.actions.width(), spec.control_hz), (3, 2, HZ));
    let parts: Vec<_> = spec.state_parts.iter().map(|part| part.name.to_string()).collect();
    assert_eq!(parts, ["pan.pos", "grip.pos", "load"]);
    let obs = env.reset(Seed::new(1)).unwrap();
    assert_eq!(obs.state[..], [10.0, 50.0, 0.5]);
    env.step(&[0.0, 0.0]).unwrap(); // the first target is where it is
    let begun = arm.clock.now();
    for _ in 0..10 {
        let step = env.step(&[1.0, -0.5]).unwrap();
        assert!(step.interventions.is_empty() && fact(&step, "clipped") == 0.0, "{:?}", step.interventions);
    }
    assert_eq!(arm.clock.now().since(begun), Duration::from_millis(500));
    assert_eq!(arm.goals().last().unwrap(), &[50.0, 0.0]);
    // At its limit the arm does less than was asked for, and that is what is stored.
    let step = env.step(&[1.0, -0.5]).unwrap();
    assert_eq!(done(&step, &[1.0, -0.5]), [1.0, 0.0]);
    assert_eq!((fact(&step, "clipped"), fact(&step, "intervention")), (1.0, 0.0));
}

#[test]
fn positions_as_actions_are_stored_as_they_were_reached() {
    let arm = FakeArm::new();
    let (mut env, _) = env(&arm, JointTask { action: JointAction::Position, ..task() });
    env.reset(Seed::new(1)).unwrap();
    env.step(&[0.0, 0.0]).unwrap();
    let step = env.step(&[1.0, 0.0]).unwrap();
    assert_eq!(arm.goals().last().unwrap(), &[14.0, 50.0]);
    assert!((done(&step, &[1.0, 0.0])[0] - 14.0 / 90.0).abs() < 1e-6);
}

#[test]
fn a_leader_takes_over_while_it_is_moved() {
    let arm = FakeArm::new();
    arm.world().leader = Some(vec![40.0, 50.0]);
    let (mut env, _) = env(&arm, task());
    env.reset(Seed::new(1)).unwrap();
    for _ in 0..3 {
        let step = env.step(&[0.0, 0.0]).unwrap();
        assert_eq!(fact(&step, "intervention"), 0.0, "a leader that stands still has not taken over");
    }
    arm.world().leader = Some(vec![42.0, 50.0]);
    env.step(&[-1.0, 0.0]).unwrap(); // is seen at its end
    let step = env.step(&[-1.0, 0.0]).unwrap();
    assert_eq!(fact(&step, "intervention"), 1.0);
    assert!(step.interventions[0].by_person);
    assert_eq!(step.interventions[0].action, [1.0, 0.0], "towards the leader, a step at a time");
    for _ in 0..12 {
        env.step(&[0.0, 0.0]).unwrap();
    }
    let step = env.step(&[-1.0, 0.0]).unwrap();
    assert_eq!(fact(&step, "intervention"), 0.0, "it let go");
}

#[test]
fn events_of_the_leader_decide_who_acts_and_how_it_ends() {
    let arm = FakeArm::new();
    arm.world().leader = Some(vec![40.0, 50.0]);
    let (mut env, said) = env(&arm, JointTask { take_over: TakeOver::Events, ..task() });
    env.reset(Seed::new(1)).unwrap();
    assert_eq!(fact(&env.step(&[0.0, 0.0]).unwrap(), "intervention"), 0.0);
    arm.world().events.is_intervention = true;
    env.step(&[0.0, 0.0]).unwrap();
    assert_eq!(fact(&env.step(&[0.0, 0.0]).unwrap(), "intervention"), 1.0);
    arm.world().events.success = true;
    let step = env.step(&[0.0, 0.0]).unwrap();
    assert_eq!((step.end[0], step.success[0], step.reward[0]), (End::Terminated, true, 1.0));
    arm.world().events = LeaderEvents { is_over: true, ..LeaderEvents::default() };
    let step = env.step(&[0.0, 0.0]).unwrap();
    assert_eq!((step.end[0], step.success[0], step.reward[0]), (End::Terminated, false, 0.0));
    arm.world().events = LeaderEvents { is_invalid: true, ..LeaderEvents::default() };
    let step = env.step(&[0.0, 0.0]).unwrap();
    assert_eq!((step.end[0], fact(&step, INVALID_FACT)), (End::Truncated, 1.0));
    assert!(said.lock().unwrap()[0].contains("wants the episode anew"));
}

#[test]
fn what_breaks_makes_the_episode_invalid_and_is_told() {
    let arm = FakeArm::new();
    let (mut env, said) = env(&arm, task());
    env.reset(Seed::new(1)).unwrap();
    for _ in 0..3 {
        env.step(&[1.0, 0.0]).unwrap();
    }
    arm.world().fails = Some(JointArmError::Gone("the process exited".into()));
    let before = arm.goals().len();
    let step = env.step(&[1.0, 0.0]).unwrap();
    assert_eq!((step.end[0], fact(&step, INVALID_FACT), fact(&step, "held")), (End::Truncated, 1.0, 1.0));
    assert_eq!(arm.world().reconnects, 1, "after the person agreed");
    assert!(arm.goals().len() <= before + 1, "one command was under way, and nothing after it");
    assert!(said.lock().unwrap()[0].contains("the process exited"));
    assert_eq!(env.step(&[0.0, 0.0]).unwrap().end[0], End::No);
}

#[test]
fn a_state_that_is_always_old_holds_the_arm() {
    let arm = FakeArm::new();
    arm.wait(1000); // no state is older than its clock
    let (mut env, said) = env(&arm, task());
    env.reset(Seed::new(1)).unwrap();
    for _ in 0..3 {
        env.step(&[1.0, 0.0]).unwrap();
    }
    // A process whose answers are late: each is as old as its question. It heals after three seconds.
    arm.world().stale = 0.0..3.0;
    let step = env.step(&[1.0, 0.0]).unwrap();
    assert_eq!((step.end[0], fact(&step, INVALID_FACT)), (End::Truncated, 1.0));
    assert!(said.lock().unwrap()[0].contains("ms old"), "{said:?}");
}

#[test]
fn a_slow_arm_is_an_overrun_that_is_told() {
    let arm = FakeArm::new();
    let (mut env, _) = env(&arm, task());
    env.reset(Seed::new(1)).unwrap();
    env.step(&[0.0, 0.0]).unwrap();
    arm.world().takes = Duration::from_millis(90);
    env.step(&[0.0, 0.0]).unwrap();
    let step = env.step(&[0.0, 0.0]).unwrap();
    assert!(fact(&step, "overrun") > 0.03, "{}", fact(&step, "overrun"));
}

#[test]
fn a_reset_keeps_the_limits_and_says_when_it_misses() {
    let arm = FakeArm::new();
    let start = JointTask { reset_positions: Some(vec![-30.0, 20.0]), ..task() };
    let (mut ready, _) = env(&arm, start.clone());
    let obs = ready.reset(Seed::new(1)).unwrap();
    assert!((obs.state[0] + 30.0).abs() < 4.0 && (obs.state[1] - 20.0).abs() < 10.0, "{:?}", obs.state);
    for pair in arm.goals().windows(2) {
        assert!((pair[0][0] - pair[1][0]).abs() <= 4.0 + 1e-9, "{pair:?}");
    }
    drop(ready);
    let arm = FakeArm::new();
    arm.world().blocked = 0.0..30.0;
    let (mut stuck, said) = env(&arm, JointTask { reset_tries: 1, ..start });
    stuck.reset(Seed::new(1)).unwrap();
    assert!(arm.clock.now().elapsed() >= Duration::from_secs(30));
    let said = said.lock().unwrap().join("\n");
    assert!(said.contains("from where it was sent") || said.contains("the reset missed"), "{said}");
}

#[test]
fn nobody_agreed_and_tasks_that_do_not_fit() {
    let arm = FakeArm::new();
    let parts = |person: Box<dyn AskPerson>| JointParts {
        guard: guard(&arm),
        person,
        clock: arm.clock.clone(),
        stop: StopToken::new(),
        notify: Box::new(|_| {}),
        watchdog: false,
    };
    let mut env = JointEnv::new(task(), parts(Box::new(Refuses))).unwrap();
    assert!(env.reset(Seed::new(1)).unwrap_err().to_string().contains("nobody armed the robot"));
    assert!(arm.goals().is_empty());
    let refused = |task: JointTask| JointEnv::new(task, parts(Box::new(Agrees))).err().unwrap().to_string();
    let outside = JointTask { reset_positions: Some(vec![0.0, 120.0]), ..task() };
    assert!(refused(outside).contains("`grip.pos`, 120, is outside of 0 to 100"));
    assert!(refused(JointTask { control_hz: 0.0, ..task() }).contains("control_hz is 0"));
    let few = JointTask { reset_positions: Some(vec![0.0]), ..task() };
    assert!(refused(few).contains("1 reset positions for 2 joints"));
}
