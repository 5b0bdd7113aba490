//! Where a network runs, and in which numbers.

use burn::tensor::{Device as Backend, FloatDType, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::error::ClassifierError;
use super::settings::Precision;
use crate::images::{ImageBatch, ImageError, Layout, MEAN, Pixels, Preprocess, STD, View};

/// Where a network runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The processor.
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
pub(crate) fn is_processor(device: &Backend) -> bool {
    *device == Backend::flex()
}

/// The numbers a network is kept in. The processor's kernels take `f32` and round by themselves.
pub(crate) fn number_type(precision: Precision, device: &Backend) -> FloatDType {
    match precision {
        _ if is_processor(device) => FloatDType::F32,
        Precision::Fp32 => FloatDType::F32,
        Precision::Bf16 => FloatDType::BF16,
        Precision::Fp16 => FloatDType::F16,
    }
}

/// The pictures of each camera on a device, `[n, h, w, c]`, as the network wants them.
///
/// Where the processor does the rest, it also prepares the pictures. To other devices bytes that need no other size
/// go as they are, a quarter of the numbers they become.
pub(crate) fn pictures(
    preprocess: &Preprocess,
    images: &ImageBatch<'_>,
    precision: Precision,
    device: &Backend,
) -> Result<Vec<Tensor<4>>, ImageError> {
    let dtype = number_type(precision, device);
    let views = preprocess.views(images)?;
    let tensor = |view: &View<'_>| match view.pixels {
        Pixels::U8(bytes) if !is_processor(device) && preprocess.same_size(view) => {
            finished_there(preprocess, view, bytes, device).cast(dtype)
        }
        _ => finished_here(preprocess, preprocess.view(view), device).cast(dtype),
    };
    Ok(views.into_iter().map(tensor).collect())
}

fn finished_here(preprocess: &Preprocess, numbers: Vec<f32>, device: &Backend) -> Tensor<4> {
    let Preprocess { channels, height, width, .. } = *preprocess;
    let count = numbers.len() / (channels * height * width);
    Tensor::from_data(TensorData::new(numbers, [count, height, width, channels]), device)
}

fn finished_there(preprocess: &Preprocess, view: &View<'_>, bytes: &[u8], device: &Backend) -> Tensor<4> {
    let View { layout, count, height, width, channels, .. } = *view;
    let shape = match layout {
        Layout::Hwc => [count, height, width, channels],
        Layout::Chw => [count, channels, height, width],
    };
    let data = TensorData::new(bytes.to_vec(), shape);
    let pictures: Tensor<4, Int> = Tensor::from_data(data, (device, burn::tensor::DType::U8));
    let pictures = match layout {
        Layout::Hwc => pictures,
        Layout::Chw => pictures.permute([0, 2, 3, 1]),
    };
    let pictures = pictures.float() / 255.0;
    if !preprocess.normalize {
        return pictures;
    }
    let constant = |numbers: [f32; 3]| Tensor::<1>::from_data(numbers, device).reshape([1, 1, 1, 3]);
    (pictures - constant(MEAN)) / constant(STD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::parameters::download;

    #[test]
    fn pictures_finished_there_are_those_finished_here() {
        let bytes: Vec<u8> = (0..2 * 5 * 6 * 3).map(|i| (i * 7 % 256) as u8).collect();
        for (shape, normalize) in [([2, 5, 6, 3], true), ([2, 3, 5, 6], true), ([2, 5, 6, 3], false)] {
            let view = View::from_shape("any", Pixels::U8(&bytes), shape);
            let keys = vec!["any".to_owned()];
            let preprocess = Preprocess { keys, channels: 3, height: 5, width: 6, normalize };
            let here = preprocess.view(&view);
            let there = finished_there(&preprocess, &view, &bytes, &Backend::flex());
            assert_eq!(there.dims(), [2, 5, 6, 3]);
            let off = download(there).iter().zip(&here).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-6, "{shape:?}: {off:e}");
        }
    }
}
