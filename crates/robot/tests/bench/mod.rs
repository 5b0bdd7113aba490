//! A simulated PickCube behind a server on the loopback.

#![allow(dead_code)] // each test file uses its own part of it

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_env::{CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PickCubeSettings, make};
use plaudit_robot::{RealClock, SceneClient, SerlArm, SimulateSettings, SimulatedRobot};

/// A server, and everything to reach it with.
pub(crate) struct Bench {
    pub(crate) robot: SimulatedRobot,
    pub(crate) url: String,
    pub(crate) clock: Arc<RealClock>,
    pub(crate) arm: SerlArm,
    pub(crate) scene: SceneClient,
}

pub(crate) fn pick_cube() -> Box<dyn plaudit_core::Env> {
    let mut settings = EnvSettings::new(EnvId::PickCubeV1, 1);
    settings.ignore_terminations = true;
    settings.max_episode_steps = Some(1_000_000);
    let camera = CameraSettings { width: 64, height: 64, ..CameraSettings::new(CameraName::BaseCamera) };
    settings.pick_cube = Some(PickCubeSettings {
        control_mode: ControlMode::PdEeDeltaPose,
        cameras: Some(vec![camera]),
        ..PickCubeSettings::default()
    });
    make(&settings).unwrap()
}

impl Bench {
    pub(crate) fn start(speed: f64) -> Self {
        let clock = Arc::new(RealClock::at_speed(speed));
        let robot = SimulatedRobot::start(pick_cube(), SimulateSettings::new(clock.clone())).unwrap();
        let url = format!("http://{}", robot.address().unwrap());
        let arm = SerlArm::new(&url, clock.clone()).unwrap().with_timeout(Duration::from_secs(2));
        let scene = SceneClient::new(&url).unwrap();
        Self { robot, url, clock, arm, scene }
    }

    /// The answer to a request as it stands: status line and body.
    pub(crate) fn raw(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.robot.address().unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
        (head.lines().next().unwrap_or_default().to_string(), body.to_string())
    }
}

/// Waits for something to become true: machines are busy.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
