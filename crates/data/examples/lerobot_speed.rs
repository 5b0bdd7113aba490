//! Times the writing and reading of LeRobot datasets: episodes of 50 frames, one camera of 128x128.
//!
//!     cargo run --release -p plaudit-data --example lerobot_speed -- FOLDER EPISODES
//!
//! Prints episodes per second for appending, for completing the shard, and for reading, and the bytes of a frame on
//! disk.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use plaudit_core::{End, FrameShape};
use plaudit_data::episode::{CameraTrack, Episode, Timestep};
use plaudit_data::lerobot::{Dataset, Settings, Writer};

const FRAMES: usize = 50;
const SIDE: usize = 128;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("say which folder")?;
    let count: usize = std::env::args().nth(2).ok_or("say how many episodes")?.parse()?;
    let episodes: Vec<Episode> = (0..8).map(episode).collect();
    let settings = Settings { finalize_interval: 0, ..Settings::default() };
    let mut writer = Writer::new(Path::new(&folder), 0, settings)?;

    let start = Instant::now();
    for number in 0..count {
        writer.append(&episodes[number % episodes.len()])?;
    }
    let appended = start.elapsed().as_secs_f64();
    let shard = writer.finish()?.ok_or("no episodes")?;
    let completed = start.elapsed().as_secs_f64() - appended;

    let bytes = std::fs::metadata(shard.path.join("data/chunk-000/file-000.parquet"))?.len();
    let start = Instant::now();
    let dataset = Dataset::open(&shard.path)?;
    let mut sum = 0;
    for episode in dataset.episodes() {
        sum += u64::from(episode?.cameras[0].pixels[0]);
    }
    let read = start.elapsed().as_secs_f64();
    let per_second = |secs: f64| count as f64 / secs;
    println!("append {:.0}/s", per_second(appended));
    println!("complete {:.0}/s ({completed:.3} s)", per_second(completed));
    println!("read {:.0}/s (checksum {sum})", per_second(read));
    println!("first data file {bytes} bytes, {} frames", shard.frames);
    Ok(())
}

/// Smooth images with some noise, as cameras give them.
fn episode(number: usize) -> Episode {
    let shape = FrameShape::rgb(SIDE, SIDE);
    let mut state = 0x9e37_79b9_u32 ^ (number as u32 + 1);
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 28) as usize % 4
    };
    let mut pixels = Vec::with_capacity((FRAMES + 1) * shape.bytes());
    for frame in 0..=FRAMES {
        for at in 0..shape.bytes() {
            let (row, column) = (at / 3 / SIDE, at / 3 % SIDE);
            pixels.push(((row + column * (at % 3) + frame) / 2 + noise()) as u8);
        }
    }
    let timestep = |at: usize| Timestep {
        reward: 0.0,
        end: if at == FRAMES { End::Truncated } else { End::No },
        success: Some(false),
        facts: Vec::new(),
    };
    Episode {
        row: 0,
        number: number as u64,
        batch_step: 0,
        success: false,
        task: Some("pick the cube".into()),
        cameras: vec![CameraTrack { name: "main".into(), shape, pixels: pixels.into() }],
        states: (0..=FRAMES).map(|at| vec![at as f32; 42]).collect(),
        actions: (0..FRAMES).map(|at| vec![at as f32; 8]).collect(),
        timesteps: (0..=FRAMES).map(timestep).collect(),
    }
}
