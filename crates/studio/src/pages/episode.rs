//! One episode: all cameras in step, and what was recorded and is said of it as curves.

use std::fmt::Write as _;
use std::sync::Arc;

use plaudit_data::recording::Recording;
use plaudit_view::page::{Chart, Ends, Html, Mark, Series, Size, Unit, escape};
use serde_json::json;

use super::Page;
use super::data::outcome_chip;
use crate::app::App;
use crate::clip;
use crate::curves::decimated;
use crate::http::{Params, Refusal, Reply, Request};
use crate::images::{CameraView, cameras};
use crate::library::{EpisodeKey, EpisodeRow, OpenEpisode};
use crate::scoring::{EpisodeScores, ModelEntry};
use crate::shell::View;

/// Columns of a chart: more points cannot be told apart, and each column has its lowest and its highest.
const COLUMNS: usize = 290;
/// Curves of one chart, as many as colours.
const CURVES: usize = 6;
/// Numbers of a state or an action that are shown.
const MOST_CURVES: usize = 60;
/// How many seconds a browser may keep a frame.
const KEEP_SECS: u32 = 600;
/// Recordings do not say it.
pub(super) const FPS: f64 = 10.0;

pub(super) const PAGE: Page = Page { path: "episode", title: "", harmless_posts: &["score"], answer };

pub(super) const PLAYER_KEYS: &[(&str, &str)] = &[
    ("Space", "play, pause"),
    ("← →", "a frame back, a frame on; with Shift: ten"),
    ("Home End", "first and last frame"),
    (", .", "slower, faster"),
    ("+ - 0", "look closer at the curves, less close, at all"),
    ("n p", "next and previous episode"),
    ("l", "label this episode"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    let params = if request.is_post() { &request.form } else { &request.query };
    let key = EpisodeKey::of(params)?;
    let open = || app.library.episode(&key);
    match (request.word(1), request.is_post()) {
        ("", false) => page(app, &open()?),
        ("strip", false) => {
            let (from, count) = (params.need_parsed("from")?, params.need_parsed("count")?);
            png(&app.images.strip(&open()?, params.need("camera")?, from, count)?)
        }
        ("thumb", false) => png(&app.images.thumb(&open()?)?),
        ("curves", false) => curves(app, &open()?, params),
        ("clip", false) => clip(app, &open()?, params),
        ("score", true) => score(app, &open()?, params),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

fn png(bytes: &[u8]) -> Result<Reply, Refusal> {
    Ok(Reply::bytes("image/png", bytes.to_vec()).cached(KEEP_SECS))
}

fn page(app: &App, episode: &OpenEpisode) -> Result<Reply, Refusal> {
    let recording = episode.recording();
    let title = recording.name().to_string();
    let mut view = View {
        title,
        page: "data",
        scripts: &["player.js", "episode.js"],
        keys: PLAYER_KEYS,
        ..View::default()
    };
    view.body.raw(&facts(episode));
    if recording.is_empty() {
        view.body.paragraph("It has no frames.");
        return Ok(view.reply(app));
    }
    view.body.raw(&player(episode, ""));
    let body = &mut view.body;
    body.raw("<div class=\"panels\" id=\"panels\">");
    body.raw(&model_list(app));
    body.raw("<div class=\"charts\" id=\"reward-curves\"></div>");
    let folds = [
        ("action", "Actions", !recording.actions().is_empty()),
        ("state", "States", recording.state(0).is_some_and(|state| !state.is_empty())),
        ("fact", "Other numbers", recording.facts().iter().any(|facts| !facts.is_empty())),
    ];
    for (kind, title, _) in folds.into_iter().filter(|(.., is_there)| *is_there) {
        body.raw(&format!(
            "<details data-kind=\"{kind}\"><summary><b>{title}</b></summary><div class=\"charts\"></div></details>"
        ));
    }
    body.raw("</div>");
    body.raw(&neighbours(app, episode));
    Ok(view.reply(app))
}

/// What is known of the episode, in a line.
fn facts(episode: &OpenEpisode) -> String {
    let recording = episode.recording();
    let row = EpisodeRow::of(recording);
    let mut html = format!(
        "<ul class=\"facts\"><li>{}</li><li><b>{}</b> frames</li>",
        outcome_chip(row.success),
        row.length
    );
    let dataset = escape(&episode.dataset.name);
    let source = crate::http::encode(&episode.dataset.name);
    let _ = write!(
        html,
        "<li>in <a href=\"/data?source={source}\">{dataset}</a> ({})</li>",
        episode.dataset.format
    );
    if let Some(task) = recording.task() {
        let _ = write!(html, "<li>task: <b>{}</b></li>", escape(task));
    }
    for flag in row.flags {
        let _ = write!(html, "<li><span class=\"chip doubtful\">{}</span></li>", flag.words());
    }
    html + "</ul>"
}

/// All cameras, and what moves them.
pub(super) fn player(episode: &OpenEpisode, more_controls: &str) -> String {
    let recording = episode.recording();
    let views = cameras(recording);
    let described: Vec<_> = views
        .iter()
        .map(|CameraView { name, width, height, chunk }| json!({"name": name, "width": width, "height": height, "chunk": chunk}))
        .collect();
    let key = &episode.key;
    let described = json!({"d": &*key.dataset, "i": key.item, "s": key.part, "length": recording.len(), "fps": FPS,
        "cameras": described});
    let mut html = format!(
        "<section class=\"player\" aria-label=\"Player\" data-episode=\"{}\">",
        escape(&described.to_string())
    );
    if views.is_empty() {
        html += "<p>It has no images.</p>";
    } else {
        html += "<div class=\"cameras\">";
        for CameraView { name, width, height, .. } in &views {
            let name = escape(name);
            let _ = write!(
                html,
                "<figure><canvas width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"camera {name}\"></canvas>\
                 <figcaption>{name}</figcaption></figure>"
            );
        }
        html += "</div>";
    }
    let speeds: String = ["0.1", "0.25", "0.5", "1", "2", "4", "8"]
        .map(|speed| {
            let selected = if speed == "1" { " selected" } else { "" };
            format!("<option value=\"{speed}\"{selected}>{speed}×</option>")
        })
        .concat();
    let last = recording.len().saturating_sub(1);
    let _ = write!(
        html,
        "<div class=\"controls\"><button type=\"button\" class=\"play\" aria-pressed=\"false\">Play</button>\
         <button type=\"button\" class=\"step-back\" aria-label=\"a frame back\">◀</button>\
         <button type=\"button\" class=\"step-on\" aria-label=\"a frame on\">▶</button>\
         <input type=\"range\" min=\"0\" max=\"{last}\" value=\"0\" step=\"1\" aria-label=\"frame\">\
         <output>frame 0 of {}</output><select class=\"speed\" aria-label=\"speed\">{speeds}</select>{more_controls}</div></section>",
        recording.len()
    );
    html
}

fn model_list(app: &App) -> String {
    let models = app.scoring.models();
    let mut html = String::from(
        "<section aria-labelledby=\"reward-title\"><div class=\"row apart\"><h2 id=\"reward-title\">Reward</h2><span class=\"row\">",
    );
    html += "<button type=\"button\" id=\"zoom-in\">Closer</button><button type=\"button\" id=\"zoom-all\" disabled>All</button>\
             <button type=\"button\" id=\"clip\">Save a clip</button></span></div>";
    if models.is_empty() {
        html += "<p class=\"soft\">No reward model lies in this folder, and none was named.</p></section>";
        return html;
    }
    html += "<div class=\"models\" role=\"group\" aria-label=\"Reward models\">";
    for model in models {
        let name = escape(&model.name);
        let _ = write!(
            html,
            "<label><input type=\"checkbox\" value=\"{name}\">{name}<progress hidden aria-label=\"scoring\"></progress></label>"
        );
    }
    html + "</div></section>"
}

/// Links to what lies before and after.
fn neighbours(app: &App, episode: &OpenEpisode) -> String {
    let EpisodeKey { dataset, item, part } = &episode.key;
    let place = |item: usize, part: usize| EpisodeKey { dataset: dataset.clone(), item, part };
    let parts = |item: usize| episode.dataset.row(item).map_or(1, |row| row.parts());
    let next = match (part + 1 < parts(*item), item + 1 < episode.dataset.len()) {
        (true, _) => Some(place(*item, part + 1)),
        (false, true) => Some(place(item + 1, 0)),
        (false, false) => None,
    };
    let previous = match (*part, *item) {
        (0, 0) => None,
        (0, item) => Some(place(item - 1, parts(item - 1).saturating_sub(1))),
        (part, item) => Some(place(item, part - 1)),
    };
    let link = |key: EpisodeKey, rel: &str, words: &str| {
        format!("<a class=\"button\" rel=\"{rel}\" href=\"{}\">{words}</a>", escape(&key.address("/episode")))
    };
    let mut html = String::from("<nav class=\"pager row\" aria-label=\"Episodes\">");
    html += &previous.map_or(String::new(), |key| link(key, "prev", "Previous episode"));
    html += &next.map_or(String::new(), |key| link(key, "next", "Next episode"));
    if !app.read_only {
        let address = escape(&episode.key.address("/label"));
        let _ = write!(html, "<a class=\"button\" id=\"to-label\" href=\"{address}\">Label this episode</a>");
    }
    html + "</nav>"
}

/// Asks a model about the episode.
fn score(app: &App, episode: &OpenEpisode, form: &Params) -> Result<Reply, Refusal> {
    let model = app.scoring.model(form.need("m")?)?;
    // What failed is tried again: the file may be there by now.
    let is_known = app.scoring.scores(&model, &episode.key).is_some_and(|scored| scored.is_ok());
    if !is_known {
        app.scoring.ask(&model, &episode.key);
    }
    Ok(Reply::json(&json!({"done": is_known})))
}

/// Curves of one kind, as charts.
fn curves(app: &App, episode: &OpenEpisode, query: &Params) -> Result<Reply, Refusal> {
    let recording = episode.recording();
    let span = Span::of(query, recording.len())?;
    let mut html = Html::default();
    match query.need("kind")? {
        "reward" => {
            let models: Vec<Arc<ModelEntry>> =
                query.all("m").map(|name| app.scoring.model(name)).collect::<Result<_, _>>()?;
            rewards(app, episode, &models, span, &mut html);
        }
        "action" => {
            let actions = recording.actions();
            html.charts(&vectors("action", span, recording.len(), |at| actions.get(at).cloned()));
        }
        "state" => {
            html.charts(&vectors("state", span, recording.len(), |at| recording.state(at)));
        }
        "fact" => {
            html.charts(&other_facts(recording, span));
        }
        _ => return Err(Refusal::bad("`kind` is reward, action, state or fact")),
    }
    Ok(Reply::html(html.as_str().to_string()))
}

/// The frames that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: usize,
    to: usize,
}

impl Span {
    fn of(query: &Params, length: usize) -> Result<Self, Refusal> {
        let (from, to) =
            (query.parsed("from")?.unwrap_or(0), query.parsed("to")?.unwrap_or(length).min(length));
        match from < to || length == 0 {
            true => Ok(Self { from, to }),
            false => Err(Refusal::bad("`from` is before `to`")),
        }
    }

    fn chart(self, title: &str) -> Chart {
        Chart {
            title: title.into(),
            x_label: "frame".into(),
            x_unit: Unit::Whole,
            x_range: Some((self.from as f64, (self.to.max(self.from + 2) - 1) as f64)),
            size: Size::UnderVideo,
            ends: Ends::Nothing,
            ..Chart::default()
        }
    }

    fn series(self, name: &str, look: usize, values: &[f32]) -> Series {
        let points = decimated(values, self.from, self.to, COLUMNS);
        Series { name: name.into(), look, points, ..Series::default() }
    }
}

/// The environment's reward, and what models say.
fn rewards(app: &App, episode: &OpenEpisode, models: &[Arc<ModelEntry>], span: Span, html: &mut Html) {
    let recording = episode.recording();
    let marks = success_marks(recording);
    let mut charts = Vec::new();
    let mut notes = Vec::new();
    let scored: Vec<(&ModelEntry, Arc<EpisodeScores>)> = models
        .iter()
        .filter_map(|model| Some((&**model, app.scoring.scores(model, &episode.key)?.ok()?)))
        .collect();
    if !scored.is_empty() {
        let mut chart = span.chart("What reward models say");
        chart.y_range = Some((0.0, 1.0));
        for (number, (model, scores)) in scored.iter().enumerate() {
            chart.series.push(span.series(&model.name, number, &scores.scores));
            if let Some(facts) = model.facts() {
                let name = match (number, scored.len()) {
                    (0, 1) => "threshold",
                    (0, _) => "thresholds",
                    _ => "",
                };
                chart.levels.push(Mark { at: facts.threshold, name: name.into() });
                notes.push(note(model, scores));
            }
        }
        chart.marks = within(&marks, span);
        charts.push(chart);
        charts.extend(scored.iter().filter_map(|(model, scores)| guard_chart(model, scores, span)));
    }
    let recorded: Vec<f32> = recording.rewards().iter().map(|reward| *reward as f32).collect();
    if !recorded.is_empty() {
        let mut chart = span.chart("Recorded reward");
        chart.series.push(span.series("", 0, &recorded));
        chart.marks = within(&marks, span);
        charts.push(chart);
    }
    let labels: Vec<f32> = recording
        .labels()
        .iter()
        .map(|label| label.map_or(f32::NAN, |success| f32::from(u8::from(success))))
        .collect();
    if charts.is_empty() && labels.iter().any(|label| label.is_finite()) {
        let mut chart = span.chart("Recorded success");
        chart.y_range = Some((0.0, 1.0));
        chart.series.push(span.series("", 0, &labels));
        charts.push(chart);
    }
    // Each over the whole width, under the video.
    for chart in &charts {
        html.charts([chart]);
    }
    if !notes.is_empty() {
        html.raw(&format!("<ul class=\"notes\">{}</ul>", notes.concat()));
    }
}

/// What a model's threshold, guard and rule come to, in a line.
fn note(model: &ModelEntry, scores: &EpisodeScores) -> String {
    let Some(facts) = model.facts() else { return String::new() };
    let own = if facts.has_threshold { "" } else { ", which is taken as it has none of its own" };
    let mut text = format!("{}: threshold {:.3}{own}", model.name, facts.threshold);
    if let Some(asked) = &facts.asked {
        let _ = write!(text, ", a judge: {asked}");
    }
    let hold = facts.rule.hold.get();
    if hold > 1 {
        let _ = write!(text, ", for {hold} frames in a row");
    }
    if let Some(leave) = facts.rule.leave {
        let _ = write!(text, ", until below {leave:.3}");
    }
    if let Some(guard) = &facts.guard {
        let _ = write!(text, ", only where {guard} holds");
    }
    if let Some(promise) = &facts.promise {
        let _ = write!(text, "; its audit promises {promise}");
    }
    let rewarded = scores.rewarded.iter().filter(|rewarded| **rewarded).count();
    match scores.rewarded.iter().position(|rewarded| *rewarded) {
        Some(first) => {
            let _ = write!(
                text,
                ". It rewards {rewarded} of {} frames, the first is {first}.",
                scores.rewarded.len()
            );
        }
        None => text += ". It rewards no frame.",
    }
    format!("<li>{}</li>", escape(&text))
}

/// Where a model's condition on the state holds.
fn guard_chart(model: &ModelEntry, scores: &EpisodeScores, span: Span) -> Option<Chart> {
    let holds: Vec<f32> = scores.guard.as_ref()?.iter().map(|holds| f32::from(u8::from(*holds))).collect();
    let guard = model.facts()?.guard.clone()?;
    let mut chart = span.chart(&format!("{}: {} holds", model.name, guard.replace('`', "")));
    chart.y_range = Some((0.0, 1.0));
    chart.series.push(span.series("", 2, &holds));
    Some(chart)
}

/// Where recorded success begins and ends.
fn success_marks(recording: &Recording) -> Vec<Mark> {
    let labels = recording.labels();
    let mut marks = Vec::new();
    let mut before = false;
    for (at, label) in labels.iter().enumerate() {
        let now = *label == Some(true);
        if now != before && marks.len() < 8 {
            // Names of marks that are close would cover one another; after the first, every other one begins success again.
            let name = if marks.is_empty() { "success" } else { "" };
            marks.push(Mark { at: at as f64, name: name.into() });
        }
        before = now;
    }
    marks
}

fn within(marks: &[Mark], span: Span) -> Vec<Mark> {
    let is_shown = |mark: &&Mark| (span.from as f64..span.to as f64).contains(&mark.at);
    marks.iter().filter(is_shown).cloned().collect()
}

/// Numbers of vectors over time, a few in each chart.
fn vectors(what: &str, span: Span, length: usize, vector: impl Fn(usize) -> Option<Vec<f32>>) -> Vec<Chart> {
    let rows: Vec<Vec<f32>> = (0..length).map(|at| vector(at).unwrap_or_default()).collect();
    let width = rows.iter().map(Vec::len).max().unwrap_or(0).min(MOST_CURVES);
    let curve = |number: usize| -> Vec<f32> {
        rows.iter().map(|row| row.get(number).copied().unwrap_or(f32::NAN)).collect()
    };
    let numbers: Vec<usize> = (0..width).collect();
    let chart = |numbers: &[usize]| {
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let mut chart = span.chart(&match first == last {
            true => format!("{what}[{first}]"),
            false => format!("{what}[{first}] to {what}[{last}]"),
        });
        let series =
            |(look, number): (usize, &usize)| span.series(&format!("[{number}]"), look, &curve(*number));
        chart.series = numbers.iter().enumerate().map(series).collect();
        chart
    };
    numbers.chunks(CURVES).map(chart).collect()
}

/// Other values of the environment's info, each by its name.
fn other_facts(recording: &Recording, span: Span) -> Vec<Chart> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for (name, _) in recording.facts().iter().flatten() {
        if names.len() < MOST_CURVES && !names.contains(name) {
            names.push(name.clone());
        }
    }
    let chart = |name: &Arc<str>| {
        let value = |facts: &Vec<(Arc<str>, f32)>| {
            facts.iter().find(|(other, _)| other == name).map_or(f32::NAN, |one| one.1)
        };
        let values: Vec<f32> = recording.facts().iter().map(value).collect();
        let mut chart = span.chart(name);
        chart.series.push(span.series("", 0, &values));
        chart
    };
    names.iter().map(chart).collect()
}

/// A part of the episode as a film, with the curves drawn in.
fn clip(app: &App, episode: &OpenEpisode, query: &Params) -> Result<Reply, Refusal> {
    let span = Span::of(query, episode.recording().len())?;
    let fps = query.parsed("fps")?.unwrap_or(FPS);
    let mut curves = Vec::new();
    for name in query.all("m") {
        let model = app.scoring.model(name)?;
        if let Some(Ok(scores)) = app.scoring.scores(&model, &episode.key) {
            let threshold = model.facts().map(|facts| facts.threshold as f32);
            curves.push(clip::ClipCurve {
                name: model.name.to_string(),
                values: scores.scores.clone(),
                threshold,
            });
        }
    }
    let film = clip::film(episode.recording(), (span.from, span.to), fps, &curves)?;
    let name = format!("{}_{}-{}.mp4", episode.recording().name(), span.from, span.to);
    Ok(Reply::download("video/mp4", &name, film))
}
