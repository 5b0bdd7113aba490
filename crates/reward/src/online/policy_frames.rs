//! The frames that a policy was rewarded by.

use std::collections::VecDeque;

use plaudit_core::{FrameShape, RewardColumn, Seed, Segment};

use super::OnlineError;
use crate::models::CameraView;
use crate::shaping::{FrameIndex, Guard};

/// Which of a policy's frames a model learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichFrames {
    /// The last one of each episode, where only those are rewarded.
    Ends,
    /// Those that the reward calls solved.
    Rewarded,
}

/// One frame: an image for each view of the model.
pub(super) type PolicyFrame = Vec<Vec<u8>>;

/// The newest frames that a policy was rewarded by.
#[derive(Debug)]
pub struct PolicyFrames {
    which: WhichFrames,
    views: Vec<CameraView>,
    shapes: Vec<FrameShape>,
    /// What the model leaves to the state; frames where one does not hold are none of its concern.
    guards: Vec<Guard>,
    keep: usize,
    /// Those of segments whose step of learning is not finished.
    pending: Vec<PolicyFrame>,
    pub(super) kept: VecDeque<PolicyFrame>,
    /// Segments taken in, which names the sample of the next one.
    pub(super) segments: u64,
    seed: Seed,
    problem: Option<OnlineError>,
}

/// Of one segment, at most this share of what is kept: the newest frames are of several segments.
const SHARE_OF_SEGMENT: usize = 4;

impl PolicyFrames {
    /// None yet; `shapes` are those of the images that the model learned from, view by view.
    #[must_use]
    pub fn new(
        which: WhichFrames,
        views: Vec<CameraView>,
        shapes: Vec<FrameShape>,
        keep: usize,
        seed: Seed,
    ) -> Self {
        let (pending, kept) = (Vec::new(), VecDeque::new());
        let guards = Vec::new();
        Self { which, views, shapes, guards, keep, pending, kept, segments: 0, seed, problem: None }
    }

    /// The same, of frames alone in whose state these hold.
    #[must_use]
    pub fn with_guards(self, guards: Vec<Guard>) -> Self {
        Self { guards, ..self }
    }

    /// Takes in a segment and its rewards. What is wrong with its frames is reported by [`commit`](Self::commit).
    pub fn add(&mut self, segment: &Segment, column: &RewardColumn) {
        let mut indices = Vec::new();
        for t in 0..segment.steps() {
            for b in 0..segment.batch() {
                let at = segment.at(t, b);
                let wanted = match self.which {
                    WhichFrames::Ends => segment.end[at].is_end(),
                    WhichFrames::Rewarded => column.success.as_ref().is_some_and(|success| success[at]),
                };
                let index = FrameIndex::outcome(segment, t, b);
                if wanted && self.guards.iter().all(|guard| guard.holds(&index.obs(segment))) {
                    indices.push(index);
                }
            }
        }
        let most = (self.keep / SHARE_OF_SEGMENT).max(1);
        if indices.len() > most {
            self.seed.purpose("policy frames").index(self.segments).rng().shuffle(&mut indices);
            indices.truncate(most);
            indices.sort_unstable();
        }
        self.segments += 1;
        for index in indices {
            match self.frame(segment, index) {
                Ok(frame) => self.pending.push(frame),
                Err(error) => self.problem = Some(error),
            }
        }
    }

    fn frame(&self, segment: &Segment, index: FrameIndex) -> Result<PolicyFrame, OnlineError> {
        let wrong = |view: &CameraView, problem: String| OnlineError::Frame {
            view: view.camera.to_string(),
            problem,
        };
        let history = self.views.iter().map(|view| view.back).max().unwrap_or(0);
        let stack = index.stack(segment, history);
        let stack = stack
            .map_err(|error| OnlineError::Frame { view: "history".into(), problem: error.to_string() })?;
        let image = |(view, expected): (&CameraView, &FrameShape)| {
            let (shape, pixels) = stack
                .back(view.back)
                .image(&view.camera)
                .ok_or_else(|| wrong(view, "was not rendered".into()))?;
            match shape == *expected {
                true => Ok(pixels.to_vec()),
                false => {
                    let size =
                        |shape: &FrameShape| format!("{}x{}x{}", shape.height, shape.width, shape.channels);
                    let (found, needed) = (size(&shape), size(expected));
                    Err(wrong(view, format!("is {found}, and the model's training data {needed}")))
                }
            }
        };
        self.views.iter().zip(&self.shapes).map(image).collect()
    }

    /// The step of learning that the frames belong to is finished: they count from now on.
    ///
    /// # Errors
    /// When one of them does not fit the model.
    pub fn commit(&mut self) -> Result<(), OnlineError> {
        self.kept.extend(self.pending.drain(..));
        let old = self.kept.len().saturating_sub(self.keep);
        self.kept.drain(..old);
        self.problem.take().map_or(Ok(()), Err)
    }

    /// How many count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn snapshot(&self) -> Vec<PolicyFrame> {
        self.kept.iter().cloned().collect()
    }

    pub(super) fn shapes(&self) -> &[FrameShape] {
        &self.shapes
    }
}
