//! How a worker is doing, one line a second, for whoever watches the run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plaudit_cluster::link::Endpoint;
use plaudit_cluster::{Plan, Process};
use serde_json::json;

use crate::failure::Failure;

const INTERVAL: Duration = Duration::from_secs(1);

/// What a worker counts.
pub(crate) struct Status {
    /// The newest version of the policy, or of the model.
    pub(crate) version: AtomicU64,
    /// Things done: segments, requests, steps of learning.
    pub(crate) done: AtomicU64,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Status {
    /// Writes lines from now on.
    pub(super) fn start(plan: &Plan, process: &Process, endpoint: Endpoint) -> Result<Arc<Self>, Failure> {
        let folder = folder(plan, process);
        let cannot = |error: std::io::Error| {
            Failure::runtime(format!("cannot write to {}: {error}", folder.display()), None)
        };
        std::fs::create_dir_all(&folder).map_err(cannot)?;
        let file = OpenOptions::new().create(true).append(true).open(folder.join("status.jsonl"));
        let file = file.map_err(cannot)?;
        let status = Arc::new(Self {
            version: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            thread: Mutex::new(None),
        });
        let name = (process.components.first().map_or("", |component| component.name()), process.rank);
        let writing = status.clone();
        let thread = std::thread::spawn(move || writing.write_all(&file, &endpoint, name));
        if let Ok(mut place) = status.thread.lock() {
            *place = Some(thread);
        }
        Ok(status)
    }

    /// Nothing more is written, and the endpoint is let go.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }

    fn write_all(&self, mut file: &File, endpoint: &Endpoint, (component, rank): (&str, usize)) {
        let mut before = self.done.load(Ordering::Relaxed);
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(INTERVAL);
            let peers = endpoint.counts();
            let sum = |of: fn(&plaudit_cluster::link::PeerCounts) -> u64| peers.values().map(of).sum::<u64>();
            let done = self.done.load(Ordering::Relaxed);
            let line = json!({
                "time": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
                "component": component,
                "rank": rank,
                "pid": std::process::id(),
                "version": self.version.load(Ordering::Relaxed),
                "done": done,
                "rate": (done - before) as f64 / INTERVAL.as_secs_f64(),
                "sent": sum(|peer| peer.counts.sent),
                "received": sum(|peer| peer.counts.received),
                "sent_bytes": sum(|peer| peer.counts.sent_bytes),
                "received_bytes": sum(|peer| peer.counts.received_bytes),
                "in_flight": sum(|peer| peer.in_flight as u64),
                "queued": sum(|peer| peer.queued as u64),
                "resent": sum(|peer| peer.counts.resent),
                "duplicates": sum(|peer| peer.counts.duplicates),
                "peer_restarts": sum(|peer| peer.counts.restarts),
                "down": peers.iter().filter(|(_, peer)| !peer.is_up).map(|(name, _)| &**name).collect::<Vec<_>>(),
            });
            before = done;
            // A full disk must not stop the work: whoever watches sees that the lines stop.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Where a process may write.
pub(super) fn folder(plan: &Plan, process: &Process) -> PathBuf {
    plan.run_dir.join("workers").join(&process.id)
}
