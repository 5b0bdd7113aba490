//! The labelled frames that a config or a command names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::convert::{BadFile, ConvertError, FileProblem, Progress};
use plaudit_data::labelled::{LabelledData, LabelledError, ReadOptions, SplitOptions};
use plaudit_data::recording::Rules;
use plaudit_reward::StateConditions;
use plaudit_reward::dataset::{DatasetError, Frames, ViewKey, keep_decidable};

use crate::build;
use crate::commands::left_out::left_out;
use crate::config::LoadedConfig;
use crate::config::block::OneOrMore;
use crate::config::blocks::actor::ModelType;
use crate::failure::Failure;
use crate::hints::{self, AskedBy};
use crate::progress::{ProgressBar, ProgressUpdate};

/// What a training learns from, and what it is measured on.
pub(super) struct TrainingData {
    pub(super) train: Frames,
    pub(super) val: Option<Frames>,
    /// Unsolved episodes in what a progress model learns from, whether it uses them or not.
    pub(super) unsolved: usize,
    /// What holds of the state in every frame, as `data.guards` asks for it.
    pub(super) conditions: Option<StateConditions>,
}

/// How frames are read.
pub(super) struct FrameReader<'a> {
    pub(super) views: Vec<ViewKey>,
    pub(super) rules: Rules,
    pub(super) bar: &'a ProgressBar,
}

impl FrameReader<'_> {
    pub(super) fn read(&self, path: &Path) -> Result<Arc<LabelledData>, LabelledError> {
        let data = LabelledData::read(path, &self.options(), &|progress| self.tick(progress))?;
        self.say_left_out(&data);
        Ok(Arc::new(data))
    }

    fn options(&self) -> ReadOptions {
        let (cameras, rules) = (ViewKey::cameras(&self.views), self.rules.clone());
        ReadOptions { cameras, rules }
    }

    fn tick(&self, progress: Progress) {
        let Progress { done, total, .. } = progress;
        self.bar.show(ProgressUpdate { what: "reading", unit: "episodes", done, total });
    }

    /// Every frame of some datasets.
    pub(super) fn all(&self, paths: &[PathBuf]) -> Result<Frames, DatasetError> {
        let frames = Frames::read(&self.views, paths, &self.rules, &|progress| self.tick(progress))?;
        frames.recordings().iter().for_each(|data| self.say_left_out(data));
        Ok(frames)
    }

    /// Names what a dataset has that could not be used.
    fn say_left_out(&self, data: &LabelledData) {
        if let Some(text) = left_out(&data.skipped, false) {
            self.bar.note(&text);
        }
    }
}

/// The views that a list of keys names; the main camera where it names none.
pub(super) fn views(keys: &[String]) -> Result<Vec<ViewKey>, DatasetError> {
    if keys.is_empty() {
        return Ok(vec!["main_images".parse()?]);
    }
    keys.iter().map(|key| key.parse()).collect()
}

/// The data that a config names.
pub(super) fn training_data(loaded: &LoadedConfig, bar: &ProgressBar) -> Result<TrainingData, Failure> {
    let keys = &loaded.config.actor.model.image_keys;
    let hint = "name cameras, such as main_images, extra_view_images, or main_images@-4 for the past";
    let views =
        views(keys).map_err(|error| loaded.problem("actor.model.image_keys", error.to_string(), hint))?;
    let reader = FrameReader { views, rules: build::reading_rules(loaded), bar };
    let (key, read) = named(loaded, &reader)?;
    let read = read.and_then(|data| match loaded.config.actor.model.model_type {
        ModelType::Progress => demonstrations(loaded, data),
        _ => Ok(data),
    });
    let data = read.map_err(|error| problem(loaded, key, &error))?;
    if data.conditions.is_none() && !loaded.config.data.guards.is_empty() {
        let message =
            "conditions on the state choose among the frames of episodes, and these are images alone";
        return Err(loaded.problem("data.guards", message, "name episodes with data.data_path").into());
    }
    Ok(data)
}

/// What a progress model learns from: successful episodes, and unsolved ones as unlabelled play where the config says so.
fn demonstrations(loaded: &LoadedConfig, data: TrainingData) -> Result<TrainingData, DatasetError> {
    let (train, unsolved) = data.train.for_progress(loaded.config.data.unlabelled_play)?;
    Ok(TrainingData { train, unsolved, ..data })
}

/// The key that names the data, and what is there.
fn named(
    loaded: &LoadedConfig,
    reader: &FrameReader<'_>,
) -> Result<(&'static str, Result<TrainingData, DatasetError>), Failure> {
    let data = &loaded.config.data;
    if let (Some(positive), Some(negative)) = (&data.positive_dir, &data.negative_dir) {
        let tick = |progress| reader.tick(progress);
        let read = LabelledData::read_trajectories(
            Path::new(positive),
            Path::new(negative),
            &reader.options(),
            &tick,
        );
        if let Ok(read) = &read {
            reader.say_left_out(read);
        }
        let split =
            read.map_err(DatasetError::from).and_then(|read| split(loaded, reader, Arc::new(read), None));
        return Ok(("data.positive_dir", split));
    }
    if let Some(path) = &data.data_path {
        let path = Path::new(path);
        let parts = ["train.pt", "val.pt"].map(|name| path.join(name));
        let read = match parts.iter().all(|part| part.is_file()) {
            true => in_two_files(reader, &parts[..1], &parts[1..]),
            false => match reader.read(path) {
                Ok(mut read) => {
                    let conditions = chosen_states(loaded, &mut read)?;
                    split(loaded, reader, read, conditions)
                }
                Err(error) => Err(error.into()),
            },
        };
        return Ok(("data.data_path", read));
    }
    let Some(train) = &data.train_data_paths else {
        let help = "give episodes with --data PATH, or set data.train_data_paths and data.val_data_paths";
        return Err(Failure::usage("nothing to train on", help.to_string()));
    };
    let paths = |paths: &OneOrMore<String>| match paths {
        OneOrMore::One(path) => vec![PathBuf::from(path)],
        OneOrMore::More(paths) => paths.iter().map(PathBuf::from).collect(),
    };
    let val = data.val_data_paths.as_ref().map(paths).unwrap_or_default();
    build::refuse_shared_data(loaded)?;
    Ok(("data.train_data_paths", in_two_files(reader, &paths(train), &val)))
}

fn in_two_files(
    reader: &FrameReader<'_>,
    train: &[PathBuf],
    val: &[PathBuf],
) -> Result<TrainingData, DatasetError> {
    let train = reader.all(train)?;
    let val = if val.is_empty() { None } else { Some(reader.all(val)?) };
    Ok(TrainingData { train, val, unsolved: 0, conditions: None })
}

/// One recording in two parts, by episode.
fn split(
    loaded: &LoadedConfig,
    reader: &FrameReader<'_>,
    data: Arc<LabelledData>,
    conditions: Option<StateConditions>,
) -> Result<TrainingData, DatasetError> {
    let settings = &loaded.config.data;
    let ratio = settings.fail_success_ratio;
    let parts = data.split(&SplitOptions {
        num_samples_per_episode: settings.num_samples_per_episode as usize,
        val_split: settings.val_split,
        fail_success_ratio: (ratio > 0.0).then_some(ratio),
        seed: settings.seed as i64,
    })?;
    let frames = |picks| Frames::new(&reader.views, vec![(data.clone(), picks)]);
    Ok(TrainingData { train: frames(parts.train)?, val: Some(frames(parts.val)?), unsolved: 0, conditions })
}

/// Leaves the frames from which a model with the conditions of the config can learn.
fn chosen_states(
    loaded: &LoadedConfig,
    data: &mut Arc<LabelledData>,
) -> Result<Option<StateConditions>, Failure> {
    let guards = &loaded.config.data.guards;
    if guards.is_empty() {
        return Ok(None);
    }
    let problem = |message: String, hint: &str| Failure::from(loaded.problem("data.guards", message, hint));
    let frames = || data.episodes.iter().flat_map(|episode| &episode.frames);
    let widths: Vec<usize> = frames().map(|frame| frame.state.as_ref().map_or(0, Vec::len)).collect();
    let state_width = widths.first().copied().unwrap_or(0);
    if state_width == 0 || widths.iter().any(|width| *width != state_width) {
        let message = "not every frame of this data has a state of the same size".to_string();
        return Err(problem(message, "collect with states, or leave the conditions out"));
    }
    let conditions = StateConditions { guards: guards.clone(), state_width };
    let hint = format!(
        "write conditions on numbers of the state, of which there are {state_width}: abs(state[0]) < 0.2"
    );
    let Some(chosen) = Arc::get_mut(data) else { unreachable!("it was read a moment ago") };
    let held = keep_decidable(chosen, &conditions).map_err(|error| problem(error.to_string(), &hint))?;
    if held == 0 {
        let message = format!("{} holds in no frame", conditions.text());
        return Err(problem(message, "look at the states with `plaudit dataset inspect`"));
    }
    Ok(Some(conditions))
}

/// An error of the data, at the key that it is about.
fn problem(loaded: &LoadedConfig, key: &str, error: &DatasetError) -> Failure {
    let key = match error {
        _ if is_about_cameras(error) => "actor.model.image_keys",
        // One episode cannot be split, whatever the share: that is the data's fault.
        DatasetError::Read(LabelledError::TooFewEpisodes { episodes: 2.., .. }) => "data.val_split",
        _ => key,
    };
    let otherwise = match key {
        "actor.model.image_keys" => "name cameras that are there",
        _ => "name a train.pt, a folder of episodes, or a store",
    };
    let hint = hints::about_data(error, AskedBy::Config).unwrap_or_else(|| otherwise.into());
    loaded.problem(key, error.to_string(), hint).into()
}

/// Trouble with data, in words that fit a command which takes cameras from the model.
pub(in crate::commands) fn as_failure(error: &DatasetError) -> Failure {
    let help = hints::about_data(error, AskedBy::Model);
    let about_cameras = "the model looks through these cameras; give data that has them";
    Failure::usage(error, help.or_else(|| is_about_cameras(error).then(|| about_cameras.into())))
}

/// Whether the cameras that are asked for are not those that are there.
fn is_about_cameras(error: &DatasetError) -> bool {
    let of_file = |bad: &BadFile| matches!(*bad.problem, FileProblem::NoImages { .. });
    match error {
        DatasetError::View { .. } => true,
        DatasetError::Read(LabelledError::NoCamera) => true,
        DatasetError::Read(LabelledError::Frames(bad)) => of_file(bad),
        DatasetError::Read(LabelledError::Recording(
            ConvertError::BadFile { first, .. } | ConvertError::AllBad { first, .. },
        )) => of_file(first),
        _ => false,
    }
}
