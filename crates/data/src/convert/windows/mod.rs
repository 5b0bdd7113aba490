//! Labelled windows of frames for a vision-language model, as RLinf's `preprocess_vlm_trend_reward_dataset.py`
//! makes them with one loader: a pickle per window, `segments.jsonl` for each split, and `dataset_info.json`.
//!
//! Episodes are read in any format ([`Recordings`]). What has no order of time, such as images that a person sorted, has no
//! windows.
//!
//! A window is positive, negative or unclear by how the score changes from its first frame to its last. For the same
//! episodes, options and seed the manifests are equal to RLinf's, byte for byte; so are the frames. What differs: a
//! pickle that is there already is written again, since episodes of two runs may have the same names; floats from 0
//! to 1 become bytes instead of black images; and a file that cannot be used (numbers beyond 0 to 255 and images of
//! another size among them) is an error unless [`Rules::bad_files`] says otherwise.

mod cut;
mod gather;
mod rows;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{ConvertError, ConvertOption};
use super::leakage::{FingerprintedImage, Leakage};
use super::leftovers;
use super::progress::OnProgress;
use super::python_random::PythonRandom;
use super::scan::scan;
use super::split::{self, Split};
use super::stored::KnownFile;
use crate::recording::{BadFile, ChannelOrder, Item, Recordings, Rules};
use crate::windows::Objective;
use cut::Episode;
use gather::Sample;
pub use rows::window_prompt;

/// How windows are cut, labelled and chosen.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// What is asked about them. For all but the trend, a window is an episode so far, of which some frames are shown.
    pub objective: Objective,
    /// Frames in a window; of an episode so far, as many are shown, evenly spaced.
    pub window_size: usize,
    /// Frames from the start of one window to the start of the next.
    pub stride: usize,
    /// A score that changes by no more than this is unclear.
    pub delta_threshold: f64,
    /// The last share of each episode's windows that is unclear whatever the score does.
    pub tail_unclear_ratio: f64,
    /// Windows kept of each episode, evenly spaced; zero or below keeps all.
    pub num_samples_per_episode: i64,
    /// Whether the last window is always among them.
    pub keep_last_window: bool,
    /// The share of episodes that validate; at least one does.
    pub val_split: f64,
    /// Whether each label gets as many windows as the rarest.
    pub balance_labels: bool,
    /// The most training windows of a label.
    pub max_samples_per_label: Option<usize>,
    /// The most validation windows of a label; follows from the training cap if not said.
    pub eval_max_samples_per_label: Option<usize>,
    /// Whether each positive window is also used backwards, as a negative.
    pub reverse_positive_as_negative: bool,
    /// What the task is, where episodes do not say.
    pub task_description: Option<String>,
    /// The seed of Python's generator.
    pub seed: i64,
    /// Which extra cameras are used besides the main one: indices in `extra_view_images`. The first of them may also
    /// be `third_view_images`. RLinf uses `[0]`.
    pub extra_views: Vec<usize>,
    /// Whether images have their channels first.
    pub channel_order: ChannelOrder,
    /// What says how it goes.
    pub score: WindowScore,
    /// How recordings are read.
    pub rules: Rules,
    /// Arguments of RLinf's script that change nothing, kept for `dataset_info.json`.
    pub recorded: RecordedArguments,
}

/// What says how it goes: a window shows progress where this rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowScore {
    /// RLinf's `gae` where it was recorded, else the environment's rewards.
    #[default]
    Rewards,
    /// Success, for recordings without rewards: it rises where the task is solved, and nowhere else.
    Success,
}

impl WindowScore {
    /// What `dataset_info.json` calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Rewards => "rewards",
            Self::Success => "success",
        }
    }
}

/// Arguments of RLinf's script that change nothing here.
#[derive(Clone, Copy, Debug)]
pub struct RecordedArguments {
    /// `--fps`
    pub fps: i64,
    /// `--load-workers`
    pub load_workers: i64,
    /// `--write-workers`
    pub write_workers: i64,
}

impl Default for RecordedArguments {
    fn default() -> Self {
        Self { fps: 2, load_workers: 256, write_workers: 512 }
    }
}

impl Default for WindowOptions {
    /// RLinf's defaults.
    fn default() -> Self {
        Self {
            objective: Objective::Trend,
            window_size: 5,
            stride: 1,
            delta_threshold: 0.05,
            tail_unclear_ratio: 0.15,
            num_samples_per_episode: 0,
            keep_last_window: true,
            val_split: 0.1,
            balance_labels: true,
            max_samples_per_label: None,
            eval_max_samples_per_label: None,
            reverse_positive_as_negative: true,
            task_description: None,
            seed: 42,
            extra_views: vec![0],
            channel_order: ChannelOrder::default(),
            score: WindowScore::default(),
            rules: Rules::default(),
            recorded: RecordedArguments::default(),
        }
    }
}

/// What was made.
#[derive(Debug)]
pub struct WindowReport {
    /// What is in `dataset_info.json`: RLinf's keys first, then ours.
    pub metadata: Value,
    /// Training windows by label.
    pub train: BTreeMap<&'static str, usize>,
    /// Validation windows by label.
    pub eval: BTreeMap<&'static str, usize>,
    /// What the two share.
    pub leakage: Leakage,
    /// Files that were left out.
    pub skipped: Vec<BadFile>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl WindowReport {
    /// The metadata as RLinf's script prints them: JSON, indented by two spaces.
    #[must_use]
    pub fn metadata_text(&self) -> String {
        super::python_json::page(&self.metadata).unwrap_or_default()
    }
}

/// All episodes and their windows, before any are chosen.
struct ScannedEpisodes {
    files: Vec<KnownFile>,
    episodes: Vec<Episode>,
    bad: Vec<BadFile>,
    /// Episodes too short for one window.
    short: usize,
    /// Windows left out because a frame lacks a view.
    incomplete: usize,
}

/// What windows are written from: every item is read again, once for each split.
struct WindowSource<'a> {
    items: &'a [Item],
    known: &'a [KnownFile],
    episodes: &'a [Episode],
    options: &'a WindowOptions,
}

/// The windows of both splits, in the order in which they are written.
struct ChosenWindows {
    split: Split,
    train: Vec<Sample>,
    eval: Vec<Sample>,
}

/// Makes the folder `out` with `train`, `eval` and `dataset_info.json` out of the episodes in `raw`.
///
/// # Errors
/// When nothing usable is there, a file is bad and bad ones are not skipped, or the system refuses. Until all
/// pickles are written, what was in `out` before stays as it was.
pub fn convert_windows(
    raw: &Path,
    out: &Path,
    options: &WindowOptions,
    progress: &OnProgress<'_>,
) -> Result<WindowReport, ConvertError> {
    check(options)?;
    let recordings = Recordings::open(raw, &options.rules)?;
    let found = find(raw, &recordings, options, progress)?;
    let chosen = choose(raw, &found.episodes, options)?;
    let source =
        WindowSource { items: &recordings.items, known: &found.files, episodes: &found.episodes, options };
    let cleared = leftovers::clear(&["train", "eval"].map(|split| out.join(split).join("pkl")));
    let written = write::both_splits(&source, &chosen, out, progress)?;
    let leakage = leakage(&found, &chosen, &written);
    let metadata = rows::dataset_info(&recordings, out, options, &found, &chosen, leakage);
    write::finish(written, &found.episodes, &chosen, out, options, &metadata)?;
    let mut report = report(found, &chosen, leakage, metadata);
    report.notes.extend(cleared);
    Ok(report)
}

fn report(found: ScannedEpisodes, chosen: &ChosenWindows, leakage: Leakage, metadata: Value) -> WindowReport {
    let mut notes: Vec<String> = leakage.warning().into_iter().collect();
    if found.short > 0 {
        notes.push(format!("{} episode(s) are too short for one window and were left out", found.short));
    }
    if found.incomplete > 0 {
        notes.push(format!("{} window(s) lack a view in some frame and were left out", found.incomplete));
    }
    let count = |samples: &[Sample]| {
        let mut counts = BTreeMap::new();
        for sample in samples {
            *counts.entry(sample.label).or_default() += 1;
        }
        counts
    };
    WindowReport {
        metadata,
        train: count(&chosen.train),
        eval: count(&chosen.eval),
        leakage,
        skipped: found.bad,
        notes,
    }
}

/// Reads all episodes and cuts them.
fn find(
    raw: &Path,
    recordings: &Recordings,
    options: &WindowOptions,
    progress: &OnProgress<'_>,
) -> Result<ScannedEpisodes, ConvertError> {
    let items = &recordings.items;
    let extract = |item: &Item, number: usize| cut::cut(item, number, recordings.format, options);
    let mut scan = scan(raw, items, options.rules.bad_files, progress, extract)?;
    cut::refuse_other_sizes(&mut scan, items, options);
    scan.stop_if_bad(raw, options.rules.bad_files)?;
    let all = || scan.found.iter().flatten();
    let longest = all().map(|episode| episode.length).max().unwrap_or(0);
    let short = all().filter(|episode| episode.length < options.window_size).count();
    let incomplete = all().map(|episode| episode.incomplete).sum();
    let mut episodes: Vec<Episode> =
        scan.found.into_iter().flatten().filter(|episode| !episode.windows.is_empty()).collect();
    cut::tell_apart(&mut episodes);
    if episodes.is_empty() && longest >= options.window_size {
        return Err(ConvertError::NothingToAsk { path: raw.into(), objective: options.objective });
    }
    if episodes.is_empty() {
        return Err(ConvertError::NoWindows { path: raw.into(), window_size: options.window_size, longest });
    }
    Ok(ScannedEpisodes { files: scan.files, episodes, bad: scan.bad, short, incomplete })
}

fn choose(raw: &Path, episodes: &[Episode], options: &WindowOptions) -> Result<ChosenWindows, ConvertError> {
    let mut random = PythonRandom::new(options.seed);
    let split = split::by_episode(episodes.len(), options.val_split, &mut random);
    if split.train.is_empty() {
        let (path, episodes, val_split) = (raw.into(), episodes.len(), options.val_split);
        return Err(ConvertError::TooFewEpisodes { path, episodes, val_split });
    }
    let cap = options.max_samples_per_label;
    let eval_cap = options.eval_max_samples_per_label.or_else(|| {
        let per_episode = split.val.len() as f64 / split.train.len().max(1) as f64;
        cap.map(|cap| ((cap as f64 * per_episode).round_ties_even() as usize).max(1))
    });
    if options.objective == Objective::Preference && split.train.len() < 2 {
        let (path, episodes, val_split) = (raw.into(), episodes.len(), options.val_split);
        return Err(ConvertError::TooFewEpisodes { path, episodes, val_split });
    }
    let train = gather::gather(episodes, &split.train, cap, options, &mut random);
    let eval = gather::gather(episodes, &split.val, eval_cap, options, &mut random);
    match train.is_empty() {
        true => Err(ConvertError::NothingToAsk { path: raw.into(), objective: options.objective }),
        false => Ok(ChosenWindows { split, train, eval }),
    }
}

/// Frames of the main view, each counted once however many windows it is in.
fn leakage(found: &ScannedEpisodes, chosen: &ChosenWindows, written: &write::WrittenSplits) -> Leakage {
    let fingerprinted = |split: &write::WrittenSplit| -> Vec<FingerprintedImage> {
        let each = split.fingerprints.iter();
        each.map(|((episode, _), fingerprint)| FingerprintedImage {
            episode: *episode,
            label: 0,
            fingerprint: *fingerprint,
        })
        .collect()
    };
    let identity = |episode: &usize| -> (PathBuf, usize) {
        let Episode { path, origin, .. } = &found.episodes[*episode];
        (path.canonicalize().unwrap_or_else(|_| path.clone()), origin.1)
    };
    let trained: HashSet<_> = chosen.split.train.iter().map(identity).collect();
    let same =
        chosen.split.val.iter().filter(|episode| trained.contains(&identity(episode))).copied().collect();
    Leakage::between(&fingerprinted(&written.train), &fingerprinted(&written.eval), &same)
}

fn check(options: &WindowOptions) -> Result<(), ConvertError> {
    let wrong = |option, value: String, expected| Err(ConvertError::Option { option, value, expected });
    if options.window_size == 0 {
        return wrong(ConvertOption::WindowSize, "0".into(), "a window has one frame at least");
    }
    if options.stride == 0 {
        return wrong(
            ConvertOption::Stride,
            "0".into(),
            "windows would all start at the same frame; use 1 or more",
        );
    }
    if !(0.0..1.0).contains(&options.val_split) {
        return wrong(
            ConvertOption::ValSplit,
            options.val_split.to_string(),
            "a share from 0 up to, but not, 1",
        );
    }
    if !(0.0..=1.0).contains(&options.tail_unclear_ratio) {
        return wrong(
            ConvertOption::TailUnclearRatio,
            options.tail_unclear_ratio.to_string(),
            "a share from 0 to 1",
        );
    }
    if options.objective == Objective::Preference && !options.extra_views.is_empty() {
        return wrong(
            ConvertOption::ExtraViews,
            format!("{:?}", options.extra_views),
            "two clips are compared by the main view alone",
        );
    }
    if options.delta_threshold.is_nan() || options.delta_threshold < 0.0 {
        return wrong(
            ConvertOption::DeltaThreshold,
            options.delta_threshold.to_string(),
            "a change of score, from 0 on",
        );
    }
    Ok(())
}
