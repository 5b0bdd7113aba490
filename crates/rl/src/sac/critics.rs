//! Several critics: how their values are aggregated, and which of them are sampled.

use plaudit_core::Rng;

/// How the values of several critics become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agg {
    /// The smallest: a critic that is too hopeful does no harm.
    Min,
    /// The average.
    Mean,
}

impl Agg {
    /// One value per row, from values `[H, N]`.
    pub fn values(self, by_head: &[f32], into: &mut [f32]) {
        let rows = into.len();
        let heads = by_head.len() / rows;
        into.copy_from_slice(&by_head[..rows]);
        for head in by_head.chunks_exact(rows).skip(1) {
            for (one, value) in into.iter_mut().zip(head) {
                *one = match self {
                    Self::Min => one.min(*value),
                    Self::Mean => *one + *value,
                };
            }
        }
        if self == Self::Mean {
            into.iter_mut().for_each(|sum| *sum /= heads as f32);
        }
    }

    /// Gradients of the values `[H, N]`, given the gradient of each row's aggregated value.
    pub fn backward(self, by_head: &[f32], rows: usize, grad_value: f32, into: &mut [f32]) {
        let heads = by_head.len() / rows;
        match self {
            Self::Mean => into.fill(grad_value / heads as f32),
            Self::Min => {
                into.fill(0.0);
                for row in 0..rows {
                    let smallest = (1..heads).fold(0, |least, head| {
                        if by_head[head * rows + row] < by_head[least * rows + row] { head } else { least }
                    });
                    into[smallest * rows + row] = grad_value;
                }
            }
        }
    }
}

/// Samples `count` of `heads` critics, with replacement; all of them in order where no number is given.
pub(super) fn choose(heads: usize, count: Option<usize>, rng: &mut Rng, chosen: &mut Vec<usize>) {
    chosen.clear();
    match count {
        None => chosen.extend(0..heads),
        Some(count) => chosen.extend((0..count).map(|_| rng.below(heads))),
    }
}
