//! Demonstrations in every form they are kept in, and RLinf's replay buffers written and read.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::path::{Path, PathBuf};

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::{
    CameraTrack, CollectionRun, Ending, Episode, EpisodeFormat, EpisodeWriter, Targets, Timestep,
};
use plaudit_data::replay_buffer::Writer;
use plaudit_data::store::Origin;
use plaudit_data::{demonstrations, lerobot};

fn buffer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay_buffer/buffer")
}

#[test]
fn a_trajectory_of_rlinf_is_cut_into_its_episodes() {
    let episodes = demonstrations::read(&buffer()).unwrap();
    let found: Vec<_> = episodes
        .iter()
        .map(|episode| (episode.row, episode.len(), episode.timesteps.last().unwrap().end, episode.success))
        .collect();
    // Row 0 terminates at the third step and then runs through both rollouts to the end of the file.
    let expected = [
        (0, 3, End::Terminated, true),
        (0, 5, End::No, false),
        (1, 4, End::Truncated, false),
        (1, 4, End::Truncated, false),
    ];
    assert_eq!(found, expected);
    for episode in &episodes {
        let first = episode.states[0][1];
        for (at, state) in episode.states.iter().enumerate() {
            let ended = episode.timesteps[at].end.is_end();
            let step = first + at as f32;
            assert_eq!(
                *state,
                [episode.row as f32, step + if ended { 0.5 } else { 0.0 }],
                "the last real observation"
            );
            assert_eq!(episode.cameras[0].image(at), [step as u8; 12]);
            if at > 0 {
                assert_eq!(episode.actions[at - 1], [10.0 * (step - 1.0) + episode.row as f32]);
                assert_eq!(episode.timesteps[at].reward, 100.0 * (step - 1.0) + episode.row as f32);
            }
        }
    }
}

/// An episode whose numbers differ everywhere, with two cameras.
fn episode(number: u64, steps: usize) -> Episode {
    let value = |at: usize| number as f32 + at as f32 / 8.0;
    let track = |name: &str, from: usize| CameraTrack {
        name: name.into(),
        shape: FrameShape::rgb(2, 2),
        pixels: (0..(steps + 1) * 12).map(|at| (at + from) as u8).collect::<Vec<_>>().into(),
    };
    let timestep = |at: usize| Timestep {
        reward: if at == 0 { 0.0 } else { value(at) },
        end: if at == steps { End::Terminated } else { End::No },
        success: (at > 0).then_some(at == steps),
        facts: Vec::new(),
    };
    Episode {
        row: 0,
        number,
        batch_step: steps as u64,
        success: true,
        task: None,
        cameras: vec![track("main_images", 0), track("extra_view_images", 100)],
        states: (0..=steps).map(|at| vec![value(at), -value(at)]).collect(),
        actions: (0..steps).map(|at| vec![value(at) * 2.0]).collect(),
        timesteps: (0..=steps).map(timestep).collect(),
    }
}

fn written(folder: &Path, form: &str, episodes: &[Episode]) -> PathBuf {
    let path = folder.join(form);
    let targets = Targets::default();
    let mut writer = match form {
        "pickles" => {
            EpisodeWriter::start(&path, EpisodeFormat::Pickle, targets, CollectionRun::Anonymous).unwrap()
        }
        "store" => EpisodeWriter::into_store(&path, Origin::new("a test"), targets, CollectionRun::Anonymous)
            .unwrap(),
        "lerobot" => EpisodeWriter::into_lerobot(
            &path,
            lerobot::Settings::default(),
            targets,
            CollectionRun::Anonymous,
        )
        .unwrap(),
        _ => EpisodeWriter::into_replay_buffer(&path, targets, CollectionRun::Anonymous).unwrap(),
    };
    for episode in episodes {
        writer.write(episode.clone()).unwrap();
    }
    writer.finish(Ending::Complete).unwrap();
    path
}

#[test]
fn every_form_gives_the_same_demonstrations() {
    let folder = tempfile::tempdir().unwrap();
    let episodes = [episode(1, 3), episode(2, 5)];
    for form in ["pickles", "store", "replay_buffer", "lerobot"] {
        let found = demonstrations::read(&written(folder.path(), form, &episodes)).unwrap();
        assert_eq!(found.len(), 2, "{form}");
        for (found, episode) in found.iter().zip(&episodes) {
            assert_eq!(found.actions, episode.actions, "{form}");
            assert!(found.success, "{form}");
            assert_eq!(found.timesteps.last().unwrap().end, End::Terminated, "{form}");
            if form == "lerobot" {
                // That layout keeps neither rewards nor what the last action led to.
                assert_eq!(found.states[..episode.len()], episode.states[..episode.len()]);
                continue;
            }
            assert_eq!(found.states, episode.states, "{form}");
            assert_eq!(found.cameras, episode.cameras, "{form}");
            let rewards = |episode: &Episode| episode.timesteps.iter().map(|m| m.reward).collect::<Vec<_>>();
            assert_eq!(rewards(found), rewards(episode), "{form}");
        }
    }
}

#[test]
fn single_files_are_demonstrations_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "replay_buffer", &[episode(1, 3)]);
    let files = || std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let trajectory =
        files().find(|path| path.extension().is_some_and(|extension| extension == "pt")).unwrap();
    assert_eq!(demonstrations::read(&trajectory).unwrap()[0].actions, episode(1, 3).actions);
}

#[test]
fn a_buffer_is_added_to_and_its_indices_follow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demos");
    for round in 1..=2 {
        let mut writer = Writer::open(&path).unwrap();
        assert_eq!(writer.trajectories(), 2 * (round - 1));
        writer.append(&episode(1, 3)).unwrap();
        writer.append(&episode(2, 5)).unwrap();
    }
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path.join(name)).unwrap()).unwrap()
    };
    let metadata = json("metadata.json");
    assert_eq!((metadata["size"].as_u64(), metadata["total_samples"].as_u64()), (Some(4), Some(16)));
    assert_eq!(metadata["trajectory_counter"], 4);
    let index = json("trajectory_index.json");
    assert_eq!(index["trajectory_id_list"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(index["trajectory_index"]["3"]["shape"], serde_json::json!([5, 1, 1]));
    let names = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let files: Vec<String> = std::fs::read_dir(&path).unwrap().map(names).collect();
    // uuid.uuid5(uuid.NAMESPACE_DNS, "00000000"): what RLinf calls trajectories without weight versions.
    assert!(files.contains(&"trajectory_3_e58eb380-d5b9-5265-a382-0fc33930cf3e.pt".to_owned()), "{files:?}");
    assert_eq!(demonstrations::read(&path).unwrap().len(), 4);
}

#[test]
fn what_is_no_demonstration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| demonstrations::read(path).unwrap_err().to_string();
    assert!(refused(folder.path()).contains("no episodes in"));
    assert!(refused(&folder.path().join("nowhere")).contains("nowhere"));
    let file = folder.path().join("episode.pkl");
    std::fs::write(&file, b"\x80\x04}\x94(\x8c\x07success\x94\x88u.").unwrap();
    assert!(refused(&file).contains("a dict with success"), "{}", refused(&file));
    std::fs::copy(buffer().join("trajectory_index.json"), folder.path().join("trajectory_index.json"))
        .unwrap();
    assert!(refused(folder.path()).contains("names trajectory 0"), "{}", refused(folder.path()));
}
