//! The simulated robot server over the loopback: every route, and every fault.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod bench;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use bench::{Bench, eventually};
use glam::DVec3;
use plaudit_core::FrameShape;
use plaudit_robot::{
    Arm, ArmError, Camera, Clock, Compliance, Faults, GripperCommand, MjpegCamera, ToolPose,
};

fn ready(bench: &mut Bench) {
    eventually("a first state", || bench.arm.state().is_ok());
}

/// Sends a target again and again, as clients do, until the tool is there.
fn go(bench: &mut Bench, target: ToolPose) {
    eventually("the tool at its target", || {
        bench.arm.target(&target).unwrap();
        let pose = bench.arm.state().unwrap().pose;
        pose.distance_m(target) < 0.004 && pose.angle_rad(target) < 0.02
    });
}

#[test]
fn the_arm_goes_where_it_is_sent_and_every_route_answers() {
    let mut bench = Bench::start(4.0);
    ready(&mut bench);
    let start = bench.arm.state().unwrap();
    assert!((0.4..0.8).contains(&start.pose.position_m.x), "in the base's frame: {:?}", start.pose);
    go(&mut bench, start.pose.moved(DVec3::new(-0.05, 0.06, 0.04), DVec3::Z * 0.3));

    let arm = &mut bench.arm;
    let state = arm.state().unwrap();
    assert!(state.pose.distance_m(arm.pose().unwrap()) < 0.01);
    assert!(state.pose.angle_rad(arm.pose_euler().unwrap()) < 0.05);
    assert!(arm.velocity().unwrap().linear_m_s.length() < 0.5);
    assert_eq!(arm.wrench().unwrap().force_n, DVec3::ZERO);
    let (joints, _) = arm.joints().unwrap();
    assert!((joints[3] - state.joints_rad[3]).abs() < 0.1);
    assert!(arm.jacobian().unwrap()[0][0].abs() < 1.0);
    assert!(arm.gripper_open().unwrap() > 0.9);
    arm.compliance(&Compliance::new([("translational_stiffness", 1500.0)]).unwrap()).unwrap();
    arm.activate_gripper().unwrap();
    arm.reset_gripper().unwrap();
    arm.set_load(0.5, DVec3::Z * 0.1, [0.0; 9]).unwrap();
    arm.recover().unwrap();
    arm.gripper(GripperCommand::Close).unwrap();
    eventually("a closed gripper", || arm.gripper_open().unwrap() < 0.1);
    arm.gripper(GripperCommand::To(1.0)).unwrap();
    eventually("an open gripper", || arm.gripper_open().unwrap() > 0.9);
    arm.close_gripper_slowly().unwrap();
    arm.joint_reset().unwrap();
    assert!(arm.pose().unwrap().distance_m(start.pose) < 0.02);
    arm.stop_impedance().unwrap();
    let before = arm.pose().unwrap();
    for _ in 0..10 {
        arm.target(&before.moved(DVec3::Z * 0.1, DVec3::ZERO)).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(arm.pose().unwrap().distance_m(before) < 0.01, "no controller, no motion");
    arm.start_impedance().unwrap();
}

/// How hard the tool presses after a while with its target so far below where the table stops it; in the tool's frame.
fn press(bench: &mut Bench, below_m: f64) -> DVec3 {
    let contact = touch_table(bench);
    let target = contact.moved(DVec3::NEG_Z * below_m, DVec3::ZERO);
    let mut felt = Vec::new();
    for _ in 0..40 {
        bench.arm.target(&target).unwrap();
        std::thread::sleep(Duration::from_millis(25));
        felt.push(bench.arm.state().unwrap().wrench.force_n);
    }
    felt[20..].iter().sum::<DVec3>() / 20.0
}

/// Lowers the tool until it touches the table, away from the cube. Gives where it is then.
fn touch_table(bench: &mut Bench) -> ToolPose {
    let start = bench.arm.state().unwrap().pose;
    let at = DVec3::new(0.45, -0.2, 0.03);
    go(bench, ToolPose::new(at, start.rotation));
    let mut depth = 0.0;
    eventually("the table", || {
        depth += 0.001;
        bench.arm.target(&ToolPose::new(at - DVec3::Z * depth, start.rotation)).unwrap();
        std::thread::sleep(Duration::from_millis(25));
        bench.arm.state().unwrap().wrench.force_n.length() > 2.0
    });
    bench.arm.state().unwrap().pose
}

#[test]
fn the_table_is_felt_and_by_the_controllers_stiffness() {
    let mut bench = Bench::start(4.0);
    ready(&mut bench);
    assert!(bench.arm.wrench().unwrap().force_n.length() < 0.1, "nothing touches it");
    let stiffness = |bench: &mut Bench, n_m: f64| {
        bench.arm.compliance(&Compliance::new([("translational_stiffness", n_m)]).unwrap()).unwrap();
    };
    stiffness(&mut bench, 1000.0);
    let soft = press(&mut bench, 0.008);
    stiffness(&mut bench, 5000.0);
    let hard = press(&mut bench, 0.008);
    // libfranka's sign: what the tool does to the table. The tool points down.
    assert!((3.0..20.0).contains(&soft.z), "{soft}");
    assert!((20.0..70.0).contains(&hard.z), "{hard}");
    let start = bench.arm.state().unwrap().pose;
    go(&mut bench, start.moved(DVec3::Z * 0.1, DVec3::ZERO));
    eventually("free air", || bench.arm.state().unwrap().wrench.force_n.length() < 0.1);
}

/// HIL-SERL's clients send one target for a reset and wait a second.
#[test]
fn one_target_is_enough_for_a_reset() {
    let mut bench = Bench::start(1.0);
    ready(&mut bench);
    let start = bench.arm.state().unwrap().pose;
    let target = start.moved(DVec3::new(-0.05, -0.12, 0.05), DVec3::ZERO);
    bench.arm.target(&target).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let missing = bench.arm.state().unwrap().pose.distance_m(target);
    assert!(missing < 0.01, "{missing} m away");
}

/// A client that is killed while joints move home does not leave a moving arm behind.
#[test]
fn a_joint_reset_ends_with_its_client() {
    let mut bench = Bench::start(1.0);
    ready(&mut bench);
    let home = bench.arm.state().unwrap().pose;
    let away = home.moved(DVec3::new(0.0, 0.2, 0.0), DVec3::ZERO);
    go(&mut bench, away);
    let mut asks = TcpStream::connect(bench.robot.address().unwrap()).unwrap();
    asks.write_all(b"POST /jointreset HTTP/1.1\r\nContent-Length: 0\r\n\r\n").unwrap();
    eventually("an arm on its way home", || bench.arm.pose().unwrap().distance_m(away) > 0.02);
    drop(asks);
    std::thread::sleep(Duration::from_secs(2));
    let rest = bench.arm.pose().unwrap();
    assert!(rest.distance_m(home) > 0.03, "it went on: {}", rest.distance_m(home));
}

/// What Flask does, and what nobody should send.
#[test]
fn requests_that_are_wrong_are_refused_as_flask_does() {
    let mut bench = Bench::start(4.0);
    ready(&mut bench);
    let json = "Content-Type: application/json\r\n";
    let post = |route: &str, headers: &str, body: &str| {
        bench
            .raw(&format!("POST /{route} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
            .0
    };
    assert_eq!(bench.raw("GET /getstate HTTP/1.1\r\n\r\n").0, "HTTP/1.1 405 METHOD NOT ALLOWED");
    assert_eq!(post("nowhere", "", ""), "HTTP/1.1 404 NOT FOUND");
    assert_eq!(post("camera/nowhere", "", ""), "HTTP/1.1 404 NOT FOUND");
    assert_eq!(post("pose", "", r#"{"arr":[0,0,0,0,0,0,1]}"#), "HTTP/1.1 415 UNSUPPORTED MEDIA TYPE");
    for wrong in [
        "",
        "{",
        "[]",
        r#"{"arr":1}"#,
        r#"{"arr":[0,0,0,0,0,0]}"#,
        r#"{"arr":[0,0,0,0,0,0,0]}"#,
        r#"{"arr":[0,0,0,0,0,"a",1]}"#,
    ] {
        assert_eq!(post("pose", json, wrong), "HTTP/1.1 400 BAD REQUEST", "{wrong}");
    }
    assert_eq!(post("move_gripper", json, r#"{"gripper_pos":256}"#), "HTTP/1.1 400 BAD REQUEST");
    assert_eq!(post("update_param", json, r#"{"translational_stiffness":9000}"#), "HTTP/1.1 400 BAD REQUEST");
    assert_eq!(post("plaudit/faults", json, r#"{"latency":1}"#), "HTTP/1.1 400 BAD REQUEST");
    for hostile in [
        "nonsense\r\n\r\n",
        "POST /pose\r\n\r\n",
        "POST /pose HTTP/2\r\n\r\n",
        "POST /pose HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
        "POST /pose HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /pose HTTP/1.1\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(bench.raw(hostile).0, "HTTP/1.1 400 BAD REQUEST", "{hostile}");
    }
    let (line, body) = bench.raw("POST /getpos HTTP/1.1\r\n\r\n");
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert!(body.starts_with(r#"{"pose":["#), "{body}");
}

#[test]
fn without_targets_the_server_holds() {
    let mut bench = Bench::start(2.0);
    ready(&mut bench);
    let start = bench.arm.state().unwrap().pose;
    // A client that sends one far target and dies.
    bench.arm.target(&start.moved(DVec3::new(0.0, -0.25, 0.3), DVec3::ZERO)).unwrap();
    let mut last = start;
    eventually("an arm at rest", || {
        std::thread::sleep(Duration::from_millis(100));
        let pose = bench.arm.state().unwrap().pose;
        let rests = pose.distance_m(last) < 1e-3 && pose.distance_m(start) > 0.01;
        last = pose;
        rests
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(bench.arm.state().unwrap().pose.distance_m(last) < 5e-3, "it stays");
}

#[test]
fn faults_are_what_they_say() {
    let mut bench = Bench::start(1.0);
    ready(&mut bench);
    let faults = |faults: Faults| bench.scene.set_faults(&faults).unwrap();
    let mut arm = bench.arm.clone();

    faults(Faults { error_rate: 1.0, routes: vec!["pose".into()], ..Faults::default() });
    let pose = arm.state().unwrap().pose;
    assert!(matches!(arm.target(&pose), Err(ArmError::Refused { status: 500, .. })));
    faults(Faults { error_rate: 1.0, ..Faults::default() });
    assert!(matches!(arm.state(), Err(ArmError::NotReady { status: 500, .. })));

    faults(Faults { latency_ms: 300.0, ..Faults::default() });
    let mut hasty = arm.clone().with_timeout(Duration::from_millis(60));
    assert!(matches!(hasty.state(), Err(ArmError::Unreachable { .. })));

    faults(Faults { reflex: true, ..Faults::default() });
    assert!(matches!(arm.target(&pose), Err(ArmError::Reflex { .. })));
    arm.recover().unwrap();
    arm.target(&pose).unwrap();
    faults(Faults { reflex: true, silent_reflex: true, ..Faults::default() });
    arm.target(&pose).unwrap();
    arm.recover().unwrap();

    faults(Faults { stuck_gripper: true, force_n: [0.0, 0.0, -50.0], ..Faults::default() });
    eventually("the force", || arm.state().unwrap().wrench.force_n.z == -50.0);

    faults(Faults { refuse_for_ms: 400.0, ..Faults::default() });
    eventually("no connection", || matches!(arm.state(), Err(ArmError::Unreachable { .. })));
    eventually("a connection again", || arm.state().is_ok());

    faults(Faults { kill: true, ..Faults::default() });
    eventually("no server", || matches!(arm.state(), Err(ArmError::Unreachable { .. })));
    assert!(bench.robot.has_ended().is_some());
}

#[test]
fn cameras_show_the_newest_frame_and_how_old_it_is() {
    let bench = Bench::start(1.0);
    let url = format!("{}/camera/base_camera", bench.url);
    let mut camera =
        MjpegCamera::open("wrist_1", &url, FrameShape::rgb(32, 32), bench.clock.clone()).unwrap();
    eventually("a frame", || camera.newest().is_some());
    let first = camera.newest().unwrap();
    assert_eq!(first.image.shape, FrameShape::rgb(32, 32));
    assert!(first.image.pixels.iter().any(|value| *value != first.image.pixels[0]), "it shows something");
    eventually("another frame", || camera.newest().unwrap().number > first.number + 3);

    for broken in [
        Faults { freeze_frames: true, ..Faults::default() },
        Faults { drop_frames: 1.0, ..Faults::default() },
        Faults { tear_frames: 1.0, ..Faults::default() },
    ] {
        bench.scene.set_faults(&broken).unwrap();
        eventually("a frame that grows old", || {
            bench.clock.now().since(camera.newest().unwrap().time) > Duration::from_millis(400)
        });
        bench.scene.set_faults(&Faults::default()).unwrap();
        eventually("a fresh frame", || {
            bench.clock.now().since(camera.newest().unwrap().time) < Duration::from_millis(200)
        });
    }
    bench.scene.set_faults(&Faults { late_frames_ms: 500.0, ..Faults::default() }).unwrap();
    eventually("a late frame", || {
        let before = camera.newest().unwrap().number;
        eventually("its successor", || camera.newest().unwrap().number > before);
        bench.clock.now().since(camera.newest().unwrap().time) > Duration::from_millis(350)
    });
}

#[test]
fn scenes_are_reset_and_their_truth_is_told() {
    let bench = Bench::start(4.0);
    eventually("the truth", || bench.scene.truth().is_ok());
    bench.scene.reset_scene(Some(7)).unwrap();
    let seventh = bench.scene.truth().unwrap();
    assert_eq!((seventh.scene, seventh.state.len(), seventh.success), (7, 42, false));
    bench.scene.reset_scene(None).unwrap();
    let next = bench.scene.truth().unwrap();
    assert_eq!(next.scene, 8);
    assert_ne!(seventh.state[29..32], next.state[29..32], "another cube");
    bench.scene.reset_scene(Some(7)).unwrap();
    assert_eq!(bench.scene.truth().unwrap().state[29..31], seventh.state[29..31]);
}
