//! Scores PNG images with the checkpoint of a reward model.
//!
//! ```text
//! cargo run --example score_images -- logs/reward/checkpoints/best_model a.png b.png
//! ```
//!
//! Without arguments it makes a small checkpoint and two images of its own. That network has learned nothing.

#![allow(clippy::print_stdout)] // an example shows what it found

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plaudit::reward::{
    AdamW, Arch, CameraView, Classifier, ClassifierSettings, Device, FrameRewardModel, FrameStack, ModelCard,
    Png, Scorer, Trainer, Weights,
};
use plaudit::{FrameShape, Frames, Obs};

/// What the model calls its camera; images have no other.
const CAMERA: &str = "main_images";

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (checkpoint, images) = match arguments.split_first() {
        Some((checkpoint, images)) => (checkpoint.clone(), images.to_vec()),
        None => small_checkpoint_and_images(scratch.path())?,
    };

    let weights = Weights::read(&checkpoint)?;
    let card = ModelCard::from_header(weights.metadata())?.ok_or("plaudit did not write this checkpoint")?;
    let scorer = Scorer::new(&card.settings, &weights, Device::Cpu)?;
    let views = vec![CameraView { camera: CAMERA.into(), back: 0 }];
    let threshold = card.threshold.map(|threshold| threshold as f32);
    let model = Classifier::new(scorer, views, threshold).at_temperature(card.temperature());

    for path in images {
        let (shape, pixels) = read_png(&path)?;
        let obs = Obs::from_state(1, Vec::new())?.with_camera(CAMERA, Frames::new(shape, pixels)?)?;
        let score = model.scores(&[FrameStack::single(obs.row(0))])?[0].get();
        let success = model
            .threshold()
            .map_or("no threshold", |threshold| if score > threshold { "success" } else { "no success" });
        println!("{}: score {score:.4}, {success}", path.display());
    }
    Ok(())
}

/// An RGB image of 8 bits.
fn read_png(path: &Path) -> Result<(FrameShape, Vec<u8>), Box<dyn Error>> {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path)?)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("the image is too large")?];
    let info = reader.next_frame(&mut pixels)?;
    if (info.color_type, info.bit_depth) != (png::ColorType::Rgb, png::BitDepth::Eight) {
        return Err(format!("{} is not RGB of 8 bits", path.display()).into());
    }
    Ok((FrameShape::rgb(info.height as usize, info.width as usize), pixels))
}

fn small_checkpoint_and_images(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>), Box<dyn Error>> {
    let settings =
        ClassifierSettings { arch: Arch::Resnet10, image_size: [3, 32, 32], ..ClassifierSettings::default() };
    let weights = Trainer::new(&settings, AdamW::default(), 1)?.weights()?;
    let checkpoint = ModelCard { threshold: Some(0.5), ..ModelCard::of(settings) }.write(&weights, folder)?;
    let images = [("dark.png", 30), ("bright.png", 220)].map(|(name, level)| (folder.join(name), level));
    for (path, level) in &images {
        Png::of(FrameShape::rgb(32, 32), &[*level; 32 * 32 * 3]).write(path)?;
    }
    Ok((checkpoint, images.map(|(path, _)| path).into()))
}
