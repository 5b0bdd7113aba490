//! A contact sheet: a handful of episodes as one image.

use std::path::Path;

use plaudit_draw::{Canvas, ContactSheet, Group, Rgb, SheetFrame, Tint};

use super::error::InspectError;
use super::open;
use super::recorded::{CameraImages, Recorded};
use super::report::{Report, SheetPick};
use crate::recording::{FileProblem, Item, Rules, Unit};

/// How the sheet is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetOptions {
    /// Frames of each episode: the first, the last, and others evenly between.
    pub columns: usize,
    /// The longer side of a frame in pixels.
    pub side: usize,
    /// How recordings are read: as for the report.
    pub rules: Rules,
}

impl Default for SheetOptions {
    fn default() -> Self {
        Self { columns: 5, side: 128, rules: Rules::default() }
    }
}

/// Draws what a report picked, as a PNG: a row for each episode (or window) under its name, its first frame to its last, with
/// a border that is green where a frame is labelled a success and red where it is not. Of labelled images it shows some of each.
///
/// # Errors
/// When a file is gone, or there are no images at all.
pub fn contact_sheet(path: &Path, report: &Report, options: &SheetOptions) -> Result<Vec<u8>, InspectError> {
    let collection = open(path, &options.rules)?;
    let mut groups = Vec::new();
    let mut units = Vec::new();
    for pick in &report.picks {
        let wrong =
            |error: FileProblem| InspectError::Sheet { why: format!("{}: {}", pick.file, error.with_hint()) };
        let item = collection.items.iter().find(|item| is_of(item, pick));
        let Some(item) = item else { return Err(wrong(FileProblem::Gone)) };
        let read: Vec<Recorded> = item.read().map_err(wrong)?.into_iter().map(Recorded::of).collect();
        if let Some(recorded) = read.get(pick.number) {
            groups.extend(rows(recorded, pick, options).map_err(wrong)?);
            units.push(recorded.unit);
        }
    }
    if groups.is_empty() {
        return Err(InspectError::Sheet { why: "there are no images".into() });
    }
    let sheet = ContactSheet {
        title: title(path, &units, report.episodes, report.frames),
        about: about(&units).into(),
        legend: legend(&groups, &units),
        columns: options.columns.max(1),
        groups,
    };
    Ok(sheet.draw().png())
}

fn is_of(item: &Item, pick: &SheetPick) -> bool {
    item.path.ends_with(&pick.file)
}

/// What the dataset is, and how much of it is shown.
fn title(path: &Path, units: &[Unit], episodes: usize, frames: usize) -> String {
    // Of `logs/run/collected_data` the last two: many datasets have the same last folder.
    let names: Vec<_> = path.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
    let name =
        names.into_iter().rev().filter(|name| name != "/" && name != ".").collect::<Vec<_>>().join("/");
    match units.first() {
        Some(Unit::Images) => format!("{name}: some of {frames} images"),
        Some(Unit::Window) => format!("{name}: {} of {episodes} windows", units.len()),
        _ => format!("{name}: {} of {episodes} episodes", units.len()),
    }
}

fn about(units: &[Unit]) -> &'static str {
    match units.first() {
        Some(Unit::Images) => "Images of each label, evenly spread. The border is the label of the image.",
        Some(Unit::Window) => {
            "Each row is a window, first frame to last. The border is the label of the window."
        }
        _ => {
            "Each row is an episode, first frame to last, evenly spread. The border is the label of the frame."
        }
    }
}

/// What the borders mean that are there.
fn legend(groups: &[Group], units: &[Unit]) -> Vec<(Rgb, String)> {
    let is_windows = units.first() == Some(&Unit::Window);
    let meaning = |tint: Tint| match (tint, is_windows) {
        (Tint::Green, false) => "green: success",
        (Tint::Red, false) => "red: failure",
        (Tint::Green, true) => "green: positive window",
        (Tint::Red, true) => "red: negative window",
        (Tint::Grey | Tint::Plain, false) => "grey: not labelled",
        (Tint::Grey | Tint::Plain, true) => "grey: unclear, or not labelled",
    };
    let is_there =
        |tint: &Tint| groups.iter().flat_map(|group| &group.frames).any(|frame| frame.tint == *tint);
    let tints = [Tint::Green, Tint::Red, Tint::Grey];
    tints.into_iter().filter(is_there).map(|tint| (tint.colour(), meaning(tint).to_string())).collect()
}

/// The rows that one item takes: one, or one for each label of a set of images.
fn rows(recorded: &Recorded, pick: &SheetPick, options: &SheetOptions) -> Result<Vec<Group>, FileProblem> {
    let Some(views) = recorded.cameras.first() else { return Ok(Vec::new()) };
    let count = views.images.len();
    let columns = options.columns.max(1);
    let group = |heading: String, indices: &[usize], at_most: usize| -> Result<Group, FileProblem> {
        let indices = super::spread(indices, Some(at_most.min(indices.len())));
        let frames = indices.into_iter().map(|at| frame(recorded, views, *at, options.side));
        Ok(Group { heading, frames: frames.collect::<Result<_, FileProblem>>()? })
    };
    if recorded.unit != Unit::Images {
        let of_several =
            if recorded.name.is_empty() { String::new() } else { format!(" · {}", recorded.name) };
        let some = if count > columns { format!(" · {count} frames") } else { String::new() };
        let heading = format!("{} · {}{of_several}{some}", pick.label, pick.file);
        return Ok(vec![group(heading, &(0..count).collect::<Vec<_>>(), columns)?]);
    }
    let labelled = |label: Option<bool>| -> Vec<usize> {
        (0..count).filter(|at| recorded.labels.get(*at).copied().flatten() == label).collect()
    };
    [(Some(true), "success"), (Some(false), "failure"), (None, "no label")]
        .map(|(label, word)| (labelled(label), word))
        .into_iter()
        .filter(|(indices, _)| !indices.is_empty())
        .map(|(indices, word)| {
            let heading = format!("{word} · {} · {} images", pick.file, indices.len());
            group(heading, &indices, 2 * columns)
        })
        .collect()
}

fn frame(
    recorded: &Recorded,
    views: &CameraImages,
    at: usize,
    side: usize,
) -> Result<SheetFrame, FileProblem> {
    let image = views.images[at].image()?;
    let what = if recorded.unit == Unit::Images { "image" } else { "frame" };
    Ok(SheetFrame {
        image: Canvas::fitted(image.shape(), &image.pixels()?, side),
        tint: tint(recorded, at),
        caption: vec![format!("{what} {at}")],
    })
}

fn tint(recorded: &Recorded, at: usize) -> Tint {
    match (recorded.labels.get(at).copied().flatten(), recorded.window_label.as_deref()) {
        (Some(true), _) | (None, Some("positive")) => Tint::Green,
        (Some(false), _) | (None, Some("negative")) => Tint::Red,
        _ => Tint::Grey,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Observation, Recording};
    use plaudit_pyfiles::{Array, PyValue};

    #[test]
    fn the_title_names_the_dataset_and_how_much_of_it_is_shown() {
        let cases = [
            ("logs/run/collected_data", Unit::Episode, "run/collected_data: 2 of 40 episodes"),
            ("/episodes", Unit::Window, "episodes: 2 of 40 windows"),
            ("./val.pt", Unit::Images, "val.pt: some of 900 images"),
        ];
        for (path, unit, expected) in cases {
            assert_eq!(title(Path::new(path), &[unit, unit], 40, 900), expected);
        }
    }

    #[test]
    fn rows_say_which_file_and_which_frame_and_colours_have_a_legend() {
        let grey = Array::from_slice(&[2, 2, 3], &[90u8; 12]).unwrap();
        let recorded = |unit| {
            let seen = PyValue::dict([("main_images", grey.clone().into())]);
            Recorded::of(Recording {
                unit,
                labels: vec![Some(false), None, Some(true)],
                observations: vec![Observation::Dict(seen); 3],
                ..Recording::default()
            })
        };
        let pick = SheetPick { file: "rank_0/episode_7.pkl".into(), number: 0, label: "success".into() };
        let options = SheetOptions { columns: 2, side: 8, ..SheetOptions::default() };
        let rows = rows(&recorded(Unit::Episode), &pick, &options).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].heading, "success · rank_0/episode_7.pkl · 3 frames");
        let shown: Vec<_> =
            rows[0].frames.iter().map(|frame| (frame.tint, frame.caption.join(" "))).collect();
        assert_eq!(shown, [(Tint::Red, "frame 0".into()), (Tint::Green, "frame 2".into())]);
        let words: Vec<String> =
            legend(&rows, &[Unit::Episode]).into_iter().map(|(_, words)| words).collect();
        assert_eq!(words, ["green: success", "red: failure"], "grey is not there");

        let headings: Vec<String> = super::rows(&recorded(Unit::Images), &pick, &options)
            .unwrap()
            .into_iter()
            .map(|row| row.heading)
            .collect();
        let expected = ["success", "failure", "no label"]
            .map(|word| format!("{word} · rank_0/episode_7.pkl · 1 images"));
        assert_eq!(headings, expected);
    }
}
