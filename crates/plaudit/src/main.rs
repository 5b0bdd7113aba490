//! The command line of plaudit.

use std::ffi::OsString;
use std::process::ExitCode;

use plaudit::program;
use plaudit_nn::alloc::CachingAllocator;

/// Caches what a training step frees for the next step.
#[global_allocator]
static MEMORY: CachingAllocator = CachingAllocator::new();

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(program::run(&words, &MEMORY).code)
}
