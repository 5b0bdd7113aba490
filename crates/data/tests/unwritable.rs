//! Episodes that Python's arrays cannot hold are refused by key, and no file is left.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::as_python::as_pickle;
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::replay_buffer::Writer;

/// Two steps, with cameras of these sides.
fn episode(sides: &[usize]) -> Episode {
    let track = |(at, &side): (usize, &usize)| {
        let shape = FrameShape::rgb(side, side);
        CameraTrack { name: format!("camera {at}").into(), shape, pixels: vec![7; 3 * shape.bytes()].into() }
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
    let mut short = episode(&[4, 4]);
    short.cameras[1].pixels = vec![7; 10].into();
    let error = as_pickle(&short, 0).unwrap_err().to_string();
    assert!(error.starts_with("`observations[0].extra_view_images` cannot be written: "), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no half of a trajectory");
}
