//! A process and the socket to it, from its start to its end.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::failure::Failure;
use super::link::{Answer, Link, NoAnswer};
use super::process::Process;
use super::shared::{SharedMemory, memory_file};

/// A Python process that runs a program. It is ended when this is dropped.
#[derive(Debug)]
pub struct Connection {
    // Dropped in this order: the closed socket asks the process to end before it is waited for.
    link: Link,
    process: Process,
}

/// A process that has described itself.
#[derive(Debug)]
pub struct Opened {
    /// The process.
    pub connection: Connection,
    /// What it says of itself, as JSON.
    pub description: Vec<u8>,
    /// The memory that both will see.
    pub memory: File,
}

impl Connection {
    /// Starts `python` with a program, which begins with [`LINK`](super::LINK), and tells it `settings`. It may take `limit` to
    /// describe itself. Quick answers are busy-waited for, up to `spin`.
    ///
    /// # Errors
    /// When it cannot be started, or does not describe itself.
    pub fn open(
        python: &Path,
        program: &str,
        settings: &Value,
        limit: Duration,
        spin: Duration,
    ) -> Result<Opened, Failure> {
        let io = |what| move |source| Failure::Io { what, source };
        let (ours, theirs) = UnixStream::pair().map_err(io("cannot make a socket"))?;
        let memory = File::from(memory_file().map_err(io("cannot make shared memory"))?);
        let output = memory.try_clone().map_err(io("cannot share memory"))?;
        let process = Process::start(python, theirs.into(), output.into()).map_err(Failure::Interpreter)?;
        let link = Link::new(ours, limit, spin).map_err(io("cannot set up a socket"))?;
        let mut connection = Self { link, process };
        let sent = connection.link.send_message(program.as_bytes());
        let sent = sent.and_then(|()| connection.link.send_json(settings));
        // A process that could not even read this has more to say than that its socket is closed.
        let description = match (connection.answer(limit), sent) {
            (Ok(Answer::Description(body)), Ok(())) => body,
            (Ok(Answer::Error(error)), _) => return Err(Failure::Reported(Box::new(error))),
            (Ok(_), _) => return Err(connection.invalid("no description")),
            (Err(failure), _) => return Err(connection.lost(failure)),
        };
        Ok(Opened { connection, description, memory })
    }

    /// Maps the memory, says what lies where in it, and waits until the other side has mapped it as well.
    ///
    /// # Errors
    /// When the system or the process refuses.
    pub fn share(
        &mut self,
        memory: &File,
        bytes: usize,
        for_python: &Value,
        limit: Duration,
    ) -> Result<SharedMemory, Failure> {
        let memory = SharedMemory::map(memory, bytes)
            .map_err(|source| Failure::Io { what: "cannot map shared memory", source })?;
        match self.link.send_json(for_python) {
            Ok(()) => self.done(limit).map(|()| memory),
            Err(failure) => Err(self.lost(failure)),
        }
    }

    /// From now on a write may take at most `limit`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn limit_writes(&self, limit: Duration) -> Result<(), Failure> {
        let io = |source| Failure::Io { what: "cannot set up a socket", source };
        self.link.limit_writes(limit).map_err(io)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the process does not take them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), NoAnswer> {
        self.link.send(bytes)
    }

    /// Sends JSON.
    ///
    /// # Errors
    /// When the process does not take it.
    pub fn send_json(&mut self, message: &Value) -> Result<(), NoAnswer> {
        self.link.send_json(message)
    }

    /// Waits for an answer as long as `limit` lasts and the process lives.
    ///
    /// # Errors
    /// When there is none.
    pub fn answer(&mut self, limit: Duration) -> Result<Answer, NoAnswer> {
        let process = &mut self.process;
        self.link.answer(limit, || process.ended().is_none())
    }

    /// Waits until what was asked is done. A process that gives no answer is ended.
    ///
    /// # Errors
    /// When it is not.
    pub fn done(&mut self, limit: Duration) -> Result<(), Failure> {
        match self.answer(limit) {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Error(error)) => Err(Failure::Reported(Box::new(error))),
            Ok(Answer::Description(_)) => Err(self.invalid("a second description")),
            Err(failure) => Err(self.lost(failure)),
        }
    }

    /// Ends the process, which gave no answer, and says what is known about it.
    pub fn lost(&mut self, failure: NoAnswer) -> Failure {
        self.process.end_without_answer(failure)
    }

    /// Ends the process, which sent something that makes no sense.
    pub fn invalid(&mut self, message: impl Into<String>) -> Failure {
        self.lost(NoAnswer::InvalidMessage(message.into()))
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The end of what the process printed.
    #[must_use]
    pub fn output(&self) -> String {
        self.process.output()
    }
}
