//! What a reward model says about itself, in the header of its file.
//!
//! plaudit's own checkpoints are safetensors whose header holds, besides the tensors' places, everything needed to use
//! the model and to know where it came from: the network's settings, how images are prepared, the threshold, what it
//! was trained on and how well it did. All of it is JSON, so any program that reads safetensors can read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plaudit_nn::classifier::ClassifierSettings;
use plaudit_nn::{Weights, WeightsError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::audit::Guarantee;
use crate::dataset::{ClassBalance, Manifest};
use crate::hacking_monitor::SuccessFeatures;
use crate::metrics::Metrics;
use crate::shaping::StateConditions;

/// What the header calls the file.
const FORMAT: &str = "plaudit reward model";
/// The newest version of the header that this code reads.
const VERSION: u32 = 2;
/// The version of a header without a temperature: scores are then the same for older readers.
const WITHOUT_TEMPERATURE: u32 = 1;

/// What is known of a reward model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCard {
    /// The network.
    pub settings: ClassifierSettings,
    /// Scores above this mean success, by what validation or an audit found best.
    pub threshold: Option<f64>,
    /// What logits are divided by before they become scores, as an audit found it honest. Not set: 1.
    pub temperature: Option<f64>,
    /// What an audit promises about the threshold.
    pub guarantee: Option<Guarantee>,
    /// What successes look like to it, as an audit found it; the hacking monitor compares with that.
    pub success_features: Option<SuccessFeatures>,
    /// Conditions on the state that success needs beside a score above the threshold: it learned from no other states.
    pub conditions: Option<StateConditions>,
    /// How many frames of each label it was trained on.
    pub class_balance: Option<ClassBalance>,
    /// What it was trained and validated on.
    pub dataset: Option<Manifest>,
    /// How well it did on the validation part.
    pub metrics: Option<Metrics>,
    /// Steps of the optimiser.
    pub step: u64,
}

/// What must be known of an image model to go by its scores, whatever its making.
#[derive(Clone, Copy, Debug)]
pub struct KnownOfModel<'a> {
    /// Scores above this mean success.
    pub threshold: Option<f64>,
    /// What logits are divided by before they become scores.
    pub temperature: f64,
    /// Whether scores are probabilities, which a temperature can make honest; progress is none.
    pub fits_temperature: bool,
    /// Conditions on the state that success needs beside a score above the threshold.
    pub conditions: Option<&'a StateConditions>,
    /// What it was trained and validated on.
    pub dataset: Option<&'a Manifest>,
}

impl<'a> From<&'a ModelCard> for KnownOfModel<'a> {
    fn from(card: &'a ModelCard) -> Self {
        Self {
            threshold: card.threshold,
            temperature: card.temperature(),
            fits_temperature: card.settings.bins().is_none(),
            conditions: card.conditions.as_ref(),
            dataset: card.dataset.as_ref(),
        }
    }
}

/// How images become numbers, for programs that do not know plaudit.
#[derive(Serialize, Deserialize)]
struct Preprocessing {
    scale: f64,
    resize: [usize; 2],
    interpolation: String,
    mean: [f64; 3],
    std: [f64; 3],
}

impl Preprocessing {
    fn of(settings: &ClassifierSettings) -> Self {
        let [_, height, width] = settings.image_size;
        let (mean, std) = match settings.normalize {
            true => ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            false => ([0.0; 3], [1.0; 3]),
        };
        let interpolation = "bilinear, align_corners false, no antialias".into();
        Self { scale: 1.0 / 255.0, resize: [height, width], interpolation, mean, std }
    }
}

/// A header that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// The file cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A newer plaudit wrote it.
    #[error("its header is of version {found}, and this plaudit reads up to {VERSION}; use a newer plaudit")]
    Version {
        /// Its version.
        found: String,
    },
    /// An entry that makes no sense.
    #[error("`{key}` in its header: {why}; the file was changed by another program")]
    Entry {
        /// The entry.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl ModelCard {
    /// A model of which only the network is known.
    #[must_use]
    pub fn of(settings: ClassifierSettings) -> Self {
        Self {
            settings,
            threshold: None,
            temperature: None,
            guarantee: None,
            success_features: None,
            conditions: None,
            class_balance: None,
            dataset: None,
            metrics: None,
            step: 0,
        }
    }

    /// The header of a file.
    #[must_use]
    pub fn header(&self) -> BTreeMap<String, String> {
        let mut header: BTreeMap<String, String> = [
            ("format", FORMAT.to_string()),
            ("version", self.temperature.map_or(WITHOUT_TEMPERATURE, |_| VERSION).to_string()),
            ("step", self.step.to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into();
        put(&mut header, "settings", Some(&self.settings));
        put(&mut header, "preprocessing", Some(&Preprocessing::of(&self.settings)));
        put(&mut header, "threshold", self.threshold.as_ref());
        put(&mut header, "temperature", self.temperature.as_ref());
        put(&mut header, "guarantee", self.guarantee.as_ref());
        put(&mut header, "success_features", self.success_features.as_ref());
        put(&mut header, "conditions", self.conditions.as_ref());
        put(&mut header, "class_balance", self.class_balance.as_ref());
        put(&mut header, "dataset", self.dataset.as_ref());
        put(&mut header, "metrics", self.metrics.as_ref());
        header
    }

    /// From the header of a file; `None` of one that plaudit did not write.
    ///
    /// # Errors
    /// When it is of a newer version or makes no sense.
    pub fn from_header(header: &BTreeMap<String, String>) -> Result<Option<Self>, CardError> {
        if header.get("format").map(String::as_str) != Some(FORMAT) {
            return Ok(None);
        }
        let version = header.get("version").map_or("", String::as_str);
        if version.parse::<u32>().is_err() || version.parse().is_ok_and(|version: u32| version > VERSION) {
            return Err(CardError::Version { found: version.into() });
        }
        let missing = CardError::Entry { key: "settings", why: "it is not there".into() };
        Ok(Some(Self {
            settings: take(header, "settings")?.ok_or(missing)?,
            threshold: take(header, "threshold")?,
            temperature: temperature(header)?,
            guarantee: take(header, "guarantee")?,
            success_features: take(header, "success_features")?,
            conditions: take(header, "conditions")?,
            class_balance: take(header, "class_balance")?,
            dataset: take(header, "dataset")?,
            metrics: take(header, "metrics")?,
            step: take(header, "step")?.unwrap_or(0),
        }))
    }

    /// What logits are divided by before they become scores.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(1.0)
    }

    /// Writes this card into the header of a file that has one, in place of the old one. The file is replaced as a
    /// whole; its tensors, and what else its header says, stay as they are.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn replace_in(&self, file: &Path) -> Result<(), WeightsError> {
        let weights = Weights::read(file)?;
        let mut header = weights.metadata().clone();
        header.extend(self.header());
        weights.write_safetensors(file, &header)
    }

    /// Writes a model with this card as `model.safetensors`, and as RLinf has it in
    /// `actor/model_state_dict/full_weights.pt`, into a folder that is there.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, weights: &Weights, folder: &Path) -> Result<PathBuf, WeightsError> {
        let dict = folder.join("actor/model_state_dict");
        std::fs::create_dir_all(&dict).map_err(|source| WeightsError::Io { file: dict.clone(), source })?;
        weights.write_pt(dict.join("full_weights.pt"))?;
        let file = folder.join("model.safetensors");
        weights.write_safetensors(&file, &self.header())?;
        Ok(file)
    }
}

fn put(header: &mut BTreeMap<String, String>, key: &str, value: Option<&impl Serialize>) {
    if let Some(text) = value.and_then(|value| serde_json::to_string(value).ok()) {
        header.insert(key.into(), text);
    }
}

fn take<T: DeserializeOwned>(
    header: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<T>, CardError> {
    let Some(text) = header.get(key) else { return Ok(None) };
    let wrong = |error: serde_json::Error| CardError::Entry { key, why: error.to_string() };
    serde_json::from_str(text).map(Some).map_err(wrong)
}

/// A temperature that divides.
fn temperature(header: &BTreeMap<String, String>) -> Result<Option<f64>, CardError> {
    let found: Option<f64> = take(header, "temperature")?;
    match found {
        Some(found) if !(found.is_finite() && found > 0.0) => {
            Err(CardError::Entry { key: "temperature", why: format!("{found} is no temperature above 0") })
        }
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back_from_its_header() {
        let card = ModelCard {
            threshold: Some(0.1 + 0.2),
            temperature: Some(1.75),
            conditions: Some(StateConditions { guards: vec!["abs(state[0]) < 0.2".into()], state_width: 3 }),
            class_balance: Some(ClassBalance { successes: 3, failures: 4 }),
            metrics: Some(Metrics::of(&[0.2, 0.9], &[false, true], 0.5)),
            step: 70,
            ..ModelCard::of(ClassifierSettings::default())
        };
        assert_eq!(ModelCard::from_header(&card.header()).unwrap(), Some(card.clone()));
        assert!(card.header()["preprocessing"].contains("0.485"));
        assert_eq!(ModelCard::from_header(&BTreeMap::new()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let good = ModelCard::of(ClassifierSettings::default()).header();
        let with = |key: &str, value: &str| {
            let mut header = good.clone();
            header.insert(key.into(), value.into());
            ModelCard::from_header(&header).unwrap_err().to_string()
        };
        assert!(with("temperature", "0.0").contains("above 0"));
        assert!(with("version", "9").contains("version 9"));
        assert!(with("settings", "{\"arch\":\"resnet9\"}").contains("resnet9"));
        assert!(with("threshold", "high").contains("`threshold`"));
    }

    #[test]
    fn a_new_card_leaves_the_tensors_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        let mut weights = Weights::new();
        weights.insert_f32("a", &[3], &[1.0, f32::MIN_POSITIVE, -0.0]);
        let card = ModelCard::of(ClassifierSettings::default());
        let mut header = card.header();
        header.insert("note".into(), "mine".into());
        weights.write_safetensors(&file, &header).unwrap();
        ModelCard { temperature: Some(2.0), threshold: Some(0.9), ..card }.replace_in(&file).unwrap();
        let read = Weights::read(&file).unwrap();
        let bits = |weights: &Weights| weights.get("a").unwrap().bytes().to_vec();
        assert_eq!(bits(&read), bits(&weights));
        assert_eq!(read.metadata()["note"], "mine");
        let card = ModelCard::from_header(read.metadata()).unwrap().unwrap();
        assert_eq!((card.temperature(), card.threshold), (2.0, Some(0.9)));
        assert_eq!(
            read.metadata()["version"],
            "2",
            "a reader that knows no temperature must not score with it"
        );
    }
}
