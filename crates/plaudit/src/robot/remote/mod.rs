//! A person at a page who drives a teleoperation: what the page is shown, and what it may ask for.
//!
//! ```text
//! page ─► studio ─► ControlServer ─► RemoteControl ─► SharedGuard      HOLD: on a thread of its own, at once
//!                                          │
//!                                          ├─► StartGate, RemotePerson  the loop waits there for the person
//!                                          └─► ends, labels             the loop asks for them at each step
//! ```
//!
//! Nothing here begins a motion by itself. An episode begins when the person says so; an arm that is held stays so until the person lets
//! it go on; and it is held when nobody looks at the page any more. A file called `hold` in the session's folder holds it as well, for
//! whoever cannot reach the process; letting the arm go on removes it.

mod labels;
mod person;
mod state;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plaudit_robot::{HoldCause, SharedGuard, StopToken, Watched};
use plaudit_view::{ControlReply, Controlled, HOLD_FILE};
use serde_json::{Value, json};

pub(crate) use labels::{FrameLabels, PersonEnd};
pub(crate) use person::{RemotePerson, StartGate};
pub(crate) use state::{EpisodeDone, ModelNow, Phase};
pub(crate) use watch::{SharedCamera, Watch};

use self::labels::{FrameAnswer, Journal};
use self::state::{ArmQuestion, State};

/// How long the person may look away while the arm may move.
const LOOKS_WITHIN: Duration = Duration::from_secs(3);
/// How often somebody who waits for the person looks.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// What lets a real arm move, as at the terminal.
const WORD: &str = "arm";
/// Labels are moved back by so much at most.
const MOST_LAG_SECS: f64 = 5.0;

/// The arm and its cameras, once they are there.
#[derive(Clone)]
pub(crate) struct RemoteArm {
    pub(crate) guard: SharedGuard,
    pub(crate) stop: StopToken,
    pub(crate) cameras: Vec<SharedCamera>,
    /// Where the robot server is.
    pub(crate) server: String,
    pub(crate) is_simulated: bool,
    pub(crate) control_hz: f64,
}

/// What a person at a page and the loop that moves the arm share. Clones share it.
#[derive(Clone)]
pub struct RemoteControl(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    journal: Mutex<Journal>,
    state: Mutex<State>,
    changed: Condvar,
    /// Holding and letting go on, one at a time: a hold that comes while the arm is let go is what counts.
    holding: Mutex<()>,
}

impl RemoteControl {
    /// Labels go into a journal in this folder.
    pub(crate) fn new(folder: &Path, robot: String) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            folder: folder.into(),
            journal: Mutex::new(Journal::open(folder)?),
            state: Mutex::new(State::of(robot)),
            changed: Condvar::new(),
            holding: Mutex::new(()),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arm is there. One that is held already is held now.
    pub(crate) fn attach(&self, arm: RemoteArm) {
        let _one = self.0.holding.lock();
        let held = {
            let mut state = self.state();
            state.arm = Some(arm.clone());
            state.held.clone()
        };
        if let Some(why) = held {
            arm.guard.lock().hold_until_released(HoldCause::Other(why));
        }
    }

    /// Holds the arm until a person lets it go on. Whether a hold was sent to it.
    pub(crate) fn hold(&self, why: &str) -> bool {
        let _one = self.0.holding.lock();
        let arm = {
            let mut state = self.state();
            state.may_start = false;
            if state.held.is_none() {
                state.held = Some(why.into());
                state.notice(&format!("held: {why}"));
            }
            state.arm.clone()
        };
        let Some(arm) = arm else { return false };
        let mut guard = arm.guard.lock();
        guard.hold_until_released(HoldCause::Other(why.into()));
        guard.is_holding()
    }

    /// A person lets the arm go on.
    fn go_on(&self, word: &str) -> Result<(), String> {
        let _one = self.0.holding.lock();
        self.state().check_word(word)?;
        match std::fs::remove_file(self.0.folder.join(HOLD_FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("the file that holds the arm cannot be removed: {error}"));
            }
            _ => {}
        }
        let arm = {
            let mut state = self.state();
            if state.held.take().is_some() {
                state.notice("a person lets the arm go on");
            }
            state.seen = Some(Instant::now());
            state.arm.clone()
        };
        if let Some(arm) = arm {
            arm.guard.lock().release();
        }
        Ok(())
    }

    /// Whether the file that holds the arm is there, which then holds it.
    pub(crate) fn obey_file(&self) {
        if self.0.folder.join(HOLD_FILE).exists() && self.state().held.is_none() {
            self.hold("somebody asked for it in the session's folder");
        }
    }

    /// Whether somebody wants to end.
    pub(crate) fn has_ended(&self) -> bool {
        let state = self.state();
        state.quits || state.arm.as_ref().is_some_and(|arm| arm.stop.is_raised())
    }

    /// What goes on.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Says why the arm holds, and what else a person should know.
    pub(crate) fn notice(&self, text: &str) {
        self.state().notice(text);
    }

    /// An episode begins: the arm is at its start.
    pub(crate) fn episode_begins(&self, number: u64) {
        let mut state = self.state();
        (state.phase, state.episode, state.steps) = (Phase::Episode, number, 0);
        (state.begun, state.end) = (Some(Instant::now()), None);
        (state.labels, state.at_target) = (FrameLabels::default(), false);
    }

    /// A step of the episode is over, and its frame is shown.
    pub(crate) fn step(&self, at_target: bool, is_held: bool, rate_hz: f64) {
        let mut state = self.state();
        state.steps += 1;
        (state.at_target, state.is_holding, state.rate_hz) = (at_target, is_held, rate_hz);
        state.labels.frame();
    }

    /// A frame was scored.
    pub(crate) fn scored(&self, now: ModelNow) {
        self.state().scored(now);
    }

    /// How the person ends the episode, if so, and what was said of its frames.
    pub(crate) fn take_end(&self) -> Option<(PersonEnd, FrameLabels)> {
        let mut state = self.state();
        let end = state.end.take()?;
        state.phase = Phase::Writing;
        Some((end, state.labels.clone()))
    }

    /// The episode is over: broken off, or written.
    pub(crate) fn episode_ended(&self, done: EpisodeDone, kept: [u64; 2]) {
        let line = json!({"at": seconds(), "episode": done.number, "end": done.end, "frames": done.steps + 1, "spans": done.spans});
        let written = self.journal().append(&line).map_err(not_written);
        let mut state = self.state();
        if let Err(why) = written {
            state.notice(&why);
        }
        (state.begun, state.end, state.kept) = (None, None, kept);
        state.episodes.push(done);
    }

    /// What was said of the frames so far.
    pub(crate) fn labels(&self) -> FrameLabels {
        self.state().labels.clone()
    }

    /// Where episodes go.
    pub(crate) fn set_recording(&self, folder: &Path, threshold: Option<(f32, usize)>) {
        // As whoever shows the folder that this process works in sees it.
        let here = std::env::current_dir().unwrap_or_default();
        let shown = folder.strip_prefix(here).unwrap_or(folder).display().to_string();
        let mut state = self.state();
        (state.recording, state.rule) = (shown, threshold);
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.0.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a person begins an episode; nothing if it is to end.
    fn wait_for_start(&self) -> Option<()> {
        self.set_phase(Phase::Ready);
        let mut state = self.state();
        loop {
            if state.quits || state.arm.as_ref().is_some_and(|arm| arm.stop.is_raised()) {
                return None;
            }
            if state.held.is_none() && std::mem::take(&mut state.may_start) {
                state.phase = Phase::ToStart;
                return Some(());
            }
            let waited = self.0.changed.wait_timeout(state, LOOKS_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks whether a real arm may move for the first time, or again after something a person has to look at.
    fn ask(&self, why: &str) -> bool {
        let before = {
            let mut state = self.state();
            let number = state.question_number + 1;
            state.question_number = number;
            state.question = Some(ArmQuestion { number, why: why.into() });
            std::mem::replace(&mut state.phase, Phase::Asks)
        };
        let mut state = self.state();
        while state.question.is_some() && !state.quits {
            if state.arm.as_ref().is_some_and(|arm| arm.stop.is_raised()) {
                break;
            }
            let waited = self.0.changed.wait_timeout(state, LOOKS_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.phase = before;
        state.question.take().is_none() && !state.quits
    }

    fn agree(&self, number: u64, word: &str) -> Result<(), String> {
        let mut state = self.state();
        if state.question.as_ref().is_none_or(|question| question.number != number) {
            return Err("this question is not open any more".into());
        }
        state.check_word(word)?;
        state.question = None;
        self.0.changed.notify_all();
        Ok(())
    }

    fn start(&self) -> Result<(), String> {
        let mut state = self.state();
        if state.held.is_some() {
            return Err("the arm is held: let it go on first".into());
        }
        if state.phase != Phase::Ready {
            return Err("no episode waits to begin".into());
        }
        (state.may_start, state.seen) = (true, Some(Instant::now()));
        self.0.changed.notify_all();
        Ok(())
    }

    fn end(&self, how: PersonEnd) -> Result<(), String> {
        let mut state = self.state();
        state.check_episode()?;
        state.end = Some(how);
        Ok(())
    }

    /// Switches a label. It is on the disk when this returns. The loop does not wait for the disk, and neither does a hold.
    fn label(&self, to: Option<FrameAnswer>, lag_secs: f64) -> Result<Value, String> {
        let mut journal = self.journal();
        let (episode, frame, hz) = {
            let state = self.state();
            state.check_episode()?;
            (state.episode, state.labels.at(), state.arm.as_ref().map_or(0.0, |arm| arm.control_hz))
        };
        let lag_frames = (lag_secs.clamp(0.0, MOST_LAG_SECS) * hz).round() as usize;
        let line = json!({"at": seconds(), "episode": episode, "frame": frame, "label": to, "lag_frames": lag_frames});
        journal.append(&line).map_err(not_written)?;
        let mut state = self.state();
        if state.check_episode().is_err() || state.episode != episode {
            return Err("the episode ended meanwhile".into());
        }
        state.labels.switch(to, frame.saturating_sub(lag_frames));
        Ok(json!({"frame": frame}))
    }

    /// Takes the last label back.
    fn undo(&self) -> Result<(), String> {
        let mut journal = self.journal();
        let (episode, frame) = {
            let state = self.state();
            state.check_episode()?;
            if !state.labels.clone().undo() {
                return Err("there is no label to take back".into());
            }
            (state.episode, state.labels.at())
        };
        let line = json!({"at": seconds(), "episode": episode, "frame": frame, "undo": true});
        journal.append(&line).map_err(not_written)?;
        let mut state = self.state();
        if state.episode == episode {
            state.labels.undo();
        }
        Ok(())
    }

    fn quit(&self) {
        let arm = {
            let mut state = self.state();
            state.quits = true;
            state.arm.clone()
        };
        self.0.changed.notify_all();
        if let Some(arm) = arm {
            arm.stop.raise();
        }
    }

    fn frame(&self, camera: usize) -> Result<ControlReply, String> {
        let cameras = self.state().arm.as_ref().map(|arm| arm.cameras.clone()).unwrap_or_default();
        let camera = cameras.get(camera).ok_or("there is no such camera")?;
        let frame = camera.newest_frame().ok_or("it has shown no frame yet")?;
        let shape = frame.image.shape;
        let value = json!({"height": shape.height, "width": shape.width, "channels": shape.channels});
        Ok(ControlReply { value, bytes: frame.image.pixels.clone() })
    }
}

impl Controlled for RemoteControl {
    fn reply(&self, request: &Value) -> Result<ControlReply, String> {
        let word = |name: &str| request[name].as_str().unwrap_or("");
        let done = |()| json!({"done": true}).into();
        match word("do") {
            "look" => {
                let since = request["since"].as_u64().unwrap_or(0);
                Ok(self.state().shown(since, request["watches"] == true).into())
            }
            "frame" => self.frame(request["camera"].as_u64().unwrap_or(0) as usize),
            "hold" => Ok(json!({"told": self.hold("HOLD was pressed")}).into()),
            "go_on" => self.go_on(word("word")).map(done),
            "agree" => self.agree(request["number"].as_u64().unwrap_or(0), word("word")).map(done),
            "start" => self.start().map(done),
            "end" => self.end(parsed(&request["as"])?).map(done),
            "label" => {
                let to = if request["as"] == "off" { None } else { Some(parsed(&request["as"])?) };
                self.label(to, request["lag"].as_f64().unwrap_or(0.0)).map(ControlReply::from)
            }
            "undo" => self.undo().map(done),
            "quit" => {
                self.quit();
                Ok(done(()))
            }
            _ => Err("that makes no sense".into()),
        }
    }
}

fn not_written(error: std::io::Error) -> String {
    format!("the journal cannot be written: {error}")
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|_| "success, failure, or what else there is".into())
}

/// Seconds since 1970.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
