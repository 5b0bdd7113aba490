//! Scores along episodes: one small chart each.

use std::ops::Range;

use plaudit_draw::colour::{BLUE, FAINT, GREY, MUTED, PAPER};
use plaudit_draw::{Canvas, ContactSheet, Font, Group, Rgb, SheetFrame, Tint, Weight};

use super::Png;

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
const COLUMNS: usize = 3;
/// Width and height of a chart with its axes.
const CHART: (usize, usize) = (256, 164);
/// Pixels above, right of, below and left of the plot: for the numbers of the axes.
const BESIDE: [usize; 4] = [22, 12, 34, 30];
/// Behind frames that show success.
const SUCCESS: Rgb = [199, 240, 212];
/// Height of the numbers.
const NUMBERS: usize = 12;

/// Draws a chart per episode: its scores as a line, the threshold as another, green ground where success is true.
#[must_use]
pub fn curves(episodes: &[ScoreCurve], threshold: f64) -> Png {
    let frame = |curve: &ScoreCurve| SheetFrame {
        image: chart(curve, threshold),
        tint: Tint::Plain,
        caption: vec![curve.episode.clone()],
    };
    let sheet = ContactSheet {
        title: "Scores along episodes".into(),
        about: "The score that the reward model gives each frame, from the first of an episode to its last."
            .into(),
        legend: vec![
            (BLUE, "score".into()),
            (GREY, format!("threshold {threshold:.2}: above it counts as success")),
            (SUCCESS, "labelled success".into()),
        ],
        columns: COLUMNS,
        groups: vec![Group { heading: String::new(), frames: episodes.iter().map(frame).collect() }],
    };
    Png::from(&sheet.draw())
}

/// Where frames and scores are in a chart.
struct Axes {
    /// The first frame and the last.
    frames: Range<usize>,
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Axes {
    fn of(curve: &ScoreCurve) -> Self {
        let [top, right, bottom, left] = BESIDE;
        let low = curve.at.iter().copied().min().unwrap_or(0);
        let high = curve.at.iter().copied().max().unwrap_or(0).max(low + 1);
        let (width, height) = (CHART.0 - left - right, CHART.1 - top - bottom);
        Self { frames: low..high, left, top, width, height }
    }

    /// The column of a frame, or of a place between two.
    fn x(&self, frame: f64) -> f32 {
        // Half a frame is left free at both ends, so that the ground of the first and the last is as wide as of the others.
        let share = (frame - self.frames.start as f64 + 0.5) / (self.frames.len() as f64 + 1.0);
        self.left as f32 + (share.clamp(0.0, 1.0) * self.width as f64) as f32
    }

    /// The row of a score. One that is no number is at the bottom.
    fn y(&self, score: f64) -> f32 {
        let score = if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 };
        self.top as f32 + ((1.0 - score) * self.height as f64) as f32
    }
}

fn chart(curve: &ScoreCurve, threshold: f64) -> Canvas {
    let axes = Axes::of(curve);
    let mut image = Canvas::filled(CHART.0, CHART.1, PAPER);
    shade_successes(&mut image, &axes, curve);
    draw_axes(&mut image, &axes);
    for dash in (0..axes.width).step_by(8) {
        image.fill((axes.left + dash, axes.y(threshold).round() as usize), (4, 2), GREY);
    }
    let places: Vec<[f32; 2]> =
        curve.at.iter().zip(&curve.scores).map(|(at, score)| [axes.x(*at as f64), axes.y(*score)]).collect();
    for pair in places.windows(2) {
        image.line(pair[0], pair[1], 2.0, BLUE);
    }
    if let [only] = places[..] {
        image.line(only, only, 5.0, BLUE);
    }
    image
}

/// Green ground from half-way to the frame before a success to half-way to the frame after it.
fn shade_successes(image: &mut Canvas, axes: &Axes, curve: &ScoreCurve) {
    let middle = |one: usize, other: usize| (one as f64 + other as f64) / 2.0;
    for (place, at) in curve.at.iter().enumerate().filter(|(place, _)| curve.truth.get(*place) == Some(&true))
    {
        let before = place.checked_sub(1).map_or(*at as f64 - 0.5, |before| middle(curve.at[before], *at));
        let after = curve.at.get(place + 1).map_or(*at as f64 + 0.5, |after| middle(*at, *after));
        let (from, to) = (axes.x(before).round() as usize, axes.x(after).round() as usize);
        image.fill((from, axes.top), (to.saturating_sub(from), axes.height), SUCCESS);
    }
}

/// Lines and numbers: 0, 0.5 and 1 of the score, and frames at round numbers.
fn draw_axes(image: &mut Canvas, axes: &Axes) {
    let font = Font::get(Weight::Regular, NUMBERS);
    let line = font.line_height();
    for (score, words) in [(0.0, "0"), (0.5, "0.5"), (1.0, "1")] {
        let row = axes.y(score).round() as usize;
        image.fill((axes.left, row), (axes.width, 1), if score == 0.0 { GREY } else { FAINT });
        let left = axes.left.saturating_sub(font.width(words) + 5);
        font.draw(image, (left, row.saturating_sub(line / 2)), MUTED, words);
    }
    image.fill((axes.left, axes.top), (1, axes.height), GREY);
    font.draw(image, (axes.left, axes.top.saturating_sub(line + 3)), MUTED, "score");
    let below = axes.top + axes.height + 2;
    let middle = axes.left + (axes.width - font.width("frame")) / 2;
    font.draw(image, (middle, below + line - 3), MUTED, "frame");
    for frame in round_frames(&axes.frames) {
        let (words, at) = (frame.to_string(), axes.x(frame as f64).round() as usize);
        let left = at.saturating_sub(font.width(&words) / 2).min(CHART.0 - font.width(&words));
        image.fill((at, axes.top + axes.height), (1, 3), GREY);
        font.draw(image, (left, below), MUTED, &words);
    }
}

/// At most seven round numbers among the frames.
fn round_frames(frames: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
    let mut steps = (0..)
        .flat_map(|power| [1, 2, 5].map(|lead: usize| lead.saturating_mul(10_usize.saturating_pow(power))));
    let step = steps.find(|step| frames.len() / step <= 6).unwrap_or(usize::MAX);
    (frames.start.div_ceil(step) * step..=frames.end).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(frames: usize) -> ScoreCurve {
        ScoreCurve {
            episode: "rank_0/env_3/episode_17_of_a_long_collection.pkl".into(),
            at: (0..frames).collect(),
            scores: (0..frames).map(|at| at as f64 / frames as f64).collect(),
            truth: (0..frames).map(|at| 2 * at >= frames).collect(),
        }
    }

    #[test]
    fn charts_are_three_in_a_row() {
        let one = curves(&[curve(1)], 0.5);
        let all = curves(&[curve(1), curve(30), curve(0), curve(2), curve(900)], 0.5);
        assert!(all.width > 3 * CHART.0 && all.height > one.height + CHART.1);
        assert!(curves(&[], 0.5).height > 0);
    }

    #[test]
    fn a_chart_has_its_line_its_threshold_and_green_ground() {
        let image = chart(&curve(30), 0.25);
        let axes = Axes::of(&curve(30));
        let at = |frame: f64, score: f64| image.at(axes.x(frame) as usize, axes.y(score) as usize);
        assert_eq!((at(5.0, 0.9), at(25.0, 0.1)), (PAPER, SUCCESS));
        assert_eq!(at(15.0, 0.5), BLUE);
        let dashes = |score: f64| {
            (0..CHART.0).filter(|x| image.at(*x, axes.y(score).round() as usize) == GREY).count()
        };
        assert!(dashes(0.25) > 60 && dashes(0.75) < 3, "{} {}", dashes(0.25), dashes(0.75));
        let ink = |rows: Range<usize>, columns: Range<usize>| {
            rows.flat_map(|y| columns.clone().map(move |x| (x, y))).any(|(x, y)| image.at(x, y)[2] < 128)
        };
        assert!(
            ink(0..CHART.1, 0..axes.left) && ink(axes.top + axes.height..CHART.1, 0..CHART.0),
            "axes have numbers"
        );
    }

    #[test]
    fn scores_that_are_no_numbers_and_frames_out_of_order_are_drawn_all_the_same() {
        let odd = ScoreCurve {
            at: vec![9, 2, 2],
            scores: vec![f64::NAN, 7.0, -1.0],
            truth: vec![true; 2],
            ..curve(0)
        };
        assert_eq!(chart(&odd, f64::NAN).size(), CHART);
    }

    #[test]
    fn axes_have_round_numbers() {
        let cases: [(Range<usize>, &[usize]); 4] = [
            (0..1, &[0, 1]),
            (3..20, &[5, 10, 15, 20]),
            (0..50, &[0, 10, 20, 30, 40, 50]),
            (0..1234, &[0, 200, 400, 600, 800, 1000, 1200]),
        ];
        for (frames, expected) in cases {
            assert_eq!(round_frames(&frames).collect::<Vec<_>>(), expected, "{frames:?}");
        }
    }
}
