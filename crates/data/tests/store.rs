//! Episodes come back from a store as they went in, and damage is named.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::store::{Damage, EpisodeId, Labels, Origin, Store, StoreError};
use proptest::prelude::*;

/// Any number but those that differ from themselves.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![any::<i16>().prop_map(f32::from), Just(f32::INFINITY), Just(-0.0), -1e30f32..1e30]
}

fn timestep(facts: Vec<Arc<str>>) -> impl Strategy<Value = Timestep> {
    let end = prop_oneof![Just(End::No), Just(End::Terminated), Just(End::Truncated)];
    let known = prop::collection::vec(prop::option::of(number()), facts.len());
    (number(), end, any::<Option<bool>>(), known).prop_map(move |(reward, end, success, known)| {
        let facts = facts.iter().cloned().zip(known);
        Timestep {
            reward,
            end,
            success,
            facts: facts.filter_map(|(name, value)| Some((name, value?))).collect(),
        }
    })
}

fn cameras(entries: usize) -> impl Strategy<Value = Vec<CameraTrack>> {
    let sides = prop::collection::vec((1usize..5, 1usize..5, prop::sample::select(vec![1usize, 3, 4])), 0..3);
    let track = move |number: usize, (height, width, channels): (usize, usize, usize)| {
        let shape = FrameShape { height, width, channels };
        let pixels = prop::collection::vec(any::<u8>(), entries * shape.bytes());
        let name: Arc<str> = format!("camera \"{number}\" é").into();
        pixels.prop_map(move |pixels| CameraTrack { name: name.clone(), shape, pixels: pixels.into() })
    };
    sides.prop_flat_map(move |sides| {
        sides.into_iter().enumerate().map(|(at, side)| track(at, side)).collect::<Vec<_>>()
    })
}

/// Any episode whose facts keep their order.
fn episode() -> impl Strategy<Value = Episode> {
    (0usize..6, 0usize..4, 0usize..4, 0usize..3).prop_flat_map(|(steps, state_width, action_width, facts)| {
        let entries = steps + 1;
        let rows = |count, width| prop::collection::vec(prop::collection::vec(number(), width), count);
        let names: Vec<Arc<str>> = (0..facts).map(|at| format!("fact {at}").into()).collect();
        let timesteps = prop::collection::vec(timestep(names), entries);
        let first = (any::<u16>(), any::<u32>(), any::<u32>(), any::<bool>(), prop::option::of(".{0,20}"));
        (first, cameras(entries), rows(entries, state_width), rows(steps, action_width), timesteps).prop_map(
            |((row, number, step, success, task), cameras, states, actions, timesteps)| Episode {
                row: row.into(),
                number: number.into(),
                batch_step: step.into(),
                success,
                task: task.map(Arc::from),
                cameras,
                states,
                actions,
                timesteps: ordered(timesteps),
            },
        )
    })
}

/// Facts in the order in which the episode first shows them, which is the order they come back in.
fn ordered(mut timesteps: Vec<Timestep>) -> Vec<Timestep> {
    let mut seen: Vec<Arc<str>> = Vec::new();
    for timestep in &mut timesteps {
        let new: Vec<_> =
            timestep.facts.iter().map(|fact| fact.0.clone()).filter(|name| !seen.contains(name)).collect();
        seen.extend(new);
        timestep.facts.sort_by_key(|fact| seen.iter().position(|name| *name == fact.0));
    }
    timesteps
}

fn new_store(dir: &Path) -> Store {
    Store::create(dir.join("store"), Some("CC0-1.0")).unwrap()
}

fn small(state: f32) -> Episode {
    let timestep =
        |end| Timestep { reward: 1.0, end, success: None, facts: vec![("is_grasped".into(), 1.0)] };
    Episode {
        row: 3,
        number: 1,
        batch_step: 9,
        success: true,
        task: Some("lift the cube".into()),
        cameras: vec![CameraTrack {
            name: "main".into(),
            shape: FrameShape::rgb(2, 2),
            pixels: (0..24).collect::<Vec<_>>().into(),
        }],
        states: vec![vec![state, 0.5], vec![1.0, 2.0]],
        actions: vec![vec![-1.0]],
        timesteps: vec![timestep(End::No), timestep(End::Truncated)],
    }
}

fn file_of(store: &Store, id: EpisodeId) -> PathBuf {
    store.path().join(format!("episodes/{id}.safetensors"))
}

fn damage(result: Result<impl Sized, StoreError>) -> Damage {
    match result.err().unwrap() {
        StoreError::Damaged { damage, .. } => damage,
        other => panic!("{other}"),
    }
}

fn problems(store: &Store) -> usize {
    store.verify(&|_, _| {}).unwrap().problems.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn episodes_come_back_as_they_went_in(episode in episode()) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = new_store(dir.path());
        let id = store.add(&episode, &Origin::new("test")).unwrap();
        let store = Store::open(store.path()).unwrap();
        prop_assert_eq!(problems(&store), 0);
        let stored = store.episode(id).unwrap();
        for (camera, track) in episode.cameras.iter().enumerate() {
            for at in 0..stored.entries() {
                prop_assert_eq!(stored.frame(camera, at), track.image(at));
            }
        }
        prop_assert_eq!(stored.to_episode(), episode);
    }

    #[test]
    fn any_cut_is_an_error_that_names_the_file(episode in episode(), cut: prop::sample::Index) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = new_store(dir.path());
        let id = store.add(&episode, &Origin::new("test")).unwrap();
        let path = file_of(&store, id);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..cut.index(bytes.len())]).unwrap();
        let error = store.episode(id).err().unwrap();
        prop_assert!(error.to_string().contains(&id.to_string()), "{}", error);
        let damaged = matches!(error, StoreError::Damaged { .. });
        prop_assert!(damaged);
        prop_assert_eq!(problems(&store), 1);
        // Adding it again heals it.
        store.add(&episode, &Origin::new("test")).unwrap();
        prop_assert_eq!(problems(&store), 0);
        prop_assert_eq!(store.episodes().len(), 1);
    }

    #[test]
    fn any_changed_byte_is_found_and_never_a_panic(episode in episode(), at: prop::sample::Index, by in 1u8..) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = new_store(dir.path());
        let id = store.add(&episode, &Origin::new("test")).unwrap();
        let path = file_of(&store, id);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = bytes[at].wrapping_add(by);
        fs::write(&path, &bytes).unwrap();
        if let Ok(stored) = store.episode(id) {
            stored.to_episode();
        }
        prop_assert_eq!(problems(&store), 1);
    }
}

#[test]
fn the_same_episode_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = new_store(dir.path());
    let origin = Origin { env: Some("PickCube-v1".into()), ..Origin::new("first") };
    let id = store.add(&small(0.0), &origin).unwrap();
    assert_eq!(store.add(&small(0.0), &Origin::new("second")).unwrap(), id);
    let elsewhere = Episode { row: 7, ..small(0.0) };
    assert_eq!(store.add(&elsewhere, &Origin::new("third")).unwrap(), id, "the row is not content");
    assert_ne!(store.add(&small(1.0), &origin).unwrap(), id);
    let store = Store::open(store.path()).unwrap();
    assert_eq!(store.episodes().len(), 2);
    assert_eq!((&store.episodes()[0].origin, store.licence()), (&origin, Some("CC0-1.0")));
    assert_eq!(fs::read_dir(store.path().join("episodes")).unwrap().count(), 2, "and nothing is left behind");
}

#[test]
fn the_format_does_not_change_by_accident() {
    let dir = tempfile::tempdir().unwrap();
    let id = new_store(dir.path()).add(&small(0.0), &Origin::new("test")).unwrap();
    assert_eq!(
        id.to_string(),
        "1a2d2d5fa1a5fa1a3900b739096b280b0e0374ba22b316812f753afbc112bd39",
        "stores of version 1 are out there: a new format needs a new version"
    );
}

#[test]
fn labels_come_later_and_frames_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = new_store(dir.path());
    let id = store.add(&small(0.0), &Origin::new("test")).unwrap();
    let before = fs::metadata(file_of(&store, id)).unwrap().modified().unwrap();
    let labels =
        |values: &[f32]| Labels { name: "progress".into(), values: values.into(), by: "a person".into() };
    store.add_labels(id, &labels(&[0.0, 0.5])).unwrap();
    store.add_labels(id, &labels(&[0.0, 1.0])).unwrap();
    store.add_labels(id, &labels(&[0.0, 1.0])).unwrap();
    let error = store.add_labels(id, &labels(&[0.0])).unwrap_err();
    assert!(error.to_string().contains("the labels `progress` has 1 numbers, not 2"), "{error}");

    let store = Store::open(store.path()).unwrap();
    let episode = store.episode(id).unwrap();
    assert_eq!((episode.labels("progress"), episode.labels("other")), (Some(&[0.0, 1.0][..]), None));
    assert_eq!(fs::metadata(file_of(&store, id)).unwrap().modified().unwrap(), before);
    let verified = store.verify(&|_, _| {}).unwrap();
    assert_eq!((verified.episodes, verified.labels, verified.is_whole()), (1, 1, true));
    assert_eq!(fs::read_to_string(store.path().join("manifest.jsonl")).unwrap().lines().count(), 4);
}

#[test]
fn two_writers_and_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = new_store(dir.path());
    let mut two = Store::open(one.path()).unwrap();
    let a = one.add(&small(0.0), &Origin::new("one")).unwrap();
    let b = two.add(&small(1.0), &Origin::new("two")).unwrap();
    assert_eq!(two.episodes().len(), 2, "a writer sees what others added");
    let manifest = one.path().join("manifest.jsonl");
    let mut text = fs::read_to_string(&manifest).unwrap();
    text.push_str("{\"episode\":{\"id\":\"");
    fs::write(&manifest, &text).unwrap();
    assert_eq!(Store::open(one.path()).unwrap().episodes().len(), 2, "half a line does not count");
    let c = one.add(&small(2.0), &Origin::new("one")).unwrap();
    let ids: Vec<EpisodeId> =
        Store::open(one.path()).unwrap().episodes().iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [a, b, c]);
}

#[test]
fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let none = Store::open(dir.path().join("nowhere")).unwrap_err();
    assert!(none.to_string().contains("is no store"), "{none}");
    fs::write(dir.path().join("something"), "else").unwrap();
    assert!(matches!(Store::create(dir.path(), None), Err(StoreError::NotEmpty { .. })));
    let mut store = new_store(dir.path());
    assert!(matches!(Store::create(store.path(), None), Err(StoreError::Exists { .. })));

    let ragged = Episode { states: vec![vec![0.0], vec![]], ..small(0.0) };
    let error = store.add(&ragged, &Origin::new("test")).unwrap_err();
    assert_eq!(error.to_string(), "this episode cannot be stored: state 1 has 0, not 1");

    let id = store.add(&small(0.0), &Origin::new("test")).unwrap();
    let path = file_of(&store, id);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
    assert!(matches!(damage(store.episode(id)), Damage::TooLong { .. }));
    fs::remove_file(&path).unwrap();
    assert_eq!(damage(store.episode(id)), Damage::Missing);
    fs::write(path.with_file_name("stray.safetensors"), "x").unwrap();
    fs::write(path.with_file_name(".x.1-1.partial"), "x").unwrap();
    let problems: Vec<String> =
        store.verify(&|_, _| {}).unwrap().problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");

    let manifest = store.path().join("manifest.jsonl");
    fs::write(&manifest, "{\"plaudit_store\":9}\n").unwrap();
    assert!(matches!(Store::open(store.path()), Err(StoreError::Version { found: 9, .. })));
    fs::write(&manifest, "{\"plaudit_store\":1}\nnonsense\n").unwrap();
    assert!(Store::open(store.path()).unwrap_err().to_string().contains("line 2"));
}
