//! The second model of a training: small, with another seed and another network, for the hacking monitor to ask.
//!
//! A policy that fools one model by what that model happened to learn is less likely to fool another. It learns from the same
//! frames, in half the steps, and is there when the run ends; a run that ends earlier trains it when it goes on. On a GPU it is trained
//! while the first is: either fills it by half at best. The CPU has enough to do with one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use plaudit_core::{DiscardEvents, Emit, Event, Level};
use plaudit_nn::classifier::Arch;
use plaudit_reward::train::{Checkpoints, StopReason, TrainCallbacks};

use super::data::TrainingData;
use super::train::{failure, new_training};
use crate::build::{SECOND_MODEL, second_model_beside};
use crate::config::LoadedConfig;
use crate::failure::Failure;
use crate::run::interrupted;

/// The file beside the second model that says how long the training of the first was.
const MADE_FOR: &str = "steps_of_first";

/// The second model of a run: where it goes, and what it learns from.
pub(super) struct SecondModel<'a> {
    /// The checkpoints of the run.
    pub(super) checkpoints: PathBuf,
    pub(super) loaded: &'a LoadedConfig,
    pub(super) data: &'a TrainingData,
    /// How long the training of the first is.
    pub(super) steps: u64,
}

impl SecondModel<'_> {
    fn folder(&self) -> PathBuf {
        self.checkpoints.join(SECOND_MODEL)
    }

    /// Whether it is there, and was made for a training of this length.
    pub(super) fn is_made(&self) -> bool {
        let made_for = std::fs::read_to_string(self.folder().join(MADE_FOR));
        made_for.is_ok_and(|made| made == self.steps.to_string())
    }

    /// What a run says before it is trained.
    pub(super) fn notice(&self) -> Event {
        let steps = self.steps.div_ceil(2);
        let text = format!("{steps} steps more, for the second model of the hacking monitor");
        Event::Notice { level: Level::Info, text }
    }

    /// Trains it, unless it is there already or `stop` becomes true before its end.
    pub(super) fn train(&self, stop: &AtomicBool) -> Result<(), Failure> {
        if self.is_made() {
            return Ok(());
        }
        let (folder, place) = (self.folder(), self.checkpoints.join(".second_model"));
        let second = settings(self.loaded, self.steps.div_ceil(2));
        // What a run that was killed here left behind is begun anew.
        let cleared = || if place.exists() { std::fs::remove_dir_all(&place) } else { Ok(()) };
        let unable = |error: std::io::Error| Failure::runtime(format!("{}: {error}", place.display()), None);
        cleared().map_err(unable)?;
        let checkpoints = Checkpoints::in_folder(&place);
        let outcome = new_training(&second, self.data, 1)?
            .run(&checkpoints, &mut UntilStopped(stop))
            .map_err(failure)?;
        if outcome.reason != StopReason::Interrupted {
            std::fs::write(checkpoints.best().join(MADE_FOR), self.steps.to_string()).map_err(unable)?;
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(unable)?; // of a run that was shorter then
            }
            std::fs::rename(checkpoints.best(), &folder).map_err(unable)?;
        }
        cleared().map_err(unable)
    }
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
struct UntilStopped<'a>(&'a AtomicBool);

impl Emit for UntilStopped<'_> {
    fn emit(&mut self, event: Event) {
        DiscardEvents.emit(event);
    }
}

impl<M> TrainCallbacks<M> for UntilStopped<'_> {
    fn saved(&mut self, _: &plaudit_reward::train::Progress<M>) -> Result<(), String> {
        Ok(())
    }

    fn stop(&self) -> bool {
        interrupted() || self.0.load(Ordering::Relaxed)
    }
}
