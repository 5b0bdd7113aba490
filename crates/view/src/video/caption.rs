//! Words and numbers written into an image.

use std::sync::Arc;

use plaudit_draw::{Canvas, Font, Rgb, Weight, wrap};

/// The colour of plain text.
pub(super) const PLAIN: Rgb = [235, 235, 235];
/// Behind the text of a small image.
const STRIP: Rgb = [24, 24, 28];
/// Images at least this large carry their text; smaller ones get a strip below.
const LARGE: usize = 256;
/// The smallest text: the height of an em.
const SMALLEST: usize = 11;
/// Between the text and the edge.
const MARGIN: usize = 2;
/// The room for a number. One of five digits and a sign reaches into the gap after it, and no further.
const WIDEST_NUMBER: &str = "-0.000";

/// One field of a caption.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name.
    pub(super) name: String,
    /// What it is now.
    pub(super) value: String,
    /// The widest that its value can be.
    pub(super) widest: &'static str,
    pub(super) colour: Rgb,
}

impl Field {
    /// A named number of at most six characters.
    pub(super) fn number(name: &str, value: Option<f32>) -> Self {
        let value = value.map_or_else(|| "-".to_owned(), short_number);
        Self { name: name.to_owned(), value, widest: WIDEST_NUMBER, colour: PLAIN }
    }

    /// A word that is there or not, and keeps its place either way.
    pub(super) fn word(word: &str, widest: &'static str, colour: Rgb) -> Self {
        Self { name: String::new(), value: word.to_owned(), widest, colour }
    }

    /// Pixels from its start to its value.
    fn name_width(&self, font: &Font) -> usize {
        if self.name.is_empty() { 0 } else { font.width(&self.name) + gap(font) }
    }

    /// Pixels from its start to its end.
    fn width(&self, font: &Font) -> usize {
        self.name_width(font) + font.width(self.widest)
    }
}

/// Between a name and its value.
fn gap(font: &Font) -> usize {
    font.line_height() / 4
}

/// Between two fields of a line.
fn between(font: &Font) -> usize {
    gap(font) + font.line_height() / 12
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

/// Something on a line of a caption, and its pixels from the left.
#[derive(Debug, PartialEq)]
enum CaptionItem {
    /// A name that needs a line of its own, or a piece of it.
    Name(String),
    /// The value of a field alone: its name stands above.
    Value(usize),
    /// A field, so far from the left.
    Field(usize, usize),
}

/// Where the caption of an image goes. It depends on the size and on the names alone, so it stays while numbers change.
struct CaptionLayout {
    font: Arc<Font>,
    /// Whether the text lies over the image; else in a strip below.
    over: bool,
    /// Pixels between the margins: as many as the widest value needs, at least.
    room: usize,
    lines: Vec<Vec<CaptionItem>>,
}

impl CaptionLayout {
    fn of((width, height): (usize, usize), inset: usize, fields: &[Field]) -> Self {
        let over = width.min(height) >= LARGE;
        let size = if over { width.min(height) / 22 } else { SMALLEST };
        let font = Font::get(Weight::Regular, size.max(SMALLEST));
        let edge = MARGIN + if over { inset } else { 0 };
        let needed = fields.iter().map(|field| font.width(field.widest)).max().unwrap_or(0);
        let room = width.saturating_sub(2 * edge).max(needed);
        let lines = lines(&font, room, fields);
        Self { font, over, room, lines }
    }

    fn height(&self) -> usize {
        if self.lines.is_empty() { 0 } else { self.lines.len() * self.font.line_height() + MARGIN }
    }
}

/// Fields from left to right, line by line. The last of several in a line ends at the right edge; one that is wider
/// than a line has its name above its value.
fn lines(font: &Font, room: usize, fields: &[Field]) -> Vec<Vec<CaptionItem>> {
    let mut lines: Vec<Vec<CaptionItem>> = Vec::new();
    let mut next = None; // where another field of the same line would begin
    for (number, field) in fields.iter().enumerate() {
        let width = field.width(font);
        if width > room {
            lines.extend(wrap(font, &field.name, room).into_iter().map(|name| vec![CaptionItem::Name(name)]));
            lines.push(vec![CaptionItem::Value(number)]);
            next = None;
            continue;
        }
        let left = next.filter(|left| left + width <= room);
        match (left, lines.last_mut()) {
            (Some(left), Some(line)) => line.push(CaptionItem::Field(number, left)),
            _ => lines.push(vec![CaptionItem::Field(number, 0)]),
        }
        next = Some(left.unwrap_or(0) + width + between(font));
    }
    for line in lines.iter_mut().filter(|line| line.len() > 1) {
        if let Some(CaptionItem::Field(number, left)) = line.last_mut() {
            *left = room.saturating_sub(fields[*number].width(font));
        }
    }
    lines
}

/// The image with its caption. A small image grows a strip below, and is widened where the strip needs it; on a large one
/// the text lies over its top, `inset` pixels from the edge.
pub(super) fn caption(image: Canvas, inset: usize, fields: &[Field]) -> Canvas {
    let layout = CaptionLayout::of(image.size(), inset, fields);
    let (width, height) = image.size();
    let (mut image, corner) = if layout.over {
        let mut image = image;
        image.shade((inset, inset), (width.saturating_sub(2 * inset), layout.height()));
        (image, (inset + MARGIN, inset))
    } else {
        let mut taller = Canvas::filled(width.max(layout.room + 2 * MARGIN), height + layout.height(), STRIP);
        taller.put(((taller.width() - width) / 2, 0), &image);
        (taller, (MARGIN, height))
    };
    let font = &layout.font;
    for (number, line) in layout.lines.iter().enumerate() {
        let top = corner.1 + number * font.line_height();
        for part in line {
            match part {
                CaptionItem::Name(name) => font.draw(&mut image, (corner.0, top), PLAIN, name),
                CaptionItem::Value(field) => {
                    font.draw(&mut image, (corner.0, top), fields[*field].colour, &fields[*field].value);
                }
                CaptionItem::Field(field, left) => {
                    let (field, left) = (&fields[*field], corner.0 + left);
                    font.draw(&mut image, (left, top), PLAIN, &field.name);
                    font.draw(&mut image, (left + field.name_width(font), top), field.colour, &field.value);
                }
            }
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(reward: f32) -> Vec<Field> {
        vec![
            Field { widest: "99999", ..Field::number("step", Some(7.0)) },
            Field::word("truncated", "terminated", PLAIN),
            Field::number("reward", Some(reward)),
            Field::word("", "success", PLAIN),
            Field::number("is_grasped_by_both_fingers", None),
        ]
    }

    #[test]
    fn numbers_take_six_characters_at_most() {
        let font = Font::get(Weight::Regular, SMALLEST);
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
            assert!(font.width(expected) <= font.width(WIDEST_NUMBER) + between(&font), "{expected}");
        }
    }

    #[test]
    fn the_layout_does_not_depend_on_the_numbers() {
        for size in 1..400 {
            let [few, many] =
                [0.0, -12_345.0].map(|reward| CaptionLayout::of((size, size), 3, &fields(reward)));
            assert_eq!((few.lines, few.room, few.over), (many.lines, many.room, many.over));
        }
        let layout = CaptionLayout::of((128, 128), 3, &fields(0.5));
        let right = |field: usize| layout.room - fields(0.5)[field].width(&layout.font);
        use CaptionItem::{Field, Name, Value};
        let expected = [
            vec![Field(0, 0), Field(1, right(1))],
            vec![Field(2, 0), Field(3, right(3))],
            vec![Name("is_grasped_by_both_".into())],
            vec![Name("fingers".into())],
            vec![Value(4)],
        ];
        assert_eq!(layout.lines, expected, "a long name goes on in the next line");
    }

    #[test]
    fn small_images_grow_and_large_ones_do_not() {
        let captioned = |side| caption(Canvas::filled(side, side, [200; 3]), 3, &fields(0.5));
        let line = Font::get(Weight::Regular, SMALLEST).line_height();
        assert_eq!(captioned(128).size(), (128, 128 + 5 * line + MARGIN));
        assert_eq!(captioned(512).size(), (512, 512));
        let tiny = captioned(4);
        assert!(tiny.width() > 40, "a value is never cut: {:?}", tiny.size());
        assert_eq!(tiny.at(tiny.width() / 2, 2), [200; 3]);
        let small = captioned(128);
        assert!((0..128).all(|y| small.at(64, y) == [200; 3]), "nothing is drawn over a small image");
    }
}
