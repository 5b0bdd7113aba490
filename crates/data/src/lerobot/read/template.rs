//! File names such as `data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet`.

use std::path::{Component, Path, PathBuf};

use crate::lerobot::error::{InFile, Problem, Result, mismatch};

/// The file of that name under `root`, with numbers in the braces. It stays under `root`. `key` is where the name stands.
pub(super) fn fill(root: &Path, template: &str, values: &[(&str, u64)], key: &str) -> Result<PathBuf> {
    let within = replace(template, values).in_column(&root.join("meta/info.json"), key)?;
    Ok(root.join(within))
}

fn replace(template: &str, values: &[(&str, u64)]) -> Result<PathBuf, Problem> {
    let wrong =
        || mismatch("a file name with numbers in braces", template.chars().take(100).collect::<String>());
    let (mut name, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}').ok_or_else(wrong)?;
        let (key, format) = inside.split_once(':').unwrap_or((inside, ""));
        let value = values.iter().find(|(name, _)| *name == key).ok_or_else(wrong)?.1;
        // Python's `03d`: at least three digits.
        let digits: usize = match format.trim_end_matches('d') {
            "" => 0,
            digits => digits.parse().ok().filter(|digits| *digits <= 20).ok_or_else(wrong)?,
        };
        name += before;
        name += &format!("{value:0digits$}");
        rest = after;
    }
    name += rest;
    let path = PathBuf::from(name);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if inside { Ok(path) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, want: Option<&str>) {
        let values = [("episode_chunk", 0), ("episode_index", 1234)];
        assert_eq!(replace(template, &values).ok(), want.map(PathBuf::from), "{template}");
    }

    #[test]
    fn names_are_filled_in_and_stay_inside() {
        let v2 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet";
        check(v2, Some("data/chunk-000/episode_001234.parquet"));
        check("{episode_index}", Some("1234"));
        check("{episode_index:02d}", Some("1234"));
        for wrong in ["../{episode_index}", "/etc/passwd", "{other}", "{episode_index", "a/../b"] {
            check(wrong, None);
        }
        check("{episode_index:0999999999d}", None);
    }
}
