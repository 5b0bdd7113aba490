//! Frames put side by side, as a network takes them.

use std::sync::OnceLock;

use plaudit_core::{FrameShape, Seed};
use plaudit_data::labelled::FrameImage;
use plaudit_nn::images::{ImageBatch, ImageError, ImageLayout, Pixels, ViewPixels};
use rayon::prelude::*;

use super::frames::Frames;
use super::time_warp::TimeWarp;
use crate::augment::Augment;

/// Some frames: for every view their images one after another, and the labels.
#[derive(Clone, Debug)]
pub struct Batch {
    views: Vec<ViewBatch>,
    /// 1 for success, 0 for failure.
    pub labels: Vec<f32>,
    /// Images after those that have labels.
    unlabelled: usize,
    /// Why there is nothing to show: a frame that cannot be decoded. Said when images are asked for.
    unreadable: Option<String>,
}

#[derive(Clone, Debug)]
struct ViewBatch {
    key: String,
    shape: FrameShape,
    pixels: Vec<u8>,
}

impl ViewBatch {
    fn view(&self, count: usize) -> ViewPixels<'_> {
        let FrameShape { height, width, channels } = self.shape;
        let pixels = Pixels::U8(&self.pixels);
        ViewPixels { key: &self.key, pixels, layout: ImageLayout::Hwc, count, height, width, channels }
    }
}

/// What happens to an image: number of its frame, view, size, pixels.
pub(crate) type PixelEdit<'a> = dyn Fn(usize, usize, FrameShape, &mut [u8]) + Sync + 'a;

/// How an image of a batch is made: number of its frame, view, size, the image in its file, and where it goes.
type PixelFill<'a> = dyn Fn(usize, usize, FrameShape, &[u8], &mut [u8]) + Sync + 'a;

impl Batch {
    /// The frames of these numbers, as they are.
    #[must_use]
    pub fn of(frames: &Frames, numbers: &[usize]) -> Self {
        Self::edited(frames, numbers, &|_, _, _, _| {})
    }

    /// The frames of these numbers, augmented at random. What happens to a frame is decided by the seed of the epoch and
    /// by its number, so it does not depend on the batch it is in; all views of a camera change alike.
    #[must_use]
    pub fn augmented(frames: &Frames, numbers: &[usize], augment: &Augment, epoch: Seed) -> Self {
        let cameras = frames.cameras();
        Self::filled(frames, numbers, &|number, view, shape, image, pixels| {
            let seed = epoch.index(number as u64).index(cameras[view] as u64);
            augment.apply(image, shape, seed, pixels);
        })
    }

    /// [`augmented`](Self::augmented), with the time between the views of a frame stack warped.
    #[must_use]
    pub fn warped(
        frames: &Frames,
        numbers: &[usize],
        augment: &Augment,
        warp: &TimeWarp,
        epoch: Seed,
    ) -> Self {
        let cameras = frames.cameras();
        let image = |number: usize, view: usize| {
            let steps = warp.steps(frames.views()[view].back, epoch.purpose("warp").index(number as u64));
            frames.image_moved(number, view, steps)
        };
        Self::of_images(frames, numbers, &image, &|number, view, shape, image, pixels| {
            let seed = epoch.index(number as u64).index(cameras[view] as u64);
            augment.apply(image, shape, seed, pixels);
        })
    }

    /// The same batch with more images at its end, augmented at random: of each example one image per view. They have no labels.
    #[must_use]
    pub(crate) fn plus_unlabelled(
        mut self,
        examples: &[&[Vec<u8>]],
        cameras: &[usize],
        augment: &Augment,
        seed: Seed,
    ) -> Self {
        for (view, batch) in self.views.iter_mut().enumerate() {
            let start = batch.pixels.len();
            batch.pixels.resize(start + examples.len() * batch.shape.bytes(), 0);
            let rows = batch.pixels[start..].par_chunks_exact_mut(batch.shape.bytes());
            rows.zip(examples).enumerate().for_each(|(number, (pixels, example))| {
                let seed = seed.index(number as u64).index(cameras[view] as u64);
                augment.apply(&example[view], batch.shape, seed, pixels);
            });
        }
        self.unlabelled += examples.len();
        self
    }

    /// The frames of these numbers, each image changed.
    pub(crate) fn edited(frames: &Frames, numbers: &[usize], change: &PixelEdit<'_>) -> Self {
        Self::filled(frames, numbers, &|number, view, shape, image, pixels| {
            pixels.copy_from_slice(image);
            change(number, view, shape, pixels);
        })
    }

    /// The frames of these numbers, each image made from the one in its file.
    fn filled(frames: &Frames, numbers: &[usize], fill: &PixelFill<'_>) -> Self {
        Self::of_images(frames, numbers, &|number, view| frames.image(number, view), fill)
    }

    /// The frames of these numbers, each image made from one of their episode.
    fn of_images<'a>(
        frames: &'a Frames,
        numbers: &[usize],
        image: &(dyn Fn(usize, usize) -> &'a FrameImage + Sync),
        fill: &PixelFill<'_>,
    ) -> Self {
        let unreadable = OnceLock::new();
        let view_batch = |view: usize| {
            let shape = frames.shapes()[view];
            let mut pixels = vec![0; numbers.len() * shape.bytes()];
            pixels.par_chunks_exact_mut(shape.bytes()).zip(numbers).for_each(|(out, number)| {
                match image(*number, view).pixels() {
                    Ok(pixels) => fill(*number, view, shape, &pixels, out),
                    Err(problem) => {
                        unreadable.get_or_init(|| frames.unreadable(*number, view, &problem));
                    }
                }
            });
            ViewBatch { key: frames.views()[view].to_string(), shape, pixels }
        };
        let views = (0..frames.views().len()).map(view_batch).collect();
        let label = |number: &usize| f32::from(u8::from(frames.success(*number)));
        let labels = numbers.iter().map(label).collect();
        Self { views, labels, unlabelled: 0, unreadable: unreadable.into_inner() }
    }

    /// As a network takes them.
    ///
    /// # Errors
    /// When images have no pixels, or one of them cannot be decoded.
    pub fn images(&self) -> Result<ImageBatch<'_>, ImageError> {
        if let Some(why) = &self.unreadable {
            return Err(ImageError::Unreadable { why: why.clone() });
        }
        let count = self.labels.len() + self.unlabelled;
        ImageBatch::new(self.views.iter().map(|view_batch| view_batch.view(count)).collect())
    }

    /// The pixels of one image of a view.
    #[must_use]
    pub fn image(&self, at: usize, view: usize) -> (FrameShape, &[u8]) {
        let ViewBatch { shape, pixels, .. } = &self.views[view];
        (*shape, &pixels[at * shape.bytes()..(at + 1) * shape.bytes()])
    }
}
