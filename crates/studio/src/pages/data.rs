//! Every dataset and episode of the folder: a grid or a table, with filters.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use plaudit_view::page::{Html, escape};

use super::Page;
use crate::app::App;
use crate::http::{Params, Refusal, Reply, Request, encode};
use crate::library::{Dataset, EpisodeKey, EpisodeRow, ItemRow};
use crate::shell::View;

/// How long the page waits for the first look at the folder, so that it comes whole where that is quick.
const PATIENCE: Duration = Duration::from_millis(120);
/// Episodes on a page.
const ON_A_PAGE: usize = 60;

pub(super) const PAGE: Page = Page { path: "data", title: "Data", harmless_posts: &[], answer };

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous episode of the list"),
    ("n p", "next and previous page"),
    ("g t", "grid, table"),
    ("/", "search by name"),
];

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    match request.word(1) {
        "" => Ok(page(app, &Filter::of(&request.query)?)),
        "list" => Ok(Reply::html(list(app, &Filter::of(&request.query)?))),
        "sources" => Ok(Reply::html(source_options(app, request.query.get("source")))),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

/// Which episodes are wanted, and how.
#[derive(Debug, Clone, Default, PartialEq)]
struct Filter {
    source: Option<String>,
    success: Option<Outcome>,
    min: Option<usize>,
    max: Option<usize>,
    flagged: bool,
    name: String,
    is_table: bool,
    page: usize,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    Unknown,
}

impl Outcome {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Success, "yes", "success"),
        (Self::Failure, "no", "failure"),
        (Self::Unknown, "unknown", "unknown"),
    ];

    fn of(success: Option<bool>) -> Self {
        match success {
            Some(true) => Self::Success,
            Some(false) => Self::Failure,
            None => Self::Unknown,
        }
    }
}

impl Filter {
    fn of(query: &Params) -> Result<Self, Refusal> {
        let success = match query.get("success") {
            None => None,
            Some(word) => {
                let found =
                    Outcome::ALL.iter().find(|(_, value, _)| *value == word).map(|(outcome, ..)| *outcome);
                Some(found.ok_or_else(|| Refusal::bad("`success` is yes, no or unknown"))?)
            }
        };
        Ok(Self {
            source: query.get("source").map(String::from),
            success,
            min: query.parsed("min")?,
            max: query.parsed("max")?,
            flagged: query.get("flagged").is_some(),
            name: query.get("q").unwrap_or("").to_lowercase(),
            is_table: query.get("view") == Some("table"),
            page: query.parsed("page")?.unwrap_or(0),
        })
    }

    /// Whether it asks for what is known of read episodes alone.
    fn needs_facts(&self) -> bool {
        self.success.is_some() || self.min.is_some() || self.max.is_some() || self.flagged
    }

    fn takes_name(&self, name: &str) -> bool {
        self.name.is_empty() || name.to_lowercase().contains(&self.name)
    }

    fn takes(&self, episode: &EpisodeRow) -> bool {
        self.success.is_none_or(|wanted| wanted == Outcome::of(episode.success))
            && self.min.is_none_or(|min| episode.length >= min)
            && self.max.is_none_or(|max| episode.length <= max)
            && (!self.flagged || !episode.flags.is_empty())
            && self.takes_name(&episode.name)
    }

    /// The address of another page of the same list.
    fn address(&self, page: usize) -> String {
        let mut address = format!("/data?page={page}");
        let success =
            self.success.and_then(|wanted| Outcome::ALL.iter().find(|(outcome, ..)| *outcome == wanted));
        let number = |number: Option<usize>| number.map(|number| number.to_string());
        let flag = |is_set: bool, word: &str| is_set.then(|| word.to_string());
        let values = [
            ("source", self.source.clone()),
            ("success", success.map(|(_, word, _)| (*word).to_string())),
            ("min", number(self.min)),
            ("max", number(self.max)),
            ("flagged", flag(self.flagged, "1")),
            ("q", flag(!self.name.is_empty(), &self.name)),
            ("view", flag(self.is_table, "table")),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                let _ = write!(address, "&{name}={}", encode(&value));
            }
        }
        address
    }
}

/// A line of the list.
struct Line {
    dataset: Arc<Dataset>,
    item: usize,
    part: usize,
    row: Option<Arc<ItemRow>>,
}

/// What the list has, and what it shows of it.
#[derive(Default)]
struct Listed {
    lines: Vec<Line>,
    matches: usize,
    known: usize,
    all: usize,
    successes: usize,
    failures: usize,
    frames: usize,
    flagged: usize,
}

fn listed(app: &App, filter: &Filter) -> Listed {
    let mut listed = Listed::default();
    let shown =
        filter.page.saturating_mul(ON_A_PAGE)..filter.page.saturating_add(1).saturating_mul(ON_A_PAGE);
    for dataset in app.library.datasets(PATIENCE) {
        if filter.source.as_ref().is_some_and(|source| **source != *dataset.name) {
            continue;
        }
        for (item, row) in dataset.rows().into_iter().enumerate() {
            listed.all += 1;
            listed.known += usize::from(row.is_some());
            for part in 0..row.as_ref().map_or(1, |row| row.parts()) {
                listed.count(row.as_deref(), part);
                let is_wanted = match row.as_deref() {
                    None => !filter.needs_facts() && filter.takes_name(&dataset.label_names[item]),
                    Some(ItemRow::Broken(_)) => {
                        let is_flagged = filter.flagged || !filter.needs_facts();
                        is_flagged && filter.takes_name(&dataset.label_names[item])
                    }
                    Some(ItemRow::Read(episodes)) => episodes.get(part).is_some_and(|one| filter.takes(one)),
                };
                if is_wanted {
                    if shown.contains(&listed.matches) {
                        let (dataset, row) = (dataset.clone(), row.clone());
                        listed.lines.push(Line { dataset, item, part, row });
                    }
                    listed.matches += 1;
                }
            }
        }
    }
    listed
}

impl Listed {
    fn count(&mut self, row: Option<&ItemRow>, part: usize) {
        match row {
            Some(ItemRow::Read(episodes)) => {
                let Some(episode) = episodes.get(part) else { return };
                self.frames += episode.length;
                self.successes += usize::from(episode.success == Some(true));
                self.failures += usize::from(episode.success == Some(false));
                self.flagged += usize::from(!episode.flags.is_empty());
            }
            Some(ItemRow::Broken(_)) => self.flagged += 1,
            None => {}
        }
    }
}

fn page(app: &App, filter: &Filter) -> Reply {
    let mut view =
        View { title: "Data".into(), page: "data", scripts: &["data.js"], keys: KEYS, ..View::default() };
    let list = list(app, filter);
    view.body.raw(&filter_form(app, filter));
    view.body.raw(&format!("<div id=\"list\">{list}</div>"));
    view.reply(app)
}

fn source_options(app: &App, chosen: Option<&str>) -> String {
    let mut html = String::from("<option value=\"\">every dataset</option>");
    for dataset in app.library.datasets(Duration::ZERO) {
        let name = escape(&dataset.name);
        let selected = if chosen == Some(&*dataset.name) { " selected" } else { "" };
        let _ = write!(
            html,
            "<option value=\"{name}\"{selected}>{name} ({}, {})</option>",
            dataset.format,
            dataset.len()
        );
    }
    html
}

fn filter_form(app: &App, filter: &Filter) -> String {
    let mut outcomes = String::from("<option value=\"\">any</option>");
    for (outcome, value, words) in Outcome::ALL {
        let selected = if filter.success == Some(outcome) { " selected" } else { "" };
        let _ = write!(outcomes, "<option value=\"{value}\"{selected}>{words}</option>");
    }
    let number = |number: Option<usize>| number.map_or(String::new(), |number| number.to_string());
    let checked = |is_so: bool| if is_so { " checked" } else { "" };
    format!(
        "<form id=\"filters\" class=\"filters\" action=\"/data\" method=\"get\" role=\"search\">\
         <label>Dataset<select name=\"source\">{}</select></label>\
         <label>Outcome<select name=\"success\">{outcomes}</select></label>\
         <label>Frames from<input type=\"number\" name=\"min\" min=\"0\" value=\"{}\"></label>\
         <label>to<input type=\"number\" name=\"max\" min=\"0\" value=\"{}\"></label>\
         <label>Name<input type=\"search\" name=\"q\" value=\"{}\"></label>\
         <label class=\"flat\"><input type=\"checkbox\" name=\"flagged\" value=\"1\"{}>looks wrong</label>\
         <label class=\"flat\"><input type=\"radio\" name=\"view\" value=\"grid\"{}>grid</label>\
         <label class=\"flat\"><input type=\"radio\" name=\"view\" value=\"table\"{}>table</label>\
         <noscript><button>Show</button></noscript></form>",
        source_options(app, filter.source.as_deref()),
        number(filter.min),
        number(filter.max),
        escape(&filter.name),
        checked(filter.flagged),
        checked(!filter.is_table),
        checked(filter.is_table),
    )
}

fn list(app: &App, filter: &Filter) -> String {
    if let Some(first) = filter.source.as_deref().and_then(|source| app.library.dataset(source).ok()) {
        app.library.prefer(&first.name);
    }
    let listed = listed(app, filter);
    let mut html = Html::default();
    html.raw(&summary(app, &listed));
    if listed.lines.is_empty() {
        html.paragraph(nothing(app, filter, &listed));
    } else if filter.is_table {
        html.raw(&table(&listed.lines));
    } else {
        let cards: String = listed.lines.iter().map(|line| format!("<li>{}</li>", line.card())).collect();
        html.raw(&format!("<ul class=\"cards\">{cards}</ul>"));
    }
    html.raw(&pager(filter, listed.matches));
    let left_out = app.library.left_out();
    if !left_out.is_empty() {
        html.subheading("Not shown");
        let notes: String = left_out.iter().map(|why| format!("<li>{}</li>", escape(why))).collect();
        html.raw(&format!("<ul class=\"notes\">{notes}</ul>"));
    }
    html.as_str().to_string()
}

fn nothing(app: &App, filter: &Filter, listed: &Listed) -> &'static str {
    match (app.library.is_scanned(), listed.all) {
        (false, _) => "Looking for datasets…",
        (true, 0) => {
            "No dataset lies in this folder. Give a folder with episodes, in any format that plaudit reads."
        }
        (true, _) if listed.known < listed.all && filter.needs_facts() => {
            "None so far; episodes are still being read."
        }
        (true, _) => "No episode is like this.",
    }
}

/// The list in numbers, in a line.
fn summary(app: &App, listed: &Listed) -> String {
    let Listed { matches, known, all, successes, failures, frames, flagged, .. } = listed;
    let mut facts = vec![
        (matches.to_string(), if *matches == 1 { "episode here" } else { "episodes here" }),
        (frames.to_string(), "frames read"),
        (successes.to_string(), "success"),
        (failures.to_string(), "failure"),
        (flagged.to_string(), "look wrong"),
    ];
    if known < all || !app.library.is_scanned() {
        facts.push((format!("{known} of {all}"), "read so far"));
    }
    let items: String =
        facts.iter().map(|(number, what)| format!("<li><b>{number}</b> {what}</li>")).collect();
    format!("<ul class=\"facts\">{items}</ul>")
}

fn pager(filter: &Filter, matches: usize) -> String {
    let pages = matches.div_ceil(ON_A_PAGE);
    if pages < 2 {
        return String::new();
    }
    let link = |page: usize, rel: &str, words: &str| {
        format!("<a class=\"button\" rel=\"{rel}\" href=\"{}\">{words}</a>", escape(&filter.address(page)))
    };
    let previous = if filter.page > 0 { link(filter.page - 1, "prev", "Previous") } else { String::new() };
    let next = if filter.page + 1 < pages { link(filter.page + 1, "next", "Next") } else { String::new() };
    let at = filter.page + 1;
    format!(
        "<nav class=\"pager row\" aria-label=\"Pages of the list\">{previous}<span>page {at} of {pages}</span>{next}</nav>"
    )
}

fn table(lines: &[Line]) -> String {
    let rows: String = lines.iter().map(Line::table_row).collect();
    format!(
        "<div class=\"wide\"><table class=\"list\"><thead><tr><th>Episode</th><th class=\"number\">Frames</th>\
         <th>Outcome</th><th>Dataset</th><th>Looks wrong</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

impl Line {
    fn episode(&self) -> Option<&EpisodeRow> {
        match self.row.as_deref()? {
            ItemRow::Read(episodes) => episodes.get(self.part),
            ItemRow::Broken(_) => None,
        }
    }

    fn key(&self) -> EpisodeKey {
        EpisodeKey { dataset: self.dataset.name.clone(), item: self.item, part: self.part }
    }

    fn name(&self) -> String {
        let of_item = || self.dataset.label_names.get(self.item).cloned().unwrap_or_default();
        self.episode().map_or_else(of_item, |episode| episode.name.clone())
    }

    /// What is wrong, in words.
    fn flags(&self) -> String {
        match self.row.as_deref() {
            Some(ItemRow::Broken(why)) => why.clone(),
            _ => {
                let flags = self.episode().map(|episode| episode.flags.as_slice()).unwrap_or_default();
                flags.iter().map(|flag| flag.words()).collect::<Vec<_>>().join("; ")
            }
        }
    }

    fn outcome_chip(&self) -> String {
        match (self.row.as_deref(), self.episode().map(|episode| episode.success)) {
            (Some(ItemRow::Broken(_)), _) => "<span class=\"chip bad\">cannot be read</span>".into(),
            (_, Some(success)) => outcome_chip(success),
            _ => "<span class=\"chip\">not read yet</span>".into(),
        }
    }

    fn card(&self) -> String {
        let name = escape(&self.name());
        let address = escape(&self.key().address("/episode"));
        let image = match self.episode() {
            Some(EpisodeRow { camera: None, .. }) => "<span class=\"no-image\">no images</span>".to_string(),
            _ if matches!(self.row.as_deref(), Some(ItemRow::Broken(_))) => {
                "<span class=\"no-image\">cannot be read</span>".into()
            }
            _ => format!(
                "<img loading=\"lazy\" alt=\"first, middle and last frame of {name}\" src=\"{}\">",
                escape(&self.key().address("/episode/thumb"))
            ),
        };
        let length =
            self.episode().map_or(String::new(), |episode| format!("<span>{} frames</span>", episode.length));
        let flags = match self.flags() {
            flags if flags.is_empty() => String::new(),
            flags => format!("<span class=\"wrong\">{}</span>", escape(&flags)),
        };
        format!(
            "<a class=\"card episode\" href=\"{address}\">{image}<span class=\"about\"><b>{}</b>{}{length}{flags}</span></a>",
            breakable(&name),
            self.outcome_chip()
        )
    }

    fn table_row(&self) -> String {
        let length = self.episode().map_or(String::new(), |episode| episode.length.to_string());
        format!(
            "<tr><td><a class=\"episode\" href=\"{}\">{}</a></td><td class=\"number\">{length}</td><td>{}</td><td>{}</td>\
             <td class=\"wrong\">{}</td></tr>",
            escape(&self.key().address("/episode")),
            escape(&self.name()),
            self.outcome_chip(),
            escape(&self.dataset.name),
            escape(&self.flags())
        )
    }
}

/// A name that may be broken after its signs, and not within its words.
pub(super) fn breakable(escaped: &str) -> String {
    escaped.replace('_', "_<wbr>").replace('/', "/<wbr>")
}

/// How an episode ended, in a word.
pub(super) fn outcome_chip(success: Option<bool>) -> String {
    match success {
        Some(true) => "<span class=\"chip good\">success</span>".into(),
        Some(false) => "<span class=\"chip bad\">failure</span>".into(),
        None => "<span class=\"chip\">unknown</span>".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &str) -> Result<Filter, Refusal> {
        Filter::of(&Params::parse(query))
    }

    #[test]
    fn filters_are_read_and_written() {
        let found = filter("source=a/b&success=no&min=3&max=90&flagged=1&q=Pick&view=table&page=2").unwrap();
        let again = found.address(5);
        let again = filter(again.split_once('?').unwrap().1).unwrap();
        assert_eq!(again, Filter { page: 5, ..found });
        assert_eq!(filter("").unwrap(), Filter::default());
        assert!(filter("success=perhaps").is_err() && filter("min=few").is_err());
    }

    #[test]
    fn episodes_are_chosen_by_what_is_known_of_them() {
        let episode =
            EpisodeRow { name: "Pick_7".into(), length: 50, success: None, camera: None, flags: Vec::new() };
        for (query, is_taken) in [
            ("", true),
            ("success=unknown", true),
            ("success=no", false),
            ("min=50&max=50", true),
            ("min=51", false),
            ("max=49", false),
            ("flagged=1", false),
            ("q=pick", true),
            ("q=place", false),
        ] {
            assert_eq!(filter(query).unwrap().takes(&episode), is_taken, "{query}");
        }
    }
}
