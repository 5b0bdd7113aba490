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
        "the library {name} was not found; install the CUDA toolkit (12 or later), let CUDA_PATH name it, activate a \
         Python environment that has PyTorch with CUDA, or let LD_LIBRARY_PATH name the folder it is in"
    )]
    NoLibrary {
        /// The library.
        name: &'static str,
    },
    /// A driver without what is needed.
    #[error(
        "NVIDIA's driver is too old: it lacks {function}; install one for CUDA 12 or later, or compute on the CPU"
    )]
    OldDriver {
        /// The function that it lacks.
        function: &'static str,
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
    /// Numbers that a vision-language model does not compute with there.
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
    #[error("the GPU has too little memory: {} more are needed and {} of {} are free; \
             take fewer images or windows at once, a smaller model, or the CPU", mebibytes(*.needed), mebibytes(*.free), mebibytes(*.total))]
    Memory {
        /// How much was asked for.
        needed: usize,
        /// How much is free.
        free: usize,
        /// How much there is.
        total: usize,
    },
    /// Too little memory for the keys and values of an answer.
    #[error("keys and values of {tokens} tokens (a question and its longest answer) take {}, and the GPU, which has {}, has {} for them \
             (three quarters of what is free); ask for shorter answers (`max_tokens`, `max_new_tokens`), or take a smaller model or the CPU",
            mebibytes(*.needed), mebibytes(*.total), mebibytes(*.available))]
    KvCache {
        /// Tokens of the question and its longest answer.
        tokens: usize,
        /// What they take.
        needed: usize,
        /// How much they may take.
        available: usize,
        /// How much memory there is.
        total: usize,
    },
    /// The kernels did not compile.
    #[error(
        "the kernels `{name}` cannot be compiled for this GPU ({problem}); do driver and CUDA toolkit go together?"
    )]
    Compile {
        /// Which kernels.
        name: &'static str,
        /// What the compiler or the driver said.
        problem: String,
    },
    /// The GPU went away, or an error of a kernel has ended its use by this process.
    #[error(
        "the GPU was lost while {what} ({problem}); see what `nvidia-smi` says, and start again: saved checkpoints are whole"
    )]
    Lost {
        /// What was tried.
        what: &'static str,
        /// What the driver said.
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
    pub(crate) fn failed<E: std::fmt::Debug>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| {
            let problem = format!("{error:?}");
            match LOST.iter().any(|code| problem.contains(code)) {
                true => Self::Lost { what, problem },
                false => Self::Failed { what, problem },
            }
        }
    }
}

/// What the driver says when nothing more can be done on a GPU by this process.
const LOST: [&str; 9] = [
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_UNKNOWN",
];

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_gpu_is_told_from_a_refusal() {
        let error = |code: &str| GpuError::failed::<String>("computing")(code.to_owned());
        assert!(matches!(error("DriverError(CUDA_ERROR_ECC_UNCORRECTABLE)"), GpuError::Lost { .. }));
        assert!(matches!(error("DriverError(CUDA_ERROR_INVALID_VALUE)"), GpuError::Failed { .. }));
    }

    #[test]
    fn memory_is_asked_for_in_numbers_that_people_read() {
        let error = GpuError::Memory { needed: 3 << 30, free: 1 << 20, total: 16 << 30 }.to_string();
        assert!(error.contains("3072 MiB more are needed and 1 MiB of 16384 MiB are free"), "{error}");
    }
}
