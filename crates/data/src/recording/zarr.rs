//! Replay buffers in zarr, as diffusion policies and UMI write them: `data/*` with a row per step, and `meta/episode_ends`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_pyfiles::{Array, DType};

use super::error::OpenError;
use super::formats::Format;
use super::item::{Item, Items};
use super::observation::Columns;
use super::probe::{Probe, list};
use super::{AfterLast, FileProblem, Recording};
use crate::hdf5::Hdf5Error;
use crate::zarr::{Store, ZarrArray, ZarrError};

pub(super) const FORMAT: Format = Format {
    name: "zarr",
    describe: "a replay buffer in zarr",
    shares_files: true,
    is_at,
    items,
    location: |entry, key| format!("data/{key}[{entry}]"),
    ..Format::EPISODES
};

const DATA: &str = "data";
const ENDS: &str = "meta/episode_ends";
/// Episodes of the largest replay buffer that is read.
const MOST_EPISODES: usize = 1 << 20;
const ACTION: &str = "action";
const REWARDS: [&str; 2] = ["reward", "rewards"];
/// The camera in front of the robot, in the words of published datasets.
const MAIN_CAMERAS: [&str; 3] = ["img", "image", "camera0_rgb"];

/// The stores at a path: it is one, or has some.
fn stores(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let is_zip = |path: &Path| path.is_file() && path.extension().is_some_and(|extension| extension == "zip");
    let is_group = |path: &Path| {
        let has = |name: &str| path.join(name).is_file();
        path.is_dir() && (has(".zgroup") || has("zarr.json") || path.join(ENDS).is_dir())
    };
    if is_zip(path) || is_group(path) {
        return Ok(vec![path.into()]);
    }
    if path.is_file() {
        return Ok(Vec::new());
    }
    let mut found = list(path, "zarr")?;
    let named = |file: &PathBuf| {
        file.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some_and(|one| one == "zarr"))
    };
    found.extend(list(path, "zip")?.into_iter().filter(named));
    Ok(found)
}

fn is_at(probe: &Probe<'_>) -> Result<bool, OpenError> {
    Ok(!stores(probe.path)?.is_empty())
}

/// The episodes of all stores at a path. A store that cannot be used is an item as well, which says why when it is read.
fn items(path: &Path) -> Result<Items, OpenError> {
    let mut found = Vec::new();
    for file in stores(path)? {
        match Buffer::open(&file) {
            Ok(buffer) => {
                let buffer = Arc::new(buffer);
                found.extend((0..buffer.ends.len()).map(|at| {
                    let buffer = buffer.clone();
                    Item::new(file.join(format!("episode_{at}")), move |_| Ok(vec![buffer.read(at)?]))
                }));
            }
            Err(_) => {
                let path = file.clone();
                found.push(Item::new(file, move |_| Buffer::open(&path).map(|_| Vec::new())));
            }
        }
    }
    Ok(found.into())
}

/// An open replay buffer.
struct Buffer {
    store: Store,
    /// The row after the last of each episode.
    ends: Vec<usize>,
    arrays: Vec<(String, ZarrArray)>,
}

impl Buffer {
    fn open(path: &Path) -> Result<Self, FileProblem> {
        let store = Store::open(path)?;
        let missing = |key: &str| {
            let (key, has) = (key.into(), store.below("").join(", "));
            FileProblem::Missing { location: "the zarr group".into(), key, has }
        };
        let array = ZarrArray::find(&store, ENDS)?.ok_or_else(|| missing(ENDS))?;
        if array.shape()[0] > MOST_EPISODES {
            let what =
                format!("`{ENDS}` has {} episodes, where {MOST_EPISODES} are read at most", array.shape()[0]);
            return Err(ZarrError::Rows { what }.into());
        }
        let ends = array.rows(&store, 0..array.shape()[0])?;
        let ends = ends.to_i64().filter(|_| array.shape().len() == 1).unwrap_or_default();
        let ends: Option<Vec<usize>> = ends.into_iter().map(|end| usize::try_from(end).ok()).collect();
        let rises =
            |ends: &Vec<usize>| ends.is_sorted_by(|a, b| a < b) && ends.first().is_some_and(|end| *end > 0);
        let wrong = || ZarrError::Rows { what: format!("`{ENDS}` is not a list of rows that rise from 1") };
        let ends = ends.filter(rises).ok_or_else(wrong)?;
        let mut arrays = Vec::new();
        for name in store.below(DATA) {
            arrays.extend(ZarrArray::find(&store, &format!("{DATA}/{name}"))?.map(|array| (name, array)));
        }
        let rows = ends.last().copied().unwrap_or_default();
        if let Some((name, array)) = arrays.iter().find(|(_, array)| array.shape()[0] != rows) {
            let what =
                format!("`{DATA}/{name}` has {} rows, and the last episode ends at {rows}", array.shape()[0]);
            return Err(ZarrError::Rows { what }.into());
        }
        match arrays.is_empty() {
            true => Err(missing(DATA)),
            false => Ok(Self { store, ends, arrays }),
        }
    }

    /// One episode. What follows an action stands beside the observation before it; nothing was recorded after the last.
    fn read(&self, episode: usize) -> Result<Recording, FileProblem> {
        let start = episode.checked_sub(1).map_or(0, |before| self.ends[before]);
        let rows = start..self.ends[episode];
        let steps = rows.len();
        let (mut cameras, mut states, mut actions, mut rewards) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, array) in &self.arrays {
            let read = || array.rows(&self.store, rows.clone());
            match array.shape() {
                _ if is_images(name, array) => cameras.push((name.clone(), images(&read()?, steps))),
                [_] if REWARDS.contains(&name.as_str()) => rewards = read()?.to_f64().unwrap_or_default(),
                [_] | [_, _] if name == ACTION => actions = vectors(&read()?, steps),
                [_] | [_, _] => states.push(vectors(&read()?, steps)),
                _ => {}
            }
        }
        let main = MAIN_CAMERAS.iter().find_map(|main| cameras.iter().position(|(name, _)| name == main));
        let at =
            |step: usize| states.iter().flat_map(|column: &Vec<Vec<f32>>| column[step].clone()).collect();
        let no_images = || FileProblem::from(Hdf5Error::NoImages { episode: format!("episode_{episode}") });
        let unlabelled = cameras.is_empty().then(no_images);
        let states = if states.is_empty() { Vec::new() } else { (0..steps).map(at).collect() };
        let columns = Columns { cameras, states, main, ..Columns::default() };
        Ok(Recording {
            actions,
            rewards,
            unlabelled,
            labels: vec![None; steps],
            observations: columns.rows(steps),
            after_last: AfterLast::Repeated,
            position: [None, Some(episode as u64), Some(steps as u64)],
            ..Recording::default()
        })
    }
}

/// Whether an array is images: bytes with 1, 3 or 4 channels, or floats in colours that are called so.
fn is_images(name: &str, array: &ZarrArray) -> bool {
    let called_so = || ["img", "image", "rgb", "camera"].iter().any(|word| name.contains(word));
    match (array.shape(), array.dtype()) {
        ([_, _, _, 1 | 3 | 4] | [_, 1 | 3 | 4, _, _], DType::U8) => true,
        ([_, _, _, 3] | [_, 3, _, _], DType::F16 | DType::F32 | DType::F64) => called_so(),
        _ => false,
    }
}

/// Images of an episode. Floats that are whole numbers of bytes become those, since they take four times the room.
fn images(array: &Array, steps: usize) -> Vec<Array> {
    let as_bytes = || {
        let byte =
            |number: &f32| (number.fract() == 0.0 && (0.0..=255.0).contains(number)).then_some(*number as u8);
        let numbers = array.to_f32()?;
        // From 0 to 1 a whole number is black or full.
        let is_unit = numbers.iter().all(|number| *number <= 1.0);
        let bytes: Option<Vec<u8>> = numbers.iter().map(byte).collect();
        Array::new(DType::U8, array.shape(), bytes.filter(|_| !is_unit)?).ok()
    };
    let found = if array.dtype() == DType::U8 { None } else { as_bytes() };
    let array = found.as_ref().unwrap_or(array);
    (0..steps).map_while(|at| array.row(at)).collect()
}

fn vectors(array: &Array, steps: usize) -> Vec<Vec<f32>> {
    (0..steps).map(|at| array.row(at).and_then(|row| row.to_f32()).unwrap_or_default()).collect()
}
