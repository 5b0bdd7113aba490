//! Where the parameters of a classifier in training lie on a GPU: all of them in one array, those that learn first, convolutions in
//! the order that their kernels want. Gradients and moments are arrays of the same order.

use std::ops::Range;
use std::sync::OnceLock;

use super::super::super::network::{ConvNorm, LayerNorm, Linear, Network, Norm, Pooling};
use super::super::super::parameters::{Id, Role, Spec};
use super::super::super::settings::Precision;
use super::super::convolution::channels_at_once;
use super::super::parameters::{SQUARE_CHANNELS, SQUARE_TAPS, in_blocks, outputs_first, stem_weights};

/// A convolution and its normalisation; places are in numbers.
#[derive(Clone, Debug)]
pub(super) struct ConvPlace {
    pub(super) weight: usize,
    pub(super) scale: usize,
    pub(super) shift: usize,
    /// Its first channel among those of all batch normalisations.
    pub(super) statistics: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// Of group normalisation.
    pub(super) groups: Option<usize>,
    /// The convolutions that make the gradient of its inputs.
    pub(super) backs: Vec<Back>,
}

impl ConvPlace {
    /// Whether it is the first one, whose inputs are squares of pixels.
    pub(super) fn is_stem(&self) -> bool {
        self.inputs == COLOURS
    }

    /// Numbers of an output's weights.
    fn columns(&self) -> usize {
        match self.is_stem() {
            true => SQUARE_TAPS * SQUARE_TAPS * SQUARE_CHANNELS,
            false => self.kernel * self.kernel * self.inputs,
        }
    }
}

/// A convolution that makes the gradient of inputs: of all of them, or with a stride of 2 of every other row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    /// Its weights, among those that change places.
    pub(super) weights: usize,
    pub(super) taps: [usize; 2],
    /// Whether of odd rows, and of odd columns.
    pub(super) odd: Option<[usize; 2]>,
}

const COLOURS: usize = 3;
/// Numbers that a parameter begins at a whole multiple of.
const ALIGNMENT: usize = 64;

/// Where each parameter is.
#[derive(Debug)]
pub(super) struct Layout {
    precision: Precision,
    /// By parameter; those that no kernel uses have none.
    places: Vec<Option<Range<usize>>>,
    /// By parameter: which convolution has it as its weights.
    convolution_of: Vec<Option<usize>>,
    /// Numbers that learn: the first ones.
    pub(super) trained: usize,
    pub(super) total: usize,
    pub(super) convolutions: Vec<ConvPlace>,
    /// By convolution: see [`origins`](Self::origins).
    origins: Vec<OnceLock<Vec<u32>>>,
    /// Channels of all batch normalisations.
    pub(super) channels: usize,
    /// Running mean and running variance: parameter, first channel, channels; means before variances.
    pub(super) statistics: [Vec<(Id, Range<usize>)>; 2],
    /// Numbers of weights that change places, and how: from, stride, to, stride.
    pub(super) transposed: usize,
    pub(super) squares: Vec<[i32; 4]>,
}

impl Layout {
    pub(super) fn new(network: &Network, specs: &[Spec], precision: Precision) -> Self {
        let mut layout = Self {
            precision,
            places: vec![None; specs.len()],
            convolution_of: vec![None; specs.len()],
            trained: 0,
            total: 0,
            convolutions: Vec::new(),
            origins: network.convolutions.iter().map(|_| OnceLock::new()).collect(),
            channels: 0,
            statistics: [Vec::new(), Vec::new()],
            transposed: 0,
            squares: Vec::new(),
        };
        let mut lengths: Vec<Option<usize>> = vec![None; specs.len()];
        for layer in &network.convolutions {
            let place = layout.convolution(layer, specs);
            for (id, length) in [
                (layer.weight, place.outputs * place.columns()),
                (layer.scale, place.outputs),
                (layer.shift, place.outputs),
            ] {
                lengths[id.0] = Some(length);
            }
            layout.convolution_of[layer.weight.0] = Some(layout.convolutions.len());
            layout.convolutions.push(place);
        }
        for id in others(network) {
            lengths[id.0] = Some(specs[id.0].len());
        }
        for (role, is_last) in [(Role::Trained, false), (Role::Frozen, true)] {
            for (i, length) in lengths.iter().enumerate().filter(|(i, _)| specs[*i].role == role) {
                let Some(length) = length else { continue };
                let start = layout.total;
                layout.places[i] = Some(start..start + length);
                layout.total = (start + length).next_multiple_of(ALIGNMENT);
            }
            if !is_last {
                layout.trained = layout.total;
            }
        }
        for (index, layer) in network.convolutions.iter().enumerate() {
            let [weight, scale, shift] =
                [layer.weight, layer.scale, layer.shift].map(|id| layout.place(id).start);
            let place = &mut layout.convolutions[index];
            (place.weight, place.scale, place.shift) = (weight, scale, shift);
            if !layer.frozen {
                layout.transpose(index);
            }
        }
        layout
    }

    fn convolution(&mut self, layer: &ConvNorm, specs: &[Spec]) -> ConvPlace {
        let [kernel, _, inputs, outputs] = specs[layer.weight.0].own_shape();
        let statistics = self.channels;
        let groups = match layer.norm {
            Norm::Group { groups } => Some(groups),
            Norm::Batch { mean, variance, .. } => {
                self.channels += outputs;
                for (list, id) in self.statistics.iter_mut().zip([mean, variance]) {
                    list.push((id, statistics..statistics + outputs));
                }
                None
            }
        };
        let (stride, backs) = (layer.stride, Vec::new());
        ConvPlace {
            weight: 0,
            scale: 0,
            shift: 0,
            statistics,
            inputs,
            outputs,
            kernel,
            stride,
            groups,
            backs,
        }
    }

    /// The convolutions back to a layer's inputs.
    fn transpose(&mut self, index: usize) {
        let place = &self.convolutions[index];
        if place.is_stem() {
            return; // nobody asks for the gradient of images
        }
        // Along an axis: the layer's own taps, in the order of the gradients that they meet.
        let axis = |odd: usize| match (place.stride, place.kernel, odd) {
            (1, kernel, _) => (0..kernel).rev().collect::<Vec<usize>>(),
            (_, 1, _) => vec![0],
            (_, _, 0) => vec![1],
            _ => vec![2, 0],
        };
        let classes: Vec<Option<[usize; 2]>> = match (place.stride, place.kernel) {
            (1, _) | (_, 1) => vec![None],
            _ => [[0, 0], [0, 1], [1, 0], [1, 1]].map(Some).to_vec(),
        };
        let block = channels_at_once(self.precision);
        let (taps, columns) = (place.kernel * place.kernel, place.columns());
        let mut backs = Vec::new();
        for odd in classes {
            let [down, across] = odd.unwrap_or_default().map(axis);
            let own_taps: Vec<usize> = down
                .iter()
                .flat_map(|row| across.iter().map(move |column| row * place.kernel + column))
                .collect();
            let start = self.transposed;
            let back_columns = own_taps.len() * place.outputs;
            for (to_tap, tap) in own_taps.iter().enumerate() {
                for input in 0..place.inputs / block {
                    for output in 0..place.outputs / block {
                        let from = place.weight + output * block * columns + (input * taps + tap) * block;
                        let to =
                            start + input * block * back_columns + (output * own_taps.len() + to_tap) * block;
                        self.squares.push([from, columns, to, back_columns].map(|number| number as i32));
                    }
                }
            }
            self.transposed += place.inputs * back_columns;
            backs.push(Back { weights: start, taps: [down.len(), across.len()], odd });
        }
        self.convolutions[index].backs = backs;
    }

    /// Where a parameter is that some kernel uses.
    pub(super) fn place(&self, id: Id) -> Range<usize> {
        self.places[id.0].clone().unwrap_or_else(|| unreachable!("a parameter in use"))
    }

    /// The parameters on the GPU, those that learn or all.
    pub(super) fn ids(&self, trained_alone: bool) -> impl Iterator<Item = Id> + '_ {
        let is_in = move |place: &Range<usize>| !trained_alone || place.end <= self.trained;
        let is_in = move |place: &Option<Range<usize>>| place.as_ref().is_some_and(is_in);
        self.places.iter().enumerate().filter(move |(_, place)| is_in(place)).map(|(i, _)| Id(i))
    }

    /// Puts a parameter's numbers into an array of all.
    pub(super) fn put(&self, id: Id, numbers: &[f32], all: &mut [f32]) {
        let place = self.place(id);
        match self.convolution_of[id.0] {
            Some(index) => all[place].copy_from_slice(&self.arranged(index, numbers)),
            None => all[place].copy_from_slice(numbers),
        }
    }

    /// A parameter's numbers from an array of all.
    pub(super) fn get(&self, id: Id, all: &[f32]) -> Vec<f32> {
        let own = &all[self.place(id)];
        let Some(index) = self.convolution_of[id.0] else { return own.to_vec() };
        let place = &self.convolutions[index];
        let mut numbers = vec![0.0; place.kernel * place.kernel * place.inputs * place.outputs];
        for (from, number) in self.origins(index).iter().zip(own) {
            if *from > 0 {
                numbers[*from as usize - 1] = *number;
            }
        }
        numbers
    }

    /// Where each number of a convolution comes from, from 1 on: what was filled up is 0. Floats count that far exactly.
    fn origins(&self, index: usize) -> &[u32] {
        if let Some(known) = self.origins[index].get() {
            return known;
        }
        let place = &self.convolutions[index];
        let count = place.kernel * place.kernel * place.inputs * place.outputs;
        let numbered: Vec<f32> = (1..=count).map(|number| number as f32).collect();
        let origins = self.arranged(index, &numbered).into_iter().map(|from| from as u32).collect();
        // Not made inside the lock: a thread that waits for others to do a part of it may begin work that asks for just this.
        self.origins[index].get_or_init(|| origins)
    }

    /// Weights `[rows, columns, inputs, outputs]` as the kernels want them.
    fn arranged(&self, index: usize, numbers: &[f32]) -> Vec<f32> {
        let place = &self.convolutions[index];
        let shape = [place.kernel, place.kernel, place.inputs, place.outputs];
        let (by_output, taps) = match place.is_stem() {
            true => (stem_weights(numbers, shape), SQUARE_TAPS),
            false => (outputs_first(numbers, place.outputs), place.kernel * place.kernel),
        };
        in_blocks(&by_output, taps, place.columns() / taps, channels_at_once(self.precision))
    }
}

/// The parameters outside convolutions.
fn others(network: &Network) -> Vec<Id> {
    let of_linear = |layer: &Linear| [layer.weight, layer.bias];
    let of_norm = |norm: &LayerNorm| [norm.scale, norm.shift];
    let of_pooling = |pooling: &Pooling| match pooling {
        Pooling::Mean => Vec::new(),
        Pooling::Spatial { kernel, norm, .. } => [[*kernel].as_slice(), &of_norm(norm)].concat(),
    };
    let poolings = network.poolings.iter().flat_map(of_pooling);
    let head = network.head.norm().into_iter().flat_map(of_norm);
    network.linears.iter().flat_map(of_linear).chain(poolings).chain(head).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::super::network;
    use super::super::super::super::parameters::Parameters;
    use super::super::super::super::settings::{Arch, ClassifierSettings};
    use super::*;

    fn settings(arch: Arch, freeze_encoder: bool) -> ClassifierSettings {
        ClassifierSettings { arch, freeze_encoder, image_size: [3, 64, 64], ..Default::default() }
    }

    #[test]
    fn numbers_come_back_from_where_they_were_put_and_places_do_not_overlap() {
        for (arch, frozen) in
            [(Arch::Resnet18, false), (Arch::Resnet18, true), (Arch::Resnet10Spatial, false)]
        {
            for precision in [Precision::Bf16, Precision::Fp32] {
                let (network, specs) = network::build(&settings(arch, frozen));
                let layout = Layout::new(&network, &specs, precision);
                let fresh = Parameters::fresh(specs, plaudit_core::Seed::new(1));
                let mut all = vec![0.0; layout.total];
                for id in layout.ids(false) {
                    let place = &mut all[layout.place(id)];
                    assert!(place.iter().all(|number| *number == 0.0), "{arch:?}: a place is taken twice");
                    place.fill(f32::NAN);
                }
                for id in layout.ids(false) {
                    layout.put(id, fresh.flat(id).numbers(), &mut all);
                }
                for id in layout.ids(false) {
                    assert_eq!(layout.get(id, &all)[..], fresh.flat(id).numbers()[..], "{arch:?}");
                }
                let trained = layout.ids(true).map(|id| fresh.specs[id.0].role);
                assert!(trained.eq(layout.ids(true).map(|_| Role::Trained)));
                let learn = fresh.specs.iter().filter(|spec| spec.role == Role::Trained).count();
                assert_eq!(layout.ids(true).count(), learn, "{arch:?}");
                assert_eq!(frozen, layout.squares.is_empty());
            }
        }
    }

    /// The gradient of inputs by the transposed weights, on the CPU, against its definition.
    #[test]
    fn transposed_weights_lead_back_to_the_inputs() {
        let (network, specs) = network::build(&settings(Arch::Resnet18, false));
        let layout = Layout::new(&network, &specs, Precision::Bf16);
        let fresh = Parameters::fresh(specs, plaudit_core::Seed::new(1));
        let mut all = vec![0.0; layout.total];
        layout.ids(false).for_each(|id| layout.put(id, fresh.flat(id).numbers(), &mut all));
        let mut turned = vec![f32::NAN; layout.transposed];
        let block = channels_at_once(Precision::Bf16);
        for [from, from_stride, to, to_stride] in
            layout.squares.iter().map(|square| square.map(|n| n as usize))
        {
            for (row, column) in (0..block).flat_map(|row| (0..block).map(move |column| (row, column))) {
                turned[to + column * to_stride + row] = all[from + row * from_stride + column];
            }
        }
        assert!(turned.iter().all(|number| number.is_finite()));
        for layer in &network.convolutions {
            let place = &layout.convolutions[layer.index];
            let weights = fresh.flat(layer.weight);
            let (kernel, pad) = (place.kernel as isize, place.kernel as isize / 2);
            // Which weight joins gradient (y, x) with input (row, column), for one input and one output channel.
            let (input, output) = (place.inputs / 2 + 1, place.outputs / 2 + 3);
            for back in &place.backs {
                let [odd_y, odd_x] = back.odd.unwrap_or_default();
                let step = if back.odd.is_some() { 2 } else { 1 };
                for (out_y, out_x) in [(1usize, 1usize), (2, 3)] {
                    let (row, column) = ((out_y * step + odd_y) as isize, (out_x * step + odd_x) as isize);
                    for tap in 0..back.taps[0] * back.taps[1] {
                        let (tap_y, tap_x) = (tap / back.taps[1], tap % back.taps[1]);
                        let padding = if back.odd.is_some() { 0 } else { back.taps[0] / 2 };
                        let (y, x) = (out_y + tap_y - padding, out_x + tap_x - padding);
                        let stride = if back.odd.is_none() { 1 } else { place.stride as isize };
                        let (r, s) = (row + pad - y as isize * stride, column + pad - x as isize * stride);
                        assert!((0..kernel).contains(&r) && (0..kernel).contains(&s), "{back:?} {r} {s}");
                        let own = ((r * kernel + s) as usize * place.inputs + input) * place.outputs + output;
                        let taps = back.taps[0] * back.taps[1];
                        let at = back.weights
                            + input * taps * place.outputs
                            + (output / block * taps + tap) * block
                            + output % block;
                        assert_eq!(turned[at], weights.numbers()[own], "{back:?}");
                    }
                }
            }
            if place.stride == 2 && place.kernel == 3 {
                assert_eq!(place.backs.iter().map(|back| back.taps[0] * back.taps[1]).sum::<usize>(), 9);
            }
        }
    }
}
