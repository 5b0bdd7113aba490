//! The Franka Hand: commands take as long as the fingers move, so a thread of its own waits for them.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use franka::{FrankaResult, Gripper};

use super::Notices;
use super::convert::{FingerMotion, finger_motion, open_share};
use crate::{GripperCommand, StopToken};

const SPEED_M_S: f64 = 0.1;
/// How hard closed fingers hold. The hand can do 70 N for long.
const GRASP_N: f64 = 40.0;
/// Anything between the fingers counts as grasped.
const ANY_WIDTH_M: f64 = 1.0;
/// How often the width is read, and how old it may get.
const READS_EVERY: Duration = Duration::from_millis(30);
const WIDTH_TIMEOUT: Duration = Duration::from_secs(1);

/// What was last read.
#[derive(Debug, Clone, Copy)]
struct Fingers {
    width_m: f64,
    max_width_m: f64,
    read: Instant,
}

/// What the hand's threads share.
struct Shared {
    gripper: Gripper,
    fingers: Mutex<Fingers>,
    /// What the fingers are doing.
    underway: Mutex<Option<GripperCommand>>,
    notices: Arc<Notices>,
    ended: StopToken,
}

impl Shared {
    fn fingers(&self) -> MutexGuard<'_, Fingers> {
        self.fingers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn underway(&self) -> MutexGuard<'_, Option<GripperCommand>> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hand, and the threads that wait for it.
pub(super) struct Hand {
    shared: Arc<Shared>,
    commands: Sender<GripperCommand>,
    threads: Vec<JoinHandle<()>>,
}

impl Hand {
    /// The hand at the robot's address.
    pub(super) fn connect(robot: &str, notices: Arc<Notices>) -> Result<Self, String> {
        // A port in the address is the arm's; the hand has its own.
        let host = robot.rsplit_once(':').map_or(robot, |(host, _)| host);
        let gripper = Gripper::new(host).map_err(|error| error.to_string())?;
        let state = gripper.read_once().map_err(|error| error.to_string())?;
        let fingers = Fingers { width_m: state.width, max_width_m: state.max_width, read: Instant::now() };
        let shared = Arc::new(Shared {
            gripper,
            fingers: Mutex::new(fingers),
            underway: Mutex::default(),
            notices,
            ended: StopToken::new(),
        });
        let (commands, received) = mpsc::channel();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).map_err(|error| error.to_string())
        };
        let mover = shared.clone();
        let moves = spawn("franka-hand", Box::new(move || obey(&mover, &received)))?;
        let reader = shared.clone();
        let reads = spawn("franka-fingers", Box::new(move || watch_fingers(&reader)))?;
        Ok(Self { shared, commands, threads: vec![moves, reads] })
    }

    /// Moves the fingers, and returns at once. A newer command ends an older one; the same one again changes nothing.
    pub(super) fn order(&self, command: GripperCommand) -> Result<(), String> {
        // Held until the older one is stopped: the newer one begins after that, and is not stopped in its place.
        let underway = self.shared.underway();
        if *underway == Some(command) {
            return Ok(());
        }
        let sent = self.commands.send(command);
        if underway.is_some() {
            // One that cannot be stopped ends by itself, and the newer one begins then.
            let _ = self.shared.gripper.stop();
        }
        sent.map_err(|_| "the hand does not answer any more".into())
    }

    /// How far it is open: 1 is open. `None` when the hand has been silent.
    pub(super) fn open(&self) -> Option<f64> {
        let fingers = *self.shared.fingers();
        (fingers.read.elapsed() < WIDTH_TIMEOUT).then(|| open_share(fingers.width_m))
    }

    /// Ends its threads. Fingers that hold something go on holding it.
    pub(super) fn end(self) {
        self.shared.ended.raise();
        drop(self.commands);
        let is_moving = self.shared.underway().is_some();
        if is_moving {
            // Nobody is left to say what they should do: they stay where they are.
            let _ = self.shared.gripper.stop();
        }
        for thread in self.threads {
            // It only waits for the hand, and has nothing to say.
            let _ = thread.join();
        }
    }
}

fn obey(shared: &Shared, received: &Receiver<GripperCommand>) {
    while let Ok(mut command) = received.recv() {
        while let Ok(newer) = received.try_recv() {
            command = newer; // what was said before it is past
        }
        if shared.ended.is_raised() {
            return;
        }
        *shared.underway() = Some(command);
        let max_width_m = shared.fingers().max_width_m;
        let done = run(&shared.gripper, finger_motion(command, max_width_m));
        shared.underway().take();
        if let Err(error) = done
            && !error.to_string().contains("aborted")
        {
            shared.notices.push(format!("the hand did not obey {command:?}: {error}"));
        }
    }
}

/// Whether something was grasped is no matter here: the width shows it.
fn run(gripper: &Gripper, motion: FingerMotion) -> FrankaResult<bool> {
    match motion {
        FingerMotion::Move { width_m } => gripper.move_gripper(width_m, SPEED_M_S),
        FingerMotion::Grasp => gripper.grasp(0.0, SPEED_M_S, GRASP_N, ANY_WIDTH_M, ANY_WIDTH_M),
    }
}

fn watch_fingers(shared: &Shared) {
    while !shared.ended.is_raised() {
        if let Ok(state) = shared.gripper.read_once() {
            let (width_m, max_width_m) = (state.width, state.max_width);
            *shared.fingers() = Fingers { width_m, max_width_m, read: Instant::now() };
        }
        std::thread::sleep(READS_EVERY);
    }
}
