//! What abstaining gains: fewer windows are called better or worse, and more of those calls are right.

use serde::Serialize;

use super::ScoredWindows;
use crate::trend::{Answer, ReadoutSettings, Trend};

/// A band within which the judge abstains, and what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AbstainPoint {
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
pub(super) fn abstain_curve(windows: &ScoredWindows, temperature: f64) -> Vec<AbstainPoint> {
    (0..20).map(|step| abstain_point(windows, temperature, f64::from(step) / 20.0)).collect()
}

fn abstain_point(windows: &ScoredWindows, temperature: f64, band: f64) -> AbstainPoint {
    let readout = ReadoutSettings { temperature, abstain_band: band as f32 };
    let predicted = windows.logits.iter().map(|logits| readout.label(&Answer::Logits(*logits)));
    let calls: Vec<(Trend, Trend)> = predicted
        .zip(&windows.truth)
        .filter(|(predicted, _)| matches!(predicted, Trend::Positive | Trend::Negative))
        .map(|(predicted, right)| (predicted, Trend::LABELS[*right]))
        .collect();
    let opposite = |(predicted, right): &&(Trend, Trend)| *right != Trend::Unclear && predicted != right;
    let share = |count: usize| (!calls.is_empty()).then(|| count as f64 / calls.len() as f64);
    AbstainPoint {
        band,
        coverage: calls.len() as f64 / windows.truth.len().max(1) as f64,
        accuracy: share(calls.iter().filter(|(predicted, right)| predicted == right).count()),
        reversed: share(calls.iter().filter(opposite).count()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::scored;
    use super::*;

    #[test]
    fn a_wider_band_calls_fewer_windows() {
        let logits = [[4.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 9.0]];
        let bands = abstain_curve(&scored(&logits, &[0, 1, 2, 2], 1), 1.0);
        assert_eq!(bands.len(), 20);
        let first = bands[0];
        assert_eq!(
            (first.coverage, first.accuracy, first.reversed),
            (0.75, Some(1.0 / 3.0), Some(1.0 / 3.0))
        );
        let wide = bands[10];
        assert_eq!((wide.coverage, wide.accuracy, wide.reversed), (0.25, Some(1.0), Some(0.0)));
        assert!(bands.windows(2).all(|pair| pair[0].coverage >= pair[1].coverage));
        let colder = abstain_curve(&scored(&logits, &[0, 1, 2, 2], 1), 100.0);
        assert_eq!((colder[5].coverage, colder[5].accuracy), (0.0, None));
    }
}
