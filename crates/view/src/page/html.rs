//! Building blocks of a page: escaped text, tiles, tables, pictures.

use std::fmt::{Display, Write as _};

use crate::page::Chart;

const STYLE: &str = include_str!("style.css");

/// Text that is safe inside HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A file inside the page, as the address of an `<img>` or `<video>`.
#[must_use]
pub fn picture(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64(bytes))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            u32::from_be_bytes([0, chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)]);
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

/// A growing piece of HTML. What is given as text is escaped.
#[derive(Debug, Clone, Default)]
pub struct Html {
    text: String,
}

impl Html {
    /// Adds HTML as it is.
    pub fn raw(&mut self, html: &str) -> &mut Self {
        self.text.push_str(html);
        self.text.push('\n');
        self
    }

    /// A heading of a part of the page.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.raw(&format!("<h2>{}</h2>", escape(text)))
    }

    /// A heading within a part.
    pub fn subheading(&mut self, text: &str) -> &mut Self {
        self.raw(&format!("<h3>{}</h3>", escape(text)))
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.raw(&format!("<p>{}</p>", escape(text)))
    }

    /// Numbers to see first, each with what it is.
    pub fn tiles(&mut self, tiles: &[(String, String)]) -> &mut Self {
        let mut html = String::from("<div class=\"tiles\">");
        for (number, what) in tiles {
            let _ = write!(
                html,
                "<div class=\"tile\"><b>{}</b><span>{}</span></div>",
                escape(number),
                escape(what)
            );
        }
        self.raw(&(html + "</div>"))
    }

    /// What everything comes to: a sentence, and lines with what to do about each.
    pub fn verdict(&mut self, tone: Tone, title: &str, lines: &[(String, String)]) -> &mut Self {
        let class = match tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
        };
        let mut html = format!("<div class=\"verdict {class}\"><p><b>{}</b></p>", escape(title));
        for (what, hint) in lines {
            let hint = if hint.is_empty() {
                String::new()
            } else {
                format!(" <span class=\"soft\">{}.</span>", escape(hint))
            };
            let _ = write!(html, "<p>{}{hint}</p>", escape(what));
        }
        self.raw(&(html + "</div>"))
    }

    /// A table; the first column is text, the others are numbers.
    pub fn table<C: Display>(&mut self, head: &[&str], rows: &[Vec<C>]) -> &mut Self {
        self.raw(&table(head, rows))
    }

    /// A long table that opens on request.
    pub fn folded_table<C: Display>(&mut self, title: &str, head: &[&str], rows: &[Vec<C>]) -> &mut Self {
        self.raw(&format!("<details><summary>{}</summary>{}</details>", escape(title), table(head, rows)))
    }

    /// Charts beside each other.
    pub fn charts<'a>(&mut self, charts: impl IntoIterator<Item = &'a Chart>) -> &mut Self {
        self.raw("<div class=\"grid\">");
        for chart in charts {
            self.raw(&format!("<figure>{}</figure>", chart.svg()));
        }
        self.raw("</div>")
    }

    /// Small pictures with words under each.
    pub fn thumbnails(&mut self, pictures: &[(String, String)]) -> &mut Self {
        self.thumbnails_of(8.5, pictures)
    }

    /// Pictures with words under each, as wide as so many letters are high, or wider.
    pub fn thumbnails_of(&mut self, width: f64, pictures: &[(String, String)]) -> &mut Self {
        let columns =
            format!("grid-template-columns:repeat(auto-fill,minmax({width}rem,{}rem))", 1.2 * width);
        self.raw(&format!("<div class=\"thumbs\" style=\"{columns}\">"));
        for (address, words) in pictures {
            let words = escape(words);
            self.raw(&format!(
                "<figure><img src=\"{address}\" alt=\"{words}\"><figcaption>{words}</figcaption></figure>"
            ));
        }
        self.raw("</div>")
    }

    /// Something long that opens on request.
    pub fn fold(&mut self, title: &str, text: &str) -> &mut Self {
        self.raw(&format!(
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(title),
            escape(text)
        ))
    }
}

fn table<C: Display>(head: &[&str], rows: &[Vec<C>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(&cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let mut html = String::from("<table>");
    if head.iter().any(|cell| !cell.is_empty()) {
        html += &cells("th", &mut head.iter().map(|cell| (*cell).to_string()));
    }
    for row in rows {
        html += &cells("td", &mut row.iter().map(ToString::to_string));
    }
    html + "</table>"
}

/// Whether a verdict is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It is.
    Good,
    /// It is not.
    Bad,
}

/// A whole page.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    subtitle: String,
    /// What it shows.
    pub body: Html,
}

impl Page {
    /// A page that shows nothing yet.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Self {
        Self { title: title.into(), subtitle: subtitle.into(), body: Html::default() }
    }

    /// The file.
    #[must_use]
    pub fn render(&self) -> String {
        let (title, subtitle) = (escape(&self.title), escape(&self.subtitle));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\"><title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
             <h1>{title}</h1><p class=\"soft\">{subtitle}</p>\n{}</body></html>\n",
            self.body.text
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = Page::new("<run>", "a & b");
        page.body.paragraph("<script>alert('x')</script>").fold("\"why\"", "</pre><b>");
        page.body.table(&["<th>"], &[vec!["<td>"]]).tiles(&[("<1>".into(), "<2>".into())]);
        let html = page.render();
        for markup in ["<script", "<run>", "</pre><b>", "<th><th>", "<td><td>", "<1>", "<2>"] {
            assert!(!html.contains(markup), "{markup} got through");
        }
    }

    #[test]
    fn base64_is_the_one_of_rfc_4648() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }
}
