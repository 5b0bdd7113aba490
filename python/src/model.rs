//! A reward model: an image classifier, a vision-language judge, or either on a server.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyArray1;
use plaudit::device::{self, DeviceChoice, GpuWork};
use plaudit::interpreter;
use plaudit_core::{FrameShape, Frames, Obs, Score};
use plaudit_nn::classifier::{Device, GpuView, Precision, Scorer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use plaudit_reward::card::ModelCard;
use plaudit_reward::custom::{CustomLocation, CustomModel, ImageScorer};
use plaudit_reward::endpoint::ServerModel;
use plaudit_reward::open::{ModelLocation, OpenError, OpenOptions, RewardModel as Opened};
use plaudit_reward::{CameraView, FrameRewardModel, FrameStack};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dlpack::Taker;
use crate::error::{failed, failure, guarded, input};
use crate::images::Images;
use crate::judge::{self, Judge};
use crate::process::{compute, refuse_forked};

/// What a camera without a name is called.
pub(crate) const MAIN: &str = "main_images";
/// Images that are scored between two looks for Ctrl-C; the network takes as many at a time.
const CHUNK: usize = 256;

/// A model that is open, shared by whoever scores with it.
pub(crate) struct OpenModel {
    pub(crate) kind: Kind,
    /// The views it needs, by name; none of a judge, which takes what it is shown.
    pub(crate) image_keys: Vec<String>,
    pub(crate) threshold: Option<f32>,
    device: String,
    process: u32,
}

/// The kinds of model.
pub(crate) enum Kind {
    /// An image classifier in this process.
    Classifier { scorer: Scorer, card: Box<ModelCard> },
    /// A model of one's own making that scores images.
    Custom(Box<CustomModel>),
    /// An image classifier on a server.
    Frames(Box<dyn FrameRewardModel>),
    /// A vision-language model, here or on a server.
    Judge(Judge),
}

impl OpenModel {
    fn open(path: &Path, lora: Option<&Path>, device: DeviceChoice) -> Result<Self, PyErr> {
        let location = ModelLocation::find(path, lora).map_err(|error| failed(&OpenError::from(error)))?;
        let device = match location {
            ModelLocation::Classifier(_) => resolved(device, GpuWork::Classifier)?,
            ModelLocation::VisionLanguage(_) => resolved(device, GpuWork::VisionLanguage)?,
            ModelLocation::Custom(_) | ModelLocation::Server(_) => Device::Cpu,
        };
        let precision = if device == Device::Cpu { Precision::Fp32 } else { Precision::Bf16 };
        let python = interpreter::default();
        let options = OpenOptions { device, precision, python, ..OpenOptions::default() };
        let opened = Opened::open(&location, options).map_err(|error| failed(&error))?;
        let named = match (device, &opened) {
            (_, Opened::Server(_)) => "server".into(),
            (_, Opened::Custom(model)) => match &model.location {
                CustomLocation::Onnx(_) => "cpu".into(),
                CustomLocation::Python(_) => "python".into(),
            },
            (Device::Cpu, _) => "cpu".into(),
            (Device::Cuda(index), _) => format!("cuda:{index}"),
        };
        Ok(Self { device: named, process: std::process::id(), ..Self::of(opened)? })
    }

    fn of(opened: Opened) -> Result<Self, PyErr> {
        let (kind, image_keys, threshold) = match opened {
            Opened::Classifier(model) => {
                let (scorer, card) = (model.scorer, model.card);
                let threshold = card.threshold.map(|threshold| threshold as f32);
                let keys = card.settings.image_keys.clone();
                (Kind::Classifier { scorer, card: Box::new(card) }, keys, threshold)
            }
            Opened::Custom(model) => {
                let threshold = model.card.threshold.map(|threshold| threshold as f32);
                let keys = model.card.views();
                (Kind::Custom(model), keys, threshold)
            }
            Opened::VisionLanguage(model) => {
                let judge = Judge::local(model.model);
                (Kind::Judge(judge), Vec::new(), None)
            }
            Opened::Server(ServerModel::Chat(model)) => {
                (Kind::Judge(Judge::remote(*model)), Vec::new(), None)
            }
            Opened::Server(ServerModel::Frames(model)) => {
                let keys = model.image_keys.clone();
                let threshold = model.threshold;
                // Each view is a camera of its own here: whoever asks brings them all.
                let view = |key: &String| CameraView { camera: key.as_str().into(), back: 0 };
                let views = keys.iter().map(view).collect();
                (Kind::Frames(Box::new(model.reward_model(views))), keys, threshold)
            }
        };
        Ok(Self { kind, image_keys, threshold, device: String::new(), process: 0 })
    }

    /// What can be used in this process.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        match self.device.as_str() {
            "cpu" => Ok(()),
            _ => refuse_forked(self.process, "the model"),
        }
    }

    /// The logit of each image.
    fn logits(&self, views: Vec<ViewPixels<'_>>) -> PyResult<Vec<f32>> {
        let scorer: &dyn ImageScorer = match &self.kind {
            Kind::Classifier { scorer, .. } => scorer,
            Kind::Custom(model) => &*model.scorer,
            Kind::Frames(_) | Kind::Judge(_) => {
                let hint = "score() gives what it says";
                return Err(input("only a model of images in this process has logits", hint));
            }
        };
        let batch = ImageBatch::new(views).map_err(|error| refused(&error))?;
        scorer.logits(&batch).map_err(|error| match &error {
            plaudit_nn::classifier::ClassifierError::Image(image) => refused(image),
            _ => failed(&error),
        })
    }

    /// A number for each image that lies on the GPU of a classifier, and whether there was one and no batch; nothing if images go by way
    /// of the CPU.
    fn numbers_on_gpu(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        layout: Option<&str>,
        logits: bool,
    ) -> PyResult<Option<(Vec<f32>, bool)>> {
        let Kind::Classifier { scorer, card } = &self.kind else { return Ok(None) };
        let Some(stream) = scorer.gpu_stream() else { return Ok(None) };
        let [_, height, width] = scorer.settings().image_size;
        let taker = Taker { stream, image_keys: &scorer.settings().image_keys, size: [height, width] };
        let Some(found) = taker.take(images, layout)? else { return Ok(None) };
        let mut numbers = Vec::with_capacity(found.count);
        for start in (0..found.count).step_by(CHUNK) {
            let some = CHUNK.min(found.count - start);
            let views: Vec<GpuView> = found.views.iter().map(|view| view.from_image(start)).collect();
            // SAFETY: the tensors are held until the end of this function, on the scorer's GPU, of the size that it takes; whoever gave
            // them was told its stream.
            #[allow(unsafe_code)]
            let part = compute(py, || unsafe { scorer.logits_on_gpu(&views, some) })?;
            let Some(part) = part.map_err(|error| failed(&error))? else { return Ok(None) };
            numbers.extend(part);
        }
        if !logits {
            numbers = at_temperature(numbers, card.temperature())?;
        }
        Ok(Some((numbers, found.is_one)))
    }

    /// The score of each image.
    fn scores(&self, views: Vec<ViewPixels<'_>>, task: Option<&str>) -> PyResult<Vec<f32>> {
        let temperature = match &self.kind {
            Kind::Classifier { card, .. } => Some(card.temperature()),
            Kind::Custom(model) => Some(model.card.temperature()),
            Kind::Frames(_) | Kind::Judge(_) => None,
        };
        match &self.kind {
            Kind::Classifier { .. } | Kind::Custom(_) => {
                let temperature = temperature.unwrap_or(1.0);
                at_temperature(self.logits(views)?, temperature)
            }
            Kind::Frames(model) => of_frames(&**model, &observations(&views, task)?),
            Kind::Judge(judge) => {
                let cameras = views.iter().map(|view| view.key.into()).collect();
                of_frames(&judge.of_frames(cameras, task), &observations(&views, task)?)
            }
        }
    }
}

/// Scores of logits.
fn at_temperature(logits: Vec<f32>, temperature: f64) -> PyResult<Vec<f32>> {
    let score = |logit: f32| Score::at_temperature(logit, temperature).map(Score::get);
    let broken = || failure("the model gives a score that is no number: its weights are broken", None);
    logits.into_iter().map(|logit| score(logit).ok_or_else(broken)).collect()
}

/// What of the images is wrong, and what a model takes.
pub(crate) fn refused(error: &dyn std::error::Error) -> PyErr {
    input(error.to_string(), "model.image_keys names the cameras that the model takes; model.card says more")
}

fn of_frames(model: &dyn FrameRewardModel, obs: &Obs) -> PyResult<Vec<f32>> {
    let frames: Vec<_> = (0..obs.batch()).map(|row| FrameStack::single(obs.row(row))).collect();
    let scores = model.scores(&frames).map_err(|error| failed(&error))?;
    Ok(scores.into_iter().map(Score::get).collect())
}

/// Images as observations of an environment: bytes of height, width and channel.
pub(crate) fn observations(views: &[ViewPixels<'_>], task: Option<&str>) -> PyResult<Obs> {
    let count = views.first().map_or(0, |view| view.count);
    let wrong =
        |error: plaudit_core::ObsError| input(error.to_string(), "pass as many images of each camera");
    let mut obs = Obs::from_state(count, Vec::new()).map_err(wrong)?;
    for view in views {
        let ViewPixels { key, pixels, layout, height, width, channels, .. } = *view;
        let Pixels::U8(bytes) = pixels else {
            let message = format!("camera `{key}`: this model takes images of uint8");
            return Err(input(message, "multiply by 255 and pass them as uint8"));
        };
        let shape = FrameShape { height, width, channels };
        let bytes = match layout {
            ImageLayout::Hwc => bytes.to_vec(),
            ImageLayout::Chw => interleaved(bytes, shape),
        };
        obs = obs.with_camera(key, Frames::new(shape, bytes).map_err(wrong)?).map_err(wrong)?;
    }
    match task {
        Some(task) => obs.with_tasks(vec![task.into(); count]).map_err(wrong),
        None => Ok(obs),
    }
}

/// Planes of colours as pixels.
fn interleaved(bytes: &[u8], shape: FrameShape) -> Vec<u8> {
    let (pixels, channels) = (shape.height * shape.width, shape.channels);
    let mut out = vec![0; bytes.len()];
    for (image, into) in bytes.chunks_exact(shape.bytes()).zip(out.chunks_exact_mut(shape.bytes())) {
        for (at, byte) in image.iter().enumerate() {
            into[at % pixels * channels + at / pixels] = *byte;
        }
    }
    out
}

/// Where a choice computes. Unlike a command, a library says nothing about a GPU that it found.
fn resolved(choice: DeviceChoice, work: GpuWork) -> PyResult<Device> {
    let found = match choice {
        DeviceChoice::Auto => Ok(DeviceChoice::Cuda(0).resolve(work).unwrap_or(Device::Cpu)),
        choice => choice.resolve(work),
    };
    found.map_err(|error| failed(&error))
}

/// A reward model: what is at a path or an address, opened.
#[pyclass(frozen, module = "plaudit", weakref)]
pub(crate) struct RewardModel {
    path: PathBuf,
    lora: Option<PathBuf>,
    choice: String,
    open: Mutex<Option<Arc<OpenModel>>>,
}

#[pymethods]
impl RewardModel {
    #[new]
    #[pyo3(signature = (path, device = "auto", *, lora = None))]
    fn new(py: Python<'_>, path: PathBuf, device: &str, lora: Option<PathBuf>) -> PyResult<Self> {
        let choice = DeviceChoice::from_str(device).map_err(|error| input(error, "leave it out for auto"))?;
        let open = compute(py, || {
            device::set_places();
            OpenModel::open(&path, lora.as_deref(), choice)
        })??;
        Ok(Self { path, lora, choice: device.into(), open: Mutex::new(Some(Arc::new(open))) })
    }

    /// How likely each image shows success, from 0 to 1.
    #[pyo3(signature = (images, *, task = None, layout = None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        task: Option<&str>,
        layout: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (scores, is_one) = self.numbers(py, images, task, layout, false)?;
        given(py, scores, is_one)
    }

    /// The logit of each image, before the temperature.
    #[pyo3(signature = (images, *, layout = None))]
    fn logits<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        layout: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (logits, is_one) = self.numbers(py, images, None, layout, true)?;
        given(py, logits, is_one)
    }

    /// Whether each image shows success: a score above the threshold.
    #[pyo3(signature = (images, *, threshold = None, task = None, layout = None))]
    fn success<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        threshold: Option<f32>,
        task: Option<&str>,
        layout: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(threshold) = threshold.or(self.open()?.threshold) else {
            let hint =
                "pass threshold=0.5, or audit the model: `plaudit reward audit` finds one and stores it";
            return Err(failure("the model has no threshold", Some(hint.into())));
        };
        let (scores, is_one) = self.numbers(py, images, task, layout, false)?;
        if is_one {
            let solved = scores.first().is_some_and(|score| *score > threshold);
            return Ok(solved.into_pyobject(py)?.to_owned().into_any());
        }
        let solved = scores.into_iter().map(|score| score > threshold).collect();
        Ok(PyArray1::from_vec(py, solved).into_any())
    }

    /// What each window of frames is worth: the mean score of its frames, or what a judge says of it.
    #[pyo3(signature = (windows, *, task = None, readout = "trend", layout = None))]
    fn score_windows<'py>(
        &self,
        py: Python<'py>,
        windows: &Bound<'py, PyAny>,
        task: Option<&str>,
        readout: &str,
        layout: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.open()?;
        guarded(|| {
            let images = Images::windows(windows, model.camera(), layout)?;
            let (count, frames) = images.windows_and_frames();
            if frames == 0 {
                return Err(input(
                    "a window without frames shows nothing",
                    "pass windows of one frame or more",
                ));
            }
            let views = images.pixels()?;
            let scores = match &model.kind {
                Kind::Judge(judge) => {
                    let readout = judge::Readout::from_str(readout)?;
                    let per_call = |at: usize| {
                        let one: Vec<_> = views.iter().map(|view| cut(view, at * frames, frames)).collect();
                        compute(py, || judge.of_window(&one, task, readout))?
                    };
                    (0..count).map(per_call).collect::<PyResult<Vec<f32>>>()?
                }
                _ => {
                    let each = chunked(py, &views, |views| model.scores(views, task))?;
                    each.chunks_exact(frames)
                        .map(|scores| scores.iter().sum::<f32>() / frames as f32)
                        .collect()
                }
            };
            given(py, scores, images.is_one)
        })
    }

    /// What the model says about itself.
    #[getter]
    fn card<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = self.open()?;
        let card = PyDict::new(py);
        match &model.kind {
            Kind::Classifier { card: own, .. } => {
                let loads = py.import("json")?.getattr("loads")?;
                for (key, value) in own.header() {
                    // Words that are no JSON stand as they are.
                    let value = loads
                        .call1((&value,))
                        .or_else(|_| Ok::<_, PyErr>(value.into_pyobject(py)?.into_any()))?;
                    card.set_item(key, value)?;
                }
            }
            Kind::Custom(model) => {
                let text = serde_json::to_string(&model.card).map_err(|error| failed(&error))?;
                let own = py.import("json")?.getattr("loads")?.call1((text,))?;
                card.update(own.cast::<PyDict>()?.as_mapping())?;
                card.set_item("image_keys", model.card.views())?;
                card.set_item("format", model.location.kind())?;
            }
            Kind::Frames(_) => card.set_item("image_keys", model.image_keys.clone())?,
            Kind::Judge(judge) => judge.card(&card)?,
        }
        Ok(card)
    }

    /// The score above which an image shows success, if the model has one.
    #[getter]
    fn threshold(&self) -> PyResult<Option<f32>> {
        Ok(self.open()?.threshold)
    }

    /// The views that the model takes, by name. Empty for a judge, which takes any.
    #[getter]
    fn image_keys(&self) -> PyResult<Vec<String>> {
        Ok(self.open()?.image_keys.clone())
    }

    /// `classifier` or `judge`.
    #[getter]
    fn kind(&self) -> PyResult<&'static str> {
        Ok(match self.open()?.kind {
            Kind::Classifier { .. } | Kind::Custom(_) | Kind::Frames(_) => "classifier",
            Kind::Judge(_) => "judge",
        })
    }

    /// Where it computes: `cpu`, `cuda:0`, `python` (a process of it) or `server`.
    #[getter]
    fn device(&self) -> PyResult<String> {
        Ok(self.open()?.device.clone())
    }

    /// Where it was opened from.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Gives its memory back. Who still scores with it finishes.
    fn close(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _error: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {
        self.close();
    }

    /// Another process opens it again.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (PathBuf, String))> {
        let model = slf.get();
        if model.lora.is_some() {
            return Err(PyValueError::new_err(
                "a judge with adapters is opened in each process: pass its paths",
            ));
        }
        Ok((slf.get_type().into_any(), (model.path.clone(), model.choice.clone())))
    }

    fn __repr__(&self) -> String {
        let path = self.path.display();
        match self.open() {
            Ok(model) => format!("RewardModel({path}, device={})", model.device),
            Err(_) => format!("RewardModel({path}, closed)"),
        }
    }
}

impl OpenModel {
    /// What an image without a name is of.
    pub(crate) fn camera(&self) -> &str {
        self.image_keys.first().map_or(MAIN, String::as_str)
    }
}

impl RewardModel {
    /// The model, unless it was closed.
    pub(crate) fn open(&self) -> PyResult<Arc<OpenModel>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let model = open.ok_or_else(|| failure("the model was closed", Some("open it again".into())))?;
        model.check_process()?;
        Ok(model)
    }

    /// A number for each image, and whether there was one image and no batch.
    fn numbers(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        task: Option<&str>,
        layout: Option<&str>,
        logits: bool,
    ) -> PyResult<(Vec<f32>, bool)> {
        let model = self.open()?;
        guarded(|| {
            if let Some(found) = model.numbers_on_gpu(py, images, layout, logits)? {
                return Ok(found);
            }
            let images = Images::of(images, model.camera(), layout)?;
            let views = images.pixels()?;
            let numbers = match images.count() {
                0 => Vec::new(),
                _ if logits => chunked(py, &views, |views| model.logits(views))?,
                _ => chunked(py, &views, |views| model.scores(views, task))?,
            };
            Ok((numbers, images.is_one))
        })
    }
}

/// Work on many images, some at a time: Ctrl-C is answered in between.
fn chunked<'a>(
    py: Python<'_>,
    views: &[ViewPixels<'a>],
    work: impl Fn(Vec<ViewPixels<'a>>) -> PyResult<Vec<f32>> + Sync,
) -> PyResult<Vec<f32>> {
    let count = views.first().map_or(0, |view| view.count);
    let mut numbers = Vec::with_capacity(count);
    for start in (0..count).step_by(CHUNK) {
        let some = views.iter().map(|view| cut(view, start, CHUNK.min(count - start))).collect();
        numbers.extend(compute(py, || work(some))??);
    }
    Ok(numbers)
}

/// Some of a view's images.
fn cut<'a>(view: &ViewPixels<'a>, start: usize, count: usize) -> ViewPixels<'a> {
    let one = view.height * view.width * view.channels;
    let range = start * one..(start + count) * one;
    let pixels = match view.pixels {
        Pixels::U8(bytes) => Pixels::U8(&bytes[range]),
        Pixels::F32(floats) => Pixels::F32(&floats[range]),
    };
    ViewPixels { pixels, count, ..*view }
}

/// A float of one image, an array of a batch.
fn given(py: Python<'_>, numbers: Vec<f32>, is_one: bool) -> PyResult<Bound<'_, PyAny>> {
    match (is_one, numbers.first()) {
        (true, Some(number)) => Ok(number.into_pyobject(py)?.into_any()),
        _ => Ok(PyArray1::from_vec(py, numbers).into_any()),
    }
}
