//! plaudit turns robot episodes into a learned reward, and a learned reward into a trained policy.
//!
//! This crate is the binary and the facade over the others: it reads what users bring ([`config`]), turns
//! choices into objects ([`build`]), and runs [`commands`]. It alone reads files, variables and flags, and it
//! alone talks to the user.

pub mod build;
pub mod checkpoint;
pub mod cli;
pub mod commands;
pub mod config;
pub mod evaluation;
pub mod failure;
pub mod keeper;
pub mod lint;
pub mod load;
pub mod memory;
pub mod progress;
pub mod run;
pub mod say;
pub mod watcher;
