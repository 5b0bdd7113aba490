//! The whole chain in real time over the loopback: environment, guard, client, server, simulated arm, cameras.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod bench;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::{Bench, eventually};
use glam::DVec3;
use plaudit_core::{End, Env, FrameShape, Seed, Step};
use plaudit_robot::{
    Arm, ArmError, ArmState, AskPerson, AxisBox, Compliance, Faults, GripperCommand, Guard, Limits,
    MjpegCamera, NoPilot, NoTableReset, Person, RobotEnv, RobotParts, RobotTask, StopToken, ToolPose,
    Workspace,
};

/// Writes down when targets are sent.
struct Watched<A> {
    arm: A,
    sent: Arc<Mutex<Vec<(Instant, ToolPose)>>>,
}

impl<A: Arm> Arm for Watched<A> {
    fn state(&mut self) -> Result<ArmState, ArmError> {
        self.arm.state()
    }
    fn target(&mut self, pose: &ToolPose) -> Result<(), ArmError> {
        let sent = self.arm.target(pose);
        self.sent.lock().unwrap().push((Instant::now(), *pose));
        sent
    }
    fn gripper(&mut self, command: GripperCommand) -> Result<(), ArmError> {
        self.arm.gripper(command)
    }
    fn compliance(&mut self, compliance: &Compliance) -> Result<(), ArmError> {
        self.arm.compliance(compliance)
    }
    fn recover(&mut self) -> Result<(), ArmError> {
        self.arm.recover()
    }
    fn joint_reset(&mut self) -> Result<(), ArmError> {
        self.arm.joint_reset()
    }
}

struct Anybody;

impl AskPerson for Anybody {
    fn may_move(&mut self, _: &str) -> Option<Person> {
        Some(Person::agreed("test"))
    }
}

struct Robot {
    env: RobotEnv,
    stop: StopToken,
    sent: Arc<Mutex<Vec<(Instant, ToolPose)>>>,
    told: Arc<Mutex<Vec<String>>>,
}

/// An environment on the simulated arm, with room around where it starts.
fn robot(bench: &mut Bench) -> Robot {
    robot_with_room(bench, DVec3::splat(0.12))
}

fn robot_with_room(bench: &mut Bench, room: DVec3) -> Robot {
    eventually("a first state", || bench.arm.state().is_ok());
    let start = bench.arm.state().unwrap().pose;
    let bounds = AxisBox { min_m: start.position_m - room, max_m: start.position_m + room };
    let workspace = Workspace::new(bounds, start.rotation, [0.5; 3]).unwrap();
    let url = format!("{}/camera/base_camera", bench.url);
    let camera = MjpegCamera::open("wrist_1", &url, FrameShape::rgb(32, 32), bench.clock.clone()).unwrap();
    let (stop, sent) = (StopToken::new(), Arc::<Mutex<Vec<_>>>::default());
    let arm = Watched { arm: bench.arm.clone(), sent: sent.clone() };
    let told = Arc::<Mutex<Vec<String>>>::default();
    let heard = told.clone();
    let parts = RobotParts {
        guard: Guard::new(Box::new(arm), Limits::new(workspace, 10.0), bench.clock.clone()).unwrap(),
        cameras: vec![Box::new(camera)],
        pilot: Box::new(NoPilot),
        table: Box::new(NoTableReset),
        person: Box::new(Anybody),
        clock: bench.clock.clone(),
        stop: stop.clone(),
        notify: Box::new(move |text| heard.lock().unwrap().push(text.into())),
        watchdog: true,
        simulated: None,
    };
    let target = start.moved(DVec3::X * -0.1, DVec3::ZERO);
    let task = RobotTask { max_episode_steps: Some(1000), ..RobotTask::reach("FrankaEnv-v1", target, start) };
    Robot { env: RobotEnv::new(task, parts).unwrap(), stop, sent, told }
}

fn fact(step: &Step, name: &str) -> f32 {
    step.facts.iter().find(|(known, _)| &**known == name).unwrap().1[0]
}

/// Invariant 9: a stop is a hold within 100 ms, although nobody steps the environment. Machines are busy: the best of a
/// few tries counts.
#[test]
fn a_stop_holds_within_100_ms() {
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let mut bench = Bench::start(1.0);
        let mut robot = robot(&mut bench);
        robot.env.reset(Seed::new(1)).unwrap();
        for _ in 0..3 {
            robot.env.step(&[0.6, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        }
        let before = robot.sent.lock().unwrap().len();
        let stopped = Instant::now();
        robot.stop.raise();
        eventually("a hold", || robot.sent.lock().unwrap().len() > before);
        let (held, pose) = robot.sent.lock().unwrap()[before];
        quickest = quickest.min(held - stopped);
        let measured = bench.arm.state().unwrap().pose;
        assert!(pose.distance_m(measured) < 0.03, "where the arm is, not where it was going");
        let step = robot.env.step(&[0.6; 6]).unwrap();
        assert_eq!((step.end[0], fact(&step, "invalid")), (End::Truncated, 1.0));
        assert_eq!(robot.sent.lock().unwrap().len(), before + 1, "and nothing after it");
        if quickest < Duration::from_millis(100) {
            return;
        }
    }
    panic!("the quickest hold took {quickest:?}");
}

/// A policy that hangs leaves an arm that holds, without anybody stopping it.
#[test]
fn a_policy_that_hangs_leaves_an_arm_that_holds() {
    let mut bench = Bench::start(1.0);
    let mut robot = robot(&mut bench);
    robot.env.reset(Seed::new(1)).unwrap();
    for _ in 0..3 {
        robot.env.step(&[0.6, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
    }
    let before = robot.sent.lock().unwrap().len();
    std::thread::sleep(Duration::from_millis(900));
    let sent = robot.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), before + 1, "one hold, then silence");
}

/// Invariant 5: a tool that presses too hard on the table is held within one step, and the step is marked.
#[test]
fn a_tool_that_presses_too_hard_on_the_table_holds() {
    let mut bench = Bench::start(1.0);
    // Down to below the table, which is where the base stands.
    let mut robot = robot_with_room(&mut bench, DVec3::new(0.12, 0.12, 0.25));
    let stiff = [("translational_stiffness", 6000.0), ("translational_clip_z", 0.03)];
    bench.arm.compliance(&Compliance::new(stiff).unwrap()).unwrap();
    robot.env.reset(Seed::new(1)).unwrap();
    let held = (0..60).find_map(|_| {
        let before = robot.sent.lock().unwrap().len();
        // Along the tool, which points down.
        let step = robot.env.step(&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]).unwrap();
        (fact(&step, "held") == 1.0).then_some((step, before))
    });
    let told = robot.told.lock().unwrap().join("\n");
    let (_, before) = held.unwrap_or_else(|| panic!("nothing holds it: {told}"));
    assert!(told.contains("N press on the tool; at most 40 are allowed"), "{told}");
    let sent = robot.sent.lock().unwrap()[before..].to_vec();
    let measured = bench.arm.state().unwrap().pose;
    assert!(measured.position_m.z < 0.02, "at the table: {measured:?}");
    assert!(
        sent.iter().all(|(_, pose)| pose.distance_m(measured) < 0.02),
        "where the arm is: {sent:?} {measured:?}"
    );
    // Held, it presses less.
    eventually("less force", || bench.arm.state().unwrap().wrench.force_n.length() < 20.0);
}

/// Latency, lost answers and broken frames: the environment steps on, and what is lost is marked.
#[test]
fn faults_are_survived_or_marked() {
    let mut bench = Bench::start(1.0);
    let mut robot = robot(&mut bench);
    robot.env.reset(Seed::new(1)).unwrap();
    let shaky = Faults {
        latency_ms: 5.0,
        jitter_ms: 15.0,
        error_rate: 0.1,
        drop_frames: 0.2,
        tear_frames: 0.2,
        ..Faults::default()
    };
    bench.scene.set_faults(&shaky).unwrap();
    let valid = (0..20).filter(|_| {
        let step = robot.env.step(&[0.1, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        fact(&step, "invalid") == 0.0
    });
    let valid = valid.count();
    assert!(valid >= 10, "{valid} of 20: {:?}", robot.told.lock().unwrap());

    // A camera that freezes for a while spoils one episode, and the next one begins by itself.
    bench.scene.set_faults(&Faults { freeze_frames: true, ..Faults::default() }).unwrap();
    let scene = bench.scene.clone();
    let heal = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1200));
        scene.set_faults(&Faults::default()).unwrap();
    });
    let spoilt = (0..20).find_map(|_| {
        let step = robot.env.step(&[0.0; 6]).unwrap();
        (fact(&step, "invalid") == 1.0).then_some(step)
    });
    heal.join().unwrap();
    assert_eq!(spoilt.unwrap().end[0], End::Truncated);
    let told = robot.told.lock().unwrap().join("\n");
    assert!(told.contains("frame of camera `wrist_1` is"), "{told}");
    let step = robot.env.step(&[0.0; 6]).unwrap();
    assert_eq!(fact(&step, "invalid"), 0.0);
}
