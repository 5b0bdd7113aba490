//! Micro batches, made before their turn on threads of their own.
//!
//! What is in a batch is decided by the frames, the settings and its number, never by which thread made it or when: a training gives the
//! same bits with any number of threads, and after it was resumed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use plaudit_core::Seed;

use super::train_loop::MicroBatch;
use super::training::Training;
use crate::augment::Augment;
use crate::dataset::{Batch, Frames, TimeWarp};

/// How a micro batch is made.
pub(super) struct BatchMaker {
    pub(super) frames: Frames,
    pub(super) augment: Augment,
    /// Of a network of progress.
    pub(super) time_warp: Option<TimeWarp>,
    pub(super) seed: Seed,
}

impl BatchMaker {
    pub(super) fn make(&self, at: MicroBatch, examples: &[usize]) -> Batch {
        let epoch = Training::epoch_seed(self.seed, at.epoch);
        match &self.time_warp {
            Some(warp) => Batch::warped(&self.frames, examples, &self.augment, warp, epoch),
            None if self.augment.is_off() => Batch::of(&self.frames, examples),
            None => Batch::augmented(&self.frames, examples, &self.augment, epoch),
        }
    }
}

/// Makes micro batches before their turn.
pub(super) struct BatchLoader {
    maker: Arc<BatchMaker>,
    /// Pools of one thread each: a thread of a larger one, waiting for others to do their part of its batch, would begin the next batch
    /// meanwhile, and in it yet another, until its stack is full. None: batches are made when it is their turn.
    threads: Vec<rayon::ThreadPool>,
    begun: usize,
    made: VecDeque<(MicroBatch, Receiver<Batch>)>,
    waited: Duration,
}

/// Batches that are made, or wait to be taken, for each thread.
const AHEAD: usize = 2;

impl BatchLoader {
    /// With so many threads; none where there are none to be had.
    pub(super) fn new(maker: BatchMaker, threads: usize) -> Self {
        let one = |number: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
            let pool = pool.thread_name(move |_| format!("batches-{number}"));
            // A batch that could not be made is made again when it is its turn, and says why not.
            pool.panic_handler(|_| ()).build().ok()
        };
        let threads = (0..threads).map_while(one).collect();
        Self { maker: Arc::new(maker), threads, begun: 0, made: VecDeque::new(), waited: Duration::ZERO }
    }

    /// How many batches it wants to know of before their turn.
    pub(super) fn lookahead(&self) -> usize {
        AHEAD * self.threads.len()
    }

    /// Begins to make a batch, which comes after those that were begun before.
    pub(super) fn begin(&mut self, at: MicroBatch, examples: &[usize]) {
        if self.threads.is_empty() {
            return;
        }
        let thread = &self.threads[self.begun % self.threads.len()];
        self.begun += 1;
        let (give, made) = sync_channel(1);
        let (maker, examples) = (self.maker.clone(), examples.to_vec());
        // Nobody waits for it if the training has ended.
        thread.spawn_fifo(move || drop(give.send(maker.make(at, &examples))));
        self.made.push_back((at, made));
    }

    /// A batch, made before or now.
    pub(super) fn take(&mut self, at: MicroBatch, examples: &[usize]) -> Batch {
        let began = Instant::now();
        while let Some((number, made)) = self.made.pop_front() {
            if number == at
                && let Ok(batch) = made.recv()
            {
                self.waited += began.elapsed();
                return batch;
            }
        }
        let batch = self.maker.make(at, examples);
        self.waited += began.elapsed();
        batch
    }

    /// How long batches were waited for since this was last asked.
    pub(super) fn waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

#[cfg(test)]
mod tests {
    use plaudit_data::labelled::{LabelledData, ReadOptions};
    use plaudit_pyfiles::{self as pyfiles, Array, PyValue, Storages};

    use super::*;
    use crate::train::batches::Batches;

    const SIDE: usize = 8;
    const FRAMES: usize = 21;

    fn maker() -> BatchMaker {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.pt");
        let image = |number: usize| {
            let pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|at| (at * 7 + number * 31) as u8).collect();
            PyValue::Tensor(Arc::new(Array::from_slice(&[SIDE, SIDE, 3], &pixels).unwrap()))
        };
        let data = PyValue::dict([
            ("images", PyValue::list((0..FRAMES).map(image))),
            ("labels", PyValue::list((0..FRAMES).map(|number| PyValue::Int((number % 2) as i64)))),
        ]);
        pyfiles::write_pt(&path, &data, Storages::Shared).unwrap();
        let data = LabelledData::read(&path, &ReadOptions::default(), &|_| {}).unwrap();
        let picks = data.all();
        let frames = Frames::new(&["main_images".parse().unwrap()], vec![(Arc::new(data), picks)]).unwrap();
        let augment = Augment { shift: 0.2, crop: 0.2, brightness: 0.3, cutout: 0.3, ..Augment::default() };
        BatchMaker { frames, augment, time_warp: None, seed: Seed::new(3) }
    }

    /// Batches as a training asks for them, from a number on, over several epochs.
    fn batches(threads: usize, from: u64) -> Vec<(Vec<u8>, Vec<f32>)> {
        let mut loader = BatchLoader::new(maker(), threads);
        let mut order = Batches::new(FRAMES, 4, true, Seed::new(5));
        let mut batch = |number| (MicroBatch { number, epoch: order.epoch(number) }, order.frames(number));
        let mut begun = from;
        let mut taken = Vec::new();
        for number in from..20 {
            while begun < 20 && begun <= number + loader.lookahead() as u64 {
                let (at, examples) = batch(begun);
                loader.begin(at, &examples);
                begun += 1;
            }
            let (at, examples) = batch(number);
            let made = loader.take(at, &examples);
            let pixels = (0..4).flat_map(|at| made.image(at, 0).1.to_vec()).collect();
            taken.push((pixels, made.labels.clone()));
        }
        taken
    }

    #[test]
    fn batches_are_the_same_with_any_number_of_threads_and_after_a_resume() {
        let expected = batches(0, 0);
        for threads in [1, 2, 5] {
            assert!(batches(threads, 0) == expected, "{threads} threads");
            assert!(batches(threads, 7) == expected[7..], "{threads} threads, resumed");
        }
    }

    #[test]
    fn a_batch_that_was_not_announced_is_made_in_its_turn() {
        let (mut loader, at) = (BatchLoader::new(maker(), 2), MicroBatch { number: 3, epoch: 0 });
        loader.begin(MicroBatch { number: 1, epoch: 0 }, &[1, 2]);
        let made = loader.take(at, &[5, 6]);
        assert_eq!(made.image(0, 0).1, maker().make(at, &[5, 6]).image(0, 0).1);
        assert!(loader.waited() > Duration::ZERO);
    }
}
