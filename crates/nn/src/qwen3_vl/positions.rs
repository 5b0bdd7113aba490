//! Positions of tokens in time, row and column.

use super::config::Config;
use super::error::VlmError;
use super::patches::{Kind, Visual};

/// Positions of a sequence: for each token its time, row and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Time, row and column of each token.
    pub axes: Vec<[i32; 3]>,
    /// The position of the next token after these.
    pub next: i32,
}

/// The positions of a sequence. Words count on; the tokens of a picture share a time and count rows and columns from
/// there, and words go on after the longer side.
///
/// # Errors
/// When the tokens of pictures are not those of the pictures at hand.
pub fn positions(ids: &[u32], visuals: &[Visual], config: &Config) -> Result<Positions, VlmError> {
    let merge = config.vision.merge;
    let slices = |kind: Kind| {
        let of_kind = visuals.iter().filter(move |visual| visual.kind == kind);
        of_kind.flat_map(move |visual| {
            let [pairs, rows, columns] = visual.grid;
            std::iter::repeat_n([rows / merge, columns / merge], pairs)
        })
    };
    let (mut images, mut videos) = (slices(Kind::Image), slices(Kind::Video));
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
            return Err(VlmError::Input("the prompt has fewer picture tokens than its pictures".into()));
        }
        let places = (0..rows as i32).flat_map(|row| (0..columns as i32).map(move |column| (row, column)));
        axes.extend(places.map(|(row, column)| [next, next + row, next + column]));
        next += rows.max(columns) as i32;
    }
    if images.next().is_some() || videos.next().is_some() {
        return Err(VlmError::Input("the prompt has fewer picture tokens than its pictures".into()));
    }
    Ok(Positions { axes, next })
}

fn too_few() -> VlmError {
    VlmError::Input("the prompt has more picture tokens than pictures".into())
}
