//! Videos of episodes, written in plain Rust.
//!
//! [`Video`] is one file: images go in, an MP4 or an animated PNG comes out, by the end of its name.
//! [`VideoRecorder`] sits beside the environments: fed every step, it tiles the wanted ones, writes step, reward,
//! success and named facts into the image, frames the outcome of each episode, and leaves one file per flush under
//! `{directory}/seed_{seed}/{n}.mp4`. It can write from a thread of its own, so that stepping does not wait.
//! [`VideoTrack`] holds the curves under a video, kept beside it, for pages whose curves run in step with it.
//!
//! Which format? Frames of PickCube by a noisy script, at 128x128:
//!
//! | | bytes a frame | PSNR | browsers | README | |
//! |---|---:|---:|---|---|---|
//! | `.mp4` | 506 (without captions) | 36.7 dB | yes | no | the default |
//! | `.png` | 4,003 (with captions) | exact | yes | yes | to measure on, and for documents |
//!
//! A frame takes about a millisecond of one core, of which the environments see little when a thread writes.
//!
//! ```
//! use plaudit_core::{End, FrameShape, Frames, Obs, Step};
//! use plaudit_view::video::{StepView, VideoRecorder, VideoSettings};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # let obs = Obs::from_state(1, vec![0.0])?.with_camera("main", Frames::new(FrameShape::rgb(64, 64), vec![90; 64 * 64 * 3])?)?;
//! # let step = Step {
//! #     obs: obs.clone(), reward: vec![1.0], end: vec![End::Terminated], success: vec![true],
//! #     last: vec![(0, obs.clone())], facts: vec![], interventions: vec![],
//! # };
//! let mut recorder = VideoRecorder::new(VideoSettings::new(dir, 0, 20.0))?;
//! recorder.start(&obs)?; // what `reset` returned
//! recorder.step(StepView::from(&step))?; // what every `step` returned
//! let path = recorder.flush()?; // after each evaluation
//! assert_eq!(path, Some(dir.join("seed_0/0.mp4")));
//! for video in recorder.close()? {
//!     println!("{} ({} frames)", video.path.display(), video.frames);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apng;
mod caption;
mod cell;
mod difference;
mod encode;
mod error;
mod format;
mod mp4;
mod recorder;
mod row_queue;
mod thread;
mod tile;
mod track;
mod writer;

pub use error::VideoError;
pub use format::VideoFormat;
pub use plaudit_draw::{Canvas, Rgb};
pub use recorder::{StepView, VideoRecorder, VideoSettings};
pub use thread::Stalls;
pub use tile::{tile, tile_frames};
pub use track::{TrackError, TrackedEpisode, VideoTrack};
pub use writer::{Video, VideoFile};
