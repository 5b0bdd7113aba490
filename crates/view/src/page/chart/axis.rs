//! Where values lie along an axis, and which of them are written there.

use crate::format;

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten; values at or below zero are left out.
    Log,
}

/// How the numbers of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// As they are.
    #[default]
    Number,
    /// Shares of one, as percent.
    Percent,
    /// Whole numbers: steps, frames.
    Whole,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// A value by itself.
    pub(super) fn value(self, value: f64) -> String {
        match self {
            Self::Number => format::number(value),
            Self::Percent => format::percent(value),
            Self::Whole => format!("{value:.0}"),
            Self::Seconds => format!("{value:.1} s"),
        }
    }

    /// How scripts know it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Percent => "percent",
            Self::Whole => "whole",
            Self::Seconds => "seconds",
        }
    }
}

/// An axis from its low end to its high end.
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) unit: Unit,
    pub(super) range: (f64, f64),
}

impl Axis {
    /// An axis over values; `fixed` decides if it is given, else the values with a `margin` on both sides.
    pub(super) fn over(
        values: impl Iterator<Item = f64>,
        (scale, unit): (Scale, Unit),
        fixed: Option<(f64, f64)>,
        margin: f64,
    ) -> Self {
        let (low, high) = fixed.unwrap_or_else(|| {
            let (low, high) = extent(values.filter(|value| scale == Scale::Linear || *value > 0.0), unit);
            (low - margin * (high - low), high + margin * (high - low))
        });
        Self { scale, unit, range: (low, high) }
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        let (low, high) = (along(self.range.0), along(self.range.1));
        if high > low { (along(value) - low) / (high - low) } else { 0.5 }
    }

    /// About `wanted` round numbers, each with its words.
    pub(super) fn ticks(&self, wanted: f64) -> Vec<(f64, String)> {
        if self.scale == Scale::Log {
            return log_ticks(self.range).into_iter().map(|value| (value, plain(value))).collect();
        }
        // Round numbers may miss a short range: ask for more of them until there are two.
        let tries = [1.0, 2.0, 4.0, 8.0].map(|more| linear_ticks(self.range, self.unit, more * wanted));
        let enough = |ticks: &&Vec<(f64, String)>| ticks.len() >= 2;
        tries.iter().find(enough).unwrap_or(&tries[3]).clone()
    }
}

fn linear_ticks((low, high): (f64, f64), unit: Unit, wanted: f64) -> Vec<(f64, String)> {
    let step = match unit {
        Unit::Whole => round_step((high - low) / wanted).max(1.0).round(),
        _ => round_step((high - low) / wanted),
    };
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    let values = (first..=last.min(first.saturating_add(20))).map(|tick| tick as f64 * step);
    values.map(|value| (value, tick_text(value, step, unit))).collect()
}

/// Powers of ten; where they are fewer than two, their doubles and halves too; where those are, both ends.
fn log_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let inside = |factors: &[f64]| -> Vec<f64> {
        let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value)).collect()
    };
    [inside(&[1.0]), inside(&[1.0, 2.0, 5.0])]
        .into_iter()
        .find(|ticks| ticks.len() >= 2)
        .unwrap_or_else(|| vec![low, high])
}

/// 1, 2, 2.5 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= wanted * (1.0 - 1e-9)).unwrap_or(1.0)
}

/// From the lowest to the highest number; room around a single one.
fn extent(values: impl Iterator<Item = f64>, unit: Unit) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    // Differences in the fifth digit are noise, and would need numbers that fit no axis.
    let least = 1e-4 * low.abs().max(high.abs());
    match (low.is_finite(), low < high) {
        (false, _) => (0.0, 1.0),
        (true, true) if high - low < least => (low - least, high + least),
        (true, true) => (low, high),
        (true, false) if unit == Unit::Whole && low == 0.0 => (0.0, 1.0), // there is no step before the first
        (true, false) if unit == Unit::Whole => (low - 1.0, low + 1.0),
        (true, false) if low == 0.0 => (-1.0, 1.0),
        (true, false) => (low - 0.5 * low.abs(), low + 0.5 * low.abs()),
    }
}

/// A number that is round, without zeros behind it.
fn plain(value: f64) -> String {
    match value {
        _ if !(1e-3..1e6).contains(&value) => format!("{value:e}"),
        _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').into(),
    }
}

/// A tick, with as many digits as tell it from its neighbours a `step` away.
fn tick_text(value: f64, step: f64, unit: Unit) -> String {
    let (value, step, after) = match unit {
        Unit::Percent => (100.0 * value, 100.0 * step, " %"),
        _ if step >= 1e6 => (value / 1e6, step / 1e6, "M"),
        _ if step >= 1e3 => (value / 1e3, step / 1e3, "k"),
        _ => (value, step, ""),
    };
    if value.abs() < step * 1e-6 {
        return format!("0{}", if unit == Unit::Percent { after } else { "" });
    }
    if step < 1e-4 && value.abs() < 1e-3 {
        let digits = (value.abs().log10().floor() - step.log10().floor()).max(0.0) as usize;
        return format!("{value:.digits$e}{after}");
    }
    let is_whole = |decimals: &usize| {
        let scaled = step * 10f64.powi(*decimals as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    let decimals = (0..8).find(is_whole).unwrap_or(8);
    format!("{value:.decimals$}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, unit: Unit, range: (f64, f64)) -> String {
        let axis = Axis { scale, unit, range };
        axis.ticks(4.0).into_iter().map(|(_, words)| words).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn differences_that_are_noise_are_not_magnified() {
        let axis = Axis::over([1.0, 1.000_000_1].into_iter(), (Scale::Linear, Unit::Number), None, 0.05);
        let words: Vec<String> = axis.ticks(2.0).into_iter().map(|(_, words)| words).collect();
        assert_eq!(words, ["0.9999", "1.0000", "1.0001"]);
    }

    #[test]
    fn a_lone_step_has_room_and_none_before_the_first() {
        assert_eq!(extent([0.0].into_iter(), Unit::Whole), (0.0, 1.0));
        assert_eq!(extent([5.0].into_iter(), Unit::Whole), (4.0, 6.0));
    }

    #[test]
    fn ticks_are_round_inside_and_told_apart() {
        for (scale, unit, range, expected) in [
            (Scale::Linear, Unit::Number, (0.0, 1.0), "0 | 0.25 | 0.50 | 0.75 | 1.00"),
            (Scale::Linear, Unit::Percent, (0.0, 1.0), "0 % | 25 % | 50 % | 75 % | 100 %"),
            (Scale::Linear, Unit::Number, (-3.0, 97.0), "0 | 25 | 50 | 75"),
            (Scale::Linear, Unit::Number, (0.0, 400.0), "0 | 100 | 200 | 300 | 400"),
            (Scale::Linear, Unit::Number, (0.99931, 0.99934), "0.99931 | 0.99932 | 0.99933 | 0.99934"),
            (Scale::Linear, Unit::Number, (0.0, 9e4), "0 | 25k | 50k | 75k"),
            (Scale::Linear, Unit::Number, (2e-6, 5e-6), "2e-6 | 3e-6 | 4e-6 | 5e-6"),
            (Scale::Linear, Unit::Whole, (0.0, 2.0), "0 | 1 | 2"),
            (Scale::Linear, Unit::Whole, (4.0, 6.0), "4 | 5 | 6"),
            (Scale::Log, Unit::Number, (0.002, 5.0), "0.01 | 0.1 | 1"),
            (Scale::Log, Unit::Number, (0.15, 0.6), "0.2 | 0.5"),
            (Scale::Log, Unit::Number, (0.31, 0.32), "0.31 | 0.32"),
        ] {
            assert_eq!(ticks(scale, unit, range), expected, "{range:?}");
        }
    }
}
