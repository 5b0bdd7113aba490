//! The lines of `segments.jsonl`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use plaudit_pyfiles::plain_file;

use super::error::{LineProblem, WindowsError};
use super::{WindowReadOptions, WindowRow};

/// A line has a prompt, some paths and some numbers. A longer one would be a prompt that no model takes.
pub(crate) const LINE_BYTES: u64 = 1 << 18;

const MANIFEST: &str = "segments.jsonl";

pub(super) fn rows(path: &Path, options: &WindowReadOptions) -> Result<Vec<WindowRow>, WindowsError> {
    let path = if path.is_dir() { path.join(MANIFEST) } else { path.to_path_buf() };
    let lines = plain_file::lines(&path, LINE_BYTES)
        .map_err(|source| WindowsError::Manifest { path: path.clone(), source })?;
    let mut rows: Vec<WindowRow> = Vec::new();
    for (line, text) in lines {
        let wrong = |problem| WindowsError::Line { path: path.clone(), line, problem };
        let text = text.map_err(|error| wrong(LineProblem::Unreadable(error)))?;
        if !text.trim().is_empty() {
            rows.push(row(&path, &text, options).map_err(wrong)?);
        }
    }
    if rows.is_empty() { Err(WindowsError::Empty { path }) } else { Ok(rows) }
}

fn row(manifest: &Path, line: &str, options: &WindowReadOptions) -> Result<WindowRow, LineProblem> {
    let value: Value = serde_json::from_str(line).map_err(LineProblem::Json)?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let prompt = text(&options.prompt_key).or_else(|| text("question"));
    let prompt = prompt.ok_or_else(|| LineProblem::NoQuestion { key: options.prompt_key.clone() })?;
    let said = text(&options.answer_key).or_else(|| text("label"));
    let said = said.or_else(|| Some(value.get("supervision")?.get("label")?.as_str()?.to_owned()));
    let said = said.ok_or_else(|| LineProblem::NoAnswer { key: options.answer_key.clone() })?;
    let answer = options.answers.iter().position(|answer| *answer == said.trim().to_lowercase());
    let answer = answer.ok_or_else(|| LineProblem::Answer { said, answers: options.answers.join(", ") })?;
    let Some(written) = text("pkl_path") else {
        let clips = ["video_clip", "full_video", "clip_path"];
        return Err(match clips.into_iter().find(|key| value.get(*key).is_some()) {
            Some(key) => LineProblem::Video { key },
            None => LineProblem::NoPickle,
        });
    };
    let segment = value.get("segment_metadata");
    let count = |key: &str| segment.and_then(|part| Some(part.get(key)?.as_u64()? as usize));
    Ok(WindowRow {
        prompt,
        answer,
        pickle: locate(manifest, &written, options.data_root.as_deref())
            .ok_or(LineProblem::Gone { written })?,
        episode: text("source_episode_path"),
        size: count("window_size"),
        start: count("start_step"),
        progress: value.get("supervision").and_then(|known| known.get("score")?.as_f64()),
    })
}

/// Manifests have absolute paths, and folders move: as written, below the root of the data, or beside the manifest.
pub(crate) fn locate(manifest: &Path, written: &str, data_root: Option<&Path>) -> Option<PathBuf> {
    let plain = Path::new(written);
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let below_data = written.find("data/").map(|at| &written[at..]);
    let in_root = data_root.iter().flat_map(|root| {
        let below = below_data.map(|below| root.join(below));
        below.into_iter().chain(plain.is_relative().then(|| root.join(plain)))
    });
    let beside = plain.file_name().map(|name| folder.join("pkl").join(name));
    let candidates = std::iter::once(plain.to_path_buf()).chain(in_root).chain(beside);
    candidates.into_iter().find(|path| path.is_file())
}
