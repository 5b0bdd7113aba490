//! The formats, and what the file of each says of it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

use super::error::OpenError;
use super::item::Items;
use super::pixel_format::{ChannelOrder, Strictness};
use super::probe::Probe;
use super::{
    collected, frames, image_folder, image_list, keyboard, lerobot, maniskill, mcap, plain_folder,
    replay_buffer, rlds, robomimic, stored, trajectories, transitions, windows, zarr,
};

macro_rules! formats {
    ($($(#[$attribute:meta])* $variant:ident = $format:expr,)*) => {
        /// The formats of recordings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum DatasetFormat {
            $($(#[$attribute])* $variant,)*
        }

        impl DatasetFormat {
            /// All of them, in the order in which they are looked for.
            #[allow(unused_doc_comments)] // the arms below carry those of the list
            pub const ALL: &[Self] = &[$($(#[$attribute])* Self::$variant,)*];

            #[allow(unused_doc_comments)]
            pub(super) fn spec(self) -> &'static Format {
                match self {
                    $($(#[$attribute])* Self::$variant => &$format,)*
                }
            }
        }
    };
}

// A new format is a file of this folder and a line here.
formats! {
    /// plaudit's own store.
    Store = stored::FORMAT,
    /// A LeRobot dataset.
    Lerobot = lerobot::FORMAT,
    /// ManiSkill's trajectories: `*.h5`, a group `traj_N` per episode.
    Maniskill = maniskill::FORMAT,
    /// robomimic's demonstrations: an HDF5 file, a group `data/demo_N` per episode.
    Robomimic = robomimic::FORMAT,
    /// RLDS: a folder of TensorFlow Datasets with `features.json` and `*.tfrecord-*` files, an episode per record.
    Rlds = rlds::FORMAT,
    /// A replay buffer in zarr: `data/*` and `meta/episode_ends`, in a folder or a `.zarr.zip`.
    Zarr = zarr::FORMAT,
    /// Recordings of a robot in MCAP, a file per episode; in folders `success` and `failure`, or not.
    Mcap = mcap::FORMAT,
    /// Windows of frames with a `segments.jsonl`.
    Windows = windows::FORMAT,
    /// A replay buffer of RLinf's: files `trajectory_*.pt`.
    ReplayBuffer = replay_buffer::FORMAT,
    /// PNG images that a person sorted into folders `success` and `failure`.
    ImageFolder = image_folder::FORMAT,
    /// Videos (`*.mp4`) or folders of images, an episode each; in folders `success` and `failure`, or with a `labels.csv`.
    PlainFolder = plain_folder::FORMAT,
    /// `train.pt` and `val.pt`: images with labels.
    Images = image_list::FORMAT,
    /// Folders `positive` and `negative` of `.npy` trajectories: `images` `[T, C, H, W]` by camera, `labels` `[T]`.
    Trajectories = trajectories::FORMAT,
    /// Folders `success` and `failure` of pickles with a list of `frames`. The label is the frame's `success`, or the
    /// episode's `label` where frames have none.
    Frames = frames::FORMAT,
    /// One pickle per episode, as RLinf's `CollectEpisode` writes them since 0.3: lists of `observations` and `infos`. The
    /// label is `info["success"]`, else `info["episode"]["success_once"]`.
    Episodes = collected::FORMAT,
    /// The same from before that: the label is `info["is_obj_placed"]`, and the last observation is left out, since it
    /// belongs to the next episode.
    PreMerge = collected::PRE_MERGE,
    /// One `data.pkl` with a list of transitions of a real robot. It is cut where an episode ends; transitions that do
    /// nothing are left out unless they end it; the label is `rewards > 0.5`.
    Transitions = transitions::FORMAT,
    /// One long recording (`*.pkl` with `observations` and `labels`) whose frames a person labelled by keyboard: 1, 0, or
    /// None for no key. The unit of a split is a run of frames under one key.
    Keyboard = keyboard::FORMAT,
    /// Only in tests: a format that was added by one file and this line.
    #[cfg(test)]
    Added = super::added_in_test::FORMAT,
}

/// What one file of this folder says of its format.
pub(super) struct Format {
    /// In one word; `--source` takes it.
    pub(super) name: &'static str,
    /// In words.
    pub(super) describe: &'static str,
    /// What one thing of it is called, and several.
    pub(super) noun: [&'static str; 2],
    /// Whether one of RLinf's collectors writes it. Their files look alike: where several fit, somebody has to say which it
    /// is.
    pub(super) is_collectors: bool,
    /// Whether items share files, so that they are counted themselves.
    pub(super) shares_files: bool,
    /// Whether it means something how many frames an item has.
    pub(super) has_lengths: bool,
    /// Whether this is what lies at a path.
    pub(super) is_at: fn(&Probe<'_>) -> Result<bool, OpenError>,
    /// What is read, in order.
    pub(super) items: fn(&Path) -> Result<Items, OpenError>,
    /// What messages call the image under a key of an entry.
    pub(super) location: fn(usize, &str) -> String,
    /// How its images are stored.
    pub(super) pixels: StoredPixels,
    /// What a split keeps together.
    pub(super) split_unit: SplitUnit,
}

/// How the images of a format are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredPixels {
    /// Channels are where there are 1, 3 or 4 of them.
    Found,
    /// As the user says.
    AsAsked,
    /// Channels come first, and floats may be whole numbers from 0 to 255.
    OldTrajectories,
}

/// What a split keeps together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SplitUnit {
    /// The whole recording.
    #[default]
    Recording,
    /// A run of frames under one label.
    Run,
}

impl Format {
    /// A format of episodes; what differs is said by each file.
    pub(super) const EPISODES: Self = Self {
        name: "",
        describe: "",
        noun: ["episode", "episodes"],
        is_collectors: false,
        shares_files: false,
        has_lengths: true,
        is_at: |_| Ok(false),
        items: |_| Ok(Items::default()),
        location: |entry, key| format!("the image of `{key}` at entry {entry}"),
        pixels: StoredPixels::Found,
        split_unit: SplitUnit::Recording,
    };

    /// What one of RLinf's collectors writes.
    pub(super) const COLLECTED: Self = Self {
        is_collectors: true,
        location: |entry, key| format!("observations[{entry}][\"{key}\"]"),
        pixels: StoredPixels::AsAsked,
        ..Self::EPISODES
    };
}

impl DatasetFormat {
    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        self.spec().describe
    }

    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// What one thing of it is called, and several.
    #[must_use]
    pub fn noun(self) -> [&'static str; 2] {
        self.spec().noun
    }

    /// Whether one of RLinf's collectors writes it, so that `--source` may have to name it.
    #[must_use]
    pub fn is_collectors(self) -> bool {
        self.spec().is_collectors
    }

    /// Whether items share files.
    pub(crate) fn shares_files(self) -> bool {
        self.spec().shares_files
    }

    /// Whether it means something how many frames an item has.
    pub(crate) fn has_lengths(self) -> bool {
        self.spec().has_lengths
    }

    /// Whether its items are episodes.
    pub(crate) fn is_of_episodes(self) -> bool {
        self.noun() == Format::EPISODES.noun
    }

    /// What a split keeps together.
    pub(crate) fn split_unit(self) -> SplitUnit {
        self.spec().split_unit
    }

    /// The order of channels that somebody vouches for, and what is done with odd numbers.
    pub(crate) fn pixels(self, asked: ChannelOrder) -> (Option<ChannelOrder>, Strictness) {
        match self.spec().pixels {
            StoredPixels::Found => (None, Strictness::Refuse),
            StoredPixels::AsAsked => (Some(asked), Strictness::Refuse),
            StoredPixels::OldTrajectories => (Some(ChannelOrder::ChannelsFirst), Strictness::AllowByteFloats),
        }
    }

    /// The names of what collectors write.
    #[must_use]
    pub fn collectors() -> String {
        let collectors = Self::ALL.iter().filter(|format| format.is_collectors());
        collectors.map(|format| format.name()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for DatasetFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DatasetFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|format| format.name() == text);
        let names = || Self::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ");
        found.copied().ok_or_else(|| format!("`{text}` is none of {}", names()))
    }
}
