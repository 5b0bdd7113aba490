//! Which frames train, and which validate.

use super::error::LabelledError;
use super::{Kind, LabelledData};
use crate::convert::{Block, PythonRandom, Source, by_block, by_episode, cut_lone_blocks, sample};

/// One frame of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// Which episode.
    pub episode: u32,
    /// Which of its frames.
    pub frame: u32,
}

/// The frames of both parts, in the order in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What is learned from.
    pub train: Vec<Pick>,
    /// What is measured on: every sampled frame of episodes that nothing is learned from.
    pub val: Vec<Pick>,
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
    pub fn all(&self) -> Vec<Pick> {
        (0..self.episodes.len()).flat_map(|episode| self.sampled(episode, 0)).collect()
    }

    /// Chooses frames as [`convert_images`](crate::convert::convert_images) does, except that validation is left as it
    /// is. Frames of one episode are on one side.
    ///
    /// # Errors
    /// When there are too few episodes to have two parts.
    pub fn split(&self, options: &SplitOptions) -> Result<Parts, LabelledError> {
        let mut random = PythonRandom::new(options.seed);
        let mut units: Vec<Vec<Pick>> = (0..self.episodes.len())
            .map(|episode| self.sampled(episode, options.num_samples_per_episode).collect())
            .collect();
        let split = match self.kind {
            Kind::Recordings(Source::Keyboard) => {
                let success = |pick: &Pick| self.frame(*pick).success;
                cut_lone_blocks(&mut units, options.val_split, success);
                let block =
                    |unit: &Vec<Pick>| Block { success: unit.iter().any(success), frames: unit.len() };
                let blocks: Vec<Block> = units.iter().map(block).collect();
                by_block(&blocks, options.val_split, &mut random)
            }
            _ => by_episode(units.len(), options.val_split, &mut random),
        };
        if split.train.is_empty() || split.val.is_empty() {
            let (path, episodes) = (self.path.clone(), self.episodes.len());
            return Err(LabelledError::TooFewEpisodes { path, episodes });
        }
        let frames =
            |numbers: &[usize]| numbers.iter().flat_map(|at| units[*at].clone()).collect::<Vec<Pick>>();
        let train = self.balanced(frames(&split.train), options.fail_success_ratio, &mut random);
        Ok(Parts { train, val: frames(&split.val) })
    }

    fn sampled(&self, episode: usize, count: usize) -> impl Iterator<Item = Pick> + use<> {
        let kept = sample(self.episodes[episode].frames.len(), count as i64, true);
        kept.into_iter().map(move |frame| Pick { episode: episode as u32, frame: frame as u32 })
    }

    /// All successes, `ratio` times as many failures drawn at random, shuffled together.
    fn balanced(&self, frames: Vec<Pick>, ratio: Option<f64>, random: &mut PythonRandom) -> Vec<Pick> {
        let (mut picks, mut failures): (Vec<Pick>, Vec<Pick>) =
            frames.into_iter().partition(|pick| self.frame(*pick).success);
        random.shuffle(&mut failures);
        if let Some(ratio) = ratio.filter(|_| !picks.is_empty()) {
            failures.truncate((picks.len() as f64 * ratio) as usize);
        }
        picks.append(&mut failures);
        random.shuffle(&mut picks);
        picks
    }
}
