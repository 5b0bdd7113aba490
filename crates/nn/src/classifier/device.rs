//! Where a network runs, and in which numbers.

use burn::tensor::{Device as Backend, FloatDType, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::error::ClassifierError;
use super::settings::Precision;
use crate::images::{ImageBatch, ImageError, ImageLayout, MEAN, Pixels, Preprocess, STD, ViewPixels};

/// Where a network runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by number. Needs plaudit built with the feature `cuda`.
    Cuda(usize),
}

impl Device {
    pub(crate) fn open(self) -> Result<Backend, ClassifierError> {
        match self {
            Self::Cpu => Ok(Backend::flex()),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => cuda(index),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => Err(ClassifierError::NoCuda),
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Backend, ClassifierError> {
    use burn::tensor::DeviceType;
    // Without a driver, the library that looks for one panics.
    let found = std::panic::catch_unwind(|| Backend::enumerate(DeviceType::Cuda).into_iter().count());
    let found = found.unwrap_or(0);
    if index < found { Ok(Backend::cuda(index)) } else { Err(ClassifierError::NoSuchGpu { index, found }) }
}

/// Whether our own kernels run there.
pub(crate) fn is_cpu(device: &Backend) -> bool {
    *device == Backend::flex()
}

/// The numbers a network is kept in. The CPU's kernels take `f32` and round by themselves.
pub(crate) fn number_type(precision: Precision, device: &Backend) -> FloatDType {
    match precision {
        _ if is_cpu(device) => FloatDType::F32,
        Precision::Fp32 => FloatDType::F32,
        Precision::Bf16 => FloatDType::BF16,
        Precision::Fp16 => FloatDType::F16,
    }
}

/// The images of each camera on a device, `[n, h, w, c]`, as the network wants them.
///
/// On the CPU, images are also preprocessed there. To other devices bytes that need no resizing go as they are: a
/// quarter of the memory.
pub(crate) fn image_tensors(
    preprocess: &Preprocess,
    images: &ImageBatch<'_>,
    precision: Precision,
    device: &Backend,
) -> Result<Vec<Tensor<4>>, ImageError> {
    let dtype = number_type(precision, device);
    let views = preprocess.views(images)?;
    let tensor = |view: &ViewPixels<'_>| match view.pixels {
        Pixels::U8(bytes) if !is_cpu(device) && preprocess.same_size(view) => {
            preprocess_on_device(preprocess, view, bytes, device).cast(dtype)
        }
        _ => preprocess_on_host(preprocess, preprocess.view(view), device).cast(dtype),
    };
    Ok(views.into_iter().map(tensor).collect())
}

fn preprocess_on_host(preprocess: &Preprocess, numbers: Vec<f32>, device: &Backend) -> Tensor<4> {
    let Preprocess { channels, height, width, .. } = *preprocess;
    let count = numbers.len() / (channels * height * width);
    Tensor::from_data(TensorData::new(numbers, [count, height, width, channels]), device)
}

fn preprocess_on_device(
    preprocess: &Preprocess,
    view: &ViewPixels<'_>,
    bytes: &[u8],
    device: &Backend,
) -> Tensor<4> {
    let ViewPixels { layout, count, height, width, channels, .. } = *view;
    let shape = match layout {
        ImageLayout::Hwc => [count, height, width, channels],
        ImageLayout::Chw => [count, channels, height, width],
    };
    let data = TensorData::new(bytes.to_vec(), shape);
    let images: Tensor<4, Int> = Tensor::from_data(data, (device, burn::tensor::DType::U8));
    let images = match layout {
        ImageLayout::Hwc => images,
        ImageLayout::Chw => images.permute([0, 2, 3, 1]),
    };
    let images = images.float() / 255.0;
    if !preprocess.normalize {
        return images;
    }
    let constant = |numbers: [f32; 3]| Tensor::<1>::from_data(numbers, device).reshape([1, 1, 1, 3]);
    (images - constant(MEAN)) / constant(STD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::parameters::download;

    #[test]
    fn preprocessing_is_the_same_on_host_and_device() {
        let bytes: Vec<u8> = (0..2 * 5 * 6 * 3).map(|i| (i * 7 % 256) as u8).collect();
        for (shape, normalize) in [([2, 5, 6, 3], true), ([2, 3, 5, 6], true), ([2, 5, 6, 3], false)] {
            let view = ViewPixels::from_shape("any", Pixels::U8(&bytes), shape);
            let keys = vec!["any".to_owned()];
            let preprocess = Preprocess { keys, channels: 3, height: 5, width: 6, normalize };
            let here = preprocess.view(&view);
            let there = preprocess_on_device(&preprocess, &view, &bytes, &Backend::flex());
            assert_eq!(there.dims(), [2, 5, 6, 3]);
            let off = download(there).iter().zip(&here).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-6, "{shape:?}: {off:e}");
        }
    }
}
