//! A reward model in a file, which is reloaded when the file changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{FrameRewardModel, LoadedModel, RewardModelError, RewardModelSource};

/// How deep a checkpoint folder is searched for its newest file.
const DEPTH: usize = 4;

/// Loads the model that is in the file now.
type Load = Box<dyn Fn(&Path) -> Result<Box<dyn FrameRewardModel>, RewardModelError> + Send + Sync>;

/// A checkpoint, a file or a folder, that may be overwritten while its model is in use.
///
/// Its version is the time of the last change, so that it grows also from one run to the next.
pub struct RewardModelFile {
    path: PathBuf,
    load: Load,
    /// When what was last given was written.
    given: Mutex<u64>,
}

impl RewardModelFile {
    /// The model in the file as it is now, and the source of later ones.
    pub fn open(path: impl Into<PathBuf>, load: Load) -> Result<(LoadedModel, Self), RewardModelError> {
        let path = path.into();
        let version = changed_at(&path)?;
        let model = load(&path)?;
        Ok((LoadedModel { model, version }, Self { path, load, given: Mutex::new(version) }))
    }
}

impl RewardModelSource for RewardModelFile {
    fn newer(&self) -> Result<Option<LoadedModel>, RewardModelError> {
        let version = changed_at(&self.path)?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if *given == version {
            return Ok(None);
        }
        let model = (self.load)(&self.path)?;
        *given = version;
        Ok(Some(LoadedModel { model, version }))
    }
}

/// When the newest file under `path` was written, in nanoseconds since 1970.
fn changed_at(path: &Path) -> Result<u64, RewardModelError> {
    newest(path, DEPTH)
        .map_err(|error| RewardModelError::File { path: path.into(), reason: error.to_string() })
}

fn newest(path: &Path, depth: usize) -> std::io::Result<u64> {
    let metadata = fs::metadata(path)?;
    let mut newest_time = nanoseconds(metadata.modified()?);
    if metadata.is_dir() && depth > 0 {
        for entry in fs::read_dir(path)? {
            newest_time = newest_time.max(newest(&entry?.path(), depth - 1)?);
        }
    }
    Ok(newest_time)
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use plaudit_core::Score;

    use super::*;
    use crate::models::{FrameStack, ReloadableModel};

    /// Scores everything as the file says.
    struct Written(Score);

    impl FrameRewardModel for Written {
        fn cameras(&self) -> &[Arc<str>] {
            &[]
        }

        fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
            Ok(vec![self.0; frames.len()])
        }

        fn threshold(&self) -> Option<f32> {
            Some(self.0.get())
        }
    }

    fn read(path: &Path) -> Result<Box<dyn FrameRewardModel>, RewardModelError> {
        let text = fs::read_to_string(path.join("model")).unwrap();
        let score = text.parse().ok().and_then(Score::new);
        let score = score.ok_or_else(|| RewardModelError::Backend("no score".into()))?;
        Ok(Box::new(Written(score)))
    }

    /// Writes a file as if `seconds` had gone by.
    fn write(folder: &Path, text: &str, seconds: u64) {
        let file = folder.join("model");
        fs::write(&file, text).unwrap();
        let time = SystemTime::now() + Duration::from_secs(seconds);
        fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_model_follows_its_file_and_survives_a_broken_one() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "0.25", 1);
        let (first, source) = RewardModelFile::open(folder.path(), Box::new(read)).unwrap();
        let model = ReloadableModel::with_source(first, Some(Box::new(source)));
        let mut seen = vec![(model.current().version, model.current().model.threshold())];
        let mut look = || {
            let refreshed = model.refresh().ok();
            seen.push((model.current().version, model.current().model.threshold()));
            refreshed
        };
        assert_eq!(look(), Some(false));
        write(folder.path(), "0.75", 2);
        assert_eq!(look(), Some(true));
        write(folder.path(), "half a fi", 3);
        assert_eq!(look(), None);
        write(folder.path(), "0.5", 4);
        assert_eq!(look(), Some(true));
        let thresholds: Vec<_> = seen.iter().filter_map(|(_, threshold)| *threshold).collect();
        assert_eq!(thresholds, [0.25, 0.25, 0.75, 0.75, 0.5]);
        assert!(
            seen.windows(2).all(|pair| pair[0].0 <= pair[1].0)
                && seen[0].0 < seen[2].0
                && seen[2].0 < seen[4].0
        );
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("best_model");
        let error = RewardModelFile::open(&path, Box::new(read)).err().unwrap().to_string();
        assert!(error.starts_with(&format!("cannot read {}: No such file", path.display())), "{error}");
    }
}
