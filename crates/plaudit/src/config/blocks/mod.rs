//! The blocks of the configuration, one file each, under the names RLinf gives them.

pub mod actor;
pub mod algorithm;
pub mod cluster;
pub mod collection;
pub mod data;
pub mod env;
pub mod lerobot;
pub mod online;
pub mod reward;
pub mod robot;
pub mod runner;
