//! Labels of recorded episodes by several people: a journal in a folder, only ever appended to.
//!
//! `labels.jsonl` begins with the dataset that it is about, and has a line for each label and for each one that was taken back. A
//! label is of frames in a row, or of a whole episode. A line is written in one piece and is on the disk before the next label is
//! taken. A last line without its end is the label in flight, and is dropped. What frames are is computed from the lines, by
//! [`frame_labels`] for one person and by [`label_table`] for all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plaudit_pyfiles::plain_file;
use serde::{Deserialize, Serialize};

use super::answers::Answer;
use super::error::LabellingError;
use crate::file_lock;

/// The journal in its folder.
pub const SPANS_FILE: &str = "labels.jsonl";
const VERSION: u32 = 1;
const LARGEST_JOURNAL: u64 = 1 << 30;
/// The longest name of a person.
const LONGEST_NAME: usize = 64;

/// What somebody said of frames in a row, or of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanLabel {
    /// The episode, as a table of labels calls it.
    pub episode: String,
    /// From which frame up to which, that one left out; nothing where it is the whole episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[usize; 2]>,
    /// What they are.
    pub answer: Answer,
    /// Who said so.
    pub by: String,
    /// How many frames late the person was: the span is moved back by them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lag_frames: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it
fn is_zero(frames: &usize) -> bool {
    *frames == 0
}

impl SpanLabel {
    /// The frames that it is about, of an episode that has so many. One that lasts to the end was not let go late.
    fn frames(&self, length: usize) -> Option<std::ops::Range<usize>> {
        let [start, end] = self.span?;
        let end = if end >= length { length } else { end.saturating_sub(self.lag_frames) };
        Some(start.saturating_sub(self.lag_frames).min(end)..end)
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Labels {
        version: u32,
        data: String,
    },
    Label(SpanLabel),
    /// The last label of a person that stands is taken back.
    Undo {
        by: String,
    },
}

/// Labels that are being gathered. One process at a time holds the folder.
#[derive(Debug)]
pub struct SpanJournal {
    path: PathBuf,
    lines: File,
    standing: Vec<SpanLabel>,
}

impl SpanJournal {
    /// Begins a journal in a folder, or goes on with the one that is there. `data` is what people call the dataset.
    ///
    /// # Errors
    /// When the system refuses, another process is at it, a line is damaged, or the labels there are of another dataset.
    pub fn open(folder: &Path, data: &str) -> Result<Self, LabellingError> {
        std::fs::create_dir_all(folder).map_err(|source| file_error(folder, source))?;
        let path = folder.join(SPANS_FILE);
        let lines = file_lock::acquire(&path).map_err(|source| file_error(&path, source))?;
        let lines = lines.ok_or_else(|| LabellingError::InUse { path: folder.into() })?;
        let (standing, whole_bytes) = recover(&path, data)?;
        let mut journal = Self { path, lines, standing };
        // What was in flight is gone for good, so that new lines begin on a line of their own.
        let cut = journal.lines.set_len(whole_bytes).and_then(|()| journal.lines.seek(SeekFrom::End(0)));
        cut.map_err(|source| file_error(&journal.path, source))?;
        if whole_bytes == 0 {
            journal.append(&Line::Labels { version: VERSION, data: data.into() })?;
        }
        Ok(journal)
    }

    /// The labels that stand in a folder, without holding it; none where nobody has begun.
    ///
    /// # Errors
    /// When the system refuses, a line is damaged, or they are of another dataset.
    pub fn read(folder: &Path, data: &str) -> Result<Vec<SpanLabel>, LabellingError> {
        let path = folder.join(SPANS_FILE);
        if !path.exists() {
            return Ok(Vec::new());
        }
        Ok(recover(&path, data)?.0)
    }

    /// The labels that stand, in the order in which they were given.
    #[must_use]
    pub fn standing(&self) -> &[SpanLabel] {
        &self.standing
    }

    /// Keeps a label. It is on the disk when this returns.
    ///
    /// # Errors
    /// When nobody gave it, it is of no frame, or the system refuses.
    pub fn label(&mut self, label: SpanLabel) -> Result<(), LabellingError> {
        let length = label.by.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || label.by.chars().any(char::is_control) {
            let (name, expected) = ("the length of a person's name", "from 1 to 64 letters");
            return Err(LabellingError::Setting { name, value: length as f64, expected });
        }
        if let Some([start, end]) = label.span.filter(|[start, end]| start >= end) {
            let (name, expected) = ("the number of labelled frames", "1 or more");
            return Err(LabellingError::Setting { name, value: end as f64 - start as f64, expected });
        }
        self.append(&Line::Label(label.clone()))?;
        self.standing.push(label);
        Ok(())
    }

    /// Takes the last label of a person that stands back, and gives it; nothing where none stands.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn undo(&mut self, by: &str) -> Result<Option<SpanLabel>, LabellingError> {
        if !self.standing.iter().any(|label| label.by == by) {
            return Ok(None);
        }
        self.append(&Line::Undo { by: by.into() })?;
        Ok(take_back(&mut self.standing, by))
    }

    /// One line in one write, and onto the disk.
    fn append(&mut self, line: &Line) -> Result<(), LabellingError> {
        let text = serde_json::to_string(line).map_err(|error| file_error(&self.path, error.into()))?;
        let written =
            self.lines.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|source| file_error(&self.path, source))
    }
}

fn take_back(standing: &mut Vec<SpanLabel>, by: &str) -> Option<SpanLabel> {
    let last = standing.iter().rposition(|label| label.by == by)?;
    Some(standing.remove(last))
}

/// The labels that stand, and how many bytes are whole lines.
fn recover(path: &Path, data: &str) -> Result<(Vec<SpanLabel>, u64), LabellingError> {
    let bytes = plain_file::read(path, LARGEST_JOURNAL).map_err(|source| file_error(path, source))?;
    let (mut standing, mut whole_bytes) = (Vec::new(), 0);
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let wrong = |why: String| LabellingError::Line { path: path.into(), line: number + 1, why };
        match serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))? {
            Line::Labels { version, .. } if number == 0 && version != VERSION => {
                return Err(wrong(format!("no labels of version {VERSION}")));
            }
            Line::Labels { data: there, .. } if number == 0 && there != data => {
                let (what, here) = ("dataset", data.to_string());
                return Err(LabellingError::OtherQuestions { path: path.into(), what, there, here });
            }
            Line::Labels { .. } if number == 0 => {}
            Line::Labels { .. } => return Err(wrong("a second beginning".into())),
            _ if number == 0 => return Err(wrong("it does not begin with its dataset".into())),
            Line::Label(label) => standing.push(label),
            Line::Undo { by } => drop(take_back(&mut standing, &by)),
        }
        whole_bytes += line.len() as u64;
    }
    Ok((standing, whole_bytes))
}

fn file_error(path: &Path, source: std::io::Error) -> LabellingError {
    LabellingError::File { path: path.into(), source }
}

/// What one person says of every frame of an episode: the later label counts. One of a whole episode that failed is of every frame;
/// one that succeeded does not say where.
#[must_use]
pub fn frame_labels(labels: &[SpanLabel], episode: &str, by: &str, length: usize) -> Vec<Option<Answer>> {
    let mut frames = vec![None; length];
    for label in labels.iter().filter(|label| label.episode == episode && label.by == by) {
        match (label.frames(length), label.answer) {
            (Some(span), answer) => frames[span].fill(Some(answer)),
            (None, Answer::Success) => {}
            (None, answer) => frames.fill(Some(answer)),
        }
    }
    frames
}

/// Frames in a row with one label: from, up to, and what they are.
#[must_use]
pub fn runs(frames: &[Option<Answer>]) -> Vec<(usize, usize, Answer)> {
    let mut runs: Vec<(usize, usize, Answer)> = Vec::new();
    for (at, answer) in frames.iter().enumerate() {
        match (runs.last_mut(), answer) {
            (Some((_, end, last)), Some(answer)) if *end == at && last == answer => *end = at + 1,
            (_, Some(answer)) => runs.push((at, at + 1, *answer)),
            (_, None) => {}
        }
    }
    runs
}

/// What most people say of every frame: nothing where nobody says success or failure, or as many say the one as the other.
#[must_use]
pub fn merged_labels(labels: &[SpanLabel], episode: &str, length: usize) -> Vec<Option<bool>> {
    let mut votes = vec![0i32; length];
    for by in people(labels) {
        for (vote, answer) in votes.iter_mut().zip(frame_labels(labels, episode, &by, length)) {
            *vote += answer.and_then(Answer::label).map_or(0, |success| if success { 1 } else { -1 });
        }
    }
    votes.into_iter().map(|vote| (vote != 0).then_some(vote > 0)).collect()
}

/// Everyone who labelled, by name.
#[must_use]
pub fn people(labels: &[SpanLabel]) -> Vec<String> {
    let mut people: Vec<String> = labels.iter().map(|label| label.by.clone()).collect();
    people.sort();
    people.dedup();
    people
}

/// The labels as a table that [`Rules::labels`](crate::recording::Rules::labels) reads: `episode,start,end,label`. `length` says how
/// many frames an episode has; nothing of one that is gone. An episode that was called a success as a whole, and of which no frame
/// has a label, has a row without frames.
#[must_use]
pub fn label_table(labels: &[SpanLabel], length: impl Fn(&str) -> Option<usize>) -> String {
    let mut table = String::from("episode,start,end,label\n");
    let mut wholes: BTreeMap<&str, bool> = BTreeMap::new();
    for label in labels {
        let is_success = label.span.is_none() && label.answer == Answer::Success;
        *wholes.entry(&label.episode).or_default() |= is_success;
    }
    for (episode, is_success) in wholes {
        let Some(length) = length(episode) else { continue };
        let frames: Vec<Option<Answer>> =
            merged_labels(labels, episode, length).into_iter().map(|label| label.map(Answer::from)).collect();
        let name = cell(episode);
        let runs = runs(&frames);
        for (start, end, answer) in &runs {
            let _ = writeln!(table, "{name},{start},{end},{}", u8::from(*answer == Answer::Success));
        }
        if runs.is_empty() && is_success {
            let _ = writeln!(table, "{name},,,1");
        }
    }
    table
}

/// A text as a table has it: in quotes where it must be.
fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(episode: &str, span: Option<[usize; 2]>, answer: Answer, by: &str) -> SpanLabel {
        SpanLabel { episode: episode.into(), span, answer, by: by.into(), lag_frames: 0 }
    }

    /// One letter for each frame: `c` success, `a` failure, `x` skipped, `.` nothing.
    fn shown(labels: &[SpanLabel], by: &str) -> String {
        let letter = |answer: Option<Answer>| match answer {
            None => '.',
            Some(Answer::Success) => 'c',
            Some(Answer::Failure) => 'a',
            Some(Answer::Skip) => 'x',
        };
        frame_labels(labels, "e", by, 10).into_iter().map(letter).collect()
    }

    #[test]
    fn later_labels_count_and_everybody_has_their_own() {
        use Answer::{Failure, Skip, Success};
        let mut labels =
            vec![label("e", Some([2, 6]), Success, "anna"), label("e", Some([4, 99]), Failure, "anna")];
        assert_eq!(shown(&labels, "anna"), "..ccaaaaaa");
        labels.push(label("e", Some([5, 7]), Skip, "anna"));
        labels.push(label("e", None, Failure, "ben"));
        labels.push(label("other", Some([0, 9]), Success, "anna"));
        assert_eq!(
            (shown(&labels, "anna"), shown(&labels, "ben")),
            ("..ccaxxaaa".into(), "aaaaaaaaaa".into())
        );
        labels.push(label("e", None, Success, "ben"));
        assert_eq!(shown(&labels, "ben"), "aaaaaaaaaa", "a success does not say where");
        let runs = runs(&frame_labels(&labels, "e", "anna", 10));
        assert_eq!(runs, [(2, 4, Success), (4, 5, Failure), (5, 7, Skip), (7, 10, Failure)]);
    }

    #[test]
    fn late_labels_are_moved_back_but_not_at_the_end() {
        let late = |span| SpanLabel { lag_frames: 2, ..label("e", Some(span), Answer::Success, "anna") };
        assert_eq!(shown(&[late([3, 6])], "anna"), ".ccc......");
        assert_eq!(shown(&[late([7, 10])], "anna"), ".....ccccc", "the episode ended, and nobody let go");
        assert_eq!(shown(&[late([0, 1])], "anna"), "..........");
    }

    #[test]
    fn most_people_decide() {
        use Answer::{Failure, Success};
        let labels = [
            label("e", Some([0, 6]), Success, "anna"),
            label("e", Some([2, 8]), Failure, "ben"),
            label("e", Some([4, 9]), Failure, "cara"),
        ];
        let merged: String = merged_labels(&labels, "e", 10)
            .into_iter()
            .map(|label| label.map_or('.', |success| if success { 'c' } else { 'a' }))
            .collect();
        assert_eq!(merged, "cc..aaaaa.");
        let table = label_table(&labels, |_| Some(10));
        assert_eq!(table, "episode,start,end,label\ne,0,2,1\ne,4,9,0\n");
        let whole = [label("a,b", None, Success, "anna"), label("gone", None, Success, "anna")];
        let table = label_table(&whole, |episode| (episode != "gone").then_some(5));
        assert_eq!(table, "episode,start,end,label\n\"a,b\",,,1\n");
    }

    /// Wherever a journal is cut off, every whole label before the cut is there, and it can be gone on with.
    #[test]
    fn a_journal_that_is_cut_anywhere_keeps_every_whole_label() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = SpanJournal::open(folder.path(), "play").unwrap();
        for at in 0..3 {
            let by = if at == 1 { "ben" } else { "anna" };
            journal.label(label("e", Some([at, at + 1]), Answer::Success, by)).unwrap();
        }
        assert_eq!(journal.undo("ben").unwrap().unwrap().span, Some([1, 2]));
        assert_eq!(journal.undo("ben").unwrap(), None);
        assert!(SpanJournal::open(folder.path(), "play").is_err(), "one process at a time");
        drop(journal);
        let bytes = std::fs::read(folder.path().join(SPANS_FILE)).unwrap();
        // What stands after each whole line: the beginning, three labels, an undo.
        let standing = [&[][..], &[0], &[0, 1], &[0, 1, 2], &[0, 2]];
        for cut in 0..=bytes.len() {
            let other = tempfile::tempdir().unwrap();
            std::fs::write(other.path().join(SPANS_FILE), &bytes[..cut]).unwrap();
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let starts =
                |labels: &[SpanLabel]| labels.iter().map(|label| label.span.unwrap()[0]).collect::<Vec<_>>();
            let mut journal = SpanJournal::open(other.path(), "play").unwrap();
            assert_eq!(starts(journal.standing()), standing[lines.saturating_sub(1)], "cut at byte {cut}");
            journal.label(label("e", Some([9, 10]), Answer::Skip, "anna")).unwrap();
            drop(journal);
            let again = SpanJournal::read(other.path(), "play").unwrap();
            assert_eq!(starts(&again).last(), Some(&9), "cut at byte {cut}");
        }
    }

    #[test]
    fn what_is_no_label_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(SpanJournal::read(folder.path(), "play").unwrap().is_empty());
        let mut journal = SpanJournal::open(folder.path(), "play").unwrap();
        for (span, by) in [([3, 3], "anna"), ([4, 3], "anna"), ([0, 1], ""), ([0, 1], "a\nb")] {
            assert!(journal.label(label("e", Some(span), Answer::Success, by)).is_err(), "{span:?} {by:?}");
        }
        drop(journal);
        let error = SpanJournal::open(folder.path(), "walk").unwrap_err().to_string();
        assert!(error.contains("dataset: play there, walk here"), "{error}");
        std::fs::write(folder.path().join(SPANS_FILE), "{\"undo\":{\"by\":\"anna\"}}\n").unwrap();
        assert!(SpanJournal::open(folder.path(), "play").is_err());
    }
}
