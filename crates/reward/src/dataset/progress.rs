//! How far the task is in each frame of a demonstration.
//!
//! Nobody labels progress. In an episode that succeeds, frame `t` counts as `t / t_success`, and frames of success as 1; in one that
//! does not, nothing is known.

use plaudit_nn::classifier::ProgressLabel;

use super::error::DatasetError;
use super::frames::Frames;

/// The progress in each frame of a dataset, where that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressLabels(Vec<Option<ProgressLabel>>);

impl ProgressLabels {
    /// Of whole episodes. Frames after a success that was lost again have no label at all.
    ///
    /// # Errors
    /// When frames are not in the episodes that they happened in.
    pub fn of(frames: &Frames) -> Result<Self, DatasetError> {
        let whole =
            |recording: &plaudit_data::labelled::LabelledData| recording.in_episodes && recording.has_history;
        if let Some(recording) = frames.recordings().iter().find(|recording| !whole(recording)) {
            return Err(DatasetError::NoEpisodes { path: recording.path.display().to_string() });
        }
        Ok(Self((0..frames.len()).map(|number| label(frames, number)).collect()))
    }

    /// The label of a frame; `None` of one that teaches nothing.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<ProgressLabel> {
        self.0[number]
    }

    /// How many frames have a known progress.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.iter().filter(|label| matches!(label, Some(ProgressLabel::At(_)))).count()
    }
}

fn label(frames: &Frames, number: usize) -> Option<ProgressLabel> {
    let (at, success_at) = frames.frame_of_success(number);
    match success_at {
        None => Some(ProgressLabel::Unknown),
        Some(_) if frames.success(number) => Some(ProgressLabel::At(1.0)),
        Some(success_at) if at < success_at => Some(ProgressLabel::At(at as f64 / success_at as f64)),
        Some(_) => None,
    }
}

impl Frames {
    /// What a network of progress learns from: the frames of successful episodes, and those of unsolved ones (`play`) if they are
    /// wanted. Says how many unsolved episodes there are.
    ///
    /// # Errors
    /// When frames are not in the episodes that they happened in, or no episode succeeds.
    pub fn for_progress(self, play: bool) -> Result<(Self, usize), DatasetError> {
        let labels = ProgressLabels::of(&self)?;
        if labels.known() == 0 {
            return Err(DatasetError::NoSuccess { frames: self.len() });
        }
        let is_unsolved = |numbers: &Vec<usize>| labels.get(numbers[0]) == Some(ProgressLabel::Unknown);
        let unsolved = self.by_episode().iter().filter(|numbers| is_unsolved(numbers)).count();
        let kept = self.filtered(|number| match labels.get(number) {
            Some(ProgressLabel::At(_)) => true,
            Some(ProgressLabel::Unknown) => play,
            None => false,
        });
        Ok((kept, unsolved))
    }
}
