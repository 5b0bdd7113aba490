//! Videos and images of runs, inside the page while they are small enough.

use std::path::{Path, PathBuf};

use super::{Experiment, ReportError, Run, all, folder};
use crate::page::{Html, data_url, escape};

/// Larger files are named instead of shown.
const FILE_LIMIT: u64 = 1 << 20;
/// So many of each kind, the newest.
const SHOWN: usize = 4;

/// Shows what was not `shown_already`.
pub(super) fn show(
    body: &mut Html,
    experiments: &[Experiment],
    shown_already: &[PathBuf],
) -> Result<(), ReportError> {
    let mut inside = Html::default();
    let mut count = 0;
    for run in all(experiments) {
        let mut videos = files(&run.dir.video(), &["png", "apng", "mp4"])?;
        videos.retain(|video| !shown_already.contains(video));
        let images = files(&run.dir.images(), &["png"])?;
        let files: Vec<PathBuf> = newest(videos).into_iter().chain(newest(images)).collect();
        count += files.len();
        of_run(&mut inside, run, &files)?;
    }
    if count > 0 {
        body.heading("More videos and images");
        body.folded("Show them", &format!("{count}, the newest of each run"), &inside);
    }
    Ok(())
}

fn of_run(body: &mut Html, run: &Run, files: &[PathBuf]) -> Result<(), ReportError> {
    if files.is_empty() {
        return Ok(());
    }
    body.subheading(&folder(run)).raw("<div class=\"grid\">");
    for path in files {
        let name = path.strip_prefix(run.dir.path()).unwrap_or(path).display().to_string();
        body.raw(&format!(
            "<figure>{}<figcaption>{}</figcaption></figure>",
            shown(path, &name)?,
            escape(&name)
        ));
    }
    body.raw("</div>");
    Ok(())
}

fn shown(path: &Path, name: &str) -> Result<String, ReportError> {
    let read = |source| ReportError::Read { path: path.into(), source };
    if std::fs::metadata(path).map_err(read)?.len() > FILE_LIMIT {
        return Ok("<p class=\"soft\">too large for this page; it is in the run directory</p>".into());
    }
    let bytes = std::fs::read(path).map_err(read)?;
    let name = escape(name);
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("mp4") => {
            format!(
                "<video controls muted loop src=\"{}\" aria-label=\"{name}\"></video>",
                data_url("video/mp4", &bytes)
            )
        }
        _ => format!("<img src=\"{}\" alt=\"{name}\">", data_url("image/png", &bytes)),
    })
}

/// Files of these kinds in a folder and the folders in it, in order of name.
pub(super) fn files(folder: &Path, kinds: &[&str]) -> Result<Vec<PathBuf>, ReportError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(ReportError::Read { path: folder, source }),
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_kind =
                path.extension().is_some_and(|extension| kinds.iter().any(|kind| extension == *kind));
            // A link could lead anywhere, in circles too.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && is_kind => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

fn newest(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.split_off(files.len().saturating_sub(SHOWN))
}
