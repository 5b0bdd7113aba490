//! A chart as HTML.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{Chart, Ends, Mark, Series, Size};
use crate::page::escape;

/// Both sides of the square that lines are drawn in, before it is stretched.
const SIDE: f64 = 1000.0;
/// Colours and dashes that the style sheet has.
const LOOKS: usize = 7;
/// More points than this cannot be told apart.
const POINTS: usize = 600;
/// A name longer than this does not fit beside the end of its line; the legend has it.
const NAME_BESIDE_END: usize = 26;

/// The figure.
pub(super) fn figure(chart: &Chart) -> String {
    let frame = Frame::around(chart);
    let size = match chart.size {
        Size::Small => "small",
        Size::Large => "large",
        Size::Wide => "wide-chart",
        Size::UnderVideo => "under-film",
    };
    let ends = end_labels(chart, &frame);
    let widest = ends.iter().map(EndLabel::letters).max().unwrap_or(0);
    let short = ends.iter().map(|end| end.value.chars().count() + 3).max().unwrap_or(0);
    let y_ticks = frame.y.ticks(y_wanted(chart.size));
    let ys = y_ticks.iter().map(|(_, words)| words.chars().count()).max().unwrap_or(0).max(3);
    let mut html = format!(
        "<figure class=\"chart {size}\" style=\"--ys:{ys}ch;--ends:{widest}ch;--ends-short:{short}ch\">"
    );
    if !chart.title.is_empty() {
        let _ = write!(html, "<p class=\"name\">{}</p>", escape(&chart.title));
    }
    let _ = write!(html, "<div class=\"plot\"><div class=\"ys\">{}</div>", y_tick_words(&frame, y_ticks));
    html += &field(chart, &frame);
    html += "<div class=\"ends\">";
    for end in &ends {
        html += &end.html();
    }
    let _ = write!(html, "</div><div class=\"xs\">{}</div>", x_ticks(&frame));
    let _ = write!(html, "<div class=\"x-name\">{}</div></div>", escape(&chart.x_label));
    html += &legend(chart);
    if !chart.caption.is_empty() {
        let _ = write!(html, "<figcaption>{}</figcaption>", escape(&chart.caption));
    }
    html + "</figure>"
}

/// The lines, and what is written over them.
fn field(chart: &Chart, frame: &Frame) -> String {
    let ((x0, x1), (y0, y1)) = (frame.x.range, frame.y.range);
    let mut html = format!(
        "<div class=\"field\" data-x=\"{x0} {x1} {:?} {}\" data-y=\"{y0} {y1} {}\">\
         <svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        chart.x_scale,
        chart.x_unit.word(),
        chart.y_unit.word(),
        escape(&read_aloud(chart))
    );
    for (value, _) in frame.y.ticks(y_wanted(chart.size)) {
        let _ = write!(html, "<path class=\"axis\" d=\"M0 {:.1}H{SIDE}\"/>", frame.down(value));
    }
    for (value, _) in frame.x.ticks(X_WANTED) {
        let _ = write!(html, "<path class=\"axis\" d=\"M{:.1} {SIDE}v-12\"/>", frame.right(value));
    }
    for mark in &chart.marks {
        let _ = write!(html, "<path class=\"mark\" d=\"M{:.1} 0V{SIDE}\"/>", frame.right(mark.at));
    }
    for level in &chart.levels {
        let _ = write!(html, "<path class=\"mark\" d=\"M0 {:.1}H{SIDE}\"/>", frame.down(level.at));
    }
    for series in &chart.series {
        draw_series(&mut html, frame, series);
    }
    html += "</svg>";
    for mark in &chart.marks {
        html += &mark_words(mark, "left", frame.x.share(mark.at), "at-x");
    }
    for level in &chart.levels {
        html += &mark_words(level, "bottom", frame.y.share(level.at), "at-y");
    }
    if chart.size == Size::UnderVideo {
        html += "<i class=\"playhead\"></i>";
    }
    html + "</div>"
}

fn mark_words(mark: &Mark, side: &str, share: f64, class: &str) -> String {
    let far = if share > 0.6 { " far" } else { "" };
    format!(
        "<span class=\"mark-name {class}{far}\" style=\"{side}:{:.2}%\">{}</span>",
        100.0 * share,
        escape(&mark.name)
    )
}

/// The chart in words, for screen readers.
fn read_aloud(chart: &Chart) -> String {
    let curve = |series: &Series| {
        let mut finite = series.points.iter().map(|point| point.1).filter(|value| value.is_finite());
        let (first, last) = (finite.next()?, finite.next_back());
        let name = if series.name.is_empty() { &chart.title } else { &series.name };
        let words = |value: f64| chart.y_unit.value(value);
        Some(match last {
            Some(last) => format!("{name} from {} to {}", words(first), words(last)),
            None => format!("{name} {}", words(first)),
        })
    };
    let curves: Vec<String> = chart.series.iter().filter(|one| !one.faint).filter_map(curve).collect();
    format!("Chart: {}. {}.", chart.title, curves.join("; "))
}

const X_WANTED: f64 = 5.0;

fn y_wanted(size: Size) -> f64 {
    match size {
        Size::Large => 4.0,
        Size::Wide => 3.0,
        Size::Small | Size::UnderVideo => 2.0,
    }
}

fn y_tick_words(frame: &Frame, ticks: Vec<(f64, String)>) -> String {
    let tick = |(value, words): (f64, String)| {
        format!("<span class=\"tick\" style=\"top:{:.2}%\">{words}</span>", frame.down(value) / SIDE * 100.0)
    };
    ticks.into_iter().map(tick).collect()
}

fn x_ticks(frame: &Frame) -> String {
    let tick = |(value, words): (f64, String)| {
        format!(
            "<span class=\"tick\" style=\"left:{:.2}%\">{words}</span>",
            frame.right(value) / SIDE * 100.0
        )
    };
    frame.x.ticks(X_WANTED).into_iter().map(tick).collect()
}

fn draw_series(svg: &mut String, frame: &Frame, series: &Series) {
    let look = series.look % LOOKS;
    if series.band.len() > 1 {
        let band = thinned(&series.band);
        let upper = band.iter().map(|&(x, _, high)| frame.at(x, high));
        let lower = band.iter().rev().map(|&(x, low, _)| frame.at(x, low));
        let outline: Vec<String> = upper.chain(lower).collect();
        let _ = write!(svg, "<polygon class=\"band s{look}\" points=\"{}\"/>", outline.join(" "));
    } else if let [(x, low, high)] = series.band[..] {
        let (from, to) = (frame.at(x, low), frame.at(x, high));
        let _ = write!(svg, "<path class=\"whisker s{look}\" d=\"M{from}L{to}\"/>");
    }
    let class = if series.faint { "line faint" } else { "line" };
    let name = if series.faint { String::new() } else { format!(" data-name=\"{}\"", escape(&series.name)) };
    // A gap where a value is missing: NaN must not look like a number.
    let pieces = series.points.split(|(x, y)| !frame.x.holds(*x) || !y.is_finite());
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        let path: Vec<String> = thinned(piece).iter().map(|&(x, y)| frame.at(x, y)).collect();
        if path.len() > 1 {
            let _ = write!(svg, "<polyline class=\"{class} s{look}\"{name} points=\"{}\"/>", path.join(" "));
        }
        if path.len() == 1 || series.dots {
            // A line of no length with round ends is a dot, however the square is stretched.
            let dots: Vec<String> = path.iter().map(|at| format!("M{at}h0")).collect();
            let name = if path.len() == 1 { name.as_str() } else { "" };
            let _ = write!(svg, "<path class=\"dot s{look}\"{name} d=\"{}\"/>", dots.concat());
        }
    }
}

/// What stands at the end of a line.
struct EndLabel {
    look: usize,
    value: String,
    name: String,
    /// Share of the height, from the top.
    top: f64,
}

impl EndLabel {
    fn letters(&self) -> usize {
        self.value.chars().count() + self.name.chars().count() + 4
    }

    fn html(&self) -> String {
        let name = if self.name.is_empty() {
            String::new()
        } else {
            format!(" <span>{}</span>", escape(&self.name))
        };
        format!(
            "<div class=\"end\" style=\"top:{:.2}%\">{}<b>{}</b>{name}</div>",
            100.0 * self.top,
            swatch(self.look),
            escape(&self.value),
        )
    }
}

fn end_labels(chart: &Chart, frame: &Frame) -> Vec<EndLabel> {
    if chart.ends == Ends::Nothing {
        return Vec::new();
    }
    let label = |series: &Series| {
        let (_, last) = series.points.iter().rfind(|(x, y)| frame.x.holds(*x) && y.is_finite())?;
        let fits =
            matches!(chart.size, Size::Large | Size::Wide) && series.name.chars().count() <= NAME_BESIDE_END;
        let name = if fits || chart.ends == Ends::Names { series.name.clone() } else { String::new() };
        let value = if chart.ends == Ends::Values { chart.y_unit.value(*last) } else { String::new() };
        Some(EndLabel { look: series.look % LOOKS, value, name, top: frame.down(*last) / SIDE })
    };
    let mut labels: Vec<EndLabel> = chart.series.iter().filter(|one| !one.faint).filter_map(label).collect();
    // The height of a line of words as a share of the chart's, where that is lowest: on a phone.
    let apart = match chart.size {
        Size::Large => 0.075,
        Size::Wide => 0.1,
        Size::Small => 0.13,
        Size::UnderVideo => 0.14,
    };
    set_apart(&mut labels, apart);
    labels
}

/// Moves labels up and down until no two are closer than `apart`; there are no labels where there is no room for all.
fn set_apart(labels: &mut Vec<EndLabel>, apart: f64) {
    if labels.len() as f64 * apart > 1.1 {
        labels.clear();
        return;
    }
    labels.sort_by(|one, other| one.top.total_cmp(&other.top));
    for at in 1..labels.len() {
        labels[at].top = labels[at].top.max(labels[at - 1].top + apart);
    }
    let mut lowest = 1.0;
    for label in labels.iter_mut().rev() {
        label.top = label.top.min(lowest);
        lowest = label.top - apart;
    }
}

/// A piece of line as it looks in the chart.
fn swatch(look: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line s{look}\" d=\"M0 4h24\"/></svg>"
    )
}

fn legend(chart: &Chart) -> String {
    let named: Vec<&Series> =
        chart.series.iter().filter(|series| !series.faint && !series.name.is_empty()).collect();
    let is_shown = named.len() > 1 || (named.len() == 1 && chart.size != Size::Small);
    if !is_shown && chart.key.is_empty() {
        return String::new();
    }
    let mut html = String::from("<ul class=\"legend\">");
    for series in named.iter().filter(|_| is_shown) {
        let _ = write!(html, "<li>{}{}</li>", swatch(series.look % LOOKS), escape(&series.name));
    }
    for words in &chart.key {
        let _ = write!(html, "<li class=\"key\">{}</li>", escape(words));
    }
    html + "</ul>"
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
        let xs = points().map(|p| p.0).chain(bands().map(|b| b.0)).chain(chart.marks.iter().map(|m| m.at));
        let ys = points().map(|p| p.1).chain(bands().flat_map(|b| [b.1, b.2]));
        let ys = ys.chain(chart.levels.iter().map(|level| level.at));
        Self {
            x: Axis::over(xs, (chart.x_scale, chart.x_unit), chart.x_range, 0.0),
            y: Axis::over(ys, (super::Scale::Linear, chart.y_unit), chart.y_range, 0.05),
        }
    }

    fn right(&self, x: f64) -> f64 {
        SIDE * self.x.share(x)
    }

    fn down(&self, y: f64) -> f64 {
        let (low, high) = self.y.range;
        SIDE * (1.0 - self.y.share(y.clamp(low, high)))
    }

    fn at(&self, x: f64, y: f64) -> String {
        format!("{:.1},{:.1}", self.right(x), self.down(y))
    }
}
