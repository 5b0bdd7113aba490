//! What one moment showed: images and a state.

use crate::inspect::picture::Picture;
use crate::inspect::recorded::Recorded;
use crate::python::{Array, DType, PyValue};

/// Adds the images and the state of an observation.
pub(super) fn observe(recorded: &mut Recorded, observation: &PyValue) {
    let Some(dict) = observation.as_dict() else { return };
    for (key, value) in dict.iter() {
        let (Some(key), Some(array)) = (key.as_str(), value.as_array()) else { continue };
        if matches!(key, "states" | "state") {
            recorded.states.push(numbers(value));
        } else if is_pixels(key, array) {
            see(recorded, key, array);
        }
    }
}

/// One image, or several views of one moment.
fn see(recorded: &mut Recorded, key: &str, array: &Array) {
    match *array.shape() {
        [views, _, _, _] if views > 1 => {
            for at in 0..views {
                let picture = array.row(at).as_ref().and_then(Picture::of);
                picture.into_iter().for_each(|picture| recorded.see(&format!("{key}[{at}]"), picture));
            }
        }
        _ => Picture::of(array).into_iter().for_each(|picture| recorded.see(key, picture)),
    }
}

/// Bytes in three axes are pixels; floats are when they are called so.
fn is_pixels(key: &str, array: &Array) -> bool {
    let called_so =
        || ["image", "camera", "rgb", "view", "frame", "pixels"].iter().any(|word| key.contains(word));
    let floats = matches!(array.dtype(), DType::F16 | DType::F32 | DType::F64 | DType::Bf16);
    array.shape().len() >= 3 && (array.dtype() == DType::U8 || floats && called_so())
}

/// All numbers of an array, or the one number that it is; none where it is neither.
pub(super) fn numbers(value: &PyValue) -> Vec<f32> {
    match value.as_array() {
        Some(array) => array.to_f32().unwrap_or_default(),
        None => match value.as_items() {
            Some(items) => items.iter().filter_map(PyValue::to_f64).map(|number| number as f32).collect(),
            None => value.to_f64().map(|number| number as f32).into_iter().collect(),
        },
    }
}
