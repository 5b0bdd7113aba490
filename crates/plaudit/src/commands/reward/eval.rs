//! `plaudit reward eval`: how good a reward model is on labelled frames.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_core::Seed;
use plaudit_reward::audit::{conditioned, logits, score_of};
use plaudit_reward::dataset::Frames;
use plaudit_reward::images::{Mistakes, ScoreCurve, curves};
use plaudit_reward::metrics::{Confusion, Metrics, ProgressIntervals, ProgressMetrics};
use plaudit_reward::open::ModelLocation;
use plaudit_reward::train::{Evaluation, episode_scores};

use super::audit::interval;
use super::checkpoint::{PreparationArgs, only_served, probability, unfit, without_states};
use super::data::{FrameReader, as_failure, views};
use super::summary::measured;
use super::windows::episodes::{EpisodeArgs, EpisodeEvalRun};
use super::windows::eval::JudgeEvalRun;
use super::windows::{JudgeArgs, refuse};
use crate::cli::Verbosity;
use crate::commands::rule_args::RuleArgs;
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::progress::{ProgressBar, ProgressUpdate};

/// Measure a reward model on labelled frames or windows
///
/// Prints the metrics, and writes the score of every frame, episode by episode, as a table and as curves. A vision-language
/// judge is measured on windows of `plaudit dataset windows`: what it calls better, worse and unclear against the labels,
/// how calibrated its probabilities are, and how its votes go with the environment's own progress. With --readout, a
/// vision-language model, tuned or not, is measured on whole episodes: how its values rise in episodes that succeed, and whether
/// they tell those from others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward eval logs/20260801-12:00:00-pickcube_trend_sft \\
      windows/pickcube_trend/eval
  plaudit reward eval Qwen3-VL-4B-Instruct windows/eval/segments.jsonl \\
      --lora logs/sft/checkpoints/best_model
  plaudit reward eval Qwen3-VL-4B-Instruct episodes --readout topreward \\
      --task 'Pick up the red cube.'
  plaudit reward eval Qwen3-VL-4B-Instruct episodes --readout all \\
      --task 'Pick up the red cube.'
  plaudit reward eval Qwen3-VL-4B-Instruct episodes --readout words \\
      --task 'Pick up the red cube.' --words Yes,No \\
      --prompt 'Is this done: {task} Answer Yes or No.'
  plaudit reward eval logs/20260801-12:00:00-reward_training dataset/val.pt
  plaudit reward eval checkpoints/best_model logs/run/collected_data \\
      --threshold 0.6
  plaudit reward eval reward_model.safetensors store --json")]
pub struct Eval {
    /// A model: a run, a checkpoint folder, or a file; one of one's own making: model.onnx, or my_reward.py:score; or a
    /// vision-language judge: a run, adapters, a Hugging Face folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Labelled frames: a .pt, a folder of episodes, or a store; for a judge, windows: a folder or a segments.jsonl. Of
    /// several, all together
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// Scores above this count as success [default: the model's own, or 0.5]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    threshold: Option<f64>,
    /// Where scores.csv (or windows.csv), curves.png and mistakes.png go [default: logs/<time>-reward_eval]
    #[arg(long, short, visible_alias = "output", value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    preparation: PreparationArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// What is said about a judge.
    #[command(flatten)]
    judge: JudgeArgs,
    /// How it is asked about episodes.
    #[command(flatten)]
    episodes: EpisodeArgs,
}

/// Episodes that are shown.
const EPISODES_SHOWN: usize = 40;
/// Mistakes of each kind that are shown.
const SHOWN: usize = 16;
/// Bootstrap resamples of episodes behind an interval.
pub(super) const RESAMPLES: u64 = 200;
/// Frames scored at a time.
const BATCH: usize = 256;

impl Eval {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let location = self.judge.locate(&self.model)?;
        match location {
            ModelLocation::VisionLanguage(judge) => {
                let flags = [("--threshold", self.threshold.is_some())];
                refuse(&[&flags[..], &self.preparation.given()].concat(), "a vision-language judge")?;
                let (asked, output) = (&self.judge, self.output_dir.clone());
                if !self.episodes.readout.is_empty() {
                    let (episodes, rules) = (&self.episodes, &self.rules);
                    let (data, json) = (&self.data[..], self.json);
                    return EpisodeEvalRun { judge, asked, episodes, rules, data, output, json }
                        .run(verbosity);
                }
                refuse(&self.rules.given(), "a vision-language judge")?;
                JudgeEvalRun { judge, asked, data: &self.data, output, json: self.json }.run(verbosity)
            }
            ModelLocation::Classifier(_) | ModelLocation::Custom(_) => {
                self.measure_frames(location, verbosity)
            }
            ModelLocation::Server(address) => Err(only_served(&address)),
        }
    }

    fn measure_frames(&self, location: ModelLocation, verbosity: Verbosity) -> Result<(), Failure> {
        self.judge.refuse_for_classifier()?;
        refuse(&[("--readout", !self.episodes.readout.is_empty())], "an image classifier")?;
        let model =
            self.preparation.open_frames(&self.model, location, self.judge.device.choice(), verbosity)?;
        let card = model.known();
        let frames = self.frames(&model.image_keys(), verbosity)?;
        if let Some(notice) =
            model.image_size().and_then(|size| resized(size, &frames)).filter(|_| !verbosity.quiet)
        {
            console::eprintln(&format!("note: {notice}"));
        }
        let threshold = self.threshold.or(card.threshold).unwrap_or(0.5);
        let bar = ProgressBar::new("reward eval", verbosity);
        let on_progress =
            |done, total| bar.show(ProgressUpdate { what: "scoring", unit: "frames", done, total });
        let logits = logits(model.scorer(), &frames, BATCH, &on_progress)
            .map_err(|error| unfit(&self.model, &error))?;
        drop(bar);
        let logits = conditioned(&frames, card.conditions, logits).map_err(|error| without_states(&error))?;
        let scores: Vec<f64> = logits.iter().map(|logit| score_of(*logit as f32, card.temperature)).collect();
        if scores.iter().any(|score| !score.is_finite()) {
            let message =
                format!("{} gives scores that are no numbers; its weights are broken", self.model.display());
            return Err(Failure::runtime(message, "give an earlier checkpoint".to_string()));
        }
        let truth = frames.labels();
        let tempered: Vec<f32> = logits.iter().map(|logit| *logit as f32 / card.temperature as f32).collect();
        let evaluation = Evaluation::of(&tempered, &truth).at(&truth, threshold);
        // Decisions are those of a reward with these scores.
        let metrics =
            evaluation.metrics.with_calls(Confusion::at(&scores, &truth, f64::from(threshold as f32)));
        let episodes = in_episodes(&frames).then(|| episode_scores(&frames, &scores));
        let progress = episodes.as_ref().map(|episodes| ProgressMetrics::of(episodes));
        let intervals =
            episodes.as_ref().map(|episodes| ProgressIntervals::of(episodes, RESAMPLES, Seed::new(0)));
        let folder = output_folder(self.output_dir.clone())?;
        write_results(&folder, &frames, &scores, threshold)?;
        if self.json {
            let value = serde_json::json!({
                "model": self.model.display().to_string(),
                "metrics": metrics,
                "progress": progress,
                "progress_intervals": intervals,
                "loss": evaluation.loss,
                "output_dir": folder.display().to_string(),
            });
            return console::print(&format!("{value}\n"));
        }
        let progress = intervals.map(|intervals| progress_line(&intervals)).unwrap_or_default();
        let page = page(&metrics, &frames);
        console::print(&format!("{page}{progress}  written to   {}\n", folder.display()))
    }

    fn frames(&self, image_keys: &[String], verbosity: Verbosity) -> Result<Frames, Failure> {
        let views = views(image_keys).map_err(|error| as_failure(&error))?;
        let bar = ProgressBar::new("reward eval", verbosity);
        let reader = FrameReader { views, rules: self.rules.rules(), bar: &bar };
        let frames = reader.all(&self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() {
            return Err(Failure::usage(
                "there are no frames to measure on",
                "give episodes, a .pt of images, or a store that holds some".to_string(),
            ));
        }
        Ok(frames)
    }
}

/// A notice where images are not of the model's size.
fn resized([height, width]: [usize; 2], frames: &Frames) -> Option<String> {
    let other = frames.shapes().iter().find(|shape| (shape.height, shape.width) != (height, width))?;
    let (from_height, from_width) = (other.height, other.width);
    Some(format!(
        "images are {from_height}x{from_width}; the model takes {height}x{width}, so they are resized"
    ))
}

/// Whether frames are in the episodes that they happened in.
fn in_episodes(frames: &Frames) -> bool {
    frames.recordings().iter().all(|data| data.in_episodes)
}

/// How well scores follow the progress of episodes, in a line.
fn progress_line(progress: &ProgressIntervals) -> String {
    format!(
        "  value-order correlation {}, Kendall's tau {} (up to success, {} episodes); AUC of last frames {}, balanced accuracy {}\n",
        interval(progress.voc),
        interval(progress.kendall),
        progress.successful_episodes,
        interval(progress.last_frame_auc),
        progress.balanced_accuracy.map_or("-".into(), |share| format!("{share:.2}"))
    )
}

fn page(metrics: &Metrics, frames: &Frames) -> String {
    let from = match in_episodes(frames) {
        true => format!("{} episodes\n", frames.by_episode().len()),
        false => "frames of unknown episodes\n".into(),
    };
    from + &measured(metrics)
}

/// The folder that a result goes to, made if need be.
pub(super) fn output_folder(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
    let folder = asked.unwrap_or_else(|| PathBuf::from(format!("logs/{time}-reward_eval")));
    output::make_folder("--output-dir", &folder)?;
    Ok(folder)
}

fn write_results(folder: &Path, frames: &Frames, scores: &[f64], threshold: f64) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::runtime(error, None);
    let episodes = score_curves(frames, scores);
    output::write("--output-dir", &folder.join("scores.csv"), csv(&episodes).as_bytes())?;
    let shown = &episodes[..episodes.len().min(EPISODES_SHOWN)];
    curves(shown, threshold).write(&folder.join("curves.png")).map_err(|error| failed(&error))?;
    let mistakes = Mistakes::worst(frames, scores, threshold, SHOWN);
    if !mistakes.is_empty() {
        let sheet = folder.join("mistakes.png");
        mistakes.sheet(frames, threshold).write(&sheet).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn score_curves(frames: &Frames, scores: &[f64]) -> Vec<ScoreCurve> {
    let curve = |numbers: Vec<usize>| ScoreCurve {
        episode: numbers.first().map_or(String::new(), |first| frames.origin(*first).episode.into()),
        at: numbers.iter().map(|number| frames.origin(*number).at).collect(),
        scores: numbers.iter().map(|number| scores[*number]).collect(),
        truth: numbers.iter().map(|number| frames.success(*number)).collect(),
    };
    frames.by_episode().into_iter().map(curve).collect()
}

/// A text as CSV has it: in quotes where it must be.
pub(super) fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

fn csv(episodes: &[ScoreCurve]) -> String {
    let mut text = String::from("episode,frame,score,success\n");
    for curve in episodes {
        let name = csv_field(&curve.episode);
        for ((at, score), success) in curve.at.iter().zip(&curve.scores).zip(&curve.truth) {
            let _ = writeln!(text, "{name},{at},{score:.6},{}", u8::from(*success));
        }
    }
    text
}
