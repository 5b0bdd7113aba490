//! One long recording whose frames a person labelled by keyboard: 1, 0, or None for no key.

use plaudit_pyfiles::PyValue;

use super::formats::{Format, SplitUnit};
use super::item::Item;
use super::observation::{Observation, numbers};
use super::probe::pickles;
use super::{FileProblem, LabelledEntry, Recording, keys};

pub(super) const FORMAT: Format = Format {
    name: "keyboard",
    describe: "a recording labelled by keyboard",
    is_at: |probe| Ok(probe.pickle()?.has("observations") && probe.pickle()?.has("labels")),
    items: |path| {
        let files = if path.is_file() { vec![path.into()] } else { pickles(path)? };
        let item = |file| Item::file(file, |value, _| Ok(vec![read(value)?]));
        Ok(files.into_iter().map(item).collect::<Vec<_>>().into())
    },
    split_unit: SplitUnit::Run,
    ..Format::COLLECTED
};

fn read(recording: &PyValue) -> Result<Recording, FileProblem> {
    let observations = keys::need_list(recording, "observations")?;
    let pressed = keys::need_list(recording, "labels")?;
    let label = |(at, label): (usize, &PyValue)| keys::known_label(Some(label), || format!("labels[{at}]"));
    let labels: Vec<Option<bool>> = pressed.iter().enumerate().map(label).collect::<Result<_, _>>()?;
    let (labelled, seen) = (labels.len(), observations.len());
    Ok(Recording {
        observations: observations.iter().cloned().map(Observation::Dict).collect(),
        actions: keys::items(recording, "actions").iter().map(numbers).collect(),
        left_out: labels.iter().map(Option::is_none).collect(),
        success: labels.iter().flatten().copied().reduce(|a, b| a | b),
        labels,
        uneven: (labelled != seen).then(|| format!("{labelled} labels for {seen} observations")),
        ..Recording::default()
    })
}

/// Runs of frames under one key.
pub(crate) fn runs(labelled: Vec<LabelledEntry>) -> Vec<Vec<LabelledEntry>> {
    let follows =
        |last: &LabelledEntry, next: &LabelledEntry| last.success == next.success && last.at + 1 == next.at;
    labelled.chunk_by(follows).map(<[LabelledEntry]>::to_vec).collect()
}
