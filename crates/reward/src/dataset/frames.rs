//! One part of a dataset.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use plaudit_core::FrameShape;
use plaudit_data::convert::OnProgress;
use plaudit_data::labelled::{FrameImage, FramePick, LabelledData, LabelledFrame, ReadOptions};
use plaudit_data::recording::{FileProblem, Rules};
use plaudit_nn::images::ImageError;
use serde::{Deserialize, Serialize};

use super::error::DatasetError;
use super::view::ViewKey;

/// Labelled frames of one or more recordings.
#[derive(Clone, Debug)]
pub struct Frames {
    views: Vec<ViewKey>,
    /// For each view, which camera of the recordings it is.
    cameras: Vec<usize>,
    shapes: Vec<FrameShape>,
    recordings: Vec<Arc<LabelledData>>,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    recording: u32,
    pick: FramePick,
}

/// How many frames there are of each label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBalance {
    /// Frames that show success.
    pub successes: usize,
    /// Frames that do not.
    pub failures: usize,
}

/// Where a frame is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Its episode.
    pub episode: &'a str,
    /// The folder of its episode.
    pub folder: &'a str,
    /// Which entry of the episode it is.
    pub at: usize,
}

impl Frames {
    /// Every frame of some datasets, in any format, read by these rules.
    ///
    /// # Errors
    /// When one cannot be read, or images of a camera differ in size.
    pub fn read(
        views: &[ViewKey],
        paths: &[impl AsRef<Path>],
        rules: &Rules,
        on_progress: &OnProgress<'_>,
    ) -> Result<Self, DatasetError> {
        let options = ReadOptions { cameras: ViewKey::cameras(views), rules: rules.clone() };
        let read = |path: &Path| -> Result<_, DatasetError> {
            let data = LabelledData::read(path, &options, on_progress)?;
            let all = data.all();
            Ok((Arc::new(data), all))
        };
        let picked = paths.iter().map(|path| read(path.as_ref())).collect::<Result<_, _>>()?;
        Self::new(views, picked)
    }

    /// Frames picked from recordings that were read with the [cameras](ViewKey::cameras) of these views.
    ///
    /// # Errors
    /// When images of a camera differ in size, or a view stacks past frames where frames have no order.
    pub fn new(
        views: &[ViewKey],
        picked: Vec<(Arc<LabelledData>, Vec<FramePick>)>,
    ) -> Result<Self, DatasetError> {
        let names = ViewKey::cameras(views);
        let place = |view: &ViewKey| names.iter().position(|name| *name == view.camera).unwrap_or(0);
        let cameras: Vec<usize> = views.iter().map(place).collect();
        let shapes = match picked.first() {
            Some((first, _)) => cameras.iter().map(|camera| first.cameras[*camera].1).collect(),
            None => Vec::new(),
        };
        let mut frames =
            Self { views: views.to_vec(), cameras, shapes, recordings: Vec::new(), samples: Vec::new() };
        for (number, (recording, picks)) in picked.into_iter().enumerate() {
            frames.refuse(&recording)?;
            frames.recordings.push(recording);
            frames.samples.extend(picks.into_iter().map(|pick| Sample { recording: number as u32, pick }));
        }
        Ok(frames)
    }

    /// The same with frames of one more recording, which was read with the same cameras.
    ///
    /// # Errors
    /// When its images are of another size, or frames have no order and a view stacks past frames.
    pub fn plus(mut self, recording: Arc<LabelledData>, picks: Vec<FramePick>) -> Result<Self, DatasetError> {
        self.refuse(&recording)?;
        let number = self.recordings.len() as u32;
        self.recordings.push(recording);
        self.samples.extend(picks.into_iter().map(|pick| Sample { recording: number, pick }));
        Ok(self)
    }

    /// At most `most` of them, evenly spread.
    #[must_use]
    pub fn subsampled(mut self, most: usize) -> Self {
        let step = self.samples.len().div_ceil(most.max(1)).max(1);
        self.samples = self.samples.into_iter().step_by(step).collect();
        self
    }

    /// Those of them that pass.
    pub(super) fn filtered(mut self, passes: impl Fn(usize) -> bool) -> Self {
        let samples = std::mem::take(&mut self.samples).into_iter().enumerate();
        self.samples = samples.filter(|(number, _)| passes(*number)).map(|(_, sample)| sample).collect();
        self
    }

    fn refuse(&self, recording: &LabelledData) -> Result<(), DatasetError> {
        let path = || recording.path.display().to_string();
        for ((view, camera), expected) in self.views.iter().zip(&self.cameras).zip(&self.shapes) {
            let found = recording.cameras[*camera].1;
            if found != *expected {
                let first = self.recordings.first().map(|first| first.path.display().to_string());
                return Err(DatasetError::Sizes {
                    view: view.to_string(),
                    first: first.unwrap_or_default(),
                    expected: *expected,
                    second: path(),
                    found,
                });
            }
            if view.back > 0 && !recording.has_history {
                return Err(DatasetError::NoHistory { view: view.to_string(), path: path() });
            }
        }
        Ok(())
    }

    /// How many frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// What is seen of each frame.
    #[must_use]
    pub fn views(&self) -> &[ViewKey] {
        &self.views
    }

    /// The size of each view's images.
    #[must_use]
    pub fn shapes(&self) -> &[FrameShape] {
        &self.shapes
    }

    /// Which camera each view is of, counted among the cameras.
    pub(crate) fn cameras(&self) -> &[usize] {
        &self.cameras
    }

    /// The recordings that frames were picked from.
    #[must_use]
    pub fn recordings(&self) -> &[Arc<LabelledData>] {
        &self.recordings
    }

    /// Whether a frame shows success.
    #[must_use]
    pub fn success(&self, at: usize) -> bool {
        self.frame(at).success
    }

    /// All labels.
    #[must_use]
    pub fn labels(&self) -> Vec<bool> {
        (0..self.len()).map(|at| self.success(at)).collect()
    }

    /// How many there are of each.
    #[must_use]
    pub fn balance(&self) -> ClassBalance {
        let successes = (0..self.len()).filter(|at| self.success(*at)).count();
        ClassBalance { successes, failures: self.len() - successes }
    }

    /// Where a frame is from.
    #[must_use]
    pub fn origin(&self, at: usize) -> Origin<'_> {
        let Sample { recording, pick } = self.samples[at];
        let episode = &self.recordings[recording as usize].episodes[pick.episode as usize];
        Origin { episode: &episode.name, folder: &episode.folder, at: self.frame(at).at }
    }

    /// Numbers of the frames by episode, in the order of the episodes and of their frames.
    #[must_use]
    pub fn by_episode(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        let key = |at: &usize| {
            let Sample { recording, pick } = self.samples[*at];
            (recording, pick.episode, pick.frame)
        };
        order.sort_by_key(key);
        let episode = |at: &usize| (key(at).0, key(at).1);
        order.chunk_by(|a, b| episode(a) == episode(b)).map(<[usize]>::to_vec).collect()
    }

    /// The image of a view.
    #[must_use]
    pub fn image(&self, at: usize, view: usize) -> &FrameImage {
        let Sample { recording, pick } = self.samples[at];
        let frame = self.recordings[recording as usize].frame_before(pick, self.views[view].back);
        &frame.images[self.cameras[view]]
    }

    /// The pixels of a view.
    ///
    /// # Errors
    /// When it is a frame of a video that cannot be decoded.
    pub fn pixels(&self, at: usize, view: usize) -> Result<Cow<'_, [u8]>, ImageError> {
        let pixels = self.image(at, view).pixels();
        pixels.map_err(|problem| ImageError::Unreadable { why: self.unreadable(at, view, &problem) })
    }

    /// The same to be looked at: black where it cannot be decoded any more.
    #[must_use]
    pub fn pixels_or_black(&self, at: usize, view: usize) -> Cow<'_, [u8]> {
        let image = self.image(at, view);
        image.pixels().unwrap_or_else(|_| Cow::Owned(vec![0; image.shape().bytes()]))
    }

    /// What is said of a frame that cannot be decoded.
    pub(super) fn unreadable(&self, at: usize, view: usize, problem: &FileProblem) -> String {
        let Origin { episode, at, .. } = self.origin(at);
        format!("{} of frame {at} of {episode}: {problem}", self.views[view])
    }

    /// The same, so many steps later in its episode than the view is (earlier where negative): at most its last, at least its first.
    pub(super) fn image_moved(&self, at: usize, view: usize, steps: i64) -> &FrameImage {
        let Sample { recording, pick } = self.samples[at];
        let episode = &self.recordings[recording as usize].episodes[pick.episode as usize];
        let frame = i64::from(pick.frame) - self.views[view].back as i64 + steps;
        let frame = frame.clamp(0, episode.frames.len() as i64 - 1) as usize;
        &episode.frames[frame].images[self.cameras[view]]
    }

    /// Which frame of its episode one is, and which is the first of success, if any is.
    pub(super) fn frame_of_success(&self, at: usize) -> (usize, Option<usize>) {
        let Sample { recording, pick } = self.samples[at];
        let episode = &self.recordings[recording as usize].episodes[pick.episode as usize];
        (pick.frame as usize, episode.frames.iter().position(|frame| frame.success))
    }

    /// The environment's state when the image of a view was taken, if it was recorded.
    #[must_use]
    pub fn state(&self, at: usize, view: usize) -> Option<&[f32]> {
        let Sample { recording, pick } = self.samples[at];
        let frame = self.recordings[recording as usize].frame_before(pick, self.views[view].back);
        frame.state.as_deref()
    }

    /// The environment's state at a frame, if it was recorded.
    #[must_use]
    pub fn state_now(&self, at: usize) -> Option<&[f32]> {
        self.frame(at).state.as_deref()
    }

    fn frame(&self, at: usize) -> &LabelledFrame {
        let Sample { recording, pick } = self.samples[at];
        self.recordings[recording as usize].frame(pick)
    }
}
