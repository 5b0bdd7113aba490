//! A frozen ResNet-10 encoder: images to features, for policies that learn on top of them.

use super::device::Device;
use super::error::ClassifierError;
use super::load;
use super::network;
use super::parameters::Role;
use super::scorer::Scorer;
use super::settings::{Arch, ClassifierSettings};
use crate::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use crate::tensor::Tensor;
use crate::weights::Weights;

/// Images that go through the trunk at a time.
const CHUNK: usize = 256;
/// What the one camera is called.
const CAMERA: &str = "main_images";

/// A ResNet-10 with group normalisation whose weights never change. Cloning it shares them.
///
/// Images are brought to its size, and ImageNet's mean and deviation are taken off.
#[derive(Clone, Debug)]
pub struct FrozenTrunk {
    scorer: Scorer,
    weights: Weights,
    shape: [usize; 3],
}

impl FrozenTrunk {
    /// The trunk of a file (`conv1.weight`, `layer1.0.…`; further tensors are left alone), for images brought to
    /// this many rows and columns.
    ///
    /// # Errors
    /// When the file lacks a tensor of the trunk, or the size is zero.
    pub fn new(weights: &Weights, [height, width]: [usize; 2]) -> Result<Self, ClassifierError> {
        let settings = ClassifierSettings {
            arch: Arch::Resnet10Spatial,
            image_size: [3, height, width],
            image_keys: vec![CAMERA.into()],
            use_pretrain: Some(true),
            freeze_encoder: true,
            num_spatial_blocks: 1,
            ..ClassifierSettings::default()
        };
        settings.check()?;
        let (_, specs) = network::build(&settings);
        let prefix = network::trunk_prefixes(&settings).remove(0);
        // The network needs a pooling and a head as well: zeros, which are never run.
        let (mut whole, mut own) = (Weights::new(), Weights::new());
        for spec in specs.iter().filter(|spec| spec.role == Role::Trained) {
            whole.insert_f32(&spec.name, &spec.shape, &vec![0.0; spec.shape.iter().product()]);
        }
        for (id, stored) in load::pretrained(&settings, &specs, weights)? {
            let name = &specs[id.0].name;
            own.insert(name.strip_prefix(&prefix).unwrap_or(name), stored.clone());
            whole.insert(name, stored);
        }
        let scorer = Scorer::new(&settings, &whole, Device::default())?;
        let [rows, columns] = settings.feature_size();
        Ok(Self { scorer, weights: own, shape: [network::SMALL_FEATURES, rows, columns] })
    }

    /// Channels, rows and columns of the features of one image.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Its tensors, under the names they have in a file of the trunk alone.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Features `[n, channels, rows, columns]` of images `[n, height, width, 3]`.
    ///
    /// # Errors
    /// When `pixels` does not hold whole images of that size.
    pub fn features(&self, pixels: &[u8], [height, width]: [usize; 2]) -> Result<Vec<f32>, ClassifierError> {
        let count = pixels.len() / (height * width * 3).max(1);
        let (key, pixels, layout) = (CAMERA, Pixels::U8(pixels), ImageLayout::Hwc);
        let all = ImageBatch::of(ViewPixels { key, pixels, layout, count, height, width, channels: 3 })?;
        let mut features = Vec::with_capacity(count * self.shape.iter().product::<usize>());
        for start in (0..count).step_by(CHUNK) {
            let images = self.scorer.prepare(&all.slice(start..(start + CHUNK).min(count)))?;
            let maps: Tensor<4> = self.scorer.trunk_features(images);
            features.extend(maps.permute([0, 3, 1, 2]).into_vec());
        }
        Ok(features)
    }
}
