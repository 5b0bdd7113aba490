//! Images into MP4 files: films of policies, and the cameras of LeRobot datasets.
//!
//! [`Encoder`] turns RGB images into H.264 (High profile, CABAC, 4:2:0, BT.601 in its narrow range), by rusty_h264 in Rust
//! alone. [`Muxer`] lays what it makes, or what lies in another file, into an MP4 with one video track.
//!
//! What this crate is not: it decodes nothing, and opens no file.
//!
//! ```
//! use std::io::Cursor;
//! use plaudit_mp4::{Encoder, Muxer, TICKS_PER_SEC};
//!
//! let mut encoder = Encoder::new((32, 16), 2)?;
//! let mut muxer = Muxer::new(Cursor::new(Vec::new()))?;
//! for shade in 0..10 {
//!     let sample = encoder.encode(&[25 * shade; 32 * 16 * 3])?;
//!     muxer.push(&sample.bytes, TICKS_PER_SEC / 10, sample.is_key)?;
//! }
//! let file = muxer.finish(encoder.size(), &encoder.config())?.into_inner();
//! assert_eq!(&file[4..8], b"ftyp");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encoder;
mod muxer;
mod yuv;

pub use encoder::{EncodeError, Encoder, LONGEST_SIDE, Sample};
pub use muxer::{Muxer, TICKS_PER_SEC};
