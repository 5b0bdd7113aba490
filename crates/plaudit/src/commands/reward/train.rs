//! `plaudit reward train`: from labelled frames to a model that scores them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use plaudit_core::{Emit, Event, Level};
use plaudit_data::recording::Rules;
use plaudit_nn::classifier::{Device, Sharding};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{ClassBalance, Frames, SplitManifest};
use plaudit_reward::images::{Png, preview, save_split, save_successes};
use plaudit_reward::open::ClassifierCheckpoint;
use plaudit_reward::train::{Checkpoints, Progress, StopReason, TrainError, TrainableClassifier, Training};

use super::data::{FrameReader, TrainingData, training_data};
use super::legacy_flags::LegacyFlags;
use super::second_model::SecondModel;
use super::summary::Summary;
use super::training_run::{FirstRank, end_reason, refuse_other_start, resume_point, train_on_rank};
use super::warm_start::WarmStart;
use crate::build;
use crate::cli::{RunArgs, Verbosity};
use crate::config::{LoadedConfig, Purpose};
use crate::console;
use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::hints;
use crate::load;
use crate::progress::ProgressBar;
use crate::ranks::{Launch, Rank, RankArgs};
use crate::run::Run;

/// Train a classifier of images to tell success from failure
///
/// From train.pt and val.pt, a folder of episodes, a store, or folders of .npy trajectories. The best model by
/// `runner.early_stop.monitor` is kept in checkpoints/best_model of the run directory, for plaudit and for PyTorch.
/// Without CONFIG it is the recipe reward_training.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit reward train reward_training \\
      data.train_data_paths=dataset/train.pt data.val_data_paths=dataset/val.pt
  plaudit reward train --data logs/run/collected_data \\
      data.num_samples_per_episode=0 data.fail_success_ratio=3.0
  plaudit reward train --data episodes \\
      actor.model.image_keys=[main_images,extra_view_images]
  plaudit reward train --positive-dir reward_data/positive \\
      --negative-dir reward_data/negative --image-size 3 64 64 --epochs 30 \\
      --output-checkpoint checkpoints/reward_model.pt
  plaudit reward train --from logs/20260801-12:00:00-reward_training \\
      --add logs/run/hacking/step_40 --data episodes
  plaudit reward train reward_training \\
      runner.resume_dir=logs/20260801-12:00:00-reward_training
  plaudit reward train --data episodes --device cuda actor.model.precision=bf16
  plaudit reward train --data episodes --ranks 4 actor.micro_batch_size=8
  mpirun -n 4 plaudit reward train --data episodes actor.micro_batch_size=8")]
pub struct Train {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    #[command(flatten)]
    warm_start: WarmStart,
    #[command(flatten)]
    legacy_flags: LegacyFlags,
    #[command(flatten)]
    ranks: RankArgs,
    /// Where to train: auto, cpu, cuda or cuda:N; auto takes the GPU if there is one [default: actor.model.device]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        crate::frame_cache::keep_on_disk();
        let launch = Launch::of(&self.ranks)?;
        let verbosity = launch.verbosity(verbosity);
        let (loaded, data) = launch.agree(self.load(launch.world(), verbosity))?;
        let sharding = launch.agree(build::sharding(&loaded, launch.world()).map_err(Failure::from))?;
        let work = |rank: &Rank| self.on_rank(rank, &loaded, &data, sharding, verbosity);
        let Some(summary) = launch.run(work)? else { return Ok(()) };
        let output = self.legacy_flags.output_checkpoint.as_deref();
        if let Some(path) = output {
            summary.write_checkpoint(path)?;
        }
        let text = if self.json { summary.json() } else { summary.text(output) };
        console::print(&text)
    }

    /// The config, and the data it names.
    fn load(&self, ranks: usize, verbosity: Verbosity) -> Result<(LoadedConfig, TrainingData), Failure> {
        let loaded = load::to_run(&self.run_args()?, verbosity)?;
        refuse_other_work(&loaded)?;
        build::open_device_early(&loaded, ranks);
        let bar = ProgressBar::new("reward train", verbosity);
        let data = training_data(&loaded, &bar)?;
        let rules = Rules { bad_files: build::reading_rules(&loaded).bad_files, ..Rules::default() };
        let reader = FrameReader { views: data.train.views().to_vec(), rules, bar: &bar };
        let data = self.warm_start.with_added(data, &reader)?;
        self.legacy_flags.output_checkpoint.as_deref().map(writable).transpose()?;
        Ok((loaded, data))
    }

    fn run_args(&self) -> Result<RunArgs, Failure> {
        let mut config = self.warm_start.config(self.legacy_flags.config(&self.config.config))?;
        config.words.extend(self.device.map(|device| format!("actor.model.device={device}")));
        Ok(RunArgs { config, ..self.config.clone() })
    }

    /// Trains on one rank. The first gives what a person reads, unless it was interrupted.
    fn on_rank(
        &self,
        rank: &Rank,
        loaded: &LoadedConfig,
        data: &TrainingData,
        sharding: Sharding,
        verbosity: Verbosity,
    ) -> Result<Option<Summary>, Failure> {
        let training = rank.agree(new_training(loaded, data, rank.sync.world()))?;
        refuse_other_start(rank, loaded, || dataset_hashes(training.card()))?;
        let steps = training.steps();
        let wants_second = loaded.config.runner.second_model && !self.warm_start.lacks_second_model();
        let is_beside = wants_second && training.device() != Device::Cpu;
        let stop = AtomicBool::new(false);
        let trained = std::thread::scope(|scope| {
            let begin_second = |run: &mut Run| {
                let checkpoints = run.checkpoints_directory();
                let second = SecondModel { checkpoints, loaded, data, steps };
                if is_beside && !second.is_made() {
                    run.emit(second.notice());
                    let stop = &stop;
                    // One that could not be trained there, for want of memory say, is trained when the first is done.
                    scope.spawn(move || drop(second.train(stop)));
                }
            };
            let first = FirstTrainRank { command: self, loaded, data, steps, verbosity, begin_second };
            let trained = train_on_rank(rank, training, sharding, &first);
            let goes_on =
                matches!(&trained, Ok(Some((_, Ok(outcome)))) if outcome.reason != StopReason::Interrupted);
            stop.store(!goes_on, Ordering::Relaxed);
            trained
        })?;
        let Some((mut run, outcome)) = trained else { return Ok(None) };
        let is_done = matches!(&outcome, Ok(outcome) if outcome.reason != StopReason::Interrupted);
        if is_done && wants_second {
            let second = SecondModel { checkpoints: run.checkpoints_directory(), loaded, data, steps };
            if !second.is_made() {
                run.emit(second.notice());
                second.train(&stop)?;
            }
        }
        let summary = match &outcome {
            Ok(outcome) if is_done => {
                let device = build::classifier_device(loaded, rank.sync.world())?;
                Some(Summary::of(&mut run, outcome, data, device)?)
            }
            _ => None,
        };
        let mut command = self.run_args()?.command("reward");
        command.insert(2, "train".into());
        command.extend(self.ranks.command());
        run.finish(outcome.map(|outcome| ((), end_reason(&outcome))), &rank.started_by(command))?;
        Ok(summary)
    }

    /// Images of the training data, where they are asked for.
    fn show(&self, run: &mut Run, loaded: &LoadedConfig, data: &TrainingData) -> Result<(), Failure> {
        let kept = |text: String| Event::Notice { level: Level::Info, text };
        if self.legacy_flags.visualize_positive {
            let folder = &self.legacy_flags.vis_output_dir;
            let count = save_successes(&data.train, folder).map_err(|error| Failure::runtime(error, None))?;
            run.emit(kept(format!("{count} successes as images in {}", folder.display())));
        }
        if let Some(folder) = &loaded.config.data.debug_save_dir {
            let parts: Vec<(&str, &Frames)> = [("train", Some(&data.train)), ("val", data.val.as_ref())]
                .into_iter()
                .filter_map(|(name, frames)| Some((name, frames?)))
                .collect();
            for (name, frames) in parts {
                save_split(frames, name, Path::new(folder)).map_err(|error| Failure::runtime(error, None))?;
            }
            run.emit(kept(format!("every frame as an image in {folder}")));
        }
        let settings = build::classifier_training(loaded, data.train.len());
        if !settings.augment.is_off() {
            let sheet = preview(&data.train, &settings.augment, |epoch| {
                Training::epoch_seed(settings.loop_settings.seed, epoch)
            });
            run.emit(image("data/augment", 0, sheet));
        }
        Ok(())
    }
}

/// The first rank of a training, which has the run.
struct FirstTrainRank<'a, F> {
    command: &'a Train,
    loaded: &'a LoadedConfig,
    data: &'a TrainingData,
    steps: u64,
    verbosity: Verbosity,
    /// Begins to train the second model, where that is done beside the first.
    begin_second: F,
}

impl<'a, F: Fn(&mut Run)> FirstRank<TrainableClassifier<'a>> for FirstTrainRank<'a, F> {
    fn start(&self) -> Result<Run, Failure> {
        Run::start(self.loaded, "reward_train", "steps", self.steps, self.verbosity)
    }

    fn prepare(&self, run: &mut Run, training: &mut Training<'a>) -> Result<(), Failure> {
        let checkpoints = Checkpoints::in_folder(&run.checkpoints_directory());
        if let Some(progress) = run.restore::<Progress>()? {
            resume(self.loaded, &checkpoints, progress, training)?;
        } else {
            self.command.show(run, self.loaded, self.data)?;
        }
        announce(run, self.data, training, self.loaded.config.data.unlabelled_play);
        (self.begin_second)(run);
        Ok(())
    }
}

pub(super) fn new_training<'a>(
    loaded: &LoadedConfig,
    data: &'a TrainingData,
    ranks: usize,
) -> Result<Training<'a>, Failure> {
    let settings = build::classifier_training(loaded, data.train.len());
    let trainer = build::classifier(loaded, ranks)?;
    let training = Training::new(trainer, &data.train, data.val.as_ref(), settings).map_err(failure)?;
    Ok(training.with_conditions(data.conditions.clone()))
}

/// What a model learns from, whatever its files are called on this machine.
fn dataset_hashes(card: &ModelCard) -> String {
    let Some(dataset) = &card.dataset else { return String::new() };
    let parts = [("training", Some(&dataset.train)), ("validation", dataset.val.as_ref())];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    let line = |(name, part): (&str, &SplitManifest)| {
        let ClassBalance { successes, failures } = part.balance;
        format!("{name}: {successes} successes, {failures} failures, sha256 {}\n", part.sha256)
    };
    parts.map(line).collect()
}

/// An image for the log.
pub(super) fn image(name: &str, step: u64, png: Png) -> Event {
    let (height, width) = (png.height as u32, png.width as u32);
    Event::Image { step, name: name.into(), height, width, png: png.bytes }
}

fn refuse_other_work(loaded: &LoadedConfig) -> Result<(), Failure> {
    if loaded.purpose == Purpose::RewardTraining {
        return Ok(());
    }
    let (key, message, hint) = match loaded.purpose {
        Purpose::JudgeTuning => (
            "actor.model.model_type",
            "this tunes a vision-language judge, and only image classifiers are trained here",
            "set it to resnet, or use `plaudit reward sft`",
        ),
        _ => (
            "runner.task_type",
            "this config is for reinforcement learning, not for training a reward model",
            "start from the recipe reward_training, or set it to sft and actor.model.model_type to resnet",
        ),
    };
    Err(loaded.problem(key, message, hint).into())
}

/// Goes on where the run stopped, if it is with the same data.
fn resume(
    loaded: &LoadedConfig,
    checkpoints: &Checkpoints,
    progress: Progress,
    training: &mut Training<'_>,
) -> Result<(), Failure> {
    let resumed = resume_point(loaded, checkpoints, &progress)?;
    let file = checkpoints.step(resumed.step).join("model.safetensors");
    let checkpoint = ClassifierCheckpoint::read(&file).map_err(|error| Failure::runtime(error, None))?;
    let before = checkpoint.card.and_then(|card| card.dataset);
    if before.is_some() && before != training.card().dataset {
        let message = "the data is not what this run was trained on before";
        let help = "bring back the data, or start a new run from these weights with actor.model.model_path";
        return Err(Failure::usage(message, help.to_string()));
    }
    training.resume(progress, &resumed).map_err(failure)
}

/// What is trained on, and what a person should know about it.
fn announce(run: &mut Run, data: &TrainingData, training: &Training<'_>, uses_play: bool) {
    let count = |frames: &Frames| {
        let balance = frames.balance();
        format!("{} frames ({} successes)", frames.len(), balance.successes)
    };
    let val = data.val.as_ref().filter(|val| !val.is_empty());
    let measured = val.map_or("no validation: the last model counts as the best".into(), |val| {
        format!("validation on {}", count(val))
    });
    let (steps, epochs) = (training.steps(), training.epochs());
    let text = format!("{steps} steps, {epochs:.1} epochs, on {}; {measured}", count(&data.train));
    run.emit(Event::Notice { level: Level::Info, text });
    if data.unsolved > 0 {
        let done = match uses_play {
            true => "are unlabelled play",
            false => "are left out; data.unlabelled_play=true uses them as unlabelled play",
        };
        let text = format!("{} unsolved episodes {done}", data.unsolved);
        run.emit(Event::Notice { level: Level::Info, text });
    }
    if let Some(val) = val {
        let balance = val.balance();
        let missing = match (balance.successes, balance.failures) {
            (0, _) => Some("success"),
            (_, 0) => Some("failure"),
            _ => None,
        };
        if let Some(missing) = missing {
            let text = format!(
                "no validation frame is a {missing}: nothing can be ranked, and the threshold stays at 0.5; change data.seed or data.val_split"
            );
            run.emit(Event::Notice { level: Level::Warning, text });
        }
    }
}

/// A place that a file can be written to, found out before hours are spent.
fn writable(path: &Path) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .map_or(PathBuf::from("."), PathBuf::from);
    let help = || Some("give --output-checkpoint in a folder that can be written".to_string());
    std::fs::create_dir_all(&folder)
        .and_then(|()| tempfile_in(&folder))
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display()), help()))
}

/// Whether a file can be made in a folder.
pub(super) fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".plaudit-{}", std::process::id()));
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe))
}

pub(super) fn failure(error: TrainError) -> Failure {
    let help = hints::about_reward_training(&error);
    match error {
        TrainError::Dataset(_)
        | TrainError::NoState { .. }
        | TrainError::Windows(_)
        | TrainError::Window { .. }
        | TrainError::UnevenRanks { .. }
        | TrainError::OneAnswer { .. } => Failure::usage(error, help),
        TrainError::Sync(error) => error.into(),
        _ => Failure::runtime(error, help),
    }
}
