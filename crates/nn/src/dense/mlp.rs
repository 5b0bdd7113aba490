//! A multilayer perceptron over flat slices of parameters.

use plaudit_core::Seed;

use super::init;
use super::layout::{LayerPlaces, Layout, Tensor, TensorKind};
use super::spec::{Activation, BatchNorm, LayerSpec, MlpSpec};
use super::tape::{LayerTape, Scratch, Tape};

const LAYER_NORM_EPS: f32 = 1e-5;

/// The shape of a network and what it computes. Cheap to clone; holds no parameters.
#[derive(Debug, Clone)]
pub struct Mlp {
    spec: MlpSpec,
    layout: Layout,
}

impl Mlp {
    /// A network of this shape.
    ///
    /// # Panics
    /// Without inputs, without layers, or with a layer of no width.
    pub fn new(spec: MlpSpec) -> Self {
        let layout = Layout::new(&spec);
        Self { spec, layout }
    }

    /// The shape it was made from.
    pub fn spec(&self) -> &MlpSpec {
        &self.spec
    }

    /// Numbers per row of the input.
    pub fn inputs(&self) -> usize {
        self.spec.inputs
    }

    /// Numbers per row of the output.
    pub fn outputs(&self) -> usize {
        self.spec.layers[self.spec.layers.len() - 1].width
    }

    /// Length of its parameters, running statistics included.
    #[allow(clippy::len_without_is_empty)] // a network without parameters cannot be made
    pub fn len(&self) -> usize {
        self.layout.len
    }

    /// Length of what is trained: `params[..trainable_len()]`. The rest are running statistics of batch norms.
    pub fn trainable_len(&self) -> usize {
        self.layout.trainable
    }

    /// Every tensor, layer by layer.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.layout.tensors()
    }

    /// Parameters to begin with. Each tensor has its own stream of random numbers.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = vec![0.0; self.len()];
        for tensor in self.tensors() {
            let spec = &self.spec.layers[tensor.layer];
            let inputs = self.layout.layers[tensor.layer].inputs;
            let seed = seed.purpose("layer").index(tensor.layer as u64);
            let values = match tensor.kind {
                TensorKind::Weight => init::weights(&spec.init, spec.width, inputs, seed.purpose("weight")),
                TensorKind::Bias => init::bias(spec.bias, spec.width, inputs, seed.purpose("bias")),
                TensorKind::NormWeight | TensorKind::InputNormWeight | TensorKind::RunningVar => {
                    vec![1.0; tensor.range.len()]
                }
                TensorKind::NormBias | TensorKind::InputNormBias | TensorKind::RunningMean => {
                    vec![0.0; tensor.range.len()]
                }
            };
            self.import(&mut params, &tensor, &values);
        }
        params
    }

    /// One tensor as PyTorch keeps it, row by row.
    pub fn export(&self, params: &[f32], tensor: &Tensor) -> Vec<f32> {
        params[tensor.range.clone()].to_vec()
    }

    /// Puts one tensor, as PyTorch keeps it, into the parameters.
    ///
    /// # Panics
    /// If `values` has another length than the tensor.
    pub fn import(&self, params: &mut [f32], tensor: &Tensor, values: &[f32]) {
        params[tensor.range.clone()].copy_from_slice(values);
    }

    /// Outputs `[batch, outputs]` for `inputs` `[batch, inputs]`, with what [`Self::backward`] needs left on the tape.
    /// Batch norms use the statistics of the batch.
    pub fn forward<'t>(&self, params: &[f32], inputs: &[f32], batch: usize, tape: &'t mut Tape) -> &'t [f32] {
        self.run(params, inputs, batch, tape, true)
    }

    /// As [`Self::forward`], but batch norms use their running statistics.
    pub fn forward_frozen<'t>(
        &self,
        params: &[f32],
        inputs: &[f32],
        batch: usize,
        tape: &'t mut Tape,
    ) -> &'t [f32] {
        self.run(params, inputs, batch, tape, false)
    }

    /// Outputs alone; batch norms use their running statistics.
    pub fn infer<'s>(
        &self,
        params: &[f32],
        inputs: &[f32],
        batch: usize,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        self.run(params, inputs, batch, &mut scratch.tape, false)
    }

    /// Adds the gradients of the parameters to `grads`, given those of the outputs of the last forward pass on this
    /// tape. Writes those of the inputs where asked.
    pub fn backward(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        assert_eq!(grads.len(), self.len(), "gradients of another network");
        self.go_back(params, tape, grad_out, Some(grads), grad_inputs);
    }

    /// Writes the gradients of the inputs, and computes no others: the way through a critic to an action.
    pub fn backward_inputs(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grad_inputs: &mut [f32],
    ) {
        self.go_back(params, tape, grad_out, None, Some(grad_inputs));
    }

    /// Moves the running statistics of batch norms towards those of the last forward pass on this tape.
    pub fn update_statistics(&self, params: &mut [f32], tape: &Tape) {
        assert!(tape.by_batch, "the pass used running statistics: there are none of a batch");
        for ((spec, places), memory) in self.spec.layers.iter().zip(&self.layout.layers).zip(&tape.layers) {
            if let (Some(norm), Some(places)) = (spec.input_norm, &places.input_norm) {
                let towards = |running: &mut [f32], new: &[f32]| {
                    running.iter_mut().zip(new).for_each(|(r, n)| *r += norm.momentum * (n - *r));
                };
                towards(&mut params[places.mean.clone()], &memory.input_mean);
                towards(&mut params[places.var.clone()], &memory.input_var);
            }
        }
    }

    fn run<'t>(
        &self,
        params: &[f32],
        inputs: &[f32],
        batch: usize,
        tape: &'t mut Tape,
        by_batch: bool,
    ) -> &'t [f32] {
        assert_eq!(params.len(), self.len(), "parameters of another network");
        assert_eq!(inputs.len(), batch * self.inputs(), "inputs must be [batch, inputs]");
        tape.batch = batch;
        tape.by_batch = by_batch;
        tape.layers.resize_with(self.spec.layers.len(), LayerTape::default);
        for (index, (spec, places)) in self.spec.layers.iter().zip(&self.layout.layers).enumerate() {
            let (before, after) = tape.layers.split_at_mut(index);
            let memory = &mut after[0];
            memory.input.clear();
            memory.input.extend_from_slice(before.last().map_or(inputs, |layer| &layer.output));
            if let Some(norm) = spec.input_norm {
                batch_norm(params, places, norm, batch, by_batch, memory);
            }
            linear(params, places, batch, memory);
            if places.norm.is_some() {
                layer_norm(params, places, memory);
            }
            activate(spec.activation, &mut memory.output);
        }
        tape.layers.last().map_or(&[], |layer| &layer.output)
    }

    fn go_back(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        mut grads: Option<&mut [f32]>,
        grad_inputs: Option<&mut [f32]>,
    ) {
        let batch = tape.batch;
        assert_eq!(
            grad_out.len(),
            batch * self.outputs(),
            "gradients must be [batch, outputs] of the last pass"
        );
        let mut grad = grad_out.to_vec();
        for (index, (spec, places)) in self.spec.layers.iter().zip(&self.layout.layers).enumerate().rev() {
            let memory = &tape.layers[index];
            activation_back(spec.activation, &memory.output, &mut grad);
            if places.norm.is_some() {
                layer_norm_back(params, places, memory, &mut grad, grads.as_deref_mut());
            }
            if let Some(grads) = grads.as_deref_mut() {
                linear_weights_back(places, memory, &grad, grads);
            }
            if index == 0 && grad_inputs.is_none() && spec.input_norm.is_none() {
                return;
            }
            grad = linear_inputs_back(params, places, batch, &grad);
            if spec.input_norm.is_some() {
                batch_norm_back(
                    params,
                    places,
                    spec,
                    batch,
                    tape.by_batch,
                    memory,
                    &mut grad,
                    grads.as_deref_mut(),
                );
            }
        }
        if let Some(grad_inputs) = grad_inputs {
            grad_inputs.copy_from_slice(&grad);
        }
    }
}

fn linear(params: &[f32], places: &LayerPlaces, batch: usize, memory: &mut LayerTape) {
    let weight = &params[places.weight.clone()];
    memory.output.clear();
    for row in memory.input.chunks_exact(places.inputs).take(batch) {
        for (o, w) in weight.chunks_exact(places.inputs).enumerate() {
            let bias = places.bias.as_ref().map_or(0.0, |range| params[range.start + o]);
            memory.output.push(bias + row.iter().zip(w).map(|(x, w)| x * w).sum::<f32>());
        }
    }
}

fn layer_norm(params: &[f32], places: &LayerPlaces, memory: &mut LayerTape) {
    let Some([weight, bias]) = &places.norm else { return };
    let (weight, bias) = (&params[weight.clone()], &params[bias.clone()]);
    memory.hat.clear();
    memory.inv_std.clear();
    for row in memory.output.chunks_exact_mut(places.width) {
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / row.len() as f32;
        let inv_std = 1.0 / (var + LAYER_NORM_EPS).sqrt();
        memory.inv_std.push(inv_std);
        for (j, x) in row.iter_mut().enumerate() {
            let hat = (*x - mean) * inv_std;
            memory.hat.push(hat);
            *x = hat * weight[j] + bias[j];
        }
    }
}

fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::None => {}
        Activation::Tanh => values.iter_mut().for_each(|x| *x = x.tanh()),
        Activation::Relu => values.iter_mut().for_each(|x| *x = x.max(0.0)),
    }
}

fn activation_back(activation: Activation, outputs: &[f32], grad: &mut [f32]) {
    match activation {
        Activation::None => {}
        Activation::Tanh => grad.iter_mut().zip(outputs).for_each(|(g, y)| *g *= 1.0 - y * y),
        Activation::Relu => {
            grad.iter_mut().zip(outputs).for_each(|(g, y)| *g = if *y > 0.0 { *g } else { 0.0 })
        }
    }
}

fn layer_norm_back(
    params: &[f32],
    places: &LayerPlaces,
    memory: &LayerTape,
    grad: &mut [f32],
    grads: Option<&mut [f32]>,
) {
    let Some([weight, bias]) = &places.norm else { return };
    let width = places.width;
    if let Some(grads) = grads {
        for (row, hat) in grad.chunks_exact(width).zip(memory.hat.chunks_exact(width)) {
            for j in 0..width {
                grads[weight.start + j] += row[j] * hat[j];
                grads[bias.start + j] += row[j];
            }
        }
    }
    let weight = &params[weight.clone()];
    let rows = grad.chunks_exact_mut(width).zip(memory.hat.chunks_exact(width)).zip(&memory.inv_std);
    for ((row, hat), inv_std) in rows {
        row.iter_mut().zip(weight).for_each(|(g, w)| *g *= w);
        let mean = row.iter().sum::<f32>() / width as f32;
        let along = row.iter().zip(hat).map(|(g, h)| g * h).sum::<f32>() / width as f32;
        row.iter_mut().zip(hat).for_each(|(g, h)| *g = (*g - mean - h * along) * inv_std);
    }
}

fn linear_weights_back(places: &LayerPlaces, memory: &LayerTape, grad: &[f32], grads: &mut [f32]) {
    for (g, x) in grad.chunks_exact(places.width).zip(memory.input.chunks_exact(places.inputs)) {
        let weight = &mut grads[places.weight.clone()];
        for (row, g) in weight.chunks_exact_mut(places.inputs).zip(g) {
            row.iter_mut().zip(x).for_each(|(w, x)| *w += g * x);
        }
        if let Some(bias) = &places.bias {
            grads[bias.clone()].iter_mut().zip(g).for_each(|(b, g)| *b += g);
        }
    }
}

fn linear_inputs_back(params: &[f32], places: &LayerPlaces, batch: usize, grad: &[f32]) -> Vec<f32> {
    let weight = &params[places.weight.clone()];
    let mut into = vec![0.0; batch * places.inputs];
    for (into, grad) in into.chunks_exact_mut(places.inputs).zip(grad.chunks_exact(places.width)) {
        for (w, g) in weight.chunks_exact(places.inputs).zip(grad) {
            into.iter_mut().zip(w).for_each(|(i, w)| *i += g * w);
        }
    }
    into
}

fn batch_norm(
    params: &[f32],
    places: &LayerPlaces,
    norm: BatchNorm,
    batch: usize,
    by_batch: bool,
    memory: &mut LayerTape,
) {
    let Some(places) = &places.input_norm else { return };
    let (mean, var) = (&params[places.mean.clone()], &params[places.var.clone()]);
    let width = mean.len();
    memory.input_mean.clear();
    memory.input_var.clear();
    memory.input_scale.clear();
    memory.input_hat.clear();
    memory.input_hat.resize(batch * width, 0.0);
    for j in 0..width {
        let running_std = (var[j] + norm.eps).sqrt();
        let (center, scale, shift) = if by_batch {
            let column = || memory.input[j..].iter().step_by(width);
            let m = column().sum::<f32>() / batch as f32;
            let v = column().map(|x| (x - m) * (x - m)).sum::<f32>() / batch as f32;
            let std = (v + norm.eps).sqrt();
            memory.input_mean.push(m);
            memory.input_var.push(v);
            match norm.renorm {
                None => (m, 1.0 / std, 0.0),
                Some(limit) => {
                    let r = (std / running_std).clamp(1.0 / limit.r_max, limit.r_max);
                    let d = ((m - mean[j]) / running_std).clamp(-limit.d_max, limit.d_max);
                    (m, r / std, d)
                }
            }
        } else {
            (mean[j], 1.0 / running_std, 0.0)
        };
        memory.input_scale.push(scale);
        let (weight, bias) = (params[places.weight.start + j], params[places.bias.start + j]);
        for row in 0..batch {
            let hat = (memory.input[row * width + j] - center) * scale + shift;
            memory.input_hat[row * width + j] = hat;
            memory.input[row * width + j] = hat * weight + bias;
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn batch_norm_back(
    params: &[f32],
    places: &LayerPlaces,
    spec: &LayerSpec,
    batch: usize,
    by_batch: bool,
    memory: &LayerTape,
    grad: &mut [f32],
    mut grads: Option<&mut [f32]>,
) {
    let (Some(places), Some(norm)) = (&places.input_norm, spec.input_norm) else { return };
    let width = places.weight.len();
    for j in 0..width {
        let at = |row: usize| row * width + j;
        let weight = params[places.weight.start + j];
        let sum: f32 = (0..batch).map(|r| grad[at(r)]).sum();
        let along: f32 = (0..batch).map(|r| grad[at(r)] * memory.input_hat[at(r)]).sum();
        if let Some(grads) = grads.as_deref_mut() {
            grads[places.weight.start + j] += along;
            grads[places.bias.start + j] += sum;
        }
        let scale = memory.input_scale[j] * weight;
        if !by_batch {
            (0..batch).for_each(|r| grad[at(r)] *= scale);
            continue;
        }
        // The corrections of a renorm carry no gradient: the way back is through the plain normed value.
        let std = (memory.input_var[j] + norm.eps).sqrt();
        let r = memory.input_scale[j] * std;
        let hat_mean = (0..batch).map(|r| memory.input_hat[at(r)]).sum::<f32>() / batch as f32;
        let along = (along - hat_mean * sum) / (r * batch as f32);
        for row in 0..batch {
            let plain = (memory.input_hat[at(row)] - hat_mean) / r;
            grad[at(row)] = scale * (grad[at(row)] - sum / batch as f32 - plain * along);
        }
    }
}
