//! `.npy` trajectories of the oldest collectors: `images` `[T, C, H, W]` by camera, and `labels` `[T]`.

use plaudit_pyfiles::{Array, PyValue};

use super::observation::Columns;
use super::pixel_format::ChannelOrder;
use super::rules::MAIN_CAMERA;
use super::{FileProblem, Recording, keys};

pub(super) fn read(value: &PyValue) -> Result<Recording, FileProblem> {
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
        _ => cameras.iter().position(|(name, _)| name == MAIN_CAMERA),
    };
    let columns = Columns { cameras, states: Vec::new(), channel_order: ChannelOrder::ChannelsFirst, main };
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
