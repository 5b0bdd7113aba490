//! LeRobot datasets: written as RLinf writes them, read as they are found.
//!
//! [`Writer`] makes LeRobotDataset v3: PNG files inside parquet files or H.264 in MP4 files ([`ImageStorage`]), with RLinf's
//! columns or lerobot's own ([`ColumnNames`]); the `lerobot` package loads it. [`Dataset`] reads that, what `lerobot` itself writes, and the older v2,
//! also where images are in video files ([`video`](crate::video)).
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
pub use read::{Dataset, DatasetMetadata, Episodes, FilmedEpisode, Info, Limits, Version, shards};
pub use write::{
    ColumnNames, Existing, ExistingShards, ImageAt, ImageStorage, KnownSuccess, Settings, Shard,
    SourceCamera, SourceEpisode, Writer,
};

/// What plaudit calls a person's taking over, as RLinf does.
pub(crate) const INTERVENTION: &str = "intervene_flag";
/// The columns that say so, in datasets of different origin; the first that is there counts.
pub(crate) const INTERVENTIONS: [&str; 3] =
    [INTERVENTION, "complementary_info.is_intervention", "is_intervention"];

/// Whether a person had taken over, where somebody says so: readers call it one way, robots another.
pub(crate) fn intervention(facts: &[(std::sync::Arc<str>, f32)]) -> Option<bool> {
    let said = facts.iter().find(|(name, _)| matches!(&**name, INTERVENTION | "intervention"));
    said.map(|(_, value)| *value != 0.0)
}
