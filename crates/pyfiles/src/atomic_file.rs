//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::plain_file;

/// How the hidden names of files end that are not yet whole.
pub const PARTIAL: &str = ".partial";

/// A file under a hidden name in the same folder. [`commit`](Self::commit) flushes it to disk and gives it its name;
/// dropping it without that removes it.
pub struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    /// Bytes written since the last flush was requested.
    unflushed: u64,
    flusher: Option<Flusher>,
    committed: bool,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);
/// Large files go to disk in such pieces while they are being written, so that the end has little left to wait for.
const PIECE: u64 = 32 << 20;

/// Small writes are gathered up to this.
const BUFFER: usize = 8 << 10;
/// What is as large as this goes to the system without a copy: any image does.
const DIRECT: usize = 1 << 10;

impl AtomicFile {
    /// Begins a file that will be called `target`.
    ///
    /// # Errors
    /// When no file can be made in that folder.
    pub fn create(target: &Path) -> io::Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}{PARTIAL}", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        // The lock goes with the process, however that ends. Systems without locks do without.
        file.try_lock().ok();
        let file = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { target: target.to_owned(), temporary, file, unflushed: 0, flusher: None, committed: false })
    }

    /// A whole file in one go.
    pub fn write<'a>(target: &Path, parts: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut file = Self::create(target)?;
        parts.into_iter().try_for_each(|part| file.write_all(part))?;
        file.commit()
    }

    /// Gives the file its name, once all of it is on disk.
    ///
    /// # Errors
    /// When the system refuses; nothing changed under the name then.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.flusher.take().map_or(Ok(()), Flusher::finish)?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.committed = true;
        sync_folder_of(&self.target);
        Ok(())
    }

    fn count_written(&mut self, bytes: usize) {
        self.unflushed += bytes as u64;
        if self.unflushed >= PIECE {
            self.unflushed = 0;
            if self.flusher.is_none() {
                self.flusher = self.file.get_ref().try_clone().and_then(Flusher::start).ok();
            }
            if let Some(flusher) = &self.flusher {
                flusher.request_flush();
            }
        }
    }
}

/// Removes what killed processes left of files or folders that were to be called `target`. Returns how many.
pub fn clear_leftovers_of(target: &Path) -> usize {
    let start = format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    clear(folder, |name| name.starts_with(&start))
}

/// Removes all that killed processes left in a folder. Returns how many.
pub fn clear_leftovers_in(folder: &Path) -> usize {
    clear(folder, |name| name.starts_with('.'))
}

/// What somebody holds a lock on is work in progress, and stays.
fn clear(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_leftover = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ours = is_wanted(&name) && name.ends_with(PARTIAL);
        ours && open_existing(path).is_some_and(|file| file.try_lock().is_ok())
    };
    let remove = |path: &PathBuf| match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    entries.map(|entry| entry.path()).filter(is_leftover).filter(|path| remove(path).is_ok()).count()
}

/// A plain file or a folder, opened.
fn open_existing(path: &Path) -> Option<File> {
    if path.is_dir() { File::open(path).ok() } else { plain_file::open(path).ok() }
}

/// A new name is on disk once its folder is. A folder that cannot be opened is no reason to fail.
pub fn sync_folder_of(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        folder.sync_all().ok();
    }
}

/// A thread that sends a file to disk while others write to it.
struct Flusher {
    requests: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Flusher {
    fn start(file: File) -> io::Result<Self> {
        let (requests, asks) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("flush".into())
            .spawn(move || asks.iter().try_for_each(|()| file.sync_data()))?;
        Ok(Self { requests, thread })
    }

    /// Requests a flush, unless one is pending.
    fn request_flush(&self) {
        self.requests.try_send(()).ok();
    }

    /// Waits for what was asked for. The system reports a write error once, so the error that the thread got is returned.
    fn finish(self) -> io::Result<()> {
        drop(self.requests);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that flushes stopped")))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match bytes.len() < DIRECT {
            true => self.file.write(bytes)?,
            false => {
                self.file.flush()?;
                self.file.get_mut().write(bytes)?
            }
        };
        self.count_written(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            fs::remove_file(&self.temporary).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_image_goes_to_the_system_without_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&dir.path().join("episode.pkl")).unwrap();
        let written = |file: &AtomicFile| fs::read(&file.temporary).unwrap().len();
        file.write_all(b"head").unwrap();
        assert_eq!(written(&file), 0);
        file.write_all(&[7; 20 * 20 * 3]).unwrap();
        assert_eq!(written(&file), 4 + 1200, "in the order in which it was written, and at once");
    }

    #[test]
    fn a_file_appears_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.pt");
        fs::write(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["train.pt"]);
    }

    #[test]
    fn a_large_file_goes_to_disk_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let mut file = AtomicFile::create(&path).unwrap();
        let piece: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        for _ in 0..2 * (PIECE >> 20) + 1 {
            file.write_all(&piece).unwrap();
        }
        assert!(file.flusher.is_some());
        file.commit().unwrap();
        let found = fs::read(&path).unwrap();
        assert!(
            found.len() as u64 == 2 * PIECE + (1 << 20) && found.chunks(1 << 20).all(|some| some == piece)
        );
        assert_eq!(names(dir.path()), ["large"]);
    }

    #[test]
    fn leftovers_are_cleared_and_work_in_progress_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.pt");
        let going_on = AtomicFile::create(&path).unwrap();
        fs::write(dir.path().join(".train.pt.1-0.partial"), "half").unwrap();
        fs::create_dir(dir.path().join(".train.pt.1.partial")).unwrap();
        fs::write(dir.path().join(".val.pt.1-0.partial"), "another").unwrap();
        assert_eq!(clear_leftovers_of(&path), 2);
        assert_eq!(names(dir.path()).len(), 2);
        assert_eq!(clear_leftovers_in(dir.path()), 1);
        going_on.commit().unwrap();
        assert_eq!(names(dir.path()), ["train.pt"]);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.pt");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(&[0; 1 << 20]).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        drop(file);
        assert!(names(dir.path()).is_empty());
    }
}
