//! A contact sheet: frames in rows under headings, each with a coloured border and words below, and above all of them a title and
//! a legend that say what is shown.

use std::sync::Arc;

use crate::canvas::Canvas;
use crate::colour::{GREEN, GREY, INK, MUTED, PAPER, RED, Rgb};
use crate::font::{Font, Weight};
use crate::wrap::wrap;

/// The colour of a frame's border. What it means is written in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// Success.
    Green,
    /// Failure.
    Red,
    /// Neither, or not known.
    Grey,
    /// No border: what has a frame of its own.
    Plain,
}

impl Tint {
    /// Of a label: success or failure.
    #[must_use]
    pub fn of(success: bool) -> Self {
        if success { Self::Green } else { Self::Red }
    }

    /// What is drawn.
    #[must_use]
    pub fn colour(self) -> Rgb {
        match self {
            Self::Green => GREEN,
            Self::Red => RED,
            Self::Grey => GREY,
            Self::Plain => PAPER,
        }
    }
}

/// A sheet that can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct ContactSheet {
    /// What is shown.
    pub title: String,
    /// More about it, in smaller letters.
    pub about: String,
    /// What colours mean.
    pub legend: Vec<(Rgb, String)>,
    /// Frames in a row, at most.
    pub columns: usize,
    /// Rows under their headings, from top to bottom.
    pub groups: Vec<Group>,
}

/// Frames that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What they are; without one they follow the group above closely.
    pub heading: String,
    /// Frames; they take as many rows as they need.
    pub frames: Vec<SheetFrame>,
}

/// One frame of a sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetFrame {
    /// The image, as large as it is to be: see [`Canvas::fitted`].
    pub image: Canvas,
    /// The colour around it.
    pub tint: Tint,
    /// Lines below it. One that is too long goes on in the next.
    pub caption: Vec<String>,
}

const MARGIN: usize = 16;
/// Between frames.
const GAP: usize = 10;
/// Above a heading.
const ABOVE: usize = 14;
const BORDER: usize = 4;
/// A sheet is never narrower than a line of its title needs.
const NARROWEST: usize = 480;

/// The fonts of a sheet.
struct Fonts {
    title: Arc<Font>,
    heading: Arc<Font>,
    text: Arc<Font>,
}

/// An item and its position on the sheet.
enum SheetItem<'a> {
    Text { at: (usize, usize), font: Arc<Font>, colour: Rgb, text: String },
    Swatch { at: (usize, usize), side: usize, colour: Rgb },
    Frame { at: (usize, usize), frame: &'a SheetFrame },
}

/// Lays a sheet out from top to bottom.
struct SheetLayout<'a> {
    fonts: Fonts,
    /// Pixels between the margins.
    width: usize,
    top: usize,
    items: Vec<SheetItem<'a>>,
}

impl ContactSheet {
    /// Draws the sheet.
    #[must_use]
    pub fn draw(&self) -> Canvas {
        let layout = self.layout();
        let mut image = Canvas::filled(layout.width + 2 * MARGIN, layout.top + MARGIN, PAPER);
        for item in &layout.items {
            match item {
                SheetItem::Text { at, font, colour, text } => font.draw(&mut image, *at, *colour, text),
                SheetItem::Swatch { at, side, colour } => image.fill(*at, (*side, *side), *colour),
                SheetItem::Frame { at: (left, top), frame } => {
                    let (width, height) = frame.image.size();
                    let framed = (width + 2 * BORDER, height + 2 * BORDER);
                    image.fill((*left, *top), framed, frame.tint.colour());
                    image.put((left + BORDER, top + BORDER), &frame.image);
                }
            }
        }
        image
    }

    fn layout(&self) -> SheetLayout<'_> {
        let columns = self.columns.max(1);
        let widest = |group: &Group| group.frames.len().min(columns);
        let across = self.groups.iter().map(widest).max().unwrap_or(0);
        let column = self.column_width();
        let fonts = Fonts {
            title: Font::get(Weight::SemiBold, 22),
            heading: Font::get(Weight::SemiBold, 15),
            text: Font::get(Weight::Regular, 14),
        };
        let width = (across * (column + GAP)).saturating_sub(GAP).max(NARROWEST);
        let mut layout = SheetLayout { fonts, width, top: MARGIN, items: Vec::new() };
        layout.lines(&layout.fonts.title.clone(), INK, &self.title);
        layout.top += 2;
        layout.lines(&layout.fonts.text.clone(), MUTED, &self.about);
        layout.legend(&self.legend);
        for group in &self.groups {
            layout.group(group, columns, column);
        }
        layout
    }

    /// Pixels of a frame with its border, and of the words below it.
    fn column_width(&self) -> usize {
        let frames = self.groups.iter().flat_map(|group| &group.frames);
        frames.map(|frame| frame.image.width() + 2 * BORDER).max().unwrap_or(1)
    }
}

impl<'a> SheetLayout<'a> {
    fn text(&mut self, at: (usize, usize), font: &Arc<Font>, colour: Rgb, text: String) {
        self.items.push(SheetItem::Text { at, font: font.clone(), colour, text });
    }

    /// A text over the whole width.
    fn lines(&mut self, font: &Arc<Font>, colour: Rgb, text: &str) {
        for line in wrap(font, text, self.width) {
            self.text((MARGIN, self.top), font, colour, line);
            self.top += font.line_height();
        }
    }

    /// What colours mean, side by side where there is room.
    fn legend(&mut self, entries: &[(Rgb, String)]) {
        if entries.is_empty() {
            return;
        }
        let font = self.fonts.text.clone();
        let (side, line) = (12, font.line_height());
        self.top += 4;
        let mut left = MARGIN;
        for (colour, words) in entries {
            let width = side + 6 + font.width(words);
            if left > MARGIN && left + width > MARGIN + self.width {
                left = MARGIN;
                self.top += line;
            }
            self.items.push(SheetItem::Swatch {
                at: (left, self.top + (line - side) / 2),
                side,
                colour: *colour,
            });
            self.text((left + side + 6, self.top), &font, INK, words.clone());
            left += width + 20;
        }
        self.top += line;
    }

    fn group(&mut self, group: &'a Group, columns: usize, column: usize) {
        if !group.heading.is_empty() {
            self.top += ABOVE;
            let font = self.fonts.heading.clone();
            self.lines(&font, INK, &group.heading);
        }
        for frames in group.frames.chunks(columns) {
            self.top += GAP / 2;
            self.row(frames, column);
        }
    }

    /// One row of frames, the words of each under it.
    fn row(&mut self, frames: &'a [SheetFrame], column: usize) {
        let font = self.fonts.text.clone();
        let tallest = frames.iter().map(|frame| frame.image.height() + 2 * BORDER).max().unwrap_or(0);
        let mut most_lines = 0;
        for (number, frame) in frames.iter().enumerate() {
            let left = MARGIN + number * (column + GAP);
            self.items.push(SheetItem::Frame { at: (left, self.top), frame });
            let below = self.top + tallest + 2;
            let lines: Vec<String> =
                frame.caption.iter().flat_map(|text| wrap(&font, text, column)).collect();
            most_lines = most_lines.max(lines.len());
            for (line, text) in lines.into_iter().enumerate() {
                self.text((left, below + line * font.line_height()), &font, INK, text);
            }
        }
        self.top += tallest + 2 + most_lines * font.line_height();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tint: Tint, size: (usize, usize), caption: &[&str]) -> SheetFrame {
        let caption = caption.iter().map(|line| (*line).to_string()).collect();
        SheetFrame { image: Canvas::filled(size.0, size.1, [1, 2, 3]), tint, caption }
    }

    fn sheet(groups: Vec<Group>) -> ContactSheet {
        let legend = vec![(GREEN, "labelled success".into()), (RED, "labelled failure".into())];
        let (title, about) = ("Worst mistakes".into(), "scores above 0.5 count as success".into());
        ContactSheet { title, about, legend, columns: 3, groups }
    }

    fn many() -> ContactSheet {
        let long = "rank_0_env_12_episode_000017_success_and_a_very_long_name.pkl";
        let frames = vec![frame(Tint::Red, (128, 96), &["frame 3", long]); 7];
        sheet(vec![
            Group { heading: long.repeat(4), frames },
            Group { heading: String::new(), frames: vec![frame(Tint::Green, (128, 128), &[])] },
        ])
    }

    /// Corner and size of everything on a sheet.
    fn boxes(layout: &SheetLayout<'_>) -> Vec<[usize; 4]> {
        let of = |item: &SheetItem<'_>| match item {
            SheetItem::Text { at, font, text, .. } => [at.0, at.1, font.width(text), font.line_height()],
            SheetItem::Swatch { at, side, .. } => [at.0, at.1, *side, *side],
            SheetItem::Frame { at, frame } => {
                [at.0, at.1, frame.image.width() + 2 * BORDER, frame.image.height() + 2 * BORDER]
            }
        };
        layout.items.iter().map(of).collect()
    }

    #[test]
    fn nothing_overlaps_and_nothing_is_cut() {
        let sheet = many();
        let layout = sheet.layout();
        let (boxes, (width, height)) = (boxes(&layout), sheet.draw().size());
        for (number, [left, top, wide, tall]) in boxes.iter().enumerate() {
            assert!(
                left + wide + MARGIN <= width && top + tall + MARGIN <= height,
                "{number} leaves the sheet"
            );
            let apart = |other: &[usize; 4]| {
                left + wide <= other[0]
                    || other[0] + other[2] <= *left
                    || top + tall <= other[1]
                    || other[1] + other[3] <= *top
            };
            assert!(boxes[..number].iter().all(apart), "{number} lies over another: {boxes:?}");
        }
        let texts = layout.items.iter().filter_map(|item| match item {
            SheetItem::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let all: String = texts.collect();
        assert_eq!(all.matches("very_long_name.pkl").count(), 4 + 7, "every name is whole: {all}");
        for words in ["Worst mistakes", "count as success", "labelled success", "labelled failure"] {
            assert!(all.contains(words), "{words} is missing");
        }
    }

    #[test]
    fn borders_have_the_colour_of_their_tint() {
        let sheet = many();
        let image = sheet.draw();
        let mut tints = Vec::new();
        for item in &sheet.layout().items {
            if let SheetItem::Frame { at, frame } = item {
                assert_eq!(image.at(at.0, at.1), frame.tint.colour());
                assert_eq!(image.at(at.0 + BORDER, at.1 + BORDER), [1, 2, 3]);
                tints.push(frame.tint);
            }
        }
        assert_eq!((tints.len(), tints[0], tints[7]), (8, Tint::Red, Tint::Green));
        assert_eq!(image, sheet.draw(), "the same sheet gives the same bytes");
    }

    #[test]
    fn a_sheet_without_frames_still_says_what_it_is() {
        let image = sheet(Vec::new()).draw();
        assert!(image.width() >= NARROWEST && image.pixels().iter().any(|value| *value < 64));
        let bare = ContactSheet { columns: 0, title: String::new(), ..many() };
        assert!(bare.draw().width() >= NARROWEST);
    }
}
