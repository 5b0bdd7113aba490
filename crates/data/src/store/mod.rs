//! plaudit's own store: episodes as a trainer wants them.
//!
//! A store is a folder. Each episode is one file, named by the SHA-256 of its bytes: nothing is ever overwritten, the
//! same episode is stored once however often it is added, and `sha256sum` can check what is there. The files are
//! [safetensors](https://github.com/huggingface/safetensors), so numpy, torch and JAX open them without plaudit; here
//! they are mapped, and [`StoredEpisode::frame`] is a slice of the map. Where episodes came from is in a log beside
//! them, `manifest.jsonl`. Labels come later and lie in small files of their own.
//!
//! ```text
//! store/
//!   manifest.jsonl             one line about the store, then one per episode or column of labels
//!   episodes/<sha256>.safetensors
//!   labels/<sha256>.safetensors
//! ```
//!
//! A file is complete or absent: it is written under a hidden name, flushed to disk and renamed. Opening an episode
//! checks its header, its size and, the first time, its hash; [`Store::verify`] reads everything and checks every file.
//! `docs/store.md` has the format byte by byte.
//!
//! ```
//! use plaudit_core::{End, FrameShape};
//! use plaudit_data::episode::{CameraTrack, Episode, Timestep};
//! use plaudit_data::store::{Labels, Origin, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! # let folder = dir.path().join("store");
//! # let timestep = |reward, end| Timestep { reward, end, success: Some(false), facts: vec![] };
//! # let episode = Episode {
//! #     row: 0, number: 0, batch_step: 1, success: false, task: None,
//! #     cameras: vec![CameraTrack { name: "main".into(), shape: FrameShape::rgb(1, 1), pixels: vec![1, 2, 3, 4, 5, 6].into() }],
//! #     states: vec![vec![0.0], vec![1.0]], actions: vec![vec![0.5]],
//! #     timesteps: vec![timestep(0.0, End::No), timestep(1.0, End::Terminated)],
//! # };
//! let mut store = Store::create(&folder, Some("CC-BY-4.0"))?;
//! let id = store.add(&episode, &Origin::new("plaudit collect pick_cube"))?;
//! assert_eq!(store.add(&episode, &Origin::new("the same again"))?, id);
//! store.add_labels(id, &Labels { name: "progress".into(), values: vec![0.0, 1.0], by: "a person".into() })?;
//!
//! let store = Store::open(&folder)?;
//! let episode = store.episode(id)?;
//! let main = episode.camera("main").ok_or("no such camera")?;
//! assert_eq!(episode.frame(main, 1), [4, 5, 6]);
//! assert_eq!(episode.rewards(), [0.0, 1.0]);
//! assert_eq!(episode.labels("progress"), Some(&[0.0, 1.0][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it is not: an archive of every field a robot can record, or a place to append to while an episode still runs.

mod builder;
mod columns;
mod encode;
mod error;
mod folder;
mod id;
mod labels;
mod manifest;
mod stored;
mod verify;

pub(crate) use builder::StoreBuilder;
pub use error::{Damage, StoreError};
pub use folder::Store;
pub use id::EpisodeId;
pub use labels::Labels;
pub use manifest::{Entry, LabelEntry, Origin};
pub use stored::StoredEpisode;
pub use verify::{Verified, VerifyProgress};

/// The version of the format that this code writes, and the newest that it reads.
pub const VERSION: u32 = 1;
