//! An arm as an environment, on a virtual clock.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod fake;

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake::{FakeArm, down, limits};
use glam::DVec3;
use plaudit_core::{End, Env, EnvError, FrameShape, Frames, Seed, Step};
use plaudit_robot::{
    AskPerson, Camera, CameraFrame, Clock, Deflection, EpisodeKeys, Guard, Key, KeyJog, Limits, NoTableReset,
    Person, Pilot, PilotError, PilotInput, RobotEnv, RobotParts, RobotTask, StopToken, Time, ToolPose,
    VirtualClock,
};

/// A camera that is dark for a while.
struct FakeCamera {
    clock: Arc<VirtualClock>,
    dark: Arc<Mutex<Range<f64>>>,
}

impl Camera for FakeCamera {
    fn name(&self) -> &str {
        "wrist_1"
    }

    fn shape(&self) -> FrameShape {
        FrameShape::rgb(2, 2)
    }

    fn newest(&mut self) -> Option<CameraFrame> {
        let (now, dark) = (self.clock.now(), self.dark.lock().unwrap().clone());
        let is_dark = dark.contains(&now.elapsed().as_secs_f64());
        let time = if is_dark { Time::after_start(Duration::from_secs_f64(dark.start)) } else { now };
        // Every tenth of a second looks different.
        let shade = (now.elapsed().as_secs_f64() * 10.0).round() as u8;
        let image = Arc::new(Frames::new(self.shape(), vec![shade; 12]).unwrap());
        Some(CameraFrame { image, time, number: 0 })
    }
}

/// A pilot who does what a test says.
#[derive(Clone, Default)]
struct FakePilot(Arc<Mutex<PilotInput>>);

impl Pilot for FakePilot {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let mut input = self.0.lock().unwrap();
        let now = input.clone();
        input.pressed.clear();
        Ok(now)
    }
}

/// A person who agrees so many times, and then pulls the plug.
struct FakePerson {
    agrees: usize,
    asked: Arc<Mutex<Vec<String>>>,
    stop: StopToken,
}

impl AskPerson for FakePerson {
    fn may_move(&mut self, why: &str) -> Option<Person> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(why.into());
        if asked.len() <= self.agrees {
            return Some(Person::agreed("test"));
        }
        self.stop.raise();
        None
    }
}

struct Bench {
    clock: Arc<VirtualClock>,
    arm: FakeArm,
    pilot: FakePilot,
    dark: Arc<Mutex<Range<f64>>>,
    asked: Arc<Mutex<Vec<String>>>,
    told: Arc<Mutex<Vec<String>>>,
    stop: StopToken,
    env: RobotEnv,
}

fn pose(x: f64, y: f64, z: f64) -> ToolPose {
    ToolPose::new(DVec3::new(x, y, z), down())
}

fn task() -> RobotTask {
    let task = RobotTask::reach("PegInsertionEnv-v1", pose(0.4, 0.0, 0.1), pose(0.45, -0.05, 0.25));
    RobotTask { max_episode_steps: Some(30), success_hold_steps: 3, ..task }
}

fn build(task: RobotTask, limits: Limits, agrees: usize) -> Result<Bench, EnvError> {
    let pilot = FakePilot::default();
    let mut bench = build_with(task, limits, agrees, |_| Box::new(pilot.clone()))?;
    bench.pilot = pilot;
    Ok(bench)
}

fn build_with(
    task: RobotTask,
    limits: Limits,
    agrees: usize,
    pilot: impl FnOnce(&Arc<VirtualClock>) -> Box<dyn Pilot>,
) -> Result<Bench, EnvError> {
    let clock = Arc::new(VirtualClock::new());
    let arm = FakeArm::new(clock.clone());
    let stop = StopToken::new();
    let dark = Arc::new(Mutex::new(0.0..0.0));
    let (asked, told) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let heard = told.clone();
    let parts = RobotParts {
        guard: Guard::new(Box::new(arm.clone()), limits, clock.clone()).unwrap(),
        cameras: vec![Box::new(FakeCamera { clock: clock.clone(), dark: dark.clone() })],
        pilot: pilot(&clock),
        table: Box::new(NoTableReset),
        person: Box::new(FakePerson { agrees, asked: asked.clone(), stop: stop.clone() }),
        clock: clock.clone(),
        stop: stop.clone(),
        notify: Box::new(move |text| heard.lock().unwrap().push(text.into())),
        watchdog: false,
        simulated: None,
    };
    let env = RobotEnv::new(task, parts)?;
    Ok(Bench { clock, arm, pilot: FakePilot::default(), dark, asked, told, stop, env })
}

fn started(task: RobotTask) -> Bench {
    let mut bench = build(task, limits(), 100).unwrap();
    let obs = bench.env.reset(Seed::new(1)).unwrap();
    assert_eq!((obs.state_width(), obs.cameras.len()), (19, 1));
    bench
}

fn fact(step: &Step, name: &str) -> f32 {
    step.facts.iter().find(|(known, _)| &**known == name).unwrap().1[0]
}

fn secs(bench: &Bench) -> f64 {
    bench.clock.now().elapsed().as_secs_f64()
}

#[test]
fn steps_keep_absolute_deadlines_and_show_the_arm() {
    let mut bench = started(RobotTask { relative_frame: false, ..task() });
    let before = secs(&bench);
    for number in 1..=10 {
        bench.clock.advance(Duration::from_millis(7)); // the policy thinks
        let step = bench.env.step(&[0.0, 0.0, -0.5, 0.0, 0.0, 0.0]).unwrap();
        assert!((secs(&bench) - before - 0.1 * f64::from(number)).abs() < 1e-9, "no drift");
        assert_eq!(step.end, [End::No]);
        assert_eq!((fact(&step, "overrun"), fact(&step, "invalid")), (0.0, 0.0));
    }
    let state = bench.env.step(&[0.0; 6]).unwrap().obs.state;
    let measured = bench.arm.world().pose.to_xyz_euler();
    assert!((f64::from(state[6]) - measured[2]).abs() < 1e-6 && measured[2] < 0.2, "it went down");
    bench.clock.advance(Duration::from_millis(150));
    let late = bench.env.step(&[0.0; 6]).unwrap();
    assert!((fact(&late, "overrun") - 0.05).abs() < 1e-6);
}

#[test]
fn reaching_the_target_and_staying_there_is_success() {
    let mut bench = started(RobotTask { relative_frame: false, ..task() });
    let mut successes = 0;
    for _ in 0..30 {
        let way = DVec3::new(0.4, 0.0, 0.1) - bench.arm.world().pose.position_m;
        let way = (way / 0.02).clamp(DVec3::NEG_ONE, DVec3::ONE);
        let step = bench.env.step(&[way.x as f32, way.y as f32, way.z as f32, 0.0, 0.0, 0.0]).unwrap();
        successes += usize::from(step.success[0]);
        assert_eq!(step.reward[0], f32::from(u8::from(step.success[0])));
        if step.end[0].is_end() {
            assert_eq!((step.end[0], successes), (End::Terminated, 3));
            let last = &step.last[0].1;
            assert!((last.state[6] - 0.1).abs() < 0.01, "the real last observation");
            assert!((step.obs.state[6] - 0.25).abs() < 0.01, "and the next episode's start");
            return;
        }
    }
    panic!("never arrived");
}

/// Invariant 3 in the loop: a policy that thinks for too long does not move the arm.
#[test]
fn a_policy_that_takes_too_long_moves_nothing() {
    let mut bench = started(task());
    bench.env.step(&[0.0; 6]).unwrap();
    let before = bench.arm.targets().len();
    bench.clock.advance(Duration::from_millis(250));
    let step = bench.env.step(&[1.0; 6]).unwrap();
    assert_eq!((fact(&step, "held"), step.end[0]), (1.0, End::No));
    assert_eq!(step.interventions[0].action, [0.0; 6], "what was stored is what was done");
    assert!(!step.interventions[0].by_person);
    let targets = bench.arm.targets();
    assert_eq!(targets.len(), before + 1);
    let moved = targets[before].distance_m(targets[before - 1]);
    assert!(moved < 1e-3, "a hold, not a motion: {moved}");
}

/// Invariant 4 and the promise that faults do not end learning.
#[test]
fn dark_cameras_and_dead_servers_pause_and_spoil_the_episode() {
    for is_camera in [true, false] {
        let mut bench = started(task());
        bench.env.step(&[0.1; 6]).unwrap();
        let outage = secs(&bench) + 0.02..secs(&bench) + 4.0;
        if is_camera {
            *bench.dark.lock().unwrap() = outage.clone();
        } else {
            bench.arm.world().outage = outage.clone();
        }
        let spoilt = (0..6).map(|_| bench.env.step(&[0.3; 6]).unwrap()).find(|step| step.end[0].is_end());
        let spoilt = spoilt.expect("the episode ends");
        assert_eq!((spoilt.end[0], fact(&spoilt, "invalid")), (End::Truncated, 1.0));
        assert!(secs(&bench) >= outage.end, "it waited");
        let told = bench.told.lock().unwrap().join("\n");
        let why = if is_camera { "frame of camera `wrist_1` is" } else { "does not answer" };
        assert!(told.contains(why) && told.contains("goes on"), "{told}");
        // Nobody moved meanwhile: after the outage the first target is where the arm is.
        let step = bench.env.step(&[0.1; 6]).unwrap();
        assert_eq!((step.end[0], fact(&step, "invalid")), (End::No, 0.0));
    }
}

/// One answer that is lost is no fault.
#[test]
fn short_outages_are_survived() {
    let mut bench = started(task());
    bench.env.step(&[0.1; 6]).unwrap();
    bench.arm.world().outage = secs(&bench) + 0.09..secs(&bench) + 0.2;
    for _ in 0..5 {
        let step = bench.env.step(&[0.1; 6]).unwrap();
        assert_eq!((step.end[0], fact(&step, "invalid")), (End::No, 0.0));
    }
}

/// Invariant 5 in the loop.
#[test]
fn force_is_marked_and_holds() {
    let mut bench = started(task());
    bench.env.step(&[0.5; 6]).unwrap();
    bench.arm.world().wrench.force_n.z = -60.0;
    bench.env.step(&[0.5; 6]).unwrap();
    let step = bench.env.step(&[0.5; 6]).unwrap();
    assert_eq!((fact(&step, "held"), fact(&step, "force")), (1.0, 60.0));
}

/// Invariant 6 in the loop: two reflexes recover, the third asks.
#[test]
fn reflexes_recover_twice_and_then_ask() {
    let mut bench = started(task());
    for count in 1..=3 {
        bench.env.step(&[0.1; 6]).unwrap();
        bench.arm.world().in_reflex = true;
        let step = bench.env.step(&[0.1; 6]).unwrap();
        assert_eq!(fact(&step, "invalid"), 1.0, "reflex {count}");
        let asked = bench.asked.lock().unwrap().len();
        assert_eq!(asked, if count == 3 { 2 } else { 1 }, "the first question was before anything moved");
    }
    assert!(bench.asked.lock().unwrap()[1].contains("3 times within a minute"));
}

/// Invariant 7 in the loop.
#[test]
fn nothing_moves_without_a_person_and_bad_starts_are_named() {
    let mut unarmed = build(task(), limits(), 0).unwrap();
    let error = unarmed.env.reset(Seed::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "nobody armed the robot, so it does not move");
    assert!(unarmed.arm.world().told.is_empty());

    let mut outside = build(task(), limits(), 1).unwrap();
    outside.arm.world().pose.position_m.x = 0.7;
    let error = outside.env.reset(Seed::new(1)).unwrap_err().to_string();
    assert!(error.contains("outside of its box") && error.contains("+x"), "{error}");

    let mut silent = build(task(), limits(), 1).unwrap();
    silent.arm.world().is_reachable = false;
    let error = silent.env.reset(Seed::new(1)).unwrap_err().to_string();
    assert!(error.contains("does not answer getstate"), "{error}");

    let far = RobotTask { target: pose(0.4, 0.0, 0.0), ..task() };
    let error = build(far, limits(), 1).err().unwrap().to_string();
    assert_eq!(error, "the target is outside of the robot's box (-z)");
    let post = RobotTask { reset_pose: pose(0.52, 0.07, 0.1), ..task() };
    assert!(build(post, limits(), 1).is_err());
}

/// Invariant 9 in the loop: Esc holds, and whoever steps on gets nowhere.
#[test]
fn escape_stops_for_good() {
    let mut bench = started(task());
    bench.env.step(&[0.5; 6]).unwrap();
    bench.pilot.0.lock().unwrap().pressed = vec![Key::Escape];
    bench.env.step(&[0.5; 6]).unwrap();
    let targets = bench.arm.targets().len();
    for _ in 0..5 {
        let step = bench.env.step(&[0.5; 6]).unwrap();
        assert_eq!((step.end[0], fact(&step, "invalid")), (End::Truncated, 1.0));
    }
    assert_eq!(bench.arm.targets().len(), targets);
    assert!(bench.stop.is_raised());
}

/// Invariant 10.
#[test]
fn an_episode_that_is_broken_off_is_invalid_and_holds() {
    let mut bench = started(task());
    bench.env.step(&[0.5; 6]).unwrap();
    bench.env.breaker().break_off("the reward server is gone");
    let step = bench.env.step(&[0.5; 6]).unwrap();
    assert_eq!((step.end[0], fact(&step, "invalid")), (End::Truncated, 1.0));
    assert_eq!(step.interventions[0].action, [0.0; 6]);
    assert!(bench.told.lock().unwrap()[0].contains("the reward server is gone"));
}

/// Invariant 12: whatever is stored leads, in the policy's frame, to the target that was sent.
#[test]
fn stored_actions_are_executed_actions_in_the_policys_frame() {
    let mut rng = Seed::new(12).rng();
    for relative_frame in [true, false] {
        let mut bench = started(RobotTask { relative_frame, max_episode_steps: None, ..task() });
        let (mut cut, mut by_person) = (0, 0);
        for number in 0..400 {
            let is_piloted = number % 40 > 30;
            let mut vector = || DVec3::from_array(std::array::from_fn(|_| rng.uniform(-1.0, 1.0)));
            let deflection = Deflection { linear: vector(), angular: vector() };
            bench.pilot.0.lock().unwrap().deflection =
                if is_piloted { deflection } else { Deflection::default() };
            let asked: [f32; 6] = std::array::from_fn(|_| rng.uniform(-1.2, 1.2) as f32);
            let before = bench.arm.world().pose;
            let step = bench.env.step(&asked).unwrap();
            if fact(&step, "held") == 1.0 || step.end[0].is_end() {
                continue;
            }
            let stored = step.interventions.first().map_or(asked.to_vec(), |done| done.action.clone());
            let axes = if relative_frame { before.rotation } else { glam::DQuat::IDENTITY };
            let part =
                |at: usize| DVec3::new(stored[at].into(), stored[at + 1].into(), stored[at + 2].into());
            let led = before.moved(axes * part(0) * 0.02, axes * part(3) * 0.1);
            let target = *bench.arm.targets().last().unwrap();
            let is_whole = stored.iter().all(|value| value.abs() < 1.0);
            assert!(!is_whole || led.distance_m(target) < 1e-4 && led.angle_rad(target) < 1e-3, "{stored:?}");
            cut += usize::from(step.interventions.iter().any(|done| !done.by_person));
            by_person += usize::from(step.interventions.iter().any(|done| done.by_person));
            assert_eq!(
                fact(&step, "intervention") == 1.0,
                step.interventions.iter().any(|done| done.by_person)
            );
        }
        assert!(cut > 50 && by_person > 80, "{cut} {by_person}");
    }
}

/// Invariant 14.
#[test]
fn a_reset_that_misses_its_pose_stops_and_says_so() {
    let mut bench = build(task(), limits(), 1).unwrap();
    bench.arm.world().rate_hz = 0.0;
    bench.env.reset(Seed::new(1)).unwrap();
    let asked = bench.asked.lock().unwrap().clone();
    assert!(asked[1].starts_with("the reset missed its pose by 0.050 m"), "{asked:?}");
    assert!(asked[1].ends_with("after 3 tries"), "{asked:?}");
    assert!(bench.stop.is_raised(), "the person pulled the plug");
}

/// Invariant 1 for resets: they keep the box and the speed as everybody does.
#[test]
fn resets_keep_the_limits() {
    let mut bench =
        started(RobotTask { random_xy_m: 0.3, random_yaw_rad: 2.0, max_episode_steps: Some(1), ..task() });
    let limits = limits();
    for _ in 0..40 {
        bench.env.step(&[1.0, -1.0, -1.0, 0.0, 0.0, 1.0]).unwrap();
    }
    let targets = bench.arm.targets();
    assert!(targets.len() > 200);
    assert!(targets.iter().all(|target| limits.workspace.contains(*target, 0.0, 0.0)));
}

#[test]
fn a_patient_pilot_watches_before_taking_over_and_only_in_some_episodes() {
    let patient = RobotTask { pilot_waits: Duration::from_millis(450), ..task() };
    let persons_steps = |bench: &mut Bench| {
        let linear = DVec3::new(0.0, 0.5, 0.0);
        let pushes = Deflection { linear, ..Deflection::default() };
        *bench.pilot.0.lock().unwrap() = PilotInput { deflection: pushes, ..PilotInput::default() };
        let steps = (0..8).map(|_| bench.env.step(&[0.0; 6]).unwrap());
        steps.map(|step| fact(&step, "intervention") > 0.0).collect::<Vec<_>>()
    };
    let seen = persons_steps(&mut started(patient.clone()));
    assert_eq!(seen, [false, false, false, false, false, true, true, true], "five steps, then the pilot");
    let nobody = RobotTask { pilot_share: 0.0, ..patient };
    assert_eq!(persons_steps(&mut started(nobody)), [false; 8]);
}

#[test]
fn the_period_of_every_step_is_measured_and_a_stopper_ends_waiting() {
    let mut bench = started(task());
    let periods = (0..4).map(|_| fact(&bench.env.step(&[0.0; 6]).unwrap(), plaudit_core::PERIOD_FACT));
    let periods: Vec<f32> = periods.collect();
    assert_eq!(periods[0], 0.0, "nothing is before the first");
    assert!(periods[1..].iter().all(|period| (period - 0.1).abs() < 1e-6), "{periods:?}");
    assert!(bench.env.may_break());
    *bench.dark.lock().unwrap() = secs(&bench)..1e9; // for good
    bench.env.stopper().unwrap()();
    let step = bench.env.step(&[0.0; 6]).unwrap();
    assert!(step.ends_invalid(0));
}

/// A pilot who presses keys at their times, in seconds.
struct Typist {
    clock: Arc<VirtualClock>,
    left: Vec<(f64, Key)>,
}

impl Pilot for Typist {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let now = self.clock.now().elapsed().as_secs_f64();
        let later = self.left.iter().position(|(at, _)| *at > now).unwrap_or(self.left.len());
        let pressed = self.left.drain(..later).map(|(_, key)| key).collect();
        Ok(PilotInput { pressed, ..PilotInput::default() })
    }
}

/// An environment whose pilot types, and when its first episode has begun.
fn typed(task: RobotTask, keys: &[(f64, char)]) -> (Bench, f64) {
    let begun = secs(&started(task.clone()));
    let left = keys.iter().map(|(at, letter)| (begun + at, Key::Char(*letter))).collect();
    let typist =
        |clock: &Arc<VirtualClock>| -> Box<dyn Pilot> { Box::new(Typist { clock: clock.clone(), left }) };
    let mut bench = build_with(task, limits(), 100, typist).unwrap();
    bench.env.reset(Seed::new(1)).unwrap();
    assert!((secs(&bench) - begun).abs() < 1e-9, "as before");
    (bench, begun)
}

fn shade(obs: &plaudit_core::Obs) -> u8 {
    obs.row(0).image("wrist_1").unwrap().1[0]
}

/// A key pressed while a step lasts is about the frame that the step ends with.
#[test]
fn a_key_labels_the_frame_that_is_shown_and_ends_the_episode() {
    let task = RobotTask { keys: Some(EpisodeKeys::SingleStage), gripper_penalty: 5.0, ..task() };
    let (mut bench, begun) = typed(task.clone(), &[(0.35, 'c'), (0.95, 'a')]);
    for number in 1..=4 {
        let step = bench.env.step(&[0.0; 6]).unwrap();
        let is_success = number == 4;
        assert_eq!((step.reward[0], step.success[0]), (f32::from(u8::from(is_success)), is_success));
        assert_eq!(step.end[0], if is_success { End::Terminated } else { End::No });
        if is_success {
            assert_eq!(shade(&step.last[0].1), ((begun + 0.4) * 10.0).round() as u8);
        }
    }
    let (mut bench, _) = typed(task.clone(), &[(0.15, 'a')]);
    bench.env.step(&[0.0; 6]).unwrap();
    let step = bench.env.step(&[0.0; 6]).unwrap();
    assert_eq!((step.reward[0], step.success[0], step.end[0]), (-1.0, false, End::Terminated));
    // Being there is not success any more, and a key that was pressed before the episode began says nothing.
    let there = RobotTask { target: task.reset_pose, success_hold_steps: 1, ..task.clone() };
    let (mut bench, _) = typed(there, &[(-0.5, 'c')]);
    let step = bench.env.step(&[0.0; 6]).unwrap();
    assert_eq!((step.reward[0], step.success[0], step.end[0]), (0.0, false, End::No));
    let (mut bench, _) = typed(RobotTask { ignore_terminations: true, ..task }, &[(0.05, 'c')]);
    let step = bench.env.step(&[0.0; 6]).unwrap();
    assert_eq!((step.reward[0], step.success[0], step.end[0]), (1.0, true, End::No));
}

#[test]
fn a_person_starts_and_drops_recordings() {
    let task = RobotTask { keys: Some(EpisodeKeys::StartEnd), max_episode_steps: Some(8), ..task() };
    let (mut bench, _) = typed(task, &[(2.05, 'a'), (2.35, 'b')]);
    let steps: Vec<Step> = (0..29).map(|_| bench.env.step(&[0.0; 6]).unwrap()).collect();
    let recorded: Vec<usize> = (0..29).filter(|at| fact(&steps[*at], "pre_record") == 0.0).collect();
    assert_eq!(recorded, (21..29).collect::<Vec<_>>(), "what comes before takes no time");
    assert_eq!((fact(&steps[22], "segment_id"), fact(&steps[23], "segment_id")), (0.0, 1.0));
    assert_eq!(steps[28].end[0], End::Truncated);
    assert!(steps[..28].iter().all(|step| step.end[0] == End::No));
}

/// Keys move the arm through the guard, as a person's interventions.
#[test]
fn keys_jog_the_arm_within_its_limits() {
    let task = RobotTask { relative_frame: false, ..task() };
    let press = |key: Key| {
        move |shared: &Arc<VirtualClock>| -> Box<dyn Pilot> {
            let left = (0..40).map(|at| (0.5 + 0.1 * f64::from(at), key)).collect();
            Box::new(KeyJog::by_presses(Box::new(Typist { clock: shared.clone(), left }), shared.clone()))
        }
    };
    let mut bench = build_with(task, limits(), 100, press(Key::PageUp)).unwrap();
    bench.env.reset(Seed::new(1)).unwrap();
    let before = bench.arm.world().pose.position_m;
    let step = (0..12).map(|_| bench.env.step(&[0.0; 6]).unwrap()).last().unwrap();
    let after = bench.arm.world().pose.position_m;
    assert!(after.z > before.z + 0.03 && (after - before).truncate().length() < 1e-3, "{before} {after}");
    assert!(step.interventions[0].by_person && fact(&step, "intervention") == 1.0);
    assert!((step.interventions[0].action[2] - 0.3).abs() < 0.05, "{:?}", step.interventions[0].action);
    (0..17).for_each(|_| drop(bench.env.step(&[0.0; 6]).unwrap()));
    let highest = bench.arm.targets().iter().map(|target| target.position_m.z).fold(0.0, f64::max);
    assert!(highest <= 0.4 + 1e-9, "the box holds: {highest}");
}
