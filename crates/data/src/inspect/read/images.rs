//! `train.pt` and `val.pt`: a list of images and a list of labels.

use super::{need, need_list};
use crate::inspect::error::Unusable;
use crate::inspect::picture::Picture;
use crate::inspect::recorded::{Recorded, Unit, Views};
use crate::python::PyValue;

/// All images of a file.
pub(in crate::inspect) fn images(value: &PyValue) -> Result<Vec<Recorded>, Unusable> {
    let labels: Vec<Option<bool>> = match need(value, "labels")? {
        list if list.as_items().is_some() => {
            list.as_items().unwrap_or_default().iter().map(PyValue::to_bool).collect()
        }
        array => super::observation::numbers(array).iter().map(|label| Some(*label != 0.0)).collect(),
    };
    let pictures = match need(value, "images")?.as_array() {
        Some(stack) => {
            let rows = (0..stack.shape().first().copied().unwrap_or(0)).map_while(|at| stack.row(at));
            rows.filter_map(|image| Picture::of(&image)).collect()
        }
        None => {
            let images = need_list(value, "images")?.iter();
            images.filter_map(|image| image.as_array().and_then(Picture::of)).collect::<Vec<_>>()
        }
    };
    let uneven = (pictures.len() != labels.len())
        .then(|| format!("{} images for {} labels", pictures.len(), labels.len()));
    if pictures.is_empty() {
        return Err(Unusable::Empty);
    }
    let cameras = vec![Views { name: "images".into(), pictures }];
    Ok(vec![Recorded { unit: Some(Unit::Images), cameras, labels, uneven, ..Recorded::default() }])
}
