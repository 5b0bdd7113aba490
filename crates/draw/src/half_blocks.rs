//! Images in a terminal: two pixels to a character.

use std::fmt::Write as _;

use crate::Canvas;

/// The rows of an image as lines for a terminal with 24-bit colours: each character is a pixel wide and two pixels tall, its upper
/// half in the colour of the text and its lower half in that of the background.
///
/// ```
/// use plaudit_draw::{Canvas, half_blocks};
///
/// let lines = half_blocks(&Canvas::filled(3, 4, [255, 0, 0]));
/// assert_eq!(lines.len(), 2);
/// assert_eq!(lines[0].matches('▀').count(), 3);
/// ```
#[must_use]
pub fn half_blocks(image: &Canvas) -> Vec<String> {
    let line = |top: usize| {
        let mut line = String::new();
        for x in 0..image.width() {
            let [red, green, blue] = image.at(x, top);
            let _ = write!(line, "\x1b[38;2;{red};{green};{blue}m");
            if top + 1 < image.height() {
                let [red, green, blue] = image.at(x, top + 1);
                let _ = write!(line, "\x1b[48;2;{red};{green};{blue}m");
            }
            line.push('▀');
        }
        line + "\x1b[0m"
    };
    (0..image.height()).step_by(2).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_has_two_pixels_and_an_odd_row_one() {
        let pixels = vec![1, 2, 3, 4, 5, 6, 7, 8, 9];
        let lines = half_blocks(&Canvas::new(1, 3, pixels).unwrap());
        assert_eq!(lines, ["\x1b[38;2;1;2;3m\x1b[48;2;4;5;6m▀\x1b[0m", "\x1b[38;2;7;8;9m▀\x1b[0m"]);
    }
}
