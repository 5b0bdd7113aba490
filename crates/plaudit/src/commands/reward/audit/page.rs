//! The page.

use plaudit_reward::audit::{
    Audit, Background, CurvePoint, RegionSource, Severity, SharedWithTraining, Slice, Stored, StressResult,
    Timeline, Verdict, percent,
};
use plaudit_reward::images::Png;
use plaudit_view::format;
use plaudit_view::page::{Chart, Ends, Finding, Html, Mark, Page, Series, Size, Tone, Unit, data_url};

use super::charts::{calibration_chart, scores_chart, unit_square};
use super::images::PageImages;
use super::manual_settings::ManualSettings;
use super::text::{AuditReport, interval, scale, unapplied, written};

/// Episodes in the table; all are in the JSON.
const EPISODES_SHOWN: usize = 50;

/// The whole page.
pub(super) fn page(report: &AuditReport, images: &PageImages) -> String {
    let audit = &report.audit;
    let subtitle = format!("on {}", audit.data.join(", "));
    let mut page = Page::new("audit", &audit.model, subtitle, headline(&audit.verdict, evidence(audit)));
    let body = &mut page.body;
    guarantee(body, audit);
    findings(body, &audit.verdict);
    body.tiles(&tiles(audit));
    ranking(body, audit);
    calibration(body, audit);
    time(body, audit);
    threshold(body, audit, report.manual_settings.as_ref());
    stress(body, audit);
    saliency(body, audit, images);
    mistakes(body, audit, images);
    labels(body, audit, images);
    slices(body, audit);
    leakage(body, audit);
    speed(body, audit);
    details(body, &audit.verdict);
    page.render()
}

/// What everything comes to, in a sentence: whether the model may be used, and why not if it may not.
pub(in crate::commands::reward) fn headline(
    verdict: &Verdict,
    evidence: String,
) -> plaudit_view::page::Verdict {
    let fatal: Vec<&str> = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Fatal)
        .map(|finding| finding.what.as_str())
        .collect();
    let (tone, word, sentence) = match fatal[..] {
        [] => (Tone::Good, "passed", "Yes: this model may be used as a reward".to_string()),
        [why] => {
            (Tone::Bad, "not passed", format!("No: this model should not be used as a reward, because {why}"))
        }
        [why, ..] => {
            let more = match fatal.len() - 1 {
                1 => "one more reason".to_string(),
                more => format!("{more} more reasons"),
            };
            let sentence =
                format!("No: this model should not be used as a reward, because {why}, and for {more} below");
            (Tone::Bad, "not passed", sentence)
        }
    };
    plaudit_view::page::Verdict { tone, word: word.into(), sentence, evidence }
}

/// What the verdict rests on.
fn evidence(audit: &Audit) -> String {
    let auc = audit.auc.map_or(String::new(), |auc| {
        format!(", AUC {:.3}, 95 % interval {:.3} to {:.3}", auc.value, auc.low, auc.high)
    });
    let success = audit.operating.rewarded_success;
    let detected = format!("{} of {} successes detected", success.rewarded_episodes, success.episodes);
    format!("{} held-out episodes{auc}, {detected}", audit.episodes)
}

/// The guarantee, and what it rests on.
fn guarantee(body: &mut Html, audit: &Audit) {
    let operating = &audit.operating;
    let (tone, title) = match operating.guarantee {
        Some(_) => (Tone::Good, "Guarantee"),
        None => (Tone::Doubtful, "Guarantee: none"),
    };
    let why = operating.refused.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let text = operating.guarantee_text();
    let text = text.strip_prefix("no guarantee; ").unwrap_or(&text);
    body.callout(tone, title, &format!("{}{why}.", format::capitalised(text)));
}

/// What speaks against the model, and what should be known.
pub(in crate::commands::reward) fn findings(body: &mut Html, verdict: &Verdict) {
    let finding = |finding: &plaudit_reward::audit::Finding| {
        let (tone, word) = match finding.severity {
            Severity::Fatal => (Tone::Bad, "no"),
            Severity::Warning => (Tone::Doubtful, "warning"),
            Severity::Note => (Tone::Plain, "note"),
        };
        let hint = format!("{}.", format::capitalised(&finding.hint));
        Finding { tone, word: word.into(), what: format!("{}.", format::capitalised(&finding.what)), hint }
    };
    body.findings(&verdict.findings.iter().map(finding).collect::<Vec<_>>());
}

fn tiles(audit: &Audit) -> Vec<(String, String)> {
    let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let alarms = audit.operating.alarms;
    vec![
        (number(audit.auc.map(|auc| auc.value)), "AUC".into()),
        (format!("{:.4}", audit.operating.threshold), "threshold".into()),
        (
            format!("≤ {}", percent(alarms.bound)),
            format!("false alarms per episode, confidence {}", percent(audit.operating.confidence)),
        ),
        (
            format!(
                "{} of {}",
                audit.operating.rewarded_success.rewarded_episodes, audit.operating.rewarded_success.episodes
            ),
            "successful episodes detected".into(),
        ),
        (format!("{:.3}", audit.calibration.after.ece), "calibration error".into()),
        (
            format!("{:.1} ms", audit.latency.first().map_or(0.0, |timed| timed.latency.p50_ms)),
            "for one frame".into(),
        ),
    ]
}

fn curve(points: &[CurvePoint], look: usize, name: &str) -> Series {
    Series {
        name: name.into(),
        look,
        points: points.iter().map(|point| (point.at, point.value)).collect(),
        band: points
            .iter()
            .filter(|point| !point.low.is_nan() && !point.high.is_nan())
            .map(|point| (point.at, point.low, point.high))
            .collect(),
        ..Series::default()
    }
}

fn ranking(body: &mut Html, audit: &Audit) {
    let metrics = &audit.metrics;
    body.heading("How well it tells success from failure");
    body.paragraph(&format!(
        "{} episodes with {} frames, {} of them of success ({}): the balance of the data as it is. Intervals hold 95 % of \
         the values over bootstrap resamples of episodes, since frames of one episode look alike.",
        audit.episodes,
        metrics.frames,
        metrics.successes,
        percent(metrics.successes as f64 / metrics.frames.max(1) as f64)
    ));
    body.table(
        &["", "value (95 % interval over episodes)"],
        &[
            vec!["area under the ROC curve".to_string(), interval(audit.auc)],
            vec!["average precision".to_string(), interval(audit.average_precision)],
        ],
    );
    let operating = (metrics.confusion.false_positive_rate(), metrics.recall, metrics.precision);
    let at = |x: Option<f64>, y: Option<f64>| Series {
        name: "at the threshold".into(),
        look: 1,
        points: x.zip(y).into_iter().collect(),
        ..Series::default()
    };
    let shares = |title: &str, caption: &str, x_label: &str, series| Chart {
        x_unit: Unit::Percent,
        key: vec!["band: 95 % interval over episodes".into()],
        ..unit_square(title, caption, x_label, series)
    };
    let roc = shares(
        "ROC: successes found, over failures called a success",
        "The closer to the upper left corner, the better; the diagonal would be guessing.",
        "share of failures called a success",
        vec![curve(&audit.roc, 0, "frames"), at(operating.0, operating.1)],
    );
    let precision = shares(
        "Precision: successes among what is called one",
        "The closer to the upper right corner, the better: finding more successes costs no precision there.",
        "share of successes found (recall)",
        vec![curve(&audit.precision_recall, 0, "frames"), at(operating.1, operating.2)],
    );
    body.charts([&roc, &precision]);
}

fn threshold(body: &mut Html, audit: &Audit, manual_settings: Option<&ManualSettings>) {
    let operating = &audit.operating;
    body.heading("The threshold, and its guarantee");
    body.paragraph(&format!(
        "Scores above {} count as success: {}. This is for {}.",
        written(operating),
        operating.guarantee_text(),
        scale(operating).replace('`', "")
    ));
    body.paragraph(&format!("A false alarm: {}.", operating.false_alarm_text()));
    if let Some(why) = &operating.refused {
        body.paragraph(&format!("No stronger guarantee is possible: {why}."));
    }
    body.paragraph(
        "What counts for an episode is the threshold below which it raises a false alarm: with the plainest rule, the \
         highest score that it reaches without success. The threshold is one of these numbers, counted from the top, at a place that depends on how many episodes there are and not on the scores; \
         the probability that a new episode exceeds it is then known whatever the scores look like (the order-statistic form \
         of the Clopper-Pearson bound). It holds for episodes like these, not for what a policy finds that looks for gaps: \
         that is what watching is for.",
    );
    let confusion = audit.metrics.confusion;
    body.table(
        &["frames", "called success", "called failure"],
        &[
            vec![
                "success".to_string(),
                confusion.true_positives.to_string(),
                confusion.false_negatives.to_string(),
            ],
            vec![
                "failure".to_string(),
                confusion.false_positives.to_string(),
                confusion.true_negatives.to_string(),
            ],
        ],
    );
    let some = |value: Option<f64>| value.map_or("–".into(), percent);
    body.paragraph(&format!(
        "Precision {}, recall {}, accuracy {} at the threshold.",
        some(audit.metrics.precision),
        some(audit.metrics.recall),
        percent(audit.metrics.accuracy)
    ));
    match &audit.stored {
        Stored::In { file } => body.paragraph(&format!("Threshold and temperature are stored in {file}.")),
        Stored::No { why } => body.paragraph(&format!("Nothing was stored: {why}.")),
    };
    if let Some(manual_settings) = manual_settings {
        if let Some(at) = operating.at_fitted_temperature {
            body.paragraph(&format!("{}.", format::capitalised(unapplied(at).trim_matches(['(', ')']))));
        }
        let rows: Vec<Vec<String>> =
            manual_settings.lines().map(|(name, value)| vec![name.into(), value]).collect();
        body.table(&["to use the threshold", ""], &rows);
    }
}

fn calibration(body: &mut Html, audit: &Audit) {
    let found = &audit.calibration;
    body.heading("Calibration: whether scores mean what they say");
    let fitted = match found.temperature {
        Some(temperature) => format!(
            "Logits divided by {temperature:.3}, fitted on {} episodes and measured on the other {}.",
            found.fitted_on, found.measured_on
        ),
        None => "No temperature could be fitted: a label is missing in half of the episodes.".into(),
    };
    body.paragraph(&fitted);
    let row = |name: &str, one: &plaudit_reward::audit::CalibrationMetrics| {
        vec![
            name.to_string(),
            format!("{:.4}", one.ece),
            format!("{:.4}", one.brier),
            format!("{:.4}", one.log_loss),
        ]
    };
    body.table(
        &["", "calibration error (ECE)", "Brier score", "log loss"],
        &[row("as the network says it", &found.before), row("at the temperature", &found.after)],
    );
    let (title, x_label) = ("How often scores come true", "score");
    body.charts([&calibration_chart(title, x_label, &found.before.bins, &found.after.bins)]);
}

fn time(body: &mut Html, audit: &Audit) {
    let timing = &audit.timing;
    body.heading("When success is detected, and whether it is held");
    let frames = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.0} frames"));
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2}"));
    body.table(
        &["", ""],
        &[
            vec![
                "successful episodes detected".to_string(),
                format!("{} of {}", timing.detected, timing.successes),
            ],
            vec![
                "episodes with a false alarm".to_string(),
                format!("{} of {}", timing.with_false_alarm, audit.episodes),
            ],
            vec!["from success to its detection, median".to_string(), frames(timing.delay_median)],
            vec!["the same, exceeded by one in ten".to_string(), frames(timing.delay_p90)],
            vec![
                "share of the frames of success called so".to_string(),
                timing.held.map_or("–".into(), percent),
            ],
            vec!["changes of mind among them".to_string(), some(timing.flips)],
            vec!["rank correlation with time up to success".to_string(), some(timing.rank_with_time)],
            vec!["value-order correlation, mean over episodes".to_string(), some(audit.progress.voc)],
            vec!["the same by Kendall's tau".to_string(), some(audit.progress.kendall)],
            vec!["AUC of the last frames".to_string(), some(audit.progress.last_frame_auc)],
        ],
    );
    let chart = scores_chart(&audit.scores_of_successes, &audit.scores_of_failures);
    body.charts([&chart, &delays(audit)]);
    if !audit.timelines.is_empty() {
        body.subheading("Four episodes, frame by frame");
        body.charts(&audit.timelines.iter().map(timeline).collect::<Vec<_>>());
    }
    let text = |value: Option<usize>| value.map_or("–".into(), |value| value.to_string());
    let rows: Vec<Vec<String>> = timing
        .episodes
        .iter()
        .take(EPISODES_SHOWN)
        .map(|one| {
            vec![
                one.episode.clone(),
                one.frames.to_string(),
                text(one.success_at),
                text(one.detected_at),
                text(one.first_false_alarm),
                one.held.map_or("–".into(), percent),
                text(one.flips),
            ]
        })
        .collect();
    let title = match timing.episodes.len() {
        all if all > EPISODES_SHOWN => {
            format!("The first {EPISODES_SHOWN} of {all} episodes (all are in the JSON)")
        }
        _ => "Episode by episode".into(),
    };
    let head =
        ["episode", "frames", "success at", "detected at", "first false alarm", "held", "changes of mind"];
    let mut inside = Html::default();
    inside.table(&head, &rows);
    body.folded(&title, "", &inside);
}

/// One episode, frame by frame.
fn timeline(of: &Timeline) -> Chart {
    let points = of.scores.iter().enumerate().map(|(frame, score)| (frame as f64, *score)).collect();
    let highest = of.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let crosses = if highest > of.threshold { "above" } else { "never above" };
    let truth = match of.success_at {
        Some(frame) => format!("success from frame {frame} on"),
        None => "no success".into(),
    };
    Chart {
        title: format::capitalised(of.why),
        caption: format!("{}: {truth}; the score goes to {highest:.2}, {crosses} the threshold.", of.episode),
        x_label: "frame".into(),
        x_unit: Unit::Whole,
        y_range: Some((0.0, 1.0)),
        size: Size::Small,
        ends: Ends::Nothing,
        series: vec![Series { name: "score".into(), points, ..Series::default() }],
        marks: of.success_at.map(|at| Mark { at: at as f64, name: "success".into() }).into_iter().collect(),
        levels: vec![Mark { at: of.threshold, name: "threshold".into() }],
        ..Chart::default()
    }
}

/// How many successes are detected within so many frames.
fn delays(audit: &Audit) -> Chart {
    let delay = |one: &plaudit_reward::audit::EpisodeTiming| Some(one.detected_at? - one.success_at?);
    let delays: Vec<usize> = audit.timing.episodes.iter().filter_map(delay).collect();
    let longest = delays.iter().copied().max().unwrap_or(0);
    let within = |frames: usize| delays.iter().filter(|delay| **delay <= frames).count() as f64;
    let share = |frames: usize| (frames as f64, within(frames) / audit.timing.successes.max(1) as f64);
    Chart {
        title: "Successful episodes detected within so many frames".into(),
        caption: format!(
            "{} of {} successes are detected in the end; the sooner the line rises, the less reward is lost.",
            audit.timing.detected, audit.timing.successes
        ),
        x_label: "frames after success".into(),
        x_unit: Unit::Whole,
        y_range: Some((0.0, 1.0)),
        y_unit: Unit::Percent,
        series: vec![Series { points: (0..=longest.max(1)).map(share).collect(), ..Series::default() }],
        marks: audit.timing.delay_median.map(|at| Mark { at, name: "median".into() }).into_iter().collect(),
        ..Chart::default()
    }
}

/// Images with captions, as a page has them.
pub(in crate::commands::reward) fn shown(images: &[(Png, String)]) -> Vec<(String, String)> {
    images.iter().map(|(png, words)| (data_url("image/png", &png.bytes), words.clone())).collect()
}

fn mistakes(body: &mut Html, audit: &Audit, images: &PageImages) {
    body.heading("The worst mistakes");
    let all = audit.metrics.confusion;
    body.subheading(&format!("Called success, and none: the worst of {} frames", all.false_positives));
    body.thumbnails(&shown(&images.false_positives));
    body.subheading(&format!("Success, and not called so: the worst of {} frames", all.false_negatives));
    body.thumbnails(&shown(&images.false_negatives));
}

fn labels(body: &mut Html, audit: &Audit, images: &PageImages) {
    body.heading("Labels that may be wrong");
    if audit.suspected_labels.is_empty() {
        body.paragraph("None is suspected.");
        return;
    }
    body.paragraph(&format!(
        "{} runs of frames score like the other label does on average, away from the moment at which the label \
         changes. A model that is wrong suspects what is right, so look before changing any.",
        audit.suspected_labels.len()
    ));
    body.thumbnails(&shown(&images.suspected));
}

fn leakage(body: &mut Html, audit: &Audit) {
    body.heading("Leakage: whether it has seen this data before");
    let text = match &audit.shared_with_training {
        SharedWithTraining::Everything => "This is the data that the model learned from.".to_string(),
        SharedWithTraining::Validation => "This is the data that the model was validated on.".to_string(),
        SharedWithTraining::SamePlace { path } => format!("Its training frames were picked from {path}."),
        SharedWithTraining::Unknown => {
            "What the model learned from is not there; --train-data names it, and frames are compared."
                .to_string()
        }
        SharedWithTraining::Compared(found) => format!(
            "Of {} frames, {} are among the {} training frames to the byte ({} with another label), and {} look like one \
             of them; {} episodes are there as a whole.",
            found.val_images,
            found.exact_duplicates,
            found.train_images,
            found.exact_duplicates_with_other_label,
            found.near_duplicates,
            found.shared_episodes
        ),
    };
    body.paragraph(&text);
}

fn slices(body: &mut Html, audit: &Audit) {
    body.heading("Slices of the data");
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let share = |value: Option<f64>| value.map_or("–".into(), percent);
    let row = |slice: &Slice| {
        vec![
            slice.name.clone(),
            slice.episodes.to_string(),
            slice.frames.to_string(),
            some(slice.auc),
            share(slice.precision),
            share(slice.recall),
            share(slice.detected),
            share(slice.false_alarms),
        ]
    };
    let head = [
        "",
        "episodes",
        "frames",
        "AUC",
        "precision",
        "recall",
        "episodes detected",
        "episodes with a false alarm",
    ];
    let rows: Vec<Vec<String>> =
        audit.slices.by_length.iter().chain(&audit.slices.by_data).map(row).collect();
    body.table(&head, &rows);
    body.subheading("Each camera: what is left when it is covered");
    stressed(body, &audit.slices.by_camera);
}

fn stress(body: &mut Html, audit: &Audit) {
    body.heading("Robustness: what disturbs it");
    body.paragraph(&match audit.regions_known_by {
        RegionSource::Simulator => format!(
            "Some frames, half of them successes, disturbed. What each pixel shows is known: the scene was rendered again from \
             the recorded states, and came out as it was recorded. A decision that changes although the label does not is a \
             mistake; covering the cube should change calls, covering the background should not. {}",
            background(audit)
        ),
        RegionSource::MedianImage => format!(
            "Some frames, half of them successes, disturbed. What each pixel shows is not known (no states of the embedded \
             simulator are recorded with them), so what moves is separated from what stands still by the median of many frames, \
             and cube and gripper cannot be covered one by one. {}",
            background(audit)
        ),
    });
    stressed(body, &audit.stress);
}

fn background(audit: &Audit) -> String {
    let Background { ranking_from_background, score_from_background, .. } = audit.background;
    match ranking_from_background.zip(score_from_background) {
        Some((ranking, score)) => format!(
            "The background alone gives {} of the ranking, and leaves successes {} of their score.",
            percent(ranking.max(0.0)),
            percent(score)
        ),
        None => String::new(),
    }
}

fn stressed(body: &mut Html, all: &[StressResult]) {
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:+.3}"));
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            vec![
                one.name.clone(),
                percent(one.flips),
                some(one.drop_on_successes),
                some(one.rise_on_failures),
                one.auc.map_or("–".into(), |auc| format!("{auc:.3}")),
            ]
        })
        .collect();
    let head = ["", "calls that change", "score lost on successes", "score gained on failures", "AUC"];
    body.table(&head, &rows);
}

fn saliency(body: &mut Html, audit: &Audit, images: &PageImages) {
    body.heading("Saliency: where it looks");
    body.paragraph(
        "Each square is covered in turn, in frames of both labels: the more the answer changes, the brighter the square.",
    );
    body.thumbnails_of(18.0, &shown(&images.saliency));
    for one in &audit.saliency {
        body.paragraph(&format!(
            "{}: {} of what matters lies in the {} of the squares in which hardly anything moves.",
            one.view,
            percent(one.on_still_squares),
            percent(one.still_squares)
        ));
    }
}

fn speed(body: &mut Html, audit: &Audit) {
    body.heading("Latency: how fast it answers");
    let rows: Vec<Vec<String>> = audit
        .latency
        .iter()
        .map(|timed| {
            let one = &timed.latency;
            vec![
                one.batch.to_string(),
                format!("{:.2} ms", one.p50_ms),
                format!("{:.2} ms", one.p99_ms),
                format!("{:.0}", one.frames_per_second),
                timed.peak_bytes.map_or("–".into(), format::bytes),
                one.answers.to_string(),
            ]
        })
        .collect();
    body.table(
        &["frames at once", "p50", "p99", "frames per second", "memory at the peak", "answers timed"],
        &rows,
    );
}

/// Where the numbers are.
pub(in crate::commands::reward) fn details(body: &mut Html, verdict: &Verdict) {
    body.heading("Details");
    body.paragraph("audit.json beside this page has every number on it.");
    let findings = serde_json::to_string_pretty(verdict).unwrap_or_default();
    body.fold("Findings, as a program reads them", &findings);
}
