//! What can go wrong on a GPU.

/// A GPU that is not there, or refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No driver.
    #[error("no NVIDIA driver (libcuda) was found; install it, or compute on the CPU")]
    NoDriver,
    /// A library of the CUDA toolkit is missing.
    #[error(
        "the library {name} was not found; install the CUDA toolkit (12 or later), or let LD_LIBRARY_PATH name the \
         folder it is in, such as that of a Python package of NVIDIA's"
    )]
    NoLibrary {
        /// The library.
        name: &'static str,
    },
    /// No such GPU.
    #[error("no GPU of number {index}: {found} found; see what `nvidia-smi` lists, or compute on the CPU")]
    NoSuchGpu {
        /// The number asked for.
        index: usize,
        /// How many there are.
        found: usize,
    },
    /// A GPU without the instructions the kernels need.
    #[error("{name} has compute capability {major}.{minor}; at least 8.0 (Ampere) is needed")]
    TooOld {
        /// What the GPU is called.
        name: String,
        /// Its capability.
        major: i32,
        /// The part after the point.
        minor: i32,
    },
    /// Numbers it does not compute with.
    #[error(
        "on a GPU a vision-language model computes in bf16; set its precision to `bf16`, or its device to `cpu`"
    )]
    Precision,
    /// Sizes that its kernels do not take.
    #[error(
        "{what} of this model is {size}, and the GPU's kernels want a multiple of {of}; compute on the CPU"
    )]
    Size {
        /// Which size.
        what: &'static str,
        /// What it is.
        size: usize,
        /// What it should be a multiple of.
        of: usize,
    },
    /// Something that is only done on the CPU.
    #[error("{what} on a GPU is not supported; compute on the CPU")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// Too little memory.
    #[error(
        "the GPU has no memory for {bytes} more bytes; ask about fewer windows at once, or use a smaller model"
    )]
    Memory {
        /// How much was asked for.
        bytes: usize,
    },
    /// The kernels did not compile.
    #[error(
        "the kernels cannot be compiled for this GPU ({problem}); do driver and CUDA toolkit go together?"
    )]
    Compile {
        /// What the compiler said.
        problem: String,
    },
    /// The driver or cuBLASLt failed.
    #[error("{what} failed on the GPU: {problem}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// What it said.
        problem: String,
    },
}

impl GpuError {
    /// Turns what a library said into an error.
    pub(super) fn failed<E: std::fmt::Debug>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Failed { what, problem: format!("{error:?}") }
    }
}
