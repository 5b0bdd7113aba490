//! What models learn from: labelled frames of episodes, and labelled windows.

use std::path::PathBuf;

use numpy::{PyArray1, PyArray3, PyArrayDyn, PyArrayMethods};
use plaudit_data::labelled::{FramePick, LabelledData, ReadOptions, SplitOptions};
use plaudit_data::windows::{Objective, WindowReadOptions, WindowViews, Windows};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::error::{failed, input};
use crate::process::compute;
use crate::recording::{rules, view_of};

/// Labelled frames where they lie.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct LabelledFrames {
    data: LabelledData,
    picks: Vec<FramePick>,
}

#[pymethods]
impl LabelledFrames {
    #[new]
    #[allow(clippy::too_many_arguments)] // the options of reading and of splitting, by name in Python
    fn new(
        py: Python<'_>,
        path: PathBuf,
        cameras: Vec<String>,
        split: Option<&str>,
        val_split: f64,
        samples: usize,
        fail_success_ratio: Option<f64>,
        seed: i64,
        format: Option<&str>,
        labels: Option<PathBuf>,
        success_reward: Option<f64>,
        success_last_frames: Option<usize>,
    ) -> PyResult<Self> {
        let rules = rules(format, labels, success_reward, success_last_frames)?;
        let options = ReadOptions { cameras, rules };
        let data =
            compute(py, || LabelledData::read(&path, &options, &|_| {}))?.map_err(|error| failed(&error))?;
        let splitting =
            SplitOptions { num_samples_per_episode: samples, val_split, fail_success_ratio, seed };
        let picks = match split {
            None => data.all(),
            Some(part) => {
                let both = data.split(&splitting).map_err(|error| failed(&error))?;
                match part {
                    "train" => both.train,
                    "val" => both.val,
                    _ => {
                        return Err(input(
                            format!("there is no split `{part}`"),
                            "pass \"train\", \"val\" or None",
                        ));
                    }
                }
            }
        };
        Ok(Self { data, picks })
    }

    fn __len__(&self) -> usize {
        self.picks.len()
    }

    /// The images of a frame, one for each camera: read-only views wherever they can be.
    fn images<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Vec<Bound<'py, PyArray3<u8>>>> {
        let frame = self.data.frame(self.pick(number)?);
        frame.images.iter().map(|image| view_of(py, image.clone())).collect()
    }

    /// Whether a frame shows success.
    fn label(&self, number: usize) -> PyResult<bool> {
        Ok(self.data.frame(self.pick(number)?).success)
    }

    /// All labels.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_vec(py, self.picks.iter().map(|pick| self.data.frame(*pick).success).collect())
    }

    /// The episode of a frame, and which entry of it the frame is.
    fn origin(&self, number: usize) -> PyResult<(String, usize)> {
        let pick = self.pick(number)?;
        let name = self.data.episodes[pick.episode as usize].name.clone();
        Ok((name, self.data.frame(pick).at))
    }

    /// The cameras, and the sizes of their images.
    #[getter]
    fn cameras(&self) -> Vec<(String, (usize, usize, usize))> {
        let sides = |shape: &plaudit_core::FrameShape| (shape.height, shape.width, shape.channels);
        self.data.cameras.iter().map(|(name, shape)| (name.clone(), sides(shape))).collect()
    }
}

impl LabelledFrames {
    fn pick(&self, number: usize) -> PyResult<FramePick> {
        let none =
            || PyIndexError::new_err(format!("there is no frame {number}: there are {}", self.picks.len()));
        self.picks.get(number).copied().ok_or_else(none)
    }
}

/// Labelled windows where they lie.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct LabelledWindows {
    windows: Windows,
}

/// The views of a window, each `[T, H, W, 3]`.
type WindowImages<'py> = Vec<Bound<'py, PyArrayDyn<u8>>>;

#[pymethods]
impl LabelledWindows {
    #[new]
    fn new(
        py: Python<'_>,
        manifests: Vec<PathBuf>,
        main_view: bool,
        data_root: Option<PathBuf>,
    ) -> PyResult<Self> {
        let views = if main_view { WindowViews::Main } else { WindowViews::All };
        let options = WindowReadOptions {
            prompt_key: "prompt".into(),
            answer_key: "answer".into(),
            objectives: Objective::ALL.to_vec(),
            data_root,
            views,
        };
        let windows = compute(py, || Windows::read(&manifests, &options))?.map_err(|error| failed(&error))?;
        Ok(Self { windows })
    }

    fn __len__(&self) -> usize {
        self.windows.len()
    }

    /// What is asked about a window, and the right answer.
    fn row(&self, number: usize) -> PyResult<(String, String)> {
        self.check(number)?;
        let row = self.windows.row(number);
        let answers = row.objective.answers();
        Ok((
            row.prompt.clone(),
            answers.get(row.answer).map_or_else(String::new, |answer| (*answer).to_owned()),
        ))
    }

    /// The frames of a window.
    fn images<'py>(&self, py: Python<'py>, number: usize) -> PyResult<WindowImages<'py>> {
        self.check(number)?;
        let views = compute(py, || self.windows.frames(number))?.map_err(|error| failed(&error))?;
        views
            .into_iter()
            .map(|frames| {
                let (height, width) = frames.first().map_or((0, 0), |frame| (frame.height, frame.width));
                let (count, each) = (frames.len(), height * width * 3);
                let mut pixels = Vec::with_capacity(count * each);
                for frame in &frames {
                    if (frame.height, frame.width) != (height, width) {
                        return Err(input(
                            "the frames of a window are of different sizes",
                            "record it again",
                        ));
                    }
                    pixels.extend_from_slice(&frame.rgb);
                }
                PyArray1::from_vec(py, pixels).reshape(vec![count, height, width, 3])
            })
            .collect()
    }
}

impl LabelledWindows {
    fn check(&self, number: usize) -> PyResult<()> {
        match number < self.windows.len() {
            true => Ok(()),
            false => Err(PyIndexError::new_err(format!(
                "there is no window {number}: there are {}",
                self.windows.len()
            ))),
        }
    }
}
