//! Why a video cannot be read.

use std::io;

/// Why a video cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The container ends before something that it promises.
    #[error("cut short: {what} should reach to byte {end}, and the file has {len}")]
    Cut {
        /// What is not whole.
        what: String,
        /// Where it would end.
        end: u64,
        /// How long the file is.
        len: u64,
    },
    /// Something in the container is not as MP4 has it.
    #[error("`{part}` at byte {at}: expected {expected}, found {found}")]
    Malformed {
        /// Which box.
        part: String,
        /// Where its content begins.
        at: u64,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A link that leads out of the dataset's folder.
    #[error("it is a link that leads out of the dataset's folder; put the file itself there")]
    Outside,
    /// There is no video in the file, or it is no MP4.
    #[error("no video in it; MP4 files with a video track are read")]
    NoVideo,
    /// Nothing here decodes this.
    #[error(
        "no decoder for {codec}; AV1 and H.264 in 8 bits are decoded here, anything else by `ffmpeg`, which is not installed"
    )]
    NoDecoder {
        /// The codec, or what of it is not decoded.
        codec: String,
    },
    /// Frames of a size that nobody meant.
    #[error("frames of {width}x{height}, where {most} pixels are allowed")]
    TooLarge {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
        /// Pixels that are decoded at most.
        most: u64,
    },
    /// The frames of a video that is too short.
    #[error("frames {first} to {last} are asked for, and the video has {frames}")]
    Frames {
        /// The first frame that was asked for.
        first: usize,
        /// The last one.
        last: usize,
        /// How many there are.
        frames: usize,
    },
    /// Bytes that the decoder cannot follow.
    #[error("frame {frame} cannot be decoded ({decoder}): {why}")]
    Decode {
        /// Which frame, in the order in which they are shown.
        frame: usize,
        /// Who decodes.
        decoder: &'static str,
        /// What it said.
        why: String,
    },
}
