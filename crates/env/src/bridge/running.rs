//! A Python process that has made its environments, and the memory it shares with us.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plaudit_core::{EnvSpec, Watch};

use super::error::{BridgeError, During};
use super::hello::Hello;
use super::layout::Layout;
use super::link::{Answer, Link, Silence, parse};
use super::process::Process;
use super::settings::BridgeSettings;
use super::shared::{SharedMemory, memory_file};
use crate::memory;

/// The program that Python runs.
const PROGRAM: &str = include_str!("child.py");

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
    pub(super) fn start(settings: &BridgeSettings) -> Result<(Self, EnvSpec, Layout), BridgeError> {
        let io = |what| move |source| BridgeError::Io { what, source };
        let (ours, theirs) = UnixStream::pair().map_err(io("cannot make a socket"))?;
        let file = File::from(memory_file().map_err(io("cannot make shared memory"))?);
        let output = file.try_clone().map_err(io("cannot share memory"))?;
        let process = Process::start(&settings.python, theirs.into(), output.into())
            .map_err(|source| BridgeError::Interpreter { python: settings.python.clone(), source })?;
        let limit = Duration::from_secs_f64(settings.start_timeout_secs);
        let link = Link::new(ours, limit, settings.spin()).map_err(io("cannot set up a socket"))?;
        let mut talk = Talk { settings, link, process };
        let (spec, layout, memory) = talk.make(&file, limit)?;
        let step_limit = Duration::from_secs_f64(settings.step_timeout_secs);
        talk.link.limit_writes(step_limit).map_err(io("cannot set up a socket"))?;
        Ok((Self { link: talk.link, process: talk.process, memory }, spec, layout))
    }

    /// Has the environments do something with what lies in shared memory, and waits until it is done.
    pub(super) fn order(
        &mut self,
        settings: &BridgeSettings,
        during: During,
        watch: Watch,
    ) -> Result<(), BridgeError> {
        let letter = if during == During::Step { b's' } else { b'r' };
        let watch = match watch {
            Watch::Nothing => 0,
            Watch::Ends => 1,
            Watch::Everything => 2,
        };
        let process = &mut self.process;
        let limit = Duration::from_secs_f64(settings.step_timeout_secs);
        let answer = self.link.send(&[letter, watch]);
        let answer = answer.and_then(|()| self.link.answer(limit, || process.ended().is_none()));
        match answer {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Error(told)) => Err(told.into_error(settings.id(), during)),
            Ok(Answer::Description(_)) => {
                let silence = Silence::Nonsense("a second description".into());
                Err(explain(silence, settings, during, &mut self.process))
            }
            Err(silence) => Err(explain(silence, settings, during, &mut self.process)),
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

/// The conversation before there are environments.
struct Talk<'a> {
    settings: &'a BridgeSettings,
    link: Link,
    process: Process,
}

impl Talk<'_> {
    fn make(&mut self, file: &File, limit: Duration) -> Result<(EnvSpec, Layout, SharedMemory), BridgeError> {
        let sent = self.link.send_message(PROGRAM.as_bytes());
        let sent = sent.and_then(|()| self.link.send_json(&self.settings.message()));
        // A process that could not even read this has more to say than that its socket is closed.
        let hello: Hello = match (self.answer(limit), sent) {
            (Ok(Answer::Description(body)), Ok(())) => parse(&body).map_err(|why| self.explain(why))?,
            (Ok(Answer::Error(told)), _) => return Err(told.into_error(self.settings.id(), During::Start)),
            (Ok(_), _) => return Err(self.explain(Silence::Nonsense("no description".into()))),
            (Err(silence), _) => return Err(self.explain(silence)),
        };
        let spec = hello.spec(self.settings).map_err(|words| self.explain(Silence::Nonsense(words)))?;
        self.check(&spec)?;
        let layout = Layout::new(&spec, self.settings.facts.len());
        let memory = SharedMemory::map(file, layout.bytes)
            .map_err(|source| BridgeError::Io { what: "cannot map shared memory", source })?;
        let sent = self.link.send_json(&layout.told);
        match sent.and_then(|()| self.answer(limit)) {
            Ok(Answer::Done) => Ok((spec, layout, memory)),
            Ok(Answer::Error(told)) => Err(told.into_error(self.settings.id(), During::Start)),
            Ok(Answer::Description(_)) => Err(self.explain(Silence::Nonsense("a second description".into()))),
            Err(silence) => Err(self.explain(silence)),
        }
    }

    /// Refuses environments that are possible but of no use.
    fn check(&self, spec: &EnvSpec) -> Result<(), BridgeError> {
        let id = self.settings.id().to_owned();
        memory::check(spec.num_envs, Layout::bytes_each(spec))
            .map_err(|error| BridgeError::TooLarge { id: id.clone(), message: error.to_string() })?;
        if self.settings.ignore_terminations && spec.max_episode_steps.is_none() {
            let words =
                "without terminations and without a time limit no episode would end; set max_episode_steps";
            return Err(BridgeError::Refused { id, during: During::Start, message: words.into() });
        }
        Ok(())
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, Silence> {
        let process = &mut self.process;
        self.link.answer(limit, || process.ended().is_none())
    }

    fn explain(&mut self, silence: Silence) -> BridgeError {
        explain(silence, self.settings, During::Start, &mut self.process)
    }
}

/// Ends the process that fell silent, and says what is known about it.
fn explain(
    silence: Silence,
    settings: &BridgeSettings,
    during: During,
    process: &mut Process,
) -> BridgeError {
    let id = settings.id().to_owned();
    match silence {
        Silence::Closed => {
            let how = process.end();
            BridgeError::Died { id, during, how, output: process.output() }
        }
        Silence::TimedOut => {
            process.interrogate_and_kill();
            let secs = match during {
                During::Start => settings.start_timeout_secs,
                During::Reset | During::Step => settings.step_timeout_secs,
            };
            BridgeError::TimedOut { id, during, secs, output: process.output() }
        }
        Silence::Nonsense(message) => {
            process.kill();
            BridgeError::Nonsense { id, during, message, output: process.output() }
        }
        Silence::Io(source) => {
            process.kill();
            BridgeError::Io { what: "cannot talk to the Python process", source }
        }
    }
}
