//! Line charts that fill the width they are given.
//!
//! Lines are SVG, stretched to the place there is; words (ticks, names, values at the ends of lines) are HTML over it. So
//! lines reach from edge to edge at any width, and words are as large on a phone as on a wide screen.

mod axis;
mod draw;

pub use axis::{Scale, Unit};

/// A chart of curves.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What to conclude from it.
    pub caption: String,
    /// What lies along the bottom.
    pub x_label: String,
    /// How the bottom is laid out.
    pub x_scale: Scale,
    /// How numbers along the bottom are written.
    pub x_unit: Unit,
    /// From and to, along the bottom. Not set: as the values need.
    pub x_range: Option<(f64, f64)>,
    /// From and to, along the side. Not set: as the values need.
    pub y_range: Option<(f64, f64)>,
    /// How numbers along the side are written.
    pub y_unit: Unit,
    /// How much room it takes.
    pub size: Size,
    /// What stands at the ends of lines.
    pub ends: Ends,
    /// The curves.
    pub series: Vec<Series>,
    /// Upright lines at places worth noticing.
    pub marks: Vec<Mark>,
    /// Level lines at values worth noticing.
    pub levels: Vec<Mark>,
    /// Words about how the lines are drawn, after the legend: what is smoothed, what a band is.
    pub key: Vec<String>,
}

/// How much room a chart takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Size {
    /// A part of the width, beside others.
    #[default]
    Small,
    /// The whole width of the page, and high.
    Large,
    /// The whole width of the page, and low.
    Wide,
    /// Under a video, with a line that runs in step with it.
    UnderVideo,
}

/// What stands at the ends of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ends {
    /// The last value, and the name of the line.
    #[default]
    Values,
    /// The name alone: the last value says nothing.
    Names,
    /// Nothing.
    Nothing,
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
    /// Whether each point is marked as one.
    pub dots: bool,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// How sure the curve is: x, lower, upper.
    pub band: Vec<(f64, f64, f64)>,
}

/// A place worth noticing.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What is there.
    pub name: String,
}

impl Chart {
    /// A chart of one curve.
    pub fn of_curve(title: impl Into<String>, x_label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let series = vec![Series { points, ..Series::default() }];
        Self { title: title.into(), x_label: x_label.into(), series, ..Self::default() }
    }

    /// The figure, as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        draw::figure(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_numbers_leave_a_gap() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)];
        let html = Chart::of_curve("loss", "step", points).html();
        assert_eq!(html.matches("<polyline").count(), 2);
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn a_curve_without_points_or_of_one_value_is_still_a_chart_with_ticks() {
        for points in
            [vec![], vec![(1.0, 0.0)], vec![(1.0, 3.0), (2.0, 3.0)], vec![(f64::NAN, f64::INFINITY)]]
        {
            let html = Chart::of_curve("<x>", "y", points).html();
            assert!(html.starts_with("<figure") && html.ends_with("</figure>"), "{html}");
            assert!(!html.contains("NaN") && !html.contains("inf") && !html.contains("<x>"), "{html}");
            for axis in ["class=\"xs\"", "class=\"ys\""] {
                let ticks = html.split(axis).nth(1).unwrap().split("</div>").next().unwrap();
                assert!(ticks.matches("class=\"tick\"").count() >= 2, "{html}");
            }
        }
    }

    #[test]
    fn a_legend_has_whole_names_and_the_ends_have_values() {
        let name = "a name that is much longer than the twenty-six letters of old";
        let series = |name: &str, look| Series {
            name: name.into(),
            look,
            points: vec![(0.0, 0.25), (4.0, 0.75)],
            ..Series::default()
        };
        let chart = Chart {
            y_unit: Unit::Percent,
            size: Size::Large,
            series: vec![series(name, 0), series("other", 1)],
            caption: "what to conclude".into(),
            ..Chart::default()
        };
        let html = chart.html();
        let legend = html.split("class=\"legend\"").nth(1).unwrap();
        assert!(legend.contains(name) && legend.contains("other"), "{legend}");
        assert!(html.contains("75 %") && html.contains("<figcaption>what to conclude"));
        assert!(html.contains(&format!("{name} from 25 % to 75 %")), "read aloud: {html}");
    }

    #[test]
    fn labels_at_the_ends_do_not_cover_each_other() {
        let series = (0..4).map(|look| Series {
            name: format!("run {look}"),
            look,
            points: vec![(0.0, 0.0), (1.0, 0.9 + 0.001 * look as f64)],
            ..Series::default()
        });
        let chart = Chart { size: Size::Large, series: series.collect(), ..Chart::default() };
        let html = chart.html();
        let mut places: Vec<f64> = html
            .split("class=\"end\" style=\"top:")
            .skip(1)
            .map(|rest| rest.split('%').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(places.len(), 4);
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 5.0), "{places:?}");
        assert!(places[0] >= 0.0 && places[3] <= 100.0, "{places:?}");
    }
}
