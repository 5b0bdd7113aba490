//! A GPU: its memory, and kernels that are compiled for it.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PinnedHostSlice,
    PushKernelArg, sys,
};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};

use super::super::config::Config;
use super::error::GpuError;
use super::memory::Address;

const KERNELS: &str = concat!(include_str!("kernels.cu"), include_str!("attention.cu"));
const NAMES: [&str; 16] = [
    "rms_norm",
    "layer_norm",
    "layer_norm_merged",
    "embed",
    "add_rows",
    "take_rows",
    "repeat_rows",
    "pixels",
    "angles",
    "turn_text",
    "turn_vision",
    "swiglu",
    "gelu",
    "label_logits",
    "attend_text",
    "attend_vision",
];

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    At(Address),
    Count(u64),
    Int(i32),
    Float(f32),
    Colours([f32; 3]),
}

/// Blocks of a kernel, and threads of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchShape {
    pub(super) blocks: [usize; 3],
    pub(super) threads: usize,
    /// Bytes that the threads of a block share, beside those its source says.
    pub(super) shared: usize,
}

impl LaunchShape {
    /// A block for each row of so many numbers, eight of which a thread takes at a time.
    pub(super) fn rows(rows: usize, width: usize) -> Self {
        Self { blocks: [rows, 1, 1], threads: (width / 8).next_multiple_of(32).clamp(32, 256), shared: 0 }
    }

    /// A warp for each row.
    pub(super) fn warps(rows: usize) -> Self {
        const WARPS: usize = 4;
        Self { blocks: [rows.div_ceil(WARPS), 1, 1], threads: WARPS * 32, shared: 0 }
    }

    /// A thread for every eight of so many numbers.
    pub(super) fn eights(count: usize) -> Self {
        Self { blocks: [count.div_ceil(8 * 256), 1, 1], threads: 256, shared: 0 }
    }
}

/// A GPU with the kernels on it. Everything runs in one order, that of the calls.
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    kernels: HashMap<&'static str, CudaFunction>,
    /// When each kernel ended, while profiling.
    events: Option<Vec<(&'static str, CudaEvent)>>,
}

impl Gpu {
    /// The GPU of a number, without kernels.
    pub(super) fn open(index: usize) -> Result<Self, GpuError> {
        find_libraries()?;
        let found = CudaContext::device_count().map_err(GpuError::failed("counting GPUs"))?;
        let found = usize::try_from(found).unwrap_or(0);
        if index >= found {
            return Err(GpuError::NoSuchGpu { index, found });
        }
        let context = CudaContext::new(index).map_err(GpuError::failed("opening"))?;
        let (major, minor) = context.compute_capability().map_err(GpuError::failed("asking for its kind"))?;
        if major < 8 {
            let name = context.name().unwrap_or_else(|_| "This GPU".into());
            return Err(GpuError::TooOld { name, major, minor });
        }
        let stream = context.default_stream();
        Ok(Self { context, stream, kernels: HashMap::new(), events: None })
    }

    /// Compiles the kernels for a model.
    pub(super) fn compile(&mut self, config: &Config) -> Result<(), GpuError> {
        let (text, vision) = (&config.text, &config.vision);
        let capability = self.context.compute_capability();
        let (major, minor) = capability.map_err(GpuError::failed("asking for its kind"))?;
        let options = CompileOptions {
            options: vec![
                format!("--gpu-architecture=compute_{major}{minor}"),
                format!("-DTEXT_WIDTH={}", text.width),
                format!("-DTEXT_HALF={}", text.head_width / 2),
                format!("-DVISION_WIDTH={}", vision.width),
                format!("-DVISION_MERGED={}", vision.width * vision.merged()),
                format!("-DVISION_HALF={}", vision.width / vision.heads / 2),
            ],
            name: Some("plaudit.cu".into()),
            ..CompileOptions::default()
        };
        let compiled = compile_ptx_with_opts(KERNELS, options)
            .map_err(|error| GpuError::Compile { problem: error.to_string() })?;
        let module = self
            .context
            .load_module(compiled)
            .map_err(|error| GpuError::Compile { problem: format!("{error:?}") })?;
        let kernel = |name: &'static str| {
            let kernel = module.load_function(name).map_err(GpuError::failed("loading a kernel"))?;
            Ok((name, kernel))
        };
        self.kernels = NAMES.into_iter().map(kernel).collect::<Result<_, GpuError>>()?;
        for (kernel, head_width) in
            [("attend_text", text.head_width), ("attend_vision", vision.width / vision.heads)]
        {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let set =
                self.kernels[kernel].set_attribute(attribute, attention_shared_bytes(head_width) as i32);
            set.map_err(GpuError::failed("giving attention its memory"))?;
        }
        Ok(())
    }

    /// Runs a kernel, after all that was asked for before.
    pub(super) fn run(
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
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(GpuError::failed("computing"))
    }

    /// Memory for so many things, with anything in it.
    pub(super) fn alloc<T: cudarc::driver::DeviceRepr>(
        &self,
        count: usize,
    ) -> Result<CudaSlice<T>, GpuError> {
        let count = count.max(1);
        // SAFETY: everything that is read from it was written before, by copies or kernels.
        unsafe { self.stream.alloc(count) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => GpuError::Memory { bytes: count * size_of::<T>() },
            _ => GpuError::failed("taking memory")(error),
        })
    }

    /// Pinned CPU memory, which the GPU can read by itself.
    pub(super) fn staging(&self, bytes: usize) -> Result<PinnedHostSlice<u8>, GpuError> {
        // SAFETY: bytes have no invalid values, and only what was written is ever copied.
        let staging = unsafe { self.context.alloc_pinned(bytes.max(1)) };
        staging.map_err(GpuError::failed("taking memory for images"))
    }

    /// The address of memory.
    pub(super) fn address<T>(&self, memory: &CudaSlice<T>) -> Address {
        use cudarc::driver::DevicePtr;
        Address(memory.device_ptr(&self.stream).0)
    }

    /// Begins to record the time of each kernel.
    pub(super) fn start_profiling(&mut self) -> Result<(), GpuError> {
        self.events = Some(Vec::new());
        self.record_event("start")
    }

    /// Records the end of a kernel.
    pub(super) fn record_event(&mut self, what: &'static str) -> Result<(), GpuError> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = self.stream.record_event(flags).map_err(GpuError::failed("timing"))?;
        events.push((what, event));
        Ok(())
    }

    /// Milliseconds and calls of each thing since profiling started, the longest first.
    pub(super) fn stop_profiling(&mut self) -> Result<Vec<(String, f64, usize)>, GpuError> {
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

    /// What the GPU is called.
    pub(super) fn name(&self) -> String {
        self.context.name().unwrap_or_default()
    }
}

/// Bytes that a block of an attention kernel shares: two tiles of keys and two of values, as `attention.cu` lays them out.
pub(super) fn attention_shared_bytes(head_width: usize) -> usize {
    4 * 64 * (head_width.next_multiple_of(16) + 8) * size_of::<u16>()
}

/// The libraries are looked for before they are used, because those that bind them panic when one is not there.
fn find_libraries() -> Result<(), GpuError> {
    // SAFETY: only loads libraries by their names; NVIDIA's have no initialisers that could do harm.
    let [driver, compiler, cublas] = unsafe {
        [
            cudarc::driver::sys::is_culib_present(),
            cudarc::nvrtc::sys::is_culib_present(),
            cudarc::cublaslt::sys::is_culib_present(),
        ]
    };
    match (driver, compiler, cublas) {
        (false, ..) => Err(GpuError::NoDriver),
        (_, false, _) => Err(GpuError::NoLibrary { name: "libnvrtc" }),
        (.., false) => Err(GpuError::NoLibrary { name: "libcublasLt" }),
        _ => Ok(()),
    }
}
