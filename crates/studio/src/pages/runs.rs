//! Runs: live curves, films, alarms with their frames, beside each other; stopped, gone on with and started.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use plaudit_core::EndReason;
use plaudit_view::page::{Chart, Html, Series, Size, Unit, escape};
use serde_json::json;

use super::Page;
use crate::app::App;
use crate::backend::{Backend, FieldKind, RecipeField, Work};
use crate::http::{Params, Refusal, Reply, Request, encode};
use crate::runs::{RunCurves, RunRow, RunState, alarm_frames, free_run, media_type, start, thinned, videos};
use crate::shell::View;

pub(super) const PAGE: Page = Page { path: "runs", title: "Runs", harmless_posts: &["check"], answer };

/// Columns of a chart.
const COLUMNS: usize = 290;
/// Runs beside each other.
const MOST_RUNS: usize = 12;
/// Charts of one part.
const MOST_CHARTS: usize = 60;
/// What is shown first, by the beginning of its name.
const FIRST: [&str; 6] =
    ["eval/success_once", "env/success_once", "eval/return", "env/return", "val/", "train/loss"];
/// Differences between configs that are named.
const MOST_DIFFERENCES: usize = 4;

const LIST_KEYS: &[(&str, &str)] =
    &[("j k", "next and previous run"), ("c", "show the chosen runs together"), ("n", "start a run")];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    match (request.word(1), request.is_post()) {
        ("", false) => Ok(page(app)),
        ("list", false) => Ok(Reply::html(list(app))),
        ("show", false) => show(app, &chosen(app, &request.query)?),
        ("state", false) => {
            let states: String = chosen(app, &request.query)?.iter().map(|run| state(app, run)).collect();
            Ok(Reply::html(states))
        }
        ("curves", false) => {
            curves(app, &chosen(app, &request.query)?, request.query.get("part").unwrap_or(""))
        }
        ("file", false) => file(app, request),
        ("new", false) => new_run(app, &request.query),
        ("check", true) => check(app, &request.form),
        ("start", true) => start_recipe(app, &request.form),
        ("stop", true) => stop(app, &request.form),
        ("resume", true) => resume(app, &request.form),
        ("branch", true) => branch(app, &request.form),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

/// The runs that a request names.
fn chosen(app: &App, params: &Params) -> Result<Vec<RunRow>, Refusal> {
    let runs: Vec<RunRow> = params.all("r").map(|name| app.runs.row(name)).collect::<Result<_, _>>()?;
    match runs.len() {
        0 => Err(Refusal::bad("choose a run")),
        count if count > MOST_RUNS => Err(Refusal::bad(format!("choose {MOST_RUNS} runs at most"))),
        _ => Ok(runs),
    }
}

fn backend(app: &App) -> Result<&dyn Backend, Refusal> {
    app.backend.as_deref().ok_or_else(|| Refusal::conflict("this studio starts and stops no runs"))
}

fn page(app: &App) -> Reply {
    let mut view = View {
        title: "Runs".into(),
        page: "runs",
        scripts: &["runs.js"],
        keys: LIST_KEYS,
        ..View::default()
    };
    if app.backend.is_some() && !app.read_only {
        view.body.raw("<p><a class=\"button\" id=\"to-new\" href=\"/runs/new\">Start a run</a></p>");
    }
    view.body.raw(&format!("<div id=\"runs\">{}</div>", list(app)));
    view.reply(app)
}

/// Runs of one config, which differ in seeds and places alone.
struct Group {
    title: String,
    config: Option<Arc<Vec<(String, String)>>>,
    runs: Vec<RunRow>,
}

fn groups(app: &App) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for run in app.runs.rows() {
        let config = app.runs.config(&run.name, app.backend.as_deref());
        let title = if run.facts.title.is_empty() { run.name.clone() } else { run.facts.title.clone() };
        let is_same = |group: &&mut Group| config.is_some() && group.config == config;
        match groups.iter_mut().find(is_same) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { title, config, runs: vec![run] }),
        }
    }
    groups
}

/// What tells a group from others of its name, in a few words.
fn differences(group: &Group, groups: &[Group]) -> String {
    let others: Vec<&Group> =
        groups.iter().filter(|other| other.title == group.title && other.config.is_some()).collect();
    let Some(own) = group.config.as_deref().filter(|_| others.len() > 1) else { return String::new() };
    let value = |config: &[(String, String)], key: &str| {
        config.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let differs = |key: &str, written: &str| {
        others.iter().any(|other| {
            other.config.as_deref().is_some_and(|config| value(config, key).as_deref() != Some(written))
        })
    };
    let mut words: Vec<String> = own
        .iter()
        .filter(|(key, written)| differs(key, written))
        .map(|(key, written)| format!("{key}={written}"))
        .collect();
    let more = words.len().saturating_sub(MOST_DIFFERENCES);
    words.truncate(MOST_DIFFERENCES);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

fn list(app: &App) -> String {
    let groups = groups(app);
    if groups.is_empty() {
        return "<p>No run lies in this folder yet. A run that begins anywhere below it appears here by itself.</p>".into();
    }
    let mut html = String::from("<form id=\"choose\" action=\"/runs/show\" method=\"get\">");
    for group in &groups {
        let differ = differences(group, &groups);
        let count = match group.runs.len() {
            1 => String::new(),
            count => format!(" <span class=\"soft\">{count} runs of one config</span>"),
        };
        let differ = if differ.is_empty() {
            String::new()
        } else {
            format!("<p class=\"soft\">{}</p>", escape(&differ))
        };
        let _ = write!(html, "<h2>{}{count}</h2>{differ}", escape(&group.title));
        html += "<div class=\"wide\" tabindex=\"0\"><table class=\"list runs\"><thead><tr><th></th><th>Run</th><th>State</th><th>Progress</th>\
                 <th>Newest</th><th>Warnings</th></tr></thead><tbody>";
        group.runs.iter().for_each(|run| html += &line(run));
        html += "</tbody></table></div>";
    }
    html + "<p class=\"row\"><button class=\"main\">Show together</button></p></form>"
}

fn line(run: &RunRow) -> String {
    let name = escape(&run.name);
    let metric = run.facts.metric.as_ref();
    let metric = metric
        .map_or(String::new(), |(name, value)| format!("{name} {}", plaudit_view::format::number(*value)));
    format!(
        "<tr data-run=\"{name}\"><td><input type=\"checkbox\" name=\"r\" value=\"{name}\" aria-label=\"{name}\"></td>\
         <td><a class=\"run\" href=\"/runs/show?r={}\">{name}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        encode(&run.name),
        chip(run.state),
        progress(run),
        escape(&metric),
        match run.facts.warnings.len() {
            0 => String::new(),
            count => format!("<span class=\"wrong\">{count}</span>"),
        }
    )
}

fn chip(state: RunState) -> String {
    format!("<span class=\"chip {}\">{}</span>", state.tone(), state.word())
}

fn progress(run: &RunRow) -> String {
    let count = plaudit_view::format::count;
    let unit = escape(&run.facts.unit);
    match run.facts.steps.filter(|steps| *steps > 0) {
        Some(steps) => format!(
            "<progress max=\"{steps}\" value=\"{0}\" aria-label=\"{unit}\"></progress> {1} of {2} {unit}",
            run.facts.step.min(steps),
            count(run.facts.step),
            count(steps)
        ),
        None => format!("{} {unit}", count(run.facts.step)),
    }
}

fn show(app: &App, runs: &[RunRow]) -> Result<Reply, Refusal> {
    let title = match runs {
        [run] => run.name.clone(),
        runs => format!("{} runs", runs.len()),
    };
    let mut view = View { title, page: "runs", scripts: &["runs.js"], ..View::default() };
    let names: String = runs.iter().map(|run| format!("&r={}", encode(&run.name))).collect();
    let body = &mut view.body;
    let states: String = runs.iter().map(|run| state(app, run)).collect();
    body.raw(&format!("<div id=\"states\">{states}</div>"));
    if let [run] = runs {
        body.raw(&branch_form(app, run));
    }
    let mut parts: Vec<String> = Vec::new();
    for run in runs {
        for name in app.runs.curves(&run.name)?.names() {
            let part = part_of(name).to_string();
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    body.raw(&format!("<div id=\"live\" data-query=\"{}\">", escape(&names)));
    body.heading("Curves");
    if parts.is_empty() {
        body.paragraph("No numbers yet.");
    }
    body.raw("<div class=\"charts\" id=\"first-curves\" data-part=\"\"></div>");
    for part in &parts {
        let part = escape(part);
        body.raw(&format!(
            "<details data-part=\"{part}\"><summary><b>{part}</b></summary><div class=\"charts\" data-part=\"{part}\"></div></details>"
        ));
    }
    body.raw("</div>");
    runs.iter().for_each(|run| media(run, runs.len() > 1, body));
    Ok(view.reply(app))
}

/// The word before the slash.
fn part_of(metric: &str) -> &str {
    metric.split_once('/').map_or("other", |(part, _)| part)
}

/// How a run is, and what can be done about it.
fn state(app: &App, run: &RunRow) -> String {
    let name = escape(&run.name);
    let mut html =
        format!("<section class=\"box run-state\" data-run=\"{name}\"><h2>{name} {}</h2>", chip(run.state));
    let secs =
        std::time::Duration::from_secs_f64((run.facts.wall_secs - run.facts.started_secs).clamp(0.0, 1e12));
    let _ = write!(html, "<ul class=\"facts\"><li>{}</li><li>{}</li>", escape(&run.facts.job), progress(run));
    let _ =
        write!(html, "<li>{} from its first event to its last</li>", plaudit_view::format::duration(secs));
    if let Some(saved) = run.facts.saved {
        let _ = write!(html, "<li>saved at {}</li>", plaudit_view::format::count(saved));
    }
    html += "</ul>";
    if let Some(EndReason::Failed { error }) = &run.facts.end {
        let _ = write!(html, "<p class=\"wrong\">{}</p>", escape(error));
    }
    if let Some(why) = &run.facts.broken {
        let _ = write!(html, "<p class=\"wrong\">{}</p>", escape(why));
    }
    html += &controls(app, run);
    if !run.facts.warnings.is_empty() {
        let warnings: String =
            run.facts.warnings.iter().rev().map(|text| format!("<li>{}</li>", escape(text))).collect();
        let count = run.facts.warnings.len();
        let _ = write!(
            html,
            "<details><summary><b>Warnings</b> <span class=\"soft\">{count}</span></summary><ul class=\"notes\">{warnings}</ul></details>"
        );
    }
    html + "</section>"
}

fn controls(app: &App, run: &RunRow) -> String {
    if app.read_only || app.backend.is_none() {
        return String::new();
    }
    let button = |what: &str, class: &str, words: &str| {
        format!("<button type=\"button\" class=\"{class}\" data-do=\"{what}\">{words}</button>")
    };
    match run.state {
        RunState::Running => format!(
            "<p class=\"row\">{} <span class=\"soft\">It finishes its step, saves and ends; that is the only pause there is. It goes on when \
             the studio ends.</span></p>",
            button("stop", "bad", "Save and stop")
        ),
        RunState::Stopped | RunState::Failed | RunState::Gone if run.facts.saved.is_some() => format!(
            "<p class=\"row\">{} <span class=\"soft\">From what was saved last, in a process of its own, which goes on when the studio \
             ends.</span></p>",
            button("resume", "main", "Go on")
        ),
        RunState::Gone => "<p class=\"soft\">No process of this machine is known to be this run: it was killed, runs elsewhere, or was \
                           started by an older version. It cannot be stopped from here.</p>"
            .into(),
        RunState::Stopped | RunState::Failed | RunState::Done => String::new(),
    }
}

/// Where a run can be gone on from with other values.
fn branch_form(app: &App, run: &RunRow) -> String {
    if app.read_only || app.backend.is_none() || run.facts.saved.is_none() {
        return String::new();
    }
    let (name, short) = (escape(&run.name), run.name.rsplit('/').next().unwrap_or(&run.name));
    format!(
        "<details class=\"box\"><summary><b>Go on with other values</b></summary><form id=\"branch\" data-run=\"{name}\"><label>Name \
         <input name=\"name\" value=\"{}\" maxlength=\"80\" required></label><label>Keys and values, one a line <textarea name=\"values\" \
         rows=\"3\" spellcheck=\"false\" placeholder=\"key=value\" required></textarea></label><p class=\"row\"><button class=\"main\">Start</button> \
         <span class=\"soft\">A run of its own, from what this one saved last: how a schedule is changed in the middle. This one stays as it \
         is.</span></p></form></details>",
        escape(short)
    )
}

/// Films, and frames of alarms.
fn media(run: &RunRow, is_named: bool, body: &mut Html) {
    let (films, alarms) = (videos(&run.path), alarm_frames(&run.path));
    let address = |file: &str| escape(&format!("/runs/file?r={}&f={}", encode(&run.name), encode(file)));
    let of = if is_named { format!(" of {}", run.name) } else { String::new() };
    if !alarms.is_empty() {
        body.heading(&format!("Frames that raised alarms{of}"));
    }
    for alarm in &alarms {
        body.subheading(&format!("Step {}", alarm.step));
        let prefix = format!("step {}:", alarm.step);
        if let Some(text) = run.facts.warnings.iter().find(|text| text.starts_with(&prefix)) {
            body.paragraph(text);
        }
        for (kind, images) in &alarm.kinds {
            let words = match *kind {
                "success" => "true success",
                "failure" => "no success",
                _ => "nobody has said what it is",
            };
            let images: Vec<(String, String)> =
                images.iter().map(|file| (address(file), words.to_string())).collect();
            body.thumbnails(&images);
        }
        body.raw(&format!("<p class=\"soft\">{} rewarded frames were kept.</p>", alarm.all));
    }
    if films.is_empty() {
        return;
    }
    body.heading(&format!("Films{of}"));
    body.raw("<ul class=\"cards films-list\">");
    for film in &films {
        let (source, name) = (address(&film.name), escape(&film.name));
        let shown = match media_type(&film.name) {
            Some("video/mp4") => format!(
                "<video controls preload=\"metadata\" src=\"{source}\" aria-label=\"{name}\"></video>"
            ),
            _ => format!("<img loading=\"lazy\" src=\"{source}\" alt=\"{name}\">"),
        };
        let size = plaudit_view::format::count(film.bytes / 1024);
        body.raw(&format!(
            "<li class=\"card film-card\">{shown}<span class=\"about\"><b>{name}</b><span>{size} KiB</span></span></li>"
        ));
    }
    body.raw("</ul>");
}

/// A film or an image of a run, in parts.
fn file(app: &App, request: &Request) -> Result<Reply, Refusal> {
    let run = app.runs.row(request.query.need("r")?)?;
    let name = request.query.need("f")?;
    let kind =
        media_type(name).ok_or_else(|| Refusal::not_found("films and images are shown, and nothing else"))?;
    let below = app.folder.find(&format!("{}/{name}", app.folder.name(&run.path)));
    let path =
        below.filter(|path| run.path.canonicalize().is_ok_and(|run| path.starts_with(run)) && path.is_file());
    Reply::file(
        kind,
        &path.ok_or_else(|| Refusal::not_found("there is no such file in this run"))?,
        request.range,
    )
}

/// Charts of one part: what people look at first, or all metrics before one slash.
fn curves(app: &App, runs: &[RunRow], part: &str) -> Result<Reply, Refusal> {
    let all: Vec<(String, Arc<RunCurves>)> = runs
        .iter()
        .map(|run| Ok((run.name.clone(), app.runs.curves(&run.name)?)))
        .collect::<Result<_, Refusal>>()?;
    let mut names: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|(_, curves)| curves.names()) {
        let is_first =
            FIRST.iter().any(|first| name == *first || (first.ends_with('/') && name.starts_with(first)));
        let is_wanted = if part.is_empty() { is_first } else { part_of(name) == part };
        if is_wanted && !names.contains(&name) && names.len() < MOST_CHARTS {
            names.push(name);
        }
    }
    let unit = runs.first().map_or("", |run| run.facts.unit.as_str());
    let charts: Vec<Chart> = names.iter().map(|name| chart(name, &all, unit)).collect();
    let mut html = Html::default();
    html.charts(&charts);
    Ok(Reply::html(html.as_str().to_string()))
}

fn chart(metric: &str, runs: &[(String, Arc<RunCurves>)], unit: &str) -> Chart {
    let series = |(look, (name, curves)): (usize, &(String, Arc<RunCurves>))| {
        let points = thinned(curves.of(metric)?, COLUMNS);
        let name = if runs.len() > 1 { name.clone() } else { String::new() };
        let dots = points.len() <= 15;
        Some(Series { name, look, dots, points, ..Series::default() })
    };
    Chart {
        title: metric.into(),
        x_label: if unit.is_empty() { "steps".into() } else { unit.into() },
        x_unit: Unit::Whole,
        size: Size::Small,
        series: runs.iter().enumerate().filter_map(series).collect(),
        ..Chart::default()
    }
}

fn stop(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let run = app.runs.row(form.need("r")?)?;
    let process = app.runs.process(&run).ok_or_else(|| {
        Refusal::conflict(
            "no process of this machine is known to be this run: it has ended, or runs elsewhere",
        )
    })?;
    backend(app)?.ask_to_stop(process.id);
    app.runs.look();
    Ok(Reply::json(&json!({"asked": true})))
}

fn resume(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let run = app.runs.row(form.need("r")?)?;
    match run.state {
        RunState::Running => return Err(Refusal::conflict("it is running")),
        RunState::Done => return Err(Refusal::conflict("it is done")),
        RunState::Stopped | RunState::Failed | RunState::Gone => {}
    }
    let work = Work::Resume { run: run.path, job: run.facts.job };
    let started = start(app, &work, |_| ())?;
    app.runs.look();
    Ok(Reply::json(&json!({"run": started})))
}

/// Another run from what a run saved last.
fn branch(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let from = app.runs.row(form.need("r")?)?;
    let values = values(form)?;
    if values.is_empty() {
        return Err(Refusal::bad(
            "say which keys get which values; with the same ones, the run itself goes on",
        ));
    }
    if from.facts.saved.is_none() {
        return Err(Refusal::conflict("it has saved nothing to start from"));
    }
    let run = free_run(app, form.need("name")?)?;
    let work = Work::Branch { from: from.path, job: from.facts.job, values, run };
    let started = start(app, &work, |_| ())?;
    app.runs.look();
    Ok(Reply::json(&json!({"run": started})))
}

fn new_run(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let backend = backend(app)?;
    let mut view =
        View { title: "Start a run".into(), page: "runs", scripts: &["new_run.js"], ..View::default() };
    if app.read_only {
        view.body.paragraph("This studio only reads: no run can be started.");
        return Ok(view.reply(app));
    }
    let chosen = query.get("recipe");
    let option = |(name, about): &(String, String)| {
        let selected = if chosen == Some(name) { " selected" } else { "" };
        let (name, about) = (escape(name), escape(about));
        format!("<option value=\"{name}\"{selected} title=\"{about}\">{name}</option>")
    };
    let recipes = backend.recipes();
    let options: String = recipes.iter().map(option).collect();
    view.body.raw(&format!(
        "<form class=\"filters\" action=\"/runs/new\" method=\"get\"><label>Recipe<select name=\"recipe\">{options}</select></label>\
         <button>Choose</button></form>"
    ));
    let Some(recipe) = chosen else { return Ok(view.reply(app)) };
    let fields = backend.fields(recipe).map_err(Refusal::bad)?;
    if let Some((_, about)) = recipes.iter().find(|(name, _)| name == recipe) {
        view.body.paragraph(about);
    }
    view.body.raw(&format!(
        "<form id=\"new-run\" data-recipe=\"{0}\"><div class=\"filters\"><label>Name<input name=\"name\" value=\"{0}\" maxlength=\"80\" \
         required></label><label class=\"flat\"><input type=\"search\" id=\"find-key\" placeholder=\"find a key\" aria-label=\"find a key\">\
         </label></div>",
        escape(recipe)
    ));
    view.body.raw(&field_lists(&fields));
    view.body.raw(
        "<h2>Before it starts</h2><div id=\"findings\" aria-live=\"polite\"></div><p class=\"row\"><button class=\"main\" \
         id=\"start\" disabled>Start</button><span class=\"soft\">The run is a process of its own, which goes on when the studio ends. \
         Paths are below the folder that is shown.</span></p></form>",
    );
    Ok(view.reply(app))
}

/// Every key in a form: those that the recipe writes are open, the others fold by block.
fn field_lists(fields: &[RecipeField]) -> String {
    let mut html = String::from("<h2>What the recipe says</h2><div class=\"fields\">");
    fields.iter().filter(|field| field.is_written).for_each(|field| html += &input(field));
    html += "</div><h2>Everything else</h2>";
    let mut blocks: BTreeMap<&str, Vec<&RecipeField>> = BTreeMap::new();
    for field in fields.iter().filter(|field| !field.is_written) {
        let block = field.key.rsplit_once('.').map_or("", |(block, _)| block);
        blocks.entry(block).or_default().push(field);
    }
    for (block, fields) in blocks {
        let inputs: String = fields.iter().map(|field| input(field)).collect();
        let _ = write!(
            html,
            "<details><summary><b>{}</b> <span class=\"soft\">{}</span></summary><div class=\"fields\">{inputs}</div></details>",
            escape(block),
            fields.len()
        );
    }
    html
}

fn input(field: &RecipeField) -> String {
    let (key, value) = (escape(&field.key), escape(&field.value));
    let attributes = format!("name=\"{key}\" data-was=\"{value}\"");
    let control = match &field.takes {
        FieldKind::Switch => options(&attributes, &field.value, &[("true", ""), ("false", "")]),
        FieldKind::Choice(words) => {
            let words: Vec<(&str, &str)> =
                words.iter().map(|(word, about)| (word.as_str(), about.as_str())).collect();
            options(&attributes, &field.value, &words)
        }
        FieldKind::Text(kind) => {
            format!("<input {attributes} value=\"{value}\" placeholder=\"{0}\" title=\"{0}\">", escape(kind))
        }
    };
    format!(
        "<label class=\"field-row\"><code>{key}</code>{control}<small>{}</small></label>",
        escape(&field.about)
    )
}

fn options(attributes: &str, value: &str, words: &[(&str, &str)]) -> String {
    let unset = if value.is_empty() { "<option value=\"\" selected>not set</option>" } else { "" };
    let option = |(word, about): &(&str, &str)| {
        let selected = if *word == value { " selected" } else { "" };
        let (word, about) = (escape(word), escape(about));
        format!("<option value=\"{word}\"{selected} title=\"{about}\">{word}</option>")
    };
    format!("<select {attributes}>{unset}{}</select>", words.iter().map(option).collect::<String>())
}

/// The values of a form that are not the recipe's.
pub(super) fn values(form: &Params) -> Result<Vec<(String, String)>, Refusal> {
    let pair = |text: &str| {
        let (key, value) = text.split_once('=').ok_or_else(|| Refusal::bad("a value is `key=value`"))?;
        let is_key = key.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
        match is_key && !key.is_empty() && !value.contains(['\n', '\r', '\0']) {
            true => Ok((key.to_string(), value.to_string())),
            false => Err(Refusal::bad("a value is `key=value`, in one line")),
        }
    };
    form.all("set").map(pair).collect()
}

/// What looks wrong about the run before it starts.
fn check(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let found = backend(app)?.findings(form.need("recipe")?, &values(form)?);
    let mut html = Html::default();
    let can_start = found.is_ok();
    match found {
        Err(why) => {
            html.raw(&format!("<p class=\"wrong\">{}</p>", escape(&why)));
        }
        Ok(found) if found.is_empty() => {
            html.paragraph("Nothing looks wrong.");
        }
        Ok(found) => {
            html.findings(&found);
        }
    }
    Ok(Reply::json(&json!({"html": html.as_str(), "can_start": can_start})))
}

fn start_recipe(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let (recipe, values) = (form.need("recipe")?.to_string(), values(form)?);
    let run = free_run(app, form.get("name").unwrap_or(&recipe))?;
    let started = start(app, &Work::Recipe { recipe, values, run }, |_| ())?;
    app.runs.look();
    Ok(Reply::json(&json!({"run": started})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_keys_and_one_line() {
        let form = Params::parse("set=a.b%3D1&set=c%3Dx%3Dy&set=d%3D");
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(values(&form).unwrap(), [pair("a.b", "1"), pair("c", "x=y"), pair("d", "")]);
        for bad in ["set=x", "set=%3D1", "set=--resume%3D1%0A", "set=a+b%3D1", "set=~a%3D1"] {
            assert!(values(&Params::parse(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_set_can_stay_so() {
        let field = |value: &str| RecipeField {
            key: "a.b".into(),
            about: "<b>".into(),
            takes: FieldKind::Switch,
            value: value.into(),
            is_written: false,
        };
        assert!(input(&field("")).contains("not set") && !input(&field("true")).contains("not set"));
        assert!(!input(&field("")).contains("<b>"));
    }
}
