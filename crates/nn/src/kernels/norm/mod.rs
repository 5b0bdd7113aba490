//! Normalisation with what follows it in a residual network: the sum with a shortcut, and ReLU.
//!
//! Both norms are the same passes over memory (`passes`): per channel, `output = input * scale + shift`. They differ
//! in which pixels share their statistics: with batch norm all of the batch, with group norm those of one image, and
//! there some channels do too.

mod batch;
mod group;
mod passes;

pub use batch::{BatchNormSaved, batch_norm_act_backward, batch_norm_act_forward};
pub use group::{GroupNorm, GroupNormSaved, group_norm_act_backward, group_norm_act_forward};

/// Gradients of the parameters of a normalisation.
#[derive(Debug, Clone, PartialEq)]
pub struct NormGrads {
    /// Of the scale, per channel.
    pub gamma: Vec<f32>,
    /// Of the shift, per channel.
    pub beta: Vec<f32>,
}

#[cfg(test)]
mod tests;
