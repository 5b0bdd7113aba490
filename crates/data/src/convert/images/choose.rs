//! Which images a part has, and in which order.

use super::episodes::Episode;
use crate::convert::python_random::PythonRandom;
use crate::convert::stored::Stored;

/// One image of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) episode: u32,
    pub(super) frame: u32,
    pub(super) success: bool,
}

impl Pick {
    pub(super) fn image(&self, episodes: &[Episode]) -> Stored {
        episodes[self.episode as usize].frames[self.frame as usize].image
    }

    /// Which entry of its file it is.
    pub(super) fn at(&self, episodes: &[Episode]) -> usize {
        episodes[self.episode as usize].frames[self.frame as usize].at as usize
    }
}

/// Every image of these episodes, in order.
pub(super) fn all(episodes: &[Episode], numbers: &[usize]) -> Vec<Pick> {
    let mut picks = Vec::new();
    for number in numbers {
        for (frame, labelled) in episodes[*number].frames.iter().enumerate() {
            picks.push(Pick { episode: *number as u32, frame: frame as u32, success: labelled.success });
        }
    }
    picks
}

/// All successes, `ratio` times as many failures drawn at random, shuffled together. Without a success, nothing, and
/// the generator is left alone.
pub(super) fn balanced(
    episodes: &[Episode],
    numbers: &[usize],
    ratio: f64,
    random: &mut PythonRandom,
) -> Vec<Pick> {
    let (mut picks, mut failures): (Vec<Pick>, Vec<Pick>) =
        all(episodes, numbers).into_iter().partition(|pick| pick.success);
    if picks.is_empty() {
        return picks;
    }
    let kept = picks.len() as f64 * ratio; // Rust's cast drops the fraction, as Python's int() does
    random.shuffle(&mut failures);
    failures.truncate(kept as usize);
    picks.append(&mut failures);
    random.shuffle(&mut picks);
    picks
}
