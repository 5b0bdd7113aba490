//! Work that is recorded once and run as a whole: one call instead of one for each kernel.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaGraph, CudaStream, sys};

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

/// A second order of kernels, and the ends of what was asked for in it.
#[derive(Default)]
pub(super) struct Beside {
    stream: Option<Arc<CudaStream>>,
    ends: Vec<CudaEvent>,
    /// Beginnings, kept as long as they may be waited for.
    begins: Vec<CudaEvent>,
    /// What is copied to the GPU while it computes.
    copies: Option<Arc<CudaStream>>,
    /// Orders that work turns to and back from, and which it is in.
    sides: [Option<Arc<CudaStream>>; Side::COUNT],
    side: Option<Side>,
}

/// An order of kernels beside the main one. Each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// For long work that nothing waits for soon.
    Late,
    /// For short work that is waited for soon.
    Soon,
}

impl Side {
    /// How many there are.
    pub(crate) const COUNT: usize = 2;

    /// Its number.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Late => 0,
            Self::Soon => 1,
        }
    }
}

/// The main order, while work is in another; nothing if it stayed.
pub(crate) struct MainOrder(Option<Arc<CudaStream>>);

/// The end of what runs beside the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End(usize);

/// A moment of the GPU's time.
#[derive(Debug)]
pub(crate) struct Moment(CudaEvent);

impl Moment {
    /// The host waits for it.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        self.0.synchronize().map_err(GpuError::failed("computing"))
    }
}

impl End {
    /// The end of the so-manieth thing that was asked to run beside the rest, from 0, since the first or since [`Gpu::record`].
    pub(crate) fn of(number: usize) -> Self {
        Self(number)
    }
}

impl Gpu {
    /// Runs what `work` asks for after all before, and beside what comes after; what runs so has one order among itself.
    pub(crate) fn run_beside(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let failed = || GpuError::failed("running kernels side by side");
        let stream = match &self.beside.stream {
            Some(stream) => stream.clone(),
            None => self.stream.context().new_stream().map_err(failed())?,
        };
        let begin = self.stream.record_event(None).map_err(failed())?;
        stream.wait(&begin).map_err(failed())?;
        self.beside.begins.push(begin);
        let main = std::mem::replace(&mut self.stream, stream.clone());
        let done = work(self);
        self.stream = main;
        done?;
        self.beside.ends.push(stream.record_event(None).map_err(failed())?);
        self.beside.stream = Some(stream);
        Ok(())
    }

    /// Turns to another order: what is asked for until [`step_back`](Self::step_back) comes after all that was asked for before, and runs
    /// beside what comes after. While kernels are timed there is one order. Not for what is recorded.
    pub(crate) fn step_aside(&mut self, side: Side) -> Result<MainOrder, GpuError> {
        let failed = || GpuError::failed("running kernels side by side");
        if self.is_profiling() || self.beside.side.is_some() {
            return Ok(MainOrder(None));
        }
        let stream = match &self.beside.sides[side.index()] {
            Some(stream) => stream.clone(),
            None => self.stream.context().new_stream().map_err(failed())?,
        };
        stream.wait(&self.stream.record_event(None).map_err(failed())?).map_err(failed())?;
        self.beside.sides[side.index()] = Some(stream.clone());
        self.beside.side = Some(side);
        Ok(MainOrder(Some(std::mem::replace(&mut self.stream, stream))))
    }

    /// Turns back to the main order; gives when what was asked for in the other one is done.
    pub(crate) fn step_back(&mut self, main: MainOrder) -> Result<Moment, GpuError> {
        let done = self.moment();
        if let Some(main) = main.0 {
            self.stream = main;
            self.beside.side = None;
        }
        done
    }

    /// The order that work is in, if it is not the main one.
    pub(super) fn side(&self) -> Option<Side> {
        self.beside.side
    }

    /// Copies to the GPU while it computes what was asked for before. `after` is when it no longer reads what will be written; the
    /// answer is when the copies are there.
    pub(crate) fn copy_beside(
        &mut self,
        after: Option<&Moment>,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<Moment, GpuError> {
        let failed = || GpuError::failed("copying to the GPU");
        let stream = match &self.beside.copies {
            Some(stream) => stream.clone(),
            None => self.stream.context().new_stream().map_err(failed())?,
        };
        if let Some(after) = after {
            stream.wait(&after.0).map_err(failed())?;
        }
        let main = std::mem::replace(&mut self.stream, stream.clone());
        let done = work(self);
        self.stream = main;
        self.beside.copies = Some(stream.clone());
        done?;
        Ok(Moment(stream.record_event(None).map_err(failed())?))
    }

    /// When all that was asked for until now is done.
    pub(crate) fn moment(&self) -> Result<Moment, GpuError> {
        Ok(Moment(self.stream.record_event(None).map_err(GpuError::failed("computing"))?))
    }

    /// What comes after waits for a moment.
    pub(crate) fn wait_until(&self, moment: &Moment) -> Result<(), GpuError> {
        self.stream.wait(&moment.0).map_err(GpuError::failed("computing"))
    }

    /// What comes after waits for something that runs beside it, and all that was asked for there before.
    pub(crate) fn wait_for(&mut self, end: End) -> Result<(), GpuError> {
        match self.beside.ends.get(end.0) {
            Some(event) => self.stream.wait(event).map_err(GpuError::failed("running kernels side by side")),
            None => Ok(()),
        }
    }

    /// Records what `work` asks for instead of doing it. Nothing in it may take memory or wait; what runs beside the rest must have been
    /// waited for in the end.
    pub(crate) fn record(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<Graph, GpuError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.beside.ends.clear();
        self.stream.begin_capture(mode).map_err(GpuError::failed("recording a graph"))?;
        let done = work(self);
        // Ended also after an error, or nothing could run any more.
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        (self.beside.ends, self.beside.begins) = (Vec::new(), Vec::new());
        done?;
        let graph = graph.map_err(GpuError::failed("recording a graph"))?;
        let empty = || GpuError::Failed { what: "recording a graph", problem: "nothing was recorded".into() };
        Ok(Graph(graph.ok_or_else(empty)?))
    }
}
