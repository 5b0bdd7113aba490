//! The pages, one file each.
//!
//! To add one: a file here with a `PAGE` (its word in addresses, its title, and the function that answers everything below that word),
//! a line in [`PAGES`], and a script in `assets/` if it moves. `shell::View` gives it menu, style and scripts; long work goes to a
//! thread of [`App`](crate::app::App), which tells `app.events`.

mod compare;
mod data;
mod episode;
mod file;
mod label;
mod models;
mod robot;
mod runs;

use std::sync::Arc;

use crate::app::App;
use crate::http::{Refusal, Reply, Request};

/// A page, and everything that its script asks for.
pub(crate) struct Page {
    /// The first word of its addresses: `data` answers `/data` and all of `/data/…`.
    pub(crate) path: &'static str,
    /// Its name in the menu; empty for a page that others lead to.
    pub(crate) title: &'static str,
    /// What is sent to it, by the second word of the path, also where nothing may be written: it changes no file.
    pub(crate) harmless_posts: &'static [&'static str],
    /// Answers a request. It runs on a thread of its own, and may read files.
    pub(crate) answer: fn(&Arc<App>, &Request) -> Result<Reply, Refusal>,
}

/// All of them, in the order of the menu.
pub(crate) const PAGES: &[&Page] = &[
    &data::PAGE,
    &episode::PAGE,
    &file::PAGE,
    &label::PAGE,
    &models::PAGE,
    &compare::PAGE,
    &runs::PAGE,
    &robot::PAGE,
];

/// Answers a request that was let in.
pub(crate) fn answer(app: &Arc<App>, request: &Request) -> Result<Reply, Refusal> {
    let word = request.word(0);
    if word.is_empty() {
        return Ok(Reply::redirect(&format!("/{}", PAGES[0].path)));
    }
    let page = PAGES.iter().find(|page| page.path == word);
    let page = page.ok_or_else(|| Refusal::not_found("there is no such page"))?;
    if request.is_post() && app.read_only && !page.harmless_posts.contains(&request.word(1)) {
        return Err(Refusal::forbidden("this studio only reads: nothing is written"));
    }
    (page.answer)(app, request)
}
