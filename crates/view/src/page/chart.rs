//! Line charts as SVG.

use std::fmt::Write as _;

use crate::format;
use crate::page::escape;

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten; values at or below zero are left out.
    Log,
}

/// A chart of curves.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What lies along the bottom.
    pub x_label: String,
    /// How the bottom is laid out.
    pub x_scale: Scale,
    /// From and to, along the side. Not set: as the values need.
    pub y_range: Option<(f64, f64)>,
    /// The curves.
    pub series: Vec<Series>,
    /// Upright lines at places worth noticing.
    pub marks: Vec<Mark>,
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Its name in the legend; an empty name is not in the legend.
    pub name: String,
    /// Which colour and dash it has; curves that belong together share one.
    pub look: usize,
    /// Whether it stands behind the others: a single seed, raw values under a smooth curve.
    pub faint: bool,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// How sure the curve is: x, lower, upper.
    pub band: Vec<(f64, f64, f64)>,
}

/// A place worth noticing.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where along the bottom.
    pub x: f64,
    /// What is there.
    pub name: String,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 34.0;
const LEGEND_ROW: f64 = 15.0;
/// Colours and dashes that the style sheet has.
const LOOKS: usize = 7;
/// More points than this cannot be told apart.
const POINTS: usize = 600;

impl Chart {
    /// A chart of one curve.
    pub fn of_curve(title: impl Into<String>, x_label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let series = vec![Series { points, ..Series::default() }];
        Self { title: title.into(), x_label: x_label.into(), series, ..Self::default() }
    }

    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let frame = Frame::around(self);
        let legend: Vec<&Series> = self.series.iter().filter(|series| !series.name.is_empty()).collect();
        let height = HEIGHT + LEGEND_ROW * legend.len().div_ceil(2) as f64;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let _ = write!(svg, "<text x=\"{LEFT}\" y=\"14\" font-weight=\"600\">{}</text>", escape(&self.title));
        self.draw_axes(&mut svg, &frame);
        for mark in &self.marks {
            draw_mark(&mut svg, &frame, mark);
        }
        for series in &self.series {
            draw_series(&mut svg, &frame, series);
        }
        draw_legend(&mut svg, &legend);
        svg + "</svg>"
    }

    fn draw_axes(&self, svg: &mut String, frame: &Frame) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in frame.y.ticks() {
            let y = frame.y.place(value);
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{LEFT} {y:.1}H{right}\"/><text class=\"soft\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                y + 4.0,
                tick_text(value)
            );
        }
        for value in frame.x.ticks() {
            let x = frame.x.place(value);
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/><text class=\"soft\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                tick_text(value)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"soft\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            bottom + 29.0,
            escape(&self.x_label)
        );
    }
}

fn draw_mark(svg: &mut String, frame: &Frame, mark: &Mark) {
    let x = frame.x.place(mark.x);
    let _ = write!(
        svg,
        "<path class=\"mark\" d=\"M{x:.1} {TOP}V{}\"/><text class=\"soft\" x=\"{:.1}\" y=\"{}\">{}</text>",
        HEIGHT - BOTTOM,
        x + 3.0,
        TOP + 10.0,
        escape(&mark.name)
    );
}

fn draw_series(svg: &mut String, frame: &Frame, series: &Series) {
    let look = series.look % LOOKS;
    if series.band.len() > 1 {
        let band = thinned(&series.band);
        let upper = band.iter().map(|&(x, _, high)| frame.at(x, high));
        let lower = band.iter().rev().map(|&(x, low, _)| frame.at(x, low));
        let outline: Vec<String> = upper.chain(lower).collect();
        let _ = write!(svg, "<polygon class=\"band s{look}\" points=\"{}\"/>", outline.join(" "));
    }
    let class = if series.faint { "line faint" } else { "line" };
    // A gap where a value is missing: NaN must not look like a number.
    let pieces = series.points.split(|(x, y)| !x.is_finite() || !y.is_finite() || !frame.x.holds(*x));
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        let path: Vec<String> = thinned(piece).iter().map(|&(x, y)| frame.at(x, y)).collect();
        match &path[..] {
            [point] => {
                let (x, y) = point.split_once(',').unwrap_or(("0", "0"));
                let _ = write!(svg, "<circle class=\"s{look}\" cx=\"{x}\" cy=\"{y}\" r=\"2.5\"/>");
            }
            _ => {
                let _ = write!(
                    svg,
                    "<polyline class=\"{class} s{look}\" style=\"fill:none\" points=\"{}\"/>",
                    path.join(" ")
                );
            }
        }
    }
}

fn draw_legend(svg: &mut String, legend: &[&Series]) {
    for (index, series) in legend.iter().enumerate() {
        let x = LEFT + (index % 2) as f64 * (WIDTH - LEFT) / 2.0;
        let y = HEIGHT + 8.0 + (index / 2) as f64 * LEGEND_ROW;
        let name: String = series.name.chars().take(26).collect();
        let _ = write!(
            svg,
            "<path class=\"line s{}\" d=\"M{x} {}h22\"/><text x=\"{}\" y=\"{y}\">{}</text>",
            series.look % LOOKS,
            y - 4.0,
            x + 27.0,
            escape(&name)
        );
    }
}

/// At most [`POINTS`] of the items, evenly, with the last.
fn thinned<T: Copy>(items: &[T]) -> Vec<T> {
    if items.len() <= POINTS {
        return items.to_vec();
    }
    (0..POINTS).map(|i| items[i * (items.len() - 1) / (POINTS - 1)]).collect()
}

/// Where values are drawn.
struct Frame {
    x: Axis,
    y: Axis,
}

impl Frame {
    fn around(chart: &Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let bands = || chart.series.iter().flat_map(|series| &series.band);
        let marks = chart.marks.iter().map(|mark| mark.x);
        let xs = points().map(|p| p.0).chain(bands().map(|b| b.0)).chain(marks);
        let xs = xs.filter(|x| chart.x_scale == Scale::Linear || *x > 0.0);
        let ys = points().map(|p| p.1).chain(bands().flat_map(|b| [b.1, b.2]));
        let x = Axis { scale: chart.x_scale, range: extent(xs), from: LEFT, to: WIDTH - RIGHT };
        let range = chart.y_range.unwrap_or_else(|| widened(extent(ys)));
        let y = Axis { scale: Scale::Linear, range, from: HEIGHT - BOTTOM, to: TOP };
        Self { x, y }
    }

    fn at(&self, x: f64, y: f64) -> String {
        let (low, high) = self.y.range;
        format!("{:.1},{:.1}", self.x.place(x), self.y.place(y.clamp(low, high)))
    }
}

struct Axis {
    scale: Scale,
    range: (f64, f64),
    from: f64,
    to: f64,
}

impl Axis {
    fn holds(&self, value: f64) -> bool {
        self.scale == Scale::Linear || value > 0.0
    }

    fn place(&self, value: f64) -> f64 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        let (low, high) = (along(self.range.0), along(self.range.1));
        let share = if high > low { (along(value) - low) / (high - low) } else { 0.5 };
        self.from + share * (self.to - self.from)
    }

    /// About four round numbers.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        if self.scale == Scale::Log {
            let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let step = round_step((high - low) / 4.0);
        let first = (low / step).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last.min(first + 20)).map(|tick| tick as f64 * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= wanted).unwrap_or(1.0)
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    match (low.is_finite(), low < high) {
        (false, _) => (0.0, 1.0),
        (true, true) => (low, high),
        (true, false) => (low - 0.5 * low.abs().max(1e-3), low + 0.5 * low.abs().max(1e-3)),
    }
}

/// A little room above and below.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    let room = (high - low) * 0.05;
    (low - room, high + room)
}

fn tick_text(value: f64) -> String {
    let size = value.abs();
    match value {
        _ if size >= 1e6 => format!("{}M", format::number(value / 1e6)),
        _ if size >= 1e4 => format!("{}k", format::number(value / 1e3)),
        _ if size >= 10.0 => format!("{value:.0}"),
        _ if size < 1e-12 => "0".into(),
        _ => {
            let text = format!("{value:.4}");
            if size < 1e-3 {
                format!("{value:.0e}")
            } else {
                text.trim_end_matches('0').trim_end_matches('.').into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = |low, high| Axis { scale: Scale::Linear, range: (low, high), from: 0.0, to: 1.0 };
        assert_eq!(axis(0.0, 1.0).ticks(), [0.0, 0.5, 1.0]);
        assert_eq!(axis(-3.0, 97.0).ticks(), [0.0, 50.0]);
        assert_eq!(axis(0.0, 400.0).ticks(), [0.0, 100.0, 200.0, 300.0, 400.0]);
        let log = Axis { scale: Scale::Log, range: (0.002, 5.0), from: 0.0, to: 1.0 };
        assert_eq!(log.ticks(), [0.01, 0.1, 1.0]);
    }

    #[test]
    fn values_that_are_no_numbers_leave_a_gap() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)];
        let svg = Chart::of_curve("loss", "step", points).svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_curve_without_points_or_of_one_value_is_still_a_picture() {
        for points in
            [vec![], vec![(1.0, 0.0)], vec![(1.0, 3.0), (2.0, 3.0)], vec![(f64::NAN, f64::INFINITY)]]
        {
            let svg = Chart::of_curve("<x>", "y", points).svg();
            assert!(
                svg.starts_with("<svg")
                    && svg.ends_with("</svg>")
                    && !svg.contains("NaN")
                    && !svg.contains("inf"),
                "{svg}"
            );
        }
    }
}
