//! The Franka Hand: commands take as long as the fingers move, so a thread of its own waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use franka::Gripper;

use crate::{GripperCommand, StopToken};

/// Metres between open fingers.
const OPEN_M: f64 = 0.08;
const SPEED_M_S: f64 = 0.1;
/// How hard closed fingers hold. The hand can do 70 N for long.
const GRASP_N: f64 = 40.0;
/// Anything between the fingers counts as grasped.
const ANY_WIDTH_M: f64 = 1.0;
/// How often the width is read.
const READS_EVERY: Duration = Duration::from_millis(50);

/// A hand, and the threads that wait for it.
pub(super) struct Hand {
    commands: Sender<GripperCommand>,
    /// How far it is open, from 0 to 1, as the bits of an f64.
    open: Arc<AtomicU64>,
    ended: StopToken,
    threads: Vec<JoinHandle<()>>,
}

impl Hand {
    /// The hand at the robot's address.
    pub(super) fn connect(robot: &str) -> Result<Self, String> {
        let gripper = Arc::new(Gripper::new(robot).map_err(|error| error.to_string())?);
        let (commands, received) = mpsc::channel();
        let (open, ended) = (Arc::new(AtomicU64::new(0)), StopToken::new());
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).map_err(|error| error.to_string())
        };
        let mover = gripper.clone();
        let moves = spawn("franka-hand", Box::new(move || obey(&mover, &received)))?;
        let (width, has_ended) = (open.clone(), ended.clone());
        let reads = spawn("franka-width", Box::new(move || watch_width(&gripper, &width, &has_ended)))?;
        Ok(Self { commands, open, ended, threads: vec![moves, reads] })
    }

    /// Moves the fingers, and returns at once.
    pub(super) fn order(&self, command: GripperCommand) -> Result<(), String> {
        self.commands.send(command).map_err(|_| "the hand does not answer any more".into())
    }

    /// How far it is open: 1 is open.
    pub(super) fn open(&self) -> f64 {
        f64::from_bits(self.open.load(Ordering::Relaxed))
    }

    pub(super) fn end(self) {
        self.ended.raise();
        drop(self.commands);
        for thread in self.threads {
            // It only waits for the hand, and has nothing to say.
            let _ = thread.join();
        }
    }
}

fn obey(gripper: &Gripper, received: &Receiver<GripperCommand>) {
    while let Ok(mut command) = received.recv() {
        while let Ok(newer) = received.try_recv() {
            command = newer; // what was said before it is past
        }
        // A command that fails leaves the fingers where they are; their width shows it.
        let _ = match command {
            GripperCommand::Open => gripper.move_gripper(OPEN_M, SPEED_M_S),
            GripperCommand::Close => gripper.grasp(0.0, SPEED_M_S, GRASP_N, ANY_WIDTH_M, ANY_WIDTH_M),
            GripperCommand::To(open) => gripper.move_gripper(OPEN_M * open.clamp(0.0, 1.0), SPEED_M_S),
        };
    }
}

fn watch_width(gripper: &Gripper, open: &AtomicU64, ended: &StopToken) {
    while !ended.is_raised() {
        if let Ok(state) = gripper.read_once() {
            open.store((state.width / OPEN_M).clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
        }
        std::thread::sleep(READS_EVERY);
    }
}
