//! `train.pt` and `val.pt`: a list of images and a list of labels.

use plaudit_pyfiles::PyValue;

use super::observation::Columns;
use super::{FileProblem, Recording, Unit, keys};
use crate::convert::Origins;

pub(super) fn read(value: &PyValue) -> Result<Recording, FileProblem> {
    let labels = keys::zeros_and_ones(keys::need(value, "labels", "the file")?)?;
    let listed = keys::need(value, "images", "the file")?;
    let kind = || FileProblem::Kind { location: "`images`".into(), expected: "list", found: listed.kind() };
    let images = keys::arrays(listed).ok_or_else(kind)?;
    if images.is_empty() {
        return Err(FileProblem::Empty { key: "images" });
    }
    let count = images.len();
    if count != labels.len() {
        return Err(FileProblem::Uneven { images: count, labels: labels.len() });
    }
    let columns = Columns { cameras: vec![("images".into(), images)], main: Some(0), ..Columns::default() };
    let origins = Origins::read(value).filter(|origins| origins.of.len() == count);
    Ok(Recording {
        unit: Unit::Images,
        observations: columns.rows(count),
        labels: labels.into_iter().map(Some).collect(),
        entries: origins.as_ref().map(|origins| origins.of.iter().map(|(_, entry)| *entry).collect()),
        episodes: origins.map(|origins| {
            let of = origins.of.iter().map(|(episode, _)| *episode).collect();
            (origins.episodes, of)
        }),
        ..Recording::default()
    })
}
