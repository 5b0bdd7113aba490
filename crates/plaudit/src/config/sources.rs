//! Where configs come from: files, the recipes inside the binary, and environment variables.

use std::cell::RefCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use plaudit_compose::{Composition, Request, Sources};
use plaudit_pyfiles::plain_file;

use super::legacy::RENAMED_VARIABLES;
use super::{Notice, recipes};

/// No honest config is larger; a file that is, is not read into memory to find out.
const LARGEST_FILE: u64 = 16 << 20;

/// The machine as it is, with the recipes as one more directory (`recipe:`).
#[derive(Debug, Default)]
pub struct Disk {
    config_dir: PathBuf,
    notices: RefCell<Vec<Notice>>,
    /// A file that is not on disk.
    streamed: Option<(PathBuf, String)>,
}

impl Disk {
    /// Sources for a config that lies in `config_dir`.
    pub fn for_config_in(config_dir: impl Into<PathBuf>) -> Self {
        Self { config_dir: config_dir.into(), ..Self::default() }
    }

    /// A file that is not on disk.
    #[must_use]
    pub fn with_text(self, path: &str, text: String) -> Self {
        Self { streamed: Some((path.into(), text)), ..self }
    }

    /// What the user should know about where values came from.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.borrow().clone()
    }

    /// Adds notices about what composition did that the user may not expect.
    pub fn note_composition(&self, composition: &Composition, request: &Request) {
        for warning in composition.warnings.iter().filter(|warning| warning.starts_with("the search path")) {
            self.add_notice(warning.clone());
        }
        if !recipes::is_inside(&request.config_dir) {
            let names = composition.files.iter().filter_map(|file| file.strip_prefix(recipes::DIRECTORY));
            let names: Vec<_> =
                names.map(|name| name.trim_start_matches('/').trim_end_matches(".yaml")).collect();
            if !names.is_empty() {
                let list = names.join(", ");
                self.add_notice(format!(
                    "not found beside the config, so taken from plaudit's own recipes: {list}"
                ));
            }
        }
    }

    fn add_notice(&self, text: String) {
        let notice = Notice { text };
        let mut notices = self.notices.borrow_mut();
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Variables that RLinf's start scripts set to their own folder (`EMBODIED_PATH` is `examples/embodiment`);
    /// here they follow from where the config lies.
    fn set_by_launchers(&self, name: &str) -> Option<PathBuf> {
        let folder = match name.strip_suffix("_PATH")? {
            "EMBODIED" => "embodiment".into(),
            other => other.to_lowercase(),
        };
        let checkout = self.config_dir.ancestors().find(|dir| dir.join("examples").is_dir());
        match (checkout, folder.as_str()) {
            (Some(root), "repo") => Some(root.into()),
            (Some(root), folder) if root.join("examples").join(folder).is_dir() => {
                Some(root.join("examples").join(folder))
            }
            // A config far from any checkout: only the folder it lies in can be meant.
            (_, "embodiment" | "reward") => match self.config_dir.parent() {
                _ if recipes::is_inside(&self.config_dir.to_string_lossy()) => Some(".".into()),
                Some(parent) if self.config_dir.ends_with("config") => Some(parent.into()),
                _ => Some(self.config_dir.clone()),
            },
            _ => None,
        }
    }
}

impl Sources for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        if let Some(text) = recipes::text(path) {
            return Ok(text.into());
        }
        if let Some((streamed, text)) = &self.streamed
            && streamed == Path::new(path)
        {
            return Ok(text.clone());
        }
        let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        if size > LARGEST_FILE {
            return Err(format!("it has {size} bytes; a config has at most {LARGEST_FILE}"));
        }
        let bytes = plain_file::read(Path::new(path), LARGEST_FILE).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| {
            format!("byte {} is not UTF-8; save the file as UTF-8", error.utf8_error().valid_up_to())
        })
    }

    fn is_file(&self, path: &str) -> bool {
        let is_streamed = self.streamed.as_ref().is_some_and(|(streamed, _)| streamed == Path::new(path));
        is_streamed || recipes::text(path).is_some() || Path::new(path).is_file()
    }

    fn is_dir(&self, path: &str) -> bool {
        recipes::is_dir(path) || Path::new(path).is_dir()
    }

    fn list(&self, path: &str) -> Vec<String> {
        if recipes::is_inside(path) {
            return recipes::list(path);
        }
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn env(&self, name: &str) -> Option<String> {
        if let Ok(value) = std::env::var(name) {
            return Some(value);
        }
        for &(old, new) in RENAMED_VARIABLES {
            let other = if name == old { new } else { old };
            if (name == old || name == new)
                && let Ok(value) = std::env::var(other)
            {
                self.add_notice(format!("{name} is not set; its other name {other} is, and is used"));
                return Some(value);
            }
        }
        let guess = self.set_by_launchers(name)?.to_string_lossy().into_owned();
        self.add_notice(format!("{name} is not set; {guess} is used, as RLinf's start scripts would"));
        Some(guess)
    }

    fn now(&self) -> DateTime {
        jiff::Zoned::now().datetime()
    }

    fn cwd(&self) -> String {
        std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The text that comes through a pipe: `-`, `/dev/stdin`, or what a shell makes of `<(…)`. Nothing for names of files.
/// Named pipes and devices are refused: whoever reads one waits for a writer that may never come.
pub fn streamed(name: &str) -> Option<Result<String, String>> {
    let read = |input: &mut dyn Read| {
        let mut bytes = Vec::new();
        let read = input.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if read as u64 > LARGEST_FILE {
            return Err(format!("more than {LARGEST_FILE} bytes come through the pipe"));
        }
        String::from_utf8(bytes).map_err(|_| "what comes through the pipe is not UTF-8".into())
    };
    if name == "-" {
        return Some(read(&mut std::io::stdin().lock()));
    }
    let kind = std::fs::metadata(name).ok()?.file_type();
    let is_open_already =
        ["/dev/stdin", "/dev/fd/", "/proc/self/fd/"].iter().any(|own| name.starts_with(own));
    if kind.is_file() && !is_open_already || kind.is_dir() {
        return None;
    }
    if !is_open_already {
        return Some(Err(format!("{name} is not a regular file")));
    }
    Some(std::fs::File::open(name).map_err(|error| error.to_string()).and_then(|mut file| read(&mut file)))
}
