//! The page about a judge.

use plaudit_reward::audit::{JudgeAudit, LabelCalibrationMetrics, SeenBefore, Stored, percent};
use plaudit_reward::images::Png;
use plaudit_view::page::{Chart, Html, Page, Series, Tone, Unit};

use super::super::audit::{calibration_chart, details, headline, interval, show_findings, shown};

/// Width of a window's image on the page, in rem.
const STRIP: f64 = 30.0;

/// The whole page; `mistakes` are images with captions.
pub(super) fn page(audit: &JudgeAudit, mistakes: &[(Png, String)]) -> String {
    let subtitle = format!("on {}", audit.data.join(", "));
    let mut page = Page::new("audit", &audit.model, subtitle, headline(&audit.verdict, evidence(audit)));
    let body = &mut page.body;
    guarantee(body, audit);
    show_findings(body, &audit.verdict);
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
    leakage(body, audit);
    details(body, &audit.verdict);
    page.render()
}

/// What the verdict rests on.
fn evidence(audit: &JudgeAudit) -> String {
    let accuracy = interval(audit.balanced_accuracy);
    format!(
        "{} windows of {} held-out episodes, balanced accuracy {accuracy}",
        audit.metrics.windows, audit.episodes
    )
}

/// What can be said of new episodes.
fn guarantee(body: &mut Html, audit: &JudgeAudit) {
    match audit.balanced_accuracy {
        Some(_) if audit.episodes < 2 => {
            body.callout(Tone::Doubtful, "Nothing can be expected", "One episode says nothing about others.")
        }
        Some(found) => body.callout(
            Tone::Plain,
            "What can be expected",
            &format!(
                "On other episodes like these, its balanced accuracy is {} to {} (95 % interval over episodes).",
                percent(found.low),
                percent(found.high)
            ),
        ),
        None => body.callout(Tone::Doubtful, "Nothing can be expected", "A label is missing among these windows."),
    };
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
         values over bootstrap resamples of episodes, since windows of one episode look alike.",
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
        name: "mean; band: eight of ten windows".into(),
        points: found.by_progress.iter().map(|part| (part.progress, part.vote)).collect(),
        band: found.by_progress.iter().map(|part| (part.progress, part.low, part.high)).collect(),
        ..Series::default()
    };
    let chart = Chart {
        title: "Votes over progress".into(),
        caption: "It should rise from lower left to upper right: more progress, higher votes.".into(),
        x_label: "growth of the environment's measure".into(),
        y_range: Some((-1.0, 1.0)),
        series: vec![series],
        ..Chart::default()
    };
    body.charts([&chart]);
}

fn calibration(body: &mut Html, audit: &JudgeAudit) {
    let found = &audit.calibration;
    body.heading("Calibration: whether its probabilities mean what they say");
    body.paragraph(&match found.temperature {
        Some(temperature) => format!(
            "Logits divided by {temperature:.3}, fitted on {} episodes and measured on the other {}.",
            found.fitted_on, found.measured_on
        ),
        None => "No temperature could be fitted: half of the episodes have one label alone.".into(),
    });
    let row = |name: &str, one: &LabelCalibrationMetrics| {
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
    body.charts([&calibration_chart(title, x_label, &found.before.bins, &found.after.bins)]);
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
        |name: &str, look: usize, of: &dyn Fn(&plaudit_reward::audit::AbstainPoint) -> Option<f64>| Series {
            name: name.into(),
            look,
            points: audit.abstaining.iter().filter_map(|at| Some((at.band, of(at)?))).collect(),
            ..Series::default()
        };
    let chart = Chart {
        title: "Calls of better and worse".into(),
        caption: "A good band keeps most windows while the line of opposite calls comes near 0.".into(),
        y_unit: Unit::Percent,
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
         throughout, nothing happens. A covered view shows how much the judge needs it.",
    );
    let row = |one: &plaudit_reward::audit::Disturbed| {
        vec![one.name.clone(), one.windows.to_string(), percent(one.right), format!("{:+.3}", one.vote)]
    };
    let rows: Vec<Vec<String>> = audit.changed.iter().map(row).collect();
    body.table(&["", "windows", "labelled correctly", "mean vote"], &rows);
}

fn leakage(body: &mut Html, audit: &JudgeAudit) {
    body.heading("Leakage: whether it has seen these windows before");
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
