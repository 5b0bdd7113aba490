//! The networks of policies and critics: small, run thousands of times a second, trained on our kernels without a tensor
//! library.
//!
//! A network is two things kept apart. [`Mlp`] is its shape: it says where each tensor lies in one flat slice of
//! parameters, and knows how to compute. The parameters, their gradients and the moments of [`Adam`] are plain
//! `Vec<f32>` that belong to whoever trains: a checkpoint, a target network or a copy for another thread is a copy of
//! a slice.
//!
//! ```
//! use plaudit_nn::dense::{Activation, Adam, AdamSettings, Init, LayerSpec, Mlp, MlpSpec, Tape};
//!
//! let hidden = LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(64) };
//! let mlp = Mlp::new(MlpSpec { inputs: 3, layers: vec![hidden.clone(), hidden, LayerSpec::linear(1)] });
//! let mut params = mlp.init(plaudit_core::Seed::new(1));
//! let mut adam = Adam::new(params.len(), AdamSettings::default());
//!
//! // One step towards y = x0 for a batch of two.
//! let (inputs, targets) = ([0.5, 1.0, -1.0, -0.5, 0.0, 2.0], [0.5, -0.5]);
//! let mut tape = Tape::default();
//! let outputs = mlp.forward(&params, &inputs, 2, &mut tape);
//! let grad_out: Vec<f32> = outputs.iter().zip(targets).map(|(y, t)| y - t).collect();
//! let mut grads = vec![0.0; params.len()];
//! mlp.backward(&params, &mut tape, &grad_out, &mut grads, None);
//! adam.step(&mut params, &grads, 3e-4);
//! ```
//!
//! Shapes that do not fit panic, as slices do: they are errors of the program, never of its user. Nothing is allocated
//! once a [`Tape`] or [`Scratch`] has seen its largest batch. Results do not depend on the number of threads.

mod adam;
mod backward;
pub mod encoder;
mod ensemble;
mod forward;
pub mod gpu;
mod init;
mod layout;
mod memory_plan;
mod mlp;
mod spec;
mod tape;
mod weights;

pub use crate::kernels::adam::polyak;
pub use crate::kernels::functions::{exp, ln, tanh};
pub use crate::kernels::layer_ops::Activation;
pub use crate::kernels::with_spinning_threads;
pub use adam::{Adam, AdamSettings, clip_grad_norm};
pub use ensemble::{Ensemble, EnsembleScratch, EnsembleTape, HeadInputs};
pub use layout::{Tensor, TensorKind};
pub use mlp::Mlp;
pub use spec::{BatchNorm, Bias, Init, LayerSpec, MlpSpec, Norm, Renorm};
pub use tape::{Scratch, Tape};
