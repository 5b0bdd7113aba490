//! Where a network runs.

use serde::{Deserialize, Serialize};

use crate::images::{ImageBatch, ImageError, Preprocess};
use crate::tensor::Tensor;

/// Where a network runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by number.
    Cuda(usize),
}

/// The images of each camera, `[n, h, w, c]`, as the network wants them.
pub(crate) fn image_tensors(
    preprocess: &Preprocess,
    images: &ImageBatch<'_>,
) -> Result<Vec<Tensor<4>>, ImageError> {
    let Preprocess { channels, height, width, .. } = *preprocess;
    let views = preprocess.views(images)?;
    let tensors = views.iter().map(|view| {
        let numbers = preprocess.view(view);
        let count = numbers.len() / (channels * height * width);
        Tensor::new(numbers, [count, height, width, channels])
    });
    Ok(tensors.collect())
}
