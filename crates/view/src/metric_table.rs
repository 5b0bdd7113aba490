//! Metrics as a small table: name, value, where it is going lately, and how it went since the start.

use std::collections::VecDeque;

use indexmap::IndexMap;
use unicode_width::UnicodeWidthStr;

use crate::format;
use crate::paint::{Row, TextStyle, keep_end};

const LONGEST_SPARK: usize = 24;
const SHORTEST_SPARK: usize = 8;
/// A sparkline is worth drawing only where names keep this much room.
const ROOM_FOR_NAMES: usize = 24;
/// Values that decide the trend.
const RECENT: usize = 12;

/// Every metric, in order of appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricTable {
    tracks: IndexMap<String, Track>,
}

impl MetricTable {
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        match self.tracks.get_mut(name) {
            Some(track) => track.add(value),
            None => self.tracks.entry(name.to_owned()).or_default().add(value),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Names and last values, those that matter most first.
    pub(crate) fn last_values(&self) -> Vec<(&str, f64)> {
        self.ranked().into_iter().map(|(name, track)| (name, track.last())).collect()
    }

    /// The table: at most `limit` rows, each at most `width` wide.
    pub(crate) fn rows(&self, width: usize, limit: usize) -> Vec<Row> {
        let mut shown = self.ranked();
        shown.truncate(limit);
        let widths = ColumnWidths::of(width, &shown);
        shown.iter().map(|(name, track)| widths.row(name, track)).collect()
    }

    fn ranked(&self) -> Vec<(&str, &Track)> {
        let mut tracks: Vec<_> = self.tracks.iter().map(|(name, track)| (name.as_str(), track)).collect();
        tracks.sort_by_key(|(name, _)| rank(name));
        tracks
    }
}

/// What is kept of a metric: its last values, and its whole curve in few points.
#[derive(Debug, Clone, Default)]
struct Track {
    recent: VecDeque<f64>,
    /// Means of `1 << doublings` values each; the last point may still miss some of them.
    curve: Vec<f64>,
    doublings: u32,
    /// Values in the last point.
    filled: u64,
}

impl Track {
    const LONGEST: usize = 4 * LONGEST_SPARK;

    fn add(&mut self, value: f64) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
        match self.curve.last_mut() {
            Some(point) if self.filled < 1 << self.doublings => {
                self.filled += 1;
                *point += (value - *point) / self.filled as f64;
            }
            _ => self.start_point(value),
        }
    }

    /// Adds a point; a curve that is full first halves its points.
    fn start_point(&mut self, value: f64) {
        if self.curve.len() == Self::LONGEST {
            self.curve = self.curve.chunks(2).map(mean).collect();
            self.doublings += 1;
        }
        self.curve.push(value);
        self.filled = 1;
    }

    fn last(&self) -> f64 {
        self.recent.back().copied().unwrap_or(f64::NAN)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
struct ColumnWidths {
    name: usize,
    value: usize,
    spark: usize,
}

impl ColumnWidths {
    fn of(width: usize, shown: &[(&str, &Track)]) -> Self {
        let name = shown.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        let value =
            shown.iter().map(|(_, track)| format::number(track.last()).len()).max().unwrap_or(0).max(8);
        let room = width.saturating_sub("  ".len() + "  ".len() + value + " →  ".chars().count());
        if room < ROOM_FOR_NAMES + SHORTEST_SPARK {
            return Self { name: name.min(room + 2), value, spark: 0 };
        }
        let name = name.min(room - SHORTEST_SPARK);
        Self { name, value, spark: (room - name).min(LONGEST_SPARK) }
    }

    fn row(&self, name: &str, track: &Track) -> Row {
        let shown = keep_end(name, self.name);
        let (group, own) = shown.split_at(shown.rfind('/').map_or(0, |slash| slash + 1));
        let row = Row::default()
            .add(TextStyle::Plain, "  ")
            .add(TextStyle::Faint, group)
            .add(TextStyle::Plain, own);
        let value = format::number(track.last());
        let row = row.pad_to(2 + self.name + 2 + self.value - value.len());
        let row = row.add(if track.last().is_finite() { TextStyle::Strong } else { TextStyle::Bad }, value);
        let trend = Trend::of(&track.recent);
        let row = row.add(trend.style(name), format!(" {}", trend.arrow()));
        if self.spark == 0 {
            row
        } else {
            row.add(TextStyle::Accent, format!("  {}", sparkline(&track.curve, self.spark)))
        }
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
    fn of(recent: &VecDeque<f64>) -> Self {
        let recent: Vec<f64> = recent.iter().copied().collect();
        if recent.len() < 3 || recent.iter().any(|value| !value.is_finite()) {
            return Self::Unknown;
        }
        let third = recent.len() / 3;
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
    fn style(self, name: &str) -> TextStyle {
        let wanted = match () {
            () if ["loss", "error", "fail"].iter().any(|word| name.contains(word)) => Self::Down,
            () if rank(name) < 4 => Self::Up,
            () => return TextStyle::Faint,
        };
        match self {
            Self::Unknown | Self::Flat => TextStyle::Faint,
            _ if self == wanted => TextStyle::Good,
            _ => TextStyle::Warn,
        }
    }
}

/// A curve as at most `width` bars, its lowest and its highest at the ends of the scale; `×` is not finite.
fn sparkline(curve: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let cells = width.min(curve.len());
    let cell = |n: usize| mean(&curve[n * curve.len() / cells..(n + 1) * curve.len() / cells]);
    let shown: Vec<f64> = (0..cells).map(cell).collect();
    let finite = || shown.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::MAX, f64::min), finite().fold(f64::MIN, f64::max));
    let flat = high <= low || high / 2.0 - low / 2.0 < 1e-9 * low.abs().max(high.abs()); // but for rounding
    // Halves, so that the widest range a double has does not overflow.
    let height = |value: f64| (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    let bar = |value: &f64| match () {
        () if !value.is_finite() => '×',
        () if flat => BARS[2],
        () => BARS[((height(*value) * 7.0).round() as usize).min(7)],
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(values: &[f64]) -> VecDeque<f64> {
        values.iter().copied().collect()
    }

    #[test]
    fn sparklines_span_their_range() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.5, 7.0], 8), "▁▂▃▅█");
        assert_eq!(sparkline(&[0.0, 0.0, 2.0, 2.0, 4.0, 4.0], 3), "▁▅█");
        assert_eq!(sparkline(&[5.0, 5.0], 8), "▃▃");
        assert_eq!(sparkline(&[0.1 + 0.2, 0.3], 8), "▃▃");
        assert_eq!(sparkline(&[0.0, f64::NAN, 1.0], 8), "▁×█");
        assert_eq!(sparkline(&[f64::MIN, f64::MAX], 8), "▁█");
        assert_eq!(sparkline(&[f64::NAN], 8), "×");
        assert_eq!(sparkline(&[], 8), "");
    }

    #[test]
    fn a_long_run_keeps_its_whole_curve() {
        let mut long = Track::default();
        (0..100_000).for_each(|value| long.add(f64::from(value)));
        assert!(long.curve.len() <= Track::LONGEST && long.curve.is_sorted());
        assert_eq!(long.last(), 99_999.0);
        assert_eq!(sparkline(&long.curve, 8), "▁▂▃▄▅▆▇█");
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
        assert_eq!(Trend::Up.style("env/success_once"), TextStyle::Good);
        assert_eq!(Trend::Down.style("train/loss"), TextStyle::Good);
        assert_eq!(Trend::Up.style("reward/loss"), TextStyle::Warn);
        assert_eq!(Trend::Up.style("train/lr"), TextStyle::Faint);
    }
}
