//! The log of a store: what is in it, where it came from, and under which licence.
//!
//! Lines are only ever appended, each in one write and flushed. A line counts once its newline is there: what an
//! interrupted write left behind is not read, and the next writer cuts it off. Writers lock the file; readers need not.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use plaudit_pyfiles::atomic_file::sync_folder_of;
use plaudit_pyfiles::plain_file;

use super::VERSION;
use super::error::{StoreError, reading, writing};
use super::id::EpisodeId;
use crate::episode::Episode;

/// Where an episode came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// What made it: a command, or the file it was read from.
    pub source: String,
    /// The environment or robot it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The hash of the resolved config of the run that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// The licence of this episode, where it is not the store's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
}

impl Origin {
    /// From somewhere, and nothing else known.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// From a run with this resolved config, which is kept as its hash: what `sha256sum` says of the text.
    pub fn of_run(source: impl Into<String>, config: &str) -> Self {
        let config_hash = Some(EpisodeId::of([config.as_bytes()]).to_string());
        Self { config_hash, ..Self::new(source) }
    }
}

/// What the manifest says about one episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name: the hash of its file.
    pub id: EpisodeId,
    /// The size of its file.
    pub bytes: u64,
    /// How many entries it has, N + 1 for N actions.
    pub entries: usize,
    /// Whether the task was solved at any step.
    pub success: bool,
    #[serde(flatten)]
    pub(super) batch_position: BatchPosition,
    /// Where it came from; the first time, if it was added more than once.
    pub origin: Origin,
    /// Labels that were added, the newest under each name.
    #[serde(skip)]
    pub labels: Vec<LabelEntry>,
}

impl Entry {
    pub(super) fn new(id: EpisodeId, bytes: u64, episode: &Episode, origin: &Origin) -> Self {
        let Episode { row, number, batch_step, success, .. } = *episode;
        let batch_position = BatchPosition { row, number, batch_step };
        let (entries, origin) = (episode.len() + 1, origin.clone());
        Self { id, bytes, entries, success, batch_position, origin, labels: Vec::new() }
    }
}

/// Which environment of a batch it happened in, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchPosition {
    pub(super) row: usize,
    pub(super) number: u64,
    pub(super) batch_step: u64,
}

/// What the manifest says about one column of labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelEntry {
    /// The episode they belong to.
    pub episode: EpisodeId,
    /// What they are called.
    pub name: String,
    /// The hash of their file.
    pub file: EpisodeId,
    /// Who says so.
    pub by: String,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    plaudit_store: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    licence: Option<String>,
}

/// Every other line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Episode(Entry),
    Labels(LabelEntry),
    /// What the store as a whole is: how it was made, and what was found then.
    About(Value),
}

/// All that was read so far.
#[derive(Debug)]
pub(super) struct Manifest {
    path: PathBuf,
    pub(super) licence: Option<String>,
    pub(super) about: Option<Value>,
    pub(super) entries: Vec<Entry>,
    indices: HashMap<EpisodeId, usize>,
    lines: usize,
    read_to: u64,
}

impl Manifest {
    /// A new one, with its first line and some more.
    pub(super) fn create(path: &Path, licence: Option<&str>, lines: &[Line]) -> Result<Self, StoreError> {
        let mut text = line(&Head { plaudit_store: VERSION, licence: licence.map(String::from) });
        lines.iter().for_each(|more| text.extend(line(more)));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(writing(path))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(writing(path))?;
        sync_folder_of(path);
        Self::open(path)
    }

    /// Reads all lines that are whole.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut manifest = Self {
            path: path.into(),
            licence: None,
            about: None,
            entries: Vec::new(),
            indices: HashMap::new(),
            lines: 0,
            read_to: 0,
        };
        manifest.catch_up(&mut plain_file::open(path).map_err(reading(path))?)?;
        if manifest.lines == 0 {
            return Err(manifest.wrong("it has no first line"));
        }
        Ok(manifest)
    }

    pub(super) fn entry(&self, id: EpisodeId) -> Option<&Entry> {
        self.indices.get(&id).map(|index| &self.entries[*index])
    }

    /// Appends a line that `unless` it is there already, after reading what others appended meanwhile.
    pub(super) fn append(&mut self, new: &Line, unless: impl Fn(&Self) -> bool) -> Result<(), StoreError> {
        let path = self.path.clone();
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(writing(&path))?;
        file.lock().map_err(writing(&path))?;
        self.catch_up(&mut file)?;
        if unless(self) {
            return Ok(());
        }
        let text = line(new);
        file.set_len(self.read_to)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .and_then(|_| file.write_all(&text))
            .and_then(|()| file.sync_data())
            .map_err(writing(&path))?;
        self.catch_up(&mut file)
    }

    /// Reads the whole lines from where the last reading ended.
    fn catch_up(&mut self, file: &mut File) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read_to))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(reading(&self.path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for text in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            if self.lines == 0 {
                self.take_head(text)?
            } else {
                self.take(text)?
            }
            self.lines += 1;
            self.read_to += text.len() as u64;
        }
        Ok(())
    }

    fn take_head(&mut self, text: &[u8]) -> Result<(), StoreError> {
        let head: Head = serde_json::from_slice(text).map_err(|error| self.wrong(&error.to_string()))?;
        if head.plaudit_store > VERSION {
            return Err(StoreError::Version { path: self.path.clone(), found: head.plaudit_store });
        }
        self.licence = head.licence;
        Ok(())
    }

    fn take(&mut self, text: &[u8]) -> Result<(), StoreError> {
        match serde_json::from_slice(text).map_err(|error| self.wrong(&error.to_string()))? {
            Line::Episode(entry) if self.indices.contains_key(&entry.id) => {}
            Line::Episode(entry) => {
                self.indices.insert(entry.id, self.entries.len());
                self.entries.push(entry);
            }
            Line::Labels(labels) => {
                let Some(index) = self.indices.get(&labels.episode) else {
                    return Err(self.wrong("labels of an episode that no line before it lists"));
                };
                let known = &mut self.entries[*index].labels;
                known.retain(|older| older.name != labels.name);
                known.push(labels);
            }
            Line::About(about) => self.about = Some(about),
        }
        Ok(())
    }

    fn wrong(&self, why: &str) -> StoreError {
        StoreError::Manifest { path: self.path.clone(), line: self.lines + 1, why: why.into() }
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    text
}
