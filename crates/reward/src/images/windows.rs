//! Windows as images: frames from left to right, one row for each view.

use plaudit_core::FrameShape;
use plaudit_data::windows::WindowFrame;
use plaudit_draw::colour::PAPER;
use plaudit_draw::{Canvas, ContactSheet, Group, SheetFrame, Tint};

use super::Png;

/// The longer side of a frame.
const SIDE: usize = 96;
const GAP: usize = 2;
/// Frames in a row of a sheet: a longer window goes on in the next.
const COLUMNS: usize = 8;

/// The frames of a window, by view.
#[must_use]
pub fn window_strip(views: &[Vec<WindowFrame>]) -> Png {
    let columns = views.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let pitch = SIDE + GAP;
    let mut image = Canvas::filled(columns * pitch - GAP, views.len().max(1) * pitch - GAP, PAPER);
    for (row, view) in views.iter().enumerate() {
        for (column, frame) in view.iter().enumerate() {
            let small = fitted(frame);
            let middle = [small.width(), small.height()].map(|side| (SIDE - side.min(SIDE)) / 2);
            image.put((column * pitch + middle[0], row * pitch + middle[1]), &small);
        }
    }
    Png::from(&image)
}

/// A window on a sheet.
#[derive(Clone, Debug)]
pub struct SheetWindow {
    /// What is written above it.
    pub heading: String,
    /// Its label: `positive`, `negative`, or neither.
    pub label: String,
    /// Its frames, by view.
    pub views: Vec<Vec<WindowFrame>>,
}

/// The windows that a judge was surest of, and wrong: each under its heading, a row of frames for each view.
#[must_use]
pub fn window_sheet(windows: &[SheetWindow]) -> Png {
    let groups = windows.iter().flat_map(|window| {
        window.views.iter().enumerate().map(move |(view, frames)| Group {
            heading: if view == 0 { window.heading.clone() } else { String::new() },
            frames: frames.iter().enumerate().map(|(at, frame)| shown(window, view, at, frame)).collect(),
        })
    });
    let labels = [(Tint::Green, "positive"), (Tint::Red, "negative"), (Tint::Grey, "unclear")];
    let sheet = ContactSheet {
        title: "Windows that the judge gets wrong".into(),
        about: "The surest first, each with what the judge says and how likely it calls that. Frames run from left to right; \
                each view has its own row. The border is the label of the window."
            .into(),
        legend: labels.map(|(tint, label)| (tint.colour(), format!("labelled {label}"))).into(),
        columns: COLUMNS,
        groups: groups.collect(),
    };
    Png::from(&sheet.draw())
}

fn tint(label: &str) -> Tint {
    match label {
        "positive" => Tint::Green,
        "negative" => Tint::Red,
        _ => Tint::Grey,
    }
}

fn fitted(frame: &WindowFrame) -> Canvas {
    Canvas::fitted(FrameShape::rgb(frame.height, frame.width), &frame.rgb, SIDE)
}

fn shown(window: &SheetWindow, view: usize, at: usize, frame: &WindowFrame) -> SheetFrame {
    let is_only = window.views.len() == 1;
    let caption = if is_only { format!("frame {at}") } else { format!("view {view}, frame {at}") };
    SheetFrame { image: fitted(frame), tint: tint(&window.label), caption: vec![caption] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_has_a_row_for_each_view() {
        let frame = WindowFrame { height: 2, width: 2, rgb: vec![200; 12] };
        let views = vec![vec![frame.clone(); 5], vec![frame; 5]];
        let png = window_strip(&views);
        assert_eq!((png.height, png.width), (2 * 98 - 2, 5 * 98 - 2));
        assert_eq!(&window_strip(&[]).bytes[1..4], b"PNG");
        let sheet = window_sheet(&[SheetWindow {
            heading: "called negative".into(),
            label: "positive".into(),
            views,
        }]);
        assert!(sheet.width > 5 * 96 && sheet.height > 2 * 96);
    }
}
