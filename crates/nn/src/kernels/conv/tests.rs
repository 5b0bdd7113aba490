//! Every path on every instruction set of this CPU against sums in double precision.

use super::*;
use crate::kernels::norm::GroupNorm;
use proptest::prelude::*;

/// A shape and, from a seed, numbers for it.
struct Case {
    shape: ConvShape,
    input: Vec<f32>,
    weights: Vec<f32>,
    grad_output: Vec<f32>,
}

fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    // Sums of three are close enough to a bell curve.
    (0..len).map(|_| next() + next() + next()).collect()
}

impl Case {
    fn new(shape: ConvShape, seed: u64) -> Self {
        Self {
            shape,
            input: numbers(shape.input_len(), seed),
            weights: numbers(shape.weights_len(), seed + 1),
            grad_output: numbers(shape.output_len(), seed + 2),
        }
    }

    /// Calls `visit(input, weight, output)` with the places of every product there is.
    fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding } =
            self.shape;
        let (out_height, out_width) = (self.shape.out_height(), self.shape.out_width());
        for n in 0..batch {
            for (oy, ox) in (0..out_height).flat_map(|y| (0..out_width).map(move |x| (y, x))) {
                for (ky, kx) in (0..kernel).flat_map(|y| (0..kernel).map(move |x| (y, x))) {
                    let (y, x) = (oy * stride + ky, ox * stride + kx);
                    if y < padding || x < padding || y - padding >= height || x - padding >= width {
                        continue;
                    }
                    let pixel = (n * height + y - padding) * width + x - padding;
                    for i in 0..in_channels {
                        for o in 0..out_channels {
                            let output = ((n * out_height + oy) * out_width + ox) * out_channels + o;
                            let weight = ((ky * kernel + kx) * in_channels + i) * out_channels + o;
                            visit(pixel * in_channels + i, weight, output);
                        }
                    }
                }
            }
        }
    }

    fn expected_output(&self) -> Vec<f64> {
        let mut output = vec![0.0; self.shape.output_len()];
        self.products(|i, w, o| output[o] += f64::from(self.input[i]) * f64::from(self.weights[w]));
        output
    }

    fn expected_grads(&self) -> (Vec<f64>, Vec<f64>) {
        let mut grad_input = vec![0.0; self.shape.input_len()];
        let mut grad_weights = vec![0.0; self.shape.weights_len()];
        self.products(|i, w, o| {
            grad_input[i] += f64::from(self.grad_output[o]) * f64::from(self.weights[w]);
            grad_weights[w] += f64::from(self.grad_output[o]) * f64::from(self.input[i]);
        });
        (grad_input, grad_weights)
    }
}

/// The largest difference, as a part of the largest number.
fn distance(got: &[f32], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(1e-9, |largest: f64, x| largest.max(x.abs()));
    got.iter()
        .zip(expected)
        .map(|(&got, x)| (f64::from(got) - x).abs())
        .fold(0.0, |a: f64, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
        / largest
}

#[track_caller]
fn check_close(what: &str, isa: Isa, shape: &ConvShape, got: &[f32], expected: &[f64]) {
    let allowed = match isa.precision() {
        Precision::Bf16 => 2e-2,
        Precision::F32 if winograd::suits(isa, shape) => 1e-4,
        Precision::F32 => 1e-5,
    };
    let distance = distance(got, expected);
    assert!(
        distance <= allowed,
        "{what} on {}: off by {distance:.1e} of {allowed:.0e} for {shape:?}",
        isa.name()
    );
}

/// Nobody may read what was there before.
fn poisoned(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}

fn check_case(case: &Case) {
    let shape = &case.shape;
    let output = case.expected_output();
    let (grad_input, grad_weights) = case.expected_grads();
    for isa in Isa::all() {
        check_packed(case, isa, &output);
        let mut got = poisoned(output.len());
        forward_on(isa, shape, &case.input, &case.weights, &mut got);
        check_close("output", isa, shape, &got, &output);
        let (mut input, mut weights) = (poisoned(grad_input.len()), poisoned(grad_weights.len()));
        backward_on(
            isa,
            shape,
            &case.input,
            &case.weights,
            &case.grad_output,
            Some(&mut input),
            Some(&mut weights),
        );
        check_close("gradient of the input", isa, shape, &input, &grad_input);
        check_close("gradient of the weights", isa, shape, &weights, &grad_weights);
    }
}

fn check_packed(case: &Case, isa: Isa, output: &[f64]) {
    let ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding } = case.shape;
    let bias = numbers(out_channels, 7);
    let residual = numbers(output.len(), 8);
    let conv = PackedConv::new(
        kernel,
        stride,
        padding,
        in_channels,
        out_channels,
        &case.weights,
        &bias,
        isa.precision(),
    )
    .on(isa);
    for (residual, relu) in [(None, false), (Some(&residual[..]), true)] {
        let expected: Vec<f64> = (output.iter().enumerate())
            .map(|(i, &sum)| {
                sum + f64::from(bias[i % out_channels]) + residual.map_or(0.0, |r| f64::from(r[i]))
            })
            .map(|sum| if relu { sum.max(0.0) } else { sum })
            .collect();
        let mut got = poisoned(output.len());
        conv.run(&case.input, batch, height, width, residual, relu, &mut got);
        check_close("packed output", isa, &case.shape, &got, &expected);
        check_int16(isa, &case.shape, &got, &expected);
    }
}

/// Where products are of 16-bit integers, there are more digits than in bfloat16.
#[track_caller]
fn check_int16(isa: Isa, shape: &ConvShape, got: &[f32], expected: &[f64]) {
    let usual = ConvShape { batch: packed::USUAL_BATCH, ..*shape };
    let allowed = if winograd::suits(isa.single(), &usual) {
        // `int16.rs` derives a thousandth of a typical output, and the worst of some thousand outputs is twice as far
        // off. Inputs and weights in bfloat16 would cost more.
        2e-3
    } else if direct::Taps::of(shape.kernel, shape.in_channels).full_rows {
        // Inputs are off by half of the largest / 8191, which is 1/3500 of a typical one; weights are finer.
        1e-3
    } else {
        return;
    };
    let distance = distance(got, expected);
    assert!(distance < allowed, "integers on {}: off by {distance:.1e} for {shape:?}", isa.name());
}

/// What a pool makes of `relu(convolution + bias)`, by definition.
fn check_pooled(shape: ConvShape, seed: u64) {
    let case = Case::new(shape, seed);
    let ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding } = shape;
    let bias = numbers(out_channels, 7);
    let (rows, columns) = (shape.out_height(), shape.out_width());
    let (out_rows, out_columns) = (rows.div_ceil(2), columns.div_ceil(2));
    let mut expected = vec![0.0; batch * out_rows * out_columns * out_channels];
    for (i, sum) in case.expected_output().into_iter().enumerate() {
        let (channel, pixel) = (i % out_channels, i / out_channels);
        let (image, y, x) = (pixel / columns / rows, pixel / columns % rows, pixel % columns);
        let windows = |at: usize, count: usize| [at / 2, at.div_ceil(2)].map(|window| window.min(count - 1));
        for (window_y, window_x) in
            windows(y, out_rows).into_iter().flat_map(|y| windows(x, out_columns).map(|x| (y, x)))
        {
            let at = ((image * out_rows + window_y) * out_columns + window_x) * out_channels + channel;
            expected[at] = f64::max(expected[at], sum + f64::from(bias[channel]));
        }
    }
    for isa in Isa::all() {
        let conv = PackedConv::new(
            kernel,
            stride,
            padding,
            in_channels,
            out_channels,
            &case.weights,
            &bias,
            isa.precision(),
        )
        .on(isa);
        let mut got = poisoned(expected.len());
        conv.run_pooled(&case.input, batch, height, width, &mut got);
        check_close("pooled output", isa, &shape, &got, &expected);
        check_int16(isa, &shape, &got, &expected);
    }
}

fn shape(size: [usize; 3], channels: [usize; 2], [kernel, stride, padding]: [usize; 3]) -> ConvShape {
    let ([batch, height, width], [in_channels, out_channels]) = (size, channels);
    ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding }
}

#[test]
fn the_shapes_of_residual_networks() {
    let cases = [
        shape([2, 16, 16], [3, 64], [7, 2, 3]),
        shape([2, 8, 8], [64, 64], [3, 1, 1]),
        shape([3, 8, 8], [64, 96], [3, 2, 1]),
        shape([2, 8, 8], [64, 64], [1, 2, 0]),
        shape([13, 4, 4], [32, 48], [3, 1, 1]),
        shape([14, 2, 2], [64, 64], [3, 1, 1]),
        shape([13, 4, 4], [32, 32], [3, 2, 1]),
        shape([1, 4, 4], [160, 64], [3, 1, 1]),
        shape([1, 7, 9], [130, 70], [3, 1, 1]),
        shape([5, 6, 6], [64, 128], [1, 1, 0]),
        shape([1, 40, 24], [16, 16], [3, 1, 1]),
        shape([2, 6, 9], [160, 132], [3, 1, 1]),
    ];
    for (seed, shape) in cases.into_iter().enumerate() {
        check_case(&Case::new(shape, seed as u64));
    }
}

/// Zeros, numbers of very different size, and what is not a number, each in a tile of its own.
#[test]
fn tiles_have_their_own_scale() {
    let shape = shape([1, 4, 16], [32, 32], [3, 1, 1]);
    let weights = numbers(shape.weights_len(), 1);
    let scaled =
        |factor: f32| -> Vec<f32> { numbers(shape.input_len(), 2).iter().map(|x| x * factor).collect() };
    let pixels = |input: &mut [f32], from: &[f32], columns: std::ops::Range<usize>| {
        for (i, x) in input.iter_mut().enumerate() {
            *x = if columns.contains(&(i / 32 % 16)) { from[i] } else { *x };
        }
    };
    let mut input = vec![0.0; shape.input_len()];
    pixels(&mut input, &scaled(1e-12), 0..3);
    pixels(&mut input, &scaled(1e12), 14..16);
    for isa in Isa::all() {
        let conv = PackedConv::new(3, 1, 1, 32, 32, &weights, &[0.0; 32], isa.precision()).on(isa);
        let run = |input: &[f32]| {
            let mut output = poisoned(shape.output_len());
            conv.run(input, 1, 4, 16, None, false, &mut output);
            output
        };
        let output = run(&input);
        let column = |output: &[f32], column: usize| -> Vec<f32> {
            output.chunks(32).skip(column).step_by(16).flatten().copied().collect()
        };
        let exact = Case { input: input.clone(), ..Case::new(shape, 0) };
        let exact = Case { weights: weights.clone(), ..exact }.expected_output();
        let exact: Vec<f32> = exact.into_iter().map(|x| x as f32).collect();
        for at in [1, 8, 15] {
            let (expected, got) = (column(&exact, at), column(&output, at));
            let largest = expected.iter().fold(f32::MIN_POSITIVE, |a, b| a.max(b.abs()));
            let off = expected.iter().zip(&got).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f32::max);
            assert!(off < 2e-3, "column {at} on {}: {off:e}", isa.name());
        }
        let mut broken = input.clone();
        broken[0] = f32::NAN;
        let broken = run(&broken);
        assert!(broken[..32].iter().all(|x| x.is_nan()), "{}", isa.name());
        assert_eq!(column(&broken, 15), column(&output, 15), "{}", isa.name());
    }
}

/// So have images where colours come in, each by itself.
#[test]
fn images_have_their_own_scale() {
    let weights = numbers(3 * 3 * 3 * 16, 1);
    let image = numbers(8 * 8 * 3, 2);
    for isa in Isa::all() {
        let conv = PackedConv::new(3, 2, 1, 3, 16, &weights, &[0.0; 16], isa.precision()).on(isa);
        let run = |input: &[f32]| {
            let batch = input.len() / image.len();
            let mut output = poisoned(batch * 4 * 4 * 16);
            conv.run(input, batch, 8, 8, None, false, &mut output);
            output
        };
        let alone = run(&image);
        let mut broken = image.clone();
        broken[0] = f32::NAN;
        for other in [vec![0.0; image.len()], vec![1e30; image.len()], vec![1e-40; image.len()], broken] {
            let both = run(&[&other[..], &image[..]].concat());
            assert_eq!(both[alone.len()..], alone, "{}", isa.name());
            assert_eq!(both[0].is_nan(), other[0].is_nan(), "{}", isa.name());
            if !other[0].is_nan() {
                let largest = both[..alone.len()].iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                assert_eq!(largest > 1e-30, other[0] > 1e-30, "{}: {largest}", isa.name());
            }
        }
    }
}

#[test]
fn pooled_outputs() {
    for (seed, shape) in [
        shape([2, 32, 32], [3, 64], [7, 2, 3]),
        shape([9, 17, 23], [3, 40], [7, 2, 3]),
        shape([1, 9, 5], [4, 33], [3, 1, 1]),
        shape([1, 1, 1], [3, 16], [7, 2, 3]),
        shape([2, 8, 8], [20, 16], [3, 1, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        check_pooled(shape, seed as u64);
    }
}

#[test]
fn normalised_and_pooled_images_are_those_of_the_parts() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for shape in [shape([5, 18, 14], [3, 48], [7, 2, 3]), shape([4, 9, 9], [20, 16], [3, 1, 1])] {
        let ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding } = shape;
        let case = Case::new(shape, 3);
        let (gamma, beta) = (numbers(out_channels, 4), numbers(out_channels, 5));
        let norm = GroupNorm { groups: 4, gamma: &gamma, beta: &beta, eps: 1e-5 };
        for isa in Isa::all() {
            let (weights, bias) = (&case.weights, vec![0.0; out_channels]);
            let conv = PackedConv::new(
                kernel,
                stride,
                padding,
                in_channels,
                out_channels,
                weights,
                &bias,
                isa.precision(),
            )
            .on(isa);
            let len = batch * shape.out_height().div_ceil(2) * shape.out_width().div_ceil(2) * out_channels;
            let mut all = poisoned(len);
            pool.install(|| conv.run_normed_pooled(&case.input, batch, height, width, &norm, &mut all));
            // One image at a time goes through the parts.
            let mut alone = poisoned(len);
            for (from, to) in case.input.chunks(case.input.len() / batch).zip(alone.chunks_mut(len / batch)) {
                pool.install(|| conv.run_normed_pooled(from, 1, height, width, &norm, to));
            }
            let off = all.iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(all.iter().all(|x| x.is_finite()) && off < 1e-4, "{} {shape:?}: {off:e}", isa.name());
            // The parts normalise on the best instruction set.
            if isa.single() == Isa::best(Precision::F32) {
                assert_eq!(all, alone, "{} {shape:?}", isa.name());
            }
        }
    }
}

/// Whatever kernel a number of images asks for, sums are in the same order.
#[test]
fn images_are_the_same_alone_and_among_others() {
    for shape in [
        shape([9, 4, 4], [160, 70], [3, 1, 1]),
        shape([3, 8, 8], [144, 136], [3, 1, 1]),
        shape([9, 8, 8], [64, 40], [3, 1, 1]),
        shape([13, 8, 8], [32, 40], [3, 2, 1]),
        shape([13, 1, 1], [70, 40], [1, 1, 0]),
    ] {
        let ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding } = shape;
        let case = Case::new(shape, 5);
        let bias = numbers(out_channels, 6);
        let (input_len, output_len) = (shape.input_len() / batch, shape.output_len() / batch);
        for isa in Isa::all() {
            let conv = PackedConv::new(
                kernel,
                stride,
                padding,
                in_channels,
                out_channels,
                &case.weights,
                &bias,
                isa.precision(),
            )
            .on(isa);
            let mut all = poisoned(shape.output_len());
            conv.run(&case.input, batch, height, width, None, true, &mut all);
            for count in 1..=batch.min(4) {
                let mut some = poisoned(count * output_len);
                conv.run(&case.input[..count * input_len], count, height, width, None, true, &mut some);
                assert_eq!(some, all[..some.len()], "{count} on {} for {shape:?}", isa.name());
            }
        }
    }
}

#[test]
fn images_without_outputs_have_no_gradient() {
    let shape = shape([2, 2, 2], [16, 16], [3, 1, 0]);
    assert_eq!(shape.output_len(), 0);
    check_case(&Case::new(shape, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_shape(
        size in [1usize..4, 1usize..14, 1usize..14],
        channels in [1usize..40, 1usize..40],
        kernel in 1usize..6,
        stride in 1usize..4,
        padding in 0usize..3,
        seed in 0u64..1000,
    ) {
        check_case(&Case::new(shape(size, channels, [kernel, stride, padding]), seed));
    }

    #[test]
    fn any_pooled_shape(
        size in [1usize..12, 1usize..40, 1usize..40],
        channels in [1usize..8, 1usize..40],
        kernel in 2usize..8,
        stride in 1usize..3,
        padding in 0usize..4,
        seed in 0u64..1000,
    ) {
        let shape = shape(size, channels, [kernel, stride, padding]);
        prop_assume!(shape.output_len() > 0);
        check_pooled(shape, seed);
    }

    #[test]
    fn any_small_kernel(
        size in [1usize..4, 1usize..20, 1usize..20],
        channels in [16usize..72, 16usize..72],
        padding in 0usize..3,
        seed in 0u64..1000,
    ) {
        check_case(&Case::new(shape(size, channels, [3, 1, padding]), seed));
    }
}
