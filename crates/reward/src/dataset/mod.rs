//! What a classifier learns from: labelled frames in place, put into batches.
//!
//! [`Frames`] is one split (training or validation): frames of one or more recordings, each with an image for every
//! [`ViewKey`] and a label. Pixels stay bytes in mapped files until a [`Batch`] is made of them. [`check`] refuses what
//! nothing can be learned from, and [`Manifest`] records what was learned from, so that a model can say it later.

mod batch;
mod decidable;
mod error;
mod frames;
mod manifest;
mod progress;
mod time_warp;
mod view;

pub use batch::Batch;
pub(crate) use batch::PixelEdit;
pub use decidable::keep_decidable;
pub use error::DatasetError;
pub use frames::{ClassBalance, Frames, Origin};
pub use manifest::{Manifest, SplitManifest, pixels_sha256};
pub use progress::ProgressLabels;
pub use time_warp::TimeWarp;
pub use view::ViewKey;

/// Refuses a training part that teaches nothing.
///
/// # Errors
/// When there are no frames, or all have the same label.
pub fn check(train: &Frames) -> Result<(), DatasetError> {
    if train.is_empty() {
        return Err(DatasetError::Empty { part: "training" });
    }
    let balance = train.balance();
    if balance.successes == 0 || balance.failures == 0 {
        let (missing, found) =
            if balance.successes == 0 { ("success", "failure") } else { ("failure", "success") };
        return Err(DatasetError::OneClass { frames: train.len(), found, missing });
    }
    Ok(())
}
