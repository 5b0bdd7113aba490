//! One episode, window or pile of images, whoever wrote it: what all formats are read into.

use super::picture::Picture;

/// What one thing of a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A way from a reset to an end.
    Episode,
    /// Some frames in a row with one label.
    Window,
    /// Images without an order, each with its label.
    Images,
}

/// One thing of a dataset. Images are views of the file.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) unit: Option<Unit>,
    /// Which of several in one file.
    pub(super) name: String,
    pub(super) cameras: Vec<Views>,
    pub(super) states: Vec<Vec<f32>>,
    pub(super) actions: Vec<Vec<f32>>,
    pub(super) rewards: Vec<f32>,
    /// Success, frame by frame, where it is known.
    pub(super) labels: Vec<Option<bool>>,
    /// What the file says of the whole.
    pub(super) success: Option<bool>,
    /// The label of a window.
    pub(super) verdict: Option<String>,
    /// The episode a window was cut from.
    pub(super) cut_from: Option<String>,
    /// Lists that should be of one length and are not.
    pub(super) uneven: Option<String>,
    /// What a name, a folder or a manifest says, where it is not what the file says.
    pub(super) disagrees: Option<String>,
}

/// One camera's images.
#[derive(Debug)]
pub(super) struct Views {
    pub(super) name: String,
    pub(super) pictures: Vec<Picture>,
}

impl Recorded {
    pub(super) fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::Episode)
    }

    /// Adds a camera's image; cameras come in the order in which they are first seen.
    pub(super) fn see(&mut self, camera: &str, picture: Picture) {
        match self.cameras.iter_mut().find(|views| views.name == camera) {
            Some(views) => views.pictures.push(picture),
            None => self.cameras.push(Views { name: camera.into(), pictures: vec![picture] }),
        }
    }

    /// Actions where there are some, frames where not.
    pub(super) fn steps(&self) -> usize {
        if self.actions.is_empty() { self.frames() } else { self.actions.len() }
    }

    pub(super) fn frames(&self) -> usize {
        let images = self.cameras.iter().map(|views| views.pictures.len()).max();
        images.unwrap_or_else(|| self.states.len().max(self.rewards.len()))
    }
}
