//! One episode: its windows, their labels, and where their frames are.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use plaudit_pyfiles::{Array, Buffer, PyValue};

use super::WindowOptions;
use crate::convert::sampling::sample;
use crate::convert::scan::Scan;
use crate::convert::stored::StoredImage;
use crate::recording::{FileProblem, Frame, PixelFormat, Strictness, keys};

/// What a window shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Positive,
    Negative,
    Unclear,
}

impl Label {
    /// In the order in which groups are shuffled and joined.
    pub(super) const ALL: [Self; 3] = [Self::Positive, Self::Negative, Self::Unclear];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Unclear => "unclear",
        }
    }
}

/// Some consecutive frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: usize,
    /// The last frame, not the one after it.
    pub(super) end: usize,
    pub(super) label: Label,
    pub(super) start_score: f64,
    pub(super) end_score: f64,
}

impl Window {
    /// How much the score rises.
    pub(super) fn score(&self) -> f64 {
        self.end_score - self.start_score
    }
}

/// An episode and the windows that were kept of it.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) path: PathBuf,
    /// What its windows' files are named after: its own file, and its folder where two files have one name.
    pub(super) name: String,
    pub(super) task: String,
    pub(super) episode_id: Value,
    pub(super) env_idx: Value,
    pub(super) success: Value,
    pub(super) score_source: &'static str,
    /// Where each frame is, by view: the main one first.
    pub(super) views: Vec<Vec<Option<StoredImage>>>,
    pub(super) windows: Vec<Window>,
    /// Observations that have a score.
    pub(super) length: usize,
    /// Windows left out because a frame lacks a view.
    pub(super) incomplete: usize,
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Tells episodes of one file name apart, which lie in several folders: by the folder, and if need be by a number.
pub(super) fn tell_apart(episodes: &mut [Episode]) {
    let mut names: HashMap<String, usize> = HashMap::new();
    for episode in &*episodes {
        *names.entry(episode.name.clone()).or_default() += 1;
    }
    let mut taken = HashSet::new();
    for (number, episode) in episodes.iter_mut().enumerate() {
        if names.get(&episode.name).is_some_and(|count| *count > 1) {
            let folder = episode.path.parent().map(stem).unwrap_or_default();
            episode.name = format!("{folder}_{}", episode.name);
        }
        if !taken.insert(episode.name.clone()) {
            episode.name = format!("{}_{number}", episode.name);
            taken.insert(episode.name.clone());
        }
    }
}

const NO_TASK: &str = "robot manipulation progress judgment";

impl Episode {
    pub(super) fn cut(
        value: &PyValue,
        bytes: &Buffer,
        path: &Path,
        file: usize,
        options: &WindowOptions,
    ) -> Result<Self, FileProblem> {
        let observations = keys::need_list(value, "observations")?;
        let (scores, score_source) = scores(value)?;
        let arrays = views(observations, options)?;
        let mut episode = Self {
            path: path.into(),
            name: stem(path),
            task: task(value, observations, options),
            episode_id: fact(value, "episode_id"),
            env_idx: fact(value, "env_idx"),
            success: fact(value, "success"),
            score_source,
            views: store(&arrays, bytes, path, file, options)?,
            windows: Vec::new(),
            length: observations.len().min(scores.len()),
            incomplete: 0,
        };
        if episode.length >= options.window_size {
            refuse_missing(&arrays, observations, options)?;
            episode.windows = episode.all_windows(&scores, options)?;
        }
        Ok(episode)
    }

    /// Where each view is first seen, and its size there.
    fn sizes(&self) -> Vec<Option<(usize, [usize; 3])>> {
        let first = |view: &Vec<Option<StoredImage>>| {
            view.iter().enumerate().find_map(|(at, stored)| Some((at, stored.as_ref()?.pixel_format.shape())))
        };
        self.views.iter().map(first).collect()
    }

    fn all_windows(
        &mut self,
        scores: &Scores<'_>,
        options: &WindowOptions,
    ) -> Result<Vec<Window>, FileProblem> {
        let starts = || (0..=self.length - options.window_size).step_by(options.stride);
        let tail = (starts().count() as f64 * (1.0 - options.tail_unclear_ratio)) as usize;
        let mut windows = Vec::new();
        let mut incomplete = 0;
        for (ordinal, start) in starts().enumerate() {
            let end = start + options.window_size - 1;
            if self.views.iter().any(|view| view[start..=end].iter().any(Option::is_none)) {
                incomplete += 1;
                continue;
            }
            let (start_score, end_score) = (scores.get(start)?, scores.get(end)?);
            let mut window = Window { start, end, label: Label::Unclear, start_score, end_score };
            if ordinal < tail {
                window.label = label(window.score(), options.delta_threshold);
            }
            windows.push(window);
        }
        self.incomplete = incomplete;
        let kept = sample(windows.len(), options.num_samples_per_episode, options.keep_last_window);
        Ok(kept.into_iter().map(|at| windows[at]).collect())
    }
}

fn label(score: f64, threshold: f64) -> Label {
    if score.abs() <= threshold {
        Label::Unclear
    } else if score > 0.0 {
        Label::Positive
    } else {
        Label::Negative
    }
}

/// Progress at each observation: a list, or an array.
struct Scores<'a> {
    value: &'a PyValue,
    name: &'static str,
}

/// `gae` if there is any, else `rewards`.
fn scores(episode: &PyValue) -> Result<(Scores<'_>, &'static str), FileProblem> {
    let gae = episode.get("gae").map(|value| Scores { value, name: "gae" });
    match gae.filter(|scores| scores.len() > 0) {
        Some(scores) => Ok((scores, "gae")),
        None => {
            Ok((Scores { value: keys::need(episode, "rewards", "the file")?, name: "rewards" }, "rewards"))
        }
    }
}

impl Scores<'_> {
    fn len(&self) -> usize {
        match (self.value.as_items(), self.value.as_array()) {
            (Some(items), _) => items.len(),
            (None, Some(array)) => array.shape().first().copied().unwrap_or(0),
            (None, None) => 0,
        }
    }

    fn get(&self, at: usize) -> Result<f64, FileProblem> {
        let row = || self.value.as_array().and_then(|array| array.row(at)).map(PyValue::from);
        let item = self.value.as_items().and_then(|items| items.get(at)).cloned().or_else(row);
        keys::number(&item.unwrap_or(PyValue::None), || format!("{}[{at}]", self.name))
    }
}

/// The episode's own words, the user's, or those that each observation carries: the prompt of the reward model.
fn task(episode: &PyValue, observations: &[PyValue], options: &WindowOptions) -> String {
    let words = |of: &PyValue, key: &str| of.get(key).and_then(PyValue::as_str).map(str::to_owned);
    let of_episode = |key: &str| words(episode, key).filter(|text| !text.is_empty());
    let given = || options.task_description.clone().filter(|text| !text.is_empty());
    let seen = || words(observations.first()?, "task_descriptions").filter(|text| !text.is_empty());
    let found = of_episode("task").or_else(|| of_episode("task_description")).or_else(given).or_else(seen);
    found.unwrap_or_else(|| NO_TASK.into())
}

/// A fact about an episode that JSON can say.
fn fact(episode: &PyValue, key: &str) -> Value {
    match episode.get(key) {
        Some(PyValue::Bool(boolean)) => (*boolean).into(),
        Some(PyValue::Str(text)) => (**text).into(),
        Some(PyValue::Float(number)) => (*number).into(),
        Some(value) if key == "success" => value.to_bool().into(),
        Some(value) => value.to_i64().into(),
        None => Value::Null,
    }
}

/// What a view is called in manifests and messages.
pub(super) fn view_names(options: &WindowOptions) -> Vec<String> {
    let extra = options.extra_views.iter().map(|at| format!("extra_view_images[{at}]"));
    std::iter::once("main_images".to_string()).chain(extra).collect()
}

/// The images of one view, one for each observation that has it.
type View = Vec<Option<Array>>;

/// The images of each view, observation by observation.
fn views(observations: &[PyValue], options: &WindowOptions) -> Result<Vec<View>, FileProblem> {
    let mut views = vec![View::new(); 1 + options.extra_views.len()];
    for (at, seen) in observations.iter().enumerate() {
        if seen.as_dict().is_none() {
            let (location, found) = (format!("observations[{at}]"), seen.kind());
            return Err(FileProblem::Kind { location, expected: "dict", found });
        }
        views[0].push(image(seen, "main_images", || location("main_images", at))?);
        for (view, extra) in views[1..].iter_mut().zip(&options.extra_views) {
            view.push(extra_image(seen, at, *extra)?);
        }
    }
    Ok(views)
}

/// An extra camera's image: `third_view_images` for the first, or one of `extra_view_images`.
fn extra_image(seen: &PyValue, at: usize, extra: usize) -> Result<Option<Array>, FileProblem> {
    if extra == 0
        && let Some(third) = image(seen, "third_view_images", || location("third_view_images", at))?
    {
        return Ok(Some(third));
    }
    if let Some(items) = seen.get("extra_view_images").and_then(PyValue::as_items) {
        return Ok(items.get(extra).and_then(PyValue::as_array).cloned());
    }
    let images = image(seen, "extra_view_images", || location("extra_view_images", at))?;
    Ok(images.and_then(|images| match images.shape().len() {
        3 if extra == 0 => Some(images),
        4 => images.row(extra),
        _ => None,
    }))
}

/// The image of an observation, if it has one.
fn image(
    observation: &PyValue,
    key: &str,
    location: impl Fn() -> String,
) -> Result<Option<Array>, FileProblem> {
    match observation.get(key) {
        None | Some(PyValue::None) => Ok(None),
        Some(PyValue::Array(array) | PyValue::Tensor(array)) => Ok(Some((**array).clone())),
        Some(other) => {
            Err(FileProblem::Kind { location: location(), expected: "torch tensor", found: other.kind() })
        }
    }
}

fn location(key: &str, at: usize) -> String {
    format!("observations[{at}][\"{key}\"]")
}

/// All images of a file, in the order in which [`StoredImage`] numbers them.
pub(super) fn images(value: &PyValue, options: &WindowOptions) -> Result<Vec<Frame>, FileProblem> {
    let views = views(keys::need_list(value, "observations")?, options)?;
    let frame = |array| Frame::Array(array, options.channel_order);
    Ok(views.into_iter().flatten().flatten().map(frame).collect())
}

/// Where all images are. Those of one view have one size.
fn store(
    views: &[View],
    bytes: &Buffer,
    path: &Path,
    file: usize,
    options: &WindowOptions,
) -> Result<Vec<Vec<Option<StoredImage>>>, FileProblem> {
    let mut number = 0;
    let mut stored = Vec::with_capacity(views.len());
    for (view, name) in views.iter().zip(view_names(options)) {
        let mut size = None;
        let mut stored_images = Vec::with_capacity(view.len());
        for (at, array) in view.iter().enumerate() {
            let Some(array) = array else {
                stored_images.push(None);
                continue;
            };
            let pixel_format = PixelFormat::of(array, options.channel_order, Strictness::AllowBytes, || {
                location(&name, at)
            })?;
            let expected = *size.get_or_insert(pixel_format.shape());
            if pixel_format.shape() != expected {
                let (location, found, other) =
                    (location(&name, at), pixel_format.shape(), path.to_path_buf());
                return Err(FileProblem::Size { location, found, expected, other });
            }
            let frame = Frame::Array(array.clone(), options.channel_order);
            stored_images.push(Some(StoredImage::of(&frame, pixel_format, Some(bytes), file, number)));
            number += 1;
        }
        stored.push(stored_images);
    }
    Ok(stored)
}

/// The first episode says how large each view is. Episodes that differ are bad.
pub(super) fn refuse_other_sizes(scan: &mut Scan<Episode>, options: &WindowOptions) {
    let Some(first) = scan.found.first() else { return };
    let (expected, other) = (first.sizes(), first.path.clone());
    let bad = &mut scan.bad;
    scan.found.retain(|episode| {
        let pairs = episode.sizes().into_iter().zip(&expected).zip(view_names(options));
        let differs = pairs.into_iter().find_map(|((found, expected), name)| {
            let ((at, found), (_, expected)) = (found?, (*expected)?);
            (found != expected).then(|| (location(&name, at), found, expected))
        });
        let Some((location, found, expected)) = differs else { return true };
        let problem = FileProblem::Size { location, found, expected, other: other.clone() };
        bad.push(problem.in_file(&episode.path));
        false
    });
}

/// A view that no frame has is a mistake; one that some frames lack only costs windows.
fn refuse_missing(
    views: &[View],
    observations: &[PyValue],
    options: &WindowOptions,
) -> Result<(), FileProblem> {
    for (view, name) in views.iter().zip(view_names(options)) {
        if view.iter().all(Option::is_none) {
            return Err(FileProblem::MissingView { view: name, has: keys::of(observations.first()) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(path: &str) -> Episode {
        Episode {
            path: path.into(),
            name: stem(Path::new(path)),
            task: String::new(),
            episode_id: Value::Null,
            env_idx: Value::Null,
            success: Value::Null,
            score_source: "rewards",
            views: Vec::new(),
            windows: Vec::new(),
            length: 0,
            incomplete: 0,
        }
    }

    #[test]
    fn episodes_of_one_file_name_are_told_apart() {
        let mut episodes: Vec<Episode> =
            ["script/a.pkl", "play/a.pkl", "play/b.pkl", "old/play/a.pkl"].map(episode).into();
        tell_apart(&mut episodes);
        let names: Vec<&str> = episodes.iter().map(|episode| episode.name.as_str()).collect();
        assert_eq!(names, ["script_a", "play_a", "b", "play_a_3"]);
    }

    #[test]
    fn the_task_is_in_the_words_that_are_nearest() {
        let text = |words: &str| PyValue::Str(words.into());
        let seen = [PyValue::dict([("task_descriptions", text("lift the cube"))])];
        let given =
            WindowOptions { task_description: Some("as the user says".into()), ..WindowOptions::default() };
        let plain = WindowOptions::default();
        let named = PyValue::dict([("task_description", text("as the episode says"))]);
        let nothing = PyValue::dict([("task", text(""))]);
        assert_eq!(task(&named, &seen, &given), "as the episode says");
        assert_eq!(task(&nothing, &seen, &given), "as the user says");
        assert_eq!(task(&nothing, &seen, &plain), "lift the cube");
        assert_eq!(task(&nothing, &[], &plain), NO_TASK);
    }
}
