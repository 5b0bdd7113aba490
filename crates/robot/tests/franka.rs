//! A Franka behind the robot server. What needs a robot runs when `PLAUDIT_FRANKA_SIM` has the address of a simulator that speaks
//! Franka's protocol, such as franka-sim; never name a real arm there.
#![cfg(all(feature = "franka", target_os = "linux"))]
#![allow(clippy::unwrap_used)] // a test fails by panicking
#![allow(clippy::print_stdout)] // and says when it was skipped

use std::sync::Arc;
use std::time::{Duration, Instant};

use glam::DVec3;
use plaudit_robot::{
    Arm, ArmError, FrankaServer, FrankaSettings, GripperCommand, RealClock, SerlArm, ToolPose,
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

#[test]
fn a_robot_that_is_not_there_is_named() {
    let began = Instant::now();
    let error = FrankaServer::start(settings("127.0.0.2")).err().unwrap().to_string();
    assert!(error.starts_with("the Franka at 127.0.0.2, connecting:"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_simulated_franka_follows_holds_and_refuses() {
    let Ok(robot) = std::env::var("PLAUDIT_FRANKA_SIM") else {
        println!("skipped: PLAUDIT_FRANKA_SIM has no address of a Franka simulator");
        return;
    };
    let server = FrankaServer::start(settings(&robot)).unwrap();
    println!("notices: {:#?}", server.notices());
    let mut arm = client(&server);
    let start = arm.state().unwrap();
    println!("at {:?}, gripper {:?}", start.pose.to_xyz_euler(), start.gripper_open);
    sleep_ms(500);
    let rest = arm.state().unwrap().pose;
    assert!(rest.distance_m(start.pose) < 0.005, "it is held where it is: {}", rest.distance_m(start.pose));

    let ahead = |metres: f64| ToolPose::new(rest.position_m + DVec3::new(0.0, metres, 0.0), rest.rotation);
    for step in 1..=10 {
        arm.recover().unwrap(); // SERL's clients clear errors before every target
        arm.target(&ahead(0.005 * f64::from(step))).unwrap();
        sleep_ms(100);
    }
    sleep_ms(300);
    let there = arm.state().unwrap();
    let missed = there.pose.distance_m(ahead(0.05));
    println!("missed by {missed:.4} m; success rate {:?}", server.command_success_rate());
    assert!(missed < 0.02, "it followed: {missed}");
    assert!(there.joints_rad.iter().any(|joint| joint.abs() > 0.01));

    let far = arm.target(&ahead(0.05 + 0.3)).unwrap_err();
    assert!(matches!(&far, ArmError::Refused { status: 400, .. }), "{far}");

    // One target, and then silence: it does not go on for ever.
    let from = arm.state().unwrap().pose;
    arm.target(&ToolPose::new(from.position_m - DVec3::new(0.0, 0.09, 0.0), from.rotation)).unwrap();
    sleep_ms(1500);
    let held = arm.state().unwrap().pose;
    sleep_ms(700);
    let later = arm.state().unwrap().pose;
    println!("went {:.3} m of 0.090, then {:.4} m", from.distance_m(held), held.distance_m(later));
    assert!(held.distance_m(later) < 0.004, "it holds");
    assert!(from.distance_m(later) < 0.085, "it did not go all the way");

    if start.gripper_open.is_some_and(|open| open > 0.0) {
        arm.gripper(GripperCommand::Close).unwrap();
        sleep_ms(2000);
        let closed = arm.state().unwrap().gripper_open.unwrap();
        println!("gripper {closed:.2}");
        assert!(closed < 0.5);
        arm.gripper(GripperCommand::Open).unwrap();
    }
    arm.joint_reset().unwrap();
    let home = arm.state().unwrap();
    println!("home {:?}", home.joints_rad);
    assert!((home.joints_rad[3] + 1.9).abs() < 0.05, "{:?}", home.joints_rad);
    assert_eq!(server.trouble(), None);
}
