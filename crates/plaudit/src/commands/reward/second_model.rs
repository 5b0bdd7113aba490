//! The second model of a training: small, with another seed and another network, for the hacking monitor to ask.
//!
//! A policy that fools one model by what that model happened to learn is less likely to fool another. It learns from the same
//! frames, in half the steps, and is there when the run ends; a run that ends earlier trains it when it goes on.

use plaudit_core::{DiscardEvents, Emit, Event, Level};
use plaudit_nn::classifier::Arch;
use plaudit_reward::train::{Checkpoints, StopReason, TrainCallbacks};

use super::data::TrainingData;
use super::train::{failure, new_training};
use crate::build::{SECOND_MODEL, second_model_beside};
use crate::config::LoadedConfig;
use crate::failure::Failure;
use crate::run::{Run, interrupted};

/// The file beside the second model that says how long the training of the first was.
const MADE_FOR: &str = "steps_of_first";

/// Trains it, unless it is there already; says whether it is there now.
pub(super) fn train(
    run: &mut Run,
    loaded: &LoadedConfig,
    data: &TrainingData,
    steps: u64,
) -> Result<bool, Failure> {
    let folder = run.checkpoints_directory().join(SECOND_MODEL);
    let made_for = folder.join(MADE_FOR);
    if std::fs::read_to_string(&made_for).is_ok_and(|made| made == steps.to_string()) {
        return Ok(true);
    }
    let text = format!("{} steps more, for the second model of the hacking monitor", steps.div_ceil(2));
    run.emit(Event::Notice { level: Level::Info, text });
    let second = settings(loaded, steps.div_ceil(2));
    // What a run that was killed here left behind is begun anew.
    let place = run.checkpoints_directory().join(".second_model");
    let cleared = || if place.exists() { std::fs::remove_dir_all(&place) } else { Ok(()) };
    let unable = |error: std::io::Error| Failure::runtime(format!("{}: {error}", place.display()), None);
    cleared().map_err(unable)?;
    let checkpoints = Checkpoints::in_folder(&place);
    let outcome =
        new_training(&second, data, 1)?.run(&checkpoints, &mut UntilInterrupted).map_err(failure)?;
    let is_done = outcome.reason != StopReason::Interrupted;
    if is_done {
        std::fs::write(checkpoints.best().join(MADE_FOR), steps.to_string()).map_err(unable)?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(unable)?; // of a run that was shorter then
        }
        std::fs::rename(checkpoints.best(), &folder).map_err(unable)?;
    }
    cleared().map_err(unable)?;
    Ok(is_done)
}

/// The same training of a smaller network from another seed.
fn settings(loaded: &LoadedConfig, steps: u64) -> LoadedConfig {
    let mut second = loaded.clone();
    let (actor, runner) = (&mut second.config.actor, &mut second.config.runner);
    actor.seed = actor.seed.wrapping_add(1);
    actor.model.arch = Arch::Resnet10;
    // A training that goes on from a model goes on from its second model, too: a few gentle steps make none.
    actor.model.model_path = actor.model.model_path.as_deref().and_then(second_model_beside);
    actor.model.pretrained = false;
    actor.model.pretrained_encoder_path = None;
    runner.max_steps = i64::try_from(steps).unwrap_or(i64::MAX);
    runner.save_interval = -1;
    second
}

/// Events of the second training are not those of the run.
struct UntilInterrupted;

impl Emit for UntilInterrupted {
    fn emit(&mut self, event: Event) {
        DiscardEvents.emit(event);
    }
}

impl<M> TrainCallbacks<M> for UntilInterrupted {
    fn saved(&mut self, _: &plaudit_reward::train::Progress<M>) -> Result<(), String> {
        Ok(())
    }

    fn stop(&self) -> bool {
        interrupted()
    }
}
