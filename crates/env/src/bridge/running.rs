//! A Python process that has made its environments, and the memory it shares with us.

use std::fs::File;
use std::time::Duration;

use plaudit_core::{EnvSpec, FramesNeeded};
use plaudit_pyprocess::{Connection, Failure, Opened, SharedMemory, parse};

use super::description::EnvDescription;
use super::error::{BridgeError, During};
use super::layout::MemoryLayout;
use super::settings::BridgeSettings;
use crate::memory;

/// What Python runs, after what every program of the bridge starts with.
const CHILD: &str = include_str!("child.py");

/// A process with environments in it.
#[derive(Debug)]
pub(super) struct Running {
    connection: Connection,
    pub(super) memory: SharedMemory,
}

impl Running {
    /// Starts Python and makes the environments.
    pub(super) fn start(settings: &BridgeSettings) -> Result<(Self, EnvSpec, MemoryLayout), BridgeError> {
        let limit = Duration::from_secs_f64(settings.start_timeout_secs);
        let failed = |failure| failed(failure, settings, During::Start);
        let program = [plaudit_pyprocess::LINK, CHILD].concat();
        let opened =
            Connection::open(&settings.python, &program, &settings.message(), limit, settings.spin());
        let Opened { connection, description, memory } = opened.map_err(failed)?;
        let mut handshake = Handshake { settings, connection };
        let (spec, layout, memory) = handshake.make(&description, &memory, limit)?;
        let connection = handshake.connection;
        connection.limit_writes(Duration::from_secs_f64(settings.step_timeout_secs)).map_err(failed)?;
        Ok((Self { connection, memory }, spec, layout))
    }

    /// Has the environments do something with what lies in shared memory, and waits until it is done.
    pub(super) fn order(
        &mut self,
        settings: &BridgeSettings,
        during: During,
        watch: FramesNeeded,
    ) -> Result<(), BridgeError> {
        let letter = if during == During::Step { b's' } else { b'r' };
        let watch = match watch {
            FramesNeeded::Nothing => 0,
            FramesNeeded::Ends => 1,
            FramesNeeded::Everything => 2,
        };
        let limit = Duration::from_secs_f64(settings.step_timeout_secs);
        let done = match self.connection.send(&[letter, watch]) {
            Ok(()) => self.connection.done(limit),
            Err(failure) => Err(self.connection.lost(failure)),
        };
        done.map_err(|failure| failed(failure, settings, during))
    }

    /// The number of the process.
    pub(super) fn process_id(&self) -> u32 {
        self.connection.id()
    }

    /// The end of what the process printed.
    pub(super) fn output(&self) -> String {
        self.connection.output()
    }
}

/// The exchange before there are environments.
struct Handshake<'a> {
    settings: &'a BridgeSettings,
    connection: Connection,
}

impl Handshake<'_> {
    fn make(
        &mut self,
        description: &[u8],
        file: &File,
        limit: Duration,
    ) -> Result<(EnvSpec, MemoryLayout, SharedMemory), BridgeError> {
        let failed = |failure| failed(failure, self.settings, During::Start);
        let connection = &mut self.connection;
        let description: EnvDescription = parse(description).map_err(|why| failed(connection.lost(why)))?;
        let spec = description.spec(self.settings).map_err(|words| failed(connection.invalid(words)))?;
        self.check(&spec)?;
        let layout = MemoryLayout::new(&spec, self.settings.facts.len());
        let memory = self.connection.share(file, layout.bytes, &layout.for_python, limit).map_err(failed)?;
        Ok((spec, layout, memory))
    }

    /// Refuses environments that are possible but of no use.
    fn check(&self, spec: &EnvSpec) -> Result<(), BridgeError> {
        let id = self.settings.id().to_owned();
        memory::check(spec.num_envs, MemoryLayout::bytes_each(spec))
            .map_err(|error| BridgeError::TooLarge { id: id.clone(), message: error.to_string() })?;
        if self.settings.ignore_terminations && spec.max_episode_steps.is_none() {
            let words =
                "without terminations and without a time limit, no episode would end; set max_episode_steps";
            return Err(BridgeError::Refused { id, during: During::Start, message: words.into() });
        }
        Ok(())
    }
}

/// What became of the process, in words.
fn failed(failure: Failure, settings: &BridgeSettings, during: During) -> BridgeError {
    let secs = match during {
        During::Start => settings.start_timeout_secs,
        _ => settings.step_timeout_secs,
    };
    BridgeError::of(failure, &settings.python, settings.id(), during, secs)
}
