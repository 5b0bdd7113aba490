//! Metrics as a small table: name, value, trend, and a sparkline of the last values.

use std::collections::VecDeque;

use indexmap::IndexMap;
use unicode_width::UnicodeWidthStr;

use crate::format;
use crate::paint::{Ink, Row, keep_end};

/// Values kept of each metric, and the longest sparkline.
const KEPT: usize = 32;
const LONGEST_SPARK: usize = 24;
const SHORTEST_SPARK: usize = 8;
/// A sparkline is worth drawing only where names keep this much room.
const ROOM_FOR_NAMES: usize = 24;
/// Values that decide the trend.
const TREND: usize = 12;

/// The last values of every metric, in order of appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricTable {
    tracks: IndexMap<String, VecDeque<f64>>,
}

impl MetricTable {
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        let track = match self.tracks.get_mut(name) {
            Some(track) => track,
            None => self.tracks.entry(name.to_owned()).or_default(),
        };
        if track.len() == KEPT {
            track.pop_front();
        }
        track.push_back(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Names and last values, those that matter most first.
    pub(crate) fn last_values(&self) -> Vec<(&str, f64)> {
        self.ranked().into_iter().filter_map(|(name, track)| Some((name, *track.back()?))).collect()
    }

    /// The table: at most `limit` rows, each at most `width` wide.
    pub(crate) fn rows(&self, width: usize, limit: usize) -> Vec<Row> {
        let mut shown = self.ranked();
        shown.truncate(limit);
        let values: Vec<String> = shown.iter().map(|(_, track)| last_value(track)).collect();
        let layout = Layout::of(width, &shown, &values);
        shown.iter().zip(&values).map(|((name, track), value)| layout.row(name, track, value)).collect()
    }

    fn ranked(&self) -> Vec<(&str, &VecDeque<f64>)> {
        let mut tracks: Vec<_> = self.tracks.iter().map(|(name, track)| (name.as_str(), track)).collect();
        tracks.sort_by_key(|(name, _)| rank(name));
        tracks
    }
}

fn last_value(track: &VecDeque<f64>) -> String {
    track.back().map(|value| format::number(*value)).unwrap_or_default()
}

/// What people look at first comes first; how long things took comes last.
fn rank(name: &str) -> usize {
    const FIRST: [&str; 5] = ["success", "return", "reward", "accuracy", "loss"];
    if name.starts_with("time/") {
        return FIRST.len() + 1;
    }
    FIRST.iter().position(|word| name.contains(word)).unwrap_or(FIRST.len())
}

/// Widths of the columns.
struct Layout {
    name: usize,
    value: usize,
    spark: usize,
}

impl Layout {
    fn of(width: usize, shown: &[(&str, &VecDeque<f64>)], values: &[String]) -> Self {
        let name = shown.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        let value = values.iter().map(|value| value.width()).max().unwrap_or(0).max(8);
        let room = width.saturating_sub(value + "    ".len() + " ↗".len().min(3));
        if room < ROOM_FOR_NAMES + 2 + SHORTEST_SPARK {
            return Self { name: name.min(room), value, spark: 0 };
        }
        let name = name.min(room - 2 - SHORTEST_SPARK);
        Self { name, value, spark: (room - 2 - name).min(LONGEST_SPARK) }
    }

    fn row(&self, name: &str, track: &VecDeque<f64>, value: &str) -> Row {
        let name = keep_end(name, self.name);
        let (group, own) = name.split_at(name.rfind('/').map_or(0, |slash| slash + 1));
        let row = Row::default().add(Ink::Plain, "  ").add(Ink::Faint, group).add(Ink::Plain, own);
        let row = row.pad_to(2 + self.name + 2 + self.value - value.width().min(self.value));
        let broken = track.back().is_some_and(|value| !value.is_finite());
        let row = row.add(if broken { Ink::Bad } else { Ink::Strong }, value);
        let trend = Trend::of(track);
        let row = row.add(trend.ink(&name), format!(" {}", trend.arrow()));
        row.add(Ink::Accent, format!("  {}", sparkline(track, self.spark)))
    }
}

/// Where a metric is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trend {
    Unknown,
    Up,
    Flat,
    Down,
}

impl Trend {
    /// Compares the last third of the recent values with the first third; what is small beside their spread is noise.
    fn of(track: &VecDeque<f64>) -> Self {
        let recent: Vec<f64> = track.iter().rev().take(TREND).rev().copied().collect();
        if recent.len() < 3 || recent.iter().any(|value| !value.is_finite()) {
            return Self::Unknown;
        }
        let third = recent.len() / 3;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let moved = mean(&recent[recent.len() - third..]) - mean(&recent[..third]);
        let (low, high) =
            recent.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
        let noise = 0.25 * (high - low);
        let size = low.abs().max(high.abs());
        match moved {
            _ if moved.abs() <= noise || moved.abs() < 1e-3 * size => Self::Flat,
            0.0.. => Self::Up,
            _ => Self::Down,
        }
    }

    fn arrow(self) -> char {
        match self {
            Self::Unknown => ' ',
            Self::Up => '↗',
            Self::Flat => '→',
            Self::Down => '↘',
        }
    }

    /// Green where the move is good news, yellow where it is not, faint where nobody can tell.
    fn ink(self, name: &str) -> Ink {
        let wanted = match () {
            () if ["loss", "error", "fail"].iter().any(|word| name.contains(word)) => Self::Down,
            () if rank(name) < 4 => Self::Up,
            () => return Ink::Faint,
        };
        match self {
            Self::Unknown | Self::Flat => Ink::Faint,
            _ if self == wanted => Ink::Good,
            _ => Ink::Warn,
        }
    }
}

/// The last values as bars, the lowest and the highest of them at the ends of the scale; `×` is not finite.
fn sparkline(track: &VecDeque<f64>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = || track.iter().skip(track.len().saturating_sub(width));
    let finite = || shown().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::MAX, f64::min);
    let high = finite().fold(f64::MIN, f64::max);
    // Halves, so that the widest range a double has does not overflow.
    let height = |value: f64| (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    let bar = |&value: &f64| match () {
        () if !value.is_finite() => '×',
        () if high <= low => BARS[2],
        () => BARS[((height(value) * 7.0).round() as usize).min(7)],
    };
    shown().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(values: &[f64]) -> VecDeque<f64> {
        values.iter().copied().collect()
    }

    #[test]
    fn sparklines_span_their_range() {
        assert_eq!(sparkline(&track(&[0.0, 1.0, 2.0, 3.5, 7.0]), 8), "▁▂▃▅█");
        assert_eq!(sparkline(&track(&[0.0, 1.0, 2.0, 3.5, 7.0]), 2), "▁█");
        assert_eq!(sparkline(&track(&[5.0, 5.0]), 8), "▃▃");
        assert_eq!(sparkline(&track(&[0.0, f64::NAN, 1.0]), 8), "▁×█");
        assert_eq!(sparkline(&track(&[f64::MIN, f64::MAX]), 8), "▁█");
        assert_eq!(sparkline(&track(&[f64::NAN]), 8), "×");
    }

    #[test]
    fn trends_see_through_noise() {
        assert_eq!(Trend::of(&track(&[1.0, 2.0])), Trend::Unknown);
        assert_eq!(Trend::of(&track(&[1.0, 2.0, 3.0])), Trend::Up);
        assert_eq!(Trend::of(&track(&[3.0, 2.5, 2.0, 1.0])), Trend::Down);
        assert_eq!(Trend::of(&track(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0])), Trend::Flat);
        assert_eq!(Trend::of(&track(&[5.0; 6])), Trend::Flat);
        assert_eq!(Trend::of(&track(&[1.0, 2.0, f64::NAN])), Trend::Unknown);
    }

    #[test]
    fn what_matters_comes_first() {
        let mut table = MetricTable::default();
        for name in ["time/step", "train/lr", "train/loss", "env/reward", "env/success_once", "env/return"] {
            table.add(name, 1.0);
        }
        let names: Vec<_> = table.last_values().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["env/success_once", "env/return", "env/reward", "train/loss", "train/lr", "time/step"]
        );
    }

    #[test]
    fn good_news_is_green_whichever_way_it_goes() {
        assert_eq!(Trend::Up.ink("env/success_once"), Ink::Good);
        assert_eq!(Trend::Down.ink("train/loss"), Ink::Good);
        assert_eq!(Trend::Up.ink("reward/loss"), Ink::Warn);
        assert_eq!(Trend::Up.ink("train/lr"), Ink::Faint);
    }
}
