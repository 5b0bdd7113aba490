//! Building blocks of a page: escaped text, tiles, tables, images.

use std::fmt::{Display, Write as _};

use crate::page::Chart;

/// How pages look, for who serves it as a file.
pub const STYLE: &str = include_str!("style.css");
/// What shows values under the pointer and runs videos in step, for who serves it as a file.
pub const SCRIPT: &str = include_str!("page.js");

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
pub fn data_url(media_type: &str, bytes: &[u8]) -> String {
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
    /// The HTML so far.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

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

    /// What was found, each with what to do about it.
    pub fn findings(&mut self, findings: &[Finding]) -> &mut Self {
        if findings.is_empty() {
            return self;
        }
        let mut html = String::from("<ul class=\"findings\">");
        for Finding { tone, word, what, hint } in findings {
            let hint = match hint.as_str() {
                "" => String::new(),
                hint => format!(" <span class=\"soft\">{}</span>", escape(hint)),
            };
            let (class, word) = (tone.class(), escape(word));
            let _ = write!(html, "<li class=\"{class}\"><b>{word}</b><div>{}{hint}</div></li>", escape(what));
        }
        self.raw(&(html + "</ul>"))
    }

    /// A sentence that stands out, in a frame.
    pub fn callout(&mut self, tone: Tone, title: &str, text: &str) -> &mut Self {
        self.raw(&format!(
            "<div class=\"callout {}\"><b>{}</b><p>{}</p></div>",
            tone.class(),
            escape(title),
            escape(text)
        ))
    }

    /// A table; the first column is text, the others are numbers.
    pub fn table<C: Display>(&mut self, head: &[&str], rows: &[Vec<C>]) -> &mut Self {
        self.raw(&table(head, rows))
    }

    /// Charts: a large one takes the whole width, small ones stand beside each other.
    pub fn charts<'a>(&mut self, charts: impl IntoIterator<Item = &'a Chart>) -> &mut Self {
        let charts: Vec<String> = charts.into_iter().map(Chart::html).collect();
        // Rows that are full: no chart stands alone beside a hole.
        let columns = match charts.len() {
            0 => return self,
            1 => "one",
            2 | 4 => "two",
            _ => "many",
        };
        self.raw(&format!("<div class=\"grid {columns}\">{}</div>", charts.join("\n")))
    }

    /// Small images with words under each.
    pub fn thumbnails(&mut self, images: &[(String, String)]) -> &mut Self {
        self.thumbnails_of(8.5, images)
    }

    /// Images with words under each, as wide as so many letters are high, or wider.
    pub fn thumbnails_of(&mut self, width: f64, images: &[(String, String)]) -> &mut Self {
        let columns = format!(
            "grid-template-columns:repeat(auto-fill,minmax(min(100%,{width}rem),{}rem))",
            1.2 * width
        );
        self.raw(&format!("<div class=\"thumbs\" style=\"{columns}\">"));
        for (address, words) in images {
            let words = escape(words);
            self.raw(&format!(
                "<figure><img src=\"{address}\" alt=\"{words}\"><figcaption>{words}</figcaption></figure>"
            ));
        }
        self.raw("</div>")
    }

    /// Long text that opens on request.
    pub fn fold(&mut self, title: &str, text: &str) -> &mut Self {
        let text = format!("<pre tabindex=\"0\">{}</pre>", escape(text));
        self.raw(&format!("<details><summary>{}</summary>{text}</details>", escape(title)))
    }

    /// A part of the page that opens on request.
    pub fn folded(&mut self, title: &str, note: &str, inside: &Self) -> &mut Self {
        let note = match note {
            "" => String::new(),
            note => format!(" <span class=\"soft\">{}</span>", escape(note)),
        };
        let title = escape(title);
        self.raw(&format!("<details><summary><b>{title}</b>{note}</summary>{}</details>", inside.text))
    }
}

fn table<C: Display>(head: &[&str], rows: &[Vec<C>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(&cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let mut html = String::from("<div class=\"wide\" tabindex=\"0\"><table>");
    if head.iter().any(|cell| !cell.is_empty()) {
        html += &cells("th", &mut head.iter().map(|cell| (*cell).to_string()));
    }
    for row in rows {
        html += &cells("td", &mut row.iter().map(ToString::to_string));
    }
    html + "</table></div>"
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is welcome.
    pub tone: Tone,
    /// What kind of finding it is, in a word: colour alone would not tell.
    pub word: String,
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// Whether something is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// It is.
    Good,
    /// It is not.
    Bad,
    /// It should be looked at.
    Doubtful,
    /// It is neither.
    #[default]
    Plain,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Doubtful => "doubtful",
            Self::Plain => "plain",
        }
    }
}

/// What everything on a page comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is welcome.
    pub tone: Tone,
    /// The verdict in a word or two.
    pub word: String,
    /// In a sentence, without its full stop.
    pub sentence: String,
    /// The evidence for the sentence: data, numbers, intervals.
    pub evidence: String,
}

/// A whole page.
#[derive(Debug, Clone)]
pub struct Page {
    /// What kind of page, and of what.
    kind: String,
    title: String,
    subtitle: String,
    verdict: Verdict,
    /// What it shows.
    pub body: Html,
}

impl Page {
    /// A page that shows its verdict alone so far.
    pub fn new(kind: &str, title: impl Into<String>, subtitle: impl Into<String>, verdict: Verdict) -> Self {
        let (title, subtitle, body) = (title.into(), subtitle.into(), Html::default());
        Self { kind: kind.into(), title, subtitle, verdict, body }
    }

    /// The file.
    #[must_use]
    pub fn render(&self) -> String {
        let [kind, title, subtitle] = [&self.kind, &self.title, &self.subtitle].map(|text| escape(text));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\"><title>{title} · plaudit {kind}</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
             <header><p class=\"over\">plaudit {kind}<b>{title}</b></p>{}<p class=\"soft\">{subtitle}</p></header>\n{}\
             <script>\n{SCRIPT}</script></body></html>\n",
            self.verdict.html(),
            self.body.text
        )
    }
}

impl Verdict {
    fn html(&self) -> String {
        let rest = match self.evidence.as_str() {
            "" => ".".to_string(),
            evidence => format!(" <small>({}).</small>", escape(evidence)),
        };
        format!(
            "<h1 class=\"{}\"><span class=\"word\">{}</span>{}{rest}</h1>",
            self.tone.class(),
            escape(&self.word),
            escape(&self.sentence)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let verdict = Verdict {
            sentence: "<i>".into(),
            word: "<u>".into(),
            evidence: "<s>".into(),
            ..Default::default()
        };
        let mut page = Page::new("<kind>", "<run>", "a & b", verdict);
        page.body.paragraph("<script>alert('x')</script>").fold("\"why\"", "</pre><b>");
        page.body.table(&["<th>"], &[vec!["<td>"]]).tiles(&[("<1>".into(), "<2>".into())]);
        let found = Finding { tone: Tone::Bad, word: "<3>".into(), what: "<4>".into(), hint: "<5>".into() };
        page.body.findings(&[found]).callout(Tone::Good, "<6>", "<7>");
        let html = page.render();
        for markup in
            ["<script>alert", "<run>", "<kind>", "</pre><b>", "<th><th>", "<td><td>", "<i>", "<u>", "<s>"]
        {
            assert!(!html.contains(markup), "{markup} got through");
        }
        for number in 1..=7 {
            assert!(!html.contains(&format!("<{number}>")), "{number} got through");
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
