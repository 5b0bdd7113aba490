//! Images from their files into a store: one episode of it for each recorded one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plaudit_core::{End, FrameShape};
use rayon::prelude::*;

use super::output::SplitInput;
use super::to_pt::Batch;
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::split::FramePick;
use crate::episode::{Episode, Timestep};
use crate::store::{Entry, Origin, StoreBuilder};

/// What the one camera is called: as collectors call it.
const CAMERA: &str = "main_images";
/// The fact that says which entry of the recording a frame is.
const FRAME: &str = "frame";

/// Writes all images, some at a time on every thread. Gives what the manifest will list, and the fingerprints in the
/// order of the split.
pub(super) fn write(
    split_input: &SplitInput<'_>,
    builder: &StoreBuilder,
) -> Result<(Vec<Entry>, Vec<Fingerprint>), ConvertError> {
    let episodes: Vec<(u32, Vec<usize>)> = by_episode(split_input.picks).into_iter().collect();
    let done = AtomicUsize::new(0);
    let threads = rayon::current_num_threads();
    let write_one = |(episode, positions): &(u32, Vec<usize>)| {
        let written = write_episode(split_input, builder, *episode as usize, positions, threads)?;
        split_input.report(done.fetch_add(positions.len(), Ordering::Relaxed) + positions.len());
        Ok::<_, ConvertError>(written)
    };
    let written: Vec<(Entry, Vec<Fingerprint>)> =
        episodes.par_iter().map(write_one).collect::<Result<_, _>>()?;
    let mut fingerprints = vec![Fingerprint::default(); split_input.picks.len()];
    let mut entries = Vec::with_capacity(written.len());
    for ((_, positions), (entry, found)) in episodes.iter().zip(written) {
        positions.iter().zip(found).for_each(|(position, fingerprint)| fingerprints[*position] = fingerprint);
        entries.push(entry);
    }
    Ok((entries, fingerprints))
}

/// For each episode the positions of its images in the split, in the order of time.
fn by_episode(picks: &[FramePick]) -> BTreeMap<u32, Vec<usize>> {
    let mut episodes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (position, pick) in picks.iter().enumerate() {
        episodes.entry(pick.episode).or_default().push(position);
    }
    episodes.values_mut().for_each(|positions| positions.sort_by_key(|position| picks[*position].frame));
    episodes
}

fn write_episode(
    split_input: &SplitInput<'_>,
    builder: &StoreBuilder,
    number: usize,
    positions: &[usize],
    threads: usize,
) -> Result<(Entry, Vec<Fingerprint>), ConvertError> {
    let labelled = split_input.labelled;
    let recorded = &labelled.episodes[number];
    let picks: Vec<FramePick> = positions.iter().map(|position| split_input.picks[*position]).collect();
    let [height, width, channels] = split_input.shape();
    let shape = FrameShape { height, width, channels };
    let episode = without_images(number, &picks, split_input);
    let mut open = builder.begin(&episode, CAMERA, shape)?;
    let mut fingerprints = Vec::with_capacity(picks.len());
    let mut batch = Batch::default();
    let stored: Vec<_> = picks.iter().map(|pick| labelled.frame(*pick).image).collect();
    let at_a_time = split_input.memory_bytes / threads / shape.bytes();
    for some in stored.chunks(at_a_time.max(1)) {
        batch.fill(split_input.files, some, shape.bytes())?;
        open.push(&batch.pixels)?;
        fingerprints.append(&mut batch.fingerprints);
    }
    let file = &labelled.files[recorded.file as usize].path;
    let alone = file.file_stem().is_some_and(|stem| *stem.to_string_lossy() == recorded.name);
    let which = if alone { String::new() } else { format!(" ({})", recorded.name) };
    let entry = open.close(&Origin::new(format!("{}{which}", file.display())))?;
    Ok((entry, fingerprints))
}

/// An episode without its images. Its actions are unknown, and its rewards are 0.
fn without_images(number: usize, picks: &[FramePick], split_input: &SplitInput<'_>) -> Episode {
    let frame: Arc<str> = FRAME.into();
    let timestep = |pick: &FramePick| Timestep {
        reward: 0.0,
        end: End::No,
        success: Some(split_input.labelled.frame(*pick).success),
        facts: vec![(frame.clone(), split_input.labelled.frame(*pick).at as f32)],
    };
    Episode {
        row: 0,
        number: number as u64,
        batch_step: 0,
        success: picks.iter().any(|pick| split_input.labelled.frame(*pick).success),
        task: None,
        cameras: Vec::new(),
        states: vec![Vec::new(); picks.len()],
        actions: vec![Vec::new(); picks.len().saturating_sub(1)],
        timesteps: picks.iter().map(timestep).collect(),
    }
}
