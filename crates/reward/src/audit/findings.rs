//! From numbers to a verdict: each rule is a few lines, and says what it goes by.

use plaudit_data::convert::Leakage;

use super::{
    Audit, Background, Interval, RegionSource, Saliency, Severity, SharedWithTraining, StressResult, Verdict,
    percent,
};

/// Scores that are further off than this count as miscalibrated.
const MISCALIBRATED: f64 = 0.05;
/// Calls that change more often than this under a harmless disturbance are called fragile.
const FRAGILE: f64 = 0.1;
/// Success that is held less than this flickers.
const HELD: f64 = 0.8;
/// A part of the data on which ranking is worse by this is named.
const WORSE: f64 = 0.1;
/// The background decides where it gives this share of the score of successes, or of what matters.
const DECIDES: f64 = 0.5;
/// Where it gives half of the ranking, this share of the score is too much already. Less is no reward: a camera on the hand shows
/// by its background where the hand is, so that frames keep an order when all else is painted over, at scores near 0.
const REWARDED: f64 = 0.2;
/// Frames of each label that a verdict on the background needs: with 50, the share of the ranking that is left has a standard
/// error of about 0.1 (Hanley and McNeil, at an AUC of 0.75).
const BACKGROUND_FRAMES: usize = 50;
/// A model that ranks worse than this suspects too much for its suspicions to be worth a note.
const TRUSTED: f64 = 0.9;
/// Near duplicates of training frames beyond this share make the data doubtful.
const MANY_NEAR: f64 = 0.2;

/// Everything that speaks for or against using the model.
pub(super) fn verdict(audit: &Audit, min_detection: f64, whole_episodes: bool) -> Verdict {
    let mut verdict = Verdict::default();
    ranking(&mut verdict, audit);
    guarantee(&mut verdict, audit, whole_episodes);
    detection(&mut verdict, audit, min_detection);
    leakage(&mut verdict, audit);
    background_reliance(&mut verdict, audit);
    calibration(&mut verdict, audit);
    fragility(&mut verdict, audit);
    slices(&mut verdict, audit);
    verdict
}

/// Whether the background decides: by what is left of the ranking when nothing else is seen, where it is known what
/// pixels show; else by where the squares lie that matter.
pub(super) fn background(
    stress: &[StressResult],
    known_by: RegionSource,
    saliency: &[Saliency],
    frames_of_each_label: usize,
) -> Background {
    let auc = |name: &str| stress.iter().find(|one| one.name == name).and_then(|one| one.auc);
    let kept = match known_by {
        RegionSource::Simulator => auc("background alone"),
        RegionSource::MedianImage => auc("what stands still alone"),
    };
    let ranking = auc("undisturbed").zip(kept).filter(|(all, _)| *all > 0.6);
    let ranking_from_background = ranking.map(|(all, kept)| (kept - 0.5) / (all - 0.5));
    let score =
        |name: &str| stress.iter().find(|one| one.name == name).and_then(|one| one.score_of_successes);
    let alone = match known_by {
        RegionSource::Simulator => score("background alone"),
        RegionSource::MedianImage => score("what stands still alone"),
    };
    let score_from_background =
        score("undisturbed").zip(alone).filter(|(all, _)| *all > 0.0).map(|(all, alone)| alone / all);
    let mean = |of: fn(&Saliency) -> f64| saliency.iter().map(of).sum::<f64>() / saliency.len().max(1) as f64;
    let on_still = mean(|one| one.on_still_squares);
    let enough_frames = frames_of_each_label >= BACKGROUND_FRAMES;
    let looks = match known_by {
        RegionSource::Simulator => score_from_background.is_some_and(|score| {
            let ranks = ranking_from_background.is_some_and(|share| share >= DECIDES);
            score >= DECIDES || (ranks && score >= REWARDED)
        }),
        RegionSource::MedianImage => on_still >= DECIDES && on_still > mean(|one| one.still_squares),
    };
    Background {
        looks_at_background: looks && enough_frames,
        frames_of_each_label,
        enough_frames,
        ranking_from_background,
        score_from_background,
        saliency_on_still_squares: on_still,
    }
}

fn ranking(verdict: &mut Verdict, audit: &Audit) {
    match audit.auc {
        None => {
            let what = "all frames have one label, so that nothing can be ranked".to_string();
            verdict.add(Severity::Fatal, "one_class", what, "audit on episodes with successes and failures");
        }
        Some(Interval { value, low, .. }) if low <= 0.5 => {
            let what = format!("its ranking (AUC {value:.3}) may be no better than chance");
            verdict.add(
                Severity::Fatal,
                "chance",
                what,
                "train longer, on more episodes, or through another camera",
            );
        }
        Some(_) => {}
    }
}

fn guarantee(verdict: &mut Verdict, audit: &Audit, whole_episodes: bool) {
    if let Some(why) = &audit.operating.refused {
        let (what, hint) = why.split_once(": ").unwrap_or((why, ""));
        let hint = match audit.in_episodes {
            true => hint.to_string(),
            false => {
                "this data does not say which frames are of one episode: audit on the episodes themselves"
                    .into()
            }
        };
        verdict.add(Severity::Fatal, "no_guarantee", what.into(), hint);
    } else if !whole_episodes {
        let what =
            "not every frame of the episodes is in this data, so the guarantee is about those that are"
                .into();
        verdict.add(Severity::Warning, "sampled", what, "audit on whole episodes");
    }
}

fn detection(verdict: &mut Verdict, audit: &Audit, min_detection: f64) {
    let (timing, success) = (&audit.timing, audit.operating.rewarded_success);
    if success.episodes == 0 {
        return;
    }
    let share = success.rewarded_episodes as f64 / success.episodes as f64;
    if share < min_detection {
        let what = format!(
            "at the threshold {:.4} it detects {} of {} successful episodes: a policy would hardly ever be rewarded",
            audit.operating.threshold, success.rewarded_episodes, success.episodes
        );
        let hint = "allow more false alarms, or train a better model (see the worst mistakes)";
        verdict.add(Severity::Fatal, "blind", what, hint);
    } else if timing.held.is_some_and(|held| held < HELD) {
        let what =
            format!("it holds on to success in {} of its frames only", percent(timing.held.unwrap_or(0.0)));
        verdict.add(
            Severity::Warning,
            "flickers",
            what,
            "reward with hysteresis, or only the ends of episodes",
        );
    }
}

fn leakage(verdict: &mut Verdict, audit: &Audit) {
    let hint = "audit on episodes that were collected apart, with another seed";
    match &audit.shared_with_training {
        SharedWithTraining::Everything => {
            let what = "this is the very data that the model learned from".into();
            verdict.add(Severity::Fatal, "leak", what, hint);
        }
        SharedWithTraining::SamePlace { path } => {
            let what = format!("its training frames were picked from {path} itself");
            verdict.add(Severity::Fatal, "leak", what, hint);
        }
        SharedWithTraining::Validation => {
            let what =
                "this is the data that the model was chosen on: numbers look a little better than they are";
            verdict.add(Severity::Warning, "validation", what.into(), hint);
        }
        SharedWithTraining::Compared(found) => duplicates(verdict, found, hint),
        SharedWithTraining::Unknown => {
            let what =
                "the training data of the model is not there, so it was not searched for the same frames"
                    .into();
            verdict.add(Severity::Note, "not_compared", what, "give the data that it was trained on");
        }
    }
}

fn duplicates(verdict: &mut Verdict, found: &Leakage, hint: &str) {
    let Leakage { exact_duplicates, near_duplicates, val_images, .. } = *found;
    if exact_duplicates > 0 {
        let what =
            format!("{exact_duplicates} of {val_images} frames are among those the model learned from");
        verdict.add(Severity::Fatal, "leak", what, hint);
    } else if near_duplicates as f64 > MANY_NEAR * val_images as f64 {
        let what =
            format!("{near_duplicates} of {val_images} frames look like one that the model learned from");
        let hint = "a fixed camera over a fixed table gives many alike; look whether episodes are";
        verdict.add(Severity::Note, "near_duplicates", what, hint);
    }
}

fn background_reliance(verdict: &mut Verdict, audit: &Audit) {
    let Background {
        looks_at_background,
        frames_of_each_label,
        enough_frames,
        ranking_from_background,
        score_from_background,
        saliency_on_still_squares,
    } = audit.background;
    if !enough_frames {
        let what = format!(
            "whether it looks at the background is not known: that takes {BACKGROUND_FRAMES} frames of each label, and \
             {frames_of_each_label} were tried"
        );
        verdict.add(Severity::Note, "background_unknown", what, "audit on more frames");
    }
    if !looks_at_background {
        return;
    }
    let what = match (audit.regions_known_by, score_from_background) {
        (RegionSource::Simulator, Some(score)) => format!(
            "it looks at the background: with robot, cube and goal painted over, successes keep {} of their score, and it keeps {} \
             of its ranking",
            percent(score),
            percent(ranking_from_background.unwrap_or(0.0))
        ),
        _ => format!(
            "it looks at the background: {} of what matters to it lies where hardly anything moves",
            percent(saliency_on_still_squares)
        ),
    };
    let hint =
        "collect with changing light and surroundings, and look what differs between successes and failures";
    verdict.add(Severity::Fatal, "background", what, hint);
}

fn calibration(verdict: &mut Verdict, audit: &Audit) {
    let after = audit.calibration.after.ece;
    if after > MISCALIBRATED {
        let what =
            format!("its scores are off by {} on average, even at the best temperature", percent(after));
        let hint = "reward by the decision, not by the score";
        verdict.add(Severity::Warning, "miscalibrated", what, hint);
    }
    let trusted = audit.auc.is_some_and(|auc| auc.value >= TRUSTED);
    if trusted && !audit.suspected_labels.is_empty() {
        let what = format!("{} runs of frames may be labelled wrongly", audit.suspected_labels.len());
        verdict.add(Severity::Note, "labels", what, "look at them on the page");
    }
}

fn fragility(verdict: &mut Verdict, audit: &Audit) {
    let harmless =
        |one: &&StressResult| !["covered", "alone", "undisturbed"].iter().any(|word| one.name.contains(word));
    let fragile: Vec<String> = audit
        .stress
        .iter()
        .filter(harmless)
        .filter(|one| one.flips > FRAGILE)
        .map(|one| format!("{} ({})", one.name, percent(one.flips)))
        .collect();
    if !fragile.is_empty() {
        let what = format!("decisions change when images are {}", fragile.join(", "));
        verdict.add(
            Severity::Warning,
            "fragile",
            what,
            "train with augmented images, and keep camera and light fixed",
        );
    }
}

fn slices(verdict: &mut Verdict, audit: &Audit) {
    let Some(Interval { value, .. }) = audit.auc else { return };
    let all = audit.slices.by_length.iter().chain(&audit.slices.by_data);
    for slice in all.filter(|slice| slice.auc.is_some_and(|auc| auc < value - WORSE)) {
        let what = format!("on {} it ranks worse (AUC {:.3})", slice.name, slice.auc.unwrap_or(0.0));
        verdict.add(Severity::Warning, "slice", what, "train on more episodes like these");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stressed(name: &str, score_of_successes: f64, auc: f64) -> StressResult {
        StressResult {
            name: name.into(),
            frames: 100,
            flips: 0.0,
            score_of_successes: Some(score_of_successes),
            drop_on_successes: None,
            rise_on_failures: None,
            auc: Some(auc),
        }
    }

    fn found(score: f64, auc: f64, frames_of_each_label: usize) -> Background {
        let stress = [stressed("undisturbed", 0.8, 0.98), stressed("background alone", score, auc)];
        background(&stress, RegionSource::Simulator, &[], frames_of_each_label)
    }

    #[test]
    fn a_model_looks_at_the_background_if_that_alone_is_rewarded() {
        assert!(found(0.7, 0.9, 100).looks_at_background, "score and ranking are left");
        assert!(found(0.9, 0.5, 100).looks_at_background, "an empty scene counts as success");
        assert!(found(0.2, 0.8, 100).looks_at_background, "a quarter of the score, and half of the ranking");
        assert!(!found(0.02, 0.8, 100).looks_at_background, "an order among scores near 0 is no reward");
        assert!(!found(0.2, 0.6, 100).looks_at_background);
        let Background { ranking_from_background, score_from_background, .. } = found(0.2, 0.74, 100);
        assert!((ranking_from_background.unwrap() - 0.5).abs() < 1e-12);
        assert!((score_from_background.unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn fewer_than_fifty_frames_of_each_label_give_no_verdict_on_the_background() {
        let few = found(0.7, 0.9, BACKGROUND_FRAMES - 1);
        assert!(!few.looks_at_background && !few.enough_frames);
        let enough = found(0.7, 0.9, BACKGROUND_FRAMES);
        assert!(enough.looks_at_background && enough.enough_frames);
    }
}
