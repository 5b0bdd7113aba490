//! A camera's image as policies see it: the square in its middle, scaled.

use plaudit_core::{FrameShape, Frames};

/// The largest part from the middle that has the wanted proportions, scaled to `shape` by averaging over areas (or
/// repeating pixels where it grows).
pub(crate) fn square(frame: &Frames, shape: FrameShape) -> Frames {
    if frame.shape == shape {
        return frame.clone();
    }
    let FrameShape { height, width, channels } = frame.shape;
    // The cut has the proportions of the wanted shape.
    let scale = (height as f64 / shape.height as f64).min(width as f64 / shape.width as f64);
    let (cut_height, cut_width) = (scale * shape.height as f64, scale * shape.width as f64);
    let (top, left) = ((height as f64 - cut_height) / 2.0, (width as f64 - cut_width) / 2.0);
    let image = frame.image(0);
    let span = |from: f64, index: usize, most: usize| {
        let begin = ((from + scale * index as f64).round() as usize).min(most - 1);
        let end = ((from + scale * (index + 1) as f64).round() as usize).clamp(begin + 1, most);
        begin..end
    };
    let mut pixels = Vec::with_capacity(shape.bytes());
    for y in 0..shape.height {
        let rows = span(top, y, height);
        for x in 0..shape.width {
            let columns = span(left, x, width);
            let count = (rows.len() * columns.len()) as u32;
            for channel in 0..shape.channels {
                let places = rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
                let value =
                    |(row, column)| u32::from(image[(row * width + column) * channels + channel % channels]);
                let sum: u32 = places.map(value).sum();
                pixels.push(((sum + count / 2) / count) as u8);
            }
        }
    }
    Frames { shape, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_square_is_averaged() {
        // Four columns and two rows of grey; the middle two columns are 10, 20 over 30, 40.
        let rows = [[0u8, 10, 20, 99], [0, 30, 40, 99]];
        let pixels = rows.concat().into_iter().flat_map(|grey| [grey; 3]).collect();
        let frame = Frames::new(FrameShape::rgb(2, 4), pixels).unwrap();
        assert_eq!(square(&frame, FrameShape::rgb(1, 1)).pixels, [25; 3]);
        assert_eq!(square(&frame, FrameShape::rgb(2, 2)).image(0)[..6], [10, 10, 10, 20, 20, 20]);
        let grown = square(&frame, FrameShape::rgb(4, 4));
        assert_eq!(grown.pixels.len(), 48);
        assert_eq!(square(&frame, frame.shape), frame);
    }
}
