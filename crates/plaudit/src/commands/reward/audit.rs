//! `plaudit reward audit`: whether a reward model can be trusted, as a page, as JSON, and as an exit code.

mod charts;
pub(super) mod hints;
mod images;
mod manual_settings;
mod page;
mod regions;
mod text;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_data::recording::{BadFiles, Rules};
use plaudit_reward::audit::{
    AlarmFrames, AuditError, AuditProgress, AuditRule, AuditSettings, Auditor, Examination,
    JudgeAuditSettings, Stored,
};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::Frames;
use plaudit_reward::open::{ModelLocation, OpenFrameModel};
use plaudit_reward::trend::JudgeFolder;
use plaudit_view::write_atomically;

use self::images::PageImages;
use self::manual_settings::ManualSettings;
use self::regions::Rerendered;
use self::text::AuditReport;
use super::checkpoint::{PreparationArgs, only_served, probability, unfit, without_states};
use super::data::{FrameReader, as_failure, views};
use super::train::tempfile_in;
use super::windows::audit::JudgeAuditRun;
use super::windows::{JudgeArgs, refuse};
use crate::cli::Verbosity;
use crate::commands::report::audit_file;
use crate::commands::rule_args::RuleArgs;
use crate::config::block::{Choice, flag_words};
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::progress::{ProgressBar, ProgressUpdate};

pub(in crate::commands) use self::charts::{calibration_chart, scores_chart};
pub(super) use self::page::{details, findings as show_findings, headline, shown};
pub(super) use self::text::{findings, interval};

/// What is asked for where nothing else is.
const DEFAULT: AuditSettings = AuditSettings::DEFAULT;
const MIN_ACCURACY: f64 = JudgeAuditSettings::DEFAULT.min_accuracy;

/// Find out whether a reward model can be trusted
///
/// Scores every frame of episodes the model has not seen, picks the threshold with a guaranteed false-alarm rate,
/// fits the temperature that calibrates the scores, tries what fools the model, and says whether it should be used.
/// Threshold and temperature are stored in the checkpoint (of a model of one's own making, in the JSON file beside it); `reward
/// eval` and `train` use them unless set otherwise. Where they cannot be stored (RLinf's files), it says what to write where.
///
/// A vision-language judge is audited on windows of `plaudit dataset windows`: what it calls better, worse and unclear, how
/// calibrated its probabilities are, whether it agrees with the environment's own progress, and whether it reacts to what happens.
/// Its temperature is stored beside its weights.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward audit logs/20260801-12:00:00-reward_training held_out_episodes
  plaudit reward audit logs/20260801-12:00:00-pickcube_trend_sft \\
      windows/held_out/eval
  plaudit reward audit checkpoints/best_model held_out \\
      --max-fpr 0.05 --train-data episodes --output audit
  plaudit reward audit checkpoints/best_model held_out \\
      --grace 0 --hold 3
  plaudit reward audit model.safetensors store --json > audit.json || \\
      echo 'do not use it'

Exit codes: 0 the model passes, 3 it does not (the page says why),
1 the audit could not be done, 2 wrong use.")]
pub struct AuditCommand {
    /// A model: a run, a checkpoint folder, or a file; one of one's own making: model.onnx, or my_reward.py:score; or a
    /// vision-language judge: a run, adapters, a Hugging Face folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Labelled episodes that the model has not learned from, or windows for a judge; of several, all together
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// The share of episodes that may raise a false alarm
    #[arg(long, value_name = "RATE", default_value_t = DEFAULT.max_fpr)]
    max_fpr: f64,
    /// How sure that must be
    #[arg(long, value_name = "P", default_value_t = DEFAULT.confidence)]
    confidence: f64,
    /// Which frames can raise an alarm: `any-frame` for a reward at every step, `last-frame` for a terminal one
    #[arg(long, value_name = "WHICH", default_value = "any-frame", value_parser = flag_words::<AlarmFrames>(AlarmFrames::WORDS))]
    alarm: AlarmFrames,
    /// Frames before success in which a reward is no false alarm: those of arriving
    #[arg(long, value_name = "N", default_value_t = DEFAULT.rule.grace)]
    grace: usize,
    /// The reward waits for this many frames in a row above the threshold, as with reward.hold_steps
    #[arg(long, value_name = "N", default_value_t = DEFAULT.rule.hold)]
    hold: NonZeroUsize,
    /// Success lasts until the score is below this, as with reward.hysteresis; the threshold is then where it begins
    #[arg(long, value_name = "P", value_parser = probability)]
    leave: Option<f64>,
    /// Audit at this threshold instead of picking one; it must keep the guarantee as well. It is compared with scores as
    /// `reward eval`, `train` and `serve` give them after this audit: at the temperature that it stores, or, where nothing
    /// is stored (--no-store, RLinf's files), at the checkpoint's own
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// The model fails if it detects a smaller share of the successful episodes
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT.min_detection)]
    min_detection: f64,
    /// What the model learned from, to look for frames that are in both [default: where its card says it was]
    #[arg(long, value_name = "DATA")]
    train_data: Vec<PathBuf>,
    /// Where audit.html and audit.json go [default: logs/<time>-reward_audit]
    #[arg(long, short, visible_alias = "output-dir", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Leave the checkpoint as it is
    #[arg(long)]
    no_store: bool,
    /// Frames (or windows) of each label that are disturbed and covered
    #[arg(long, value_name = "N", default_value_t = DEFAULT.stress_frames as u32, value_parser = clap::value_parser!(u32).range(1..))]
    stress_frames: u32,
    /// Seed of the episodes that fit the temperature, and of the intervals
    #[arg(long, value_name = "N", default_value_t = DEFAULT.seed)]
    seed: u64,
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
    /// The judge fails if its balanced accuracy may be lower
    #[arg(long, value_name = "SHARE", default_value_t = MIN_ACCURACY, help_heading = "Vision-language judges")]
    min_accuracy: f64,
}

impl AuditCommand {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        self.refuse_odd_numbers()?;
        let location = self.judge.locate(&self.model)?;
        match location {
            ModelLocation::VisionLanguage(judge) => return self.audit_judge(judge, verbosity),
            ModelLocation::Server(address) => return Err(only_served(&address)),
            ModelLocation::Classifier(_) | ModelLocation::Custom(_) => {}
        }
        self.judge.refuse_for_classifier()?;
        refuse(&[("--min-accuracy", self.min_accuracy != MIN_ACCURACY)], "an image classifier")?;
        let model =
            self.preparation.open_frames(&self.model, location, self.judge.device.choice(), verbosity)?;
        let bar = ProgressBar::new("reward audit", verbosity);
        let frames = self.frames(&model.image_keys(), &bar)?;
        let folder = self.make_output()?;
        let rerendered = Rerendered::of(&frames);
        let regions = rerendered
            .as_ref()
            .map(|rerendered| |number: usize, view: usize| rerendered.regions(&frames, number, view));
        let auditor = Auditor {
            settings: self.settings(),
            train_data: &self.train_data,
            // What it learned from is compared whole.
            rules: Rules { bad_files: BadFiles::Stop, ..self.rules.rules() },
            regions: regions.as_ref().map(|regions| regions as _),
            on_progress: &|progress| show(&bar, progress),
            ..Auditor::new(model.name(), model.scorer(), model.known(), &frames)
        };
        let examination = auditor.examine().map_err(|error| self.failed(error))?;
        let conclude = |planned: Stored| {
            let report = self.report(&examination, planned, without_header(&model))?;
            self.write_pages(&folder, &report, &frames)?;
            Ok::<_, Failure>(report)
        };
        let file = model.card_file();
        let mut report = conclude(self.planned(&file, without_header(&model).is_none()))?;
        // The pages first: a checkpoint that cannot be written must not cost an hour of work.
        if let Err(error) = model.store(&report.audit) {
            report = conclude(Stored::No { why: unwritable(&file, error.as_ref()) })?;
        }
        drop(bar);
        self.print_result(&file, &folder, &report)?;
        if report.audit.passed { Ok(()) } else { Err(Failure::AuditNotPassed) }
    }

    fn settings(&self) -> AuditSettings {
        AuditSettings {
            max_fpr: self.max_fpr,
            confidence: self.confidence,
            rule: AuditRule { alarm: self.alarm, grace: self.grace, hold: self.hold, leave: self.leave },
            threshold: self.threshold,
            min_detection: self.min_detection,
            stress_frames: self.stress_frames as usize,
            seed: self.seed,
        }
    }

    /// What follows from an examination; `foreign` is the card of a file that does not describe itself.
    fn report(
        &self,
        examination: &Examination<'_>,
        planned: Stored,
        foreign: Option<&ModelCard>,
    ) -> Result<AuditReport, Failure> {
        let mut audit = examination.conclude(planned).map_err(|error| self.failed(error))?;
        hints::for_classifiers(&mut audit.verdict);
        let manual_settings = match &audit.stored {
            Stored::In { .. } => None,
            Stored::No { .. } => {
                let network = foreign.map(|card| &card.settings);
                Some(ManualSettings::of(&self.model, &audit.operating, network))
            }
        };
        Ok(AuditReport { audit, manual_settings })
    }

    fn failed(&self, error: AuditError) -> Failure {
        match error {
            AuditError::Classifier(error) => unfit(&self.model, &error),
            other => failure(other),
        }
    }

    fn write_pages(&self, folder: &Path, report: &AuditReport, frames: &Frames) -> Result<(), Failure> {
        let images = PageImages::of(&report.audit, frames);
        write(&folder.join("audit.html"), page::page(report, &images).as_bytes())?;
        write(&folder.join("audit.json"), report.json().as_bytes())
    }

    /// Says what was found, and keeps it beside a checkpoint that was changed, for reports on runs that this model rewards.
    fn print_result(&self, file: &Path, folder: &Path, report: &AuditReport) -> Result<(), Failure> {
        let json = report.json();
        match &report.audit.stored {
            Stored::In { .. } => {
                if let Err(error) = write_atomically(&audit_file(file), json.as_bytes()) {
                    console::eprintln(&format!("warning: reports will not show this audit: {error}"));
                }
            }
            Stored::No { why } if !self.no_store && self.json => {
                console::eprintln(&format!("warning: nothing is stored in {}: {why}", file.display()));
            }
            Stored::No { .. } => {}
        }
        console::print(&if self.json { json } else { report.text(folder) })
    }

    fn audit_judge(&self, judge: JudgeFolder, verbosity: Verbosity) -> Result<(), Failure> {
        let flags = [
            ("--max-fpr", self.max_fpr != DEFAULT.max_fpr),
            ("--confidence", self.confidence != DEFAULT.confidence),
            ("--alarm", self.alarm != AlarmFrames::AnyFrame),
            ("--grace", self.grace != DEFAULT.rule.grace),
            ("--hold", self.hold != DEFAULT.rule.hold),
            ("--leave", self.leave.is_some()),
            ("--threshold", self.threshold.is_some()),
            ("--min-detection", self.min_detection != DEFAULT.min_detection),
        ];
        let given = [&flags[..], &self.rules.given(), &self.preparation.given()].concat();
        refuse(&given, "a vision-language judge")?;
        let audit = JudgeAuditRun {
            judge,
            asked: &self.judge,
            data: &self.data,
            train_data: &self.train_data,
            settings: JudgeAuditSettings {
                min_accuracy: self.min_accuracy,
                changed: self.stress_frames as usize,
                seed: self.seed,
            },
            no_store: self.no_store,
            json: self.json,
        };
        audit.run(&self.make_output()?, verbosity)
    }

    fn refuse_odd_numbers(&self) -> Result<(), Failure> {
        let shares = [
            ("--threshold", self.threshold.unwrap_or(0.5)),
            ("--min-detection", self.min_detection),
            ("--min-accuracy", self.min_accuracy),
        ];
        let between = [("--max-fpr", self.max_fpr), ("--confidence", self.confidence)];
        let odd = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share));
        if let Some((flag, value)) = odd {
            let help = "give a number from 0 to 1".to_string();
            return Err(Failure::usage(format!("{flag} is {value}"), help));
        }
        match between.iter().find(|(_, share)| !(*share > 0.0 && *share < 1.0)) {
            None => Ok(()),
            Some((flag, value)) => {
                let help = "give a number above 0 and below 1: nothing can be guaranteed without exception";
                Err(Failure::usage(format!("{flag} is {value}"), help.to_string()))
            }
        }
    }

    fn frames(&self, image_keys: &[String], bar: &ProgressBar) -> Result<Frames, Failure> {
        let views = views(image_keys).map_err(|error| as_failure(&error))?;
        let reader = FrameReader { views, rules: self.rules.rules(), bar };
        let frames = reader.all(&self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() {
            return Err(Failure::usage(
                "there are no frames to audit on",
                "give episodes, a .pt of images, or a store that holds some".to_string(),
            ));
        }
        Ok(frames)
    }

    fn make_output(&self) -> Result<PathBuf, Failure> {
        let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
        let folder =
            self.output.clone().unwrap_or_else(|| PathBuf::from(format!("logs/{time}-reward_audit")));
        output::make_folder("--output", &folder)?;
        Ok(folder)
    }

    /// Whether threshold and temperature will go into the checkpoint, as far as the data does not forbid it. It decides
    /// the scale on which others see scores, so that it must be known before anything is counted.
    fn planned(&self, file: &Path, has_header: bool) -> Stored {
        if self.no_store {
            return Stored::No { why: "it was asked to leave the checkpoint as it is".into() };
        }
        if !has_header {
            return Stored::No { why: "a file that plaudit did not write has no place for it".into() };
        }
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match tempfile_in(folder) {
            Ok(()) => Stored::In { file: file.display().to_string() },
            Err(error) => Stored::No { why: unwritable(file, &error) },
        }
    }
}

/// The card of a file that does not describe itself. What is said of a model of another making stands beside it.
fn without_header(model: &OpenFrameModel) -> Option<&ModelCard> {
    match model {
        OpenFrameModel::Classifier(model) => (!model.has_card).then_some(&model.card),
        OpenFrameModel::Custom(_) => None,
    }
}

fn unwritable(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{} cannot be written ({error})", file.display())
}

/// An audit that could not be done.
pub(super) fn failure(error: AuditError) -> Failure {
    match error {
        AuditError::TrainingData(error) => as_failure(&error),
        AuditError::Windows(error) => super::train::failure(error),
        error @ AuditError::NotFinite { .. } => {
            Failure::runtime(error, "give an earlier checkpoint".to_string())
        }
        AuditError::Conditions(error) => without_states(&error),
        other => Failure::usage(other, None),
    }
}

/// Shows how far an audit is.
pub(super) fn show(bar: &ProgressBar, progress: AuditProgress) {
    let AuditProgress { what, unit, done, total } = progress;
    bar.show(ProgressUpdate { what, unit, done, total });
}

/// Writes a file of the result.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    output::write("--output", path, bytes)
}
