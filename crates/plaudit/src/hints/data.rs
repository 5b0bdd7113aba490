//! What to do about data that cannot be read or converted: it depends on the command that asked for it.

use std::io::ErrorKind;

use plaudit_data::convert::{BadFile, ConvertError, ConvertOption, FileProblem};
use plaudit_data::labelled::LabelledError;
use plaudit_data::recording::{DatasetFormat, Hdf5Error, OpenError};
use plaudit_data::store::StoreError;
use plaudit_data::windows::{LineProblem, WindowProblem, WindowsError};
use plaudit_reward::dataset::DatasetError;

use super::join;

/// How data was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedBy {
    /// Flags of `dataset images` or `dataset windows`.
    DatasetFlags,
    /// Keys of a config.
    Config,
    /// A model, which has its cameras, and a command that has `--source`.
    Model,
}

/// What to do about data that nothing can be learned from or measured on.
pub(crate) fn about_data(error: &DatasetError, asked: AskedBy) -> Option<String> {
    match error {
        DatasetError::Read(LabelledError::Recording(error)) => about_conversion(error, asked),
        DatasetError::Read(LabelledError::Open(error)) => about_open(error, asked),
        DatasetError::Read(LabelledError::Frames(bad)) => about_file(bad, asked),
        DatasetError::Read(LabelledError::TooFewEpisodes { .. }) => Some(fewer_that_validate(asked).into()),
        other => other.hint().map(Into::into),
    }
}

/// What to do about episodes that do not become training data.
pub(crate) fn about_conversion(error: &ConvertError, asked: AskedBy) -> Option<String> {
    let place = "give --output-dir a place that can be written";
    match error {
        ConvertError::Open(error) => about_open(error, asked),
        ConvertError::Write { .. } => Some(format!("{place}; what was there before is unchanged")),
        ConvertError::WritePython(_) => Some(place.into()),
        ConvertError::WriteStore(StoreError::Exists { .. } | StoreError::NotEmpty { .. }) => {
            Some("give another --output-dir, or remove it".into())
        }
        ConvertError::BadFile { first, .. } => {
            let skip = match asked {
                AskedBy::DatasetFlags | AskedBy::Model => "--skip-bad leaves such files out",
                AskedBy::Config => "data.skip_bad: true leaves such files out",
            };
            join([about_file(first, asked), Some(skip.into())])
        }
        ConvertError::AllBad { first, .. } => about_file(first, asked),
        ConvertError::TooFewEpisodes { .. } => Some(fewer_that_validate(asked).into()),
        ConvertError::EmptySplit { seed, .. } => {
            let [change_seed, val_split] = match asked {
                AskedBy::DatasetFlags => ["--seed", "--val-split"],
                AskedBy::Config | AskedBy::Model => ["data.seed", "data.val_split"],
            };
            let what = "collect more successful episodes, or change";
            Some(format!("{what} {change_seed} (now {seed}) or {val_split}"))
        }
        ConvertError::NoWindows { .. } => Some("lower --window-size".into()),
        other => other.hint().map(Into::into),
    }
}

fn fewer_that_validate(asked: AskedBy) -> &'static str {
    match asked {
        AskedBy::DatasetFlags => "collect more episodes, at least 2, or lower --val-split",
        AskedBy::Config | AskedBy::Model => "collect more episodes, at least 2, or lower data.val_split",
    }
}

/// What to do about a recording that cannot be opened.
pub(crate) fn about_open(error: &OpenError, asked: AskedBy) -> Option<String> {
    match error {
        OpenError::Read { source, .. }
            if source.kind() == ErrorKind::NotFound && asked == AskedBy::DatasetFlags =>
        {
            Some("check the path after --raw-data-path".into())
        }
        OpenError::NoTrajectories { .. } => Some("give the folder that `plaudit collect` wrote".into()),
        OpenError::Unsure { .. } => {
            let by = if asked == AskedBy::Config { "data.source" } else { "--source" };
            Some(format!("say it with {by} ({})", DatasetFormat::collectors()))
        }
        other => other.hint().map(Into::into),
    }
}

fn about_file(bad: &BadFile, asked: AskedBy) -> Option<String> {
    let hint = match (&*bad.problem, asked) {
        (FileProblem::NoImages { .. }, AskedBy::DatasetFlags) => {
            "collect with images (obs_mode rgb), or name the key with --image-key"
        }
        (FileProblem::NoImages { .. }, AskedBy::Config) => {
            "collect with images (obs_mode rgb), or name a camera that is there"
        }
        (FileProblem::NoImages { .. }, AskedBy::Model) => {
            "collect with images (obs_mode rgb), or give data with the camera that the model looks through"
        }
        (FileProblem::MissingView { .. }, AskedBy::DatasetFlags) => {
            "collect with that camera, choose others with --extra-views, or --extra-views none to use the main camera alone"
        }
        (FileProblem::ChannelsFirst { .. }, AskedBy::DatasetFlags) => {
            "if that is how it was recorded, pass --chw"
        }
        (FileProblem::ChannelsLast { .. }, AskedBy::DatasetFlags) => "leave out --chw",
        (FileProblem::ChannelsFirst { .. }, AskedBy::Config | AskedBy::Model) => {
            "convert it with `plaudit dataset images --chw` first"
        }
        (FileProblem::NoLabels, AskedBy::DatasetFlags | AskedBy::Model) => {
            "label its frames, record `next.success` or `is_success`, or say with --labels, --success-reward or --success-last-frames what means it"
        }
        (FileProblem::NoLabels, AskedBy::Config) => {
            "label its frames, record `next.success` or `is_success`, or say with data.labels, data.success_reward or data.success_last_frames what means it"
        }
        (FileProblem::Hdf5(Hdf5Error::NoImages { .. } | Hdf5Error::NoObservations { .. }), _) => {
            "replay it with images: python -m mani_skill.trajectory.replay_trajectory --traj-path FILE.h5 --save-traj -o rgb \
             --use-env-states; for robomimic, dataset_states_to_obs.py with --camera_names"
        }
        (FileProblem::NoScores, AskedBy::DatasetFlags) => {
            "collect with rewards (pickle, store or replay_buffer), or go by success with --score success"
        }
        (problem, _) => return problem.hint().map(Into::into),
    };
    Some(hint.into())
}

/// The flag of an option of a conversion.
pub(crate) fn convert_flag(option: ConvertOption) -> &'static str {
    match option {
        ConvertOption::ValSplit => "--val-split",
        ConvertOption::FailSuccessRatio => "--fail-success-ratio",
        ConvertOption::ValOutput => "--val-output-path",
        ConvertOption::WindowSize => "--window-size",
        ConvertOption::Stride => "--stride",
        ConvertOption::TailUnclearRatio => "--tail-unclear-ratio",
        ConvertOption::DeltaThreshold => "--delta-threshold",
        ConvertOption::ExtraViews => "--extra-views",
    }
}

/// What to do about windows that cannot be used.
pub(crate) fn about_windows(error: &WindowsError) -> Option<&'static str> {
    Some(match error {
        WindowsError::Manifest { .. } => {
            "windows are made by `plaudit dataset windows`, which writes train/segments.jsonl and eval/segments.jsonl"
        }
        WindowsError::Empty { .. } => {
            "collect more episodes, or lower --val-split or --window-size of `plaudit dataset windows`"
        }
        WindowsError::Line { problem: LineProblem::NoQuestion { .. }, .. } => {
            "name the question's key with data.prompt_key"
        }
        WindowsError::Line { problem: LineProblem::NoAnswer { .. }, .. } => {
            "name the answer's key with data.answer_key"
        }
        WindowsError::Line { problem: LineProblem::Video { .. }, .. } => {
            "make windows with `plaudit dataset windows`"
        }
        WindowsError::Line { problem: LineProblem::Gone { .. }, .. } => {
            "was the folder moved? data.data_root says where the data is"
        }
        WindowsError::Window { problem: WindowProblem::NoView { is_extra: true, .. }, .. } => {
            "collect with a second camera, or use one view: data.dataset_name=simple_vlm_trend_reward_sft in a config, \
             --main-view as a flag"
        }
        WindowsError::Pickle { .. } | WindowsError::Window { problem: WindowProblem::Short { .. }, .. } => {
            "make the windows again with `plaudit dataset windows`"
        }
        _ => return None,
    })
}
