//! A decoder somewhere in a video.

use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::colour::Yuv;
use super::{Decode, Video, VideoError};

/// A decoder of a video, and the sample that it takes next.
pub(super) struct Decoding {
    pub(super) next: usize,
    file: File,
    decoder: Box<dyn Decode>,
}

impl fmt::Debug for Decoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoding").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Decoding {
    /// Before a keyframe.
    pub(super) fn at(video: &Video, key: usize) -> Result<Self, String> {
        let file = File::open(&video.path).map_err(|error| error.to_string())?;
        Ok(Self { next: key, file, decoder: video.new_decoder()? })
    }

    /// The same decoder before a keyframe of another video; a new one where it cannot be used for that.
    pub(super) fn moved(mut self, video: &Video, key: usize) -> Result<Self, String> {
        if !self.decoder.restart(&video.track.codec, &video.config) {
            return Self::at(video, key);
        }
        let file = File::open(&video.path).map_err(|error| error.to_string())?;
        Ok(Self { next: key, file, ..self })
    }

    /// Decodes samples up to and with one, and hands over the planes of each frame with the sample that it was.
    pub(super) fn to(
        &mut self,
        video: &Video,
        last: usize,
        take: &mut dyn FnMut(usize, &Yuv) -> Result<(), VideoError>,
    ) -> Result<(), VideoError> {
        while self.next <= last {
            let sample = self.next;
            let failed = |why: String| video.undecodable(video.shown_at(sample), why);
            let bytes = video.sample(&self.file, sample)?;
            // A decoder that panics over damaged bytes is one more damaged file.
            let decoded = catch_unwind(AssertUnwindSafe(|| self.decoder.decode(sample, &bytes)));
            let decoded = decoded.unwrap_or_else(|_| Err("its bytes are damaged".into())).map_err(failed)?;
            for (sample, planes) in decoded {
                video.check_planes(&planes).map_err(failed)?;
                take(sample, &planes)?;
            }
            self.next += 1;
        }
        Ok(())
    }
}
