//! Copies what other machines write into the run directory here, for as long as a run goes on.

use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_cluster::dora::files;
use plaudit_cluster::machine::{MirrorReceiver, errand_stream, known_files};
use plaudit_cluster::{Machine, Plan};

use crate::commands::cluster::MirrorRequest;

/// How long to wait before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the last files may take when the run has ended.
const LAST_FILES: Duration = Duration::from_secs(30);

/// One thread for each other machine.
pub(crate) struct Mirrors {
    stop: Arc<AtomicBool>,
    threads: Vec<Mirror>,
    marker: PathBuf,
}

struct Mirror {
    thread: JoinHandle<()>,
    /// The stream that is open now. Closing its input asks for the last files.
    stream: Arc<Mutex<Option<Child>>>,
}

impl Mirrors {
    pub(crate) fn start(plan: &Plan) -> Self {
        // A machine that sees this file shares the run directory, and has nothing to send.
        let marker = plan.run_dir.join(files::FOLDER).join(marker());
        let _ = std::fs::write(&marker, "");
        let stop = Arc::new(AtomicBool::new(false));
        let others = plan.machines.iter().filter(|machine| machine.ssh.is_some());
        let threads = others.map(|machine| Mirror::start(plan, machine, stop.clone())).collect();
        Self { stop, threads, marker }
    }

    /// Takes the last files, and ends.
    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for mirror in &self.threads {
            if let Ok(mut stream) = mirror.stream.lock()
                && let Some(child) = stream.as_mut()
            {
                drop(child.stdin.take());
            }
        }
        let deadline = Instant::now() + LAST_FILES;
        for mirror in self.threads {
            while !mirror.thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            if let (false, Ok(mut stream)) = (mirror.thread.is_finished(), mirror.stream.lock())
                && let Some(child) = stream.as_mut()
            {
                let _ = child.kill();
            }
            let _ = mirror.thread.join();
        }
        let _ = std::fs::remove_file(self.marker);
    }
}

impl Mirror {
    fn start(plan: &Plan, machine: &Machine, stop: Arc<AtomicBool>) -> Self {
        let stream = Arc::new(Mutex::new(None));
        let (plan, machine, open) = (plan.clone(), machine.clone(), stream.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                receive(&plan, &machine, &open);
                let until = Instant::now() + AGAIN;
                while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        });
        Self { thread, stream }
    }
}

/// A file that no other machine has, unless the run directory is on a file system that they share.
fn marker() -> String {
    format!(".driver-{}", std::process::id())
}

/// One stream, until it ends or breaks. A machine that is away is tried again; its files are still there then.
fn receive(plan: &Plan, machine: &Machine, open: &Mutex<Option<Child>>) {
    let file = plan.run_dir.join(Plan::FILE).display().to_string();
    let rank = machine.rank.to_string();
    let words = ["cluster", "node", "mirror", "--plan", &file, "--rank", &rank].map(String::from);
    let Ok(mut child) = errand_stream(machine, &words) else { return };
    let request = MirrorRequest { known: known_files(&plan.run_dir), marker: marker() };
    let text = serde_json::to_string(&request).unwrap_or_default();
    if let Some(input) = child.stdin.as_mut() {
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.write_all(b"\n"));
    }
    let Some(output) = child.stdout.take() else { return };
    drop(child.stderr.take());
    if let Ok(mut stream) = open.lock() {
        *stream = Some(child);
    }
    let (receiver, mut output) = (MirrorReceiver::new(&plan.run_dir), BufReader::new(output));
    while let Ok(true) = receiver.receive(&mut output) {}
    if let Ok(mut stream) = open.lock()
        && let Some(mut child) = stream.take()
    {
        let _ = child.kill();
        let _ = child.wait();
    }
}
