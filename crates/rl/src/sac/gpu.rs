//! The networks of soft actor-critic on images, on a GPU: encoders, policy, critics, their target, and their optimisers.
//!
//! An update is a few CUDA graphs. Between them the CPU does what is small and is the algorithm (sampling actions, targets,
//! losses by outputs), with the code that it has for the CPU's own networks: `[N, A]` and `[H, N]` numbers cross, images and
//! features do not come back.
//!
//! ```text
//! next_outputs       encode s' and s, encode s' by the target     → π(s')
//! values             Q'(s', a'), Q(s, a), π(s) of demonstrations  → [H, N] twice, [D, 2A]
//! step_critics       back to critics and encoders, Adam           → norm
//! policy_outputs     encode s                                     → π(s)
//! policy_values      Q(s, a)                                      → [H, N]
//! action_gradients   back to a                                    → [N, A]
//! step_policy        back to the policy, Adam                     → norm
//! ```

use std::ops::Range;

use plaudit_nn::dense::gpu::{
    ADAM_NUMBERS, AdamMemory, Floats, GpuKernels, GpuMlp, GraphId, InputGradient, Params, Rows,
    WantedGradients, WeightGradients,
};
use plaudit_nn::gpu::GpuError;

use super::{EncoderLoss, SoftNetworks};
use crate::replay::{ObsBuffer, Transitions};
use crate::vision_encoder::gpu::{GpuObs, GpuVisionEncoder};

/// The networks, their optimisers and the memory of an update.
pub(super) struct GpuNetworks {
    kernels: GpuKernels,
    policy: AdamMemory,
    critics: AdamMemory,
    target: Floats,
    average: Option<Floats>,
    /// Numbers that differ from update to update: those of Adam, how far averages follow, norms.
    policy_step: Floats,
    critic_step: Floats,
    tau: Floats,
    norm: Floats,
    encoder_norm: Floats,
    encoder_len: usize,
    encoder_loss: EncoderLoss,
    memory: UpdateMemory,
    /// Whether parameters and moments are those of the CPU.
    pub(super) is_current: bool,
}

/// All that an update needs beside parameters, for so many rows.
struct UpdateMemory {
    rows: usize,
    shape: Sizes,
    obs: GpuObs,
    /// `[encoded | action]` of both moments, and of the next one by the target: what critics take.
    joined: Rows,
    joined_target: Rows,
    encoder: GpuVisionEncoder,
    target_encoder: GpuVisionEncoder,
    policy: GpuMlp,
    critics: GpuMlp,
    target_critics: GpuMlp,
    actions: Floats,
    next_actions: Floats,
    grad_value: Floats,
    grad_output: Floats,
    /// Gradients of what critics took, of each of them and in sum.
    grad_inputs: Rows,
    grad_joined: Rows,
    graphs: Option<Graphs>,
}

/// Widths that never change.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    encoded: usize,
    action: usize,
    heads: usize,
    critic_len: usize,
}

/// The work of an update, for so many rows.
#[derive(Debug, Clone, Copy)]
struct Graphs {
    key: GraphKey,
    next_outputs: GraphId,
    values: GraphId,
    step_critics: GraphId,
    policy_outputs: GraphId,
    policy_values: GraphId,
    action_gradients: GraphId,
    step_policy: GraphId,
    follow: GraphId,
    clone_outputs: GraphId,
    policy_and_encoders: GraphId,
}

/// What work was recorded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GraphKey {
    rows: usize,
    /// Where demonstrations begin that the encoders learn from.
    first_demo: usize,
    is_shifted: bool,
}

/// Parameters and moments as they lie on the CPU.
pub(super) struct CpuState<'a> {
    pub(super) policy: [&'a mut [f32]; 3],
    pub(super) critics: [&'a mut [f32]; 3],
    pub(super) target: &'a mut [f32],
    pub(super) average: Option<&'a mut [f32]>,
}

impl GpuNetworks {
    pub(super) fn new(
        mut kernels: GpuKernels,
        networks: &SoftNetworks,
        rows: usize,
        has_average: bool,
        encoder_loss: EncoderLoss,
    ) -> Result<Self, GpuError> {
        let policy = adam_memory(&mut kernels, networks.policy.len())?;
        let critics = adam_memory(&mut kernels, networks.encoder_len() + networks.critics.len())?;
        Ok(Self {
            target: kernels.floats(critics.params.len())?,
            average: has_average.then(|| kernels.floats(policy.params.len())).transpose()?,
            policy_step: kernels.floats(ADAM_NUMBERS)?,
            critic_step: kernels.floats(ADAM_NUMBERS)?,
            tau: kernels.floats(1)?,
            norm: kernels.floats(1)?,
            encoder_norm: kernels.floats(1)?,
            encoder_len: networks.encoder_len(),
            encoder_loss,
            memory: UpdateMemory::new(&mut kernels, networks, rows)?,
            is_current: false,
            policy,
            critics,
            kernels,
        })
    }

    /// What the GPU is called.
    pub(super) fn name(&self) -> String {
        self.kernels.name()
    }

    /// Takes parameters and moments from the CPU.
    pub(super) fn upload(&mut self, state: &CpuState<'_>) -> Result<(), GpuError> {
        for (memory, numbers) in [(self.policy, &state.policy), (self.critics, &state.critics)] {
            for (floats, numbers) in [memory.params, memory.means, memory.squares].into_iter().zip(numbers) {
                self.kernels.write(floats, numbers)?;
            }
        }
        self.kernels.write(self.target, state.target)?;
        if let (Some(floats), Some(average)) = (self.average, &state.average) {
            self.kernels.write(floats, average)?;
        }
        self.is_current = true;
        Ok(())
    }

    /// Gives parameters and moments to the CPU.
    pub(super) fn download(&mut self, state: CpuState<'_>) -> Result<(), GpuError> {
        for (memory, numbers) in [(self.policy, state.policy), (self.critics, state.critics)] {
            for (floats, numbers) in [memory.params, memory.means, memory.squares].into_iter().zip(numbers) {
                self.kernels.read(floats, numbers)?;
            }
        }
        self.kernels.read(self.target, state.target)?;
        if let (Some(floats), Some(average)) = (self.average, state.average) {
            self.kernels.read(floats, average)?;
        }
        Ok(())
    }

    /// Gives the parameters of policy and critics to the CPU.
    pub(super) fn download_networks(
        &mut self,
        policy: &mut [f32],
        critics: &mut [f32],
    ) -> Result<(), GpuError> {
        self.kernels.read(self.policy.params, policy)?;
        self.kernels.read(self.critics.params, critics)
    }

    /// Takes a batch. `shifts` has two numbers for each image, moment by moment and camera by camera; none where they stay.
    pub(super) fn load(
        &mut self,
        networks: &SoftNetworks,
        batch: &Transitions,
        first_demo: Option<usize>,
        shifts: &[i32],
    ) -> Result<(), GpuError> {
        let n = batch.len();
        let first_demo = first_demo.unwrap_or(n);
        self.prepare(networks, GraphKey { rows: n, first_demo, is_shifted: !shifts.is_empty() })?;
        self.memory.obs.load(&mut self.kernels, &[&batch.obs, &batch.next_obs], shifts, n)?;
        self.kernels.write(self.memory.actions, &batch.actions)
    }

    /// Takes observations to imitate on.
    pub(super) fn load_demos(
        &mut self,
        networks: &SoftNetworks,
        obs: &ObsBuffer,
        n: usize,
    ) -> Result<(), GpuError> {
        self.prepare(networks, GraphKey { rows: n, first_demo: n, is_shifted: false })?;
        self.memory.obs.load(&mut self.kernels, &[obs], &[], n)
    }

    /// Records the work of updates of this kind, unless that was done for the last.
    fn prepare(&mut self, networks: &SoftNetworks, key: GraphKey) -> Result<(), GpuError> {
        if key.rows > self.memory.rows {
            self.memory = UpdateMemory::new(&mut self.kernels, networks, key.rows)?;
        }
        if self.memory.graphs.is_some_and(|graphs| graphs.key == key) {
            return Ok(());
        }
        self.kernels.forget_graphs();
        self.memory.graphs = None;
        let graphs = Graphs {
            key,
            next_outputs: self.record(|gpu| gpu.encode_all(key))?,
            values: self.record(|gpu| gpu.all_values(key))?,
            step_critics: self.record(|gpu| gpu.back_to_critics(key))?,
            policy_outputs: self.record(|gpu| gpu.encode_for_policy(key))?,
            policy_values: self.record(|gpu| gpu.values_of_policy(key))?,
            action_gradients: self.record(|gpu| gpu.back_to_actions(key))?,
            step_policy: self.record(|gpu| gpu.back_to_policy(key))?,
            follow: self.record(|gpu| gpu.follow_all())?,
            clone_outputs: self.record(|gpu| gpu.encode_demos(key))?,
            policy_and_encoders: self.record(|gpu| gpu.back_to_policy_and_encoders(key))?,
        };
        self.memory.graphs = Some(graphs);
        Ok(())
    }

    fn record(
        &mut self,
        work: impl FnOnce(&mut Pass<'_>) -> Result<(), GpuError>,
    ) -> Result<GraphId, GpuError> {
        let Self { kernels, memory, policy, critics, target, average, .. } = self;
        let numbers = [self.policy_step, self.critic_step, self.tau, self.norm, self.encoder_norm];
        kernels.record(|kernels| {
            let [policy_step, critic_step, tau, norm, encoder_norm] = numbers;
            work(&mut Pass {
                kernels,
                memory,
                policy: *policy,
                critics: *critics,
                target: *target,
                average: *average,
                policy_step,
                critic_step,
                tau,
                norm,
                encoder_norm,
                encoder_len: self.encoder_len,
                encoder_loss: self.encoder_loss,
            })
        })
    }

    /// The policy's outputs for the next observations, `[N, 2A]`.
    pub(super) fn next_outputs(&mut self, into: &mut Vec<f32>) -> Result<(), GpuError> {
        self.run(|graphs| graphs.next_outputs)?;
        self.read_policy(self.key().rows, into)
    }

    /// Q'(s', a') and Q(s, a) by all critics, `[H, N]` each, and the policy's outputs for the demonstrations of the batch.
    pub(super) fn values(
        &mut self,
        next_actions: &[f32],
        next: &mut Vec<f32>,
        now: &mut Vec<f32>,
        demo_outputs: &mut Vec<f32>,
    ) -> Result<(), GpuError> {
        let GraphKey { rows, first_demo, .. } = self.key();
        self.kernels.write(self.memory.next_actions, next_actions)?;
        self.run(|graphs| graphs.values)?;
        let (target, online) = (self.memory.target_critics.output(), self.memory.critics.output());
        let Sizes { heads, action, .. } = self.memory.shape;
        for values in [&mut *next, now] {
            values.resize(heads * online.inner, 0.0);
        }
        demo_outputs.resize((rows - first_demo) * 2 * action, 0.0);
        let outputs = self.memory.policy.output().floats;
        self.kernels.read_all(&mut [
            (target.floats, &mut next[..]),
            (online.floats, &mut now[..]),
            (outputs, &mut demo_outputs[..]),
        ])?;
        for values in [next, now] {
            without_room(values, heads, online.inner, rows);
        }
        Ok(())
    }

    /// One step of critics and encoders, given the gradients of Q(s, a) and those of the policy's outputs for demonstrations.
    /// The norm of all gradients; where that is not finite, nothing has changed.
    pub(super) fn step_critics(
        &mut self,
        grad_value: &[f32],
        demo_grads: &[f32],
        step: &[f32; ADAM_NUMBERS],
    ) -> Result<f32, GpuError> {
        let UpdateMemory { grad_value: values, grad_output, .. } = self.memory;
        self.kernels.write_all(&[
            (values, grad_value),
            (grad_output, demo_grads),
            (self.critic_step, step),
        ])?;
        self.run(|graphs| graphs.step_critics)?;
        self.read_number(self.norm)
    }

    /// The policy's outputs for the observations, `[N, 2A]`.
    pub(super) fn policy_outputs(&mut self, into: &mut Vec<f32>) -> Result<(), GpuError> {
        self.run(|graphs| graphs.policy_outputs)?;
        self.read_policy(self.key().rows, into)
    }

    /// Q(s, a) of other actions by all critics, `[H, N]`.
    pub(super) fn policy_values(&mut self, actions: &[f32], into: &mut Vec<f32>) -> Result<(), GpuError> {
        self.kernels.write(self.memory.actions, actions)?;
        self.run(|graphs| graphs.policy_values)?;
        self.read_values(self.memory.critics.output(), into)
    }

    /// The gradients of these actions, `[N, A]`, from those of their values.
    pub(super) fn action_gradients(
        &mut self,
        grad_value: &[f32],
        into: &mut Vec<f32>,
    ) -> Result<(), GpuError> {
        self.kernels.write(self.memory.grad_value, grad_value)?;
        self.run(|graphs| graphs.action_gradients)?;
        into.resize(self.key().rows * self.memory.shape.action, 0.0);
        self.kernels.read(self.memory.next_actions, into)
    }

    /// One step of the policy, given the gradients of its outputs; the norm of its gradients. Where its loss trains the encoders as
    /// well, that is [`Self::step_policy_and_encoders`].
    pub(super) fn step_policy(
        &mut self,
        grad_output: &[f32],
        step: &[f32; ADAM_NUMBERS],
    ) -> Result<f32, GpuError> {
        let parts: [(Floats, &[f32]); 2] = [(self.memory.grad_output, grad_output), (self.policy_step, step)];
        self.kernels.write_all(&parts)?;
        self.run(|graphs| graphs.step_policy)?;
        self.read_number(self.norm)
    }

    /// Target and average follow.
    pub(super) fn follow(&mut self, tau: f32) -> Result<(), GpuError> {
        self.kernels.write(self.tau, &[tau])?;
        self.run(|graphs| graphs.follow)
    }

    /// The policy's outputs for demonstrations, `[N, 2A]`.
    pub(super) fn clone_outputs(&mut self, into: &mut Vec<f32>) -> Result<(), GpuError> {
        self.run(|graphs| graphs.clone_outputs)?;
        self.read_policy(self.key().rows, into)
    }

    /// One step of policy and encoders, each with an optimiser of its own, given the gradients of the policy's outputs; the norms of
    /// both gradients.
    pub(super) fn step_policy_and_encoders(
        &mut self,
        grad_output: &[f32],
        step: &[f32; ADAM_NUMBERS],
    ) -> Result<[f32; 2], GpuError> {
        let parts: [(Floats, &[f32]); 3] =
            [(self.memory.grad_output, grad_output), (self.policy_step, step), (self.critic_step, step)];
        self.kernels.write_all(&parts)?;
        self.run(|graphs| graphs.policy_and_encoders)?;
        let mut norms = [0.0; 2];
        let [policy, encoder] = &mut norms;
        let parts =
            [(self.norm, std::slice::from_mut(policy)), (self.encoder_norm, std::slice::from_mut(encoder))];
        self.kernels.read_all(&mut { parts })?;
        Ok(norms)
    }

    fn run(&mut self, which: impl Fn(&Graphs) -> GraphId) -> Result<(), GpuError> {
        let graphs = self.memory.graphs.as_ref().expect("a batch comes first");
        self.kernels.run(which(graphs))
    }

    fn key(&self) -> GraphKey {
        self.memory.graphs.as_ref().expect("a batch comes first").key
    }

    fn read_policy(&mut self, rows: usize, into: &mut Vec<f32>) -> Result<(), GpuError> {
        into.resize(rows * 2 * self.memory.shape.action, 0.0);
        self.kernels.read(self.memory.policy.output().floats, into)
    }

    /// Values of all critics.
    fn read_values(&mut self, values: Rows, into: &mut Vec<f32>) -> Result<(), GpuError> {
        let (rows, heads) = (self.key().rows, self.memory.shape.heads);
        into.resize(heads * values.inner, 0.0);
        self.kernels.read(values.floats, into)?;
        without_room(into, heads, values.inner, rows);
        Ok(())
    }

    fn read_number(&mut self, from: Floats) -> Result<f32, GpuError> {
        let mut number = [0.0];
        self.kernels.read(from, &mut number)?;
        Ok(number[0])
    }
}

/// Takes out the room that is left behind the rows of each head.
fn without_room(values: &mut Vec<f32>, heads: usize, room: usize, rows: usize) {
    for head in 0..heads {
        values.copy_within(head * room..head * room + rows, head * rows);
    }
    values.truncate(heads * rows);
}

fn adam_memory(kernels: &mut GpuKernels, len: usize) -> Result<AdamMemory, GpuError> {
    Ok(AdamMemory {
        params: kernels.floats(len)?,
        grads: kernels.floats(len)?,
        means: kernels.floats(len)?,
        squares: kernels.floats(len)?,
    })
}

impl UpdateMemory {
    fn new(kernels: &mut GpuKernels, networks: &SoftNetworks, rows: usize) -> Result<Self, GpuError> {
        let Some(vision_encoder) = &networks.vision_encoder else {
            return Err(GpuError::Unsupported { what: "soft actor-critic on states" });
        };
        let (encoded, action) = (vision_encoder.outputs(), networks.gaussian.width());
        let heads = networks.critics.heads();
        let shape = Sizes { encoded, action, heads, critic_len: networks.critics.head().len() };
        let stride = encoded + action;
        let mut matrix = |groups: usize| {
            let floats = kernels.floats(groups * rows * stride);
            floats.map(|floats| Rows { floats, stride, outer: rows * stride, inner: rows * stride })
        };
        let (joined, joined_target, grad_inputs, grad_joined) =
            (matrix(2)?, matrix(1)?, matrix(heads)?, matrix(1)?);
        Ok(Self {
            rows,
            obs: GpuObs::new(kernels, vision_encoder, 2, rows)?,
            encoder: GpuVisionEncoder::new(kernels, vision_encoder, [2, rows], joined, true)?,
            target_encoder: GpuVisionEncoder::new(kernels, vision_encoder, [1, rows], joined_target, false)?,
            policy: GpuMlp::new(kernels, &networks.policy, 1, 1, rows)?,
            critics: GpuMlp::new(kernels, networks.critics.head(), 1, heads, rows)?,
            target_critics: GpuMlp::new(kernels, networks.critics.head(), 1, heads, rows)?,
            actions: kernels.floats(rows * action)?,
            next_actions: kernels.floats(rows * action)?,
            grad_value: kernels.floats(heads * rows)?,
            grad_output: kernels.floats(rows * 2 * action)?,
            joined,
            joined_target,
            grad_inputs,
            grad_joined,
            shape,
            graphs: None,
        })
    }
}

/// What is recorded as graphs.
struct Pass<'a> {
    kernels: &'a mut GpuKernels,
    memory: &'a UpdateMemory,
    policy: AdamMemory,
    critics: AdamMemory,
    target: Floats,
    average: Option<Floats>,
    policy_step: Floats,
    critic_step: Floats,
    tau: Floats,
    norm: Floats,
    encoder_norm: Floats,
    encoder_len: usize,
    encoder_loss: EncoderLoss,
}

impl Pass<'_> {
    /// Both moments by the online encoder, the next one by the target's, and π(s').
    fn encode_all(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        memory.obs.center(self.kernels, key.is_shifted, 2, n)?;
        memory.encoder.forward(self.kernels, self.online_encoder(), &memory.obs, [0, 2], n)?;
        let target = self.target.part(0..self.encoder_len);
        memory.target_encoder.forward(self.kernels, target, &memory.obs, [1, 1], n)?;
        let next = memory.joined.row(memory.rows);
        memory.policy.forward(self.kernels, alone(self.policy.params), next, 1, n)
    }

    /// Q'(s', a'), Q(s, a), and π(s) of demonstrations.
    fn all_values(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        self.put_actions(memory.next_actions, memory.joined_target, n)?;
        self.put_actions(memory.actions, memory.joined, n)?;
        let target = self.heads(self.target);
        let shared = Rows { inner: 0, ..memory.joined_target };
        memory.target_critics.forward(self.kernels, target, shared, 1, n)?;
        let shared = Rows { inner: 0, ..memory.joined };
        memory.critics.forward(self.kernels, self.heads(self.critics.params), shared, 1, n)?;
        let demos = n - key.first_demo;
        if demos == 0 {
            return Ok(());
        }
        let encoded = memory.joined.row(key.first_demo);
        memory.policy.forward(self.kernels, alone(self.policy.params), encoded, 1, demos)
    }

    fn back_to_critics(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        let Sizes { encoded, heads, .. } = memory.shape;
        let params = self.heads(self.critics.params);
        let gradients = WeightGradients { to: self.heads(self.critics.grads), add: false };
        let inputs = InputGradient { to: memory.grad_inputs, columns: 0..encoded, relu: None, add: false };
        let trains_encoder = self.encoder_loss == EncoderLoss::Critics;
        let wanted = WantedGradients { weights: Some(gradients), inputs: trains_encoder.then_some(inputs) };
        let shared = Rows { inner: 0, ..memory.joined };
        memory.critics.backward(self.kernels, params, shared, 1, n, self.grad_value(n), &wanted)?;
        if !trains_encoder {
            let heads = self.critics.part(self.critic_range(self.critics.params));
            self.kernels.gradient_norm(heads.grads, self.norm)?;
            return self.kernels.adam_step(heads, self.critic_step, self.norm);
        }
        self.kernels.sum_groups(memory.grad_inputs, heads, memory.grad_joined, n, 0..encoded)?;
        let demos = n - key.first_demo;
        if demos > 0 {
            let to = memory.grad_joined.row(key.first_demo);
            let inputs = InputGradient { to, columns: 0..encoded, relu: None, add: true };
            let wanted = WantedGradients { weights: None, inputs: Some(inputs) };
            let input = memory.joined.row(key.first_demo);
            let params = alone(self.policy.params);
            memory.policy.backward(self.kernels, params, input, 1, demos, self.grad_output(), &wanted)?;
        }
        self.back_to_encoder(n)?;
        self.kernels.gradient_norm(self.critics.grads, self.norm)?;
        self.kernels.adam_step(self.critics, self.critic_step, self.norm)
    }

    /// s by the encoder as it is now, and π(s).
    fn encode_for_policy(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        memory.encoder.forward(self.kernels, self.online_encoder(), &memory.obs, [0, 1], n)?;
        memory.policy.forward(self.kernels, alone(self.policy.params), memory.joined, 1, n)
    }

    fn values_of_policy(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        self.put_actions(memory.actions, memory.joined, n)?;
        let shared = Rows { inner: 0, ..memory.joined };
        memory.critics.forward(self.kernels, self.heads(self.critics.params), shared, 1, n)
    }

    /// Gradients of the actions, which take the place of the next ones.
    fn back_to_actions(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        let Sizes { encoded, action, heads, .. } = memory.shape;
        let columns = encoded..encoded + action;
        let inputs =
            InputGradient { to: memory.grad_inputs, columns: columns.clone(), relu: None, add: false };
        let wanted = WantedGradients { weights: None, inputs: Some(inputs) };
        let (params, shared) = (self.heads(self.critics.params), Rows { inner: 0, ..memory.joined });
        memory.critics.backward(self.kernels, params, shared, 1, n, self.grad_value(n), &wanted)?;
        let from = memory.grad_inputs.column(encoded);
        let to = Rows { floats: memory.next_actions, stride: action, outer: 0, inner: 0 };
        self.kernels.sum_groups(from, heads, to, n, 0..action)
    }

    fn back_to_policy(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let gradients = WeightGradients { to: alone(self.policy.grads), add: false };
        let wanted = WantedGradients { weights: Some(gradients), inputs: None };
        let (params, input) = (alone(self.policy.params), self.memory.joined);
        self.memory.policy.backward(self.kernels, params, input, 1, key.rows, self.grad_output(), &wanted)?;
        self.kernels.gradient_norm(self.policy.grads, self.norm)?;
        self.kernels.adam_step(self.policy, self.policy_step, self.norm)
    }

    fn follow_all(&mut self) -> Result<(), GpuError> {
        self.kernels.follow(self.target, self.critics.params, self.tau)?;
        self.average.map_or(Ok(()), |average| self.kernels.follow(average, self.policy.params, self.tau))
    }

    fn encode_demos(&mut self, key: GraphKey) -> Result<(), GpuError> {
        self.memory.obs.center(self.kernels, false, 1, key.rows)?;
        self.encode_for_policy(key)
    }

    /// A step of policy and encoders, each clipped and moved by itself.
    fn back_to_policy_and_encoders(&mut self, key: GraphKey) -> Result<(), GpuError> {
        let (memory, n) = (self.memory, key.rows);
        let columns = 0..memory.shape.encoded;
        let wanted = WantedGradients {
            weights: Some(WeightGradients { to: alone(self.policy.grads), add: false }),
            inputs: Some(InputGradient { to: memory.grad_joined, columns, relu: None, add: false }),
        };
        let params = alone(self.policy.params);
        memory.policy.backward(self.kernels, params, memory.joined, 1, n, self.grad_output(), &wanted)?;
        self.back_to_encoder(n)?;
        let encoder = self.critics.part(0..self.encoder_len);
        self.kernels.gradient_norm(self.policy.grads, self.norm)?;
        self.kernels.gradient_norm(encoder.grads, self.encoder_norm)?;
        self.kernels.adam_step(self.policy, self.policy_step, self.norm)?;
        self.kernels.adam_step(encoder, self.critic_step, self.encoder_norm)
    }

    fn back_to_encoder(&mut self, n: usize) -> Result<(), GpuError> {
        let (memory, grads) = (self.memory, self.critics.grads.part(0..self.encoder_len));
        let params = self.online_encoder();
        memory.encoder.backward(self.kernels, params, &memory.obs, n, memory.grad_joined, grads, false)
    }

    /// Puts actions behind what was encoded.
    fn put_actions(&mut self, actions: Floats, joined: Rows, n: usize) -> Result<(), GpuError> {
        let Sizes { encoded, action, .. } = self.memory.shape;
        let from = Rows { floats: actions, stride: action, outer: 0, inner: 0 };
        self.kernels.copy_rows(from, joined.column(encoded), n, action)
    }

    fn online_encoder(&self) -> Floats {
        self.critics.params.part(0..self.encoder_len)
    }

    /// The critics behind an encoder.
    fn heads(&self, params: Floats) -> Params {
        Params { floats: params.part(self.critic_range(params)), inner: self.memory.shape.critic_len }
    }

    fn critic_range(&self, params: Floats) -> Range<usize> {
        self.encoder_len..params.len()
    }

    fn grad_value(&self, n: usize) -> Rows {
        Rows { floats: self.memory.grad_value, stride: 1, outer: 0, inner: n }
    }

    fn grad_output(&self) -> Rows {
        Rows { floats: self.memory.grad_output, stride: 2 * self.memory.shape.action, outer: 0, inner: 0 }
    }
}

fn alone(floats: Floats) -> Params {
    Params { floats, inner: 0 }
}
