//! What abstaining gains: fewer windows are called better or worse, and more of those calls are right.

use serde::Serialize;

use super::JudgedWindows;
use crate::trend::{Answer, Reading, Trend};

/// A band within which the judge abstains, and what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtBand {
    /// Where better and worse are less than this apart in probability, the answer counts as unclear.
    pub band: f64,
    /// Share of windows that are called better or worse.
    pub coverage: f64,
    /// Share of those calls that are right.
    pub accuracy: Option<f64>,
    /// Share of those calls of which the opposite is right.
    pub reversed: Option<f64>,
}

/// Bands of twentieths, from none to nearly all.
#[must_use]
pub fn at_bands(windows: &JudgedWindows, temperature: f64) -> Vec<AtBand> {
    (0..20).map(|step| at_band(windows, temperature, f64::from(step) / 20.0)).collect()
}

fn at_band(windows: &JudgedWindows, temperature: f64, band: f64) -> AtBand {
    let reading = Reading { temperature, abstain_band: band as f32 };
    let said = windows.logits.iter().map(|logits| reading.label(&Answer::Logits(*logits)));
    let calls: Vec<(Trend, Trend)> = said
        .zip(&windows.truth)
        .filter(|(said, _)| matches!(said, Trend::Positive | Trend::Negative))
        .map(|(said, right)| (said, Trend::LABELS[*right]))
        .collect();
    let opposite = |(said, right): &&(Trend, Trend)| *right != Trend::Unclear && said != right;
    let share = |count: usize| (!calls.is_empty()).then(|| count as f64 / calls.len() as f64);
    AtBand {
        band,
        coverage: calls.len() as f64 / windows.truth.len().max(1) as f64,
        accuracy: share(calls.iter().filter(|(said, right)| said == right).count()),
        reversed: share(calls.iter().filter(opposite).count()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::judged;
    use super::*;

    #[test]
    fn a_wider_band_calls_fewer_windows() {
        let logits = [[4.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 9.0]];
        let bands = at_bands(&judged(&logits, &[0, 1, 2, 2], 1), 1.0);
        assert_eq!(bands.len(), 20);
        let first = bands[0];
        assert_eq!(
            (first.coverage, first.accuracy, first.reversed),
            (0.75, Some(1.0 / 3.0), Some(1.0 / 3.0))
        );
        let wide = bands[10];
        assert_eq!((wide.coverage, wide.accuracy, wide.reversed), (0.25, Some(1.0), Some(0.0)));
        assert!(bands.windows(2).all(|pair| pair[0].coverage >= pair[1].coverage));
        let colder = at_bands(&judged(&logits, &[0, 1, 2, 2], 1), 100.0);
        assert_eq!((colder[5].coverage, colder[5].accuracy), (0.0, None));
    }
}
