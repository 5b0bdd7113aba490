//! A GPU: its memory, and the kernels on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PinnedHostSlice,
    PushKernelArg, sys,
};

use super::error::GpuError;
use super::graph::Beside;
use super::libraries::{Library, driver_has};
use super::memory::Address;
use super::modules::{self, KernelSource};

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // copied into a launch once, when a graph is recorded; a box would have to be kept alive beside it
pub(crate) enum Arg {
    At(Address),
    Count(u64),
    Int(i32),
    Float(f32),
    Colours([f32; 3]),
    /// A structure of fields of eight bytes.
    Words([u64; WORDS]),
}

/// Fields of a structure that a kernel takes.
pub(crate) const WORDS: usize = 37;

/// Blocks of a kernel, and threads of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) blocks: [usize; 3],
    pub(crate) threads: usize,
    /// Bytes that the threads of a block share, beside those its source says.
    pub(crate) shared: usize,
}

impl LaunchShape {
    /// A block for each row of so many numbers, eight of which a thread takes at a time.
    pub(crate) fn rows(rows: usize, width: usize) -> Self {
        Self { blocks: [rows, 1, 1], threads: (width / 8).next_multiple_of(32).clamp(32, 256), shared: 0 }
    }

    /// A warp for each row.
    pub(crate) fn warps(rows: usize) -> Self {
        const WARPS: usize = 4;
        Self { blocks: [rows.div_ceil(WARPS), 1, 1], threads: WARPS * 32, shared: 0 }
    }

    /// A thread for every eight of so many numbers.
    pub(crate) fn eights(count: usize) -> Self {
        Self { blocks: [count.div_ceil(8 * 256), 1, 1], threads: 256, shared: 0 }
    }
}

/// The context of a GPU, which stays for as long as the process: making one takes some tenths of a second.
pub(super) fn context(index: usize) -> Result<Arc<CudaContext>, GpuError> {
    static CONTEXTS: Mutex<BTreeMap<usize, Arc<CudaContext>>> = Mutex::new(BTreeMap::new());
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = contexts.get(&index) {
        return Ok(context.clone());
    }
    let context = CudaContext::new(index).map_err(GpuError::failed("opening"))?;
    contexts.insert(index, context.clone());
    Ok(context)
}

/// A GPU with the kernels on it. Everything runs in one order, that of the calls, but for what is asked to run beside the rest.
pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    pub(super) beside: Beside,
    kernels: HashMap<&'static str, CudaFunction>,
    /// When each kernel ended, while profiling.
    events: Option<Vec<(&'static str, CudaEvent)>>,
}

impl Gpu {
    /// The GPU of a number, without kernels.
    pub(crate) fn open(index: usize) -> Result<Self, GpuError> {
        let found = super::survey::count()?;
        if index >= found {
            return Err(GpuError::NoSuchGpu { index, found });
        }
        let context = context(index)?;
        let (major, minor) = context.compute_capability().map_err(GpuError::failed("asking for its kind"))?;
        if major < 8 {
            let name = context.name().unwrap_or_else(|_| "This GPU".into());
            return Err(GpuError::TooOld { name, major, minor });
        }
        Library::Nvrtc.load()?;
        // SAFETY: there is one stream, and everything happens in its order; no slice is used by another.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(GpuError::failed("making a stream"))?;
        Ok(Self { context, stream, beside: Beside::default(), kernels: HashMap::new(), events: None })
    }

    /// The same GPU with an order of its own and no kernels: for copies that nothing here waits for.
    pub(crate) fn another_order(&self) -> Result<Self, GpuError> {
        let (context, stream) = (self.context.clone(), self.context.new_stream());
        let stream = stream.map_err(GpuError::failed("making a stream"))?;
        Ok(Self { context, stream, beside: Beside::default(), kernels: HashMap::new(), events: None })
    }

    /// Compiles kernels and adds them to those that can be run.
    pub(crate) fn compile(&mut self, source: &KernelSource, names: &[&'static str]) -> Result<(), GpuError> {
        let capability = self.context.compute_capability();
        let capability = capability.map_err(GpuError::failed("asking for its kind"))?;
        let module = modules::load(&self.context, capability, source)?;
        for name in names {
            let kernel = module.load_function(name).map_err(GpuError::failed("loading a kernel"))?;
            self.kernels.insert(name, kernel);
        }
        Ok(())
    }

    /// Lets the blocks of a kernel share so many bytes, and all of them no more than so much of the memory that is also the
    /// first cache.
    pub(crate) fn allow_shared(
        &self,
        kernel: &'static str,
        bytes: usize,
        percent: i32,
    ) -> Result<(), GpuError> {
        use sys::CUfunction_attribute as Attribute;
        for (attribute, value) in [
            (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as i32),
            (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent),
        ] {
            let set = self.kernels[kernel].set_attribute(attribute, value);
            set.map_err(GpuError::failed("giving a kernel its memory"))?;
        }
        Ok(())
    }

    /// Bytes that the threads of a block may share at most.
    pub(crate) fn most_shared(&self) -> usize {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context
            .attribute(attribute)
            .ok()
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(48 << 10)
    }

    /// Whether it has Hopper's own instructions, and the compiler knows them.
    pub(crate) fn is_hopper(&self) -> Result<bool, GpuError> {
        let capability = self.context.compute_capability();
        let capability = capability.map_err(GpuError::failed("asking for its kind"))?;
        Ok(capability == (9, 0) && modules::knows(90)?)
    }

    /// How many multiprocessors it has.
    pub(crate) fn multiprocessors(&self) -> usize {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        self.context.attribute(attribute).ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
    }

    /// Bytes of memory that are free, and that there are.
    pub(crate) fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.context.mem_get_info().map_err(GpuError::failed("asking for its memory"))
    }

    /// Runs a kernel, after all that was asked for before.
    pub(crate) fn run(
        &mut self,
        kernel: &'static str,
        shape: LaunchShape,
        args: &[Arg],
    ) -> Result<(), GpuError> {
        let [x, y, z] = shape.blocks.map(|blocks| blocks as u32);
        if shape.blocks.contains(&0) {
            return Ok(());
        }
        let function = &self.kernels[kernel];
        let mut launch = self.stream.launch_builder(function);
        for arg in args {
            match arg {
                Arg::At(address) => launch.arg(&address.0),
                Arg::Count(count) => launch.arg(count),
                Arg::Int(number) => launch.arg(number),
                Arg::Float(number) => launch.arg(number),
                Arg::Colours(numbers) => launch.arg(numbers),
                Arg::Words(words) => launch.arg(words),
            };
        }
        let config = LaunchConfig {
            grid_dim: (x, y, z),
            block_dim: (shape.threads as u32, 1, 1),
            shared_mem_bytes: shape.shared as u32,
        };
        // SAFETY: callers give the arguments that the kernel of this name has in its source, and addresses of memory that
        // holds the rows the shape speaks of; the memory outlives the launch, for it is freed in the same order.
        unsafe { launch.launch(config) }.map_err(GpuError::failed("a kernel"))?;
        self.record_event(kernel)
    }

    /// Waits for all that was asked for.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(GpuError::failed("computing"))
    }

    /// Memory for so many things, with anything in it.
    pub(crate) fn alloc<T: cudarc::driver::DeviceRepr>(
        &self,
        count: usize,
    ) -> Result<CudaSlice<T>, GpuError> {
        let count = count.max(1);
        // SAFETY: everything that is read from it was written before, by copies or kernels.
        unsafe { self.stream.alloc(count) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, total) = self.memory().unwrap_or_default();
                GpuError::Memory { needed: count * size_of::<T>(), free, total }
            }
            _ => GpuError::failed("taking memory")(error),
        })
    }

    /// Pinned CPU memory, which the GPU can read by itself.
    pub(crate) fn staging(&self, bytes: usize) -> Result<PinnedHostSlice<u8>, GpuError> {
        // SAFETY: bytes have no invalid values, and only what was written is ever copied.
        let staging = unsafe { self.context.alloc_pinned(bytes.max(1)) };
        staging.map_err(GpuError::failed("taking memory for images"))
    }

    /// Pinned CPU memory that the GPU writes and the host reads.
    pub(crate) fn fetching(&self, bytes: usize) -> Result<PinnedHostSlice<u8>, GpuError> {
        // SAFETY: bytes have no invalid values, and are read only after the GPU has written them.
        let memory = unsafe { self.context.alloc_pinned_with_flags(bytes.max(1), 0) };
        memory.map_err(GpuError::failed("taking memory for results"))
    }

    /// The address of memory.
    pub(crate) fn address<T>(&self, memory: &CudaSlice<T>) -> Address {
        use cudarc::driver::DevicePtr;
        Address(memory.device_ptr(&self.stream).0)
    }

    /// Begins to record the time of each kernel.
    pub(crate) fn start_profiling(&mut self) -> Result<(), GpuError> {
        if !driver_has("cuEventElapsedTime_v2") {
            return Err(GpuError::Unsupported { what: "timing kernels with a driver before 570" });
        }
        self.events = Some(Vec::new());
        self.record_event("start")
    }

    /// Whether the time of each kernel is recorded.
    pub(super) fn is_profiling(&self) -> bool {
        self.events.is_some()
    }

    /// Records the end of a kernel.
    pub(crate) fn record_event(&mut self, what: &'static str) -> Result<(), GpuError> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = self.stream.record_event(flags).map_err(GpuError::failed("timing"))?;
        events.push((what, event));
        Ok(())
    }

    /// Milliseconds and calls of each thing since profiling started, the longest first.
    pub(crate) fn stop_profiling(&mut self) -> Result<Vec<(String, f64, usize)>, GpuError> {
        let events = self.events.take().unwrap_or_default();
        self.wait()?;
        let mut sums: HashMap<&'static str, (f64, usize)> = HashMap::new();
        for pair in events.windows(2) {
            let took = pair[0].1.elapsed_ms(&pair[1].1).map_err(GpuError::failed("timing"))?;
            let sum = sums.entry(pair[1].0).or_default();
            *sum = (sum.0 + f64::from(took), sum.1 + 1);
        }
        let mut sums: Vec<_> =
            sums.into_iter().map(|(what, (took, calls))| (what.to_owned(), took, calls)).collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(sums)
    }

    /// Its number, and CUDA's handle of the order that work is in.
    pub(crate) fn order(&self) -> (usize, u64) {
        (self.context.ordinal(), self.stream.cu_stream() as u64)
    }

    /// What the GPU is called.
    pub(crate) fn name(&self) -> String {
        self.context.name().unwrap_or_default()
    }
}
