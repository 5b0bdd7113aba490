//! Labels that somebody wrote down beside a dataset: a table of `episode,label`, or of `episode,start,end,label`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_pyfiles::{Access, Buffer};
use serde_json::{Map, Value};

use super::error::OpenError;
use super::item::Item;
use super::{FileProblem, Recording};

/// Bytes of the largest table that is read.
const MOST_BYTES: usize = 64 << 20;

/// What a row says of its episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowLabel {
    /// From which frame up to which, that one left out; nothing where it is the whole episode.
    span: Option<(usize, Option<usize>)>,
    success: bool,
    line: usize,
}

/// A table: the name of an episode as it is written, and what is said of it.
#[derive(Debug)]
pub(super) struct LabelTable {
    path: PathBuf,
    rows: Vec<(String, RowLabel)>,
}

impl LabelTable {
    /// Reads a `.csv`, `.json` or `.jsonl`.
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Read { path: path.into(), source };
        let bytes = Buffer::open(path, Access::Copy).map_err(failed)?;
        let at = |(line, why): (usize, String)| OpenError::Labels { path: path.into(), line, why };
        if bytes.len() > MOST_BYTES {
            return Err(at((1, format!("{} bytes, and a table has {MOST_BYTES} at most", bytes.len()))));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| at((1, error.to_string())))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let rows = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => json_rows(text),
            Some("jsonl") => jsonl_rows(text),
            _ => csv_rows(text),
        };
        Ok(Self { path: path.into(), rows: rows.map_err(at)? })
    }

    /// Gives every row to its item: by the item's name, with its file or folder before it where several have that name, or
    /// by which item it is, counted from 0, where none is called so.
    pub(super) fn give(self, items: &mut [Item]) -> Result<(), OpenError> {
        let mut named: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            for name in item.names() {
                named.entry(name).or_default().push(at);
            }
        }
        let mut of: Vec<Vec<RowLabel>> = vec![Vec::new(); items.len()];
        for (name, label) in self.rows {
            let by_number = || name.parse().ok().filter(|at| *at < items.len());
            let found = match named.get(&name).map(Vec::as_slice) {
                Some([one]) => Ok(*one),
                Some(several) => Err(format!(
                    "{} episodes are called `{name}`; write the file or folder before it, as in `{}`",
                    several.len(),
                    items[several[0]].full_name()
                )),
                None => by_number().ok_or_else(|| {
                    let first: Vec<String> = items.iter().take(3).map(Item::full_name).collect();
                    format!(
                        "no episode is called `{name}`; the first of {} are {}",
                        items.len(),
                        first.join(", ")
                    )
                }),
            };
            let wrong = |why| OpenError::Labels { path: self.path.clone(), line: label.line, why };
            of[found.map_err(wrong)?].push(label);
        }
        for (item, rows) in items.iter_mut().zip(of).filter(|(_, rows)| !rows.is_empty()) {
            item.table = Some(Arc::from(rows));
        }
        Ok(())
    }
}

/// Puts the labels of a table in the place of what the recording says.
///
/// A row of a whole episode that failed makes every frame a failure; one that succeeded does not say where. Frames that no
/// interval names are left out.
pub(super) fn apply(rows: &[RowLabel], recording: &mut Recording) -> Result<(), FileProblem> {
    let count = recording.observations.len();
    let mut labels: Vec<Option<bool>> = vec![None; count];
    let mut said = None;
    for row in rows {
        let (start, end) = match row.span {
            None => {
                said = Some(row.success);
                (0, if row.success { 0 } else { count })
            }
            Some((start, end)) => (start, end.unwrap_or(count)),
        };
        if start > end || end > count {
            let why = format!("frames {start} to {end} of an episode that has {count}");
            return Err(FileProblem::Line { line: row.line, why });
        }
        for label in &mut labels[start..end] {
            if label.is_some_and(|label| label != row.success) {
                let why = format!("another line says otherwise of frames between {start} and {end}");
                return Err(FileProblem::Line { line: row.line, why });
            }
            *label = Some(row.success);
        }
    }
    let once = labels.iter().flatten().copied().reduce(|a, b| a | b);
    if once.is_some() {
        recording.left_out = labels.iter().map(Option::is_none).collect();
    }
    (recording.success, recording.labels) = (said.or(once), labels);
    recording.unlabelled =
        recording.unlabelled.take().filter(|problem| !matches!(problem, FileProblem::NoLabels));
    Ok(())
}

type Rows = Result<Vec<(String, RowLabel)>, (usize, String)>;

fn csv_rows(text: &str) -> Rows {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| cells(line)).unwrap_or_default();
    let column = |name: &str| header.iter().position(|cell| cell == name);
    let (Some(episode), Some(label)) = (column("episode"), column("label").or_else(|| column("success")))
    else {
        let why = format!(
            "the first line is `episode,label` or `episode,start,end,label`, not `{}`",
            header.join(",")
        );
        return Err((1, why));
    };
    let (start, end) = (column("start"), column("end"));
    let row = |(at, line): (usize, &str)| {
        let cells = cells(line);
        let cell = |column: Option<usize>| column.and_then(|at| cells.get(at)).map_or("", String::as_str);
        let found =
            row_label(cell(start), cell(end), cell(Some(label)), at + 1).map_err(|why| (at + 1, why))?;
        Ok((cell(Some(episode)).to_owned(), found))
    };
    lines.map(row).collect()
}

/// The cells of a line. A cell in quotes may have commas, and quotes as two of them.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        let cell = cells.last_mut();
        match (sign, quoted) {
            ('"', true) if signs.peek() == Some(&'"') => {
                signs.next();
                cell.into_iter().for_each(|cell| cell.push('"'));
            }
            ('"', _) => quoted = !quoted,
            (',', false) => cells.push(String::new()),
            (sign, _) => cell.into_iter().for_each(|cell| cell.push(sign)),
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn jsonl_rows(text: &str) -> Rows {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(at, line): (usize, &str)| {
        let object: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()))?;
        json_row(&object, at + 1)
    };
    lines.map(row).collect()
}

/// A list of rows, or an object of labels by episode.
fn json_rows(text: &str) -> Rows {
    let value: Value = serde_json::from_str(text).map_err(|error| (error.line(), error.to_string()))?;
    let expected = "a list of {\"episode\", \"label\"}, or an object of labels by episode";
    match value {
        Value::Array(rows) => {
            let row = |(at, row): (usize, Value)| match row {
                Value::Object(object) => json_row(&object, at + 1),
                other => Err((at + 1, format!("{other} is no row: {expected}"))),
            };
            rows.into_iter().enumerate().map(row).collect()
        }
        Value::Object(labels) => {
            let row = |(at, (episode, label)): (usize, (String, Value))| {
                Ok((episode, row_label("", "", &plain(&label), at + 1).map_err(|why| (at + 1, why))?))
            };
            labels.into_iter().enumerate().map(row).collect()
        }
        other => Err((1, format!("{other} is no table: {expected}"))),
    }
}

fn json_row(object: &Map<String, Value>, line: usize) -> Result<(String, RowLabel), (usize, String)> {
    let cell = |key: &str| object.get(key).map(plain).unwrap_or_default();
    let label = if object.contains_key("label") { cell("label") } else { cell("success") };
    let episode = cell("episode");
    if episode.is_empty() {
        return Err((line, "it has no `episode`".into()));
    }
    Ok((episode, row_label(&cell("start"), &cell("end"), &label, line).map_err(|why| (line, why))?))
}

/// A value as a table would have it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn row_label(start: &str, end: &str, label: &str, line: usize) -> Result<RowLabel, String> {
    let frame = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("`{text}` is no frame: they are counted from 0")),
    };
    let span = match (frame(start)?, frame(end)?) {
        (None, None) => None,
        (start, end) => Some((start.unwrap_or(0), end)),
    };
    let success = match label.to_ascii_lowercase().as_str() {
        "1" | "1.0" | "true" | "success" => true,
        "0" | "0.0" | "false" | "failure" | "fail" => false,
        _ => return Err(format!("`{label}` is no label: 1, true or success; 0, false or failure")),
    };
    Ok(RowLabel { span, success, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_people_write_them() {
        let row = |span, success, line| RowLabel { span, success, line };
        let whole = [("a".to_string(), row(None, true, 2)), ("b, c".into(), row(None, false, 3))];
        assert_eq!(csv_rows("episode,label\na, success\n\"b, c\",0\n").unwrap(), whole);
        assert_eq!(csv_rows("label,episode\nTrue,a\nfail,\"b, c\"\n").unwrap(), whole);
        let spans = [
            ("a".to_string(), row(Some((3, Some(5))), true, 2)),
            ("a".into(), row(Some((0, None)), false, 3)),
        ];
        assert_eq!(csv_rows("episode,start,end,label\na,3,5,1\na,0,,0\n").unwrap(), spans);
        let lines = "\n{\"episode\": \"a\", \"start\": 3, \"end\": 5, \"label\": true}\n{\"episode\": \"a\", \"start\": 0, \"label\": 0}";
        assert_eq!(jsonl_rows(lines).unwrap(), spans);
        assert_eq!(json_rows("{\"a\": 1}").unwrap(), [("a".to_string(), row(None, true, 1))]);
        assert_eq!(
            json_rows("[{\"episode\": 7, \"success\": false}]").unwrap(),
            [("7".to_string(), row(None, false, 1))]
        );
    }

    #[test]
    fn what_is_no_label_is_named_with_its_line() {
        for (text, line, what) in [
            ("name,label\na,1\n", 1, "episode,start,end,label"),
            ("episode,label\na,1\nb,perhaps\n", 3, "`perhaps` is no label"),
            ("episode,start,end,label\na,-1,3,1\n", 2, "`-1` is no frame"),
            ("", 1, "the first line"),
        ] {
            let (at, why) = csv_rows(text).unwrap_err();
            assert!(at == line && why.contains(what), "{at}: {why}");
        }
        assert!(json_rows("3").is_err() && json_rows("[3]").is_err() && jsonl_rows("{}").is_err());
    }
}
