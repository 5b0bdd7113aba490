//! What is known of a model of one's own making, as JSON beside it. Its author writes what the model itself does not say; an audit
//! adds what it found.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;

use plaudit_pyfiles::AtomicFile;
use serde::{Deserialize, Serialize};

use super::error::CustomModelError;
use super::{CustomLocation, MAIN_VIEW, OutputMeaning};
use crate::audit::Guarantee;
use crate::card::KnownOfModel;
use crate::dataset::ViewKey;
use crate::shaping::StateConditions;

/// Bytes of a card: far more than anybody writes.
const MOST_BYTES: u64 = 1 << 20;
/// Rows and columns of the images of a model.
const SIDES: RangeInclusive<usize> = 1..=8192;

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomCard {
    /// The cameras that it looks through, in order. Not set: the main view.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_keys: Vec<String>,
    /// What its number means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputMeaning>,
    /// Scores above this mean success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// What logits are divided by before they become scores. Not set: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// What an audit promises about the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// Conditions on the state that success needs beside a score above the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<StateConditions>,
    /// Python: seconds that one call may take. Not set: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<f64>,
    /// ONNX, of several classes: the one that is success. Not set: the second of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_class: Option<usize>,
    /// ONNX, of several outputs: the one that is the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_name: Option<String>,
    /// ONNX: the input of each camera. Not set: by its name, or else in the order of the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// ONNX: the order of the axes, where the file leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<InputLayout>,
    /// ONNX: height and width that images are resized to, where the file leaves it open. Not set: as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<[usize; 2]>,
    /// ONNX: what is taken off each colour, of pixels from 0 to 1. Not set: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<[f32; 3]>,
    /// ONNX: what each colour is divided by then. Not set: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std: Option<[f32; 3]>,
}

impl<'a> From<&'a CustomCard> for KnownOfModel<'a> {
    fn from(card: &'a CustomCard) -> Self {
        Self {
            threshold: card.threshold,
            temperature: card.temperature(),
            fits_temperature: true,
            conditions: card.conditions.as_ref(),
            dataset: None,
        }
    }
}

/// The order of the axes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputLayout {
    /// Colours before rows and columns, as PyTorch has it.
    #[serde(rename = "NCHW")]
    Nchw,
    /// Colours last.
    #[serde(rename = "NHWC")]
    Nhwc,
}

impl CustomCard {
    /// The card beside a model; an empty one where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or says something that makes no sense.
    pub fn beside(location: &CustomLocation) -> Result<Self, CustomModelError> {
        let path = location.card_file();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(CustomModelError::Io { path, source }),
        };
        let mut text = String::new();
        let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
        read.map_err(|source| CustomModelError::Io { path: path.clone(), source })?;
        if text.len() as u64 > MOST_BYTES {
            return Err(CustomModelError::card(&path, format!("it is longer than {MOST_BYTES} bytes")));
        }
        let card: Self = serde_json::from_str(&text).map_err(|error| CustomModelError::card(&path, error))?;
        card.check(location).map_err(|why| CustomModelError::card(&path, why))?;
        Ok(card)
    }

    /// The cameras, with the main view where none is named.
    #[must_use]
    pub fn views(&self) -> Vec<String> {
        match &self.image_keys[..] {
            [] => vec![MAIN_VIEW.into()],
            keys => keys.to_vec(),
        }
    }

    /// What logits are divided by before they become scores.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(1.0)
    }

    /// Writes it beside a model.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, location: &CustomLocation) -> Result<(), CustomModelError> {
        let path = location.card_file();
        let text =
            serde_json::to_string_pretty(self).map_err(|error| CustomModelError::card(&path, error))?;
        AtomicFile::write(&path, [text.as_bytes(), b"\n"])
            .map_err(|source| CustomModelError::Io { path, source })
    }

    fn check(&self, location: &CustomLocation) -> Result<(), String> {
        let positive = |key: &str, value: Option<f64>| match value {
            Some(value) if !(value.is_finite() && value > 0.0) => {
                Err(format!("`{key}` is {value}; it must be above 0"))
            }
            _ => Ok(()),
        };
        positive("temperature", self.temperature)?;
        positive("timeout_secs", self.timeout_secs)?;
        if self.timeout_secs.is_some_and(|secs| std::time::Duration::try_from_secs_f64(secs).is_err()) {
            return Err("`timeout_secs` is too large".into());
        }
        if let Some(threshold) = self.threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
            return Err(format!("`threshold` is {threshold}; it is compared with scores, from 0 to 1"));
        }
        for key in &self.image_keys {
            key.parse::<ViewKey>().map_err(|error| format!("`image_keys`: {error}"))?;
        }
        match location {
            CustomLocation::Python(_) => self.check_python(),
            CustomLocation::Onnx(_) => self.check_onnx(),
        }
    }

    fn check_python(&self) -> Result<(), String> {
        let of_onnx = [
            ("success_class", self.success_class.is_some()),
            ("output_name", self.output_name.is_some()),
            ("inputs", !self.inputs.is_empty()),
            ("layout", self.layout.is_some()),
            ("image_size", self.image_size.is_some()),
            ("mean", self.mean.is_some()),
            ("std", self.std.is_some()),
        ];
        if let Some((key, _)) = of_onnx.iter().find(|(_, given)| *given) {
            let why = "a function sees the bytes of images as they are, and gives a number for each";
            return Err(format!("`{key}` means nothing for a Python function: {why}"));
        }
        match self.output {
            Some(OutputMeaning::ClassLogits | OutputMeaning::ClassProbabilities) => {
                Err("`output` of a Python function is `probability` or `logit`: one number for each image"
                    .into())
            }
            Some(OutputMeaning::Probability | OutputMeaning::Logit) | None => Ok(()),
        }
    }

    fn check_onnx(&self) -> Result<(), String> {
        if self.timeout_secs.is_some() {
            return Err("`timeout_secs` means nothing for an ONNX model: it is of Python functions".into());
        }
        if let Some(size) = self.image_size.filter(|size| size.iter().any(|side| !SIDES.contains(side))) {
            return Err(format!("`image_size` is {size:?}; it is height and width, up to {}", SIDES.end()));
        }
        let numbers = self.mean.iter().chain(&self.std).flatten();
        if numbers.clone().any(|number| !number.is_finite()) {
            return Err("`mean` and `std` are three finite numbers each".into());
        }
        match self.std {
            Some(std) if std.iter().any(|number| *number <= 0.0) => Err("`std` must be above 0".into()),
            _ => Ok(()),
        }
    }
}
