//! Collected episodes become training data.
//!
//! [`convert_images`] makes `train.pt` and `val.pt` for a classifier of single images, [`convert_windows`] makes
//! folders of labelled windows for a vision-language model. Both do what RLinf's
//! preprocessing scripts do, down to the order of samples: Python's random generator is here ([`PythonRandom`]), so the
//! same seed gives the same split. What they do beyond that:
//!
//! - they read every format ([`Recordings`](crate::recording::Recordings)), and say so when they cannot tell which it is;
//! - a file that cannot be used stops them, or is counted and listed, but is never dropped in silence;
//! - they compare the two splits they made ([`Leakage`]) and write what they found into the metadata;
//! - memory follows a budget: labels are read first, images when they are written;
//! - what they write appears whole or not at all.
//!
//! ```no_run
//! use std::path::Path;
//! use plaudit_data::convert::{ImageOptions, convert_images};
//!
//! let options = ImageOptions { fail_success_ratio: 3.0, ..ImageOptions::default() };
//! let report = convert_images(
//!     Path::new("logs/run/collected_data"), Path::new("data/train.pt"), Path::new("data/val.pt"), &options, &|_| {},
//! )?;
//! assert_eq!(report.leakage.shared_episodes, 0);
//! # Ok::<(), plaudit_data::convert::ConvertError>(())
//! ```

mod error;
mod fingerprint;
mod images;
mod leakage;
mod leftovers;
mod origins;
mod progress;
mod python_json;
mod python_random;
mod sampling;
mod scan;
mod split;
mod stored;
mod windows;

pub use crate::recording::{BadFile, BadFiles, ChannelOrder, FileProblem};
pub use error::{ConvertError, ConvertOption};
pub use images::{ImageFormat, ImageOptions, ImageReport, convert_images};
pub use leakage::{Leakage, NEAR_BITS, NEAR_LEVELS};
pub use progress::{OnProgress, Progress, Stage};
pub use python_random::PythonRandom;
pub use windows::{
    RecordedArguments, WindowOptions, WindowReport, WindowScore, convert_windows, window_prompt,
};

pub(crate) use fingerprint::Fingerprint;
pub(crate) use leakage::FingerprintedImage;
pub(crate) use origins::Origins;
pub(crate) use sampling::sample;
pub(crate) use scan::scan;
pub use split::FramePick;
pub(crate) use split::{Choice, ChosenFrames, balance, cut_lone_blocks, split};
