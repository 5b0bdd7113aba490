//! From keys to labels.

use serde::{Deserialize, Serialize};

/// What a key does to the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// From here frames are successes.
    Success,
    /// From here frames are failures.
    Fail,
    /// From here frames have no label.
    Off,
    /// There are enough of the running label: it ended with the last frame. No person pressed anything, so that no
    /// reaction lag applies.
    Enough,
    /// What the last label marked has none after all.
    Undo,
}

/// A mark and when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimedMark {
    /// Seconds since the journal began.
    pub time: f64,
    /// What it does.
    pub mark: Mark,
}

/// Frames from one key to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    success: bool,
    from: f64,
    /// When it ended, and whether a person ended it; an open one runs to the last frame.
    to: Option<(f64, bool)>,
}

/// The runs that are left after everything that was undone.
fn runs(marks: &[TimedMark]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for TimedMark { time, mark } in marks {
        let close = |runs: &mut Vec<Run>, by_person: bool| {
            if let Some(open) = runs.last_mut().filter(|run| run.to.is_none()) {
                open.to = Some((*time, by_person));
            }
        };
        match mark {
            Mark::Success | Mark::Fail => {
                close(&mut runs, true);
                runs.push(Run { success: *mark == Mark::Success, from: *time, to: None });
            }
            Mark::Off => close(&mut runs, true),
            Mark::Enough => close(&mut runs, false),
            Mark::Undo => drop(runs.pop()),
        }
    }
    runs
}

/// Which label is on after these marks.
pub(super) fn running(marks: &[TimedMark]) -> Option<bool> {
    runs(marks).last().filter(|run| run.to.is_none()).map(|run| run.success)
}

/// The label of each frame, by its time: success, failure or none. What a person pressed counts from `lag` seconds
/// before.
pub fn labels(frame_times: &[f64], marks: &[TimedMark], lag: f64) -> Vec<Option<bool>> {
    let mut labels = vec![None; frame_times.len()];
    for Run { success, from, to } in runs(marks) {
        for (label, time) in labels.iter_mut().zip(frame_times) {
            let is_before_end = match to {
                None => true,
                Some((to, true)) => *time < to - lag,
                Some((to, false)) => *time <= to,
            };
            if *time >= from - lag && is_before_end {
                *label = Some(success);
            }
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(time: f64, mark: Mark) -> TimedMark {
        TimedMark { time, mark }
    }

    /// One letter for each second: `c` success, `a` failure, `.` none.
    fn shown(marks: &[TimedMark], lag: f64) -> String {
        let times: Vec<f64> = (0..10).map(f64::from).collect();
        let letter = |label: &Option<bool>| label.map_or('.', |success| if success { 'c' } else { 'a' });
        labels(&times, marks, lag).iter().map(letter).collect()
    }

    #[test]
    fn keys_switch_labels_on_over_and_off() {
        let marks = [mark(2.0, Mark::Fail), mark(4.0, Mark::Success), mark(7.0, Mark::Off)];
        assert_eq!(shown(&marks, 0.0), "..aaccc...");
        assert_eq!(shown(&marks, 1.0), ".aaccc....", "a second earlier");
        assert_eq!(shown(&marks[..2], 0.0), "..aacccccc", "an open run goes on");
    }

    #[test]
    fn undo_takes_the_last_run_back() {
        let marks = [mark(1.0, Mark::Fail), mark(3.0, Mark::Success), mark(5.0, Mark::Undo)];
        assert_eq!(shown(&marks, 0.0), ".aa.......");
        assert_eq!(running(&marks), None);
        let twice = [&marks[..], &[mark(6.0, Mark::Undo), mark(6.5, Mark::Undo)]].concat();
        assert_eq!(shown(&twice, 0.0), "..........", "no more to undo is no harm");
        let again = [&marks[..], &[mark(6.0, Mark::Success)]].concat();
        assert_eq!((shown(&again, 0.0), running(&again)), (".aa...cccc".into(), Some(true)));
    }

    #[test]
    fn a_label_that_ended_by_itself_is_not_moved_at_its_end() {
        let marks = [mark(3.0, Mark::Success), mark(5.0, Mark::Enough)];
        assert_eq!(shown(&marks, 0.0), "...ccc....");
        assert_eq!(shown(&marks, 1.0), "..cccc....");
    }
}
