//! Broken and hostile datasets are errors that name the file and the column; none panics, none takes much memory.
#![allow(clippy::unwrap_used, missing_docs)]

mod lerobot_episodes;

use std::fs;
use std::path::{Path, PathBuf};

use lerobot_episodes::{Kind, episode};
use plaudit_core::FrameShape;
use plaudit_data::lerobot::{Dataset, LeRobotError, Limits, Settings, Writer};
use serde_json::{Value, json};

const DATA: &str = "data/chunk-000/file-000.parquet";
const EPISODES: &str = "meta/episodes/chunk-000/file-000.parquet";
const TASKS: &str = "meta/tasks.parquet";
const INFO: &str = "meta/info.json";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A dataset that may be broken.
struct Broken {
    dir: tempfile::TempDir,
}

impl Broken {
    fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot").join(name), dir.path());
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn info(&self, change: impl Fn(&mut Value)) -> &Self {
        let mut info = serde_json::from_slice(&fs::read(self.path(INFO)).unwrap()).unwrap();
        change(&mut info);
        fs::write(self.path(INFO), info.to_string()).unwrap();
        self
    }

    fn read(&self) -> Result<(), LeRobotError> {
        let limits = Limits { episode_bytes: 16 << 20, episodes: 1000, json_bytes: 1 << 20 };
        let dataset = Dataset::open_within(self.dir.path(), limits)?;
        dataset.episodes().try_for_each(|episode| episode.map(drop))
    }

    /// The error, which is about `file` (and `column`) and says `what`.
    fn check(&self, file: &str, column: Option<&str>, what: &str) {
        let error = self.read().unwrap_err();
        assert_eq!(error.path(), self.path(file), "{error}");
        assert_eq!(error.column(), column, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn missing_files_are_named() {
    for (dataset, file, what) in [
        ("v3_image", INFO, "is missing"),
        ("v3_image", TASKS, "No such file"),
        ("v3_image", DATA, "No such file"),
        ("v21_image", "meta/tasks.jsonl", "is missing"),
        ("v21_image", "meta/episodes.jsonl", "is missing"),
        ("v21_image", "data/chunk-000/episode_000001.parquet", "No such file"),
    ] {
        let broken = Broken::of(dataset);
        fs::remove_file(broken.path(file)).unwrap();
        broken.check(file, None, what);
    }
    let broken = Broken::of("v3_image");
    fs::remove_file(broken.path(EPISODES)).unwrap();
    broken.check("meta/episodes", None, "the list of episodes is missing");
}

#[test]
fn wrong_descriptions_are_named() {
    let check = |change: &dyn Fn(&mut Value), file: &str, column: Option<&str>, what: &str| {
        Broken::of("v3_image").info(change).check(file, column, what);
    };
    check(&|info| info["codebase_version"] = json!("v1.6"), INFO, None, "LeRobot v1.6 cannot be read");
    check(&|info| info["codebase_version"] = json!(3), INFO, None, "`codebase_version` is missing");
    check(&|info| info["features"] = json!([]), INFO, None, "`features` is missing");
    check(&|info| info["features"]["state"]["shape"] = json!("9"), INFO, Some("state"), "found \"9\"");
    check(&|info| info["features"]["state"]["shape"] = json!([-9]), INFO, Some("state"), "found [-9]");
    check(&|info| info["features"]["done"]["dtype"] = json!(null), INFO, Some("done"), "found null");
    check(&|info| info["data_path"] = json!("../../{chunk_index}"), INFO, Some("data_path"), "file name");
    check(&|info| info["data_path"] = json!("/etc/{chunk_index}"), INFO, Some("data_path"), "file name");
    check(
        &|info| info["features"]["state"]["shape"] = json!([8]),
        DATA,
        Some("state"),
        "32 values, found 36",
    );
    check(&|info| info["features"]["image"]["shape"] = json!([16, 16, 1]), DATA, Some("image"), "3 channels");
    check(
        &|info| info["features"]["image"]["shape"] = json!([8, 16, 3]),
        DATA,
        Some("image"),
        "16x16, where",
    );
    check(&|info| info["features"]["image"]["shape"] = json!([16, 16]), DATA, Some("image"), "height");
    check(
        &|info| drop(info["features"].as_object_mut().unwrap().remove("actions")),
        DATA,
        Some("actions"),
        "miss",
    );
    let state = |dtype: &str| json!({ "dtype": dtype, "shape": [3], "names": null });
    check(&|info| info["features"]["camera"] = state("image"), DATA, Some("camera"), "height");
    check(
        &|info| info["features"]["next.reward"] = state("float32"),
        DATA,
        Some("next.reward"),
        "is missing",
    );
}

#[test]
fn videos_need_a_place() {
    let video =
        json!({ "dtype": "video", "shape": [16, 16, 3], "names": null, "info": { "video.codec": "av1" } });
    let broken = Broken::of("v3_image");
    broken.info(|info| info["features"]["image"] = video.clone());
    broken.check(INFO, None, "`video_path` is missing");
    broken.info(|info| info["video_path"] = json!("{video_key}/../../{chunk_index}/{file_index}.mp4"));
    broken.check("meta/episodes/chunk-000/file-000.parquet", Some("videos/image/chunk_index"), "is missing");
}

#[test]
fn absurd_sizes_cost_nothing() {
    let huge = json!([4_000_000_000u64, 4_000_000_000u64, 3]);
    let broken = Broken::of("v3_image");
    broken.info(|info| info["features"]["image"]["shape"] = huge.clone());
    broken.check(DATA, Some("image"), "a shape that can be counted");
    broken.info(|info| info["features"]["image"]["shape"] = json!([100_000, 100_000, 3]));
    broken.check(DATA, None, "bytes in one episode");
    broken.info(|info| info["features"]["image"]["shape"] = json!([0, 16, 3]));
    broken.check(DATA, Some("image"), "height, width and channels");

    let broken = Broken::of("v21_image");
    let episodes = "{\"episode_index\": 0, \"length\": 18446744073709551615}\n";
    fs::write(broken.path("meta/episodes.jsonl"), episodes).unwrap();
    broken.check("data/chunk-000/episode_000000.parquet", None, "bytes in one episode");
    fs::write(broken.path("meta/episodes.jsonl"), "{\"episode_index\": 0, \"length\": 4}\n").unwrap();
    broken.check("data/chunk-000/episode_000000.parquet", None, "found 3 rows");
    fs::write(broken.path("meta/episodes.jsonl"), "{\"episode_index\": 0, \"length\": 0}\n").unwrap();
    broken.check("data/chunk-000/episode_000000.parquet", None, "found none");
    fs::write(broken.path("meta/episodes.jsonl"), "{\"episode_index\": 0}\n").unwrap();
    broken.check("meta/episodes.jsonl", None, "a line without");
    fs::write(broken.path("meta/episodes.jsonl"), "[".repeat(1 << 19)).unwrap();
    broken.check("meta/episodes.jsonl", None, "recursion limit");
    fs::write(broken.path("meta/episodes.jsonl"), " ".repeat(1 << 21)).unwrap();
    broken.check("meta/episodes.jsonl", None, "bytes of JSON");
}

#[test]
fn files_of_another_dataset_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), 0, Settings::default()).unwrap();
    let kind = Kind { cameras: vec![("main", FrameShape::rgb(16, 16))], state_width: 9, action_width: 7 };
    writer.append(&episode(&kind, 0, 8)).unwrap();
    let other = writer.finish().unwrap().unwrap().path;
    let broken = Broken::of("v3_image");
    fs::copy(other.join(DATA), broken.path(DATA)).unwrap();
    broken.check(DATA, Some("episode_index"), "frames of episode 1, found one of 0");
    let broken = Broken::of("v3_image");
    fs::copy(broken.path(TASKS), broken.path(EPISODES)).unwrap();
    broken.check(EPISODES, Some("episode_index"), "is missing");
}

/// A dataset of ours whose data file is changed.
fn ours(change: impl FnOnce(&mut Vec<u8>)) -> Broken {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path(), 0, Settings::default()).unwrap();
    writer.append(&episode(&Kind::default(), 0, 4)).unwrap();
    let shard = writer.finish().unwrap().unwrap().path;
    let mut bytes = fs::read(shard.join(DATA)).unwrap();
    change(&mut bytes);
    let broken = Broken { dir: tempfile::tempdir().unwrap() };
    copy(&shard, broken.dir.path());
    fs::write(broken.path(DATA), bytes).unwrap();
    broken
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

fn length(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

#[test]
fn lies_inside_a_page_are_errors() {
    let png = b"\x89PNG";
    // Four images with their lengths before them. The first claims all but two bytes of the page, then more.
    for left in [2, 0, -1, i64::from(u32::MAX) / -2] {
        let broken = ours(|bytes| {
            let first = find(bytes, png) - 4;
            let end = (0..4).fold(first, |at, _| at + 4 + length(bytes, at));
            let claim = ((end - first - 4) as i64 - left) as u32;
            bytes[first..first + 4].copy_from_slice(&claim.to_le_bytes());
        });
        broken.check(DATA, Some("image"), "");
    }
    let broken = ours(|bytes| {
        let at = find(bytes, png);
        bytes[at] = b'?';
    });
    broken.check(DATA, Some("image"), "image of frame 0: not a PNG file");
    let broken = ours(|bytes| {
        let at = find(bytes, b"IDAT");
        bytes[at + 9] ^= 0xff;
    });
    broken.check(DATA, Some("image"), "image of frame 0");
}

/// A page header that promises more than its bytes can hold is refused before anything is reserved.
#[test]
fn lies_in_a_page_header_are_errors() {
    let broken = ours(|bytes| {
        // A header begins with its kind (data: 0), then the unpacked size as a varint, field by field.
        let at = 4 + find(&bytes[4..], &[0x15, 0x00, 0x15]);
        let digits = bytes[at + 3..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        bytes[at + 3..at + 2 + digits].fill(0xfe);
        bytes[at + 2 + digits] = 0x7e;
    });
    broken.check(DATA, Some("state"), "pages that hold what they claim");
}

/// Every prefix of every file.
#[test]
fn files_cut_short() {
    for (dataset, file) in [
        ("v3_image", DATA),
        ("v3_image", TASKS),
        ("v3_image", EPISODES),
        ("v3_image", INFO),
        ("v21_image", "data/chunk-000/episode_000000.parquet"),
    ] {
        let broken = Broken::of(dataset);
        let whole = fs::read(broken.path(file)).unwrap();
        for cut in (0..whole.len() - 1).step_by(97) {
            fs::write(broken.path(file), &whole[..cut]).unwrap();
            let error = broken.read().unwrap_err();
            assert_eq!(error.path(), broken.path(file), "{error}");
        }
    }
}

/// Bytes changed at random. Most are errors, some change a number; none panics.
#[test]
fn files_with_changed_bytes() {
    let rounds: u64 = std::env::var("PLAUDIT_TEST_ROUNDS").map_or(300, |rounds| rounds.parse().unwrap());
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize
    };
    for (dataset, file) in [
        ("v3_image", DATA),
        ("v3_image", TASKS),
        ("v3_image", EPISODES),
        ("v21_image", "data/chunk-000/episode_000000.parquet"),
    ] {
        let broken = Broken::of(dataset);
        let whole = fs::read(broken.path(file)).unwrap();
        let footer =
            8 + u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..1 + random() % 3 {
                // Half of them in the footer, which decides the most.
                let from = if random() % 2 == 0 { whole.len() - footer } else { 0 };
                let at = from + random() % (whole.len() - from);
                bytes[at] = [random() as u8, 0, 0xff, bytes[at].wrapping_add(1), bytes[at] ^ 1][random() % 5];
            }
            fs::write(broken.path(file), &bytes).unwrap();
            let _ = broken.read();
        }
    }
}
