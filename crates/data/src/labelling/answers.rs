//! Answers about recorded frames: a journal in a folder, only ever appended to.
//!
//! `answers.jsonl` begins with what was asked about, and has a line for each answer and for each one that was taken back. A line
//! is written in one piece and is on the disk before the next question is asked. A last line without its end is the answer in
//! flight, and is dropped.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plaudit_pyfiles::plain_file;
use serde::{Deserialize, Serialize};

use super::error::LabellingError;
use crate::file_lock;

/// The journal of answers in its folder.
pub const ANSWERS_FILE: &str = "answers.jsonl";
const VERSION: u32 = 1;
const LARGEST_JOURNAL: u64 = 1 << 30;

/// What was asked about, and how questions were chosen: what must stay the same in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswersHeader {
    /// The frames, as they were named.
    pub data: String,
    /// How many there are.
    pub frames: usize,
    /// SHA-256 over their pixels.
    pub sha256: String,
    /// The views that were shown.
    pub views: Vec<String>,
    /// Every so many questions, one is a check; 0: none.
    pub check_every: usize,
    /// The seed of what is chosen at random.
    pub seed: u64,
}

/// What a question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The answer is learned from.
    Train,
    /// The answer only measures.
    Check,
}

/// What somebody said about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It shows success.
    Success,
    /// It does not.
    Failure,
    /// Nobody can tell from this frame.
    Skip,
}

impl Answer {
    /// The label, if there is one.
    #[must_use]
    pub fn label(self) -> Option<bool> {
        match self {
            Self::Success => Some(true),
            Self::Failure => Some(false),
            Self::Skip => None,
        }
    }
}

impl From<bool> for Answer {
    fn from(success: bool) -> Self {
        if success { Self::Success } else { Self::Failure }
    }
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Annotator {
    /// Somebody at a keyboard.
    Person,
    /// The success that was recorded with the data.
    Recorded,
}

/// An answered question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The number of the frame in the data.
    pub frame: usize,
    /// Its episode, for people who read the journal.
    pub episode: String,
    /// Which entry of its episode it is.
    pub at: usize,
    /// What the question was for.
    pub purpose: Purpose,
    /// The answer.
    pub answer: Answer,
    /// Who gave it.
    pub by: Annotator,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Answers {
        version: u32,
        #[serde(flatten)]
        header: AnswersHeader,
    },
    Answer(Answered),
    /// The last answer that stands is taken back.
    Undo {},
}

/// Answers that are being gathered. One process at a time holds the folder.
#[derive(Debug)]
pub struct AnswerJournal {
    path: PathBuf,
    lines: File,
    standing: Vec<Answered>,
    taken_back: Vec<Answered>,
}

impl AnswerJournal {
    /// Begins a journal in a folder, or goes on with the one that is there.
    ///
    /// # Errors
    /// When the system refuses, another process is at it, a line is damaged, or the answers there are about something else.
    pub fn open(folder: &Path, header: &AnswersHeader) -> Result<Self, LabellingError> {
        std::fs::create_dir_all(folder).map_err(|source| file_error(folder, source))?;
        let path = folder.join(ANSWERS_FILE);
        let lines = file_lock::acquire(&path).map_err(|source| file_error(&path, source))?;
        let lines = lines.ok_or_else(|| LabellingError::InUse { path: folder.into() })?;
        let mut journal = Self { path, lines, standing: Vec::new(), taken_back: Vec::new() };
        let whole_bytes = journal.recover(header)?;
        // What was in flight is gone for good, so that new lines begin on a line of their own.
        let cut = journal.lines.set_len(whole_bytes).and_then(|()| journal.lines.seek(SeekFrom::End(0)));
        cut.map_err(|source| file_error(&journal.path, source))?;
        if whole_bytes == 0 {
            journal.append(&Line::Answers { version: VERSION, header: header.clone() })?;
        }
        Ok(journal)
    }

    /// Reads what is there; gives how many bytes of it are whole lines.
    fn recover(&mut self, header: &AnswersHeader) -> Result<u64, LabellingError> {
        let bytes = plain_file::read(&self.path, LARGEST_JOURNAL);
        let bytes = bytes.map_err(|source| file_error(&self.path, source))?;
        let mut whole_bytes = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(text) = line.strip_suffix(b"\n") else { break };
            let wrong = |why: String| LabellingError::Line { path: self.path.clone(), line: number + 1, why };
            let line_read = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
            match line_read {
                Line::Answers { version, header: there } if number == 0 => {
                    if version != VERSION {
                        return Err(wrong(format!("no answers of version {VERSION}")));
                    }
                    refuse_other(&self.path, &there, header)?;
                }
                Line::Answers { .. } => return Err(wrong("a second beginning".into())),
                _ if number == 0 => return Err(wrong("it does not begin with what was asked about".into())),
                Line::Answer(answered) if answered.frame >= header.frames => {
                    return Err(wrong(format!("there is no frame {}", answered.frame)));
                }
                Line::Answer(answered) => self.standing.push(answered),
                Line::Undo {} => self.taken_back.extend(self.standing.pop()),
            }
            whole_bytes += line.len() as u64;
        }
        Ok(whole_bytes)
    }

    /// The answers that stand, in the order in which they were given.
    #[must_use]
    pub fn standing(&self) -> &[Answered] {
        &self.standing
    }

    /// Answers that were taken back.
    #[must_use]
    pub fn taken_back(&self) -> &[Answered] {
        &self.taken_back
    }

    /// Keeps an answer. It is on the disk when this returns.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn answer(&mut self, answered: Answered) -> Result<(), LabellingError> {
        self.append(&Line::Answer(answered.clone()))?;
        self.standing.push(answered);
        Ok(())
    }

    /// Takes the last answer that stands back, and gives it; nothing where none stands.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn undo(&mut self) -> Result<Option<Answered>, LabellingError> {
        if self.standing.is_empty() {
            return Ok(None);
        }
        self.append(&Line::Undo {})?;
        let undone = self.standing.pop();
        self.taken_back.extend(undone.clone());
        Ok(undone)
    }

    /// One line in one write, and onto the disk.
    fn append(&mut self, line: &Line) -> Result<(), LabellingError> {
        let text = serde_json::to_string(line).map_err(|error| file_error(&self.path, error.into()))?;
        let written =
            self.lines.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|source| file_error(&self.path, source))
    }
}

/// Refuses a folder in which something else was asked.
fn refuse_other(path: &Path, there: &AnswersHeader, here: &AnswersHeader) -> Result<(), LabellingError> {
    let other = |what, there: String, here: String| {
        Err(LabellingError::OtherQuestions { path: path.into(), what, there, here })
    };
    if (&there.sha256, there.frames) != (&here.sha256, here.frames) {
        let frames = |header: &AnswersHeader| format!("{} ({} frames)", header.data, header.frames);
        return match there.data == here.data && there.frames == here.frames {
            true => other("data", format!("{} with other pixels", frames(there)), frames(here)),
            false => other("data", frames(there), frames(here)),
        };
    }
    if there.views != here.views {
        return other("cameras", there.views.join(", "), here.views.join(", "));
    }
    if there.check_every != here.check_every {
        return other("distance between checks", there.check_every.to_string(), here.check_every.to_string());
    }
    if there.seed != here.seed {
        return other("seed", there.seed.to_string(), here.seed.to_string());
    }
    Ok(())
}

fn file_error(path: &Path, source: std::io::Error) -> LabellingError {
    LabellingError::File { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> AnswersHeader {
        let views = vec!["main_images".into()];
        AnswersHeader {
            data: "play".into(),
            frames: 100,
            sha256: "ab".into(),
            views,
            check_every: 3,
            seed: 1,
        }
    }

    fn answered(frame: usize, answer: Answer) -> Answered {
        let episode = format!("episode_{}", frame / 10);
        let (purpose, by) = (Purpose::Train, Annotator::Person);
        Answered { frame, episode, at: frame % 10, purpose, answer, by }
    }

    /// Wherever a journal is cut off, every whole answer before the cut is there, and it can be gone on with.
    #[test]
    fn a_journal_that_is_cut_anywhere_keeps_every_whole_answer() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = AnswerJournal::open(folder.path(), &header()).unwrap();
        for (frame, answer) in [(7, Answer::Success), (90, Answer::Skip), (12, Answer::Failure)] {
            journal.answer(answered(frame, answer)).unwrap();
        }
        assert_eq!(journal.undo().unwrap().unwrap().frame, 12);
        journal.answer(answered(12, Answer::Success)).unwrap();
        drop(journal);
        let bytes = std::fs::read(folder.path().join(ANSWERS_FILE)).unwrap();
        // What stands after each whole line: the header, three answers, an undo, an answer.
        let standing = [&[][..], &[7], &[7, 90], &[7, 90, 12], &[7, 90], &[7, 90, 12]];
        for cut in 0..=bytes.len() {
            let other = tempfile::tempdir().unwrap();
            std::fs::write(other.path().join(ANSWERS_FILE), &bytes[..cut]).unwrap();
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let mut journal = AnswerJournal::open(other.path(), &header()).unwrap();
            let frames = |journal: &AnswerJournal| -> Vec<usize> {
                journal.standing().iter().map(|answered| answered.frame).collect()
            };
            assert_eq!(frames(&journal), standing[lines.saturating_sub(1)], "cut at byte {cut}");
            journal.answer(answered(99, Answer::Failure)).unwrap();
            drop(journal);
            let again = AnswerJournal::open(other.path(), &header()).unwrap();
            assert_eq!(frames(&again).last(), Some(&99), "cut at byte {cut}");
        }
    }

    #[test]
    fn answers_about_something_else_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        drop(AnswerJournal::open(folder.path(), &header()).unwrap());
        let other = |change: fn(&mut AnswersHeader)| {
            let mut other = header();
            change(&mut other);
            AnswerJournal::open(folder.path(), &other).unwrap_err().to_string()
        };
        type Change = fn(&mut AnswersHeader);
        let cases: [(Change, &str); 5] = [
            (
                |it| (it.sha256, it.data, it.frames) = ("cd".into(), "walk".into(), 8),
                "data: play (100 frames) there, walk (8 frames) here",
            ),
            (|it| it.sha256 = "cd".into(), "play (100 frames) with other pixels there"),
            (|it| it.views.push("hand".into()), "cameras: main_images there, main_images, hand here"),
            (|it| it.check_every = 0, "distance between checks: 3 there, 0 here"),
            (|it| it.seed = 2, "seed: 1 there, 2 here"),
        ];
        for (change, expected) in cases {
            let error = other(change);
            assert!(error.contains(expected), "`{expected}` is not in: {error}");
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_two_processes_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let held = AnswerJournal::open(folder.path(), &header()).unwrap();
        let error = AnswerJournal::open(folder.path(), &header()).unwrap_err();
        assert!(matches!(error, LabellingError::InUse { .. }), "{error}");
        drop(held);
        let path = folder.path().join(ANSWERS_FILE);
        let begun = std::fs::read_to_string(&path).unwrap();
        for (line, why) in [
            ("{\"answer\":7}\n", "invalid type"),
            (
                "{\"undo\":{}}\n{\"answer\":{\"frame\":100,\"episode\":\"\",\"at\":0,\"purpose\":\"train\",\"answer\":\"skip\",\"by\":\"person\"}}\n",
                "there is no frame 100",
            ),
            (&begun, "a second beginning"),
        ] {
            std::fs::write(&path, format!("{begun}{line}")).unwrap();
            let error = AnswerJournal::open(folder.path(), &header()).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("answers.jsonl:"), "{error}");
        }
    }
}
