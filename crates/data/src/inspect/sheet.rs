//! A contact sheet: a handful of episodes as one picture.

use std::path::Path;

use super::collection::{Collection, Part};
use super::error::{InspectError, Unusable};
use super::recorded::{Recorded, Unit};
use super::report::{Pick, Report};

/// How the sheet is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetOptions {
    /// Frames of each episode: the first, the last, and others evenly between.
    pub columns: usize,
    /// The side of a frame in pixels.
    pub side: usize,
}

impl Default for SheetOptions {
    fn default() -> Self {
        Self { columns: 5, side: 128 }
    }
}

const BORDER: usize = 4;
const GAP: usize = 4;
const PAPER: [u8; 3] = [24, 24, 27];
const GREEN: [u8; 3] = [34, 197, 94];
const RED: [u8; 3] = [239, 68, 68];
const GREY: [u8; 3] = [113, 113, 122];

/// Draws what a report picked, as a PNG: a row for each episode (or window), its first frame to its last, with a border
/// that is green where a frame is labelled a success and red where it is not. Of labelled images it shows some of each.
///
/// # Errors
/// When a file is gone, or there are no images at all.
pub fn contact_sheet(path: &Path, report: &Report, options: &SheetOptions) -> Result<Vec<u8>, InspectError> {
    let collection = Collection::find(path)?;
    let mut rows = Vec::new();
    for pick in &report.picks {
        let wrong = |error: Unusable| InspectError::Sheet { why: format!("{}: {error}", pick.file) };
        let part = collection.parts.iter().find(|part| ends_with(part, pick));
        let Some(part) = part else { return Err(wrong(Unusable::Gone)) };
        let read = part.read().map_err(wrong)?;
        if let Some(recorded) = read.get(pick.number) {
            rows.extend(lines(recorded, options).map_err(wrong)?);
        }
    }
    if rows.is_empty() {
        return Err(InspectError::Sheet { why: "there are no images".into() });
    }
    encode(&rows, options)
}

fn ends_with(part: &Part, pick: &Pick) -> bool {
    part.path.ends_with(&pick.file)
}

/// One frame with its border.
struct Cell {
    pixels: Vec<u8>,
    border: [u8; 3],
}

/// The rows that one thing takes: one, or several of a pile of images.
fn lines(recorded: &Recorded, options: &SheetOptions) -> Result<Vec<Vec<Cell>>, Unusable> {
    let Some(views) = recorded.cameras.first() else { return Ok(Vec::new()) };
    let columns = options.columns.max(1);
    let cell = |at: usize| {
        let pixels = views.pictures[at].pixels()?.fitted(options.side, PAPER);
        Ok(Cell { pixels, border: colour(recorded, at) })
    };
    let line = |places: Vec<usize>| places.into_iter().map(cell).collect::<Result<Vec<_>, Unusable>>();
    if recorded.unit() != Unit::Images {
        let count = views.pictures.len();
        let places: Vec<usize> = (0..count).collect();
        return Ok(vec![line(
            super::spread(&places, Some(columns.min(count))).into_iter().copied().collect(),
        )?]);
    }
    let of = |label: bool| -> Vec<usize> {
        let labelled = recorded.labels.iter().enumerate().filter(|(_, found)| **found == Some(label));
        let places: Vec<usize> = labelled.map(|(at, _)| at).filter(|at| *at < views.pictures.len()).collect();
        super::spread(&places, Some((2 * columns).min(places.len()))).into_iter().copied().collect()
    };
    let rows = [true, false]
        .into_iter()
        .flat_map(|label| of(label).chunks(columns).map(<[usize]>::to_vec).collect::<Vec<_>>());
    rows.map(line).collect()
}

fn colour(recorded: &Recorded, at: usize) -> [u8; 3] {
    match (recorded.labels.get(at).copied().flatten(), recorded.verdict.as_deref()) {
        (Some(true), _) | (None, Some("positive")) => GREEN,
        (Some(false), _) | (None, Some("negative")) => RED,
        _ => GREY,
    }
}

fn encode(rows: &[Vec<Cell>], options: &SheetOptions) -> Result<Vec<u8>, InspectError> {
    let step = options.side + 2 * BORDER + GAP;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1);
    let (width, height) = (columns * step + GAP, rows.len() * step + GAP);
    let mut pixels = PAPER.repeat(width * height);
    for (row, cells) in rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            paste(&mut pixels, width, [GAP + row * step, GAP + column * step], cell, options.side);
        }
    }
    let failed = |error: png::EncodingError| InspectError::Sheet { why: error.to_string() };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

fn paste(sheet: &mut [u8], width: usize, [top, left]: [usize; 2], cell: &Cell, side: usize) {
    let framed = side + 2 * BORDER;
    for y in 0..framed {
        let start = ((top + y) * width + left) * 3;
        let line = &mut sheet[start..start + framed * 3];
        line.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&cell.border));
        if (BORDER..BORDER + side).contains(&y) {
            let from = (y - BORDER) * side * 3;
            line[BORDER * 3..(BORDER + side) * 3].copy_from_slice(&cell.pixels[from..from + side * 3]);
        }
    }
}
