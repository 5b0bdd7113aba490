//! A simulated robot server: any simulated Panda becomes an arm behind SERL's dialect, in real time.
//!
//! Whoever talks to it cannot tell it from a robot: it moves by itself at the environment's own rate, holds when no
//! target comes, shows its cameras as MJPEG streams, and breaks in the ways that laboratories know. What a robot does
//! not have is on routes of its own: `/plaudit/truth` (success, facts, the full state), `/plaudit/scene` (a person
//! resets the table) and `/plaudit/faults`.

mod backend;
mod client;
mod faults;
mod frames;
mod incidents;
mod jacobian;
mod spring;
mod table;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use glam::DVec3;
use plaudit_core::{Env, EnvError, Frames, Seed};
use thiserror::Error;

pub use client::{SceneClient, Truth};
pub use faults::Faults;
pub use table::PrepareScene;

use crate::serl::server::Server;
use crate::{Clock, Limits, StopToken, Time, ToolPose};
use faults::{Dice, millis};
use incidents::Incidents;
use spring::Spring;
use table::{Snapshot, Table};
use watch::Watch;

/// What can be chosen about a simulated robot server.
pub struct SimulateSettings {
    /// Where it listens; port 0 is any that is free.
    pub address: SocketAddr,
    /// The clock it lives by: a fast one makes a fast robot.
    pub clock: Arc<dyn Clock>,
    /// Where the robot's base stands in the environment's world.
    pub base_in_world_m: DVec3,
    /// So long without a target, and the arm holds where it is.
    pub hold_after: Duration,
    /// Decides the scenes.
    pub seed: Seed,
    /// What a person does to the table before an episode.
    pub prepare: Option<PrepareScene>,
    /// Whether the gripper starts closed.
    pub starts_closed: bool,
    /// How often something goes wrong by itself, per minute of the robot's clock: one of many faults, for a while.
    pub incidents_per_minute: f64,
}

impl SimulateSettings {
    /// A server on the loopback, for ManiSkill's tables, where the base stands 61.5 cm behind the middle.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            address: ([127, 0, 0, 1], 0).into(),
            clock,
            base_in_world_m: DVec3::new(-0.615, 0.0, 0.0),
            // HIL-SERL's clients send one target for a reset, and wait a second.
            hold_after: Duration::from_secs(2),
            seed: Seed::new(0),
            prepare: None,
            starts_closed: false,
            incidents_per_minute: 0.0,
        }
    }
}

/// Why there is no simulated robot.
#[derive(Debug, Error)]
pub enum SimulateError {
    /// The environment is no arm.
    #[error("{id} cannot be a robot: {why}")]
    NotAnArm {
        /// Which environment.
        id: String,
        /// What it lacks.
        why: String,
    },
    /// The environment broke.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The address cannot be listened at, or there are no threads.
    #[error("no robot server at {address}: {why}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        why: std::io::Error,
    },
}

/// What the controller was told.
#[derive(Debug, Default)]
struct Told {
    target: Option<ToolPose>,
    target_at: Time,
    /// No target came for a while, and the arm was told to stay.
    is_holding: bool,
    /// -1 closes, 1 opens.
    gripper: f64,
    impedance_off: bool,
    /// How the arm gives way.
    spring: Spring,
    /// Number of the scene, and whether it has to be made.
    scene: u64,
    scene_wanted: bool,
    faults: Faults,
    refuse_until: Time,
    pause_until: Time,
    killed: bool,
    /// Why stepping ended.
    broken: Option<String>,
    /// Where the arm was when its scene began.
    home: Option<ToolPose>,
    /// Where it stands without a target: its brakes hold it.
    rest: Option<ToolPose>,
}

/// What the server's threads share.
struct Shared {
    told: Mutex<Told>,
    snapshot: Mutex<Option<Snapshot>>,
    scene_made: Condvar,
    clock: Arc<dyn Clock>,
    hold_after: Duration,
    ended: StopToken,
    dice: Dice,
    cameras: Vec<Arc<str>>,
    watch: Mutex<Option<Watch>>,
}

impl Shared {
    fn watch(&self) -> MutexGuard<'_, Option<Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> MutexGuard<'_, Option<Snapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> Faults {
        self.told().faults.clone()
    }

    /// The newest frame of a camera and when it was taken.
    fn frame(&self, camera: &str) -> Option<(Time, Arc<Frames>)> {
        let snapshot = self.snapshot();
        let snapshot = snapshot.as_ref()?;
        let (_, frame) = snapshot.cameras.iter().find(|(name, _)| &**name == camera)?;
        Some((snapshot.time, frame.clone()))
    }

    fn has_ended(&self) -> bool {
        self.ended.is_raised() || self.told().killed
    }

    fn is_paused(&self) -> bool {
        self.clock.now() < self.told().pause_until
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep_until(self.clock.now() + duration);
    }
}

/// A simulated robot server, until it is dropped.
pub struct SimulatedRobot {
    shared: Arc<Shared>,
    server: Option<Server>,
    stepping: Option<JoinHandle<()>>,
    incidents: Option<Incidents>,
}

impl SimulatedRobot {
    /// Starts the server and its robot. `env` is one simulated Panda under `pd_ee_delta_pose` that never ends its
    /// episodes by itself.
    pub fn start(env: Box<dyn Env>, settings: SimulateSettings) -> Result<Self, SimulateError> {
        let SimulateSettings {
            address,
            clock,
            base_in_world_m,
            hold_after,
            seed,
            prepare,
            starts_closed,
            incidents_per_minute,
        } = settings;
        let mut table = Table::new(env, base_in_world_m, seed, prepare)?;
        let cameras = table.spec().cameras.iter().map(|(name, _)| name.clone()).collect();
        let gripper = if starts_closed { -1.0 } else { 1.0 };
        let told = Told { gripper, home: Some(table.pose()), ..Told::default() };
        let shared = Arc::new(Shared {
            told: Mutex::new(told),
            snapshot: Mutex::new(None),
            scene_made: Condvar::new(),
            clock,
            hold_after,
            ended: StopToken::new(),
            dice: Dice::default(),
            cameras,
            watch: Mutex::new(None),
        });
        let listen = |why| SimulateError::Listen { address, why };
        let server =
            Server::start(address, Arc::new(backend::Simulated::new(shared.clone()))).map_err(listen)?;
        let stepped = shared.clone();
        let run = move || run(&mut table, &stepped, gripper);
        let stepping =
            std::thread::Builder::new().name("robot-simulator".into()).spawn(run).map_err(listen)?;
        let incidents = Incidents::start(shared.clone(), seed, incidents_per_minute).map_err(listen)?;
        Ok(Self { shared, server: Some(server), stepping: Some(stepping), incidents })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// Whether its task is solved, by the simulator's ground truth; nothing before it has begun.
    pub fn is_solved(&self) -> Option<bool> {
        self.shared.snapshot().as_ref().map(|snapshot| snapshot.success)
    }

    /// From now on it counts the targets that break these limits.
    pub fn watch(&self, limits: Limits) {
        *self.shared.watch() = Some(Watch::new(limits));
    }

    /// Targets that broke the limits it was told to watch.
    pub fn broken_limits(&self) -> u64 {
        self.shared.watch().as_ref().map_or(0, Watch::broken)
    }

    /// Names of its cameras.
    pub fn cameras(&self) -> &[Arc<str>] {
        &self.shared.cameras
    }

    /// Whether it has been told to end, or broke; and why it broke.
    pub fn has_ended(&self) -> Option<String> {
        let told = self.shared.told();
        let killed = told.killed.then(|| "it was killed by a fault".to_string());
        told.broken.clone().or(killed)
    }
}

impl Drop for SimulatedRobot {
    fn drop(&mut self) {
        self.shared.ended.raise();
        self.incidents = None;
        self.server = None;
        if let Some(stepping) = self.stepping.take() {
            // A simulation that panicked has no more to say.
            let _ = stepping.join();
        }
    }
}

/// Steps the table at its own rate until the server ends.
fn run(table: &mut Table, shared: &Shared, starts_with_gripper: f64) {
    let period = Duration::from_secs_f64(1.0 / table.spec().control_hz);
    let mut due = shared.clock.now();
    while !shared.has_ended() {
        if let Err(error) = tick(table, shared, starts_with_gripper) {
            shared.told().broken = Some(error.to_string());
            shared.scene_made.notify_all();
            return;
        }
        due = due + period;
        // A simulation that cannot keep up runs slower; it does not run after the time it lost.
        due = due.max(shared.clock.now());
        shared.clock.sleep_until(due);
    }
}

fn tick(table: &mut Table, shared: &Shared, starts_with_gripper: f64) -> Result<(), SimulateError> {
    let now = shared.clock.now();
    let (target, gripper, spring, scene, felt) = {
        let mut told = shared.told();
        if now < told.pause_until {
            return Ok(());
        }
        // The watchdog: a client that is gone leaves an arm that stays.
        if !told.is_holding && told.target.is_some() && now.since(told.target_at) > shared.hold_after {
            told.target = Some(table.pose());
            told.is_holding = true;
        }
        if told.scene_wanted {
            told.gripper = starts_with_gripper;
        }
        let follows = !told.faults.reflex && !told.impedance_off;
        let target = match told.target.filter(|_| follows) {
            Some(target) => {
                told.rest = None;
                target
            }
            None => *told.rest.get_or_insert_with(|| table.pose()),
        };
        let scene = told.scene_wanted.then_some(told.scene);
        (target, told.gripper, told.spring, scene, told.faults.force_n)
    };
    match scene {
        Some(scene) => table.reset(scene)?,
        None => table.step(target, gripper, &spring)?,
    }
    *shared.snapshot() = Some(table.snapshot(shared.clock.now(), felt));
    if scene.is_some() {
        let mut told = shared.told();
        (told.scene_wanted, told.home) = (false, Some(table.pose()));
        (told.target, told.rest) = (None, Some(table.pose()));
        shared.scene_made.notify_all();
    }
    Ok(())
}
