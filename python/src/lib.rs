//! plaudit from Python: what the package `plaudit` is made of.
//!
//! The classes here take and give numpy arrays and plain values; what is Gymnasium's, PyTorch's or a matter
//! of taste is written in Python, in `package/plaudit`. Three rules hold for every call. Long work releases
//! the interpreter's lock ([`process`]). A panic becomes an exception, and so does every error, with
//! plaudit's words and its hint ([`error`]). Arrays are read in place wherever they lie as they are needed
//! ([`images`]), on the model's GPU too ([`dlpack`]).

mod command;
mod dlpack;
mod env;
mod error;
mod images;
mod judge;
mod labelled;
mod model;
mod process;
mod recorder;
mod recording;
mod reward;

use std::path::PathBuf;

use plaudit_nn::alloc::CachingAllocator;
use pyo3::prelude::*;

/// Caches what one call frees for the next call.
#[global_allocator]
static MEMORY: CachingAllocator = CachingAllocator::new();

/// The compiled part of plaudit.
#[pymodule]
fn _plaudit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // What a library keeps for itself is bounded; a command sets its own limit.
    MEMORY.set_cache_limit(process::CACHE_BYTES);
    // What runs reward functions: this interpreter. An embedded one has no file.
    let executable: Option<PathBuf> = module.py().import("sys")?.getattr("executable")?.extract()?;
    if let Some(python) = executable.filter(|python| !python.as_os_str().is_empty()) {
        plaudit::interpreter::set(python);
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_of, module)?)?;
    module.add_class::<model::RewardModel>()?;
    module.add_class::<reward::RewardShaper>()?;
    module.add_class::<env::Simulator>()?;
    module.add_class::<recording::Recordings>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<labelled::LabelledFrames>()?;
    module.add_class::<labelled::LabelledWindows>()?;
    module.add_class::<recorder::EpisodeRecorder>()
}
