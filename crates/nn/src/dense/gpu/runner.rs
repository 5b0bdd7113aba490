//! What runs the kernels: a GPU; in tests, a program that does what a GPU would.

#![allow(unsafe_code)] // A GPU deals in addresses; each block says why.

use cudarc::driver::{CudaSlice, DriverError, PinnedHostSlice, result};
use rayon::prelude::*;

use crate::gpu::{Arg, Gpu, GpuError, Graph, KernelSource, LaunchShape};

/// Fields of eight bytes that a kernel takes at most.
pub const WORDS: usize = crate::gpu::WORDS;

/// Threads of a block, in every kernel.
pub(super) const THREADS: usize = 128;

/// A kernel to run.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// Its name.
    pub kernel: &'static str,
    /// How many blocks of 128 threads.
    pub blocks: [usize; 3],
    /// What it takes; a kernel may take fewer.
    pub words: [u64; WORDS],
}

/// Memory, and kernels that run on it in the order they are asked for.
pub trait KernelRunner: Send {
    /// What it is called.
    fn name(&self) -> String;

    /// Takes memory of zeros, which stays until this is dropped; its address.
    fn alloc(&mut self, bytes: usize) -> Result<u64, GpuError>;

    /// Puts bytes at addresses.
    ///
    /// # Safety
    /// There is room for them in memory of [`Self::alloc`].
    unsafe fn write(&mut self, parts: &[(u64, &[u8])]) -> Result<(), GpuError>;

    /// Reads what is at addresses, once everything before is done.
    ///
    /// # Safety
    /// As much is there, in memory of [`Self::alloc`].
    unsafe fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<(), GpuError>;

    /// Runs a kernel.
    ///
    /// # Safety
    /// The words are those of the kernel of this name, and what it touches is memory of [`Self::alloc`].
    unsafe fn launch(&mut self, launch: &Launch) -> Result<(), GpuError>;

    /// Keeps kernels to be run together, and gives them a number.
    fn record(&mut self, launches: &[Launch]) -> Result<usize, GpuError>;

    /// Runs the kernels of a number.
    ///
    /// # Safety
    /// As for [`Self::launch`].
    unsafe fn run(&mut self, recorded: usize) -> Result<(), GpuError>;

    /// Forgets all that was recorded.
    fn forget(&mut self);
}

pub(super) fn source() -> KernelSource {
    KernelSource { name: "dense", source: super::KERNELS, defines: Vec::new() }
}

const NAMES: [&str; 17] = [
    "layer_forward",
    "layer_input_gradient",
    "layer_weight_gradient",
    "conv_forward",
    "conv_input_gradient",
    "conv_weight_gradient",
    "center_images",
    "keypoints_forward",
    "keypoints_backward",
    "norm_forward",
    "layer_backward",
    "norm_gradient",
    "sum_parts",
    "sum_squares",
    "gradient_norm",
    "adam_step",
    "follow",
];

/// Bytes up to which the driver copies by itself, without being waited for.
const SMALL: usize = 32 << 10;
/// Bytes that a thread copies at a time.
const PIECE: usize = 256 << 10;

pub(super) struct CudaRunner {
    graphs: Vec<Graph>,
    /// What goes to the GPU by its own fetching.
    staging: Option<PinnedHostSlice<u8>>,
    /// What comes back.
    results: Option<PinnedHostSlice<u8>>,
    memory: Vec<CudaSlice<u8>>,
    gpu: Gpu,
}

impl CudaRunner {
    pub(super) fn open(index: usize) -> Result<Self, GpuError> {
        let mut gpu = Gpu::open(index)?;
        gpu.compile(&source(), &NAMES)?;
        Ok(Self { graphs: Vec::new(), staging: None, results: None, memory: Vec::new(), gpu })
    }

    /// Lets the calls of this thread be about this GPU: a learner may have moved to another.
    fn bind(&self) -> Result<(), GpuError> {
        self.gpu.stream.context().bind_to_thread().map_err(GpuError::failed("using it from a thread"))
    }

    /// Puts large parts into memory that the GPU fetches from, one after the other.
    fn stage(&mut self, parts: &[(u64, &[u8])]) -> Result<(), GpuError> {
        let total: usize = parts.iter().map(|(_, part)| part.len()).sum();
        self.gpu.wait()?; // what is staged may still be on its way
        if self.staging.as_ref().is_none_or(|staging| staging.len() < total) {
            self.staging = None; // before more is taken
            self.staging = Some(self.gpu.staging(total)?);
        }
        let Some(staging) = &mut self.staging else { unreachable!("just made") };
        let staging = staging.as_mut_slice().map_err(GpuError::failed("staging"))?;
        let mut rest = &mut staging[..total];
        let mut pieces = Vec::new();
        for (_, part) in parts {
            let (here, others) = rest.split_at_mut(part.len());
            pieces.extend(here.chunks_mut(PIECE).zip(part.chunks(PIECE)));
            rest = others;
        }
        pieces.into_par_iter().for_each(|(to, from)| to.copy_from_slice(from));
        let mut start = 0;
        for (to, part) in parts {
            let from = &staging[start..start + part.len()];
            // SAFETY: callers of `write` have room there; the staging stays as it is until it was waited for.
            unsafe { result::memcpy_htod_async(*to, from, self.gpu.stream.cu_stream()) }
                .map_err(GpuError::failed("copying to the GPU"))?;
            start += part.len();
        }
        Ok(())
    }
}

impl KernelRunner for CudaRunner {
    fn name(&self) -> String {
        self.gpu.name()
    }

    fn alloc(&mut self, bytes: usize) -> Result<u64, GpuError> {
        let mut memory = self.gpu.alloc::<u8>(bytes)?;
        self.gpu.stream.memset_zeros(&mut memory).map_err(GpuError::failed("clearing memory"))?;
        let address = self.gpu.address(&memory).0;
        self.memory.push(memory);
        Ok(address)
    }

    // SAFETY: what the trait asks of callers is all that is needed.
    unsafe fn write(&mut self, parts: &[(u64, &[u8])]) -> Result<(), GpuError> {
        self.bind()?;
        let total: usize = parts.iter().map(|(_, part)| part.len()).sum();
        if total > SMALL {
            return self.stage(parts);
        }
        for (to, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            // SAFETY: there is room, as the caller promises; the driver has read all of pageable memory when this returns.
            unsafe { result::memcpy_htod_async(*to, part, self.gpu.stream.cu_stream()) }
                .map_err(GpuError::failed("copying to the GPU"))?;
        }
        Ok(())
    }

    // SAFETY: what the trait asks of callers is all that is needed.
    unsafe fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<(), GpuError> {
        self.bind()?;
        let stream = self.gpu.stream.cu_stream();
        let failed = GpuError::failed::<DriverError>;
        let total: usize = parts.iter().map(|(_, into)| into.len()).sum();
        if total > SMALL {
            for (from, into) in parts.iter_mut().filter(|(_, into)| !into.is_empty()) {
                // SAFETY: as much is there, as the caller promises; waited for below, before it is used.
                unsafe { result::memcpy_dtoh_async(into, *from, stream) }
                    .map_err(failed("copying from the GPU"))?;
            }
            return self.gpu.wait();
        }
        // By way of pinned memory nothing is waited for between the parts.
        if self.results.is_none() {
            self.results = Some(self.gpu.staging(SMALL)?);
        }
        let Some(results) = &mut self.results else { unreachable!("just made") };
        let results = results.as_mut_slice().map_err(GpuError::failed("staging"))?;
        let mut rest = &mut results[..total];
        for (from, into) in parts.iter().filter(|(_, into)| !into.is_empty()) {
            let (here, others) = rest.split_at_mut(into.len());
            // SAFETY: as above.
            unsafe { result::memcpy_dtoh_async(here, *from, stream) }
                .map_err(failed("copying from the GPU"))?;
            rest = others;
        }
        self.gpu.wait()?;
        let mut start = 0;
        for (_, into) in parts.iter_mut() {
            into.copy_from_slice(&results[start..start + into.len()]);
            start += into.len();
        }
        Ok(())
    }

    // SAFETY: what the trait asks of callers is all that is needed.
    unsafe fn launch(&mut self, launch: &Launch) -> Result<(), GpuError> {
        run(&mut self.gpu, launch)
    }

    fn record(&mut self, launches: &[Launch]) -> Result<usize, GpuError> {
        let graph = self.gpu.record(|gpu| launches.iter().try_for_each(|launch| run(gpu, launch)))?;
        self.graphs.push(graph);
        Ok(self.graphs.len() - 1)
    }

    // SAFETY: what the trait asks of callers is all that is needed.
    unsafe fn run(&mut self, recorded: usize) -> Result<(), GpuError> {
        self.graphs[recorded].run()
    }

    fn forget(&mut self) {
        self.graphs.clear();
    }
}

fn run(gpu: &mut Gpu, launch: &Launch) -> Result<(), GpuError> {
    let shape = LaunchShape { blocks: launch.blocks, threads: THREADS, shared: 0 };
    gpu.run(launch.kernel, shape, &[Arg::Words(launch.words)])
}
