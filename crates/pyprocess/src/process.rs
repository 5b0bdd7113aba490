//! The Python process: started so that it cannot outlive us, its output, and its end.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::failure::Failure;
use super::link::NoAnswer;
use super::output::Output;

/// Takes the real program from the socket that is standard input.
const BOOT: &str = include_str!("boot.py");
/// How long a process may take to end when it is no longer needed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a hanging process may take to dump its traceback.
const TRACEBACK_WAIT: Duration = Duration::from_millis(500);

/// A Python process. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    output: Arc<Output>,
    /// Lets the thread that started the child go.
    _release: mpsc::Sender<()>,
}

impl Process {
    /// Starts `python` with this standard input and output.
    ///
    /// The child asks Linux to be killed when the *thread* that started it ends. So a thread of its own
    /// starts it, keeps what it prints, and stays until this value is dropped.
    pub(super) fn start(python: &Path, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let mut command = Command::new(python);
        command.args(["-c", BOOT]).env("PYTHONUNBUFFERED", "1").process_group(0);
        command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::piped());
        let printed = Arc::new(Output::default());
        let (report, started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let keeps = printed.clone();
        thread::Builder::new().name("plaudit-bridge".into()).spawn(move || {
            let mut spawned = command.spawn();
            drop(command); // and with it our copies of the child's ends
            let printing = spawned.as_mut().ok().and_then(|child| child.stderr.take());
            let _ = report.send(spawned);
            if let Some(mut printing) = printing {
                keep(&mut printing, &keeps);
                let _ = released.recv(); // ends when the sender is dropped
            }
        })?;
        let child = started.recv().map_err(io::Error::other)??;
        Ok(Self { child, output: printed, _release: release })
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it printed so far.
    pub(super) fn output(&self) -> String {
        self.output.text()
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        Some(describe(self.child.try_wait().ok()??))
    }

    /// How it ended, after its socket closed: it is given a moment, then it is ended.
    pub(super) fn end(&mut self) -> String {
        let how = self.wait(GRACE).map(describe);
        let how = how.unwrap_or_else(|| "closed its connection".into());
        self.kill();
        self.output.settle();
        how
    }

    /// Makes a hanging process dump its traceback, and kills it.
    pub(super) fn dump_traceback_and_kill(&mut self) {
        let before = self.output.count();
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::USR1);
        }
        let deadline = Instant::now() + TRACEBACK_WAIT;
        while self.output.count() == before && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(20)); // the rest of the traceback
        self.kill();
        self.output.settle();
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    /// Ends it, which gave no answer, and says what is known about it.
    pub(super) fn end_without_answer(&mut self, failure: NoAnswer) -> Failure {
        match failure {
            NoAnswer::Closed => {
                let how = self.end();
                Failure::Died { how, output: self.output() }
            }
            NoAnswer::TimedOut => {
                self.dump_traceback_and_kill();
                Failure::TimedOut { output: self.output() }
            }
            NoAnswer::InvalidMessage(message) => {
                self.kill();
                Failure::InvalidMessage { message, output: self.output() }
            }
            NoAnswer::Io(source) => {
                self.kill();
                Failure::Io { what: "cannot communicate with the Python process", source }
            }
        }
    }

    /// Ends it at once, with the processes it started.
    pub(super) fn kill(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // It is not waited for yet, so its number, which is its group's too, cannot be another's.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.wait(GRACE);
        self.kill();
    }
}

fn keep(printing: &mut impl Read, output: &Output) {
    let mut part = [0; 4096];
    loop {
        match printing.read(&mut part) {
            Ok(0) => break,
            Ok(count) => output.add(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    output.close();
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (_, Some(signal)) => format!("was killed by signal {signal}{}", signal_name(signal)),
        _ => "ended".into(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL, an instruction that this CPU does not have)",
        6 => " (SIGABRT, it aborted)",
        7 => " (SIGBUS, a bad memory access)",
        8 => " (SIGFPE, an arithmetic error)",
        9 => " (SIGKILL, possibly out of memory)",
        11 => " (SIGSEGV, a bad memory access)",
        15 => " (SIGTERM, it was asked to terminate)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_described_in_words() {
        assert_eq!(describe(ExitStatus::from_raw(3 << 8)), "exited with status 3");
        let crash = "was killed by signal 11 (SIGSEGV, a bad memory access)";
        assert_eq!(describe(ExitStatus::from_raw(11)), crash);
    }
}
