//! What the files say about themselves.

use serde::Serialize;
use serde_json::Value;

use plaudit_pyfiles::PyValue;

use super::ImageOptions;
use super::episodes::Labelled;
use crate::convert::leakage::Leakage;
use crate::convert::origins::Origins;
use crate::convert::split::{ChosenFrames, FramePick};
use crate::recording::{Recordings, SplitUnit};

/// RLinf's keys in RLinf's order, then ours. RLinf's reader takes any.
#[derive(Serialize)]
struct Metadata {
    raw_data_path: String,
    num_samples_per_episode: i64,
    keep_last_frame: bool,
    val_split: f64,
    fail_success_ratio: f64,
    random_seed: i64,
    num_train_samples: usize,
    num_val_samples: usize,
    source: &'static str,
    balance_val: bool,
    num_train_success: usize,
    num_val_success: usize,
    num_train_episodes: usize,
    num_val_episodes: usize,
    skipped_files: Vec<String>,
    leakage: Leakage,
    #[serde(flatten)]
    keyboard: Option<Keyboard>,
}

/// What RLinf's keyboard script says besides.
#[derive(Serialize)]
struct Keyboard {
    num_success_frames: usize,
    num_fail_frames: usize,
    total_frames: usize,
}

/// The metadata of both files.
pub(super) fn build(
    options: &ImageOptions,
    recordings: &Recordings,
    labelled: &Labelled,
    chosen: &ChosenFrames,
    [train, val]: [[usize; 2]; 2],
    leakage: Leakage,
) -> Value {
    let metadata = Metadata {
        raw_data_path: recordings.path.display().to_string(),
        num_samples_per_episode: options.num_samples_per_episode,
        keep_last_frame: options.keep_last_frame,
        val_split: options.val_split,
        fail_success_ratio: options.fail_success_ratio,
        random_seed: options.seed,
        num_train_samples: chosen.train.len(),
        num_val_samples: chosen.val.len(),
        source: recordings.format.name(),
        balance_val: options.balance_val,
        num_train_success: train[0],
        num_val_success: val[0],
        num_train_episodes: chosen.split.train.len(),
        num_val_episodes: chosen.split.val.len(),
        skipped_files: labelled.bad.iter().map(|bad| bad.path.display().to_string()).collect(),
        leakage,
        keyboard: (recordings.format.split_unit() == SplitUnit::Run).then(|| keyboard(labelled)),
    };
    serde_json::to_value(metadata).unwrap_or_default()
}

fn keyboard(labelled: &Labelled) -> Keyboard {
    let frames = || labelled.episodes.iter().flat_map(|episode| &episode.frames);
    let (total_frames, num_success_frames) =
        (frames().count(), frames().filter(|frame| frame.success).count());
    Keyboard { num_success_frames, num_fail_frames: total_frames - num_success_frames, total_frames }
}

/// What RLinf's `RewardDatasetPayload` reads.
pub(super) fn payload(
    images: Vec<PyValue>,
    picks: &[FramePick],
    labelled: &Labelled,
    metadata: &Value,
) -> PyValue {
    let labels = picks.iter().map(|pick| PyValue::Int(labelled.frame(*pick).success.into()));
    PyValue::dict([
        ("images", PyValue::list(images)),
        ("labels", PyValue::list(labels)),
        ("metadata", to_python(metadata)),
        origins(picks, labelled).entry(),
    ])
}

/// Where each image is from, so that a prediction for it can be traced back.
fn origins(picks: &[FramePick], labelled: &Labelled) -> Origins {
    let episodes = labelled.episodes.iter().map(|episode| episode.name.clone()).collect();
    let of = picks.iter().map(|pick| (pick.episode as usize, labelled.frame(*pick).at as usize)).collect();
    Origins { episodes, of }
}

fn to_python(value: &Value) -> PyValue {
    match value {
        Value::Null => PyValue::None,
        Value::Bool(boolean) => PyValue::Bool(*boolean),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => PyValue::Int(whole),
            None => PyValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => PyValue::from(&**text),
        Value::Array(items) => PyValue::list(items.iter().map(to_python)),
        Value::Object(entries) => PyValue::dict(entries.iter().map(|(key, value)| (key, to_python(value)))),
    }
}
