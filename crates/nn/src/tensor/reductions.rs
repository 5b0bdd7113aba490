//! Sums over rows, and the loss.

use super::Tensor;
use crate::kernels::norm_rope_softmax;
use crate::kernels::threads::for_each_row;
use crate::kernels::unfilled;

/// `[n * group, width]` to the weighted sums of `group` rows each, `[n, width]`. There is a weight for each row.
pub(crate) fn weighted_row_sums(x: Tensor<2>, weights: Vec<f32>, group: usize) -> Tensor<2> {
    let Tensor { numbers: x, shape: [rows, width], node } = x;
    assert_eq!(rows, weights.len(), "a weight for each row");
    let mut output = unfilled(rows / group * width);
    for_each_row(&mut output, width, |row, sum| {
        sum.fill(0.0);
        for row in row * group..(row + 1) * group {
            sum.iter_mut().zip(&x[row * width..]).for_each(|(sum, x)| *sum += weights[row] * x);
        }
    });
    Tensor::from_operation(output, [rows / group, width], [node], move |gradient, _| {
        let mut of_x = unfilled(rows * width);
        for_each_row(&mut of_x, width, |row, of_x| {
            let gradient = &gradient[row / group * width..][..width];
            of_x.iter_mut().zip(gradient).for_each(|(of_x, gradient)| *of_x = weights[row] * gradient);
        });
        [Some(of_x.into())]
    })
}

/// The cross-entropy of rows of logits `[n, classes]` with the class of each, averaged.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Vec<usize>) -> Tensor<1> {
    let Tensor { numbers: logits, shape: [rows, classes], node } = logits;
    assert_eq!(rows, targets.len(), "a class for each row");
    assert!(targets.iter().all(|target| *target < classes), "classes below {classes}");
    let [losses, log_sums] = norm_rope_softmax::cross_entropy(&logits, &targets);
    let mean = losses.iter().copied().map(f64::from).sum::<f64>() / rows as f64;
    Tensor::from_operation(vec![mean as f32], [1], [node], move |gradient, _| {
        let factor = gradient[0] / rows as f32;
        [Some(norm_rope_softmax::cross_entropy_backward(&logits, &targets, &log_sums, factor).into())]
    })
}
