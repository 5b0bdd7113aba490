//! Every dataset and episode of the folder.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use plaudit_view::page::escape;

use super::Page;
use crate::app::App;
use crate::http::{Refusal, Reply, Request};
use crate::shell::View;

/// How long the page waits for the first look at the folder, so that it comes whole where that is quick.
const PATIENCE: Duration = Duration::from_millis(120);

pub(super) const PAGE: Page = Page { path: "data", title: "Data", harmless_posts: &[], answer };

fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    match request.word(1) {
        "" => Ok(page(app)),
        _ => Err(Refusal::not_found("there is no such page")),
    }
}

fn page(app: &App) -> Reply {
    let mut view = View { title: "Data".into(), page: "data", scripts: &["data.js"], ..View::default() };
    let mut rows = String::new();
    for dataset in app.library.datasets(PATIENCE) {
        let (name, format) = (escape(&dataset.name), dataset.format);
        let _ = write!(rows, "<tr><td>{name}</td><td>{format}</td><td>{}</td></tr>", dataset.len());
    }
    view.body.raw(&format!("<table>{rows}</table>"));
    view.reply(app)
}
