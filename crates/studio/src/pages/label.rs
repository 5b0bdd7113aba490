//! Labels by keys: frames, intervals and episodes, by several people, and what is worth a label next.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use plaudit_data::labelling::{Agreement, Answer, ReactionTest, SpanLabel, frame_labels, people, runs};
use plaudit_reward::active_labels::{FrameScores, uncertainty};
use plaudit_view::page::escape;
use serde_json::{Value, json};

use super::Page;
use super::episode::{FPS, player};
use crate::app::App;
use crate::export::{self, ExportKind};
use crate::http::{Params, Refusal, Reply, Request};
use crate::labels::lengths;
use crate::library::{Dataset, EpisodeKey, ItemRow, OpenEpisode};
use crate::scoring::ModelEntry;
use crate::shell::View;

/// Frames that are proposed at a time.
const PROPOSED: usize = 24;
/// Proposed frames of one episode are so many apart, and as far from labelled ones.
const APART: usize = 4;
/// Probabilities nearer to 0 or 1 than this are taken for this.
const NEAREST_TO_CERTAIN: f64 = 1e-6;

pub(super) const PAGE: Page =
    Page { path: "label", title: "Label", harmless_posts: &["rank", "reaction"], answer };

const KEYS: &[(&str, &str)] = &[
    ("c a b", "this frame: success, failure, skip; held: the film runs, and all frames until it is let go"),
    ("C A B", "the whole episode: success, failure, skip"),
    ("u", "take the last label back"),
    ("Esc", "forget the selection of the timeline"),
    ("q", "the next proposed frame"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    let params = if request.is_post() { &request.form } else { &request.query };
    match (request.word(1), request.is_post()) {
        ("", false) if params.get("d").is_none() => Ok(choose(app)),
        ("", false) => page(app, &app.library.episode(&EpisodeKey::of(params)?)?),
        ("state", false) => state(app, params),
        ("next", false) => next(app, params),
        ("table", false) => {
            let dataset = app.library.dataset(params.need("d")?)?;
            let table = export::table(app, &dataset)?;
            Ok(Reply::download("text/csv; charset=utf-8", "labels.csv", table.into_bytes()))
        }
        ("add", true) => add(app, params),
        ("undo", true) => undo(app, params),
        ("rank", true) => rank(app, params),
        ("reaction", true) => reaction(params),
        ("export", true) => export_labels(app, params),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

/// Which dataset is labelled.
fn choose(app: &App) -> Reply {
    let mut view = View { title: "Label".into(), page: "label", ..View::default() };
    view.body.paragraph("Choose a dataset. What you say is kept beside it at once, label by label.");
    let mut rows = String::new();
    for dataset in app.library.datasets(Duration::from_millis(500)) {
        let standing = app.labels.standing(&dataset).unwrap_or_default();
        let episodes: HashSet<&str> = standing.iter().map(|label| label.episode.as_str()).collect();
        let first = EpisodeKey { dataset: dataset.name.clone(), item: 0, part: 0 };
        let _ = write!(
            rows,
            "<tr><td><a href=\"{}\">{}</a></td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td>{}</td></tr>",
            escape(&first.address("/label")),
            escape(&dataset.name),
            dataset.format,
            dataset.len(),
            episodes.len(),
            standing.len(),
            escape(&people(&standing).join(", "))
        );
    }
    view.body.raw(&format!(
        "<div class=\"wide\"><table class=\"list\"><thead><tr><th>Dataset</th><th>Format</th><th class=\"number\">Episodes</th>\
         <th class=\"number\">Labelled</th><th class=\"number\">Labels</th><th>By</th></tr></thead><tbody>{rows}</tbody></table></div>"
    ));
    view.reply(app)
}

fn page(app: &App, episode: &OpenEpisode) -> Result<Reply, Refusal> {
    if !episode.is_alone() {
        return Err(Refusal::conflict(format!(
            "`{}` keeps several episodes in one file, which a table of labels cannot tell apart",
            episode.dataset.name
        )));
    }
    let title = format!("Label {}", without_outcome(episode.recording().name()));
    let mut view =
        View { title, page: "label", scripts: &["player.js", "label.js"], keys: KEYS, ..View::default() };
    let body = &mut view.body;
    body.raw("<div class=\"split\"><div>");
    body.raw(&player(episode, ""));
    body.raw(
        "<div class=\"timeline\" id=\"timeline\" role=\"group\" aria-label=\"labels of the frames; drag to select\"><i class=\"head\"></i></div>\
         <div class=\"label-keys\" role=\"group\" aria-label=\"Labels\">\
         <button type=\"button\" class=\"good\" data-answer=\"success\">Success <kbd>c</kbd></button>\
         <button type=\"button\" class=\"bad\" data-answer=\"failure\">Failure <kbd>a</kbd></button>\
         <button type=\"button\" data-answer=\"skip\">Skip <kbd>b</kbd></button>\
         <button type=\"button\" id=\"undo\">Undo <kbd>u</kbd></button></div>\
         <p class=\"soft\" id=\"said\">A key labels the frame that is shown. Hold it, and the film runs: all frames until you let go. \
         Or drag over the timeline first. With Shift: the whole episode.</p>",
    );
    body.raw(&neighbours(episode));
    body.raw("</div><div class=\"side\">");
    body.raw(&person_box());
    body.raw(&queue_box(app));
    body.raw(&export_box(app));
    body.raw("</div></div><div class=\"flash\" id=\"flash\" role=\"alert\"></div>");
    Ok(view.reply(app))
}

/// The name of an episode without what it says about its end, which would answer the question.
fn without_outcome(episode: &str) -> &str {
    let outcomes = ["_success", "_failure", "_fail"];
    outcomes.iter().find_map(|outcome| episode.strip_suffix(outcome)).unwrap_or(episode)
}

fn neighbours(episode: &OpenEpisode) -> String {
    let EpisodeKey { dataset, item, .. } = &episode.key;
    let link = |item: usize, rel: &str, words: &str| {
        let key = EpisodeKey { dataset: dataset.clone(), item, part: 0 };
        format!("<a class=\"button\" rel=\"{rel}\" href=\"{}\">{words}</a>", escape(&key.address("/label")))
    };
    let previous = item.checked_sub(1).map_or(String::new(), |item| link(item, "prev", "Previous episode"));
    let next =
        if item + 1 < episode.dataset.len() { link(item + 1, "next", "Next episode") } else { String::new() };
    let look = escape(&episode.key.address("/episode"));
    format!(
        "<nav class=\"pager row\" aria-label=\"Episodes\">{previous}{next}<a class=\"button\" href=\"{look}\">Curves of this episode</a></nav>"
    )
}

fn person_box() -> String {
    "<section class=\"box\" aria-labelledby=\"who\"><h2 id=\"who\">Who labels</h2>\
     <label class=\"row\">Name <input id=\"by\" maxlength=\"64\" value=\"me\" autocomplete=\"off\"></label>\
     <p id=\"counts\" class=\"soft\"></p><div id=\"agreement\"></div>\
     <p class=\"row\"><label class=\"row\">Reaction <input id=\"lag\" type=\"number\" min=\"0\" max=\"2\" step=\"0.05\" value=\"0.3\" \
     aria-describedby=\"lag-why\"> s</label><button type=\"button\" id=\"measure\">Measure</button></p>\
     <p class=\"soft\" id=\"lag-why\">Frames that were labelled by holding a key are moved back by this: people press late.</p></section>"
        .into()
}

fn queue_box(app: &App) -> String {
    let models = app.scoring.models();
    let mut html = String::from(
        "<section class=\"box\" aria-labelledby=\"queue-title\"><h2 id=\"queue-title\">What to label next</h2>",
    );
    if models.is_empty() {
        return html
            + "<p class=\"soft\">A reward model would know which frames it is unsure of; none lies in this folder.</p></section>";
    }
    html += "<div class=\"models\" id=\"rank-models\" role=\"group\" aria-label=\"Models that are asked\">";
    for model in models {
        let name = escape(&model.name);
        let _ = write!(html, "<label><input type=\"checkbox\" value=\"{name}\">{name}</label>");
    }
    html + "</div><p class=\"row\"><button type=\"button\" id=\"rank\">Find frames</button><progress id=\"ranking\" hidden></progress></p>\
            <p class=\"soft\">Frames near the threshold of one model; of two, also those on which they disagree.</p>\
            <ol class=\"queue\" id=\"queue\"></ol></section>"
}

fn export_box(app: &App) -> String {
    if app.read_only {
        return String::new();
    }
    "<section class=\"box\" aria-labelledby=\"out\"><h2 id=\"out\">Use the labels</h2><p class=\"row\">\
     <button type=\"button\" data-export=\"csv\">Table</button><button type=\"button\" data-export=\"train\">train.pt</button>\
     <button type=\"button\" data-export=\"lerobot\">LeRobot</button></p><div id=\"exported\"></div></section>"
        .into()
}

/// The episode of a request, and what a table of labels calls it.
fn labelled_episode(app: &App, params: &Params) -> Result<OpenEpisode, Refusal> {
    let episode = app.library.episode(&EpisodeKey::of(params)?)?;
    match episode.is_alone() {
        true => Ok(episode),
        false => Err(Refusal::conflict("several episodes in one file cannot be labelled apart")),
    }
}

/// Who labels.
fn person(params: &Params) -> Result<&str, Refusal> {
    params.need("by").map(str::trim)
}

fn answer_of(word: &str) -> Result<Answer, Refusal> {
    match word {
        "success" => Ok(Answer::Success),
        "failure" => Ok(Answer::Failure),
        "skip" => Ok(Answer::Skip),
        _ => Err(Refusal::bad("`answer` is success, failure or skip")),
    }
}

fn answer_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Success => "success",
        Answer::Failure => "failure",
        Answer::Skip => "skip",
    }
}

/// What people say of an episode and of its dataset.
fn state(app: &App, params: &Params) -> Result<Reply, Refusal> {
    let (episode, by) = (labelled_episode(app, params)?, person(params)?);
    state_of(app, &episode, by).map(|state| Reply::json(&state))
}

fn state_of(app: &App, episode: &OpenEpisode, by: &str) -> Result<Value, Refusal> {
    let standing = app.labels.standing(&episode.dataset)?;
    let (name, length) = (episode.label_name(), episode.recording().len());
    let shown = |by: &str| -> Vec<Value> {
        let runs = runs(&frame_labels(&standing, name, by, length));
        runs.iter().map(|(start, end, answer)| json!([start, end, answer_word(*answer)])).collect()
    };
    let others: Vec<Value> = people(&standing)
        .iter()
        .filter(|other| *other != by)
        .map(|other| json!({"by": other, "runs": shown(other)}))
        .collect();
    let whole =
        standing.iter().rev().find(|label| label.span.is_none() && label.episode == name && label.by == by);
    let mine = standing.iter().filter(|label| label.by == by);
    let episodes: HashSet<&str> = mine.clone().map(|label| label.episode.as_str()).collect();
    Ok(json!({
        "runs": shown(by),
        "others": others,
        "whole": whole.map(|label| answer_word(label.answer)),
        "labels": mine.count(),
        "episodes": episodes.len(),
        "agreement": agreement(&episode.dataset, &standing),
    }))
}

/// How far every two people agree, over the whole dataset.
fn agreement(dataset: &Dataset, standing: &[SpanLabel]) -> Vec<Value> {
    let lengths = lengths(dataset);
    let episodes: HashSet<&str> = standing.iter().map(|label| label.episode.as_str()).collect();
    let everyone = people(standing);
    let frames = |by: &str| -> Vec<Vec<Option<Answer>>> {
        let mut episodes: Vec<&&str> = episodes.iter().collect();
        episodes.sort_unstable();
        episodes
            .into_iter()
            .map(|episode| frame_labels(standing, episode, by, lengths.get(*episode).copied().unwrap_or(0)))
            .collect()
    };
    let mut found = Vec::new();
    for (number, one) in everyone.iter().enumerate() {
        for other in &everyone[number + 1..] {
            let (first, second) = (frames(one), frames(other));
            let pairs = first.iter().zip(&second).map(|(one, other)| (one.as_slice(), other.as_slice()));
            let Agreement { frames, same, kappa } = Agreement::over(pairs);
            if frames > 0 {
                found.push(
                    json!({"one": one, "other": other, "frames": frames, "same": same, "kappa": kappa}),
                );
            }
        }
    }
    found
}

/// Keeps a label, and gives what is said then.
fn add(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let (episode, by) = (labelled_episode(app, form)?, person(form)?);
    let length = episode.recording().len();
    let span = match (form.parsed::<usize>("start")?, form.parsed::<usize>("end")?) {
        (Some(start), Some(end)) if start < end && end <= length => Some([start, end]),
        (None, None) => None,
        _ => return Err(Refusal::bad(format!("a label is of frames from 0 to {length}"))),
    };
    let lag_frames = form.parsed("lag")?.unwrap_or(0);
    let answer = answer_of(form.need("answer")?)?;
    let label = SpanLabel { episode: episode.label_name().into(), span, answer, by: by.into(), lag_frames };
    app.labels.label(&episode.dataset, label)?;
    state_of(app, &episode, by).map(|state| Reply::json(&state))
}

/// Takes a person's last label back, wherever it was.
fn undo(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let (episode, by) = (labelled_episode(app, form)?, person(form)?);
    let undone = app.labels.undo(&episode.dataset, by)?;
    let mut state = state_of(app, &episode, by)?;
    state["undone"] = match undone {
        None => Value::Null,
        Some(label) => {
            let item = episode.dataset.label_names.iter().position(|name| *name == label.episode);
            json!({"episode": label.episode, "i": item, "at": label.span.map(|span| span[0]), "answer": answer_word(label.answer)})
        }
    };
    Ok(Reply::json(&state))
}

/// The models that a request names: one or two.
fn asked_models(app: &App, params: &Params) -> Result<Vec<Arc<ModelEntry>>, Refusal> {
    let models: Vec<_> = params.all("m").map(|name| app.scoring.model(name)).collect::<Result<_, _>>()?;
    match models.len() {
        1 | 2 => Ok(models),
        _ => Err(Refusal::bad("choose one model, or two that may disagree")),
    }
}

/// Has models score every episode of a dataset.
fn rank(app: &App, form: &Params) -> Result<Reply, Refusal> {
    let dataset = app.library.dataset(form.need("d")?)?;
    let models = asked_models(app, form)?;
    let episodes: Vec<EpisodeKey> =
        (0..dataset.len()).map(|item| EpisodeKey { dataset: dataset.name.clone(), item, part: 0 }).collect();
    for model in &models {
        app.scoring.ask_all(model, &episodes);
    }
    Ok(Reply::json(&json!({"episodes": episodes.len() * models.len()})))
}

/// A frame, and how much a label of it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worth {
    worth: f64,
    item: usize,
    at: usize,
    score: f64,
    second: Option<f64>,
}

/// The frames that are worth a label most, among the episodes that were scored.
fn next(app: &App, params: &Params) -> Result<Reply, Refusal> {
    let dataset = app.library.dataset(params.need("d")?)?;
    let (models, by) = (asked_models(app, params)?, person(params)?);
    let standing = app.labels.standing(&dataset)?;
    let (mut frames, mut scored, mut errors) = (Vec::new(), 0, Vec::new());
    let mut labelled = Vec::with_capacity(dataset.len());
    for item in 0..dataset.len() {
        let key = EpisodeKey { dataset: dataset.name.clone(), item, part: 0 };
        let margins =
            models.iter().map(|model| margins(app, model, &key)).collect::<Option<Result<Vec<_>, _>>>();
        let length = match dataset.row(item).as_deref() {
            Some(ItemRow::Read(episodes)) if episodes.len() == 1 => episodes[0].length,
            _ => 0,
        };
        let name = dataset.label_names.get(item).map_or("", String::as_str);
        labelled.push(frame_labels(&standing, name, by, length));
        match margins {
            None => {}
            Some(Err(why)) => errors.push(why),
            Some(Ok(margins)) => {
                scored += 1;
                frames.extend(worths(item, &margins));
            }
        }
    }
    let chosen = proposed(frames, &labelled);
    let frames: Vec<Value> = chosen
        .iter()
        .map(|worth| {
            let name = dataset.label_names.get(worth.item).map_or("", String::as_str);
            let camera = match dataset.row(worth.item).as_deref() {
                Some(ItemRow::Read(episodes)) => episodes.first().and_then(|episode| episode.camera.clone()),
                _ => None,
            };
            json!({"i": worth.item, "at": worth.at, "score": worth.score, "second": worth.second, "worth": worth.worth,
                "episode": without_outcome(name), "camera": camera})
        })
        .collect();
    Ok(Reply::json(
        &json!({"frames": frames, "scored": scored, "of": dataset.len(), "error": errors.first()}),
    ))
}

/// Scores, and how far each is from the threshold in logits.
type Margins = (Vec<f64>, Vec<f64>);

/// What a model says of an episode; nothing before it was asked.
fn margins(app: &App, model: &ModelEntry, key: &EpisodeKey) -> Option<Result<Margins, String>> {
    let scored = app.scoring.scores(model, key)?;
    let facts = model.facts();
    Some(scored.map_err(|why| format!("{}: {why}", model.name)).map(|scores| {
        let threshold = facts.map_or(0.5, |facts| facts.threshold);
        let logit = |score: &f32| {
            let near = f64::from(*score).clamp(NEAREST_TO_CERTAIN, 1.0 - NEAREST_TO_CERTAIN);
            (near / (1.0 - near)).ln()
        };
        let logits: Vec<f64> = scores.scores.iter().map(logit).collect();
        let found = FrameScores::of(&logits, 1.0, threshold);
        (found.scores, found.margins)
    }))
}

fn worths(item: usize, models: &[Margins]) -> Vec<Worth> {
    let Some((scores, margins)) = models.first() else { return Vec::new() };
    let second = models.get(1);
    let worth = |at: usize| {
        let other = second.and_then(|(_, margins)| margins.get(at).copied());
        let second = second.and_then(|(scores, _)| scores.get(at).copied());
        Worth { worth: uncertainty(margins[at], other), item, at, score: scores[at], second }
    };
    (0..scores.len()).map(worth).collect()
}

/// The most uncertain frames that nobody needs to be asked about twice: none near a labelled one, or near one another.
fn proposed(mut frames: Vec<Worth>, labelled: &[Vec<Option<Answer>>]) -> Vec<Worth> {
    frames.sort_by(|one, other| {
        other.worth.total_cmp(&one.worth).then(one.item.cmp(&other.item)).then(one.at.cmp(&other.at))
    });
    let mut chosen: Vec<Worth> = Vec::new();
    for frame in frames {
        let is_near = |other: &Worth| other.item == frame.item && other.at.abs_diff(frame.at) < APART;
        let around = labelled.get(frame.item).map(|labels| {
            &labels
                [frame.at.saturating_sub(APART - 1).min(labels.len())..(frame.at + APART).min(labels.len())]
        });
        let is_known = around.is_some_and(|around| around.iter().any(Option::is_some));
        if !is_known && !chosen.iter().any(is_near) {
            chosen.push(frame);
        }
        if chosen.len() == PROPOSED {
            break;
        }
    }
    chosen
}

/// How late a person presses, by pairs of when something was shown and when a key was pressed, in seconds.
fn reaction(form: &Params) -> Result<Reply, Refusal> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let times: Option<Vec<(f64, f64)>> = form
        .all("time")
        .map(|pair| {
            let (shown, pressed) = pair.split_once(' ')?;
            Some((number(shown)?, number(pressed)?))
        })
        .collect();
    let times = times.ok_or_else(|| Refusal::bad("`time` is two numbers"))?;
    let mut test = ReactionTest::default();
    for (shown, pressed) in times {
        test.show(shown);
        test.press(pressed);
    }
    let result = test.result();
    let result = result.ok_or_else(|| Refusal::conflict("too few of these were reactions; try again"))?;
    Ok(Reply::json(
        &json!({"median": result.median_secs, "spread": result.spread_secs, "count": result.count}),
    ))
}

fn export_labels(app: &Arc<App>, form: &Params) -> Result<Reply, Refusal> {
    let dataset = app.library.dataset(form.need("d")?)?;
    let kind = ExportKind::of(form.need("kind")?)?;
    let output = export::start(app, &dataset, kind, form.parsed("fps")?.unwrap_or(FPS))?;
    let table = app.labels.place(&dataset)?.join(crate::labels::TABLE_FILE);
    let path = |path: &std::path::Path| path.display().to_string();
    Ok(Reply::json(&json!({
        "place": app.folder.name(&output),
        "done": kind == ExportKind::Table,
        "table": path(&table),
        "data": path(&dataset.path),
        "output": path(&output),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(worth: f64, item: usize, at: usize) -> Worth {
        Worth { worth, item, at, score: 0.5, second: None }
    }

    #[test]
    fn proposed_frames_are_uncertain_apart_and_new() {
        let frames = vec![
            worth(0.9, 0, 10),
            worth(1.0, 0, 11),
            worth(0.8, 0, 20),
            worth(0.7, 1, 11),
            worth(0.95, 1, 3),
            worth(0.1, 2, 0),
        ];
        let labelled =
            vec![vec![None; 30], [vec![None; 5], vec![Some(Answer::Skip)], vec![None; 20]].concat()];
        let found: Vec<(usize, usize)> =
            proposed(frames, &labelled).iter().map(|one| (one.item, one.at)).collect();
        assert_eq!(
            found,
            [(0, 11), (0, 20), (1, 11), (2, 0)],
            "by worth, none beside another or beside a labelled one"
        );
        let many: Vec<Worth> = (0..10_000).map(|at| worth(at as f64, 0, at)).collect();
        assert_eq!(proposed(many, &[]).len(), PROPOSED);
    }

    #[test]
    fn names_do_not_answer_the_question() {
        assert_eq!(without_outcome("rank_0_env_1_episode_2_success"), "rank_0_env_1_episode_2");
        assert_eq!(without_outcome("pick"), "pick");
    }
}
