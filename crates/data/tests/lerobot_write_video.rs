//! LeRobot datasets with videos: what is written is read back, by us and by the lerobot package.
#![allow(clippy::unwrap_used, missing_docs)]

mod lerobot_episodes;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lerobot_episodes::{Kind, episode};
use plaudit_core::FrameShape;
use plaudit_data::episode::Episode;
use plaudit_data::lerobot::{
    ColumnNames, Dataset, Existing, ImageStorage, KnownSuccess, Problem, Settings, Shard, SourceEpisode,
    Writer,
};
use plaudit_data::video::Video;

const CAMERAS: [(&str, FrameShape); 2] = [
    ("base_camera", FrameShape { height: 48, width: 64, channels: 3 }),
    ("wrist_1", FrameShape { height: 34, width: 46, channels: 3 }),
];

/// A scene in which a square moves, as a camera would see it: neighbours are alike.
fn film(number: u64, frames: usize) -> Episode {
    let kind = Kind { cameras: CAMERAS.to_vec(), ..Kind::default() };
    let mut episode = episode(&kind, number, frames);
    for track in &mut episode.cameras {
        let FrameShape { height, width, .. } = track.shape;
        let pixel = |at: usize| {
            let (frame, at) = (at / (height * width), at % (height * width));
            let (x, y) = (at % width, at / width);
            let inside = (4 + 2 * frame..14 + 2 * frame).contains(&x) && (8..18).contains(&y);
            if inside { [220, 60 + 20 * number as u8, 40] } else { [(x * 3) as u8, (y * 4) as u8, 100] }
        };
        track.pixels = Arc::new((0..(frames + 1) * height * width).flat_map(pixel).collect());
    }
    episode
}

fn settings(columns: ColumnNames) -> Settings {
    Settings { images: ImageStorage::H264, columns, fps: 10.0, ..Settings::default() }
}

fn write(save_dir: &Path, settings: Settings, episodes: &[Episode]) -> Vec<Shard> {
    let mut writer = Writer::new(save_dir, 0, settings).unwrap();
    let mut shards: Vec<Shard> = episodes.iter().filter_map(|one| writer.append(one).unwrap()).collect();
    shards.extend(writer.finish().unwrap());
    shards
}

/// Decibels between two images, or lists of them.
fn psnr(one: &[u8], other: &[u8]) -> f64 {
    assert_eq!(one.len(), other.len());
    let squares: f64 = one.iter().zip(other).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * one.len() as f64 / squares.max(1.0)).log10()
}

fn check_read(root: &Path, episodes: &[Episode], cameras: [&str; 2]) {
    let dataset = Dataset::open(root).unwrap();
    assert_eq!(dataset.len(), episodes.len());
    for (read, written) in dataset.episodes().map(Result::unwrap).zip(episodes) {
        let frames = written.len();
        assert_eq!((read.len(), &read.actions), (frames, &written.actions));
        assert_eq!(read.states[..frames], written.states[..frames]);
        assert_eq!(read.cameras.iter().map(|track| &*track.name).collect::<Vec<_>>(), cameras);
        for (got, want) in read.cameras.iter().zip(&written.cameras) {
            for at in 0..frames {
                let decibels = psnr(got.image(at), want.image(at));
                assert!(decibels > 30.0, "{} at {at}: {decibels:.1} dB", got.name);
            }
        }
    }
}

fn mp4(root: &Path, feature: &str) -> PathBuf {
    root.join(format!("videos/{feature}/chunk-000/file-000.mp4"))
}

#[test]
fn several_episodes_lie_in_one_file_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> =
        [5, 4, 7].into_iter().enumerate().map(|(n, len)| film(n as u64, len)).collect();
    let shards = write(dir.path(), settings(ColumnNames::Rlinf), &episodes);
    check_read(&shards[0].path, &episodes, ["image", "wrist_image"]);
    let video = Video::open(&mp4(&shards[0].path, "image")).unwrap();
    assert_eq!((video.len(), video.codec(), video.shape()), (16, "avc1".into(), CAMERAS[0].1));
    let dataset = Dataset::open(&shards[0].path).unwrap();
    let feature = dataset.info().feature("image").unwrap();
    assert!(feature.is_video() && feature.codec.as_deref() == Some("h264"), "{feature:?}");
    let begins: Vec<_> = [0.0, 0.5, 0.9].iter().map(|secs| video.nearest(*secs)).collect();
    assert_eq!(begins, [Some(0), Some(5), Some(9)], "from_timestamp of each episode");
}

#[test]
fn lerobots_own_columns_hold_what_is_known() {
    let episodes = [film(0, 4), film(1, 3)];
    for (success, has_rewards, expected) in [
        (KnownSuccess::Steps, true, &["next.reward", "next.success"][..]),
        (KnownSuccess::Episode, false, &["is_success"]),
        (KnownSuccess::Nothing, false, &[]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(dir.path(), 0, settings(ColumnNames::LeRobot)).unwrap();
        for one in &episodes {
            writer.append_from(&SourceEpisode { success, has_rewards, ..one.into() }).unwrap();
        }
        let root = writer.finish().unwrap().unwrap().path;
        check_read(&root, &episodes, ["observation.images.base_camera", "observation.images.wrist_1"]);
        let dataset = Dataset::open(&root).unwrap();
        let names = ["next.reward", "next.success", "is_success"];
        let found: Vec<_> = names.into_iter().filter(|name| dataset.info().feature(name).is_some()).collect();
        assert_eq!(found, expected);
        if success == KnownSuccess::Steps {
            for (read, written) in dataset.episodes().map(Result::unwrap).zip(&episodes) {
                let told = |one: &Episode| -> Vec<_> {
                    one.timesteps[1..]
                        .iter()
                        .map(|step| (step.reward, step.end, step.success == Some(true)))
                        .collect()
                };
                assert_eq!(told(&read), told(written));
            }
        }
    }
}

#[test]
fn a_dropped_writer_is_taken_up_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (0..4).map(|number| film(number, 3 + number as usize)).collect();
    let mut writer = Writer::new(dir.path(), 0, settings(ColumnNames::Rlinf)).unwrap();
    episodes[..2].iter().for_each(|one| drop(writer.append(one).unwrap()));
    drop(writer);
    let again = Settings { existing: Existing::Resume { first_shard: 0 }, ..settings(ColumnNames::Rlinf) };
    let shards = write(dir.path(), again, &episodes);
    check_read(&shards[0].path, &episodes, ["image", "wrist_image"]);

    // And byte for byte what one that was never stopped writes.
    let other = tempfile::tempdir().unwrap();
    let whole = write(other.path(), settings(ColumnNames::Rlinf), &episodes);
    let video = |root: &Path| std::fs::read(mp4(root, "image")).unwrap();
    assert!(video(&shards[0].path) == video(&whole[0].path));
}

#[test]
fn what_a_video_cannot_hold_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), 0, settings(ColumnNames::Rlinf)).unwrap();
    for (shape, why) in [
        (FrameShape { height: 4, width: 4, channels: 1 }, "1 channel(s)"),
        (FrameShape::rgb(5, 4), "4x5, and a video's sides are even"),
        (FrameShape::rgb(2, 5000), "5000x2 pixels"),
    ] {
        let kind = Kind { cameras: vec![("side", shape)], ..Kind::default() };
        let error = writer.append(&episode(&kind, 0, 2)).unwrap_err();
        assert!(matches!(error.problem(), Problem::Episode(_) | Problem::Encode(_)), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    // Camera names that become one.
    let kind = Kind {
        cameras: vec![("a b", FrameShape::rgb(4, 4)), ("a/b", FrameShape::rgb(4, 4))],
        ..Kind::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), 0, settings(ColumnNames::LeRobot)).unwrap();
    let error = writer.append(&episode(&kind, 0, 2)).unwrap_err().to_string();
    assert!(error.contains("two cameras are called `observation.images.a_b`"), "{error}");
}

#[test]
fn the_lerobot_package_reads_what_was_written() {
    let Some(python) = std::env::var_os("PLAUDIT_LEROBOT_PYTHON") else {
        eprintln!("skipped: PLAUDIT_LEROBOT_PYTHON names no interpreter");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> =
        [5, 4, 7].into_iter().enumerate().map(|(n, len)| film(n as u64, len)).collect();
    for columns in [ColumnNames::Rlinf, ColumnNames::LeRobot] {
        let folder = dir.path().join(format!("{columns:?}"));
        let shards = write(&folder, settings(columns), &episodes);
        let frames = folder.join("frames.rgb");
        let images = episodes.iter().flat_map(|one| {
            (0..one.len())
                .flat_map(move |at| one.cameras.iter().flat_map(move |track| track.image(at).to_vec()))
        });
        std::fs::write(&frames, images.collect::<Vec<u8>>()).unwrap();
        let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot/check_video.py");
        let run = Command::new(&python).arg(check).args([&shards[0].path, &frames]).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
        eprintln!("{said}");
    }
}
