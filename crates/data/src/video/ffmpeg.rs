//! Any other codec, by the program `ffmpeg` where it is installed.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub(super) const NAME: &str = "ffmpeg";
/// Of what it complains, at most so much is shown.
const COMPLAINT_BYTES: u64 = 400;

/// Whether it can be run.
pub(super) fn is_installed() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut asked = Command::new("ffmpeg");
        asked.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    })
}

/// Frames from a time on, one after the other, as RGB of `bytes` bytes each.
pub(super) fn decode(
    path: &Path,
    from_secs: f64,
    frames: usize,
    bytes: usize,
    take: &mut dyn FnMut(usize, &[u8]),
) -> Result<(), (usize, String)> {
    let start = |error: std::io::Error| (0, error.to_string());
    let mut command = Command::new("ffmpeg");
    // It is MP4 and a file, whatever the file's name or content would have ffmpeg believe: nothing else is opened.
    let mut file = OsString::from("file:");
    file.push(path);
    command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file", "-f", "mp4"]);
    // As they were encoded, whichever way up a player would show them: the container's size is that of the coded frame.
    command.arg("-noautorotate");
    command.args(["-ss", &format!("{from_secs:.6}"), "-i"]).arg(file);
    command.args(["-map", "0:v:0", "-frames:v", &frames.to_string(), "-fps_mode", "passthrough"]);
    command.args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(start)?;
    let complaint = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let (mut text, mut stderr) = (String::new(), stderr);
            // What is beyond the limit is read too, so that the program is not held up by it.
            let _ = stderr.by_ref().take(COMPLAINT_BYTES).read_to_string(&mut text);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            text
        })
    });
    let mut frame = vec![0; bytes];
    let mut read = 0;
    if let Some(mut stdout) = child.stdout.take() {
        while read < frames && stdout.read_exact(&mut frame).is_ok() {
            take(read, &frame);
            read += 1;
        }
    }
    let _ = child.wait();
    if read == frames {
        return Ok(());
    }
    let said = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Err((read, if said.trim().is_empty() { "it gave no more frames".into() } else { said.trim().into() }))
}
