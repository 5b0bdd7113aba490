//! Recordings of any format: opened without reading, read one at a time, images as views of the file.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::ndarray::ArrayView3;
use numpy::{IntoPyArray, PyArray1, PyArray3, PyArrayDyn, PyArrayMethods};
use plaudit_core::{End, FrameShape};
use plaudit_data::recording::{self as data, DatasetFormat, FrameImage, Rules};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{failed, failure, guarded, input};
use crate::process::compute;

/// Images of one array at most, decoded or copied: beyond that they are read one at a time.
const LARGEST: usize = 8 << 30;

/// What lies at a path: recordings, none of which is read yet.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct Recordings {
    data: Arc<data::Recordings>,
    options: Options,
}

/// How recordings are read, where files leave it open.
#[derive(Clone, Default)]
struct Options {
    format: Option<String>,
    labels: Option<PathBuf>,
    success_reward: Option<f64>,
    success_last_frames: Option<usize>,
}

/// The rules that are asked for.
pub(crate) fn rules(
    format: Option<&str>,
    labels: Option<PathBuf>,
    success_reward: Option<f64>,
    success_last_frames: Option<usize>,
) -> PyResult<Rules> {
    let known = || DatasetFormat::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ");
    let named = |name: &str| {
        let found = DatasetFormat::ALL.iter().copied().find(|format| format.name() == name);
        found.ok_or_else(|| input(format!("there is no format `{name}`"), format!("one of {}", known())))
    };
    let format = format.map(named).transpose()?;
    Ok(Rules { format, labels, success_reward, success_last_frames, ..Rules::default() })
}

#[pymethods]
impl Recordings {
    #[new]
    #[pyo3(signature = (
        path, *, format = None, labels = None, success_reward = None, success_last_frames = None
    ))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        labels: Option<PathBuf>,
        success_reward: Option<f64>,
        success_last_frames: Option<usize>,
    ) -> PyResult<Self> {
        let rules = rules(format.as_deref(), labels.clone(), success_reward, success_last_frames)?;
        let data = compute(py, || data::Recordings::open(&path, &rules))?.map_err(|error| failed(&error))?;
        let options = Options { format, labels, success_reward, success_last_frames };
        Ok(Self { data: Arc::new(data), options })
    }

    /// How many files (or items of one) there are: what is read in one go.
    fn __len__(&self) -> usize {
        self.data.len()
    }

    /// The recording of an item, by its number.
    fn __getitem__(&self, py: Python<'_>, number: isize) -> PyResult<Recording> {
        let mut found = self.read(py, number)?;
        match (found.pop(), found.len()) {
            (Some(only), 0) => Ok(only),
            (last, others) => {
                let message =
                    format!("item {number} holds {} recordings", others + usize::from(last.is_some()));
                let hint =
                    "read(number) gives them as a list, and a loop over the whole gives one after another";
                Err(failure(message, Some(hint.into())))
            }
        }
    }

    /// Every recording, each file read when the loop reaches it.
    fn __iter__(&self) -> RecordingsIterator {
        RecordingsIterator { data: self.data.clone(), next: Mutex::new((0, VecDeque::new())) }
    }

    /// The recordings of an item, by its number.
    fn read(&self, py: Python<'_>, number: isize) -> PyResult<Vec<Recording>> {
        let count = self.data.len();
        let at = if number < 0 { number.checked_add_unsigned(count) } else { Some(number) };
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count);
        let Some(at) = at else {
            return Err(PyIndexError::new_err(format!("there is no item {number}: there are {count}")));
        };
        let found = compute(py, || self.data.read(at))?.map_err(|error| failed(&error))?;
        Ok(found.into_iter().map(|recording| Recording { data: Arc::new(recording) }).collect())
    }

    /// The files, in order.
    #[getter]
    fn files(&self) -> Vec<PathBuf> {
        (0..self.data.len()).filter_map(|number| self.data.file(number).map(PathBuf::from)).collect()
    }

    /// What it is, in one word.
    #[getter]
    fn format(&self) -> &'static str {
        self.data.format.name()
    }

    /// Where it lies.
    #[getter]
    fn path(&self) -> PathBuf {
        self.data.path.clone()
    }

    /// A contact sheet of some of them, for a notebook.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("plaudit.notebook")?.call_method1("recordings", (slf,))
    }

    /// Another process opens it again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((PathBuf,), Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("format", self.options.format.clone())?;
        named.set_item("labels", self.options.labels.clone())?;
        named.set_item("success_reward", self.options.success_reward)?;
        named.set_item("success_last_frames", self.options.success_last_frames)?;
        Ok(((self.data.path.clone(),), named))
    }

    fn __repr__(&self) -> String {
        format!(
            "Recordings({}: {}, {} items)",
            self.data.path.display(),
            self.data.format.describe(),
            self.data.len()
        )
    }
}

/// A loop over recordings.
#[pyclass(frozen)]
struct RecordingsIterator {
    data: Arc<data::Recordings>,
    /// The item to read next, and what was read and not given yet.
    next: Mutex<(usize, VecDeque<Recording>)>,
}

#[pymethods]
impl RecordingsIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Recording>> {
        compute(py, || {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let (item, read) = &mut *next;
            while read.is_empty() && *item < self.data.len() {
                let found = self.data.read(*item);
                *item += 1; // the loop may go on after a file that cannot be read
                let found = found.map_err(|error| failed(&error))?;
                read.extend(found.into_iter().map(|recording| Recording { data: Arc::new(recording) }));
            }
            Ok(read.pop_front())
        })?
    }
}

/// One episode, window or set of images.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct Recording {
    data: Arc<data::Recording>,
}

#[pymethods]
impl Recording {
    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        self.data.name()
    }

    /// How many observations there are.
    fn __len__(&self) -> usize {
        self.data.len()
    }

    /// The cameras of the first observation.
    #[getter]
    fn cameras(&self) -> Vec<String> {
        self.data.cameras()
    }

    /// The image of a camera at an observation: a read-only view of the file wherever its bytes lie as
    /// height, width, channel.
    #[pyo3(signature = (at, camera = None))]
    fn frame<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        camera: Option<&str>,
    ) -> PyResult<Bound<'py, PyArray3<u8>>> {
        guarded(|| {
            let camera = self.camera(camera)?;
            view_of(py, self.image(at, &camera)?)
        })
    }

    /// All images of a camera, `[N, H, W, C]`. A copy.
    #[pyo3(signature = (camera = None))]
    fn frames<'py>(&self, py: Python<'py>, camera: Option<&str>) -> PyResult<Bound<'py, PyArrayDyn<u8>>> {
        let camera = self.camera(camera)?;
        let (pixels, shape) = compute(py, || self.all_pixels(&camera))??;
        let sides = [self.data.len(), shape.height, shape.width, shape.channels];
        PyArray1::from_vec(py, pixels).reshape(sides.to_vec())
    }

    /// The state vectors, `[N, width]`; nothing where none were recorded.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArrayDyn<f32>>>> {
        let rows: Option<Vec<Vec<f32>>> = (0..self.data.len()).map(|at| self.data.state(at)).collect();
        rows.filter(|rows| rows.iter().any(|row| !row.is_empty()))
            .map(|rows| table(py, &rows, "states"))
            .transpose()
    }

    /// What was done after each observation, `[N, width]`.
    #[getter]
    fn actions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        table(py, self.data.actions(), "actions")
    }

    /// The environment's rewards. NaN where something else than a number was recorded.
    #[getter]
    fn rewards<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.data.rewards())
    }

    /// Whether the task ended, in the order of rewards.
    #[getter]
    fn terminated<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        self.ended(py, End::Terminated)
    }

    /// Whether the clock ran out, in the order of rewards.
    #[getter]
    fn truncated<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        self.ended(py, End::Truncated)
    }

    /// Success at each step, in the order of rewards; None where it is unknown.
    #[getter]
    fn labels(&self) -> Vec<Option<bool>> {
        self.data.labels().to_vec()
    }

    /// Other values of the environment's info, by name, in the order of rewards; NaN where one is missing.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let steps = self.data.facts();
        let named = PyDict::new(py);
        for (name, _) in steps.iter().flatten() {
            if named.contains(&**name)? {
                continue;
            }
            let value = |step: &Vec<(Arc<str>, f32)>| {
                step.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
            };
            let column: Vec<f32> = steps.iter().map(|step| value(step).unwrap_or(f32::NAN)).collect();
            named.set_item(&**name, PyArray1::from_vec(py, column))?;
        }
        Ok(named)
    }

    /// Whether the task was solved; None where nobody says so.
    #[getter]
    fn success(&self) -> Option<bool> {
        self.data.success()
    }

    /// The task in words.
    #[getter]
    fn task(&self) -> Option<&str> {
        self.data.task()
    }

    /// Whether rewards, ends and labels are of what followed an action; otherwise the first is the reset's.
    #[getter]
    fn follows_actions(&self) -> bool {
        self.data.follows_actions()
    }

    /// Some of its frames, for a notebook.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("plaudit.notebook")?.call_method1("recording", (slf,))
    }

    fn __repr__(&self) -> String {
        let success = match self.data.success() {
            Some(true) => "success",
            Some(false) => "failure",
            None => "success unknown",
        };
        format!("Recording({}: {} observations, {success})", self.data.name(), self.data.len())
    }
}

impl Recording {
    fn camera(&self, camera: Option<&str>) -> PyResult<String> {
        let cameras = self.data.cameras();
        match (camera, cameras.first()) {
            (Some(camera), _) => Ok(camera.into()),
            (None, Some(first)) => Ok(first.clone()),
            (None, None) => Err(failure(format!("{} has no images", self.data.name()), None)),
        }
    }

    fn image(&self, at: usize, camera: &str) -> PyResult<FrameImage> {
        if at >= self.data.len() {
            let message =
                format!("there is no observation {at}: {} has {}", self.data.name(), self.data.len());
            return Err(PyIndexError::new_err(message));
        }
        let found = self.data.frame(at, camera).map_err(|error| failed(&error))?;
        found.ok_or_else(|| {
            let message = format!("{}: observation {at} has no camera `{camera}`", self.data.name());
            failure(message, Some(format!("it has {}", self.data.cameras().join(", "))))
        })
    }

    fn all_pixels(&self, camera: &str) -> PyResult<(Vec<u8>, FrameShape)> {
        let shape = match self.data.is_empty() {
            true => FrameShape::rgb(0, 0),
            false => self.image(0, camera)?.shape(),
        };
        let bytes = shape.bytes().checked_mul(self.data.len()).filter(|bytes| *bytes <= LARGEST);
        let Some(bytes) = bytes else {
            let message =
                format!("{}: {} images are more than {LARGEST} bytes", self.data.name(), self.data.len());
            return Err(failure(message, Some("read them one at a time with frame()".into())));
        };
        let mut pixels = Vec::with_capacity(bytes);
        for at in 0..self.data.len() {
            let image = self.image(at, camera)?;
            if image.shape() != shape {
                let message =
                    format!("{}: camera `{camera}` changes its size at observation {at}", self.data.name());
                return Err(failure(message, Some("read them one at a time with frame()".into())));
            }
            pixels.extend_from_slice(&image.pixels().map_err(|error| failed(&error))?);
        }
        Ok((pixels, shape))
    }

    fn ended<'py>(&self, py: Python<'py>, end: End) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_vec(py, self.data.ends().iter().map(|of| *of == end).collect())
    }
}

/// Rows of one length as an array.
fn table<'py>(py: Python<'py>, rows: &[Vec<f32>], what: &str) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let width = rows.first().map_or(0, Vec::len);
    if let Some(at) = rows.iter().position(|row| row.len() != width) {
        let message =
            format!("{what} are of different lengths: {width} numbers, and {} at step {at}", rows[at].len());
        return Err(failure(message, None));
    }
    PyArray1::from_vec(py, rows.concat()).reshape(vec![rows.len(), width])
}

/// Keeps an image while numpy looks at it.
#[pyclass(frozen)]
struct ImageOwner {
    image: FrameImage,
}

/// An image as a read-only array: where it lies, if its bytes lie as height, width and channel; else a copy.
pub(crate) fn view_of(py: Python<'_>, image: FrameImage) -> PyResult<Bound<'_, PyArray3<u8>>> {
    let FrameShape { height, width, channels } = image.shape();
    let owner = Bound::new(py, ImageOwner { image })?;
    let pixels = owner.get().image.pixels().map_err(|error| failed(&error))?;
    let array = match pixels {
        std::borrow::Cow::Owned(pixels) => {
            numpy::ndarray::Array3::from_shape_vec((height, width, channels), pixels)
                .map_err(|error| failed(&error))?
                .into_pyarray(py)
        }
        std::borrow::Cow::Borrowed(pixels) => {
            let view =
                ArrayView3::from_shape((height, width, channels), pixels).map_err(|error| failed(&error))?;
            borrowed(&view, &owner)
        }
    };
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array)
}

#[allow(unsafe_code)]
fn borrowed<'py>(pixels: &ArrayView3<'_, u8>, owner: &Bound<'py, ImageOwner>) -> Bound<'py, PyArray3<u8>> {
    // SAFETY: the pixels belong to the image in `owner`, which is frozen and becomes the base of the array,
    // so they stay where they are as long as the array lives. The caller makes the array read-only before
    // anybody sees it.
    unsafe { PyArray3::borrow_from_array(pixels, owner.clone().into_any()) }
}
