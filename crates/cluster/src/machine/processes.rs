//! The processes of this machine, by what the system says of them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A process, and the words it was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) pid: i32,
    pub(super) words: Vec<String>,
}

/// Every process of this user that can be looked at.
pub(super) fn running() -> Vec<Running> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id() as i32;
    pids.filter(|pid| *pid != own).filter_map(words_of).collect()
}

fn words_of(pid: i32) -> Option<Running> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    (!words.is_empty() && !is_zombie(pid)).then_some(Running { pid, words })
}

/// A process that has ended, and whose parent has not asked how.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

/// A variable of a process's environment.
pub(super) fn variable_of(pid: i32, name: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{name}=");
    let found = bytes.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()));
    found.map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Those whose words name a file in a folder.
pub(super) fn that_name(folder: &Path) -> Vec<Running> {
    let folder = format!("{}/", folder.display());
    let names = |process: &Running| process.words.iter().any(|word| word.contains(&folder));
    running().into_iter().filter(names).collect()
}

/// Asks processes to end, waits, and insists. Says how many there were.
pub(super) fn end_all(pids: &[i32], patience: Duration) -> usize {
    signal(pids, Signal::TERM);
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline && pids.iter().any(|pid| is_alive(*pid)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let left: Vec<i32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
    signal(&left, Signal::KILL);
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline && left.iter().any(|pid| is_alive(*pid)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    pids.len()
}

fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // One that has ended meanwhile is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

pub(super) fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}
