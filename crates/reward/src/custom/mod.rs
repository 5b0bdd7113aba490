//! Reward models of one's own making: an image network as ONNX, or a function in Python.
//!
//! Both look at the frames of cameras and give each a number, so that everything that is asked of plaudit's own image classifiers
//! can be asked of them, but for what needs their weights: they are not trained here. What such a model does not say of itself
//! (which cameras, what its number means, from which score on it is success) stands in a [`CustomCard`], a JSON file beside it.

mod card;
mod error;
mod onnx;
mod output;
#[cfg_attr(not(target_os = "linux"), path = "python_unsupported.rs")]
mod python;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_nn::classifier::{ClassifierError, Scorer};
use plaudit_nn::images::ImageBatch;

pub use self::card::{CustomCard, InputLayout};
pub use self::error::CustomModelError;
pub use self::onnx::OnnxScorer;
pub use self::output::OutputMeaning;
pub use self::python::PythonScorer;

/// What a model without a name for its camera sees.
pub const MAIN_VIEW: &str = "main_images";

/// What gives images their logits: a network of ours, or a model of another making.
pub trait ImageScorer: Send + Sync {
    /// The logit of each image, or of each time step if there are several cameras.
    ///
    /// # Errors
    /// When the images do not fit the model, or it fails.
    fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError>;

    /// The network, where its features and what it says of progress can be asked for as well.
    fn network(&self) -> Option<&Scorer> {
        None
    }
}

impl ImageScorer for Scorer {
    fn logits(&self, images: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        Scorer::logits(self, images)
    }

    fn network(&self) -> Option<&Scorer> {
        Some(self)
    }
}

/// Where a model of one's own making is. Nothing is opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomLocation {
    /// An ONNX file.
    Onnx(PathBuf),
    /// A function in a file of Python: `my_reward.py:score`.
    Python(PythonFunction),
}

/// A function in a file of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonFunction {
    /// The file.
    pub file: PathBuf,
    /// The name of the function; empty where nobody gave one.
    pub name: String,
}

impl CustomLocation {
    /// What a path means, if it means such a model: `model.onnx`, or `my_reward.py:score`.
    #[must_use]
    pub fn find(at: &Path) -> Option<Self> {
        let text = at.to_str()?;
        if has_ending(at, "onnx") {
            return Some(Self::Onnx(at.into()));
        }
        let (file, name) = text.rsplit_once(':').unwrap_or((text, ""));
        let file = Path::new(file);
        has_ending(file, "py").then(|| Self::Python(PythonFunction { file: file.into(), name: name.into() }))
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &Path {
        match self {
            Self::Onnx(file) | Self::Python(PythonFunction { file, .. }) => file,
        }
    }

    /// The file beside it that says what it does not say itself: `model.json`, or `my_reward.score.json`.
    #[must_use]
    pub fn card_file(&self) -> PathBuf {
        match self {
            Self::Onnx(file) => file.with_extension("json"),
            Self::Python(PythonFunction { file, name }) => file.with_extension(format!("{name}.json")),
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Onnx(_) => "an ONNX model",
            Self::Python(_) => "a Python function",
        }
    }
}

impl fmt::Display for CustomLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Onnx(file) => write!(f, "{}", file.display()),
            Self::Python(PythonFunction { file, name }) => write!(f, "{}:{name}", file.display()),
        }
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending) && path.file_stem().is_some()
}

/// A model of one's own making, ready to score.
#[derive(Clone)]
pub struct CustomModel {
    /// Where it is.
    pub location: CustomLocation,
    /// What is known of it.
    pub card: CustomCard,
    /// Height and width that it brings images to; none where it takes them as they are.
    pub image_size: Option<[usize; 2]>,
    /// What had to be assumed about it, in words.
    pub assumed: Option<String>,
    /// What scores.
    pub scorer: Arc<dyn ImageScorer>,
}

impl fmt::Debug for CustomModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomModel").field("location", &self.location).field("card", &self.card).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_they_are() {
        let find = |text: &str| CustomLocation::find(Path::new(text));
        assert_eq!(find("a/model.onnx"), Some(CustomLocation::Onnx("a/model.onnx".into())));
        for (text, file, name) in [
            ("my_reward.py:score", "my_reward.py", "score"),
            ("a:b/my.py:score", "a:b/my.py", "score"),
            ("my_reward.py", "my_reward.py", ""),
        ] {
            let function = PythonFunction { file: file.into(), name: name.into() };
            assert_eq!(find(text), Some(CustomLocation::Python(function)), "{text}");
        }
        for text in ["best_model", "model.safetensors", "http://a/model.py:9", "a:b", ".py:f", "onnx"] {
            let is_address = text.contains("://");
            assert!(is_address || find(text).is_none(), "{text}");
        }
        let beside = |text: &str| find(text).unwrap().card_file();
        assert_eq!(beside("a/model.onnx"), Path::new("a/model.json"));
        assert_eq!(beside("a/my.py:score"), Path::new("a/my.score.json"));
    }
}
