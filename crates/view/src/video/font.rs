//! A bitmap font for pictures: every printable ASCII character, 5 pixels wide and 8 high (`font.txt`).

use std::sync::LazyLock;

use super::picture::{Picture, Rgb};

/// Pixels from one character to the next.
pub(super) const ADVANCE: usize = 6;
/// Pixels from one line to the next.
pub(super) const LINE: usize = 9;
/// Pixels of a character's box.
const WIDTH: usize = 5;
const HEIGHT: usize = 8;
/// Characters beside each other in `font.txt`.
const PER_ROW: usize = 16;

/// Rows of each character from the space on; bit 0 is the left pixel.
static GLYPHS: LazyLock<Vec<[u8; HEIGHT]>> = LazyLock::new(|| {
    let lines: Vec<&[u8]> = include_str!("font.txt").lines().map(str::as_bytes).collect();
    (0..95).map(|n| std::array::from_fn(|y| glyph_row(&lines, n, y))).collect()
});

fn glyph_row(lines: &[&[u8]], n: usize, y: usize) -> u8 {
    let line = lines[n / PER_ROW * (HEIGHT + 1) + y];
    let from = n % PER_ROW * (WIDTH + 1);
    (0..WIDTH).filter(|x| line[from + x] == b'#').map(|x| 1 << x).sum()
}

/// Draws one line of text with its top left corner at (`left`, `top`), each dot `scale` pixels wide. Characters outside
/// ASCII are drawn as `?`; what does not fit is not drawn.
pub(super) fn draw(
    picture: &mut Picture,
    (left, top): (usize, usize),
    scale: usize,
    colour: Rgb,
    text: &str,
) {
    for (n, character) in text.chars().enumerate() {
        let known = if (' '..='~').contains(&character) { character } else { '?' };
        let rows = GLYPHS[known as usize - ' ' as usize];
        let left = left + n * ADVANCE * scale;
        for (y, row) in rows.iter().enumerate() {
            for x in (0..WIDTH).filter(|x| row >> x & 1 == 1) {
                picture.fill((left + x * scale, top + y * scale), (scale, scale), colour);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `draw` draws, as text.
    fn drawn(text: &str, scale: usize) -> String {
        let mut picture = Picture::filled(text.len() * ADVANCE * scale, HEIGHT * scale, [0; 3]);
        draw(&mut picture, (0, 0), scale, [255; 3], text);
        let dot = |x, y| if picture.at(x, y) == [255; 3] { '#' } else { '.' };
        let line = |y| (0..picture.width()).map(|x| dot(x, y)).collect::<String>();
        (0..picture.height()).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_line_of_text_looks_like_this() {
        let expected = "\
#####..###..............
....#.#...#.............
...#..#..##.#.##...####.
..#...#.#.#.##..#.#...#.
.#....##..#.#.....#...#.
.#....#...#.#......####.
.#.....###..#.........#.
...................###..";
        assert_eq!(drawn("70rg", 1), expected);
    }

    #[test]
    fn characters_are_whole_and_differ() {
        assert_eq!(GLYPHS.len(), 95);
        for (n, glyph) in GLYPHS.iter().enumerate() {
            assert_eq!(*glyph == [0; HEIGHT], n == 0, "only the space is empty");
            assert!(GLYPHS[..n].iter().all(|other| other != glyph), "character {} is drawn twice", n + 32);
        }
        assert_eq!(drawn("\u{7f}", 1), drawn("?", 1), "no character is left out");
    }

    #[test]
    fn large_text_is_small_text_enlarged() {
        let (small, large) = (drawn("A7", 1), drawn("A7", 3));
        for (y, line) in large.lines().enumerate() {
            let row = small.lines().nth(y / 3).unwrap();
            let wide: String = row.chars().flat_map(|dot| [dot; 3]).collect();
            assert_eq!(line, wide);
        }
    }
}
