//! `data_collection`: keeping episodes while environments run.

use crate::config::block::{OneOrMore, block, choice};
use crate::config::range::{POSITIVE, SHARE};

choice! {
    /// How collected episodes are written.
    ExportFormat {
        /// One Python pickle per episode, as RLinf's scripts read them.
        Pickle = "pickle" | "pickle_episode",
        /// A LeRobot v3 dataset with images inside parquet files, or in videos.
        Lerobot = "lerobot" | "lerobot_dataset",
        /// One `.npy` dictionary per episode, in a folder for successes and one for failures.
        Npy = "npy",
        /// Trajectories as RLinf's replay buffers keep them, to be loaded as demonstrations.
        ReplayBuffer = "replay_buffer" | "pt",
        /// plaudit's own episode store.
        Store = "store",
        /// One pickle of frames per episode, in `success/` and `failure/`.
        Frames = "frames",
    }
}

choice! {
    /// Where images of LeRobot datasets go.
    VideoCodec {
        /// PNG files inside the parquet files: every pixel exact, as RLinf has them.
        None = "none" | "false",
        /// H.264 in MP4 files: small, and slightly blurred. Sides must be even.
        H264 = "h264" | "true",
    }
}

block! {
    /// Keeps episodes while environments run.
    Collection as CollectionWritten {
        /// Whether to collect.
        enabled: bool = false,
        /// Where episodes go. Not set: `data/` in the run directory.
        save_dir: Option<String> = None,
        /// How episodes are written: one format, or several, each in a folder of its name then.
        export_format: OneOrMore<ExportFormat> = OneOrMore::One(ExportFormat::Pickle),
        /// Keep successful episodes only, whether they end by success or by the clock.
        only_success: bool = false,
        /// The robot named in LeRobot metadata.
        robot_type: String = "panda".into(),
        /// Frames per second named in LeRobot metadata.
        #[range(POSITIVE)]
        fps: f64 = 10.0,
        /// Close a LeRobot shard every so many episodes. 0: only at the end.
        finalize_interval: u64 = 100,
        /// Close a LeRobot shard once it has so many frames, too, so that a kill hides little; 0: never for that reason.
        /// Not set: 2,000, or never where `finalize_interval` is 0.
        finalize_frames: Option<u64> = None,
        /// Whether images of LeRobot datasets are videos, and of which codec.
        video: VideoCodec = VideoCodec::None,
        /// Add to the LeRobot datasets that are already in `save_dir`. Other formats always add.
        resume: bool = false,
        /// The licence that episodes in plaudit's own store are under.
        licence: Option<String> = None,
        /// Stop keeping successes at this many. Not set: no limit.
        target_success: Option<u64> = None,
        /// Stop keeping failures at this many. Not set: no limit.
        target_failure: Option<u64> = None,
        /// Share of successes that is kept.
        #[range(SHARE)]
        sample_rate_success: f64 = 1.0,
        /// Share of failures that is kept.
        #[range(SHARE)]
        sample_rate_fail: f64 = 1.0,
        /// Where `.npy` successes go. Not set: `positive/` in `save_dir`.
        positive_dir: Option<String> = None,
        /// Where `.npy` failures go. Not set: `negative/` in `save_dir`.
        negative_dir: Option<String> = None,
        /// The cameras to keep in `.npy` episodes. Empty: all.
        image_keys: Vec<String> = Vec::new(),
    }
}
