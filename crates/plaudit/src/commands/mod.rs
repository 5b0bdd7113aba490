//! What the commands do, one file each.

pub mod check;
#[cfg(unix)]
pub mod cluster;
pub mod collect;
pub mod completions;
pub mod config;
pub mod dataset;
pub mod demo;
pub mod device;
pub mod eval;
pub mod export;
pub mod init;
pub mod inspect;
mod keys;
pub mod left_out;
pub mod render;
pub mod report;
pub mod reward;
pub mod robot;
pub mod rule_args;
pub mod serve;
pub mod studio;
pub mod sweep;
pub mod train;
pub mod verify;
