//! What readers decide where a recording leaves it open: every rule has one name and one place.

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
    /// Success rule: whether a replay buffer's episode that terminates with a positive reward ends in success. Off, since
    /// nobody said so; on for demonstrations, which are successes by intention.
    pub terminal_reward_is_success: bool,
    /// Idle steps: a real robot's action whose absolute values sum to less than this does nothing, and nothing is learned
    /// from it unless it ends an episode. 1e-5.
    pub idle_action: f64,
    /// Last frame: whether the last observation of RLinf's collector before 0.3 is left out, which is the next episode's
    /// first. It is.
    pub skip_next_reset: bool,
    /// The camera of a `.npy` trajectory that is the main one, where it has several. `base_camera`.
    pub main_camera: String,
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
            terminal_reward_is_success: false,
            idle_action: 1e-5,
            skip_next_reset: true,
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
