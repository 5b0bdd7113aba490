//! A GPU with a classifier on it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::fold::ParameterSource;
use super::super::network::Network;
use super::super::settings::{ClassifierSettings, Precision};
use super::convolution::{self, TileChooser};
use super::kernels;
use super::launches::{PixelKind, Step, int};
use super::parameters::{GpuParameters, check_memory};
use super::plan::{Plan, PlanInput, plan};
use crate::gpu::{Address, Arg, Buffer, Gpu, GpuError, Graph, StagedBytes};
use crate::images::{ImageBatch, ImageError, Pixels, Preprocess};

/// Sizes of batches that there are graphs for. Others are filled up to the next one.
const SIZES: [usize; 20] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];
/// Graphs that are kept.
const MOST_GRAPHS: usize = 32;
/// Numbers of an array that kernels can count.
const MOST_NUMBERS: usize = i32::MAX as usize;
/// Bytes that are left to others.
pub(super) const SPARE: usize = 64 << 20;
/// Tiles that blocks may share.
pub(super) const SHARED_TILES: usize = 4096;

/// The kernels beside convolutions.
const NAMES: [&str; 8] = [
    "space_to_depth",
    "max_pool",
    "group_norm",
    "average",
    "spatial_embeddings",
    "pooled_embeddings",
    "linear",
    "layer_norm",
];

/// A classifier on a GPU. One pass at a time.
pub(in super::super) struct GpuClassifier {
    engine: Mutex<Engine>,
}

impl std::fmt::Debug for GpuClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GpuClassifier")
    }
}

/// Images as they go to the GPU, camera after camera.
#[derive(Clone, Debug)]
pub(in super::super) struct GpuInput<'a> {
    pub(super) kind: PixelKind,
    pub(super) views: Vec<Cow<'a, [u8]>>,
    pub(super) count: usize,
}

impl<'a> GpuInput<'a> {
    /// Bytes as they are, if they have the network's size; anything else is made ready here.
    pub(in super::super) fn new(
        preprocess: &Preprocess,
        images: &ImageBatch<'a>,
    ) -> Result<Self, ImageError> {
        let views = preprocess.views(images)?;
        let raw = views.iter().map(|view| match view.pixels {
            Pixels::U8(bytes) if preprocess.same_size(view) => Some((PixelKind::bytes(view.layout), bytes)),
            _ => None,
        });
        let raw: Option<Vec<(PixelKind, &'a [u8])>> = raw.collect();
        let kind = raw.as_ref().and_then(|raw| raw.first()).map(|(kind, _)| *kind);
        let of_a_kind = raw.filter(|raw| raw.iter().all(|(one, _)| Some(*one) == kind));
        let (kind, views) = match (kind, of_a_kind) {
            (Some(kind), Some(raw)) => {
                (kind, raw.into_iter().map(|(_, bytes)| Cow::Borrowed(bytes)).collect())
            }
            _ => {
                let ready = views.iter().map(|view| {
                    let numbers = preprocess.view(view);
                    Cow::Owned(bytemuck::cast_slice(&numbers).to_vec())
                });
                (PixelKind::Floats, ready.collect())
            }
        };
        Ok(Self { kind, views, count: images.len() })
    }
}

/// The images of one camera as they lie in a GPU's memory: bytes of the network's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuView {
    /// Of the first byte.
    pub address: u64,
    /// Bytes from image to image, from row to row, from column to column and from colour to colour.
    pub strides: [usize; 4],
}

impl GpuView {
    /// From an image on.
    #[must_use]
    pub fn from_image(self, image: usize) -> Self {
        Self { address: self.address + (image * self.strides[0]) as u64, ..self }
    }

    /// Whether kernels can count the bytes from an image to the next, and from its first to its last.
    fn is_countable(&self, [height, width]: [usize; 2]) -> bool {
        let [image, row, column, colour] = self.strides;
        let parts = [(row, height), (column, width), (colour, 3)];
        let last = parts
            .into_iter()
            .try_fold(0usize, |sum, (stride, count)| sum.checked_add(stride.checked_mul(count)?));
        image <= MOST_NUMBERS && last.is_some_and(|last| last <= MOST_NUMBERS)
    }

    /// How images of a size lie without gaps, if they do.
    fn dense(&self, [height, width]: [usize; 2]) -> Option<PixelKind> {
        let one = height * width * 3;
        [([3 * width, 3, 1], false), ([width, 1, height * width], true)]
            .into_iter()
            .find(|([row, column, colour], _)| self.strides == [one, *row, *column, *colour])
            .map(|(_, colours_first)| PixelKind::Bytes { colours_first })
    }
}

/// Which graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GraphKey {
    count: usize,
    kind: PixelKind,
    /// Whether the first kernel, which reads the images, is not in the graph: they are elsewhere each time.
    is_elsewhere: bool,
}

/// Where the kernel that reads images has their address, their number and their strides among its arguments.
const IMAGES_ARG: usize = 0;
const COUNT_ARG: usize = 4;
const STRIDES_ARG: usize = 9;

struct Recorded {
    graph: Graph,
    plan: Plan,
}

/// What a kernel takes in a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTime {
    /// The kernel, and for a convolution its shape.
    pub layer: String,
    /// Milliseconds.
    pub milliseconds: f64,
    /// Multiplications and additions in a second, in units of 10^12, if it is a convolution.
    pub teraflops: Option<f64>,
}

struct Engine {
    network: Network,
    preprocess: Preprocess,
    precision: Precision,
    size: [usize; 2],
    cameras: usize,
    graphs: HashMap<GraphKey, Recorded>,
    chooser: TileChooser,
    parameters: GpuParameters,
    images: StagedBytes,
    activations: Buffer<u8>,
    /// Held because the chooser has their addresses.
    _sums: (Buffer<f32>, Buffer<i32>),
    gpu: Gpu,
}

impl GpuClassifier {
    /// Puts a classifier on a GPU.
    pub(in super::super) fn open(
        index: usize,
        settings: &ClassifierSettings,
        network: &Network,
        source: &impl ParameterSource,
    ) -> Result<Self, GpuError> {
        let (precision, preprocess) = (settings.precision, settings.preprocess());
        let mut gpu = Gpu::open(index)?;
        let is_hopper = gpu.is_hopper()?;
        let tiles = convolution::tiles(precision, is_hopper);
        let names: Vec<&'static str> =
            NAMES.into_iter().chain(tiles.iter().map(|tile| tile.kernel)).collect();
        gpu.compile(&kernels(precision, is_hopper), &names)?;
        let most = gpu.most_shared();
        for tile in tiles.iter().filter(|tile| tile.shared() <= most) {
            gpu.allow_shared(tile.kernel, tile.shared(), tile.shared_percent)?;
        }
        let parameters = GpuParameters::load(&gpu, network, source, &preprocess, precision)?;
        let mut sums = (Buffer::default(), Buffer::default());
        let partial = sums.0.of(&gpu, convolution::partial_floats(gpu.multiprocessors()))?;
        let arrived = sums.1.zeroed(&gpu, SHARED_TILES)?;
        let engine = Engine {
            network: network.clone(),
            precision,
            size: [preprocess.height, preprocess.width],
            cameras: preprocess.keys.len(),
            preprocess,
            graphs: HashMap::new(),
            chooser: TileChooser::new(&gpu, tiles, partial, arrived),
            parameters,
            images: StagedBytes::default(),
            activations: Buffer::default(),
            _sums: sums,
            gpu,
        };
        Ok(Self { engine: Mutex::new(engine) })
    }

    /// Goes on with other weights of the same network.
    pub(in super::super) fn reload(&self, source: &impl ParameterSource) -> Result<(), GpuError> {
        let engine = &mut *self.lock();
        engine.gpu.wait()?;
        engine.parameters.reload(&engine.gpu, &engine.network, source, &engine.preprocess, engine.precision)
    }

    fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many time steps go through the network at once.
    pub(in super::super) fn batch_size(&self) -> Result<usize, GpuError> {
        self.lock().largest()
    }

    /// The logit of each time step, of which there are no more than [`batch_size`](Self::batch_size).
    pub(in super::super) fn logits(&self, input: &GpuInput<'_>) -> Result<Vec<f32>, GpuError> {
        let mut engine = self.lock();
        let recorded = engine.run(input)?;
        let start = recorded.plan.logits;
        engine.floats(start, input.count)
    }

    /// The features of each time step.
    pub(in super::super) fn features(&self, input: &GpuInput<'_>) -> Result<Vec<Vec<f32>>, GpuError> {
        let mut engine = self.lock();
        let plan = &engine.run(input)?.plan;
        let (start, width) = (plan.features, plan.feature_width);
        let numbers = engine.floats(start, input.count * width)?;
        Ok(numbers.chunks_exact(width).map(<[f32]>::to_vec).collect())
    }

    /// The GPU's number, and CUDA's handle of the stream that computes.
    pub(in super::super) fn order(&self) -> (usize, u64) {
        self.lock().gpu.order()
    }

    /// [`logits`](Self::logits) of images that lie on the GPU, each of which is written by the time its stream comes to it; nothing if
    /// they lie so that only a copy by way of the host helps.
    pub(in super::super) fn logits_elsewhere(
        &self,
        views: &[GpuView],
        count: usize,
    ) -> Result<Option<Vec<f32>>, GpuError> {
        let mut engine = self.lock();
        let Some(recorded) = engine.run_elsewhere(views, count)? else { return Ok(None) };
        let start = recorded.plan.logits;
        engine.floats(start, count).map(Some)
    }

    /// [`features`](Self::features) of the same.
    pub(in super::super) fn features_elsewhere(
        &self,
        views: &[GpuView],
        count: usize,
    ) -> Result<Option<Vec<Vec<f32>>>, GpuError> {
        let mut engine = self.lock();
        let Some(recorded) = engine.run_elsewhere(views, count)? else { return Ok(None) };
        let (start, width) = (recorded.plan.features, recorded.plan.feature_width);
        let numbers = engine.floats(start, count * width)?;
        Ok(Some(numbers.chunks_exact(width).map(<[f32]>::to_vec).collect()))
    }

    /// What each kernel of a pass over so many time steps takes, and the pass as a whole, each time it is run.
    pub(in super::super) fn times(
        &self,
        count: usize,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<LayerTime>), GpuError> {
        let mut engine = self.lock();
        let kind = PixelKind::Bytes { colours_first: false };
        let key = GraphKey { count, kind, is_elsewhere: false };
        engine.prepare(key)?;
        let Engine { gpu, graphs, chooser, .. } = &mut *engine;
        let Recorded { graph, plan } = &graphs[&key];
        let mut layers = Vec::new();
        for step in &plan.steps {
            let seconds = convolution::seconds(gpu, |gpu| run_step(gpu, chooser, step))?;
            layers.push(describe(gpu, chooser, step, seconds)?);
        }
        let whole = (0..repeats).map(|_| convolution::seconds(gpu, |_| graph.run()));
        let whole = whole.map(|seconds| seconds.map(|seconds| seconds * 1e3)).collect::<Result<_, _>>()?;
        Ok((whole, layers))
    }
}

/// The size of the graph for so many images.
fn graph_size(count: usize) -> Result<usize, GpuError> {
    let size = SIZES.iter().copied().find(|size| *size >= count);
    size.ok_or(GpuError::Unsupported { what: "a batch of more than 1024 images" })
}

impl Engine {
    fn plan_input(&self, key: GraphKey) -> PlanInput<'_> {
        PlanInput {
            network: &self.network,
            parameters: &self.parameters,
            precision: self.precision,
            size: self.size,
            count: key.count,
            cameras: self.cameras,
            kind: key.kind,
            images: Address::NONE,
            base: Address::NONE,
        }
    }

    /// Bytes of images.
    fn image_bytes(&self, key: GraphKey) -> usize {
        self.cameras * key.count * self.one_view(key.kind)
    }

    fn one_view(&self, kind: PixelKind) -> usize {
        self.size[0] * self.size[1] * 3 * kind.size()
    }

    /// Bytes that a batch needs at most.
    fn needed(&self, count: usize) -> usize {
        let key = GraphKey { count, kind: PixelKind::Floats, is_elsewhere: false };
        plan(self.plan_input(key)).bytes + self.image_bytes(key)
    }

    /// The most time steps that there is memory for.
    fn largest(&self) -> Result<usize, GpuError> {
        let (free, total) = self.gpu.memory()?;
        let free = free + self.activations.len();
        let is_countable = |count: usize| {
            let pixels = self.size[0].div_ceil(2) * self.size[1].div_ceil(2);
            count * self.cameras * pixels * 64 <= MOST_NUMBERS
        };
        let fits = |count: &&usize| is_countable(**count) && self.needed(**count) + SPARE <= free;
        let largest = SIZES.iter().rev().find(fits);
        largest.copied().ok_or_else(|| GpuError::Memory { needed: self.needed(1) + SPARE, free, total })
    }

    /// Records the graph of a batch, unless that was done.
    fn prepare(&mut self, key: GraphKey) -> Result<(), GpuError> {
        if self.graphs.contains_key(&key) {
            return Ok(());
        }
        let bytes = plan(self.plan_input(key)).bytes;
        if bytes > self.activations.len() {
            check_memory(&self.gpu, bytes.saturating_sub(self.activations.len()) + SPARE)?;
            self.graphs.clear(); // what they point to moves
        }
        let moves = !key.is_elsewhere && self.images.reserve(&self.gpu, self.image_bytes(key))?;
        if moves || self.graphs.len() >= MOST_GRAPHS {
            self.graphs.clear();
        }
        let base = self.activations.of(&self.gpu, bytes)?;
        let images = self.images.address(&self.gpu)?;
        let plan = plan(PlanInput { base, images, ..self.plan_input(key) });
        let Self { gpu, chooser, .. } = self;
        for step in &plan.steps {
            if let Step::Conv(work) = step {
                chooser.choose(gpu, work)?; // before recording, which measures nothing
            }
        }
        let steps = &plan.steps[usize::from(key.is_elsewhere)..];
        let graph = gpu.record(|gpu| steps.iter().try_for_each(|step| run_step(gpu, chooser, step)))?;
        self.graphs.insert(key, Recorded { graph, plan });
        Ok(())
    }

    /// Scores images; the results stay on the GPU.
    fn run(&mut self, input: &GpuInput<'_>) -> Result<&Recorded, GpuError> {
        let count = graph_size(input.count)?;
        let key = GraphKey { count, kind: input.kind, is_elsewhere: false };
        self.prepare(key)?;
        let view_bytes = count * self.one_view(input.kind);
        let parts: Vec<(usize, &[u8])> =
            input.views.iter().enumerate().map(|(camera, view)| (camera * view_bytes, &**view)).collect();
        self.images.put_at(&self.gpu, &parts)?;
        let recorded = &self.graphs[&key];
        recorded.graph.run()?;
        Ok(recorded)
    }

    /// Scores images that lie on the GPU; nothing if they lie so that only a copy by way of the host helps. Those of one camera are read
    /// where they are, those of several are first brought together.
    fn run_elsewhere(&mut self, views: &[GpuView], count: usize) -> Result<Option<&Recorded>, GpuError> {
        let size = graph_size(count)?;
        let kinds: Vec<Option<PixelKind>> = views.iter().map(|view| view.dense(self.size)).collect();
        let key = match (views, &kinds[..]) {
            ([view], _) if view.is_countable(self.size) => {
                let kind = PixelKind::Bytes { colours_first: false };
                GraphKey { count: size, kind, is_elsewhere: true }
            }
            ([_, _, ..], [Some(kind), others @ ..]) if others.iter().all(|other| *other == Some(*kind)) => {
                GraphKey { count: size, kind: *kind, is_elsewhere: false }
            }
            _ => return Ok(None),
        };
        self.prepare(key)?;
        if let ([view], true) = (views, key.is_elsewhere) {
            let Some(Step::Kernel { kernel, shape, args }) = self.graphs[&key].plan.steps.first() else {
                unreachable!("a plan begins with its images")
            };
            let mut args = args.clone();
            args[IMAGES_ARG] = Arg::At(Address(view.address));
            args[COUNT_ARG] = int(count);
            for (arg, stride) in args[STRIDES_ARG..].iter_mut().zip(view.strides) {
                *arg = int(stride);
            }
            self.gpu.run(kernel, *shape, &args)?;
        } else {
            let (view_bytes, bytes) = (size * self.one_view(key.kind), count * self.one_view(key.kind));
            for (camera, view) in views.iter().enumerate() {
                self.images.copy_from(&self.gpu, camera * view_bytes, Address(view.address), bytes)?;
            }
        }
        let recorded = &self.graphs[&key];
        recorded.graph.run()?;
        Ok(Some(recorded))
    }

    /// Floats from a place in the activations on.
    fn floats(&self, start: usize, count: usize) -> Result<Vec<f32>, GpuError> {
        let bytes = self.activations.get_range(&self.gpu, start..start + count * size_of::<f32>())?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }
}

pub(super) fn run_step(gpu: &mut Gpu, chooser: &mut TileChooser, step: &Step) -> Result<(), GpuError> {
    match step {
        Step::Conv(work) => {
            let tile = chooser.choose(gpu, work)?;
            chooser.run(gpu, tile, work)
        }
        Step::Kernel { kernel, shape, args } => gpu.run(kernel, *shape, args),
        Step::Beside(steps) => {
            gpu.run_beside(|gpu| steps.iter().try_for_each(|step| run_step(gpu, chooser, step)))
        }
        Step::WaitFor(end) => gpu.wait_for(*end),
    }
}

pub(super) fn describe(
    gpu: &mut Gpu,
    chooser: &mut TileChooser,
    step: &Step,
    seconds: f64,
) -> Result<LayerTime, GpuError> {
    let (layer, teraflops) = match step {
        Step::Conv(work) => {
            let shape = &work.shape;
            let tile = chooser.choose(gpu, work)?.kernel;
            let [height, width] = shape.out;
            let name = format!(
                "{tile}: {}x{height}x{width}, {} to {} channels",
                shape.images,
                shape.columns(),
                shape.outputs
            );
            (name, Some(shape.operations() / seconds / 1e12))
        }
        Step::Kernel { kernel, .. } => ((*kernel).to_owned(), None),
        Step::Beside(_) | Step::WaitFor(_) => (String::new(), None),
    };
    Ok(LayerTime { layer, milliseconds: seconds * 1e3, teraflops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_gaps_are_told_from_others() {
        let kind = |strides| GpuView { address: 512, strides }.dense([4, 5]);
        assert_eq!(kind([60, 15, 3, 1]), Some(PixelKind::Bytes { colours_first: false }));
        assert_eq!(kind([60, 5, 1, 20]), Some(PixelKind::Bytes { colours_first: true }));
        for strides in [[120, 15, 3, 1], [60, 20, 4, 1], [0, 15, 3, 1], [80, 20, 4, 1]] {
            assert_eq!(kind(strides), None, "{strides:?}");
        }
        assert_eq!(GpuView { address: 512, strides: [60, 15, 3, 1] }.from_image(3).address, 692);
    }

    #[test]
    fn strides_that_kernels_cannot_count_are_refused() {
        let countable = |strides| GpuView { address: 0, strides }.is_countable([128, 128]);
        assert!(countable([49_152, 384, 3, 1]) && countable([0; 4]));
        assert!(!countable([MOST_NUMBERS + 1, 384, 3, 1]));
        assert!(!countable([49_152, MOST_NUMBERS / 64, 3, 1]) && !countable([49_152, usize::MAX, 3, 1]));
    }
}
