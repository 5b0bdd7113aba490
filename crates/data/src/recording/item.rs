//! What lies at a path: its format, and its items, each read when it is asked for.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_pyfiles::{Access, Buffer, PyValue, Reader};

use super::error::OpenError;
use super::formats::DatasetFormat;
use super::label_table::{self, LabelTable, RowLabel};
use super::probe::{FirstPickle, Probe, list};
use super::rules::Rules;
use super::{BadFile, FileProblem, Recording, Unit, keys, stored};

/// What lies at a path: its format, and its items, none of which is read yet.
#[derive(Debug)]
pub struct Recordings {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is.
    pub format: DatasetFormat,
    pub(crate) items: Vec<Item>,
    /// Items that are known to be unusable before they are opened.
    pub(crate) broken: Vec<(PathBuf, FileProblem)>,
}

/// The items that a format finds, in order.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) items: Vec<Item>,
    pub(super) broken: Vec<(PathBuf, FileProblem)>,
    /// A table of labels that lies among them.
    pub(super) labels: Option<PathBuf>,
}

impl From<Vec<Item>> for Items {
    fn from(items: Vec<Item>) -> Self {
        Self { items, ..Self::default() }
    }
}

/// Recordings that were read together, and the bytes that their images are views of, where they are one mapped file.
type OpenedItem = (Option<Buffer>, Vec<Recording>);
type ReadItem = dyn Fn(&Rules) -> Result<OpenedItem, FileProblem> + Send + Sync;

/// One item: what is opened and read in one go.
#[derive(Clone)]
pub(crate) struct Item {
    /// Its file, or a name where it has none of its own.
    pub(crate) path: PathBuf,
    /// `train`, `val` or whatever the dataset calls it.
    pub(crate) split: Option<String>,
    /// What its folder or manifest says: an outcome or a label.
    pub(crate) declared_label: Option<String>,
    /// What its episodes lie in, where that is not the folder of its file.
    pub(super) home: Option<PathBuf>,
    pub(super) format: DatasetFormat,
    /// What a table of labels says of it.
    pub(super) table: Option<Arc<[RowLabel]>>,
    pub(super) rules: Arc<Rules>,
    pub(super) read: Arc<ReadItem>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("path", &self.path).field("format", &self.format).finish_non_exhaustive()
    }
}

impl Item {
    /// An item that is read so.
    pub(super) fn new(
        path: PathBuf,
        read: impl Fn(&Rules) -> Result<Vec<Recording>, FileProblem> + Send + Sync + 'static,
    ) -> Self {
        Self::opened(path, move |rules| Ok((None, read(rules)?)))
    }

    /// An item that is a file of Python's.
    pub(super) fn file(
        path: PathBuf,
        read: impl Fn(&PyValue, &Rules) -> Result<Vec<Recording>, FileProblem> + Send + Sync + 'static,
    ) -> Self {
        let file = path.clone();
        Self::opened(path, move |rules| {
            let (bytes, value) = open_file(&file)?;
            Ok((Some(bytes), read(&value, rules)?))
        })
    }

    fn opened(
        path: PathBuf,
        read: impl Fn(&Rules) -> Result<OpenedItem, FileProblem> + Send + Sync + 'static,
    ) -> Self {
        let (split, declared_label, home, table) = (None, None, None, None);
        let (format, rules) = (DatasetFormat::Episodes, Arc::default());
        Self { path, split, declared_label, home, format, table, rules, read: Arc::new(read) }
    }

    /// The same with what a folder says of its outcome.
    pub(super) fn with_outcome(self, outcome: Option<bool>) -> Self {
        Self { declared_label: outcome.map(|success| outcome_name(success).into()), ..self }
    }

    /// Its recordings.
    pub(crate) fn read(&self) -> Result<Vec<Recording>, FileProblem> {
        Ok(self.open()?.1)
    }

    /// Its recordings, and the bytes that their images are views of, where it is one mapped file.
    pub(crate) fn open(&self) -> Result<OpenedItem, FileProblem> {
        let (bytes, mut found) = (self.read)(&self.rules)?;
        for recording in &mut found {
            recording.unlabelled_frames = self.rules.unlabelled_frames;
            recording.split_unit = self.format.split_unit();
            if let Some(rows) = &self.table {
                label_table::apply(rows, recording)?;
            }
            label_by_reward(recording, &self.rules);
            label_last_frames(recording, &self.rules);
            recording.disagrees = recording.disagrees.take().or_else(|| self.disagreement(recording.success));
        }
        Ok((bytes, found))
    }

    /// What messages call the image of an entry.
    pub(crate) fn location(&self, entry: usize, key: &str) -> String {
        (self.format.spec().location)(entry, key)
    }

    /// The name of an episode without its folder.
    pub(crate) fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its name with the file or folder it lies in.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.folder(), self.stem())
    }

    /// What a table may call it.
    pub(super) fn names(&self) -> Vec<String> {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = vec![self.stem(), self.full_name(), format!("{}/{file}", self.folder()), file];
        names.sort();
        names.dedup();
        names
    }

    /// The folder that an episode lies in: a store is one.
    pub(crate) fn folder(&self) -> String {
        let folder = self.home.as_deref().or(self.path.parent());
        folder.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What the name or the folder of a file says, where the file says otherwise.
    fn disagreement(&self, success: Option<bool>) -> Option<String> {
        let success = success?;
        let stem = self.stem();
        let by_name = [("_success", true), ("_fail", false), ("_failure", false)];
        let named = by_name.into_iter().find(|(end, _)| stem.ends_with(end)).map(|(_, outcome)| outcome);
        let in_folder = match self.folder().as_str() {
            "success" | "positive" => Some(true),
            "failure" | "negative" => Some(false),
            _ => None,
        };
        for (who, said) in [("its name", named), ("its folder", in_folder)] {
            if said.is_some_and(|said| said != success) {
                let [said, found] = [!success, success].map(outcome_name);
                return Some(format!("{who} says {said}, the file {found}"));
            }
        }
        None
    }
}

/// Where nothing says what succeeded, the rule about rewards does.
fn label_by_reward(recording: &mut Recording, rules: &Rules) {
    let Some(above) = rules.success_reward.filter(|_| recording.success().is_none()) else { return };
    recording.labels = recording.rewards.iter().map(|reward| Some(*reward > above)).collect();
    recording.success = recording.success();
}

/// Where no frame says so, the rule about the last frames of a demonstration does, unless it is known to have failed.
fn label_last_frames(recording: &mut Recording, rules: &Rules) {
    let Some(last) = rules.success_last_frames.filter(|_| recording.success != Some(false)) else { return };
    if recording.labels.iter().any(Option::is_some) || recording.unit != Unit::Episode {
        return;
    }
    let count = recording.observations.len();
    recording.labels = (0..count).map(|at| Some(at + last >= count)).collect();
    recording.success = Some(true);
}

fn outcome_name(success: bool) -> &'static str {
    if success { "success" } else { "failure" }
}

/// Reads a file of Python's without naming it in errors.
fn open_file(path: &Path) -> Result<(Buffer, PyValue), FileProblem> {
    if !path.exists() {
        return Err(FileProblem::Gone);
    }
    let bytes = Buffer::open(path, Access::Map)?;
    let value = Reader::new().read_bytes(bytes.clone())?;
    Ok((bytes, value))
}

impl Recordings {
    /// Opens what is at a path: of the format that the rules name, or of the one that is detected by names of folders and
    /// files and by the keys of the first file.
    ///
    /// # Errors
    /// When nothing is there, or nothing that is known, or when it could be several things.
    pub fn open(path: &Path, rules: &Rules) -> Result<Self, OpenError> {
        fs::metadata(path).map_err(|source| OpenError::Read { path: path.into(), source })?;
        let (format, found) = match rules.format.map_or_else(|| detect(path), |format| Ok(Some(format)))? {
            Some(format) => (format, (format.spec().items)(path)?),
            None => (DatasetFormat::Store, stored::below(path)?),
        };
        let found = Self::of(path, format, found, rules)?;
        match found.items.is_empty() && found.broken.is_empty() && format.is_collectors() {
            true => Err(OpenError::NoEpisodes { path: path.into() }),
            false => Ok(found),
        }
    }

    /// Folders of successful and of failed `.npy` trajectories that need not lie together.
    ///
    /// # Errors
    /// When there is none in one of them.
    pub fn of_trajectories(positive: &Path, negative: &Path, rules: &Rules) -> Result<Self, OpenError> {
        let mut items = Vec::new();
        for (folder, outcome) in [(positive, true), (negative, false)] {
            let files = list(folder, "npy")?;
            if files.is_empty() {
                return Err(OpenError::NoTrajectories { path: folder.into() });
            }
            items.extend(files.into_iter().map(|file| super::trajectories::item(file, Some(outcome))));
        }
        Self::of(positive, DatasetFormat::Trajectories, items.into(), rules)
    }

    /// How many items there are: what is read in one go.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Every recording, each file read when the iterator reaches it. A file that cannot be read is an error, and the next
    /// one follows.
    pub fn iter(&self) -> impl Iterator<Item = Result<Recording, BadFile>> {
        (0..self.len()).flat_map(|number| match self.read(number) {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(bad) => vec![Err(bad)],
        })
    }

    /// The recordings of one item, by its number: one, where a file holds one episode. None where there is no such item.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, number: usize) -> Result<Vec<Recording>, BadFile> {
        let Some(item) = self.items.get(number) else { return Ok(Vec::new()) };
        let mut found = item.read().map_err(|problem| problem.in_file(&item.path))?;
        let alone = found.len() == 1;
        for (number, recording) in found.iter_mut().enumerate() {
            recording.name = if alone { item.stem() } else { format!("{}_{number}", item.stem()) };
        }
        Ok(found)
    }

    /// The file of an item, by its number.
    #[must_use]
    pub fn file(&self, number: usize) -> Option<&Path> {
        self.items.get(number).map(|item| item.path.as_path())
    }

    /// Whether it lies in a folder itself, and not in folders of its own below it.
    #[must_use]
    pub fn lies_in(&self, folder: &Path) -> bool {
        let Some(item) = self.items.first() else { return false };
        let Some(home) = item.home.as_deref().or(item.path.parent()) else { return false };
        let by_outcome =
            ["success", "failure", "positive", "negative"].iter().any(|name| home.ends_with(name));
        home == folder || by_outcome || self.format.shares_files()
    }

    /// What a table of labels calls each item: its name, with the folder before it where several have that name.
    #[must_use]
    pub fn label_names(&self) -> Vec<String> {
        let mut count: HashMap<String, usize> = HashMap::new();
        for name in self.items.iter().flat_map(Item::names) {
            *count.entry(name).or_default() += 1;
        }
        let is_alone = |name: &String| count.get(name) == Some(&1);
        let name = |(number, item): (usize, &Item)| {
            let names = [item.stem(), item.full_name()];
            names.into_iter().find(is_alone).unwrap_or_else(|| number.to_string())
        };
        self.items.iter().enumerate().map(name).collect()
    }

    fn of(path: &Path, format: DatasetFormat, found: Items, rules: &Rules) -> Result<Self, OpenError> {
        let rules = Arc::new(rules.clone());
        let item = |item: Item| Item { format, rules: rules.clone(), ..item };
        let mut items: Vec<Item> = found.items.into_iter().map(item).collect();
        if let Some(table) = rules.labels.as_ref().or(found.labels.as_ref()) {
            LabelTable::read(table)?.give(&mut items)?;
        }
        Ok(Self { path: path.into(), format, items, broken: found.broken })
    }
}

/// The format of what lies in a folder itself. Datasets in folders of their own below it do not count.
pub(crate) fn format_in(folder: &Path) -> Option<DatasetFormat> {
    let found = Recordings::open(folder, &Rules::default()).ok()?;
    found.lies_in(folder).then_some(found.format)
}

/// The format of what is at a path; nothing where only stores are, in folders below.
fn detect(path: &Path) -> Result<Option<DatasetFormat>, OpenError> {
    let probe = Probe::new(path);
    let mut found: Vec<DatasetFormat> = Vec::new();
    for format in DatasetFormat::ALL {
        if (format.spec().is_at)(&probe)? {
            found.push(*format);
            if !format.is_collectors() {
                break;
            }
        }
    }
    let unsure = |why: String| OpenError::Unsure { path: path.into(), why };
    match found[..] {
        [one] => Ok(Some(one)),
        [] if !path.is_file() && !stored::stores_below(path).is_empty() => Ok(None),
        [] => match probe.pickle()? {
            FirstPickle::Value(file, value) => {
                let why = match value.as_items() {
                    Some(_) => "a list of something else".into(),
                    None => format!("a {} with {}", value.kind(), keys::of(Some(value))),
                };
                Err(OpenError::Unsure { path: file.clone(), why })
            }
            _ => Err(OpenError::NoEpisodes { path: path.into() }),
        },
        _ => {
            let names: Vec<&str> = found.iter().map(|format| format.name()).collect();
            Err(unsure(format!("it could be {}", names.join(" or "))))
        }
    }
}
