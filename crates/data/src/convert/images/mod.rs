//! Labelled images for a classifier: `train.pt` and `val.pt` as RLinf's `preprocess_reward_dataset.py` makes them, or a
//! store for each split.
//!
//! For the same episodes, options and seed, `train.pt` holds the same images and labels in the same order as
//! RLinf's. So does `val.pt` with [`ImageOptions::balance_val`]. Without it the validation split holds every sampled
//! frame of its episodes, in order: a validation set whose classes were evened out says little about how often the
//! model will be right on a robot that mostly fails.
//!
//! Two more differences: a file that cannot be used is an error unless [`Rules::bad_files`] says otherwise, and images are always
//! written as bytes of height, width and channel (floats from 0 to 1 become bytes).

mod episodes;
mod metadata;
mod output;
mod to_pt;
mod to_store;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::error::{ConvertError, ConvertOption};
use super::leakage::{FingerprintedImage, Leakage};
use super::leftovers;
use super::progress::{OnProgress, Stage};
use super::python_random::PythonRandom;
use super::split::{Choice, ChosenFrames, FramePick};
use super::stored::Files;
use crate::recording::{BadFile, ChannelOrder, DatasetFormat, Recordings, Rules, SplitUnit};
use episodes::{Episode, FrameReader, Labelled};
use output::{Output, SplitInput, WrittenImages};

pub use output::ImageFormat;

/// How images are chosen.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Frames kept of each episode, evenly spaced; zero or below keeps all.
    pub num_samples_per_episode: i64,
    /// Whether the last frame is always among them.
    pub keep_last_frame: bool,
    /// The share of episodes that validate; at least one does.
    pub val_split: f64,
    /// Failures kept for each success.
    pub fail_success_ratio: f64,
    /// The seed of Python's generator.
    pub seed: i64,
    /// Whether failures are dropped from the validation split too, as RLinf does.
    pub balance_val: bool,
    /// How recordings are read.
    pub rules: Rules,
    /// The key of the images, where it is not the collector's own (`main_images`, `base_camera`).
    pub image_key: Option<String>,
    /// Whether images in pickles have their channels first.
    pub channel_order: ChannelOrder,
    /// What is written.
    pub format: ImageFormat,
    /// Bytes of images held at a time. Besides, each frame takes some 500 bytes until the end.
    pub memory_bytes: usize,
}

impl Default for ImageOptions {
    /// RLinf's defaults, and 64 MiB.
    fn default() -> Self {
        Self {
            num_samples_per_episode: 0,
            keep_last_frame: true,
            val_split: 0.2,
            fail_success_ratio: 2.0,
            seed: 42,
            balance_val: false,
            rules: Rules::default(),
            image_key: None,
            channel_order: ChannelOrder::default(),
            format: ImageFormat::default(),
            memory_bytes: 64 << 20,
        }
    }
}

/// What was made.
#[derive(Debug)]
pub struct ImageReport {
    /// What is in the files under `metadata`, as JSON: RLinf's keys first, then ours.
    pub metadata: serde_json::Value,
    /// What the recording is.
    pub source: DatasetFormat,
    /// Training images: successes and failures.
    pub train: [usize; 2],
    /// Validation images: successes and failures.
    pub val: [usize; 2],
    /// What the two share.
    pub leakage: Leakage,
    /// Files that were left out.
    pub skipped: Vec<BadFile>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl ImageReport {
    /// The metadata as RLinf's script prints them: JSON, indented by two spaces.
    #[must_use]
    pub fn metadata_text(&self) -> String {
        super::python_json::page(&self.metadata).unwrap_or_default()
    }
}

/// Makes `train` and `val`, files or folders by [`ImageOptions::format`], out of the recording at `raw`. They get their
/// names at the very end, when all images are written.
///
/// # Errors
/// When nothing usable is there, a file is bad and bad ones are not skipped, a split would be empty, or the system
/// refuses. What was there before stays.
pub fn convert_images(
    raw: &Path,
    train: &Path,
    val: &Path,
    options: &ImageOptions,
    progress: &OnProgress<'_>,
) -> Result<ImageReport, ConvertError> {
    check(train, val, options)?;
    let recordings = Recordings::open(raw, &options.rules)?;
    let reader = FrameReader::new(&recordings, options);
    let labelled = episodes::label(raw, &reader, options, progress)?;
    let chosen = choose_images(raw, &labelled, recordings.format, options)?;
    for path in [train, val] {
        make_parent(path)?;
    }
    let cleared = leftovers::clear(&[train.into(), val.into()]);
    let again = |number: usize| reader.images(number);
    let files = Files { known: &labelled.files, images: &again };
    let outputs = [Output::create(options.format, train)?, Output::create(options.format, val)?];
    let [train, val] =
        [(&chosen.train, Stage::WritingTrain), (&chosen.val, Stage::WritingVal)].map(|(picks, stage)| {
            let (files, labelled, memory_bytes) = (&files, &labelled, options.memory_bytes);
            SplitInput { files, labelled, picks, stage, memory_bytes, progress }
        });
    let [train_output, val_output] = outputs;
    let written = [train_output.fill(train)?, val_output.fill(val)?];
    let leakage = leakage(&labelled, &chosen, &written);
    let classes = [&chosen.train, &chosen.val].map(|picks| labelled.classes(picks));
    let metadata = metadata::build(options, &recordings, &labelled, &chosen, classes, leakage);
    let [train, val] = written;
    // Both are flushed to disk at the same time.
    let (train, val) = rayon::join(|| train.finish(&metadata), || val.finish(&metadata));
    train?;
    val?;
    let mut report = report(&recordings, labelled, classes, leakage, metadata);
    report.notes.extend(cleared);
    Ok(report)
}

fn report(
    recordings: &Recordings,
    labelled: Labelled,
    [train, val]: [[usize; 2]; 2],
    leakage: Leakage,
    metadata: serde_json::Value,
) -> ImageReport {
    let mut notes: Vec<String> = leakage.warning().into_iter().collect();
    if val[0] == 0 {
        notes.push(
            "no validation image is a success: validation cannot tell whether successes are found".into(),
        );
    }
    let source = recordings.format;
    ImageReport { metadata, source, train, val, leakage, skipped: labelled.bad, notes }
}

fn choose_images(
    raw: &Path,
    labelled: &Labelled,
    format: DatasetFormat,
    options: &ImageOptions,
) -> Result<ChosenFrames, ConvertError> {
    let episodes = &labelled.episodes;
    let frames: usize = episodes.iter().map(|episode| episode.frames.len()).sum();
    if !episodes.iter().any(Episode::has_success) {
        return Err(ConvertError::NoSuccess { path: raw.into(), frames });
    }
    // A ratio of zero means "no failures" in RLinf's script for episodes, and "all" in its keyboard script.
    let all_failures = format.split_unit() == SplitUnit::Run && options.fail_success_ratio <= 0.0;
    let ratio = (!all_failures).then_some(options.fail_success_ratio);
    let (val_split, balance_val) = (options.val_split, options.balance_val);
    let choice = Choice { unit: format.split_unit(), val_split, ratio, balance_val };
    let success = |pick: &FramePick| labelled.frame(*pick).success;
    let chosen = choice.of(&labelled.picks(), success, &mut PythonRandom::new(options.seed));
    let ChosenFrames { split, train, val } = &chosen;
    if split.train.is_empty() || split.val.is_empty() {
        let (path, episodes, val_split) = (raw.into(), episodes.len(), options.val_split);
        return Err(ConvertError::TooFewEpisodes { path, episodes, val_split });
    }
    // What has no success cannot be evened out.
    for (picks, name, numbers, balanced) in
        [(train, "train", &split.train, true), (val, "val", &split.val, options.balance_val)]
    {
        if picks.is_empty() || balanced && !picks.iter().any(success) {
            let (path, episodes, seed) = (raw.into(), numbers.len(), options.seed);
            return Err(ConvertError::EmptySplit { split: name, path, episodes, seed });
        }
    }
    Ok(chosen)
}

fn leakage(labelled: &Labelled, chosen: &ChosenFrames, written: &[WrittenImages<'_>; 2]) -> Leakage {
    let fingerprinted = |picks: &[FramePick], written: &WrittenImages<'_>| -> Vec<FingerprintedImage> {
        let both = picks.iter().zip(&written.fingerprints);
        both.map(|(pick, fingerprint)| FingerprintedImage {
            episode: pick.episode as usize,
            label: labelled.frame(*pick).success.into(),
            fingerprint: *fingerprint,
        })
        .collect()
    };
    let identity = |episode: &usize| labelled.identity(*episode);
    let trained: HashSet<(PathBuf, u32)> = chosen.split.train.iter().map(identity).collect();
    let same =
        chosen.split.val.iter().filter(|episode| trained.contains(&identity(episode))).copied().collect();
    Leakage::between(
        &fingerprinted(&chosen.train, &written[0]),
        &fingerprinted(&chosen.val, &written[1]),
        &same,
    )
}

fn check(train: &Path, val: &Path, options: &ImageOptions) -> Result<(), ConvertError> {
    let wrong = |option, value: String, expected| Err(ConvertError::Option { option, value, expected });
    if !(0.0..1.0).contains(&options.val_split) {
        return wrong(
            ConvertOption::ValSplit,
            options.val_split.to_string(),
            "a share from 0 up to, but not, 1",
        );
    }
    if !(options.fail_success_ratio >= 0.0 && options.fail_success_ratio.is_finite()) {
        return wrong(
            ConvertOption::FailSuccessRatio,
            options.fail_success_ratio.to_string(),
            "a number of failures per success, from 0 on",
        );
    }
    if train == val {
        return wrong(
            ConvertOption::ValOutput,
            val.display().to_string(),
            "the training split goes there; choose another file",
        );
    }
    Ok(())
}

/// Makes the folder that a file is to lie in.
pub(super) fn make_parent(path: &Path) -> Result<(), ConvertError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::create_dir_all(folder)
            .map_err(|source| ConvertError::Write { path: folder.into(), source }),
        None => Ok(()),
    }
}
