//! The labelled frames of an item: what conversion and training both read.

use plaudit_pyfiles::Buffer;

use super::{CameraKey, FileProblem, Frame, Item, LabelledEntry, Observation, Recording};

/// What one item holds.
pub(crate) struct ItemFrames<T> {
    /// The bytes that its images are views of, where it is one mapped file.
    pub(crate) bytes: Option<Buffer>,
    /// Names and frames of its episodes, or of the pieces that a split keeps together.
    pub(crate) episodes: Vec<(String, Vec<T>)>,
    /// Whether nobody knows which episodes its images are from.
    pub(crate) is_loose: bool,
}

impl Item {
    /// What `keep` makes of each labelled frame that every one of these cameras shows.
    pub(crate) fn labelled_frames<T>(
        &self,
        cameras: &[CameraKey],
        keep: impl Fn(&Observation, LabelledEntry, Vec<Frame>) -> Result<T, FileProblem>,
    ) -> Result<ItemFrames<T>, FileProblem> {
        let (bytes, recordings) = self.open()?;
        let mut found = ItemFrames { bytes, episodes: Vec::new(), is_loose: false };
        let mut missed = None;
        for mut recording in recordings {
            found.is_loose |= recording.is_loose;
            for (name, entries) in by_episode(&mut recording)? {
                let mut frames = Vec::with_capacity(entries.len());
                for entry in entries {
                    let observation = &recording.observations[entry.at];
                    match self.images(observation, entry, cameras)? {
                        Ok(images) => frames.push(keep(observation, entry, images)?),
                        Err(camera) => missed = missed.or_else(|| Some((camera, observation.names()))),
                    }
                }
                found.episodes.push((name, frames));
            }
        }
        found.episodes.retain(|(_, frames)| !frames.is_empty());
        if found.episodes.is_empty() {
            let (key, has) = missed.unwrap_or_else(|| (cameras[0].written.clone(), "nothing".into()));
            return Err(FileProblem::NoImages { key, has });
        }
        let alone = found.episodes.len() == 1;
        for (number, (name, _)) in found.episodes.iter_mut().enumerate().filter(|(_, one)| one.0.is_empty()) {
            *name = if alone { self.stem() } else { format!("{}_{number}", self.stem()) };
        }
        Ok(found)
    }

    /// The image of every camera, or the name of one that missed the observation.
    fn images(
        &self,
        observation: &Observation,
        entry: LabelledEntry,
        cameras: &[CameraKey],
    ) -> Result<Result<Vec<Frame>, String>, FileProblem> {
        let mut images = Vec::with_capacity(cameras.len());
        for camera in cameras {
            match observation.image(camera, || self.location(entry.entry, &camera.written))? {
                Some(image) => images.push(image),
                None => return Ok(Err(camera.written.clone())),
            }
        }
        Ok(Ok(images))
    }
}

/// Labelled entries by episode, in their order there, where a set of images says which those are; else in the pieces that
/// a split keeps together, which have no name.
fn by_episode(recording: &mut Recording) -> Result<Vec<(String, Vec<LabelledEntry>)>, FileProblem> {
    let units = recording.units()?.into_iter();
    let Some((names, of)) = &recording.episodes else {
        return Ok(units.map(|entries| (String::new(), entries)).collect());
    };
    let mut episodes: Vec<(String, Vec<LabelledEntry>)> =
        names.iter().map(|name| (name.clone(), Vec::new())).collect();
    units.flatten().for_each(|entry| episodes[of[entry.at]].1.push(entry));
    episodes.iter_mut().for_each(|(_, entries)| entries.sort_by_key(|entry| entry.entry));
    Ok(episodes)
}
