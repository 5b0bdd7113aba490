//! `plaudit dataset`: collected episodes become training data.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use plaudit_data::convert::{
    BadFile, ChannelOrder, ConvertError, ImageFormat, ImageOptions, ImageReport, Leakage, Progress,
    RecordedArguments, Stage, WindowOptions, WindowReport, WindowScore, convert_images, convert_windows,
};

use plaudit_data::windows::Objective;

use super::export::Export;
use super::inspect::Inspect;
use super::left_out::left_out;
use super::render::Render;
use super::rule_args::RuleArgs;
use super::verify::Verify;
use crate::cli::Verbosity;
use crate::config::block::{Choice, WrittenChoice, flag_words, words};
use crate::console;
use crate::failure::Failure;
use crate::hints::{self, AskedBy};
use crate::progress::{ProgressBar, ProgressUpdate};

words! {
    ImageFormat, WrittenChoice<ImageFormat>, |written| written.0,
    /// Torch files.
    Pt = "pt",
    /// Stores.
    Store = "store",
}

words! {
    WindowScore, WrittenChoice<WindowScore>, |written| written.0,
    /// The environment's rewards.
    Rewards = "rewards",
    /// Success.
    Success = "success",
}

words! {
    Objective, WrittenChoice<Objective>, |written| written.0,
    /// The trend of windows.
    Trend = "trend",
    /// How far an episode so far is.
    Progress = "progress",
    /// Whether an episode so far is a success.
    Success = "success",
    /// Which of two gets further.
    Preference = "preference",
}

/// Turn collected episodes into training data
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Labelled images for a classifier: train.pt and val.pt
    Images(Images),
    /// Labelled windows of frames for a vision-language model
    Windows(Windows),
    /// LeRobot datasets, MCAP files or ManiSkill's trajectories for other tools
    Export(Box<Export>),
    /// Images for ManiSkill's trajectories of built-in tasks
    Render(Render),
    /// Say what is in a dataset and what is suspicious about it
    Inspect(Inspect),
    /// Read every file of a dataset and say which are missing or damaged
    Verify(Verify),
}

/// Labelled images for a classifier: train.pt and val.pt, or a store for each part
///
/// The same episodes, options and seed give the same images in the same order as RLinf's
/// preprocess_reward_dataset.py, apart from the validation part, which keeps all its failures unless --balance-val.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset images --raw-data-path logs/run/collected_data
  plaudit dataset images --raw-data-path logs/run/collected_data \\
      --fail-success-ratio 3 --seed 7
  plaudit dataset images --raw-data-path reward_data \\
      --num-samples-per-episode 5
  plaudit dataset images --raw-data-path logs/run/collected_data \\
      --format store --output-dir dataset
  plaudit dataset images --raw-data-path logs/run/data.pkl \\
      --skip-bad --memory 1G")]
pub struct Images {
    /// Folder of episodes in any format that `dataset inspect` knows, or one file of them
    #[arg(long, value_name = "PATH")]
    raw_data_path: PathBuf,
    /// Where train.pt and val.pt go, or the stores train and val
    #[arg(long, value_name = "DIR", default_value = "logs/processed_reward_data")]
    output_dir: PathBuf,
    /// What to write: `pt`, a file for each part as RLinf reads them, or `store`, a plaudit store for each
    #[arg(long, value_name = "FORMAT", default_value = "pt", value_parser = flag_words::<ImageFormat>(ImageFormat::WORDS))]
    format: ImageFormat,
    /// Another place for the training part
    #[arg(long, value_name = "PATH")]
    train_output_path: Option<PathBuf>,
    /// Another place for the validation part
    #[arg(long, value_name = "PATH")]
    val_output_path: Option<PathBuf>,
    /// Frames kept of each episode, evenly spaced; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    num_samples_per_episode: i64,
    /// Always keep the last frame of an episode (the default)
    #[arg(long, overrides_with = "no_keep_last_frame")]
    keep_last_frame: bool,
    /// Spread the frames over the whole episode instead
    #[arg(long)]
    no_keep_last_frame: bool,
    /// Share of episodes that validate
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    val_split: f64,
    /// Failures kept for each success
    #[arg(long, value_name = "RATIO", default_value_t = 2.0)]
    fail_success_ratio: f64,
    /// Seed of the split and of the choice
    #[arg(long, value_name = "N", default_value_t = 42, allow_negative_numbers = true)]
    seed: i64,
    /// Drop failures from the validation part too, as RLinf does
    #[arg(long)]
    balance_val: bool,
    #[command(flatten)]
    rules: RuleArgs,
    /// Key of the images in each observation [default: main_images, or base_camera in .npy files]
    #[arg(long, value_name = "KEY")]
    image_key: Option<String>,
    /// Images were recorded as [channels, height, width]
    #[arg(long)]
    chw: bool,
    /// Bytes of images held at a time, such as 256M or 1G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    memory: usize,
}

/// Labelled windows of frames for a vision-language model
///
/// The same episodes, options and seed give the same manifests as RLinf's preprocess_vlm_trend_reward_dataset.py with
/// one loader.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset windows --raw-data-path logs/run/collected_data
  plaudit dataset windows --raw-data-path logs/run/collected_data \\
      --window-size 8 --stride 2
  plaudit dataset windows --raw-data-path logs/run/collected_data \\
      --extra-views none")]
pub struct Windows {
    /// Folder of episodes in any format that `dataset inspect` knows, or one file of them
    #[arg(long, value_name = "PATH")]
    raw_data_path: PathBuf,
    /// Where train/, eval/ and dataset_info.json go
    #[arg(long, value_name = "DIR", default_value = "logs/processed_vlm_trend_reward_data")]
    output_dir: PathBuf,
    /// What a judge is to learn: `trend` of windows, `progress` or `success` of the episode so far, `preference` between two
    #[arg(long, value_name = "WHAT", default_value = "trend", value_parser = flag_words::<Objective>(Objective::WORDS))]
    objective: Objective,
    /// Frames in a window; of an episode so far, as many are shown, evenly spaced
    #[arg(long, value_name = "N", default_value_t = 5)]
    window_size: usize,
    /// Frames from one window's start to the next one's
    #[arg(long, value_name = "N", default_value_t = 1)]
    stride: usize,
    /// What says how it goes: `rewards` (gae where it was recorded), or `success` for episodes without rewards
    #[arg(long, value_name = "SCORE", default_value = "rewards", value_parser = flag_words::<WindowScore>(WindowScore::WORDS))]
    score: WindowScore,
    /// A score that changes by no more than this is unclear
    #[arg(long, value_name = "X", default_value_t = 0.05)]
    delta_threshold: f64,
    /// Last share of an episode's windows that is always unclear
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    tail_unclear_ratio: f64,
    /// Windows kept of each episode, evenly spaced; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    num_samples_per_episode: i64,
    /// Always keep the last window of an episode (the default)
    #[arg(long, overrides_with = "no_keep_last_window")]
    keep_last_window: bool,
    /// Spread the windows over the whole episode instead
    #[arg(long)]
    no_keep_last_window: bool,
    /// Share of episodes that validate
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    val_split: f64,
    /// As many windows of each label as of the rarest (the default)
    #[arg(long, overrides_with = "no_balance_labels")]
    balance_labels: bool,
    /// Keep labels as often as they are
    #[arg(long)]
    no_balance_labels: bool,
    /// Most training windows of a label
    #[arg(long, value_name = "N")]
    max_samples_per_label: Option<usize>,
    /// Most validation windows of a label [default: follows from the training cap]
    #[arg(long, value_name = "N")]
    eval_max_samples_per_label: Option<usize>,
    /// Use positive windows backwards too, as negatives (the default)
    #[arg(long, overrides_with = "no_reverse_positive_as_negative")]
    reverse_positive_as_negative: bool,
    /// Use them forwards only
    #[arg(long)]
    no_reverse_positive_as_negative: bool,
    /// What the task is, where episodes do not say
    #[arg(long, value_name = "TEXT")]
    task_description: Option<String>,
    /// Seed of the split and of the choice
    #[arg(long, value_name = "N", default_value_t = 42, allow_negative_numbers = true)]
    seed: i64,
    /// Extra cameras used besides the main one, as places in extra_view_images: `0`, `0,1`, or `none`
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = ExtraViews::parse)]
    extra_views: ExtraViews,
    #[command(flatten)]
    rules: RuleArgs,
    /// Images were recorded as [channels, height, width]
    #[arg(long)]
    chw: bool,
    /// Accepted for RLinf's sake; changes nothing
    #[arg(long, value_name = "N", default_value_t = 2, hide_short_help = true)]
    fps: i64,
    /// Accepted for RLinf's sake; the result never depends on it
    #[arg(long, value_name = "N", default_value_t = 256, hide_short_help = true)]
    load_workers: i64,
    /// Accepted for RLinf's sake; the result never depends on it
    #[arg(long, value_name = "N", default_value_t = 512, hide_short_help = true)]
    write_workers: i64,
}

/// Extra cameras, as places in a list.
#[derive(Debug, Clone)]
struct ExtraViews(Vec<usize>);

impl ExtraViews {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let places =
            text.split(',').map(|place| place.trim().parse().map_err(|_| format!("`{place}` is no number")));
        Ok(Self(places.collect::<Result<_, String>>()?))
    }
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Images(images) => images.run(verbosity),
            Self::Windows(windows) => windows.run(verbosity),
            Self::Export(export) => export.run(verbosity),
            Self::Render(render) => render.run(verbosity),
            Self::Inspect(inspect) => inspect.run(verbosity),
            Self::Verify(verify) => verify.run(verbosity),
        }
    }
}

impl Images {
    fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let [train, val] = [("train", &self.train_output_path), ("val", &self.val_output_path)]
            .map(|(name, given)| given.clone().unwrap_or_else(|| self.output_dir.join(self.part_name(name))));
        let bar = ProgressBar::new("dataset images", verbosity);
        let tick = |progress| bar.show(progress_update(progress, "images"));
        let report = convert_images(&self.raw_data_path, &train, &val, &self.options(), &tick);
        drop(bar);
        let report = report.map_err(failure)?;
        let files = [("Train split: ", train, report.train), ("Val split:   ", val, report.val)];
        let lines: String =
            files.iter().map(|(name, path, classes)| part(name, path, classes.iter().sum())).collect();
        framed(&format!(
            "Reward dataset preprocessing complete\n{lines}Metadata:\n{}\n",
            report.metadata_text()
        ))?;
        if !verbosity.quiet {
            say_images(&report);
            say_rest(&report.skipped, &report.notes, &report.leakage, verbosity);
        }
        Ok(())
    }

    /// What a part is called: a file, or the folder of a store.
    fn part_name(&self, part: &str) -> String {
        match self.format {
            ImageFormat::Pt => format!("{part}.pt"),
            ImageFormat::Store => part.into(),
        }
    }

    fn options(&self) -> ImageOptions {
        ImageOptions {
            num_samples_per_episode: self.num_samples_per_episode,
            keep_last_frame: !self.no_keep_last_frame,
            val_split: self.val_split,
            fail_success_ratio: self.fail_success_ratio,
            seed: self.seed,
            balance_val: self.balance_val,
            rules: self.rules.rules(),
            image_key: self.image_key.clone(),
            channel_order: channel_order(self.chw),
            format: self.format,
            memory_bytes: self.memory,
        }
    }
}

impl Windows {
    fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let bar = ProgressBar::new("dataset windows", verbosity);
        let tick = |progress| bar.show(progress_update(progress, "windows"));
        let report = convert_windows(&self.raw_data_path, &self.output_dir, &self.options(), &tick);
        drop(bar);
        let report = report.map_err(failure)?;
        let manifest = |name: &str| self.output_dir.join(name).join("segments.jsonl");
        let lines = part("Train split: ", &manifest("train"), report.train.values().sum())
            + &part("Eval split:  ", &manifest("eval"), report.eval.values().sum());
        let title = "Dual-view trend reward dataset preprocessing complete";
        framed(&format!("{title}\n{lines}Metadata:\n{}\n", report.metadata_text()))?;
        if !verbosity.quiet {
            say_windows(&report);
            say_rest(&report.skipped, &report.notes, &report.leakage, verbosity);
        }
        Ok(())
    }

    fn options(&self) -> WindowOptions {
        WindowOptions {
            objective: self.objective,
            window_size: self.window_size,
            stride: self.stride,
            delta_threshold: self.delta_threshold,
            tail_unclear_ratio: self.tail_unclear_ratio,
            num_samples_per_episode: self.num_samples_per_episode,
            keep_last_window: !self.no_keep_last_window,
            val_split: self.val_split,
            balance_labels: !self.no_balance_labels,
            max_samples_per_label: self.max_samples_per_label,
            eval_max_samples_per_label: self.eval_max_samples_per_label,
            reverse_positive_as_negative: !self.no_reverse_positive_as_negative,
            task_description: self.task_description.clone(),
            seed: self.seed,
            extra_views: self.extra_views.0.clone(),
            channel_order: channel_order(self.chw),
            score: self.score,
            rules: self.rules.rules(),
            recorded: RecordedArguments {
                fps: self.fps,
                load_workers: self.load_workers,
                write_workers: self.write_workers,
            },
        }
    }
}

fn channel_order(channels_first: bool) -> ChannelOrder {
    if channels_first { ChannelOrder::ChannelsFirst } else { ChannelOrder::ChannelsLast }
}

/// The progress of a conversion. `samples` are what is written.
fn progress_update(progress: Progress, samples: &'static str) -> ProgressUpdate {
    let Progress { stage, done, total } = progress;
    let (what, unit) = match stage {
        Stage::Reading => ("reading", "episodes"),
        Stage::WritingTrain => ("writing for training", samples),
        Stage::WritingVal => ("writing for validation", samples),
    };
    ProgressUpdate { what, unit, done, total }
}

/// Between two rules of 80 signs, as RLinf's scripts print it.
fn framed(text: &str) -> Result<(), Failure> {
    let rule = "=".repeat(80);
    console::print(&format!("{rule}\n{text}{rule}\n"))
}

fn part(name: &str, path: &Path, samples: usize) -> String {
    format!("{name}{} ({samples} samples)\n", path.display())
}

fn say_images(report: &ImageReport) {
    let classes = |[successes, failures]: [usize; 2]| format!("{successes} successes, {failures} failures");
    console::eprintln(&format!(
        "{} episodes: train {}; val {}",
        report.source,
        classes(report.train),
        classes(report.val)
    ));
}

fn say_windows(report: &WindowReport) {
    let labels = |counts: &std::collections::BTreeMap<&str, usize>| {
        counts.iter().map(|(label, count)| format!("{count} {label}")).collect::<Vec<_>>().join(", ")
    };
    console::eprintln(&format!("train {}; eval {}", labels(&report.train), labels(&report.eval)));
}

fn say_rest(skipped: &[BadFile], notes: &[String], leakage: &Leakage, verbosity: Verbosity) {
    console::eprintln(&format!(
        "leakage: {} shared episodes, {} exact and {} near duplicates among {} validation images",
        leakage.shared_episodes, leakage.exact_duplicates, leakage.near_duplicates, leakage.val_images
    ));
    for note in notes {
        console::eprintln(&format!("note: {note}"));
    }
    if let Some(text) = left_out(skipped, verbosity.verbose) {
        console::eprintln(&text);
    }
}

fn failure(error: ConvertError) -> Failure {
    let help = hints::about_conversion(&error, AskedBy::DatasetFlags);
    match error {
        ConvertError::Option { option, value, expected } => {
            Failure::usage(format!("{} {value}: {expected}", hints::convert_flag(option)), help)
        }
        ConvertError::Open(_) => Failure::usage(error, help),
        _ => Failure::runtime(error, help),
    }
}

/// `1000`, `64K`, `256M`, `2G`.
fn bytes(text: &str) -> Result<usize, String> {
    let upper = text.to_ascii_uppercase();
    let number = upper.trim_end_matches("IB").trim_end_matches('B');
    let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((number.strip_suffix(name)?, *unit)))
        .unwrap_or((number, 1));
    let number: usize =
        number.trim().parse().map_err(|_| "a number of bytes, such as 256M or 2G".to_string())?;
    number.checked_mul(unit).ok_or_else(|| "more bytes than there are".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in
            [("1000", 1000), ("64K", 65536), ("256M", 256 << 20), ("2GiB", 2 << 30), ("1 g", 1 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        assert!(bytes("much").is_err() && bytes("99999999999G").is_err() && bytes("-1").is_err());
    }

    #[test]
    fn views_are_a_list_or_none() {
        assert_eq!(ExtraViews::parse("0,2").unwrap().0, [0, 2]);
        assert!(ExtraViews::parse("none").unwrap().0.is_empty());
        assert!(ExtraViews::parse("main").is_err());
    }
}
