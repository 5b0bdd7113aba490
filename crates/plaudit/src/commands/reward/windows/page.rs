//! The page about a judge.

use plaudit_reward::audit::LabelHonesty;
use plaudit_reward::pictures::Png;
use plaudit_view::page::{Chart, Html, Page, Series};

use super::super::audit::{Stored, details, honesty_chart, interval, percent, shown, verdict};
use super::audit::{JudgeAudit, SeenBefore};

/// Width of a window's picture on the page, in rem.
const STRIP: f64 = 30.0;

/// The whole page; `mistakes` are pictures with words.
pub(super) fn page(audit: &JudgeAudit, mistakes: &[(Png, String)]) -> String {
    let title = if audit.passed { "Audit: passed" } else { "Audit: not passed" };
    let mut page = Page::new(title, format!("{} on {}", audit.model, audit.data.join(", ")));
    let body = &mut page.body;
    verdict(body, &audit.verdict);
    body.tiles(&tiles(audit));
    labels(body, audit);
    progress(body, audit);
    calibration(body, audit);
    abstaining(body, audit);
    changed(body, audit);
    body.heading("The worst mistakes");
    let wrong = audit.metrics.windows as f64 * (1.0 - audit.metrics.accuracy);
    body.paragraph(&format!(
        "{wrong:.0} of {} windows are judged wrongly; those that it was surest of come first. Time goes from left to right, \
         and each row is a view.",
        audit.metrics.windows
    ));
    body.thumbnails_of(STRIP, &shown(mistakes));
    sharing(body, audit);
    details(body, &audit.verdict);
    page.render()
}

fn tiles(audit: &JudgeAudit) -> Vec<(String, String)> {
    let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let rank = audit.agreement.as_ref().and_then(|found| found.rank).map(|rank| rank.value);
    vec![
        (format!("{:.3}", audit.metrics.balanced_accuracy), "balanced accuracy".into()),
        (number(rank), "rank correlation with progress".into()),
        (number(audit.calibration.temperature), "temperature".into()),
        (format!("{:.3}", audit.calibration.after.ece), "calibration error".into()),
        (format!("{:.0}", audit.windows_per_second), "windows per second".into()),
    ]
}

fn labels(body: &mut Html, audit: &JudgeAudit) {
    let metrics = &audit.metrics;
    body.heading("What it says, and what is right");
    body.paragraph(&format!(
        "{} windows of {} episodes. Balanced accuracy, the mean of the labels' recalls: {}; the interval holds 95 % of the \
         values over episodes drawn again and again, since windows of one episode look alike.",
        metrics.windows,
        audit.episodes,
        interval(audit.balanced_accuracy)
    ));
    let row = |(name, row): (&&str, [usize; 3])| {
        let counts = row.iter().map(ToString::to_string);
        std::iter::once(format!("is {name}")).chain(counts).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = audit.labels.iter().zip(metrics.confusion.0).map(row).collect();
    body.table(&["", "called positive", "called negative", "called unclear"], &rows);
    let some = |value: Option<f64>| value.map_or("–".into(), percent);
    let row = |(name, label): (&&str, &plaudit_reward::metrics::LabelScore)| {
        vec![
            (*name).to_string(),
            label.windows.to_string(),
            some(label.precision),
            some(label.recall),
            some(label.f1),
        ]
    };
    let rows: Vec<Vec<String>> = audit.labels.iter().zip(&metrics.labels).map(row).collect();
    body.table(&["label", "windows", "precision", "recall", "F1"], &rows);
}

fn progress(body: &mut Html, audit: &JudgeAudit) {
    body.heading("Whether its votes go with progress");
    let Some(found) = &audit.agreement else {
        body.paragraph("These windows do not say how the environment's own measure grew.");
        return;
    };
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    body.paragraph(&format!(
        "A vote is the probability of better less that of worse. Rank correlation of votes with how much the environment's \
         own measure grew, over {} windows: {}; within episodes, the median is {}. Of the windows that get better or worse, \
         {} have a vote of the right sign.",
        found.windows,
        interval(found.rank),
        some(found.rank_within_episodes),
        found.same_direction.map_or("–".into(), percent)
    ));
    let series = Series {
        name: "mean, and eight of ten windows".into(),
        points: found.by_progress.iter().map(|part| (part.progress, part.vote)).collect(),
        band: found.by_progress.iter().map(|part| (part.progress, part.low, part.high)).collect(),
        ..Series::default()
    };
    let chart = Chart {
        title: "Votes over progress".into(),
        x_label: "growth of the environment's measure".into(),
        y_range: Some((-1.0, 1.0)),
        series: vec![series],
        ..Chart::default()
    };
    body.charts([&chart]);
}

fn calibration(body: &mut Html, audit: &JudgeAudit) {
    let found = &audit.calibration;
    body.heading("Whether its probabilities mean what they say");
    body.paragraph(&match found.temperature {
        Some(temperature) => format!(
            "Logits divided by {temperature:.3}, fitted on {} episodes and measured on the other {}.",
            found.fitted_on, found.measured_on
        ),
        None => "No temperature could be fitted: half of the episodes have one label alone.".into(),
    });
    let row = |name: &str, one: &LabelHonesty| {
        let numbers =
            [one.ece, one.label_ece[0], one.label_ece[1], one.label_ece[2], one.brier, one.log_loss];
        std::iter::once(name.to_string()).chain(numbers.map(|number| format!("{number:.4}"))).collect()
    };
    let rows: [Vec<String>; 2] =
        [row("as the network says it", &found.before), row("at the temperature", &found.after)];
    let head = [
        "",
        "calibration error (ECE)",
        "of positive",
        "of negative",
        "of unclear",
        "Brier score",
        "log loss",
    ];
    body.table(&head, &rows);
    let title = "How often it is right where it is as sure";
    let x_label = "probability of the likeliest label";
    body.charts([&honesty_chart(title, x_label, &found.before.bins, &found.after.bins)]);
    match &audit.stored {
        Stored::In { file } => body.paragraph(&format!("The temperature is stored in {file}.")),
        Stored::No { why } => body.paragraph(&format!("Nothing was stored: {why}.")),
    };
}

fn abstaining(body: &mut Html, audit: &JudgeAudit) {
    body.heading("What abstaining gains");
    body.paragraph(
        "Where better and worse are less than reward.model.abstain_band apart in probability, the answer counts as unclear: \
         fewer windows are called better or worse, and more of those calls are right.",
    );
    let curve =
        |name: &str, look: usize, of: &dyn Fn(&plaudit_reward::audit::AtBand) -> Option<f64>| Series {
            name: name.into(),
            look,
            points: audit.abstaining.iter().filter_map(|at| Some((at.band, of(at)?))).collect(),
            ..Series::default()
        };
    let chart = Chart {
        title: "Calls of better and worse".into(),
        x_label: "abstain_band".into(),
        y_range: Some((0.0, 1.0)),
        series: vec![
            curve("share of windows called", 0, &|at| Some(at.coverage)),
            curve("right among them", 1, &|at| at.accuracy),
            curve("opposite among them", 2, &|at| at.reversed),
        ],
        ..Chart::default()
    };
    body.charts([&chart]);
}

fn changed(body: &mut Html, audit: &JudgeAudit) {
    body.heading("Whether it watches what happens");
    body.paragraph(
        "Windows changed in ways of which the right answer is known. Played backwards, better becomes worse; with one frame \
         throughout, nothing can be told. A covered view shows how much the judge needs it.",
    );
    let row = |one: &plaudit_reward::audit::Disturbed| {
        vec![one.name.clone(), one.windows.to_string(), percent(one.right), format!("{:+.3}", one.vote)]
    };
    let rows: Vec<Vec<String>> = audit.changed.iter().map(row).collect();
    body.table(&["", "windows", "judged as they should be", "mean vote"], &rows);
}

fn sharing(body: &mut Html, audit: &JudgeAudit) {
    body.heading("Whether it has seen these windows before");
    body.paragraph(&match &audit.seen_before {
        SeenBefore::Training { episodes, of } => {
            format!("It learned from windows of {episodes} of these {of} episodes.")
        }
        SeenBefore::Validation => "It was chosen on windows of these episodes.".into(),
        SeenBefore::Apart => {
            "No episode of these is among those that it learned from or was chosen on.".into()
        }
        SeenBefore::Unknown => {
            "What it learned from is not there; --train-data names it, and episodes are compared.".into()
        }
    });
}
