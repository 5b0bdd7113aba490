//! One line of `events.jsonl`: an event, its time, and the file that holds its image.
//!
//! The event is written as `plaudit_core` spells it, numbers that are not finite among them: a loss that became NaN is
//! exactly what a log is read for.

use plaudit_core::Event;
use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::{Map, Value};

/// When something happened.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Stamp {
    /// Seconds since the epoch, by the wall clock.
    pub wall_secs: f64,
    /// Seconds since the recorder was opened, by a clock that never goes back.
    pub elapsed_secs: f64,
}

/// One event of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When it happened.
    pub stamp: Stamp,
    /// What happened.
    pub event: Event,
    /// The file of its image, relative to the run directory.
    pub file: Option<String>,
}

/// The line for an event, with its newline.
pub(crate) fn write_line(
    stamp: Stamp,
    event: &Event,
    file: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&Written { stamp, event, file })?;
    line.push(b'\n');
    Ok(line)
}

/// The entry of a line; its image, if it has one, stays on disk.
pub(crate) fn read_line(line: &[u8]) -> Result<Entry, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_slice(line)?;
    let stamp = Stamp {
        wall_secs: take(&mut fields, "wall_secs")?,
        elapsed_secs: take(&mut fields, "elapsed_secs")?,
    };
    let file = fields.remove("file").map(serde_json::from_value).transpose()?;
    let event = Event::deserialize(Value::Object(fields))?;
    Ok(Entry { stamp, event, file })
}

fn take(fields: &mut Map<String, Value>, key: &'static str) -> Result<f64, serde_json::Error> {
    let value = fields.remove(key).ok_or_else(|| serde_json::Error::missing_field(key))?;
    serde_json::from_value(value)
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    stamp: Stamp,
    #[serde(flatten)]
    event: &'a Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { wall_secs: 1_785_587_696.25, elapsed_secs: 0.5 };

    fn check(event: &Event, file: Option<&str>, line: &str) {
        let written = write_line(STAMP, event, file).unwrap();
        assert_eq!(String::from_utf8(written.clone()).unwrap(), format!("{line}\n"));
        let entry = read_line(&written).unwrap();
        assert_eq!(entry.stamp, STAMP);
        assert_eq!(entry.file.as_deref(), file);
        assert_eq!(format!("{:?}", entry.event), format!("{event:?}")); // NaN is not equal to itself
    }

    #[test]
    fn lines_are_readable_and_come_back() {
        check(
            &Event::Progress { step: u64::MAX },
            None,
            r#"{"wall_secs":1785587696.25,"elapsed_secs":0.5,"event":"progress","step":18446744073709551615}"#,
        );
        check(
            &Event::Metrics {
                step: 3,
                values: vec![("loss".into(), f64::NAN), ("a".into(), -0.0), ("b".into(), f64::NEG_INFINITY)],
            },
            None,
            r#"{"wall_secs":1785587696.25,"elapsed_secs":0.5,"event":"metrics","step":3,"values":[["loss","NaN"],["a",-0.0],["b","-Infinity"]]}"#,
        );
        check(
            &Event::Image { step: 3, name: "eval/camera".into(), height: 2, width: 4, png: Vec::new() },
            Some("images/00000003-eval_camera.png"),
            r#"{"wall_secs":1785587696.25,"elapsed_secs":0.5,"event":"image","step":3,"name":"eval/camera","height":2,"width":4,"file":"images/00000003-eval_camera.png"}"#,
        );
    }

    #[test]
    fn refuses_what_is_not_an_entry() {
        for line in ["", "{}", "[1]", r#"{"wall_secs":1,"elapsed_secs":0,"event":"danced"}"#] {
            assert!(read_line(line.as_bytes()).is_err(), "{line}");
        }
    }
}
