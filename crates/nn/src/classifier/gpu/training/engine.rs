//! A GPU with a classifier that learns on it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plaudit_core::Seed;
use rayon::prelude::*;

use super::super::super::loss::Loss;
use super::super::super::network::Network;
use super::super::super::optimizer::StepOutcome;
use super::super::super::parameters::{Id, Parameters};
use super::super::super::settings::{ClassifierSettings, Precision};
use super::super::super::trainer::{Accumulated, BatchLoss, dropout_mask};
use super::super::convolution::{self, TileChooser};
use super::super::engine::{GpuInput, LayerTime, SHARED_TILES, SPARE, describe, run_step};
use super::super::launches::{Step, int, threads};
use super::super::parameters::check_memory;
use super::layout::Layout;
use super::plan::{Arenas, Plan, PlanInput, STATISTICS, Statistic, plan};
use super::weight_tiles::{WeightTiles, weight_tiles};
use crate::gpu::{
    Address, Arg, Buffer, FetchedBytes, Gpu, GpuError, Graph, LaunchShape, Moment, StagedBytes,
};
use crate::kernels::adam::AdamStep;

/// Graphs that are kept: sizes of batches.
const MOST_GRAPHS: usize = 8;
/// Numbers of an array that kernels can count.
const MOST_NUMBERS: usize = i32::MAX as usize;
/// Channels of a block that adds up sums, and blocks there are at most.
const MOST_BLOCKS: usize = 1024;
/// Blocks that share the sum of squares of a gradient.
const NORM_BLOCKS: usize = 528;

/// The kernels beside convolutions.
const NAMES: [&str; 35] = [
    "space_to_depth",
    "average",
    "spatial_embeddings",
    "pooled_embeddings",
    "linear",
    "layer_norm",
    "batch_statistics",
    "fixed_statistics",
    "running_statistics",
    "gradient_statistics",
    "norm_act",
    "norm_gradient",
    "gradient_sums",
    "pool_training",
    "pool_gradient",
    "group_norm_training",
    "group_norm_gradient",
    "group_norm_parameters",
    "add_partials",
    "linear_input_gradient",
    "linear_weight_gradient",
    "masked",
    "layer_norm_gradient",
    "layer_norm_parameters",
    "average_gradient",
    "spatial_embeddings_gradient",
    "pooled_embeddings_gradient",
    "spatial_embeddings_weights",
    "pooled_embeddings_weights",
    "logit_loss",
    "gradient_norm",
    "adamw",
    "round_parameters",
    "transpose_weights",
    "max_pool",
];

/// What a batch is measured by.
pub(in super::super::super) enum BatchMeasure<'a> {
    /// A label for each image, and how much each counts.
    Labels(&'a [f32], Option<&'a [f32]>, Loss),
    /// Anything, on the host.
    By(&'a dyn Fn(&[f32]) -> BatchLoss),
}

/// The images of a batch.
pub(in super::super::super) enum BatchImages<'a> {
    Given(GpuInput<'a>),
    /// Those that were staged.
    Staged,
}

/// A batch that was begun.
enum Begun {
    /// Its loss and logits, when they are there.
    Running(FetchedBytes),
    /// Its loss was made on the host.
    Done(Accumulated),
}

/// What was asked for and not yet read, each in its order.
#[derive(Default)]
struct Queue {
    batches: VecDeque<Begun>,
    /// Of those batches, the first so many have their step behind them.
    batches_stepped: usize,
    /// What steps found.
    steps: VecDeque<FetchedBytes>,
    /// Memory for results to come.
    spare: Vec<FetchedBytes>,
}

/// Numbers that a step is made with, and bytes that it leaves: `AdamStep` and `Found` in `adamw.cu`.
const STEP_NUMBERS: usize = 15;
const FOUND_BYTES: usize = 24;

impl Queue {
    fn room(&mut self, gpu: &Gpu, bytes: usize) -> Result<FetchedBytes, GpuError> {
        match self.spare.iter().position(|spare| spare.len() == bytes) {
            Some(place) => Ok(self.spare.swap_remove(place)),
            None => FetchedBytes::room(gpu, bytes),
        }
    }
}

/// Images that were copied while the GPU computed: which, and when they are there; and when the last ones were taken.
#[derive(Default)]
struct StagedImages {
    there: Option<(PassKey, Moment)>,
    taken: Option<Moment>,
}

/// A classifier that learns on a GPU.
pub(in super::super::super) struct GpuTrainer {
    settings: ClassifierSettings,
    network: Network,
    layout: Arc<Layout>,
    size: [usize; 2],
    weight_tiles: WeightTiles,
    passes: HashMap<PassKey, Pass>,
    step_graph: Option<Graph>,
    queue: Queue,
    staged: StagedImages,
    chooser: TileChooser,
    memory: Memory,
    /// Whether a gradient waits for the next step.
    pub(in super::super::super) has_gradient: bool,
    gpu: Gpu,
}

impl std::fmt::Debug for GpuTrainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GpuTrainer")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PassKey {
    count: usize,
    kind: super::super::launches::PixelKind,
}

/// A pass, and its graphs: as a whole, or with the loss made on the host.
struct Pass {
    plan: Plan,
    whole: Option<Graph>,
    halves: Option<[Graph; 2]>,
}

/// All memory that stays.
#[derive(Default)]
struct Memory {
    parameters: Buffer<f32>,
    gradients: Buffer<f32>,
    means: Buffer<f32>,
    squares: Buffer<f32>,
    rounded: Buffer<u8>,
    transposed: Buffer<u8>,
    squares_of_weights: Buffer<i32>,
    statistics: Buffer<f32>,
    byte_table: Buffer<f32>,
    arrived: Buffer<i32>,
    partial: Buffer<f32>,
    /// Settings of a step, and what it found: a double, a float and a whole number.
    step: StagedBytes,
    found: Buffer<u8>,
    norm_partial: Buffer<f32>,
    images: StagedBytes,
    staged: StagedBytes,
    host: StagedBytes,
    activations: Buffer<u8>,
    arenas: Arenas,
}

impl GpuTrainer {
    /// Puts a classifier on a GPU.
    pub(in super::super::super) fn open(
        index: usize,
        settings: &ClassifierSettings,
        network: &Network,
        parameters: &Parameters,
    ) -> Result<Self, GpuError> {
        let (precision, preprocess) = (settings.precision, settings.preprocess());
        if precision == Precision::Fp16 {
            let what = "training an image classifier in fp16 (bf16 and fp32 are there)";
            return Err(GpuError::Unsupported { what });
        }
        let mut gpu = Gpu::open(index)?;
        let is_hopper = gpu.is_hopper()?;
        let tiles = convolution::training_tiles(precision, is_hopper);
        let weight_tiles = weight_tiles(precision, is_hopper);
        let names = tiles.iter().map(|tile| tile.kernel).chain(weight_tiles.iter().map(|tile| tile.kernel));
        let names: Vec<&'static str> = NAMES.into_iter().chain(names).collect();
        gpu.compile(&super::kernels(precision, is_hopper), &names)?;
        let most = gpu.most_shared();
        for tile in tiles.iter().filter(|tile| tile.shared() <= most) {
            gpu.allow_shared(tile.kernel, tile.shared(), tile.shared_percent)?;
        }
        for tile in weight_tiles.iter().filter(|tile| tile.shared() > 0 && tile.fits(most)) {
            gpu.allow_shared(tile.kernel, tile.shared(), 100)?;
        }
        let layout = Arc::new(Layout::new(network, &parameters.specs, precision));
        let mut memory = Memory::default();
        memory.open(&gpu, &layout, precision, preprocess.table().as_flattened())?;
        let partial = memory.partial.of(&gpu, convolution::partial_floats(gpu.multiprocessors()))?;
        let chooser =
            TileChooser::new(&gpu, tiles, partial, Address(memory.arenas.arrived.0 + MOST_BLOCKS as u64 * 4));
        let mut trainer = Self {
            settings: settings.clone(),
            network: network.clone(),
            size: [preprocess.height, preprocess.width],
            weight_tiles: WeightTiles {
                tiles: weight_tiles,
                multiprocessors: gpu.multiprocessors(),
                most_shared: most,
            },
            passes: HashMap::new(),
            step_graph: None,
            queue: Queue::default(),
            staged: StagedImages::default(),
            chooser,
            memory,
            has_gradient: false,
            layout,
            gpu,
        };
        trainer.upload(parameters)?;
        Ok(trainer)
    }

    /// Puts all parameters and running statistics there.
    pub(in super::super::super) fn upload(&mut self, parameters: &Parameters) -> Result<(), GpuError> {
        let Self { layout, memory, gpu, .. } = self;
        let mut all = vec![0.0; layout.total];
        for id in layout.ids(false) {
            layout.put(id, parameters.flat(id).numbers(), &mut all);
        }
        memory.parameters.put(gpu, &all)?;
        let mut statistics = vec![0.0; STATISTICS * layout.channels];
        for (list, which) in layout.statistics.iter().zip(RUNNING) {
            for (id, channels) in list {
                let start = which as usize * layout.channels;
                let to = &mut statistics[start + channels.start..start + channels.end];
                to.copy_from_slice(parameters.flat(*id).numbers());
            }
        }
        memory.statistics.put(gpu, &statistics)?;
        for step in self.rounding() {
            run_step(&mut self.gpu, &mut self.chooser, &step)?;
        }
        self.gpu.wait()
    }

    /// What makes of the parameters what convolutions use.
    fn rounding(&self) -> Vec<Step> {
        let Arenas { parameters, rounded, .. } = self.memory.arenas;
        let args = vec![Arg::At(parameters), Arg::At(rounded), int(self.layout.total)];
        let round = Step::Kernel { kernel: "round_parameters", shape: threads(self.layout.total / 4), args };
        let is_single = self.settings.precision == Precision::Fp32;
        (!is_single).then_some(round).into_iter().chain(self.transposing()).collect()
    }

    fn transposing(&self) -> Option<Step> {
        let Arenas { rounded, transposed, .. } = self.memory.arenas;
        let squares = self.memory.squares_of_weights.address(&self.gpu);
        let args = vec![Arg::At(rounded), Arg::At(transposed), Arg::At(squares)];
        let shape = LaunchShape { blocks: [self.layout.squares.len(), 1, 1], threads: 256, shared: 0 };
        let step = Step::Kernel { kernel: "transpose_weights", shape, args };
        (!self.layout.squares.is_empty()).then_some(step)
    }

    /// Parameters and running statistics as they are now, into those of the host.
    pub(in super::super::super) fn download(&self, parameters: &mut Parameters) -> Result<(), GpuError> {
        let all = self.memory.parameters.get(&self.gpu, self.layout.total)?;
        let statistics = self.memory.statistics.get(&self.gpu, STATISTICS * self.layout.channels)?;
        put_parameters(&self.layout, &all, &statistics, parameters);
        Ok(())
    }

    /// Parameters and running statistics as they are now, and with `moments` those too: copied on the GPU, for another thread to fetch.
    pub(in super::super::super) fn snapshot(&self, moments: bool) -> Result<GpuSnapshot, GpuError> {
        let (memory, layout, gpu) = (&self.memory, &self.layout, &self.gpu);
        let copy = |from: &Buffer<f32>, count: usize| {
            let mut to = Buffer::default();
            to.of(gpu, count)?;
            to.copy(gpu, from, count)?;
            Ok::<_, GpuError>(to)
        };
        let moment = |from: &Buffer<f32>| moments.then(|| copy(from, layout.trained)).transpose();
        Ok(GpuSnapshot {
            parameters: copy(&memory.parameters, layout.total)?,
            statistics: copy(&memory.statistics, STATISTICS * layout.channels)?,
            means: moment(&memory.means)?,
            squares: moment(&memory.squares)?,
            layout: layout.clone(),
            there: gpu.moment()?,
            gpu: gpu.another_order()?,
        })
    }

    /// The gradients that wait for the next step.
    pub(in super::super::super) fn gradients(&self) -> Result<Vec<(Id, Vec<f32>)>, GpuError> {
        if !self.has_gradient {
            return Ok(Vec::new());
        }
        self.trained(&self.memory.gradients)
    }

    fn trained(&self, array: &Buffer<f32>) -> Result<Vec<(Id, Vec<f32>)>, GpuError> {
        Ok(by_parameter(&self.layout, &array.get(&self.gpu, self.layout.trained)?))
    }

    /// Running means of gradients and of their squares.
    pub(in super::super::super) fn moments(&self) -> Result<Moments, GpuError> {
        Ok([self.trained(&self.memory.means)?, self.trained(&self.memory.squares)?])
    }

    /// Goes on with these moments, zeros where there are none, and without a gradient.
    pub(in super::super::super) fn set_moments<'a>(
        &mut self,
        moment: impl Fn(Id, usize) -> Option<&'a [f32]>,
    ) -> Result<(), GpuError> {
        let Self { layout, memory, gpu, .. } = self;
        for (which, array) in [&mut memory.means, &mut memory.squares].into_iter().enumerate() {
            let mut all = vec![0.0; layout.trained];
            for id in layout.ids(true) {
                if let Some(numbers) = moment(id, which) {
                    layout.put(id, numbers, &mut all);
                }
            }
            array.put(gpu, &all)?;
        }
        memory.gradients.put(gpu, &vec![0.0; layout.trained])?;
        self.has_gradient = false;
        gpu.wait()
    }

    fn plan_input(&self, key: PassKey) -> PlanInput<'_> {
        PlanInput {
            network: &self.network,
            layout: &self.layout,
            precision: self.settings.precision,
            weight_tiles: self.weight_tiles,
            size: self.size,
            count: key.count,
            cameras: self.settings.image_keys.len(),
            outputs: self.settings.outputs(),
            is_frozen: self.settings.freeze_encoder,
            kind: key.kind,
            arenas: self.memory.arenas,
            images: Address::NONE,
            host: Address::NONE,
            base: Address::NONE,
        }
    }

    /// Bytes of a camera's images.
    fn view_bytes(&self, key: PassKey) -> usize {
        key.count * self.size[0] * self.size[1] * 3 * key.kind.size()
    }

    /// Plans a pass, unless that was done, and makes room for it. Too little memory is an error before anything is taken.
    fn prepare(&mut self, key: PassKey) -> Result<(), GpuError> {
        if self.passes.contains_key(&key) {
            return Ok(());
        }
        let cameras = self.settings.image_keys.len();
        let pixels = self.size[0].div_ceil(2) * self.size[1].div_ceil(2);
        if key.count * cameras * pixels * 64 > MOST_NUMBERS {
            return Err(GpuError::Unsupported { what: "a batch of so many images" });
        }
        let Plan { bytes, host, .. } = plan(self.plan_input(key));
        let image_bytes = self.view_bytes(key) * cameras;
        let more = bytes.saturating_sub(self.memory.activations.len());
        if more > 0 {
            check_memory(&self.gpu, more + image_bytes + SPARE)?;
        }
        let moves = [
            more > 0,
            self.memory.images.reserve(&self.gpu, image_bytes)?,
            self.memory.host.reserve(&self.gpu, host.bytes)?,
            self.passes.len() >= MOST_GRAPHS,
        ];
        if moves.contains(&true) {
            self.gpu.wait()?;
            self.passes.clear(); // what they point to moves
        }
        let base = self.memory.activations.of(&self.gpu, bytes)?;
        let images = self.memory.images.address(&self.gpu)?;
        let host = self.memory.host.address(&self.gpu)?;
        let plan = plan(PlanInput { base, images, host, ..self.plan_input(key) });
        let Self { gpu, chooser, .. } = self;
        for step in plan.forward.iter().chain(&plan.backward) {
            if let Step::Conv(work) = step {
                chooser.choose(gpu, work)?; // before recording, which measures nothing
            }
        }
        self.passes.insert(key, Pass { plan, whole: None, halves: None });
        Ok(())
    }

    /// Begins to run a batch, whose gradient times `scale` is added to those that wait; [`finish`](Self::finish) gives what came of it.
    pub(in super::super::super) fn begin(
        &mut self,
        images: &BatchImages<'_>,
        measure: &BatchMeasure<'_>,
        scale: f64,
        seed: Seed,
    ) -> Result<(), GpuError> {
        let key = match images {
            BatchImages::Given(input) => PassKey { count: input.count, kind: input.kind },
            BatchImages::Staged => self.staged_key()?,
        };
        if let BatchMeasure::Labels(labels, ..) = measure
            && labels.len() != key.count
        {
            return Err(GpuError::Unsupported { what: "a batch of other images than were staged" });
        }
        self.prepare(key)?;
        match images {
            BatchImages::Given(input) => {
                let views = placed(input, self.view_bytes(key));
                self.memory.images.put_at(&self.gpu, &views)?;
            }
            BatchImages::Staged => self.take_staged(key)?,
        }
        let begun = match measure {
            BatchMeasure::Labels(labels, weights, loss) => {
                self.upload_labels(key, labels, *weights, *loss, scale, seed)?;
                self.whole_graph(key)?.run()?;
                Begun::Running(self.fetch_found(key)?)
            }
            BatchMeasure::By(measure) => Begun::Done(self.accumulate_by(key, *measure, scale, seed)?),
        };
        self.queue.batches.push_back(begun);
        Ok(())
    }

    /// Waits for the first batch that was begun and not finished.
    pub(in super::super::super) fn finish(&mut self) -> Result<Accumulated, GpuError> {
        let had_step = self.queue.batches_stepped > 0;
        let begun = self.queue.batches.pop_front();
        self.queue.batches_stepped = self.queue.batches_stepped.saturating_sub(1);
        match begun {
            Some(Begun::Running(found)) => {
                let (loss, logits) = loss_and_logits(found.wait()?);
                self.queue.spare.push(found);
                self.has_gradient |= loss.is_finite() && !had_step;
                Ok(Accumulated { loss, logits })
            }
            Some(Begun::Done(given)) => Ok(given),
            None => Err(GpuError::Unsupported { what: "the end of a batch that was not begun" }),
        }
    }

    /// Whether a batch runs whose gradient no step has taken.
    fn is_adding(&self) -> bool {
        self.queue.batches.len() > self.queue.batches_stepped
    }

    /// Copies images to the GPU while it computes, for the batch that is begun next.
    pub(in super::super::super) fn stage(&mut self, input: &GpuInput<'_>) -> Result<(), GpuError> {
        let key = PassKey { count: input.count, kind: input.kind };
        let views = placed(input, self.view_bytes(key));
        let Self { gpu, memory, staged, .. } = self;
        let there =
            gpu.copy_beside(staged.taken.as_ref(), |gpu| memory.staged.put_at(gpu, &views).map(drop))?;
        staged.there = Some((key, there));
        Ok(())
    }

    /// What was staged.
    fn staged_key(&self) -> Result<PassKey, GpuError> {
        let what = "a batch of images that were not staged before it";
        self.staged.there.as_ref().map(|(key, _)| *key).ok_or(GpuError::Unsupported { what })
    }

    /// Brings staged images to where passes look for them.
    fn take_staged(&mut self, key: PassKey) -> Result<(), GpuError> {
        let Some((_, there)) = self.staged.there.take() else { return Ok(()) };
        self.gpu.wait_until(&there)?;
        let bytes = self.view_bytes(key) * self.settings.image_keys.len();
        self.memory.images.copy(&self.gpu, &self.memory.staged, bytes)?;
        self.staged.taken = Some(self.gpu.moment()?);
        Ok(())
    }

    /// What the host gives a pass beside images: labels, weights, and what is dropped.
    fn upload_labels(
        &mut self,
        key: PassKey,
        labels: &[f32],
        weights: Option<&[f32]>,
        loss: Loss,
        scale: f64,
        seed: Seed,
    ) -> Result<(), GpuError> {
        let gamma = match loss {
            Loss::Bce => -1.0,
            Loss::Focal { gamma } => gamma,
        };
        let numbers = [gamma, scale, f64::from(self.goodness())];
        let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
        let examples: Vec<[f32; 2]> =
            labels.iter().enumerate().map(|(i, label)| [*label, weight(i)]).collect();
        let host = &self.passes[&key].plan.host;
        let masks = masks(&host.masks, seed);
        let mut parts: Vec<(usize, &[u8])> = vec![
            (host.numbers, bytemuck::cast_slice(&numbers)),
            (host.examples, bytemuck::cast_slice(&examples)),
        ];
        parts.extend(masks.iter().map(|(place, mask)| (*place, bytemuck::cast_slice(mask))));
        self.memory.host.put_at(&self.gpu, &parts).map(drop)
    }

    fn accumulate_by(
        &mut self,
        key: PassKey,
        measure: &dyn Fn(&[f32]) -> BatchLoss,
        scale: f64,
        seed: Seed,
    ) -> Result<Accumulated, GpuError> {
        let host = &self.passes[&key].plan.host;
        let (good_at, gradients_at) = (host.is_good, host.logit_gradients);
        let masks = masks(&host.masks, seed);
        let parts: Vec<(usize, &[u8])> =
            masks.iter().map(|(place, mask)| (*place, bytemuck::cast_slice(mask))).collect();
        self.memory.host.put_at(&self.gpu, &parts)?;
        self.half_graphs(key)?[0].run()?;
        let found = self.fetch_found(key)?;
        let (_, logits) = loss_and_logits(found.wait()?);
        self.queue.spare.push(found);
        let BatchLoss { loss, gradients } = measure(&logits);
        if !loss.is_finite() {
            return Ok(Accumulated { loss, logits });
        }
        let gradients: Vec<f32> = gradients.into_iter().map(|gradient| (scale * gradient) as f32).collect();
        let is_good = [self.goodness()];
        let parts: [(usize, &[u8]); 2] =
            [(good_at, bytemuck::cast_slice(&is_good)), (gradients_at, bytemuck::cast_slice(&gradients))];
        self.memory.host.put_at(&self.gpu, &parts)?;
        self.half_graphs(key)?[1].run()?;
        self.has_gradient = true;
        Ok(Accumulated { loss, logits })
    }

    /// What a loss is called that is a number: see `Goodness` in `training.cu`.
    fn goodness(&self) -> i32 {
        if self.has_gradient || self.is_adding() { 1 } else { 2 }
    }

    /// Asks for the loss and the logits of the pass that was begun last.
    fn fetch_found(&mut self, key: PassKey) -> Result<FetchedBytes, GpuError> {
        let (start, count) = (self.passes[&key].plan.found, key.count * self.settings.outputs());
        let mut found = self.queue.room(&self.gpu, 16 + 4 * count)?;
        found.fetch(&self.gpu, &self.memory.activations, start)?;
        Ok(found)
    }

    fn whole_graph(&mut self, key: PassKey) -> Result<&Graph, GpuError> {
        let Self { gpu, chooser, passes, .. } = self;
        let pass = passes.get_mut(&key).unwrap_or_else(|| unreachable!("it was prepared"));
        if pass.whole.is_none() {
            let steps = || pass.plan.forward.iter().chain([&pass.plan.loss]).chain(&pass.plan.backward);
            let graph = gpu.record(|gpu| steps().try_for_each(|step| run_step(gpu, chooser, step)))?;
            pass.whole = Some(graph);
        }
        Ok(pass.whole.as_ref().unwrap_or_else(|| unreachable!("just made")))
    }

    fn half_graphs(&mut self, key: PassKey) -> Result<&[Graph; 2], GpuError> {
        let Self { gpu, chooser, passes, .. } = self;
        let pass = passes.get_mut(&key).unwrap_or_else(|| unreachable!("it was prepared"));
        if pass.halves.is_none() {
            let mut record = |steps: &[Step]| {
                gpu.record(|gpu| steps.iter().try_for_each(|step| run_step(gpu, chooser, step)))
            };
            pass.halves = Some([record(&pass.plan.forward)?, record(&pass.plan.backward)?]);
        }
        Ok(pass.halves.as_ref().unwrap_or_else(|| unreachable!("just made")))
    }

    /// The kernels of a step of the optimiser.
    fn step_kernels(&self) -> Vec<Step> {
        let Memory { arenas, means, squares, step, found, norm_partial, .. } = &self.memory;
        let gpu = &self.gpu;
        let (step, found) = (step.at(gpu), found.address(gpu));
        let count = self.layout.trained;
        let args = vec![
            Arg::At(arenas.gradients),
            int(count),
            Arg::At(step),
            Arg::At(norm_partial.address(gpu)),
            Arg::At(arenas.arrived),
            Arg::At(found),
        ];
        let shape = LaunchShape { blocks: [NORM_BLOCKS, 1, 1], threads: 256, shared: 0 };
        let norm = Step::Kernel { kernel: "gradient_norm", shape, args };
        let arrays =
            [arenas.parameters, arenas.gradients, means.address(gpu), squares.address(gpu), arenas.rounded];
        let mut args: Vec<Arg> = arrays.map(Arg::At).to_vec();
        args.extend([int(count), Arg::At(step), Arg::At(found)]);
        let adamw = Step::Kernel { kernel: "adamw", shape: threads(count / 4), args };
        [norm, adamw].into_iter().chain(self.transposing()).collect()
    }

    fn step_graph(&mut self) -> Result<&Graph, GpuError> {
        if self.step_graph.is_none() {
            let steps = self.step_kernels();
            let Self { gpu, chooser, .. } = self;
            let graph = gpu.record(|gpu| steps.iter().try_for_each(|step| run_step(gpu, chooser, step)))?;
            self.step_graph = Some(graph);
        }
        Ok(self.step_graph.as_ref().unwrap_or_else(|| unreachable!("just made")))
    }

    /// Begins to move the parameters by what was accumulated, which is then forgotten; [`finish_step`](Self::finish_step) gives what came
    /// of it. The first numbers are for a step before that moved something, the second for one that was skipped.
    pub(in super::super::super) fn begin_step(
        &mut self,
        steps: [&AdamStep; 2],
        clip: Option<f64>,
    ) -> Result<(), GpuError> {
        if !self.can_step() {
            return Err(GpuError::Unsupported { what: "a step without a gradient" });
        }
        let mut settings = vec![clip.map_or(f32::INFINITY, |clip| clip as f32)];
        settings.extend(steps.map(AdamStep::factors).as_flattened());
        self.memory.step.put(&self.gpu, &[bytemuck::cast_slice(&settings)])?;
        self.step_graph()?.run()?;
        let mut found = self.queue.room(&self.gpu, FOUND_BYTES)?;
        found.fetch(&self.gpu, &self.memory.found, 0)?;
        self.queue.steps.push_back(found);
        self.queue.batches_stepped = self.queue.batches.len();
        self.has_gradient = false;
        Ok(())
    }

    /// Whether there is something that a step would move by.
    pub(in super::super::super) fn can_step(&self) -> bool {
        self.has_gradient || self.is_adding()
    }

    /// Waits for the first step that was begun and not finished.
    pub(in super::super::super) fn finish_step(&mut self) -> Result<StepOutcome, GpuError> {
        let found = self.queue.steps.pop_front();
        let found = found.ok_or(GpuError::Unsupported { what: "the end of a step that was not begun" })?;
        let bytes = found.wait()?;
        let grad_norm: f64 = bytemuck::pod_read_unaligned(&bytes[..8]);
        let moves: i32 = bytemuck::pod_read_unaligned(&bytes[12..16]);
        self.queue.spare.push(found);
        Ok(StepOutcome { grad_norm, skipped: moves == 0 })
    }

    /// What each kernel of a step with so many images takes, and the step as a whole, each time it is run; in milliseconds.
    pub(in super::super::super) fn times(
        &mut self,
        count: usize,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<LayerTime>), GpuError> {
        let kind = super::super::launches::PixelKind::Bytes { colours_first: false };
        let key = PassKey { count, kind };
        self.prepare(key)?;
        let update = self.step_kernels();
        let Self { gpu, chooser, passes, .. } = self;
        let plan = &passes[&key].plan;
        let steps = plan.forward.iter().chain([&plan.loss]).chain(&plan.backward).chain(&update);
        let steps: Vec<&Step> = steps.collect();
        let graph = gpu.record(|gpu| steps.iter().try_for_each(|step| run_step(gpu, chooser, step)))?;
        let whole = (0..repeats).map(|_| convolution::seconds(gpu, |_| graph.run()));
        let whole = whole.map(|seconds| seconds.map(|seconds| seconds * 1e3)).collect::<Result<_, _>>()?;
        let mut layers = Vec::new();
        for step in steps {
            let alone = match step {
                Step::Beside(steps) => steps.iter().collect(),
                Step::WaitFor(_) => Vec::new(),
                Step::Conv(_) | Step::Kernel { .. } => vec![step],
            };
            for step in alone {
                let seconds = convolution::seconds(gpu, |gpu| run_step(gpu, chooser, step))?;
                layers.push(describe(gpu, chooser, step, seconds)?);
            }
        }
        Ok((whole, layers))
    }

    /// Bytes of the GPU's memory that are in use by this trainer.
    pub(in super::super::super) fn memory(&self) -> usize {
        self.memory.bytes()
    }
}

/// A classifier that learns on a GPU, as it was at a moment. It is still there.
pub(in super::super::super) struct GpuSnapshot {
    parameters: Buffer<f32>,
    statistics: Buffer<f32>,
    means: Option<Buffer<f32>>,
    squares: Option<Buffer<f32>>,
    layout: Arc<Layout>,
    /// When the copies are made.
    there: Moment,
    /// An order of its own, so that the training need not wait for it.
    gpu: Gpu,
}

impl std::fmt::Debug for GpuSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GpuSnapshot")
    }
}

/// Moments by parameter: means of gradients, and of their squares.
pub(in super::super::super) type Moments = [Vec<(Id, Vec<f32>)>; 2];

impl GpuSnapshot {
    /// Brings parameters and running statistics into those of the host; gives the moments, if it has them.
    pub(in super::super::super) fn fetch(
        &self,
        parameters: &mut Parameters,
    ) -> Result<Option<Moments>, GpuError> {
        self.gpu.wait_until(&self.there)?;
        let all = self.parameters.get(&self.gpu, self.layout.total)?;
        let statistics = self.statistics.get(&self.gpu, STATISTICS * self.layout.channels)?;
        put_parameters(&self.layout, &all, &statistics, parameters);
        let trained = |array: &Buffer<f32>| {
            Ok::<_, GpuError>(by_parameter(&self.layout, &array.get(&self.gpu, self.layout.trained)?))
        };
        match (&self.means, &self.squares) {
            (Some(means), Some(squares)) => Ok(Some([trained(means)?, trained(squares)?])),
            _ => Ok(None),
        }
    }
}

impl Drop for GpuSnapshot {
    /// The GPU may still copy.
    fn drop(&mut self) {
        let _ = self.there.wait(); // a GPU that is lost copies nothing
    }
}

/// All parameters and running statistics of a GPU into those of the host.
fn put_parameters(layout: &Layout, all: &[f32], statistics: &[f32], parameters: &mut Parameters) {
    let ids: Vec<Id> = layout.ids(false).collect();
    let numbers: Vec<Vec<f32>> = ids.par_iter().map(|id| layout.get(*id, all)).collect();
    ids.into_iter().zip(numbers).for_each(|(id, numbers)| parameters.set(id, numbers.into()));
    for (list, which) in layout.statistics.iter().zip(RUNNING) {
        for (id, channels) in list {
            let start = which as usize * layout.channels;
            let numbers = statistics[start + channels.start..start + channels.end].to_vec();
            parameters.set(*id, numbers.into());
        }
    }
}

/// An array of all that learns, by parameter.
fn by_parameter(layout: &Layout, all: &[f32]) -> Vec<(Id, Vec<f32>)> {
    let ids: Vec<Id> = layout.ids(true).collect();
    ids.into_par_iter().map(|id| (id, layout.get(id, all))).collect()
}

/// What a pass left: a loss, eight bytes that say whether it is one, and logits.
fn loss_and_logits(bytes: &[u8]) -> (f64, Vec<f32>) {
    (bytemuck::pod_read_unaligned(&bytes[..8]), bytemuck::pod_collect_to_vec(&bytes[16..]))
}

/// The images of each camera, and where they go.
fn placed<'a>(input: &'a GpuInput<'_>, view_bytes: usize) -> Vec<(usize, &'a [u8])> {
    input.views.iter().enumerate().map(|(camera, view)| (camera * view_bytes, &**view)).collect()
}

/// Running statistics, in the order of the layout.
const RUNNING: [Statistic; 2] = [Statistic::RunningMean, Statistic::RunningVariance];

/// What is dropped, place by place: as on the CPU.
fn masks(places: &[(usize, usize, f64)], seed: Seed) -> Vec<(usize, Vec<f32>)> {
    let seed = seed.purpose("dropout");
    let mask = |(i, (place, count, share)): (usize, &(usize, usize, f64))| {
        (*place, dropout_mask(seed.index(i as u64), *share, *count))
    };
    places.iter().enumerate().map(mask).collect()
}

impl Memory {
    fn open(
        &mut self,
        gpu: &Gpu,
        layout: &Layout,
        precision: Precision,
        byte_table: &[f32],
    ) -> Result<(), GpuError> {
        let number_bytes = if precision == Precision::Fp32 { 4 } else { 2 };
        let rounded = if precision == Precision::Fp32 { 0 } else { layout.total * number_bytes };
        let transposed = layout.transposed * number_bytes;
        check_memory(gpu, (layout.total + 3 * layout.trained) * 4 + rounded + transposed)?;
        let parameters = self.parameters.of(gpu, layout.total)?;
        self.means.zeroed(gpu, layout.trained)?;
        self.squares.zeroed(gpu, layout.trained)?;
        let squares: Vec<i32> = layout.squares.concat();
        self.squares_of_weights.put(gpu, &squares)?;
        self.step.reserve(gpu, 4 * STEP_NUMBERS)?;
        self.found.zeroed(gpu, FOUND_BYTES)?;
        self.norm_partial.of(gpu, 2 * NORM_BLOCKS)?;
        self.arenas = Arenas {
            parameters,
            gradients: self.gradients.zeroed(gpu, layout.trained)?,
            rounded: if rounded == 0 { parameters } else { self.rounded.of(gpu, rounded)? },
            transposed: self.transposed.of(gpu, transposed)?,
            statistics: self.statistics.of(gpu, STATISTICS * layout.channels)?,
            byte_table: self.byte_table.put(gpu, byte_table)?,
            arrived: self.arrived.zeroed(gpu, MOST_BLOCKS + SHARED_TILES)?,
        };
        gpu.wait()
    }

    fn bytes(&self) -> usize {
        let floats = [
            &self.parameters,
            &self.gradients,
            &self.means,
            &self.squares,
            &self.statistics,
            &self.byte_table,
            &self.partial,
            &self.norm_partial,
        ];
        let bytes = [&self.rounded, &self.transposed, &self.found, &self.activations];
        4 * floats.into_iter().map(Buffer::len).sum::<usize>()
            + bytes.into_iter().map(Buffer::len).sum::<usize>()
            + 4 * (self.squares_of_weights.len() + self.arrived.len())
            + self.step.bytes()
            + self.images.bytes()
            + self.staged.bytes()
            + self.host.bytes()
    }
}
