//! `plaudit reward train --from MODEL --add DIR`: a trained model learns from a few more frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use plaudit_data::convert::ConvertError;
use plaudit_data::labelled::{FramePick, LabelledData, LabelledError};
use plaudit_nn::classifier::ClassifierSettings;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{DatasetError, Frames, Manifest};
use plaudit_reward::open::ClassifierCheckpoint;

use super::checkpoint::unopened;
use super::data::{FrameReader, TrainingData};
use super::legacy_flags::quoted;
use crate::build::second_model_beside;
use crate::cli::ConfigArgs;
use crate::failure::Failure;
use crate::load::looks_like_override;

/// Fine-tuning a model with more frames.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Fine-tuning a model")]
pub(super) struct WarmStart {
    /// Fine-tune this model, for 80 steps at a tenth of the learning rate: a run, a checkpoint folder, or a file. Without data, on
    /// what its card says it learned from
    #[arg(long, value_name = "MODEL")]
    from: Option<PathBuf>,
    /// Learn from these frames as well: folders with success/ and failure/, such as the hacking monitor and `reward label` leave behind. However
    /// few, they are a fifth of what is learned from
    #[arg(long, value_name = "DIR")]
    add: Vec<PathBuf>,
}

/// Old frames for each added one, in training and in validation: added ones are a fifth.
const OLD_TO_ADDED: usize = 4;
/// One in so many added frames validates.
const VALIDATION_EVERY: usize = 5;
/// What `actor.model.progress_bins` is of a model that has none.
const DEFAULT_BINS: usize = 20;
/// Where the hacking monitor leaves frames without ground truth.
const UNSORTED: &str = "unsorted";
/// Frames of the old data that are enough to see whether a short training did harm.
const VALIDATION_FRAMES: usize = 500;

impl WarmStart {
    /// The config with the model's own settings before what is written.
    pub(super) fn config(&self, given: ConfigArgs) -> Result<ConfigArgs, Failure> {
        let Some(model) = &self.from else { return Ok(given) };
        let checkpoint = ClassifierCheckpoint::read(model).map_err(unopened)?;
        let card = checkpoint.card.ok_or_else(|| {
            let help = "set actor.model.model_path and the network's settings instead".to_string();
            Failure::usage(format!("{} does not say which network it is", model.display()), help)
        })?;
        let is_data = |word: &String| word.starts_with("data.") && looks_like_override(word);
        let mut overrides = of_network(model, &card.settings);
        if !given.words.iter().any(is_data) {
            overrides.extend(of_data(&card));
        }
        if let Some(conditions) = &card.conditions {
            let guards: Vec<String> = conditions.guards.iter().map(|guard| quoted(guard)).collect();
            overrides.push(format!("data.guards=[{}]", guards.join(",")));
        }
        let mut words = given.words.clone();
        let place = usize::from(given.config_name.is_none());
        words.splice(place..place, overrides);
        Ok(ConfigArgs { words, ..given })
    }

    /// Whether the model that is fine-tuned has no second model beside it. A few gentle steps make none.
    pub(super) fn lacks_second_model(&self) -> bool {
        let beside = |model: &PathBuf| second_model_beside(&model.display().to_string());
        self.from.as_ref().is_some_and(|model| beside(model).is_none())
    }

    /// The data with the added frames in both parts.
    pub(super) fn with_added(
        &self,
        mut data: TrainingData,
        reader: &FrameReader<'_>,
    ) -> Result<TrainingData, Failure> {
        let mut added = Vec::new();
        for path in &self.add {
            added.push(reader.read(path).map_err(|error| unreadable(path, &error))?);
        }
        if self.from.is_some() {
            data.val = data.val.map(|val| val.subsampled(VALIDATION_FRAMES));
        }
        data.train = with_share(data.train, &added, AddedSplit::Train)?;
        data.val = data.val.map(|val| with_share(val, &added, AddedSplit::Validation)).transpose()?;
        Ok(data)
    }
}

/// Which part of the added frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddedSplit {
    Train,
    Validation,
}

impl AddedSplit {
    fn of(self, added: &LabelledData) -> Vec<FramePick> {
        let validates = |at: usize| at % VALIDATION_EVERY == VALIDATION_EVERY - 1;
        let all = added.all().into_iter().enumerate();
        all.filter(|(at, _)| validates(*at) == (self == Self::Validation)).map(|(_, pick)| pick).collect()
    }
}

/// Frames with added ones, which are repeated until all of them together are their share.
fn with_share(mut frames: Frames, added: &[Arc<LabelledData>], split: AddedSplit) -> Result<Frames, Failure> {
    let picked: Vec<Vec<FramePick>> = added.iter().map(|data| split.of(data)).collect();
    let count = picked.iter().map(Vec::len).sum::<usize>().max(1);
    let times = frames.len().div_ceil(OLD_TO_ADDED * count).max(1);
    for (data, picks) in added.iter().zip(picked) {
        frames = frames.plus(data.clone(), picks.repeat(times)).map_err(|error| misfit(&error))?;
    }
    Ok(frames)
}

/// Frames that cannot be added. Errors of images explain themselves; anything else is reported as no folder of images.
fn unreadable(path: &Path, error: &LabelledError) -> Failure {
    let bad_file = match error {
        LabelledError::Frames(bad) => Some(bad),
        LabelledError::Recording(
            ConvertError::BadFile { first, .. } | ConvertError::AllBad { first, .. },
        ) => Some(first),
        _ => None,
    };
    let what = bad_file.map_or_else(|| error.to_string(), ToString::to_string);
    let hint = bad_file.and_then(|bad| bad.problem.hint());
    let waiting = std::fs::read_dir(path.join(UNSORTED)).map_or(0, Iterator::count);
    let (what, help) = match bad_file {
        _ if waiting > 0 => {
            let what = format!("{waiting} images in {} wait to be sorted", path.join(UNSORTED).display());
            (what, "move them to success/ and failure/ beside it")
        }
        _ => {
            let other = "give a folder with images in success/ and failure/, such as the hacking monitor leaves behind";
            (what, hint.unwrap_or(other))
        }
    };
    Failure::usage(what, help.to_string())
}

fn misfit(error: &DatasetError) -> Failure {
    let help =
        "let cameras be of the same size where the policy learns: env.train.init_params.sensor_configs";
    Failure::usage(error, help.to_string())
}

/// The same network, learning gently.
fn of_network(model: &Path, settings: &ClassifierSettings) -> Vec<String> {
    let ClassifierSettings { arch, hidden_dim, dropout, image_size, normalize, shared_trunk, .. } = settings;
    let (kind, bins) = match settings.progress_bins {
        Some(bins) => ("progress", bins),
        None => ("resnet", DEFAULT_BINS),
    };
    let keys: Vec<String> = settings.image_keys.iter().map(|key| quoted(key)).collect();
    vec![
        format!("actor.model.model_path={}", quoted(&model.display().to_string())),
        format!("actor.model.model_type={kind}"),
        format!("actor.model.progress_bins={bins}"),
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
        "runner.max_steps=80".into(),
        "runner.val_check_interval=40".into(),
    ]
}

/// The data that a model says it learned from: one recording that was split, or two parts. What was added to both is left
/// out.
fn of_data(card: &ModelCard) -> Vec<String> {
    let Some(Manifest { train, val }) = &card.dataset else { return Vec::new() };
    let list = |paths: &[&String]| {
        let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        format!("[{}]", paths.join(","))
    };
    let val = val.as_ref().map_or(&[][..], |val| &val.paths[..]);
    let learned: Vec<&String> = train.paths.iter().filter(|path| !val.contains(path)).collect();
    let validated: Vec<&String> = val.iter().filter(|path| !train.paths.contains(path)).collect();
    match (&learned[..], &validated[..], train.paths.first()) {
        ([], _, Some(recording)) => vec![format!("data.data_path={}", quoted(recording))],
        (learned, [], _) => {
            vec![format!("data.train_data_paths={}", list(learned)), "data.val_data_paths=null".into()]
        }
        (learned, validated, _) => vec![
            format!("data.train_data_paths={}", list(learned)),
            format!("data.val_data_paths={}", list(validated)),
        ],
    }
}
