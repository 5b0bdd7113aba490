//! Random augmentation of training images, so that a model learns what matters and not where the camera stood.
//!
//! Each kind of change samples from its own stream of random numbers, named by the seed that the caller gives for an image:
//! the same seed gives the same image, and turning one kind off leaves the others as they were.

pub(crate) mod colour;
pub(crate) mod space;

use plaudit_core::{FrameShape, Seed};
use serde::{Deserialize, Serialize};

/// How much images are changed. The default is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augment {
    /// Moved by up to this share of the side, in each direction; the border is repeated.
    pub shift: f64,
    /// Cut down to as little as this share of the side, then stretched back: 0.2 keeps four fifths at least.
    pub crop: f64,
    /// Brighter or darker by up to this share.
    pub brightness: f64,
    /// More or less contrast by up to this share.
    pub contrast: f64,
    /// More or less colour by up to this share.
    pub saturation: f64,
    /// Colours turned by up to this share of the whole circle.
    pub hue: f64,
    /// Blurred with a standard deviation of up to so many pixels.
    pub blur: f64,
    /// A grey rectangle over it, with sides of up to this share.
    pub cutout: f64,
}

impl Augment {
    /// Whether it changes anything.
    #[must_use]
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Changes an image of height, width and channels, from where it lies into `pixels`. Colours are left alone unless there
    /// are three.
    ///
    /// # Panics
    /// If there are not as many bytes as the shape says.
    pub fn apply(&self, image: &[u8], shape: FrameShape, seed: Seed, pixels: &mut [u8]) {
        assert_eq!((image.len(), pixels.len()), (shape.bytes(), shape.bytes()), "images of their shape");
        if self.shift > 0.0 || self.crop > 0.0 {
            space::move_and_crop(image, shape, self.shift, self.crop, seed, pixels);
        } else {
            pixels.copy_from_slice(image);
        }
        let jitter = colour::Jitter::sample(self, seed.purpose("colour"));
        if shape.channels == 3
            && let Some(jitter) = jitter
        {
            jitter.apply(pixels);
        }
        if self.blur > 0.0 {
            space::blur(pixels, shape, self.blur * seed.purpose("blur").rng().unit());
        }
        if self.cutout > 0.0 {
            space::cut_out(pixels, shape, self.cutout, seed.purpose("cutout"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FrameShape = FrameShape { height: 12, width: 16, channels: 3 };

    fn image() -> Vec<u8> {
        (0..SHAPE.bytes()).map(|at| (at * 7 % 251) as u8).collect()
    }

    fn changed(augment: Augment, seed: u64) -> Vec<u8> {
        let mut pixels = vec![0; SHAPE.bytes()];
        augment.apply(&image(), SHAPE, Seed::new(seed), &mut pixels);
        pixels
    }

    const ALL: [Augment; 8] = {
        let off = Augment {
            shift: 0.0,
            crop: 0.0,
            brightness: 0.0,
            contrast: 0.0,
            saturation: 0.0,
            hue: 0.0,
            blur: 0.0,
            cutout: 0.0,
        };
        [
            Augment { shift: 0.3, ..off },
            Augment { crop: 0.4, ..off },
            Augment { brightness: 0.4, ..off },
            Augment { contrast: 0.4, ..off },
            Augment { saturation: 0.4, ..off },
            Augment { hue: 0.2, ..off },
            Augment { blur: 2.0, ..off },
            Augment { cutout: 0.5, ..off },
        ]
    };

    #[test]
    fn nothing_changes_unless_asked_for() {
        assert!(Augment::default().is_off());
        assert_eq!(changed(Augment::default(), 1), image());
    }

    #[test]
    fn every_kind_changes_images_by_its_seed_alone() {
        for augment in ALL {
            assert!(!augment.is_off());
            assert_eq!(changed(augment, 3), changed(augment, 3), "{augment:?}");
            let different = (0..20).filter(|seed| changed(augment, *seed) != image()).count();
            assert!(different >= 15, "{augment:?} changed {different} of 20");
            assert_ne!(changed(augment, 4), changed(augment, 5), "{augment:?}");
        }
    }

    #[test]
    fn a_plain_picture_stays_plain_under_moves_and_blur() {
        for augment in [ALL[0], ALL[1], ALL[6]] {
            let mut pixels = vec![0; SHAPE.bytes()];
            augment.apply(&vec![77; SHAPE.bytes()], SHAPE, Seed::new(9), &mut pixels);
            assert!(pixels.iter().all(|byte| *byte == 77), "{augment:?}");
        }
    }

    #[test]
    fn kinds_do_not_disturb_each_other() {
        let alone = changed(ALL[7], 11);
        let both = changed(Augment { brightness: 0.3, ..ALL[7] }, 11);
        let grey = |pixels: &[u8]| -> Vec<usize> {
            let is_grey = |pixel: &[u8]| *pixel == space::GREY;
            pixels.chunks_exact(3).enumerate().filter(|(_, pixel)| is_grey(pixel)).map(|(at, _)| at).collect()
        };
        assert!(!grey(&alone).is_empty());
        assert_eq!(grey(&alone), grey(&both));
    }

    #[test]
    fn odd_shapes_are_taken() {
        for (height, width, channels) in [(1, 1, 3), (2, 1, 1), (1, 5, 4)] {
            let shape = FrameShape { height, width, channels };
            for augment in ALL {
                augment.apply(&vec![5; shape.bytes()], shape, Seed::new(2), &mut vec![0; shape.bytes()]);
            }
        }
    }
}
