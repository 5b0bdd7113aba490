//! The journal of a labelling session: two files in a folder, only ever appended to.
//!
//! `journal.jsonl` has a line for each frame and each key, `frames.bin` the pixels. Pixels are written before the line
//! that names them, and every line in one piece and without a buffer: what the process wrote is there when it is
//! killed. A last line without its end is the entry in flight, and is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plaudit_pyfiles::plain_file;
use serde::{Deserialize, Serialize};

use super::error::LabellingError;
use super::marks::TimedMark;
use crate::file_lock;

/// The file of lines.
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// The file of pixels.
pub const FRAMES_FILE: &str = "frames.bin";
const VERSION: u32 = 1;
/// The longest line, and the largest file of lines.
const LONGEST_LINE: usize = 4096;
const LARGEST_JOURNAL: u64 = 1 << 30;
/// Between two sessions in one journal, seconds: their frames are no neighbours.
const SESSION_GAP_SECS: f64 = 60.0;

/// What all frames of a journal have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The camera.
    pub camera: String,
    /// Pixels down.
    pub height: usize,
    /// Pixels across.
    pub width: usize,
}

impl JournalHeader {
    /// Bytes of a frame: red, green and blue of each pixel. `None` where that is absurd.
    pub fn frame_bytes(&self) -> Option<usize> {
        let is_sensible = |side: usize| (1..=8192).contains(&side);
        (is_sensible(self.height) && is_sensible(self.width)).then_some(self.height * self.width * 3)
    }
}

/// A frame in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JournalFrame {
    /// When it was taken, seconds since the journal began.
    pub time: f64,
    /// Where its pixels begin in the file of pixels.
    pub at: u64,
    /// Their CRC-32.
    pub crc: u32,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Entry {
    Journal { version: u32, header: JournalHeader },
    Frame(JournalFrame),
    Mark(TimedMark),
}

/// What a journal says.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// What all frames have in common.
    pub header: JournalHeader,
    /// The frames, in order.
    pub frames: Vec<JournalFrame>,
    /// The marks, in order.
    pub marks: Vec<TimedMark>,
    /// Bytes of the journal that are whole entries.
    whole_bytes: u64,
    /// Whether an entry in flight was lost.
    pub is_cut: bool,
}

impl Recovered {
    /// The end of what is there, seconds.
    pub fn end(&self) -> f64 {
        let frames = self.frames.iter().map(|frame| frame.time);
        frames.chain(self.marks.iter().map(|mark| mark.time)).fold(0.0, f64::max)
    }

    /// Reads a journal, whole or cut off.
    ///
    /// # Errors
    /// When it is not there, or a line before the last one is none.
    pub fn read(folder: &Path) -> Result<Self, LabellingError> {
        let path = folder.join(JOURNAL_FILE);
        let bytes = plain_file::read(&path, LARGEST_JOURNAL).map_err(|source| file_error(&path, source))?;
        let pixels = fs::metadata(folder.join(FRAMES_FILE)).map_or(0, |metadata| metadata.len());
        Self::parse(&path, &bytes, pixels)
    }

    fn parse(path: &Path, bytes: &[u8], pixels: u64) -> Result<Self, LabellingError> {
        let wrong =
            |line: usize, why: String| LabellingError::Line { path: path.into(), line: line + 1, why };
        let mut read: Option<Self> = None;
        let mut whole_bytes = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(text) = line.strip_suffix(b"\n") else { break };
            if text.len() > LONGEST_LINE {
                return Err(wrong(number, format!("longer than {LONGEST_LINE} bytes")));
            }
            let entry = serde_json::from_slice(text).map_err(|error| wrong(number, error.to_string()))?;
            match (entry, &mut read) {
                (Entry::Journal { version, header }, read @ None) => {
                    if version != VERSION || header.frame_bytes().is_none() {
                        return Err(wrong(number, format!("no journal of version {VERSION}")));
                    }
                    let (frames, marks) = (Vec::new(), Vec::new());
                    *read = Some(Self { header, frames, marks, whole_bytes: 0, is_cut: false });
                }
                (Entry::Frame(frame), Some(read)) => {
                    let size = read.header.frame_bytes().unwrap_or(0) as u64;
                    // A machine that lost its power may have kept the line and not the pixels.
                    if frame.at.checked_add(size).is_none_or(|end| end > pixels) {
                        break;
                    }
                    read.frames.push(frame);
                }
                (Entry::Mark(mark), Some(read)) => read.marks.push(mark),
                (Entry::Journal { .. }, Some(_)) => return Err(wrong(number, "a second beginning".into())),
                (_, None) => return Err(wrong(number, "the journal does not begin with its version".into())),
            }
            whole_bytes += line.len() as u64;
        }
        let missing = || wrong(0, "the journal has no beginning".into());
        let read = read.ok_or_else(missing)?;
        Ok(Self { whole_bytes, is_cut: whole_bytes < bytes.len() as u64, ..read })
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    frames_path: PathBuf,
    lines: File,
    pixels: File,
    /// Bytes of pixels.
    pixel_bytes: u64,
    frame_bytes: usize,
}

impl Journal {
    /// Begins a journal in a folder, or goes on with the one that is there. Gives what it says so far, and the time at
    /// which the new session starts.
    ///
    /// # Errors
    /// When the system refuses, another process labels there, the journal is damaged, or it is of another camera or
    /// size.
    pub fn open(folder: &Path, header: &JournalHeader) -> Result<(Self, Recovered, f64), LabellingError> {
        let frame_bytes = header.frame_bytes().ok_or(LabellingError::Setting {
            name: "the size of frames",
            value: header.width as f64,
            expected: "from 1 to 8192 pixels each way",
        })?;
        fs::create_dir_all(folder).map_err(|source| file_error(folder, source))?;
        let (path, frames_path) = (folder.join(JOURNAL_FILE), folder.join(FRAMES_FILE));
        let lines = file_lock::acquire(&path).map_err(|source| file_error(&path, source))?;
        let mut lines = lines.ok_or_else(|| LabellingError::InUse { path: folder.into() })?;
        let is_new = lines.metadata().map_err(|source| file_error(&path, source))?.len() == 0;
        if is_new {
            append(&mut lines, &path, &Entry::Journal { version: VERSION, header: header.clone() })?;
        }
        let recovered = Recovered::read(folder)?;
        if recovered.header != *header {
            let JournalHeader { camera, height, width } = &recovered.header;
            let why = format!(
                "it has frames of camera `{camera}` of {width}x{height}; label these in another folder"
            );
            return Err(LabellingError::Line { path, line: 1, why });
        }
        // What was in flight is gone for good, so that new entries begin on a line of their own.
        let cut = lines.set_len(recovered.whole_bytes).and_then(|()| lines.seek(SeekFrom::End(0)));
        cut.map_err(|source| file_error(&path, source))?;
        let pixel_bytes =
            recovered.frames.iter().map(|frame| frame.at + frame_bytes as u64).max().unwrap_or(0);
        let mut pixels = OpenOptions::new().create(true).truncate(false).write(true).open(&frames_path);
        let cut = pixels
            .as_mut()
            .map_or(Ok(0), |file| file.set_len(pixel_bytes).and_then(|()| file.seek(SeekFrom::End(0))));
        let pixels =
            pixels.and_then(|file| cut.map(|_| file)).map_err(|source| file_error(&frames_path, source))?;
        let starts = if is_new { 0.0 } else { recovered.end() + SESSION_GAP_SECS };
        Ok((Self { path, frames_path, lines, pixels, pixel_bytes, frame_bytes }, recovered, starts))
    }

    /// Keeps a frame.
    ///
    /// # Errors
    /// When it has another size, or the system refuses.
    pub fn frame(&mut self, time: f64, pixels: &[u8]) -> Result<JournalFrame, LabellingError> {
        if pixels.len() != self.frame_bytes {
            let (path, expected, found) = (self.path.clone(), self.frame_bytes, pixels.len());
            return Err(LabellingError::Size { path, expected, found });
        }
        self.pixels.write_all(pixels).map_err(|source| file_error(&self.frames_path, source))?;
        let frame = JournalFrame { time, at: self.pixel_bytes, crc: crc32fast::hash(pixels) };
        self.pixel_bytes += pixels.len() as u64;
        append(&mut self.lines, &self.path, &Entry::Frame(frame))?;
        Ok(frame)
    }

    /// Keeps a mark.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn mark(&mut self, mark: TimedMark) -> Result<(), LabellingError> {
        append(&mut self.lines, &self.path, &Entry::Mark(mark))
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn sync(&mut self) -> Result<(), LabellingError> {
        self.pixels.sync_data().map_err(|source| file_error(&self.frames_path, source))?;
        self.lines.sync_data().map_err(|source| file_error(&self.path, source))
    }
}

/// One line in one write.
fn append(file: &mut File, path: &Path, entry: &Entry) -> Result<(), LabellingError> {
    let line = serde_json::to_string(entry).map_err(|error| file_error(path, error.into()))?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> LabellingError {
    LabellingError::File { path: path.into(), source }
}

/// Reads the pixels of frames.
pub(super) struct PixelReader {
    path: PathBuf,
    file: File,
    frame_bytes: usize,
}

impl PixelReader {
    pub(super) fn open(folder: &Path, header: &JournalHeader) -> Result<Self, LabellingError> {
        let path = folder.join(FRAMES_FILE);
        let file = plain_file::open(&path).map_err(|source| file_error(&path, source))?;
        Ok(Self { path, file, frame_bytes: header.frame_bytes().unwrap_or(0) })
    }

    /// The pixels of a frame, which must be those that were written.
    pub(super) fn read(&mut self, number: usize, frame: &JournalFrame) -> Result<Vec<u8>, LabellingError> {
        let mut pixels = vec![0; self.frame_bytes];
        let read = self.file.seek(SeekFrom::Start(frame.at)).and_then(|_| self.file.read_exact(&mut pixels));
        read.map_err(|source| file_error(&self.path, source))?;
        if crc32fast::hash(&pixels) != frame.crc {
            return Err(LabellingError::Damaged { path: self.path.clone(), frame: number, at: frame.at });
        }
        Ok(pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelling::Mark;

    fn header() -> JournalHeader {
        JournalHeader { camera: "wrist_1".into(), height: 2, width: 2 }
    }

    fn written(folder: &Path) -> Recovered {
        let (mut journal, before, _) = Journal::open(folder, &header()).unwrap();
        assert!(before.frames.is_empty());
        for number in 0..4u8 {
            journal.frame(f64::from(number), &[number; 12]).unwrap();
            journal.mark(TimedMark { time: f64::from(number) + 0.5, mark: Mark::Success }).unwrap();
        }
        Recovered::read(folder).unwrap()
    }

    /// Wherever a journal is cut off, every entry before the cut is there, and it can be gone on with.
    #[test]
    fn a_journal_that_is_cut_anywhere_keeps_every_whole_entry() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path());
        assert_eq!((whole.frames.len(), whole.marks.len(), whole.is_cut), (4, 4, false));
        let lines = fs::read(folder.path().join(JOURNAL_FILE)).unwrap();
        let pixels = fs::read(folder.path().join(FRAMES_FILE)).unwrap();
        let first = lines.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..lines.len() {
            let other = tempfile::tempdir().unwrap();
            fs::write(other.path().join(JOURNAL_FILE), &lines[..cut]).unwrap();
            fs::write(other.path().join(FRAMES_FILE), &pixels).unwrap();
            let entries = lines[..cut].iter().filter(|byte| **byte == b'\n').count() - 1;
            let (mut journal, read, starts) = Journal::open(other.path(), &header()).unwrap();
            assert_eq!(read.frames.len() + read.marks.len(), entries, "cut at byte {cut}");
            assert!(starts >= read.end() + SESSION_GAP_SECS);
            let frame = journal.frame(starts, &[9; 12]).unwrap();
            let again = Recovered::read(other.path()).unwrap();
            assert_eq!(again.frames.last(), Some(&frame));
            assert!(!again.is_cut);
            let mut reader = PixelReader::open(other.path(), &header()).unwrap();
            for (number, frame) in again.frames.iter().enumerate() {
                let expected = if number + 1 == again.frames.len() { 9 } else { number as u8 };
                assert_eq!(reader.read(number, frame).unwrap(), [expected; 12]);
            }
        }
    }

    #[test]
    fn lost_or_changed_pixels_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path());
        let path = folder.path().join(FRAMES_FILE);
        let mut pixels = fs::read(&path).unwrap();
        pixels[13] ^= 1;
        fs::write(&path, &pixels).unwrap();
        let mut reader = PixelReader::open(folder.path(), &header()).unwrap();
        assert!(reader.read(0, &whole.frames[0]).is_ok());
        let error = reader.read(1, &whole.frames[1]).unwrap_err().to_string();
        assert!(error.ends_with("frames.bin: frame 1 (from byte 12) is damaged"), "{error}");
        fs::write(&path, &pixels[..30]).unwrap();
        let read = Recovered::read(folder.path()).unwrap();
        assert_eq!((read.frames.len(), read.marks.len(), read.is_cut), (2, 2, true));
    }

    #[test]
    fn other_journals_and_other_people_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, ..) = Journal::open(folder.path(), &header()).unwrap();
        assert!(matches!(Journal::open(folder.path(), &header()), Err(LabellingError::InUse { .. })));
        drop(journal);
        let other = JournalHeader { width: 4, ..header() };
        let error = Journal::open(folder.path(), &other).unwrap_err().to_string();
        assert!(error.contains("camera `wrist_1` of 2x2"), "{error}");
        let path = folder.path().join(JOURNAL_FILE);
        for (text, why) in [
            ("{}\n", "journal.jsonl:1: "),
            ("{\"mark\":{\"time\":0,\"mark\":\"off\"}}\n", "does not begin with its version"),
            (
                "{\"journal\":{\"version\":9,\"header\":{\"camera\":\"x\",\"height\":1,\"width\":1}}}\n",
                "no journal of version 1",
            ),
            (
                "{\"journal\":{\"version\":1,\"header\":{\"camera\":\"x\",\"height\":1,\"width\":99999}}}\n",
                "no journal",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = Recovered::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
