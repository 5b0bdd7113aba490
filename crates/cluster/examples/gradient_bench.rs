//! What it costs to sum the gradients of ranks in a fixed order, and whether the sums are right:
//!
//! ```text
//! cargo run --release -p plaudit-cluster --example gradient_bench -- threads 2
//! cargo build --release -p plaudit-cluster --features mpi --example gradient_bench
//! mpirun -n 2 target/release/examples/gradient_bench mpi
//! cargo run --release -p plaudit-cluster --features nccl --example gradient_bench -- nccl 1   # so many GPUs
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for the terminal

use std::sync::Arc;
use std::time::Instant;

use plaudit_cluster::gradients::threads;
use plaudit_core::{GradientSync, SumOnto, SyncError, even_slices};

const MILLIONS: [usize; 4] = [1, 5, 11, 25];
const TIMES: usize = 9;

fn main() -> Result<(), SyncError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let world = words.get(1).and_then(|count| count.parse().ok()).unwrap_or(2);
    match words.first().map(String::as_str) {
        Some("threads") => on_threads(world, Ok),
        #[cfg(feature = "mpi")]
        Some("mpi") => {
            let rank = plaudit_cluster::gradients::mpi::MpiRank::join()?;
            measure("MPI", &rank)?;
            beside_mpi(&rank)
        }
        #[cfg(feature = "nccl")]
        Some("nccl") => on_threads(world, |rank| {
            let gpu = rank.rank();
            Ok(Arc::new(plaudit_cluster::gradients::nccl::NcclRank::join(rank, gpu)?))
        }),
        _ => {
            eprintln!("threads N, mpi (feature mpi) or nccl N (feature nccl)");
            Ok(())
        }
    }
}

fn on_threads(
    world: usize,
    over: impl Fn(Arc<dyn GradientSync>) -> Result<Arc<dyn GradientSync>, SyncError> + Sync,
) -> Result<(), SyncError> {
    std::thread::scope(|scope| {
        let over = &over;
        let start = |rank| scope.spawn(move || measure("ranks of one process", &*over(Arc::new(rank))?));
        let ranks: Vec<_> = threads::ranks(world).into_iter().map(start).collect();
        ranks.into_iter().try_for_each(|rank| match rank.join() {
            Ok(done) => done,
            Err(_) => Err(SyncError::Transport { reason: "a rank panicked".into() }),
        })
    })
}

/// The number of a rank at a place; sums of these have no exact value in single precision.
fn number(rank: usize, place: usize) -> f32 {
    1.0 / (1.0 + (place % 1013) as f32 + 7.0 * rank as f32)
}

fn measure(name: &str, ranks: &dyn GradientSync) -> Result<(), SyncError> {
    for millions in MILLIONS {
        let len = millions * 1_000_000;
        let numbers: Vec<f32> = (0..len).map(|place| number(ranks.rank(), place)).collect();
        let lens = even_slices(len, ranks.world());
        let (mut own, mut all) = (vec![0.0; lens[ranks.rank()]], vec![0.0; len]);
        let mut times = Vec::new();
        for _ in 0..TIMES {
            ranks.barrier()?;
            let began = Instant::now();
            ranks.reduce_scatter(&numbers, &lens, &mut own, SumOnto::Nothing)?;
            ranks.all_gather(&own, &lens, &mut all)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let right = |(place, sum): (usize, &f32)| {
            let expected = (1..ranks.world()).fold(number(0, place), |sum, rank| sum + number(rank, place));
            sum.to_bits() == expected.to_bits()
        };
        let right = all.iter().enumerate().all(right);
        if ranks.rank() == 0 {
            let verdict = if right { "bit-exact" } else { "WRONG" };
            println!(
                "{name}, {} ranks, {millions} M numbers: {} ms, {verdict}",
                ranks.world(),
                median(times)
            );
        }
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:.1}", times[times.len() / 2])
}

/// The same sums by MPI's own all-reduce, in the order it chooses.
#[cfg(feature = "mpi")]
fn beside_mpi(ranks: &plaudit_cluster::gradients::mpi::MpiRank) -> Result<(), SyncError> {
    for millions in MILLIONS {
        let numbers: Vec<f32> = (0..millions * 1_000_000).map(|place| number(ranks.rank(), place)).collect();
        let mut all = vec![0.0; numbers.len()];
        let mut times = Vec::new();
        for _ in 0..TIMES {
            ranks.barrier()?;
            let began = Instant::now();
            ranks.all_reduce_in_any_order(&numbers, &mut all)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        if ranks.rank() == 0 {
            println!("MPI_Allreduce, {} ranks, {millions} M numbers: {} ms", ranks.world(), median(times));
        }
    }
    Ok(())
}
