//! The first pass: episodes, their labels, and where their images are.

use std::path::{Path, PathBuf};

use super::ImageOptions;
use crate::convert::error::{BadFile, ConvertError, FileProblem};
use crate::convert::frames::{Frame, Reading, Recording};
use crate::convert::picture::Form;
use crate::convert::progress::OnProgress;
use crate::convert::sampling::sample;
use crate::convert::scan::{Scan, scan};
use crate::convert::source::{InputFile, Source};
use crate::convert::split::cut_lone_blocks;
use crate::convert::stored::{KnownFile, Stored};
use crate::python::{Array, Buffer, PyValue};

/// An episode, or a block of a long one: what may not be on both sides.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    pub(super) file: u32,
    /// Which of its file.
    pub(super) number: u32,
    /// The frames that were sampled.
    pub(super) frames: Vec<LabelledFrame>,
}

impl Episode {
    pub(super) fn has_success(&self) -> bool {
        self.frames.iter().any(|frame| frame.success)
    }
}

/// An image and its label.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelledFrame {
    pub(super) image: Stored,
    pub(super) success: bool,
    /// Which entry of its file it is.
    pub(super) at: u32,
}

/// All that the first pass found.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) files: Vec<KnownFile>,
    pub(super) episodes: Vec<Episode>,
    pub(super) bad: Vec<BadFile>,
}

impl Labelled {
    /// What makes two episodes the same: the real file, and their number in it.
    pub(super) fn identity(&self, episode: usize) -> (PathBuf, u32) {
        let Episode { file, number, .. } = self.episodes[episode];
        let path = &self.files[file as usize].path;
        (path.canonicalize().unwrap_or_else(|_| path.clone()), number)
    }

    /// What an episode is called: its file, and its number where the file has several.
    pub(super) fn name(&self, episode: usize) -> String {
        let Episode { file, number, .. } = self.episodes[episode];
        let stem = self.files[file as usize].path.file_stem().unwrap_or_default().to_string_lossy();
        let neighbour = |at: usize| self.episodes.get(at).is_some_and(|other| other.file == file);
        let alone = !neighbour(episode + 1) && !neighbour(episode.wrapping_sub(1));
        if alone { stem.into_owned() } else { format!("{stem}_{number}") }
    }
}

/// Reads, labels and samples all episodes.
pub(super) fn label(
    raw: &Path,
    reading: &Reading,
    options: &ImageOptions,
    progress: &OnProgress<'_>,
) -> Result<Labelled, ConvertError> {
    let input = reading.source.files(raw)?;
    let look = |value: &PyValue, bytes: &Buffer, file: &InputFile, number: usize| {
        let recordings = reading.recordings(value, file)?;
        Found::in_file(reading, recordings, bytes, number, options)
    };
    let mut scan = scan(raw, &input, options.bad_files, progress, look)?;
    refuse_other_sizes(&mut scan, reading);
    scan.stop_if_bad(raw, options.bad_files)?;
    let mut episodes: Vec<Episode> = scan.found.into_iter().flat_map(|found| found.episodes).collect();
    if reading.source == Source::Keyboard {
        episodes = cut(episodes, options.val_split);
    }
    Ok(Labelled { files: scan.files, episodes, bad: scan.bad })
}

/// What one file holds.
struct Found {
    episodes: Vec<Episode>,
    shape: [usize; 3],
    /// The entry that has another shape, if any.
    other: Option<(usize, [usize; 3])>,
}

impl Found {
    fn in_file(
        reading: &Reading,
        recordings: Vec<Recording>,
        bytes: &Buffer,
        file: usize,
        options: &ImageOptions,
    ) -> Result<Self, FileProblem> {
        let mut found = Self { episodes: Vec::new(), shape: [0; 3], other: None };
        let mut seen = 0;
        for (number, recording) in recordings.into_iter().enumerate() {
            let kept =
                sample(recording.frames.len(), options.num_samples_per_episode, options.keep_last_frame);
            let mut frames = Vec::with_capacity(kept.len());
            for at in kept {
                let Frame { image, label, at: entry, .. } = &recording.frames[at];
                let form = Form::of(image, reading.layout(), reading.strictness(), || reading.place(*entry))?;
                found.note_shape(*entry, form.shape());
                frames.push(LabelledFrame {
                    image: Stored::of(image, form, bytes, file, seen + at),
                    success: *label,
                    at: *entry as u32,
                });
            }
            seen += recording.frames.len();
            found.episodes.push(Episode { file: file as u32, number: number as u32, frames });
        }
        Ok(found)
    }

    fn note_shape(&mut self, entry: usize, shape: [usize; 3]) {
        if self.shape == [0; 3] {
            self.shape = shape;
        } else if self.shape != shape && self.other.is_none() {
            self.other = Some((entry, shape));
        }
    }
}

/// All images of a file, in the order in which [`Stored`] numbers them.
pub(super) fn images(
    reading: &Reading,
    value: &PyValue,
    path: &Path,
    input: &[InputFile],
) -> Result<Vec<Array>, FileProblem> {
    let outcome = input.iter().find(|file| file.path == path).and_then(|file| file.outcome);
    let recordings = reading.recordings(value, &InputFile { path: path.into(), outcome })?;
    Ok(recordings.into_iter().flat_map(|recording| recording.frames).map(|frame| frame.image).collect())
}

/// The first file says how large images are. Files that differ, in part or in whole, are bad.
fn refuse_other_sizes(scan: &mut Scan<Found>, reading: &Reading) {
    let Some(first) = scan.found.first() else { return };
    let expected = first.shape;
    let path_of = |found: &Found, files: &[KnownFile]| {
        let file = found.episodes.first().map_or(0, |episode| episode.file);
        files[file as usize].path.clone()
    };
    let other = path_of(first, &scan.files);
    let (files, bad) = (&scan.files, &mut scan.bad);
    scan.found.retain(|found| {
        let wrong = if found.shape == expected { found.other } else { Some((0, found.shape)) };
        let Some((entry, shape)) = wrong else { return true };
        let place = reading.place(entry);
        let problem = FileProblem::Size { place, found: shape, expected, other: other.clone() };
        bad.push(problem.in_file(path_of(found, files)));
        false
    });
}

/// Sees to it that each class has two blocks at least, where it has two frames.
fn cut(blocks: Vec<Episode>, val_split: f64) -> Vec<Episode> {
    let mut frames: Vec<Vec<LabelledFrame>> = blocks.into_iter().map(|block| block.frames).collect();
    cut_lone_blocks(&mut frames, val_split, |frame| frame.success);
    let whole = |(number, frames): (usize, Vec<LabelledFrame>)| {
        let file = frames.first().map_or(0, |frame| frame.image.file);
        Episode { file, number: number as u32, frames }
    };
    frames.into_iter().enumerate().map(whole).collect()
}
