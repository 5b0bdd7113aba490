//! A GPU with the kernels of dense networks: memory, graphs, images, optimisers.

#![allow(unsafe_code)] // A GPU deals in addresses; each block says why.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use plaudit_core::FrameShape;

use super::runner::{CudaRunner, KernelRunner, Launch, THREADS, WORDS};
use crate::dense::AdamSettings;
use crate::gpu::GpuError;
use crate::kernels::adam::AdamStep;

/// Blocks that sum up squares, each in double precision.
const SQUARE_BLOCKS: usize = 256;

/// A part of a GPU's memory, as numbers. Belongs to the [`GpuKernels`] that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floats {
    owner: u64,
    address: u64,
    len: usize,
}

/// The same, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(Floats);

/// The same, as whole numbers of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ints(Floats);

impl Floats {
    /// How many numbers.
    #[allow(clippy::len_without_is_empty)] // asked for by whoever took it
    pub fn len(self) -> usize {
        self.len
    }

    /// Some of them.
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        let address = self.address + (range.start * size_of::<f32>()) as u64;
        Self { address, len: range.len(), ..self }
    }
}

/// Rows of several groups: row `r` of group `(o, i)` begins at `o * outer + i * inner + r * stride`.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Where all of them lie.
    pub floats: Floats,
    /// From a row to the next.
    pub stride: usize,
    /// From a group to the next of the outer count.
    pub outer: usize,
    /// From a group to the next of the inner count.
    pub inner: usize,
}

impl Rows {
    /// Rows without gaps, one group after the other.
    pub(super) fn dense(floats: Floats, width: usize, rows: usize, inner: usize) -> Self {
        Self { floats, stride: width, outer: inner * rows * width, inner: rows * width }
    }

    /// The same from a column on.
    #[must_use]
    pub fn column(self, column: usize) -> Self {
        Self { floats: self.floats.part(column..self.floats.len), ..self }
    }

    /// The same from a row on.
    #[must_use]
    pub fn row(self, row: usize) -> Self {
        self.column(row * self.stride)
    }
}

/// Parameters or gradients of several groups, each a slice as on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    /// Where all of them lie.
    pub floats: Floats,
    /// From a group's to those of the next of the inner count; those of the outer count share them.
    pub inner: usize,
}

/// So many groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) outer: usize,
    pub(super) inner: usize,
}

impl Groups {
    pub(super) fn count(self) -> usize {
        self.outer * self.inner
    }

    /// Asserts that the rows of all groups are there.
    fn fit(self, rows: Rows, count: usize, width: usize) {
        let last = (self.outer.max(1) - 1) * rows.outer
            + (self.inner.max(1) - 1) * rows.inner
            + count.saturating_sub(1) * rows.stride
            + width;
        assert!(last <= rows.floats.len, "{last} numbers in memory of {}", rows.floats.len);
    }
}

/// A number of kernels that were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphId {
    owner: u64,
    number: usize,
    /// Graphs of before [`GpuKernels::forget_graphs`] are gone.
    generation: u64,
}

/// A GPU with the kernels of dense networks.
pub struct GpuKernels {
    runner: Box<dyn KernelRunner>,
    id: u64,
    generation: u64,
    /// Kernels are kept here instead of run, while there is such a list.
    recording: Option<Vec<Launch>>,
    /// Sums of blocks, in double precision.
    squares: Floats,
}

impl fmt::Debug for GpuKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuKernels({})", self.runner.name())
    }
}

impl GpuKernels {
    /// The GPU of a number.
    pub fn open(index: usize) -> Result<Self, GpuError> {
        Self::with_runner(Box::new(CudaRunner::open(index)?))
    }

    /// Kernels that something else runs than a GPU.
    pub fn with_runner(mut runner: Box<dyn KernelRunner>) -> Result<Self, GpuError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = runner.alloc(SQUARE_BLOCKS * size_of::<f64>())?;
        let squares = Floats { owner: id, address, len: 2 * SQUARE_BLOCKS };
        Ok(Self { runner, id, generation: 0, recording: None, squares })
    }

    /// What the GPU is called.
    pub fn name(&self) -> String {
        self.runner.name()
    }

    /// Memory for so many numbers, zeros at first, that stays until this is dropped.
    pub fn floats(&mut self, len: usize) -> Result<Floats, GpuError> {
        let address = self.runner.alloc(len.max(1) * size_of::<f32>())?;
        Ok(Floats { owner: self.id, address, len })
    }

    /// Memory for so many bytes.
    pub fn bytes(&mut self, len: usize) -> Result<Bytes, GpuError> {
        let address = self.runner.alloc(len.max(1))?;
        Ok(Bytes(Floats { owner: self.id, address, len }))
    }

    /// Memory for so many whole numbers.
    pub fn ints(&mut self, len: usize) -> Result<Ints, GpuError> {
        self.floats(len).map(Ints)
    }

    /// Puts numbers there.
    pub fn write(&mut self, to: Floats, numbers: &[f32]) -> Result<(), GpuError> {
        self.write_all(&[(to, numbers)])
    }

    /// Puts several numbers there.
    pub fn write_all(&mut self, parts: &[(Floats, &[f32])]) -> Result<(), GpuError> {
        let place = |&(to, numbers): &(Floats, &[f32])| {
            assert!(numbers.len() <= to.len, "{} numbers for room of {}", numbers.len(), to.len);
            self.address(to)
        };
        let places: Vec<u64> = parts.iter().map(place).collect();
        let bytes = parts.iter().map(|(_, numbers)| bytemuck::cast_slice(numbers));
        let parts: Vec<(u64, &[u8])> = places.into_iter().zip(bytes).collect();
        // SAFETY: there is room, as was just asserted.
        unsafe { self.runner.write(&parts) }
    }

    /// Puts bytes there, one part after the other.
    pub fn write_bytes(&mut self, to: Bytes, parts: &[&[u8]]) -> Result<(), GpuError> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        assert!(total <= to.0.len, "{total} bytes for room of {}", to.0.len);
        let mut next = self.address(to.0);
        let mut placed: Vec<(u64, &[u8])> = Vec::with_capacity(parts.len());
        for &part in parts {
            placed.push((next, part));
            next += part.len() as u64;
        }
        // SAFETY: there is room, as was just asserted.
        unsafe { self.runner.write(&placed) }
    }

    /// Puts whole numbers there.
    pub fn write_ints(&mut self, to: Ints, numbers: &[i32]) -> Result<(), GpuError> {
        assert!(numbers.len() <= to.0.len, "{} numbers for room of {}", numbers.len(), to.0.len);
        let at = self.address(to.0);
        // SAFETY: there is room, as was just asserted.
        unsafe { self.runner.write(&[(at, bytemuck::cast_slice(numbers))]) }
    }

    /// Reads numbers, once all before is done. As many as `into` has room for.
    pub fn read(&mut self, from: Floats, into: &mut [f32]) -> Result<(), GpuError> {
        self.read_all(&mut [(from, into)])
    }

    /// The same for several, which are waited for once.
    pub fn read_all(&mut self, parts: &mut [(Floats, &mut [f32])]) -> Result<(), GpuError> {
        let mut placed: Vec<(u64, &mut [u8])> = Vec::with_capacity(parts.len());
        for (from, into) in parts {
            assert!(into.len() <= from.len, "{} numbers of {}", into.len(), from.len);
            placed.push((self.address(*from), bytemuck::cast_slice_mut(into)));
        }
        // SAFETY: as much is there, as was just asserted.
        unsafe { self.runner.read(&mut placed) }
    }

    /// Records what `work` asks for instead of doing it: kernels alone.
    pub fn record(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), GpuError>,
    ) -> Result<GraphId, GpuError> {
        assert!(self.recording.is_none(), "one graph at a time");
        self.recording = Some(Vec::new());
        let done = work(self);
        let launches = self.recording.take().unwrap_or_default();
        done?;
        let number = self.runner.record(&launches)?;
        Ok(GraphId { owner: self.id, number, generation: self.generation })
    }

    /// Runs what was recorded.
    pub fn run(&mut self, graph: GraphId) -> Result<(), GpuError> {
        let is_here = graph.owner == self.id && graph.generation == self.generation;
        assert!(is_here, "a graph of another GPU, or one that was forgotten");
        // SAFETY: what was recorded passed the checks of `launch`, and its memory stays until this is dropped.
        unsafe { self.runner.run(graph.number) }
    }

    /// Forgets all graphs.
    pub fn forget_graphs(&mut self) {
        self.generation += 1;
        self.runner.forget();
    }

    /// Images of bytes as numbers from -0.5 to 0.5, each shifted by so many rows and columns if asked.
    pub fn center_images(
        &mut self,
        images: Bytes,
        shifts: Option<Ints>,
        count: usize,
        shape: FrameShape,
        to: Floats,
    ) -> Result<(), GpuError> {
        let numbers = count * shape.bytes();
        assert!(numbers <= images.0.len && numbers <= to.len, "{count} images in too little memory");
        assert!(shifts.is_none_or(|shifts| 2 * count <= shifts.0.len), "an image without its shift");
        let shifts = shifts.map_or(0, |shifts| self.address(shifts.0));
        let sizes = [count, shape.height, shape.width, shape.channels].map(|size| size as u64);
        let words = [&[self.address(images.0), self.address(to), shifts][..], &sizes].concat();
        self.launch("center_images", [numbers.div_ceil(THREADS), 1, 1], &words)
    }

    /// Adds up `parts` matrices that are `step` apart, in their order, for some columns: over what is in `to`, or to it.
    pub(super) fn sum_parts(&mut self, sum: &SumParts) -> Result<(), GpuError> {
        let SumParts { groups, from, step, parts, to, rows, ref columns, add } = *sum;
        groups.fit(
            Rows { floats: from.floats.part(parts.saturating_sub(1) * step..from.floats.len), ..from },
            rows,
            columns.end,
        );
        groups.fit(to, rows, columns.end);
        let mut words = self.place(from).to_vec();
        words.extend([step as u64, parts as u64]);
        words.extend(self.place(to));
        let sizes = [groups.inner, rows, from.stride, to.stride, columns.start, columns.len()];
        words.extend(sizes.map(|size| size as u64));
        words.push(u64::from(add));
        let numbers = rows * columns.len();
        self.launch("sum_parts", [numbers.div_ceil(THREADS), 1, groups.count()], &words)
    }

    /// Adds up the same rows of `parts` groups, which are `from.inner` apart, for some columns.
    pub fn sum_groups(
        &mut self,
        from: Rows,
        parts: usize,
        to: Rows,
        rows: usize,
        columns: Range<usize>,
    ) -> Result<(), GpuError> {
        let groups = Groups { outer: 1, inner: 1 };
        let step = from.inner;
        self.sum_parts(&SumParts { groups, from, step, parts, to, rows, columns, add: false })
    }

    /// Copies some columns of rows.
    pub fn copy_rows(&mut self, from: Rows, to: Rows, rows: usize, width: usize) -> Result<(), GpuError> {
        self.sum_groups(from, 1, to, rows, 0..width)
    }

    /// The norm of gradients, as one number.
    pub fn gradient_norm(&mut self, grads: Floats, norm: Floats) -> Result<(), GpuError> {
        assert!(norm.len > 0, "nowhere to put the norm");
        let words = [
            self.address(grads),
            grads.len as u64,
            self.address(self.squares),
            self.address(norm),
            SQUARE_BLOCKS as u64,
        ];
        self.launch("sum_squares", [SQUARE_BLOCKS, 1, 1], &words)?;
        self.launch("gradient_norm", [1, 1, 1], &words)
    }

    /// One step of Adam with clipped gradients. `step` holds what [`adam_numbers`] gives, and `norm` the norm of all gradients that
    /// are clipped together; where that is not finite, nothing changes.
    pub fn adam_step(&mut self, adam: AdamMemory, step: Floats, norm: Floats) -> Result<(), GpuError> {
        let AdamMemory { params, grads, means, squares } = adam;
        let len = params.len;
        assert!([grads.len, means.len, squares.len] == [len; 3], "an optimiser of another network");
        assert!(step.len >= ADAM_NUMBERS && norm.len > 0, "a step without its numbers");
        let words = [params, means, squares, grads].map(|floats| self.address(floats));
        let words = [&words[..], &[len as u64, self.address(step), self.address(norm)]].concat();
        self.launch("adam_step", [len.div_ceil(THREADS), 1, 1], &words)
    }

    /// `target` follows `source`, as [`crate::dense::polyak`] does; `tau` is one number.
    pub fn follow(&mut self, target: Floats, source: Floats, tau: Floats) -> Result<(), GpuError> {
        assert!(target.len == source.len && tau.len > 0, "target and source are of different networks");
        let words = [self.address(target), self.address(source), target.len as u64, self.address(tau)];
        self.launch("follow", [target.len.div_ceil(THREADS), 1, 1], &words)
    }

    pub(super) fn address(&self, floats: Floats) -> u64 {
        assert_eq!(floats.owner, self.id, "memory of another GPU");
        floats.address
    }

    /// A `Place` of the kernels.
    pub(super) fn place(&self, rows: Rows) -> [u64; 3] {
        [self.address(rows.floats), rows.outer as u64, rows.inner as u64]
    }

    /// The same, once all rows are known to be there.
    pub(super) fn fitted(&self, groups: Groups, rows: Rows, count: usize, width: usize) -> [u64; 3] {
        groups.fit(rows, count, width);
        self.place(rows)
    }

    /// The same, of parameters from one of them on, once so many are known to be there.
    pub(super) fn params(&self, groups: Groups, params: Params, range: Range<usize>) -> [u64; 3] {
        let last = (groups.inner.max(1) - 1) * params.inner + range.end;
        assert!(last <= params.floats.len, "{last} parameters in memory of {}", params.floats.len);
        let start = self.address(params.floats) + (range.start * size_of::<f32>()) as u64;
        [start, 0, params.inner as u64]
    }

    pub(super) fn launch(
        &mut self,
        kernel: &'static str,
        blocks: [usize; 3],
        words: &[u64],
    ) -> Result<(), GpuError> {
        if blocks.contains(&0) {
            return Ok(());
        }
        let mut all = [0; WORDS];
        all[..words.len()].copy_from_slice(words);
        let launch = Launch { kernel, blocks, words: all };
        match &mut self.recording {
            Some(launches) => {
                launches.push(launch);
                Ok(())
            }
            // SAFETY: every caller, all in this folder, gives a kernel's own words, and has asserted that what they speak of is
            // memory of `alloc`.
            None => unsafe { self.runner.launch(&launch) },
        }
    }
}

/// Matrices to add up.
pub(super) struct SumParts {
    pub(super) groups: Groups,
    pub(super) from: Rows,
    pub(super) step: usize,
    pub(super) parts: usize,
    pub(super) to: Rows,
    pub(super) rows: usize,
    pub(super) columns: Range<usize>,
    pub(super) add: bool,
}

/// What a step of Adam works on.
#[derive(Debug, Clone, Copy)]
pub struct AdamMemory {
    /// Moved.
    pub params: Floats,
    /// Read.
    pub grads: Floats,
    /// First moments.
    pub means: Floats,
    /// Second moments.
    pub squares: Floats,
}

impl AdamMemory {
    /// The same for some of the parameters.
    #[must_use]
    pub fn part(self, range: Range<usize>) -> Self {
        let part = |floats: Floats| floats.part(range.clone());
        Self {
            params: part(self.params),
            grads: part(self.grads),
            means: part(self.means),
            squares: part(self.squares),
        }
    }
}

/// How many numbers [`adam_numbers`] gives.
pub const ADAM_NUMBERS: usize = 8;

/// The numbers of one step of Adam, counted from 1, with gradients clipped to a norm.
pub fn adam_numbers(settings: AdamSettings, step: u64, lr: f32, max_norm: f32) -> [f32; ADAM_NUMBERS] {
    let AdamSettings { betas: [beta1, beta2], eps, weight_decay } = settings;
    let step = AdamStep {
        learning_rate: f64::from(lr),
        beta1: f64::from(beta1),
        beta2: f64::from(beta2),
        eps: f64::from(eps),
        weight_decay: f64::from(weight_decay),
        step,
        grad_scale: 1.0,
    };
    let mut numbers = [max_norm; ADAM_NUMBERS];
    numbers[..ADAM_NUMBERS - 1].copy_from_slice(&step.factors());
    numbers
}
