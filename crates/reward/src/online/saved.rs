//! The state of an online training in a checkpoint.
//!
//! ```text
//! training.safetensors    the network in use, the optimiser's moments, the policy's frames; counts in the header
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use plaudit_nn::Weights;
use plaudit_pyfiles::Array;

use super::OnlineError;
use super::hardening::Hardening;
use super::policy_frames::PolicyFrames;

const FILE: &str = "training.safetensors";
/// What the policy's frames are called, view by view.
const FRAMES: &str = "policy_frames.";

pub(super) fn write(
    folder: &Path,
    hardening: &Hardening,
    frames: &PolicyFrames,
    version: u64,
) -> Result<(), OnlineError> {
    let mut state = Weights::new();
    hardening.state().iter().for_each(|(name, tensor)| state.insert(name, tensor.clone()));
    for (view, shape) in frames.shapes().iter().enumerate() {
        let pixels: Vec<u8> = frames.kept.iter().flat_map(|frame| frame[view].iter().copied()).collect();
        let dims = [frames.len(), shape.height, shape.width, shape.channels];
        let tensor = Array::from_slice(&dims, &pixels)
            .map_err(|error| OnlineError::State { file: FILE.into(), problem: error.to_string() })?;
        state.insert(format!("{FRAMES}{view}"), tensor);
    }
    let header: BTreeMap<String, String> = [
        ("rounds", hardening.rounds.to_string()),
        ("segments", frames.segments.to_string()),
        ("version", version.to_string()),
        // In bits, so that nothing is rounded.
        ("threshold", hardening.threshold.to_bits().to_string()),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into();
    Ok(state.write_safetensors(folder.join(FILE), &header)?)
}

/// Gives the version of the model in use.
pub(super) fn read(
    folder: &Path,
    hardening: &mut Hardening,
    frames: &mut PolicyFrames,
) -> Result<u64, OnlineError> {
    let file = folder.join(FILE);
    let wrong = |problem: String| OnlineError::State { file: file.display().to_string(), problem };
    let stored = Weights::read(&file)?;
    let count = |key: &str| {
        let text = stored.metadata().get(key);
        let number = text.and_then(|text| text.parse::<u64>().ok());
        number.ok_or_else(|| wrong(format!("its header has no number `{key}`")))
    };
    let mut state = Weights::new();
    let network = stored.iter().filter(|(name, _)| !name.starts_with(FRAMES));
    network.for_each(|(name, tensor)| state.insert(name, tensor.clone()));
    let mut kept = Vec::new();
    for (view, shape) in frames.shapes().iter().enumerate() {
        let name = format!("{FRAMES}{view}");
        let tensor = stored.get(&name).ok_or_else(|| wrong(format!("`{name}` is missing")))?;
        let expected = [shape.height, shape.width, shape.channels];
        if tensor.shape().len() != 4 || tensor.shape()[1..] != expected {
            return Err(wrong(format!("`{name}` is {:?}, and images are {expected:?} here", tensor.shape())));
        }
        kept.resize(tensor.shape()[0], Vec::new());
        for (frame, pixels) in kept.iter_mut().zip(tensor.bytes().chunks_exact(shape.bytes())) {
            frame.push(pixels.to_vec());
        }
    }
    let threshold = f64::from_bits(count("threshold")?);
    hardening.restore(state, threshold, count("rounds")?)?;
    frames.kept = kept.into();
    frames.segments = count("segments")?;
    count("version")
}
