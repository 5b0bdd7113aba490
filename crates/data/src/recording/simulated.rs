//! Episodes by what a simulator said of itself: ManiSkill's trajectories with their `env_states`, also those that were recorded
//! without any observation. Whoever knows the task can render them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::OpenError;
use super::hdf5_columns::{files, open_own};
use super::maniskill::{read_simulated, simulated_episodes};
use super::{BadFile, FileProblem};
use crate::episode::Episode;
use crate::hdf5::Hdf5File;

/// What a simulator said of everything, a row for each observation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SimulatorStates {
    /// The environment, where the file beside the trajectories names it.
    pub env_id: Option<String>,
    /// Things by name: position, quaternion with its real part first, and speeds.
    pub actors: BTreeMap<String, Vec<Vec<f32>>>,
    /// Robots by name: the same of their root, then the positions of joints, then their speeds.
    pub articulations: BTreeMap<String, Vec<Vec<f32>>>,
}

/// An episode of a simulator.
#[derive(Debug)]
pub struct SimulatedEpisode {
    /// What happened. It has no images, and no states where none were observed.
    pub episode: Episode,
    /// Whether somebody says how it went.
    pub success: Option<bool>,
    /// What everything was like.
    pub states: SimulatorStates,
}

/// The episodes of ManiSkill's trajectories at a path, none of which is read yet.
#[derive(Debug, Default)]
pub struct SimulatedEpisodes {
    /// In order.
    pub episodes: Vec<SimulatedPlace>,
    /// Files that cannot be used.
    pub broken: Vec<BadFile>,
}

/// Where an episode of a simulator is.
#[derive(Debug, Clone)]
pub struct SimulatedPlace {
    file: PathBuf,
    group: String,
}

impl SimulatedEpisodes {
    /// What is in a file `*.h5`, or in those of a folder.
    ///
    /// # Errors
    /// When there are no such files.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let all = files(path)?;
        if all.is_empty() {
            return Err(OpenError::NoEpisodes { path: path.into() });
        }
        let mut found = Self::default();
        for file in all {
            match open_own(path, &file).and_then(|open| simulated_episodes(&open)) {
                Ok(groups) => {
                    let place = |group| SimulatedPlace { file: file.clone(), group };
                    found.episodes.extend(groups.into_iter().map(place));
                }
                Err(problem) => found.broken.push(problem.in_file(&file)),
            }
        }
        Ok(found)
    }
}

impl SimulatedPlace {
    /// The file, and the episode's name in there.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.join(&self.group)
    }

    /// The episode.
    ///
    /// # Errors
    /// When it is damaged, or has no states of the simulator.
    pub fn read(&self) -> Result<SimulatedEpisode, BadFile> {
        let read = || -> Result<SimulatedEpisode, FileProblem> {
            let (recording, states) = read_simulated(&self.file, &Hdf5File::open(&self.file)?, &self.group)?;
            Ok(SimulatedEpisode { episode: recording.to_episode()?, success: recording.success(), states })
        };
        read().map_err(|problem| problem.in_file(self.path()))
    }
}
