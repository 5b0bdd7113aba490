//! Whether a file lies in a dataset's folder, wherever links lead.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a dataset: what may be read of it.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    /// Without links.
    roots: Vec<PathBuf>,
}

impl OwnFolder {
    /// A dataset's folder. Where it is in the cache of Hugging Face's hub, whose snapshots are links to the files in `blobs`,
    /// those belong to it.
    pub(crate) fn of(root: &Path) -> Self {
        let Ok(root) = fs::canonicalize(root) else { return Self { roots: Vec::new() } };
        let is_called = |folder: &Path, is: fn(&str) -> bool| {
            folder.file_name().and_then(|name| name.to_str()).is_some_and(is)
        };
        let snapshots = root.ancestors().find(|folder| is_called(folder, |name| name == "snapshots"));
        let repository = snapshots.and_then(Path::parent);
        let is_cache = |name: &str| name.starts_with("datasets--") || name.starts_with("models--");
        let blobs =
            repository.filter(|folder| is_called(folder, is_cache)).map(|folder| folder.join("blobs"));
        let blobs = blobs.and_then(|folder| fs::canonicalize(folder).ok());
        Self { roots: std::iter::once(root).chain(blobs).collect() }
    }

    /// Whether a file lies there. One that does not exist lies nowhere.
    pub(crate) fn has(&self, file: &Path) -> bool {
        let real = fs::canonicalize(file);
        real.is_ok_and(|real| self.roots.iter().any(|root| real.starts_with(root)))
    }

    /// Whether a file exists and lies elsewhere.
    pub(crate) fn is_outside(&self, file: &Path) -> bool {
        file.symlink_metadata().is_ok() && fs::canonicalize(file).is_ok() && !self.has(file)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_may_lead_within_the_folder_and_to_the_blobs_of_a_cache() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("datasets--someone--something");
        let root = cache.join("snapshots/0123");
        for folder in [&root.join("data"), &cache.join("blobs"), &dir.path().join("elsewhere/blobs")] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        let cases = [
            ("inner", root.join("data/file"), true),
            ("blob", cache.join("blobs/file"), true),
            ("outer", dir.path().join("elsewhere/blobs/file"), false),
            ("up", PathBuf::from("../../../elsewhere/blobs/file"), false),
        ];
        let own = OwnFolder::of(&root);
        for (name, target, is_own) in cases {
            symlink(&target, root.join(name)).unwrap();
            assert_eq!(
                (own.has(&root.join(name)), own.is_outside(&root.join(name))),
                (is_own, !is_own),
                "{name}"
            );
        }
        assert!(!own.has(&root.join("none")) && !own.is_outside(&root.join("none")));
        // A folder that is called so alone is no cache.
        let other = dir.path().join("elsewhere/snapshots/1");
        fs::create_dir_all(&other).unwrap();
        symlink(dir.path().join("elsewhere/blobs/file"), other.join("blob")).unwrap();
        assert!(!OwnFolder::of(&other).has(&other.join("blob")));
    }
}
