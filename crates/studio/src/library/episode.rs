//! What the list says of an episode.

use plaudit_data::recording::Recording;

/// An item of a dataset, as far as the list needs it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ItemRow {
    /// Its episodes.
    Read(Vec<EpisodeRow>),
    /// Why it cannot be read.
    Broken(String),
}

/// An episode in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EpisodeRow {
    pub(crate) name: String,
    pub(crate) length: usize,
    /// Nothing where nobody says so.
    pub(crate) success: Option<bool>,
    pub(crate) camera: Option<String>,
    pub(crate) flags: Vec<EpisodeFlag>,
}

/// Why somebody should look at an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpisodeFlag {
    NotFinite,
    TooShort,
    SuccessLost,
    ConstantActions,
    NoImages,
}

impl EpisodeFlag {
    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NotFinite => "NaN or infinite numbers",
            Self::TooShort => "fewer than two steps",
            Self::SuccessLost => "solved, but not at the end",
            Self::ConstantActions => "the same action at every step",
            Self::NoImages => "no images",
        }
    }
}

impl ItemRow {
    pub(crate) fn of(recordings: &[Recording]) -> Self {
        Self::Read(recordings.iter().map(EpisodeRow::of).collect())
    }

    /// How many lines it takes in the list.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Read(episodes) => episodes.len(),
            Self::Broken(_) => 1,
        }
    }
}

impl EpisodeRow {
    pub(crate) fn of(recording: &Recording) -> Self {
        let camera = recording.cameras().into_iter().next();
        Self {
            name: recording.name().into(),
            length: recording.len(),
            success: recording.success(),
            flags: flags(recording, camera.is_some()),
            camera,
        }
    }
}

fn flags(recording: &Recording, has_camera: bool) -> Vec<EpisodeFlag> {
    let numbers = |rows: &[Vec<f32>]| rows.iter().flatten().all(|number| number.is_finite());
    let states_are_finite = (0..recording.len())
        .filter_map(|at| recording.state(at))
        .all(|state| state.iter().all(|number| number.is_finite()));
    let rewards_are_finite = recording.rewards().iter().all(|reward| reward.is_finite());
    let actions = recording.actions();
    let labels: Vec<bool> = recording.labels().iter().flatten().copied().collect();
    let found = [
        (EpisodeFlag::NotFinite, !(numbers(actions) && states_are_finite && rewards_are_finite)),
        (EpisodeFlag::TooShort, recording.len() < 2),
        (EpisodeFlag::SuccessLost, labels.contains(&true) && labels.last() == Some(&false)),
        (
            EpisodeFlag::ConstantActions,
            actions.len() > 2 && actions.iter().all(|action| *action == actions[0]),
        ),
        (EpisodeFlag::NoImages, !has_camera),
    ];
    found.into_iter().filter(|(_, is_so)| *is_so).map(|(flag, _)| flag).collect()
}
