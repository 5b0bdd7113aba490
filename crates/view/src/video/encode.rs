//! What every format does.

use std::fs::File;
use std::io;

use super::picture::Picture;

/// Turns pictures into the bytes of a file.
pub(super) trait Encode: Send {
    /// Adds a picture that is shown for `secs` seconds. All have the same size.
    fn picture(&mut self, picture: &Picture, secs: f64) -> io::Result<()>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> io::Result<File>;
}
