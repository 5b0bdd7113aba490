//! Every collector's files as one thing: recordings of labelled frames.

use super::error::FileProblem;
use super::keys;
use super::picture::{Layout, Strictness};
use super::source::{InputFile, Source};
use crate::python::{Array, PyValue};

/// One episode of a file, or one block of it that may be split from the rest.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) frames: Vec<Frame>,
}

/// One labelled image.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) image: Array,
    pub(crate) label: bool,
    /// Which entry of the file it is.
    pub(crate) at: usize,
    /// The state vector that was recorded with it, if any.
    pub(crate) state: Option<Array>,
}

/// How to read the images of a source.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) source: Source,
    /// The key of the images, where it is not the collector's own.
    pub(crate) image_key: Option<String>,
    /// Whether images of pickles have their channels first.
    pub(crate) layout: Layout,
}

const MAIN: &str = "main_images";
/// Transitions whose action is smaller than this in all do nothing.
const STILL: f64 = 1e-5;

impl Reading {
    /// Channels of the oldest trajectories always come first.
    pub(crate) fn layout(&self) -> Layout {
        if self.source == Source::Trajectories { Layout::ChannelsFirst } else { self.layout }
    }

    pub(crate) fn strictness(&self) -> Strictness {
        if self.source == Source::Trajectories { Strictness::AllowByteFloats } else { Strictness::Refuse }
    }

    /// What a message calls an image.
    pub(crate) fn place(&self, at: usize) -> String {
        let key = self.key();
        match self.source {
            Source::Frames => format!("frames[{at}][\"obs\"][\"{key}\"]"),
            Source::Trajectories => format!("images[{at}]"),
            Source::Transitions => format!("[{at}][\"transitions\"][\"obs\"][\"{key}\"]"),
            _ => format!("observations[{at}][\"{key}\"]"),
        }
    }

    fn key(&self) -> &str {
        self.image_key.as_deref().unwrap_or(MAIN)
    }

    /// The recordings of a file, with at least one frame each.
    pub(crate) fn recordings(
        &self,
        value: &PyValue,
        file: &InputFile,
    ) -> Result<Vec<Recording>, FileProblem> {
        match self.source {
            Source::Collected => Ok(vec![self.collected(value)?]),
            Source::PreMerge => Ok(vec![self.pre_merge(value)?]),
            Source::Frames => Ok(vec![self.frames(value, file)?]),
            Source::Trajectories => Ok(vec![self.trajectory(value)?]),
            Source::Transitions => self.transitions(value),
            Source::Keyboard => self.keyboard(value),
        }
    }

    fn collected(&self, episode: &PyValue) -> Result<Recording, FileProblem> {
        let (observations, infos) = both_lists(episode)?;
        self.paired(observations, infos.len(), |at| {
            let info = &infos[at];
            if info.as_dict().is_none() {
                return Err(FileProblem::Kind {
                    place: format!("infos[{at}]"),
                    expected: "dict",
                    found: info.kind(),
                });
            }
            let once = || info.get("episode").and_then(|episode| episode.get("success_once"));
            match info.get("success").or_else(once) {
                Some(success) => keys::truth(success, || format!("infos[{at}][\"success\"]")).map(Some),
                None => Ok(Some(false)),
            }
        })
    }

    fn pre_merge(&self, episode: &PyValue) -> Result<Recording, FileProblem> {
        let (observations, infos) = both_lists(episode)?;
        let frames = infos.len().min(observations.len() - 1);
        if frames == 0 {
            return Err(FileProblem::Empty { key: "observations" });
        }
        self.paired(observations, frames, |at| match infos[at].get("is_obj_placed") {
            Some(placed) => keys::truth(placed, || format!("infos[{at}][\"is_obj_placed\"]")).map(Some),
            None => Ok(Some(false)),
        })
    }

    /// A block is a run of frames under one key.
    fn keyboard(&self, recording: &PyValue) -> Result<Vec<Recording>, FileProblem> {
        let observations = keys::need_list(recording, "observations")?;
        let labels = keys::need_list(recording, "labels")?;
        if labels.len() > observations.len() {
            return Err(FileProblem::TooFewObservations {
                infos: labels.len(),
                observations: observations.len(),
            });
        }
        let labelled = self.paired(observations, labels.len(), |at| match &labels[at] {
            PyValue::None => Ok(None),
            label => keys::truth(label, || format!("labels[{at}]")).map(Some),
        })?;
        let mut blocks: Vec<Recording> = Vec::new();
        for frame in labelled.frames {
            let last = blocks.last().and_then(|block| block.frames.last());
            if last.is_none_or(|last| last.label != frame.label || last.at + 1 != frame.at) {
                blocks.push(Recording::default());
            }
            if let Some(block) = blocks.last_mut() {
                block.frames.push(frame);
            }
        }
        Ok(blocks)
    }

    /// Observations with their labels; those without an image or a label are left out.
    fn paired(
        &self,
        observations: &[PyValue],
        count: usize,
        label: impl Fn(usize) -> Result<Option<bool>, FileProblem>,
    ) -> Result<Recording, FileProblem> {
        let mut frames = Vec::with_capacity(count);
        for (at, observation) in observations.iter().enumerate().take(count) {
            let label = label(at)?;
            if let (Some(label), Some(image)) = (label, image(observation, self.key(), || self.place(at))?) {
                frames.push(Frame { image, label, at, state: state(observation) });
            }
        }
        self.some(frames, observations.first())
    }

    fn some(&self, frames: Vec<Frame>, first: Option<&PyValue>) -> Result<Recording, FileProblem> {
        if frames.is_empty() {
            return Err(FileProblem::NoImages { key: self.key().into(), has: keys::of(first) });
        }
        Ok(Recording { frames })
    }

    fn frames(&self, episode: &PyValue, file: &InputFile) -> Result<Recording, FileProblem> {
        let entries = keys::need_list(episode, "frames")?;
        let of_episode = match episode.get("label").or_else(|| episode.get("success")) {
            Some(label) => Some(keys::truth(label, || "`label`".into())?),
            None => file.outcome,
        };
        let mut frames = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let label = match entry.get("success") {
                None | Some(PyValue::None) => of_episode.unwrap_or(false),
                Some(success) => keys::truth(success, || format!("frames[{at}][\"success\"]"))?,
            };
            let observation = keys::need(entry, "obs", &format!("frames[{at}]"))?;
            if let Some(image) = image(observation, self.key(), || self.place(at))? {
                frames.push(Frame { image, label, at, state: state(observation) });
            }
        }
        self.some(frames, entries.first().and_then(|entry| entry.get("obs")))
    }

    fn trajectory(&self, value: &PyValue) -> Result<Recording, FileProblem> {
        let trajectory = value.item().unwrap_or(value);
        let cameras = keys::need(trajectory, "images", "the file")?;
        let images = self.camera(cameras)?;
        let labels = keys::need(trajectory, "labels", "the file")?;
        let not_numbers =
            || FileProblem::Kind { place: "`labels`".into(), expected: "numpy array", found: labels.kind() };
        let labels = labels.as_array().and_then(Array::to_f32).ok_or_else(not_numbers)?;
        let count = images.shape().first().copied().unwrap_or(0);
        if count < labels.len() {
            return Err(FileProblem::TooFewObservations { infos: labels.len(), observations: count });
        }
        let frame = |(at, label): (usize, &f32)| {
            Some(Frame { image: images.row(at)?, label: *label >= 0.5, at, state: None })
        };
        let frames: Vec<Frame> = labels.iter().enumerate().filter_map(frame).collect();
        if frames.is_empty() { Err(FileProblem::Empty { key: "labels" }) } else { Ok(Recording { frames }) }
    }

    /// The camera that was asked for, or the only one, or `base_camera`.
    fn camera<'a>(&self, cameras: &'a PyValue) -> Result<&'a Array, FileProblem> {
        let only = || match cameras.as_dict() {
            Some(dict) if dict.len() == 1 => dict.iter().next().map(|(_, images)| images),
            _ => None,
        };
        let found = match &self.image_key {
            Some(key) => cameras.get(key),
            None => only().or_else(|| cameras.get("base_camera")),
        };
        let key = || self.image_key.clone().unwrap_or_else(|| "base_camera".into());
        let missing = || FileProblem::NoImages { key: key(), has: keys::of(Some(cameras)) };
        let found = found.ok_or_else(missing)?;
        let kind = || FileProblem::Kind {
            place: format!("images[\"{}\"]", key()),
            expected: "numpy array",
            found: found.kind(),
        };
        found.as_array().ok_or_else(kind)
    }

    /// Cut at terminations and truncations; what does nothing is dropped unless it terminates.
    fn transitions(&self, value: &PyValue) -> Result<Vec<Recording>, FileProblem> {
        let not_a_list =
            || FileProblem::Kind { place: "the file".into(), expected: "list", found: value.kind() };
        let entries = value.as_items().ok_or_else(not_a_list)?;
        let mut episodes = Vec::new();
        let mut current = Recording::default();
        for (at, entry) in entries.iter().enumerate() {
            let place = format!("[{at}]");
            let flag =
                |key: &str| keys::truth(keys::need(entry, key, &place)?, || format!("{place}[\"{key}\"]"));
            let (terminated, truncated) = (flag("terminations")?, flag("truncations")?);
            if terminated || !is_still(keys::need(entry, "action", &place)?, &place)? {
                let seen = keys::need(keys::need(entry, "transitions", &place)?, "obs", &place)?;
                let reward =
                    keys::number(keys::need(entry, "rewards", &place)?, || format!("{place}[\"rewards\"]"))?;
                if let Some(image) = image(seen, self.key(), || self.place(at))? {
                    current.frames.push(Frame { image, label: reward > 0.5, at, state: state(seen) });
                }
            }
            if (terminated || truncated || at + 1 == entries.len()) && !current.frames.is_empty() {
                episodes.push(std::mem::take(&mut current));
            }
        }
        if episodes.is_empty() {
            let first = entries.first().and_then(|entry| entry.get("transitions")?.get("obs"));
            return Err(FileProblem::NoImages { key: self.key().into(), has: keys::of(first) });
        }
        Ok(episodes)
    }
}

fn is_still(action: &PyValue, place: &str) -> Result<bool, FileProblem> {
    let numbers = action.as_array().and_then(Array::to_f64);
    let kind = || FileProblem::Kind {
        place: format!("{place}[\"action\"]"),
        expected: "torch tensor",
        found: action.kind(),
    };
    Ok(numbers.ok_or_else(kind)?.iter().map(|x| x.abs()).sum::<f64>() < STILL)
}

fn both_lists(episode: &PyValue) -> Result<(&[PyValue], &[PyValue]), FileProblem> {
    let observations = keys::need_list(episode, "observations")?;
    let infos = keys::need_list(episode, "infos")?;
    if infos.len() > observations.len() {
        return Err(FileProblem::TooFewObservations { infos: infos.len(), observations: observations.len() });
    }
    Ok((observations, infos))
}

/// The state of an observation, if it has one.
fn state(observation: &PyValue) -> Option<Array> {
    observation.get("states")?.as_array().cloned()
}

/// The image of an observation, if it has one.
pub(crate) fn image(
    observation: &PyValue,
    key: &str,
    place: impl Fn() -> String,
) -> Result<Option<Array>, FileProblem> {
    match observation.get(key) {
        None | Some(PyValue::None) => Ok(None),
        Some(PyValue::Array(array) | PyValue::Tensor(array)) => Ok(Some((**array).clone())),
        Some(other) => {
            Err(FileProblem::Kind { place: place(), expected: "torch tensor", found: other.kind() })
        }
    }
}
