//! An image network of one's own making in an ONNX file, run in this process.
//!
//! What the file says counts: the size and the order of the axes of each input, bytes or floats, how many images at a time. What it
//! leaves open stands in the card beside it; what neither says of the numbers that come out is assumed, with a notice.

mod reader;
mod wire;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::images::{ImageBatch, ImageError, ImageLayout, Pixels, ViewPixels, resized};
use rten::{Model, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

use self::reader::Reader;
use super::card::InputLayout;
use super::error::CustomModelError;
use super::{CustomCard, ImageScorer, OutputMeaning};

/// Images of one run of a network that takes any number.
const MOST_IMAGES: usize = 64;

/// A network in an ONNX file.
pub struct OnnxScorer {
    file: PathBuf,
    network: Model,
    image_keys: Vec<String>,
    inputs: Vec<Input>,
    output: Output,
    /// How many images a run takes, where the file fixes it.
    batch: Option<usize>,
    threads: Mutex<Threads>,
}

/// The threads of a process. One that was forked has none of its parent's.
struct Threads {
    process: u32,
    pool: Arc<ThreadPool>,
}

/// What one camera's images become.
struct Input {
    id: NodeId,
    kind: InputKind,
    layout: InputLayout,
    /// Height and width, where they are fixed.
    size: Option<[usize; 2]>,
}

/// The numbers of an input.
enum InputKind {
    /// As cameras give them.
    Bytes,
    /// From 0 to 1, less a mean and over a deviation.
    Floats { mean: [f32; 3], std: [f32; 3] },
}

/// What is read of what comes out.
struct Output {
    id: NodeId,
    meaning: OutputMeaning,
    success_class: Option<usize>,
}

impl OnnxScorer {
    /// Opens a network, with what had to be assumed about it in words.
    ///
    /// # Errors
    /// When the file cannot be read or run, or file and card do not say what images it takes.
    pub fn open(file: &Path, card: &CustomCard) -> Result<(Self, Option<String>), CustomModelError> {
        let network = reader::read(file)?;
        let image_keys = card.views();
        let reader = Reader { file, network: &network, card };
        let (inputs, batch) = reader.inputs(&image_keys)?;
        let (output, assumed) = reader.output()?;
        let threads = Mutex::new(Threads::of_this_process());
        let scorer = Self { file: file.into(), image_keys, inputs, output, batch, threads, network };
        scorer.try_out()?;
        Ok((scorer, assumed))
    }

    /// Height and width that images are brought to, where all cameras have the same.
    #[must_use]
    pub fn image_size(&self) -> Option<[usize; 2]> {
        let first = self.inputs.first()?.size;
        first.filter(|_| self.inputs.iter().all(|input| input.size == first))
    }

    /// Runs it on a black image, so that what it cannot do is known before anything is scored.
    fn try_out(&self) -> Result<(), CustomModelError> {
        let sizes: Option<Vec<[usize; 2]>> = self.inputs.iter().map(|input| input.size).collect();
        let Some(sizes) = sizes else { return Ok(()) };
        let black: Vec<Vec<u8>> = sizes.iter().map(|[height, width]| vec![0; height * width * 3]).collect();
        let views = self.image_keys.iter().zip(&black).zip(&sizes).map(|((key, bytes), [height, width])| {
            ViewPixels::from_shape(key, Pixels::U8(bytes), [1, *height, *width, 3])
        });
        let batch = ImageBatch::new(views.collect())?;
        let numbers = self.run(&batch)?;
        // What numbers of a black image mean nothing; how many there are is checked.
        self.class_of(numbers.len()).map(drop)
    }

    /// The numbers of so few images that one run takes them.
    fn run(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, CustomModelError> {
        let (count, padded) = (images.len(), self.batch.unwrap_or(images.len()));
        let views = images.views_for(&self.image_keys)?;
        let mut values: Vec<(NodeId, ValueOrView<'_>)> = Vec::with_capacity(views.len());
        for (input, view) in self.inputs.iter().zip(views) {
            values.push((input.id, input.value(view, padded)?.into()));
        }
        let options = RunOptions::default().with_thread_pool(Some(self.pool()));
        let [out] = self
            .network
            .run_n(values, [self.output.id], Some(options))
            .map_err(|error| self.refused(format!("the network cannot be run: {error}")))?;
        let Value::FloatTensor(out) = out else {
            return Err(
                self.refused("it gives whole numbers, and scores are meant: export it without its argmax")
            );
        };
        let shape = out.shape().to_vec();
        if out.is_empty() || out.len() % padded != 0 || (shape.len() > 1 && shape[0] != padded) {
            return Err(self.refused(format!("it gives numbers of shape {shape:?} for {padded} images")));
        }
        let columns = out.len() / padded;
        let mut numbers = out.to_vec();
        numbers.truncate(count * columns);
        Ok(numbers)
    }

    /// The class that is success, of rows of so many numbers.
    fn class_of(&self, columns: usize) -> Result<usize, CustomModelError> {
        let is_of_classes = match self.output.meaning {
            OutputMeaning::Probability | OutputMeaning::Logit => false,
            OutputMeaning::ClassProbabilities | OutputMeaning::ClassLogits => true,
        };
        match (columns, is_of_classes, self.output.success_class) {
            (1, false, None) => Ok(0),
            (1, ..) => Err(self.refused("it gives one number for each image; `output` of its card is of several classes")),
            (_, false, _) => Err(self.refused(format!(
                "it gives {columns} numbers for each image; `output` of its card must be class_logits or class_probabilities"
            ))),
            (2, true, None) => Ok(1),
            (_, true, None) => Err(self.refused(format!(
                "it gives {columns} numbers for each image; `success_class` of its card must say which of them is success"
            ))),
            (_, true, Some(class)) if class < columns => Ok(class),
            (_, true, Some(class)) => Err(self.refused(format!(
                "`success_class` is {class}, and it has the classes 0 to {}", columns - 1
            ))),
        }
    }

    fn pool(&self) -> Arc<ThreadPool> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.process != std::process::id() {
            // Those of the parent are not here to be ended.
            let parents = std::mem::replace(&mut *threads, Threads::of_this_process());
            std::mem::forget(parents);
        }
        threads.pool.clone()
    }

    fn refused(&self, message: impl Into<String>) -> CustomModelError {
        refused(&self.file, message)
    }
}

impl ImageScorer for OnnxScorer {
    fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        let at_once = self.batch.unwrap_or(MOST_IMAGES);
        let mut numbers = Vec::new();
        for start in (0..images.len()).step_by(at_once) {
            let end = (start + at_once).min(images.len());
            numbers.extend(self.run(&images.slice(start..end))?);
        }
        let columns = numbers.len() / images.len().max(1);
        if columns == 0 {
            return Ok(Vec::new());
        }
        let class = self.class_of(columns)?;
        let logits =
            self.output.meaning.logits(&numbers, columns, class).map_err(|error| {
                CustomModelError::Output { model: self.file.display().to_string(), error }
            })?;
        Ok(logits)
    }
}

impl Threads {
    fn of_this_process() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { process: std::process::id(), pool: Arc::new(ThreadPool::with_num_threads(cores)) }
    }
}

impl Input {
    /// The images of a camera as the network takes them, with black ones behind them up to `padded`.
    fn value(&self, view: &ViewPixels<'_>, padded: usize) -> Result<Value, ImageError> {
        let [height, width] = self.size.unwrap_or([view.height, view.width]);
        let one = height * width * 3;
        let shape = match self.layout {
            InputLayout::Nchw => [padded, 3, height, width],
            InputLayout::Nhwc => [padded, height, width, 3],
        };
        match &self.kind {
            InputKind::Bytes => {
                let mut bytes = self.arranged(&bytes_of(view, [height, width])?, one, |_, byte| byte);
                bytes.resize(padded * one, 0);
                Ok(Tensor::from_data(&shape, bytes).into())
            }
            InputKind::Floats { mean, std } => {
                let units = resized(view, [height, width])?;
                let mut floats =
                    self.arranged(&units, one, |colour, unit| (unit - mean[colour]) / std[colour]);
                floats.resize(padded * one, 0.0);
                Ok(Tensor::from_data(&shape, floats).into())
            }
        }
    }

    /// Pixels in the order of the input's axes.
    fn arranged<T: Copy + Default>(
        &self,
        pixels: &[T],
        one: usize,
        finish: impl Fn(usize, T) -> T,
    ) -> Vec<T> {
        match self.layout {
            InputLayout::Nhwc => {
                pixels.iter().enumerate().map(|(at, number)| finish(at % 3, *number)).collect()
            }
            InputLayout::Nchw => {
                let (mut out, plane) = (vec![T::default(); pixels.len()], one / 3);
                for (image, into) in pixels.chunks_exact(one).zip(out.chunks_exact_mut(one)) {
                    for (at, number) in image.iter().enumerate() {
                        into[at % 3 * plane + at / 3] = finish(at % 3, *number);
                    }
                }
                out
            }
        }
    }
}

/// Images as bytes of pixels: those of a camera where they lie, others rounded.
fn bytes_of<'a>(view: &ViewPixels<'a>, size: [usize; 2]) -> Result<Cow<'a, [u8]>, ImageError> {
    match view.pixels {
        Pixels::U8(bytes)
            if view.layout == ImageLayout::Hwc && view.channels == 3 && [view.height, view.width] == size =>
        {
            Ok(Cow::Borrowed(bytes))
        }
        Pixels::U8(_) | Pixels::F32(_) => {
            let units = resized(view, size)?;
            Ok(Cow::Owned(units.into_iter().map(|unit| (unit * 255.0).round() as u8).collect()))
        }
    }
}

fn refused(file: &Path, message: impl Into<String>) -> CustomModelError {
    CustomModelError::Refused { model: file.display().to_string(), message: message.into() }
}
