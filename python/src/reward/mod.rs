//! The reward of an environment by a model: plaudit's own rules, a step at a time.
//!
//! A reward is a function of a segment. Here a segment has one step, and carries what its reward asks for
//! from before it. So that no frame is scored twice, and no image is kept for the rules, a frame's score
//! stands in the observation, after its state: the rules are asked with a model that reads it there. A judge
//! of windows needs the images themselves.

mod rules;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use plaudit_core::{End, FramesNeeded, Obs, ObsRow, Reward, RewardColumn, Segment, StepRow};
use plaudit_nn::images::ViewPixels;
use plaudit_reward::{Classifier, FrameRewardModel, FrameStack, RewardTiming};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use self::rules::{Options, frame_reward, scorer, timing, window_reward};
use crate::error::{failed, failure, guarded, input};
use crate::images::Images;
use crate::model::{Kind, OpenModel, RewardModel, observations};
use crate::process::compute;

/// What is asked about an observation.
enum Scorer {
    /// A classifier of frame stacks.
    Stacks(Classifier),
    /// Any model of single frames.
    Frames(Arc<OpenModel>),
    /// Nothing: the reward looks at windows of images itself.
    None,
}

/// The reward of a batch of environments, step after step.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct RewardShaper {
    num_envs: usize,
    reward: Box<dyn Reward>,
    scorer: Scorer,
    task: Option<String>,
    /// Which frames are scored.
    needed: FramesNeeded,
    /// Whether what a step began with is scored, too.
    needs_first: bool,
    track: Mutex<Track>,
}

/// Where the environments are.
struct Track {
    now: Option<Arc<Obs>>,
    /// What was before, oldest first.
    context: VecDeque<Arc<Obs>>,
    /// The same with images, as far as a model stacks them.
    frames: VecDeque<Arc<Obs>>,
    elapsed: Vec<usize>,
}

#[pymethods]
impl RewardShaper {
    #[new]
    fn new(model: &RewardModel, num_envs: usize, options: Options) -> PyResult<Self> {
        if num_envs == 0 {
            return Err(input("there are no environments", "wrap one environment or more"));
        }
        let open = model.open()?;
        let timing = timing(&options)?;
        let judges_windows = timing.is_none() && matches!(open.kind, Kind::Judge(_));
        let needs_first = matches!(timing, Some(RewardTiming::Potential { .. }));
        let reward: Box<dyn Reward> = match timing {
            Some(timing) => Box::new(frame_reward(&open, &options, timing)?),
            None => Box::new(window_reward(&open, &options, judges_windows)?),
        };
        // The rules read scores, so they need no camera; what they would need of a model with one is decided
        // here.
        let needed = match (timing, options.hold.get(), options.hysteresis) {
            (Some(RewardTiming::Terminal), 1, None) => FramesNeeded::Ends,
            _ => FramesNeeded::Everything,
        };
        let scorer = if judges_windows { Scorer::None } else { scorer(open)? };
        let track = Track {
            now: None,
            context: VecDeque::new(),
            frames: VecDeque::new(),
            elapsed: vec![0; num_envs],
        };
        let (task, track) = (options.task, Mutex::new(track));
        Ok(Self { num_envs, reward, scorer, task, needed, needs_first, track })
    }

    /// Whether images are needed of every observation, or of those alone that end an episode.
    #[getter]
    fn needs_every_image(&self) -> bool {
        self.needed == FramesNeeded::Everything
    }

    /// Every environment begins an episode.
    #[pyo3(signature = (images, state = None))]
    fn begin(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        state: Option<PyReadonlyArray2<'_, f32>>,
    ) -> PyResult<()> {
        guarded(|| {
            let images = Images::of(images, crate::model::MAIN, None)?;
            let state = self.rows_of(&state)?;
            let views = self.views(&images)?;
            compute(py, || {
                let mut track = self.track.lock().unwrap_or_else(PoisonError::into_inner);
                track.context.clear();
                track.frames.clear();
                track.elapsed = vec![0; self.num_envs];
                let seen = self.seen(&views)?;
                let scores = match self.needs_first {
                    true => self.scores(&seen, &track, &vec![true; self.num_envs], true)?,
                    false => vec![0.0; self.num_envs],
                };
                track.keep(
                    self.noted(seen.clone(), state, &scores)?,
                    seen,
                    &self.scorer,
                    self.reward.context(),
                );
                Ok(())
            })?
        })
    }

    /// One step of every environment, and the reward of it: totals, whether the model sees success, scores,
    /// terms.
    ///
    /// `images` and `state` are what the step led to: for one that ended, its last observation. Those in
    /// `fresh` began an episode instead of taking a step.
    #[pyo3(signature = (images, state, env_reward, terminated, truncated, success, fresh))]
    #[allow(clippy::too_many_arguments)] // a step has so many columns
    fn step<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        state: Option<PyReadonlyArray2<'py, f32>>,
        env_reward: PyReadonlyArray1<'py, f32>,
        terminated: PyReadonlyArray1<'py, bool>,
        truncated: PyReadonlyArray1<'py, bool>,
        success: PyReadonlyArray1<'py, bool>,
        fresh: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| {
            let images = Images::of(images, crate::model::MAIN, None)?;
            let state = self.rows_of(&state)?;
            let views = self.views(&images)?;
            let fresh = self.column(fresh.as_slice()?)?;
            let end = ends(self.column(terminated.as_slice()?)?, self.column(truncated.as_slice()?)?);
            let step = StepRow {
                actions: Vec::new(),
                env_reward: self.column(env_reward.as_slice()?)?.to_vec(),
                end,
                success: self.column(success.as_slice()?)?.to_vec(),
            };
            let (column, scores) = compute(py, || self.labelled(&views, state, step, fresh))??;
            self.result(py, column, scores)
        })
    }

    /// What of some rows came next: they begin an episode, after a step that ended theirs.
    #[pyo3(signature = (images, state, rows))]
    fn restart(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        state: Option<PyReadonlyArray2<'_, f32>>,
        rows: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<()> {
        guarded(|| {
            let images = Images::of(images, crate::model::MAIN, None)?;
            let state = self.rows_of(&state)?;
            let views = self.views(&images)?;
            let rows = self.column(rows.as_slice()?)?;
            compute(py, || {
                let mut track = self.track.lock().unwrap_or_else(PoisonError::into_inner);
                for row in (0..self.num_envs).filter(|row| rows[*row]) {
                    track.elapsed[row] = 0;
                }
                let seen = self.seen(&views)?;
                let mut scores = match self.needs_first {
                    true => self.scores(&seen, &track, rows, true)?,
                    false => vec![0.0; self.num_envs],
                };
                if let Some(now) = &track.now {
                    for row in (0..self.num_envs).filter(|row| !rows[*row]) {
                        scores[row] = now.row(row).state.last().copied().unwrap_or(0.0);
                    }
                }
                track.replace(self.noted(seen.clone(), state, &scores)?, seen);
                Ok(())
            })?
        })
    }
}

impl RewardShaper {
    /// Labels one step.
    fn labelled(
        &self,
        views: &[ViewPixels<'_>],
        state: Option<&[f32]>,
        step: StepRow,
        fresh: &[bool],
    ) -> PyResult<(RewardColumn, Vec<f32>)> {
        let mut track = self.track.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = track.now.clone() else {
            return Err(failure("a step before the first observation", Some("reset the environment".into())));
        };
        for row in (0..self.num_envs).filter(|row| fresh[*row]) {
            track.elapsed[row] = 0;
        }
        let seen = self.seen(views)?;
        let asked = |row: usize| match self.needed {
            FramesNeeded::Nothing => false,
            FramesNeeded::Ends => step.end[row].is_end(),
            FramesNeeded::Everything => true,
        };
        let asked: Vec<bool> = (0..self.num_envs).map(asked).collect();
        let scores = self.scores(&seen, &track, &asked, false)?;
        let noted = self.noted(seen.clone(), state, &scores)?;
        let ended: Vec<usize> = (0..self.num_envs).filter(|row| step.end[*row].is_end()).collect();
        let last = ended.iter().map(|row| (*row, noted.row(*row).to_obs())).collect();
        let context = track.context.iter().cloned().collect();
        let mut segment = Segment::continuing((*before).clone(), context, track.elapsed.clone());
        segment.push(step, (*noted).clone(), last).map_err(|error| failed(&error))?;
        let column = self.reward.label(&segment).map_err(|error| failed(&error))?;
        for (row, elapsed) in track.elapsed.iter_mut().enumerate() {
            *elapsed = if ended.contains(&row) || fresh[row] { 0 } else { *elapsed + 1 };
        }
        track.keep(noted, seen, &self.scorer, self.reward.context());
        Ok((column, scores))
    }

    /// Images as an observation.
    fn seen(&self, views: &[ViewPixels<'_>]) -> PyResult<Arc<Obs>> {
        observations(views, self.task.as_deref()).map(Arc::new)
    }

    /// The score of each row that is asked about; 0 of others. `first` says that what is seen begins
    /// episodes.
    fn scores(&self, seen: &Arc<Obs>, track: &Track, asked: &[bool], first: bool) -> PyResult<Vec<f32>> {
        let rows: Vec<usize> = (0..self.num_envs).filter(|row| asked[*row]).collect();
        let mut scores = vec![0.0; self.num_envs];
        if rows.is_empty() {
            return Ok(scores);
        }
        let stack = |row: usize| -> FrameStack<'_> {
            let steps = if first { 0 } else { track.elapsed[row] + 1 };
            let before: Vec<ObsRow<'_>> =
                track.frames.iter().rev().take(steps).map(|obs| obs.row(row)).collect();
            FrameStack::with_history(seen.row(row), before)
        };
        let stacks: Vec<FrameStack<'_>> = rows.iter().map(|row| stack(*row)).collect();
        let given = match &self.scorer {
            Scorer::None => return Ok(scores),
            Scorer::Stacks(model) => model.scores(&stacks),
            Scorer::Frames(model) => match &model.kind {
                Kind::Frames(model) => model.scores(&stacks),
                Kind::Judge(judge) => {
                    let cameras = seen.cameras.iter().map(|(name, _)| name.clone()).collect();
                    judge.of_frames(cameras, self.task.as_deref()).scores(&stacks)
                }
                Kind::Classifier { .. } | Kind::Custom(_) => {
                    return Err(failure("a classifier is asked by its views", None));
                }
            },
        };
        for (row, score) in rows.into_iter().zip(given.map_err(|error| failed(&error))?) {
            scores[row] = score.get();
        }
        Ok(scores)
    }

    /// An observation as the rules see it: state, then score; or with its images, where a judge looks at
    /// windows.
    fn noted(&self, seen: Arc<Obs>, state: Option<&[f32]>, scores: &[f32]) -> PyResult<Arc<Obs>> {
        if matches!(self.scorer, Scorer::None) {
            return Ok(seen);
        }
        let width = state.map_or(0, |state| state.len() / self.num_envs);
        let mut numbers = Vec::with_capacity((width + 1) * self.num_envs);
        for (row, score) in scores.iter().enumerate() {
            numbers.extend(state.map_or(&[][..], |state| &state[row * width..(row + 1) * width]));
            numbers.push(*score);
        }
        Obs::from_state(self.num_envs, numbers).map(Arc::new).map_err(|error| failed(&error))
    }

    fn views<'a>(&self, images: &'a Images<'_>) -> PyResult<Vec<ViewPixels<'a>>> {
        if images.count() != self.num_envs || images.is_one {
            let message =
                format!("{} images of each camera for {} environments", images.count(), self.num_envs);
            return Err(input(message, "pass an image of each environment"));
        }
        images.pixels()
    }

    fn column<'a, T>(&self, values: &'a [T]) -> PyResult<&'a [T]> {
        match values.len() == self.num_envs {
            true => Ok(values),
            false => {
                let message = format!("{} values for {} environments", values.len(), self.num_envs);
                Err(input(message, "pass one of each environment"))
            }
        }
    }

    fn rows_of<'a>(&self, state: &'a Option<PyReadonlyArray2<'_, f32>>) -> PyResult<Option<&'a [f32]>> {
        let Some(state) = state else { return Ok(None) };
        let rows = state.as_slice()?;
        match rows.len() % self.num_envs {
            0 => Ok(Some(rows)),
            _ => Err(input(
                "the states are no row of each environment",
                "pass an array of [environments, numbers]",
            )),
        }
    }

    fn result<'py>(
        &self,
        py: Python<'py>,
        column: RewardColumn,
        scores: Vec<f32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(py);
        result.set_item("reward", PyArray1::from_vec(py, column.total))?;
        result.set_item("success", column.success.map(|success| PyArray1::from_vec(py, success)))?;
        if !matches!(self.scorer, Scorer::None) {
            result.set_item("score", PyArray1::from_vec(py, scores))?;
        }
        let terms = PyDict::new(py);
        for term in column.terms {
            terms.set_item(&*term.name, PyArray1::from_vec(py, term.values))?;
        }
        result.set_item("terms", terms)?;
        Ok(result)
    }
}

impl Track {
    /// What was now is before, and `noted` is now.
    fn keep(&mut self, noted: Arc<Obs>, seen: Arc<Obs>, scorer: &Scorer, context: usize) {
        if let Some(before) = self.now.replace(noted) {
            self.context.push_back(before);
        }
        while self.context.len() > context {
            self.context.pop_front();
        }
        let history = match scorer {
            Scorer::Stacks(model) => model.history_len(),
            Scorer::Frames(_) | Scorer::None => 0,
        };
        self.frames.push_back(seen);
        while self.frames.len() > history {
            self.frames.pop_front();
        }
    }

    /// What is now was the end of episodes, and `noted` begins others.
    fn replace(&mut self, noted: Arc<Obs>, seen: Arc<Obs>) {
        self.now = Some(noted);
        if let Some(newest) = self.frames.back_mut() {
            *newest = seen;
        }
    }
}

fn ends(terminated: &[bool], truncated: &[bool]) -> Vec<End> {
    let end = |(terminated, truncated): (&bool, &bool)| match (terminated, truncated) {
        (true, _) => End::Terminated,
        (false, true) => End::Truncated,
        (false, false) => End::No,
    };
    terminated.iter().zip(truncated).map(end).collect()
}
