//! Every format's files as [`Recorded`](super::recorded::Recorded) things.

mod episode;
mod images;
mod lerobot;
mod observation;
mod recordings;
mod stored;
mod trajectory;
mod windows;

pub(super) use images::images;
pub(super) use lerobot::lerobot;
pub(super) use recordings::{outcome_name, recordings};
pub(super) use stored::stored;
pub(super) use trajectory::trajectory;
pub(super) use windows::{manifests, window};

use super::error::Unusable;
use crate::python::PyValue;

/// A value that must be there.
fn need<'a>(value: &'a PyValue, key: &'static str) -> Result<&'a PyValue, Unusable> {
    value.get(key).ok_or_else(|| Unusable::Missing { key, has: keys(value) })
}

/// A list that must be there and have entries.
fn need_list<'a>(value: &'a PyValue, key: &'static str) -> Result<&'a [PyValue], Unusable> {
    match need(value, key)?.as_items() {
        Some([]) => Err(Unusable::Empty),
        Some(items) => Ok(items),
        None => Err(Unusable::Missing { key, has: format!("a {} of that name", need(value, key)?.kind()) }),
    }
}

/// A list that may be there.
fn items<'a>(value: &'a PyValue, key: &str) -> &'a [PyValue] {
    value.get(key).and_then(PyValue::as_items).unwrap_or_default()
}

fn keys(value: &PyValue) -> String {
    match value.as_dict() {
        Some(dict) if dict.is_empty() => "nothing".into(),
        Some(dict) => {
            dict.iter().take(8).map(|(key, _)| key.as_str().unwrap_or("?")).collect::<Vec<_>>().join(", ")
        }
        None => format!("a {}", value.kind()),
    }
}
