//! The gradients of every operation by finite differences. What kernels compute, their own tests and PyTorch's numbers say.

use std::sync::Arc;

use proptest::prelude::*;

use super::images::{self, Geometry};
use super::tokens::{self, RopeAngles};
use crate::kernels::Precision;
use crate::kernels::attention::AttentionShape;
use crate::tensor::Tensor;
use crate::tensor::gradient_check::{CURVED, LINEAR, PIECEWISE, check_gradients, flat, numbers};

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() }
}

/// Scales and shifts after which nothing is near zero: ReLU is linear there.
fn away_from_zero(channels: usize) -> [Vec<f32>; 2] {
    let shift = |c| if c % 2 == 0 { 2.0 } else { -2.0 };
    [vec![0.25; channels], (0..channels).map(shift).collect()]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn gradients_of_convolutions(side in 3usize..6, channels in [1usize..4, 1usize..4], seed: u64) {
        for (kernel, stride) in [(1, 1), (1, 2), (3, 1), (3, 2)] {
            let [inner, outer] = channels;
            let inputs = [numbers(2 * side * side * inner, seed), numbers(kernel * kernel * inner * outer, seed ^ 1)];
            let geometry = Geometry { stride, padding: kernel / 2 };
            check_gradients(&inputs, LINEAR, |x| {
                let weights = x[1].clone().reshape([kernel, kernel, inner, outer]);
                let images = x[0].clone().reshape([2, side, side, inner]);
                flat(images::conv(images, weights, geometry, Precision::F32))
            });
        }
    }

    #[test]
    fn gradients_of_norms_of_images(batch in 2usize..4, relu: bool, seed: u64) {
        let (shape, channels) = ([batch, 2, 2, 4], 4);
        let [scale, shift] = away_from_zero(channels);
        let input = numbers(batch * 4 * channels, seed);
        let inputs = [input.clone(), scale, shift, numbers(input.len(), seed ^ 1)];
        let residual = |x: &[Tensor<1>]| x.get(3).map(|x| (x.clone() * 0.5).reshape(shape));
        for inputs in [&inputs[..3], &inputs[..]] {
            check_gradients(inputs, CURVED, |x| {
                let (images, affine) = (x[0].clone().reshape(shape), [x[1].clone(), x[2].clone()]);
                flat(images::batch_norm_act(images, affine, residual(x), relu, 1e-5).output)
            });
            check_gradients(inputs, CURVED, |x| {
                let (images, affine) = (x[0].clone().reshape(shape), [x[1].clone(), x[2].clone()]);
                flat(images::group_norm_act(images, 2, affine, residual(x), relu, 1e-5))
            });
        }
    }

    #[test]
    fn gradients_of_pools(side in 2usize..6, channels in 1usize..4, seed: u64) {
        let len = side * side * channels;
        // No two pixels alike, so that the largest stays the largest.
        let mut order: Vec<(u32, usize)> =
            numbers(len, seed).iter().map(|x| x.to_bits()).zip(0..).collect();
        order.sort_unstable();
        let mut input = vec![0.0; len];
        order.iter().enumerate().for_each(|(rank, (_, place))| input[*place] = rank as f32 * 0.01);
        check_gradients(&[input.clone()], PIECEWISE, |x| {
            flat(images::max_pool(x[0].clone().reshape([1, side, side, channels])))
        });
        check_gradients(&[input], LINEAR, |x| {
            flat(images::global_avg_pool(x[0].clone().reshape([1, side, side, channels])))
        });
    }

    #[test]
    fn gradients_of_norms_of_rows(rows in 1usize..5, width in 4usize..9, seed: u64) {
        let inputs = [numbers(rows * width, seed), numbers(width, seed ^ 1), numbers(width, seed ^ 2)];
        check_gradients(&inputs[..2], CURVED, |x| {
            flat(tokens::rms_norm(x[0].clone().reshape([rows, width]), x[1].clone(), 1e-2))
        });
        check_gradients(&inputs, CURVED, |x| {
            let rows = x[0].clone().reshape([rows, width]);
            flat(tokens::layer_norm(rows, x[1].clone(), x[2].clone(), 1e-2))
        });
    }

    #[test]
    fn gradients_of_rope_and_gates(rows in 1usize..5, half in 1usize..4, heads in 1usize..3, seed: u64) {
        let width = heads * 2 * half;
        let angles = numbers(rows * half, seed ^ 1);
        let of = |function: fn(f32) -> f32| angles.iter().map(|angle| function(*angle)).collect::<Arc<[f32]>>();
        let angles = RopeAngles { cos: of(f32::cos), sin: of(f32::sin), half };
        let inputs = [numbers(rows * width, seed), numbers(rows * width, seed ^ 2)];
        check_gradients(&inputs[..1], LINEAR, |x| {
            flat(tokens::apply_rope(x[0].clone().reshape([rows, width]), heads, angles.clone()))
        });
        check_gradients(&inputs, CURVED, |x| {
            let [gate, up] = [&x[0], &x[1]].map(|x| x.clone().reshape([rows, width]));
            flat(tokens::swiglu(gate, up))
        });
        check_gradients(&inputs[..1], CURVED, |x| {
            flat(tokens::tanh_gelu(x[0].clone().reshape([rows, width])))
        });
    }

    #[test]
    fn gradients_of_attention(batch in 1usize..3, tokens in 1usize..4, more_keys in 0usize..3, group in 1usize..3, seed: u64) {
        let (kv_heads, width, keys) = (2, 3, tokens + more_keys);
        let heads = kv_heads * group;
        // Every token sees its own key.
        let hidden: Vec<bool> = (0..batch * tokens * keys)
            .map(|i| i % keys != i / keys % tokens && (i as u64 * 7 + seed % 11).is_multiple_of(3))
            .collect();
        let of_keys = batch * keys * kv_heads * width;
        let inputs = [numbers(batch * tokens * heads * width, seed), numbers(of_keys, seed ^ 1), numbers(of_keys, seed ^ 2)];
        for (causal, hidden) in [(false, None), (true, None), (false, Some(&hidden[..]))] {
            let shape = AttentionShape { batch, tokens, keys, heads, kv_heads, width, causal };
            check_gradients(&inputs, CURVED, |x| {
                let q = x[0].clone().reshape([batch * tokens, heads * width]);
                let [k, v] = [&x[1], &x[2]].map(|x| x.clone().reshape([batch * keys, kv_heads * width]));
                flat(tokens::attend([q, k, v], shape, hidden))
            });
        }
    }
}

#[test]
fn a_mask_that_hides_what_comes_later_is_causal_attention() {
    let (batch, tokens, keys, heads, kv_heads, width) = (2, 37, 50, 4, 2, 8);
    let hidden: Vec<bool> =
        (0..batch * tokens * keys).map(|i| i % keys > i / keys % tokens + keys - tokens).collect();
    let q = Tensor::new(numbers(batch * tokens * heads * width, 1), [batch * tokens, heads * width]);
    let [k, v] = [2, 3].map(|seed| {
        Tensor::new(numbers(batch * keys * kv_heads * width, seed), [batch * keys, kv_heads * width])
    });
    let attend = |causal, hidden| {
        let shape = AttentionShape { batch, tokens, keys, heads, kv_heads, width, causal };
        tokens::attend([q.clone(), k.clone(), v.clone()], shape, hidden)
    };
    let (masked, causal) = (attend(false, Some(&hidden[..])), attend(true, None));
    for (masked, causal) in masked.numbers().iter().zip(causal.numbers().iter()) {
        assert!((masked - causal).abs() < 1e-6, "{masked} {causal}");
    }
}
