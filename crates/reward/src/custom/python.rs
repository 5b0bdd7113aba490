//! A reward function in Python, run in the user's own interpreter in a process of its own.
//!
//! The function takes the images of some frames as bytes `[N, height, width, 3]` (by the names of cameras, where there are several)
//! and returns N numbers. It is called from one thread at a time. An exception in it is an error of that call; a process that
//! crashes or hangs is ended, and the next call begins with a fresh one.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::images::{ImageBatch, ImageError, ImageLayout, Pixels, ViewPixels};
use plaudit_pyprocess::{Connection, Failure, LayoutBuilder, Opened, Region, SharedMemory, printed};
use serde_json::{Value, json};

use super::error::CustomModelError;
use super::{CustomCard, CustomLocation, ImageScorer, OutputMeaning, PythonFunction};

/// What Python runs, after what every program of a process starts with.
const CHILD: &str = include_str!("score.py");
/// Images of one call.
const MOST_IMAGES: usize = 256;
/// Bytes of the images of one call; memory is taken as far as it is written.
const IMAGE_BYTES: usize = 256 << 20;
/// Seconds that importing and one call may take, unless the card says otherwise.
const START_SECS: u64 = 300;
const CALL_SECS: f64 = 300.0;
/// How long to look for an answer before going to sleep.
const SPIN: Duration = Duration::from_micros(100);

/// A function in a Python process.
pub struct PythonScorer {
    function: PythonFunction,
    python: PathBuf,
    image_keys: Vec<String>,
    meaning: OutputMeaning,
    limit: Duration,
    running: Mutex<Option<Running>>,
}

struct Running {
    connection: Connection,
    memory: SharedMemory,
    images: Region,
    scores: Region,
}

impl PythonScorer {
    /// Starts `python` and loads the function.
    ///
    /// # Errors
    /// When there is no such interpreter, or no such function in it.
    pub fn start(
        function: PythonFunction,
        card: &CustomCard,
        python: &Path,
    ) -> Result<Self, CustomModelError> {
        if function.name.is_empty() {
            return Err(CustomModelError::NoFunction { file: function.file });
        }
        let mut scorer = Self {
            function,
            python: python.into(),
            image_keys: card.views(),
            meaning: card.output.unwrap_or(OutputMeaning::Probability),
            limit: Duration::from_secs_f64(card.timeout_secs.unwrap_or(CALL_SECS)),
            running: Mutex::new(None),
        };
        scorer.running = Mutex::new(Some(scorer.run()?));
        Ok(scorer)
    }

    /// The number of the process, for those who watch it from outside.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|running| running.connection.id())
    }

    fn run(&self) -> Result<Running, CustomModelError> {
        let limit = Duration::from_secs(START_SECS);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = if cores > 1 { SPIN } else { Duration::ZERO };
        let settings = json!({ "file": self.function.file, "function": self.function.name });
        let failed = |failure| self.failed(failure, "its import", START_SECS as f64);
        let program = [plaudit_pyprocess::LINK, CHILD].concat();
        let opened = Connection::open(&self.python, &program, &settings, limit, spin).map_err(failed)?;
        let Opened { mut connection, memory, .. } = opened;
        let mut layout = LayoutBuilder::default();
        let scores = layout.add("scores", "f4", &[MOST_IMAGES]);
        let images = layout.add("images", "u1", &[IMAGE_BYTES]);
        let (bytes, for_python) = layout.finish();
        let memory = connection.share(&memory, bytes, &for_python, limit).map_err(failed)?;
        connection.limit_writes(self.limit).map_err(failed)?;
        Ok(Running { connection, memory, images, scores })
    }

    /// The numbers of the images of some views, which fit into one call.
    fn call(&self, views: &[View<'_>]) -> Result<Vec<f32>, CustomModelError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(self.run()?);
        }
        let Some(process) = running.as_mut() else { return Ok(Vec::new()) };
        match process.score(views, self.limit) {
            Ok(numbers) => Ok(numbers),
            Err(failure) => {
                let lives = matches!(failure, Failure::Reported(_));
                let error = self.failed(failure, "a call", self.limit.as_secs_f64());
                if !lives {
                    *running = None;
                }
                Err(error)
            }
        }
    }

    fn failed(&self, failure: Failure, what: &str, secs: f64) -> CustomModelError {
        let model = CustomLocation::Python(self.function.clone()).to_string();
        match failure {
            Failure::Interpreter(source) => {
                CustomModelError::Interpreter { python: self.python.clone(), source }
            }
            Failure::Reported(error) => match error.kind.as_str() {
                "no_module" => {
                    CustomModelError::NoModule { module: error.module, executable: error.executable }
                }
                "refused" => CustomModelError::Refused { model, message: error.error },
                _ => CustomModelError::Raised { model, error: error.error, traceback: error.traceback },
            },
            Failure::Died { how, output } => {
                CustomModelError::Process { model, how, output: printed(&output) }
            }
            Failure::TimedOut { output } => {
                let how = format!("gave no answer to {what} within {secs} s, and was killed");
                CustomModelError::Process { model, how, output: printed(&output) }
            }
            Failure::InvalidMessage { message, output } => {
                let how = format!("sent an invalid message ({message}) and was killed");
                CustomModelError::Process { model, how, output: printed(&output) }
            }
            Failure::Io { what, source } => {
                CustomModelError::Refused { model, message: format!("{what}: {source}") }
            }
        }
    }

    /// The views that the function takes, in its order, as bytes.
    fn views<'a>(&'a self, images: &ImageBatch<'a>) -> Result<Vec<View<'a>>, CustomModelError> {
        let found = images.views_for(&self.image_keys)?;
        let view = |(key, view): (&'a String, &ViewPixels<'a>)| View::of(key, view);
        self.image_keys.iter().zip(found).map(view).collect()
    }
}

impl ImageScorer for PythonScorer {
    fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        let views = self.views(images)?;
        let bytes_of_one: usize = views.iter().map(View::padded_bytes).sum();
        if bytes_of_one > IMAGE_BYTES {
            let model = CustomLocation::Python(self.function.clone()).to_string();
            let message = format!(
                "images of {bytes_of_one} bytes for one score; it can be shown {IMAGE_BYTES} at a time"
            );
            return Err(CustomModelError::Refused { model, message }.into());
        }
        let at_once = (IMAGE_BYTES / bytes_of_one.max(1)).clamp(1, MOST_IMAGES);
        let mut logits = Vec::with_capacity(images.len());
        for start in (0..images.len()).step_by(at_once) {
            let end = (start + at_once).min(images.len());
            let some: Vec<View<'_>> = views.iter().map(|view| view.slice(start, end)).collect();
            let numbers = self.call(&some)?;
            let found = self.meaning.logits(&numbers, 1, 0).map_err(|error| CustomModelError::Output {
                model: CustomLocation::Python(self.function.clone()).to_string(),
                error,
            })?;
            logits.extend(found);
        }
        Ok(logits)
    }
}

/// The images of one camera.
struct View<'a> {
    key: &'a str,
    pixels: Cow<'a, [u8]>,
    count: usize,
    height: usize,
    width: usize,
}

impl<'a> View<'a> {
    fn of(key: &'a str, view: &ViewPixels<'a>) -> Result<Self, CustomModelError> {
        let ViewPixels { pixels, layout, count, height, width, channels, .. } = *view;
        if channels != 3 {
            let hint = "a Python function sees colours: red, green, blue";
            return Err(ImageError::Channels { key: key.into(), channels, wanted: 3, hint }.into());
        }
        if height == 0 || width == 0 {
            return Err(ImageError::Empty { key: key.into(), height, width }.into());
        }
        let pixels = match (pixels, layout) {
            (Pixels::U8(pixels), ImageLayout::Hwc) => Cow::Borrowed(pixels),
            (Pixels::U8(pixels), ImageLayout::Chw) => Cow::Owned(interleaved(pixels, height * width)),
            (Pixels::F32(_), _) => {
                let message = "a Python function takes images of bytes (uint8), and these are floats";
                return Err(CustomModelError::Refused {
                    model: format!("camera `{key}`"),
                    message: message.into(),
                });
            }
        };
        Ok(Self { key, pixels, count, height, width })
    }

    fn bytes(&self) -> usize {
        self.height * self.width * 3
    }

    /// The bytes of one image, with room so that the next camera's can begin on a cache line.
    fn padded_bytes(&self) -> usize {
        self.bytes() + 64
    }

    fn slice(&self, start: usize, end: usize) -> View<'_> {
        let pixels = Cow::Borrowed(&self.pixels[start * self.bytes()..end * self.bytes()]);
        View { pixels, count: end - start, ..*self }
    }
}

/// Planes of colours as pixels.
fn interleaved(bytes: &[u8], pixels: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    let images = bytes.chunks_exact(3 * pixels).zip(out.chunks_exact_mut(3 * pixels));
    for (image, into) in images {
        for (at, byte) in image.iter().enumerate() {
            into[at % pixels * 3 + at / pixels] = *byte;
        }
    }
    out
}

impl Running {
    fn score(&mut self, views: &[View<'_>], limit: Duration) -> Result<Vec<f32>, Failure> {
        let count = views.first().map_or(0, |view| view.count);
        let (mut offset, mut shown) = (0usize, Vec::new());
        for view in views {
            let start = self.images.offset + offset;
            self.memory.write(start..start + view.pixels.len(), &view.pixels);
            shown.push(json!([view.key, [view.count, view.height, view.width, 3], offset]));
            offset = (offset + view.pixels.len()).next_multiple_of(64);
        }
        let call = json!({ "count": count, "views": Value::Array(shown) });
        match self.connection.send_json(&call) {
            Ok(()) => self.connection.done(limit)?,
            Err(failure) => return Err(self.connection.lost(failure)),
        }
        let start = self.scores.offset;
        Ok(self.memory.read(start..start + 4 * count))
    }
}
