//! RLDS: datasets of TensorFlow Datasets whose examples are episodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::End;
use plaudit_pyfiles::{Array, DType};

use super::error::OpenError;
use super::formats::Format;
use super::image_file::EncodedImage;
use super::item::{Item, Items};
use super::observation::Columns;
use super::probe::{Probe, is_inside};
use super::{AfterLast, FileProblem, Recording, Rules, keys};
use crate::rlds::{self, Example, Feature, Features, NumberType, Records, RldsError, Shard, Values};

pub(super) const FORMAT: Format = Format {
    name: "rlds",
    describe: "an RLDS dataset (TensorFlow Datasets)",
    shares_files: true,
    is_at,
    items,
    location: |entry, key| format!("steps/observation/{key}[{entry}]"),
    ..Format::EPISODES
};

const OBSERVATION: &str = "observation";
const ACTION: &str = "action";
/// Features that have one value a step.
const MARKS: [&str; 5] = ["is_last", "is_first", "is_terminal", "reward", "discount"];
/// The camera in front of the robot, in the words of published datasets.
const MAIN_CAMERAS: [&str; 3] = ["image", "image_0", "image_primary"];
/// The task in words, where it may be.
const TASKS: [&str; 3] =
    ["language_instruction", "observation/natural_language_instruction", "observation/language_instruction"];
/// How an episode went, where its own features say so.
const SUCCESS: &str = "episode_metadata/success";

fn is_at(probe: &Probe<'_>) -> Result<bool, OpenError> {
    let path = probe.path;
    if path.is_file() {
        return Ok(is_record_file(path) && !rlds::find(parent(path)).is_empty());
    }
    match rlds::find(path)[..] {
        [] => Ok(false),
        [_] => Ok(true),
        [ref one, ref other, ..] => {
            let why =
                format!("several RLDS datasets, such as {} and {}: name one", one.display(), other.display());
            Err(OpenError::Unsure { path: path.into(), why })
        }
    }
}

fn is_record_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".tfrecord"))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The episodes of all files, or of one that is named. A file that cannot be used is an item as well, which says why when it is
/// read.
fn items(path: &Path) -> Result<Items, OpenError> {
    let (root, only) = if path.is_file() { (parent(path), path.file_name()) } else { (path, None) };
    let Some(folder) = rlds::find(root).into_iter().next() else {
        return Err(OpenError::NoEpisodes { path: path.into() });
    };
    let failed = |source| OpenError::Rlds { path: folder.clone(), source };
    let features = Arc::new(rlds::features(&folder).map_err(failed)?);
    let mut found = Vec::new();
    for split in rlds::shards(&folder).map_err(failed)? {
        let wanted = |shard: &Shard| only.is_none_or(|only| shard.file.file_name() == Some(only));
        for shard in split.shards.into_iter().filter(wanted) {
            let (records, problem) = match open(&folder, &shard) {
                Ok((records, problem)) => (Some(records), problem.map(FileProblem::from)),
                Err(problem) => (None, Some(problem)),
            };
            found.extend(
                records.into_iter().flat_map(|records| episodes(records, &split.name, &shard, &features)),
            );
            if problem.is_some() {
                let (folder, file) = (folder.clone(), shard.file.clone());
                let why = move |_: &Rules| {
                    open(&folder, &shard)?.1.map_or(Ok(Vec::new()), |problem| Err(problem.into()))
                };
                found.push(Item { split: Some(split.name.clone()), ..Item::new(file, why) });
            }
        }
    }
    Ok(found.into())
}

/// The records of a file, and what is wrong with it.
fn open(folder: &Path, shard: &Shard) -> Result<(Records, Option<RldsError>), FileProblem> {
    if !shard.file.exists() {
        return Err(FileProblem::Gone);
    }
    if !is_inside(folder, &shard.file) {
        return Err(FileProblem::Outside);
    }
    let mut records = Records::open(&shard.file)?;
    let (found, expected) = (records.len(), shard.episodes);
    let miscounted = || (found != expected).then_some(RldsError::Count { found, expected });
    let problem = records.damaged.take().or_else(miscounted);
    Ok((records, problem))
}

/// The episodes of a file that are whole, as far as one can tell without reading them.
fn episodes(records: Records, split: &str, shard: &Shard, features: &Arc<Features>) -> Vec<Item> {
    let records = Arc::new(records);
    let item = |at: usize| {
        let (records, features) = (records.clone(), features.clone());
        let name: PathBuf = shard.file.join(format!("{split}_{}", shard.first + at));
        let item = Item::new(name, move |_| Ok(vec![read(records.get(at)?, &features)?]));
        Item { split: Some(split.into()), ..item }
    };
    (0..records.len().min(shard.episodes)).map(item).collect()
}

/// One episode. What follows an action stands beside the observation before it; the observation after the last action is not
/// recorded, and the last one stands for it.
fn read(record: plaudit_pyfiles::Buffer, features: &Features) -> Result<Recording, FileProblem> {
    let episode = Episode::new(Example::of(record)?, features)?;
    let steps = episode.steps;
    let rewards = episode.column("reward")?.unwrap_or_default();
    let [terminal, last] =
        ["is_terminal", "is_last"].map(|name| episode.column(name).map(Option::unwrap_or_default));
    let (terminal, last) = (terminal?, last?);
    let marked = |column: &[f64], at: usize| column.get(at).is_some_and(|mark| *mark != 0.0);
    let end = |at| keys::end(marked(&terminal, at), marked(&last, at));
    let ends: Vec<End> =
        if terminal.is_empty() && last.is_empty() { Vec::new() } else { (0..steps).map(end).collect() };
    let (labels, by_reward) = success_by_reward(&rewards, ends.last().copied().unwrap_or_default(), steps);
    let said = episode.success()?;
    let disagrees = (said == Some(false) && by_reward == Some(true))
        .then(|| format!("its last reward says success, `{SUCCESS}` failure"));
    Ok(Recording {
        labels: if said == Some(false) { vec![Some(false); steps] } else { labels },
        success: said.or(by_reward),
        disagrees,
        actions: episode.actions()?,
        observations: episode.observed()?.rows(steps),
        rewards,
        ends,
        task: episode.task()?.map(Into::into),
        after_last: AfterLast::Repeated,
        position: [None, None, Some(steps as u64)],
        ..Recording::default()
    })
}

/// An episode that terminates with a reward of 1 succeeded: where rewards are 0 and 1, at each step with 1, else at the last.
/// Of any other nobody says how it went.
fn success_by_reward(rewards: &[f64], end: End, steps: usize) -> (Vec<Option<bool>>, Option<bool>) {
    if end != End::Terminated || rewards.last() != Some(&1.0) {
        return (vec![None; steps], None);
    }
    let is_sparse = rewards.iter().all(|reward| *reward == 0.0 || *reward == 1.0);
    let label = |(at, reward): (usize, &f64)| match is_sparse {
        true => Some(*reward == 1.0),
        false => (at + 1 == steps).then_some(true),
    };
    (rewards.iter().enumerate().map(label).collect(), Some(true))
}

/// An example, and what its lists mean.
struct Episode<'a> {
    example: Example,
    features: &'a Features,
    steps: usize,
}

impl<'a> Episode<'a> {
    fn new(example: Example, features: &'a Features) -> Result<Self, FileProblem> {
        let mut episode = Self { example, features, steps: 0 };
        let is_there = |name: &&str| features.step(name).is_some();
        let images = || features.steps.iter().find(|(_, feature)| *feature == Feature::Image);
        let counted = MARKS.into_iter().find(is_there).or_else(|| images().map(|(name, _)| name.as_str()));
        let Some(counted) = counted else {
            let has = features.steps.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            let (location, key) = ("`steps`".into(), "is_last".into());
            return Err(FileProblem::Missing { location, key, has });
        };
        episode.steps = match episode.values(counted)? {
            Some(Values::Bytes(list)) => list.len(),
            Some(Values::Floats(list)) => list.len(),
            Some(Values::Ints(list)) => list.len(),
            None => 0,
        };
        match episode.steps {
            0 => Err(FileProblem::Empty { key: "steps" }),
            _ => Ok(episode),
        }
    }

    fn values(&self, name: &str) -> Result<Option<Values>, FileProblem> {
        Ok(self.example.values(&format!("steps/{name}"))?)
    }

    /// A number for each step, where there is such a feature.
    fn column(&self, name: &str) -> Result<Option<Vec<f64>>, FileProblem> {
        let Some(feature) = self.features.step(name) else { return Ok(None) };
        match feature {
            Feature::Tensor { shape, .. } if shape.iter().product::<usize>() == 1 => {
                Ok(Some(self.numbers(name, 1)?))
            }
            other => Err(unsupported(name, other).into()),
        }
    }

    /// So many numbers for each step, one after the other.
    fn numbers(&self, name: &str, each: usize) -> Result<Vec<f64>, FileProblem> {
        let count = self.steps.saturating_mul(each);
        let found = match self.values(name)? {
            Some(Values::Floats(list)) if list.len() == count => list.into_iter().map(f64::from).collect(),
            Some(Values::Ints(list)) if list.len() == count => {
                list.into_iter().map(|number| number as f64).collect()
            }
            other => return Err(self.mismatch(name, other, format!("{count} numbers"))),
        };
        Ok(found)
    }

    fn mismatch(&self, name: &str, found: Option<Values>, expected: String) -> FileProblem {
        let found = found.map_or("nothing".into(), |values| values.describe());
        let expected = format!("{expected} for {} steps", self.steps);
        RldsError::Feature { name: format!("steps/{name}"), found, expected }.into()
    }

    /// What some features say at each step, one after the other, by name.
    fn vectors(&self, names: &[(&str, usize)]) -> Result<Vec<Vec<f32>>, FileProblem> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = vec![Vec::new(); self.steps];
        for (name, each) in names.iter().filter(|(_, each)| *each > 0) {
            let numbers = self.numbers(name, *each)?;
            for (row, numbers) in rows.iter_mut().zip(numbers.chunks_exact(*each)) {
                row.extend(numbers.iter().map(|number| *number as f32));
            }
        }
        Ok(rows)
    }

    /// The action, or what a dict of them has, by name.
    fn actions(&self) -> Result<Vec<Vec<f32>>, FileProblem> {
        let width = |(name, feature): &'a (String, Feature)| match feature {
            Feature::Tensor { shape, .. } => Ok((name.as_str(), shape.iter().product())),
            other => Err(unsupported(name, other)),
        };
        let parts: Vec<_> = self.features.steps_in(ACTION).map(width).collect::<Result<_, _>>()?;
        self.vectors(&parts)
    }

    /// Images by camera; the state is every other observation that is a number or a vector, by name.
    fn observed(&self) -> Result<Columns, FileProblem> {
        let (mut arrays, mut encoded, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for (name, feature) in self.features.steps_in(OBSERVATION) {
            let camera = name.strip_prefix("observation/").unwrap_or(name).to_owned();
            match feature {
                Feature::Image => encoded.push((camera, self.images(name)?)),
                Feature::Tensor { shape, number: NumberType::U8 }
                    if matches!(shape[..], [_, _, 1 | 3 | 4]) =>
                {
                    arrays.push((camera, self.pixels(name, shape)?));
                }
                // What a language model made of the words is no state.
                Feature::Tensor { shape, .. } if shape.len() < 2 && !name.contains("language") => {
                    states.push((name.as_str(), shape.iter().product()));
                }
                Feature::Tensor { .. } | Feature::Text | Feature::Other(_) => {}
            }
        }
        let states = self.vectors(&states)?;
        let names: Vec<&str> = arrays.iter().map(|(name, _): &(String, _)| name.as_str()).collect();
        let names: Vec<&str> =
            names.into_iter().chain(encoded.iter().map(|(name, _): &(String, _)| name.as_str())).collect();
        let by_name = MAIN_CAMERAS.iter().find_map(|main| names.iter().position(|name| name == main));
        let on_hand = |name: &&str| name.contains("wrist") || name.contains("hand");
        let main = by_name.or_else(|| names.iter().position(|name| !on_hand(name)));
        Ok(Columns { cameras: arrays, encoded, states, main, ..Columns::default() })
    }

    /// Images as PNG or JPEG.
    fn images(&self, name: &str) -> Result<Vec<EncodedImage>, FileProblem> {
        let list = match self.values(name)? {
            Some(Values::Bytes(list)) if list.len() == self.steps => list,
            other => return Err(self.mismatch(name, other, format!("{} images", self.steps))),
        };
        let image = |(at, range)| {
            let named = |problem| FileProblem::Image { what: format!("steps/{name}[{at}]: {problem}") };
            EncodedImage::new(self.example.bytes(range)).map_err(named)
        };
        list.iter().enumerate().map(image).collect()
    }

    /// Images as numbers.
    fn pixels(&self, name: &str, shape: &[usize]) -> Result<Vec<Array>, FileProblem> {
        let count = shape.iter().fold(self.steps, |count, side| count.saturating_mul(*side));
        let list = match self.values(name)? {
            Some(Values::Ints(list)) if list.len() == count => list,
            other => return Err(self.mismatch(name, other, format!("{count} numbers"))),
        };
        let bytes: Option<Vec<u8>> = list.into_iter().map(|number| u8::try_from(number).ok()).collect();
        let wrong = |what: String| FileProblem::Image { what: format!("steps/{name}: {what}") };
        let bytes = bytes.ok_or_else(|| wrong("a pixel is not from 0 to 255".into()))?;
        let sides: Vec<usize> = std::iter::once(self.steps).chain(shape.iter().copied()).collect();
        let all = Array::new(DType::U8, &sides, bytes).map_err(|error| wrong(error.to_string()))?;
        Ok((0..self.steps).map_while(|at| all.row(at)).collect())
    }

    /// The task of the first step.
    fn task(&self) -> Result<Option<String>, FileProblem> {
        for name in TASKS {
            let Some(Values::Bytes(list)) = self.values(name)? else { continue };
            let first = list.first().map(|range| self.example.bytes(range));
            let text = first.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// What the episode's own flag says.
    fn success(&self) -> Result<Option<bool>, FileProblem> {
        if !self.features.episode.iter().any(|(name, _)| name == SUCCESS) {
            return Ok(None);
        }
        let number = match self.example.values(SUCCESS)? {
            Some(Values::Ints(list)) => list.first().map(|number| *number as f64),
            Some(Values::Floats(list)) => list.first().map(|number| f64::from(*number)),
            _ => None,
        };
        let label =
            |number| keys::zero_or_one(number).ok_or_else(|| keys::not_a_label(number, SUCCESS.into()));
        number.map(label).transpose()
    }
}

fn unsupported(name: &str, feature: &Feature) -> RldsError {
    let found = match feature {
        Feature::Other(what) => what.clone(),
        Feature::Image => "an image".into(),
        Feature::Text => "text".into(),
        Feature::Tensor { shape, .. } => format!("a tensor of shape {shape:?}"),
    };
    RldsError::Unsupported { name: format!("steps/{name}"), found }
}
