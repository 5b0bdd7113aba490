//! Robot: cameras, live probability, the state of an arm, and a person who holds it, begins and ends episodes, and labels their frames.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::FrameShape;
use plaudit_draw::Canvas;
use plaudit_view::page::escape;
use serde_json::{Value, json};

use super::Page;
use crate::app::App;
use crate::backend::{RobotConfig, Work};
use crate::http::{Params, Refusal, Reply, Request};
use crate::images::fitted;
use crate::runs::{free_run, last_words, output_of, start_until_end};
use crate::shell::View;

/// A hold changes nothing that is kept, and must always work.
pub(super) const PAGE: Page = Page { path: "robot", title: "Robot", harmless_posts: &["hold"], answer };

/// The longer side of an image.
const SIDE: usize = 512;

const KEYS: &[(&str, &str)] = &[
    ("space", "HOLD: the arm stays where it is"),
    ("n", "begin the next episode"),
    ("c a b", "from now on frames are successes, failures, neither"),
    ("u", "take the last label back"),
    ("C A", "end the episode: it is a success, a failure"),
    ("X", "end the episode and keep nothing of it"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    let (word, is_post) = (request.word(1), request.is_post());
    // A motion is begun from this machine alone, as runs are.
    if is_post && app.is_exposed && matches!(word, "begin" | "start" | "go_on" | "agree") {
        let why = "a studio that other machines can reach begins no motion: it holds, labels and ends";
        return Err(Refusal::forbidden(why));
    }
    match (word, is_post) {
        ("", false) => Ok(page(app, &request.query)),
        ("list", false) => Ok(Reply::json(&list(app))),
        ("look", false) => look(app, &request.query),
        ("frame", false) => frame(app, &request.query),
        ("begin", true) => begin(app, &request.form),
        ("hold", true) => hold(app, &request.form),
        ("go_on", true) => {
            ask(app, &request.form, json!({"do": "go_on", "word": text(&request.form, "word")}))
        }
        ("agree", true) => {
            let number: u64 = request.form.need_parsed("number")?;
            ask(
                app,
                &request.form,
                json!({"do": "agree", "number": number, "word": text(&request.form, "word")}),
            )
        }
        ("label", true) => {
            let lag: f64 = request.form.parsed("lag")?.unwrap_or(0.0);
            ask(app, &request.form, json!({"do": "label", "as": request.form.need("as")?, "lag": lag}))
        }
        ("end", true) => ask(app, &request.form, json!({"do": "end", "as": request.form.need("as")?})),
        ("start" | "undo" | "quit", true) => ask(app, &request.form, json!({"do": word})),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

fn text<'a>(form: &'a Params, name: &str) -> &'a str {
    form.get(name).unwrap_or("")
}

/// Passes a wish on to a session.
fn ask(app: &App, form: &Params, request: Value) -> Result<Reply, Refusal> {
    let session = app.robots.session(form.need("s")?)?;
    Ok(Reply::json(&app.robots.ask(&session, &request)?.value))
}

fn hold(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let backend = app.backend.as_deref();
    let held = match form.get("s") {
        Some(session) => app.robots.hold(backend, session),
        None => app.robots.hold_configured(backend, form.need("robot")?),
    };
    Ok(Reply::json(&held?))
}

/// Sessions and robots.
fn list(app: &App) -> Value {
    let sessions: Vec<Value> = app
        .robots
        .sessions()
        .iter()
        .map(|session| json!({"name": session.name, "alive": session.is_alive}))
        .collect();
    json!({"sessions": sessions})
}

/// What a session shows. A page that somebody looks at says so: without one the arm is held.
fn look(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let session = app.robots.session(query.need("s")?)?;
    if !session.is_alive {
        let said = said_last(app, &session.path);
        return Ok(Reply::json(&json!({"alive": false, "said": said})));
    }
    if !app.robots.listens(&session) {
        return Ok(Reply::json(&json!({"alive": true, "begins": true})));
    }
    let since: u64 = query.parsed("since")?.unwrap_or(0);
    let watches = query.get("watches").is_some();
    let mut shown =
        app.robots.ask(&session, &json!({"do": "look", "since": since, "watches": watches}))?.value;
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("alive".into(), true.into());
        shown.insert("can_move".into(), can_move(app).into());
    }
    Ok(Reply::json(&shown))
}

/// What a session said before it ended, where it was started here.
fn said_last(app: &App, path: &Path) -> String {
    app.folder.inside(&output_of(path)).map(|output| last_words(&output)).unwrap_or_default()
}

fn can_move(app: &App) -> bool {
    !app.read_only && !app.is_exposed
}

/// The newest image of a camera, as a PNG.
fn frame(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let session = app.robots.session(query.need("s")?)?;
    let camera: u64 = query.parsed("camera")?.unwrap_or(0);
    let reply = app.robots.ask(&session, &json!({"do": "frame", "camera": camera}))?;
    let number = |name: &str| reply.value[name].as_u64().and_then(|number| usize::try_from(number).ok());
    let shape = number("height").zip(number("width")).zip(number("channels"));
    let shape = shape.map(|((height, width), channels)| FrameShape { height, width, channels });
    let is_whole = |shape: &FrameShape| {
        matches!(shape.channels, 1 | 3) && shape.bytes() > 0 && shape.bytes() == reply.bytes.len()
    };
    let shape = shape.filter(is_whole).ok_or_else(|| Refusal::failed("the camera shows no image"))?;
    let (height, width) = fitted((shape.height, shape.width), SIDE);
    let image = if (height, width) == (shape.height, shape.width) {
        let mut image = Canvas::filled(width, height, [0; 3]);
        image.paste((0, 0), shape, &reply.bytes);
        image
    } else {
        Canvas::fitted(shape, &reply.bytes, SIDE)
    };
    Ok(Reply::bytes("image/png", image.png()))
}

/// Starts a session.
fn begin(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let name = form.need("robot")?;
    let backend = app.backend.as_deref();
    let robots = app.robots.configs(backend);
    let robot = robots.into_iter().find(|robot| robot.name == name);
    let robot = robot.ok_or_else(|| Refusal::bad("there is no such robot"))?;
    if let Some(busy) = app.robots.sessions().into_iter().find(|session| session.is_alive) {
        return Err(Refusal::conflict(format!("{} goes on: end it first", busy.name)));
    }
    let model = form.get("model").map(|model| app.scoring.model(model)).transpose()?;
    let model = model.map(|model| model.path.clone());
    let values = super::runs::values(form)?;
    let plain = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let run = free_run(app, form.get("name").unwrap_or(&format!("robot_{plain}")))?;
    let work = Work::Robot { config: robot.config, values, model, run: run.clone() };
    // Known before it is started, so that its end is noticed however soon it comes.
    let session = app.folder.name(&run);
    app.robots.started(&session, &run)?;
    let name = session.clone();
    let begun = start_until_end(app, &work, move |app, _| app.robots.ended(&name));
    if begun.is_err() {
        app.robots.ended(&session);
        let _ = std::fs::remove_dir(&run); // nothing is in it
    }
    begun?;
    Ok(Reply::json(&json!({"session": session})))
}

fn page(app: &App, query: &Params) -> Reply {
    let mut view =
        View { title: "Robot".into(), page: "robot", scripts: &["robot.js"], keys: KEYS, ..View::default() };
    let robots = app.robots.configs(app.backend.as_deref());
    let sessions = app.robots.sessions();
    let chosen = query.get("s").map(ToString::to_string);
    let chosen =
        chosen.or_else(|| sessions.iter().find(|session| session.is_alive).map(|one| one.name.clone()));
    if robots.is_empty() && chosen.is_none() {
        view.body.paragraph(
            "No robot is configured. A YAML file in this folder whose env has env_type: realworld is one, and appears here by itself; \
             another one can be named when the studio is started.",
        );
        return view.reply(app);
    }
    let session = chosen.as_deref().unwrap_or("");
    let moves = if can_move(app) { "" } else { " data-still" };
    view.body.raw(&format!("<div id=\"robot\" data-session=\"{}\"{moves}>", escape(session)));
    if session.is_empty() {
        view.body.raw(&begin_form(app, &robots));
    } else {
        view.body.raw(LIVE);
    }
    view.body.raw(HOLD);
    view.body.raw("</div>");
    view.reply(app)
}

/// How a session is started.
fn begin_form(app: &App, robots: &[RobotConfig]) -> String {
    let option = |robot: &RobotConfig| {
        let (name, about) = (escape(&robot.name), escape(&robot.about));
        let disabled = if robot.problem.is_some() { " disabled" } else { "" };
        format!("<option value=\"{name}\"{disabled}>{name}: {about}</option>")
    };
    let options: String = robots.iter().map(option).collect();
    let model = |name: &str| format!("<option value=\"{0}\">{0}</option>", escape(name));
    let models: String = app.scoring.models().iter().map(|entry| model(&entry.name)).collect();
    let problems: String = robots
        .iter()
        .filter_map(|robot| {
            Some(format!(
                "<p class=\"wrong\">{}: {}</p>",
                escape(&robot.name),
                escape(robot.problem.as_ref()?)
            ))
        })
        .collect();
    let disabled = if can_move(app) { "" } else { " disabled" };
    format!(
        "<form id=\"begin\"><div class=\"filters\"><label>Robot<select name=\"robot\">{options}</select></label>\
         <label>Reward model<select name=\"model\"><option value=\"\">as the config says</option>{models}</select></label>\
         <label>Name<input name=\"name\" maxlength=\"80\" placeholder=\"robot\"></label>\
         <label class=\"wide-field\">Other keys<input name=\"set\" placeholder=\"key=value; another.key=value\"></label>\
         <button class=\"main\"{disabled}>Connect</button></div>{problems}\
         <p class=\"soft\">A process of its own connects to the arm. Nothing moves before you begin an episode, and the arm is held when \
         nobody looks at this page for three seconds.</p></form>"
    )
}

/// Everything of a session; the script fills it.
const LIVE: &str = "<div class=\"robot-top\"><ul class=\"facts\" id=\"facts\"></ul><div id=\"question\" class=\"box ask\" hidden></div></div>\
<div class=\"robot-grid\"><div class=\"robot-side\"><section aria-label=\"Cameras\"><div class=\"cameras\" id=\"cameras\"></div>\
<div class=\"label-keys\" id=\"labelling\" role=\"group\" aria-label=\"Label the frames from now on\">\
<button type=\"button\" class=\"good\" data-label=\"success\" aria-pressed=\"false\"><kbd>c</kbd> success</button>\
<button type=\"button\" class=\"bad\" data-label=\"failure\" aria-pressed=\"false\"><kbd>a</kbd> failure</button>\
<button type=\"button\" data-label=\"off\" aria-pressed=\"true\"><kbd>b</kbd> neither</button>\
<button type=\"button\" data-do=\"undo\"><kbd>u</kbd> take back</button></div>\
<div class=\"timeline live\" id=\"timeline\" role=\"img\" aria-label=\"labels of this episode\"></div></section>\
<section aria-label=\"Reward\" class=\"box\"><h2>Probability <span class=\"soft\" id=\"probability\"></span></h2>\
<svg id=\"curve\" viewBox=\"0 0 600 200\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"probability over the last seconds\"></svg>\
<p class=\"soft\" id=\"rule\"></p></section>\
<section class=\"box\" aria-label=\"Episodes\"><h2>Episodes</h2><div class=\"wide\" tabindex=\"0\"><table class=\"list\" id=\"episodes\"><thead><tr>\
<th>#</th><th>End</th><th>Steps</th><th>Time</th><th>Model</th><th>Labels</th></tr></thead><tbody></tbody></table></div></section></div>\
<div class=\"robot-side\"><section class=\"box\" aria-label=\"Episode\"><h2>Episode <span class=\"soft\" id=\"episode\"></span></h2>\
<p class=\"row\"><button type=\"button\" class=\"main\" data-do=\"start\"><kbd>n</kbd> begin episode</button></p>\
<p class=\"row\"><button type=\"button\" class=\"good\" data-end=\"success\"><kbd>C</kbd> end: success</button>\
<button type=\"button\" class=\"bad\" data-end=\"failure\"><kbd>A</kbd> end: failure</button>\
<button type=\"button\" data-end=\"discard\"><kbd>X</kbd> discard</button></p>\
<p class=\"soft\" id=\"recording\"></p></section>\
<section class=\"box\" aria-label=\"Arm\"><h2>Arm <span class=\"chip\" id=\"mode\"></span></h2><div class=\"wide\" tabindex=\"0\">\
<table class=\"list\" id=\"arm\"><tbody></tbody></table></div></section>\
<section class=\"box\" aria-label=\"What happened\"><h2>What happened</h2><ul class=\"notes\" id=\"notices\"></ul>\
<p class=\"row\"><button type=\"button\" class=\"bad\" data-do=\"quit\">End this session</button></p></section></div></div>";

/// The button, and what leads on from it.
const HOLD: &str = "<div id=\"hold-bar\"><div id=\"held\" hidden><p><b>The arm is held.</b> <span id=\"why\"></span></p>\
<form id=\"go-on\" class=\"row\"><label id=\"word-label\">type <b>arm</b> to let it go on <input name=\"word\" autocomplete=\"off\" size=\"6\"></label>\
<button>Let it go on</button></form></div>\
<button type=\"button\" id=\"hold\">HOLD <kbd>space</kbd></button></div>";
