//! Products of matrices, by the kernel of products alone (`crate::kernels::gemm`).

use super::Tensor;
use crate::kernels::gemm::{Matrix, PackedRight};
use crate::kernels::threads::for_each_row;
use crate::kernels::{Isa, Precision, unfilled};

impl Tensor<3> {
    /// `[b, m, k]` times `[b, k, n]`: as many products of matrices.
    pub(crate) fn matmul(self, right: Self) -> Self {
        let ([batch, m, k], [right_batch, right_k, n]) = (self.shape, right.shape);
        assert_eq!([batch, k], [right_batch, right_k], "{:?} times {:?}", self.shape, right.shape);
        let ([a, b], nodes) = ([self.numbers, right.numbers], [self.node, right.node]);
        let output = products(batch, [m, n], |i| [matrix(&a, i, [m, k]), matrix(&b, i, [k, n]).transposed()]);
        Self::from_operation(output, [batch, m, n], nodes, move |gradient, wanted| {
            let of_a = wanted[0].then(|| {
                products(batch, [m, k], |i| [matrix(&gradient, i, [m, n]), matrix(&b, i, [k, n])]).into()
            });
            let of_b = wanted[1].then(|| {
                let sides = |i| [matrix(&a, i, [m, k]), matrix(&gradient, i, [m, n])];
                products(batch, [k, n], |i| sides(i).map(Matrix::transposed)).into()
            });
            [of_a, of_b]
        })
    }
}

/// `x [m, k]` times the transpose of `weights [n, k]`. Frozen weights get no gradient, nor does what comes into a network.
pub(crate) fn linear(x: Tensor<2>, weights: Tensor<2>) -> Tensor<2> {
    let ([m, k], [n, weights_k]) = (x.shape, weights.shape);
    assert_eq!(k, weights_k, "as many inputs as the layer takes");
    let ([x, weights], nodes) = ([x.numbers, weights.numbers], [x.node, weights.node]);
    let output = products(1, [m, n], |_| [matrix(&x, 0, [m, k]), matrix(&weights, 0, [n, k])]);
    Tensor::from_operation(output, [m, n], nodes, move |gradient, wanted| {
        let gradient = matrix(&gradient, 0, [m, n]);
        let of_x = wanted[0]
            .then(|| products(1, [m, k], |_| [gradient, matrix(&weights, 0, [n, k]).transposed()]).into());
        let of_weights = wanted[1].then(|| {
            products(1, [n, k], |_| [gradient.transposed(), matrix(&x, 0, [m, k]).transposed()]).into()
        });
        [of_x, of_weights]
    })
}

/// The `i`-th of several matrices.
fn matrix(numbers: &[f32], i: usize, [rows, columns]: [usize; 2]) -> Matrix<'_> {
    Matrix::new(&numbers[i * rows * columns..][..rows * columns], rows, columns)
}

/// For each `[left, right]`, `left * rightᵀ [rows, columns]`. One large product is divided among threads, several small ones
/// are shared out.
fn products<'a>(
    batch: usize,
    [rows, columns]: [usize; 2],
    sides: impl Fn(usize) -> [Matrix<'a>; 2] + Sync,
) -> Vec<f32> {
    let mut output = unfilled(batch * rows * columns);
    let product = |i, output: &mut [f32]| {
        let [left, right] = sides(i);
        PackedRight::new(Isa::best(Precision::F32), right).multiply(left, None, output);
    };
    match batch {
        1 => product(0, &mut output),
        _ => for_each_row(&mut output, rows * columns, product),
    }
    output
}
