//! Which images a split has, and in which order.

use super::episodes::Episode;
use crate::convert::python_random::PythonRandom;
use crate::convert::split::balance;
use crate::convert::stored::StoredImage;

/// One image of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImagePick {
    pub(super) episode: u32,
    pub(super) frame: u32,
    pub(super) success: bool,
}

impl ImagePick {
    pub(super) fn image(&self, episodes: &[Episode]) -> StoredImage {
        episodes[self.episode as usize].frames[self.frame as usize].image
    }

    /// Which entry of its file it is.
    pub(super) fn at(&self, episodes: &[Episode]) -> usize {
        episodes[self.episode as usize].frames[self.frame as usize].at as usize
    }
}

/// Every image of these episodes, in order.
pub(super) fn all(episodes: &[Episode], numbers: &[usize]) -> Vec<ImagePick> {
    let mut picks = Vec::new();
    for number in numbers {
        for (frame, labelled) in episodes[*number].frames.iter().enumerate() {
            picks.push(ImagePick { episode: *number as u32, frame: frame as u32, success: labelled.success });
        }
    }
    picks
}

/// All successes, `ratio` times as many failures sampled at random, shuffled together. Without a success, nothing, and
/// the generator is left alone.
pub(super) fn balanced(
    episodes: &[Episode],
    numbers: &[usize],
    ratio: f64,
    random: &mut PythonRandom,
) -> Vec<ImagePick> {
    let all = all(episodes, numbers);
    match all.iter().any(|pick| pick.success) {
        true => balance(all, Some(ratio), |pick| pick.success, random),
        false => Vec::new(),
    }
}
