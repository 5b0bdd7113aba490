//! Episodes on disk, and what becomes of them.
//!
//! Robot data comes out of Python (a pickle per episode, a `.pt` per dataset) and out of LeRobot; plaudit has a store of its
//! own. The files are read by `plaudit-pyfiles`, which copies no image: arrays are views of the mapped file.
//!
//! What this crate is not: it knows no tensors and no neural networks, and it trusts no file.

pub mod convert;
mod decompress;
pub mod demonstrations;
pub mod episode;
pub mod export;
mod file_lock;
mod hdf5;
pub mod inspect;
pub mod labelled;
pub mod labelling;
pub mod lerobot;
mod mcap;
mod own_folder;
mod protobuf;
pub mod recording;
pub mod replay_buffer;
mod rlds;
pub mod store;
pub mod video;
pub mod windows;
mod zarr;
