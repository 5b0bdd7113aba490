//! What was found of a judge on whole episodes: one readout as lines, several as a table.

use std::fmt::Write as _;

use plaudit_reward::audit::Interval;
use plaudit_reward::metrics::ProgressIntervals;
use serde_json::{Value, json};

use super::super::audit::interval;
use super::readout::Readout;

/// What was found with one readout.
pub(super) struct Measured {
    pub(super) readout: Readout,
    pub(super) found: Found,
    pub(super) seconds_per_question: f64,
    /// Every value, or every pair.
    pub(super) episodes_csv: String,
}

/// What was found of all episodes.
pub(super) enum Found {
    Values { episodes: usize, intervals: ProgressIntervals, unread: usize },
    Preference { right: Option<Interval>, pairs: usize, unread: usize },
}

impl Measured {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<18}{value}");
        };
        match &self.found {
            Found::Values { episodes, intervals, .. } => {
                let solved = intervals.successful_episodes;
                line("episodes", format!("{episodes}, {solved} of them solved"));
                line("value order (VOC)", interval(intervals.voc));
                line("Kendall's tau", interval(intervals.kendall));
                line("success AUC", interval(intervals.last_frame_auc));
                line("balanced accuracy", share(intervals.balanced_accuracy));
            }
            Found::Preference { right, pairs, .. } => {
                line("pairs", format!("{pairs}, a solved episode and a failed one each"));
                line("prefers solved", interval(*right));
            }
        }
        line("latency", format!("{:.1} ms per question", self.seconds_per_question * 1e3));
        if self.unread() > 0 {
            line("unread", format!("{} answers without a number", self.unread()));
        }
        text
    }

    pub(super) fn json(&self, model: &str, folder: &str) -> String {
        let mut value = self.value();
        value["model"] = model.into();
        value["output_dir"] = folder.into();
        format!("{value}\n")
    }

    fn value(&self) -> Value {
        let mut value = match &self.found {
            Found::Values { episodes, intervals, unread } => {
                json!({"episodes": episodes, "progress": intervals, "unread": unread})
            }
            Found::Preference { right, pairs, unread } => {
                json!({"pairs": pairs, "prefers_solved": right, "unread": unread})
            }
        };
        value["readout"] = self.readout.name().into();
        value["seconds_per_question"] = self.seconds_per_question.into();
        value
    }

    fn unread(&self) -> usize {
        match &self.found {
            Found::Values { unread, .. } | Found::Preference { unread, .. } => *unread,
        }
    }

    /// As the header of [`text_of_several`] says.
    fn row(&self) -> [String; 7] {
        let [voc, kendall, auc, accuracy] = match &self.found {
            Found::Values { intervals, .. } => [
                short(intervals.voc),
                short(intervals.kendall),
                short(intervals.last_frame_auc),
                share(intervals.balanced_accuracy),
            ],
            // How often the solved one of two is preferred is the area under its curve.
            Found::Preference { right, .. } => ["-".into(), "-".into(), short(*right), "-".into()],
        };
        let milliseconds = format!("{:.1}", self.seconds_per_question * 1e3);
        [self.readout.name().into(), voc, kendall, auc, accuracy, milliseconds, self.unread().to_string()]
    }
}

/// A table of readouts.
pub(super) fn text_of_several(measured: &[Measured]) -> String {
    let header = ["readout", "VOC", "Kendall's tau", "success AUC", "balanced acc.", "ms/question", "unread"];
    let rows: Vec<[String; 7]> =
        [header.map(String::from)].into_iter().chain(measured.iter().map(Measured::row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    let of_episodes = measured.iter().find_map(|one| match &one.found {
        Found::Values { episodes, intervals, .. } => Some((episodes, intervals.successful_episodes)),
        Found::Preference { .. } => None,
    });
    if let Some((episodes, solved)) = of_episodes {
        let _ = writeln!(text, "{episodes} episodes, {solved} of them solved");
    }
    for row in &rows {
        let cells: Vec<String> = (0..row.len()).map(|at| format!("{:<1$}", row[at], width(at))).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    text
}

/// The same for programs.
pub(super) fn json_of_several(measured: &[Measured], model: &str, folder: &str) -> String {
    let readouts: Vec<Value> = measured.iter().map(Measured::value).collect();
    format!("{}\n", json!({"model": model, "output_dir": folder, "readouts": readouts}))
}

/// Narrow enough for several beside each other.
fn short(found: Option<Interval>) -> String {
    found.map_or("-".into(), |Interval { value, low, high }| format!("{value:.2} ({low:.2} to {high:.2})"))
}

fn share(found: Option<f64>) -> String {
    found.map_or("-".into(), |share| format!("{share:.2}"))
}
