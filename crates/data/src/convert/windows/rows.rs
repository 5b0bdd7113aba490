//! The lines of `segments.jsonl`, and `dataset_info.json`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::cut::{Episode, view_names};
use super::gather::Sample;
use super::{ChosenWindows, ScannedEpisodes, WindowOptions};
use crate::convert::leakage::Leakage;
use crate::recording::Recordings;
use crate::windows::Objective;

/// One line of `segments.jsonl`.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    task: &'a str,
    prompt: String,
    question: String,
    answer: &'static str,
    /// Left out of RLinf's lines, which ask for the trend.
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<Objective>,
    pkl_path: String,
    messages: [Message; 2],
    source_episode_path: String,
    segment_metadata: Segment,
    supervision: Supervision,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: [Text; 1],
}

#[derive(Serialize)]
struct Text {
    r#type: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Segment {
    start_step: usize,
    end_step: usize,
    window_size: usize,
    episode_id: Option<u64>,
    env_idx: Option<u64>,
    success: Option<bool>,
    augmentation: Option<&'static str>,
    views: Vec<String>,
}

#[derive(Serialize)]
struct Supervision {
    label: &'static str,
    score: f64,
    score_name: &'static str,
    score_source: &'static str,
    delta_threshold: f64,
    start_gae: f64,
    end_gae: f64,
}

impl<'a> Row<'a> {
    /// The line of a sample whose pickle is at `pickle`.
    pub(super) fn of(sample: &Sample, episode: &'a Episode, pickle: &Path, options: &WindowOptions) -> Self {
        let WindowOptions { objective, window_size, extra_views, .. } = options;
        let prompt = objective.question(&episode.task, *window_size, extra_views.len());
        let label = sample.label;
        let message =
            |role, text: &str| Message { role, content: [Text { r#type: "text", text: text.into() }] };
        Self {
            task: &episode.task,
            question: prompt.clone(),
            answer: label,
            objective: Some(*objective).filter(|objective| *objective != Objective::Trend),
            pkl_path: pickle.display().to_string(),
            messages: [message("user", &prompt), message("assistant", label)],
            prompt,
            source_episode_path: episode.path.display().to_string(),
            segment_metadata: Segment {
                start_step: sample.window.start,
                end_step: sample.window.end,
                window_size: options.window_size,
                episode_id: episode.episode_id,
                env_idx: episode.env_idx,
                success: episode.success,
                augmentation: sample.augmentation(),
                views: view_names(options),
            },
            supervision: Supervision {
                label,
                score: sample.score(),
                score_name: "gae_delta_window",
                score_source: episode.score_source,
                delta_threshold: options.delta_threshold,
                start_gae: sample.window.start_score,
                end_gae: sample.window.end_score,
            },
        }
    }
}

/// What a model is asked about a window of `size` frames from the main view and `extra_views` others. With two views it is
/// RLinf's text, in training and in use.
pub fn window_prompt(task: &str, size: usize, extra_views: usize) -> String {
    let shown = match extra_views {
        0 => format!("a {size}-frame video (main view) of the"),
        1 => format!(
            "two synchronized {size}-frame videos from different camera views (main view and third-person view) of the same"
        ),
        extra => format!(
            "{} synchronized {size}-frame videos from different camera views (main view and {extra} other views) of the same",
            extra + 1
        ),
    };
    format!(
        "You are currently performing the task: {task}. You are given {shown} robot action window. Judge whether the \
         action trend is positive, negative, or unclear. Answer with exactly one word: positive, negative, or unclear."
    )
}

/// RLinf's keys in RLinf's order, then ours.
#[derive(Serialize)]
struct DatasetInfo<'a> {
    raw_data_path: String,
    output_dir: String,
    window_size: usize,
    stride: usize,
    delta_threshold: f64,
    tail_unclear_ratio: f64,
    num_samples_per_episode: i64,
    keep_last_window: bool,
    val_split: f64,
    balance_labels: bool,
    max_samples_per_label: Option<usize>,
    eval_max_samples_per_label: Option<usize>,
    reverse_positive_as_negative: bool,
    fps: i64,
    task_description: Option<&'a str>,
    random_seed: i64,
    load_workers: i64,
    write_workers: i64,
    export_format: &'static str,
    num_train_samples: usize,
    num_eval_samples: usize,
    train_label_counts: Map<String, Value>,
    eval_label_counts: Map<String, Value>,
    train_manifest: String,
    eval_manifest: String,
    views: Vec<String>,
    num_train_episodes: usize,
    num_eval_episodes: usize,
    num_short_episodes: usize,
    num_incomplete_windows: usize,
    skipped_files: Vec<String>,
    source: &'static str,
    score: &'static str,
    objective: Objective,
    leakage: Leakage,
}

/// What `dataset_info.json` says.
pub(super) fn dataset_info(
    recordings: &Recordings,
    out: &Path,
    options: &WindowOptions,
    found: &ScannedEpisodes,
    chosen: &ChosenWindows,
    leakage: Leakage,
) -> Value {
    let manifest = |split: &str| out.join(split).join("segments.jsonl").display().to_string();
    let info = DatasetInfo {
        raw_data_path: recordings.path.display().to_string(),
        output_dir: out.display().to_string(),
        window_size: options.window_size,
        stride: options.stride,
        delta_threshold: options.delta_threshold,
        tail_unclear_ratio: options.tail_unclear_ratio,
        num_samples_per_episode: options.num_samples_per_episode,
        keep_last_window: options.keep_last_window,
        val_split: options.val_split,
        balance_labels: options.balance_labels,
        max_samples_per_label: options.max_samples_per_label,
        eval_max_samples_per_label: options.eval_max_samples_per_label,
        reverse_positive_as_negative: options.reverse_positive_as_negative,
        fps: options.recorded.fps,
        task_description: options.task_description.as_deref(),
        random_seed: options.seed,
        load_workers: options.recorded.load_workers,
        write_workers: options.recorded.write_workers,
        export_format: "pkl",
        num_train_samples: chosen.train.len(),
        num_eval_samples: chosen.eval.len(),
        train_label_counts: label_counts(&chosen.train),
        eval_label_counts: label_counts(&chosen.eval),
        train_manifest: manifest("train"),
        eval_manifest: manifest("eval"),
        views: view_names(options),
        num_train_episodes: chosen.split.train.len(),
        num_eval_episodes: chosen.split.val.len(),
        num_short_episodes: found.short,
        num_incomplete_windows: found.incomplete,
        skipped_files: found.bad.iter().map(|bad| bad.path.display().to_string()).collect(),
        source: recordings.format.name(),
        score: options.score.name(),
        objective: options.objective,
        leakage,
    };
    serde_json::to_value(info).unwrap_or_default()
}

/// In the order in which labels appear, as Python's Counter has it.
fn label_counts(samples: &[Sample]) -> Map<String, Value> {
    let mut counts = Map::new();
    for sample in samples {
        let count = counts.get(sample.label).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(sample.label.into(), (count + 1).into());
    }
    counts
}
