//! Defaults lists expanded into the one order in which configs are merged.

use indexmap::{IndexMap, IndexSet};

use crate::defaults::{Choice, Entry, EntryKind};
use crate::error::{ComposeError, ErrorKind, Result, did_you_mean};
use crate::interpolation::Evaluator;
use crate::node::{Key, Map, Node, Origin, Value};
use crate::overrides::{Action, Override};
use crate::repository::{Config, Repository};
use crate::sources::Sources;

/// Lists inside lists beyond this are taken for a cycle.
const MAX_DEPTH: usize = 48;

/// The most entries all lists together may have.
const MAX_ENTRIES: usize = 4_096;

/// A config to merge, in order.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) config_path: String,
    pub(crate) package: String,
    pub(crate) primary: bool,
    override_key: Option<String>,
}

/// What the expansion came to.
pub(crate) struct Expansion {
    pub(crate) steps: Vec<Step>,
    /// What was chosen for each group.
    pub(crate) choices: IndexMap<String, Option<String>>,
    /// The overrides that are not choices.
    pub(crate) changes: Vec<Override>,
    /// Entries about Hydra itself.
    pub(crate) ignored: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// A choice made from outside the list it changes.
struct Chosen {
    choice: Choice,
    used: bool,
    /// The override as given, or the config whose list has it.
    by: String,
    external: bool,
    origin: Origin,
}

struct Deletion {
    name: Option<String>,
    used: bool,
    origin: Origin,
}

/// A node of the expanded tree: the children hold the entry itself as `_self_`.
struct Branch {
    entry: Entry,
    children: Vec<Branch>,
}

/// Expands the defaults list of the primary config.
pub(crate) fn expand(
    repository: &mut Repository<'_>,
    sources: &dyn Sources,
    config_name: &str,
    overrides: Vec<Override>,
) -> Result<Expansion> {
    let mut expander = Expander::new(repository, sources);
    expander.sort_overrides(overrides)?;
    let mut primary = Entry::config(config_name, None, Origin::new(config_name, 1, 1));
    primary.primary = true;
    let root = expander.branch(primary, true, false, None)?;
    let mut steps = Vec::new();
    expander.flatten(&root, None, &mut steps);
    check_duplicates(&steps)?;
    expander.check_used()?;
    Ok(Expansion {
        steps,
        choices: expander.choices,
        changes: expander.changes,
        ignored: expander.ignored,
        warnings: expander.warnings,
    })
}

struct Expander<'r, 's> {
    repository: &'r mut Repository<'s>,
    sources: &'r dyn Sources,
    chosen: IndexMap<String, Chosen>,
    deletions: IndexMap<String, Deletion>,
    appended: Vec<Entry>,
    changes: Vec<Override>,
    choices: IndexMap<String, Option<String>>,
    choices_of_group: IndexMap<String, IndexSet<String>>,
    ignored: Vec<String>,
    warnings: Vec<String>,
    chain: Vec<(String, String)>,
    entries: usize,
}

impl<'r, 's> Expander<'r, 's> {
    fn new(repository: &'r mut Repository<'s>, sources: &'r dyn Sources) -> Self {
        Expander {
            repository,
            sources,
            chosen: IndexMap::new(),
            deletions: IndexMap::new(),
            appended: Vec::new(),
            changes: Vec::new(),
            choices: IndexMap::new(),
            choices_of_group: IndexMap::new(),
            ignored: Vec::new(),
            warnings: Vec::new(),
            chain: Vec::new(),
            entries: 0,
        }
    }

    /// Tells choices of groups from changes of keys.
    fn sort_overrides(&mut self, overrides: Vec<Override>) -> Result<()> {
        for change in overrides {
            let is_map = change.value.as_ref().is_some_and(|value| value.as_map().is_some());
            if is_map || !self.repository.group_exists(&change.key) {
                self.changes.push(change);
                continue;
            }
            self.choose(change)?;
        }
        Ok(())
    }

    fn choose(&mut self, change: Override) -> Result<()> {
        let refuse = |reason: &str| {
            let kind = ErrorKind::OverrideFailed { text: change.text.clone(), reason: reason.to_owned() };
            Err(ComposeError::at(kind, &change.origin).or_key(&change.key))
        };
        let key = change.group_key();
        let value = change.value.as_ref().map(|node| &node.value);
        if change.action == Action::Delete {
            let name = match value {
                None | Some(Value::Null) => None,
                Some(Value::Str(name)) => Some(name.clone()),
                Some(_) => return refuse("a group is deleted by name"),
            };
            self.deletions.insert(key, Deletion { name, used: false, origin: change.origin });
            return Ok(());
        }
        if change.action == Action::ForceAdd {
            return refuse("`++` does not work on config groups");
        }
        let choice = match value {
            Some(Value::Str(name)) => Choice::Name(name.clone()),
            Some(Value::List(items)) => {
                let names = items.iter().map(|item| item.as_str().map(str::to_owned));
                match names.collect() {
                    Some(names) => Choice::Several(names),
                    None => return refuse("a group takes a name or a list of names"),
                }
            }
            _ => return refuse("a group takes a name or a list of names"),
        };
        if change.action == Action::Add {
            let mut entry = Entry::group(&change.key, choice, change.package.clone(), change.origin);
            entry.appended = true;
            self.appended.push(entry);
        } else {
            let by = change.text.clone();
            let origin = change.origin;
            self.chosen.insert(key, Chosen { choice, used: false, by, external: true, origin });
        }
        Ok(())
    }

    /// Expands one entry and everything below it.
    fn branch(
        &mut self,
        mut entry: Entry,
        is_root: bool,
        interpolated: bool,
        parent: Option<&Entry>,
    ) -> Result<Branch> {
        if is_root {
            entry.set_parent("", "");
            if !self.repository.exists(&entry.config_path()) {
                return Err(self.not_found(&entry, parent));
            }
        }
        if !entry.is_missing()
            && let Some(config) = self.repository.load(&entry.config_path())?
        {
            entry.set_header(config.header.as_deref());
        }
        if self.is_deleted(&entry) {
            entry.deleted = true;
            return Ok(Branch { entry, children: Vec::new() });
        }
        self.remember_choice(&entry)?;
        if entry.name().is_none() {
            return Ok(Branch { entry, children: Vec::new() });
        }
        self.refuse_missing(&entry)?;
        let path = entry.config_path();
        let Some(config) = self.repository.load(&path)? else {
            if entry.optional {
                entry.deleted = true;
                return Ok(Branch { entry, children: Vec::new() });
            }
            return Err(self.not_found(&entry, parent));
        };
        self.enter(&path, &entry)?;
        let children = self.children(&entry, &config, is_root, interpolated)?;
        self.chain.pop();
        Ok(Branch { entry, children })
    }

    fn enter(&mut self, path: &str, entry: &Entry) -> Result<()> {
        let package = entry.final_package();
        let here = (path.to_owned(), package);
        let again = self.chain.iter().position(|seen| *seen == here);
        if again.is_some() || self.chain.len() >= MAX_DEPTH {
            let mut chain: Vec<String> =
                self.chain[again.unwrap_or(0)..].iter().map(|(path, _)| path.clone()).collect();
            chain.push(path.to_owned());
            return Err(ComposeError::at(ErrorKind::DefaultsCycle { chain }, &entry.origin));
        }
        self.chain.push(here);
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(ComposeError::at(ErrorKind::TooLarge { limit: MAX_ENTRIES }, &entry.origin));
        }
        Ok(())
    }

    fn children(
        &mut self,
        entry: &Entry,
        config: &Config,
        is_root: bool,
        interpolated: bool,
    ) -> Result<Vec<Branch>> {
        let mut list = config.defaults.clone();
        let mut self_added = false;
        if !list.is_empty() || (is_root && !self.appended.is_empty()) {
            self_added = self.complete_list(entry, config, &mut list)?;
        }
        if is_root {
            list.extend(self.appended.iter().cloned());
        }
        self.take_overrides(&mut list, entry, interpolated)?;
        let known = list.clone();
        let mut children: Vec<Branch> = Vec::new();
        for item in list.into_iter().rev() {
            self.child(item, entry, interpolated, &mut children)?;
        }
        self.interpolated_children(&mut children, &known, self_added, entry)?;
        children.reverse();
        Ok(children)
    }

    /// Adds `_self_` at the end where it is not written. Says whether it did.
    fn complete_list(&mut self, entry: &Entry, config: &Config, list: &mut Vec<Entry>) -> Result<bool> {
        let selves: Vec<&Entry> = list.iter().filter(|item| item.is_self()).collect();
        if let [_, second, ..] = selves[..] {
            let kind = ErrorKind::BadDefaults { reason: "`_self_` is written twice".to_owned() };
            return Err(ComposeError::at(kind, &second.origin));
        }
        let has_self = !selves.is_empty();
        let has_default = list.iter().any(|item| !item.is_override);
        if (!has_self && has_default) || list.is_empty() {
            let has_content = config.tree.as_map().is_some_and(|map| !map.is_empty());
            if entry.primary && has_content && has_default {
                self.warnings.push(format!(
                    "{}: the defaults list has no `_self_`, so this file comes after its defaults",
                    entry.config_path()
                ));
            }
            list.push(Entry::this(entry.origin.clone()));
        }
        Ok(!has_self)
    }

    /// Notes the `override` entries of a list and checks that they come last.
    fn take_overrides(&mut self, list: &mut [Entry], parent: &Entry, interpolated: bool) -> Result<()> {
        let mut seen: Option<String> = None;
        for item in list.iter_mut().filter(|item| !item.is_self()) {
            item.set_parent(&parent.group_path(), &parent.final_package());
            let legacy_hydra = item.is_group()
                && !item.is_override
                && matches!(&item.kind, EntryKind::Group { group, .. } if group.starts_with("hydra/"));
            if let Some(before) = &seen
                && !(item.is_override || item.appended || legacy_hydra)
            {
                let reason = format!(
                    "`override {before}` stands before `{}`; overrides come last",
                    item.override_key()
                );
                return Err(ComposeError::at(ErrorKind::BadDefaults { reason }, &item.origin));
            }
            if legacy_hydra {
                item.is_override = true;
            }
            if item.is_group() && item.is_override {
                if !legacy_hydra {
                    seen = Some(item.override_key());
                }
                self.take_override(item, parent, interpolated)?;
            }
        }
        Ok(())
    }

    fn take_override(&mut self, item: &Entry, parent: &Entry, interpolated: bool) -> Result<()> {
        if item.is_hydra() {
            self.ignored.push(item.override_key());
            return Ok(());
        }
        if interpolated {
            let reason = "`override` is not allowed below a choice that is an interpolation".to_owned();
            return Err(ComposeError::at(ErrorKind::BadDefaults { reason }, &item.origin));
        }
        let EntryKind::Group { choice, .. } = &item.kind else { return Ok(()) };
        self.chosen.entry(item.override_key()).or_insert_with(|| Chosen {
            choice: choice.clone(),
            used: false,
            by: parent.config_path(),
            external: false,
            origin: item.origin.clone(),
        });
        Ok(())
    }

    fn child(
        &mut self,
        mut item: Entry,
        parent: &Entry,
        interpolated: bool,
        children: &mut Vec<Branch>,
    ) -> Result<()> {
        if item.is_self() {
            item.set_parent(&parent.base_dir, parent.package_or_header().unwrap_or(""));
            children.push(Branch { entry: item, children: Vec::new() });
            return Ok(());
        }
        if item.is_override {
            return Ok(());
        }
        item.set_parent(&parent.group_path(), &parent.final_package());
        if item.is_hydra() {
            self.ignored.push(item.config_path());
            return Ok(());
        }
        self.apply_choice(&mut item);
        if let EntryKind::Group { group, choice: Choice::Several(names) } = &item.kind {
            for name in names.iter().rev() {
                children.push(self.option(&item, group, name, parent, interpolated)?);
            }
            return Ok(());
        }
        if item.is_interpolation() {
            children.push(Branch { entry: item, children: Vec::new() });
            return Ok(());
        }
        children.push(self.branch(item, false, interpolated, Some(parent))?);
        Ok(())
    }

    /// One name of `group: [a, b]`.
    fn option(
        &mut self,
        item: &Entry,
        group: &str,
        name: &str,
        parent: &Entry,
        interpolated: bool,
    ) -> Result<Branch> {
        if name.contains("${") {
            let reason = "interpolations are not supported in a list of choices".to_owned();
            return Err(ComposeError::at(ErrorKind::BadDefaults { reason }, &item.origin));
        }
        let mut entry = Entry::config(format!("{group}/{name}"), item.package.clone(), item.origin.clone());
        entry.optional = item.optional;
        entry.set_parent(&parent.group_path(), &parent.final_package());
        self.branch(entry, false, interpolated, Some(parent))
    }

    fn apply_choice(&mut self, item: &mut Entry) {
        let key = if item.is_group() { item.override_key() } else { return };
        if let (Some(chosen), EntryKind::Group { choice, .. }) = (self.chosen.get_mut(&key), &mut item.kind) {
            *choice = chosen.choice.clone();
            chosen.used = true;
        }
    }

    /// Choices that depend on other choices wait until those are made.
    fn interpolated_children(
        &mut self,
        children: &mut [Branch],
        list: &[Entry],
        self_added: bool,
        parent: &Entry,
    ) -> Result<()> {
        if !children.iter().any(|child| child.entry.is_interpolation()) {
            return Ok(());
        }
        let known = self.known_choices(list, self_added, &parent.origin);
        for child in children.iter_mut().filter(|child| child.children.is_empty()) {
            if !child.entry.is_interpolation() {
                continue;
            }
            let mut entry = child.entry.clone();
            self.resolve(&mut entry, &known)?;
            entry.set_parent(&parent.group_path(), &parent.final_package());
            *child = self.branch(entry, false, true, Some(parent))?;
        }
        Ok(())
    }

    /// The mapping that interpolations in a defaults list look into.
    fn known_choices(&self, list: &[Entry], self_added: bool, origin: &Origin) -> Node {
        let text = |text: &str| Node::new(Value::Str(text.to_owned()), origin.clone());
        let mut map = Map::new();
        for (group, name) in &self.choices {
            let value = name.as_ref().map_or(Node::new(Value::Null, origin.clone()), |name| text(name));
            map.insert(Key::Str(group.clone()), value);
        }
        let items = list.iter().filter(|item| !(self_added && item.is_self())).map(|item| match &item.kind {
            EntryKind::Config { .. } => text(&item.config_path()),
            EntryKind::Group { choice, .. } => {
                let value = match choice {
                    Choice::Nothing => Node::new(Value::Null, origin.clone()),
                    Choice::Name(name) => text(name),
                    Choice::Several(names) => {
                        Node::new(Value::List(names.iter().map(|name| text(name)).collect()), origin.clone())
                    }
                };
                let entry = Map::from_iter([(Key::Str(item.override_key()), value)]);
                Node::new(Value::Map(entry), origin.clone())
            }
        });
        let items = Value::List(items.collect());
        map.insert("defaults".into(), Node::new(items, origin.clone()));
        Node::new(Value::Map(map), origin.clone())
    }

    fn resolve(&self, entry: &mut Entry, known: &Node) -> Result<()> {
        let full = entry.config_path();
        let origin = entry.origin.clone();
        let evaluate = |text: &str| {
            let value = Evaluator::new(known, self.sources, None)
                .evaluate_text(text, &origin)
                .map_err(|error| error.or_origin(&origin))?;
            match value {
                Value::Str(text) => Ok(text),
                other => {
                    let reason = format!("`{text}` gives {}, and a name is needed", other.a_kind());
                    Err(ComposeError::at(ErrorKind::BadDefaults { reason }, &origin))
                }
            }
        };
        match &mut entry.kind {
            EntryKind::Config { path } => *path = evaluate(&full)?,
            EntryKind::Group { choice, .. } => {
                if let Choice::Name(name) = choice {
                    *choice = Choice::Name(evaluate(name)?);
                }
            }
        }
        Ok(())
    }

    fn is_deleted(&mut self, entry: &Entry) -> bool {
        if !entry.is_group() {
            return false;
        }
        let Some(deletion) = self.deletions.get_mut(&entry.override_key()) else { return false };
        let hit = deletion.name.is_none() || deletion.name.as_deref() == entry.name();
        deletion.used |= hit;
        hit
    }

    fn remember_choice(&mut self, entry: &Entry) -> Result<()> {
        if !entry.is_group() {
            return Ok(());
        }
        let key = entry.override_key();
        let name = entry.name().map(str::to_owned);
        match self.choices.get(&key) {
            Some(before) if *before != name => {
                let hint = format!("to choose another, write `override {key}: ...`");
                return Err(
                    ComposeError::at(ErrorKind::DuplicateDefault { group: key }, &entry.origin).or_hint(hint)
                );
            }
            Some(_) => {}
            None => {
                self.choices.insert(key.clone(), name);
            }
        }
        self.choices_of_group.entry(entry.group_path()).or_default().insert(key);
        Ok(())
    }

    fn refuse_missing(&self, entry: &Entry) -> Result<()> {
        if !entry.config_path().ends_with("???") {
            return Ok(());
        }
        if !entry.is_group() {
            let reason = "`???` needs a group".to_owned();
            return Err(ComposeError::at(ErrorKind::BadDefaults { reason }, &entry.origin));
        }
        let group = entry.override_key();
        let options = self.repository.options(&entry.group_path());
        let hint = format!("write {group}=<option>");
        Err(ComposeError::at(ErrorKind::MissingChoice { group, options }, &entry.origin).or_hint(hint))
    }

    fn not_found(&self, entry: &Entry, parent: Option<&Entry>) -> ComposeError {
        let error = self.repository.missing(&entry.config_path());
        if parent.is_some() { error.or_origin(&entry.origin) } else { error }
    }

    /// An override that changed nothing is a mistake.
    fn check_used(&self) -> Result<()> {
        if let Some((key, chosen)) = self.chosen.iter().find(|(_, chosen)| !chosen.used) {
            let group = key.split('@').next().unwrap_or(key);
            let near: Vec<&str> = match self.choices_of_group.get(group) {
                Some(keys) => keys.iter().map(String::as_str).collect(),
                None => Vec::new(),
            };
            let hint = match (near.is_empty(), chosen.external) {
                (false, _) => Some(format!("did you mean {}?", near.join(" or "))),
                (true, true) => {
                    let groups = self.choices.keys().map(String::as_str);
                    did_you_mean(key, groups).or_else(|| Some(format!("to add it, write +{}", chosen.by)))
                }
                (true, false) => None,
            };
            let kind = ErrorKind::UnusedOverride { group: key.clone() };
            return Err(ComposeError::at(kind, &chosen.origin).or_key(key).maybe_hint(hint));
        }
        if let Some((key, deletion)) = self.deletions.iter().find(|(_, deletion)| !deletion.used) {
            let reason = "no defaults list chooses it".to_owned();
            let kind = ErrorKind::CannotDelete { key: key.clone(), reason };
            return Err(ComposeError::at(kind, &deletion.origin).or_key(key));
        }
        Ok(())
    }

    /// Depth first, children in order; an entry without children stands for itself.
    fn flatten(&self, branch: &Branch, parent: Option<&Entry>, steps: &mut Vec<Step>) {
        if !branch.children.is_empty() {
            for child in &branch.children {
                self.flatten(child, Some(&branch.entry), steps);
            }
            return;
        }
        let entry = &branch.entry;
        if entry.deleted || entry.is_missing() || entry.name().is_none() {
            return;
        }
        let step = match parent.filter(|_| entry.is_self()) {
            Some(owner) => Step {
                config_path: owner.config_path(),
                package: owner.final_package(),
                primary: owner.primary,
                override_key: None,
            },
            None => Step {
                config_path: entry.config_path(),
                package: entry.final_package(),
                primary: entry.primary,
                override_key: entry.is_group().then(|| entry.override_key()),
            },
        };
        steps.push(step);
    }
}

fn check_duplicates(steps: &[Step]) -> Result<()> {
    let mut seen = IndexSet::new();
    for key in steps.iter().filter_map(|step| step.override_key.as_ref()) {
        if !seen.insert(key) {
            return Err(ComposeError::new(ErrorKind::DuplicateDefault { group: key.clone() }));
        }
    }
    Ok(())
}
