//! Trains a classifier of images to tell success from failure, and audits it on images that it has not seen.
//!
//! ```text
//! cargo run --example train_and_audit -- TRAIN HELD_OUT
//! ```
//!
//! Both are folders with PNG images in `success` and `failure`, or anything else that holds labelled frames. Without
//! arguments it draws its own: a bright square that lies on the left (success) or on the right, in noise.

#![allow(clippy::print_stdout)] // an example shows what it found

use std::error::Error;
use std::path::{Path, PathBuf};

use plaudit::data::Rules;
use plaudit::reward::{
    AdamW, Arch, AuditSettings, Auditor, Checkpoints, ClassifierSettings, Device, LabelledFrames, ModelCard,
    Png, Scorer, Stored, TrainSettings, Trainer, Training, ViewKey, Weights,
};
use plaudit::{DiscardEvents, FrameShape, Seed};

const SIDE: usize = 32;
const STEPS: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [train, held_out] = match &arguments[..] {
        [train, held_out] => [train.clone(), held_out.clone()],
        [] => [draw(&scratch.path().join("train"), 48, 1)?, draw(&scratch.path().join("held_out"), 48, 2)?],
        _ => return Err("give a folder to train on and one to audit on, or nothing".into()),
    };
    let views: [ViewKey; 1] = ["main_images".parse()?];
    let read = |path: &Path| LabelledFrames::read(&views, &[path], &Rules::default(), &|_| {});

    let network = ClassifierSettings {
        arch: Arch::Resnet10,
        image_size: [3, SIDE, SIDE],
        ..ClassifierSettings::default()
    };
    let trainer = Trainer::new(&network, AdamW::default(), 7)?;
    let frames = read(&train)?;
    let checkpoints = Checkpoints::in_folder(&scratch.path().join("checkpoints"));
    let training = Training::new(trainer, &frames, None, TrainSettings::for_steps(STEPS))?;
    let trained = training.run(&checkpoints, &mut DiscardEvents)?.progress.step;
    println!("trained for {trained} steps on {} images", frames.len());

    let file = Weights::locate(checkpoints.step(trained))?;
    let weights = Weights::read(&file)?;
    let card = ModelCard::from_header(weights.metadata())?.ok_or("a checkpoint without a card")?;
    let scorer = Scorer::new(&card.settings, &weights, Device::Cpu)?;
    let frames = read(&held_out)?;
    let auditor = Auditor {
        settings: AuditSettings { max_fpr: 0.1, stress_frames: 16, ..AuditSettings::DEFAULT },
        ..Auditor::new(file.display().to_string(), &scorer, &card, &frames)
    };
    let audit = auditor.examine()?.conclude(Stored::In { file: file.display().to_string() })?;
    audit.store(&card)?;

    println!(
        "audited on {} other images: {}",
        frames.len(),
        if audit.passed { "passed" } else { "not passed" }
    );
    println!("AUC {:.3}", audit.auc.map_or(f64::NAN, |auc| auc.value));
    println!("threshold {:.2e}: {}", audit.operating.threshold, audit.operating.guarantee_text());
    for finding in &audit.verdict.findings {
        println!("{:?}: {} ({})", finding.severity, finding.what, finding.hint);
    }
    Ok(())
}

/// Draws so many images of each label.
fn draw(folder: &Path, of_each: u64, seed: u64) -> Result<PathBuf, Box<dyn Error>> {
    for (label, left) in [("success", 2), ("failure", 20)] {
        std::fs::create_dir_all(folder.join(label))?;
        for number in 0..of_each {
            let mut rng = Seed::new(seed).purpose(label).index(number).rng();
            let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|_| rng.below(120) as u8).collect();
            let top = 4 + rng.below(14);
            for row in top..top + 10 {
                pixels[(row * SIDE + left) * 3..][..30].fill(230);
            }
            Png::of(FrameShape::rgb(SIDE, SIDE), &pixels)
                .write(&folder.join(label).join(format!("{number:03}.png")))?;
        }
    }
    Ok(folder.into())
}
