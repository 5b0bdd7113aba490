//! A Franka behind the robot server. What needs a robot runs when `PLAUDIT_FRANKA_SIM` has the address of a simulator that speaks
//! Franka's protocol, such as franka-sim; never name a real arm there.
#![cfg(all(feature = "franka", target_os = "linux"))]
#![allow(clippy::unwrap_used)] // a test fails by panicking
#![allow(clippy::print_stdout)] // and says when it was skipped

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glam::DVec3;
use plaudit_robot::{
    Arm, ArmError, ArmState, Compliance, FrankaServer, FrankaSettings, GripperCommand, RealClock, SerlArm,
    ToolPose,
};

fn sleep_ms(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

fn client(server: &FrankaServer) -> SerlArm {
    let url = format!("http://{}", server.address());
    SerlArm::new(&url, Arc::new(RealClock::new())).unwrap().with_timeout(Duration::from_secs(5))
}

fn settings(robot: &str) -> FrankaSettings {
    FrankaSettings { listen: ([127, 0, 0, 1], 0).into(), ..FrankaSettings::new(robot) }
}

fn beside(pose: ToolPose, metres: f64) -> ToolPose {
    ToolPose::new(pose.position_m + DVec3::new(0.0, metres, 0.0), pose.rotation)
}

#[test]
fn a_robot_that_is_not_there_is_named() {
    let began = Instant::now();
    let error = FrankaServer::start(settings("127.0.0.2:9")).err().unwrap().to_string();
    assert!(error.starts_with("the Franka at 127.0.0.2:9, connecting:"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// One test, because there is one robot.
#[test]
fn a_simulated_franka_follows_holds_and_refuses() {
    let Ok(robot) = std::env::var("PLAUDIT_FRANKA_SIM") else {
        println!("skipped: PLAUDIT_FRANKA_SIM has no address of a Franka simulator");
        return;
    };
    let server = FrankaServer::start(settings(&robot)).unwrap();
    println!("notices: {:#?}", server.take_notices());
    let mut arm = client(&server);
    follows(&mut arm, &server);
    holds_without_targets(&mut arm);
    refuses(&mut arm);
    stays_off(&mut arm);
    moves_its_fingers(&mut arm);
    goes_home_while_somebody_waits(&mut arm, &server);
    assert_eq!(server.trouble(), None);

    let address = server.address();
    let last = arm.state().unwrap().pose;
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    let again = FrankaServer::start(settings(&robot)).unwrap();
    let rest = client(&again).state().unwrap().pose;
    println!("moved {:.4} m between two servers", rest.distance_m(last));
    assert!(rest.distance_m(last) < 0.02, "the robot holds by itself");
}

fn follows(arm: &mut SerlArm, server: &FrankaServer) {
    let start = arm.state().unwrap();
    println!("at {:?}, gripper {:?}", start.pose.to_xyz_euler(), start.gripper_open);
    sleep_ms(500);
    let rest = arm.state().unwrap().pose;
    assert!(rest.distance_m(start.pose) < 0.005, "it is held where it is: {}", rest.distance_m(start.pose));
    for step in 1..=20 {
        arm.recover().unwrap(); // SERL's clients clear errors before every target
        arm.target(&beside(rest, 0.0025 * f64::from(step))).unwrap();
        sleep_ms(100);
    }
    sleep_ms(300);
    let there = arm.state().unwrap();
    let missed = there.pose.distance_m(beside(rest, 0.05));
    println!("missed by {missed:.4} m; success rate {:?}", server.command_success_rate());
    assert!(missed < 0.02, "it followed: {missed}");
    assert!(there.joints_rad.iter().any(|joint| joint.abs() > 0.01));
    let jacobian = arm.jacobian().unwrap();
    assert!(jacobian.iter().flatten().any(|part| part.abs() > 0.1));
}

/// One target, and then silence: it does not go on for ever.
fn holds_without_targets(arm: &mut SerlArm) {
    let from = arm.state().unwrap().pose;
    arm.target(&beside(from, -0.18)).unwrap();
    sleep_ms(2000);
    let held = arm.state().unwrap().pose;
    sleep_ms(700);
    let later = arm.state().unwrap().pose;
    println!("went {:.3} m of 0.180, then {:.4} m", from.distance_m(held), held.distance_m(later));
    assert!(held.distance_m(later) < 0.004, "it holds");
    assert!((0.005..0.14).contains(&from.distance_m(later)), "it moved, and did not go all the way");
}

fn refuses(arm: &mut SerlArm) {
    let at = arm.state().unwrap().pose;
    let far = arm.target(&beside(at, 0.3)).unwrap_err();
    assert!(matches!(&far, ArmError::Refused { status: 400, .. }), "{far}");
    assert!(far.to_string().contains("rad are allowed"), "{far}");
    let stiff = Compliance::new([("translational_stiffness", 6000.0)]).unwrap();
    let refused = arm.compliance(&stiff).unwrap_err();
    assert!(refused.to_string().contains("takes 50 to 3000"), "{refused}");
    arm.compliance(&Compliance::new([("translational_stiffness", 1500.0)]).unwrap()).unwrap();
    let heavy = arm.set_load(5.0, DVec3::ZERO, [0.0; 9]).unwrap_err();
    assert!(heavy.to_string().contains("the arm carries 0 to 3 kg"), "{heavy}");
    arm.set_load(0.1, DVec3::ZERO, [0.001, 0.0, 0.0, 0.0, 0.001, 0.0, 0.0, 0.0, 0.001]).unwrap();
    arm.target(&arm.pose().unwrap()).unwrap();
}

/// SERL's clients clear errors before every target: that must not switch on what somebody switched off.
fn stays_off(arm: &mut SerlArm) {
    arm.stop_impedance().unwrap();
    arm.recover().unwrap();
    let at = arm.state().unwrap().pose;
    let off = arm.target(&at).unwrap_err();
    assert!(matches!(&off, ArmError::NotReady { status: 503, .. }), "{off}");
    arm.start_impedance().unwrap();
    arm.target(&arm.pose().unwrap()).unwrap();
}

fn moves_its_fingers(arm: &mut SerlArm) {
    if arm.gripper(GripperCommand::Open).is_err() {
        return println!("the simulator has no hand");
    }
    let wait = |arm: &SerlArm, is_so: &dyn Fn(f64) -> bool| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) && !is_so(arm.gripper_open().unwrap()) {
            sleep_ms(50);
        }
        let open = arm.gripper_open().unwrap();
        println!("gripper {open:.2} after {} ms", begun.elapsed().as_millis());
        assert!(is_so(open), "{open}");
    };
    wait(arm, &|open| open > 0.95);
    arm.gripper(GripperCommand::Close).unwrap();
    wait(arm, &|open| open < 0.1);
    arm.gripper(GripperCommand::To(0.5)).unwrap();
    wait(arm, &|open| (0.45..0.55).contains(&open));
    arm.gripper(GripperCommand::Close).unwrap();
    sleep_ms(50);
    arm.gripper(GripperCommand::Open).unwrap(); // the newer one wins
    wait(arm, &|open| open > 0.95);
}

fn goes_home_while_somebody_waits(arm: &mut SerlArm, server: &FrankaServer) {
    arm.joint_reset().unwrap();
    let home = arm.state().unwrap();
    println!("home {:?}", home.joints_rad);
    assert!((home.joints_rad[3] + 1.9).abs() < 0.05, "{:?}", home.joints_rad);

    // Away from home, and a client that hangs up on the way back.
    for step in 1..=30 {
        arm.target(&beside(home.pose, 0.006 * f64::from(step))).unwrap();
        sleep_ms(100);
    }
    let away = arm.state().unwrap();
    let mut asks = TcpStream::connect(server.address()).unwrap();
    asks.write_all(b"POST /jointreset HTTP/1.1\r\nHost: robot\r\nContent-Length: 0\r\n\r\n").unwrap();
    let begun = Instant::now();
    let is_nearer = |state: Result<ArmState, ArmError>| {
        state.is_ok_and(|state| state.pose.distance_m(home.pose) < away.pose.distance_m(home.pose) - 0.02)
    };
    while !is_nearer(arm.state()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it went on its way");
        sleep_ms(10);
    }
    drop(asks);
    sleep_ms(2500);
    let stopped = arm.state().unwrap();
    println!(
        "{:.3} m from home, {:.3} m when it was stopped",
        away.pose.distance_m(home.pose),
        stopped.pose.distance_m(home.pose)
    );
    assert!(stopped.pose.distance_m(home.pose) > 0.02, "it did not go on");
    arm.target(&stopped.pose).unwrap();
    arm.joint_reset().unwrap();
}
