//! What a model says when the image is disturbed in ways that do not change the truth, and when parts are covered.

use std::collections::VecDeque;

use plaudit_core::{FrameShape, Seed};
use plaudit_nn::classifier::ClassifierError;
use serde::Serialize;

use super::{BackgroundImage, score_of};
use crate::augment::colour::Jitter;
use crate::augment::space::{self, GREY, Window};
use crate::custom::ImageScorer;
use crate::dataset::{Batch, Frames};
use crate::metrics::roc_auc;

/// What a pixel shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// Table, floor, wall.
    Background,
    /// The same, under the shadow of something that is in the scene.
    Shadow,
    /// The robot without its hand.
    Arm,
    /// Hand and fingers.
    Gripper,
    /// What is to be moved.
    Object,
    /// What marks the goal.
    Goal,
}

/// What each pixel of an image shows, by number of its frame and view; `None` where that is not known.
pub type RegionsOf<'a> = dyn Fn(usize, usize) -> Option<Vec<Region>> + Sync + 'a;

/// Something done to images.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Disturbance {
    /// Moved by this share of the sides, across and down.
    Shift(f64, f64),
    /// Only this share of the sides is kept, around the middle.
    Crop(f64),
    /// Times this.
    Brightness(f32),
    /// Colours turned by this share of the circle.
    Hue(f32),
    /// By this share of the height.
    Blur(f64),
    /// Normal noise of so many levels.
    Noise(f64),
    /// Parts under a flat grey.
    Cover(CoverTarget),
    /// Everything but the background replaced by what is behind it.
    BackgroundAlone,
}

/// What is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CoverTarget {
    Object,
    Gripper,
    Goal,
    Background,
    Foreground,
}

impl CoverTarget {
    fn has(self, region: Region) -> bool {
        match self {
            Self::Object => region == Region::Object,
            Self::Gripper => region == Region::Gripper,
            Self::Goal => region == Region::Goal,
            Self::Background => region == Region::Background,
            Self::Foreground => region != Region::Background,
        }
    }
}

/// What every audit tries.
const PLAIN: [(&str, Disturbance); 10] = [
    ("moved right by 5 %", Disturbance::Shift(0.05, 0.0)),
    ("moved down by 5 %", Disturbance::Shift(0.0, 0.05)),
    ("cropped to 90 %", Disturbance::Crop(0.9)),
    ("darker by 30 %", Disturbance::Brightness(0.7)),
    ("brighter by 30 %", Disturbance::Brightness(1.3)),
    ("hue turned by 5 %", Disturbance::Hue(0.05)),
    ("hue turned back by 5 %", Disturbance::Hue(-0.05)),
    ("blurred by 1 % of the height", Disturbance::Blur(0.01)),
    ("noise of 5 levels", Disturbance::Noise(5.0)),
    ("noise of 15 levels", Disturbance::Noise(15.0)),
];

/// Where it is known what each pixel shows.
const BY_REGION: [(&str, Disturbance); 5] = [
    ("cube covered", Disturbance::Cover(CoverTarget::Object)),
    ("gripper covered", Disturbance::Cover(CoverTarget::Gripper)),
    ("goal covered", Disturbance::Cover(CoverTarget::Goal)),
    ("background covered", Disturbance::Cover(CoverTarget::Background)),
    ("background alone", Disturbance::BackgroundAlone),
];

/// Where it is only known what stands still.
const BY_MOTION: [(&str, Disturbance); 3] = [
    ("what moves covered", Disturbance::Cover(CoverTarget::Foreground)),
    ("what stands still covered", Disturbance::Cover(CoverTarget::Background)),
    ("what stands still alone", Disturbance::BackgroundAlone),
];

/// What a disturbance does to calls and scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StressResult {
    /// What was done.
    pub name: String,
    /// Frames it was tried on.
    pub frames: usize,
    /// Share of them whose call changes.
    pub flips: f64,
    /// Mean score of successes.
    pub score_of_successes: Option<f64>,
    /// Mean loss of score on successes.
    pub drop_on_successes: Option<f64>,
    /// Mean gain of score on failures.
    pub rise_on_failures: Option<f64>,
    /// Probability that a success still scores higher than a failure.
    pub auc: Option<f64>,
}

/// How it is known which pixels are background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionSource {
    /// The scene was rendered again from the recorded state.
    Simulator,
    /// What differs from the middle of many frames moves; the rest stands still.
    MedianImage,
}

/// The frames, and what of them, a stress test looks at.
pub(super) struct StressTest<'a> {
    /// The model.
    pub scorer: &'a dyn ImageScorer,
    /// What logits are divided by.
    pub temperature: f64,
    /// Scores above this are calls.
    pub threshold: f64,
    /// The data.
    pub frames: &'a Frames,
    /// Which of its frames: some successes, some failures.
    pub sample: Vec<usize>,
    /// What stands still.
    pub background_image: &'a BackgroundImage,
    /// What pixels show, where that is known.
    pub regions: Option<&'a RegionsOf<'a>>,
}

/// So many frames of each label, spread evenly.
#[must_use]
pub fn sample(frames: &Frames, of_each: usize) -> Vec<usize> {
    sample_where(frames, of_each, |_| true)
}

/// The same among the frames that count.
pub(super) fn sample_where(frames: &Frames, of_each: usize, counts: impl Fn(usize) -> bool) -> Vec<usize> {
    let labels = frames.labels();
    let mut sample = Vec::new();
    for label in [true, false] {
        let all: Vec<usize> = (0..labels.len()).filter(|at| labels[*at] == label && counts(*at)).collect();
        let count = all.len().min(of_each);
        sample.extend((0..count).map(|at| all[at * all.len() / count]));
    }
    sample
}

impl StressTest<'_> {
    /// Tries everything. `on_progress` is called with how many of how many disturbances are done.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub(super) fn run(
        &self,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<(Vec<StressResult>, RegionSource), ClassifierError> {
        let known = self.regions.is_some();
        let parts: &[(&str, Disturbance)] = if known { &BY_REGION } else { &BY_MOTION };
        let source = if known { RegionSource::Simulator } else { RegionSource::MedianImage };
        let all: Vec<_> = PLAIN.iter().chain(parts).collect();
        let plain = self.logits(None)?;
        let mut found = Vec::new();
        for (done, (name, disturbance)) in all.iter().enumerate() {
            on_progress(done, all.len());
            let disturbed = self.logits(Some(*disturbance))?;
            found.push(self.compared(name, &plain, &disturbed));
        }
        on_progress(all.len(), all.len());
        let mut undisturbed = self.compared("undisturbed", &plain, &plain);
        undisturbed.name = "undisturbed".into();
        found.insert(0, undisturbed);
        Ok((found, source))
    }

    /// The scores when all images of one view are a flat grey: how much a camera is needed.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub(super) fn without_view(&self, hidden: usize) -> Result<StressResult, ClassifierError> {
        let plain = self.logits(None)?;
        let covered = self.asked(&|_, view, shape, pixels| {
            if view == hidden {
                pixels.chunks_exact_mut(shape.channels).for_each(cover);
            }
        })?;
        Ok(self.compared(&format!("without {}", self.frames.views()[hidden]), &plain, &covered))
    }

    fn compared(&self, name: &str, plain: &[f32], disturbed: &[f32]) -> StressResult {
        let [plain, scores] = [plain, disturbed].map(|logits| self.scores(logits));
        let logits: Vec<f64> = disturbed.iter().copied().map(f64::from).collect();
        let truth: Vec<bool> = self.sample.iter().map(|number| self.frames.success(*number)).collect();
        let flips =
            plain.iter().zip(&scores).filter(|(a, b)| (**a > self.threshold) != (**b > self.threshold));
        let change = |label: bool| {
            let of_label = truth.iter().zip(plain.iter().zip(&scores)).filter(|(truth, _)| **truth == label);
            let changes: Vec<f64> = of_label.map(|(_, (before, after))| after - before).collect();
            (!changes.is_empty()).then(|| changes.iter().sum::<f64>() / changes.len() as f64)
        };
        let of_successes = || truth.iter().zip(&scores).filter(|(truth, _)| **truth).map(|(_, score)| *score);
        let successes = of_successes().count();
        StressResult {
            name: name.into(),
            score_of_successes: (successes > 0).then(|| of_successes().sum::<f64>() / successes as f64),
            frames: scores.len(),
            flips: flips.count() as f64 / scores.len().max(1) as f64,
            drop_on_successes: change(true).map(|change| -change),
            rise_on_failures: change(false),
            auc: roc_auc(&logits, &truth),
        }
    }

    fn scores(&self, logits: &[f32]) -> Vec<f64> {
        logits.iter().map(|logit| score_of(*logit, self.temperature)).collect()
    }

    fn logits(&self, disturbance: Option<Disturbance>) -> Result<Vec<f32>, ClassifierError> {
        self.asked(&|number, view, shape, pixels| {
            if let Some(disturbance) = disturbance {
                self.disturb(disturbance, number, view, shape, pixels);
            }
        })
    }

    fn asked(&self, change: &crate::dataset::PixelEdit<'_>) -> Result<Vec<f32>, ClassifierError> {
        self.scorer.logits(&Batch::edited(self.frames, &self.sample, change).images()?)
    }

    fn disturb(&self, what: Disturbance, number: usize, view: usize, shape: FrameShape, pixels: &mut [u8]) {
        match what {
            Disturbance::Cover(part) => {
                let shown = self.shown(number, view, shape, pixels);
                let covered = pixels.chunks_exact_mut(shape.channels).zip(shown);
                covered.filter(|(_, region)| part.has(*region)).for_each(|(pixel, _)| cover(pixel));
            }
            Disturbance::BackgroundAlone if self.regions.is_some() => {
                paint_over(pixels, shape, &self.shown(number, view, shape, pixels));
            }
            Disturbance::BackgroundAlone => {
                let shown = self.shown(number, view, shape, pixels);
                let behind = self.background_image.image(view).chunks_exact(shape.channels);
                for ((pixel, behind), region) in
                    pixels.chunks_exact_mut(shape.channels).zip(behind).zip(shown)
                {
                    if region != Region::Background {
                        pixel.copy_from_slice(behind);
                    }
                }
            }
            plain => disturb_plainly(plain, pixels, shape, Seed::new(number as u64).index(view as u64)),
        }
    }

    fn shown(&self, number: usize, view: usize, shape: FrameShape, pixels: &[u8]) -> Vec<Region> {
        if let Some(regions) = self.regions.and_then(|regions| regions(number, view)) {
            return regions;
        }
        let moves = self.background_image.differs(view, pixels, shape.channels);
        moves.into_iter().map(|moves| if moves { Region::Object } else { Region::Background }).collect()
    }
}

fn disturb_plainly(what: Disturbance, pixels: &mut [u8], shape: FrameShape, seed: Seed) {
    let (height, width) = (shape.height as f64, shape.width as f64);
    let none = Jitter { brightness: 1.0, contrast: 1.0, saturation: 1.0, hue_turns: 0.0 };
    let coloured = shape.channels == 3;
    match what {
        Disturbance::Shift(across, down) => {
            let window = |side: f64, share: f64| Window { start: -(side * share).round(), kept: 1.0 };
            let before = pixels.to_vec();
            space::resample(&before, shape, &window(height, down), &window(width, across), pixels);
        }
        Disturbance::Crop(kept) => {
            let window = |side: f64| Window { start: side * (1.0 - kept) / 2.0, kept };
            let before = pixels.to_vec();
            space::resample(&before, shape, &window(height), &window(width), pixels);
        }
        Disturbance::Brightness(brightness) if coloured => Jitter { brightness, ..none }.apply(pixels),
        Disturbance::Hue(hue_turns) if coloured => Jitter { hue_turns, ..none }.apply(pixels),
        Disturbance::Blur(share) => space::blur(pixels, shape, share * height),
        Disturbance::Noise(levels) => {
            let mut rng = seed.purpose("noise").rng();
            for byte in pixels {
                *byte = (f64::from(*byte) + levels * rng.normal()).round().clamp(0.0, 255.0) as u8;
            }
        }
        // Light and hue mean nothing without colours; parts are covered elsewhere.
        _ => {}
    }
}

/// Paints all but the background with the background nearest to it. The median image would not do where it is known what pixels show:
/// the hand is in the same place of every frame of a camera on it, and so in their median.
fn paint_over(pixels: &mut [u8], shape: FrameShape, shown: &[Region]) {
    let (width, height, channels) = (shape.width, shape.height, shape.channels);
    let mut is_painted: Vec<bool> = shown.iter().map(|region| *region == Region::Background).collect();
    let mut border: VecDeque<usize> = (0..is_painted.len()).filter(|at| is_painted[*at]).collect();
    if border.is_empty() {
        pixels.chunks_exact_mut(channels).for_each(cover);
    }
    while let Some(from) = border.pop_front() {
        let (x, y) = (from % width, from / width);
        let beside = [(x > 0, from.wrapping_sub(1)), (x + 1 < width, from + 1)];
        let above = [(y > 0, from.wrapping_sub(width)), (y + 1 < height, from + width)];
        for (_, to) in beside.into_iter().chain(above).filter(|(is_inside, _)| *is_inside) {
            if !std::mem::replace(&mut is_painted[to], true) {
                pixels.copy_within(from * channels..(from + 1) * channels, to * channels);
                border.push_back(to);
            }
        }
    }
}

/// A flat grey that a normalised network sees as nothing.
pub(super) fn cover(pixel: &mut [u8]) {
    for (channel, byte) in pixel.iter_mut().enumerate() {
        *byte = GREY.get(channel).copied().unwrap_or(255);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FrameShape = FrameShape { height: 20, width: 20, channels: 3 };

    #[test]
    fn what_is_painted_over_takes_the_colour_of_the_nearest_background() {
        let shape = FrameShape { height: 1, width: 6, channels: 3 };
        let shown = [
            Region::Object,
            Region::Background,
            Region::Gripper,
            Region::Goal,
            Region::Object,
            Region::Background,
        ];
        let grey = |levels: [u8; 6]| levels.into_iter().flat_map(|level| [level; 3]).collect::<Vec<u8>>();
        let mut pixels = grey([9, 1, 9, 9, 9, 5]);
        paint_over(&mut pixels, shape, &shown);
        assert_eq!(pixels, grey([1, 1, 1, 1, 5, 5]));
        paint_over(&mut pixels, shape, &[Region::Object; 6]);
        assert_eq!(pixels[..3], GREY, "there is no background at all");
    }

    fn disturbed(what: Disturbance) -> Vec<u8> {
        let mut pixels: Vec<u8> = (0..SHAPE.bytes()).map(|at| (at * 7 % 200) as u8).collect();
        disturb_plainly(what, &mut pixels, SHAPE, Seed::new(1));
        pixels
    }

    #[test]
    fn every_plain_disturbance_changes_a_picture_and_always_alike() {
        let original: Vec<u8> = (0..SHAPE.bytes()).map(|at| (at * 7 % 200) as u8).collect();
        for (name, what) in PLAIN {
            let what = if let Disturbance::Blur(_) = what { Disturbance::Blur(0.05) } else { what };
            assert_ne!(disturbed(what), original, "{name}");
            assert_eq!(disturbed(what), disturbed(what), "{name}");
        }
    }

    #[test]
    fn moving_right_moves_right() {
        let original: Vec<u8> = (0..SHAPE.bytes()).map(|at| (at * 7 % 200) as u8).collect();
        let moved = disturbed(Disturbance::Shift(0.05, 0.0));
        for row in 0..20 {
            let at = |column: usize| (row * 20 + column) * 3;
            assert_eq!(moved[at(0)], original[at(0)], "the border is repeated");
            assert_eq!(moved[at(7)..at(8)], original[at(6)..at(7)]);
        }
    }
}
