//! Rows of text that know how wide they are, and their colours.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Strong,
    Faint,
    Accent,
    Good,
    Warn,
    Bad,
}

impl TextStyle {
    /// The ANSI code that switches it on.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Accent => Some("36"),
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// One line of a screen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row(Vec<(TextStyle, String)>);

impl Row {
    /// Adds text. Control characters become spaces: a metric's name must not move the cursor.
    pub(crate) fn add(mut self, style: TextStyle, text: impl AsRef<str>) -> Self {
        let clean = text.as_ref().replace(char::is_control, " ");
        self.0.push((style, clean));
        self
    }

    /// Adds spaces until the row is `width` wide.
    pub(crate) fn pad_to(self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.add(TextStyle::Plain, " ".repeat(missing))
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// Cuts it to `width` columns.
    pub(crate) fn fit(mut self, width: usize) -> Self {
        let mut room = width;
        for (_, text) in &mut self.0 {
            if text.width() > room {
                *text = keep_start(text, room);
            }
            room -= text.width();
        }
        self
    }

    /// The text, with or without colours, and without spaces at the end.
    pub(crate) fn paint(&self, colour: bool) -> String {
        let mut painted = String::new();
        for (style, text) in &self.0 {
            match style.code() {
                Some(code) if colour && !text.is_empty() => {
                    painted.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
                }
                _ => painted.push_str(text),
            }
        }
        painted.truncate(painted.trim_end_matches(' ').len());
        painted
    }
}

/// A text as lines of at most `width` columns, broken between words where that is possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ').flat_map(|word| pieces(word, width)) {
            if !line.is_empty() && line.width() + 1 + word.width() > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

/// A word that is too long for any line, such as a path, in pieces that are not.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in word.chars() {
        let columns = c.width().unwrap_or(0);
        if used + columns > width {
            pieces.push(String::new());
            used = 0;
        }
        used += columns;
        pieces.last_mut().into_iter().for_each(|piece| piece.push(c));
    }
    pieces
}

/// The start of a text, with `…` where it was cut.
pub(crate) fn keep_start(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let kept = fitting(text.chars(), width);
    if width == 0 { String::new() } else { kept.into_iter().chain(['…']).collect() }
}

/// The end of a text, with `…` where it was cut.
pub(crate) fn keep_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let kept = fitting(text.chars().rev(), width);
    if width == 0 { String::new() } else { ['…'].into_iter().chain(kept.into_iter().rev()).collect() }
}

/// As many characters as fit with one column to spare.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    chars.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns_not_by_bytes() {
        assert_eq!(keep_start("success", 7), "success");
        assert_eq!(keep_start("success", 4), "suc…");
        assert_eq!(keep_end("success", 4), "…ess");
        assert_eq!(keep_start("成功率", 4), "成…");
        assert_eq!(keep_end("成功率", 5), "…功率");
        assert_eq!(keep_start("success", 0), "");
        assert_eq!(keep_end("success", 1), "…");
    }

    #[test]
    fn long_texts_break_between_words() {
        assert_eq!(wrap("lower the learning rate", 12), ["lower the", "learning", "rate"]);
        assert_eq!(wrap("see logs/very/long/path now", 10), ["see", "logs/very/", "long/path", "now"]);
        assert_eq!(wrap("one\n\ntwo", 12), ["one", "", "two"]);
        assert!(wrap("", 12).is_empty());
    }

    #[test]
    fn rows_fit_and_cannot_move_the_cursor() {
        let row = Row::default().add(TextStyle::Strong, "a\x1b[2Jb").add(TextStyle::Plain, "cdef");
        assert_eq!(row.width(), 10);
        assert_eq!(row.clone().fit(8).paint(false), "a [2Jbc…");
        assert_eq!(row.fit(3).paint(true), "\x1b[1ma …\x1b[0m");
    }
}
