//! Which frames train, and which validate.

use super::LabelledData;
use super::error::LabelledError;
use crate::convert::{Choice, ChosenFrames, PythonRandom, cut_lone_blocks, sample};
use crate::recording::SplitUnit;

pub use crate::convert::FramePick;

/// The frames of the training and the validation split, in the order in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainValSplit {
    /// What is learned from.
    pub train: Vec<FramePick>,
    /// What is measured on: every sampled frame of episodes that nothing is learned from.
    pub val: Vec<FramePick>,
}

/// How frames are chosen.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// Frames kept of each episode, evenly spaced, the last always among them; zero keeps all.
    pub num_samples_per_episode: usize,
    /// The share of episodes that validate; at least one does.
    pub val_split: f64,
    /// Failures kept for each success in training; without it, all.
    pub fail_success_ratio: Option<f64>,
    /// The seed of Python's generator.
    pub seed: i64,
}

impl Default for SplitOptions {
    /// RLinf's defaults.
    fn default() -> Self {
        Self { num_samples_per_episode: 0, val_split: 0.2, fail_success_ratio: Some(2.0), seed: 42 }
    }
}

impl LabelledData {
    /// Every frame, in order.
    #[must_use]
    pub fn all(&self) -> Vec<FramePick> {
        (0..self.episodes.len()).flat_map(|episode| self.sampled(episode, 0)).collect()
    }

    /// Chooses frames as [`convert_images`](crate::convert::convert_images) does, except that validation is left as it
    /// is. Frames of one episode are on one side.
    ///
    /// # Errors
    /// When there are too few episodes for two splits.
    pub fn split(&self, options: &SplitOptions) -> Result<TrainValSplit, LabelledError> {
        let mut random = PythonRandom::new(options.seed);
        let mut units: Vec<Vec<FramePick>> = (0..self.episodes.len())
            .map(|episode| self.sampled(episode, options.num_samples_per_episode).collect())
            .collect();
        let success = |pick: &FramePick| self.frame(*pick).success;
        if self.format.split_unit() == SplitUnit::Run {
            cut_lone_blocks(&mut units, options.val_split, success);
        }
        let (val_split, ratio) = (options.val_split, options.fail_success_ratio);
        let choice = Choice { unit: self.format.split_unit(), val_split, ratio, balance_val: false };
        let ChosenFrames { split, train, val } = choice.of(&units, success, &mut random);
        if split.train.is_empty() || split.val.is_empty() {
            let (path, episodes) = (self.path.clone(), self.episodes.len());
            return Err(LabelledError::TooFewEpisodes { path, episodes });
        }
        Ok(TrainValSplit { train, val })
    }

    fn sampled(&self, episode: usize, count: usize) -> impl Iterator<Item = FramePick> + use<> {
        let kept = sample(self.episodes[episode].frames.len(), count as i64, true);
        kept.into_iter().map(move |frame| FramePick { episode: episode as u32, frame: frame as u32 })
    }
}
