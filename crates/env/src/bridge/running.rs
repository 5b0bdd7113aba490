//! A Python process that has made its environments, and the memory it shares with us.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plaudit_core::{EnvSpec, FramesNeeded};

use super::description::EnvDescription;
use super::error::{BridgeError, During};
use super::layout::MemoryLayout;
use super::link::{Answer, Link, NoAnswer, parse};
use super::process::Process;
use super::settings::BridgeSettings;
use super::shared::{SharedMemory, memory_file};
use crate::memory;

/// The program that Python runs.
const PROGRAM: &str = concat!(include_str!("link.py"), include_str!("child.py"));

/// A process with environments in it.
#[derive(Debug)]
pub(super) struct Running {
    // Dropped in this order: the closed socket asks the process to end before it is waited for.
    link: Link,
    process: Process,
    pub(super) memory: SharedMemory,
}

impl Running {
    /// Starts Python and makes the environments.
    pub(super) fn start(settings: &BridgeSettings) -> Result<(Self, EnvSpec, MemoryLayout), BridgeError> {
        let io = |what| move |source| BridgeError::Io { what, source };
        let (ours, theirs) = UnixStream::pair().map_err(io("cannot make a socket"))?;
        let file = File::from(memory_file().map_err(io("cannot make shared memory"))?);
        let output = file.try_clone().map_err(io("cannot share memory"))?;
        let process = Process::start(&settings.python, theirs.into(), output.into())
            .map_err(|source| BridgeError::Interpreter { python: settings.python.clone(), source })?;
        let limit = Duration::from_secs_f64(settings.start_timeout_secs);
        let link = Link::new(ours, limit, settings.spin()).map_err(io("cannot set up a socket"))?;
        let mut handshake = Handshake { settings, link, process };
        let (spec, layout, memory) = handshake.make(&file, limit)?;
        let step_limit = Duration::from_secs_f64(settings.step_timeout_secs);
        handshake.link.limit_writes(step_limit).map_err(io("cannot set up a socket"))?;
        Ok((Self { link: handshake.link, process: handshake.process, memory }, spec, layout))
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
        let process = &mut self.process;
        let limit = Duration::from_secs_f64(settings.step_timeout_secs);
        let answer = self.link.send(&[letter, watch]);
        let answer = answer.and_then(|()| self.link.answer(limit, || process.ended().is_none()));
        match answer {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Error(error)) => Err(error.into_error(settings.id(), during)),
            Ok(Answer::Description(_)) => {
                let failure = NoAnswer::InvalidMessage("a second description".into());
                Err(explain(failure, settings, during, &mut self.process))
            }
            Err(failure) => Err(explain(failure, settings, during, &mut self.process)),
        }
    }

    /// The number of the process.
    pub(super) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The end of what the process printed.
    pub(super) fn output(&self) -> String {
        self.process.output()
    }
}

/// The exchange before there are environments.
struct Handshake<'a> {
    settings: &'a BridgeSettings,
    link: Link,
    process: Process,
}

impl Handshake<'_> {
    fn make(
        &mut self,
        file: &File,
        limit: Duration,
    ) -> Result<(EnvSpec, MemoryLayout, SharedMemory), BridgeError> {
        let sent = self.link.send_message(PROGRAM.as_bytes());
        let sent = sent.and_then(|()| self.link.send_json(&self.settings.message()));
        // A process that could not even read this has more to say than that its socket is closed.
        let description: EnvDescription = match (self.answer(limit), sent) {
            (Ok(Answer::Description(body)), Ok(())) => parse(&body).map_err(|why| self.explain(why))?,
            (Ok(Answer::Error(error)), _) => return Err(error.into_error(self.settings.id(), During::Start)),
            (Ok(_), _) => return Err(self.explain(NoAnswer::InvalidMessage("no description".into()))),
            (Err(failure), _) => return Err(self.explain(failure)),
        };
        let spec =
            description.spec(self.settings).map_err(|words| self.explain(NoAnswer::InvalidMessage(words)))?;
        self.check(&spec)?;
        let layout = MemoryLayout::new(&spec, self.settings.facts.len());
        let memory = SharedMemory::map(file, layout.bytes)
            .map_err(|source| BridgeError::Io { what: "cannot map shared memory", source })?;
        let sent = self.link.send_json(&layout.for_python);
        match sent.and_then(|()| self.answer(limit)) {
            Ok(Answer::Done) => Ok((spec, layout, memory)),
            Ok(Answer::Error(error)) => Err(error.into_error(self.settings.id(), During::Start)),
            Ok(Answer::Description(_)) => {
                Err(self.explain(NoAnswer::InvalidMessage("a second description".into())))
            }
            Err(failure) => Err(self.explain(failure)),
        }
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

    fn answer(&mut self, limit: Duration) -> Result<Answer, NoAnswer> {
        let process = &mut self.process;
        self.link.answer(limit, || process.ended().is_none())
    }

    fn explain(&mut self, failure: NoAnswer) -> BridgeError {
        explain(failure, self.settings, During::Start, &mut self.process)
    }
}

/// Kills the process that gave no answer, and says what is known about it.
fn explain(
    failure: NoAnswer,
    settings: &BridgeSettings,
    during: During,
    process: &mut Process,
) -> BridgeError {
    let secs = match during {
        During::Start => settings.start_timeout_secs,
        _ => settings.step_timeout_secs,
    };
    process.end_without_answer(failure, settings.id(), during, secs)
}
