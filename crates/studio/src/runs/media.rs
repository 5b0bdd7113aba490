//! Films of a run, and the frames that raised alarms.

use std::path::{Path, PathBuf};

/// Films that are listed, the newest.
const MOST_FILMS: usize = 60;
/// Frames of one alarm that are shown.
const MOST_FRAMES: usize = 24;
/// How deep films lie.
const DEEPEST: usize = 4;

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFile {
    /// Its path below the run directory.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Frames that were kept with an alarm of the hacking monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlarmFrames {
    pub(crate) step: u64,
    /// By what is known of them: success, failure, or waiting for a person.
    pub(crate) kinds: Vec<(&'static str, Vec<String>)>,
    pub(crate) all: usize,
}

/// What a file is to a browser; nothing of what pages do not show.
pub(crate) fn media_type(name: &str) -> Option<&'static str> {
    match Path::new(name).extension()?.to_str()? {
        "mp4" => Some("video/mp4"),
        "png" | "apng" => Some("image/png"),
        _ => None,
    }
}

/// A folder of a run; nothing where a link leads out of the run.
fn own_folder(run: &Path, name: &str) -> Option<PathBuf> {
    let real = run.join(name).canonicalize().ok()?;
    run.canonicalize().is_ok_and(|run| real.starts_with(run)).then(|| run.join(name))
}

/// The films of a run, the newest first.
pub(crate) fn videos(run: &Path) -> Vec<RunFile> {
    let mut found = Vec::new();
    let mut folders: Vec<(PathBuf, usize)> =
        own_folder(run, "video").into_iter().map(|folder| (folder, 0)).collect();
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
            if about.is_dir() && depth < DEEPEST {
                folders.push((path, depth + 1));
            } else if about.is_file() && media_type(&path.display().to_string()).is_some() {
                found.push((about.modified().ok(), path, about.len()));
            }
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    found.truncate(MOST_FILMS);
    found.into_iter().map(|(_, path, bytes)| RunFile { name: below(run, &path), bytes }).collect()
}

fn below(run: &Path, path: &Path) -> String {
    path.strip_prefix(run).unwrap_or(path).display().to_string()
}

/// The frames that the hacking monitor kept, alarm by alarm, the newest first.
pub(crate) fn alarm_frames(run: &Path) -> Vec<AlarmFrames> {
    let folders = own_folder(run, "hacking").and_then(|folder| std::fs::read_dir(folder).ok());
    let folders = folders
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let step = |path: PathBuf| {
        let step = path.file_name()?.to_str()?.strip_prefix("step_")?.parse().ok()?;
        Some((step, path))
    };
    let mut found: Vec<AlarmFrames> = folders
        .filter_map(|entry| step(entry.path()))
        .map(|(step, path)| {
            let mut all = 0;
            let kinds = ["success", "failure", "unsorted"].map(|kind| {
                let entries = own_folder(run, &below(run, &path.join(kind)))
                    .and_then(|folder| std::fs::read_dir(folder).ok());
                let entries = entries.into_iter().flatten().flatten();
                let images = entries
                    .map(|entry| entry.path())
                    .filter(|path| path.extension().is_some_and(|end| end == "png"));
                let mut images: Vec<String> = images.map(|path| below(run, &path)).collect();
                images.sort();
                all += images.len();
                images.truncate(MOST_FRAMES);
                (kind, images)
            });
            AlarmFrames {
                step,
                kinds: kinds.into_iter().filter(|(_, images)| !images.is_empty()).collect(),
                all,
            }
        })
        .collect();
    found.sort_by_key(|alarm| std::cmp::Reverse(alarm.step));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn films_and_frames_of_alarms_are_found() {
        let run = tempfile::tempdir().unwrap();
        for name in [
            "video/eval/1.mp4",
            "video/notes.txt",
            "hacking/step_40/failure/1.png",
            "hacking/step_40/success/2.png",
            "hacking/step_9/unsorted/3.png",
        ] {
            std::fs::create_dir_all(run.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(run.path().join(name), b"x").unwrap();
        }
        assert_eq!(videos(run.path()), [RunFile { name: "video/eval/1.mp4".into(), bytes: 1 }]);
        let found = alarm_frames(run.path());
        assert_eq!(found.iter().map(|alarm| (alarm.step, alarm.all)).collect::<Vec<_>>(), [(40, 2), (9, 1)]);
        assert_eq!(found[0].kinds[1], ("failure", vec!["hacking/step_40/failure/1.png".to_string()]));
        assert_eq!(media_type("events.jsonl"), None);
        #[cfg(unix)]
        {
            let linked = tempfile::tempdir().unwrap();
            for name in ["video", "hacking"] {
                std::os::unix::fs::symlink(run.path().join(name), linked.path().join(name)).unwrap();
            }
            assert!(
                videos(linked.path()).is_empty() && alarm_frames(linked.path()).is_empty(),
                "links lead out"
            );
        }
    }
}
