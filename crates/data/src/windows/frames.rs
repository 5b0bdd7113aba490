//! The frames in a window's pickle.

use plaudit_pyfiles::{self as pyfiles, Array, DType, PyValue};

use super::error::{WindowProblem, WindowsError};
use super::{WindowRow, WindowViews};

/// A frame of a window: height, width, and red, green and blue of each pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowFrame {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Three bytes for each pixel.
    pub rgb: Vec<u8>,
}

const MAIN: &str = "main_frames";
const EXTRA: &str = "extra_view_frames";

pub(super) fn read(row: &WindowRow, views: WindowViews) -> Result<Vec<Vec<WindowFrame>>, WindowsError> {
    let value = pyfiles::read(&row.pickle)
        .map_err(|source| WindowsError::Pickle { path: row.pickle.clone(), source })?;
    let wrong = |problem| WindowsError::Window { path: row.pickle.clone(), problem };
    let keys = view_keys(&value, views);
    keys.iter().map(|key| view(&value, key, row.size)).collect::<Result<_, _>>().map_err(wrong)
}

/// The views of a pickle. Those of further cameras are numbered.
fn view_keys(value: &PyValue, views: WindowViews) -> Vec<String> {
    let mut keys = vec![MAIN.to_owned()];
    if views == WindowViews::All {
        keys.push(EXTRA.into());
        let all = value.as_dict().into_iter().flat_map(|dict| dict.iter());
        let names = all.filter_map(|(key, _)| key.as_str());
        keys.extend(names.filter(|key| is_further(key)).map(str::to_owned));
    }
    keys
}

fn is_further(key: &str) -> bool {
    let number = key.strip_prefix("extra_view_").and_then(|rest| rest.strip_suffix("_frames"));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

fn view(value: &PyValue, key: &str, size: Option<usize>) -> Result<Vec<WindowFrame>, WindowProblem> {
    let Some(items) = value.get(key).and_then(PyValue::as_items) else {
        return Err(WindowProblem::NoView { key: key.into(), is_extra: key == EXTRA });
    };
    let expected = size.unwrap_or(1).max(1);
    if items.len() < expected {
        return Err(WindowProblem::Short { key: key.into(), found: items.len(), expected });
    }
    let frame = |(at, item): (usize, &PyValue)| {
        let array = item.as_array().ok_or_else(|| format!("is {}, no array", item.kind()));
        array.and_then(rgb).map_err(|what| WindowProblem::Frame { key: key.into(), at, what })
    };
    items.iter().enumerate().map(frame).collect()
}

/// Bytes of height, width and colour; grey becomes colour, and a fourth channel is left out.
fn rgb(array: &Array) -> Result<WindowFrame, String> {
    if array.dtype() != DType::U8 {
        return Err(format!("is of {:?}; frames are bytes", array.dtype()));
    }
    let (height, width, channels) = match *array.shape() {
        [height, width] => (height, width, 1),
        [height, width, channels @ (1 | 3 | 4)] => (height, width, channels),
        ref other => return Err(format!("is of shape {other:?}; frames are height, width and 3")),
    };
    let bytes = array.bytes();
    let rgb = match channels {
        1 => bytes.iter().flat_map(|grey| [*grey; 3]).collect(),
        3 => bytes.to_vec(),
        _ => bytes.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    Ok(WindowFrame { height, width, rgb })
}
