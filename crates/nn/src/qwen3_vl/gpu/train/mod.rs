//! Training of adapters on an NVIDIA GPU: the base is frozen in bf16, adapters are floats.
//!
//! A step is a forward pass, the loss of the answers' tokens (logits of others are never made), and a backward pass through
//! everything that lies behind an adapter: the vision tower only if it has some. Matrix products are cuBLASLt's, all else
//! are kernels of our own. Nothing depends on the order in which threads come: the same batches give the same bits.
//!
//! | file | what |
//! |---|---|
//! | `adapters.rs` | adapters and AdamW |
//! | `activations.rs` | where activations lie, and how much memory they take |
//! | `linear.rs`, `attention.rs` | linear layers with adapters; the backward pass of attention |
//! | `text.rs`, `vision.rs` | the two halves of the network, forward and backward |
//! | `backward.cu`, `attention_backward.cu`, `kernels.rs` | the kernels |

mod activations;
mod adapters;
mod attention;
mod kernels;
mod linear;
mod text;
mod vision;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::cache::ScoreCache;
use super::super::config::Family;
use super::super::error::VlmError;
use super::super::forward::Architecture;
use super::super::load::ModelWeights;
use super::super::network;
use super::super::processor::Inputs;
use super::super::text::frequencies;
use super::super::train::{Example, LoraLayer, Recompute};
use super::batch::{Batch, Sequence};
use super::engine::{ActivationBuffers, Engine};
use super::parameters::{MatrixBits, Parameters};
use super::vision::FramePair;
use super::{Reuse, check_sizes, pairs_of};
use crate::classifier::{AdamW, Id, Spec, StepOutcome};
use crate::gpu::{Address, Buffer, Cublas, Gpu, GpuError, Moment};
use crate::weights::{Array, Weights};
use activations::{Activations, BatchSize, Columns, Keep};
use adapters::{AdapterLayout, Adapters, Touched};
use linear::LoraLinear;
use text::{Targets, TextLayer};
use vision::{VisionBlock, VisionLayers, VisionMerger};

/// Tokens that go through the network at once where nothing is trained.
const EVAL_TOKENS: usize = 4096;
/// Memory that is left for what libraries and the driver take.
const SPARE: usize = 256 << 20;

/// Names of the optimizer's tensors in a saved state, as those of the CPU.
const STEPS: &str = "optimizer.step";
const FIRST: &str = "optimizer.exp_avg.";
const SECOND: &str = "optimizer.exp_avg_sq.";

/// A model in training on a GPU.
pub(in super::super) struct GpuTrainer {
    engine: Mutex<TrainEngine>,
    /// All parameters; the adapters' are the last.
    specs: Vec<Spec>,
}

/// All that a step needs.
struct TrainEngine {
    engine: Engine,
    adapters: Adapters,
    columns: Columns,
    layers: Vec<TextLayer>,
    head: LoraLinear,
    vision: VisionLayers,
    /// Memory for activations.
    memory: Buffer<u8>,
    pair_lists: Buffer<i32>,
    recompute: Recompute,
    /// When the columns of adapters are copied that are being kept for the backward pass.
    copied: Option<Moment>,
}

/// What a trainer is made of.
pub(in super::super) struct TrainerParts<'a> {
    pub(in super::super) architecture: &'a Architecture,
    pub(in super::super) weights: &'a ModelWeights,
    /// Specifications of all parameters, adapters included.
    pub(in super::super) specs: Vec<Spec>,
    pub(in super::super) lora_layers: &'a [Option<LoraLayer>],
    pub(in super::super) settings: AdamW,
}

impl GpuTrainer {
    /// From weights that were checked. `first` gives the adapters' initial numbers.
    pub(in super::super) fn open(
        index: usize,
        parts: TrainerParts<'_>,
        first: impl Fn(&Spec) -> Vec<f32>,
    ) -> Result<Self, GpuError> {
        let TrainerParts { architecture, weights, specs, lora_layers, settings } = parts;
        let Architecture { config, network, .. } = architecture;
        if config.family != Family::Qwen3Vl {
            return Err(GpuError::Unsupported { what: "training of models other than dense Qwen3-VL" });
        }
        check_sizes(config)?;
        let mut gpu = Gpu::open(index)?;
        let layout = AdapterLayout::new(network, lora_layers);
        let extra = |linear: &network::Linear| adapters::columns(lora_layers[linear.index].as_ref());
        check_memory(&gpu, frozen_bytes(network, &specs, &extra) + layout.bytes())?;
        super::kernels::compile(&mut gpu, config)?;
        kernels::compile(&mut gpu, config)?;
        let parameters =
            Parameters::load_with(&gpu, network, &specs, weights, None, &extra, MatrixBits::Bf16)?;
        let of = |linear: &network::Linear, base| LoraLinear { base, group: layout.group(linear) };
        let layers = network.text.layers.iter().zip(&parameters.layers);
        let layers: Vec<TextLayer> = layers.map(|(layer, loaded)| text_layer(layer, loaded, &of)).collect();
        let head = of(&network.text.head, parameters.head);
        let vision = vision_layers(&network.vision, &parameters, &of);
        let columns = Columns::of(&parameters);
        let weights = trained_linears(&layers, &head, &vision);
        let mut adapters = Adapters::new(&mut gpu, layout, settings, weights)?;
        let numbers = adapters.layout.pack(|id| Some(first(&specs[id.0])));
        adapters.put(&mut gpu, &numbers)?;
        let (axes, inv_freq): (Vec<i32>, Vec<f32>) =
            frequencies(&config.text).into_iter().map(|(axis, frequency)| (axis as i32, frequency)).unzip();
        let mut engine = Engine {
            config: config.clone(),
            parameters,
            buffers: ActivationBuffers::default(),
            patch_positions: HashMap::new(),
            prefix: None,
            frequencies: Buffer::default(),
            axes: Buffer::default(),
            cublas: Cublas::new(&gpu)?,
            gpu,
        };
        engine.frequencies.put(&engine.gpu, &inv_freq)?;
        engine.axes.put(&engine.gpu, &axes)?;
        let engine = TrainEngine {
            engine,
            adapters,
            columns,
            layers,
            head,
            vision,
            memory: Buffer::default(),
            pair_lists: Buffer::default(),
            recompute: Recompute::Auto,
            copied: None,
        };
        Ok(Self { engine: Mutex::new(engine), specs })
    }

    fn lock(&self) -> MutexGuard<'_, TrainEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in super::super) fn set_recompute(&mut self, recompute: Recompute) {
        self.lock().recompute = recompute;
    }

    /// Makes room for a step of so many windows like this one. Says whether layers are computed twice to save memory.
    pub(in super::super) fn reserve(
        &mut self,
        architecture: &Architecture,
        example: &Example,
        windows: usize,
    ) -> Result<bool, GpuError> {
        let mut size = batch_size(architecture, std::slice::from_ref(&example.inputs), example.targets.len());
        for part in [&mut size.tokens, &mut size.targets, &mut size.patches] {
            *part *= windows;
        }
        let (activations, _) = self.lock().make_room(size)?;
        Ok(activations.keep == Keep::LayerInputs)
    }

    /// Adds `scale` times the gradient of the batch's loss, and gives the loss.
    pub(in super::super) fn accumulate(
        &mut self,
        architecture: &Architecture,
        examples: &[Example],
        scale: f64,
    ) -> Result<f64, VlmError> {
        self.lock().accumulate(architecture, examples, Some(scale))
    }

    /// The loss of examples.
    pub(in super::super) fn loss(
        &self,
        architecture: &Architecture,
        examples: &[Example],
    ) -> Result<f64, VlmError> {
        self.lock().accumulate(architecture, examples, None)
    }

    pub(in super::super) fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, GpuError> {
        let engine = &mut *self.lock();
        engine.adapters.step(&mut engine.engine.gpu, lr, clip)
    }

    /// For each prompt, the logits of these tokens as the next one.
    pub(in super::super) fn label_logits(
        &self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        architecture.check_labels(labels)?;
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        if let Some(i) = inputs.iter().position(Inputs::is_empty) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let (mut engine, mut rest, mut logits) = (self.lock(), inputs, Vec::with_capacity(inputs.len()));
        while !rest.is_empty() {
            let (now, later) = rest.split_at(super::prompts_per_batch(rest, EVAL_TOKENS));
            logits.extend(engine.label_logits_of(architecture, now, labels)?);
            rest = later;
        }
        Ok(logits)
    }

    /// The adapters' numbers, by parameter.
    pub(in super::super) fn values(&self) -> Result<Vec<(Id, Vec<f32>)>, GpuError> {
        let engine = self.lock();
        Ok(engine.adapters.layout.unpack(&engine.adapters.values(&engine.engine.gpu)?))
    }

    /// The accumulated gradients, by parameter.
    pub(in super::super) fn gradients(&self) -> Result<Weights, GpuError> {
        let engine = self.lock();
        let gradients = engine.adapters.layout.unpack(&engine.adapters.gradients(&engine.engine.gpu)?);
        Ok(self.named(gradients, ""))
    }

    fn named(&self, numbers: Vec<(Id, Vec<f32>)>, prefix: &str) -> Weights {
        let mut weights = Weights::new();
        for (spec, numbers) in adapters::named(&self.specs, numbers) {
            weights.insert_f32(format!("{prefix}{}", spec.name), &spec.shape, &numbers);
        }
        weights
    }

    /// Replaces the adapters' numbers, by parameter; with scales, if they come from elsewhere.
    pub(in super::super) fn put(
        &mut self,
        numbers: &HashMap<usize, Vec<f32>>,
        scales: &[(Id, f64)],
    ) -> Result<(), GpuError> {
        let engine = &mut *self.lock();
        for (down, scale) in scales {
            engine.adapters.layout.set_scale(*down, *scale);
        }
        let packed = engine.adapters.layout.pack(|id| numbers.get(&id.0).cloned());
        engine.adapters.put(&mut engine.engine.gpu, &packed)
    }

    /// Adapters and the optimizer's state, in the names and shapes of the CPU's.
    pub(in super::super) fn state(&self) -> Result<Weights, GpuError> {
        let mut state = self.named(self.values()?, "");
        let (steps, moments, layout) = {
            let engine = self.lock();
            let (steps, moments) = engine.adapters.moments(&engine.engine.gpu)?;
            (steps, moments, engine.adapters.layout.clone())
        };
        state.insert(STEPS, Array::from_number(i64::from(steps)));
        for (prefix, moment) in [FIRST, SECOND].into_iter().zip(moments) {
            for (name, tensor) in self.named(layout.unpack(&moment), prefix).iter() {
                state.insert(name, tensor.clone());
            }
        }
        Ok(state)
    }

    /// Takes the optimizer's state from a saved one; what is not there begins anew.
    pub(in super::super) fn restore_optimizer(&mut self, state: &Weights) -> Result<(), GpuError> {
        let steps = state.get(STEPS).and_then(Array::to_f32).and_then(|steps| steps.first().copied());
        let engine = &mut *self.lock();
        let moments = [FIRST, SECOND].map(|prefix| {
            engine.adapters.layout.pack(|id| state.f32(&format!("{prefix}{}", self.specs[id.0].name)))
        });
        let steps = steps.unwrap_or(0.0) as u32;
        engine.adapters.put_moments(&engine.engine.gpu, steps, [&moments[0], &moments[1]])
    }

    /// Milliseconds and calls of each kernel and kind of product in what `work` does, the longest first.
    pub(in super::super) fn profile(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), VlmError>,
    ) -> Result<Vec<(String, f64, usize)>, VlmError> {
        self.lock().engine.gpu.start_profiling()?;
        let done = work(self);
        let times = self.lock().engine.gpu.stop_profiling()?;
        done?;
        Ok(times)
    }

    pub(in super::super) fn wait(&self) -> Result<(), GpuError> {
        self.lock().engine.gpu.wait()
    }

    /// Bytes of the GPU's memory that are in use, by anybody.
    pub(in super::super) fn used_memory(&self) -> Result<usize, GpuError> {
        let (free, total) = self.lock().engine.gpu.memory()?;
        Ok(total - free)
    }
}

impl TrainEngine {
    /// The layout of a batch's activations, and memory for them. With too little of it, layers are computed twice if that may be
    /// chosen here.
    fn make_room(&mut self, size: BatchSize) -> Result<(Activations, Address), GpuError> {
        let lay_out = |keep| Activations::lay_out(&self.engine.config, &self.columns, size, keep);
        let (free, total) = self.engine.gpu.memory()?;
        let there = (free + self.memory.len()).saturating_sub(SPARE);
        let activations = match self.recompute {
            Recompute::Never => lay_out(Keep::Everything),
            Recompute::Always => lay_out(Keep::LayerInputs),
            Recompute::Auto => {
                let all = lay_out(Keep::Everything);
                if all.bytes <= there { all } else { lay_out(Keep::LayerInputs) }
            }
        };
        if activations.bytes > there.max(self.memory.len()) {
            return Err(GpuError::Memory { needed: activations.bytes + SPARE, free, total });
        }
        let memory = self.memory.of(&self.engine.gpu, activations.bytes)?;
        Ok((activations, memory))
    }

    fn accumulate(
        &mut self,
        architecture: &Architecture,
        examples: &[Example],
        scale: Option<f64>,
    ) -> Result<f64, VlmError> {
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let count: usize = examples.iter().map(|example| example.targets.len()).sum();
        refuse_repeated_targets(examples)?;
        let (activations, memory) = self.make_room(batch_size(architecture, &inputs, count))?;
        let (sequences, visual) = self.encode_visuals(architecture, &inputs, &activations, memory)?;
        let mut batch = Batch::new(&sequences, &[], |id| architecture.is_visual_token(id));
        let firsts = sequences.iter().scan(0, |next, sequence| {
            let first = *next;
            *next += sequence.inputs.len();
            Some(first)
        });
        let firsts: Vec<usize> = firsts.collect();
        let placed = examples.iter().zip(&firsts);
        let placed = placed
            .flat_map(|(example, first)| example.targets.iter().map(move |(at, token)| (first + at, *token)));
        let placed: Vec<(usize, u32)> = placed.collect();
        let targets = Targets {
            rows: batch.lists.add(placed.iter().map(|target| target.0)),
            tokens: batch.lists.add(placed.iter().map(|target| target.1 as usize)),
        };
        let pass = self.embed(&batch, &activations, memory, visual.rows)?;
        self.text_forward(&pass)?;
        let factor = scale.map(|scale| (scale / count as f64) as f32);
        let losses = self.losses(&pass, targets, factor)?;
        let loss = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / count as f64;
        if scale.is_none() || !loss.is_finite() {
            return Ok(loss);
        }
        let d_visual = visual.pass.as_ref().zip(activations.vision.as_ref());
        let d_visual = d_visual.map(|(_, vision)| vision.d_visual.at(memory));
        self.text_backward(&pass, d_visual)?;
        if let Some((vision, d_visual)) = visual.pass.as_ref().zip(d_visual) {
            self.vision_backward(vision, d_visual)?;
            self.adapters.touched = Touched::All;
        }
        Ok(loss)
    }

    fn label_logits_of(
        &mut self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let size = batch_size(architecture, inputs, inputs.len());
        let activations = Activations::lay_out(&self.engine.config, &self.columns, size, Keep::Nothing);
        let (free, total) = self.engine.gpu.memory()?;
        if activations.bytes > free + self.memory.len() {
            return Err(GpuError::Memory { needed: activations.bytes, free, total }.into());
        }
        let memory = self.memory.of(&self.engine.gpu, activations.bytes)?;
        let (sequences, visual) = self.encode_visuals(architecture, inputs, &activations, memory)?;
        let batch = Batch::new(&sequences, labels, |id| architecture.is_visual_token(id));
        let pass = self.embed(&batch, &activations, memory, visual.rows)?;
        self.text_forward(&pass)?;
        let logits = self.label_logits(&pass, batch.last, batch.labels)?;
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// Images and videos to visual embeddings, and sequences that know their rows.
    fn encode_visuals<'a, 'b>(
        &mut self,
        architecture: &Architecture,
        inputs: &'a [Inputs],
        activations: &'b Activations,
        memory: Address,
    ) -> Result<(Vec<Sequence<'a>>, EncodedVisuals<'b>), GpuError> {
        let merged = self.engine.config.vision.merged();
        let (embeds, visual): (Vec<(usize, usize)>, EncodedVisuals<'b>) = match &activations.vision {
            // Frozen, its output is a constant: equal pairs are encoded once, and nothing is kept.
            None => {
                let mut no_cache = ScoreCache::new(0);
                let reuse = &mut Reuse::Cached(&mut no_cache);
                let (embeds, rows) = self.engine.encode_visuals(architecture, inputs, reuse)?;
                (embeds, EncodedVisuals { rows, pass: None })
            }
            Some(vision) => {
                let pairs: Vec<FramePair<'_>> =
                    inputs.iter().flat_map(|input| &input.visuals).flat_map(pairs_of).collect();
                let mean_and_std = |kind| architecture.processor.mean_and_std(kind);
                let (pass, firsts) =
                    self.vision_forward(&pairs, vision, memory, activations.keep, mean_and_std)?;
                let embeds = firsts.into_iter().zip(&pairs).map(|(first, pair)| (first, pair.patches()));
                (embeds.collect(), EncodedVisuals { rows: pass.visual_rows, pass: Some(pass) })
            }
        };
        let mut embeds = embeds.into_iter();
        let sequence = |inputs: &'a Inputs| {
            let count = inputs.visuals.iter().map(|visual| visual.grid[0]).sum();
            let rows =
                embeds.by_ref().take(count).flat_map(|(first, patches)| first..first + patches / merged);
            Sequence { inputs, from: 0, to: inputs.len(), visual_embeds: rows.collect() }
        };
        Ok((inputs.iter().map(sequence).collect(), visual))
    }
}

/// What came of a batch's images.
struct EncodedVisuals<'a> {
    /// Rows of each level of visual embeddings.
    rows: usize,
    /// For the backward pass, if the tower is trained.
    pass: Option<vision::VisionPass<'a>>,
}

fn batch_size(architecture: &Architecture, inputs: &[Inputs], targets: usize) -> BatchSize {
    let visuals = inputs.iter().flat_map(|input| &input.visuals);
    BatchSize {
        tokens: inputs.iter().map(Inputs::len).sum(),
        targets,
        patches: visuals
            .map(|visual| architecture.tokens_of(visual) * architecture.config.vision.merged())
            .sum(),
    }
}

fn refuse_repeated_targets(examples: &[Example]) -> Result<(), VlmError> {
    for (i, example) in examples.iter().enumerate() {
        let mut places: Vec<usize> = example.targets.iter().map(|target| target.0).collect();
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0] == pair[1]) {
            let place = pair[0];
            let what =
                format!("example {i} has two targets after position {place}, which a GPU does not take");
            return Err(VlmError::Input(what));
        }
    }
    Ok(())
}

/// Bytes of the frozen weights: matrices in bf16 with columns for adapters; a table that is read as a head too counts once.
fn frozen_bytes(
    network: &network::Network,
    specs: &[Spec],
    extra: &dyn Fn(&network::Linear) -> usize,
) -> usize {
    let base = specs.iter().filter(|spec| !spec.name.contains(".lora_"));
    let columns = network.all_linears().into_iter().map(|linear| linear.outputs * extra(linear));
    // Layers of a group have each other's columns too.
    let shared = network.text.layers.iter().map(|layer| {
        let group = |layers: &[&network::Linear]| {
            let all: usize = layers.iter().map(|layer| extra(layer)).sum();
            layers.iter().map(|layer| layer.outputs * (all - extra(layer))).sum::<usize>()
        };
        let mlp = layer.dense();
        group(&[&layer.q, &layer.k, &layer.v]) + group(&[&mlp.gate, &mlp.up])
    });
    let numbers = base.map(Spec::len).sum::<usize>() + columns.sum::<usize>() + shared.sum::<usize>();
    numbers * size_of::<u16>()
}

fn check_memory(gpu: &Gpu, needed: usize) -> Result<(), GpuError> {
    let (free, total) = gpu.memory()?;
    match needed + SPARE > free {
        true => Err(GpuError::Memory { needed: needed + SPARE, free, total }),
        false => Ok(()),
    }
}

fn text_layer(
    layer: &network::Layer,
    loaded: &super::parameters::Layer,
    of: &dyn Fn(&network::Linear, super::parameters::Linear) -> LoraLinear,
) -> TextLayer {
    TextLayer {
        norm1: loaded.norm1,
        qkv: of(&layer.q, loaded.qkv),
        q_norm: loaded.q_norm,
        k_norm: loaded.k_norm,
        o: of(&layer.o, loaded.o),
        norm2: loaded.norm2,
        gate_up: of(&layer.dense().gate, loaded.gate_up),
        down: of(&layer.dense().down, loaded.down),
    }
}

fn vision_layers(
    vision: &network::Vision,
    parameters: &Parameters,
    of: &dyn Fn(&network::Linear, super::parameters::Linear) -> LoraLinear,
) -> VisionLayers {
    let blocks = vision.blocks.iter().zip(&parameters.blocks).map(|(block, loaded)| VisionBlock {
        norm1: loaded.norm1,
        qkv: of(&block.qkv, loaded.qkv),
        proj: of(&block.proj, loaded.proj),
        norm2: loaded.norm2,
        fc1: of(&block.fc1, loaded.fc1),
        fc2: of(&block.fc2, loaded.fc2),
    });
    let mergers = std::iter::once((&vision.merger, &parameters.merger))
        .chain(vision.deepstack.iter().zip(&parameters.deepstack))
        .map(|(merger, loaded)| VisionMerger {
            norm: loaded.norm,
            fc1: of(&merger.fc1, loaded.fc1),
            fc2: of(&merger.fc2, loaded.fc2),
        });
    VisionLayers {
        patch: of(&vision.patch, parameters.patch),
        blocks: blocks.collect(),
        mergers: mergers.collect(),
    }
}

/// Every layer that has adapters, and these.
fn trained_linears(
    layers: &[TextLayer],
    head: &LoraLinear,
    vision: &VisionLayers,
) -> Vec<(super::parameters::Linear, adapters::Group)> {
    let text = layers.iter().flat_map(|layer| [&layer.qkv, &layer.o, &layer.gate_up, &layer.down]);
    let blocks = vision.blocks.iter().flat_map(|block| [&block.qkv, &block.proj, &block.fc1, &block.fc2]);
    let mergers = vision.mergers.iter().flat_map(|merger| [&merger.fc1, &merger.fc2]);
    let all = text.chain([head, &vision.patch]).chain(blocks).chain(mergers);
    all.filter(|linear| linear.base.extra > 0).map(|linear| (linear.base, linear.group.clone())).collect()
}
