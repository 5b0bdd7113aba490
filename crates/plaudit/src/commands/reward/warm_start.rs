//! `plaudit reward train --from MODEL --add DIR`: a trained model learns from a few more frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use plaudit_data::labelled::{LabelledData, LabelledError, Pick};
use plaudit_nn::classifier::ClassifierSettings;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{DatasetError, Frames, Manifest};

use super::data::{Reading, TrainingData};
use super::eval::read;
use super::older::quoted;
use crate::cli::ConfigArgs;
use crate::failure::Failure;
use crate::load::looks_like_override;

/// Going on from a model, with more frames.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Going on from a model")]
pub(super) struct WarmStart {
    /// Go on from this model, for 100 short steps: a run, a checkpoint folder, or a file. Without data, on what its card
    /// says it learned from
    #[arg(long, value_name = "MODEL")]
    from: Option<PathBuf>,
    /// Learn from these frames as well: folders with success/ and failure/, such as `watch` leaves behind. However few,
    /// they are a fifth of what is learned from
    #[arg(long, value_name = "DIR")]
    add: Vec<PathBuf>,
}

/// The share of added frames, in learning and in validation.
const SHARE: f64 = 0.2;
/// One in so many added frames validates.
const VALIDATES: usize = 5;

impl WarmStart {
    /// The config with the model's own settings before what is written.
    pub(super) fn config(&self, given: ConfigArgs) -> Result<ConfigArgs, Failure> {
        let Some(model) = &self.from else { return Ok(given) };
        let (_, card) = read(model)?;
        let card = card.ok_or_else(|| {
            let help = "set actor.model.model_path and the network's settings instead".to_string();
            Failure::use_of(format!("{} does not say which network it is", model.display()), help)
        })?;
        let is_data = |word: &String| word.starts_with("data.") && looks_like_override(word);
        let mut overrides = of_network(model, &card.settings);
        if !given.words.iter().any(is_data) {
            overrides.extend(of_data(&card));
        }
        let mut words = given.words.clone();
        let place = usize::from(given.config_name.is_none());
        words.splice(place..place, overrides);
        Ok(ConfigArgs { words, ..given })
    }

    /// The data with the added frames in both parts.
    pub(super) fn with_added(
        &self,
        mut data: TrainingData,
        reading: &Reading<'_>,
    ) -> Result<TrainingData, Failure> {
        for path in &self.add {
            let added = reading.read(path).map_err(|error| unreadable(path, &error))?;
            let (validate, learn): (Vec<_>, Vec<_>) =
                added.all().into_iter().enumerate().partition(|(at, _)| at % VALIDATES == VALIDATES - 1);
            let picks = |some: Vec<(usize, Pick)>| some.into_iter().map(|(_, pick)| pick).collect();
            data.train = weighed(data.train, &added, picks(learn)).map_err(|error| misfit(path, &error))?;
            if let Some(val) = data.val.take() {
                let val = weighed(val, &added, picks(validate)).map_err(|error| misfit(path, &error))?;
                data.val = Some(val);
            }
        }
        Ok(data)
    }
}

/// A part with added frames, repeated until they are their share of it.
fn weighed(part: Frames, added: &Arc<LabelledData>, picks: Vec<Pick>) -> Result<Frames, DatasetError> {
    if picks.is_empty() {
        return Ok(part);
    }
    let wanted = part.len() as f64 * SHARE / (1.0 - SHARE);
    let times = (wanted / picks.len() as f64).ceil().max(1.0) as usize;
    part.plus(added.clone(), picks.repeat(times))
}

fn unreadable(path: &Path, error: &LabelledError) -> Failure {
    let help = "give a folder with pictures in success/ and failure/".to_string();
    Failure::use_of(format!("{}: {error}", path.display()), help)
}

fn misfit(path: &Path, error: &DatasetError) -> Failure {
    Failure::use_of(format!("{}: {error}", path.display()), None)
}

/// The same network, learning gently.
fn of_network(model: &Path, settings: &ClassifierSettings) -> Vec<String> {
    let ClassifierSettings { arch, hidden_dim, dropout, image_size, normalize, shared_trunk, .. } = settings;
    let keys: Vec<String> = settings.image_keys.iter().map(|key| quoted(key)).collect();
    vec![
        format!("actor.model.model_path={}", quoted(&model.display().to_string())),
        format!("actor.model.arch={}", arch.name()),
        format!("actor.model.hidden_dim={}", hidden_dim.unwrap_or(0)),
        format!("actor.model.dropout={dropout}"),
        format!("actor.model.image_size={image_size:?}"),
        format!("actor.model.normalize={normalize}"),
        format!("actor.model.image_keys=[{}]", keys.join(",")),
        format!("actor.model.shared_trunk={shared_trunk}"),
        format!("actor.model.num_spatial_blocks={}", settings.num_spatial_blocks),
        format!("actor.model.freeze_encoder={}", settings.freeze_encoder),
        "actor.optim.lr=1e-4".into(),
        "actor.optim.lr_warmup_steps=5".into(),
        "runner.max_steps=100".into(),
        "runner.val_check_interval=25".into(),
    ]
}

/// The data that a model says it learned from.
fn of_data(card: &ModelCard) -> Vec<String> {
    let Some(Manifest { train, val }) = &card.dataset else { return Vec::new() };
    let list = |paths: &[String]| {
        let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        format!("[{}]", paths.join(","))
    };
    match (&train.paths[..], val) {
        ([one], Some(val)) if *one == val.paths.join("") => vec![format!("data.data_path={}", quoted(one))],
        (paths, Some(val)) => vec![
            format!("data.train_data_paths={}", list(paths)),
            format!("data.val_data_paths={}", list(&val.paths)),
        ],
        (paths, None) => {
            vec![format!("data.train_data_paths={}", list(paths)), "data.val_data_paths=null".into()]
        }
    }
}
