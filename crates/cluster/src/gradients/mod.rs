//! Ranks that train one model together: what carries their gradients.
//!
//! A training knows [`GradientSync`](plaudit_core::GradientSync) alone. Behind it is
//!
//! - nobody else: [`OneRank`](plaudit_core::OneRank), which costs nothing;
//! - [`threads`]: ranks of one process;
//! - `mpi` (feature `mpi`): processes that `mpirun` or `srun` started, on one machine or several;
//! - `nccl` (feature `nccl`): ranks that have a GPU each, with one of the above for who is who.
//!
//! Sums are taken in the order of ranks by each of them (see the trait), so what is learned does not depend on the carrier.

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod threads;
