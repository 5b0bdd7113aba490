//! The lines of `segments.jsonl`.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use plaudit_pyfiles::plain_file;

use super::error::{LineProblem, WindowsError};
use super::{Objective, WindowReadOptions, WindowRow};

/// A line has a prompt, some paths and some numbers. A longer one would be a prompt that no model takes.
const LINE_BYTES: u64 = 1 << 18;

pub(crate) const MANIFEST: &str = "segments.jsonl";

/// What the lines of a manifest say, each with its number from 1. Blank lines do not count.
pub(crate) fn lines(
    manifest: &Path,
) -> io::Result<impl Iterator<Item = (usize, Result<Value, LineProblem>)> + use<>> {
    let lines = plain_file::lines(manifest, LINE_BYTES)?;
    let said = lines.filter(|(_, line)| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
    Ok(said.map(|(number, line)| {
        let line = line.map_err(LineProblem::Unreadable);
        (number, line.and_then(|line| serde_json::from_str(&line).map_err(LineProblem::Json)))
    }))
}

/// The answer of a line.
pub(crate) fn answer<'a>(line: &'a Value, key: &str) -> Option<&'a str> {
    let text = |key: &str| line.get(key).and_then(Value::as_str);
    text(key).or_else(|| text("label")).or_else(|| line.get("supervision")?.get("label")?.as_str())
}

/// Where a line says its frames are.
pub(crate) fn pickle(line: &Value) -> Result<&str, LineProblem> {
    let clip = || ["video_clip", "full_video", "clip_path"].into_iter().find(|key| line.get(*key).is_some());
    let missing = || clip().map_or(LineProblem::NoPickle, |key| LineProblem::Video { key });
    line.get("pkl_path").and_then(Value::as_str).ok_or_else(missing)
}

pub(super) fn rows(path: &Path, options: &WindowReadOptions) -> Result<Vec<WindowRow>, WindowsError> {
    let path = if path.is_dir() { path.join(MANIFEST) } else { path.to_path_buf() };
    let lines = lines(&path).map_err(|source| WindowsError::Manifest { path: path.clone(), source })?;
    let mut rows: Vec<WindowRow> = Vec::new();
    for (line, said) in lines {
        let row = said.and_then(|said| row(&path, &said, options));
        rows.push(row.map_err(|problem| WindowsError::Line { path: path.clone(), line, problem })?);
    }
    if rows.is_empty() { Err(WindowsError::Empty { path }) } else { Ok(rows) }
}

fn row(manifest: &Path, value: &Value, options: &WindowReadOptions) -> Result<WindowRow, LineProblem> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let prompt = text(&options.prompt_key).or_else(|| text("question"));
    let prompt = prompt.ok_or_else(|| LineProblem::NoQuestion { key: options.prompt_key.clone() })?;
    let said = answer(value, &options.answer_key);
    let said = said.ok_or_else(|| LineProblem::NoAnswer { key: options.answer_key.clone() })?;
    let objective = objective(value, options)?;
    let answers = objective.answers();
    let answer = answers.iter().position(|answer| *answer == said.trim().to_lowercase());
    let answer =
        answer.ok_or_else(|| LineProblem::Answer { said: said.into(), answers: answers.join(", ") })?;
    let written = pickle(value)?;
    let segment = value.get("segment_metadata");
    let count = |key: &str| segment.and_then(|part| Some(part.get(key)?.as_u64()? as usize));
    Ok(WindowRow {
        prompt,
        objective,
        answer,
        pickle: locate(manifest, written, options.data_root.as_deref())
            .ok_or_else(|| LineProblem::Gone { written: written.into() })?,
        episode: text("source_episode_path"),
        size: count("window_size"),
        start: count("start_step"),
        progress: value.get("supervision").and_then(|known| known.get("score")?.as_f64()),
    })
}

/// What a line asks for: the trend, if it does not say.
fn objective(line: &Value, options: &WindowReadOptions) -> Result<Objective, LineProblem> {
    let Some(said) = line.get("objective") else { return Ok(Objective::Trend) };
    let known = Objective::ALL.into_iter().find(|objective| said.as_str() == Some(objective.name()));
    let names = |some: &[Objective]| some.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
    match known {
        Some(objective) if options.objectives.contains(&objective) => Ok(objective),
        Some(objective) => {
            let expected = names(&options.objectives);
            Err(LineProblem::OtherObjective { objective: objective.name(), expected })
        }
        None => Err(LineProblem::Objective { said: said.to_string(), known: names(&Objective::ALL) }),
    }
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
