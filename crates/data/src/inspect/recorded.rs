//! A recording with all its images by camera: what is looked at.

use std::ops::Deref;

use crate::recording::{Frame, Observation, Recording};

/// One thing of a dataset. Images are views of the file.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    recording: Recording,
    /// In the order of their first image.
    pub(super) cameras: Vec<CameraImages>,
    pub(super) states: Vec<Vec<f32>>,
}

/// One camera's images.
#[derive(Debug)]
pub(super) struct CameraImages {
    pub(super) name: String,
    pub(super) images: Vec<Frame>,
}

impl Deref for Recorded {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        &self.recording
    }
}

impl Recorded {
    pub(super) fn of(recording: Recording) -> Self {
        let mut cameras: Vec<CameraImages> = Vec::new();
        for (name, image) in recording.observations.iter().flat_map(Observation::images) {
            match cameras.iter_mut().find(|views| views.name == name) {
                Some(views) => views.images.push(image),
                None => cameras.push(CameraImages { name, images: vec![image] }),
            }
        }
        let states = recording.observations.iter().filter_map(Observation::state).collect();
        Self { cameras, states, recording }
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
