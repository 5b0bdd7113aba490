//! Tests of tensors: every gradient by finite differences, values by double precision, memory, threads.

use proptest::prelude::*;

use super::gradient_check::{CURVED, LINEAR, check_gradients, flat, numbers};
use super::*;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn gradients_of_sums_and_products(len in 1usize..9, seed: u64) {
        let inputs = [numbers(len, seed), numbers(len, seed ^ 1)];
        check_gradients(&inputs, LINEAR, |x| x[0].clone() + x[1].clone());
        check_gradients(&inputs, LINEAR, |x| x[0].clone() * x[1].clone());
        check_gradients(&inputs[..1], LINEAR, |x| x[0].clone() * 1.75);
        // A tensor that is used several times gets the sum.
        check_gradients(&inputs, CURVED, |x| x[0].clone() * x[0].clone() + x[0].clone() * x[1].clone());
    }

    #[test]
    fn gradients_of_a_bias(rows in 1usize..40, width in 1usize..5, seed: u64) {
        let inputs = [numbers(rows * width, seed), numbers(width, seed ^ 1)];
        check_gradients(&inputs, LINEAR, |x| flat(x[0].clone().reshape([rows, width]).add_bias(x[1].clone())));
    }

    #[test]
    fn gradients_of_activations(len in 1usize..40, seed: u64) {
        let inputs = [numbers(len, seed)];
        check_gradients(&inputs, CURVED, |x| relu(x[0].clone()));
        check_gradients(&inputs, CURVED, |x| tanh(x[0].clone()));
        check_gradients(&inputs, CURVED, |x| gelu(x[0].clone() * 3.0));
    }

    #[test]
    fn gradients_of_products_of_matrices(batch in 1usize..4, m in 1usize..5, k in 1usize..5, n in 1usize..5, seed: u64) {
        let inputs = [numbers(batch * m * k, seed), numbers(batch * k * n, seed ^ 1)];
        check_gradients(&inputs, LINEAR, |x| {
            flat(x[0].clone().reshape([batch, m, k]).matmul(x[1].clone().reshape([batch, k, n])))
        });
        let inputs = [numbers(m * k, seed), numbers(n * k, seed ^ 1)];
        check_gradients(&inputs, LINEAR, |x| {
            flat(linear(x[0].clone().reshape([m, k]), x[1].clone().reshape([n, k])))
        });
    }

    #[test]
    fn gradients_of_shapes(shape in [1usize..4, 1usize..4, 1usize..4], axis in 0usize..3, pick in any::<prop::sample::Index>(), seed: u64) {
        let len = shape.iter().product();
        let inputs = [numbers(len, seed), numbers(len, seed ^ 1)];
        let start = pick.index(shape[axis]);
        check_gradients(&inputs[..1], LINEAR, |x| {
            flat(x[0].clone().reshape(shape).narrow(axis, start, shape[axis] - start))
        });
        check_gradients(&inputs, LINEAR, |x| {
            flat(Tensor::cat(vec![x[0].clone().reshape(shape), x[1].clone().reshape(shape)], axis))
        });
        check_gradients(&inputs[..1], LINEAR, |x| {
            let chunks = x[0].clone().reshape(shape).chunk(shape[axis], axis);
            flat(chunks.into_iter().reduce(|sum, chunk| sum + chunk).unwrap())
        });
        // One place twice, and not all of them.
        let chosen = [start, 0, start];
        check_gradients(&inputs[..1], LINEAR, |x| flat(x[0].clone().reshape(shape).select(axis, &chosen)));
        for axes in [[0, 1, 2], [2, 0, 1], [1, 0, 2], [0, 2, 1]] {
            check_gradients(&inputs[..1], LINEAR, |x| flat(x[0].clone().reshape(shape).permute(axes)));
        }
    }

    #[test]
    fn gradients_of_rows_that_are_added(rows in 1usize..5, width in 1usize..4, chosen in prop::collection::vec(any::<prop::sample::Index>(), 1..4), seed: u64) {
        let chosen: Vec<usize> = chosen.iter().map(|index| index.index(rows)).collect();
        let inputs = [numbers(rows * width, seed), numbers(chosen.len() * width, seed ^ 1)];
        check_gradients(&inputs, LINEAR, |x| {
            let added = x[1].clone().reshape([chosen.len(), width]);
            flat(x[0].clone().reshape([rows, width]).index_add(&chosen, added))
        });
    }

    #[test]
    fn gradients_of_sums_over_rows_and_of_the_loss(rows in 1usize..5, group in 1usize..4, width in 1usize..6, seed: u64) {
        let inputs = [numbers(rows * group * width, seed)];
        check_gradients(&inputs, LINEAR, |x| {
            let weights = numbers(rows * group, seed ^ 1);
            flat(weighted_row_sums(x[0].clone().reshape([rows * group, width]), weights, group))
        });
        let targets: Vec<usize> = (0..rows * group).map(|row| (row * 7 + seed as usize % 5) % width).collect();
        check_gradients(&inputs, CURVED, |x| {
            cross_entropy(x[0].clone().reshape([rows * group, width]), targets.clone())
        });
    }

    #[test]
    fn products_are_those_of_double_precision(batch in 1usize..3, m in 1usize..40, k in 1usize..300, n in 1usize..40, seed: u64) {
        let (a, b) = (numbers(batch * m * k, seed), numbers(batch * k * n, seed ^ 1));
        let product = Tensor::new(a.clone(), [batch, m, k]).matmul(Tensor::new(b.clone(), [batch, k, n]));
        for (place, found) in product.numbers().iter().enumerate() {
            let (i, row, column) = (place / (m * n), place / n % m, place % n);
            let terms = (0..k).map(|j| f64::from(a[(i * m + row) * k + j]) * f64::from(b[(i * k + j) * n + column]));
            let exact: f64 = terms.sum();
            prop_assert!((f64::from(*found) - exact).abs() <= 1e-6 * k as f64, "{found}, not {exact}");
        }
    }
}

#[test]
fn shapes_move_numbers_where_they_should() {
    let x = Tensor::new((0..24).map(|i| i as f32).collect::<Vec<f32>>(), [2, 3, 4]);
    assert_eq!(x.clone().narrow(1, 1, 2).into_vec()[..9], [4., 5., 6., 7., 8., 9., 10., 11., 16.]);
    assert_eq!(x.clone().narrow(0, 1, 1).into_vec(), (12..24).map(|i| i as f32).collect::<Vec<f32>>());
    assert_eq!(x.clone().select(2, &[3, 0]).into_vec()[..6], [3., 0., 7., 4., 11., 8.]);
    let permuted = x.clone().permute([2, 0, 1]);
    assert_eq!(permuted.dims(), [4, 2, 3]);
    assert_eq!(permuted.into_vec()[..7], [0., 4., 8., 12., 16., 20., 1.]);
    let joined = Tensor::cat(vec![x.clone().narrow(2, 0, 1), x.clone().narrow(2, 3, 1)], 2);
    assert_eq!(joined.into_vec()[..4], [0., 3., 4., 7.]);
    assert_eq!(x.index_add(&[1, 1], Tensor::new(vec![1.0; 24], [2, 3, 4])).into_vec()[11..13], [11., 14.]);
}

/// The share of a normal distribution below `x`, by Simpson's rule.
fn normal_below(x: f64) -> f64 {
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (from, steps) = (-16.0, 4000);
    let width = (x - from) / f64::from(steps);
    let weight = |i: i32| if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    (0..=steps).map(|i| weight(i) * density(from + f64::from(i) * width)).sum::<f64>() * width / 3.0
}

#[test]
fn gelu_is_a_number_times_the_normal_distribution_below_it() {
    let xs: Vec<f32> = (-1200..=1000).map(|i| i as f32 * 0.01).collect();
    for (x, y) in xs.iter().zip(gelu(Tensor::from(xs.clone())).into_vec()) {
        let exact = f64::from(*x) * normal_below(f64::from(*x));
        let off = (f64::from(y) - exact).abs();
        assert!(
            off <= (1e-6 + 1e-7 * f64::from(x * x)) * exact.abs() + 1e-37,
            "gelu({x}) = {y}, not {exact}"
        );
    }
}

#[test]
fn the_loss_is_right_where_probabilities_are_not_numbers_any_more() {
    let loss = cross_entropy(Tensor::new(vec![200.0, 0.0, 1.0, 3.0, 2.0, 1.0], [2, 3]), vec![1, 0]);
    let second = (1.0 + (-1.0f64).exp() + (-2.0f64).exp()).ln();
    assert!((f64::from(loss.item()) - (200.0 + second) / 2.0).abs() < 1e-5);
    assert!(cross_entropy(Tensor::new(vec![f32::NAN, 0.0], [1, 2]), vec![1]).item().is_nan());
}

#[test]
fn memory_is_used_again_when_nobody_else_holds_it() {
    let x = Tensor::from(vec![-1.0, 2.0]);
    let address = x.numbers().as_ptr();
    let y = relu(x + Tensor::from(vec![0.0, 1.0])) * 2.0;
    assert_eq!((y.numbers().as_ptr(), &y.numbers()[..]), (address, &[0.0, 6.0][..]));
    let z = y.clone() * 2.0;
    assert_eq!((&y.numbers()[..], &z.numbers()[..]), (&[0.0, 6.0][..], &[0.0, 12.0][..]));
    let part = z.clone().narrow(0, 1, 1) * 0.5;
    assert_eq!((&z.numbers()[..], &part.numbers()[..]), (&[0.0, 12.0][..], &[6.0][..]));
}

#[test]
fn only_what_a_gradient_needs_is_kept_and_only_as_long() {
    let x = Tensor::from(vec![1.0, 2.0]);
    let _output = gelu(x.clone());
    assert!(x.numbers.is_unshared(), "nothing is kept without a leaf");
    let leaf = x.require_grad();
    let output = gelu(leaf.clone());
    assert!(!leaf.numbers.is_unshared(), "its gradient needs its input");
    let _held = output.clone();
    let _ = output.backward(vec![1.0, 1.0].into());
    assert!(leaf.numbers.is_unshared(), "freed, although the output is still held");
}

#[test]
fn gradients_are_of_those_leaves_that_something_depends_on() {
    let [a, b, unused] = [1.0, 2.0, 3.0].map(|x| Tensor::from(vec![x]).require_grad());
    let constant = Tensor::from(vec![5.0]);
    let roots = [a.clone() * b.clone() * 3.0, b.clone() * constant.clone()];
    let mut gradients = Gradients::of(roots.map(|root| (root, Tensor::from(vec![1.0]))));
    assert_eq!(gradients.take(&a).unwrap().item(), 6.0);
    assert_eq!(gradients.take(&b).unwrap().item(), 8.0);
    assert!(gradients.take(&unused).is_none() && gradients.take(&constant).is_none());
}

#[test]
fn a_deep_graph_is_dropped_without_a_deep_stack() {
    let leaf = Tensor::from(vec![1.0]).require_grad();
    let deep = (0..200_000).fold(leaf, |x, _| x * 1.0);
    drop(deep);
}

#[test]
fn threads_make_no_difference() {
    let [rows, inputs, outputs] = [700, 96, 130];
    let run = || {
        let leaves = [rows * inputs, outputs * inputs, outputs]
            .map(|count| Tensor::from(numbers(count, count as u64)).require_grad());
        let [x, weights, bias] = leaves.clone();
        let hidden = linear(x.reshape([rows, inputs]), weights.reshape([outputs, inputs])).add_bias(bias);
        let chosen: Vec<usize> = (0..rows).map(|row| row * row % 300).collect();
        let hidden = gelu(hidden).select(0, &chosen).reshape([10, 70, outputs]);
        let mixed = hidden.clone().permute([0, 2, 1]).matmul(hidden).reshape([10 * outputs, outputs]);
        let loss = cross_entropy(tanh(mixed), (0..10 * outputs).map(|row| row % outputs).collect());
        let mut found = loss.numbers().to_vec();
        let mut gradients = loss.backward(vec![1.0].into());
        leaves.iter().for_each(|leaf| found.extend(gradients.take(leaf).unwrap().into_vec()));
        found.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    };
    let with = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run);
    let one = with(1);
    for threads in [2, 3, 8] {
        assert!(with(threads) == one, "{threads} threads");
    }
}
