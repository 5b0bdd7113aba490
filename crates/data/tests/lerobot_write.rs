//! LeRobot datasets: what is written is read back, by us and by the lerobot package, whatever happens to the writer.
#![allow(clippy::unwrap_used, missing_docs)]

mod lerobot_episodes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lerobot_episodes::{Kind, episode};
use plaudit_core::FrameShape;
use plaudit_data::episode::Episode;
use plaudit_data::lerobot::{Dataset, Existing, Problem, Settings, Shard, Writer, shards};
use serde_json::{Value, json};

fn all_views() -> Kind {
    let cameras = vec![
        ("base_camera", FrameShape::rgb(6, 8)),
        ("wrist_1", FrameShape::rgb(5, 4)),
        ("side", FrameShape::rgb(3, 3)),
        ("top", FrameShape { height: 4, width: 4, channels: 1 }),
    ];
    Kind { cameras, ..Kind::default() }
}

fn write(save_dir: &Path, settings: Settings, episodes: &[Episode]) -> Vec<Shard> {
    let mut writer = Writer::new(save_dir, 0, settings).unwrap();
    let mut shards: Vec<Shard> =
        episodes.iter().filter_map(|episode| writer.append(episode).unwrap()).collect();
    shards.extend(writer.finish().unwrap());
    shards
}

fn resume() -> Settings {
    Settings { existing: Existing::Continue, ..Settings::default() }
}

/// The episode as it comes back: the last observation is not in the layout, and cameras have features' names.
fn as_read(episode: &Episode, number: u64, batch_step: u64, names: &[&str]) -> Episode {
    let mut read = episode.clone();
    let frames = read.len();
    (read.number, read.batch_step) = (number, batch_step);
    read.states[frames] = read.states[frames - 1].clone();
    for (track, name) in read.cameras.iter_mut().zip(names) {
        track.name = (*name).into();
        let bytes = track.shape.bytes();
        let pixels = std::sync::Arc::make_mut(&mut track.pixels);
        pixels.truncate(frames * bytes);
        pixels.extend_from_within((frames - 1) * bytes..);
    }
    read
}

fn check_read(shard: &Path, episodes: &[Episode], names: &[&str]) {
    let dataset = Dataset::open(shard).unwrap();
    assert_eq!(dataset.len(), episodes.len());
    let mut steps = 0;
    for (number, (got, want)) in dataset.episodes().zip(episodes).enumerate() {
        steps += want.len() as u64;
        let want = as_read(want, number as u64, steps, names);
        assert_eq!(got.unwrap(), want);
        assert_eq!(dataset.read(number).unwrap(), want);
    }
    assert_eq!(dataset.frames(), steps);
}

#[test]
fn episodes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (0..5).map(|n| episode(&all_views(), n, 2 + 3 * n as usize)).collect();
    let shards = write(dir.path(), Settings::default(), &episodes);
    assert_eq!(shards.len(), 1);
    assert_eq!((shards[0].episodes, shards[0].frames), (5, 40));
    assert_eq!(shards[0].path, dir.path().join("rank_0/id_0"));
    let names = ["image", "wrist_image", "extra_view_image-0", "extra_view_image-1"];
    check_read(&shards[0].path, &episodes, &names);
}

#[test]
fn states_alone_and_single_numbers_come_back() {
    for (state_width, action_width) in [(4, 1), (1, 1), (0, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let kind = Kind { state_width, action_width, cameras: Vec::new() };
        let episodes: Vec<Episode> = (0..2).map(|n| episode(&kind, n, 3)).collect();
        check_read(&write(dir.path(), Settings::default(), &episodes)[0].path, &episodes, &[]);
    }
}

#[test]
fn shards_are_completed_in_turn_and_resumed_after() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (0..5).map(|n| episode(&Kind::default(), n, 2)).collect();
    let settings = Settings { finalize_interval: 2, ..Settings::default() };
    let written = write(dir.path(), settings.clone(), &episodes);
    assert_eq!(written.iter().map(|shard| shard.episodes).collect::<Vec<_>>(), [2, 2, 1]);

    let refused = Writer::new(dir.path(), 0, settings.clone()).unwrap_err();
    assert!(matches!(refused.problem(), Problem::Exists), "{refused}");
    let found = Writer::new(dir.path(), 0, resume()).unwrap().found().clone();
    assert_eq!((found.shards, found.episodes, found.recovered.len()), (3, 5, 0));
    let more = write(dir.path(), Settings { existing: Existing::Continue, ..settings }, &episodes[..1]);
    assert_eq!(more[0].path, dir.path().join("rank_0/id_3"));
    assert_eq!(shards(dir.path()).unwrap().len(), 4);
    check_read(&written[1].path, &episodes[2..4], &["image"]);
}

#[test]
fn two_writers_do_not_share_a_rank() {
    let dir = tempfile::tempdir().unwrap();
    let first = Writer::new(dir.path(), 0, resume()).unwrap();
    let second = Writer::new(dir.path(), 0, resume()).unwrap_err();
    assert!(matches!(second.problem(), Problem::Busy), "{second}");
    Writer::new(dir.path(), 1, resume()).unwrap();
    drop(first);
    Writer::new(dir.path(), 0, resume()).unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_and_others_follow() {
    let dir = tempfile::tempdir().unwrap();
    let good = episode(&Kind::default(), 0, 3);
    let mut writer = Writer::new(dir.path(), 0, Settings::default()).unwrap();
    let mut torn = good.clone();
    torn.states.pop();
    let mut ragged = good.clone();
    ragged.actions[1].push(0.0);
    let mut blind = good.clone();
    std::sync::Arc::make_mut(&mut blind.cameras[0].pixels).pop();
    for wrong in [torn, ragged, blind] {
        let error = writer.append(&wrong).unwrap_err();
        assert!(matches!(error.problem(), Problem::Episode(_)), "{error}");
    }
    writer.append(&good).unwrap();
    let other = episode(&Kind { state_width: 6, ..Kind::default() }, 1, 3);
    let error = writer.append(&other).unwrap_err();
    assert!(error.to_string().contains("state [6]"), "{error}");
    writer.append(&Episode { actions: Vec::new(), ..good.clone() }).unwrap();
    let shard = writer.finish().unwrap().unwrap();
    check_read(&shard.path, &[good], &["image"]);
}

#[test]
fn a_dropped_writer_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (0..3).map(|n| episode(&Kind::default(), n, 2)).collect();
    let mut writer = Writer::new(dir.path(), 0, Settings::default()).unwrap();
    episodes.iter().for_each(|episode| drop(writer.append(episode).unwrap()));
    drop(writer);
    assert!(shards(dir.path()).unwrap().is_empty(), "a dataset is whole or absent");
    // What a kill at the worst moments leaves behind.
    std::fs::write(dir.path().join("rank_0/.id_0.open/episode_000003.partial"), b"half").unwrap();
    std::fs::create_dir_all(dir.path().join("rank_0/.id_0.partial/data")).unwrap();

    let writer = Writer::new(dir.path(), 0, Settings { fps: 30.0, ..resume() }).unwrap();
    assert_eq!(writer.found().recovered[0].episodes, 3);
    let shard = dir.path().join("rank_0/id_0");
    check_read(&shard, &episodes, &["image"]);
    assert_eq!(Dataset::open(&shard).unwrap().info().fps, Some(10.0), "recorded at 10, whatever comes next");
    drop(writer);

    // Killed between completing a shard and cleaning up.
    std::fs::create_dir(dir.path().join("rank_0/.id_0.open")).unwrap();
    let writer = Writer::new(dir.path(), 0, resume()).unwrap();
    assert!(writer.found().recovered.is_empty());
    assert!(!dir.path().join("rank_0/.id_0.open").exists());
}

const CHILD: &str = "PLAUDIT_TEST_WRITES_TO";

/// Not a test of its own: the process that is killed.
#[test]
fn child_that_writes() {
    let Some(save_dir) = std::env::var_os(CHILD) else { return };
    let settings = Settings { finalize_interval: 3, ..resume() };
    let mut writer = Writer::new(Path::new(&save_dir), 0, settings).unwrap();
    println!();
    for number in 0.. {
        writer.append(&episode(&Kind::default(), number, 4)).unwrap();
        println!("written {number}");
    }
}

#[test]
fn a_killed_process_loses_the_episode_in_flight_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut promised = 0;
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        promised += lines.filter(|line| line.starts_with("written")).take(4 + round).count() as u64;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    Writer::new(dir.path(), 0, resume()).unwrap().finish().unwrap();
    let shards = shards(dir.path()).unwrap();
    let read = |path: &PathBuf| {
        Dataset::open(path).unwrap().episodes().filter(|read| read.as_ref().unwrap().len() == 4).count()
    };
    let kept = shards.iter().map(read).sum::<usize>() as u64;
    assert!(kept >= promised && promised >= 16, "{kept} of {promised}");
}

/// An episode's frames as `frames.py` words them.
fn frames(episode: &Episode, number: usize, first: usize, names: &[&str]) -> Vec<Value> {
    let timesteps = &episode.timesteps[1..];
    let fact = |at: usize, which: usize| timesteps[at].facts[which].1;
    let one = |at: usize| {
        let mut frame = json!({
            "state": episode.states[at],
            "actions": episode.actions[at],
            "done": [f32::from(u8::from(at + 1 == episode.len()))],
            "is_success": [f32::from(u8::from(episode.success))],
            "intervene_flag": [fact(at, 0)],
            "segment_id": [fact(at, 1)],
            "timestamp": [(at as f64 / 10.0) as f32],
            "frame_index": [at as f32],
            "episode_index": [number as f32],
            "index": [(first + at) as f32],
            "task_index": [(number % 2) as f32],
            "task": episode.task.as_deref(),
        });
        for (track, name) in episode.cameras.iter().zip(names) {
            frame[*name] = json!(crc32fast::hash(track.image(at)));
        }
        frame
    };
    (0..episode.len()).map(one).collect()
}

#[test]
fn the_lerobot_package_reads_what_was_written() {
    let Some(python) = std::env::var_os("PLAUDIT_LEROBOT_PYTHON") else {
        println!("skipped: PLAUDIT_LEROBOT_PYTHON names no interpreter with the lerobot package");
        return;
    };
    let names = ["image", "wrist_image", "extra_view_image-0", "extra_view_image-1"];
    for kind in [all_views(), Kind { action_width: 1, ..Kind::default() }] {
        let dir = tempfile::tempdir().unwrap();
        let episodes: Vec<Episode> = (0..4).map(|n| episode(&kind, n, 1 + 5 * n as usize)).collect();
        let shard = &write(dir.path(), Settings::default(), &episodes)[0];
        let mut all = Vec::new();
        for (number, episode) in episodes.iter().enumerate() {
            all.extend(frames(episode, number, all.len(), &names));
        }
        let expected = json!({ "episodes": 4, "fps": 10, "robot_type": "panda", "frames": all });
        let expected_path = dir.path().join("expected.json");
        std::fs::write(&expected_path, expected.to_string()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot/check.py");
        let output =
            Command::new(&python).arg("-B").arg(script).args([&shard.path, &expected_path]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        print!("{said}");
    }
}
