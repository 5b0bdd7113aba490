//! Recordings: one episode, whatever its format, read when it is asked for.
//!
//! [`Recordings::open`] finds out what lies at a path, which is the only place where that is decided, and lists its
//! items without reading them. Every item is read into [`Recording`]s: observations whose images are views of the mapped
//! file, states, actions, rewards, ends, what is known about success, and facts. Inspection, training, conversion to images
//! and to windows, and demonstrations all go through here.
//!
//! A format is one file of this folder and one line of [`DatasetFormat`]. What a reader decides on the way (which of two
//! labels counts, which action is none, which reward means success) is in [`Rules`].
//!
//! ```
//! use plaudit_data::recording::{Recordings, Rules};
//! # use plaudit_pyfiles::{Array, PickleStyle, PyValue, write_pickle};
//! # let folder = tempfile::tempdir()?;
//! # let image = || Array::from_slice(&[2, 2, 3], &[7u8; 12]);
//! # let seen = || Ok::<_, Box<dyn std::error::Error>>(PyValue::dict([("main_images", image()?.into())]));
//! # let info = |success: bool| PyValue::dict([("success", success.into())]);
//! # let episode = PyValue::dict([
//! #     ("observations", PyValue::list([seen()?, seen()?])),
//! #     ("infos", PyValue::list([PyValue::dict::<&str>([]), info(true)])),
//! #     ("rewards", PyValue::list([PyValue::Float(0.0), PyValue::Float(1.0)])),
//! # ]);
//! # write_pickle(folder.path().join("episode.pkl"), &episode, PickleStyle::default())?;
//! # let path = folder.path();
//!
//! for recording in Recordings::open(path, &Rules::default())?.iter() {
//!     let recording = recording?;
//!     println!("{}: success {:?}, rewards {:?}", recording.name(), recording.success(), recording.rewards());
//!     for at in 0..recording.len() {
//!         let frame = recording.frame(at, "main_images")?.ok_or("no such camera")?;
//!         assert_eq!(frame.pixels()?.len(), frame.shape().bytes());
//!     }
//! #   assert_eq!((recording.len(), recording.labels()), (2, &[None, Some(true)][..]));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Copies of a frame
//!
//! From the simulator to a file, a frame is copied at most twice: by the [`Collector`](crate::episode::Collector) out of the
//! environments' batch into its episode, and once more where the layout of the file asks for it (several extra cameras in one
//! tensor of RLinf's). Pickles, replay buffers and stores are written from those bytes to the system, past the buffer of the
//! file, and queues and several formats at a time share them; LeRobot's images are encoded from them.
//!
//! From a mapped file to augmentation, a frame is not copied at all: [`FrameImage::pixels`] is a slice of the map wherever
//! bytes lie as height, width and channel, and augmentation reads from there into the batch.

#[cfg(test)]
mod added_in_test;
mod cameras;
mod collected;
mod error;
mod formats;
mod frame;
mod frames;
mod hdf5_columns;
mod image_file;
mod image_folder;
mod image_list;
mod item;
mod keyboard;
pub(crate) mod keys;
mod label_table;
mod labelled_frames;
mod lerobot;
mod maniskill;
mod mcap;
mod observation;
mod pixel_format;
mod plain_folder;
mod probe;
mod problem;
mod replay_buffer;
mod rlds;
mod robomimic;
mod rules;
mod simulated;
mod stored;
mod to_episode;
mod trajectories;
mod transitions;
mod windows;
mod zarr;

use std::sync::Arc;

use plaudit_core::End;

pub use crate::hdf5::Hdf5Error;
pub use crate::mcap::McapError;
pub use crate::rlds::RldsError;
pub use crate::zarr::ZarrError;
pub use error::OpenError;
pub use formats::DatasetFormat;
pub use frame::FrameImage;
pub use item::Recordings;
pub use pixel_format::ChannelOrder;
pub use problem::{BadFile, FileProblem};
pub use rules::{BadFiles, Rules, UnlabelledFrames};
pub use simulated::{SimulatedEpisode, SimulatedEpisodes, SimulatedPlace, SimulatorStates};

pub(crate) use cameras::{CameraKey, MAIN};
pub(crate) use formats::SplitUnit;
pub(crate) use frame::Frame;
pub(crate) use item::{Item, format_in};
pub(crate) use keyboard::runs;
pub(crate) use labelled_frames::ItemFrames;
pub(crate) use observation::Observation;
pub(crate) use pixel_format::{PixelFormat, Strictness};
pub(crate) use replay_buffer::samples_of;
pub(crate) use stored::stores_below;

/// What one thing of a dataset is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Steps from a reset to an end.
    #[default]
    Episode,
    /// Some frames in a row with one label.
    Window,
    /// Images, each with its label, that were chosen from episodes.
    Images,
}

/// What the last action led to.
#[derive(Debug, Default)]
pub(crate) enum AfterLast {
    /// The last observation: columns begin with the reset.
    #[default]
    Included,
    /// This one. Observations are what was before each action, and what followed it (reward, end, success) stands beside.
    Seen(Observation),
    /// The same, where the layout has no observation after the last action: the last one stands for it.
    Repeated,
    /// The same, where nobody knows.
    Unknown,
}

/// One episode, window or set of images, whoever wrote it.
///
/// Columns have an entry per observation. Images stay where they are until somebody asks for them.
#[derive(Debug, Default)]
pub struct Recording {
    pub(crate) unit: Unit,
    /// Which of several in one file; empty where it is alone.
    pub(crate) name: String,
    pub(crate) observations: Vec<Observation>,
    pub(crate) after_last: AfterLast,
    pub(crate) actions: Vec<Vec<f32>>,
    /// NaN where something else than a number stands.
    pub(crate) rewards: Vec<f64>,
    /// Advantages (RLinf's `gae`), where they were recorded: how it goes, better than rewards say.
    pub(crate) progress: Vec<f64>,
    pub(crate) ends: Vec<End>,
    /// Other values of the environment's info, by name.
    pub(crate) facts: Vec<Vec<(Arc<str>, f32)>>,
    /// Success, observation by observation, where it is known.
    pub(crate) labels: Vec<Option<bool>>,
    /// What frames without a label are.
    pub(crate) unlabelled_frames: UnlabelledFrames,
    /// Observations that nothing is learned from, by the format's rules.
    pub(crate) left_out: Vec<bool>,
    /// What the file says of the whole.
    pub(crate) success: Option<bool>,
    /// The task in the environment's words.
    pub(crate) task: Option<Arc<str>>,
    /// The task in the episode's own words, which count before any others.
    pub(crate) own_task: Option<Arc<str>>,
    /// Environment, number there, and steps of the batch.
    pub(crate) position: [Option<u64>; 3],
    /// Which entry of its file or episode each observation is, where that is not its index.
    pub(crate) entries: Option<Vec<usize>>,
    /// Of a set of images: names of the episodes they are from, and whose each is.
    pub(crate) episodes: Option<(Vec<String>, Vec<usize>)>,
    /// Whether nobody knows which episodes its images are from.
    pub(crate) is_loose: bool,
    pub(crate) split_unit: SplitUnit,
    /// Why nothing can be learned from its labels.
    pub(crate) unlabelled: Option<FileProblem>,
    /// The label of a window.
    pub(crate) window_label: Option<String>,
    /// The episode a window was cut from.
    pub(crate) cut_from: Option<String>,
    /// Lists that should be of one length and are not.
    pub(crate) uneven: Option<String>,
    /// What a name, a folder or a manifest says, where it is not what the file says.
    pub(crate) disagrees: Option<String>,
}

/// What every format has, as far as it has it. A column that was not recorded is empty.
impl Recording {
    /// What it is called: its file's name without the ending, and a number where a file has several.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many observations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observations.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observations.is_empty()
    }

    /// The cameras that the first observation shows, as they are called there.
    #[must_use]
    pub fn cameras(&self) -> Vec<String> {
        let first = self.observations.first().map(Observation::images).unwrap_or_default();
        first.into_iter().map(|(name, _)| name).collect()
    }

    /// The image of a camera at an observation: by its name, or by RLinf's keys (`main_images`, `wrist_images`,
    /// `extra_view_images[1]`). Nothing where that observation has none.
    ///
    /// # Errors
    /// When what is there is no image.
    pub fn frame(&self, at: usize, camera: &str) -> Result<Option<FrameImage>, FileProblem> {
        let location = || format!("the image of `{camera}` at entry {at}");
        let Some(observation) = self.observations.get(at) else { return Ok(None) };
        let frame = observation.image(&CameraKey::parse(camera), location)?;
        frame.map(|frame| FrameImage::of(frame, location)).transpose()
    }

    /// The environment's state vector at an observation, if it was recorded.
    #[must_use]
    pub fn state(&self, at: usize) -> Option<Vec<f32>> {
        self.observations.get(at).and_then(Observation::state)
    }

    /// What was done after each observation.
    #[must_use]
    pub fn actions(&self) -> &[Vec<f32>] {
        &self.actions
    }

    /// The environment's rewards: what came with each observation, or what followed it
    /// ([`follows_actions`](Self::follows_actions)). NaN where something else than a number was recorded.
    #[must_use]
    pub fn rewards(&self) -> &[f64] {
        &self.rewards
    }

    /// Whether and how the episode ended, in the same order.
    #[must_use]
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Success at each step, in the same order; nothing where it is unknown.
    #[must_use]
    pub fn labels(&self) -> &[Option<bool>] {
        &self.labels
    }

    /// Other values of the environment's info by name, in the same order.
    #[must_use]
    pub fn facts(&self) -> &[Vec<(Arc<str>, f32)>] {
        &self.facts
    }

    /// Whether rewards, ends, labels and facts are of what followed the action after an observation, as in replay buffers,
    /// transitions and LeRobot datasets. Otherwise they are of what came with it, and the first is the reset's.
    #[must_use]
    pub fn follows_actions(&self) -> bool {
        !matches!(self.after_last, AfterLast::Included)
    }

    /// Whether the task was solved; nothing where nobody says so.
    #[must_use]
    pub fn success(&self) -> Option<bool> {
        self.success.or_else(|| self.labels.iter().flatten().copied().reduce(|a, b| a | b))
    }

    /// The task in words.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.own_task.as_deref().or(self.task.as_deref())
    }
}

/// An observation with a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelledEntry {
    /// Which observation.
    pub(crate) at: usize,
    /// Which entry of its file that is.
    pub(crate) entry: usize,
    pub(crate) success: bool,
}

impl Recording {
    /// Which entry of its file an observation is.
    pub(crate) fn entry(&self, at: usize) -> usize {
        self.entries.as_ref().map_or(at, |entries| entries[at])
    }

    /// Whether nothing is learned from an observation.
    pub(crate) fn is_left_out(&self, at: usize) -> bool {
        self.left_out.get(at).copied().unwrap_or(false)
    }

    /// Every observation that is learned from, with its label.
    ///
    /// Where no frame has a label, an episode that failed has failures alone. Of any other nothing is known.
    pub(crate) fn labelled(&mut self) -> Result<Vec<LabelledEntry>, FileProblem> {
        if self.unlabelled_frames == UnlabelledFrames::Kept {
            return Ok(self.every_entry());
        }
        if let Some(problem) = self.unlabelled.take() {
            return Err(problem);
        }
        let (infos, observations) = (self.labels.len(), self.observations.len());
        if infos > observations {
            return Err(FileProblem::TooFewObservations { infos, observations });
        }
        if self.labels.iter().all(Option::is_none) && self.success != Some(false) {
            return Err(FileProblem::NoLabels);
        }
        let is_used = |at: &usize| {
            let counts = self.labels[*at].is_some() || self.unlabelled_frames == UnlabelledFrames::Failures;
            counts && !self.is_left_out(*at)
        };
        let entry = |at: usize| LabelledEntry {
            at,
            entry: self.entry(at),
            success: self.labels[at].unwrap_or(false),
        };
        Ok((0..infos).filter(is_used).map(entry).collect())
    }

    /// Every observation that belongs to the episode, whatever is known of its success.
    fn every_entry(&self) -> Vec<LabelledEntry> {
        let entry = |at: usize| LabelledEntry {
            at,
            entry: self.entry(at),
            success: self.labels.get(at).copied().flatten().unwrap_or(false),
        };
        (0..self.observations.len()).filter(|at| !self.is_left_out(*at)).map(entry).collect()
    }

    /// The same in the pieces that a split keeps together: the whole, or runs of one label where a person pressed keys.
    pub(crate) fn units(&mut self) -> Result<Vec<Vec<LabelledEntry>>, FileProblem> {
        let labelled = self.labelled()?;
        Ok(match (self.split_unit, self.unlabelled_frames) {
            (SplitUnit::Run, UnlabelledFrames::Failures | UnlabelledFrames::LeftOut) => runs(labelled),
            (SplitUnit::Recording, _) | (_, UnlabelledFrames::Kept) => vec![labelled],
        })
    }
}
