//! A thread that looks after a session whatever its loop waits for: the file that holds the arm, the person who looks away, and an arm
//! and cameras that are shown also while nothing moves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_core::FrameShape;
use plaudit_robot::{ArmState, Camera, CameraError, CameraFrame};

use super::RemoteControl;

/// How often it looks.
const TICK: Duration = Duration::from_millis(20);
/// A state that has not changed for so long is asked for again, so often.
const STATE_AGE: Duration = Duration::from_millis(250);

/// A camera that the loop and the page look through. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedCamera {
    name: Arc<str>,
    shape: FrameShape,
    camera: Arc<Mutex<Box<dyn Camera>>>,
}

impl SharedCamera {
    pub(crate) fn new(camera: Box<dyn Camera>) -> Self {
        Self { name: camera.name().into(), shape: camera.shape(), camera: Arc::new(Mutex::new(camera)) }
    }

    /// The newest frame.
    pub(crate) fn newest_frame(&self) -> Option<CameraFrame> {
        self.camera.lock().unwrap_or_else(PoisonError::into_inner).newest()
    }
}

impl Camera for SharedCamera {
    fn name(&self) -> &str {
        &self.name
    }

    fn shape(&self) -> FrameShape {
        self.shape
    }

    fn newest(&mut self) -> Option<CameraFrame> {
        self.newest_frame()
    }

    fn trouble(&self) -> Option<CameraError> {
        self.camera.lock().unwrap_or_else(PoisonError::into_inner).trouble()
    }
}

/// Looks until it is dropped.
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(control: RemoteControl) -> std::io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = ended.clone();
        let look = move || {
            let mut seen = Seen::default();
            while !has_ended.load(Ordering::Relaxed) {
                control.obey_file();
                control.hold_if_alone();
                seen.look(&control);
                std::thread::sleep(TICK);
            }
        };
        let thread = std::thread::Builder::new().name("remote-watch".into()).spawn(look)?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only looks, and has no more to say.
            let _ = thread.join();
        }
    }
}

/// What was seen of the arm last.
#[derive(Default)]
struct Seen {
    state: Option<(ArmState, Instant)>,
    asked: Option<Instant>,
}

impl Seen {
    fn look(&mut self, control: &RemoteControl) {
        let Some(arm) = control.state().arm.clone() else { return };
        let mut guard = arm.guard.lock();
        let is_old = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() > STATE_AGE);
        let newest = guard.state().cloned();
        let is_new = |known: &Option<(ArmState, Instant)>, state: &ArmState| {
            known.as_ref().is_none_or(|(known, _)| known.time != state.time)
        };
        let mut state = newest.filter(|state| is_new(&self.state, state));
        // While the loop waits for somebody, nobody else asks.
        if state.is_none() && is_old(self.state.as_ref().map(|(_, at)| *at)) && is_old(self.asked) {
            self.asked = Some(Instant::now());
            state = guard.observe().ok().cloned();
        }
        let (mode, limits) = (super::state::mode_words(&guard), guard.limits().clone());
        drop(guard);
        if let Some(state) = state {
            self.state = Some((state, Instant::now()));
        }
        control.state().saw(self.state.clone(), mode, &limits);
    }
}
