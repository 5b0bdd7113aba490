//! Episodes that Python's arrays cannot hold are refused by key; nothing is left out of a file, and no file is left.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::as_python::{as_frames, as_npy, as_pickle};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::replay_buffer::Writer;

/// Two steps, with cameras of these sides.
fn episode(sides: &[usize]) -> Episode {
    let track = |(at, &side): (usize, &usize)| {
        let shape = FrameShape::rgb(side, side);
        CameraTrack { name: format!("camera {at}").into(), shape, pixels: vec![7; 3 * shape.bytes()] }
    };
    let timestep = |end| Timestep { reward: 0.5, end, success: Some(false), facts: vec![] };
    Episode {
        row: 0,
        number: 0,
        batch_step: 2,
        success: false,
        task: None,
        cameras: sides.iter().enumerate().map(track).collect(),
        states: vec![vec![0.5; 4]; 3],
        actions: vec![vec![0.5; 2]; 2],
        timesteps: [End::No, End::No, End::Truncated].map(timestep).into(),
    }
}

#[test]
fn cameras_of_several_sizes_are_refused_where_they_share_an_array() {
    let (fits, misfit) = (episode(&[8, 4, 4]), episode(&[8, 4, 6]));
    let folder = tempfile::tempdir().unwrap();
    let mut replay = Writer::open(folder.path()).unwrap();
    assert!(as_pickle(&fits, 0).is_ok() && as_frames(&fits, 0, 0.0).is_ok() && replay.append(&fits).is_ok());
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    let words = "cannot be written: it is one array of all cameras but the main one, and `camera 2` has 6 x 6 pixels \
                 where `camera 1` has 4 x 4 pixels; ";
    let pickle = as_pickle(&misfit, 0).unwrap_err().to_string();
    assert!(pickle.starts_with(&format!("`observations[0].extra_view_images` {words}")), "{pickle}");
    let frames = as_frames(&misfit, 0, 0.0).unwrap_err().to_string();
    assert!(frames.starts_with(&format!("`frames[0].obs.extra_view_images` {words}")), "{frames}");
    let trajectory = replay.append(&misfit).unwrap_err().to_string();
    assert!(trajectory.starts_with(&format!("`curr_obs.extra_view_images` {words}")), "{trajectory}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), files, "no half of a trajectory");
    assert!(as_npy(&misfit, &[]).is_ok(), "each camera has an array of its own there");
}

#[test]
fn values_that_do_not_fill_their_array_are_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut replay = Writer::open(folder.path()).unwrap();
    let ragged = Episode { actions: vec![vec![0.5; 2], vec![0.5; 3]], ..episode(&[]) };
    let error = replay.append(&ragged).unwrap_err().to_string();
    assert_eq!(
        error,
        "`actions` cannot be written: an array of float32 with shape [2, 1, 2] needs 16, not 20 bytes"
    );
    let ragged = Episode { states: vec![vec![0.5], vec![0.5; 2], vec![0.5]], ..episode(&[]) };
    let error = replay.append(&ragged).unwrap_err().to_string();
    assert!(error.starts_with("`curr_obs.states` cannot be written: "), "{error}");
    assert!(as_pickle(&ragged, 0).is_ok(), "a pickle has an array for each state");
}
