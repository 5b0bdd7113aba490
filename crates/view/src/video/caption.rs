//! Words and numbers written into a picture.

use super::font;
use super::picture::{Picture, Rgb};

/// The colour of plain text.
pub(super) const PLAIN: Rgb = [235, 235, 235];
/// Behind the text of a small picture.
const STRIP: Rgb = [24, 24, 28];
/// Pictures at least this large carry their text; smaller ones get a strip below.
const LARGE: usize = 256;
/// Between the text and the edge.
const MARGIN: usize = 1;

/// One thing a caption tells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name; shortened when there is no room.
    pub(super) name: String,
    /// What it is now.
    pub(super) value: String,
    /// Characters that its value may take.
    pub(super) room: usize,
    pub(super) colour: Rgb,
}

impl Field {
    /// A named number of at most six characters.
    pub(super) fn number(name: &str, value: Option<f32>) -> Self {
        let value = value.map_or_else(|| "-".to_owned(), short_number);
        Self { name: name.to_owned(), value, room: 6, colour: PLAIN }
    }

    /// A word that is there or not, and keeps its place either way.
    pub(super) fn word(word: &str, room: usize, colour: Rgb) -> Self {
        Self { name: String::new(), value: word.to_owned(), room, colour }
    }

    /// Characters from its start to its end.
    fn width(&self) -> usize {
        self.room + if self.name.is_empty() { 0 } else { self.name.chars().count() + 1 }
    }

    /// The text in at most `most` characters. The value matters more than the name.
    fn text(&self, most: usize) -> String {
        let name_room = most.saturating_sub(self.value.chars().count() + 1);
        let name: String = self.name.chars().take(name_room).collect();
        let text = if name.is_empty() { self.value.clone() } else { format!("{name} {}", self.value) };
        text.chars().take(most).collect()
    }
}

/// A number in at most six characters.
fn short_number(value: f32) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e5 {
        return format!("{}", value as i32);
    }
    match size {
        _ if !value.is_finite() => value.to_string(),
        _ if size < 9.9995 => format!("{value:.3}"),
        _ if size < 99.995 => format!("{value:.2}"),
        _ if size < 999.95 => format!("{value:.1}"),
        _ if size < 99_999.5 => format!("{value:.0}"),
        _ => format!("{value:.0e}"),
    }
}

/// Where the caption of a picture goes. It depends on the size and on the names alone, so it stays while numbers change.
#[derive(Debug, PartialEq)]
struct Layout {
    /// Pixels of one dot of the font.
    scale: usize,
    /// Whether the text lies over the picture; else in a strip below.
    over: bool,
    /// Characters on a line.
    columns: usize,
    /// Which fields are on which line.
    lines: Vec<Vec<usize>>,
}

impl Layout {
    fn of(size: (usize, usize), inset: usize, fields: &[Field]) -> Self {
        let over = size.0.min(size.1) >= LARGE;
        let scale = if over { size.0.min(size.1) / LARGE } else { 1 };
        let edge = MARGIN + if over { inset } else { 0 };
        let columns = size.0.saturating_sub(2 * edge) / (font::ADVANCE * scale);
        let mut lines: Vec<Vec<usize>> = Vec::new();
        let mut used = columns;
        for (n, field) in fields.iter().enumerate().filter(|_| columns > 0) {
            let width = field.width().min(columns);
            match lines.last_mut() {
                Some(line) if used + 1 + width <= columns => {
                    line.push(n);
                    used += 1 + width;
                }
                _ => {
                    lines.push(vec![n]);
                    used = width;
                }
            }
        }
        Self { scale, over, columns, lines }
    }

    fn height(&self) -> usize {
        if self.lines.is_empty() { 0 } else { (self.lines.len() * font::LINE + MARGIN) * self.scale }
    }
}

/// The picture with its caption. A small picture grows a strip below; on a large one the text lies over its top, `inset`
/// pixels from the edge.
pub(super) fn caption(picture: Picture, inset: usize, fields: &[Field]) -> Picture {
    let layout = Layout::of(picture.size(), inset, fields);
    let (width, height) = picture.size();
    let (mut picture, corner) = if layout.over {
        let mut picture = picture;
        picture.shade((inset, inset), (width.saturating_sub(2 * inset), layout.height()));
        (picture, (inset + MARGIN, inset + MARGIN))
    } else {
        (with_strip(picture, layout.height()), (MARGIN, height + MARGIN))
    };
    for (n, line) in layout.lines.iter().enumerate() {
        let top = corner.1 + n * font::LINE * layout.scale;
        for (column, field) in places(&layout, line, fields) {
            let left = corner.0 + column * font::ADVANCE * layout.scale;
            let text = fields[field].text(layout.columns);
            font::draw(&mut picture, (left, top), layout.scale, fields[field].colour, &text);
        }
    }
    picture
}

/// At which character each field of a line starts: the last of several ends at the right edge.
fn places(layout: &Layout, line: &[usize], fields: &[Field]) -> Vec<(usize, usize)> {
    let mut places = Vec::with_capacity(line.len());
    let mut column = 0;
    for (at, n) in line.iter().enumerate() {
        let last = at > 0 && at + 1 == line.len();
        let length = fields[*n].text(layout.columns).chars().count();
        places.push((if last { layout.columns.saturating_sub(length) } else { column }, *n));
        column += fields[*n].width() + 1;
    }
    places
}

fn with_strip(picture: Picture, height: usize) -> Picture {
    let (width, above) = picture.size();
    let mut taller = Picture::filled(width, above + height, STRIP);
    taller.paste((0, 0), plaudit_core::FrameShape::rgb(above, width), picture.pixels());
    taller
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(reward: f32) -> Vec<Field> {
        vec![
            Field { room: 5, ..Field::number("step", Some(7.0)) },
            Field::word("truncated", 10, PLAIN),
            Field::number("reward", Some(reward)),
            Field::word("", 7, PLAIN),
            Field::number("is_grasped", None),
        ]
    }

    #[test]
    fn numbers_take_six_characters_at_most() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.35, "-0.350"),
            (9.9999, "10.00"),
            (-12.346, "-12.35"),
            (-123.46, "-123.5"),
            (-12_345.6, "-12346"),
            (-1.6e10, "-2e10"),
            (f32::NAN, "NaN"),
            (f32::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(short_number(value), expected);
            assert!(expected.len() <= 6);
        }
    }

    #[test]
    fn the_layout_does_not_depend_on_the_numbers() {
        for size in 1..400 {
            let (few, many) = (fields(0.0), fields(-12_345.0));
            assert_eq!(Layout::of((size, size), 3, &few), Layout::of((size, size), 3, &many));
        }
        let layout = Layout::of((128, 128), 3, &fields(0.5));
        assert_eq!((layout.columns, layout.lines.len(), layout.over), (21, 3, false));
    }

    #[test]
    fn small_pictures_grow_and_large_ones_do_not() {
        let captioned = |side| caption(Picture::filled(side, side, [200; 3]), 3, &fields(0.5));
        assert_eq!(captioned(128).size(), (128, 128 + 3 * 9 + 1));
        assert_eq!(captioned(512).size(), (512, 512));
        assert_eq!(captioned(4).size(), (4, 4), "no room for a single character");
        let small = captioned(128);
        assert!((0..128).all(|y| small.at(64, y) == [200; 3]), "nothing is drawn over a small picture");
    }

    #[test]
    fn a_name_is_cut_before_its_value() {
        let field = Field::number("is_grasped", Some(0.125));
        assert_eq!((field.text(30), field.text(10)), ("is_grasped 0.125".into(), "is_g 0.125".into()));
        assert_eq!(field.text(4), "0.12");
    }
}
