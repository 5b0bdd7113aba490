//! Plain folders of videos and images, and labels that lie beside them or beside any other dataset.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;
use plaudit_data::convert::{ImageOptions, convert_images};
use plaudit_data::inspect::{InspectOptions, inspect, verify};
use plaudit_data::labelled::{LabelledData, ReadOptions};
use plaudit_data::recording::{DatasetFormat, Recording, Recordings, Rules};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn copy(from: &str, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(tests().join(from), to).unwrap();
}

fn png(path: &Path, shade: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixels: Vec<u8> = (0..24 * 32 * 3).map(|at| (at as u8).wrapping_mul(shade)).collect();
    fs::write(path, plaudit_draw::encode_png(FrameShape::rgb(24, 32), &pixels).unwrap()).unwrap();
}

fn opened(path: &Path, rules: &Rules) -> Vec<Recording> {
    let found = Recordings::open(path, rules).unwrap();
    assert_eq!((found.format, found.format.name()), (DatasetFormat::PlainFolder, "plain-folder"));
    found.iter().map(Result::unwrap).collect()
}

/// Four episodes of six images.
fn image_episodes(folder: &Path) {
    for (episode, shade) in [("a", 3), ("b", 50), ("c", 99), ("d", 180)] {
        for at in 0..6u8 {
            png(&folder.join(episode).join(format!("{at:03}.png")), shade + at);
        }
    }
}

#[test]
fn videos_by_outcome_are_episodes() {
    let folder = tempfile::tempdir().unwrap();
    copy("lerobot/gop_h264.mp4", &folder.path().join("success/one@front.mp4"));
    copy("lerobot/gop_av1.mp4", &folder.path().join("success/one@wrist.mp4"));
    copy("lerobot/gop_h264.mp4", &folder.path().join("failure/two@front.mp4"));
    copy("lerobot/gop_av1.mp4", &folder.path().join("failure/two@wrist.mp4"));
    let found = opened(folder.path(), &Rules::default());
    let outcomes: Vec<_> = found.iter().map(|one| (one.name(), one.success(), one.cameras().len())).collect();
    assert_eq!(outcomes, [("one", Some(true), 2), ("two", Some(false), 2)]);
    assert!(found[0].labels().iter().all(Option::is_none), "that it succeeded does not say where");
    assert!(found[1].labels().iter().all(|label| *label == Some(false)));
    let last = opened(folder.path(), &Rules { success_last_frames: Some(2), ..Rules::default() });
    let count = last[0].labels().iter().filter(|label| **label == Some(true)).count();
    assert_eq!((count, last[0].labels().last().unwrap(), last[1].success()), (2, &Some(true), Some(false)));
    // A video alone is one too.
    assert_eq!(
        opened(&folder.path().join("success/one@front.mp4"), &Rules::default())[0].len(),
        found[0].len()
    );
}

#[test]
fn images_are_those_of_pillow_within_rounding() {
    let folder = tempfile::tempdir().unwrap();
    copy("plain/ramp.jpg", &folder.path().join("episode/000.jpg"));
    let found = opened(folder.path(), &Rules::default());
    let frame = found[0].frame(0, "main_images").unwrap().unwrap();
    let expected = fs::read(tests().join("plain/ramp.rgb")).unwrap();
    assert_eq!((frame.shape().height, frame.shape().width, expected.len()), (24, 32, 24 * 32 * 3));
    let furthest = frame.pixels().unwrap().iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
    // Decoders of JPEG differ by how they round and how they enlarge colour.
    assert!(furthest.unwrap() <= 6, "{furthest:?}");
}

#[test]
fn a_table_beside_them_says_what_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    image_episodes(folder.path());
    fs::write(
        folder.path().join("labels.csv"),
        "episode,start,end,label\na,0,3,0\na,4,,1\nb,,,0\n2,4,6,success\nd,,,1\n",
    )
    .unwrap();
    let found = opened(folder.path(), &Rules::default());
    let [no, yes] = [Some(false), Some(true)];
    assert_eq!(found[0].labels(), [no, no, no, None, yes, yes]);
    assert_eq!((found[1].labels(), found[1].success()), (&[no; 6][..], no));
    assert_eq!(found[2].labels(), [None, None, None, None, yes, yes], "the third one, counted from 0");
    assert_eq!((found[3].labels(), found[3].success()), (&[None; 6][..], yes));
    let rules = Rules { success_last_frames: Some(1), ..Rules::default() };
    let data = LabelledData::read(
        folder.path(),
        &ReadOptions { rules: rules.clone(), ..ReadOptions::default() },
        &|_| {},
    );
    let frames: Vec<usize> = data.unwrap().episodes.iter().map(|one| one.frames.len()).collect();
    assert_eq!(frames, [5, 6, 2, 6], "frames that no line names are left out");
    let report =
        inspect(folder.path(), &InspectOptions { rules: rules.clone(), limit: None }, &|_, _| {}).unwrap();
    assert_eq!((report.episodes, report.success.once), (4, 3), "{report}");
    assert!(verify(folder.path(), &|_, _| {}).unwrap().is_whole());
    let out = tempfile::tempdir().unwrap();
    let [train, val] = ["train.pt", "val.pt"].map(|name| out.path().join(name));
    let options = ImageOptions { rules, val_split: 0.5, ..ImageOptions::default() };
    convert_images(folder.path(), &train, &val, &options, &|_| {}).unwrap();
}

#[test]
fn a_table_counts_before_what_any_dataset_says() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("mine.jsonl");
    fs::write(&table, "{\"episode\": \"traj_1\", \"start\": 5, \"end\": 7, \"label\": true}\n").unwrap();
    let rules = Rules { labels: Some(table.clone()), ..Rules::default() };
    let found = Recordings::open(&tests().join("hdf5/maniskill"), &rules).unwrap();
    let success: Vec<_> = found.iter().map(|one| one.unwrap().success()).collect();
    assert_eq!(success, [Some(true), Some(true), Some(true), Some(false)]);
    for (text, what) in [
        (
            "{\"episode\": \"traj_9\", \"label\": 1}",
            "no episode is called `traj_9`; the first of 4 are trajectory.rgb.h5/traj_0",
        ),
        ("{\"episode\": \"traj_1\", \"label\": 2}", "`2` is no label"),
    ] {
        fs::write(&table, text).unwrap();
        let error = Recordings::open(&tests().join("hdf5/maniskill"), &rules).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("line 1 of"), "{error}");
    }
    fs::write(&table, "{\"episode\": \"traj_1\", \"start\": 5, \"end\": 70, \"label\": true}").unwrap();
    let found = Recordings::open(&tests().join("hdf5/maniskill"), &rules).unwrap();
    let error = found.iter().nth(1).unwrap().unwrap_err().to_string();
    assert!(error.contains("frames 5 to 70 of an episode that has 7"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    image_episodes(folder.path());
    let secret = elsewhere.path().join("secret.png");
    png(&secret, 9);
    std::os::unix::fs::symlink(&secret, folder.path().join("b/003_link.png")).unwrap();
    let report = inspect(folder.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
    assert_eq!(report.episodes, 3);
    assert!(report.to_string().contains("leads out of the dataset's folder"), "{report}");
}

#[test]
fn damaged_images_and_videos_are_named_and_nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["lerobot/gop_h264.mp4", "plain/ramp.jpg"] {
        let whole = fs::read(tests().join(name)).unwrap();
        let is_video = name.ends_with("mp4");
        let path = folder.path().join(if is_video { "a.mp4" } else { "one/a.jpg" });
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for part in 0..30 {
            fs::write(&path, &whole[..whole.len() * part / 30]).unwrap();
            let found = Recordings::open(folder.path(), &Rules::default()).unwrap();
            assert!(found.iter().any(|one| one.is_err()), "{name}: part {part}");
            let mut bytes = whole.clone();
            bytes[(whole.len() - 1) * part / 30] ^= 0xff;
            fs::write(&path, &bytes).unwrap();
            Recordings::open(folder.path(), &Rules::default()).unwrap().iter().for_each(drop);
        }
        fs::remove_file(&path).unwrap();
    }
}
