//! What a batch of environments shows: camera images, a state vector, the task in words.

use std::sync::Arc;

use thiserror::Error;

/// Height, width and channels of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct FrameShape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// 3 for RGB.
    pub channels: usize,
}

impl FrameShape {
    /// An RGB image.
    pub fn rgb(height: usize, width: usize) -> Self {
        Self { height, width, channels: 3 }
    }

    /// Bytes of one image.
    pub fn bytes(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// One camera's images for a whole batch: u8, `[B, H, W, C]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// Shape of each image.
    pub shape: FrameShape,
    /// All images, one after the other.
    pub pixels: Vec<u8>,
}

impl Frames {
    /// Checks that `pixels` holds whole images.
    pub fn new(shape: FrameShape, pixels: Vec<u8>) -> Result<Self, ObsError> {
        if shape.bytes() == 0 || !pixels.len().is_multiple_of(shape.bytes()) {
            return Err(ObsError::Pixels { shape, bytes: pixels.len() });
        }
        Ok(Self { shape, pixels })
    }

    /// How many images there are.
    pub fn count(&self) -> usize {
        self.pixels.len() / self.shape.bytes()
    }

    /// The pixels of image `row`, HWC.
    pub fn image(&self, row: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        &self.pixels[row * bytes..(row + 1) * bytes]
    }
}

/// Observations of `batch` environments at one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Obs {
    batch: usize,
    /// Named cameras; the first is the main view. Empty when nothing was rendered.
    pub cameras: Vec<(Arc<str>, Frames)>,
    /// State vectors, `[B, state_width]`, row after row.
    pub state: Vec<f32>,
    /// The task in words, one per environment; empty when the environment names none.
    pub tasks: Vec<Arc<str>>,
}

impl Obs {
    /// States alone, of `batch` equal rows.
    pub fn from_state(batch: usize, state: Vec<f32>) -> Result<Self, ObsError> {
        if batch == 0 || !state.len().is_multiple_of(batch) {
            return Err(ObsError::State { batch, values: state.len() });
        }
        Ok(Self { batch, cameras: Vec::new(), state, tasks: Vec::new() })
    }

    /// The same observations with one more camera.
    pub fn with_camera(mut self, name: impl Into<Arc<str>>, frames: Frames) -> Result<Self, ObsError> {
        let name = name.into();
        if frames.count() != self.batch {
            return Err(ObsError::Camera { name, images: frames.count(), batch: self.batch });
        }
        self.cameras.push((name, frames));
        Ok(self)
    }

    /// The same observations with one task text per environment.
    pub fn with_tasks(mut self, tasks: Vec<Arc<str>>) -> Result<Self, ObsError> {
        if tasks.len() != self.batch {
            return Err(ObsError::Tasks { tasks: tasks.len(), batch: self.batch });
        }
        self.tasks = tasks;
        Ok(self)
    }

    /// How many environments.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Numbers per state row.
    pub fn state_width(&self) -> usize {
        self.state.len() / self.batch
    }

    /// What environment `row` shows.
    pub fn row(&self, row: usize) -> ObsRow<'_> {
        let width = self.state_width();
        ObsRow { obs: self, row, state: &self.state[row * width..(row + 1) * width] }
    }
}

/// One environment's part of an [`Obs`].
#[derive(Debug, Clone, Copy)]
pub struct ObsRow<'a> {
    obs: &'a Obs,
    row: usize,
    /// Its state vector.
    pub state: &'a [f32],
}

impl<'a> ObsRow<'a> {
    /// Its image of the camera `name`, with the shape, if that camera was rendered.
    pub fn image(&self, name: &str) -> Option<(FrameShape, &'a [u8])> {
        let (_, frames) = self.obs.cameras.iter().find(|(camera, _)| &**camera == name)?;
        Some((frames.shape, frames.image(self.row)))
    }

    /// A batch of this one alone.
    pub fn to_obs(&self) -> Obs {
        let one = |(name, frames): &(Arc<str>, Frames)| {
            (name.clone(), Frames { shape: frames.shape, pixels: frames.image(self.row).to_vec() })
        };
        Obs {
            batch: 1,
            cameras: self.obs.cameras.iter().map(one).collect(),
            state: self.state.to_vec(),
            tasks: self.obs.tasks.get(self.row).cloned().into_iter().collect(),
        }
    }

    /// Its task in words.
    pub fn task(&self) -> Option<&'a str> {
        self.obs.tasks.get(self.row).map(|task| &**task)
    }
}

/// Parts of an observation that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObsError {
    /// Not a whole number of images.
    #[error("{bytes} bytes are no whole number of {}x{}x{} images", shape.height, shape.width, shape.channels)]
    Pixels {
        /// Shape asked for.
        shape: FrameShape,
        /// Bytes given.
        bytes: usize,
    },
    /// States do not divide into rows.
    #[error("{values} state values do not divide into {batch} rows")]
    State {
        /// Rows asked for.
        batch: usize,
        /// Values given.
        values: usize,
    },
    /// A camera with too many or too few images.
    #[error("camera `{name}` has {images} images for {batch} environments")]
    Camera {
        /// Its name.
        name: Arc<str>,
        /// Images given.
        images: usize,
        /// Environments.
        batch: usize,
    },
    /// Too many or too few task texts.
    #[error("{tasks} task texts for {batch} environments")]
    Tasks {
        /// Texts given.
        tasks: usize,
        /// Environments.
        batch: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_slices_of_the_batch() {
        let frames = Frames::new(FrameShape::rgb(1, 2), (0..12).collect()).unwrap();
        let obs = Obs::from_state(2, vec![1.0, 2.0, 3.0, 4.0])
            .unwrap()
            .with_camera("main", frames)
            .unwrap()
            .with_tasks(vec!["lift".into(), "push".into()])
            .unwrap();
        let second = obs.row(1);
        assert_eq!(second.state, [3.0, 4.0]);
        assert_eq!(second.image("main").unwrap().1, [6, 7, 8, 9, 10, 11]);
        assert_eq!(second.task(), Some("push"));
        assert!(second.image("wrist").is_none());
        let alone = second.to_obs();
        assert_eq!((alone.batch(), alone.row(0).task()), (1, Some("push")));
        assert_eq!(alone.row(0).image("main"), second.image("main"));
    }

    #[test]
    fn misfits_are_refused_with_their_numbers() {
        assert!(Obs::from_state(0, vec![]).is_err());
        let error = Obs::from_state(3, vec![0.0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "4 state values do not divide into 3 rows");
        let error = Frames::new(FrameShape::rgb(2, 2), vec![0; 13]).unwrap_err();
        assert_eq!(error.to_string(), "13 bytes are no whole number of 2x2x3 images");
        let one = Frames::new(FrameShape::rgb(1, 1), vec![0; 3]).unwrap();
        let error = Obs::from_state(2, vec![0.0; 2]).unwrap().with_camera("main", one).unwrap_err();
        assert_eq!(error.to_string(), "camera `main` has 1 images for 2 environments");
    }
}
