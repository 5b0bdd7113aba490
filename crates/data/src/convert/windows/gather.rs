//! Which windows a split has, and in which order.

use super::WindowOptions;
use super::cut::{Episode, Label, Window};
use crate::convert::python_random::PythonRandom;

/// A window, forwards or backwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) episode: usize,
    pub(super) window: Window,
    pub(super) label: Label,
    pub(super) reversed: bool,
}

impl Sample {
    pub(super) fn score(&self) -> f64 {
        let score = self.window.score();
        if self.reversed { -score.abs() } else { score }
    }

    /// The frames, in the order in which they are shown.
    pub(super) fn frames(&self) -> Vec<usize> {
        let frames = self.window.start..=self.window.end;
        if self.reversed { frames.rev().collect() } else { frames.collect() }
    }

    pub(super) fn augmentation(&self) -> Option<&'static str> {
        self.reversed.then_some("reverse_positive")
    }

    /// `{label}_{file}_frames_{start}_{end}`, without an extension.
    pub(super) fn name(&self, episode: &Episode) -> String {
        let stem = &episode.name;
        let suffix = if self.reversed { "_reverse_negative" } else { "" };
        let Window { start, end, .. } = self.window;
        format!("{}_{stem}_frames_{start:04}_{end:04}{suffix}", self.label.name())
    }
}

/// Windows by label, shuffled, evened out and capped, then joined and shuffled again.
pub(super) fn gather(
    episodes: &[Episode],
    numbers: &[usize],
    cap: Option<usize>,
    options: &WindowOptions,
    random: &mut PythonRandom,
) -> Vec<Sample> {
    let mut groups = group(episodes, numbers, options.reverse_positive_as_negative);
    for group in &mut groups {
        random.shuffle(group);
    }
    let keep = if options.balance_labels { rarest(&groups).into_iter().chain(cap).min() } else { cap };
    let mut samples = Vec::new();
    for group in groups {
        let keep = keep.unwrap_or(group.len());
        samples.extend(group.into_iter().take(keep));
    }
    random.shuffle(&mut samples);
    samples
}

/// Positive, negative and unclear ones. A reversed positive follows the negatives that came before it.
fn group(episodes: &[Episode], numbers: &[usize], reverse: bool) -> [Vec<Sample>; 3] {
    let mut groups: [Vec<Sample>; 3] = Default::default();
    for number in numbers {
        for window in &episodes[*number].windows {
            let sample = Sample { episode: *number, window: *window, label: window.label, reversed: false };
            let index = Label::ALL.iter().position(|label| *label == window.label).unwrap_or(0);
            groups[index].push(sample);
            if reverse && window.label == Label::Positive {
                groups[1].push(Sample { label: Label::Negative, reversed: true, ..sample });
            }
        }
    }
    groups
}

/// The size of the smallest group, where there are two at least to even out.
fn rarest(groups: &[Vec<Sample>; 3]) -> Option<usize> {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).filter(|size| *size > 0).collect();
    if sizes.len() < 2 { None } else { sizes.into_iter().min() }
}
