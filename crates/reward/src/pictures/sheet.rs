//! A contact sheet: pictures in rows, each with a border that says what it is and words below.

use plaudit_core::FrameShape;

use super::canvas::{self, Canvas, Rgb};
use super::{Png, font};

/// What a border says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// Success.
    Success,
    /// Failure.
    Failure,
    /// Neither.
    Plain,
}

impl Tint {
    /// Of a label.
    #[must_use]
    pub fn of(success: bool) -> Self {
        if success { Self::Success } else { Self::Failure }
    }

    fn colour(self) -> Rgb {
        match self {
            Self::Success => canvas::GREEN,
            Self::Failure => canvas::RED,
            Self::Plain => canvas::GREY,
        }
    }
}

/// One picture of a sheet.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its size.
    pub shape: FrameShape,
    /// Its pixels.
    pub pixels: Vec<u8>,
    /// The colour around it.
    pub tint: Tint,
    /// Lines below it.
    pub words: Vec<String>,
}

/// The side of a picture on a sheet.
const SIDE: usize = 128;
const BORDER: usize = 3;
const GAP: usize = 6;
/// Pixels of one dot of a letter.
const SCALE: usize = 1;
const LINE: usize = (font::HEIGHT + 3) * SCALE;

/// Draws rows of pictures, each row under its title.
#[must_use]
pub fn sheet(rows: &[(String, Vec<Cell>)]) -> Png {
    let cells = || rows.iter().flat_map(|(_, cells)| cells);
    let words = cells().map(|cell| cell.words.len()).max().unwrap_or(0);
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0).max(1);
    let (across, title) = (SIDE + 2 * BORDER + GAP, 2 * LINE + GAP);
    let down = SIDE + 2 * BORDER + words * LINE + GAP;
    let mut canvas = Canvas::new(GAP + rows.len() * (title + down), GAP + columns * across);
    for (number, (name, cells)) in rows.iter().enumerate() {
        let top = GAP + number * (title + down);
        canvas.write(top + GAP, GAP, &canvas::fitting(name, columns * across, 2), 2, canvas::INK);
        for (column, cell) in cells.iter().enumerate() {
            draw(&mut canvas, top + title, GAP + column * across, cell);
        }
    }
    canvas.png()
}

fn draw(canvas: &mut Canvas, top: usize, left: usize, cell: &Cell) {
    let framed = SIDE + 2 * BORDER;
    canvas.fill(top..top + framed, left..left + framed, cell.tint.colour());
    canvas.paste(top + BORDER, left + BORDER, SIDE, cell.shape, &cell.pixels);
    for (line, words) in cell.words.iter().enumerate() {
        let row = top + framed + 3 + line * LINE;
        canvas.write(row, left, &canvas::fitting(words, framed, SCALE), SCALE, canvas::INK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_room_for_everything() {
        let cell = |words: usize| Cell {
            shape: FrameShape::rgb(2, 2),
            pixels: vec![9; 12],
            tint: Tint::of(true),
            words: vec!["p 0.97".into(); words],
        };
        let png = sheet(&[("first".into(), vec![cell(2), cell(1)]), ("second".into(), vec![])]);
        assert_eq!((png.height, png.width), (6 + 2 * (22 + 156), 6 + 2 * 140));
        assert_eq!(&png.bytes[1..4], b"PNG");
        assert_eq!(sheet(&[]).height, 6);
    }
}
