//! A Franka arm behind SERL's dialect, without ROS: the process that owns the 1 kHz loop.
//!
//! The loop itself is franka-rs's: a thread of its own follows targets under Cartesian impedance, with budgets for speed,
//! acceleration and jerk, and begins where the arm is. This module puts SERL's routes before it, and what the dialect leaves
//! open: targets that are far from the arm are refused, an arm without targets holds, one that stopped itself stays so until
//! somebody clears its error, which they may do three times in a minute.
//!
//! It must not share a process with learning: a loop that misses twenty cycles is stopped by the robot.

mod arm;
mod convert;
mod hand;
mod realtime;
mod rules;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

use crate::serl::server::Server;
use crate::{Clock, RealClock, StopToken};
use arm::FrankaArm;
use rules::Budget;

/// How often the watchdog looks whether targets still come.
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
    /// The same for its angle.
    pub max_reach_rad: f64,
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
            max_reach_rad: 1.2,
            hold_after: Duration::from_millis(500),
            max_force_n: 60.0,
            max_torque_nm: 20.0,
            home_rad: [0.0, 0.0, 0.0, -1.9, 0.0, 2.0, 0.0],
        }
    }

    /// For translations and for rotations.
    fn budgets(&self) -> (Budget, Budget) {
        (Budget::for_speed(self.max_speed_m_s), Budget::for_speed(self.max_turn_rad_s))
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

/// What a person should know, until somebody tells them.
#[derive(Debug, Default)]
struct Notices(Mutex<Vec<String>>);

impl Notices {
    fn push(&self, notice: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A Franka behind a robot server. Dropped, the arm comes to rest.
pub struct FrankaServer {
    address: SocketAddr,
    server: Option<Server>,
    ended: StopToken,
    watchdog: Option<JoinHandle<()>>,
    arm: Arc<FrankaArm>,
    notices: Arc<Notices>,
}

impl FrankaServer {
    /// Connects, holds the arm where it is, and listens.
    pub fn start(settings: FrankaSettings) -> Result<Self, FrankaServeError> {
        let (address, notices) = (settings.listen, Arc::new(Notices::default()));
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let how = realtime::prepare(settings.cpu, &notices);
        let arm = Arc::new(FrankaArm::connect(settings, how, clock, notices.clone())?);
        let ended = StopToken::new();
        // From here on whatever fails brings the arm to rest.
        let mut this = Self { address, server: None, ended, watchdog: None, arm, notices };
        this.listen().map_err(|why| FrankaServeError::Listen { address, why })?;
        Ok(this)
    }

    fn listen(&mut self) -> std::io::Result<()> {
        let (watched, has_ended) = (self.arm.clone(), self.ended.clone());
        let look = move || {
            while !has_ended.is_raised() {
                watched.hold_without_targets();
                std::thread::sleep(LOOKS_EVERY);
            }
        };
        self.watchdog = Some(std::thread::Builder::new().name("franka-watchdog".into()).spawn(look)?);
        let server = Server::start(self.address, self.arm.clone())?;
        self.address = server.address();
        self.server = Some(server);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a person should know and was not told yet: what this machine does not allow, what the robot does not have.
    pub fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// Why the arm does not follow targets, if it does not.
    pub fn trouble(&self) -> Option<String> {
        self.arm.trouble()
    }

    /// The share of commands that reached the robot in time during the last 100 cycles. `None` while there are none.
    pub fn command_success_rate(&self) -> Option<f64> {
        self.arm.command_success_rate()
    }
}

impl Drop for FrankaServer {
    fn drop(&mut self) {
        // Nobody can ask for anything any more before the arm is brought to rest.
        drop(self.server.take());
        self.arm.close();
        self.ended.raise();
        if let Some(watchdog) = self.watchdog.take() {
            // It only looks, and cannot have anything to say.
            let _ = watchdog.join();
        }
    }
}
