//! What readers decide where a recording leaves it open: every rule has one name and one place.

/// A frame of which nobody says whether it shows success does not.
pub(super) const UNKNOWN_IS_SUCCESS: bool = false;

/// What an episode of frames says of itself: the first of these keys that is there counts. It is the label of frames
/// that have none of their own.
pub(super) const EPISODE_LABEL: [&str; 2] = ["label", "success"];

/// Transitions of a real robot whose action is smaller than this in all do nothing, and nothing is learned from them
/// unless they end an episode.
pub(super) const IDLE_ACTION: f64 = 1e-5;

/// A real robot's transition shows success when its reward is above this.
pub(super) const ROBOT_SUCCESS_REWARD: f64 = 0.5;

/// Labels that were added to a store under this name count for more than what the environment said.
pub(super) const ADDED_LABEL: &str = "success";

/// The camera of a trajectory that is the main one, where it has several.
pub(super) const MAIN_CAMERA: &str = "base_camera";
