//! `train.pt` and `val.pt`: a list of images and a list of labels.

use plaudit_pyfiles::PyValue;

use super::formats::Format;
use super::item::Item;
use super::observation::Columns;
use super::probe::list;
use super::{FileProblem, Recording, Unit, keys};
use crate::convert::Origins;

pub(super) const FORMAT: Format = Format {
    name: "images",
    describe: "labelled images",
    noun: ["split", "splits"],
    has_lengths: false,
    is_at: |probe| Ok(probe.is_file(&["pt", "pth"]) || probe.has_files("pt")?),
    items: |path| {
        let files = if path.is_file() { vec![path.into()] } else { list(path, "pt")? };
        let item = |file: std::path::PathBuf| Item {
            split: file.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
            ..Item::file(file, |value, _| Ok(vec![read(value)?]))
        };
        Ok(files.into_iter().map(item).collect::<Vec<_>>().into())
    },
    location: |entry, _| format!("images[{entry}]"),
    ..Format::EPISODES
};

fn read(value: &PyValue) -> Result<Recording, FileProblem> {
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
        is_loose: origins.is_none(),
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
