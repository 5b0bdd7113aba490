//! Statistics of each column, which lerobot uses to normalise.
//!
//! Means and deviations are exact, over all frames and pixels. (lerobot 0.4.4 squares image bytes in eight bits and
//! so writes deviations of images that are far too small.) Quantiles are exact within an episode; those of a dataset
//! are the means of its episodes' quantiles, weighted by frames, as lerobot has them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::lerobot::table::{Column, Values};

const QUANTILES: [(f64, &str); 5] =
    [(0.01, "q01"), (0.10, "q10"), (0.50, "q50"), (0.90, "q90"), (0.99, "q99")];

/// What the extremes of a column are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Bool,
    Whole,
    Real,
    Image,
}

/// Statistics of one column; one entry per number of a frame's value, or per colour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stats {
    kind: Kind,
    count: u64,
    min: Vec<f64>,
    max: Vec<f64>,
    mean: Vec<f64>,
    std: Vec<f64>,
    quantiles: [Vec<f64>; 5],
}

/// Statistics of numbers, `width` per frame. What is not finite is left out.
pub(super) fn of_numbers(values: &Values, width: usize) -> Stats {
    let (kind, numbers): (Kind, Vec<f64>) = match values {
        Values::Bool(values) => {
            (Kind::Bool, values.iter().map(|&value| f64::from(u8::from(value))).collect())
        }
        Values::U8(values) => (Kind::Whole, values.iter().map(|&value| f64::from(value)).collect()),
        Values::I64(values) => (Kind::Whole, values.iter().map(|&value| value as f64).collect()),
        Values::F32(values) => (Kind::Real, values.iter().map(|&value| f64::from(value)).collect()),
        Values::F64(values) => (Kind::Real, values.clone()),
        Values::Text(_) | Values::Images(..) => (Kind::Real, Vec::new()),
    };
    let mut stats = Stats::empty(kind, (numbers.len() / width.max(1)) as u64);
    for at in 0..width {
        let mut column: Vec<f64> =
            numbers.iter().skip(at).step_by(width).copied().filter(|value| value.is_finite()).collect();
        column.sort_by(f64::total_cmp);
        let weighted: Vec<(f64, u64)> = column.iter().map(|&value| (value, 1)).collect();
        stats.push(&weighted);
    }
    stats
}

/// How often each byte occurs in each colour of a camera's images.
pub(super) struct ImageCounts {
    counts: Vec<[u64; 256]>,
    frames: u64,
}

impl ImageCounts {
    pub(super) fn new(channels: usize) -> Self {
        Self { counts: vec![[0; 256]; channels], frames: 0 }
    }

    /// Counts one more image, HWC.
    pub(super) fn add(&mut self, pixels: &[u8]) {
        for pixel in pixels.chunks_exact(self.counts.len()) {
            for (counts, &byte) in self.counts.iter_mut().zip(pixel) {
                counts[usize::from(byte)] += 1;
            }
        }
        self.frames += 1;
    }

    /// Statistics by colour, in 0..1. Gray counts as three equal colours and transparency not at all, as lerobot has it.
    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::empty(Kind::Image, self.frames);
        for color in 0..3 {
            let counts = &self.counts[if self.counts.len() < 3 { 0 } else { color }];
            let present = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            stats.push(&present.map(|(byte, &count)| (byte as f64 / 255.0, count)).collect::<Vec<_>>());
        }
        stats
    }
}

impl Stats {
    fn empty(kind: Kind, count: u64) -> Self {
        let none = Vec::new;
        Self {
            kind,
            count,
            min: none(),
            max: none(),
            mean: none(),
            std: none(),
            quantiles: Default::default(),
        }
    }

    /// One more number of the value, from how often each value occurs, in order.
    fn push(&mut self, weighted: &[(f64, u64)]) {
        let total: u64 = weighted.iter().map(|(_, count)| count).sum();
        let average = |of: &dyn Fn(f64) -> f64| {
            weighted.iter().map(|&(value, count)| of(value) * count as f64).sum::<f64>() / total.max(1) as f64
        };
        let mean = average(&|value| value);
        self.min.push(weighted.first().map_or(0.0, |(value, _)| *value));
        self.max.push(weighted.last().map_or(0.0, |(value, _)| *value));
        self.mean.push(mean);
        self.std.push(average(&|value| (value - mean) * (value - mean)).sqrt());
        for (values, (part, _)) in self.quantiles.iter_mut().zip(QUANTILES) {
            values.push(quantile(weighted, total, part));
        }
    }

    /// Both as one, as if all frames had been seen together.
    pub(super) fn merge(&mut self, other: &Self) {
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let total = (ours + theirs).max(1.0);
        for at in 0..self.mean.len().min(other.mean.len()) {
            let apart = other.mean[at] - self.mean[at];
            let spread = ours * self.std[at].powi(2) + theirs * other.std[at].powi(2);
            self.std[at] = ((spread + apart * apart * ours * theirs / total) / total).sqrt();
            self.mean[at] += apart * theirs / total;
            self.min[at] = self.min[at].min(other.min[at]);
            self.max[at] = self.max[at].max(other.max[at]);
            for (mine, theirs_at) in self.quantiles.iter_mut().zip(&other.quantiles) {
                mine[at] = (mine[at] * ours + theirs_at[at] * theirs) / total;
            }
        }
        self.count += other.count;
    }

    /// Names and values in lerobot's order.
    fn entries(&self) -> Vec<(&'static str, &[f64])> {
        let mut all: Vec<(&'static str, &[f64])> =
            vec![("min", &self.min), ("max", &self.max), ("mean", &self.mean), ("std", &self.std)];
        all.extend(QUANTILES.iter().zip(&self.quantiles).map(|((_, name), values)| (*name, &values[..])));
        all
    }

    /// As `meta/stats.json` has them.
    pub(super) fn to_json(&self) -> Value {
        let number = |name: &str, value: f64| match self.kind {
            Kind::Bool if matches!(name, "min" | "max") => json!(value != 0.0),
            Kind::Whole if matches!(name, "min" | "max") => json!(value as i64),
            Kind::Image => json!([[value]]),
            _ => json!(value),
        };
        let list = |(name, values): (&'static str, &[f64])| {
            let values = values.iter().map(|&value| number(name, value)).collect();
            (name.to_owned(), Value::Array(values))
        };
        let mut object: serde_json::Map<String, Value> = self.entries().into_iter().map(list).collect();
        object.insert("count".into(), json!([self.count]));
        Value::Object(object)
    }

    /// As columns of `meta/episodes`, one row per entry of `episodes`, which are of one feature.
    pub(super) fn to_columns(feature: &str, episodes: &[&Self]) -> Vec<Column> {
        let Some(first) = episodes.first() else { return Vec::new() };
        let depth = if first.kind == Kind::Image { 3 } else { 1 };
        let names = first.entries().into_iter().map(|(name, _)| name).enumerate();
        let mut columns: Vec<Column> = names
            .map(|(at, name)| {
                let all = episodes.iter().flat_map(|stats| stats.entries()[at].1.iter().copied());
                let values = match first.kind {
                    Kind::Bool if at < 2 => Values::Bool(all.map(|value| value != 0.0).collect()),
                    Kind::Whole if at < 2 => Values::I64(all.map(|value| value as i64).collect()),
                    _ => Values::F64(all.collect()),
                };
                Column::list(format!("stats/{feature}/{name}"), depth, values)
            })
            .collect();
        let counts = Values::I64(episodes.iter().map(|stats| stats.count as i64).collect());
        columns.insert(4, Column::list(format!("stats/{feature}/count"), 1, counts));
        columns
    }
}

/// The quantile of weighted values, interpolated between the two nearest as numpy's `quantile` has it.
fn quantile(weighted: &[(f64, u64)], total: u64, part: f64) -> f64 {
    let position = part * total.saturating_sub(1) as f64;
    let at = |rank: u64| {
        let mut seen = 0;
        let holds = |(_, count): &&(f64, u64)| {
            seen += count;
            seen > rank
        };
        weighted.iter().find(holds).map_or(0.0, |(value, _)| *value)
    };
    let (low, high) = (at(position.floor() as u64), at(position.ceil() as u64));
    low + (high - low) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-12), "{got:?} {want:?}");
    }

    #[test]
    fn numbers_by_place() {
        // Columns 1, 2, 3, 4 and 10, 10, 10, 40.
        let stats = of_numbers(&Values::F32(vec![1.0, 10.0, 2.0, 10.0, 3.0, 10.0, 4.0, 40.0]), 2);
        assert_eq!((stats.count, &stats.min[..], &stats.max[..]), (4, &[1.0, 10.0][..], &[4.0, 40.0][..]));
        near(&stats.mean, &[2.5, 17.5]);
        near(&stats.std, &[1.25f64.sqrt(), 168.75f64.sqrt()]);
        near(&stats.quantiles[2], &[2.5, 10.0]);
        // 0.9 * 3 = 2.7: seven tenths of the way from the third to the fourth.
        near(&stats.quantiles[3], &[3.7, 31.0]);
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let stats = of_numbers(&Values::F32(vec![f32::NAN, 1.0, f32::INFINITY, 3.0]), 1);
        near(&[stats.min[0], stats.max[0], stats.mean[0]], &[1.0, 3.0, 2.0]);
        let none = of_numbers(&Values::F32(vec![f32::NAN]), 1);
        near(&[none.min[0], none.std[0], none.quantiles[0][0]], &[0.0; 3]);
    }

    #[test]
    fn merging_is_like_seeing_all_at_once() {
        let whole = [1.0, 5.0, 2.0, 8.0, -3.0];
        let part = |range: &[f32]| of_numbers(&Values::F32(range.to_vec()), 1);
        let mut merged = part(&whole[..2]);
        merged.merge(&part(&whole[2..]));
        let want = part(&whole);
        near(&[merged.mean[0], merged.std[0]], &[want.mean[0], want.std[0]]);
        near(&[merged.min[0], merged.max[0]], &[-3.0, 8.0]);
        assert_eq!(merged.count, 5);
    }

    #[test]
    fn images_by_colour_in_parts_of_one() {
        let mut counts = ImageCounts::new(3);
        counts.add(&[0, 255, 51, 255, 255, 51]);
        let stats = counts.stats();
        near(&stats.mean, &[0.5, 1.0, 0.2]);
        near(&stats.std, &[0.5, 0.0, 0.0]);
        assert_eq!((stats.count, stats.max[0]), (1, 1.0));
        assert_eq!(stats.to_json()["mean"][1], json!([[1.0]]));
    }
}
