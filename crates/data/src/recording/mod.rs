//! Recordings: one episode, whatever its format, read when it is asked for.
//!
//! [`Recordings::open`] finds out what lies at a path, which is the only place where that is decided, and lists its
//! items without reading them. Every item is read into [`Recording`]s: observations whose images are views of the mapped
//! file, states, actions, rewards, ends, what is known about success, and facts. Inspection, training, conversion and
//! demonstrations all go through here.
//!
//! A format is one file of this folder and one arm of [`DatasetFormat`]. What a reader decides on the way (which of two
//! labels counts, which action is none) is in `rules.rs`.

mod cameras;
mod collected;
mod error;
mod formats;
mod frame;
mod frames;
mod image_folder;
mod image_list;
mod keyboard;
pub(crate) mod keys;
mod observation;
mod pixel_format;
mod problem;
mod rules;
mod source;
mod stored;
mod to_episode;
mod trajectories;
mod transitions;
mod whole_episode;
mod windows;

use std::sync::Arc;

use plaudit_core::End;

pub use error::OpenError;
pub use formats::{DatasetFormat, Recordings};
pub use pixel_format::ChannelOrder;
pub use problem::{BadFile, FileProblem};
pub use source::Source;

pub(crate) use cameras::{CameraKey, MAIN};
pub(crate) use formats::{Item, stores_below};
pub(crate) use frame::Frame;
pub(crate) use keyboard::blocks;
pub(crate) use observation::Observation;
pub(crate) use pixel_format::{PixelFormat, Strictness};
pub(crate) use source::list;

/// What one thing of a dataset is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Steps from a reset to an end.
    #[default]
    Episode,
    /// Some frames in a row with one label.
    Window,
    /// Images without an order, each with its label.
    Images,
}

/// One episode, window or set of images, whoever wrote it.
///
/// Columns have an entry per observation, or one less where the first is the reset's. Images stay where they are until
/// somebody asks for them.
#[derive(Debug, Default)]
pub struct Recording {
    pub(crate) unit: Unit,
    /// Which of several in one file; empty where it is alone.
    pub(crate) name: String,
    pub(crate) observations: Vec<Observation>,
    /// What the last action led to, where observations have only what was before each action. What follows an action
    /// (reward, end, success) then stands beside what was before it.
    pub(crate) after_last: Option<Observation>,
    pub(crate) actions: Vec<Vec<f32>>,
    pub(crate) rewards: Vec<f32>,
    pub(crate) ends: Vec<End>,
    /// Other values of the environment's info, by name.
    pub(crate) facts: Vec<Vec<(Arc<str>, f32)>>,
    /// Success, observation by observation, where it is known.
    pub(crate) labels: Vec<Option<bool>>,
    /// Observations that nothing is learned from, by the format's rules.
    pub(crate) left_out: Vec<bool>,
    /// What the file says of the whole.
    pub(crate) success: Option<bool>,
    /// The task in words.
    pub(crate) task: Option<Arc<str>>,
    /// Environment, number there, and steps of the batch.
    pub(crate) position: (usize, u64, u64),
    /// Which entry of its file or episode each observation is, where that is not its index.
    pub(crate) entries: Option<Vec<usize>>,
    /// Of a set of images: names of the episodes they are from, and whose each is.
    pub(crate) episodes: Option<(Vec<String>, Vec<usize>)>,
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

    /// Every observation that is learned from, with its label. What is unknown is no success.
    pub(crate) fn labelled(&mut self) -> Result<Vec<LabelledEntry>, FileProblem> {
        if let Some(problem) = self.unlabelled.take() {
            return Err(problem);
        }
        let (infos, observations) = (self.labels.len(), self.observations.len());
        if infos > observations {
            return Err(FileProblem::TooFewObservations { infos, observations });
        }
        let is_used = |at: &usize| !self.left_out.get(*at).copied().unwrap_or(false);
        let entry = |at: usize| LabelledEntry {
            at,
            entry: self.entry(at),
            success: self.labels[at].unwrap_or(rules::UNKNOWN_IS_SUCCESS),
        };
        Ok((0..infos).filter(is_used).map(entry).collect())
    }

    /// The same in the pieces that a split keeps together: the whole, or runs of one label where a person pressed keys.
    pub(crate) fn units(&mut self, source: Option<Source>) -> Result<Vec<Vec<LabelledEntry>>, FileProblem> {
        let labelled = self.labelled()?;
        Ok(if source == Some(Source::Keyboard) { blocks(labelled) } else { vec![labelled] })
    }
}
