//! Writing episodes: a thread of its own, whole files, any format that plaudit collects in.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyReadonlyArray1;
use plaudit_core::{End, FrameShape};
use plaudit_data::episode::{
    CameraTrack, CollectionRun, Ending, Episode, EpisodeFormat, EpisodeWriter, Targets, Timestep,
};
use plaudit_data::lerobot::{Existing, Settings};
use plaudit_data::store::Origin;
use plaudit_nn::images::Pixels;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::error::{failed, failure, guarded, input};
use crate::images::Images;
use crate::process::{compute, refuse_forked};

/// What messages say about the formats.
const FORMATS: &str = "pickle, frames, npy, store, lerobot or replay_buffer";
/// Where a store's episodes come from.
const ORIGIN: &str = "plaudit.Recorder";

/// Writes episodes of one environment.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct EpisodeRecorder {
    process: u32,
    recording: Mutex<Recording>,
}

struct Recording {
    writer: Option<EpisodeWriter>,
    episode: Option<Episode>,
    /// Episodes that were begun, and steps taken, altogether.
    begun: u64,
    steps: u64,
}

#[pymethods]
impl EpisodeRecorder {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, format: &str, fps: f64, robot_type: String) -> PyResult<Self> {
        let writer = compute(py, || writer(&path, format, fps, robot_type))??;
        let recording = Recording { writer: Some(writer), episode: None, begun: 0, steps: 0 };
        Ok(Self { process: std::process::id(), recording: Mutex::new(recording) })
    }

    /// An episode begins. One that had not ended is dropped; says whether there was one.
    #[pyo3(signature = (images, state, task))]
    fn begin(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        state: PyReadonlyArray1<'_, f32>,
        task: Option<String>,
    ) -> PyResult<bool> {
        guarded(|| {
            let mut recording = self.lock(py)?;
            let reset = Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() };
            let episode = Episode {
                row: 0,
                number: recording.begun,
                batch_step: recording.steps,
                success: false,
                task: task.map(Into::into),
                cameras: tracks(images)?,
                states: vec![state.as_slice()?.to_vec()],
                actions: Vec::new(),
                timesteps: vec![reset],
            };
            recording.begun += 1;
            Ok(recording.episode.replace(episode).is_some())
        })
    }

    /// One step: what was done, and what it led to. Says whether the episode ended, and was handed on to be
    /// written.
    #[pyo3(signature = (action, images, state, reward, terminated, truncated, success, facts))]
    #[allow(clippy::too_many_arguments)] // a step has so many parts
    fn step(
        &self,
        py: Python<'_>,
        action: PyReadonlyArray1<'_, f32>,
        images: &Bound<'_, PyAny>,
        state: PyReadonlyArray1<'_, f32>,
        reward: f32,
        terminated: bool,
        truncated: bool,
        success: Option<bool>,
        facts: Vec<(String, f32)>,
    ) -> PyResult<bool> {
        guarded(|| {
            let mut recording = self.lock(py)?;
            let end = match (terminated, truncated) {
                (true, _) => End::Terminated,
                (false, true) => End::Truncated,
                (false, false) => End::No,
            };
            let facts = facts.into_iter().map(|(name, value)| (name.into(), value)).collect();
            let timestep = Timestep { reward, end, success, facts };
            let (action, state) = (action.as_slice()?.to_vec(), state.as_slice()?.to_vec());
            let Some(episode) = recording.episode.as_mut() else {
                return Err(failure(
                    "a step before an episode began",
                    Some("call begin() with what reset() gave".into()),
                ));
            };
            extend(episode, images, action, state, timestep)?;
            recording.steps += 1;
            if !end.is_end() {
                return Ok(false);
            }
            recording.write(py)?;
            Ok(true)
        })
    }

    /// How many episodes were handed on: successes, failures.
    #[getter]
    fn counts(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let recording = self.held(py);
        let taken = recording.writer.as_ref().map(EpisodeWriter::taken).unwrap_or_default();
        Ok((taken.successes, taken.failures))
    }

    /// Waits until everything is on disk. Gives how many successes and failures that were; nothing if it was
    /// closed before.
    fn close(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        refuse_forked(self.process, "the recorder")?;
        let mut recording = self.held(py);
        let Some(writer) = recording.writer.take() else { return Ok(None) };
        recording.episode = None;
        let counts = compute(py, || writer.finish(Ending::Complete))?.map_err(|error| failed(&error))?;
        Ok(Some((counts.successes, counts.failures)))
    }
}

impl EpisodeRecorder {
    /// The recording. Who waits for it lets the interpreter go on: whoever has it may be waiting for that.
    fn held<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, Recording> {
        self.recording.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, Recording>> {
        refuse_forked(self.process, "the recorder")?;
        let recording = self.held(py);
        match recording.writer.is_some() {
            true => Ok(recording),
            false => Err(failure(
                "the recorder was closed",
                Some("make another, which adds to what is there".into()),
            )),
        }
    }
}

impl Recording {
    /// Hands the episode to the thread that writes.
    fn write(&mut self, py: Python<'_>) -> PyResult<()> {
        let (Some(mut episode), Some(writer)) = (self.episode.take(), self.writer.as_mut()) else {
            return Ok(());
        };
        episode.success = episode.timesteps.iter().any(|timestep| timestep.success == Some(true));
        episode.batch_step = self.steps;
        compute(py, || writer.write(episode))?.map_err(|error| failed(&error))?;
        Ok(())
    }
}

fn writer(path: &std::path::Path, format: &str, fps: f64, robot_type: String) -> PyResult<EpisodeWriter> {
    let (targets, by) = (Targets::default(), CollectionRun::Anonymous);
    let begun = match format {
        "pickle" => EpisodeWriter::start(path, EpisodeFormat::Pickle, targets, by),
        "frames" => EpisodeWriter::start(path, EpisodeFormat::Frames, targets, by),
        "npy" => {
            let [positive, negative] = ["positive", "negative"].map(|name| path.join(name));
            let format = EpisodeFormat::Npy { positive, negative, cameras: Vec::new() };
            EpisodeWriter::start(path, format, targets, by)
        }
        "store" => EpisodeWriter::into_store(path, Origin::new(ORIGIN), targets, by),
        "lerobot" => {
            let settings = Settings { robot_type, fps, existing: Existing::Continue, ..Settings::default() };
            EpisodeWriter::into_lerobot(path, settings, targets, by)
        }
        "replay_buffer" => EpisodeWriter::into_replay_buffer(path, targets, by),
        _ => return Err(input(format!("there is no format `{format}`"), format!("one of {FORMATS}"))),
    };
    begun.map_err(|error| failed(&error))
}

/// The first images of every camera.
fn tracks(images: &Bound<'_, PyAny>) -> PyResult<Vec<CameraTrack>> {
    let images = seen(images)?;
    let Some(images) = images else { return Ok(Vec::new()) };
    let track = |view: plaudit_nn::images::ViewPixels<'_>| {
        let shape = FrameShape { height: view.height, width: view.width, channels: view.channels };
        let pixels = Arc::new(bytes(&view)?.to_vec());
        Ok(CameraTrack { name: view.key.into(), shape, pixels })
    };
    images.pixels()?.into_iter().map(track).collect()
}

/// One step's images of every camera; none where there are no cameras.
fn seen<'py>(images: &Bound<'py, PyAny>) -> PyResult<Option<Images<'py>>> {
    if images.len()? == 0 {
        return Ok(None);
    }
    let images = Images::of(images, crate::model::MAIN, Some("hwc"))?;
    match images.is_one {
        true => Ok(Some(images)),
        false => {
            Err(input("a batch of images, and one environment is recorded", "pass one image of each camera"))
        }
    }
}

fn bytes<'a>(view: &plaudit_nn::images::ViewPixels<'a>) -> PyResult<&'a [u8]> {
    match view.pixels {
        Pixels::U8(bytes) => Ok(bytes),
        Pixels::F32(_) => {
            let message = format!("camera `{}`: images of float32; recordings are of uint8", view.key);
            Err(input(message, "multiply by 255 and pass them as uint8"))
        }
    }
}

/// Adds a step to an episode: whole, or not at all.
fn extend(
    episode: &mut Episode,
    images: &Bound<'_, PyAny>,
    action: Vec<f32>,
    state: Vec<f32>,
    timestep: Timestep,
) -> PyResult<()> {
    let images = seen(images)?;
    let views = images.as_ref().map(Images::pixels).transpose()?.unwrap_or_default();
    let names = || episode.cameras.iter().map(|track| &*track.name).collect::<Vec<_>>().join(", ");
    if views.len() != episode.cameras.len() {
        let message =
            format!("{} cameras, and the episode began with {}", views.len(), episode.cameras.len());
        return Err(input(message, format!("pass an image of each: {}", names())));
    }
    if let Some(before) = episode.actions.first().filter(|before| before.len() != action.len()) {
        let message = format!("an action of {} numbers after one of {}", action.len(), before.len());
        return Err(input(message, "pass actions of one length"));
    }
    if state.len() != episode.states[0].len() {
        let message = format!("a state of {} numbers after one of {}", state.len(), episode.states[0].len());
        return Err(input(message, "pass states of one length"));
    }
    let mut added = Vec::with_capacity(views.len());
    for track in &episode.cameras {
        let view = views.iter().find(|view| *view.key == *track.name);
        let view = view
            .ok_or_else(|| input(format!("no image of camera `{}`", track.name), "pass one at each step"))?;
        let shape = FrameShape { height: view.height, width: view.width, channels: view.channels };
        if shape != track.shape {
            let message = format!("camera `{}` changes the size of its images", track.name);
            return Err(input(message, "pass images of one size"));
        }
        added.push(bytes(view)?);
    }
    for (track, bytes) in episode.cameras.iter_mut().zip(added) {
        Arc::make_mut(&mut track.pixels).extend_from_slice(bytes);
    }
    episode.actions.push(action);
    episode.states.push(state);
    episode.timesteps.push(timestep);
    Ok(())
}
