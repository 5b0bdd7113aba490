//! All tests of the program in one binary: linking it takes longer than most of them.
//!
//! `cargo test -p plaudit --test main pages::` runs those of one file.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

mod audit_to_train;
mod browser;
mod check;
mod cloning;
#[cfg(unix)]
mod cluster;
mod cluster_workers;
mod collecting;
mod command_line;
mod demo;
mod documents;
mod filming;
mod formats;
mod hacking;
mod https;
mod images;
mod init;
mod judge_objectives;
mod judge_readouts;
mod lerobot;
mod loggers;
mod messages;
mod online;
mod outputs;
mod own_models;
mod pages;
mod ranks;
mod recipes;
mod reward;
mod reward_export;
mod reward_label;
mod reward_messages;
mod reward_sft;
mod reward_training;
mod rlinf;
mod robot;
mod robot_bench;
mod robot_training;
mod runs;
mod seeds;
mod serve;
mod served_judge;
mod signals;
mod structure;
mod studio;
#[cfg(target_os = "linux")]
mod studio_robot;
mod studio_work;
mod sweep;
mod training;
mod training_off_policy;
