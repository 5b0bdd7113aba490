//! Lines of text that fit a width.

use crate::font::Font;

/// Lines that one text may take; of a longer one the rest is replaced by `…`.
const MOST: usize = 24;
/// A line may end after these, beside blanks.
const BREAKS: [char; 7] = ['/', '_', '-', '.', ',', ':', ';'];

/// A text in lines of at most `width` pixels: broken at blanks, else after a mark, else anywhere. Nothing of it is lost but
/// the blanks at its breaks.
#[must_use]
pub fn wrap(font: &Font, text: &str, width: usize) -> Vec<String> {
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if lines.len() + 1 == MOST && font.width(rest) > width {
            lines.push("…".into());
            break;
        }
        let (line, after) = rest.split_at(end_of_line(font, rest, width));
        lines.push(line.trim_end().into());
        rest = after.trim_start();
    }
    lines
}

/// The byte before which a text is to be broken.
fn end_of_line(font: &Font, text: &str, width: usize) -> usize {
    let (mut fits, mut at_mark, mut at_blank) = (0, 0, 0);
    for (at, letter) in text.char_indices() {
        let end = at + letter.len_utf8();
        if letter == ' ' {
            at_blank = end;
        } else if at > 0 && font.width(&text[..end]) > width {
            // A blank is the better place, unless it leaves most of the line empty.
            let early = font.width(text[..at_blank].trim_end()) * 3 < width;
            return match (at_blank, at_mark) {
                (blank, _) if blank > 0 && !early => blank,
                (blank, mark) if mark.max(blank) > 0 => mark.max(blank),
                _ => fits,
            };
        } else if BREAKS.contains(&letter) {
            at_mark = end;
        }
        fits = end;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::font::Weight;
    use proptest::prelude::*;

    #[test]
    fn lines_end_where_a_reader_expects_it() {
        let font = Font::get(Weight::Regular, 13);
        let width = font.width("episode_0017");
        let lines = |text: &str| wrap(&font, text, width);
        assert_eq!(lines("episode_0017"), ["episode_0017"]);
        assert_eq!(lines("failure of 12 frames"), ["failure of 12", "frames"]);
        assert_eq!(lines("rank_0/episode_0017.pkl"), ["rank_0/", "episode_", "0017.pkl"]);
        assert_eq!(lines("abcdefghijklmnopqrstuvw").len(), 2);
        assert_eq!(lines("one\ttwo\n"), ["one two"]);
        assert!(lines("  ").is_empty());
        assert_eq!(lines(&"x".repeat(9999)).len(), MOST);
        assert_eq!(wrap(&font, "wide", 0), ["w", "i", "d", "e"], "a line holds a letter at least");
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a-z_/ é]{0,60}", width in 20usize..200) {
            let font = Font::get(Weight::Regular, 12);
            let lines = wrap(&font, &text, width);
            prop_assume!(lines.len() < MOST, "longer texts are cut");
            let letters = |text: &str| text.chars().filter(|letter| *letter != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
            prop_assert!(lines.iter().all(|line| font.width(line) <= width), "{:?}", lines);
        }
    }
}
