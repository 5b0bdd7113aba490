//! The first pass: episodes, their labels, and where their images are.

use std::path::{Path, PathBuf};

use plaudit_pyfiles::Buffer;

use super::ImageOptions;
use crate::convert::error::ConvertError;
use crate::convert::progress::OnProgress;
use crate::convert::sampling::sample;
use crate::convert::scan::{Scan, scan};
use crate::convert::split::cut_lone_blocks;
use crate::convert::stored::{KnownFile, StoredImage};
use crate::recording::{
    BadFile, CameraKey, ChannelOrder, FileProblem, Frame, Item, LabelledEntry, MAIN, Recordings, SplitUnit,
    Strictness,
};

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

/// The image of each labelled frame: which camera, and what is known about its pixels.
pub(super) struct FrameReader<'a> {
    pub(super) recordings: &'a Recordings,
    camera: CameraKey,
    /// The order of channels, where somebody vouches for it.
    channel_order: Option<ChannelOrder>,
    strictness: Strictness,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(recordings: &'a Recordings, options: &ImageOptions) -> Self {
        let (channel_order, strictness) = recordings.format.pixels(options.channel_order);
        let camera = CameraKey::parse(options.image_key.as_deref().unwrap_or(MAIN));
        Self { recordings, camera, channel_order, strictness }
    }

    fn location(&self, item: &Item, entry: usize) -> String {
        item.location(entry, &self.camera.written)
    }

    /// The labelled frames of an item that have an image, by the pieces that a split keeps together.
    fn units(&self, item: &Item) -> Result<(Option<Buffer>, Vec<Unit>), FileProblem> {
        let (bytes, recordings) = item.open()?;
        let mut units = Vec::new();
        let mut has = None;
        for mut recording in recordings {
            for unit in recording.units()? {
                let mut frames = Vec::with_capacity(unit.len());
                for entry in unit {
                    let observation = &recording.observations[entry.at];
                    let frame = observation.image(&self.camera, || self.location(item, entry.entry))?;
                    frames.extend(frame.map(|frame| (frame, entry)));
                }
                units.push(frames);
            }
            has = has.or_else(|| recording.observations.first().map(|first| first.names()));
        }
        units.retain(|frames| !frames.is_empty());
        if units.is_empty() {
            let (key, has) = (self.camera.written.clone(), has.unwrap_or_else(|| "nothing".into()));
            return Err(FileProblem::NoImages { key, has });
        }
        Ok((bytes, units))
    }

    /// All images of an item, in the order in which [`StoredImage`] numbers them.
    pub(super) fn images(&self, number: usize) -> Result<Vec<Frame>, FileProblem> {
        let (_, units) = self.units(&self.recordings.items[number])?;
        Ok(units.into_iter().flatten().map(|(frame, _)| frame).collect())
    }
}

/// Labelled images that stay together.
type Unit = Vec<(Frame, LabelledEntry)>;

/// Reads, labels and samples all episodes.
pub(super) fn label(
    raw: &Path,
    reader: &FrameReader<'_>,
    options: &ImageOptions,
    progress: &OnProgress<'_>,
) -> Result<Labelled, ConvertError> {
    let extract = |item: &Item, number: usize| ScannedFile::of(reader, item, number, options);
    let items = &reader.recordings.items;
    let mut scan = scan(raw, items, options.bad_files, progress, extract)?;
    refuse_other_sizes(&mut scan, reader);
    scan.stop_if_bad(raw, options.bad_files)?;
    let mut episodes: Vec<Episode> = scan.found.into_iter().flat_map(|found| found.episodes).collect();
    if reader.recordings.format.split_unit() == SplitUnit::Run {
        episodes = cut(episodes, options.val_split);
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
        let (bytes, units) = reader.units(item)?;
        let mut found = Self { episodes: Vec::new(), shape: [0; 3], other: None };
        let mut seen = 0;
        for (number, unit) in units.into_iter().enumerate() {
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
fn cut(blocks: Vec<Episode>, val_split: f64) -> Vec<Episode> {
    let mut frames: Vec<Vec<LabelledFrame>> = blocks.into_iter().map(|block| block.frames).collect();
    cut_lone_blocks(&mut frames, val_split, |frame| frame.success);
    let whole = |(number, frames): (usize, Vec<LabelledFrame>)| {
        let file = frames.first().map_or(0, |frame| frame.image.file);
        Episode { file, number: number as u32, frames }
    };
    frames.into_iter().enumerate().map(whole).collect()
}
