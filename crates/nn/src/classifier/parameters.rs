//! The numbers of a network: by name and shape as PyTorch has them, in memory as the layers want them.

use plaudit_core::{GradientSync, SyncError};
use rayon::prelude::*;

use super::init::Init;
use crate::tensor::Tensor;
use crate::weights::{Array, Weights};

/// A parameter of a network, as its place in the network's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) usize);

/// What becomes of a parameter while the network trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It learns.
    Trained,
    /// It stays as it was loaded.
    Frozen,
    /// It follows the batches: a running mean or variance.
    Statistic,
    /// It counts batches; an integer.
    Counter,
    /// No layer uses it. PyTorch's model has it, and files without it would not load there.
    Unused,
}

/// The order of the axes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As PyTorch has them.
    Same,
    /// A convolution: PyTorch has outputs, inputs, rows, columns; the layers here rows, columns, inputs, outputs.
    Convolution,
}

/// A parameter before it has a value.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// As PyTorch has it.
    pub(crate) shape: Vec<usize>,
    pub(crate) order: Order,
    pub(crate) role: Role,
    pub(crate) init: Init,
}

impl Spec {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape in memory.
    ///
    /// # Panics
    /// If the parameter has another number of axes.
    pub(crate) fn own_shape<const D: usize>(&self) -> [usize; D] {
        match (self.order, &self.shape[..]) {
            (Order::Convolution, [outputs, inputs, rows, columns]) => {
                let transposed = [*rows, *columns, *inputs, *outputs];
                std::array::from_fn(|axis| transposed[axis])
            }
            (_, shape) => std::array::from_fn(|axis| shape[axis]),
        }
    }

    /// PyTorch's order of numbers to that in memory.
    pub(crate) fn to_own(&self, numbers: Vec<f32>) -> Vec<f32> {
        match (self.order, &self.shape[..]) {
            (Order::Convolution, [outputs, inputs, rows, columns]) => {
                outputs_last(&numbers, *outputs, *inputs, rows * columns)
            }
            _ => numbers,
        }
    }

    /// Numbers in the order of memory, as PyTorch stores them.
    pub(crate) fn to_array(&self, numbers: &[f32]) -> Array {
        #[allow(clippy::expect_used)]
        let array = Array::from_slice(&self.shape, &self.to_torch(numbers.to_vec()))
            .expect("as many numbers as the shape takes");
        array
    }

    /// The order in memory to PyTorch's.
    pub(crate) fn to_torch(&self, numbers: Vec<f32>) -> Vec<f32> {
        let (Order::Convolution, [outputs, inputs, rows, columns]) = (self.order, &self.shape[..]) else {
            return numbers;
        };
        let (outputs, inputs, pixels) = (*outputs, *inputs, rows * columns);
        let (mut out, columns) = (vec![0.0; numbers.len()], inputs * pixels);
        for first in (0..outputs).step_by(OUTPUTS_AT_ONCE) {
            let width = OUTPUTS_AT_ONCE.min(outputs - first);
            for input in 0..inputs {
                for pixel in 0..pixels {
                    let from = &numbers[(pixel * inputs + input) * outputs + first..][..width];
                    for (output, number) in from.iter().enumerate() {
                        out[(first + output) * columns + input * pixels + pixel] = *number;
                    }
                }
            }
        }
        out
    }
}

/// Outputs that are transposed at a time: a cache line of them.
const OUTPUTS_AT_ONCE: usize = 16;

/// `[outputs, inputs, pixels]` to `[pixels, inputs, outputs]`, a few outputs at a time, so that what is written lies
/// together. Opening a model spends most of its time here.
fn outputs_last(numbers: &[f32], outputs: usize, inputs: usize, pixels: usize) -> Vec<f32> {
    let columns = inputs * pixels;
    let mut out = vec![0.0; numbers.len()];
    for first in (0..outputs).step_by(OUTPUTS_AT_ONCE) {
        let width = OUTPUTS_AT_ONCE.min(outputs - first);
        for input in 0..inputs {
            for pixel in 0..pixels {
                let to = &mut out[(pixel * inputs + input) * outputs + first..][..width];
                for (k, to) in to.iter_mut().enumerate() {
                    *to = numbers[(first + k) * columns + input * pixels + pixel];
                }
            }
        }
    }
    out
}

/// A parameter's value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Numbers, in the order of memory, without axes.
    Numbers(Tensor<1>),
    /// An integer.
    Count(i64),
}

/// The parameters of a network.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) specs: Vec<Spec>,
    pub(crate) values: Vec<Value>,
}

impl Parameters {
    /// Fresh parameters.
    pub(crate) fn fresh(specs: Vec<Spec>, seed: plaudit_core::Seed) -> Self {
        let values = super::init::sample(&specs, seed);
        let values = specs.iter().zip(values).map(|(spec, numbers)| match spec.role {
            Role::Counter => Value::Count(0),
            _ => Value::Numbers(spec.to_own(numbers).into()),
        });
        Self { values: values.collect(), specs }
    }

    /// A parameter with its axes.
    pub(crate) fn tensor<const D: usize>(&self, id: Id) -> Tensor<D> {
        self.flat(id).reshape(self.shape_of(id))
    }

    pub(crate) fn shape_of<const D: usize>(&self, id: Id) -> [usize; D] {
        self.specs[id.0].own_shape()
    }

    pub(crate) fn flat(&self, id: Id) -> Tensor<1> {
        match &self.values[id.0] {
            Value::Numbers(tensor) => tensor.clone(),
            Value::Count(count) => vec![*count as f32].into(),
        }
    }

    /// A parameter's numbers, taken out so that they can be changed in place.
    pub(crate) fn take(&mut self, id: Id) -> Tensor<1> {
        match std::mem::replace(&mut self.values[id.0], Value::Count(0)) {
            Value::Numbers(tensor) => tensor,
            Value::Count(count) => vec![count as f32].into(),
        }
    }

    pub(crate) fn set(&mut self, id: Id, value: Tensor<1>) {
        self.values[id.0] = Value::Numbers(value);
    }

    /// Every rank gets the values of rank 0. Frozen ones, which may be billions and come from a file, are compared instead.
    pub(crate) fn share(&mut self, sync: &dyn GradientSync) -> Result<(), SyncError> {
        let counts = self.values.iter().filter_map(|value| match value {
            Value::Count(count) => Some(count.to_string()),
            Value::Numbers(_) => None,
        });
        let counts = sync.broadcast_text(0, &counts.collect::<Vec<_>>().join(" "))?;
        let mut counts = counts.split(' ').map(str::parse);
        let mut frozen = FROZEN_HASH;
        for (spec, value) in self.specs.iter().zip(&mut self.values) {
            match (spec.role, value) {
                (_, Value::Count(count)) => *count = counts.next().and_then(Result::ok).unwrap_or(*count),
                (Role::Trained | Role::Statistic | Role::Unused, Value::Numbers(numbers)) => {
                    sync.broadcast(0, numbers.numbers_mut())?;
                }
                (_, Value::Numbers(numbers)) => frozen = hash(frozen, numbers.numbers()),
            }
        }
        sync.same_text("other frozen weights", &format!("hash {frozen:016x}"))
    }

    /// The parameters as PyTorch would save them.
    pub(crate) fn weights(&self) -> Weights {
        let array = |(spec, value): (&Spec, &Value)| match value {
            Value::Count(count) => Array::from_number(*count),
            Value::Numbers(tensor) => spec.to_array(tensor.numbers()),
        };
        let arrays: Vec<Array> = self.specs.par_iter().zip(&self.values).map(array).collect();
        let mut weights = Weights::new();
        self.specs.iter().zip(arrays).for_each(|(spec, array)| weights.insert(&spec.name, array));
        weights
    }
}

/// What a hash begins with (FNV-1a).
const FROZEN_HASH: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash that goes on with these numbers.
fn hash(from: u64, numbers: &[f32]) -> u64 {
    numbers
        .iter()
        .fold(from, |hash, number| (hash ^ u64::from(number.to_bits())).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolutions_are_transposed_and_transposed_back() {
        let spec = Spec {
            name: "conv".into(),
            shape: vec![2, 3, 1, 2],
            order: Order::Convolution,
            role: Role::Trained,
            init: Init::Zero,
        };
        // Outputs x inputs x 1 x columns: number = 100 output + 10 input + column.
        let torch: Vec<f32> = (0..2)
            .flat_map(|o| (0..3).flat_map(move |i| (0..2).map(move |x| (100 * o + 10 * i + x) as f32)))
            .collect();
        let own = spec.to_own(torch.clone());
        assert_eq!(own, [0., 100., 10., 110., 20., 120., 1., 101., 11., 111., 21., 121.]);
        assert_eq!(spec.to_torch(own), torch);
        assert_eq!(spec.own_shape(), [1, 2, 3, 2]);
    }
}
