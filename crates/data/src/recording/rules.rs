//! What readers decide where a recording leaves it open: every rule has one name and one place.

use std::path::PathBuf;

use super::formats::DatasetFormat;

/// The rules by which recordings are read, whatever their format.
///
/// The defaults are RLinf's wherever RLinf has a rule. What nobody knows stays unknown: no rule turns an episode without
/// any label into a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The format, where it cannot be detected. Detected if not said.
    pub format: Option<DatasetFormat>,
    /// Label precedence: what an episode of frames says of itself. The first of these keys that is there counts, for frames
    /// that have no label of their own. `label`, then `success`.
    pub episode_label_keys: Vec<String>,
    /// Label precedence: labels that were added to a store under this name count for more than what the environment said.
    /// `success`.
    pub added_labels: String,
    /// What a frame without a label is in an episode that labels others.
    pub unlabelled_frames: UnlabelledFrames,
    /// Success rule: a step whose reward is above this shows success. Where nothing is said, 0.5 for transitions of a real
    /// robot; replay buffers keep no success, and theirs stays unknown.
    pub success_reward: Option<f64>,
    /// Success rule: a table of labels (`.csv`, `.json` or `.jsonl`), which counts before what the episodes say: `episode,label`,
    /// or `episode,start,end,label` for frames from `start` up to `end`, that one left out. Episodes that it does not name keep
    /// what they say.
    pub labels: Option<PathBuf>,
    /// Success rule: so many frames at the end of an episode show success, and those before do not, where no frame has a label and
    /// the episode is not known to have failed. For demonstrations, which end in success.
    pub success_last_frames: Option<usize>,
    /// Success rule: whether a replay buffer's episode that terminates with a positive reward ends in success. Off, since
    /// nobody said so; on for demonstrations, which are successes by intention.
    pub terminal_reward_is_success: bool,
    /// Idle steps: a real robot's action whose absolute values sum to less than this does nothing, and nothing is learned
    /// from it unless it ends an episode. 1e-5.
    pub idle_action: f64,
    /// Last frame: whether the last observation of RLinf's collector before 0.3 is left out, which is the next episode's
    /// first. It is.
    pub skip_next_reset: bool,
    /// Bad files: what happens with episodes and files that cannot be used, where a dataset is learned from, measured on or
    /// converted. The first one stops it.
    pub bad_files: BadFiles,
    /// The camera of a `.npy` trajectory that is the main one, where it has several. `base_camera`.
    pub main_camera: String,
}

/// What happens with episodes and files that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadFiles {
    /// The first one is an error.
    #[default]
    Stop,
    /// They are left out, counted and listed, as RLinf's scripts do.
    Skip,
}

/// What a frame without a label is in an episode that labels others: the reset's, above all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnlabelledFrames {
    /// A failure, as in RLinf.
    #[default]
    Failures,
    /// Nothing to learn from.
    LeftOut,
    /// There as well, like every frame of an episode without any label: for whoever is about to label them. What counts as
    /// their label until then means nothing.
    Kept,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            format: None,
            episode_label_keys: ["label", "success"].map(String::from).into(),
            added_labels: "success".into(),
            unlabelled_frames: UnlabelledFrames::default(),
            success_reward: None,
            labels: None,
            success_last_frames: None,
            terminal_reward_is_success: false,
            idle_action: 1e-5,
            skip_next_reset: true,
            bad_files: BadFiles::default(),
            main_camera: "base_camera".into(),
        }
    }
}

impl Rules {
    /// The rules for demonstrations.
    #[must_use]
    pub fn for_demonstrations() -> Self {
        Self { terminal_reward_is_success: true, ..Self::default() }
    }
}

/// A real robot's transition shows success when its reward is above this, unless [`Rules::success_reward`] says otherwise.
pub(super) const ROBOT_SUCCESS_REWARD: f64 = 0.5;
