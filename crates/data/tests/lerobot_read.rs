//! Datasets of others read as Python reads them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};

use plaudit_core::End;
use plaudit_data::episode::Episode;
use plaudit_data::lerobot::{Dataset, Version};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lerobot")
}

/// What Python sees of a dataset, frame by frame.
fn expected(name: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn fact(episode: &Episode, at: usize, name: &str) -> f32 {
    episode.timesteps[at + 1].facts.iter().find(|(fact, _)| &**fact == name).unwrap().1
}

#[test]
fn a_dataset_that_lerobot_wrote() {
    let dataset = Dataset::open(folder().join("v3_image")).unwrap();
    let info = dataset.info();
    assert_eq!(
        (info.version, info.fps, info.robot_type.as_deref()),
        (Version::V3, Some(10.0), Some("panda"))
    );
    let expected = expected("expected_v3.json");
    let mut frame = expected.iter();
    for episode in dataset.episodes() {
        let episode = episode.unwrap();
        for at in 0..episode.len() {
            let want = frame.next().unwrap();
            assert_eq!(episode.states[at], floats(&want["state"]));
            assert_eq!(episode.actions[at], floats(&want["actions"]));
            assert_eq!(crc32fast::hash(episode.cameras[0].image(at)), want["image"].as_u64().unwrap() as u32);
            assert_eq!(episode.task.as_deref(), want["task"].as_str());
            assert_eq!(episode.success, want["is_success"][0] == 1.0);
            assert_eq!(episode.timesteps[at + 1].end.is_end(), want["done"][0] == 1.0);
            assert_eq!(fact(&episode, at, "intervene_flag"), floats(&want["intervene_flag"])[0]);
            assert_eq!(episode.number as f64, want["episode_index"][0].as_f64().unwrap());
        }
    }
    assert!(frame.next().is_none());
}

#[test]
fn an_older_dataset() {
    let dataset = Dataset::open(folder().join("v21_image")).unwrap();
    assert_eq!((dataset.info().version, dataset.len(), dataset.frames()), (Version::V2, 2, 7));
    let expected = expected("expected_v21.json");
    let mut frame = expected.iter();
    for episode in dataset.episodes() {
        let episode = episode.unwrap();
        let cameras: Vec<&str> = episode.cameras.iter().map(|track| &*track.name).collect();
        assert_eq!(cameras, ["observation.images.top"]);
        for at in 0..episode.len() {
            let want = frame.next().unwrap();
            assert_eq!(episode.states[at], floats(&want["observation.state"]));
            assert_eq!(episode.actions[at], floats(&want["action"]));
            let image = want["observation.images.top"].as_u64().unwrap() as u32;
            assert_eq!(crc32fast::hash(episode.cameras[0].image(at)), image);
            assert_eq!(episode.task.as_deref(), want["task"].as_str());
            let timestep = &episode.timesteps[at + 1];
            assert_eq!(timestep.reward, floats(&want["next.reward"])[0]);
            assert_eq!(timestep.success, Some(want["next.success"][0] == 1.0));
        }
        let end = if episode.success { End::Terminated } else { End::Truncated };
        assert_eq!(episode.timesteps.last().unwrap().end, end);
    }
    assert!(frame.next().is_none());
}
