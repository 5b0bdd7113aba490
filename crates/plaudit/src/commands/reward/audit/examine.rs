//! From a model and data to everything an audit says.

use std::path::Path;
use std::time::Duration;

use plaudit_core::Seed;
use plaudit_nn::classifier::Scorer;
use plaudit_reward::audit::{
    Backdrop, Guarantee, JudgedEpisode, Saliency, Slice, StressTest, Stressed, SuspectedLabel, Verdict,
    alarms, by_length, calibrate, false_alarm_bound, guaranteed_threshold, judged, latency, logits,
    over_episodes, precision_over_episodes, roc_over_episodes, saliency, sample, scores_over_time,
    suspected_labels, timing,
};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::{Batch, Frames};
use plaudit_reward::metrics::{Metrics, average_precision, best_threshold, roc_auc};
use plaudit_reward::pictures::{Mistake, Mistakes, Png};
use plaudit_reward::watch::KnownSuccesses;

use super::super::data::Reading;
use super::super::eval::unfit;
use super::AuditCommand;
use super::judge::{background, verdict};
use super::regions::Redrawn;
use super::result::{Alarms, Audit, Chosen, Operating, Slices, Stored, Timed, at_temperature};
use super::training_data::SharedWithTraining;
use crate::failure::Failure;
use crate::memory::peak_of;
use crate::progress::{Doing, ProgressBar};

/// Frames scored at a time.
const BATCH: usize = 256;
/// Draws behind an interval, and behind the band of a curve.
const RESAMPLES: u64 = 500;
const BAND_RESAMPLES: u64 = 200;
/// Mistakes of each kind, and suspected labels, that are shown.
const SHOWN: usize = 20;
/// Successes that the checkpoint remembers the looks of.
const KNOWN_FRAMES: usize = 1000;
/// Frames of each label in which squares are covered.
const SALIENCY_FRAMES: usize = 16;
/// Batch sizes that are timed, and for about how long each.
const TIMED: [usize; 2] = [1, 128];
const TIMED_FOR: Duration = Duration::from_secs(1);

/// An audit about to be made.
pub(super) struct Examination<'a> {
    pub(super) asked: &'a AuditCommand,
    pub(super) file: &'a Path,
    pub(super) card: &'a ModelCard,
    pub(super) scorer: &'a Scorer,
    pub(super) frames: &'a Frames,
    pub(super) bar: &'a ProgressBar,
}

/// Pictures for the page, each with words.
#[derive(Default)]
pub(super) struct Pictures {
    pub(super) false_positives: Vec<(Png, String)>,
    pub(super) false_negatives: Vec<(Png, String)>,
    pub(super) suspected: Vec<(Png, String)>,
    pub(super) saliency: Vec<(Png, String)>,
}

impl Examination<'_> {
    pub(super) fn run(&self) -> Result<(Audit, Pictures), Failure> {
        let raw = self.logits()?;
        let seed = Seed::new(self.asked.seed).purpose("audit");
        let calibration = calibrate(&judged(self.frames, &raw), seed);
        let temperature = calibration.temperature.unwrap_or(1.0);
        let tempered: Vec<f64> = raw.iter().map(|logit| logit / temperature).collect();
        let episodes = judged(self.frames, &tempered);
        let scores: Vec<f64> = tempered.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect();
        let truth = self.frames.labels();
        let operating = self.operating(&episodes, (&scores, &truth), temperature);
        let threshold = operating.threshold;

        self.doing("resampling episodes", "steps", 0, 4);
        let interval =
            |number: fn(&[f64], &[bool]) -> Option<f64>| over_episodes(&episodes, RESAMPLES, seed, number);
        let auc = interval(roc_auc);
        self.doing("resampling episodes", "steps", 1, 4);
        let average_precision = interval(average_precision);
        self.doing("resampling episodes", "steps", 2, 4);
        let roc = roc_over_episodes(&episodes, BAND_RESAMPLES, seed);
        self.doing("resampling episodes", "steps", 3, 4);
        let precision_recall = precision_over_episodes(&episodes, BAND_RESAMPLES, seed);

        let shared_with_training = self.shared_with_training()?;
        let backdrop = Backdrop::of(self.frames);
        let redrawn = Redrawn::of(self.frames);
        let stressed = self.stress(&backdrop, redrawn.as_ref(), &operating)?;
        let saliency = self.saliency(&backdrop)?;
        let latency = self.latency()?;
        let suspected = suspected_labels(&episodes);
        let mistakes = Mistakes::worst(self.frames, &scores, threshold, SHOWN);
        let pictures = self.pictures(&mistakes, &suspected, &saliency);
        let mut audit = Audit {
            model: self.file.display().to_string(),
            data: self.asked.data.iter().map(|path| path.display().to_string()).collect(),
            passed: false,
            verdict: Verdict::default(),
            episodes: episodes.len(),
            in_episodes: self.frames.recordings().iter().all(|recording| recording.in_episodes),
            auc,
            average_precision,
            metrics: Metrics::of(&scores, &truth, threshold),
            calibration,
            roc,
            precision_recall,
            timing: timing(&episodes, threshold),
            scores_of_successes: scores_over_time(&episodes, true),
            scores_of_failures: scores_over_time(&episodes, false),
            mistakes,
            suspected_labels: suspected,
            shared_with_training,
            slices: Slices {
                by_length: by_length(&episodes, threshold),
                by_data: self.by_data(&episodes, threshold),
                by_camera: stressed.without_cameras,
            },
            background: background(&stressed.all, stressed.known_by, &saliency),
            stress: stressed.all,
            regions_known_by: stressed.known_by,
            saliency,
            latency,
            known_successes: self.known_successes()?,
            operating,
            stored: Stored::No { why: String::new() },
        };
        let whole = self.frames.recordings().iter().all(|recording| recording.has_past);
        audit.verdict = verdict(&audit, self.asked.min_detection, whole);
        audit.passed = audit.verdict.passed();
        Ok((audit, pictures))
    }

    fn doing(&self, what: &'static str, unit: &'static str, done: usize, total: usize) {
        self.bar.show(Doing { what, unit, done, total });
    }

    fn logits(&self) -> Result<Vec<f64>, Failure> {
        let heard = |done, total| self.doing("scoring", "frames", done, total);
        let found = logits(self.scorer, self.frames, BATCH, &heard);
        let found = found.map_err(|error| unfit(&self.asked.model, &error))?;
        if found.iter().all(|logit| logit.is_finite()) {
            return Ok(found);
        }
        let message =
            format!("{} gives scores that are no numbers; its weights are broken", self.file.display());
        Err(Failure::work(message, "give an earlier checkpoint".to_string()))
    }

    /// The threshold: with a promise if there can be one.
    fn operating(
        &self,
        episodes: &[JudgedEpisode],
        (scores, truth): (&[f64], &[bool]),
        temperature: f64,
    ) -> Operating {
        let AuditCommand { max_fpr, confidence, alarm, threshold: asked, .. } = *self.asked;
        let highest = alarms(episodes, alarm.into());
        let raised = |threshold: f64| highest.iter().filter(|score| **score > threshold).count();
        let bound = |threshold: f64| false_alarm_bound(raised(threshold), highest.len(), confidence);
        let own = self.card.threshold.map(|own| at_temperature(own, self.card.temperature(), temperature));
        let promised = match asked {
            // A threshold that was fixed beforehand needs no picking: what was seen bounds it.
            Some(threshold) => match bound(threshold) {
                bound if bound <= max_fpr => {
                    let (episodes, alarms) = (highest.len(), raised(threshold));
                    Ok(Guarantee { threshold, max_rate: max_fpr, confidence, episodes, alarms })
                }
                bound => Err(format!(
                    "at threshold {threshold}, {} of {} episodes raise a false alarm: that shows a rate of {bound:.4} at \
                     most, and {max_fpr} is asked for",
                    raised(threshold),
                    highest.len()
                )),
            },
            None => guaranteed_threshold(&highest, max_fpr, confidence).map_err(|error| error.to_string()),
        };
        let best = || best_threshold(scores, truth).unwrap_or(0.5);
        let (threshold, chosen) = match (&promised, asked, own) {
            (_, Some(asked), _) => (asked, Chosen::Asked),
            (Ok(promised), None, _) => (rounded_up(promised.threshold), Chosen::Guarantee),
            (Err(_), None, Some(own)) => (own, Chosen::Checkpoint),
            (Err(_), None, None) => (best(), Chosen::BestF1),
        };
        let guarantee = promised.as_ref().ok().map(|promised| Guarantee { threshold, ..*promised });
        Operating {
            threshold,
            temperature,
            alarm: alarm.into(),
            max_fpr,
            confidence,
            chosen,
            guarantee,
            refused: promised.err(),
            alarms: Alarms { episodes: highest.len(), raised: raised(threshold), bound: bound(threshold) },
        }
    }

    fn shared_with_training(&self) -> Result<SharedWithTraining, Failure> {
        let reading =
            Reading { views: self.frames.views().to_vec(), source: self.asked.source, bar: self.bar };
        SharedWithTraining::find(self.card, self.frames, &self.asked.train_data, &reading)
    }

    fn stress(
        &self,
        backdrop: &Backdrop,
        redrawn: Option<&Redrawn>,
        operating: &Operating,
    ) -> Result<StressedAll, Failure> {
        let regions = redrawn
            .map(|redrawn| move |number: usize, view: usize| redrawn.regions(self.frames, number, view));
        let test = StressTest {
            scorer: self.scorer,
            temperature: operating.temperature,
            threshold: operating.threshold,
            frames: self.frames,
            sample: sample(self.frames, self.asked.stress_frames.max(1)),
            backdrop,
            regions: regions.as_ref().map(|regions| regions as _),
        };
        let failed = |error| unfit(&self.asked.model, &error);
        let heard = |done, total| self.doing("disturbing pictures", "ways", done, total);
        let (all, known_by) = test.run(&heard).map_err(failed)?;
        let views = self.frames.views().len();
        let without = |view: usize| test.without_view(view).map_err(failed);
        let without_cameras = (0..views).map(without).collect::<Result<_, _>>()?;
        Ok(StressedAll { all, known_by, without_cameras })
    }

    fn saliency(&self, backdrop: &Backdrop) -> Result<Vec<Saliency>, Failure> {
        let looked_at = sample(self.frames, SALIENCY_FRAMES);
        let heard = |done, total| self.doing("covering squares", "squares", done, total);
        let of_view = |view: usize| {
            saliency(self.scorer, self.frames, &looked_at, (view, backdrop), &heard)
                .map_err(|error| unfit(&self.asked.model, &error))
        };
        (0..self.frames.views().len()).map(of_view).collect()
    }

    fn latency(&self) -> Result<Vec<Timed>, Failure> {
        let timed = |(done, batch): (usize, &usize)| {
            self.doing("timing answers", "batch sizes", done, TIMED.len());
            let (found, peak_bytes) = peak_of(|| latency(self.scorer, self.frames, *batch, TIMED_FOR));
            let latency = found.map_err(|error| unfit(&self.asked.model, &error))?;
            Ok(Timed { latency, peak_bytes })
        };
        TIMED.iter().enumerate().map(timed).collect()
    }

    /// What successes look like to the model, for watching later.
    fn known_successes(&self) -> Result<Option<KnownSuccesses>, Failure> {
        let all: Vec<usize> = (0..self.frames.len()).filter(|number| self.frames.success(*number)).collect();
        let step = all.len().div_ceil(KNOWN_FRAMES).max(1);
        let some: Vec<usize> = all.into_iter().step_by(step).collect();
        self.doing("learning successes", "frames", 0, some.len());
        let batches: Vec<Batch> = some.chunks(BATCH).map(|some| Batch::of(self.frames, some)).collect();
        let images = batches.iter().map(|batch| Ok(batch.images()?));
        KnownSuccesses::of(self.scorer, images).map_err(|error| unfit(&self.asked.model, &error))
    }

    /// Each of several datasets on its own.
    fn by_data(&self, episodes: &[JudgedEpisode], threshold: f64) -> Vec<Slice> {
        let mut rest = episodes.iter();
        let slice = |recording: &std::sync::Arc<plaudit_data::labelled::LabelledData>| {
            let these: Vec<&JudgedEpisode> = rest.by_ref().take(recording.episodes.len()).collect();
            Slice::of(recording.path.display().to_string(), &these, threshold)
        };
        self.frames.recordings().iter().map(slice).collect()
    }

    fn pictures(&self, mistakes: &Mistakes, suspected: &[SuspectedLabel], saliency: &[Saliency]) -> Pictures {
        let of_mistake = |mistake: &Mistake| {
            let words = format!("{} · frame {} · score {:.3}", mistake.episode, mistake.at, mistake.score);
            self.with_words(mistake.frame, &words)
        };
        let by_episode = self.frames.by_episode();
        let of_label = |one: &SuspectedLabel| {
            let label = if one.labelled_success { "success" } else { "failure" };
            let words = format!(
                "{} · frames {} to {} · labelled {label}, score {:.3}",
                one.episode, one.from, one.to, one.score
            );
            self.with_words(by_episode[one.episode_index][(one.from + one.to) / 2], &words)
        };
        let example = sample(self.frames, 1);
        let of_saliency = |(view, saliency): (usize, &Saliency)| {
            let number = example.first().copied().unwrap_or(0);
            let image = self.frames.image(number, view);
            let words = format!("{}, the brighter the more a square matters", saliency.view);
            let plain = (Png::of(image.shape(), &image.pixels()), format!("{}, a frame", saliency.view));
            [plain, (saliency.picture(image.shape(), &image.pixels()), words)]
        };
        Pictures {
            false_positives: mistakes.false_positives.iter().flat_map(of_mistake).collect(),
            false_negatives: mistakes.false_negatives.iter().flat_map(of_mistake).collect(),
            suspected: suspected.iter().take(SHOWN).flat_map(of_label).collect(),
            saliency: saliency.iter().enumerate().flat_map(of_saliency).collect(),
        }
    }

    /// Every view of a frame.
    fn with_words(&self, number: usize, words: &str) -> Vec<(Png, String)> {
        let views = self.frames.views();
        let of_view = |view: usize| {
            let image = self.frames.image(number, view);
            let camera = if views.len() > 1 { format!(" · {}", views[view]) } else { String::new() };
            (Png::of(image.shape(), &image.pixels()), format!("{words}{camera}"))
        };
        (0..views.len()).map(of_view).collect()
    }
}

/// What came of disturbing pictures.
struct StressedAll {
    all: Vec<Stressed>,
    known_by: plaudit_reward::audit::RegionSource,
    without_cameras: Vec<Stressed>,
}

/// The nearest number of 32 bits that is not lower: scores are compared in 32 bits, and a threshold that was rounded down
/// would promise more than it keeps.
fn rounded_up(threshold: f64) -> f64 {
    let near = threshold as f32;
    f64::from(if f64::from(near) < threshold { near.next_up() } else { near })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_never_rounded_down() {
        for threshold in [0.1, 0.5, 0.999_999_99, 1e-12, 1.0] {
            let found = rounded_up(threshold);
            assert!(found >= threshold && f64::from(found as f32) == found, "{threshold}: {found}");
            assert!(found - threshold < 1e-7);
        }
    }
}
