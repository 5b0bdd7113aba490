//! Linear layers with adapters, forward and backward.

use super::super::parameters::Linear;
use super::TrainEngine;
use super::adapters::Group;
use crate::gpu::{Address, Arg, Epilogue, GpuError, LaunchShape, Matrix, Moment, Product, Side};

/// A linear layer, or several on the same numbers, with their adapters.
#[derive(Clone, Debug)]
pub(super) struct LoraLinear {
    pub(super) base: Linear,
    pub(super) group: Group,
}

impl LoraLinear {
    /// The same for what its adapters make of the inputs, and nothing else.
    pub(super) fn without_outputs(&self) -> Self {
        Self { base: Linear { outputs: 0, ..self.base }, group: self.group.clone() }
    }
}

/// Rows of bf16 numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) at: Address,
    pub(super) stride: usize,
}

impl Rows {
    pub(super) fn new(at: Address, stride: usize) -> Self {
        Self { at, stride }
    }

    /// From a column on.
    pub(super) fn columns_from(self, column: usize) -> Self {
        Self { at: self.at.plus(column), ..self }
    }

    fn matrix(self) -> Matrix {
        Matrix::new(self.at, self.stride)
    }
}

/// Where the result of a layer goes, and what is added to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    epilogue: Epilogue,
    added: Address,
    at: Address,
}

impl Output {
    /// The product alone, or with a bias.
    pub(super) fn new(epilogue: Epilogue, at: Address) -> Self {
        Self { epilogue, added: Address::NONE, at }
    }

    /// What lies at `added` as the result does is added too.
    pub(super) fn add(epilogue: Epilogue, added: Address, at: Address) -> Self {
        Self { epilogue, added, at }
    }
}

/// The names of a layer's products, for the profiler.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductNames {
    pub(super) forward: &'static str,
    pub(super) backward: &'static str,
}

impl TrainEngine {
    /// Runs what `work` asks for beside what comes after; gives when it is done.
    pub(super) fn aside(
        &mut self,
        side: Side,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<Moment, GpuError> {
        let main = self.engine.gpu.step_aside(side)?;
        let asked = work(self);
        let done = self.engine.gpu.step_back(main);
        asked?;
        done
    }

    /// What comes after waits for something that runs beside it, if there is any.
    pub(super) fn wait_until(&self, done: Option<&Moment>) -> Result<(), GpuError> {
        done.map_or(Ok(()), |done| self.engine.gpu.wait_until(done))
    }

    fn multiply(
        &mut self,
        what: &'static str,
        left: Matrix,
        right: Matrix,
        size: [usize; 3],
        output: Output,
        stride: usize,
    ) -> Result<(), GpuError> {
        let (factor, floats) = (1.0, false);
        let Output { epilogue, added, at: out } = output;
        let product = Product { left, right, size, factor, epilogue, added, out, stride, floats };
        self.engine.cublas.multiply(&mut self.engine.gpu, what, &product)
    }

    /// `x W^T` and what the output says, with adapters. `x` has rows as wide as those of the weights; the columns of adapters are
    /// filled here.
    pub(super) fn forward(
        &mut self,
        names: ProductNames,
        layer: &LoraLinear,
        x: Address,
        rows: usize,
        output: Output,
    ) -> Result<(), GpuError> {
        let Linear { weight, inputs, outputs, extra, .. } = layer.base;
        let stride = layer.base.stride();
        let x = Rows::new(x, stride);
        if extra > 0 {
            let down = Matrix::new(self.adapters.down(&self.engine.gpu, &layer.group), inputs).transposed();
            let h = Output::new(Epilogue::Plain, x.columns_from(inputs).at);
            self.multiply("adapters", x.matrix(), down, [rows, extra, inputs], h, stride)?;
        }
        let weight = Matrix::new(weight, stride).transposed();
        self.multiply(names.forward, x.matrix(), weight, [rows, outputs, stride], output, outputs)
    }

    /// The same without a bias, to floats whose rows are `stride` apart.
    pub(super) fn forward_floats(
        &mut self,
        names: ProductNames,
        layer: &LoraLinear,
        x: Address,
        rows: usize,
        out: Address,
        stride: usize,
    ) -> Result<(), GpuError> {
        let epilogue = Epilogue::Plain;
        self.forward(names, &layer.without_outputs(), x, rows, Output::new(epilogue, out))?;
        let inner = layer.base.stride();
        let product = Product {
            left: Matrix::new(x, inner),
            right: Matrix::new(layer.base.weight, inner).transposed(),
            size: [rows, layer.base.outputs, inner],
            factor: 1.0,
            epilogue,
            added: Address::NONE,
            out,
            stride,
            floats: true,
        };
        self.engine.cublas.multiply(&mut self.engine.gpu, names.forward, &product)
    }

    /// The gradient of what went into a layer, `[rows, inputs + columns]`, of which the columns are that of `h`. Unless the input
    /// `is_needed`, only these are computed.
    pub(super) fn backward_input(
        &mut self,
        names: ProductNames,
        layer: &LoraLinear,
        dy: Rows,
        rows: usize,
        dx: Address,
        is_needed: bool,
    ) -> Result<(), GpuError> {
        let Linear { weight, inputs, outputs, extra, .. } = layer.base;
        let stride = layer.base.stride();
        let (first, count) = if is_needed { (0, stride) } else { (inputs, extra) };
        let dx = Rows::new(dx, stride);
        let weight = Matrix::new(weight.plus(first), stride);
        let out = Output::new(Epilogue::Plain, dx.columns_from(first).at);
        self.multiply(names.backward, dy.matrix(), weight, [rows, count, outputs], out, stride)?;
        if extra == 0 || !is_needed {
            return Ok(());
        }
        let down = Matrix::new(self.adapters.down(&self.engine.gpu, &layer.group), inputs);
        let (dh, size) = (dx.columns_from(inputs).matrix(), [rows, inputs, extra]);
        self.multiply("adapters backward", dh, down, size, Output::add(Epilogue::Add, dx.at, dx.at), stride)
    }

    /// Adds the gradients of a layer's adapters: from its input, `h`, the gradient of `h`, and that of its output.
    pub(super) fn backward_adapters(
        &mut self,
        layer: &LoraLinear,
        x: Rows,
        h: Rows,
        dh: Rows,
        dy: Rows,
        rows: usize,
    ) -> Result<(), GpuError> {
        let Linear { inputs, extra, .. } = layer.base;
        if extra == 0 {
            return Ok(());
        }
        let gpu = &mut self.engine.gpu;
        let mut add = |left: Rows, right: Rows, size: [usize; 3], factor: f32, place: usize| {
            let out = self.adapters.gradient(gpu, place);
            let product = Product {
                left: left.matrix().transposed(),
                right: right.matrix(),
                size,
                factor,
                epilogue: Epilogue::Add,
                added: out,
                out,
                stride: size[1],
                floats: true,
            };
            self.engine.cublas.multiply(gpu, "adapter gradients", &product)
        };
        add(dh, x, [extra, inputs, rows], 1.0, layer.group.down)?;
        for member in &layer.group.members {
            let (dy, h) = (dy.columns_from(member.first_output), h.columns_from(member.first_column));
            add(
                dy,
                h,
                [member.outputs, member.columns, rows],
                self.adapters.layout.scale(member),
                member.up,
            )?;
        }
        Ok(())
    }

    /// Copies rows, or of `rows` those it names.
    pub(super) fn copy_rows(
        &mut self,
        from: Rows,
        rows: Address,
        to: Rows,
        count: usize,
        width: usize,
    ) -> Result<(), GpuError> {
        if width == 0 {
            return Ok(());
        }
        let args = [
            Arg::At(from.at),
            Arg::Int(from.stride as i32),
            Arg::At(rows),
            Arg::At(to.at),
            Arg::Int(to.stride as i32),
            Arg::Int(width as i32),
        ];
        self.engine.gpu.run("take_rows", LaunchShape::rows(count, width), &args)
    }
}
