//! The images of the page.

use plaudit_reward::audit::{Audit, Saliency, SuspectedLabel, sample};
use plaudit_reward::dataset::Frames;
use plaudit_reward::images::{Mistake, Png};

/// Suspected labels that are shown.
const SHOWN: usize = 20;

/// Images for the page, each with a caption.
pub(super) struct PageImages {
    pub(super) false_positives: Vec<(Png, String)>,
    pub(super) false_negatives: Vec<(Png, String)>,
    pub(super) suspected: Vec<(Png, String)>,
    pub(super) saliency: Vec<(Png, String)>,
}

impl PageImages {
    /// Of an audit on these frames.
    pub(super) fn of(audit: &Audit, frames: &Frames) -> Self {
        let of_mistake = |mistake: &Mistake| {
            let words = format!("{} · frame {} · score {:.3}", mistake.episode, mistake.at, mistake.score);
            with_words(frames, mistake.frame, &words)
        };
        let by_episode = frames.by_episode();
        let of_label = |one: &SuspectedLabel| {
            let label = if one.labelled_success { "success" } else { "failure" };
            let words = format!(
                "{} · frames {} to {} · labelled {label}, score {:.3}",
                one.episode, one.from, one.to, one.score
            );
            with_words(frames, by_episode[one.episode_index][(one.from + one.to) / 2], &words)
        };
        let example = sample(frames, 1).first().copied().unwrap_or(0);
        let of_saliency = |(view, saliency): (usize, &Saliency)| {
            let image = frames.image(example, view);
            let words = format!("{}, the brighter the more a square matters", saliency.view);
            let pixels = frames.pixels_or_black(example, view);
            let plain = (Png::of(image.shape(), &pixels), format!("{}, a frame", saliency.view));
            [plain, (saliency.image(image.shape(), &pixels), words)]
        };
        Self {
            false_positives: audit.mistakes.false_positives.iter().flat_map(of_mistake).collect(),
            false_negatives: audit.mistakes.false_negatives.iter().flat_map(of_mistake).collect(),
            suspected: audit.suspected_labels.iter().take(SHOWN).flat_map(of_label).collect(),
            saliency: audit.saliency.iter().enumerate().flat_map(of_saliency).collect(),
        }
    }
}

/// Every view of a frame.
fn with_words(frames: &Frames, number: usize, words: &str) -> Vec<(Png, String)> {
    let views = frames.views();
    let of_view = |view: usize| {
        let image = frames.image(number, view);
        let camera = if views.len() > 1 { format!(" · {}", views[view]) } else { String::new() };
        let pixels = frames.pixels_or_black(number, view);
        (Png::of(image.shape(), &pixels), format!("{words}{camera}"))
    };
    (0..views.len()).map(of_view).collect()
}
