//! Charts that pages about a model and pages about the runs it rewarded both have.

use plaudit_reward::audit::ScoresAtFrame;
use plaudit_reward::metrics::Bin;
use plaudit_view::page::{Chart, Ends, Series, Unit};

/// A chart of shares over numbers from 0 to 1.
pub(super) fn unit_square(title: &str, caption: &str, x_label: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.into(),
        caption: caption.into(),
        x_label: x_label.into(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        y_unit: Unit::Percent,
        ends: Ends::Nothing,
        series,
        ..Chart::default()
    }
}

/// How often what is scored alike comes true, before and after calibration.
pub(in crate::commands) fn calibration_chart(
    title: &str,
    x_label: &str,
    before: &[Bin],
    after: &[Bin],
) -> Chart {
    let series = |bins: &[Bin], look: usize, name: &str| Series {
        name: name.into(),
        look,
        dots: true,
        points: bins.iter().map(|bin| (bin.score, bin.successes)).collect(),
        ..Series::default()
    };
    let points = vec![(0.0, 0.0), (1.0, 1.0)];
    let diagonal = Series { name: "calibrated".into(), look: 6, points, ..Series::default() };
    let caption =
        "On the dotted line, what scores 0.7 comes true seven times of ten. Below it, the model is too sure.";
    let series = vec![diagonal, series(before, 1, "before"), series(after, 0, "at the temperature")];
    unit_square(title, caption, x_label, series)
}

/// Scores over time, of episodes that succeed and of those that do not.
pub(in crate::commands) fn scores_chart(successes: &[ScoresAtFrame], failures: &[ScoresAtFrame]) -> Chart {
    let series = |scores: &[ScoresAtFrame], look: usize, name: &str| Series {
        name: name.into(),
        look,
        points: scores.iter().map(|one| (one.frame as f64, one.mean)).collect(),
        band: scores.iter().map(|one| (one.frame as f64, one.low, one.high)).collect(),
        ..Series::default()
    };
    Chart {
        title: "Scores over time".into(),
        caption: "The further apart the lines, the better. Where failures rise with time, a policy is rewarded for lingering.".into(),
        x_label: "frame of the episode".into(),
        x_unit: Unit::Whole,
        y_range: Some((0.0, 1.0)),
        key: vec!["line: mean; band: eight of ten episodes".into()],
        series: vec![
            series(successes, 0, "episodes that succeed"),
            series(failures, 1, "episodes that fail"),
        ],
        ..Chart::default()
    }
}
