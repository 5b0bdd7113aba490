//! Labels as data that is trained on: a table, `train.pt`, a LeRobot dataset.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::convert::{ImageOptions, convert_images};
use plaudit_data::export::{ExportFormat, ExportOptions, export};
use plaudit_data::labelling::label_table;
use plaudit_data::lerobot::ImageStorage;
use plaudit_data::recording::{BadFiles, Rules, UnlabelledFrames};
use plaudit_view::write_atomically;
use serde_json::json;

use crate::app::App;
use crate::http::Refusal;
use crate::labels::{TABLE_FILE, lengths};
use crate::library::Dataset;

/// What labels become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExportKind {
    /// The table that every command with data reads.
    Table,
    /// `train.pt` and `val.pt`.
    TrainPt,
    /// A LeRobot dataset with the labels as success.
    Lerobot,
}

impl ExportKind {
    pub(crate) fn of(word: &str) -> Result<Self, Refusal> {
        match word {
            "csv" => Ok(Self::Table),
            "train" => Ok(Self::TrainPt),
            "lerobot" => Ok(Self::Lerobot),
            _ => Err(Refusal::bad("`kind` is csv, train or lerobot")),
        }
    }
}

/// The labels of a dataset as a table. Episodes must have been read, since their lengths are needed.
pub(crate) fn table(app: &App, dataset: &Dataset) -> Result<String, Refusal> {
    let standing = app.labels.standing(dataset)?;
    let lengths = lengths(dataset);
    if let Some(unread) = standing.iter().find(|label| !lengths.contains_key(&label.episode)) {
        if dataset.known() < dataset.len() {
            let (known, all) = (dataset.known(), dataset.len());
            return Err(Refusal::conflict(format!(
                "{known} of {all} episodes were read; try again in a moment"
            )));
        }
        return Err(Refusal::conflict(format!("`{}` has labels, and is not here any more", unread.episode)));
    }
    Ok(label_table(&standing, |episode| lengths.get(episode).copied()))
}

/// Writes the table, and what is made with it. The table is there when this returns; the rest is written on a thread of its own, which
/// tells the pages.
pub(crate) fn start(
    app: &Arc<App>,
    dataset: &Arc<Dataset>,
    kind: ExportKind,
    fps: f64,
) -> Result<PathBuf, Refusal> {
    let text = table(app, dataset)?;
    if text.lines().count() < 2 {
        return Err(Refusal::conflict("nothing is labelled yet"));
    }
    let place = app.labels.place(dataset)?;
    let failed = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
    std::fs::create_dir_all(&place).map_err(|error| failed(&error))?;
    let table = place.join(TABLE_FILE);
    write_atomically(&table, text.as_bytes()).map_err(|error| failed(&error))?;
    let output = match kind {
        ExportKind::Table => return Ok(table),
        ExportKind::TrainPt => free_name(&place, "train_data"),
        ExportKind::Lerobot => free_name(&place, "lerobot"),
    };
    let (app, dataset, wanted) = (app.clone(), dataset.clone(), output.clone());
    let work = move || {
        let made = make(&app, &dataset, kind, &table, &wanted, fps);
        let (words, error) = match made {
            Ok(words) => (Some(words), None),
            Err(why) => (None, Some(why)),
        };
        let place = app.folder.name(&wanted);
        app.events
            .tell("exported", &json!({"d": &*dataset.name, "place": place, "words": words, "error": error}));
    };
    std::thread::Builder::new().name("export".into()).spawn(work).map_err(|error| failed(&error))?;
    Ok(output)
}

/// A name that nothing has yet.
fn free_name(folder: &Path, name: &str) -> PathBuf {
    let names = std::iter::once(name.to_string()).chain((2..).map(|number| format!("{name}_{number}")));
    let mut places = names.map(|name| folder.join(name));
    places.find(|place| !place.exists()).unwrap_or_else(|| folder.join(name))
}

fn make(
    app: &App,
    dataset: &Dataset,
    kind: ExportKind,
    table: &Path,
    output: &Path,
    fps: f64,
) -> Result<String, String> {
    let rules = Rules {
        labels: Some(table.into()),
        bad_files: BadFiles::Skip,
        unlabelled_frames: UnlabelledFrames::LeftOut,
        ..Rules::default()
    };
    match kind {
        ExportKind::Table => Ok(String::new()),
        ExportKind::TrainPt => {
            let options = ImageOptions { rules, ..ImageOptions::default() };
            let parts = ["train.pt", "val.pt"].map(|name| output.join(name));
            let report = convert_images(&dataset.path, &parts[0], &parts[1], &options, &|_| {});
            let report = report.map_err(|error| error.to_string())?;
            let [train, val]: [usize; 2] = [report.train.iter().sum(), report.val.iter().sum()];
            Ok(format!("{train} images to train on, {val} to validate"))
        }
        ExportKind::Lerobot => {
            let format = ExportFormat::LeRobot { images: ImageStorage::Png, robot_type: "unknown".into() };
            let options = ExportOptions { format, fps, rules };
            let report = export(&dataset.path, output, &options, &|done, all| {
                app.events.tell("exporting", &json!({"d": &*dataset.name, "done": done, "all": all}));
            });
            let report = report.map_err(|error| error.to_string())?;
            Ok(format!("{} episodes, {} frames", report.episodes, report.frames))
        }
    }
}
