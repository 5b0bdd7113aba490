//! The networks of PPO on images, on a GPU: encoders, mixing layers, actor and critic, and their optimiser.
//!
//! What is small and is the algorithm (ratios, losses by outputs and values) stays on the CPU.

use std::ops::Range;

use plaudit_nn::dense::gpu::{
    ADAM_NUMBERS, AdamMemory, Floats, GpuKernels, GpuMlp, GraphId, InputGradient, Params, Rows,
    WantedGradients, WeightGradients,
};
use plaudit_nn::gpu::GpuError;

use crate::actor_critic::{ActorCritic, ImageParts};
use crate::replay::ObsBuffer;
use crate::vision_encoder::gpu::{GpuObs, GpuVisionEncoder};

/// The networks, their optimiser and the memory of a pass.
pub(super) struct GpuNetworks {
    kernels: GpuKernels,
    adam: AdamMemory,
    ranges: Ranges,
    /// Numbers of Adam for the actor and for the critic; the norm of all gradients.
    steps: [Floats; 2],
    norm: Floats,
    memory: PassMemory,
    /// Whether parameters and moments are those of the CPU.
    pub(super) is_current: bool,
}

/// Where the parameters of each part lie.
#[derive(Debug, Clone)]
struct Ranges {
    encoder: Range<usize>,
    mix: Range<usize>,
    actor: Range<usize>,
    /// Encoder, mixing layers and actor, with its independent deviations: what the actor's learning rate moves.
    whole_actor: Range<usize>,
    log_std: Range<usize>,
    critic: Range<usize>,
}

struct PassMemory {
    rows: usize,
    obs: GpuObs,
    joined: Rows,
    encoder: GpuVisionEncoder,
    mix: GpuMlp,
    actor: GpuMlp,
    critic: GpuMlp,
    outputs: usize,
    values: usize,
    grad_outputs: Floats,
    grad_values: Floats,
    grad_mixed: Rows,
    grad_joined: Rows,
    /// By how many rows: the last one that was used.
    graphs: Option<Graphs>,
}

/// The work of a pass, for so many rows.
#[derive(Debug, Clone, Copy)]
struct Graphs {
    rows: usize,
    forward: GraphId,
    /// Gradients that replace those of before, and that are added to them.
    backward: GraphId,
    backward_more: GraphId,
}

impl GpuNetworks {
    pub(super) fn new(
        mut kernels: GpuKernels,
        networks: &ActorCritic,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let Some(parts) = networks.image_parts() else {
            return Err(GpuError::Unsupported { what: "PPO on states" });
        };
        let mut floats = |len: usize| kernels.floats(len);
        let len = networks.len();
        let adam = AdamMemory {
            params: floats(len)?,
            grads: floats(len)?,
            means: floats(len)?,
            squares: floats(len)?,
        };
        let encoder = parts.vision_encoder.len();
        let ranges = Ranges {
            encoder: 0..encoder,
            mix: encoder..encoder + parts.mix.len(),
            actor: parts.actor_range.clone(),
            whole_actor: networks.actor_range(),
            log_std: networks.log_std_range(),
            critic: networks.critic_range(),
        };
        Ok(Self {
            steps: [floats(ADAM_NUMBERS)?, floats(ADAM_NUMBERS)?],
            norm: floats(1)?,
            memory: PassMemory::new(&mut kernels, &parts, rows)?,
            is_current: false,
            adam,
            ranges,
            kernels,
        })
    }

    /// What the GPU is called.
    pub(super) fn name(&self) -> String {
        self.kernels.name()
    }

    /// Takes parameters and moments from the CPU.
    pub(super) fn upload(&mut self, [params, means, squares]: [&[f32]; 3]) -> Result<(), GpuError> {
        self.kernels.write(self.adam.params, params)?;
        self.kernels.write(self.adam.means, means)?;
        self.kernels.write(self.adam.squares, squares)?;
        self.is_current = true;
        Ok(())
    }

    /// Gives parameters, and moments where they are asked for, to the CPU.
    pub(super) fn download(
        &mut self,
        params: &mut [f32],
        moments: Option<[&mut [f32]; 2]>,
    ) -> Result<(), GpuError> {
        self.kernels.read(self.adam.params, params)?;
        let Some([means, squares]) = moments else { return Ok(()) };
        self.kernels.read(self.adam.means, means)?;
        self.kernels.read(self.adam.squares, squares)
    }

    /// Outputs `[n, outputs]` and values `[n, values]`.
    pub(super) fn forward(
        &mut self,
        networks: &ActorCritic,
        obs: &ObsBuffer,
        n: usize,
        outputs: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> Result<(), GpuError> {
        self.prepare(networks, n)?;
        self.memory.obs.load(&mut self.kernels, &[obs], &[], n)?;
        self.run(|graphs| graphs.forward)?;
        outputs.resize(n * self.memory.outputs, 0.0);
        values.resize(n * self.memory.values, 0.0);
        let (actor, critic) = (self.memory.actor.output().floats, self.memory.critic.output().floats);
        self.kernels.read_all(&mut [(actor, outputs), (critic, values)])
    }

    /// Gradients of all parameters but independent deviations, from those of the last pass' outputs and values; in place of those
    /// of before, or added to them.
    pub(super) fn backward(
        &mut self,
        grad_outputs: &[f32],
        grad_values: &[f32],
        add: bool,
    ) -> Result<(), GpuError> {
        let PassMemory { grad_outputs: outputs, grad_values: values, .. } = self.memory;
        self.kernels.write_all(&[(outputs, grad_outputs), (values, grad_values)])?;
        self.run(|graphs| if add { graphs.backward_more } else { graphs.backward })
    }

    /// One step of the optimiser, with the gradients of independent deviations, for actor and critic by numbers of their own; the
    /// norm of all gradients. Parts without numbers stay as they are. Where the norm is not finite, nothing has changed. The
    /// deviations come back: losses are computed with them.
    pub(super) fn step(
        &mut self,
        grad_log_std: &[f32],
        steps: [Option<[f32; ADAM_NUMBERS]>; 2],
        log_std: &mut [f32],
    ) -> Result<f32, GpuError> {
        let deviations = self.ranges.log_std.clone();
        self.kernels.write(self.adam.grads.part(deviations.clone()), grad_log_std)?;
        self.kernels.gradient_norm(self.adam.grads, self.norm)?;
        let ranges = [self.ranges.whole_actor.clone(), self.ranges.critic.clone()];
        for ((numbers, floats), range) in steps.into_iter().zip(self.steps).zip(ranges) {
            if let Some(numbers) = numbers {
                self.kernels.write(floats, &numbers)?;
                self.kernels.adam_step(self.adam.part(range), floats, self.norm)?;
            }
        }
        let mut norm = [0.0];
        let deviations = self.adam.params.part(deviations);
        self.kernels.read_all(&mut [(self.norm, &mut norm[..]), (deviations, log_std)])?;
        Ok(norm[0])
    }

    /// Records the passes over so many rows, unless they were the last.
    fn prepare(&mut self, networks: &ActorCritic, rows: usize) -> Result<(), GpuError> {
        if rows > self.memory.rows {
            let Some(parts) = networks.image_parts() else { return Ok(()) };
            self.memory = PassMemory::new(&mut self.kernels, &parts, rows)?;
        }
        if self.memory.graphs.is_some_and(|graphs| graphs.rows == rows) {
            return Ok(());
        }
        self.kernels.forget_graphs();
        self.memory.graphs = None;
        let Self { kernels, adam, ranges, memory, .. } = self;
        let pass = Pass { memory, adam: *adam, ranges, n: rows };
        let graphs = Graphs {
            rows,
            forward: kernels.record(|kernels| pass.forward(kernels))?,
            backward: kernels.record(|kernels| pass.backward(kernels, false))?,
            backward_more: kernels.record(|kernels| pass.backward(kernels, true))?,
        };
        self.memory.graphs = Some(graphs);
        Ok(())
    }

    fn run(&mut self, which: impl Fn(&Graphs) -> GraphId) -> Result<(), GpuError> {
        let graphs = self.memory.graphs.as_ref().expect("observations come first");
        self.kernels.run(which(graphs))
    }
}

impl PassMemory {
    fn new(kernels: &mut GpuKernels, parts: &ImageParts<'_>, rows: usize) -> Result<Self, GpuError> {
        let matrix = |kernels: &mut GpuKernels, width: usize| {
            let floats = kernels.floats(rows * width);
            floats.map(|floats| Rows { floats, stride: width, outer: rows * width, inner: 0 })
        };
        let joined = matrix(kernels, parts.vision_encoder.outputs())?;
        let mlp = |kernels: &mut GpuKernels, mlp| GpuMlp::new(kernels, mlp, 1, 1, rows);
        let (outputs, values) = (parts.actor.outputs(), parts.critic.outputs());
        Ok(Self {
            rows,
            obs: GpuObs::new(kernels, parts.vision_encoder, 1, rows)?,
            joined,
            encoder: GpuVisionEncoder::new(kernels, parts.vision_encoder, [1, rows], joined, true)?,
            mix: mlp(kernels, parts.mix)?,
            actor: mlp(kernels, parts.actor)?,
            critic: mlp(kernels, parts.critic)?,
            outputs,
            values,
            grad_outputs: kernels.floats(rows * outputs)?,
            grad_values: kernels.floats(rows * values)?,
            grad_mixed: matrix(kernels, parts.mix.outputs())?,
            grad_joined: matrix(kernels, parts.vision_encoder.outputs())?,
            graphs: None,
        })
    }
}

/// What is recorded as graphs.
struct Pass<'a> {
    memory: &'a PassMemory,
    adam: AdamMemory,
    ranges: &'a Ranges,
    n: usize,
}

impl Pass<'_> {
    fn forward(&self, kernels: &mut GpuKernels) -> Result<(), GpuError> {
        let Self { memory, ranges, n, .. } = *self;
        let params = |range: &Range<usize>| self.params(self.adam.params, range);
        memory.obs.center(kernels, false, 1, n)?;
        let encoder = self.adam.params.part(ranges.encoder.clone());
        memory.encoder.forward(kernels, encoder, &memory.obs, [0, 1], n)?;
        memory.mix.forward(kernels, params(&ranges.mix), memory.joined, 1, n)?;
        memory.actor.forward(kernels, params(&ranges.actor), memory.mix.output(), 1, n)?;
        memory.critic.forward(kernels, params(&ranges.critic), memory.mix.output(), 1, n)
    }

    fn backward(&self, kernels: &mut GpuKernels, add: bool) -> Result<(), GpuError> {
        let Self { memory, ranges, n, .. } = *self;
        let params = |range: &Range<usize>| self.params(self.adam.params, range);
        let weights =
            |range: &Range<usize>| Some(WeightGradients { to: self.params(self.adam.grads, range), add });
        let mixed = memory.mix.output();
        let heads = [
            (&memory.actor, &ranges.actor, memory.grad_outputs, memory.outputs, false),
            (&memory.critic, &ranges.critic, memory.grad_values, memory.values, true),
        ];
        // The critic's gradients are added to the actor's.
        for (net, range, grad, width, add) in heads {
            let grad = Rows { floats: grad, stride: width, outer: 0, inner: 0 };
            let inputs = InputGradient { to: memory.grad_mixed, columns: 0..mixed.stride, relu: None, add };
            let wanted = WantedGradients { weights: weights(range), inputs: Some(inputs) };
            net.backward(kernels, params(range), mixed, 1, n, grad, &wanted)?;
        }
        let columns = 0..memory.joined.stride;
        let inputs = InputGradient { to: memory.grad_joined, columns, relu: None, add: false };
        let wanted = WantedGradients { weights: weights(&ranges.mix), inputs: Some(inputs) };
        let mix = params(&ranges.mix);
        memory.mix.backward(kernels, mix, memory.joined, 1, n, memory.grad_mixed, &wanted)?;
        let [encoder, grads] =
            [self.adam.params, self.adam.grads].map(|all| all.part(ranges.encoder.clone()));
        memory.encoder.backward(kernels, encoder, &memory.obs, n, memory.grad_joined, grads, add)
    }

    fn params(&self, all: Floats, range: &Range<usize>) -> Params {
        Params { floats: all.part(range.clone()), inner: 0 }
    }
}
