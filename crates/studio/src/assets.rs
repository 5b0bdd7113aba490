//! Styles and scripts, as files of their own: the content policy allows none inside pages.

use plaudit_view::page::{SCRIPT, STYLE};

use crate::http::{Refusal, Reply};

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Every file: its name, its kind, what is in it.
const FILES: &[(&str, &str, &str)] = &[
    ("page.css", CSS, STYLE),
    ("studio.css", CSS, include_str!("assets/studio.css")),
    ("page.js", JS, SCRIPT),
    ("studio.js", JS, include_str!("assets/studio.js")),
    ("compare.js", JS, include_str!("assets/compare.js")),
    ("data.js", JS, include_str!("assets/data.js")),
    ("models.js", JS, include_str!("assets/models.js")),
    ("robot.js", JS, include_str!("assets/robot.js")),
    ("runs.js", JS, include_str!("assets/runs.js")),
    ("new_run.js", JS, include_str!("assets/new_run.js")),
    ("player.js", JS, include_str!("assets/player.js")),
    ("episode.js", JS, include_str!("assets/episode.js")),
    ("label.js", JS, include_str!("assets/label.js")),
];

pub(crate) fn reply(name: &str) -> Result<Reply, Refusal> {
    let found = FILES.iter().find(|(file, ..)| *file == name);
    let (_, kind, text) = found.ok_or_else(|| Refusal::not_found("there is no such file"))?;
    Ok(Reply::bytes(kind, text.as_bytes().to_vec()))
}
