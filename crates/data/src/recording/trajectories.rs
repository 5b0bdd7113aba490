//! `.npy` trajectories of the oldest collectors: `images` `[T, C, H, W]` by camera, and `labels` `[T]`.

use std::path::PathBuf;

use plaudit_pyfiles::{Array, PyValue};

use super::formats::{Format, StoredPixels};
use super::item::Item;
use super::observation::Columns;
use super::pixel_format::ChannelOrder;
use super::probe::by_outcome;
use super::{FileProblem, Recording, Rules, keys};

const FOLDERS: [&str; 2] = ["positive", "negative"];

pub(super) const FORMAT: Format = Format {
    name: "trajectories",
    describe: "trajectories, in folders positive and negative",
    is_at: |probe| Ok(probe.has_folder(FOLDERS) || probe.is_file(&["npy"]) || probe.has_files("npy")?),
    items: |path| {
        let files = by_outcome(path, FOLDERS, "npy")?.into_iter();
        Ok(files.map(|(file, outcome)| item(file, outcome)).collect::<Vec<_>>().into())
    },
    location: |entry, _| format!("images[{entry}]"),
    pixels: StoredPixels::OldTrajectories,
    ..Format::COLLECTED
};

/// A trajectory whose folder says how it ended.
pub(super) fn item(file: PathBuf, outcome: Option<bool>) -> Item {
    Item::file(file, |value, rules| Ok(vec![read(value, rules)?])).with_outcome(outcome)
}

fn read(value: &PyValue, rules: &Rules) -> Result<Recording, FileProblem> {
    let trajectory = value.item().unwrap_or(value);
    let images = keys::need(trajectory, "images", "the file")?;
    let labels = keys::zeros_and_ones(keys::need(trajectory, "labels", "the file")?)?;
    if labels.is_empty() {
        return Err(FileProblem::Empty { key: "labels" });
    }
    let cameras: Vec<(String, Vec<Array>)> = match images.as_dict() {
        Some(dict) => dict
            .iter()
            .map(|(name, images)| camera(name.as_str().unwrap_or("?"), images))
            .collect::<Result<_, _>>()?,
        None => vec![camera("images", images)?],
    };
    let frames = cameras.iter().map(|(_, images)| images.len()).max().unwrap_or(0);
    let main = match cameras.len() {
        1 => Some(0),
        _ => cameras.iter().position(|(name, _)| *name == rules.main_camera),
    };
    let columns = Columns {
        cameras,
        states: Vec::new(),
        channel_order: ChannelOrder::ChannelsFirst,
        main,
        ..Columns::default()
    };
    let uneven = (frames != labels.len()).then(|| format!("{frames} images for {} labels", labels.len()));
    Ok(Recording {
        observations: columns.rows(frames),
        success: Some(labels.contains(&true)),
        labels: labels.into_iter().map(Some).collect(),
        uneven,
        ..Recording::default()
    })
}

fn camera(name: &str, images: &PyValue) -> Result<(String, Vec<Array>), FileProblem> {
    let kind = || FileProblem::Kind {
        location: format!("images[\"{name}\"]"),
        expected: "numpy array",
        found: images.kind(),
    };
    keys::arrays(images).map(|images| (name.to_owned(), images)).ok_or_else(kind)
}
