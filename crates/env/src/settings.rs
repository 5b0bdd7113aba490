//! What can be chosen about a batch of environments, and what cannot be.

use plaudit_core::EnvError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{EnvId, PegInsertionSettings, PickCubeSettings};

/// What to build a batch of environments from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSettings {
    /// Which environment.
    pub id: EnvId,
    /// Rows that are stepped together.
    pub num_envs: usize,
    /// Rows of a group start from the same state: the first `group_size` rows are one group, and so on. Each
    /// row's next episodes start as its neighbours' do, whenever it comes to them.
    #[serde(default = "one")]
    pub group_size: usize,
    /// The number of the first row. A large batch can be split over workers by giving each its own first
    /// row: every row behaves as it would in the whole batch.
    #[serde(default)]
    pub first_row: u64,
    /// Steps after which an episode is truncated; the environment's own limit if absent.
    #[serde(default)]
    pub max_episode_steps: Option<usize>,
    /// Let every episode run to its time limit: terminations are not reported and reset nothing.
    #[serde(default)]
    pub ignore_terminations: bool,
    /// What only PickCube lets one choose.
    #[serde(default)]
    pub pick_cube: Option<PickCubeSettings>,
    /// What only PegInsertionSide lets one choose.
    #[serde(default)]
    pub peg_insertion: Option<PegInsertionSettings>,
}

impl EnvSettings {
    /// `num_envs` rows of `id`, and the defaults for the rest.
    pub fn new(id: EnvId, num_envs: usize) -> Self {
        Self {
            id,
            num_envs,
            group_size: 1,
            first_row: 0,
            max_episode_steps: None,
            ignore_terminations: false,
            pick_cube: None,
            peg_insertion: None,
        }
    }

    /// The time limit these settings come to.
    pub fn episode_limit(&self) -> usize {
        self.max_episode_steps.unwrap_or(self.id.max_episode_steps())
    }

    /// Checks the settings before anything is built.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.num_envs == 0 {
            return Err(SettingsError::NoEnvs);
        }
        if self.group_size == 0 {
            return Err(SettingsError::NoGroup);
        }
        if self.max_episode_steps == Some(0) {
            return Err(SettingsError::NoSteps);
        }
        if self.first_row.checked_add(self.num_envs as u64).is_none() {
            return Err(SettingsError::RowNumbers { first_row: self.first_row, num_envs: self.num_envs });
        }
        self.check_task()
    }

    /// Settings of a task belong to that task alone.
    fn check_task(&self) -> Result<(), SettingsError> {
        match (&self.pick_cube, self.id) {
            (Some(settings), EnvId::PickCubeV1 | EnvId::PickCube3ViewV1) => settings.check()?,
            (Some(_), id) => return Err(SettingsError::OtherTask { key: "pick_cube", id }),
            (None, _) => {}
        }
        match (&self.peg_insertion, self.id) {
            (Some(settings), EnvId::PegInsertionSideV1) => settings.check(),
            (Some(_), id) => Err(SettingsError::OtherTask { key: "peg_insertion", id }),
            (None, _) => Ok(()),
        }
    }
}

fn one() -> usize {
    1
}

/// Invalid settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// An id no environment has.
    #[error("there is no environment `{id}`; did you mean `{nearest}`?")]
    UnknownId {
        /// What was written.
        id: String,
        /// The nearest id there is.
        nearest: EnvId,
    },
    /// A batch of nothing.
    #[error("num_envs is 0; a batch has at least one environment")]
    NoEnvs,
    /// Groups of nothing.
    #[error("group_size is 0; a group has at least one environment")]
    NoGroup,
    /// Episodes of nothing.
    #[error("max_episode_steps is 0; an episode has at least one step")]
    NoSteps,
    /// Row numbers beyond what can be counted.
    #[error("cannot number {num_envs} rows from {first_row}: the row number overflows")]
    RowNumbers {
        /// The first.
        first_row: u64,
        /// How many.
        num_envs: usize,
    },
    /// Settings of one task for another.
    #[error("`{key}` settings were given, but the environment is `{id}`; leave them out")]
    OtherTask {
        /// The settings.
        key: &'static str,
        /// The environment.
        id: EnvId,
    },
    /// A camera that shows nothing, or too much.
    #[error("camera `{name}` cannot be {width} x {height} pixels; each side has 1 to 4096")]
    CameraSize {
        /// The camera.
        name: &'static str,
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// The same camera twice.
    #[error("camera `{name}` is listed twice")]
    CameraTwice {
        /// The camera.
        name: &'static str,
    },
    /// An expert for a hand that cannot turn.
    #[error(
        "the expert turns the peg towards the hole, which `pd_ee_delta_pos` cannot; use `pd_joint_delta_pos`, \
         `pd_joint_pos` or `pd_ee_delta_pose`"
    )]
    CannotTurn,
    /// An engine that is not part of this build.
    #[error("the engine `mujoco` needs a build with MuJoCo, and this one has none")]
    NoMujoco,
    /// More environments than fit in memory.
    #[error(
        "{num_envs} environments of about {} each need {}, but {} are free; lower num_envs",
        crate::memory::human(*bytes_each), crate::memory::human(*bytes_each as u128 * *num_envs as u128),
        crate::memory::human(*free)
    )]
    Memory {
        /// How many were asked for.
        num_envs: usize,
        /// What one needs.
        bytes_each: u64,
        /// What the machine has left.
        free: u64,
    },
}

impl From<SettingsError> for EnvError {
    fn from(error: SettingsError) -> Self {
        Self::Setting(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_in_words() {
        let fine = EnvSettings::new(EnvId::CartPoleV1, 4);
        assert_eq!(fine.check(), Ok(()));
        let refused = |settings: EnvSettings| settings.check().unwrap_err().to_string();
        assert_eq!(
            refused(EnvSettings { num_envs: 0, ..fine.clone() }),
            "num_envs is 0; a batch has at least one environment"
        );
        assert_eq!(
            refused(EnvSettings { max_episode_steps: Some(0), ..fine.clone() }),
            "max_episode_steps is 0; an episode has at least one step"
        );
        assert_eq!(
            refused(EnvSettings { group_size: 0, ..fine.clone() }),
            "group_size is 0; a group has at least one environment"
        );
        assert!(refused(EnvSettings { first_row: u64::MAX, ..fine }).starts_with("cannot number 4 rows"));
    }

    #[test]
    fn unknown_keys_are_refused_and_defaults_are_few() {
        let settings: EnvSettings = serde_json::from_str(r#"{"id": "Pendulum-v1", "num_envs": 2}"#).unwrap();
        assert_eq!(settings, EnvSettings::new(EnvId::PendulumV1, 2));
        assert_eq!(settings.episode_limit(), 200);
        assert!(serde_json::from_str::<EnvSettings>(r#"{"id": "Pendulum-v1", "envs": 2}"#).is_err());
    }
}
