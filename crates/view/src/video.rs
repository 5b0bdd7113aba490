//! Videos of episodes, written in plain Rust.
//!
//! [`Video`] is one file: pictures go in, a GIF, an animated PNG or an MP4 comes out, by the end of its name.
//! [`VideoRecorder`] sits beside the environments: fed every step, it tiles the wanted ones, writes step, reward,
//! success and named facts into the picture, frames the outcome of each episode, and leaves one file per flush under
//! `{directory}/seed_{seed}/{n}.gif`. It can write from a thread of its own, so that stepping does not wait.
//!
//! Which format? A PickCube episode of 50 frames at 128x128, with captions:
//!
//! | | bytes | off by, of 255 | browsers | README | |
//! |---|---:|---:|---|---|---|
//! | `.gif` | 75,366 | 0.2 | yes | yes | the default; large for noisy cameras |
//! | `.png` | 140,630 | 0 | yes | yes | exact, to measure on |
//! | `.mp4` | 37,358 | 2.4 | yes | no | for long or noisy videos |
//!
//! Each takes 20 to 60 milliseconds of one core, of which the environments see 1 to 2 when a thread writes.
//!
//! ```
//! use plaudit_core::{End, FrameShape, Frames, Obs, Step};
//! use plaudit_view::video::{Seen, VideoRecorder, VideoSettings};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # let obs = Obs::from_state(1, vec![0.0])?.with_camera("main", Frames::new(FrameShape::rgb(64, 64), vec![90; 64 * 64 * 3])?)?;
//! # let step = Step {
//! #     obs: obs.clone(), reward: vec![1.0], end: vec![End::Terminated], success: vec![true],
//! #     last: vec![(0, obs.clone())], facts: vec![],
//! # };
//! let mut recorder = VideoRecorder::new(VideoSettings::new(dir, 0, 20.0))?;
//! recorder.start(&obs)?; // what `reset` returned
//! recorder.step(Seen::from(&step))?; // what every `step` returned
//! let path = recorder.flush()?; // after each evaluation
//! assert_eq!(path, Some(dir.join("seed_0/0.gif")));
//! for video in recorder.close()? {
//!     println!("{} ({} frames)", video.path.display(), video.frames);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apng;
mod caption;
mod cell;
mod difference;
mod dither;
mod encode;
mod error;
mod font;
mod format;
mod gif;
mod h264;
mod mp4;
mod palette;
mod picture;
mod recorder;
mod staged;
mod thread;
mod tile;
mod writer;

pub use error::VideoError;
pub use format::VideoFormat;
pub use picture::{Picture, Rgb};
pub use recorder::{Seen, VideoRecorder, VideoSettings};
pub use thread::Stalls;
pub use tile::{tile, tile_frames};
pub use writer::{Video, VideoFile};
