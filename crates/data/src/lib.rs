//! Episodes on disk, and what becomes of them.
//!
//! Robot data comes out of Python: a pickle per episode, a `.pt` per dataset, sometimes an `.npy` or `.npz`. The
//! module [`python`] reads and writes those files without Python. Reading runs nothing that a file asks for, takes
//! no more memory than the file deserves, and copies no image: arrays are views of the mapped file.
//!
//! ```
//! use plaudit_data::python;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("episode.pkl");
//! // {"success": True, "actions": [0.5, 1.5]}, as pickle.dump writes it
//! std::fs::write(&path, b"\x80\x04}\x94(\x8c\x07success\x94\x88\x8c\x07actions\x94]\x94(G?\xe0\0\0\0\0\0\0G?\xf8\0\0\0\0\0\0eu.")?;
//!
//! let episode = python::read(&path)?;
//! assert_eq!(episode.get("success").and_then(|success| success.to_bool()), Some(true));
//! let actions = episode.get("actions").and_then(|actions| actions.as_items()).unwrap_or_default();
//! assert_eq!(actions.iter().filter_map(|action| action.to_f64()).collect::<Vec<_>>(), [0.5, 1.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this crate is not: it knows no tensors and no neural networks, and it trusts no file.

mod atomic_file;
pub mod convert;
pub mod demonstrations;
pub mod episode;
pub mod inspect;
pub mod labelled;
pub mod lerobot;
pub mod python;
pub mod replay_buffer;
pub mod store;
pub mod windows;
