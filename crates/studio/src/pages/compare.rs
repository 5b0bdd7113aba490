//! Reward models on the same episodes: numbers, where they differ, and a blind choice between two.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plaudit_view::page::{Chart, Ends, Html, Mark, Series, Size, Unit, escape};
use serde_json::json;

use super::Page;
use super::episode::player;
use crate::app::App;
use crate::compare::{
    Agreement, Ballot, Disagreement, EpisodeTiming, Said, TimingSummary, Trial, Truth, Verdict, agreements,
    disagreements, pair_record, random, ratings, wilson,
};
use crate::curves::decimated;
use crate::http::{Params, Refusal, Reply, Request, encode};
use crate::images::cameras;
use crate::labels::LABELS_FOLDER;
use crate::library::{Dataset, EpisodeKey, ItemRow};
use crate::scoring::{EpisodeScores, ModelEntry};
use crate::shell::View;

pub(super) const PAGE: Page = Page { path: "compare", title: "Compare", harmless_posts: &["score"], answer };

/// How long the page waits for the first look at the folder.
const PATIENCE: Duration = Duration::from_millis(300);
/// Episodes that are compared where nothing else is asked for, and at most.
const EPISODES: usize = 40;
const MOST_EPISODES: usize = 1000;
/// Models at once.
const MOST_MODELS: usize = 6;
/// Disagreements that are shown.
const MOST_SHOWN: usize = 48;
/// Columns of a chart.
const COLUMNS: usize = 290;
/// Letters of a name that a person gives.
const NAME_LETTERS: usize = 60;

const KEYS: &[(&str, &str)] =
    &[("j k", "next and previous disagreement"), ("b", "choose blindly between two")];
const BLIND_KEYS: &[(&str, &str)] = &[
    ("1 2", "curve A is right, curve B is right"),
    ("0", "I cannot tell"),
    ("n", "another one, without an answer"),
    ("Space", "play, pause"),
    ("← →", "a frame back, a frame on; with Shift: ten"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    match (request.word(1), request.is_post()) {
        ("", false) => page(app, &request.query),
        ("result", false) => result(app, &Asked::of(app, &request.query)?),
        ("score", true) => Ok(score(app, &Asked::of(app, &request.form)?)),
        ("blind", false) => blind(app, &Asked::of(app, &request.query)?),
        ("answer", true) => keep_answer(app, &request.form),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

/// What is compared.
struct Asked {
    dataset: Arc<Dataset>,
    episodes: usize,
    models: Vec<Arc<ModelEntry>>,
}

impl Asked {
    fn of(app: &App, params: &Params) -> Result<Self, Refusal> {
        let dataset = app.library.dataset(params.need("d")?)?;
        let episodes = params.parsed("n")?.unwrap_or(EPISODES).clamp(1, MOST_EPISODES);
        let mut models: Vec<Arc<ModelEntry>> = Vec::new();
        for name in params.all("m") {
            let model = app.scoring.model(name)?;
            if !models.iter().any(|known| known.name == model.name) {
                models.push(model);
            }
        }
        match models.len() {
            0 => Err(Refusal::bad("choose a reward model, or two")),
            count if count > MOST_MODELS => {
                Err(Refusal::bad(format!("choose {MOST_MODELS} reward models at most")))
            }
            _ => Ok(Self { dataset, episodes, models }),
        }
    }

    /// The episodes: as many as wanted, from all over the dataset.
    fn keys(&self) -> Vec<EpisodeKey> {
        let items = self.dataset.len();
        let wanted = self.episodes.min(items);
        let mut keys = Vec::new();
        for number in 0..wanted {
            let item = number * items / wanted;
            let parts = match self.dataset.row(item).as_deref() {
                Some(ItemRow::Broken(_)) => 0,
                Some(row) => row.parts(),
                None => 1,
            };
            keys.extend((0..parts).map(|part| EpisodeKey { dataset: self.dataset.name.clone(), item, part }));
        }
        keys.truncate(self.episodes);
        keys
    }

    /// The same in an address.
    fn query(&self) -> String {
        let models: String = self.models.iter().map(|model| format!("&m={}", encode(&model.name))).collect();
        format!("d={}&n={}{models}", encode(&self.dataset.name), self.episodes)
    }
}

fn page(app: &App, query: &Params) -> Result<Reply, Refusal> {
    let mut view = View {
        title: "Compare".into(),
        page: "compare",
        scripts: &["compare.js"],
        keys: KEYS,
        ..View::default()
    };
    let datasets = app.library.datasets(PATIENCE);
    let models = app.scoring.models();
    if datasets.is_empty() || models.is_empty() {
        let missing = if datasets.is_empty() { "dataset" } else { "reward model" };
        let text = match app.library.is_scanned() {
            true => format!(
                "No {missing} lies in this folder: comparing needs episodes and a reward model or two."
            ),
            false => "Looking for datasets and reward models… Load this page again in a moment.".into(),
        };
        view.body.paragraph(&text);
        return Ok(view.reply(app));
    }
    let asked = Asked::of(app, query).ok();
    view.body.raw(&form(&datasets, &models, query, asked.as_ref()));
    match asked {
        Some(asked) => {
            let query = escape(&asked.query());
            view.body.raw(&format!(
                "<div id=\"result\" data-query=\"{query}\" aria-live=\"polite\">Scoring…</div>"
            ));
        }
        None => {
            view.body.paragraph(
                "Choose a dataset and reward models. Each is compared with the others and with the environment's truth, \
                 frame by frame, by the rule that its audit promised something about.",
            );
        }
    }
    Ok(view.reply(app))
}

fn form(
    datasets: &[Arc<Dataset>],
    models: &[Arc<ModelEntry>],
    query: &Params,
    asked: Option<&Asked>,
) -> String {
    let chosen = asked.map(|asked| &*asked.dataset.name);
    let option = |dataset: &Arc<Dataset>| {
        let selected = if chosen == Some(&*dataset.name) { " selected" } else { "" };
        let name = escape(&dataset.name);
        format!("<option value=\"{name}\"{selected}>{name} ({}, {})</option>", dataset.format, dataset.len())
    };
    let named: Vec<&str> = query.all("m").collect();
    let model_box = |(number, model): (usize, &Arc<ModelEntry>)| {
        let is_chosen = if named.is_empty() { number < 2 } else { named.contains(&&*model.name) };
        let checked = if is_chosen { " checked" } else { "" };
        let name = escape(&model.name);
        format!(
            "<label class=\"flat\"><input type=\"checkbox\" name=\"m\" value=\"{name}\"{checked}>{name}</label>"
        )
    };
    let options: String = datasets.iter().map(option).collect();
    let boxes: String = models.iter().enumerate().map(model_box).collect();
    format!(
        "<form class=\"filters\" action=\"/compare\" method=\"get\"><label>Dataset<select name=\"d\">{options}</select></label>\
         <label>Episodes<input type=\"number\" name=\"n\" min=\"1\" max=\"{MOST_EPISODES}\" value=\"{}\"></label>\
         <fieldset><legend>Reward models</legend>{boxes}</fieldset><button class=\"main\">Compare</button></form>",
        asked.map_or(EPISODES, |asked| asked.episodes)
    )
}

/// Asks every model about every episode.
fn score(app: &App, asked: &Asked) -> Reply {
    let keys = asked.keys();
    for model in &asked.models {
        app.scoring.ask_all(model, &keys);
    }
    Reply::json(&json!({"episodes": keys.len()}))
}

/// Episodes of which every model has said something, and how far the others are.
struct Scored {
    episodes: Vec<(EpisodeKey, Truth, Vec<Arc<EpisodeScores>>)>,
    wanted: usize,
    /// Why a model said nothing of an episode: by model, the first reason and how often.
    failed: Vec<Option<(Arc<str>, usize)>>,
}

fn scored(app: &App, asked: &Asked) -> Scored {
    let keys = asked.keys();
    let mut scored =
        Scored { episodes: Vec::new(), wanted: keys.len(), failed: vec![None; asked.models.len()] };
    for key in keys {
        let mut all = Vec::new();
        for (place, model) in asked.models.iter().enumerate() {
            match app.scoring.scores(model, &key) {
                Some(Ok(scores)) => all.push(scores),
                Some(Err(why)) => scored.failed[place].get_or_insert((why, 0)).1 += 1,
                None => {}
            }
        }
        if all.len() == asked.models.len()
            && let Ok(truth) = app.compare.truth(&app.library, &key)
        {
            scored.episodes.push((key, truth, all));
        }
    }
    scored
}

/// What every rater says of every episode: the truth first, then the models.
fn said(scored: &Scored) -> Vec<(EpisodeKey, Vec<Said>)> {
    let of_episode = |(key, truth, all): &(EpisodeKey, Truth, Vec<Arc<EpisodeScores>>)| {
        let value = |label: &Option<bool>| f32::from(u8::from(*label == Some(true)));
        let mut said = vec![Said { success: truth.to_vec(), value: truth.iter().map(value).collect() }];
        said.extend(all.iter().map(|scores| Said {
            success: scores.rewarded.iter().map(|rewarded| Some(*rewarded)).collect(),
            value: scores.scores.clone(),
        }));
        (key.clone(), said)
    };
    scored.episodes.iter().map(of_episode).collect()
}

fn result(app: &App, asked: &Asked) -> Result<Reply, Refusal> {
    let scored = scored(app, asked);
    let mut html = Html::default();
    progress(&mut html, asked, &scored);
    if scored.episodes.is_empty() {
        return Ok(Reply::html(html.as_str().to_string()));
    }
    let said = said(&scored);
    let columns: Vec<Vec<Said>> = said.iter().map(|(_, said)| said.clone()).collect();
    let agreed = agreements(asked.models.len() + 1, &columns);
    html.heading("Beside the environment's truth");
    html.raw(&timing_table(asked, &scored, |model| agreed.get(&(0, model + 1)).copied().unwrap_or_default()));
    html.raw(
        "<ul class=\"notes\"><li>A frame is rewarded by the rule of the model's audit: threshold, guard, and so many frames in a \
         row.</li><li>Lag: frames from the first success to the first rewarded frame; negative where the reward came first.</li>\
         <li>False alarm: rewarded frames in a row, none of which is a success.</li></ul>",
    );
    html.heading("Agreement");
    html.raw(&matrix(asked, |one, other| {
        agreed.get(&(one.min(other), one.max(other))).copied().unwrap_or_default()
    }));
    html.raw("<ul class=\"notes\"><li>The share of frames of which both say the same; κ is Cohen's, which is 0 for agreement \
         at random.</li></ul>");
    html.heading("Disagreements");
    disagreement_list(app, asked, &said, &mut html);
    opinions(app, asked, &mut html)?;
    Ok(Reply::html(html.as_str().to_string()))
}

fn progress(html: &mut Html, asked: &Asked, scored: &Scored) {
    let frames: usize = scored.episodes.iter().map(|(_, truth, _)| truth.len()).sum();
    let done = scored.episodes.len();
    html.raw(&format!(
        "<ul class=\"facts\" id=\"compared\" data-done=\"{done}\" data-all=\"{}\"><li><b>{done}</b> of {} episodes compared</li>\
         <li><b>{frames}</b> frames</li></ul>",
        scored.wanted, scored.wanted
    ));
    for (model, failed) in asked.models.iter().zip(&scored.failed) {
        if let Some((why, count)) = failed {
            let text = format!("{}: not scored in {count} episodes: {why}", model.name);
            html.raw(&format!("<p class=\"wrong\">{}</p>", escape(&text)));
        }
    }
    if done == 0 && scored.failed.iter().all(Option::is_none) {
        html.paragraph("Scoring… Numbers come as soon as every model has seen an episode.");
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn timing_table(asked: &Asked, scored: &Scored, agreed: impl Fn(usize) -> Agreement) -> String {
    let mut rows = String::new();
    for (place, model) in asked.models.iter().enumerate() {
        let timings: Vec<EpisodeTiming> = scored
            .episodes
            .iter()
            .filter_map(|(_, truth, all)| EpisodeTiming::of(truth, &all[place].rewarded))
            .collect();
        let found = TimingSummary::of(&timings);
        let (low, high) = wilson(found.alarmed as f64, found.episodes as f64);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let cells = [
            model.facts().map_or("–".into(), |facts| format!("{:.3}", facts.threshold)),
            or_dash(agreed(place).share().map(percent)),
            or_dash(found.alarm_rate().map(|rate| format!("{rate:.2}"))),
            or_dash((found.episodes > 0).then(|| {
                format!(
                    "{} of {} ({:.0} to {:.0} %)",
                    found.alarmed,
                    found.episodes,
                    100.0 * low,
                    100.0 * high
                )
            })),
            or_dash(found.lag.map(|[low, middle, high]| format!("{middle} ({low} to {high})"))),
            found.early.to_string(),
            format!("{} of {}", found.missed, found.successes),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = write!(rows, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(&model.name));
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table id=\"timing\"><thead><tr><th>Model</th><th>Threshold</th><th>Agreement</th>\
         <th>False alarms per episode</th><th>Episodes with one (95 %)</th><th>Lag: median (quartiles)</th>\
         <th>Early</th><th>Missed</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// Names of raters, the truth first.
fn rater_names(asked: &Asked) -> Vec<String> {
    let models = asked.models.iter().map(|model| model.name.to_string());
    std::iter::once("truth".to_string()).chain(models).collect()
}

fn matrix(asked: &Asked, agreed: impl Fn(usize, usize) -> Agreement) -> String {
    let names = rater_names(asked);
    let head: String = names.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let mut rows = String::new();
    for (row, name) in names.iter().enumerate() {
        let cell = |column: usize| match agreed(row, column) {
            _ if row == column => "<td class=\"soft\">–</td>".to_string(),
            pair => match (pair.share(), pair.kappa()) {
                (Some(share), Some(kappa)) => {
                    format!("<td>{}<br><small>κ {kappa:.2}</small></td>", percent(share))
                }
                (Some(share), None) => format!("<td>{}</td>", percent(share)),
                (None, _) => "<td class=\"soft\">–</td>".into(),
            },
        };
        let cells: String = (0..names.len()).map(cell).collect();
        let _ = write!(rows, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(name));
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table id=\"agreement\"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn disagreement_list(app: &App, asked: &Asked, said: &[(EpisodeKey, Vec<Said>)], html: &mut Html) {
    let found = disagreements(said);
    let frames: usize = found.iter().map(|one| one.to - one.from).sum();
    let shown = found.len().min(MOST_SHOWN);
    html.raw(&match found.len() {
        0 => "<p>They say the same of every frame.</p>".to_string(),
        all => format!(
            "<p><b>{all}</b> disagreements over {frames} frames, the widest gap over the most frames first{}.</p>",
            if shown < all { format!("; the first {shown} are shown") } else { String::new() }
        ),
    });
    let names = rater_names(asked);
    let cards: String =
        found.iter().take(shown).map(|one| format!("<li>{}</li>", card(app, one, &names))).collect();
    html.raw(&format!("<ul class=\"cards\" id=\"disagreements\">{cards}</ul>"));
}

fn card(app: &App, found: &Disagreement, names: &[String]) -> String {
    let chip = |(name, says): (&String, &Option<bool>)| match says {
        Some(true) => format!("<span class=\"chip good\">{}: success</span>", escape(name)),
        Some(false) => format!("<span class=\"chip bad\">{}: none</span>", escape(name)),
        None => String::new(),
    };
    let chips: String = names.iter().zip(&found.says).map(chip).collect();
    let address = format!("{}#frame={}", found.episode.address("/episode"), found.worst);
    let frames = match found.to - found.from {
        1 => format!("frame {}", found.from),
        _ => format!("frames {} to {}", found.from, found.to - 1),
    };
    let name = episode_name(app, &found.episode);
    format!(
        "<a class=\"card single\" href=\"{}\">{}<span class=\"about\"><b>{}</b><span>{frames}</span><span>gap {:.2}</span>{chips}</span></a>",
        escape(&address),
        frame_image(app, &found.episode, found.worst),
        escape(&name),
        found.gap
    )
}

/// What the list of episodes calls one.
pub(super) fn episode_name(app: &App, key: &EpisodeKey) -> String {
    let row = app.library.dataset(&key.dataset).ok().and_then(|dataset| dataset.row(key.item));
    match row.as_deref() {
        Some(ItemRow::Read(episodes)) => episodes.get(key.part).map(|episode| episode.name.clone()),
        _ => None,
    }
    .unwrap_or_else(|| format!("{} {}", key.dataset, key.item))
}

/// One frame of the first camera.
pub(super) fn frame_image(app: &App, key: &EpisodeKey, at: usize) -> String {
    let row = app.library.dataset(&key.dataset).ok().and_then(|dataset| dataset.row(key.item));
    let camera = match row.as_deref() {
        Some(ItemRow::Read(episodes)) => episodes.get(key.part).and_then(|episode| episode.camera.clone()),
        _ => None,
    };
    match camera {
        None => "<span class=\"no-image\">no image</span>".into(),
        Some(camera) => {
            let address =
                format!("{}&camera={}&from={at}&count=1", key.address("/episode/strip"), encode(&camera));
            format!("<img loading=\"lazy\" alt=\"frame {at}\" src=\"{}\">", escape(&address))
        }
    }
}

/// What people chose between these models so far, and the way to choose.
fn opinions(app: &App, asked: &Asked, html: &mut Html) -> Result<(), Refusal> {
    html.heading("Which curve is right?");
    html.paragraph(
        "Two curves under an episode, without names and in random order; a person says which one is right. Every answer is on \
         the disk before the next question comes.",
    );
    if asked.models.len() < 2 {
        html.paragraph("This needs two models or more.");
        return Ok(());
    }
    if !app.read_only {
        let address = escape(&format!("/compare/blind?{}", asked.query()));
        html.raw(&format!(
            "<p><a class=\"button\" id=\"to-blind\" href=\"{address}\">Choose blindly</a></p>"
        ));
    }
    let ballots: Vec<Ballot> =
        app.compare.ballots.read().map_err(|error| Refusal::failed(error.to_string()))?;
    let is_here = |name: &str| asked.models.iter().any(|model| *model.name == *name);
    let ballots: Vec<Ballot> =
        ballots.into_iter().filter(|one| is_here(&one.first) && is_here(&one.second)).collect();
    if ballots.is_empty() {
        html.paragraph("Nobody has chosen between these yet.");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = ratings(&ballots)
        .into_iter()
        .map(|one| {
            vec![one.model, format!("{:+.0} ± {:.0}", one.points, one.plus_minus), one.shown.to_string()]
        })
        .collect();
    html.raw("<div id=\"ratings\">");
    html.table(&["Model", "Rating (95 %)", "Times shown"], &rows);
    html.raw("</div>");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (place, one) in asked.models.iter().enumerate() {
        for other in &asked.models[place + 1..] {
            let record = pair_record(&ballots, &one.name, &other.name);
            let (low, high) = record.interval;
            rows.push(vec![
                format!("{} over {}", one.name, other.name),
                record.wins.to_string(),
                record.losses.to_string(),
                record.ties.to_string(),
                format!("{:.0} to {:.0} %", 100.0 * low, 100.0 * high),
            ]);
        }
    }
    html.table(&["Pair", "Chosen", "Not chosen", "Cannot tell", "Share chosen (Wilson, 95 %)"], &rows);
    html.raw(
        "<ul class=\"notes\"><li>Ratings are those of Bradley and Terry in points of Elo, 0 on average (400 points: chosen ten times of \
         eleven), with a normal prior of 347 points; the interval is that of the posterior's curvature.</li></ul>",
    );
    Ok(())
}

/// A question: two curves without names.
fn blind(app: &App, asked: &Asked) -> Result<Reply, Refusal> {
    refuse_read_only(app)?;
    if asked.models.len() < 2 {
        return Err(Refusal::bad("choose two reward models or more"));
    }
    let mut view = View {
        title: "Which curve is right?".into(),
        page: "compare",
        scripts: &["player.js", "compare.js"],
        keys: BLIND_KEYS,
        ..View::default()
    };
    let Some((trial, scores)) = trial(app, asked)? else {
        view.body.paragraph(
            "Every model must have seen an episode first: open the comparison, and wait until one is done.",
        );
        view.body.raw(&format!(
            "<p><a class=\"button\" href=\"/compare?{}\">The comparison</a></p>",
            escape(&asked.query())
        ));
        return Ok(view.reply(app));
    };
    let episode = app.library.episode(&trial.episode)?;
    let number = app.compare.ask(trial)?;
    if cameras(episode.recording()).is_empty() {
        view.body.paragraph("This episode has no images: what is right can only be told from the curves.");
    }
    view.body.raw(&player(&episode, ""));
    view.body.raw(&format!(
        "<div id=\"blind\" data-trial=\"{number}\" data-next=\"{0}\" class=\"label-keys\" role=\"group\" aria-label=\"Your answer\">\
         <button type=\"button\" class=\"main\" value=\"first\">A is right <kbd>1</kbd></button>\
         <button type=\"button\" class=\"main\" value=\"second\">B is right <kbd>2</kbd></button>\
         <button type=\"button\" value=\"tie\">I cannot tell <kbd>0</kbd></button>\
         <a class=\"button\" rel=\"next\" href=\"{0}\">Another one <kbd>n</kbd></a>\
         <label class=\"row\">Your name <input id=\"annotator\" maxlength=\"{NAME_LETTERS}\" autocomplete=\"name\"></label></div>",
        escape(&format!("/compare/blind?{}", asked.query()))
    ));
    view.body.raw("<div class=\"panels\" id=\"panels\"><div class=\"charts\">");
    for ((name, look), (model, scores)) in [("A", 0), ("B", 1)].into_iter().zip(&scores) {
        view.body.charts([&unnamed(name, look, model, scores)]);
    }
    view.body.raw("</div></div>");
    view.body
        .raw(&format!("<p><a href=\"/compare?{}\">Back to the comparison</a></p>", escape(&asked.query())));
    Ok(view.reply(app))
}

/// A curve that does not say whose it is.
fn unnamed(name: &str, look: usize, model: &ModelEntry, scores: &EpisodeScores) -> Chart {
    let points = decimated(&scores.scores, 0, scores.scores.len(), COLUMNS);
    let threshold = model.facts().map(|facts| Mark { at: facts.threshold, name: "threshold".into() });
    Chart {
        title: format!("Curve {name}"),
        x_label: "frame".into(),
        x_unit: Unit::Whole,
        x_range: Some((0.0, (scores.scores.len().max(2) - 1) as f64)),
        y_range: Some((0.0, 1.0)),
        size: Size::UnderVideo,
        ends: Ends::Nothing,
        series: vec![Series { look, points, ..Series::default() }],
        levels: threshold.into_iter().collect(),
        ..Chart::default()
    }
}

type ShownCurve = (Arc<ModelEntry>, Arc<EpisodeScores>);

/// Two models and an episode at random; one that they disagree about, if there is one.
fn trial(app: &App, asked: &Asked) -> Result<Option<(Trial, [ShownCurve; 2])>, Refusal> {
    let scored = scored(app, asked);
    let pick = |count: usize| random().map(|number| (number % count.max(1) as u64) as usize);
    let first = pick(asked.models.len())?;
    let second = (first + 1 + pick(asked.models.len() - 1)?) % asked.models.len();
    let differ: Vec<usize> = (0..scored.episodes.len())
        .filter(|at| scored.episodes[*at].2[first].rewarded != scored.episodes[*at].2[second].rewarded)
        .collect();
    let chosen = match (differ.len(), scored.episodes.len()) {
        (_, 0) => return Ok(None),
        (0, all) => pick(all)?,
        (count, _) => differ[pick(count)?],
    };
    let (key, _, scores) = &scored.episodes[chosen];
    let [one, other] = [first, second].map(|place| (asked.models[place].clone(), scores[place].clone()));
    let trial = Trial { episode: key.clone(), first: one.0.name.clone(), second: other.0.name.clone() };
    Ok(Some((trial, [one, other])))
}

fn refuse_read_only(app: &App) -> Result<(), Refusal> {
    match app.read_only {
        true => Err(Refusal::forbidden("this studio only reads: answers could not be kept")),
        false => Ok(()),
    }
}

/// Where what people say is kept. A link that leads out of the folder is not followed.
pub(super) fn labels_folder(app: &App) -> Result<PathBuf, Refusal> {
    let folder = app.folder.root().join(LABELS_FOLDER);
    let leads_out = |path: &PathBuf| path.symlink_metadata().is_ok() && app.folder.inside(path).is_none();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    match std::iter::once(folder.clone()).chain(entries).any(|path| leads_out(&path)) {
        true => Err(Refusal::forbidden(
            "a link in `plaudit-labels` leads out of the folder: nothing is written through it",
        )),
        false => Ok(folder),
    }
}

fn keep_answer(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let verdict = match form.need("says")? {
        "first" => Verdict::First,
        "second" => Verdict::Second,
        "tie" => Verdict::Tie,
        _ => return Err(Refusal::bad("`says` is first, second or tie")),
    };
    labels_folder(app)?;
    let number = form.need_parsed("trial")?;
    let trial = app.compare.answered(number);
    let trial = trial
        .ok_or_else(|| Refusal::conflict("this question was answered already, or waited for too long"))?;
    let annotator: String = form.get("by").unwrap_or("").chars().take(NAME_LETTERS).collect();
    let ballot = Ballot::now(&trial.episode, &annotator, (&trial.first, &trial.second), verdict);
    app.compare
        .ballots
        .append(&ballot)
        .map_err(|error| Refusal::failed(format!("it cannot be kept: {error}")))?;
    Ok(Reply::json(&json!({"kept": true})))
}
