//! `plaudit reward eval`: how good a reward model is on labelled frames.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_data::convert::Source;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Arch, ClassifierError, ClassifierSettings, Device, Scorer};
use plaudit_reward::audit::logits;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{DatasetError, Frames};
use plaudit_reward::metrics::Metrics;
use plaudit_reward::pictures::{Mistakes, ScoreCurve, curves};
use plaudit_reward::train::Evaluation;

use super::data::{Reading, views};
use super::summary::measured;
use super::windows::eval::EvalOfJudge;
use super::windows::{JudgeArgs, refuse};
use crate::cli::Volume;
use crate::failure::Failure;
use crate::progress::{Doing, ProgressBar};
use crate::say;

/// Measure a reward model on labelled frames or windows
///
/// Prints the metrics, and writes the score of every frame, episode by episode, as a table and as curves. A vision-language
/// judge is measured on windows of `plaudit dataset windows`: what it calls better, worse and unclear against the labels,
/// how honest its probabilities are, and how its votes go with the environment's own progress.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward eval logs/20260801-12:00:00-pickcube_trend_sft windows/pickcube_trend/eval
  plaudit reward eval Qwen3-VL-4B-Instruct windows/eval/segments.jsonl --lora logs/sft/checkpoints/best_model
  plaudit reward eval logs/20260801-12:00:00-reward_training dataset/val.pt
  plaudit reward eval checkpoints/best_model logs/run/collected_data --threshold 0.6
  plaudit reward eval reward_model.safetensors store --json")]
pub struct Eval {
    /// A model: a run, a checkpoint folder, or a file; or a vision-language judge: a run, adapters, a Hugging Face folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Labelled frames: a .pt, a folder of episodes, or a store; for a judge, windows: a folder or a segments.jsonl. Of
    /// several, all together
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// Scores above this count as success [default: the model's own, or 0.5]
    #[arg(long, value_name = "P")]
    threshold: Option<f64>,
    /// Where scores.csv (or windows.csv), curves.png and mistakes.png go [default: logs/<time>-reward_eval]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Channels, height and width that pictures are brought to, where the model does not say [default: as they are]
    #[arg(long, value_names = ["C", "H", "W"], num_args = 3)]
    image_size: Option<Vec<usize>>,
    /// Who recorded the episodes, where it cannot be told
    #[arg(long, value_name = "SOURCE")]
    source: Option<Source>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// What is said about a judge.
    #[command(flatten)]
    judge: JudgeArgs,
}

/// Episodes that are drawn.
const DRAWN: usize = 40;
/// Mistakes of each kind that are shown.
const SHOWN: usize = 16;
/// Frames scored at a time.
const BATCH: usize = 256;

impl Eval {
    /// Does it.
    pub(super) fn run(self, volume: Volume) -> Result<(), Failure> {
        if let Some(judge) = self.judge.find(&self.model)? {
            let flags = [
                ("--threshold", self.threshold.is_some()),
                ("--image-size", self.image_size.is_some()),
                ("--source", self.source.is_some()),
            ];
            refuse(&flags, "a vision-language judge")?;
            let (asked, output) = (&self.judge, self.output_dir.clone());
            return EvalOfJudge { judge, asked, data: &self.data, output, json: self.json }.run(volume);
        }
        self.judge.refuse_for_classifier()?;
        let (weights, written) = read(&self.model)?;
        let mut card = written.clone().unwrap_or_else(|| ModelCard::of(guessed(&weights)));
        let frames = self.frames(&card, volume)?;
        if written.is_none() && card.settings.arch != Arch::Resnet10Spatial {
            card.settings.image_size = self.size_of(&frames);
        }
        let scorer =
            Scorer::new(&card.settings, &weights, Device::Cpu).map_err(|error| unfit(&self.model, &error))?;
        if let Some(notice) = resized(&card, &frames).filter(|_| !volume.quiet) {
            say::aside(&format!("note: {notice}"));
        }
        let threshold = self.threshold.or(card.threshold).unwrap_or(0.5);
        let bar = ProgressBar::new("reward eval", volume);
        let heard = |done, total| bar.show(Doing { what: "scoring", unit: "frames", done, total });
        let logits = logits(&scorer, &frames, BATCH, &heard).map_err(|error| unfit(&self.model, &error))?;
        drop(bar);
        let logits: Vec<f32> = logits.iter().map(|logit| (logit / card.temperature()) as f32).collect();
        let evaluation = Evaluation::of(&logits, &frames.labels());
        if evaluation.scores.iter().any(|score| !score.is_finite()) {
            let message =
                format!("{} gives scores that are no numbers; its weights are broken", self.model.display());
            return Err(Failure::work(message, "give an earlier checkpoint".to_string()));
        }
        let evaluation = evaluation.at(&frames.labels(), threshold);
        let output = Output::make(self.output_dir.clone())?;
        output.write(&frames, &evaluation.scores, threshold)?;
        if self.json {
            let value = serde_json::json!({
                "model": self.model.display().to_string(),
                "metrics": evaluation.metrics,
                "loss": evaluation.loss,
                "output_dir": output.folder.display().to_string(),
            });
            return say::out(&format!("{value}\n"));
        }
        say::out(&format!(
            "{}  written to   {}\n",
            page(&evaluation.metrics, &frames),
            output.folder.display()
        ))
    }

    /// The size that pictures are brought to where nothing says it: what was asked for, or as they are.
    fn size_of(&self, frames: &Frames) -> [usize; 3] {
        let asked = self.image_size.as_deref().and_then(|size| <[usize; 3]>::try_from(size).ok());
        let shape = frames.shapes()[0];
        asked.unwrap_or([3, shape.height, shape.width])
    }

    fn frames(&self, card: &ModelCard, volume: Volume) -> Result<Frames, Failure> {
        let views = views(&card.settings.image_keys).map_err(|error| as_failure(&error))?;
        let bar = ProgressBar::new("reward eval", volume);
        let reading = Reading { views, source: self.source, bar: &bar };
        let frames = reading.all(&self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() {
            return Err(Failure::use_of(
                "there are no frames to measure on",
                "give another dataset".to_string(),
            ));
        }
        Ok(frames)
    }
}

/// Trouble with data, in words that fit a command which takes cameras from the model.
pub(super) fn as_failure(error: &DatasetError) -> Failure {
    let text = error.to_string().replace("--image-key", "the model's own");
    let (what, help) = match text.rsplit_once("; ") {
        Some((what, help)) => (what.to_string(), Some(help.to_string())),
        None => (text, None),
    };
    Failure::use_of(what, help)
}

/// The network of weights that do not say what they are of.
pub(in crate::commands) fn guessed(weights: &Weights) -> ClassifierSettings {
    ClassifierSettings::guessed(weights)
}

/// The weights of a model, and what it says about itself, if it does.
pub(in crate::commands) fn read(path: &Path) -> Result<(Weights, Option<ModelCard>), Failure> {
    let help = || "give a run, a checkpoint folder, or a file (.safetensors, .pt)".to_string();
    let weights = Weights::read(path).map_err(|error| Failure::use_of(error, help()))?;
    let card = ModelCard::from_header(weights.metadata())
        .map_err(|error| Failure::use_of(format!("{}: {error}", path.display()), None))?;
    Ok((weights, card))
}

pub(in crate::commands) fn unfit(model: &Path, error: &ClassifierError) -> Failure {
    let help = "the file is of another architecture, or its card was changed".to_string();
    Failure::use_of(format!("{}: {error}", model.display()), help)
}

/// What to know where pictures are not of the model's size.
fn resized(card: &ModelCard, frames: &Frames) -> Option<String> {
    let [_, height, width] = card.settings.image_size;
    let other = frames.shapes().iter().find(|shape| (shape.height, shape.width) != (height, width))?;
    let (from_height, from_width) = (other.height, other.width);
    Some(format!(
        "pictures are {from_height}x{from_width}; the model looks at {height}x{width}, so they are resized"
    ))
}

fn page(metrics: &Metrics, frames: &Frames) -> String {
    let episodes = frames.recordings().iter().filter(|data| data.in_episodes).count();
    let from = match episodes == frames.recordings().len() {
        true => format!("{} episodes\n", frames.by_episode().len()),
        false => "frames of unknown episodes\n".into(),
    };
    from + &measured(metrics)
}

/// Where the result is written.
struct Output {
    folder: PathBuf,
}

/// The folder that a result goes to, made if need be.
pub(super) fn output_folder(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
    let folder = asked.unwrap_or_else(|| PathBuf::from(format!("logs/{time}-reward_eval")));
    std::fs::create_dir_all(&folder).map_err(|error| {
        let help = "give --output-dir a folder that can be written".to_string();
        Failure::use_of(format!("cannot make {}: {error}", folder.display()), help)
    })?;
    Ok(folder)
}

impl Output {
    fn make(folder: Option<PathBuf>) -> Result<Self, Failure> {
        Ok(Self { folder: output_folder(folder)? })
    }

    fn write(&self, frames: &Frames, scores: &[f64], threshold: f64) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::work(error, None);
        let episodes = score_curves(frames, scores);
        let table = self.folder.join("scores.csv");
        plaudit_view::write_atomically(&table, csv(&episodes).as_bytes()).map_err(|error| failed(&error))?;
        let drawn = &episodes[..episodes.len().min(DRAWN)];
        curves(drawn, threshold).write(&self.folder.join("curves.png")).map_err(|error| failed(&error))?;
        let mistakes = Mistakes::worst(frames, scores, threshold, SHOWN);
        if !mistakes.is_empty() {
            let sheet = self.folder.join("mistakes.png");
            mistakes.sheet(frames).write(&sheet).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
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

fn csv(episodes: &[ScoreCurve]) -> String {
    let mut text = String::from("episode,frame,score,success\n");
    for curve in episodes {
        let name = match curve.episode.contains([',', '"', '\n']) {
            true => format!("\"{}\"", curve.episode.replace('"', "\"\"")),
            false => curve.episode.clone(),
        };
        for ((at, score), success) in curve.at.iter().zip(&curve.scores).zip(&curve.truth) {
            let _ = writeln!(text, "{name},{at},{score:.6},{}", u8::from(*success));
        }
    }
    text
}
