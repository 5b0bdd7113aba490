//! Positions of tokens in time, row and column.

use super::config::{Config, VisionConfig};
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

/// Pairs of frames whose tokens follow one another without words between them.
struct VisualRun {
    /// When each pair is shown, after the first.
    times: Vec<i32>,
    rows: usize,
    columns: usize,
}

/// What visuals become in a prompt: an image is a run, and so is a video whose times are positions; else each of its pairs is.
fn runs(visual: &Visual, vision: &VisionConfig) -> Vec<VisualRun> {
    let [pairs, rows, columns] = visual.grid;
    let run = |times| VisualRun { times, rows: rows / vision.merge, columns: columns / vision.merge };
    match vision.tokens_per_second.filter(|_| visual.kind == VisualKind::Video) {
        Some(per_second) => {
            // In single precision, as torch has it.
            let interval = per_second as f32 * visual.seconds_per_pair as f32;
            vec![run((0..pairs).map(|pair| (pair as f32 * interval) as i32).collect())]
        }
        None => (0..pairs).map(|_| run(vec![0])).collect(),
    }
}

/// The positions of a sequence. Text tokens count up; the tokens of an image share a time and count rows and columns from
/// there, and text goes on after the longer side.
///
/// # Errors
/// When the visual tokens do not match the images and videos.
pub fn positions(ids: &[u32], visuals: &[Visual], config: &Config) -> Result<Positions, VlmError> {
    let runs = |kind: VisualKind| {
        let of_kind = visuals.iter().filter(move |visual| visual.kind == kind);
        of_kind.flat_map(|visual| runs(visual, &config.vision))
    };
    let (mut images, mut videos) = (runs(VisualKind::Image), runs(VisualKind::Video));
    let mut axes = Vec::with_capacity(ids.len());
    let (mut next, mut last) = (0, -1);
    while let Some(id) = ids.get(axes.len()).copied() {
        let run = if id == config.image_token {
            images.next()
        } else if id == config.video_token {
            videos.next()
        } else {
            axes.push([next; 3]);
            last = last.max(next);
            next += 1;
            continue;
        };
        let Some(VisualRun { times, rows, columns }) = run else { return Err(too_few()) };
        let tokens = times.len() * rows * columns;
        if ids[axes.len()..].iter().take_while(|other| **other == id).count() < tokens {
            return Err(VlmError::Input(
                "the prompt has fewer visual tokens than its images and videos need".into(),
            ));
        }
        for time in times {
            let coordinates =
                (0..rows as i32).flat_map(|row| (0..columns as i32).map(move |column| (row, column)));
            axes.extend(coordinates.map(|(row, column)| [next + time, next + row, next + column]));
            last = last.max(next + time);
        }
        next += rows.max(columns) as i32;
        last = last.max(next - 1);
    }
    if images.next().is_some() || videos.next().is_some() {
        return Err(VlmError::Input(
            "the prompt has fewer visual tokens than its images and videos need".into(),
        ));
    }
    Ok(Positions { axes, next: last + 1 })
}

fn too_few() -> VlmError {
    VlmError::Input("the prompt has more visual tokens than its images and videos need".into())
}
