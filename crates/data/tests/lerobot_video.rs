//! LeRobot datasets with videos, made by the `lerobot` package: frames beside those that it gives, and damaged files.

#![allow(clippy::unwrap_used)] // a test may panic

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::lerobot::{Dataset, Version};
use plaudit_data::recording::{Recordings, Rules};
use plaudit_data::video::{FrameCache, FrameCacheLimits, VideoFrames};
use rayon::prelude::*;

const CAMERAS: [&str; 2] = ["observation.images.front", "observation.images.wrist"];
const LENGTHS: [usize; 3] = [9, 6, 7];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot").join(name)
}

fn copied(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy(&path, &target)
            } else {
                fs::write(target, fs::read(&path).unwrap()).unwrap()
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture(name), folder.path());
    folder
}

#[test]
fn frames_are_those_of_the_lerobot_package() {
    for (name, version) in
        [("v3_video_av1", Version::V3), ("v3_video_h264", Version::V3), ("v21_video_av1", Version::V2)]
    {
        let dataset = Dataset::open(fixture(name)).unwrap();
        assert_eq!((dataset.info().version, dataset.len()), (version, 3));
        // The same frames were encoded, so v2.1 decodes to what the other one of AV1 does.
        let expected = name.replace("v21", "v3");
        let expected = fs::read(fixture(&format!("expected_{expected}.rgb"))).unwrap();
        let mut expected = &expected[..];
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let episode = dataset.read(number).unwrap();
            assert_eq!(episode.cameras.iter().map(|track| &*track.name).collect::<Vec<_>>(), CAMERAS);
            assert_eq!((episode.actions.len(), episode.success), (length, number != 1));
            assert_eq!(episode.task.as_deref(), Some(["lift the cube", "push the block"][number % 2]));
            for at in 0..length {
                assert_eq!(episode.states[at], [at as f32, number as f32]);
                for track in &episode.cameras {
                    let (frame, rest) = expected.split_at(track.shape.bytes());
                    expected = rest;
                    // Bit by bit: FFmpeg's conversion of colours is done as FFmpeg does it.
                    assert!(frame == track.image(at), "{name}: {} at {at} of episode {number}", track.name);
                }
            }
        }
        assert!(expected.is_empty());
    }
}

#[test]
fn inspection_training_and_verification_read_them() {
    let path = fixture("v3_video_av1");
    let report = inspect(&path, &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.success.once, report.broken.len()), (3, 2, 0), "{report}");
    assert_eq!(report.cameras[0].video.as_deref(), Some("av01 by rav1d"));
    assert!(
        report.to_string().contains("64x48x3") && report.to_string().contains("av01 by rav1d"),
        "{report}"
    );
    let verified = verify(&path, &|_, _| {}).unwrap();
    assert_eq!((verified.whole, verified.is_whole(), verified.unchecked.len()), (3, true, 0));
    let options = ReadOptions { cameras: vec![CAMERAS[1].into()], ..ReadOptions::default() };
    let data = LabelledData::read(&path, &options, &|_| {}).unwrap();
    let solved = data.episodes.iter().flat_map(|episode| &episode.frames).filter(|frame| frame.success);
    assert_eq!((data.frames(), solved.count()), (22, 4));
    let h264 = inspect(&fixture("v3_video_h264"), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!(h264.cameras[0].video.as_deref(), Some("avc1 by rusty_h264"));
}

/// What is said when a file of a copy is changed so.
fn refused(name: &str, change: impl FnOnce(&Path)) -> String {
    let folder = copied(name);
    change(folder.path());
    let found = Recordings::open(folder.path(), &Rules::default()).unwrap();
    let errors: Vec<String> = found.iter().filter_map(|one| Some(one.err()?.to_string())).collect();
    errors.first().cloned().unwrap_or_default()
}

const FRONT: &str = "videos/observation.images.front/chunk-000/file-000.mp4";

#[test]
fn damaged_and_missing_videos_are_named() {
    let cut = |path: &Path| {
        let whole = fs::read(path.join(FRONT)).unwrap();
        fs::write(path.join(FRONT), &whole[..whole.len() / 2]).unwrap();
    };
    let swapped = |path: &Path| {
        let short = path.join("videos/chunk-000/observation.images.front/episode_000001.mp4");
        fs::copy(short, path.join("videos/chunk-000/observation.images.front/episode_000000.mp4")).unwrap();
    };
    let other_codec = |path: &Path| {
        let mut bytes = fs::read(path.join(FRONT)).unwrap();
        let at = bytes.windows(4).position(|word| word == b"av01").unwrap();
        let last = bytes.windows(4).rposition(|word| word == b"av01").unwrap();
        for at in [at, last] {
            bytes[at..at + 4].copy_from_slice(b"xx99");
        }
        fs::write(path.join(FRONT), bytes).unwrap();
    };
    let cases = [
        (refused("v3_video_av1", cut), "cut short"),
        (refused("v3_video_av1", |path| fs::remove_file(path.join(FRONT)).unwrap()), "the video is missing"),
        (refused("v3_video_av1", |path| fs::write(path.join(FRONT), b"<html>").unwrap()), "no video in it"),
        (
            refused("v21_video_av1", swapped),
            "expected 9 frames of episode 0 from frame 0 on, found a video of 6",
        ),
        (refused("v3_video_av1", other_codec), "xx99"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected) && said.contains("observation.images.front"), "{expected}: {said}");
    }
}

#[test]
fn a_dataset_of_damaged_videos_is_reported_by_its_metadata() {
    let folder = copied("v3_video_av1");
    let wrist = "videos/observation.images.wrist/chunk-000/file-000.mp4";
    fs::write(folder.path().join(FRONT), b"<html>").unwrap();
    fs::remove_file(folder.path().join(wrist)).unwrap();
    let report = inspect(folder.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.frames, report.inspected_files), (3, 22, 0), "{report}");
    let broken: Vec<_> = report.broken.iter().map(|file| (&*file.file, &*file.problem)).collect();
    assert_eq!(broken.len(), 2, "{report}");
    assert!(broken.iter().any(|(file, why)| *file == wrist && why.contains("is not there")), "{broken:?}");
    assert!(broken.iter().any(|(file, why)| *file == FRONT && why.contains("no video in it")), "{broken:?}");
    assert!(report.to_string().contains("none of its frames could be read"), "{report}");
}

fn gop(codec: &str, memory_bytes: u64) -> (VideoFrames, Arc<FrameCache>) {
    let cache = Arc::new(FrameCache::new(FrameCacheLimits { memory_bytes }));
    (VideoFrames::open(&fixture(&format!("gop_{codec}.mp4")), cache.clone()).unwrap(), cache)
}

#[test]
fn a_frame_costs_its_group_and_frames_in_a_row_are_decoded_once() {
    for codec in ["av1", "h264"] {
        let (frames, _) = gop(codec, 1 << 30);
        let (count, each) = (frames.video().len(), frames.shape().bytes());
        let mut all = vec![0; count * each];
        frames.video().decode(0..count, &mut all).unwrap();
        let expected = |at: usize| &all[at * each..(at + 1) * each];
        // In a row, with room for a few frames alone.
        let (frames, cache) = gop(codec, 6 * each as u64);
        for at in 0..count {
            assert!(*frames.rgb(at).unwrap() == *expected(at), "{codec}: frame {at}");
            assert!(cache.stats().bytes <= 6 * each as u64);
        }
        assert_eq!(cache.stats().decoded, count as u64, "{codec}");
        // At random, and on many threads.
        let (frames, cache) = gop(codec, 1 << 30);
        frames.rgb(count - 1).unwrap();
        assert!(cache.stats().decoded < count as u64, "{codec}: {:?}", cache.stats());
        (0..count).into_par_iter().for_each(|at| {
            let at = at * 7 % count;
            assert!(*frames.rgb(at).unwrap() == *expected(at), "{codec}: frame {at}");
        });
        assert!(frames.rgb(count).unwrap_err().to_string().contains("are asked for"));
        assert_ne!(frames.digest(0).unwrap(), frames.digest(1).unwrap());
    }
}

#[test]
fn decoded_frames_are_found_on_disk_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let read = || {
        let (frames, cache) = gop("av1", 0);
        cache.set_disk(folder.path().join("frames"), 1 << 30);
        let found: Vec<_> = (0..frames.video().len()).map(|at| frames.rgb(at).unwrap()).collect();
        (found, cache.stats())
    };
    let ((first, _), (again, stats)) = (read(), read());
    assert!(first == again && stats.decoded == 0 && stats.on_disk == first.len() as u64, "{stats:?}");
}

#[test]
fn a_damaged_frame_is_named_when_it_is_asked_for() {
    let folder = copied("v3_video_av1");
    let mut bytes = fs::read(folder.path().join(FRONT)).unwrap();
    // The last bytes are the last frames'.
    let end = bytes.len();
    bytes[end - 400..].fill(0xff);
    fs::write(folder.path().join(FRONT), bytes).unwrap();
    let recordings = Recordings::open(folder.path(), &Rules::default()).unwrap();
    let episodes: Vec<_> = recordings.iter().map(Result::unwrap).collect();
    assert!(episodes[0].frame(0, CAMERAS[0]).unwrap().unwrap().pixels().is_ok());
    let last = episodes[2].frame(6, CAMERAS[0]).unwrap().unwrap();
    let said = last.pixels().unwrap_err().to_string();
    assert!(said.contains(FRONT) && said.contains("frame ") && said.contains("cannot be decoded"), "{said}");
    let broken = verify(folder.path(), &|_, _| {}).unwrap().broken;
    assert!(broken.len() == 1 && broken[0].problem.contains("cannot be decoded"), "{broken:?}");
    let report = inspect(folder.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert!(report.to_string().contains("cannot be decoded"), "{report}");
}
