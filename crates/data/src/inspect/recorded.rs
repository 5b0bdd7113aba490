//! A recording with all its images by camera: what is looked at.

use crate::recording::{Frame, Recording, Unit};

/// One thing of a dataset. Images are views of the file.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) unit: Option<Unit>,
    /// Which of several in one file.
    pub(super) name: String,
    pub(super) cameras: Vec<CameraImages>,
    pub(super) states: Vec<Vec<f32>>,
    pub(super) actions: Vec<Vec<f32>>,
    pub(super) rewards: Vec<f32>,
    /// Success, frame by frame, where it is known.
    pub(super) labels: Vec<Option<bool>>,
    /// What the file says of the whole.
    pub(super) success: Option<bool>,
    /// The label of a window.
    pub(super) window_label: Option<String>,
    /// The episode a window was cut from.
    pub(super) cut_from: Option<String>,
    /// Lists that should be of one length and are not.
    pub(super) uneven: Option<String>,
    /// What a name, a folder or a manifest says, where it is not what the file says.
    pub(super) disagrees: Option<String>,
}

/// One camera's images.
#[derive(Debug)]
pub(super) struct CameraImages {
    pub(super) name: String,
    pub(super) images: Vec<Frame>,
}

impl Recorded {
    pub(super) fn of(recording: Recording) -> Self {
        let mut recorded = Self {
            states: recording.observations.iter().filter_map(|seen| seen.state()).collect(),
            unit: Some(recording.unit),
            name: recording.name,
            actions: recording.actions,
            rewards: recording.rewards,
            labels: recording.labels,
            success: recording.success,
            window_label: recording.window_label,
            cut_from: recording.cut_from,
            uneven: recording.uneven,
            disagrees: recording.disagrees,
            cameras: Vec::new(),
        };
        for observation in &recording.observations {
            observation.images().into_iter().for_each(|(camera, image)| recorded.add_image(&camera, image));
        }
        recorded
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::Episode)
    }

    /// Adds a camera's image; cameras come in the order of their first image.
    pub(super) fn add_image(&mut self, camera: &str, image: Frame) {
        match self.cameras.iter_mut().find(|views| views.name == camera) {
            Some(views) => views.images.push(image),
            None => self.cameras.push(CameraImages { name: camera.into(), images: vec![image] }),
        }
    }

    /// Actions where there are some, frames where not.
    pub(super) fn steps(&self) -> usize {
        if self.actions.is_empty() { self.frames() } else { self.actions.len() }
    }

    pub(super) fn frames(&self) -> usize {
        let images = self.cameras.iter().map(|views| views.images.len()).max();
        images.unwrap_or_else(|| self.states.len().max(self.rewards.len()))
    }
}
