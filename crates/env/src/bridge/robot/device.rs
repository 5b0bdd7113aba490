//! The process with the robot in it.

use std::time::{Duration, Instant};

use plaudit_core::Frames;
use plaudit_pyprocess::{
    Answer, Connection, Failure, LayoutBuilder, NoAnswer, Opened, Region, SharedMemory, parse,
};

use super::{PythonRobotReading, PythonRobotSettings, PythonRobotSpec, PythonTeleopEvents, RobotDescription};
use crate::bridge::error::{BridgeError, During};
use crate::memory;

/// What Python runs, after what every program of the bridge starts with.
const CHILD: &str = include_str!("child.py");

/// A robot that a Python process is connected to.
#[derive(Debug)]
pub struct PythonRobot {
    settings: PythonRobotSettings,
    spec: PythonRobotSpec,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    connection: Connection,
    memory: SharedMemory,
    regions: Regions,
    /// What the process was asked and has not answered, and since when.
    pending: Option<(During, Instant)>,
}

/// Where everything lies in shared memory.
#[derive(Debug, Clone)]
struct Regions {
    state: Region,
    cameras: Vec<Region>,
    leader: Region,
    events: Region,
    targets: Region,
    sent: Region,
}

impl PythonRobot {
    /// Starts Python and connects. Nothing moves, unless the robot's own `connect` does it.
    pub fn start(settings: PythonRobotSettings) -> Result<Self, BridgeError> {
        settings.check()?;
        let (running, spec) = Running::start(&settings)?;
        Ok(Self { settings, spec, running: Some(running) })
    }

    /// What the robot is like.
    pub fn spec(&self) -> &PythonRobotSpec {
        &self.spec
    }

    /// Whether there is a process.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The number of the process, for those who watch it from outside.
    pub fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.connection.id())
    }

    /// Replaces the process by a fresh one, which connects anew.
    pub fn restart(&mut self) -> Result<(), BridgeError> {
        self.running = None;
        let (running, spec) = Running::start(&self.settings)?;
        if spec != self.spec {
            return Err(BridgeError::Changed { id: self.settings.id().into() });
        }
        self.running = Some(running);
        Ok(())
    }

    /// Observes, within `wait`.
    pub fn observe(&mut self, wait: Duration) -> Result<PythonRobotReading, BridgeError> {
        let deadline = Instant::now() + wait;
        let asked = loop {
            // The answer to an earlier question may still be under way. An observation that was asked for is one.
            match self.finish_pending(deadline)? {
                Some((During::Observe, asked)) => break asked,
                Some(_) => {}
                None => self.ask(During::Observe)?,
            }
        };
        let reading = self.read(asked)?;
        let state = self.spec.state.iter().zip(&reading.state);
        let leader = self.spec.joints.iter().zip(reading.leader.iter().flatten());
        match state.chain(leader).find(|(_, value)| !value.is_finite()) {
            Some((name, value)) => Err(BridgeError::Refused {
                id: self.settings.id().into(),
                during: During::Observe,
                message: format!("`{name}` is {value}"),
            }),
            None => Ok(reading),
        }
    }

    /// Sends a target for each joint, within `wait`; returns what was really sent to the motors.
    pub fn act(&mut self, targets: &[f32], wait: Duration) -> Result<Vec<f32>, BridgeError> {
        if targets.len() != self.spec.joints.len() || targets.iter().any(|target| !target.is_finite()) {
            let words = format!("{} finite targets are needed, one for each joint", self.spec.joints.len());
            return Err(BridgeError::Setting(words));
        }
        let deadline = Instant::now() + wait;
        // Targets may not be written while an earlier order could still read them.
        while self.finish_pending(deadline)?.is_some() {}
        let running = self.running()?;
        running.memory.write(running.regions.targets.all(), targets);
        self.ask(During::Act)?;
        self.finish_pending(deadline)?;
        let running = self.running()?;
        Ok(running.memory.read(running.regions.sent.all()))
    }

    fn running(&mut self) -> Result<&mut Running, BridgeError> {
        self.running.as_mut().ok_or_else(|| BridgeError::Disconnected { id: self.settings.id().into() })
    }

    fn ask(&mut self, during: During) -> Result<(), BridgeError> {
        let letter = if during == During::Act { b'a' } else { b'o' };
        let running = self.running()?;
        running.pending = Some((during, Instant::now()));
        match running.connection.send(&[letter, 0]) {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.lost(failure, during)),
        }
    }

    /// Waits until `deadline` for the answer that is under way; `None` if there is none.
    fn finish_pending(&mut self, deadline: Instant) -> Result<Option<(During, Instant)>, BridgeError> {
        let hang = Duration::from_secs_f64(self.settings.hang_secs);
        let running = self.running()?;
        let Some((during, asked)) = running.pending else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        match running.connection.answer(left) {
            Ok(Answer::Done) => {
                running.pending = None;
                Ok(Some((during, asked)))
            }
            Ok(Answer::Error(error)) => {
                running.pending = None;
                Err(BridgeError::reported(error, self.settings.id().into(), during))
            }
            Err(NoAnswer::TimedOut) if asked.elapsed() < hang => {
                Err(BridgeError::Late { id: self.settings.id().into(), during, waited: asked.elapsed() })
            }
            Ok(Answer::Description(_)) => {
                Err(self.lost(NoAnswer::InvalidMessage("a second description".into()), during))
            }
            Err(failure) => Err(self.lost(failure, during)),
        }
    }

    /// Ends the process that failed, and says what is known about it.
    fn lost(&mut self, failure: NoAnswer, during: During) -> BridgeError {
        match self.running.take() {
            Some(mut running) => failed(running.connection.lost(failure), &self.settings, during),
            None => BridgeError::Disconnected { id: self.settings.id().into() },
        }
    }

    fn read(&mut self, asked: Instant) -> Result<PythonRobotReading, BridgeError> {
        let spec = self.spec.clone();
        let Running { memory, regions, .. } = self.running()?;
        let misfit = |error: plaudit_core::ObsError| BridgeError::Setting(error.to_string());
        let frames = spec.cameras.iter().zip(&regions.cameras);
        let frames = frames.map(|((_, shape), region)| Frames::new(*shape, memory.read(region.all())));
        Ok(PythonRobotReading {
            state: memory.read(regions.state.all()),
            frames: frames.collect::<Result<_, _>>().map_err(misfit)?,
            leader: spec.has_teleop.then(|| memory.read(regions.leader.all())),
            events: PythonTeleopEvents::from_bytes(&memory.read::<u8>(regions.events.all())),
            asked,
        })
    }
}

impl Running {
    fn start(settings: &PythonRobotSettings) -> Result<(Self, PythonRobotSpec), BridgeError> {
        let limit = Duration::from_secs_f64(settings.start_timeout_secs);
        let failed = |failure| failed(failure, settings, During::Start);
        let program = [plaudit_pyprocess::LINK, CHILD].concat();
        let opened = Connection::open(&settings.python, &program, &settings.message(), limit, Duration::ZERO);
        let Opened { mut connection, description, memory } = opened.map_err(failed)?;
        let description: RobotDescription =
            parse(&description).map_err(|why| failed(connection.lost(why)))?;
        let spec = description.spec().map_err(|words| failed(connection.invalid(words)))?;
        let (regions, bytes, for_python) = lay_out(&spec);
        memory::check(1, 2 * bytes as u64).map_err(|error| BridgeError::TooLarge {
            id: settings.id().into(),
            message: error.to_string(),
        })?;
        let memory = connection.share(&memory, bytes, &for_python, limit).map_err(failed)?;
        connection.limit_writes(Duration::from_secs_f64(settings.hang_secs)).map_err(failed)?;
        Ok((Self { connection, memory, regions, pending: None }, spec))
    }
}

fn lay_out(spec: &PythonRobotSpec) -> (Regions, usize, serde_json::Value) {
    let mut builder = LayoutBuilder::default();
    let joints = [1, spec.joints.len()];
    let regions = Regions {
        state: builder.add("state", "f4", &[1, spec.state.len()]),
        leader: builder.add("leader", "f4", &joints),
        events: builder.add("events", "u1", &[1, PythonTeleopEvents::COUNT]),
        targets: builder.add("targets", "f4", &joints),
        sent: builder.add("sent", "f4", &joints),
        cameras: spec
            .cameras
            .iter()
            .enumerate()
            .map(|(at, (_, shape))| {
                let shape = [1, shape.height, shape.width, shape.channels];
                builder.add(&format!("camera_{at}"), "u1", &shape)
            })
            .collect(),
    };
    let (bytes, for_python) = builder.finish();
    (regions, bytes, for_python)
}

/// What became of the process, in words.
fn failed(failure: Failure, settings: &PythonRobotSettings, during: During) -> BridgeError {
    let secs = if during == During::Start { settings.start_timeout_secs } else { settings.hang_secs };
    BridgeError::of(failure, &settings.python, settings.id(), during, secs)
}
