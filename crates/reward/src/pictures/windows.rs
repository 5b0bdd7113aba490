//! Windows as pictures: frames from left to right, one row for each view.

use plaudit_core::FrameShape;
use plaudit_data::windows::WindowFrame;

use super::Png;
use super::canvas::Canvas;
use super::sheet::{Cell, Tint, sheet};

/// The side of a frame.
const SIDE: usize = 96;
const GAP: usize = 2;

/// The frames of a window, by view.
#[must_use]
pub fn strip(views: &[Vec<WindowFrame>]) -> Png {
    let columns = views.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let pitch = SIDE + GAP;
    let mut canvas = Canvas::new(views.len().max(1) * pitch - GAP, columns * pitch - GAP);
    for (row, view) in views.iter().enumerate() {
        for (column, frame) in view.iter().enumerate() {
            let shape = FrameShape::rgb(frame.height, frame.width);
            canvas.paste(row * pitch, column * pitch, SIDE, shape, &frame.rgb);
        }
    }
    canvas.png()
}

/// Windows under their titles, each a row of its frames, view after view.
#[must_use]
pub fn window_sheet(windows: &[(String, Vec<Vec<WindowFrame>>)]) -> Png {
    let row = |(title, views): &(String, Vec<Vec<WindowFrame>>)| {
        let cells = views.iter().enumerate().flat_map(|(view, frames)| {
            frames.iter().enumerate().map(move |(at, frame)| Cell {
                shape: FrameShape::rgb(frame.height, frame.width),
                pixels: frame.rgb.clone(),
                tint: Tint::Plain,
                words: vec![format!("view {view} frame {at}")],
            })
        });
        (title.clone(), cells.collect())
    };
    sheet(&windows.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_has_a_row_for_each_view() {
        let frame = WindowFrame { height: 2, width: 2, rgb: vec![200; 12] };
        let views = vec![vec![frame.clone(); 5], vec![frame; 5]];
        let png = strip(&views);
        assert_eq!((png.height, png.width), (2 * 98 - 2, 5 * 98 - 2));
        assert_eq!(&strip(&[]).bytes[1..4], b"PNG");
        let sheet = window_sheet(&[("is positive".into(), views)]);
        assert!(sheet.width > 10 * 128 && sheet.height > 128);
    }
}
