//! Image classifiers and models of progress as ONNX: one file that scores images in any runtime.
//!
//! Preprocessing is inside: each camera is an input of bytes `[batch, height, width, 3]`, RGB, of any size.
//! The outputs are the logit and the score (with the audit's temperature). What a program should know besides
//! is in the file's metadata, under the names of the checkpoint's header: threshold, guarantee, settings,
//! preprocessing.

mod graph;
mod network;
mod protobuf;

use std::collections::BTreeMap;

use plaudit_nn::Weights;

pub use self::graph::{IR_VERSION, OPSET};
use crate::card::ModelCard;

/// Why a model cannot be written as ONNX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// The checkpoint lacks a tensor of its network.
    #[error("the checkpoint has no tensor `{name}` of {expected} numbers")]
    Missing {
        /// The tensor.
        name: String,
        /// How many numbers it should have.
        expected: usize,
    },
    /// One file can hold only so much.
    #[error("{bytes} bytes of weights do not fit an ONNX file, which holds 2 GiB at most")]
    TooLarge {
        /// Bytes of weights.
        bytes: u64,
    },
}

/// The file. The card's settings must be those of the weights, with nothing left open.
///
/// # Errors
/// When the weights are not of that network, or too large for one file.
pub fn to_onnx(card: &ModelCard, weights: &Weights) -> Result<Vec<u8>, OnnxError> {
    let graph = network::graph(card, weights)?;
    Ok(graph.into_model(&metadata(card)))
}

fn metadata(card: &ModelCard) -> BTreeMap<String, String> {
    let keys = &card.settings.image_keys;
    let mut metadata = card.header();
    let own = [
        ("plaudit.input.layout", "NHWC".to_string()),
        ("plaudit.input.type", "uint8".to_string()),
        ("plaudit.input.channels", "RGB".to_string()),
        ("plaudit.input.cameras", keys.join(",")),
        ("plaudit.output.score", "a probability from 0 to 1".to_string()),
        ("plaudit.output.logit", "of the score, before the temperature".to_string()),
    ];
    metadata.extend(own.map(|(key, value)| (key.to_string(), value)));
    metadata
}
