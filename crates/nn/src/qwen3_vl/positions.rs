//! Positions of tokens in time, row and column.

use super::config::Config;
use super::error::VlmError;
use super::patches::{Visual, VisualKind};

/// Positions of a sequence: for each token its time, row and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Time, row and column of each token.
    pub axes: Vec<[i32; 3]>,
    /// The position of the next token after these.
    pub next: i32,
}

/// The positions of a sequence. Text tokens count up; the tokens of an image share a time and count rows and columns from
/// there, and text goes on after the longer side.
///
/// # Errors
/// When the visual tokens do not match the images and videos.
pub fn positions(ids: &[u32], visuals: &[Visual], config: &Config) -> Result<Positions, VlmError> {
    let merge = config.vision.merge;
    let slices = |kind: VisualKind| {
        let of_kind = visuals.iter().filter(move |visual| visual.kind == kind);
        of_kind.flat_map(move |visual| {
            let [pairs, rows, columns] = visual.grid;
            std::iter::repeat_n([rows / merge, columns / merge], pairs)
        })
    };
    let (mut images, mut videos) = (slices(VisualKind::Image), slices(VisualKind::Video));
    let mut axes = Vec::with_capacity(ids.len());
    let mut next = 0;
    while let Some(id) = ids.get(axes.len()).copied() {
        let slice = if id == config.image_token {
            images.next()
        } else if id == config.video_token {
            videos.next()
        } else {
            axes.push([next; 3]);
            next += 1;
            continue;
        };
        let Some([rows, columns]) = slice else { return Err(too_few()) };
        if ids[axes.len()..].iter().take_while(|other| **other == id).count() < rows * columns {
            return Err(VlmError::Input(
                "the prompt has fewer visual tokens than its images and videos need".into(),
            ));
        }
        let coordinates =
            (0..rows as i32).flat_map(|row| (0..columns as i32).map(move |column| (row, column)));
        axes.extend(coordinates.map(|(row, column)| [next, next + row, next + column]));
        next += rows.max(columns) as i32;
    }
    if images.next().is_some() || videos.next().is_some() {
        return Err(VlmError::Input(
            "the prompt has fewer visual tokens than its images and videos need".into(),
        ));
    }
    Ok(Positions { axes, next })
}

fn too_few() -> VlmError {
    VlmError::Input("the prompt has more visual tokens than its images and videos need".into())
}
