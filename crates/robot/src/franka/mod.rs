//! A Franka arm behind SERL's dialect, without ROS: the process that owns the 1 kHz loop.
//!
//! The loop itself is franka-rs's: a thread of its own follows targets under Cartesian impedance, with budgets for speed,
//! acceleration and jerk, and begins where the arm is. This module puts SERL's routes before it, and what the dialect leaves
//! open: targets that are far from the arm are refused, an arm without targets holds, one that stopped itself stays so until
//! somebody clears its error.
//!
//! It must not share a process with learning: a loop that misses twenty cycles is stopped by the robot.

mod arm;
mod hand;
mod realtime;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

use crate::StopToken;
use crate::serl::server::Server;
use arm::FrankaArm;

/// How often the watch looks whether targets still come.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// What can be chosen about a Franka behind a robot server.
#[derive(Debug, Clone, PartialEq)]
pub struct FrankaSettings {
    /// The robot's address, such as `172.16.0.2`.
    pub robot: String,
    /// Where to listen; port 0 is any that is free.
    pub listen: SocketAddr,
    /// The core that the loop keeps to itself.
    pub cpu: Option<usize>,
    /// How fast the tool may move.
    pub max_speed_m_s: f64,
    /// How fast the tool may turn.
    pub max_turn_rad_s: f64,
    /// A target that is further from the arm is refused.
    pub max_lead_m: f64,
    /// The same for its angle.
    pub max_lead_rad: f64,
    /// The arm stops when it is further from where its control began.
    pub max_reach_m: f64,
    /// So long without a target, and the arm holds where it is.
    pub hold_after: Duration,
    /// The arm stops itself when more presses on it.
    pub max_force_n: f64,
    /// The same for torques about the tool.
    pub max_torque_nm: f64,
    /// Where `jointreset` moves the joints.
    pub home_rad: [f64; 7],
}

impl FrankaSettings {
    /// Cautious settings for the robot at an address, served on the loopback.
    pub fn new(robot: &str) -> Self {
        Self {
            robot: robot.into(),
            listen: ([127, 0, 0, 1], crate::SERL_PORT).into(),
            cpu: None,
            max_speed_m_s: 0.25,
            max_turn_rad_s: 0.5,
            max_lead_m: 0.20,
            max_lead_rad: 0.60,
            max_reach_m: 0.40,
            hold_after: Duration::from_millis(500),
            max_force_n: 60.0,
            max_torque_nm: 20.0,
            home_rad: [0.0, 0.0, 0.0, -1.9, 0.0, 2.0, 0.0],
        }
    }
}

/// Why there is no robot behind the server.
#[derive(Debug, Error)]
pub enum FrankaServeError {
    /// The robot does not answer, or refuses.
    #[error("the Franka at {robot}, {during}: {why}")]
    Robot {
        /// Where.
        robot: String,
        /// What was tried.
        during: &'static str,
        /// What franka-rs says.
        why: String,
    },
    /// The address cannot be listened at, or there are no threads.
    #[error("no robot server at {address}: {why}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        why: std::io::Error,
    },
}

/// A Franka behind a robot server. Dropped, the arm comes to rest.
pub struct FrankaServer {
    // Dropped in this order: nobody can ask for anything when the arm is brought to rest.
    server: Server,
    ended: StopToken,
    watch: Option<JoinHandle<()>>,
    arm: Arc<FrankaArm>,
    notices: Vec<String>,
}

impl FrankaServer {
    /// Connects, holds the arm where it is, and listens.
    pub fn start(settings: FrankaSettings) -> Result<Self, FrankaServeError> {
        let (address, mut notices) = (settings.listen, Vec::new());
        let realtime = realtime::prepare(settings.cpu, &mut notices);
        let arm = Arc::new(FrankaArm::connect(settings, realtime, &mut notices)?);
        let listen = |why| FrankaServeError::Listen { address, why };
        let ended = StopToken::new();
        let (watched, has_ended) = (arm.clone(), ended.clone());
        let look = move || {
            while !has_ended.is_raised() {
                watched.hold_without_targets();
                std::thread::sleep(LOOKS_EVERY);
            }
        };
        let watch = std::thread::Builder::new().name("franka-watch".into()).spawn(look).map_err(listen)?;
        let server = Server::start(address, arm.clone()).map_err(listen)?;
        Ok(Self { server, ended, watch: Some(watch), arm, notices })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What a person should know: what this machine does not allow, what the robot does not have.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Why the arm does not follow targets, if it does not.
    pub fn trouble(&self) -> Option<String> {
        self.arm.trouble()
    }

    /// The share of commands that reached the robot in time during the last 100 cycles.
    pub fn command_success_rate(&self) -> Option<f64> {
        self.arm.command_success_rate()
    }
}

impl Drop for FrankaServer {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(watch) = self.watch.take() {
            // It only looks, and cannot have anything to say.
            let _ = watch.join();
        }
        self.arm.come_to_rest();
    }
}
