//! Scores along episodes: one small chart each.

use super::canvas::{self, Canvas, Rgb};
use super::{Png, font};

/// The scores of one episode, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreCurve {
    /// The episode.
    pub episode: String,
    /// Which entry of the episode each is.
    pub at: Vec<usize>,
    /// The scores, from 0 to 1.
    pub scores: Vec<f64>,
    /// What is true.
    pub truth: Vec<bool>,
}

/// Charts side by side.
const COLUMNS: usize = 4;
/// Rows and columns of a chart.
const CHART: [usize; 2] = [90, 230];
const GAP: usize = 12;
const TITLE: usize = font::HEIGHT + 5;
/// Behind frames that show success, and behind those that do not.
const TRUE: Rgb = [20, 60, 36];
const FALSE: Rgb = [39, 39, 42];
const LINE: Rgb = [96, 165, 250];

/// Draws a chart per episode: its scores as a line, the threshold as another, green ground where success is true.
#[must_use]
pub fn curves(episodes: &[ScoreCurve], threshold: f64) -> Png {
    let rows = episodes.len().div_ceil(COLUMNS).max(1);
    let columns = episodes.len().clamp(1, COLUMNS);
    let mut canvas = Canvas::new(GAP + rows * (CHART[0] + TITLE + GAP), GAP + columns * (CHART[1] + GAP));
    for (number, curve) in episodes.iter().enumerate() {
        let top = GAP + number / COLUMNS * (CHART[0] + TITLE + GAP);
        let left = GAP + number % COLUMNS * (CHART[1] + GAP);
        canvas.write(top, left, &canvas::fitting(&curve.episode, CHART[1], 1), 1, canvas::INK);
        chart(&mut canvas, top + TITLE, left, curve, threshold);
    }
    canvas.png()
}

fn chart(canvas: &mut Canvas, top: usize, left: usize, curve: &ScoreCurve, threshold: f64) {
    let count = curve.scores.len().max(1);
    let edge = |at: usize| left + at * CHART[1] / count;
    canvas.fill(top..top + CHART[0], left..left + CHART[1], FALSE);
    for (at, _) in curve.truth.iter().enumerate().filter(|(_, success)| **success) {
        canvas.fill(top..top + CHART[0], edge(at)..edge(at + 1), TRUE);
    }
    let row = |score: f64| (top + CHART[0] - 2) as f64 - score.clamp(0.0, 1.0) * (CHART[0] - 3) as f64;
    let middle = |at: usize| left as f64 + (at as f64 + 0.5) * CHART[1] as f64 / count as f64;
    for dash in (0..CHART[1]).step_by(6) {
        let row = row(threshold) as usize;
        canvas.fill(row..row + 1, left + dash..left + dash + 3, canvas::GREY);
    }
    let places: Vec<[f64; 2]> =
        curve.scores.iter().enumerate().map(|(at, score)| [row(*score), middle(at)]).collect();
    for pair in places.windows(2) {
        canvas.line(pair[0], pair[1], LINE);
    }
    if let [only] = places[..] {
        canvas.line(only, only, LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_four_in_a_row() {
        let curve = |frames: usize| ScoreCurve {
            episode: "a".into(),
            at: (0..frames).collect(),
            scores: vec![0.5; frames],
            truth: vec![true; frames],
        };
        let png = curves(&[curve(1), curve(30), curve(0), curve(2), curve(9)], 0.5);
        assert_eq!((png.height, png.width), (12 + 2 * 112, 12 + 4 * 242));
        assert!(curves(&[], 0.5).height > 0);
    }
}
