//! The one GPU runtime: an NVIDIA GPU, its memory, kernels that are compiled for it, matrix products, graphs.
//!
//! Building takes no CUDA. The libraries are loaded when a GPU is first asked for: the driver (`libcuda`), the compiler
//! (`libnvrtc`), and for vision-language models the matrix products (`libcublasLt`). They are looked for where the system
//! looks, then in the folders of [`Places`]. Each is looked for before it is used, and so are the driver's functions,
//! because the bindings panic when something is missing.
//!
//! | file | what |
//! |---|---|
//! | `libraries.rs` | finding CUDA's libraries, their versions and paths |
//! | `modules.rs` | kernels compiled by NVRTC, kept on disk |
//! | `device.rs` | a GPU: kernels run in one order, a profiler |
//! | `graph.rs` | work recorded once and run as a whole |
//! | `memory.rs` | memory that stays from call to call |
//! | `matmul.rs` | matrix products by cuBLASLt |
//! | `survey.rs` | what there is: GPUs, libraries, a self-test |
//!
//! Scoring of vision-language models (`qwen3_vl/gpu`) and of image classifiers (`classifier/gpu`) stand on it.

#![allow(unsafe_code)] // A GPU deals in addresses; each block says why.

mod device;
mod error;
mod graph;
mod libraries;
mod matmul;
mod memory;
mod modules;
mod survey;

pub(crate) use device::{Arg, Gpu, LaunchShape, WORDS};
pub use error::GpuError;
pub(crate) use graph::{End, Graph, Moment, Side};
pub use libraries::{FoundLibrary, Library, Places, set_places};
pub(crate) use matmul::{Cublas, Epilogue, Matmul, Matrix, Product};
pub(crate) use memory::{Address, Buffer, FetchedBytes, StagedBytes};
pub(crate) use modules::KernelSource;
#[cfg(test)]
pub(crate) use modules::compile_for_tests;
pub use survey::{GpuInfo, SelfTest, Survey, count, matmul_flops, open_early, self_test, survey, usable};
