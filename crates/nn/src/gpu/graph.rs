//! Work that is recorded once and run as a whole: one call instead of one for each kernel.

use cudarc::driver::{CudaGraph, sys};

use super::device::Gpu;
use super::error::GpuError;

/// Kernels in their order. The memory they use must stay where it is.
pub(crate) struct Graph(CudaGraph);

// SAFETY: a graph belongs to no thread, and is used by one at a time: its owner has it behind a lock.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

impl Graph {
    /// Runs it, after all that was asked for before.
    pub(crate) fn run(&self) -> Result<(), GpuError> {
        self.0.launch().map_err(GpuError::failed("a graph of kernels"))
    }
}

impl Gpu {
    /// Records what `work` asks for instead of doing it. Nothing in it may take memory or wait.
    pub(crate) fn record(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<Graph, GpuError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(GpuError::failed("recording a graph"))?;
        let done = work(self);
        // Ended also after an error, or nothing could run any more.
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        done?;
        let graph = graph.map_err(GpuError::failed("recording a graph"))?;
        let empty = || GpuError::Failed { what: "recording a graph", problem: "nothing was recorded".into() };
        Ok(Graph(graph.ok_or_else(empty)?))
    }
}
