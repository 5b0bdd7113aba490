//! Demonstrations in any format that [`Recordings`] opens, as [`Episode`]s.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::episode::Episode;
use crate::recording::{BadFile, FileProblem, Item, OpenError, Recordings, Rules};

/// Why demonstrations could not be read.
#[derive(Debug, Error)]
pub enum DemonstrationError {
    /// There is no recording under the name.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file without a demonstration in it.
    #[error("{0}")]
    File(BadFile),
    /// There is nothing in it yet.
    #[error("{}: no demonstrations in it", path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
}

/// Reads all demonstrations under a path.
///
/// # Errors
/// When there are none, one of them cannot be read, or one has no actions.
pub fn read(path: &Path) -> Result<Vec<Episode>, DemonstrationError> {
    let Recordings { items, mut broken, .. } = Recordings::open(path, &Rules::for_demonstrations())?;
    if let Some((file, problem)) = broken.pop() {
        return Err(DemonstrationError::File(problem.in_file(file)));
    }
    let mut episodes = Vec::new();
    for item in &items {
        let found = of_item(item);
        episodes.extend(found.map_err(|problem| DemonstrationError::File(problem.in_file(&item.path)))?);
    }
    match episodes.is_empty() {
        true => Err(DemonstrationError::Nothing { path: path.to_owned() }),
        false => Ok(episodes),
    }
}

fn of_item(item: &Item) -> Result<Vec<Episode>, FileProblem> {
    item.read()?.iter().map(crate::recording::Recording::to_episode).collect()
}
