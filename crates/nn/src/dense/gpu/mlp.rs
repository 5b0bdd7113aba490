//! A multilayer perceptron on a GPU: several networks of one shape at once.

use std::ops::Range;

use super::kernels::{GpuKernels, Groups, Params, Rows};
use crate::dense::Mlp;
use crate::dense::layout::LayerLayout;
use crate::gpu::GpuError;
use crate::kernels::layer_ops::Activation;

/// Rows and columns of a tile of a product.
pub(super) const TILE: [usize; 2] = [64, 32];

/// So many networks of one shape, with memory for what a pass leaves behind. Groups of the inner count have parameters of their
/// own; those of the outer count share them.
#[derive(Debug)]
pub struct GpuMlp {
    layers: Vec<GpuLayer>,
    inner: usize,
    /// Rows of a group that there is memory for.
    rows: usize,
}

#[derive(Debug)]
struct GpuLayer {
    places: LayerLayout,
    activation: Activation,
    output: Rows,
    /// What the norm made of the product, then one over the deviation; nowhere without a norm.
    hat: Option<Rows>,
    /// Backward: the gradient of the product, and of what the layer took.
    grad: Rows,
    grad_input: Rows,
}

/// What a backward pass is to compute.
#[derive(Debug, Clone, Default)]
pub struct WantedGradients {
    /// Those of the parameters.
    pub weights: Option<WeightGradients>,
    /// Those of the inputs.
    pub inputs: Option<InputGradient>,
}

/// Where the gradients of parameters go.
#[derive(Debug, Clone, Copy)]
pub struct WeightGradients {
    /// With the layout of the parameters.
    pub to: Params,
    /// Whether they are added to what is there.
    pub add: bool,
}

/// Where the gradients of inputs go.
#[derive(Debug, Clone)]
pub struct InputGradient {
    /// With the groups of the network; columns are those of the input.
    pub to: Rows,
    /// The inputs whose gradients are wanted.
    pub columns: Range<usize>,
    /// Outputs of a ReLU that the inputs are, with the layout of `to`: gradients pass where these are positive.
    pub relu: Option<Rows>,
    /// Whether they are added to what is there.
    pub add: bool,
}

impl GpuMlp {
    /// Networks of the shape of `mlp`, with memory for `outer` times `inner` groups of so many rows.
    ///
    /// # Errors
    /// If there is too little memory, or the network has batch norms.
    pub fn new(
        kernels: &mut GpuKernels,
        mlp: &Mlp,
        outer: usize,
        inner: usize,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let room = outer * inner * rows;
        let mut layers = Vec::new();
        for (spec, places) in mlp.spec.layers.iter().zip(&mlp.layout.layers) {
            if places.input_norm.is_some() || places.shape.is_half() {
                return Err(GpuError::Unsupported {
                    what: "a network with batch norms or of half precision",
                });
            }
            let mut dense = |width: usize| {
                kernels.floats(room * width).map(|floats| Rows::dense(floats, width, rows, inner))
            };
            layers.push(GpuLayer {
                output: dense(places.width)?,
                hat: places.norm.as_ref().map(|_| dense(places.width + 1)).transpose()?,
                grad: dense(places.width)?,
                grad_input: if layers.is_empty() { dense(0)? } else { dense(places.inputs)? },
                places: places.clone(),
                activation: spec.activation,
            });
        }
        Ok(Self { layers, inner, rows })
    }

    /// Where the outputs of the last forward pass are.
    pub fn output(&self) -> Rows {
        self.layers[self.layers.len() - 1].output
    }

    /// Outputs go where `output` says from now on, in place of memory of their own.
    #[must_use]
    pub fn with_output(mut self, output: Rows) -> Self {
        if let Some(last) = self.layers.last_mut() {
            last.output = output;
        }
        self
    }

    /// The outputs of `outer` times the inner count of groups, for so many rows each.
    pub fn forward(
        &self,
        kernels: &mut GpuKernels,
        params: Params,
        input: Rows,
        outer: usize,
        rows: usize,
    ) -> Result<(), GpuError> {
        let groups = self.groups(outer, rows);
        let mut x = input;
        for layer in &self.layers {
            layer.forward(kernels, groups, params, x, rows)?;
            x = layer.output;
        }
        Ok(())
    }

    /// The gradients that are wanted, given those of the outputs of the last forward pass, with that pass' parameters and inputs.
    #[allow(clippy::too_many_arguments)] // what a forward pass takes, and what comes back
    pub fn backward(
        &self,
        kernels: &mut GpuKernels,
        params: Params,
        input: Rows,
        outer: usize,
        rows: usize,
        grad_output: Rows,
        wanted: &WantedGradients,
    ) -> Result<(), GpuError> {
        let groups = self.groups(outer, rows);
        let mut grad = grad_output;
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let before = index.checked_sub(1).map(|before| &self.layers[before]);
            let x = before.map_or(input, |before| before.output);
            layer.back_to_product(kernels, groups, params, grad, rows)?;
            if let Some(weights) = &wanted.weights {
                layer.weight_gradients(kernels, groups, weights, x, grad, rows)?;
            }
            let own = InputGradient {
                to: layer.grad_input,
                columns: 0..layer.places.inputs,
                relu: None,
                add: false,
            };
            match (before, &wanted.inputs) {
                (Some(_), _) => layer.input_gradients(kernels, groups, params, &own, rows)?,
                (None, Some(asked)) => layer.input_gradients(kernels, groups, params, asked, rows)?,
                (None, None) => {}
            }
            grad = layer.grad_input;
        }
        Ok(())
    }

    fn groups(&self, outer: usize, rows: usize) -> Groups {
        assert!(rows <= self.rows, "{rows} rows in memory for {}", self.rows);
        Groups { outer, inner: self.inner }
    }
}

impl GpuLayer {
    fn forward(
        &self,
        kernels: &mut GpuKernels,
        groups: Groups,
        params: Params,
        x: Rows,
        rows: usize,
    ) -> Result<(), GpuError> {
        let LayerLayout { inputs, width, norm, .. } = &self.places;
        let product = self.hat.unwrap_or(self.output);
        let activation = if self.hat.is_some() { Activation::None } else { self.activation };
        let mut words = kernels.fitted(groups, x, rows, *inputs).to_vec();
        words.push(x.stride as u64);
        words.extend(kernels.params(groups, params, self.range()));
        words.push(self.bias_offset());
        words.extend(kernels.fitted(groups, product, rows, *width));
        words.extend([product.stride, groups.inner, rows, *inputs, *width].map(|size| size as u64));
        words.push(number(activation));
        let [row_tiles, column_tiles] = [rows.div_ceil(TILE[0]), width.div_ceil(TILE[1])];
        kernels.launch("layer_forward", [row_tiles, column_tiles, groups.count()], &words)?;
        let (Some(hat), Some([scale, shift])) = (self.hat, norm) else { return Ok(()) };
        let mut words = kernels.fitted(groups, hat, rows, width + 1).to_vec();
        words.push(hat.stride as u64);
        words.extend(kernels.params(groups, params, scale.start..shift.end));
        words.extend(kernels.fitted(groups, self.output, rows, *width));
        words.extend([self.output.stride, groups.inner, rows, *width].map(|size| size as u64));
        words.push(number(self.activation));
        kernels.launch("norm_forward", [rows, 1, groups.count()], &words)
    }

    /// From the gradient of the output to that of the product.
    fn back_to_product(
        &self,
        kernels: &mut GpuKernels,
        groups: Groups,
        params: Params,
        grad: Rows,
        rows: usize,
    ) -> Result<(), GpuError> {
        let LayerLayout { width, norm, .. } = &self.places;
        let mut words = self.grad_and_output(kernels, groups, grad, rows);
        match (self.hat, norm) {
            (Some(_), Some([scale, _])) => words.extend(kernels.params(groups, params, scale.clone())),
            _ => words.extend([0; 3]),
        }
        words.extend(kernels.fitted(groups, self.grad, rows, *width));
        words.extend([groups.inner, rows, *width].map(|size| size as u64));
        words.push(number(self.activation));
        kernels.launch("layer_backward", [rows, 1, groups.count()], &words)
    }

    fn weight_gradients(
        &self,
        kernels: &mut GpuKernels,
        groups: Groups,
        wanted: &WeightGradients,
        x: Rows,
        grad: Rows,
        rows: usize,
    ) -> Result<(), GpuError> {
        let LayerLayout { inputs, width, norm, .. } = &self.places;
        let WeightGradients { to, add } = *wanted;
        let mut words = kernels.fitted(groups, x, rows, *inputs).to_vec();
        words.push(x.stride as u64);
        words.extend(kernels.fitted(groups, self.grad, rows, *width));
        words.push(self.grad.stride as u64);
        words.extend(kernels.params(groups, to, self.range()));
        words.push(self.bias_offset());
        words.extend([groups.inner, rows, *inputs, *width].map(|size| size as u64));
        words.push(u64::from(add));
        let tiles = [(inputs + 1).div_ceil(TILE[0]), width.div_ceil(TILE[1]), groups.count()];
        kernels.launch("layer_weight_gradient", tiles, &words)?;
        let (Some(_), Some([scale, shift])) = (self.hat, norm) else { return Ok(()) };
        let mut words = self.grad_and_output(kernels, groups, grad, rows);
        words.extend(kernels.params(groups, to, scale.start..shift.end));
        words.extend([groups.inner, rows, *width].map(|size| size as u64));
        words.extend([number(self.activation), u64::from(add)]);
        kernels.launch("norm_gradient", [width.div_ceil(32), 1, groups.count()], &words)
    }

    fn input_gradients(
        &self,
        kernels: &mut GpuKernels,
        groups: Groups,
        params: Params,
        wanted: &InputGradient,
        rows: usize,
    ) -> Result<(), GpuError> {
        let LayerLayout { inputs, width, .. } = &self.places;
        let InputGradient { to, columns, relu, add } = wanted;
        assert!(columns.end <= *inputs, "a layer of {inputs} inputs");
        let mut words = kernels.fitted(groups, self.grad, rows, *width).to_vec();
        words.push(self.grad.stride as u64);
        words.extend(kernels.params(groups, params, self.range()));
        words.extend(kernels.fitted(groups, *to, rows, columns.end));
        words.push(to.stride as u64);
        words.push(relu.map_or(0, |relu| {
            assert!(
                (relu.stride, relu.outer, relu.inner) == (to.stride, to.outer, to.inner),
                "another layout"
            );
            kernels.fitted(groups, relu, rows, columns.end)[0]
        }));
        words.extend(
            [groups.inner, rows, *inputs, *width, columns.start, columns.end].map(|size| size as u64),
        );
        words.push(u64::from(*add));
        let column_tiles = columns.end.div_ceil(TILE[1]) - columns.start / TILE[1];
        let tiles = [rows.div_ceil(TILE[0]), column_tiles, groups.count()];
        kernels.launch("layer_input_gradient", tiles, &words)
    }

    /// What both kernels of the backward pass begin with.
    fn grad_and_output(&self, kernels: &GpuKernels, groups: Groups, grad: Rows, rows: usize) -> Vec<u64> {
        let width = self.places.width;
        let mut words = kernels.fitted(groups, grad, rows, width).to_vec();
        words.push(grad.stride as u64);
        words.extend(kernels.fitted(groups, self.output, rows, width));
        words.push(self.output.stride as u64);
        match self.hat {
            Some(hat) => {
                words.extend(kernels.fitted(groups, hat, rows, width + 1));
                words.push(hat.stride as u64);
            }
            None => words.extend([0; 4]),
        }
        words
    }

    /// All its parameters: weights first.
    fn range(&self) -> Range<usize> {
        self.places.weight.start..self.places.after_weight().end
    }

    /// From the first weight to the first bias; -1 without.
    fn bias_offset(&self) -> u64 {
        let LayerLayout { weight, bias, .. } = &self.places;
        bias.as_ref().map_or(u64::MAX, |bias| (bias.start - weight.start) as u64)
    }
}

/// As the kernels number them.
fn number(activation: Activation) -> u64 {
    match activation {
        Activation::None => 0,
        Activation::Tanh => 1,
        Activation::Relu => 2,
    }
}
