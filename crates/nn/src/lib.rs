//! The networks of plaudit, and the kernels that make them quick.
//!
//! What leaves this crate are plain numbers. Three kinds of network live here. Image models (`classifier` and what it is
//! made of) and the vision-language model (`qwen3_vl`) are written over tensors with gradients (`tensor`), and one operation
//! per kernel where speed is decided (`ops`). Policies and critics (`dense`) are small, run thousands of times a second,
//! and so bring their own forward and backward pass that allocate nothing in the loop. All of them compute with the same kernels (`kernels`).

pub mod alloc;
pub mod classifier;
pub mod dense;
pub mod gpu;
pub mod images;
pub mod kernels;
mod ops;
pub mod process_memory;
pub mod qwen3_vl;
mod tensor;
pub mod weights;

pub use weights::{Weights, WeightsError};
