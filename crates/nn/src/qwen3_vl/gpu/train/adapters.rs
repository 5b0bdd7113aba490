//! Adapters in training: their numbers, gradients and running means on the GPU, and steps of AdamW.
//!
//! A linear layer with an adapter computes `y = [x, h] [W, s B]^T` with `h = x A^T`: the second matrix of the adapter lies beside
//! the frozen weights, so that one product does both, in the backward pass too. Layers that take the same numbers (queries, keys
//! and values; gate and up) are one group: their `A` lie below one another. Trained numbers are floats; what products read are
//! bf16 copies of them, made after each step. Ranks are filled up with zeros to a multiple of eight, which stay zeros.

use std::collections::BTreeMap;

use cudarc::driver::CudaSlice;

use super::super::super::network::{self, Network};
use super::super::super::train::LoraLayer;
use super::super::parameters::Linear;
use crate::classifier::{AdamW, Id, Spec, StepOutcome};
use crate::gpu::{Address, Arg, Buffer, Gpu, GpuError, LaunchShape};
use crate::kernels::adam::{AdamStep, Factors};

/// What ranks are filled up to a multiple of.
const EIGHT: usize = 8;
/// Blocks whose sums of squares the CPU adds up.
const SQUARES_BLOCKS: usize = 1024;

/// The columns that the adapter of a layer has beside the inputs' columns.
pub(super) fn columns(lora: Option<&LoraLayer>) -> usize {
    lora.map_or(0, |lora| lora.rank.next_multiple_of(EIGHT))
}

/// The adapters of layers that take the same numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Where their `A` are among the trained numbers, `[columns, inputs]`.
    pub(super) down: usize,
    pub(super) members: Vec<Member>,
}

/// The adapter of a layer.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Where its `B` is among the trained numbers, `[outputs, columns]`.
    pub(super) up: usize,
    /// Its columns: the first among the group's, how many, and how many of them are no filling.
    pub(super) first_column: usize,
    pub(super) columns: usize,
    rank: usize,
    /// Its outputs: the first among the group's, and how many.
    pub(super) first_output: usize,
    pub(super) outputs: usize,
    inputs: usize,
    down_id: Id,
    up_id: Id,
}

/// Which numbers an optimizer step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// Those of the language model; no batch had an image.
    Text,
    All,
}

/// Where the adapters of a network lie: first all `A`, then all `B`, in either those of the vision tower last.
#[derive(Clone, Debug, Default)]
pub(super) struct AdapterLayout {
    /// By the first of a group's linear layers.
    groups: BTreeMap<usize, Group>,
    /// The scale of each adapter, by its `A`.
    scales: BTreeMap<usize, f32>,
    /// Numbers in all `A` of the language model, in all `A`, in those and all `B` of the language model, and in all.
    ends: [usize; 4],
}

impl AdapterLayout {
    pub(super) fn new(network: &Network, lora_layers: &[Option<LoraLayer>]) -> Self {
        let scales = lora_layers.iter().flatten().map(|lora| (lora.down.0, lora.scale as f32)).collect();
        let mut layout = Self { scales, ..Self::default() };
        let mut next = 0;
        let (text, vision) = (text_groups(network), vision_groups(network));
        for (part, end) in [(&text, 0), (&vision, 1)] {
            for layers in part {
                let group = group_of(layers, lora_layers, next);
                next += group.members.iter().map(|member| member.columns * member.inputs).sum::<usize>();
                layout.groups.insert(layers[0].index, group);
            }
            layout.ends[end] = next;
        }
        for (part, end) in [(&text, 2), (&vision, 3)] {
            for layers in part {
                let group = layout.groups.entry(layers[0].index).or_default();
                for member in &mut group.members {
                    member.up = next;
                    next += member.outputs * member.columns;
                }
            }
            layout.ends[end] = next;
        }
        layout
    }

    /// The group that begins with a layer.
    pub(super) fn group(&self, first: &network::Linear) -> Group {
        self.groups.get(&first.index).cloned().unwrap_or_default()
    }

    /// Numbers of all adapters, fillings included.
    pub(super) fn len(&self) -> usize {
        self.ends[3]
    }

    /// Bytes on the GPU beside the frozen weights: numbers, gradients, two running means, and copies of all `A`.
    pub(super) fn bytes(&self) -> usize {
        4 * self.len() * size_of::<f32>() + self.ends[1] * size_of::<u16>()
    }

    fn members(&self) -> impl Iterator<Item = (&Group, &Member)> {
        self.groups.values().flat_map(|group| group.members.iter().map(move |member| (group, member)))
    }

    /// Numbers by parameter to all of them as they lie on the GPU.
    pub(super) fn pack(&self, numbers_of: impl Fn(Id) -> Option<Vec<f32>>) -> Vec<f32> {
        let mut all = vec![0.0; self.len()];
        for (group, member) in self.members() {
            if let Some(down) = numbers_of(member.down_id) {
                all[group.down + member.first_column * member.inputs..][..down.len()].copy_from_slice(&down);
            }
            if let Some(up) = numbers_of(member.up_id) {
                let rows = all[member.up..].chunks_exact_mut(member.columns);
                rows.zip(up.chunks_exact(member.rank))
                    .for_each(|(row, up)| row[..member.rank].copy_from_slice(up));
            }
        }
        all
    }

    /// The parts of all numbers that are those of each parameter.
    pub(super) fn unpack(&self, all: &[f32]) -> Vec<(Id, Vec<f32>)> {
        let mut found = Vec::new();
        for (group, member) in self.members() {
            let down =
                &all[group.down + member.first_column * member.inputs..][..member.rank * member.inputs];
            found.push((member.down_id, down.to_vec()));
            let rows = all[member.up..].chunks_exact(member.columns).take(member.outputs);
            found.push((member.up_id, rows.flat_map(|row| row[..member.rank].iter().copied()).collect()));
        }
        found
    }

    /// Ranges of numbers that a step changes.
    fn ranges(&self, touched: Touched) -> Vec<[usize; 2]> {
        let [down_text, down, up_text, all] = self.ends;
        match touched {
            Touched::All => vec![[0, all]],
            Touched::Text => vec![[0, down_text], [down, up_text]],
        }
    }

    /// What `B` is multiplied with.
    pub(super) fn scale(&self, member: &Member) -> f32 {
        self.scales.get(&member.down_id.0).copied().unwrap_or(1.0)
    }

    /// Replaces the scale of the adapter with this `A`.
    pub(super) fn set_scale(&mut self, down: Id, scale: f64) {
        self.scales.insert(down.0, scale as f32);
    }
}

fn group_of(layers: &[&network::Linear], lora_layers: &[Option<LoraLayer>], down: usize) -> Group {
    let mut group = Group { down, members: Vec::new() };
    let (mut first_column, mut first_output) = (0, 0);
    for layer in layers {
        if let Some(lora) = &lora_layers[layer.index] {
            let columns = columns(Some(lora));
            group.members.push(Member {
                up: 0,
                first_column,
                columns,
                rank: lora.rank,
                first_output,
                outputs: layer.outputs,
                inputs: layer.inputs,
                down_id: lora.down,
                up_id: lora.up,
            });
            first_column += columns;
        }
        first_output += layer.outputs;
    }
    group
}

/// Layers that take the same numbers, as `parameters.rs` has them below one another.
fn text_groups(network: &Network) -> Vec<Vec<&network::Linear>> {
    let layers = network.text.layers.iter().flat_map(|layer| {
        let mlp = layer.dense();
        [vec![&layer.q, &layer.k, &layer.v], vec![&layer.o], vec![&mlp.gate, &mlp.up], vec![&mlp.down]]
    });
    layers.chain([vec![&network.text.head]]).collect()
}

fn vision_groups(network: &Network) -> Vec<Vec<&network::Linear>> {
    let vision = &network.vision;
    let blocks = vision.blocks.iter().flat_map(|block| [&block.qkv, &block.proj, &block.fc1, &block.fc2]);
    let mergers = std::iter::once(&vision.merger).chain(&vision.deepstack);
    let mergers = mergers.flat_map(|merger| [&merger.fc1, &merger.fc2]);
    [&vision.patch].into_iter().chain(blocks).chain(mergers).map(|layer| vec![layer]).collect()
}

/// Adapters on the GPU.
pub(super) struct Adapters {
    pub(super) layout: AdapterLayout,
    settings: AdamW,
    steps: u32,
    values: CudaSlice<f32>,
    gradients: CudaSlice<f32>,
    means: CudaSlice<f32>,
    squares: CudaSlice<f32>,
    /// Copies of all `A`.
    rounded: CudaSlice<u16>,
    sums: CudaSlice<f64>,
    /// Where the copies of `B` go: the weights of each group.
    weights: Vec<(Linear, Group)>,
    /// For each copy of a `B`, `RoundedRows` of `backward.cu`; how many there are, and the most numbers of one.
    ups: Buffer<u64>,
    up_count: usize,
    longest_up: usize,
    pub(super) touched: Touched,
}

/// Fields of `RoundedRows`.
const ROUNDED_FIELDS: usize = 6;

impl Adapters {
    /// `weights` are the groups with the layers whose columns are theirs.
    pub(super) fn new(
        gpu: &mut Gpu,
        layout: AdapterLayout,
        settings: AdamW,
        weights: Vec<(Linear, Group)>,
    ) -> Result<Self, GpuError> {
        let count = layout.len();
        let zeros = |gpu: &Gpu| {
            let mut room = gpu.alloc(count)?;
            gpu.stream.memset_zeros(&mut room).map_err(GpuError::failed("clearing memory"))?;
            Ok::<_, GpuError>(room)
        };
        Ok(Self {
            settings,
            steps: 0,
            values: zeros(gpu)?,
            gradients: zeros(gpu)?,
            means: zeros(gpu)?,
            squares: zeros(gpu)?,
            rounded: gpu.alloc(layout.ends[1])?,
            sums: gpu.alloc(SQUARES_BLOCKS)?,
            weights,
            ups: Buffer::default(),
            up_count: 0,
            longest_up: 0,
            touched: Touched::Text,
            layout,
        })
    }

    /// The copy of a group's `A`.
    pub(super) fn down(&self, gpu: &Gpu, group: &Group) -> Address {
        gpu.address(&self.rounded).plus(group.down)
    }

    /// The gradient of the number at a place.
    pub(super) fn gradient(&self, gpu: &Gpu, place: usize) -> Address {
        gpu.address(&self.gradients).plus_ints(place)
    }

    /// Replaces all numbers.
    pub(super) fn put(&mut self, gpu: &mut Gpu, numbers: &[f32]) -> Result<(), GpuError> {
        copy_to(gpu, numbers, &mut self.values)?;
        self.list_ups(gpu)?;
        self.round(gpu)
    }

    /// Says what is copied where, and how many times as large: scales may have changed.
    fn list_ups(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let values = gpu.address(&self.values);
        let members = self.weights.iter().flat_map(|(linear, group)| {
            group.members.iter().map(move |member| (linear, member, member.outputs * member.columns))
        });
        let (mut fields, mut longest) = (Vec::new(), 0);
        for (linear, member, count) in members {
            let place = member.first_output * linear.stride() + linear.inputs + member.first_column;
            let (from, to) = (values.plus_ints(member.up), linear.weight.plus(place));
            let sizes = [linear.stride(), member.columns, count].map(|size| size as u64);
            let factor = f64::from(self.layout.scale(member)).to_bits();
            fields.extend([from.0, to.0].into_iter().chain(sizes).chain([factor]));
            longest = longest.max(count);
        }
        (self.up_count, self.longest_up) = (fields.len() / ROUNDED_FIELDS, longest);
        self.ups.put(gpu, &fields)?;
        gpu.wait()
    }

    /// Replaces the running means and the number of steps.
    pub(super) fn put_moments(
        &mut self,
        gpu: &Gpu,
        steps: u32,
        moments: [&[f32]; 2],
    ) -> Result<(), GpuError> {
        self.steps = steps;
        copy_to(gpu, moments[0], &mut self.means)?;
        copy_to(gpu, moments[1], &mut self.squares)
    }

    pub(super) fn values(&self, gpu: &Gpu) -> Result<Vec<f32>, GpuError> {
        copy_from(gpu, &self.values)
    }

    pub(super) fn gradients(&self, gpu: &Gpu) -> Result<Vec<f32>, GpuError> {
        copy_from(gpu, &self.gradients)
    }

    /// Steps so far, and the two running means.
    pub(super) fn moments(&self, gpu: &Gpu) -> Result<(u32, [Vec<f32>; 2]), GpuError> {
        Ok((self.steps, [copy_from(gpu, &self.means)?, copy_from(gpu, &self.squares)?]))
    }

    /// Copies all numbers to where products read them.
    fn round(&self, gpu: &mut Gpu) -> Result<(), GpuError> {
        let values = gpu.address(&self.values);
        let downs = self.layout.ends[1];
        if downs > 0 {
            let to = gpu.address(&self.rounded);
            round_rows(gpu, values, to, [downs, EIGHT, EIGHT], 1.0)?;
        }
        if self.up_count == 0 {
            return Ok(());
        }
        let shape = LaunchShape::eights(self.longest_up);
        let [x, ..] = shape.blocks;
        let shape = LaunchShape { blocks: [x, self.up_count, 1], ..shape };
        gpu.run("round_all_rows", shape, &[Arg::At(self.ups.address(gpu))])
    }

    /// A step of AdamW with the accumulated gradients, clipped to norm `clip`; then they are zeros. Gradients that are not finite
    /// change nothing.
    pub(super) fn step(
        &mut self,
        gpu: &mut Gpu,
        lr: f64,
        clip: Option<f64>,
    ) -> Result<StepOutcome, GpuError> {
        let grad_norm = self.gradient_norm(gpu)?;
        let skipped = !grad_norm.is_finite();
        if !skipped {
            self.steps += 1;
            let AdamW { betas: (beta1, beta2), eps, weight_decay } = self.settings;
            let grad_scale = clip.map_or(1.0, |clip| (clip / (grad_norm + 1e-6)).min(1.0));
            let step = u64::from(self.steps);
            let step = AdamStep { learning_rate: lr, beta1, beta2, eps, weight_decay, step, grad_scale };
            for [from, to] in self.layout.ranges(self.touched) {
                self.adamw(gpu, &Factors::of(&step), from, to - from)?;
            }
            self.round(gpu)?;
        }
        self.touched = Touched::Text;
        gpu.stream.memset_zeros(&mut self.gradients).map_err(GpuError::failed("clearing memory"))?;
        Ok(StepOutcome { grad_norm, skipped })
    }

    fn gradient_norm(&self, gpu: &mut Gpu) -> Result<f64, GpuError> {
        let args = [
            Arg::At(gpu.address(&self.gradients)),
            Arg::Count(self.layout.len() as u64),
            Arg::At(gpu.address(&self.sums)),
        ];
        let shape = LaunchShape { blocks: [SQUARES_BLOCKS, 1, 1], threads: 256, shared: 0 };
        gpu.run("sum_of_squares", shape, &args)?;
        Ok(copy_from(gpu, &self.sums)?.iter().sum::<f64>().sqrt())
    }

    fn adamw(&self, gpu: &mut Gpu, by: &Factors, from: usize, count: usize) -> Result<(), GpuError> {
        const THREADS: usize = 256;
        let at = |memory: &CudaSlice<f32>| Arg::At(gpu.address(memory).plus_ints(from));
        let args = [
            at(&self.values),
            at(&self.gradients),
            at(&self.means),
            at(&self.squares),
            Arg::Count(count as u64),
            Arg::Float(by.grad_scale),
            Arg::Float(by.new_mean),
            Arg::Float(by.old_square),
            Arg::Float(by.new_square),
            Arg::Float(by.root_scale),
            Arg::Float(by.eps),
            Arg::Float(by.rate),
            Arg::Float(by.keep),
        ];
        let shape = LaunchShape { blocks: [count.div_ceil(THREADS), 1, 1], threads: THREADS, shared: 0 };
        gpu.run("adamw", shape, &args)
    }
}

/// Floats to bf16: so many, in rows of so many, that are so many apart.
fn round_rows(
    gpu: &mut Gpu,
    from: Address,
    to: Address,
    [count, width, stride]: [usize; 3],
    factor: f32,
) -> Result<(), GpuError> {
    let args = [
        Arg::At(from),
        Arg::At(to),
        Arg::Count(stride as u64),
        Arg::Int(width as i32),
        Arg::Count(count as u64),
        Arg::Float(factor),
    ];
    gpu.run("round_rows", LaunchShape::eights(count), &args)
}

fn copy_to(gpu: &Gpu, numbers: &[f32], memory: &mut CudaSlice<f32>) -> Result<(), GpuError> {
    if numbers.is_empty() {
        return Ok(());
    }
    gpu.stream.memcpy_htod(numbers, memory).map_err(GpuError::failed("copying to the GPU"))?;
    gpu.wait()
}

fn copy_from<T: cudarc::driver::DeviceRepr>(gpu: &Gpu, memory: &CudaSlice<T>) -> Result<Vec<T>, GpuError> {
    let numbers = gpu.stream.clone_dtoh(memory).map_err(GpuError::failed("copying from the GPU"))?;
    gpu.wait()?;
    Ok(numbers)
}

/// Parameters of adapters, by what [`AdapterLayout::unpack`] gives.
pub(super) fn named(
    specs: &[Spec],
    unpacked: Vec<(Id, Vec<f32>)>,
) -> impl Iterator<Item = (&Spec, Vec<f32>)> {
    unpacked.into_iter().map(|(id, numbers)| (&specs[id.0], numbers))
}

#[cfg(test)]
mod tests {
    use super::super::super::super::config::Config;
    use super::super::super::super::train::{LoraConfig, add_adapters};
    use super::*;

    fn config() -> Config {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/qwen3_vl/model/config.json");
        Config::read(std::path::Path::new(file)).unwrap()
    }

    #[test]
    fn adapters_are_packed_with_zeros_and_unpacked_without() {
        let (network, mut specs) = network::build(&config());
        let lora = LoraConfig { rank: 12, ..LoraConfig::default() };
        let lora_layers = add_adapters(&network, &lora, &mut specs).unwrap();
        let layout = AdapterLayout::new(&network, &lora_layers);
        let numbers =
            |id: Id| (0..specs[id.0].len()).map(|i| (id.0 * 1000 + i + 1) as f32).collect::<Vec<f32>>();
        let packed = layout.pack(|id| Some(numbers(id)));
        let unpacked = layout.unpack(&packed);
        assert_eq!(unpacked.len(), 2 * lora_layers.iter().flatten().count());
        assert!(unpacked.iter().all(|(id, found)| *found == numbers(*id)));
        let trained: usize = unpacked.iter().map(|(_, found)| found.len()).sum();
        assert_eq!(packed.iter().filter(|number| **number != 0.0).count(), trained);
        assert_eq!(packed.len(), trained / 12 * 16, "ranks are filled up to sixteen");
    }

    #[test]
    fn the_tower_is_left_alone_where_no_batch_had_an_image() {
        let (network, mut specs) = network::build(&config());
        let lora_layers = add_adapters(&network, &LoraConfig::default(), &mut specs).unwrap();
        let layout = AdapterLayout::new(&network, &lora_layers);
        let ones = layout.pack(|id| {
            let is_vision = specs[id.0].name.contains(".visual.");
            Some(vec![if is_vision { 1.0 } else { 2.0 }; specs[id.0].len()])
        });
        let of = |touched| layout.ranges(touched).into_iter().flat_map(|[from, to]| &ones[from..to]);
        assert!(of(Touched::Text).all(|number| *number == 2.0));
        assert_eq!(of(Touched::Text).count(), ones.iter().filter(|number| **number == 2.0).count());
        assert_eq!(of(Touched::All).count(), ones.len());
    }
}
