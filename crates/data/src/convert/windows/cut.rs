//! One episode: its windows, their labels, and where their frames are.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{WindowOptions, WindowScore};
use crate::convert::sampling::sample;
use crate::convert::scan::Scan;
use crate::recording::{
    AfterLast, CameraKey, DatasetFormat, FileProblem, Frame, Item, Observation, PixelFormat, Recording,
    Strictness, Unit,
};
use crate::windows::{Objective, evenly_spaced};

/// Answers, as [`Objective::answers`] has them.
pub(super) const POSITIVE: &str = Objective::Trend.answers()[0];
pub(super) const NEGATIVE: &str = Objective::Trend.answers()[1];
const UNCLEAR: &str = Objective::Trend.answers()[2];
const YES: &str = Objective::Success.answers()[0];
const NO: &str = Objective::Success.answers()[1];
pub(super) const FIRST: &str = Objective::Preference.answers()[0];
pub(super) const SECOND: &str = Objective::Preference.answers()[1];

/// Some consecutive frames, or an episode so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: usize,
    /// The last frame, not the one after it.
    pub(super) end: usize,
    /// The answer to the question about it.
    pub(super) label: &'static str,
    /// Whether the task is solved at its end.
    pub(super) solved: bool,
    pub(super) start_score: f64,
    pub(super) end_score: f64,
}

impl Window {
    /// How much the score rises.
    pub(super) fn score(&self) -> f64 {
        self.end_score - self.start_score
    }

    /// So many of its frames, evenly spaced, with the first and the last.
    pub(super) fn shown(&self, size: usize) -> Vec<usize> {
        let places = evenly_spaced(self.end + 1 - self.start, size);
        places.into_iter().map(|at| self.start + at).collect()
    }
}

/// An episode and the windows that were kept of it.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) path: PathBuf,
    /// Which item it was read from, and which of its recordings it is.
    pub(super) origin: (usize, usize),
    /// What its windows' files are named after: its own file, and its folder where two files have one name.
    pub(super) name: String,
    pub(super) task: String,
    pub(super) episode_id: Option<u64>,
    pub(super) env_idx: Option<u64>,
    pub(super) success: Option<bool>,
    pub(super) score_source: &'static str,
    /// What becomes of each frame, by view: the main one first.
    pub(super) views: Vec<Vec<Option<PixelFormat>>>,
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

/// Every episode of an item, cut.
pub(super) fn cut(
    item: &Item,
    number: usize,
    format: DatasetFormat,
    options: &WindowOptions,
) -> Result<Vec<Episode>, FileProblem> {
    let recordings = item.read()?;
    let alone = recordings.len() == 1;
    let mut episodes = Vec::with_capacity(recordings.len());
    for (at, recording) in recordings.iter().enumerate() {
        let mut episode = Episode::cut(recording, item, format, options)?;
        episode.origin = (number, at);
        if !alone {
            episode.name = format!("{}_{at}", episode.name);
        }
        episodes.push(episode);
    }
    Ok(episodes)
}

impl Episode {
    fn cut(
        recording: &Recording,
        item: &Item,
        format: DatasetFormat,
        options: &WindowOptions,
    ) -> Result<Self, FileProblem> {
        match recording.unit {
            Unit::Episode => {}
            Unit::Images => return Err(FileProblem::NoOrder),
            Unit::Window => return Err(FileProblem::Windows),
        }
        let by = match options.objective {
            Objective::Trend | Objective::Preference => options.score,
            Objective::Progress | Objective::Success => WindowScore::Success,
        };
        let (scores, score_source) = scores(recording, by)?;
        let views = views(recording, item, options)?;
        let [env_idx, episode_id, _] = recording.position;
        let mut episode = Self {
            path: item.path.clone(),
            origin: (0, 0),
            name: item.stem(),
            task: task(recording, options),
            episode_id,
            env_idx,
            success: recording.success,
            score_source,
            views: pixel_formats(&views, item, format, options)?,
            windows: Vec::new(),
            length: timeline(recording).count().min(scores.len()),
            incomplete: 0,
        };
        if episode.length >= options.window_size {
            refuse_missing(&views, recording, options)?;
            let windows = match options.objective {
                Objective::Trend => episode.trends(&scores, options)?,
                _ => episode.prefixes(&scores, &solved(recording, scores.len()), options)?,
            };
            let kept = sample(windows.len(), options.num_samples_per_episode, options.keep_last_window);
            episode.windows = kept.into_iter().map(|at| windows[at]).collect();
        }
        Ok(episode)
    }

    /// Where each view is first seen, and its size there.
    fn sizes(&self) -> Vec<Option<(usize, [usize; 3])>> {
        let first = |view: &Vec<Option<PixelFormat>>| {
            view.iter().enumerate().find_map(|(at, format)| Some((at, format.as_ref()?.shape())))
        };
        self.views.iter().map(first).collect()
    }

    fn trends(&mut self, scores: &[f64], options: &WindowOptions) -> Result<Vec<Window>, FileProblem> {
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
            let score = |at: usize| self.score(scores, at);
            let (start_score, end_score) = (score(start)?, score(end)?);
            let mut window = Window { start, end, label: UNCLEAR, solved: false, start_score, end_score };
            if ordinal < tail {
                window.label = label(window.score(), options.delta_threshold);
            }
            windows.push(window);
        }
        self.incomplete = incomplete;
        Ok(windows)
    }

    /// The episode up to some frames. Progress is a share of the way to success, so that only solved episodes have any.
    fn prefixes(
        &mut self,
        scores: &[f64],
        solved: &[bool],
        options: &WindowOptions,
    ) -> Result<Vec<Window>, FileProblem> {
        let first_solved = solved.iter().position(|solved| *solved);
        let mut windows = Vec::new();
        for end in (options.window_size - 1..self.length).step_by(options.stride) {
            let label = match (options.objective, first_solved) {
                (Objective::Progress, None) => break,
                (Objective::Progress, Some(first)) => Objective::digit(end as f64 / first.max(1) as f64),
                (Objective::Success, _) if solved[end] => YES,
                (Objective::Success, _) => NO,
                // Two of them are compared later.
                (Objective::Preference | Objective::Trend, _) => FIRST,
            };
            let (start_score, end_score) = (self.score(scores, 0)?, self.score(scores, end)?);
            let window = Window { start: 0, end, label, solved: solved[end], start_score, end_score };
            let shown = window.shown(options.window_size);
            match self.views.iter().any(|view| shown.iter().any(|at| view[*at].is_none())) {
                true => self.incomplete += 1,
                false => windows.push(window),
            }
        }
        Ok(windows)
    }

    fn score(&self, scores: &[f64], at: usize) -> Result<f64, FileProblem> {
        let score = scores[at];
        let location = || format!("{}[{at}]", self.score_source);
        let problem = || FileProblem::NotOne {
            location: location(),
            expected: "finite number",
            found: score.to_string(),
        };
        score.is_finite().then_some(score).ok_or_else(problem)
    }
}

fn label(score: f64, threshold: f64) -> &'static str {
    if score.abs() <= threshold {
        UNCLEAR
    } else if score > 0.0 {
        POSITIVE
    } else {
        NEGATIVE
    }
}

/// Every observation in the order of time, the last one too.
fn timeline(recording: &Recording) -> impl Iterator<Item = &Observation> {
    let last = match &recording.after_last {
        AfterLast::Seen(last) => Some(last),
        AfterLast::Included | AfterLast::Repeated | AfterLast::Unknown => None,
    };
    recording.observations.iter().chain(last)
}

/// How it goes at each observation, and where that is from: `gae` if there is any, else `rewards`; or success.
fn scores(recording: &Recording, score: WindowScore) -> Result<(Vec<f64>, &'static str), FileProblem> {
    let (column, source) = match score {
        WindowScore::Success if recording.success().is_none() => return Err(FileProblem::NoLabels),
        WindowScore::Success => {
            let solved = recording.labels.iter().map(|label| f64::from(u8::from(*label == Some(true))));
            (solved.collect(), "success")
        }
        WindowScore::Rewards if !recording.progress.is_empty() => (recording.progress.clone(), "gae"),
        WindowScore::Rewards if recording.rewards.is_empty() => return Err(FileProblem::NoScores),
        WindowScore::Rewards => (recording.rewards.clone(), "rewards"),
    };
    // What followed the last action is beside what it led to; nothing was gained at a reset. Where nobody saw what it led
    // to, the observation before stands for it.
    let reset = matches!(recording.after_last, AfterLast::Seen(_)).then_some(0.0);
    Ok((reset.into_iter().chain(column).collect(), source))
}

/// Whether the task is solved at each of so many observations.
fn solved(recording: &Recording, observations: usize) -> Vec<bool> {
    let reset = matches!(recording.after_last, AfterLast::Seen(_)).then_some(false);
    let labels = recording.labels.iter().map(|label| *label == Some(true));
    let mut solved: Vec<bool> = reset.into_iter().chain(labels).collect();
    solved.resize(observations, false);
    solved
}

/// The episode's own words, the user's, or the environment's: the prompt of the reward model.
fn task(recording: &Recording, options: &WindowOptions) -> String {
    let given = || options.task_description.as_deref().filter(|text| !text.is_empty());
    let found = recording.own_task.as_deref().or_else(given).or(recording.task.as_deref());
    found.unwrap_or(NO_TASK).into()
}

/// What a view is called in manifests and messages.
pub(super) fn view_names(options: &WindowOptions) -> Vec<String> {
    let extra = options.extra_views.iter().map(|at| format!("extra_view_images[{at}]"));
    std::iter::once("main_images".to_string()).chain(extra).collect()
}

/// The images of one view, one for each observation that has it.
pub(super) type View = Vec<Option<Frame>>;

/// The images of each view, observation by observation. What the format's rules leave out is in no window.
pub(super) fn views(
    recording: &Recording,
    item: &Item,
    options: &WindowOptions,
) -> Result<Vec<View>, FileProblem> {
    let cameras: Vec<CameraKey> = view_names(options).iter().map(|name| CameraKey::parse(name)).collect();
    // The first extra camera has a name of its own in some of RLinf's environments.
    let third = CameraKey::parse("third_view_images");
    let mut views = vec![View::new(); cameras.len()];
    for (at, seen) in timeline(recording).enumerate() {
        for (number, (view, camera)) in views.iter_mut().zip(&cameras).enumerate() {
            let image = |camera: &CameraKey| seen.image(camera, || item.location(at, &camera.key));
            let is_first_extra = number > 0 && camera.view == 0;
            let named = if is_first_extra { image(&third)? } else { None };
            let found = if named.is_some() { named } else { image(camera)? };
            view.push(found.filter(|_| !recording.is_left_out(at)));
        }
    }
    Ok(views)
}

/// How all images are stored. Those of one view have one size.
fn pixel_formats(
    views: &[View],
    item: &Item,
    format: DatasetFormat,
    options: &WindowOptions,
) -> Result<Vec<Vec<Option<PixelFormat>>>, FileProblem> {
    let (said, _) = format.pixels(options.channel_order);
    let mut all = Vec::with_capacity(views.len());
    for (view, name) in views.iter().zip(view_names(options)) {
        let mut size = None;
        let mut formats = Vec::with_capacity(view.len());
        for (at, frame) in view.iter().enumerate() {
            let location = || item.location(at, &name);
            let format =
                frame.as_ref().map(|frame| frame.pixel_format(said, Strictness::AllowBytes, location));
            let format = format.transpose()?;
            if let Some(found) = format.map(|format| format.shape()) {
                let expected = *size.get_or_insert(found);
                if found != expected {
                    let (location, other) = (location(), item.path.clone());
                    return Err(FileProblem::Size { location, found, expected, other });
                }
            }
            formats.push(format);
        }
        all.push(formats);
    }
    Ok(all)
}

/// The first episode says how large each view is. Files with an episode that differs are bad.
pub(super) fn refuse_other_sizes(scan: &mut Scan<Vec<Episode>>, items: &[Item], options: &WindowOptions) {
    let Some(first) = scan.found.iter().flatten().next() else { return };
    let (expected, other) = (first.sizes(), first.path.clone());
    let bad = &mut scan.bad;
    let differs = |episode: &Episode| {
        let pairs = episode.sizes().into_iter().zip(&expected).zip(view_names(options));
        pairs.into_iter().find_map(|((found, expected), name)| {
            let ((at, found), (_, expected)) = (found?, (*expected)?);
            let location = || items[episode.origin.0].location(at, &name);
            (found != expected).then(|| (location(), found, expected))
        })
    };
    scan.found.retain(|episodes| {
        let wrong = episodes.iter().find_map(|episode| Some((episode, differs(episode)?)));
        let Some((episode, (location, found, expected))) = wrong else { return true };
        let problem = FileProblem::Size { location, found, expected, other: other.clone() };
        bad.push(problem.in_file(&episode.path));
        false
    });
}

/// A view that no frame has is a mistake; one that some frames lack only costs windows.
fn refuse_missing(views: &[View], recording: &Recording, options: &WindowOptions) -> Result<(), FileProblem> {
    for (view, name) in views.iter().zip(view_names(options)) {
        if view.iter().all(Option::is_none) {
            let has = recording.observations.first().map_or_else(|| "nothing".into(), Observation::names);
            return Err(FileProblem::MissingView { view: name, has });
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
            origin: (0, 0),
            episode_id: None,
            env_idx: None,
            success: None,
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
        let given =
            WindowOptions { task_description: Some("as the user says".into()), ..WindowOptions::default() };
        let plain = WindowOptions::default();
        let seen = |own_task: Option<&str>| Recording {
            own_task: own_task.map(Into::into),
            task: Some("lift the cube".into()),
            ..Recording::default()
        };
        assert_eq!(task(&seen(Some("as the episode says")), &given), "as the episode says");
        assert_eq!(task(&seen(None), &given), "as the user says");
        assert_eq!(task(&seen(None), &plain), "lift the cube");
        assert_eq!(task(&Recording::default(), &plain), NO_TASK);
    }
}
