//! Images from their files into a store: one episode of it for each recorded one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plaudit_core::{End, FrameShape};
use rayon::prelude::*;

use super::choose::Pick;
use super::output::Material;
use super::to_pt::Batch;
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::episode::{Episode, Moment};
use crate::store::{Entry, Origin, StoreBuilder};

/// What the one camera is called: as collectors call it.
const CAMERA: &str = "main_images";
/// The fact that says which entry of the recording a frame is.
const FRAME: &str = "frame";

/// Writes all images, some at a time on every thread. Gives what the manifest will list, and the fingerprints in the
/// order of the part.
pub(super) fn write(
    material: &Material<'_>,
    builder: &StoreBuilder,
) -> Result<(Vec<Entry>, Vec<Fingerprint>), ConvertError> {
    let episodes: Vec<(u32, Vec<usize>)> = by_episode(material.picks).into_iter().collect();
    let done = AtomicUsize::new(0);
    let threads = rayon::current_num_threads();
    let write_one = |(episode, places): &(u32, Vec<usize>)| {
        let written = write_episode(material, builder, *episode as usize, places, threads)?;
        material.report(done.fetch_add(places.len(), Ordering::Relaxed) + places.len());
        Ok::<_, ConvertError>(written)
    };
    let written: Vec<(Entry, Vec<Fingerprint>)> =
        episodes.par_iter().map(write_one).collect::<Result<_, _>>()?;
    let mut prints = vec![Fingerprint::default(); material.picks.len()];
    let mut entries = Vec::with_capacity(written.len());
    for ((_, places), (entry, found)) in episodes.iter().zip(written) {
        places.iter().zip(found).for_each(|(place, print)| prints[*place] = print);
        entries.push(entry);
    }
    Ok((entries, prints))
}

/// For each episode where its images are in the part, in the order of time.
fn by_episode(picks: &[Pick]) -> BTreeMap<u32, Vec<usize>> {
    let mut episodes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, pick) in picks.iter().enumerate() {
        episodes.entry(pick.episode).or_default().push(place);
    }
    episodes.values_mut().for_each(|places| places.sort_by_key(|place| picks[*place].frame));
    episodes
}

fn write_episode(
    material: &Material<'_>,
    builder: &StoreBuilder,
    number: usize,
    places: &[usize],
    threads: usize,
) -> Result<(Entry, Vec<Fingerprint>), ConvertError> {
    let episodes = &material.labelled.episodes;
    let picks: Vec<Pick> = places.iter().map(|place| material.picks[*place]).collect();
    let [height, width, channels] = material.shape();
    let shape = FrameShape { height, width, channels };
    let episode = outline(number, &picks, material);
    let mut open = builder.begin(&episode, CAMERA, shape)?;
    let mut prints = Vec::with_capacity(picks.len());
    let mut batch = Batch::default();
    let stored: Vec<_> = picks.iter().map(|pick| pick.image(episodes)).collect();
    let at_a_time = material.memory_bytes / threads / shape.bytes();
    for some in stored.chunks(at_a_time.max(1)) {
        batch.fill(material.files, some, shape.bytes())?;
        open.push(&batch.pixels)?;
        prints.append(&mut batch.prints);
    }
    let file = &material.labelled.files[episodes[number].file as usize].path;
    let name = material.labelled.name(number);
    let alone = file.file_stem().is_some_and(|stem| stem.to_string_lossy() == name);
    let which = if alone { String::new() } else { format!(" ({name})") };
    let entry = open.close(&Origin::new(format!("{}{which}", file.display())))?;
    Ok((entry, prints))
}

/// All of an episode but its images. Nothing was done in it as far as is known, and nothing paid.
fn outline(number: usize, picks: &[Pick], material: &Material<'_>) -> Episode {
    let frame: Arc<str> = FRAME.into();
    let moment = |pick: &Pick| Moment {
        reward: 0.0,
        end: End::No,
        success: Some(pick.success),
        facts: vec![(frame.clone(), pick.at(&material.labelled.episodes) as f32)],
    };
    Episode {
        row: 0,
        number: number as u64,
        batch_step: 0,
        success: picks.iter().any(|pick| pick.success),
        task: None,
        cameras: Vec::new(),
        states: vec![Vec::new(); picks.len()],
        actions: vec![Vec::new(); picks.len().saturating_sub(1)],
        moments: picks.iter().map(moment).collect(),
    }
}
