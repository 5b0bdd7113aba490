//! Tables in parquet files, without a detour over Arrow: the few kinds of columns that LeRobot has.

mod column;
mod pages;
mod read;
mod splice;
mod write;

pub(super) use column::{Column, Values};
pub(super) use read::Table;
pub(super) use splice::Splice;
pub(super) use write::{Text, write};
