//! What every page has around it: head, menu, and a place for messages.

use std::fmt::Write as _;

use hyper::StatusCode;
use plaudit_view::page::{Html, escape};

use crate::app::App;
use crate::http::{Refusal, Reply};
use crate::pages::{PAGES, Page};

/// A page to be shown.
#[derive(Default)]
pub(crate) struct View {
    /// What stands in the tab and as the heading.
    pub(crate) title: String,
    /// Which page of the menu it belongs to.
    pub(crate) page: &'static str,
    /// Its scripts, beside those that every page has.
    pub(crate) scripts: &'static [&'static str],
    /// Keys that do something here, and what.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Everything else.
    pub(crate) body: Html,
}

impl View {
    /// The page as it is sent.
    pub(crate) fn reply(&self, app: &App) -> Reply {
        Reply::html(self.html(app))
    }

    fn html(&self, app: &App) -> String {
        let scripts = ["page.js", "studio.js"].iter().chain(self.scripts);
        let scripts: String =
            scripts.map(|name| format!("<script defer src=\"/static/{name}\"></script>")).collect();
        let title = escape(&self.title);
        let read_only =
            if app.read_only { "<span class=\"chip\" id=\"read-only\">read-only</span>" } else { "" };
        format!(
            "<!doctype html>\n<html lang=\"en\"{}><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
             <title>{title} · plaudit studio</title><link rel=\"stylesheet\" href=\"/static/page.css\">\
             <link rel=\"stylesheet\" href=\"/static/studio.css\">{scripts}</head>\n<body>\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\
             <header class=\"top\"><a class=\"brand\" href=\"/\">plaudit <b>studio</b></a><nav aria-label=\"Pages\">{}</nav>\
             <span class=\"where soft\" title=\"{2}\">{3}</span>{read_only}\
             <button type=\"button\" id=\"show-keys\" aria-haspopup=\"dialog\" title=\"Keys\">?</button></header>\n\
             <main id=\"main\" tabindex=\"-1\">\n<h1 class=\"plain-title\">{title}</h1>\n{4}</main>\n{5}\
             <p id=\"status\" role=\"status\" aria-live=\"polite\"></p></body></html>\n",
            if app.read_only { " data-read-only" } else { "" },
            self.menu(app),
            escape(&app.folder.root().display().to_string()),
            escape(&app.folder_name()),
            self.body.as_str(),
            self.key_dialog(),
        )
    }

    fn menu(&self, app: &App) -> String {
        let mut html = String::new();
        // Most folders have no robot.
        let is_shown = |page: &&&Page| {
            !page.title.is_empty() && (page.path != "robot" || self.page == "robot" || app.robots.is_any())
        };
        for page in PAGES.iter().filter(is_shown) {
            let here = if page.path == self.page { " aria-current=\"page\"" } else { "" };
            let _ = write!(html, "<a href=\"/{}\"{here}>{}</a>", page.path, escape(page.title));
        }
        html
    }

    fn key_dialog(&self) -> String {
        let everywhere = [("?", "this list"), ("Esc", "close it")];
        let row = |(key, what): &(&str, &str)| {
            let keys: String = key.split(' ').map(|key| format!("<kbd>{}</kbd> ", escape(key))).collect();
            format!("<dt>{keys}</dt><dd>{}</dd>", escape(what))
        };
        let rows: String = self.keys.iter().chain(&everywhere).map(row).collect();
        format!(
            "<dialog id=\"keys\" aria-labelledby=\"keys-title\"><h2 id=\"keys-title\">Keys</h2><dl>{rows}</dl>\
             <form method=\"dialog\"><button>Close</button></form></dialog>"
        )
    }
}

/// A refusal as a page.
pub(crate) fn refused(app: &App, refusal: &Refusal) -> Reply {
    let mut view = View { title: title(refusal.status).into(), ..View::default() };
    view.body.paragraph(&refusal.why);
    view.reply(app).of_status(refusal.status)
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Not here",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::BAD_REQUEST => "That address makes no sense",
        _ => "That did not work",
    }
}
