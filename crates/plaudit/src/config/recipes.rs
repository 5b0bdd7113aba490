//! The recipes of `configs/`, inside the binary, so that one file is all a user needs.

/// The directory they appear to lie in.
pub const DIRECTORY: &str = "recipe:";

/// Path below `configs/`, and content; listed by the build script.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// Whether a path lies in the recipes' directory.
pub fn is_inside(path: &str) -> bool {
    relative(path).is_some()
}

/// The content of a recipe file.
pub fn text(path: &str) -> Option<&'static str> {
    let name = relative(path)?;
    FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

/// Whether recipes lie below this path.
pub fn is_dir(path: &str) -> bool {
    relative(path)
        .is_some_and(|dir| dir.is_empty() || FILES.iter().any(|(file, _)| below(file, dir).is_some()))
}

/// The names directly below this path.
pub fn list(path: &str) -> Vec<String> {
    let Some(dir) = relative(path) else { return Vec::new() };
    let mut names: Vec<String> = FILES
        .iter()
        .filter_map(|(file, _)| below(file, dir))
        .map(|rest| rest.split('/').next().unwrap_or(rest).to_string())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Name and first line of description of each recipe that can be run or shown by itself.
pub fn summaries() -> Vec<(&'static str, &'static str)> {
    FILES
        .iter()
        .filter_map(|(file, text)| {
            let name = file.strip_suffix(".yaml").filter(|name| !name.contains('/'))?;
            let about = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("");
            Some((name, about))
        })
        .collect()
}

fn relative(path: &str) -> Option<&str> {
    path.strip_prefix(DIRECTORY).map(|rest| rest.trim_matches('/'))
}

fn below<'a>(file: &'a str, dir: &str) -> Option<&'a str> {
    if dir.is_empty() { Some(file) } else { file.strip_prefix(dir)?.strip_prefix('/') }
}
