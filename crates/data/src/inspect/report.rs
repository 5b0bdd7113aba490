//! The summaries of all items become one report.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use plaudit_core::JsonNumber;
use serde::Serialize;

use super::duplicates::{Copies, copies};
use super::finding::Finding;
use super::summary::ItemSummary;
use super::suspicion::Suspicion;
use crate::convert::{FingerprintedImage, Leakage};
use crate::recording::{DatasetFormat, FileProblem, Item, Recordings, Unit};

/// What is in a dataset. Its [`Display`](std::fmt::Display) is a page for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The dataset's path.
    pub path: String,
    /// What it is.
    pub format: DatasetFormat,
    /// Files it has.
    pub files: usize,
    /// Files that were inspected; fewer where a limit was set.
    pub inspected_files: usize,
    /// Episodes, windows or splits that were read.
    pub episodes: usize,
    /// Images, or steps where there are no images.
    pub frames: usize,
    /// How long they are.
    pub lengths: Lengths,
    /// How many succeeded.
    pub success: Success,
    /// How often each label occurs.
    pub labels: Vec<LabelCount>,
    /// Cameras and the sizes of their images.
    pub cameras: Vec<Camera>,
    /// Numbers in a state.
    pub state_widths: Vec<VectorWidth>,
    /// Numbers in an action.
    pub action_widths: Vec<VectorWidth>,
    /// The range of the rewards.
    pub reward: Option<RewardRange>,
    /// Where a person took over.
    #[serde(skip_serializing_if = "Interventions::is_none")]
    pub interventions: Interventions,
    /// What is there more than once.
    pub duplicates: Duplicates,
    /// What the validation split shares with the training split, where there are two.
    pub leakage: Option<Leakage>,
    /// What a person should know, the worst first.
    pub findings: Vec<Finding>,
    /// Files that could not be read.
    pub broken: Vec<BrokenFile>,
    /// Items for the contact sheet, of every outcome.
    #[serde(skip)]
    pub picks: Vec<SheetPick>,
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
    /// Episodes whose outcome is known.
    pub labelled: usize,
    /// Those that were solved at any step.
    pub once: usize,
    /// Those that were solved at the last.
    pub at_end: usize,
    /// Those that were solved at some step and, as far as it is known, not at the last.
    pub lost: usize,
}

/// A label and how often it occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelCount {
    /// Which split, where there are several.
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
    pub sizes: Vec<ImageSize>,
    /// Of a video: the codec, and what decoded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<String>,
}

/// A size of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageSize {
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// How many have it.
    pub frames: usize,
}

/// A width of states or actions, and how many episodes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VectorWidth {
    /// How many numbers.
    pub width: usize,
    /// How many episodes have so many.
    pub episodes: usize,
}

/// The rewards. Those that are NaN or infinite are counted and otherwise left out; where no other is there, the numbers
/// are NaN, which is the text `"NaN"` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RewardRange {
    /// The least.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub min: f64,
    /// The most.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub max: f64,
    /// On average.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub mean: f64,
    /// Share of steps whose reward is zero.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub zero_share: f64,
    /// Rewards that are NaN.
    pub nan: usize,
    /// Rewards that are infinite.
    pub infinite: usize,
}

/// Where a person took over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interventions {
    /// Steps that a person decided.
    pub steps: usize,
    /// Episodes that have such steps.
    pub episodes: usize,
}

impl Interventions {
    fn is_none(&self) -> bool {
        self.steps == 0
    }

    fn of(summaries: &[ItemSummary]) -> Self {
        let steps = || summaries.iter().map(|summary| summary.by_person);
        Self { steps: steps().sum(), episodes: steps().filter(|steps| *steps > 0).count() }
    }
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
pub struct BrokenFile {
    /// Which.
    pub file: String,
    /// Why.
    pub problem: String,
}

/// An item for the contact sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetPick {
    /// Its file.
    pub file: String,
    /// Which one in it.
    pub number: usize,
    /// Its label.
    pub label: String,
}

/// If one success in this many is lost again, that is a finding.
const LOST_SHARE: usize = 10;

/// Summaries of everything that was inspected, with names for messages.
struct Inspected<'a> {
    summaries: Vec<ItemSummary>,
    /// For each summary its item, and its number in there.
    origins: Vec<(&'a Item, usize)>,
    names: Vec<String>,
}

pub(super) fn report(
    path: &Path,
    collection: &Recordings,
    chosen: &[&Item],
    files: usize,
    summarized: Vec<Result<Vec<ItemSummary>, FileProblem>>,
) -> Report {
    let mut broken: Vec<BrokenFile> = collection
        .broken
        .iter()
        .map(|(file, problem)| BrokenFile { file: relative(file, path), problem: problem.with_hint() })
        .collect();
    let mut inspected = Inspected { summaries: Vec::new(), origins: Vec::new(), names: Vec::new() };
    for (item, summarized) in chosen.iter().zip(summarized) {
        let file = relative(&item.path, path);
        match summarized {
            Ok(summaries) => summaries.into_iter().enumerate().for_each(|(number, summary)| {
                inspected.names.push(format!("{file}{}", summary.name));
                inspected.origins.push((item, number));
                inspected.summaries.push(summary);
            }),
            Err(problem) => broken.push(BrokenFile { file, problem: problem.with_hint() }),
        }
    }
    let copies = copies(&inspected.summaries);
    let summaries = &inspected.summaries;
    let mut report = Report {
        path: path.display().to_string(),
        format: collection.format,
        files,
        inspected_files: chosen.len(),
        episodes: summaries.len(),
        frames: summaries.iter().map(|summary| summary.frames).sum(),
        lengths: lengths(summaries),
        success: success(summaries),
        labels: labels(&inspected),
        cameras: cameras(summaries),
        state_widths: widths(summaries.iter().filter_map(|summary| summary.state_width)),
        action_widths: widths(summaries.iter().filter_map(|summary| summary.action_width)),
        reward: reward(summaries),
        interventions: Interventions::of(summaries),
        duplicates: copies.counts(),
        leakage: leakage(&inspected),
        findings: Vec::new(),
        broken,
        picks: picks(&inspected, path),
    };
    report.findings = findings(&report, &inspected, &copies);
    report
}

/// A file's path below another, or its name.
pub(super) fn relative(file: &Path, to: &Path) -> String {
    let shortened = file.strip_prefix(to).ok().filter(|rest| !rest.as_os_str().is_empty());
    shortened
        .map_or_else(|| file.file_name().unwrap_or_default().to_string_lossy(), |rest| rest.to_string_lossy())
        .into()
}

fn lengths(summaries: &[ItemSummary]) -> Lengths {
    let mut steps: Vec<usize> = summaries.iter().map(|summary| summary.steps).collect();
    steps.sort_unstable();
    let (Some(min), Some(max)) = (steps.first(), steps.last()) else { return Lengths::default() };
    Lengths { min: *min, median: steps[steps.len() / 2], max: *max, total: steps.iter().sum() }
}

fn success(summaries: &[ItemSummary]) -> Success {
    let count = |of: fn(&ItemSummary) -> Option<bool>| {
        summaries.iter().filter(|summary| of(summary) == Some(true)).count()
    };
    Success {
        labelled: summaries.iter().filter(|summary| summary.success.is_some()).count(),
        once: count(|summary| summary.success),
        at_end: count(|summary| summary.success.and(summary.at_end)),
        lost: summaries
            .iter()
            .filter(|summary| summary.success == Some(true) && summary.at_end == Some(false))
            .count(),
    }
}

fn labels(inspected: &Inspected<'_>) -> Vec<LabelCount> {
    let mut counts: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for (summary, (item, _)) in inspected.summaries.iter().zip(&inspected.origins) {
        let mut count =
            |name: &str, number| *counts.entry((item.split.clone(), name.into())).or_default() += number;
        match &summary.window_label {
            Some(window_label) => count(window_label, 1),
            None => {
                for (label, name) in [(Some(true), "success"), (Some(false), "fail"), (None, "unknown")] {
                    let number = summary.labels.iter().filter(|found| **found == label).count();
                    if number > 0 {
                        count(name, number);
                    }
                }
            }
        }
    }
    counts.into_iter().map(|((split, name), count)| LabelCount { split, name, count }).collect()
}

fn cameras(summaries: &[ItemSummary]) -> Vec<Camera> {
    let mut cameras: Vec<(String, BTreeMap<[usize; 3], usize>)> = Vec::new();
    for (name, sizes) in summaries.iter().flat_map(|summary| &summary.cameras) {
        let at = cameras.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            cameras.push((name.clone(), BTreeMap::new()));
            cameras.len() - 1
        });
        sizes.iter().for_each(|(shape, count)| *cameras[at].1.entry(*shape).or_default() += count);
    }
    let size = |(shape, frames)| ImageSize { shape, frames };
    cameras
        .into_iter()
        .map(|(name, sizes)| Camera { name, sizes: sizes.into_iter().map(size).collect(), video: None })
        .collect()
}

fn widths(widths: impl Iterator<Item = usize>) -> Vec<VectorWidth> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    widths.for_each(|width| *counts.entry(width).or_default() += 1);
    counts.into_iter().map(|(width, episodes)| VectorWidth { width, episodes }).collect()
}

fn reward(summaries: &[ItemSummary]) -> Option<RewardRange> {
    let all = || summaries.iter().filter_map(|summary| summary.rewards);
    all().next()?;
    // NaN where there is nothing to divide by; `min` and `max` pass over it.
    let count = all().map(|rewards| rewards.count).sum::<usize>() as f64;
    Some(RewardRange {
        min: all().map(|rewards| rewards.low).fold(f64::NAN, f64::min),
        max: all().map(|rewards| rewards.high).fold(f64::NAN, f64::max),
        mean: all().map(|rewards| rewards.sum).sum::<f64>() / count,
        zero_share: all().map(|rewards| rewards.zeros).sum::<usize>() as f64 / count,
        nan: all().map(|rewards| rewards.nan).sum(),
        infinite: all().map(|rewards| rewards.infinite).sum(),
    })
}

/// What validates, compared with what trains, by image and by episode.
fn leakage(inspected: &Inspected<'_>) -> Option<Leakage> {
    let trains = |at: usize| inspected.origins[at].0.split.as_deref() == Some("train");
    let validates =
        |at: usize| matches!(inspected.origins[at].0.split.as_deref(), Some("val" | "eval" | "test"));
    let all = 0..inspected.summaries.len();
    let (train, val): (Vec<usize>, Vec<usize>) =
        (all.clone().filter(|at| trains(*at)).collect(), all.filter(|at| validates(*at)).collect());
    if train.is_empty() || val.is_empty() {
        return None;
    }
    let fingerprinted = |indices: &[usize]| -> Vec<FingerprintedImage> {
        indices.iter().flat_map(|at| images(&inspected.summaries[*at], *at)).collect()
    };
    let sources: HashSet<&String> =
        train.iter().filter_map(|at| inspected.summaries[*at].cut_from.as_ref()).collect();
    let from_same =
        |at: &usize| inspected.summaries[*at].cut_from.as_ref().is_some_and(|from| sources.contains(from));
    let shared: HashSet<usize> = val.iter().copied().filter(from_same).collect();
    Some(Leakage::between(&fingerprinted(&train), &fingerprinted(&val), &shared))
}

fn images(summary: &ItemSummary, at: usize) -> impl Iterator<Item = FingerprintedImage> {
    let window_label = match summary.window_label.as_deref() {
        Some("positive") => 2,
        Some("negative") => 3,
        Some(_) => 4,
        None => 5,
    };
    summary.fingerprints.iter().enumerate().map(move |(frame, fingerprint)| {
        let label = summary.labels.get(frame).copied().flatten().map_or(window_label, u8::from);
        FingerprintedImage { episode: at, label, fingerprint: *fingerprint }
    })
}

/// A few of each outcome, spread over all.
fn picks(inspected: &Inspected<'_>, path: &Path) -> Vec<SheetPick> {
    let mut by_label: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, summary) in
        inspected.summaries.iter().enumerate().filter(|(_, summary)| !summary.cameras.is_empty())
    {
        let outcome = summary.success.map(|success| if success { "success" } else { "fail" }.to_string());
        let otherwise = if summary.unit == Unit::Images { "images" } else { "unknown" };
        let label = summary.window_label.clone().or(outcome).unwrap_or_else(|| otherwise.into());
        by_label.entry(label).or_default().push(at);
    }
    let each = (8 / by_label.len().max(1)).max(1);
    let mut picks = Vec::new();
    for (label, indices) in by_label.into_iter().rev() {
        for at in super::spread(&indices, Some(each.min(indices.len()))) {
            let (item, number) = inspected.origins[*at];
            picks.push(SheetPick { file: relative(&item.path, path), number, label: label.clone() });
        }
    }
    picks
}

fn findings(report: &Report, inspected: &Inspected<'_>, copies: &Copies) -> Vec<Finding> {
    let mut by_kind: BTreeMap<Suspicion, Vec<String>> = BTreeMap::new();
    for (summary, name) in inspected.summaries.iter().zip(&inspected.names) {
        for (kind, what) in &summary.suspicions {
            let example = if what.is_empty() { name.clone() } else { format!("{name}: {what}") };
            by_kind.entry(*kind).or_default().push(example);
        }
    }
    let pair =
        |(one, other): &(usize, usize)| format!("{} is {}", inspected.names[*other], inspected.names[*one]);
    let alike =
        |(one, other): &(usize, usize)| format!("{} and {}", inspected.names[*one], inspected.names[*other]);
    by_kind.insert(Suspicion::Duplicates, copies.exact.iter().map(pair).collect());
    by_kind.insert(Suspicion::NearDuplicates, copies.near.iter().map(alike).collect());
    let contradiction = |(one, other, frame): &(usize, usize, usize)| {
        format!("image {frame} of {} is also in {}", inspected.names[*other], inspected.names[*one])
    };
    by_kind.insert(Suspicion::ContradictingLabels, copies.contradicting.iter().map(contradiction).collect());
    let some = by_kind.into_iter().filter(|(_, examples)| !examples.is_empty());
    let mut findings: Vec<Finding> = some.map(|(kind, examples)| Finding::about(kind, examples)).collect();
    findings.extend(dataset_findings(report, inspected));
    findings.sort_by_key(|finding| (finding.severity, finding.kind));
    findings
}

fn dataset_findings(report: &Report, inspected: &Inspected<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |kind, what: Vec<String>| found.push(Finding::of_dataset(kind, what));
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
    let Success { once, at_end, lost, .. } = report.success;
    if lost * LOST_SHARE >= once.max(1) {
        let what =
            format!("of {once} solved at some step, {at_end} are solved at the end and {lost} no longer");
        say(Suspicion::SuccessLost, vec![what]);
    }
    if let Some(warning) = report.leakage.as_ref().and_then(Leakage::warning) {
        say(Suspicion::SharedBetweenSplits, vec![warning]);
    }
    for camera in report.cameras.iter().filter(|camera| camera.sizes.len() > 1) {
        say(Suspicion::MixedSizes, mixed_sizes(camera, inspected));
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
    let all_zero = report.reward.is_some_and(|reward| reward.min == 0.0 && reward.max == 0.0);
    if all_zero && inspected.summaries.iter().any(|summary| summary.unit == Unit::Episode) {
        say(Suspicion::NoReward, Vec::new());
    }
    found
}

/// Each size with a file that has it.
fn mixed_sizes(camera: &Camera, inspected: &Inspected<'_>) -> Vec<String> {
    let has = |summary: &ItemSummary, shape: [usize; 3]| {
        summary.cameras.iter().any(|(name, sizes)| *name == camera.name && sizes.contains_key(&shape))
    };
    let example = |size: &ImageSize| {
        let at = inspected.summaries.iter().position(|summary| has(summary, size.shape))?;
        let [height, width, channels] = size.shape;
        Some(format!(
            "{}: {} of {width}x{height}x{channels}, as in {}",
            camera.name, size.frames, inspected.names[at]
        ))
    };
    camera.sizes.iter().filter_map(example).collect()
}
