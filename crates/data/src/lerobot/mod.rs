//! LeRobot datasets: written as RLinf writes them, read as they are found.
//!
//! [`Writer`] makes LeRobotDataset v3 in the image layout, PNG files inside parquet files, with RLinf's columns; the
//! `lerobot` package loads it. [`Dataset`] reads that, what `lerobot` itself writes, and the older v2. No video codec
//! is needed, and none is here: datasets whose images are in video files are refused by name.
//!
//! ```
//! use plaudit_core::{End, FrameShape};
//! use plaudit_data::episode::{CameraTrack, Episode, Timestep};
//! use plaudit_data::lerobot::{Dataset, Settings, Writer};
//!
//! # let folder = tempfile::tempdir()?;
//! # let save_dir = folder.path();
//! let timestep = |end| Timestep { reward: 0.0, end, success: None, facts: Vec::new() };
//! let camera = CameraTrack { name: "main".into(), shape: FrameShape::rgb(2, 2), pixels: vec![128; 2 * 12].into() };
//! let episode = Episode {
//!     row: 0, number: 0, batch_step: 1, success: true, task: Some("pick the cube".into()), cameras: vec![camera],
//!     states: vec![vec![0.5], vec![0.75]], actions: vec![vec![1.0, -1.0]],
//!     timesteps: vec![timestep(End::No), timestep(End::Terminated)],
//! };
//!
//! let mut writer = Writer::new(save_dir, 0, Settings::default())?;
//! writer.append(&episode)?;
//! let shard = writer.finish()?.expect("one episode makes a shard");
//!
//! let dataset = Dataset::open(&shard.path)?;
//! assert_eq!(dataset.read(0)?.actions, episode.actions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod feature;
mod png_image;
mod read;
mod table;
mod write;

pub use error::{LeRobotError, Problem};
pub use feature::Feature;
pub use read::{Dataset, DatasetMetadata, Episodes, Info, Limits, Version, shards};
pub use write::{Existing, ExistingShards, Settings, Shard, Writer};
