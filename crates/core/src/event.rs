//! Events of a run. The training loop emits them; logs, terminals and reports read them.

use serde::{Deserialize, Serialize};

/// Something that happened in a run. Recorders add the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began, or began again after a pause.
    Started {
        /// Its name, as in the run directory.
        name: String,
        /// What it does: `train`, `eval`, `collect`, …
        job: String,
        /// What a step is, in the plural: `episodes`, `updates`, …
        unit: String,
        /// The step it starts from: 0, or where it was resumed.
        step: u64,
        /// The step it will end at, when that is known.
        steps: Option<u64>,
    },
    /// Work moved on. Cheap and frequent; views may skip any but the last.
    Progress {
        /// Steps done.
        step: u64,
    },
    /// Numbers measured at a step, under names such as `env/success_once`.
    Metrics {
        /// The step they belong to.
        step: u64,
        /// Name and value, in the order they should be shown.
        #[serde(with = "crate::json_number::named")]
        values: Vec<(String, f64)>,
    },
    /// The distribution of something at a step.
    Histogram {
        /// The step it belongs to.
        step: u64,
        /// Its name.
        name: String,
        /// The values themselves.
        #[serde(with = "crate::json_number::plain")]
        values: Vec<f64>,
    },
    /// An image, as the bytes of a PNG file.
    Image {
        /// The step it belongs to.
        step: u64,
        /// Its name.
        name: String,
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
        /// The PNG file.
        #[serde(skip)]
        png: Vec<u8>,
    },
    /// Words worth keeping, such as the resolved config.
    Text {
        /// The step they belong to.
        step: u64,
        /// Their name.
        name: String,
        /// The words.
        text: String,
    },
    /// Something the user should know, said once.
    Notice {
        /// How much it matters.
        level: Level,
        /// What to know.
        text: String,
    },
    /// The state of the run is safe on disk.
    Saved {
        /// The step that was saved.
        step: u64,
        /// Where, relative to the run directory.
        path: String,
    },
    /// The run is over.
    Ended {
        /// Steps done.
        step: u64,
        /// Why it is over.
        reason: EndReason,
    },
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Probably not what was meant.
    Warning,
}

/// Why a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
    /// It reached its last step.
    Done,
    /// The user asked it to stop; it finished its step and saved.
    Interrupted,
    /// It failed.
    Failed {
        /// What went wrong.
        error: String,
    },
}

/// A listener to the events of a run.
pub trait Emit {
    /// Handles an event. A listener that fails must not stop the run.
    fn emit(&mut self, event: Event);
}

/// Discards every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardEvents;

impl Emit for DiscardEvents {
    fn emit(&mut self, _: Event) {}
}

impl Emit for Vec<Event> {
    fn emit(&mut self, event: Event) {
        self.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_readable_line_and_comes_back() {
        let event = Event::Metrics { step: 3, values: vec![("env/success_once".into(), 0.5)] };
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(line, r#"{"event":"metrics","step":3,"values":[["env/success_once",0.5]]}"#);
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        let ended = Event::Ended { step: 9, reason: EndReason::Failed { error: "NaN".into() } };
        let line = serde_json::to_string(&ended).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), ended);
    }
}
