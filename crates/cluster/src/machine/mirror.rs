//! What processes write on one machine, copied to the run directory of another while they write it.
//!
//! Logs and metrics grow at their end, and only what was added is sent. Everything else appears by rename, and is sent whole.
//! A stream is headers, each a line of JSON, each followed by as many bytes as it says.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::dora::files;
use crate::plan::Plan;

/// The longest header that is read.
const LONGEST_HEADER: u64 = 64 << 10;

/// How a file was when it was last sent, or is on the receiver's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    length: u64,
    modified_ns: u64,
}

/// Files by their paths in the run directory.
pub type Known = BTreeMap<String, FileState>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    path: String,
    /// Where its bytes go; zero: they are the whole file.
    offset: u64,
    length: u64,
    modified_ns: u64,
}

/// The files of a run directory that are sent, as they are now.
pub fn known_files(run_dir: &Path) -> Known {
    let mut known = Known::new();
    collect(run_dir, run_dir, &mut known);
    known
}

fn collect(run_dir: &Path, folder: &Path, known: &mut Known) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(relative) = path.strip_prefix(run_dir) else { continue };
        let Some(name) = relative.to_str().filter(|name| is_sent(name)) else { continue };
        if path.is_dir() {
            collect(run_dir, &path, known);
        } else if let Some(state) = fs::metadata(&path).ok().filter(has_content).map(state) {
            known.insert(name.to_string(), state);
        }
    }
}

/// An empty file says nothing, and on the receiver's side it may have been filled by somebody else.
fn has_content(meta: &fs::Metadata) -> bool {
    meta.is_file() && meta.len() > 0
}

fn state(meta: fs::Metadata) -> FileState {
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileState { length: meta.len(), modified_ns: modified.map_or(0, |since| since.as_nanos() as u64) }
}

/// Every machine has the plan and dora's files anyway, and its token is nobody else's business.
fn is_sent(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.starts_with('.') || last.ends_with(".tmp") || name == Plan::FILE || name == "config.yaml" {
        return false;
    }
    let dora = format!("{}/", files::FOLDER);
    name.strip_prefix(&dora).is_none_or(|inside| inside.starts_with("out") || inside.ends_with(".log"))
}

/// Whether a file only ever grows at its end.
fn only_grows(name: &str) -> bool {
    name.ends_with(".jsonl") || name.ends_with(".log") || name.contains("tfevents")
}

/// Sends what is new since `known`, and remembers it there. Says how many files had something new.
pub fn send_changes(run_dir: &Path, known: &mut Known, out: &mut impl Write) -> io::Result<usize> {
    let mut sent = 0;
    for (path, now) in known_files(run_dir) {
        let before = known.get(&path).copied();
        if before == Some(now) {
            continue;
        }
        let grown = before.filter(|before| only_grows(&path) && before.length <= now.length);
        let offset = grown.map_or(0, |before| before.length);
        // A file that is gone again is sent when it is back.
        let Ok(mut file) = File::open(run_dir.join(&path)) else { continue };
        file.seek(SeekFrom::Start(offset))?;
        let length = now.length - offset;
        let header = Header { path: path.clone(), offset, length, modified_ns: now.modified_ns };
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")?;
        if io::copy(&mut file.take(length), out)? != length {
            return Err(io::Error::other(format!("{path} became shorter while it was sent")));
        }
        known.insert(path, now);
        sent += 1;
    }
    out.flush()?;
    Ok(sent)
}

/// Writes down what another machine sends.
#[derive(Debug)]
pub struct MirrorReceiver {
    run_dir: PathBuf,
}

impl MirrorReceiver {
    /// Into a run directory.
    pub fn new(run_dir: &Path) -> Self {
        Self { run_dir: run_dir.to_path_buf() }
    }

    /// Takes one file, or a piece of one. False at the end of the stream.
    pub fn receive(&self, stream: &mut impl BufRead) -> io::Result<bool> {
        let mut line = String::new();
        stream.by_ref().take(LONGEST_HEADER).read_line(&mut line)?;
        if line.is_empty() {
            return Ok(false);
        }
        let header: Header = serde_json::from_str(&line)?;
        let relative = Path::new(&header.path);
        let is_inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || !is_sent(&header.path) {
            return Err(io::Error::other(format!("`{}` is no file that is sent", header.path)));
        }
        let path = self.run_dir.join(relative);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if header.offset > 0 { append(&path, &header, stream) } else { replace(&path, &header, stream) }?;
        Ok(true)
    }
}

fn append(path: &Path, header: &Header, stream: &mut impl Read) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.set_len(header.offset)?;
    file.seek(SeekFrom::Start(header.offset))?;
    copy_whole(header, stream, &mut file)
}

fn replace(path: &Path, header: &Header, stream: &mut impl Read) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".mirror.tmp");
    let beside = path.with_file_name(name);
    let mut file = File::create(&beside)?;
    copy_whole(header, stream, &mut file)?;
    fs::rename(&beside, path)
}

/// The bytes, and the time at which they were written: the same file is then not sent again.
fn copy_whole(header: &Header, stream: &mut impl Read, file: &mut File) -> io::Result<()> {
    if io::copy(&mut stream.take(header.length), file)? != header.length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended inside a file"));
    }
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(header.modified_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive_all(folder: &Path, mut bytes: &[u8]) -> io::Result<usize> {
        let receiver = MirrorReceiver::new(folder);
        let mut files = 0;
        while receiver.receive(&mut bytes)? {
            files += 1;
        }
        Ok(files)
    }

    #[test]
    fn what_is_added_is_sent_and_what_is_replaced_is_sent_whole() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| {
            let path = from.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
        write("workers/env-0/status.jsonl", "{\"sent\":1}\n");
        write("checkpoints/actor.json", "one");
        write("plan.json", "not sent");
        write("dora/.dora-token", "secret");
        write("dora/daemon-node-1.log", "a line\n");
        let mut known = Known::new();
        let mut stream = Vec::new();
        assert_eq!(send_changes(from.path(), &mut known, &mut stream).unwrap(), 3);
        assert_eq!(receive_all(to.path(), &stream).unwrap(), 3);
        assert_eq!(read("checkpoints/actor.json"), "one");
        assert!(!to.path().join("plan.json").exists() && !to.path().join("dora/.dora-token").exists());

        write("workers/env-0/status.jsonl", "{\"sent\":1}\n{\"sent\":2}\n");
        write("checkpoints/actor.json", "two");
        let mut stream = Vec::new();
        // Who starts anew asks what the receiver has, and sends no more than the one who went on.
        let mut asked = known_files(to.path());
        assert_eq!(send_changes(from.path(), &mut asked, &mut stream).unwrap(), 2);
        assert!(!String::from_utf8_lossy(&stream).contains("sent\":1"), "only what was added");
        receive_all(to.path(), &stream).unwrap();
        assert_eq!(read("workers/env-0/status.jsonl"), "{\"sent\":1}\n{\"sent\":2}\n");
        assert_eq!(read("checkpoints/actor.json"), "two");
        assert_eq!(send_changes(from.path(), &mut known_files(to.path()), &mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_stream_that_lies_is_refused() {
        let to = tempfile::tempdir().unwrap();
        let header = |path: &str, length: u64| {
            format!("{{\"path\":\"{path}\",\"offset\":0,\"length\":{length},\"modified_ns\":0}}\n")
        };
        for (stream, expected) in [
            (header("../out", 0), "no file that is sent"),
            (header("/etc/passwd", 0), "no file that is sent"),
            (header("dora/.dora-token", 0), "no file that is sent"),
            (header("a.log", 5) + "abc", "ended inside a file"),
            ("{".repeat(100), "key must be a string"),
        ] {
            let error = receive_all(to.path(), stream.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(!to.path().join("a.log").exists(), "half a file does not appear");
    }
}
