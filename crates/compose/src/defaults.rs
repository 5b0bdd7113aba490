//! One entry of a defaults list, and the arithmetic of groups and packages around it.
//!
//! The rules are Hydra's (with `version_base="1.1"`), kept in its terms so that they can be compared: a
//! *group* is a directory of alternatives, a *package* is the dotted place where a config lands.

use crate::error::{ComposeError, ErrorKind, Result};
use crate::node::{Key, Node, Origin, Value};

/// What an entry names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EntryKind {
    /// `- path/name`
    Config { path: String },
    /// `- group: choice`
    Group { group: String, choice: Choice },
}

/// What was chosen from a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    Nothing,
    Name(String),
    Several(Vec<String>),
}

/// One entry of a defaults list.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) package: Option<String>,
    pub(crate) header: Option<String>,
    pub(crate) base_dir: String,
    pub(crate) parent_package: String,
    pub(crate) primary: bool,
    pub(crate) optional: bool,
    pub(crate) is_override: bool,
    pub(crate) appended: bool,
    pub(crate) deleted: bool,
    pub(crate) origin: Origin,
}

impl Entry {
    fn new(kind: EntryKind, package: Option<String>, origin: Origin) -> Self {
        let package = package.map(|package| if package == "_here_" { String::new() } else { package });
        Entry {
            kind,
            package,
            header: None,
            base_dir: String::new(),
            parent_package: String::new(),
            primary: false,
            optional: false,
            is_override: false,
            appended: false,
            deleted: false,
            origin,
        }
    }

    pub(crate) fn config(path: impl Into<String>, package: Option<String>, origin: Origin) -> Self {
        Entry::new(EntryKind::Config { path: path.into() }, package, origin)
    }

    pub(crate) fn group(
        group: impl Into<String>,
        choice: Choice,
        package: Option<String>,
        origin: Origin,
    ) -> Self {
        Entry::new(EntryKind::Group { group: group.into(), choice }, package, origin)
    }

    /// The file that the place of the list itself takes in the order.
    pub(crate) fn this(origin: Origin) -> Self {
        Entry::config("_self_", None, origin)
    }

    pub(crate) fn is_self(&self) -> bool {
        match &self.kind {
            EntryKind::Config { path } => path == "_self_",
            EntryKind::Group { choice, .. } => *choice == Choice::Name("_self_".to_owned()),
        }
    }

    pub(crate) fn is_group(&self) -> bool {
        matches!(self.kind, EntryKind::Group { .. })
    }

    /// Whether it configures Hydra itself, which has no meaning here.
    pub(crate) fn is_hydra(&self) -> bool {
        let (EntryKind::Config { path } | EntryKind::Group { group: path, .. }) = &self.kind;
        path.trim_start_matches('/').starts_with("hydra/")
    }

    /// Tells the entry which list it stands in.
    pub(crate) fn set_parent(&mut self, base_dir: &str, package: &str) {
        self.base_dir = base_dir.to_owned();
        self.parent_package = package.to_owned();
        if let Some(package) = &self.package
            && package.contains("_group_")
        {
            self.package = Some(format!("_global_.{}", package.replace("_group_", &self.default_package())));
        }
    }

    /// The name of the config, `None` when nothing is chosen.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.kind {
            EntryKind::Config { path } => Some(path.rsplit('/').next().unwrap_or(path)),
            EntryKind::Group { choice: Choice::Name(name), .. } => Some(name),
            EntryKind::Group { .. } => None,
        }
    }

    /// The directory of the config below the search path.
    pub(crate) fn group_path(&self) -> String {
        match &self.kind {
            EntryKind::Config { path } => {
                let relative = path.strip_prefix('/').unwrap_or(path);
                let group = relative.rsplit_once('/').map_or("", |(group, _)| group);
                self.below_base(group, path.starts_with('/'))
            }
            EntryKind::Group { group, .. } => {
                self.below_base(group.strip_prefix('/').unwrap_or(group), group.starts_with('/'))
            }
        }
    }

    fn below_base(&self, path: &str, absolute: bool) -> String {
        match (absolute || self.base_dir.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.base_dir.clone(),
            (false, false) => format!("{}/{path}", self.base_dir),
        }
    }

    /// The path of the config below the search path, without its suffix.
    pub(crate) fn config_path(&self) -> String {
        match &self.kind {
            EntryKind::Config { path } => {
                self.below_base(path.strip_prefix('/').unwrap_or(path), path.starts_with('/'))
            }
            EntryKind::Group { .. } => format!("{}/{}", self.group_path(), self.name().unwrap_or("None")),
        }
    }

    pub(crate) fn default_package(&self) -> String {
        self.group_path().replace('/', ".")
    }

    /// The package as the entry says it, relative to the list it stands in.
    fn relative_package(&self) -> String {
        let (EntryKind::Config { path } | EntryKind::Group { group: path, .. }) = &self.kind;
        let path = path.strip_prefix('/').unwrap_or(path);
        let group = match self.kind {
            EntryKind::Config { .. } => path.rsplit_once('/').map_or("", |(group, _)| group),
            EntryKind::Group { .. } => path,
        };
        group.replace('/', ".")
    }

    /// The package from the entry, or else from the header of the file.
    pub(crate) fn package_or_header(&self) -> Option<&str> {
        self.package.as_deref().or(self.header.as_deref())
    }

    /// Where the config lands in the result.
    pub(crate) fn final_package(&self) -> String {
        self.final_package_from(self.package_or_header())
    }

    fn final_package_from(&self, package: Option<&str>) -> String {
        let mut package = package.map_or_else(|| self.relative_package(), str::to_owned);
        if let Some(name) = self.name() {
            package = package.replace("_name_", name);
        }
        let joined = match (self.parent_package.is_empty(), package.is_empty()) {
            (true, _) => package,
            (false, true) => self.parent_package.clone(),
            (false, false) => format!("{}.{package}", self.parent_package),
        };
        // Everything up to the last `_global_` is left behind.
        match joined.rfind("_global_") {
            None => joined,
            Some(at) => joined.get(at + "_global_".len() + 1..).unwrap_or("").to_owned(),
        }
    }

    /// How this choice is named in overrides: the group, and the package if it is not the usual one.
    pub(crate) fn override_key(&self) -> String {
        let group = self.group_path();
        let package = self.final_package_from(self.package.as_deref());
        if self.default_package() == package {
            return group;
        }
        format!("{group}@{}", if package.is_empty() { "_global_" } else { &package })
    }

    /// Takes the package from the header of the file.
    pub(crate) fn set_header(&mut self, header: Option<&str>) {
        self.header = match header {
            None | Some("_group_") => None,
            Some("" | "_global_") => Some("_global_".to_owned()),
            Some(header) => {
                let absolute = if header.starts_with("_global_.") {
                    header.to_owned()
                } else {
                    format!("_global_.{header}")
                };
                Some(absolute.replace("_group_", &self.default_package()))
            }
        };
    }

    pub(crate) fn is_interpolation(&self) -> bool {
        match &self.kind {
            EntryKind::Config { .. } => self.config_path().contains("${"),
            EntryKind::Group { choice: Choice::Name(name), .. } => name.contains("${"),
            EntryKind::Group { .. } => false,
        }
    }

    /// Whether the choice is `???`.
    pub(crate) fn is_missing(&self) -> bool {
        self.name() == Some("???")
    }
}

/// Reads a defaults list as it stands in a file.
pub(crate) fn read_list(list: &Node) -> Result<Vec<Entry>> {
    let Some(items) = list.as_list() else {
        return Err(bad(format!("`defaults` must be a list, found {}", list.value.a_kind()), &list.origin));
    };
    items.iter().map(read_entry).collect()
}

fn bad(reason: String, origin: &Origin) -> ComposeError {
    ComposeError::at(ErrorKind::BadDefaults { reason }, origin)
}

fn read_entry(item: &Node) -> Result<Entry> {
    match &item.value {
        Value::Str(text) => {
            let (path, package) = split_package(text);
            if path == "_self_" && package.is_some() {
                return Err(bad("`_self_` cannot have a package".to_owned(), &item.origin));
            }
            Ok(Entry::config(path, package, item.origin.clone()))
        }
        Value::Map(_) => read_group(item),
        other => {
            let reason = format!("an entry is a string or a `group: name`, found {}", other.a_kind());
            Err(bad(reason, &item.origin))
        }
    }
}

fn read_group(item: &Node) -> Result<Entry> {
    let mut map = item.as_map().cloned().unwrap_or_default();
    // The old spelling: a second key `optional: true`.
    let old_optional = if map.len() > 1 { map.shift_remove(&Key::from("optional")) } else { None };
    let (Some((key, value)), 1) = (map.first(), map.len()) else {
        let reason = format!("an entry has one `group: name`, found {} keys", map.len());
        return Err(bad(reason, &item.origin));
    };
    let Key::Str(key) = key else {
        return Err(bad(format!("a group is named by a string, found `{key}`"), &item.origin));
    };
    let (words, package) = split_package(key);
    let mut words: Vec<&str> = words.split(' ').collect();
    let group = words.pop().unwrap_or("");
    if group.trim_start_matches('/').is_empty() {
        return Err(bad("the group has no name".to_owned(), &item.origin));
    }
    let mut entry = Entry::group(group, read_choice(value)?, package, value.origin.clone());
    for word in words {
        match word {
            "optional" => entry.optional = true,
            "override" => entry.is_override = true,
            _ => break,
        }
    }
    if let Some(old) = old_optional {
        entry.optional |= crate::python::truthy(&old.value);
    }
    Ok(entry)
}

fn read_choice(value: &Node) -> Result<Choice> {
    let unsupported = |node: &Node| {
        let reason = format!("a choice is a name, a list of names or null, found {}", node.value.a_kind());
        bad(reason, &node.origin)
    };
    match &value.value {
        Value::Null => Ok(Choice::Nothing),
        Value::Str(name) => Ok(Choice::Name(name.clone())),
        Value::List(items) => {
            let names = items.iter().map(|item| item.as_str().map(str::to_owned).ok_or(item));
            names.collect::<Result<_, _>>().map(Choice::Several).map_err(unsupported)
        }
        _ => Err(unsupported(value)),
    }
}

/// Splits `group@package`; of a rename `old:new` only the old part counts, as in Hydra.
fn split_package(text: &str) -> (&str, Option<String>) {
    match text.split_once('@') {
        None => (text, None),
        Some((group, package)) => {
            let package = package.split_once(':').map_or(package, |(package, _)| package);
            (group, Some(package.to_owned()))
        }
    }
}
