//! `plaudit reward train`: from labelled frames to a model that scores them.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_core::{Emit, Event, Level};
use plaudit_data::recording::Rules;
use plaudit_reward::dataset::Frames;
use plaudit_reward::images::{Png, preview, save_split, save_successes};
use plaudit_reward::open::ClassifierCheckpoint;
use plaudit_reward::train::{Checkpoints, Progress, StopReason, TrainError, TrainOutcome, Training};

use super::data::{FrameReader, TrainingData, training_data};
use super::legacy_flags::LegacyFlags;
use super::summary::Summary;
use super::training_run::{RunCallbacks, end_reason, resume_point};
use super::warm_start::WarmStart;
use crate::build;
use crate::cli::{RunArgs, Verbosity};
use crate::config::{LoadedConfig, Purpose};
use crate::console;
use crate::failure::Failure;
use crate::hints;
use crate::load;
use crate::progress::ProgressBar;
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
      runner.resume_dir=logs/20260801-12:00:00-reward_training")]
pub struct Train {
    /// Which config.
    #[command(flatten)]
    config: RunArgs,
    #[command(flatten)]
    warm_start: WarmStart,
    #[command(flatten)]
    legacy_flags: LegacyFlags,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let config = self.warm_start.config(self.legacy_flags.config(&self.config.config))?;
        let config = RunArgs { config, ..self.config.clone() };
        let loaded = load::to_run(&config, verbosity)?;
        refuse_other_work(&loaded)?;
        let bar = ProgressBar::new("reward train", verbosity);
        let data = training_data(&loaded, &bar)?;
        let reader = FrameReader { views: data.train.views().to_vec(), rules: Rules::default(), bar: &bar };
        let data = self.warm_start.with_added(data, &reader)?;
        drop(bar);
        let output = self.legacy_flags.output_checkpoint.as_deref();
        output.map(writable).transpose()?;

        let settings = build::classifier_training(&loaded, data.train.len());
        let trainer = build::classifier(&loaded)?;
        let training = Training::new(trainer, &data.train, data.val.as_ref(), settings).map_err(failure)?;
        let mut run = Run::start(&loaded, "reward_train", "steps", training.steps(), verbosity)?;
        let outcome = self.train(&mut run, &loaded, &data, training);
        let mut command = config.command("reward");
        command.insert(2, "train".into());
        let summary = match &outcome {
            Ok(outcome) if outcome.reason != StopReason::Interrupted => {
                Some(Summary::of(&mut run, outcome, &data)?)
            }
            _ => None,
        };
        run.finish(outcome.map(|outcome| ((), end_reason(&outcome))), &command)?;
        let Some(summary) = summary else { return Ok(()) };
        if let Some(path) = output {
            summary.write_checkpoint(path)?;
        }
        let text = if self.json { summary.json() } else { summary.text(output) };
        console::print(&text)
    }

    fn train(
        &self,
        run: &mut Run,
        loaded: &LoadedConfig,
        data: &TrainingData,
        mut training: Training<'_>,
    ) -> Result<TrainOutcome, Failure> {
        let checkpoints = Checkpoints::in_folder(&run.checkpoints_directory());
        if let Some(progress) = run.restore::<Progress>()? {
            resume(loaded, &checkpoints, progress, &mut training)?;
        } else {
            self.show(run, loaded, data)?;
        }
        announce(run, data, &training);
        training.run(&checkpoints, &mut RunCallbacks(run)).map_err(failure)
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
fn announce(run: &mut Run, data: &TrainingData, training: &Training<'_>) {
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
        | TrainError::OneAnswer { .. } => Failure::usage(error, help),
        _ => Failure::runtime(error, help),
    }
}
