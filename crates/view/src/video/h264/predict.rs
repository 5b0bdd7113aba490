//! What a block is expected to look like from its edges (clause 8.3 of the standard).

use super::yuv::Plane;

/// How a 16x16 block goes on from its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Down from above.
    Vertical = 0,
    /// Right from the left.
    Horizontal = 1,
    /// All the mean of both.
    Mean = 2,
}

/// The prediction of the 16x16 block at (`x`, `y`) that fits `source` best.
pub(super) fn luma(source: &Plane, known: &Plane, x: usize, y: usize) -> (Mode, [i32; 256]) {
    let above = (y > 0).then(|| std::array::from_fn::<i32, 16, _>(|n| known.at(x + n, y - 1)));
    let left = (x > 0).then(|| std::array::from_fn::<i32, 16, _>(|n| known.at(x - 1, y + n)));
    let mean = mean(above.as_ref().map(<[_; 16]>::as_slice), left.as_ref().map(<[_; 16]>::as_slice));
    let mut best = (Mode::Mean, [mean; 256]);
    let cost = |prediction: &[i32; 256]| -> i32 {
        (0..256).map(|n| (source.at(x + n % 16, y + n / 16) - prediction[n]).abs()).sum()
    };
    let mut least = cost(&best.1);
    let vertical = above.map(|above| (Mode::Vertical, std::array::from_fn(|n| above[n % 16])));
    let horizontal = left.map(|left| (Mode::Horizontal, std::array::from_fn(|n| left[n / 16])));
    for candidate in vertical.into_iter().chain(horizontal) {
        let cost = cost(&candidate.1);
        if cost < least {
            (best, least) = (candidate, cost);
        }
    }
    best
}

/// The mean that each quarter of the 8x8 colour block at (`x`, `y`) is expected to be.
pub(super) fn chroma(known: &Plane, x: usize, y: usize) -> [i32; 4] {
    std::array::from_fn(|quarter| {
        let (right, lower) = (quarter % 2, quarter / 2);
        let above = (y > 0).then(|| std::array::from_fn::<i32, 4, _>(|n| known.at(x + right * 4 + n, y - 1)));
        let left = (x > 0).then(|| std::array::from_fn::<i32, 4, _>(|n| known.at(x - 1, y + lower * 4 + n)));
        let (above, left) = (above.as_ref().map(<[_; 4]>::as_slice), left.as_ref().map(<[_; 4]>::as_slice));
        match (right, lower) {
            (1, 0) if above.is_some() => mean(above, None),
            (0, 1) if left.is_some() => mean(None, left),
            _ => mean(above, left),
        }
    })
}

/// The rounded mean of the edges there are.
fn mean(above: Option<&[i32]>, left: Option<&[i32]>) -> i32 {
    let edges = above.into_iter().chain(left).flatten();
    let count = edges.clone().count() as i32;
    if count == 0 { 128 } else { (edges.sum::<i32>() + count / 2) / count }
}
