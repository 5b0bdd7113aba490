//! The first pass: episodes, their labels, and where their images are.

use std::path::{Path, PathBuf};

use super::ImageOptions;
use crate::convert::error::ConvertError;
use crate::convert::progress::OnProgress;
use crate::convert::sampling::sample;
use crate::convert::scan::{Scan, scan};
use crate::convert::split::{FramePick, cut_lone_blocks};
use crate::convert::stored::{KnownFile, StoredImage};
use crate::recording::{
    BadFile, CameraKey, ChannelOrder, FileProblem, Frame, Item, ItemFrames, LabelledEntry, MAIN, Recordings,
    SplitUnit, Strictness,
};

/// An episode, or a block of a long one: what may not be on both sides.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    pub(super) file: u32,
    /// Which of its file.
    pub(super) number: u32,
    pub(super) name: String,
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
    pub(super) image: StoredImage,
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
        let Episode { file, number, .. } = &self.episodes[episode];
        let path = &self.files[*file as usize].path;
        (path.canonicalize().unwrap_or_else(|_| path.clone()), *number)
    }

    pub(super) fn frame(&self, pick: FramePick) -> &LabelledFrame {
        &self.episodes[pick.episode as usize].frames[pick.frame as usize]
    }

    /// Successes and failures.
    pub(super) fn classes(&self, picks: &[FramePick]) -> [usize; 2] {
        let successes = picks.iter().filter(|pick| self.frame(**pick).success).count();
        [successes, picks.len() - successes]
    }

    /// Every frame of each episode, in order.
    pub(super) fn picks(&self) -> Vec<Vec<FramePick>> {
        let picks = |(number, episode): (usize, &Episode)| {
            let frames = 0..episode.frames.len() as u32;
            frames.map(|frame| FramePick { episode: number as u32, frame }).collect()
        };
        self.episodes.iter().enumerate().map(picks).collect()
    }
}

/// The image of each labelled frame: which camera, and what is known about its pixels.
pub(super) struct FrameReader<'a> {
    pub(super) recordings: &'a Recordings,
    camera: [CameraKey; 1],
    /// The order of channels, where somebody vouches for it.
    channel_order: Option<ChannelOrder>,
    strictness: Strictness,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(recordings: &'a Recordings, options: &ImageOptions) -> Self {
        let (channel_order, strictness) = recordings.format.pixels(options.channel_order);
        let camera = CameraKey::parse(options.image_key.as_deref().unwrap_or(MAIN));
        Self { recordings, camera: [camera], channel_order, strictness }
    }

    fn location(&self, item: &Item, entry: usize) -> String {
        item.location(entry, &self.camera[0].written)
    }

    fn frames(&self, item: &Item) -> Result<ItemFrames<(Frame, LabelledEntry)>, FileProblem> {
        item.labelled_frames(&self.camera, |_, entry, mut images| Ok((images.swap_remove(0), entry)))
    }

    /// All images of an item, in the order in which [`StoredImage`] numbers them.
    pub(super) fn images(&self, number: usize) -> Result<Vec<Frame>, FileProblem> {
        let found = self.frames(&self.recordings.items[number])?;
        Ok(found.episodes.into_iter().flat_map(|(_, frames)| frames).map(|(frame, _)| frame).collect())
    }
}

/// Reads, labels and samples all episodes.
pub(super) fn label(
    raw: &Path,
    reader: &FrameReader<'_>,
    options: &ImageOptions,
    progress: &OnProgress<'_>,
) -> Result<Labelled, ConvertError> {
    let extract = |item: &Item, number: usize| ScannedFile::of(reader, item, number, options);
    let items = &reader.recordings.items;
    let mut scan = scan(raw, items, options.rules.bad_files, progress, extract)?;
    refuse_other_sizes(&mut scan, reader);
    scan.stop_if_bad(raw, options.rules.bad_files)?;
    let mut episodes: Vec<Episode> = scan.found.into_iter().flat_map(|found| found.episodes).collect();
    if reader.recordings.format.split_unit() == SplitUnit::Run {
        episodes = cut(episodes, options.val_split, items);
    }
    Ok(Labelled { files: scan.files, episodes, bad: scan.bad })
}

/// What one item holds.
struct ScannedFile {
    episodes: Vec<Episode>,
    shape: [usize; 3],
    /// The entry that has another shape, if any.
    other: Option<(usize, [usize; 3])>,
}

impl ScannedFile {
    fn of(
        reader: &FrameReader<'_>,
        item: &Item,
        file: usize,
        options: &ImageOptions,
    ) -> Result<Self, FileProblem> {
        let ItemFrames { bytes, episodes, .. } = reader.frames(item)?;
        let mut found = Self { episodes: Vec::new(), shape: [0; 3], other: None };
        let mut seen = 0;
        for (number, (name, unit)) in episodes.into_iter().enumerate() {
            let kept = sample(unit.len(), options.num_samples_per_episode, options.keep_last_frame);
            let mut frames = Vec::with_capacity(kept.len());
            for at in kept {
                let (image, LabelledEntry { entry, success, .. }) = &unit[at];
                let location = || reader.location(item, *entry);
                let pixel_format = image.pixel_format(reader.channel_order, reader.strictness, location)?;
                found.note_shape(*entry, pixel_format.shape());
                frames.push(LabelledFrame {
                    image: StoredImage::of(image, pixel_format, bytes.as_ref(), file, seen + at),
                    success: *success,
                    at: *entry as u32,
                });
            }
            seen += unit.len();
            found.episodes.push(Episode { file: file as u32, number: number as u32, name, frames });
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

/// The first file says how large images are. Files that differ, even in one image, are bad.
fn refuse_other_sizes(scan: &mut Scan<ScannedFile>, reader: &FrameReader<'_>) {
    let Some(first) = scan.found.first() else { return };
    let expected = first.shape;
    let item_of = |found: &ScannedFile| {
        let file = found.episodes.first().map_or(0, |episode| episode.file);
        &reader.recordings.items[file as usize]
    };
    let other = item_of(first).path.clone();
    let bad = &mut scan.bad;
    scan.found.retain(|found| {
        let wrong = if found.shape == expected { found.other } else { Some((0, found.shape)) };
        let Some((entry, shape)) = wrong else { return true };
        let location = reader.location(item_of(found), entry);
        let problem = FileProblem::Size { location, found: shape, expected, other: other.clone() };
        bad.push(problem.in_file(&item_of(found).path));
        false
    });
}

/// Sees to it that each class has two blocks at least, where it has two frames.
fn cut(mut blocks: Vec<Episode>, val_split: f64, items: &[Item]) -> Vec<Episode> {
    let mut frames: Vec<_> = blocks.iter_mut().map(|block| std::mem::take(&mut block.frames)).collect();
    cut_lone_blocks(&mut frames, val_split, |frame| frame.success);
    for (number, frames) in frames.into_iter().enumerate() {
        if number == blocks.len() {
            let file = frames.first().map_or(0, |frame| frame.image.file);
            let name = format!("{}_{number}", items[file as usize].stem());
            blocks.push(Episode { file, number: number as u32, name, frames: Vec::new() });
        }
        blocks[number].frames = frames;
    }
    blocks
}
