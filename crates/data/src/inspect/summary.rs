//! A summary of one episode, window or set of images: little is kept of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use super::recorded::{CameraImages, Recorded};
use super::suspicion::Suspicion;
use crate::convert::Fingerprint;
use crate::lerobot::intervention;
use crate::recording::{FileProblem, Frame, Item, Unit};

/// Pixels up to this are black.
const BLACK: u8 = 8;
/// Fewer labels than this do not flip.
const FLIPS: usize = 4;
/// The side of the small images by which episodes are compared.
const THUMB: usize = 16;

/// The summary of one item of a dataset.
#[derive(Debug)]
pub(super) struct ItemSummary {
    pub(super) unit: Unit,
    pub(super) name: String,
    pub(super) steps: usize,
    pub(super) frames: usize,
    /// By camera: how many images of each size.
    pub(super) cameras: Vec<(String, BTreeMap<[usize; 3], usize>)>,
    /// Of the first camera's images: what is equal for equal bytes.
    pub(super) exact: Vec<u64>,
    /// More of them, where training and validation are compared.
    pub(super) fingerprints: Vec<Fingerprint>,
    pub(super) labels: Vec<Option<bool>>,
    pub(super) window_label: Option<String>,
    pub(super) cut_from: Option<String>,
    pub(super) success: Option<bool>,
    pub(super) at_end: Option<bool>,
    /// Equal for equal content; nothing where there is nothing to compare.
    pub(super) digest: Option<u64>,
    /// The first, middle and last image, made small.
    pub(super) thumbs: Vec<u8>,
    pub(super) state_width: Option<usize>,
    pub(super) action_width: Option<usize>,
    pub(super) rewards: Option<Rewards>,
    /// Steps at which a person had taken over.
    pub(super) by_person: usize,
    pub(super) suspicions: Vec<(Suspicion, String)>,
}

/// Rewards in short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewards {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) sum: f64,
    pub(super) count: usize,
    pub(super) zeros: usize,
    pub(super) nan: usize,
    pub(super) infinite: usize,
}

/// The summary of one image.
struct ImageSummary {
    shape: [usize; 3],
    fingerprint: Fingerprint,
    black: bool,
}

/// Summarizes one item; every image is read once.
pub(super) fn summarize(recorded: &Recorded, item: &Item) -> ItemSummary {
    let mut suspicions = suspect(recorded);
    let mut seen: Vec<(String, Vec<ImageSummary>)> = Vec::new();
    for views in &recorded.cameras {
        match image_summaries(views) {
            Ok(image_summaries) => seen.push((views.name.clone(), image_summaries)),
            Err(problem) => suspicions.push((Suspicion::OddImages, format!("{}: {problem}", views.name))),
        }
    }
    suspicions.extend(missing_images(&seen));
    for (camera, image_summaries) in &seen {
        suspicions.extend(suspect_camera(camera, image_summaries, recorded.unit));
    }
    let main = || seen.iter().take(1).flat_map(|(_, image_summaries)| image_summaries);
    ItemSummary {
        unit: recorded.unit,
        name: recorded.name.clone(),
        steps: recorded.steps(),
        frames: recorded.frames(),
        exact: main().map(|image_summary| image_summary.fingerprint.exact).collect(),
        fingerprints: main()
            .filter(|_| item.split.is_some())
            .map(|image_summary| image_summary.fingerprint)
            .collect(),
        labels: recorded.labels.clone(),
        window_label: recorded.window_label.clone(),
        cut_from: recorded.cut_from.clone(),
        success: if recorded.unit == Unit::Episode {
            recorded.success().or_else(|| Some(item.declared_label.as_deref()? == "success"))
        } else {
            None
        },
        at_end: recorded.labels.last().copied().flatten(),
        digest: digest(recorded, &seen),
        thumbs: thumbs(recorded).unwrap_or_default(),
        state_width: recorded.states.first().map(Vec::len),
        action_width: recorded.actions.first().map(Vec::len),
        rewards: rewards(&recorded.rewards),
        by_person: recorded.facts.iter().filter(|facts| intervention(facts) == Some(true)).count(),
        cameras: seen.iter().map(|(name, image_summaries)| (name.clone(), sizes(image_summaries))).collect(),
        suspicions,
    }
}

fn image_summaries(views: &CameraImages) -> Result<Vec<ImageSummary>, FileProblem> {
    let image_summary = |image: &Frame| {
        let image = image.image()?;
        let (shape, pixels) = (image.sides(), image.pixels()?);
        let black = pixels.iter().all(|byte| *byte <= BLACK);
        Ok(ImageSummary { shape, fingerprint: Fingerprint::of(&pixels, shape), black })
    };
    views.images.par_iter().map(image_summary).collect()
}

fn missing_images(seen: &[(String, Vec<ImageSummary>)]) -> Option<(Suspicion, String)> {
    let most = seen.iter().map(|(_, image_summaries)| image_summaries.len()).max()?;
    let (camera, image_summaries) = seen.iter().find(|(_, image_summaries)| image_summaries.len() < most)?;
    Some((Suspicion::MissingImages, format!("{camera} has {} of {most}", image_summaries.len())))
}

fn sizes(image_summaries: &[ImageSummary]) -> BTreeMap<[usize; 3], usize> {
    let mut sizes = BTreeMap::new();
    for image_summary in image_summaries {
        *sizes.entry(image_summary.shape).or_default() += 1;
    }
    sizes
}

fn suspect_camera(camera: &str, image_summaries: &[ImageSummary], unit: Unit) -> Option<(Suspicion, String)> {
    let black: Vec<usize> = image_summaries
        .iter()
        .enumerate()
        .filter(|(_, image_summary)| image_summary.black)
        .map(|(at, _)| at)
        .collect();
    if let Some(first) = black.first() {
        let what = format!("{camera}: {} of {}, the first is {first}", black.len(), image_summaries.len());
        return Some((Suspicion::BlackFrames, what));
    }
    let frozen = unit != Unit::Images
        && image_summaries.len() > 2
        && image_summaries
            .iter()
            .all(|image_summary| image_summary.fingerprint.exact == image_summaries[0].fingerprint.exact);
    frozen.then(|| (Suspicion::FrozenCamera, format!("{camera}, {} frames", image_summaries.len())))
}

/// Everything that does not need pixels.
fn suspect(recorded: &Recorded) -> Vec<(Suspicion, String)> {
    let mut found = Vec::new();
    let mut say = |kind, what: String| found.push((kind, what));
    if let Some(what) = &recorded.uneven {
        say(Suspicion::UnevenLists, what.clone());
    }
    if let Some(what) = &recorded.disagrees {
        say(Suspicion::OutcomeDisagrees, what.clone());
    }
    if let Some(what) = not_finite(recorded) {
        say(Suspicion::NotFinite, what);
    }
    if recorded.unit != Unit::Episode {
        return found;
    }
    let known: Vec<bool> = recorded.labels.iter().flatten().copied().collect();
    if known.is_empty() && recorded.success.is_none() {
        say(Suspicion::NoSuccessFlags, String::new());
    }
    let flips = known.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if flips >= FLIPS && flips * 2 >= known.len() {
        say(Suspicion::FlippingLabels, format!("{flips} times in {} frames", known.len()));
    }
    if let [Some(true), after @ ..] = &recorded.labels[..]
        && !after.is_empty()
        && !after.contains(&Some(true))
    {
        say(Suspicion::SuccessOnlyAtReset, String::new());
    }
    if recorded.steps() < 2 {
        say(Suspicion::TooShort, String::new());
    }
    let actions = &recorded.actions;
    if actions.len() > 2 && actions.iter().all(|action| *action == actions[0]) {
        say(Suspicion::ConstantActions, format!("{} steps of {}", actions.len(), few(&actions[0])));
    }
    let any_reward = recorded.rewards.iter().any(|reward| *reward != 0.0);
    if recorded.success == Some(true) && !recorded.rewards.is_empty() && !any_reward {
        say(Suspicion::UnrewardedSuccess, String::new());
    }
    found
}

fn not_finite(recorded: &Recorded) -> Option<String> {
    let bad = |rows: &[Vec<f32>]| rows.iter().position(|row| row.iter().any(|x| !x.is_finite()));
    let reward = recorded.rewards.iter().position(|x| !x.is_finite());
    let places = [("state", bad(&recorded.states)), ("action", bad(&recorded.actions)), ("reward", reward)];
    places.into_iter().find_map(|(what, at)| Some(format!("{what} {}", at?)))
}

fn few(numbers: &[f32]) -> String {
    let shown: Vec<String> = numbers.iter().take(4).map(|x| format!("{x:.2}")).collect();
    format!("[{}{}]", shown.join(", "), if numbers.len() > 4 { ", …" } else { "" })
}

fn rewards(rewards: &[f64]) -> Option<Rewards> {
    let finite: Vec<f64> = rewards.iter().copied().filter(|x| x.is_finite()).collect();
    if rewards.is_empty() {
        return None;
    }
    Some(Rewards {
        low: finite.iter().copied().fold(f64::NAN, f64::min),
        high: finite.iter().copied().fold(f64::NAN, f64::max),
        nan: rewards.iter().filter(|x| x.is_nan()).count(),
        infinite: rewards.iter().filter(|x| x.is_infinite()).count(),
        sum: finite.iter().sum(),
        count: finite.len(),
        zeros: finite.iter().filter(|x| **x == 0.0).count(),
    })
}

/// Equal for what has the same images, states and actions. Images in a set are compared one by one instead.
fn digest(recorded: &Recorded, seen: &[(String, Vec<ImageSummary>)]) -> Option<u64> {
    let anything = !seen.is_empty() || !recorded.states.is_empty();
    if !anything || recorded.unit == Unit::Images {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    for (name, image_summaries) in seen {
        name.hash(&mut hasher);
        image_summaries.iter().for_each(|image_summary| image_summary.fingerprint.exact.hash(&mut hasher));
    }
    for row in recorded.states.iter().chain(&recorded.actions) {
        row.iter().for_each(|x| x.to_bits().hash(&mut hasher));
        row.len().hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Three small images of an episode.
fn thumbs(recorded: &Recorded) -> Option<Vec<u8>> {
    let views = recorded.cameras.first().filter(|_| recorded.unit == Unit::Episode)?;
    let last = views.images.len().checked_sub(1)?;
    let small = |at: usize| views.images[at].image().ok()?.thumb(THUMB).ok();
    let thumbs: Option<Vec<Vec<u8>>> = [0, last / 2, last].into_iter().map(small).collect();
    Some(thumbs?.concat())
}
