//! `plaudit reward label`: the frames that a model is unsure about, labelled in the terminal until it is wrong rarely enough.

mod annotator;
mod models;
mod page;
mod retraining;

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plaudit_data::labelling::{Annotator, Answer, LabellingError, Purpose};
use plaudit_data::recording::{Rules, UnlabelledFrames};
use plaudit_reward::active_labels::{LabelEnd, LabelError, LabelSession, LabelSettings, QuestionOrder};
use plaudit_reward::dataset::Frames;

use self::annotator::{Annotate, Person, Reaction, Recorded};
use self::models::{LabelModels, ModelPaths};
use self::retraining::Retraining;
use super::checkpoint::{PreparationArgs, probability};
use super::data::{FrameReader, as_failure};
use crate::cli::Verbosity;
use crate::commands::rule_args::RuleArgs;
use crate::console;
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::load::looks_like_override;
use crate::output;
use crate::progress::ProgressBar;
use crate::run::listen_for_interrupts;

/// Label the frames that a model is unsure about, until it is wrong rarely enough
///
/// Scores all frames of DATA, whose labels are neither needed nor used, and asks about them in the terminal, the most uncertain first:
/// those near the model's threshold, and those about which its second model disagrees. c: success, a: failure, space: skip, u: take the
/// last answer back, q: enough. Every third question is a check, a frame chosen at random whose label never trains; from the checks
/// follows how many decisions are wrong at most, and labelling ends when that is at most --max-error.
///
/// Every answer is in a journal in --output-dir before the next question. The same command with the same folder goes on there; with
/// another MODEL the checks count for that one. The labelled frames lie in success/ and failure/, for `plaudit reward train --from
/// MODEL --add DIR`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward label logs/20260801-12:00:00-reward_training play \\
      --output-dir labels
  plaudit reward train --from logs/20260801-12:00:00-reward_training \\
      --add labels runner.logger.log_path=better
  plaudit reward label better play --output-dir labels
  plaudit reward label model play --output-dir labels \\
      --retrain-every 50 runner.max_steps=160
  plaudit reward label model play --annotator recorded --count 100 --json")]
pub struct LabelCommand {
    /// A model: a run, a checkpoint folder, or a file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Episodes or images
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Settings of the training, with --retrain-every
    #[arg(value_name = "KEY=VALUE", requires = "retrain_every")]
    settings: Vec<String>,
    /// A second model that may disagree [default: the one that `reward train` left beside MODEL]
    #[arg(long, value_name = "MODEL")]
    second: Option<PathBuf>,
    /// Where the journal and the labelled images go [default: logs/<time>-reward_label]
    #[arg(long, short, visible_alias = "output", value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// End when at most this share of the frames is decided wrongly
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    max_error: f64,
    /// How sure that must be
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    confidence: f64,
    /// End after so many labels to train on in any case
    #[arg(long, visible_alias = "labels-max", value_name = "N")]
    count: Option<usize>,
    /// Every so many questions, one is a check; 0: none, and nothing is said about errors
    #[arg(long, value_name = "N", default_value_t = 3)]
    check_every: usize,
    /// Frames of one episode that are asked about are so many apart, while there are others
    #[arg(long, value_name = "FRAMES", default_value_t = 5)]
    apart: usize,
    /// Which frames are asked about to train on
    #[arg(long, value_enum, default_value_t = OrderWord::Active)]
    order: OrderWord,
    /// Who answers. `recorded`: nobody is asked, the success that was recorded in DATA is the answer. That is for benches and tests,
    /// which have labels to compare with; a model that should learn from recorded labels is trained on them
    #[arg(long, value_enum, default_value_t = AnnotatorWord::Person)]
    annotator: AnnotatorWord,
    /// Train after so many new labels, from MODEL and with all labels, and go on with the new model
    #[arg(long, value_name = "N")]
    retrain_every: Option<NonZeroUsize>,
    /// Scores above this count as success [default: the model's own, or 0.5]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    threshold: Option<f64>,
    /// Seed of the checks, and of a random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    preparation: PreparationArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How frames are chosen, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderWord {
    /// The most uncertain first
    Active,
    /// At random, to compare with
    Random,
}

/// Who answers, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnnotatorWord {
    /// You, by keys
    Person,
    /// The success recorded in DATA
    Recorded,
}

/// Why labelling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// There is enough, or nothing left.
    By(LabelEnd),
    /// The person said so, or is gone.
    Quit,
    /// Ctrl-C.
    Interrupted,
}

impl LabelCommand {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        self.refuse_odd_flags()?;
        let opener = self.opener(verbosity);
        let given = ModelPaths { model: self.model.clone(), second: self.second.clone() };
        let models = opener.open(&given)?;
        let frames = self.frames(&models, verbosity)?;
        let folder = self.output_folder()?;
        let retraining = self.retrain_every.map(|every| Retraining {
            every,
            from: given,
            folder: &folder,
            settings: &self.settings,
            verbosity,
        });
        let opinions = models.opinions(&frames, self.threshold, verbosity)?;
        let data = self.data.display().to_string();
        let session = LabelSession::open(&frames, &data, opinions, self.session_settings(&folder));
        let session = session.map_err(|error| failed(&error))?;
        listen_for_interrupts();
        let annotator: Box<dyn Annotate> = match self.annotator {
            AnnotatorWord::Person => Box::new(Person::listen()?),
            AnnotatorWord::Recorded => Box::new(Recorded),
        };
        let mut labelling = Labelling { session, frames: &frames, models, annotator, learned: 0 };
        let ended = labelling.run(|labels, models| {
            let Some(retraining) = &retraining else { return Ok(None) };
            let Some(newer) = retraining.model_after(labels, models)? else { return Ok(None) };
            let models = opener.open(&newer.paths)?;
            let opinions = models.opinions(&frames, self.threshold, verbosity)?;
            Ok(Some((newer.labels, models, opinions)))
        });
        let ended = ended?;
        let Labelling { session, models, annotator, .. } = labelling;
        drop(annotator); // and the terminal is as it was
        let result = page::LabelResult {
            status: session.status(),
            bound: session.bound(),
            max_error: self.max_error,
            ended,
            folder: &folder,
            models: &models,
            from: &self.model,
            frames: frames.len(),
        };
        console::print(&if self.json { result.json() } else { result.text() })?;
        if ended == Ended::Interrupted { Err(Failure::Stopped) } else { Ok(()) }
    }

    fn opener(&self, verbosity: Verbosity) -> models::Opener<'_> {
        models::Opener { preparation: &self.preparation, device: self.device.choice(), verbosity }
    }

    fn session_settings(&self, folder: &Path) -> LabelSettings {
        LabelSettings {
            folder: folder.into(),
            by: match self.annotator {
                AnnotatorWord::Person => Annotator::Person,
                AnnotatorWord::Recorded => Annotator::Recorded,
            },
            order: match self.order {
                OrderWord::Active => QuestionOrder::Active,
                OrderWord::Random => QuestionOrder::Random,
            },
            check_every: self.check_every,
            apart: self.apart,
            max_error: self.max_error,
            confidence: self.confidence,
            count: self.count,
            seed: self.seed,
        }
    }

    /// Frames whatever their labels are, or with them where they answer.
    fn frames(&self, models: &LabelModels, verbosity: Verbosity) -> Result<Frames, Failure> {
        let rules = match self.annotator {
            AnnotatorWord::Person => {
                Rules { unlabelled_frames: UnlabelledFrames::Kept, ..self.rules.rules() }
            }
            AnnotatorWord::Recorded => self.rules.rules(),
        };
        let bar = ProgressBar::new("reward label", verbosity);
        let reader = FrameReader { views: models.views()?, rules, bar: &bar };
        let frames = reader.all(std::slice::from_ref(&self.data)).map_err(|error| as_failure(&error))?;
        if frames.is_empty() {
            let help = "give episodes, a .pt of images, or a store that holds some".to_string();
            return Err(Failure::usage("there are no frames to label", help));
        }
        Ok(frames)
    }

    fn output_folder(&self) -> Result<PathBuf, Failure> {
        let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
        let folder =
            self.output_dir.clone().unwrap_or_else(|| PathBuf::from(format!("logs/{time}-reward_label")));
        output::make_folder("--output-dir", &folder)?;
        Ok(folder)
    }

    fn refuse_odd_flags(&self) -> Result<(), Failure> {
        let between = [("--max-error", self.max_error), ("--confidence", self.confidence)];
        if let Some((flag, value)) = between.iter().find(|(_, share)| !(*share > 0.0 && *share < 1.0)) {
            let help = "give a number above 0 and below 1".to_string();
            return Err(Failure::usage(format!("{flag} is {value}"), help));
        }
        if self.check_every == 1 {
            let help = "give 2 or more, or 0 for no checks".to_string();
            return Err(Failure::usage("--check-every 1 leaves no question to train on", help));
        }
        if let Some(word) = self.settings.iter().find(|word| !looks_like_override(word)) {
            let help = "give one DATA, and settings of the training as KEY=VALUE".to_string();
            return Err(Failure::usage(format!("`{word}` is no setting"), help));
        }
        let is_asked = self.annotator == AnnotatorWord::Person;
        if is_asked && !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            let help = "start it in a terminal, which shows frames and takes keys; where DATA has recorded labels and nobody needs to \
                        be asked, give --annotator recorded";
            return Err(Failure::usage(
                "labels are asked for in a terminal, and this is none",
                help.to_string(),
            ));
        }
        Ok(())
    }
}

/// What is wrong with a folder or its files, and what to do.
fn failed(error: &LabelError) -> Failure {
    let help = match error {
        LabelError::FrameStack { .. } => {
            let help =
                "label with a single-frame model (image_keys without @), which may have several cameras";
            return Failure::usage(error, help.to_string());
        }
        LabelError::Journal(LabellingError::InUse { .. }) => {
            "wait until it is done, or give another --output-dir"
        }
        LabelError::Journal(LabellingError::OtherQuestions { .. }) => {
            let help = "give what was asked about there, or another --output-dir";
            return Failure::usage(error, help.to_string());
        }
        LabelError::Journal(LabellingError::Line { .. }) => {
            "label in another --output-dir; the lines before are sound"
        }
        LabelError::Journal(_) | LabelError::Image(_) | LabelError::Frames(_) => {
            return Failure::runtime(error, None);
        }
    };
    Failure::runtime(error, help.to_string())
}

/// A newer model: the labels it has learned from, itself, and what it says.
type NewerModel = (usize, LabelModels, plaudit_reward::active_labels::ModelOpinions);

/// Labelling while it runs.
struct Labelling<'a> {
    session: LabelSession<'a>,
    frames: &'a Frames,
    models: LabelModels,
    annotator: Box<dyn Annotate>,
    /// Labels that the model has learned from.
    learned: usize,
}

impl Labelling<'_> {
    fn run(
        &mut self,
        newer: impl Fn(usize, &LabelModels) -> Result<Option<NewerModel>, Failure>,
    ) -> Result<Ended, Failure> {
        loop {
            let labels = self.session.status().labels();
            if labels > self.learned
                && let Some((learned, models, opinions)) = newer(labels, &self.models)?
                && learned > self.learned
            {
                (self.learned, self.models) = (learned, models);
                self.session.set_opinions(opinions);
            }
            let question = match self.session.question() {
                Ok(question) => question,
                Err(end) => return Ok(Ended::By(end)),
            };
            let reaction = self.annotator.react(&self.session, self.frames, question)?;
            match reaction {
                Reaction::Answer(answer) => {
                    self.session.answer(question, answer).map_err(|error| failed(&error))?;
                }
                Reaction::Undo if self.has_learned_from_last() => {
                    self.annotator.tell("the model has learned from the last answer: it stays");
                }
                Reaction::Undo => drop(self.session.undo().map_err(|error| failed(&error))?),
                Reaction::Quit => return Ok(Ended::Quit),
                Reaction::Stop => return Ok(Ended::Interrupted),
            }
        }
    }

    fn has_learned_from_last(&self) -> bool {
        let is_label = |last: &plaudit_data::labelling::Answered| {
            last.purpose == Purpose::Train && last.answer != Answer::Skip
        };
        self.session.last().is_some_and(is_label) && self.session.status().labels() <= self.learned
    }
}
