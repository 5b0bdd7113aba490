//! What every format does.

use std::io;

use plaudit_draw::Canvas;
use plaudit_pyfiles::AtomicFile;

/// Turns images into the bytes of a file.
pub(super) trait Encode: Send {
    /// Adds an image that is shown for `secs` seconds. All have the same size.
    fn image(&mut self, image: &Canvas, secs: f64) -> io::Result<()>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> io::Result<AtomicFile>;
}
