//! Files of every format from outside, changed at random: whatever they say, nothing panics, and no memory is taken on their word.
//!
//! Changes are the same in every run. Where checksums would catch them all, those are mended, so that what lies behind is reached.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use plaudit_data::recording::{Recording, Recordings, Rules};
use plaudit_pyfiles::masked_crc32c;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// More than any of these files can need: an image of as many pixels as are read at most takes 512 MiB.
const MOST_AT_ONCE: usize = 600 << 20;

/// The largest piece of memory that anything asked for.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: every call is handed on to the system's allocator as it is; only a number is kept beside it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// One change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Cut(Index),
    Flip(Index, u8),
    Set(Index, Vec<u8>),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Copy(Index, Index, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match self {
            Self::Cut(at) => bytes.truncate(at.index(length)),
            Self::Flip(at, bits) => bytes[at.index(length)] ^= bits,
            Self::Set(at, new) => {
                bytes[at.index(length)..].iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
            }
            Self::Insert(at, new) => {
                drop(bytes.splice(at.index(length)..at.index(length), new.iter().copied()))
            }
            Self::Remove(at, count) => {
                let start = at.index(length);
                bytes.drain(start..(start + count).min(length));
            }
            Self::Copy(from, to, count) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = bytes[from..(from + count).min(length)].to_vec();
                bytes[to..].iter_mut().zip(part).for_each(|(byte, new)| *byte = new);
            }
        }
    }
}

/// Numbers that lengths and shapes should not be, and other bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let odd =
        prop::sample::select(vec![0_u64, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX]);
    prop_oneof![
        odd.prop_map(|number| number.to_le_bytes()[..4].to_vec()),
        any::<u64>().prop_map(|number| number.to_le_bytes().to_vec()),
        Just(vec![0xff; 8]),
        Just(b"99999999".to_vec()),
        Just(b"-1".to_vec()),
        prop::collection::vec(any::<u8>(), 1..9),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        1 => at().prop_map(Change::Cut),
        4 => (at(), 1..=255_u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        4 => (at(), bytes()).prop_map(|(at, new)| Change::Set(at, new)),
        1 => (at(), bytes()).prop_map(|(at, new)| Change::Insert(at, new)),
        1 => (at(), 1..40_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => (at(), at(), 1..40_usize).prop_map(|(from, to, count)| Change::Copy(from, to, count)),
    ]
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_in(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Everything of some frames of whatever can still be read.
fn read_all(path: &Path) {
    let rules = Rules { success_last_frames: Some(1), ..Rules::default() };
    let Ok(found) = Recordings::open(path, &rules) else { return };
    let look = |recording: Recording| {
        for camera in recording.cameras() {
            for at in [0, 1, recording.len().saturating_sub(1)] {
                if let Ok(Some(frame)) = recording.frame(at, &camera) {
                    drop(frame.pixels());
                }
            }
        }
        drop((recording.success(), recording.to_episode()));
    };
    found.iter().take(12).flatten().for_each(look);
}

/// Changes a file of a dataset so many times, one to three changes at a time, and reads the dataset each time.
fn check(fixture: &str, name: &str, cases: usize, mend: fn(&Path, &mut [u8])) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(fixture);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(name);
    let sources = if from.is_file() { vec![from.clone()] } else { files_in(&from) };
    let target = |source: &Path| match source.strip_prefix(&from) {
        Ok(inside) if !inside.as_os_str().is_empty() => root.join(inside),
        _ => root.clone(),
    };
    for source in &sources {
        fs::create_dir_all(target(source).parent().unwrap()).unwrap();
        fs::copy(source, target(source)).unwrap();
    }
    assert!(Recordings::open(&root, &Rules::default()).unwrap().iter().all(|one| one.is_ok()), "{fixture}");
    let mut runner = TestRunner::deterministic();
    let strategy = (any::<Index>(), prop::collection::vec(change(), 1..4));
    for _ in 0..cases {
        let (which, changes) = strategy.new_tree(&mut runner).unwrap().current();
        let source = which.get(&sources);
        let (whole, file) = (fs::read(source).unwrap(), target(source));
        let mut bytes = whole.clone();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        mend(&file, &mut bytes);
        fs::write(&file, &bytes).unwrap();
        read_all(&root);
        let largest = LARGEST.load(Ordering::Relaxed);
        assert!(largest <= MOST_AT_ONCE, "{}: {changes:?} asked for {largest} bytes", file.display());
        fs::write(&file, &whole).unwrap();
    }
}

fn as_it_is(_: &Path, _: &mut [u8]) {}

/// Checksums of TensorFlow's records that fit what is there now.
fn mend_records(file: &Path, bytes: &mut [u8]) {
    let mut at = 0_usize;
    while file.to_string_lossy().contains("tfrecord") && at.saturating_add(16) <= bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let check = masked_crc32c(&bytes[at..at + 8]);
        bytes[at + 8..at + 12].copy_from_slice(&check.to_le_bytes());
        let end = at.saturating_add(12).saturating_add(length as usize);
        if end.saturating_add(4) > bytes.len() {
            return;
        }
        let check = masked_crc32c(&bytes[at + 12..end]);
        bytes[end..end + 4].copy_from_slice(&check.to_le_bytes());
        at = end + 4;
    }
}

/// Chunks of MCAP that have no checksum.
fn mend_chunks(_: &Path, bytes: &mut [u8]) {
    let mut at = 8_usize;
    while at.saturating_add(9) <= bytes.len() {
        let length = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap());
        if bytes[at] == 6 && at + 37 <= bytes.len() {
            bytes[at + 33..at + 37].fill(0);
        }
        at = at.saturating_add(9).saturating_add(length as usize);
    }
}

#[test]
fn rlds() {
    check("rlds/plain", "plain", 200, mend_records);
    check("rlds/arm/1.0.0", "arm", 60, mend_records);
}

#[test]
fn zarr() {
    check("zarr/push.zarr", "push.zarr", 150, as_it_is);
    check("zarr/v3.zarr", "v3.zarr", 150, as_it_is);
    check("zarr/umi.zarr.zip", "umi.zarr.zip", 150, as_it_is);
}

#[test]
fn mcap() {
    for name in ["ros2.mcap", "json.mcap", "protobuf.mcap"] {
        check(&format!("mcap/{name}"), name, 200, mend_chunks);
    }
}

#[test]
fn hdf5() {
    check("hdf5/robomimic/image.hdf5", "image.hdf5", 120, as_it_is);
    check("hdf5/maniskill", "maniskill", 120, as_it_is);
}

#[test]
fn videos() {
    for name in ["gop_h264.mp4", "gop_av1.mp4"] {
        check(&format!("lerobot/{name}"), name, 20, as_it_is);
    }
}
