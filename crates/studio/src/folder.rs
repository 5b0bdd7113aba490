//! The folder that is shown, and nothing outside of it.

use std::path::{Component, Path, PathBuf};

use crate::error::StudioError;

/// Entries of a folder that are looked through for links.
const MOST_ENTRIES: usize = 200_000;

/// The folder that is shown.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, StudioError> {
        let failed = |source| StudioError::Folder { path: path.into(), source };
        let root = path.canonicalize().map_err(failed)?;
        match root.is_dir() {
            true => Ok(Self { root }),
            false => Err(failed(std::io::ErrorKind::NotADirectory.into())),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where something lies, links followed, if that is inside.
    pub(crate) fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok().filter(|real| real.starts_with(&self.root))
    }

    /// What a name below the folder means; nothing where it leads out, or to nothing.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let path = Path::new(name);
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_plain || name.contains('\0') {
            return None;
        }
        self.inside(&self.root.join(path))
    }

    /// A path as people see it: below the folder.
    pub(crate) fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        if below.is_empty() { ".".into() } else { below }
    }

    /// A link below a path that leads out of the folder.
    pub(crate) fn link_out(&self, path: &Path) -> Option<PathBuf> {
        let mut folders = vec![path.to_path_buf()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                seen += 1;
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_symlink() && self.inside(&entry.path()).is_none() && entry.path().exists() {
                    return Some(entry.path());
                }
                if kind.is_dir() {
                    folders.push(entry.path());
                }
                if seen > MOST_ENTRIES {
                    return None;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_found() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let home = outside.path().join("home");
        std::fs::create_dir_all(home.join("data/deep")).unwrap();
        std::fs::write(home.join("data/a.txt"), "a").unwrap();
        let folder = Folder::open(&home).unwrap();
        assert!(folder.find("data/a.txt").is_some() && folder.find("./data").is_some());
        for name in
            ["../secret", "data/../../secret", "/etc/passwd", "data/..", "no", "a\0b", "data/./../../secret"]
        {
            assert_eq!(folder.find(name), None, "{name}");
        }
        assert!(Folder::open(&home.join("data/a.txt")).is_err() && Folder::open(&home.join("no")).is_err());
        assert_eq!(folder.link_out(folder.root()), None);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(home.join("data/a.txt"), home.join("data/deep/inside")).unwrap();
            assert_eq!(folder.link_out(folder.root()), None, "a link that stays inside");
            std::os::unix::fs::symlink(outside.path().join("secret"), home.join("data/deep/out")).unwrap();
            assert_eq!(folder.find("data/deep/out"), None);
            assert!(folder.link_out(folder.root()).is_some());
        }
    }
}
