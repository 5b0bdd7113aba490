//! Opening files from strangers: plain files alone, and without waiting.
//!
//! A named pipe in a folder of episodes would be waited for forever, and a device may do something when it is opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Opens a plain file for reading. It is looked at before it is opened, and again after: somebody may have put
/// something else there.
///
/// # Errors
/// When the system refuses, or there is anything but a plain file.
pub fn open(path: &Path) -> io::Result<File> {
    check(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Nothing changes for plain files; a pipe is opened without waiting for whoever writes to it.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// All bytes of a plain file that has no more than `limit`.
///
/// # Errors
/// When it cannot be opened or read, or is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// The lines of a plain file, each with its number from 1. One that is longer than `limit` bytes, or is no UTF-8, is an
/// error and the last.
///
/// # Errors
/// When the file cannot be opened.
pub fn lines(
    path: &Path,
    limit: u64,
) -> io::Result<impl Iterator<Item = (usize, io::Result<String>)> + use<>> {
    let mut file = BufReader::new(open(path)?);
    let mut over = false;
    let mut next = move || -> Option<io::Result<String>> {
        if over {
            return None;
        }
        let mut line = Vec::new();
        let read = file.by_ref().take(limit.saturating_add(1)).read_until(b'\n', &mut line);
        let result = match read {
            Ok(0) => return None,
            Ok(bytes) if bytes as u64 > limit => {
                let text = format!("longer than {limit} bytes, which no line of such a file is");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            Ok(_) => {
                let text = line.strip_suffix(b"\n").unwrap_or(&line);
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "no UTF-8 text");
                std::str::from_utf8(text).map(String::from).map_err(wrong)
            }
            Err(error) => Err(error),
        };
        over = result.is_err();
        Some(result)
    };
    Ok((1..).map_while(move |number| next().map(|line| (number, line))))
}

fn check(metadata: &fs::Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("episode.pkl");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, Path::new("/dev/zero"), Path::new("/dev/tty"), dir.path()] {
            let error = open(path).unwrap_err();
            assert_eq!(error.to_string(), "not a plain file", "{}", path.display());
        }
    }

    #[test]
    fn lines_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let found = |bytes: &[u8]| -> Vec<(usize, Result<String, String>)> {
            fs::write(&path, bytes).unwrap();
            lines(&path, 8).unwrap().map(|(at, line)| (at, line.map_err(|error| error.to_string()))).collect()
        };
        assert_eq!(
            found(b"a\r\n\nbcd"),
            [(1, Ok("a".into())), (2, Ok(String::new())), (3, Ok("bcd".into()))]
        );
        assert_eq!(found(b""), []);
        let long = found(b"ok\n0123456789\nnever");
        assert!(
            long.len() == 2 && long[1].1.as_ref().unwrap_err().contains("longer than 8 bytes"),
            "{long:?}"
        );
        assert_eq!(found(b"\xff\n")[0].1, Err("no UTF-8 text".into()));
        assert!(read(&path, 1).is_err() && read(&path, 2).is_ok());
    }
}
