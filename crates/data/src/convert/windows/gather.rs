//! Which windows a split has, and in which order.

use super::WindowOptions;
use super::cut::{Episode, FIRST, NEGATIVE, POSITIVE, SECOND, Window};
use crate::convert::python_random::PythonRandom;
use crate::windows::Objective;

/// A window, forwards or backwards, perhaps with another that it is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) episode: usize,
    pub(super) window: Window,
    pub(super) label: &'static str,
    pub(super) reversed: bool,
    /// The second clip, and the episode it is of.
    pub(super) other: Option<(usize, Window)>,
}

impl Sample {
    pub(super) fn score(&self) -> f64 {
        let score = self.window.score();
        if self.reversed { -score.abs() } else { score }
    }

    /// The frames, in the order in which they are shown.
    pub(super) fn frames(&self, size: usize) -> Vec<usize> {
        let mut frames = self.window.shown(size);
        if self.reversed {
            frames.reverse();
        }
        frames
    }

    pub(super) fn augmentation(&self) -> Option<&'static str> {
        self.reversed.then_some("reverse_positive")
    }

    /// `{label}_{file}_frames_{start}_{end}`, without an extension.
    pub(super) fn name(&self, episodes: &[Episode]) -> String {
        let stem = &episodes[self.episode].name;
        let suffix = match self.other {
            Some((other, window)) => format!("_and_{}_{:04}", episodes[other].name, window.end),
            None if self.reversed => "_reverse_negative".into(),
            None => String::new(),
        };
        let Window { start, end, .. } = self.window;
        format!("{}_{stem}_frames_{start:04}_{end:04}{suffix}", self.label)
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
    let samples = match options.objective {
        Objective::Preference => pairs(episodes, numbers, options.delta_threshold, random),
        _ => alone(episodes, numbers, options),
    };
    let mut groups = group(samples, options.objective);
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

/// Every window by itself; of a trend, a reversed positive follows the negatives that came before it.
fn alone(episodes: &[Episode], numbers: &[usize], options: &WindowOptions) -> Vec<Sample> {
    let reverse = options.objective == Objective::Trend && options.reverse_positive_as_negative;
    let mut samples = Vec::new();
    for number in numbers {
        for window in &episodes[*number].windows {
            let (episode, window, label) = (*number, *window, window.label);
            let sample = Sample { episode, window, label, reversed: false, other: None };
            samples.push(sample);
            if reverse && label == POSITIVE {
                samples.push(Sample { label: NEGATIVE, reversed: true, ..sample });
            }
        }
    }
    samples
}

/// Every window beside a random one of another episode of the split, unless neither gets further.
fn pairs(episodes: &[Episode], numbers: &[usize], threshold: f64, random: &mut PythonRandom) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut others: Vec<usize> = numbers.to_vec();
    for number in numbers {
        random.shuffle(&mut others);
        let Some(other) = others.iter().find(|other| *other != number) else { continue };
        let mut clips = episodes[*other].windows.clone();
        random.shuffle(&mut clips);
        for (window, clip) in episodes[*number].windows.iter().zip(clips.iter().cycle()) {
            let label = match further(window, clip, threshold) {
                Some(true) => FIRST,
                Some(false) => SECOND,
                None => continue,
            };
            let (episode, other) = (*number, Some((*other, *clip)));
            samples.push(Sample { episode, window: *window, label, reversed: false, other });
        }
    }
    samples
}

/// Whether the first gets further: it is solved, or its score is higher. `None` where that cannot be told.
fn further(first: &Window, second: &Window, threshold: f64) -> Option<bool> {
    let more = first.end_score - second.end_score;
    match (first.solved, second.solved) {
        (true, true) => None,
        (false, false) => (more.abs() > threshold).then_some(more > 0.0),
        (solved, _) => Some(solved),
    }
}

/// By answer, in the order of the objective's answers.
fn group(samples: Vec<Sample>, objective: Objective) -> Vec<Vec<Sample>> {
    let answers = objective.answers();
    let mut groups = vec![Vec::new(); answers.len()];
    for sample in samples {
        let index = answers.iter().position(|answer| *answer == sample.label).unwrap_or(0);
        groups[index].push(sample);
    }
    groups
}

/// The size of the smallest group, where there are two at least to even out.
fn rarest(groups: &[Vec<Sample>]) -> Option<usize> {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).filter(|size| *size > 0).collect();
    if sizes.len() < 2 { None } else { sizes.into_iter().min() }
}
