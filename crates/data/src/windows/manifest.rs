//! The lines of `segments.jsonl`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::WindowsError;
use super::{WindowReading, WindowRow};

const MANIFEST: &str = "segments.jsonl";

pub(super) fn rows(path: &Path, reading: &WindowReading) -> Result<Vec<WindowRow>, WindowsError> {
    let path = if path.is_dir() { path.join(MANIFEST) } else { path.to_path_buf() };
    let text =
        fs::read_to_string(&path).map_err(|source| WindowsError::Manifest { path: path.clone(), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let rows = lines.map(|(at, line)| {
        let wrong = |problem| WindowsError::Line { path: path.clone(), line: at + 1, problem };
        row(&path, line, reading).map_err(wrong)
    });
    let rows: Vec<WindowRow> = rows.collect::<Result<_, _>>()?;
    if rows.is_empty() { Err(WindowsError::Empty { path }) } else { Ok(rows) }
}

fn row(manifest: &Path, line: &str, reading: &WindowReading) -> Result<WindowRow, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}"))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let prompt = text(&reading.prompt_key).or_else(|| text("question"));
    let prompt = prompt.ok_or_else(|| {
        format!("has no `{}`; name the question's key with data.prompt_key", reading.prompt_key)
    })?;
    let said = text(&reading.answer_key).or_else(|| text("label"));
    let said = said.or_else(|| Some(value.get("supervision")?.get("label")?.as_str()?.to_owned()));
    let said = said.ok_or_else(|| {
        format!("has no `{}`; name the answer's key with data.answer_key", reading.answer_key)
    })?;
    let answer = reading.answers.iter().position(|answer| *answer == said.trim().to_lowercase());
    let answer =
        answer.ok_or_else(|| format!("the answer is `{said}`, not one of {}", reading.answers.join(", ")))?;
    let Some(written) = text("pkl_path") else {
        let clips = ["video_clip", "full_video", "clip_path"];
        return Err(match clips.iter().find(|key| value.get(**key).is_some()) {
            Some(key) => format!(
                "shows a video file (`{key}`), and only frames in pickles are read; make windows with `plaudit dataset windows`"
            ),
            None => "has no `pkl_path`".into(),
        });
    };
    let segment = value.get("segment_metadata");
    let count = |key: &str| segment.and_then(|part| Some(part.get(key)?.as_u64()? as usize));
    Ok(WindowRow {
        prompt,
        answer,
        pickle: locate(manifest, &written, reading)?,
        episode: text("source_episode_path"),
        size: count("window_size"),
        start: count("start_step"),
        progress: value.get("supervision").and_then(|known| known.get("score")?.as_f64()),
    })
}

/// Manifests have absolute paths, and folders move: as written, below the root of the data, or beside the manifest.
fn locate(manifest: &Path, written: &str, reading: &WindowReading) -> Result<PathBuf, String> {
    let plain = Path::new(written);
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let below_data = written.find("data/").map(|at| &written[at..]);
    let in_root = reading.data_root.iter().flat_map(|root| {
        let below = below_data.map(|below| root.join(below));
        below.into_iter().chain(plain.is_relative().then(|| root.join(plain)))
    });
    let beside = plain.file_name().map(|name| folder.join("pkl").join(name));
    let places = std::iter::once(plain.to_path_buf()).chain(in_root).chain(beside);
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        format!("`{written}` is not there, nor in data.data_root, nor in pkl/ beside the manifest; was the folder moved?")
    })
}
