//! `plaudit reward audit`: whether a reward model can be trusted, as a page, as JSON, and as an exit code.

mod examine;
mod judge;
mod page;
mod regions;
mod result;
mod training_data;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plaudit_data::convert::Source;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{Arch, Device, Scorer};
use plaudit_reward::audit::{Alarm, Verdict};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::Frames;
use plaudit_reward::trend::JudgeFolder;
use plaudit_view::write_atomically;

use self::examine::Examination;
use self::result::Audit;
use super::data::{Reading, views};
use super::eval::{as_failure, read, unfit};
use super::windows::audit::AuditOfJudge;
use super::windows::{JudgeArgs, refuse};
use crate::cli::Volume;
use crate::commands::report;
use crate::failure::Failure;
use crate::progress::ProgressBar;
use crate::say;

pub(super) use self::page::{details, honesty_chart, shown, verdict};
pub(super) use self::result::{Stored, findings, interval, percent};

/// What is asked for where nothing else is.
const MAX_FPR: f64 = 0.01;
const CONFIDENCE: f64 = 0.95;
const MIN_DETECTION: f64 = 0.5;
const MIN_ACCURACY: f64 = 0.7;

/// Find out whether a reward model can be trusted
///
/// Scores every frame of episodes the model has not seen, picks the threshold whose false alarms are rare with a proof,
/// fits the temperature that makes scores honest, tries what fools the model, and says whether it should be used.
/// Threshold and temperature are stored in the checkpoint; `reward eval` and `train` go by them unless told otherwise.
///
/// A vision-language judge is audited on windows of `plaudit dataset windows`: what it calls better, worse and unclear, how
/// honest its probabilities are, whether it agrees with the environment's own progress, and whether it watches what happens.
/// Its temperature is stored beside its weights.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward audit logs/20260801-12:00:00-reward_training held_out_episodes
  plaudit reward audit logs/20260801-12:00:00-pickcube_trend_sft windows/held_out/eval
  plaudit reward audit checkpoints/best_model held_out --max-fpr 0.05 --train-data episodes --output audit
  plaudit reward audit model.safetensors store --json > audit.json || echo 'do not use it'

Exit codes: 0 the model passes, 3 it does not (the page says why), 1 the audit could not be done, 2 wrong use.")]
pub struct AuditCommand {
    /// A model: a run, a checkpoint folder, or a file; or a vision-language judge: a run, adapters, a Hugging Face folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Labelled episodes that the model has not learned from, or windows for a judge; of several, all together
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// The share of episodes that may raise a false alarm
    #[arg(long, value_name = "RATE", default_value_t = MAX_FPR)]
    max_fpr: f64,
    /// How sure that must be
    #[arg(long, value_name = "P", default_value_t = CONFIDENCE)]
    confidence: f64,
    /// Which frames can raise an alarm: `any-frame` for a reward paid at every step, `last-frame` for a terminal one
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = AlarmWord::AnyFrame)]
    alarm: AlarmWord,
    /// Audit at this threshold instead of picking one; it must keep the promise as well
    #[arg(long, value_name = "P")]
    threshold: Option<f64>,
    /// The model fails if it notices a smaller share of the successful episodes
    #[arg(long, value_name = "SHARE", default_value_t = MIN_DETECTION)]
    min_detection: f64,
    /// What the model learned from, to look for frames that are in both [default: where its card says it was]
    #[arg(long, value_name = "DATA")]
    train_data: Vec<PathBuf>,
    /// Where audit.html and audit.json go [default: logs/<time>-reward_audit]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Leave the checkpoint as it is
    #[arg(long)]
    no_store: bool,
    /// Frames (or windows) of each label that are disturbed and covered
    #[arg(long, value_name = "N", default_value_t = 100)]
    stress_frames: usize,
    /// Decides which episodes fit the temperature, and the intervals
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Who recorded the episodes, where it cannot be told
    #[arg(long, value_name = "SOURCE")]
    source: Option<Source>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// What is said about a judge.
    #[command(flatten)]
    judge: JudgeArgs,
    /// The judge fails if its balanced accuracy may be lower
    #[arg(long, value_name = "SHARE", default_value_t = MIN_ACCURACY, help_heading = "Vision-language judges")]
    min_accuracy: f64,
}

/// Which frames can raise an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AlarmWord {
    /// Any frame.
    AnyFrame,
    /// The last frame of each episode.
    LastFrame,
}

impl From<AlarmWord> for Alarm {
    fn from(word: AlarmWord) -> Self {
        match word {
            AlarmWord::AnyFrame => Self::AnyFrame,
            AlarmWord::LastFrame => Self::LastFrame,
        }
    }
}

impl AuditCommand {
    /// Does it.
    pub(super) fn run(self, volume: Volume) -> Result<(), Failure> {
        self.refuse_odd_numbers()?;
        if let Some(judge) = self.judge.find(&self.model)? {
            return self.of_judge(judge, volume);
        }
        self.judge.refuse_for_classifier()?;
        refuse(&[("--min-accuracy", self.min_accuracy != MIN_ACCURACY)], "an image classifier")?;
        let file = Weights::locate(&self.model).map_err(|error| {
            Failure::use_of(error, "give a run, a checkpoint folder, or a file".to_string())
        })?;
        let (weights, card) = read(&file)?;
        let has_card = card.is_some();
        let mut card = card.unwrap_or_else(|| ModelCard::of(super::eval::guessed(&weights)));
        let bar = ProgressBar::new("reward audit", volume);
        let frames = self.frames(&card, &bar)?;
        if !has_card && card.settings.arch != Arch::Resnet10Spatial {
            let shape = frames.shapes()[0];
            card.settings.image_size = [3, shape.height, shape.width];
        }
        let folder = self.make_output()?;
        let scorer =
            Scorer::new(&card.settings, &weights, Device::Cpu).map_err(|error| unfit(&self.model, &error))?;
        let examination = Examination {
            asked: &self,
            file: &file,
            card: &card,
            scorer: &scorer,
            frames: &frames,
            bar: &bar,
        };
        let (mut audit, pictures) = examination.run()?;
        audit.stored = self.store(&file, has_card, &card, &audit)?;
        drop(bar);
        let html = page::page(&audit, &pictures);
        let json = audit.json();
        write(&folder.join("audit.html"), html.as_bytes())?;
        write(&folder.join("audit.json"), json.as_bytes())?;
        if let Stored::In { .. } = audit.stored {
            write(&report::beside(&file), json.as_bytes())?; // for reports on runs that this model pays
        }
        say::out(&if self.json { json } else { audit.text(&folder) })?;
        if audit.verdict.passed() { Ok(()) } else { Err(Failure::Verdict) }
    }

    fn of_judge(&self, judge: JudgeFolder, volume: Volume) -> Result<(), Failure> {
        let flags = [
            ("--max-fpr", self.max_fpr != MAX_FPR),
            ("--confidence", self.confidence != CONFIDENCE),
            ("--alarm", self.alarm != AlarmWord::AnyFrame),
            ("--threshold", self.threshold.is_some()),
            ("--min-detection", self.min_detection != MIN_DETECTION),
            ("--source", self.source.is_some()),
        ];
        refuse(&flags, "a vision-language judge")?;
        let audit = AuditOfJudge {
            judge,
            asked: &self.judge,
            data: &self.data,
            train_data: &self.train_data,
            min_accuracy: self.min_accuracy,
            changed: self.stress_frames,
            seed: self.seed,
            no_store: self.no_store,
            json: self.json,
        };
        audit.run(&self.make_output()?, volume)
    }

    fn refuse_odd_numbers(&self) -> Result<(), Failure> {
        let odd = [
            ("--max-fpr", self.max_fpr, self.max_fpr > 0.0 && self.max_fpr < 1.0),
            ("--confidence", self.confidence, self.confidence > 0.0 && self.confidence < 1.0),
            ("--min-detection", self.min_detection, (0.0..=1.0).contains(&self.min_detection)),
            ("--min-accuracy", self.min_accuracy, (0.0..=1.0).contains(&self.min_accuracy)),
            (
                "--threshold",
                self.threshold.unwrap_or(0.5),
                (0.0..=1.0).contains(&self.threshold.unwrap_or(0.5)),
            ),
        ];
        match odd.iter().find(|(_, _, fine)| !fine) {
            None => Ok(()),
            Some((flag, value, _)) => {
                Err(Failure::use_of(format!("{flag} is {value}"), "give a share between 0 and 1".to_string()))
            }
        }
    }

    fn frames(&self, card: &ModelCard, bar: &ProgressBar) -> Result<Frames, Failure> {
        let views = views(&card.settings.image_keys).map_err(|error| as_failure(&error))?;
        let reading = Reading { views, source: self.source, bar };
        let frames = reading.all(&self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() {
            return Err(Failure::use_of(
                "there are no frames to audit on",
                "give another dataset".to_string(),
            ));
        }
        Ok(frames)
    }

    fn make_output(&self) -> Result<PathBuf, Failure> {
        let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
        let folder =
            self.output.clone().unwrap_or_else(|| PathBuf::from(format!("logs/{time}-reward_audit")));
        std::fs::create_dir_all(&folder).map_err(|error| {
            let help = "give --output a folder that can be written".to_string();
            Failure::use_of(format!("cannot make {}: {error}", folder.display()), help)
        })?;
        Ok(folder)
    }

    /// Writes what was found into the checkpoint, if it has a place for it and the data can be believed.
    fn store(&self, file: &Path, has_card: bool, card: &ModelCard, audit: &Audit) -> Result<Stored, Failure> {
        if self.no_store {
            return Ok(Stored::No { why: "it was asked to leave the checkpoint as it is".into() });
        }
        if !has_card {
            let why = "the file has no card to store it in: train with plaudit, or write the threshold into \
                       reward.reward_threshold";
            return Ok(Stored::No { why: why.into() });
        }
        if let Some(why) = unbelievable(&audit.verdict) {
            return Ok(Stored::No { why });
        }
        let card = audit.card(card);
        card.replace_in(file).map_err(|error| Failure::work(error, None))?;
        Ok(Stored::In { file: file.display().to_string() })
    }
}

/// Why numbers from this data must not go into a checkpoint.
fn unbelievable(verdict: &Verdict) -> Option<String> {
    let of_the_data = |code: &str| matches!(code, "leak" | "one_class");
    let found = verdict.findings.iter().find(|finding| of_the_data(finding.code))?;
    Some(format!("what was measured cannot be believed: {}", found.what))
}

/// Writes a file of the result.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_atomically(path, bytes).map_err(|error| Failure::work(error, None))
}
