//! What there is: libraries, GPUs, and how fast one multiplies.

use std::time::Instant;

use cudarc::driver::{result, sys};

use super::device::Gpu;
use super::error::GpuError;
use super::libraries::{FoundLibrary, Library};
use super::matmul::{Cublas, Epilogue, Matmul};
use super::memory::Buffer;

/// A GPU, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number.
    pub index: usize,
    /// What it is called.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: usize,
    /// Multiprocessors.
    pub multiprocessors: i32,
}

impl GpuInfo {
    /// Whether it has the instructions the kernels need.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.capability.0 >= 8
    }
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The libraries, found or not.
    pub libraries: Vec<FoundLibrary>,
    /// The release of the driver, where the system says it.
    pub driver_release: Option<String>,
    /// The GPUs.
    pub gpus: Vec<GpuInfo>,
    /// Why there are none, if asking for them failed.
    pub problem: Option<String>,
}

/// How many GPUs there are.
///
/// # Errors
/// When there is no driver, or it fails.
pub fn count() -> Result<usize, GpuError> {
    Library::Driver.load()?;
    match result::init() {
        Ok(()) => {}
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        Err(error) => return Err(GpuError::failed("starting the driver")(error)),
    }
    let count = result::device::get_count().map_err(GpuError::failed("counting GPUs"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The GPU of a number, if it and these libraries can be used. Nothing is opened.
///
/// # Errors
/// When something is missing.
pub fn usable(index: usize, libraries: &[Library]) -> Result<GpuInfo, GpuError> {
    let found = count()?;
    if index >= found {
        return Err(GpuError::NoSuchGpu { index, found });
    }
    let info = describe(index)?;
    if !info.is_supported() {
        let (major, minor) = info.capability;
        return Err(GpuError::TooOld { name: info.name, major, minor });
    }
    libraries.iter().try_for_each(|library| library.load())?;
    Ok(info)
}

/// Opens a GPU for what this process will compute on it, which takes some tenths of a second: on another thread, while data is read. What
/// cannot be opened is told of when it is used.
pub fn open_early(index: usize) {
    let open = move || {
        drop(count().and_then(|found| match index < found {
            true => super::device::context(index).map(drop),
            false => Err(GpuError::NoSuchGpu { index, found }),
        }))
    };
    // Without a thread it is opened later.
    drop(std::thread::Builder::new().name("gpu".into()).spawn(open));
}

/// Looks at everything without computing anything.
#[must_use]
pub fn survey() -> Survey {
    let libraries = Library::ALL.map(FoundLibrary::look_for).to_vec();
    let described = count().and_then(|count| (0..count).map(describe).collect::<Result<Vec<_>, _>>());
    let (gpus, problem) = match described {
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Survey { libraries, driver_release: driver_release(), gpus, problem }
}

/// A GPU whose number there is, without opening it.
fn describe(index: usize) -> Result<GpuInfo, GpuError> {
    use sys::CUdevice_attribute as Attribute;
    let failed = || GpuError::failed("asking about a GPU");
    let device = result::device::get(index as i32).map_err(failed())?;
    let attribute = |attribute| {
        // SAFETY: the device is one that the driver just named.
        unsafe { result::device::get_attribute(device, attribute) }.map_err(failed())
    };
    // SAFETY: the same.
    let memory = unsafe { result::device::total_mem(device) }.map_err(failed())?;
    Ok(GpuInfo {
        index,
        name: result::device::get_name(device).map_err(failed())?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        memory,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

/// `580.159.04`, from `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …`.
fn driver_release() -> Option<String> {
    release_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

fn release_in(text: &str) -> Option<String> {
    let is_release = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.lines().next()?.split_whitespace().find(is_release).map(str::to_owned)
}

/// What a GPU does in a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfTest {
    /// Floating-point operations in a second, multiplying matrices of bf16 numbers.
    pub flops: f64,
    /// Bytes of memory that are free.
    pub free: usize,
}

/// Side of the matrices of a self-test, and how often they are multiplied.
const SIDE: usize = 8192;
const REPEATS: usize = 20;

/// Multiplies matrices for a moment.
///
/// # Errors
/// When there is no such GPU, a library is missing, or there is no memory for the matrices.
pub fn self_test(index: usize) -> Result<SelfTest, GpuError> {
    let (free, _) = Gpu::open(index)?.memory()?;
    Ok(SelfTest { flops: matmul_flops(index, SIDE, REPEATS)?, free })
}

/// How many floating-point operations a GPU does in a second, in a product of two square matrices of bf16 numbers: what
/// a forward pass is measured by.
///
/// # Errors
/// When there is no such GPU, or it has no memory for the matrices.
pub fn matmul_flops(index: usize, side: usize, repeats: usize) -> Result<f64, GpuError> {
    let mut gpu = Gpu::open(index)?;
    let mut cublas = Cublas::new(&gpu)?;
    // Random bits of numbers between 0.5 and 2 and their negatives: zeros would be quicker.
    let bits = |seed: u64| {
        let bit = |i: u64| {
            let mixed = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (mixed as u16 & 0x80ff) | 0x3f00
        };
        (0..(side * side) as u64).map(bit).collect::<Vec<u16>>()
    };
    let [mut x, mut weight, mut y] = [Buffer::default(), Buffer::default(), Buffer::default()];
    let matmul = Matmul {
        x: x.put(&gpu, &bits(1))?,
        weight: weight.put(&gpu, &bits(2))?,
        epilogue: Epilogue::Plain,
        y: y.of(&gpu, side * side)?,
        stride: side,
        rows: side,
        inputs: side,
        outputs: side,
    };
    let mut run = |gpu: &mut Gpu, times: usize| {
        (0..times).try_for_each(|_| cublas.run(gpu, "matmul", &matmul)).and_then(|()| gpu.wait())
    };
    run(&mut gpu, repeats.div_ceil(2))?;
    let start = Instant::now();
    run(&mut gpu, repeats)?;
    let operations = 2.0 * (side as f64).powi(3) * repeats as f64;
    Ok(operations / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_found_among_words() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@host)\nGCC 12.3.0";
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023";
        assert_eq!(release_in(open).unwrap(), "580.159.04");
        assert_eq!(release_in(closed).unwrap(), "535.54.03");
        assert_eq!(release_in(""), None);
    }

    /// Whatever this machine has: GPUs, or why there are none.
    #[test]
    fn a_survey_never_fails() {
        let survey = survey();
        assert_eq!(survey.libraries.len(), Library::ALL.len());
        let driver = &survey.libraries[0];
        assert!(driver.problem.is_none() || survey.problem.is_some(), "no driver, no reason: {survey:?}");
        assert!(survey.gpus.iter().all(|gpu| !gpu.name.is_empty() && gpu.memory > 0));
        if survey.gpus.is_empty() {
            assert!(self_test(0).is_err());
        }
    }
}
