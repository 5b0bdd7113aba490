//! What a reward model gets wrong, what people say about that, and what it is taught.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use plaudit_data::labelling::{SpanLabel, merged_labels};
use plaudit_reward::images::Png;
use plaudit_reward::metrics::Metrics;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::compare::{Disagreement, Said, disagreements};
use crate::http::Refusal;
use crate::library::{Dataset, EpisodeKey, ItemRow};
use crate::lines::LineFile;
use crate::scoring::ModelEntry;

/// The file of accepted mistakes, in the folder of labels.
const ACCEPTED_FILE: &str = "accepted.jsonl";
/// Frames that a model is taught at once.
const MOST_TAUGHT: usize = 2000;

/// Mistakes that people have looked at and leave as they are.
pub(crate) struct Accepted(LineFile);

/// A mistake that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct AcceptedMistake {
    pub(crate) model: String,
    pub(crate) dataset: String,
    pub(crate) item: usize,
    pub(crate) part: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Accepted {
    pub(crate) fn in_folder(labels: &Path) -> Self {
        Self(LineFile::at(labels.join(ACCEPTED_FILE)))
    }

    /// Keeps one. It is on the disk when this returns.
    pub(crate) fn keep(&self, mistake: &AcceptedMistake) -> Result<(), Refusal> {
        self.0.append(mistake).map_err(|error| Refusal::failed(format!("it cannot be kept: {error}")))
    }

    fn all(&self) -> Result<HashSet<AcceptedMistake>, Refusal> {
        let all: Vec<AcceptedMistake> = self.0.read().map_err(|error| Refusal::failed(error.to_string()))?;
        Ok(all.into_iter().collect())
    }
}

/// An episode's truth: what people said here, and where they said nothing, what was recorded.
pub(crate) struct JudgedEpisode {
    pub(crate) key: EpisodeKey,
    pub(crate) truth: Vec<Option<bool>>,
    /// Whether people said something about it here: a model that was taught from that must not be measured on it.
    pub(crate) is_labelled: bool,
}

/// The truth about episodes. Those that cannot be read are left out.
pub(crate) fn judged(
    app: &App,
    dataset: &Dataset,
    keys: &[EpisodeKey],
) -> Result<Vec<JudgedEpisode>, Refusal> {
    let standing = app.labels.standing(dataset)?;
    let of = |key: &EpisodeKey| {
        let recorded = app.compare.truth(&app.library, key).ok()?;
        let is_alone = dataset.row(key.item).is_some_and(|row| row.parts() == 1);
        let name = dataset.label_names.get(key.item).filter(|_| is_alone);
        let said = name.map_or_else(Vec::new, |name| merged_labels(&standing, name, recorded.len()));
        let is_labelled = name.is_some_and(|name| standing.iter().any(|label| label.episode == *name));
        let truth = (0..recorded.len()).map(|at| said.get(at).copied().flatten().or(recorded[at])).collect();
        Some(JudgedEpisode { key: key.clone(), truth, is_labelled })
    };
    Ok(keys.iter().filter_map(of).collect())
}

/// Frames that a model gets wrong at its threshold, frames in a row together, the worst first; and how many were accepted.
pub(crate) fn mistakes(
    app: &App,
    model: &ModelEntry,
    episodes: &[JudgedEpisode],
) -> Result<(Vec<Disagreement>, usize), Refusal> {
    let threshold = model.facts().map_or(0.5, |facts| facts.threshold) as f32;
    let said = |episode: &JudgedEpisode| {
        let scores = app.scoring.scores(model, &episode.key)?.ok()?;
        let truth = Said {
            value: episode.truth.iter().map(|label| f32::from(u8::from(*label == Some(true)))).collect(),
            success: episode.truth.clone(),
        };
        let own = Said {
            success: scores.scores.iter().map(|score| Some(*score > threshold)).collect(),
            value: scores.scores.clone(),
        };
        Some((episode.key.clone(), vec![truth, own]))
    };
    let said: Vec<(EpisodeKey, Vec<Said>)> = episodes.iter().filter_map(said).collect();
    let (accepted, mut found) = (app.accepted.all()?, disagreements(&said));
    let before = found.len();
    found.retain(|one| !accepted.contains(&accepted_mistake(model, one)));
    let count = before - found.len();
    Ok((found, count))
}

fn accepted_mistake(model: &ModelEntry, found: &Disagreement) -> AcceptedMistake {
    AcceptedMistake {
        model: model.name.to_string(),
        dataset: found.episode.dataset.to_string(),
        item: found.episode.item,
        part: found.episode.part,
        from: found.from,
        to: found.to,
    }
}

/// How good models are on the same frames: of episodes that nobody labelled here and that all of them have scored.
pub(crate) fn measured(
    app: &App,
    models: &[Arc<ModelEntry>],
    episodes: &[JudgedEpisode],
) -> (usize, Vec<Metrics>) {
    let held_out: Vec<&JudgedEpisode> = episodes
        .iter()
        .filter(|episode| !episode.is_labelled && episode.truth.iter().any(Option::is_some))
        .filter(|episode| {
            models.iter().all(|model| matches!(app.scoring.scores(model, &episode.key), Some(Ok(_))))
        })
        .collect();
    let metrics = |model: &Arc<ModelEntry>| {
        let (mut scores, mut truth) = (Vec::new(), Vec::new());
        for episode in &held_out {
            let Some(Ok(scored)) = app.scoring.scores(model, &episode.key) else { continue };
            for (score, label) in scored.scores.iter().zip(&episode.truth) {
                if let Some(label) = label {
                    scores.push(f64::from(*score));
                    truth.push(*label);
                }
            }
        }
        Metrics::of(&scores, &truth, model.facts().map_or(0.5, |facts| facts.threshold))
    };
    (held_out.len(), models.iter().map(metrics).collect())
}

/// Writes the frames that people labelled as images, sorted into success and failure; how many of each.
pub(crate) fn write_taught(app: &App, dataset: &Dataset, folder: &Path) -> Result<[usize; 2], Refusal> {
    let standing = app.labels.standing(dataset)?;
    let mut frames = labelled_frames(dataset, &standing);
    let step = frames.len().div_ceil(MOST_TAUGHT).max(1);
    frames = frames.into_iter().step_by(step).collect();
    let mut counts = [0; 2];
    for (number, (key, at, success)) in frames.iter().enumerate() {
        write_frame(app, key, *at, &folder.join(if *success { "success" } else { "failure" }), number)?;
        counts[usize::from(!success)] += 1;
    }
    Ok(counts)
}

/// Every frame about which people agree.
fn labelled_frames(dataset: &Dataset, standing: &[SpanLabel]) -> Vec<(EpisodeKey, usize, bool)> {
    let named: HashSet<&str> = standing.iter().map(|label| label.episode.as_str()).collect();
    let of_item = |(item, name): (usize, &String)| {
        let length = match dataset.row(item).as_deref() {
            Some(ItemRow::Read(episodes)) if episodes.len() == 1 => episodes[0].length,
            _ => 0,
        };
        let key = EpisodeKey { dataset: dataset.name.clone(), item, part: 0 };
        let labels = merged_labels(standing, name, length).into_iter().enumerate();
        labels.filter_map(move |(at, label)| Some((key.clone(), at, label?))).collect::<Vec<_>>()
    };
    let labelled = dataset.label_names.iter().enumerate().filter(|(_, name)| named.contains(name.as_str()));
    labelled.flat_map(of_item).collect()
}

fn write_frame(app: &App, key: &EpisodeKey, at: usize, folder: &Path, number: usize) -> Result<(), Refusal> {
    let failed = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let episode = app.library.episode(key)?;
    let recording = episode.recording();
    let names = recording.cameras();
    for name in &names {
        if name.contains(['/', '\\']) {
            return Err(Refusal::conflict(format!("the camera `{name}` cannot be part of a file's name")));
        }
        let Some(image) = recording.frame(at, name).map_err(|error| failed(&error))? else { continue };
        let pixels = image.pixels().map_err(|error| failed(&error))?;
        let camera = if names.len() > 1 { format!("@{name}") } else { String::new() };
        let path = folder.join(format!("{number:06}{camera}.png"));
        Png::of(image.shape(), &pixels).write(&path).map_err(|error| failed(&error))?;
    }
    Ok(())
}
