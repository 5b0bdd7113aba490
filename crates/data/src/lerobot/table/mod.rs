//! Tables in parquet files, without a detour over Arrow: the few kinds of columns that LeRobot has.

mod kind;
mod pages;
mod read;
mod splice;
mod write;

pub(super) use kind::{Column, Values};
pub(super) use read::Table;
pub(super) use splice::Splice;
pub(super) use write::{Text, write};
