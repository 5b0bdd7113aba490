//! Ranks that have a GPU each: NCCL carries what is large, over NVLink, InfiniBand or sockets.
//!
//! Who is who, and all that is small, goes over another carrier (threads or MPI), which also spreads the 128 bytes by which
//! NCCL's ranks find each other. Slices travel as they are (`ncclSend`, `ncclRecv`) and are summed on the CPU in the order of
//! ranks: `ncclReduceScatter` would sum in an order of its own. Numbers begin and end in the CPU's memory, as networks train
//! there.

#![allow(unsafe_code)] // NCCL's handle, and whether its library is there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use cudarc::nccl::result::{NcclError, group_end, group_start};
use cudarc::nccl::{Comm, Id};
use plaudit_core::{GradientSync, SumOnto, SyncError};

/// Fewer numbers than these in all go over the other carrier.
const SMALL: usize = 1 << 14;

/// One rank with a GPU.
#[derive(Debug)]
pub struct NcclRank {
    control: Arc<dyn GradientSync>,
    gpu: Mutex<Gpu>,
}

/// A rank's GPU, with memory that is used again for every exchange.
#[derive(Debug)]
struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    comm: Comm,
    sent: CudaSlice<f32>,
    received: CudaSlice<f32>,
}

// SAFETY: a communicator may be used by any thread, one at a time; it stands behind a mutex.
unsafe impl Send for Gpu {}

impl NcclRank {
    /// Joins the others over the GPU of this number. All ranks of `control` call it.
    ///
    /// # Errors
    /// On every rank, when one has no such GPU, no NVIDIA driver or no `libnccl.so`, or when they cannot reach each other.
    pub fn join(control: Arc<dyn GradientSync>, gpu: usize) -> Result<Self, SyncError> {
        let opened = control.agree(open(gpu))?;
        let id = shared_id(&*control)?;
        let (context, stream) = opened;
        let joined = Comm::from_rank(stream.clone(), control.rank(), control.world(), id)
            .map_err(nccl("ncclCommInitRank"))
            .and_then(|comm| Gpu::new(context, stream, comm));
        let gpu = Mutex::new(control.agree(joined)?);
        Ok(Self { control, gpu })
    }

    fn gpu(&self) -> MutexGuard<'_, Gpu> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(gpu: usize) -> Result<(Arc<CudaContext>, Arc<CudaStream>), SyncError> {
    let failed = |reason: String| Err(SyncError::Transport { reason });
    // SAFETY: looking for a library runs its initialisers, and these are NVIDIA's own.
    let [driver, nccl] =
        unsafe { [cudarc::driver::sys::is_culib_present(), cudarc::nccl::sys::is_culib_present()] };
    if !driver {
        return failed("there is no NVIDIA driver (libcuda.so)".into());
    }
    if !nccl {
        return failed(
            "libnccl.so is not found; NVIDIA's package nvidia-nccl-cu13 or libnccl2 has it".into(),
        );
    }
    let found = CudaContext::device_count().map_err(cuda("counting GPUs"))?;
    let found = usize::try_from(found).unwrap_or(0);
    if gpu >= found {
        return failed(format!("a rank asks for GPU {gpu}, and this machine has {found}, counted from 0"));
    }
    let context = CudaContext::new(gpu).map_err(cuda("opening a GPU"))?;
    let stream = context.new_stream().map_err(cuda("making a stream"))?;
    Ok((context, stream))
}

/// The bytes by which NCCL's ranks find each other, made by the first of them.
fn shared_id(control: &dyn GradientSync) -> Result<Id, SyncError> {
    let made = if control.rank() == 0 { Id::new().map(Some) } else { Ok(None) };
    let made = control.agree(made.map_err(nccl("ncclGetUniqueId")))?;
    let mut bytes = made.map_or([0.0; 128], |id| id.internal().map(|byte| f32::from(byte as u8)));
    control.broadcast(0, &mut bytes)?;
    Ok(Id::uninit(bytes.map(|byte| byte as u8 as std::ffi::c_char)))
}

fn nccl(what: &'static str) -> impl Fn(NcclError) -> SyncError {
    move |error| SyncError::Transport { reason: format!("{what}: {:?}", error.0) }
}

fn cuda(what: &'static str) -> impl Fn(DriverError) -> SyncError {
    move |error| SyncError::Transport { reason: format!("{what}: {error}") }
}

impl Gpu {
    fn new(context: Arc<CudaContext>, stream: Arc<CudaStream>, comm: Comm) -> Result<Self, SyncError> {
        let memory = || stream.alloc_zeros::<f32>(SMALL).map_err(cuda("asking for memory"));
        let (sent, received) = (memory()?, memory()?);
        Ok(Self { context, stream, comm, sent, received })
    }

    /// Sends rank `r` the numbers `send[r]`, which lie in `numbers`, and gets `receive[r]` of them from it, one after another.
    fn exchange(
        &mut self,
        numbers: &[f32],
        send: &[std::ops::Range<usize>],
        receive: &[usize],
    ) -> Result<Vec<f32>, SyncError> {
        self.context.bind_to_thread().map_err(cuda("using a GPU"))?;
        let total: usize = receive.iter().sum();
        for (memory, len) in [(&mut self.sent, numbers.len()), (&mut self.received, total)] {
            if memory.len() < len {
                *memory = self.stream.alloc_zeros(len).map_err(cuda("asking for memory"))?;
            }
        }
        let mut here = self.sent.slice_mut(..numbers.len());
        self.stream.memcpy_htod(numbers, &mut here).map_err(cuda("copying to a GPU"))?;
        group_start().map_err(nccl("ncclGroupStart"))?;
        let mut begin = 0;
        for (peer, (range, len)) in send.iter().zip(receive).enumerate() {
            if !range.is_empty() {
                let slice = self.sent.slice(range.clone());
                self.comm.send(&slice, peer as i32).map_err(nccl("ncclSend"))?;
            }
            if *len > 0 {
                let mut slice = self.received.slice_mut(begin..begin + len);
                self.comm.recv(&mut slice, peer as i32).map_err(nccl("ncclRecv"))?;
            }
            begin += len;
        }
        group_end().map_err(nccl("ncclGroupEnd"))?;
        let mut all = vec![0.0; total];
        self.stream
            .memcpy_dtoh(&self.received.slice(..total), &mut all)
            .map_err(cuda("copying from a GPU"))?;
        self.stream.synchronize().map_err(cuda("waiting for a GPU"))?;
        Ok(all)
    }
}

impl GradientSync for NcclRank {
    fn rank(&self) -> usize {
        self.control.rank()
    }

    fn world(&self) -> usize {
        self.control.world()
    }

    fn reduce_scatter(
        &self,
        numbers: &[f32],
        lens: &[usize],
        sum: &mut [f32],
        mut onto: SumOnto,
    ) -> Result<(), SyncError> {
        SyncError::check_len(numbers.len(), lens.iter().sum())?;
        SyncError::check_len(sum.len(), lens[self.rank()])?;
        if numbers.len() < SMALL {
            return self.control.reduce_scatter(numbers, lens, sum, onto);
        }
        let mut end = 0;
        let send: Vec<_> = lens
            .iter()
            .map(|len| {
                end += len;
                end - len..end
            })
            .collect();
        let received = self.gpu().exchange(numbers, &send, &vec![sum.len(); self.world()])?;
        if !sum.is_empty() {
            received.chunks_exact(sum.len()).for_each(|slice| onto.put(slice, sum));
        }
        Ok(())
    }

    fn all_gather(&self, own: &[f32], lens: &[usize], all: &mut [f32]) -> Result<(), SyncError> {
        SyncError::check_len(own.len(), lens[self.rank()])?;
        SyncError::check_len(all.len(), lens.iter().sum())?;
        if all.len() < SMALL {
            return self.control.all_gather(own, lens, all);
        }
        let everything = vec![0..own.len(); self.world()];
        all.copy_from_slice(&self.gpu().exchange(own, &everything, lens)?);
        Ok(())
    }

    /// Once, at the beginning, and for checkpoints: over the other carrier.
    fn broadcast(&self, from: usize, numbers: &mut [f32]) -> Result<(), SyncError> {
        self.control.broadcast(from, numbers)
    }

    fn barrier(&self) -> Result<(), SyncError> {
        self.control.barrier()
    }

    fn give_up(&self, reason: &str) {
        self.control.give_up(reason);
    }
}
