//! How fast frames of a LeRobot dataset with videos are read: in a row, and in random windows. For bench/datasets.
//!
//! `video_frames DATASET MODE SECONDS [WINDOW]`, where MODE is `row` or `random`. Prints JSON.

#![allow(clippy::print_stdout)] // what it is for

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use plaudit_data::lerobot::Dataset;
use plaudit_data::video::{FrameCache, FrameCacheLimits, VideoSegment};
use rayon::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, mode, secs, rest @ ..] = &words[..] else {
        return Err("DATASET MODE SECONDS [WINDOW]".into());
    };
    let (secs, window): (f64, usize) = (secs.parse()?, rest.first().map_or(Ok(8), |window| window.parse())?);
    let began = Instant::now();
    let cache = Arc::new(FrameCache::new(FrameCacheLimits::default()));
    let dataset = Dataset::open(PathBuf::from(path))?.with_frame_cache(cache.clone());
    let episodes: Vec<Vec<VideoSegment>> = (0..dataset.len())
        .into_par_iter()
        .map(|episode| Ok(dataset.read_filmed(episode)?.videos.into_iter().map(|(_, video)| video).collect()))
        .collect::<Result<_, plaudit_data::lerobot::LeRobotError>>()?;
    let opened = began.elapsed().as_secs_f64();
    let began = Instant::now();
    // Sixty-four windows at a time, as a batch has them, on all threads.
    let (mut frames, mut state, mut next) = (0usize, 0x2545_f491_4f6c_dd1du64, 0usize);
    while began.elapsed().as_secs_f64() < secs {
        let batch: Vec<(usize, usize)> = (0..64)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = if mode == "row" { next } else { state as usize };
                next += 1;
                let per_episode = episodes[0][0].len / window;
                let episode = at / per_episode % episodes.len();
                (episode, at % per_episode * window)
            })
            .collect();
        let read = batch.par_iter().map(|(episode, first)| {
            let videos = &episodes[*episode];
            for video in videos {
                (*first..first + window).try_for_each(|at| video.rgb(at).map(drop))?;
            }
            Ok(videos.len() * window)
        });
        frames += read.sum::<Result<usize, plaudit_data::video::VideoError>>()?;
    }
    let took = began.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    println!(
        "{{\"mode\": \"{mode}\", \"opened_secs\": {opened:.3}, \"frames_per_second\": {:.1}, \"decoded\": {}, \"peak\": \"{peak}\"}}",
        frames as f64 / took,
        cache.stats().decoded,
    );
    Ok(())
}
