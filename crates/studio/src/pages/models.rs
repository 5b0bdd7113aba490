//! Reward models: what each says of itself, what its audit found, what it gets wrong, and how it is taught better.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plaudit_core::FrameShape;
use plaudit_data::windows::Objective;
use plaudit_reward::audit::Saliency;
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::ViewKey;
use plaudit_reward::metrics::Metrics;
use plaudit_reward::open::ClassifierCheckpoint;
use plaudit_reward::trend::{JudgeCard, WindowFormat};
use plaudit_view::AuditedModel;
use plaudit_view::page::{Html, Tone, data_url, escape};
use serde_json::{Value, json};

use super::Page;
use super::compare::{episode_name, frame_image, labels_folder};
use crate::app::App;
use crate::backend::Work;
use crate::compare::Disagreement;
use crate::http::{Params, Refusal, Reply, Request, encode};
use crate::library::{Dataset, EpisodeKey, ItemRow};
use crate::models::{AcceptedMistake, judged, measured, mistakes, write_taught};
use crate::runs::{free_run, start};
use crate::scoring::ModelEntry;
use crate::shell::View;

pub(super) const PAGE: Page = Page { path: "models", title: "Models", harmless_posts: &["score"], answer };

/// How long the page waits for the first look at the folder.
const PATIENCE: Duration = Duration::from_millis(300);
/// Episodes in which mistakes are looked for, and at most.
const EPISODES: usize = 60;
const MOST_EPISODES: usize = 1000;
/// Mistakes that are shown.
const MOST_SHOWN: usize = 48;
/// The largest audit that is read.
const AUDIT_BYTES: u64 = 64 << 20;
/// The side of the image under a saliency map where no episode shows the camera.
const GREY_SIDE: usize = 128;

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous mistake"),
    ("f", "fix the label of this mistake"),
    ("a", "accept this mistake"),
    ("r", "retrain with the labels given here"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    match (request.word(1), request.is_post()) {
        ("", false) => Ok(list(app)),
        ("show", false) => show(app, &request.query),
        ("mistakes", false) => gallery(app, &Asked::of(app, &request.query)?),
        ("measured", false) => before_and_after(app, &request.query),
        ("score", true) => score(app, &request.form),
        ("accept", true) => accept(app, &request.form),
        ("retrain", true) => retrain(app, &request.form),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

fn list(app: &App) -> Reply {
    let mut view = View { title: "Models".into(), page: "models", ..View::default() };
    app.library.datasets(PATIENCE);
    let models = app.scoring.models();
    if models.is_empty() {
        view.body.paragraph(match app.library.is_scanned() {
            true => "No reward model lies in this folder, and none was named.",
            false => "Looking for reward models… Load this page again in a moment.",
        });
        return view.reply(app);
    }
    let mut rows = String::new();
    for model in models {
        let audit = audit_of(app, &model);
        let (audit, promise) = match audit {
            Some((_, audit)) => (verdict_chip(audit.passed), audit.guarantee.unwrap_or_default()),
            None => ("<span class=\"chip\">no audit</span>".into(), String::new()),
        };
        let _ = write!(
            rows,
            "<tr><td><a href=\"/models/show?m={}\">{}</a></td><td>{audit}</td><td class=\"words\">{}</td></tr>",
            encode(&model.name),
            escape(&model.name),
            escape(&promise)
        );
    }
    view.body.raw(&format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"list\"><thead><tr><th>Model</th><th>Audit</th><th>Promise</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    ));
    view.reply(app)
}

/// What an audit left beside a model. Of a model in the folder, a link that leads out is not followed.
fn audit_of(app: &App, model: &ModelEntry) -> Option<(PathBuf, AuditedModel)> {
    let (file, audit) = app.backend.as_ref()?.audit(&model.path)?;
    let is_here = app.folder.inside(&model.path).is_some();
    (!is_here || app.folder.inside(&file).is_some()).then_some((file, audit))
}

fn verdict_chip(passed: bool) -> String {
    match passed {
        true => "<span class=\"chip good\">audit passed</span>".into(),
        false => "<span class=\"chip bad\">audit not passed</span>".into(),
    }
}

/// A model and the episodes it is asked about.
struct Asked {
    model: Arc<ModelEntry>,
    dataset: Arc<Dataset>,
    episodes: usize,
}

impl Asked {
    fn of(app: &App, params: &Params) -> Result<Self, Refusal> {
        let episodes = params.parsed("n")?.unwrap_or(EPISODES).clamp(1, MOST_EPISODES);
        let (model, dataset) =
            (app.scoring.model(params.need("m")?)?, app.library.dataset(params.need("d")?)?);
        Ok(Self { model, dataset, episodes })
    }

    /// The episodes: as many as wanted, from all over the dataset.
    fn keys(&self) -> Vec<EpisodeKey> {
        let items = self.dataset.len();
        let wanted = self.episodes.min(items);
        let parts = |item: usize| match self.dataset.row(item).as_deref() {
            Some(ItemRow::Broken(_)) => 0,
            Some(row) => row.parts(),
            None => 1,
        };
        let chosen = (0..wanted).map(|number| number * items / wanted);
        let key = |item, part| EpisodeKey { dataset: self.dataset.name.clone(), item, part };
        chosen
            .flat_map(|item| (0..parts(item)).map(move |part| key(item, part)))
            .take(self.episodes)
            .collect()
    }
}

fn show(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let model = app.scoring.model(query.need("m")?)?;
    let mut view = View {
        title: model.name.to_string(),
        page: "models",
        scripts: &["models.js"],
        keys: KEYS,
        ..View::default()
    };
    let datasets = app.library.datasets(PATIENCE);
    let card = ClassifierCheckpoint::read(&model.path).ok().and_then(|checkpoint| checkpoint.card);
    let chosen = query.get("d").and_then(|name| datasets.iter().find(|dataset| *dataset.name == *name));
    let audit = audit_of(app, &model);
    match (&card, JudgeCard::read(&model.path)) {
        (Some(card), _) => about(card, &mut view.body),
        (None, Ok(Some(judge))) => about_judge(&judge, &mut view.body),
        (None, _) => {
            view.body.paragraph("It has no card: a file of another making, or a model on a server.");
        }
    }
    match &audit {
        None => {
            view.body.callout(
            Tone::Doubtful,
            "No audit",
            "Nobody has found out whether this model can be trusted. An audit leaves its result beside the model, and it is shown here.",
        );
        }
        Some((file, audit)) => {
            view.body.heading("Audit");
            view.body.raw(&format!(
                "<p>{} {}</p>",
                verdict_chip(audit.passed),
                escape(audit.guarantee.as_deref().unwrap_or(""))
            ));
            view.body.findings(&audit.findings);
            let tiles: Vec<(String, String)> =
                audit.numbers.iter().map(|(name, value)| (value.clone(), name.clone())).collect();
            view.body.tiles(&tiles);
            view.body.charts(&audit.charts);
            saliency(app, file, chosen.or(datasets.first()), &mut view.body);
        }
    }
    view.body.heading("What it gets wrong");
    if datasets.is_empty() {
        view.body.paragraph("No dataset lies in this folder to look for mistakes in.");
        return Ok(view.reply(app));
    }
    view.body.raw(&form(&model, &datasets, query, chosen));
    if let Some(dataset) = chosen {
        if learned_from(card.as_ref(), dataset) {
            view.body.callout(
                Tone::Doubtful,
                "It learned from this dataset",
                "Mistakes here are labels it could not learn; how good it is, other episodes must say.",
            );
        }
        let is_classifier = card.is_some();
        let can_teach = !app.read_only && app.backend.is_some() && is_classifier;
        view.body.raw(&teaching(can_teach));
        view.body.raw(&format!(
            "<div id=\"mistakes\" data-m=\"{}\" data-d=\"{}\" data-n=\"{}\" aria-live=\"polite\">Scoring…</div>",
            escape(&model.name),
            escape(&dataset.name),
            query.parsed("n")?.unwrap_or(EPISODES)
        ));
    }
    Ok(view.reply(app))
}

/// What people do about mistakes.
fn teaching(can_teach: bool) -> String {
    if !can_teach {
        return String::new();
    }
    "<section class=\"box\" aria-labelledby=\"teach\"><h2 id=\"teach\">Retrain</h2><p class=\"row\"><label class=\"row\">Your name \
     <input id=\"by\" maxlength=\"64\" value=\"me\" autocomplete=\"off\"></label><button type=\"button\" class=\"main\" id=\"retrain\">Retrain \
     with the labels given here</button><progress id=\"training\" hidden aria-label=\"training\"></progress></p>\
     <p class=\"soft\">A new model starts from this one and learns, beside what it learned from, every frame of this dataset that people \
     labelled. It is a run of its own, which goes on when the studio ends. Both are then measured on the episodes that nobody labelled.</p>\
     <div id=\"measured\" aria-live=\"polite\"></div></section>"
        .into()
}

fn form(
    model: &ModelEntry,
    datasets: &[Arc<Dataset>],
    query: &Params,
    chosen: Option<&Arc<Dataset>>,
) -> String {
    let option = |dataset: &Arc<Dataset>| {
        let selected =
            if chosen.is_some_and(|chosen| chosen.name == dataset.name) { " selected" } else { "" };
        let name = escape(&dataset.name);
        format!("<option value=\"{name}\"{selected}>{name} ({}, {})</option>", dataset.format, dataset.len())
    };
    let options: String = datasets.iter().map(option).collect();
    let episodes = query.parsed("n").ok().flatten().unwrap_or(EPISODES);
    format!(
        "<form class=\"filters\" action=\"/models/show\" method=\"get\"><input type=\"hidden\" name=\"m\" value=\"{}\">\
         <label>Dataset<select name=\"d\">{options}</select></label><label>Episodes<input type=\"number\" name=\"n\" min=\"1\" \
         max=\"{MOST_EPISODES}\" value=\"{episodes}\"></label><button class=\"main\">Look for mistakes</button></form>",
        escape(&model.name)
    )
}

/// What a vision-language judge says of itself.
fn about_judge(card: &JudgeCard, html: &mut Html) {
    let objectives: Vec<&str> = card.objectives.iter().map(|objective| objective.name()).collect();
    let learned =
        if objectives.is_empty() { Objective::Trend.name().to_string() } else { objectives.join(", ") };
    let mut rows: Vec<[String; 2]> =
        vec![["kind".into(), "vision-language judge".into()], ["learned to say".into(), learned]];
    if let Some(WindowFormat { cameras, frames, size: [height, width], .. }) = card.window {
        rows.push(["shown".into(), format!("{frames} frames of {height} × {width}, {cameras} cameras")]);
    }
    if !card.labels.is_empty() {
        rows.push(["answers".into(), card.labels.join(", ")]);
    }
    card_table(&rows, html);
}

/// What a model says of itself.
fn about(card: &ModelCard, html: &mut Html) {
    let settings = &card.settings;
    let [_, height, width] = settings.image_size;
    let mut rows: Vec<[String; 2]> = vec![
        ["network".into(), settings.arch.name().to_string()],
        ["cameras".into(), settings.image_keys.join(", ")],
        ["images".into(), format!("{height} × {width}")],
        [
            "threshold".into(),
            card.threshold.map_or("none of its own".into(), |threshold| format!("{threshold:.4}")),
        ],
    ];
    if let Some(temperature) = card.temperature {
        rows.push(["temperature".into(), format!("{temperature:.3}")]);
    }
    if let Some(conditions) = &card.conditions {
        rows.push(["rewards only where".into(), conditions.text()]);
    }
    if let Some(balance) = &card.class_balance {
        let text = format!("{} of success, {} of failure", balance.successes, balance.failures);
        rows.push(["frames it learned from".into(), text]);
    }
    if let Some(dataset) = &card.dataset {
        rows.push(["learned from".into(), dataset.train.paths.join(", ")]);
    }
    if let Some(metrics) = &card.metrics {
        let auc = metrics.auc.map_or(String::new(), |auc| format!(", AUC {auc:.3}"));
        let text = format!("{:.1} % right{auc}, on {} frames", 100.0 * metrics.accuracy, metrics.frames);
        rows.push(["when it was trained".into(), text]);
    }
    card_table(&rows, html);
}

/// A card, row by row.
fn card_table(rows: &[[String; 2]], html: &mut Html) {
    let items: String = rows
        .iter()
        .map(|[name, value]| {
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td></tr>",
                escape(name),
                escape(value)
            )
        })
        .collect();
    html.heading("Card");
    html.raw(&format!("<div class=\"wide\" tabindex=\"0\"><table class=\"list about-model\"><tbody>{items}</tbody></table></div>"));
}

fn learned_from(card: Option<&ModelCard>, dataset: &Dataset) -> bool {
    let Some(manifest) = card.and_then(|card| card.dataset.as_ref()) else { return false };
    let is_here =
        |path: &String| Path::new(path).canonicalize().is_ok_and(|path| path.starts_with(&dataset.path));
    manifest.train.paths.iter().any(is_here)
}

/// Where the audit found it to look, over a frame of the dataset.
fn saliency(app: &App, audit: &Path, dataset: Option<&Arc<Dataset>>, html: &mut Html) {
    let is_small = std::fs::metadata(audit).is_ok_and(|file| file.len() <= AUDIT_BYTES);
    let text = if is_small { std::fs::read(audit).unwrap_or_default() } else { Vec::new() };
    let audit: Value = serde_json::from_slice(&text).unwrap_or_default();
    let found = audit["saliency"].as_array().into_iter().flatten();
    let images: Vec<(String, String)> = found.filter_map(|one| saliency_image(app, one, dataset)).collect();
    if !images.is_empty() {
        html.subheading("Where it looks");
        html.paragraph("The brighter, the more its score changes when that square is covered.");
        html.thumbnails_of(14.0, &images);
    }
}

fn saliency_image(app: &App, found: &Value, dataset: Option<&Arc<Dataset>>) -> Option<(String, String)> {
    let change: Vec<f64> = found["change"].as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let grid = found["grid"].as_u64()? as usize;
    let share = |key: &str| found[key].as_f64().unwrap_or(0.0);
    let (on_still_squares, still_squares) = (share("on_still_squares"), share("still_squares"));
    let saliency =
        Saliency { view: found["view"].as_str()?.into(), change, grid, on_still_squares, still_squares };
    if saliency.change.len() != grid * grid {
        return None;
    }
    let view: ViewKey = saliency.view.parse().ok()?;
    let (shape, pixels) = dataset
        .and_then(|dataset| middle_frame(app, dataset, &view.camera))
        .unwrap_or_else(|| (FrameShape::rgb(GREY_SIDE, GREY_SIDE), vec![96; GREY_SIDE * GREY_SIDE * 3]));
    Some((data_url("image/png", &saliency.image(shape, &pixels).bytes), saliency.view))
}

/// A frame from the middle of the first episode.
fn middle_frame(app: &App, dataset: &Dataset, camera: &str) -> Option<(FrameShape, Vec<u8>)> {
    let key = EpisodeKey { dataset: dataset.name.clone(), item: 0, part: 0 };
    let episode = app.library.episode(&key).ok()?;
    let recording = episode.recording();
    let image = recording.frame(recording.len() / 2, camera).ok().flatten()?;
    Some((image.shape(), image.pixels().ok()?.into_owned()))
}

/// Has the model, and another one where one is named, look at every episode.
fn score(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let asked = Asked::of(app, form)?;
    let keys = asked.keys();
    app.scoring.ask_all(&asked.model, &keys);
    if let Some(after) = form.get("after") {
        app.scoring.ask_all(&app.scoring.model(after)?, &keys);
    }
    Ok(Reply::json(&json!({"episodes": keys.len()})))
}

fn gallery(app: &App, asked: &Asked) -> Result<Reply, Refusal> {
    let keys = asked.keys();
    let scored = keys.iter().filter(|key| app.scoring.scores(&asked.model, key).is_some()).count();
    let failed = keys.iter().find_map(|key| app.scoring.scores(&asked.model, key)?.err());
    let episodes = judged(app, &asked.dataset, &keys)?;
    let (found, accepted) = mistakes(app, &asked.model, &episodes)?;
    let frames: usize = found.iter().map(|one| one.to - one.from).sum();
    let labelled = episodes.iter().filter(|episode| episode.is_labelled).count();
    let mut html = Html::default();
    html.raw(&format!(
        "<ul class=\"facts\" id=\"looked\" data-done=\"{scored}\" data-all=\"{}\"><li><b>{scored}</b> of {} episodes scored</li>\
         <li><b>{}</b> mistakes over <b>{frames}</b> frames</li><li><b>{accepted}</b> accepted</li>\
         <li><b>{labelled}</b> episodes labelled here</li></ul>",
        keys.len(),
        keys.len(),
        found.len()
    ));
    if let Some(why) = failed {
        html.raw(&format!("<p class=\"wrong\">{}</p>", escape(&why)));
    }
    let can_label = !app.read_only;
    let cards: String = found.iter().take(MOST_SHOWN).map(|one| card(app, one, can_label)).collect();
    html.raw(&format!("<ul class=\"cards\" id=\"mistake-cards\">{cards}</ul>"));
    if found.len() > MOST_SHOWN {
        html.raw(&format!("<p class=\"soft\">The worst {MOST_SHOWN} are shown.</p>"));
    }
    if found.is_empty() && scored > 0 && scored == keys.len() {
        html.paragraph(
            "No mistake is left: it agrees with every label, or people have accepted where it does not.",
        );
    }
    Ok(Reply::html(html.as_str().to_string()))
}

fn card(app: &App, found: &Disagreement, can_label: bool) -> String {
    let says = found.says.get(1).copied().flatten() == Some(true);
    let (label, other) = if says { ("failure", "success") } else { ("success", "failure") };
    let EpisodeKey { dataset, item, part } = &found.episode;
    let name = escape(&episode_name(app, &found.episode));
    let address = escape(&format!("{}#frame={}", found.episode.address("/episode"), found.worst));
    let buttons = if can_label {
        format!(
            "<span class=\"row\"><button type=\"button\" data-do=\"fix\" data-answer=\"{other}\">The label is wrong: {other}</button>\
             <button type=\"button\" data-do=\"accept\">Accept</button></span>"
        )
    } else {
        String::new()
    };
    format!(
        "<li class=\"card single mistake\" data-d=\"{}\" data-i=\"{item}\" data-s=\"{part}\" data-from=\"{}\" data-to=\"{}\">\
         <a href=\"{address}\">{}</a><span class=\"about\"><b>{name}</b><span>frames {} to {}</span>\
         <span class=\"chip\">label: {label}</span><span class=\"chip doubtful\">model: {other}, off by {:.2}</span>{buttons}</span></li>",
        escape(dataset),
        found.from,
        found.to,
        frame_image(app, &found.episode, found.worst),
        found.from,
        found.to - 1,
        found.gap
    )
}

fn accept(app: &App, form: &Params) -> Result<Reply, Refusal> {
    labels_folder(app)?;
    let model = app.scoring.model(form.need("m")?)?;
    let key = EpisodeKey::of(form)?;
    let length = app.library.episode(&key)?.recording().len();
    let (from, to): (usize, usize) = (form.need_parsed("from")?, form.need_parsed("to")?);
    if from >= to || to > length {
        return Err(Refusal::bad(format!("a mistake is of frames from 0 to {length}")));
    }
    let (model, dataset) = (model.name.to_string(), key.dataset.to_string());
    app.accepted.keep(&AcceptedMistake { model, dataset, item: key.item, part: key.part, from, to })?;
    Ok(Reply::json(&json!({"kept": true})))
}

/// Teaches a new model what people said of this dataset.
fn retrain(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let asked = Asked::of(app, form)?;
    labels_folder(app)?;
    let run = free_run(app, "retrained")?;
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let added = app.labels.place(&asked.dataset)?.join(format!("{name}_frames"));
    if added.exists() {
        std::fs::remove_dir_all(&added).map_err(|error| Refusal::failed(error.to_string()))?;
    }
    let [successes, failures] = write_taught(app, &asked.dataset, &added)?;
    if successes + failures == 0 {
        return Err(Refusal::conflict("nobody has labelled a frame of this dataset: fix a label first"));
    }
    let work = Work::Retrain { model: asked.model.path.clone(), added, run: run.clone() };
    let done = move |app: &App| {
        if let Ok(file) = ClassifierCheckpoint::locate(&run) {
            app.library.add_model(file);
        }
    };
    let started = start(app, &work, done)?;
    app.runs.look();
    Ok(Reply::json(&json!({"run": started, "successes": successes, "failures": failures})))
}

/// Two models on the same frames, which neither was taught here.
fn before_and_after(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let asked = Asked::of(app, query)?;
    let after = app.scoring.model(query.need("after")?)?;
    let episodes = judged(app, &asked.dataset, &asked.keys())?;
    let wanted = episodes.iter().filter(|episode| !episode.is_labelled).count();
    let (count, found) = measured(app, &[asked.model.clone(), after.clone()], &episodes);
    let [before, now] = &found[..] else { return Err(Refusal::failed("two models are measured")) };
    let mut html = Html::default();
    html.raw(&format!(
        "<h3 id=\"measured-on\" data-done=\"{count}\" data-all=\"{wanted}\">Before and after, on {count} of {wanted} episodes that nobody \
         labelled</h3>"
    ));
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let row = |name: &str, of: &dyn Fn(&Metrics) -> String| vec![name.to_string(), of(before), of(now)];
    let rows = [
        row("frames", &|metrics| metrics.frames.to_string()),
        row("threshold", &|metrics| format!("{:.3}", metrics.threshold)),
        row("right", &|metrics| format!("{:.1} %", 100.0 * metrics.accuracy)),
        row("AUC", &|metrics| some(metrics.auc)),
        row("successes found", &|metrics| some(metrics.recall)),
        row("right of what it calls success", &|metrics| some(metrics.precision)),
        row("calibration error", &|metrics| format!("{:.3}", metrics.ece)),
    ];
    html.table(&["", &asked.model.name, &after.name], &rows);
    let query = format!(
        "m={}&m={}&d={}&n={}",
        encode(&asked.model.name),
        encode(&after.name),
        encode(&asked.dataset.name),
        asked.episodes
    );
    html.raw(&format!(
        "<p><a class=\"button\" href=\"/compare?{}\">Compare the two frame by frame</a></p>",
        escape(&query)
    ));
    Ok(Reply::html(html.as_str().to_string()))
}
