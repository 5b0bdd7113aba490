//! Placements of the guides and of RLinf's own documentation, and the files that follow from them.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod generated;
mod messages;
mod placing;
mod scoring;
mod training;
