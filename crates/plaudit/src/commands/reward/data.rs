//! The labelled frames that a config or a command names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::convert::{BadFiles, Progress, Source};
use plaudit_data::labelled::{LabelledData, LabelledError, ReadOptions, SplitOptions};
use plaudit_reward::dataset::{DatasetError, Frames, ViewKey};

use crate::build;
use crate::config::Loaded;
use crate::config::block::OneOrMore;
use crate::failure::Failure;
use crate::progress::{Doing, ProgressBar};

/// What a training learns from, and what it is measured on.
pub(super) struct TrainingData {
    pub(super) train: Frames,
    pub(super) val: Option<Frames>,
}

/// How frames are read.
pub(super) struct Reading<'a> {
    pub(super) views: Vec<ViewKey>,
    pub(super) source: Option<Source>,
    pub(super) bar: &'a ProgressBar,
}

impl Reading<'_> {
    pub(super) fn read(&self, path: &Path) -> Result<Arc<LabelledData>, LabelledError> {
        LabelledData::read(path, &self.options(), &|progress| self.tick(progress)).map(Arc::new)
    }

    fn options(&self) -> ReadOptions {
        ReadOptions { cameras: ViewKey::cameras(&self.views), source: self.source, bad_files: BadFiles::Stop }
    }

    fn tick(&self, progress: Progress) {
        let Progress { done, total, .. } = progress;
        self.bar.show(Doing { what: "reading", unit: "episodes", done, total });
    }

    /// Every frame of some datasets.
    pub(super) fn all(&self, paths: &[PathBuf]) -> Result<Frames, DatasetError> {
        let mut picked = Vec::new();
        for path in paths {
            let data = self.read(path)?;
            let all = data.all();
            picked.push((data, all));
        }
        Frames::new(&self.views, picked)
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
pub(super) fn training_data(loaded: &Loaded, bar: &ProgressBar) -> Result<TrainingData, Failure> {
    let keys = &loaded.config.actor.model.image_keys;
    let hint = "name cameras, such as main_images, extra_view_images, or main_images@-4 for the past";
    let views =
        views(keys).map_err(|error| loaded.problem("actor.model.image_keys", error.to_string(), hint))?;
    let reading = Reading { views, source: build::recorder(loaded), bar };
    let (key, read) = named(loaded, &reading)?;
    read.map_err(|error| problem(loaded, key, &error))
}

/// The key that names the data, and what is there.
fn named(
    loaded: &Loaded,
    reading: &Reading<'_>,
) -> Result<(&'static str, Result<TrainingData, DatasetError>), Failure> {
    let data = &loaded.config.data;
    if let (Some(positive), Some(negative)) = (&data.positive_dir, &data.negative_dir) {
        let tick = |progress| reading.tick(progress);
        let read = LabelledData::read_trajectories(
            Path::new(positive),
            Path::new(negative),
            &reading.options(),
            &tick,
        );
        let split = read.map_err(DatasetError::from).and_then(|read| split(loaded, reading, Arc::new(read)));
        return Ok(("data.positive_dir", split));
    }
    if let Some(path) = &data.data_path {
        let path = Path::new(path);
        let parts = ["train.pt", "val.pt"].map(|name| path.join(name));
        let read = match parts.iter().all(|part| part.is_file()) {
            true => in_two_files(reading, &parts[..1], &parts[1..]),
            false => {
                reading.read(path).map_err(DatasetError::from).and_then(|read| split(loaded, reading, read))
            }
        };
        return Ok(("data.data_path", read));
    }
    let Some(train) = &data.train_data_paths else {
        let help = "give episodes with --data PATH, or set data.train_data_paths and data.val_data_paths";
        return Err(Failure::use_of("nothing to train on", help.to_string()));
    };
    let paths = |paths: &OneOrMore<String>| match paths {
        OneOrMore::One(path) => vec![PathBuf::from(path)],
        OneOrMore::More(paths) => paths.iter().map(PathBuf::from).collect(),
    };
    let val = data.val_data_paths.as_ref().map(paths).unwrap_or_default();
    Ok(("data.train_data_paths", in_two_files(reading, &paths(train), &val)))
}

fn in_two_files(
    reading: &Reading<'_>,
    train: &[PathBuf],
    val: &[PathBuf],
) -> Result<TrainingData, DatasetError> {
    let train = reading.all(train)?;
    let val = if val.is_empty() { None } else { Some(reading.all(val)?) };
    Ok(TrainingData { train, val })
}

/// One recording in two parts, by episode.
fn split(
    loaded: &Loaded,
    reading: &Reading<'_>,
    data: Arc<LabelledData>,
) -> Result<TrainingData, DatasetError> {
    let settings = &loaded.config.data;
    let ratio = settings.fail_success_ratio;
    let parts = data.split(&SplitOptions {
        num_samples_per_episode: settings.num_samples_per_episode as usize,
        val_split: settings.val_split,
        fail_success_ratio: (ratio > 0.0).then_some(ratio),
        seed: settings.seed as i64,
    })?;
    let frames = |picks| Frames::new(&reading.views, vec![(data.clone(), picks)]);
    Ok(TrainingData { train: frames(parts.train)?, val: Some(frames(parts.val)?) })
}

/// An error of the data, at the key that names it. What flags of `dataset images` would change, keys change here.
fn problem(loaded: &Loaded, key: &str, error: &DatasetError) -> Failure {
    let mut text = error.to_string();
    for (flag, key) in [
        ("--image-key", "actor.model.image_keys"),
        ("--source", "data.source"),
        ("point --raw-data-path at", "name"),
        ("; --skip-bad leaves such files out", ""),
    ] {
        text = text.replace(flag, key);
    }
    let (what, hint) = match text.rsplit_once("; ") {
        Some((what, hint)) => (what.to_string(), hint.to_string()),
        None => (text, "name a train.pt, a folder of episodes, or a store".into()),
    };
    loaded.problem(key, what, hint).into()
}
