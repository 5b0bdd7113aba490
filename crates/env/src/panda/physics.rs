//! Which engine computes the physics of a table.

use plaudit_core::EnvError;
use serde::{Deserialize, Serialize};

use super::control::Command;
use super::kinematics::JOINTS;
#[cfg(feature = "mujoco")]
use super::mujoco::{MujocoTable, Scene};
use super::tabletop::{MovableBox, TableState, Tabletop, Wall};
use super::wrench::Wrench;
use crate::SettingsError;

/// What computes forces and contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Rapier: part of every build.
    #[default]
    Rapier,
    /// MuJoCo: part of builds with the feature `mujoco`, refused by others.
    Mujoco,
}

impl Engine {
    /// Refuses an engine that was not built in.
    pub(crate) fn check(self) -> Result<(), SettingsError> {
        match self {
            Self::Mujoco if cfg!(not(feature = "mujoco")) => Err(SettingsError::NoMujoco),
            Self::Rapier | Self::Mujoco => Ok(()),
        }
    }

    /// A rough upper bound on one table, for asking whether a batch fits in memory.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Rapier => 160 << 10,
            Self::Mujoco => 400 << 10,
        }
    }

    /// Makes the engine ready for tables with a box like `object`.
    #[cfg_attr(
        not(feature = "mujoco"),
        expect(unused_variables, reason = "Rapier takes things as they come")
    )]
    pub(crate) fn load(self, object: &MovableBox) -> Result<Physics, EnvError> {
        self.check()?;
        match self {
            #[cfg(feature = "mujoco")]
            Self::Mujoco => Ok(Physics::Mujoco(Scene::load(object)?)),
            _ => Ok(Physics::Rapier),
        }
    }
}

/// An engine that is ready to set tables.
#[derive(Debug)]
pub(crate) enum Physics {
    Rapier,
    #[cfg(feature = "mujoco")]
    Mujoco(std::sync::Arc<Scene>),
}

impl Physics {
    /// The robot at `angles` with open fingers, `object` where it is.
    pub(crate) fn table(&self, angles: &[f64; JOINTS], object: &MovableBox) -> Table {
        match self {
            Self::Rapier => Table::rapier(angles, object, &[]),
            #[cfg(feature = "mujoco")]
            Self::Mujoco(scene) => Table::Mujoco(MujocoTable::new(scene.clone(), angles, object.pose)),
        }
    }
}

/// A table in one of the engines.
pub(crate) enum Table {
    Rapier(Box<Tabletop>),
    #[cfg(feature = "mujoco")]
    Mujoco(MujocoTable),
}

impl Table {
    /// A table in Rapier, which knows walls too.
    pub(crate) fn rapier(angles: &[f64; JOINTS], object: &MovableBox, walls: &[Wall]) -> Self {
        Self::Rapier(Box::new(Tabletop::new(angles, object, walls)))
    }

    /// One control step towards `command`.
    pub(crate) fn step(&mut self, command: &Command) {
        match self {
            Self::Rapier(table) => table.step(command),
            #[cfg(feature = "mujoco")]
            Self::Mujoco(table) => table.step(command),
        }
    }

    /// The state now. A grasp is two fingers that push within `grasp_degrees` of where they open to.
    pub(crate) fn read(&self, grasp_degrees: f64) -> TableState {
        match self {
            Self::Rapier(table) => table.read(grasp_degrees),
            #[cfg(feature = "mujoco")]
            Self::Mujoco(table) => table.read(grasp_degrees),
        }
    }

    /// Says whether [`wrench`](Self::wrench) will be asked for.
    pub(crate) fn set_wrench_needed(&mut self, needed: bool) {
        match self {
            Self::Rapier(table) => table.set_wrench_needed(needed),
            #[cfg(feature = "mujoco")]
            Self::Mujoco(_) => (),
        }
    }

    /// What touched the robot during the last control step did to it: in Rapier, if that is needed.
    pub(crate) fn wrench(&self) -> Option<Wrench> {
        match self {
            Self::Rapier(table) => table.wrench(),
            #[cfg(feature = "mujoco")]
            Self::Mujoco(_) => None,
        }
    }
}

#[cfg(all(test, not(feature = "mujoco")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_mujoco_says_so() {
        assert_eq!(Engine::Mujoco.check(), Err(SettingsError::NoMujoco));
        assert_eq!(serde_json::from_str::<Engine>("\"mujoco\"").unwrap(), Engine::Mujoco);
    }
}
