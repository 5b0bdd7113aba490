//! The online training of a run's reward model: its rounds in words, and its state in checkpoints.

use std::path::{Path, PathBuf};

use plaudit_core::{Emit, Event, Level};
use plaudit_reward::online::{OnlineTraining, RoundOutcome, RoundResult};

use crate::failure::Failure;
use crate::run::Run;

/// Where a checkpoint has the reward model that learned.
const FOLDER: &str = "reward_model";

/// After an update of the policy: a round, if it is time for one.
pub fn after_update(online: &mut OnlineTraining, step: u64, run: &mut Run) -> Result<(), Failure> {
    let result = online.after_update(step).map_err(|error| failure(&error))?;
    if let Some(result) = result {
        report(&result, step, run);
    }
    Ok(())
}

/// Writes the state of the training into the folder of a checkpoint.
pub fn save(online: &mut OnlineTraining, checkpoint: &Path, step: u64, run: &mut Run) -> Result<(), Failure> {
    let folder = checkpoint.join(FOLDER);
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", folder.display()), None))?;
    let done = online.save(&folder).map_err(|error| failure(&error))?;
    if let Some(result) = done {
        report(&result, step, run);
    }
    Ok(())
}

/// Goes on with the model of a checkpoint.
pub fn restore(online: &mut OnlineTraining, checkpoint: &Path, run: &mut Run) -> Result<(), Failure> {
    let folder: PathBuf = checkpoint.join(FOLDER);
    if !folder.is_dir() {
        let text = format!("{} has no reward model that learned: it starts anew", checkpoint.display());
        run.emit(Event::Notice { level: Level::Warning, text });
        return Ok(());
    }
    online.restore(&folder).map_err(|error| {
        let help = "resume with the reward model and the cameras of the run that saved it";
        Failure::usage(error, help.to_string())
    })
}

fn report(result: &RoundResult, step: u64, run: &mut Run) {
    let RoundResult { round, frames, prior, loss, called_before, called, auc, lowest_auc, outcome } = result;
    let accepted = matches!(outcome, RoundOutcome::Accepted { .. });
    let values = [
        ("reward/online/auc", *auc),
        ("reward/online/prior", *prior),
        ("reward/online/loss", *loss),
        ("reward/online/called", *called),
        ("reward/online/accepted", f64::from(u8::from(accepted))),
    ];
    let values = values.into_iter().filter(|(_, value)| value.is_finite());
    run.emit(Event::Metrics { step, values: values.map(|(name, value)| (name.into(), value)).collect() });
    let came = match outcome {
        RoundOutcome::Accepted { threshold } => {
            format!(
                "AUC {auc:.3} on held-out frames, so that it rewards from now on, with threshold {threshold:.3}"
            )
        }
        RoundOutcome::Worse => format!(
            "AUC {auc:.3} on held-out frames, below {lowest_auc:.3}: refused, the model before stays in use"
        ),
        RoundOutcome::NotFinite => "its loss is no number: refused, the model before stays in use".into(),
    };
    let text = format!(
        "step {step}: round {round} of the reward model, on {frames} frames of the policy ({:.0} % called solved, {:.0} % before): {came}",
        100.0 * called,
        100.0 * called_before
    );
    let level = if accepted { Level::Info } else { Level::Warning };
    run.emit(Event::Notice { level, text });
}

fn failure(error: &plaudit_reward::online::OnlineError) -> Failure {
    let help = "set reward.online.every to 0, or name data of the environment's cameras with reward.online.data_path";
    Failure::runtime(error, help.to_string())
}
