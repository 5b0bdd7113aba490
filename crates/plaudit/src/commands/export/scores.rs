//! The reward model whose scores are written beside an episode.

use std::path::Path;

use plaudit_reward::endpoint::{EndpointCallbacks, EndpointSettings, ServerModel};
use plaudit_reward::open::{ModelLocation, OpenOptions, OpenVlm};
use plaudit_reward::{RecordingScorer, RecordingScorerError};

use crate::build::judge_device;
use crate::cli::Verbosity;
use crate::commands::reward::{PreparationArgs, as_failure, no_gpu, unopened};
use crate::device::DeviceChoice;
use crate::failure::Failure;

/// The model at a path or an address.
pub(super) fn open(
    at: &Path,
    device: DeviceChoice,
    verbosity: Verbosity,
) -> Result<RecordingScorer, Failure> {
    let location = ModelLocation::find(at, None).map_err(|error| unopened(error.into()))?;
    let scorer = match location {
        location @ (ModelLocation::Classifier(_) | ModelLocation::Custom(_)) => {
            let opened = PreparationArgs::default().open_frames(at, location, device, verbosity)?;
            RecordingScorer::of_frames(opened)
        }
        ModelLocation::VisionLanguage(folder) => {
            let (device, precision) = judge_device(device, false).map_err(no_gpu)?;
            let options = OpenOptions { device, precision, ..OpenOptions::default() };
            Ok(RecordingScorer::of_judge(OpenVlm::open(folder, &options).map_err(unopened)?))
        }
        ModelLocation::Server(address) => {
            let server = ServerModel::open(EndpointSettings::at(address), EndpointCallbacks::none());
            RecordingScorer::of_server(server.map_err(|error| unopened(error.into()))?)
        }
    };
    scorer.map_err(|error| failure(at, &error))
}

fn failure(at: &Path, error: &RecordingScorerError) -> Failure {
    match error {
        RecordingScorerError::Chat => {
            let message = format!("{}: {error}", at.display());
            Failure::usage(
                message,
                "give the judge's folder, an image classifier or a model of progress".to_string(),
            )
        }
        RecordingScorerError::Views(error) => as_failure(error),
        _ => Failure::usage(error, None),
    }
}
