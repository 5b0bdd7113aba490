//! Many looks become one report.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::collection::{Collection, Format, Part};
use super::duplicates::{Copies, copies};
use super::error::Unusable;
use super::finding::Finding;
use super::look::Look;
use super::recorded::Unit;
use super::suspicion::Suspicion;
use crate::convert::{Leakage, Seen};

/// What is in a dataset. Its [`Display`](std::fmt::Display) is a page for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was looked at.
    pub path: String,
    /// What it is.
    pub format: Format,
    /// Files it has.
    pub files: usize,
    /// Files that were looked at; fewer where a limit was set.
    pub looked_at: usize,
    /// Episodes, windows or parts that were read.
    pub episodes: usize,
    /// Images, or moments where there are no images.
    pub frames: usize,
    /// How long they are.
    pub lengths: Lengths,
    /// How many succeeded.
    pub success: Success,
    /// How often each label occurs.
    pub labels: Vec<Label>,
    /// Cameras and the sizes of their images.
    pub cameras: Vec<Camera>,
    /// Numbers in a state.
    pub state_widths: Vec<Width>,
    /// Numbers in an action.
    pub action_widths: Vec<Width>,
    /// What was paid.
    pub reward: Option<RewardRange>,
    /// What is there more than once.
    pub duplicates: Duplicates,
    /// What the validation part shares with the training part, where there are two.
    pub leakage: Option<Leakage>,
    /// What a person should know, the worst first.
    pub findings: Vec<Finding>,
    /// Files that could not be read.
    pub broken: Vec<Broken>,
    /// Things worth drawing, of every outcome.
    #[serde(skip)]
    pub picks: Vec<Pick>,
}

/// Steps of the shortest, the middle and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Shortest.
    pub min: usize,
    /// Middle.
    pub median: usize,
    /// Longest.
    pub max: usize,
    /// All together.
    pub total: usize,
}

/// How many episodes succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Success {
    /// Episodes of which it is known.
    pub known: usize,
    /// Those that were solved at any step.
    pub once: usize,
    /// Those that were solved at the last.
    pub at_end: usize,
}

/// A label and how often it occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Which part, where there are several.
    pub split: Option<String>,
    /// The label.
    pub name: String,
    /// How often.
    pub count: usize,
}

/// A camera.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Camera {
    /// Its name.
    pub name: String,
    /// The sizes of its images.
    pub sizes: Vec<Size>,
}

/// A size of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// How many have it.
    pub frames: usize,
}

/// A number of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Width {
    /// How many numbers.
    pub width: usize,
    /// How many episodes have so many.
    pub episodes: usize,
}

/// What was paid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RewardRange {
    /// The least.
    pub min: f32,
    /// The most.
    pub max: f32,
    /// On average.
    pub mean: f64,
    /// Share of steps that paid nothing.
    pub zero_share: f64,
}

/// What is there more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Duplicates {
    /// Copies of whole episodes or windows.
    pub episodes: usize,
    /// Episodes that look like another one at the start, in the middle and at the end.
    pub near_episodes: usize,
    /// Images that are in another episode too.
    pub frames: usize,
    /// Equal images with another label.
    pub contradicting_frames: usize,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Which.
    pub file: String,
    /// Why.
    pub problem: String,
}

/// Something worth drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its file.
    pub file: String,
    /// Which one in it.
    pub number: usize,
    /// Its label.
    pub label: String,
}

/// Everything that was seen, with names for messages.
struct Seeing<'a> {
    looks: Vec<Look>,
    /// For each look its part, and its number in there.
    places: Vec<(&'a Part, usize)>,
    names: Vec<String>,
}

pub(super) fn report(
    path: &Path,
    collection: &Collection,
    chosen: &[&Part],
    files: usize,
    looked: Vec<Result<Vec<Look>, Unusable>>,
) -> Report {
    let mut broken: Vec<Broken> = collection
        .broken
        .iter()
        .map(|(file, problem)| Broken { file: relative(file, path), problem: problem.to_string() })
        .collect();
    let mut seeing = Seeing { looks: Vec::new(), places: Vec::new(), names: Vec::new() };
    for (part, looked) in chosen.iter().zip(looked) {
        let file = relative(&part.path, path);
        match looked {
            Ok(looks) => looks.into_iter().enumerate().for_each(|(number, look)| {
                seeing.names.push(format!("{file}{}", look.name));
                seeing.places.push((part, number));
                seeing.looks.push(look);
            }),
            Err(problem) => broken.push(Broken { file, problem: problem.to_string() }),
        }
    }
    let copies = copies(&seeing.looks);
    let looks = &seeing.looks;
    let mut report = Report {
        path: path.display().to_string(),
        format: collection.format,
        files,
        looked_at: chosen.len(),
        episodes: looks.len(),
        frames: looks.iter().map(|look| look.frames).sum(),
        lengths: lengths(looks),
        success: success(looks),
        labels: labels(&seeing),
        cameras: cameras(looks),
        state_widths: widths(looks.iter().filter_map(|look| look.state_width)),
        action_widths: widths(looks.iter().filter_map(|look| look.action_width)),
        reward: reward(looks),
        duplicates: copies.counts(),
        leakage: leakage(&seeing),
        findings: Vec::new(),
        broken,
        picks: picks(&seeing, path),
    };
    report.findings = findings(&report, &seeing, &copies);
    report
}

fn relative(file: &Path, to: &Path) -> String {
    let shortened = file.strip_prefix(to).ok().filter(|rest| !rest.as_os_str().is_empty());
    shortened
        .map_or_else(|| file.file_name().unwrap_or_default().to_string_lossy(), |rest| rest.to_string_lossy())
        .into()
}

fn lengths(looks: &[Look]) -> Lengths {
    let mut steps: Vec<usize> = looks.iter().map(|look| look.steps).collect();
    steps.sort_unstable();
    let (Some(min), Some(max)) = (steps.first(), steps.last()) else { return Lengths::default() };
    Lengths { min: *min, median: steps[steps.len() / 2], max: *max, total: steps.iter().sum() }
}

fn success(looks: &[Look]) -> Success {
    let count = |of: fn(&Look) -> Option<bool>| looks.iter().filter(|look| of(look) == Some(true)).count();
    Success {
        known: looks.iter().filter(|look| look.success.is_some()).count(),
        once: count(|look| look.success),
        at_end: count(|look| look.success.and(look.at_end)),
    }
}

fn labels(seeing: &Seeing<'_>) -> Vec<Label> {
    let mut counts: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for (look, (part, _)) in seeing.looks.iter().zip(&seeing.places) {
        let mut count =
            |name: &str, number| *counts.entry((part.split.clone(), name.into())).or_default() += number;
        match &look.verdict {
            Some(verdict) => count(verdict, 1),
            None => {
                for (label, name) in [(Some(true), "success"), (Some(false), "fail"), (None, "unknown")] {
                    let number = look.labels.iter().filter(|found| **found == label).count();
                    if number > 0 {
                        count(name, number);
                    }
                }
            }
        }
    }
    counts.into_iter().map(|((split, name), count)| Label { split, name, count }).collect()
}

fn cameras(looks: &[Look]) -> Vec<Camera> {
    let mut cameras: Vec<(String, BTreeMap<[usize; 3], usize>)> = Vec::new();
    for (name, sizes) in looks.iter().flat_map(|look| &look.cameras) {
        let at = cameras.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            cameras.push((name.clone(), BTreeMap::new()));
            cameras.len() - 1
        });
        sizes.iter().for_each(|(shape, count)| *cameras[at].1.entry(*shape).or_default() += count);
    }
    let size = |(shape, frames)| Size { shape, frames };
    cameras
        .into_iter()
        .map(|(name, sizes)| Camera { name, sizes: sizes.into_iter().map(size).collect() })
        .collect()
}

fn widths(widths: impl Iterator<Item = usize>) -> Vec<Width> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    widths.for_each(|width| *counts.entry(width).or_default() += 1);
    counts.into_iter().map(|(width, episodes)| Width { width, episodes }).collect()
}

fn reward(looks: &[Look]) -> Option<RewardRange> {
    let all = || looks.iter().filter_map(|look| look.rewards);
    let count = all().map(|rewards| rewards.count).sum::<usize>().max(1) as f64;
    let first = all().next()?;
    Some(RewardRange {
        min: all().map(|rewards| rewards.low).fold(first.low, f32::min),
        max: all().map(|rewards| rewards.high).fold(first.high, f32::max),
        mean: all().map(|rewards| rewards.sum).sum::<f64>() / count,
        zero_share: all().map(|rewards| rewards.zeros).sum::<usize>() as f64 / count,
    })
}

/// What validates, compared with what trains, by image and by episode.
fn leakage(seeing: &Seeing<'_>) -> Option<Leakage> {
    let trains = |at: usize| seeing.places[at].0.split.as_deref() == Some("train");
    let validates = |at: usize| matches!(seeing.places[at].0.split.as_deref(), Some("val" | "eval" | "test"));
    let all = 0..seeing.looks.len();
    let (train, val): (Vec<usize>, Vec<usize>) =
        (all.clone().filter(|at| trains(*at)).collect(), all.filter(|at| validates(*at)).collect());
    if train.is_empty() || val.is_empty() {
        return None;
    }
    let seen = |places: &[usize]| -> Vec<Seen> {
        places.iter().flat_map(|at| images(&seeing.looks[*at], *at)).collect()
    };
    let sources: HashSet<&String> =
        train.iter().filter_map(|at| seeing.looks[*at].cut_from.as_ref()).collect();
    let from_same =
        |at: &usize| seeing.looks[*at].cut_from.as_ref().is_some_and(|from| sources.contains(from));
    let shared: HashSet<usize> = val.iter().copied().filter(from_same).collect();
    Some(Leakage::between(&seen(&train), &seen(&val), &shared))
}

fn images(look: &Look, at: usize) -> impl Iterator<Item = Seen> {
    let verdict = match look.verdict.as_deref() {
        Some("positive") => 2,
        Some("negative") => 3,
        Some(_) => 4,
        None => 5,
    };
    look.prints.iter().enumerate().map(move |(frame, print)| {
        let label = look.labels.get(frame).copied().flatten().map_or(verdict, u8::from);
        Seen { episode: at, label, print: *print }
    })
}

/// A few of each outcome, spread over all.
fn picks(seeing: &Seeing<'_>, path: &Path) -> Vec<Pick> {
    let mut by_label: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, look) in seeing.looks.iter().enumerate().filter(|(_, look)| !look.cameras.is_empty()) {
        let outcome = look.success.map(|success| if success { "success" } else { "fail" }.to_string());
        let otherwise = if look.unit == Unit::Images { "images" } else { "unknown" };
        let label = look.verdict.clone().or(outcome).unwrap_or_else(|| otherwise.into());
        by_label.entry(label).or_default().push(at);
    }
    let each = (8 / by_label.len().max(1)).max(1);
    let mut picks = Vec::new();
    for (label, places) in by_label.into_iter().rev() {
        for at in super::spread(&places, Some(each.min(places.len()))) {
            let (part, number) = seeing.places[*at];
            picks.push(Pick { file: relative(&part.path, path), number, label: label.clone() });
        }
    }
    picks
}

fn findings(report: &Report, seeing: &Seeing<'_>, copies: &Copies) -> Vec<Finding> {
    let mut by_kind: BTreeMap<Suspicion, Vec<String>> = BTreeMap::new();
    for (look, name) in seeing.looks.iter().zip(&seeing.names) {
        for (kind, what) in &look.suspicions {
            let example = if what.is_empty() { name.clone() } else { format!("{name}: {what}") };
            by_kind.entry(*kind).or_default().push(example);
        }
    }
    let pair = |(one, other): &(usize, usize)| format!("{} is {}", seeing.names[*other], seeing.names[*one]);
    let alike =
        |(one, other): &(usize, usize)| format!("{} and {}", seeing.names[*one], seeing.names[*other]);
    by_kind.insert(Suspicion::Duplicates, copies.exact.iter().map(pair).collect());
    by_kind.insert(Suspicion::NearDuplicates, copies.near.iter().map(alike).collect());
    let contradiction = |(one, other, frame): &(usize, usize, usize)| {
        format!("image {frame} of {} is also in {}", seeing.names[*other], seeing.names[*one])
    };
    by_kind.insert(Suspicion::ContradictingLabels, copies.contradicting.iter().map(contradiction).collect());
    let some = by_kind.into_iter().filter(|(_, examples)| !examples.is_empty());
    let mut findings: Vec<Finding> = some.map(|(kind, examples)| Finding::about(kind, examples)).collect();
    findings.extend(of_the_whole(report, seeing));
    findings.sort_by_key(|finding| (finding.severity, finding.kind));
    findings
}

fn of_the_whole(report: &Report, seeing: &Seeing<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |kind, what: Vec<String>| found.push(Finding::whole(kind, what));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    report.labels.iter().for_each(|label| *counts.entry(&label.name).or_default() += label.count);
    counts.remove("unknown");
    let shares =
        || counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    let (most, least) = (counts.values().max(), counts.values().min());
    match (counts.len(), most, least) {
        (1, ..) => say(Suspicion::OneClass, vec![shares()]),
        (_, Some(most), Some(least)) if *most > 20 * least => say(Suspicion::Unbalanced, vec![shares()]),
        _ => {}
    }
    if let Some(warning) = report.leakage.as_ref().and_then(Leakage::warning) {
        say(Suspicion::SharedBetweenParts, vec![warning]);
    }
    for camera in report.cameras.iter().filter(|camera| camera.sizes.len() > 1) {
        say(Suspicion::MixedSizes, mixed_sizes(camera, seeing));
    }
    for (what, widths) in [("states", &report.state_widths), ("actions", &report.action_widths)] {
        if widths.len() > 1 {
            let all = widths.iter().map(|width| format!("{} of {}", width.episodes, width.width));
            say(Suspicion::MixedWidths, vec![format!("{what}: {}", all.collect::<Vec<_>>().join(", "))]);
        }
    }
    if report.cameras.is_empty() && report.episodes > 0 {
        say(Suspicion::NoImages, Vec::new());
    }
    let nothing_paid = report.reward.is_some_and(|reward| reward.min == 0.0 && reward.max == 0.0);
    if nothing_paid && seeing.looks.iter().any(|look| look.unit == Unit::Episode) {
        say(Suspicion::NoReward, Vec::new());
    }
    found
}

/// Each size with a file that has it.
fn mixed_sizes(camera: &Camera, seeing: &Seeing<'_>) -> Vec<String> {
    let has = |look: &Look, shape: [usize; 3]| {
        look.cameras.iter().any(|(name, sizes)| *name == camera.name && sizes.contains_key(&shape))
    };
    let example = |size: &Size| {
        let at = seeing.looks.iter().position(|look| has(look, size.shape))?;
        let [height, width, channels] = size.shape;
        Some(format!(
            "{}: {} of {width}x{height}x{channels}, as in {}",
            camera.name, size.frames, seeing.names[at]
        ))
    };
    camera.sizes.iter().filter_map(example).collect()
}
