//! RLDS: datasets of episodes as TensorFlow Datasets writes them, without TensorFlow.
//!
//! A folder has `dataset_info.json` (splits, and how many episodes each file has), `features.json` (what an episode has) and
//! `NAME-SPLIT.tfrecord-00000-of-00001` files, whose records are episodes: a `tf.train.Example` with a list for each feature.

mod error;
mod example;
mod features;
mod folder;
mod records;

pub use error::RldsError;
pub(crate) use example::{Example, Values};
pub(crate) use features::{Feature, Features, NumberType};
pub(crate) use folder::{Shard, features, find, shards};
pub(crate) use records::Records;
