//! The weights of a classifier in a GPU's memory, as its kernels want them.

use half::{bf16, f16};
use rayon::prelude::*;

use super::super::fold::{FoldedNumbers, ParameterSource};
use super::super::network::{ConvNorm, LayerNorm, Linear, Network, Pooling};
use super::super::parameters::Id;
use super::super::settings::Precision;
use super::convolution::channels_at_once;
use crate::gpu::{Address, Buffer, Gpu, GpuError};
use crate::images::Preprocess;

/// Channels of a square of 2x2 pixels of three colours, filled up.
pub(super) const SQUARE_CHANNELS: usize = 16;
/// Taps of the first convolution along an axis, once pixels are in squares.
pub(super) const SQUARE_TAPS: usize = 4;

/// A convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) weights: Address,
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// Groups, scale and shift of the normalisation that follows, where it is not in the weights.
    pub(super) group_norm: Option<(usize, Scale)>,
}

/// A scale and a shift for each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) scale: Address,
    pub(super) shift: Address,
}

/// A linear layer, in floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinearLayer {
    pub(super) weights: Address,
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Embeddings for each position of each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Embeddings {
    pub(super) kernel: Address,
    pub(super) positions: usize,
    pub(super) blocks: usize,
    pub(super) norm: Scale,
}

/// All of them.
#[derive(Debug)]
pub(super) struct GpuParameters {
    /// By the index of the convolution.
    pub(super) convolutions: Vec<Convolution>,
    /// By the index of the layer.
    pub(super) linears: Vec<LinearLayer>,
    /// Of each camera, if features are pooled so.
    pub(super) embeddings: Vec<Option<Embeddings>>,
    /// Of the head, if it has one.
    pub(super) head_norm: Option<Scale>,
    /// What each byte of each colour becomes.
    pub(super) byte_table: Address,
    _memory: Buffer<u8>,
}

/// Numbers one after another, each array from a whole multiple of 256 bytes on.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
}

const ALIGNMENT: usize = 256;

impl Packed {
    /// The place of these bytes, until they have an address.
    fn add(&mut self, bytes: &[u8]) -> Address {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let place = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Address(place as u64)
    }

    fn floats(&mut self, numbers: &[f32]) -> Address {
        self.add(bytemuck::cast_slice(numbers))
    }

    fn numbers(&mut self, numbers: &[f32], precision: Precision) -> Address {
        let rounded: Vec<u16> = match precision {
            Precision::Fp32 => return self.floats(numbers),
            Precision::Bf16 => numbers.par_iter().map(|number| bf16::from_f32(*number).to_bits()).collect(),
            Precision::Fp16 => numbers.par_iter().map(|number| f16::from_f32(*number).to_bits()).collect(),
        };
        self.add(bytemuck::cast_slice(&rounded))
    }

    fn convolution(&mut self, layer: &ConvNorm, folded: FoldedNumbers, precision: Precision) -> Convolution {
        let FoldedNumbers { weights, shape, bias, group_norm } = folded;
        let [kernel, _, inputs, outputs] = shape;
        let is_stem = inputs == 3;
        let (arranged, taps) = match is_stem {
            true => (stem_weights(&weights, shape), SQUARE_TAPS),
            false => (outputs_first(&weights, outputs), kernel * kernel),
        };
        let of_a_tap = arranged.len() / outputs / taps;
        let arranged = in_blocks(&arranged, taps, of_a_tap, channels_at_once(precision));
        let group_norm = group_norm.map(|(groups, scale, shift)| {
            (groups, Scale { scale: self.floats(&scale), shift: self.floats(&shift) })
        });
        Convolution {
            weights: self.numbers(&arranged, precision),
            bias: self.floats(&bias),
            inputs,
            outputs,
            kernel,
            stride: layer.stride,
            group_norm,
        }
    }

    fn linear(&mut self, layer: &Linear, source: &impl ParameterSource) -> LinearLayer {
        let (weights, bias) = (source.numbers(layer.weight), source.numbers(layer.bias));
        let (inputs, outputs) = (weights.len() / bias.len(), bias.len());
        LinearLayer { weights: self.floats(&weights), bias: self.floats(&bias), inputs, outputs }
    }

    fn norm(&mut self, norm: &LayerNorm, source: &impl ParameterSource) -> Scale {
        let mut put = |id: Id| self.floats(&source.numbers(id));
        Scale { scale: put(norm.scale), shift: put(norm.shift) }
    }

    fn embeddings(&mut self, pooling: &Pooling, source: &impl ParameterSource) -> Option<Embeddings> {
        let Pooling::Spatial { kernel, norm, .. } = pooling else { return None };
        let [_, rows, columns, blocks] = source.shape(*kernel);
        let numbers = source.numbers(*kernel);
        let norm = self.norm(norm, source);
        Some(Embeddings { kernel: self.floats(&numbers), positions: rows * columns, blocks, norm })
    }
}

impl GpuParameters {
    pub(super) fn load(
        gpu: &Gpu,
        network: &Network,
        source: &impl ParameterSource,
        preprocess: &Preprocess,
        precision: Precision,
    ) -> Result<Self, GpuError> {
        let (mut parameters, bytes) = Self::lay_out(network, source, preprocess, precision);
        check_memory(gpu, bytes.len())?;
        let base = parameters._memory.put(gpu, &bytes)?;
        gpu.wait()?;
        parameters.move_to(base);
        Ok(parameters)
    }

    /// Other numbers in the same places.
    pub(super) fn reload(
        &mut self,
        gpu: &Gpu,
        network: &Network,
        source: &impl ParameterSource,
        preprocess: &Preprocess,
        precision: Precision,
    ) -> Result<(), GpuError> {
        let (_, bytes) = Self::lay_out(network, source, preprocess, precision);
        self._memory.put(gpu, &bytes)?;
        gpu.wait()
    }

    /// All numbers as bytes, and places among these instead of addresses.
    pub(super) fn lay_out(
        network: &Network,
        source: &impl ParameterSource,
        preprocess: &Preprocess,
        precision: Precision,
    ) -> (Self, Vec<u8>) {
        let mut packed = Packed::default();
        let folded: Vec<FoldedNumbers> =
            network.convolutions.par_iter().map(|layer| FoldedNumbers::of(layer, source)).collect();
        let convolutions = network.convolutions.iter().zip(folded);
        let parameters = Self {
            convolutions: convolutions
                .map(|(layer, folded)| packed.convolution(layer, folded, precision))
                .collect(),
            linears: network.linears.iter().map(|layer| packed.linear(layer, source)).collect(),
            embeddings: network.poolings.iter().map(|pooling| packed.embeddings(pooling, source)).collect(),
            head_norm: network.head.norm().map(|norm| packed.norm(norm, source)),
            byte_table: packed.floats(preprocess.table().as_flattened()),
            _memory: Buffer::default(),
        };
        (parameters, packed.bytes)
    }

    /// Places become addresses.
    fn move_to(&mut self, base: Address) {
        let to = |address: &mut Address| address.0 += base.0;
        let scale = |scale: &mut Scale| {
            to(&mut scale.scale);
            to(&mut scale.shift);
        };
        for layer in &mut self.convolutions {
            to(&mut layer.weights);
            to(&mut layer.bias);
            layer.group_norm.iter_mut().for_each(|(_, norm)| scale(norm));
        }
        for layer in &mut self.linears {
            to(&mut layer.weights);
            to(&mut layer.bias);
        }
        for embeddings in self.embeddings.iter_mut().flatten() {
            to(&mut embeddings.kernel);
            scale(&mut embeddings.norm);
        }
        self.head_norm.iter_mut().for_each(scale);
        to(&mut self.byte_table);
    }
}

/// Says before anything is taken that there is too little.
pub(super) fn check_memory(gpu: &Gpu, needed: usize) -> Result<(), GpuError> {
    let (free, total) = gpu.memory()?;
    if needed > free { Err(GpuError::Memory { needed, free, total }) } else { Ok(()) }
}

/// `[taps and inputs, outputs]` to `[outputs, taps and inputs]`.
pub(super) fn outputs_first(weights: &[f32], outputs: usize) -> Vec<f32> {
    let columns = weights.len() / outputs;
    let row = |output: usize| (0..columns).map(move |column| weights[column * outputs + output]);
    (0..outputs).into_par_iter().flat_map_iter(row).collect()
}

/// `[outputs, taps, inputs]` to `[outputs, blocks of inputs, taps, inputs of a block]`: some inputs of every tap, then the next.
pub(super) fn in_blocks(weights: &[f32], taps: usize, inputs: usize, block: usize) -> Vec<f32> {
    let one_output = |weights: &[f32]| {
        let number = |place: usize| {
            let (tap, input) = (place / block % taps, place / block / taps * block + place % block);
            weights[tap * inputs + input]
        };
        (0..taps * inputs).map(number).collect::<Vec<f32>>()
    };
    weights.par_chunks(taps * inputs).flat_map_iter(one_output).collect()
}

/// The first convolution, 7x7 of stride 2, as one of 4x4 over squares of 2x2 pixels: `[outputs, 4, 4, 16]`. Row `r` of the
/// kernel is row `(r + 1) % 2` of the square `(r + 1) / 2`, and so are columns.
pub(super) fn stem_weights(weights: &[f32], [kernel, _, inputs, outputs]: [usize; 4]) -> Vec<f32> {
    let mut arranged = vec![0.0; outputs * SQUARE_TAPS * SQUARE_TAPS * SQUARE_CHANNELS];
    for row in 0..kernel {
        for column in 0..kernel {
            let ([y, dy], [x, dx]) =
                ([row.div_ceil(2), (row + 1) % 2], [column.div_ceil(2), (column + 1) % 2]);
            for input in 0..inputs {
                let from = ((row * kernel + column) * inputs + input) * outputs;
                let to = (y * SQUARE_TAPS + x) * SQUARE_CHANNELS + (dy * 2 + dx) * inputs + input;
                for output in 0..outputs {
                    let columns = SQUARE_TAPS * SQUARE_TAPS * SQUARE_CHANNELS;
                    arranged[output * columns + to] = weights[from + output];
                }
            }
        }
    }
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_come_in_blocks_of_inputs() {
        // Two outputs, three taps, four inputs: 100 output + 10 tap + input.
        let number = |i: usize| (100 * (i / 12) + 10 * (i / 4 % 3) + i % 4) as f32;
        let weights: Vec<f32> = (0..24).map(number).collect();
        let blocked = in_blocks(&weights, 3, 4, 2);
        assert_eq!(blocked[..6], [0., 1., 10., 11., 20., 21.]);
        assert_eq!(blocked[6..12], [2., 3., 12., 13., 22., 23.]);
        assert_eq!(blocked[12..14], [100., 101.]);
        assert_eq!(in_blocks(&weights, 3, 4, 4), weights);
    }

    /// The convolution over squares gives what the convolution over pixels gives.
    #[test]
    fn squares_of_pixels_are_the_same_convolution() {
        let (side, outputs) = (9usize, 2);
        let mut rng = plaudit_core::Seed::new(5).rng();
        let weights: Vec<f32> = (0..7 * 7 * 3 * outputs).map(|_| rng.unit() as f32 - 0.5).collect();
        let image: Vec<f32> = (0..side * side * 3).map(|_| rng.unit() as f32).collect();
        let pixel = |y: isize, x: isize, c: usize| {
            let inside = (0..side as isize).contains(&y) && (0..side as isize).contains(&x);
            if inside { image[(y as usize * side + x as usize) * 3 + c] } else { 0.0 }
        };
        let arranged = stem_weights(&weights, [7, 7, 3, outputs]);
        for (out_y, out_x, output) in [(0isize, 0isize, 0usize), (2, 3, 1), (4, 4, 0), (4, 0, 1)] {
            let mut expected = 0.0;
            for (r, s, c) in (0..7).flat_map(|r| (0..7).flat_map(move |s| (0..3).map(move |c| (r, s, c)))) {
                let at = ((r * 7 + s) * 3 + c) * outputs + output;
                expected += pixel(2 * out_y - 3 + r as isize, 2 * out_x - 3 + s as isize, c) * weights[at];
            }
            let mut found = 0.0;
            for (j, weight) in arranged[output * 256..][..256].iter().enumerate() {
                let (y, x, place) = (j / 64, j / 16 % 4, j % 16);
                if place < 12 {
                    let (dy, dx, c) = (place / 6, place / 3 % 2, place % 3);
                    let row = 2 * (out_y + y as isize - 2) + dy as isize;
                    found += pixel(row, 2 * (out_x + x as isize - 2) + dx as isize, c) * weight;
                } else {
                    assert_eq!(*weight, 0.0);
                }
            }
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
