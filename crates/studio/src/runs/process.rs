//! Runs in processes of their own, which go on when the studio ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::app::App;
use crate::backend::Work;
use crate::http::Refusal;

/// Where runs go that are started here, below the folder, and where what they say goes.
pub(crate) const RUNS_FOLDER: &str = "logs";
const OUTPUT_FOLDER: &str = "output";
/// How much of what a run said last is repeated when it fails.
const LAST_WORDS: usize = 1200;

/// A run directory that nothing has yet.
pub(crate) fn free_run(app: &App, name: &str) -> Result<PathBuf, Refusal> {
    let logs = app.folder.root().join(RUNS_FOLDER);
    if logs.symlink_metadata().is_ok() && app.folder.inside(&logs).is_none() {
        return Err(Refusal::forbidden(format!("`{RUNS_FOLDER}` leads out of this folder")));
    }
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let names = std::iter::once(name.clone()).chain((2..10_000).map(|number| format!("{name}_{number}")));
    let is_free =
        |path: &PathBuf| path.symlink_metadata().is_err() && output_of(path).symlink_metadata().is_err();
    let free = names.map(|name| logs.join(name)).find(is_free);
    free.ok_or_else(|| Refusal::conflict("there are too many runs of this name"))
}

/// Where a run's words go.
pub(crate) fn output_of(run: &Path) -> PathBuf {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let folder = run.parent().unwrap_or(run);
    folder.join(OUTPUT_FOLDER).join(format!("{name}.txt"))
}

/// Starts work, and tells pages when it has ended. `done` is called after a success.
pub(crate) fn start(
    app: &Arc<App>,
    work: &Work,
    done: impl FnOnce(&App) + Send + 'static,
) -> Result<String, Refusal> {
    start_until_end(app, work, move |app, is_done| {
        if is_done {
            done(app);
        }
    })
}

/// The same; `ended` is called whatever ends it, with whether that was a success.
pub(crate) fn start_until_end(
    app: &Arc<App>,
    work: &Work,
    ended: impl FnOnce(&App, bool) + Send + 'static,
) -> Result<String, Refusal> {
    let backend = app.backend.as_ref().ok_or_else(|| Refusal::conflict("this studio starts no runs"))?;
    let (Work::Recipe { run, .. }
    | Work::Resume { run, .. }
    | Work::Branch { run, .. }
    | Work::Retrain { run, .. }
    | Work::Robot { run, .. }) = work;
    let (run, output) = (app.folder.name(run), output_of(run));
    let mut child = backend.start(work, app.folder.root(), &output).map_err(Refusal::bad)?;
    let (app, name) = (app.clone(), run.clone());
    // Whoever starts a process looks after its end; it goes on without anybody.
    let wait = move || {
        let is_done = child.wait().is_ok_and(|status| status.success());
        app.runs.look();
        ended(&app, is_done);
        let said = if is_done { None } else { Some(last_words(&output)) };
        app.events.tell(
            "ended",
            &json!({"run": name, "done": is_done, "said": said, "output": app.folder.name(&output)}),
        );
    };
    std::thread::Builder::new()
        .name("run".into())
        .spawn(wait)
        .map_err(|error| Refusal::failed(error.to_string()))?;
    Ok(run)
}

/// What a run said last.
pub(crate) fn last_words(output: &Path) -> String {
    let text = std::fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(1 << 16)..]).into_owned();
    let errors = text.rfind('×').map_or(text.as_str(), |at| &text[at..]);
    let words = errors.replace(['│', '×', '╰', '╭', '─', '▶'], " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LAST_WORDS).collect()
}
