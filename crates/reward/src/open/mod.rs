//! The one door to reward models: what is at a path or an address, opened, with what it can do as data.
//!
//! ```no_run
//! use plaudit_reward::endpoint::ServerModel;
//! use plaudit_reward::open::{ModelLocation, OpenOptions, RewardModel};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let location = ModelLocation::find("logs/reward_training".as_ref(), None)?;
//! let model = RewardModel::open(&location, OpenOptions::default())?;
//! match model {
//!     RewardModel::Classifier(model) => drop(model.scorer),   // images to logits
//!     RewardModel::VisionLanguage(model) => drop(model.model), // conversations to answers
//!     RewardModel::Custom(model) => drop(model.scorer),       // the same, of another making
//!     RewardModel::Server(ServerModel::Frames(model)) => drop(model.image_keys),
//!     RewardModel::Server(ServerModel::Chat(model)) => drop(model),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A new kind of model is a variant of [`ModelLocation`] or [`RewardModel`]; the compiler shows who has to know it.

mod classifier;
mod custom;
mod error;
mod frames;
mod network;

use std::path::{Path, PathBuf};

use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::Quantization;

pub use self::classifier::{ClassifierCheckpoint, OpenClassifier, trained_model};
pub use self::error::OpenError;
pub use self::frames::OpenFrameModel;
pub use self::network::{Assumed, CheckpointNetwork, GivenNetwork, SettingDifference, wrong_order};
use crate::custom::{CustomLocation, CustomModel};
use crate::endpoint::{EndpointCallbacks, EndpointSettings, ServerModel};
use crate::trend::{JudgeFolder, LocalVlm, LocalVlmSettings, NoBaseModel};

/// Where a reward model is, and of which kind. Nothing is opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelLocation {
    /// The checkpoint of an image classifier: a run, a folder or a file.
    Classifier(PathBuf),
    /// A vision-language model, perhaps with adapters.
    VisionLanguage(JudgeFolder),
    /// A model of one's own making: an ONNX file, or a function in Python.
    Custom(CustomLocation),
    /// The address of a server.
    Server(String),
}

impl ModelLocation {
    /// What is at a path, or at an address (`http://…`). Adapters that are named are of a vision-language model; what is no
    /// such model is taken for the checkpoint of an image classifier.
    ///
    /// # Errors
    /// When there are adapters, and the model that they name is not there.
    pub fn find(at: &Path, lora: Option<&Path>) -> Result<Self, NoBaseModel> {
        if let Some(address) = at.to_str().filter(|text| text.contains("://")) {
            return Ok(Self::Server(address.into()));
        }
        if let Some(custom) = CustomLocation::find(at) {
            return Ok(Self::Custom(custom));
        }
        if let Some(lora) = lora {
            return Ok(Self::VisionLanguage(JudgeFolder::with(at, Some(lora))));
        }
        let folder = JudgeFolder::find(at)?;
        Ok(folder.map_or_else(|| Self::Classifier(at.into()), Self::VisionLanguage))
    }
}

/// How a model is opened; each kind takes what concerns it.
#[derive(Clone)]
pub struct OpenOptions {
    /// Image classifier: what the caller says about its network.
    pub network: GivenNetwork,
    /// Where it computes.
    pub device: Device,
    /// Vision-language model: what it computes with.
    pub precision: Precision,
    /// Vision-language model: how many bits its weights have.
    pub quantization: Quantization,
    /// A function in Python: the interpreter that runs it.
    pub python: PathBuf,
    /// Server: how it is asked, but for its address.
    pub server: EndpointSettings,
    /// Server: who hears about it.
    pub callbacks: EndpointCallbacks,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            network: GivenNetwork::default(),
            device: Device::Cpu,
            precision: Precision::Fp32,
            quantization: Quantization::None,
            python: "python3".into(),
            server: EndpointSettings::at(String::new()),
            callbacks: EndpointCallbacks::none(),
        }
    }
}

/// A reward model that is open.
pub enum RewardModel {
    /// An image classifier in this process.
    Classifier(Box<OpenClassifier>),
    /// A vision-language model in this process.
    VisionLanguage(Box<OpenVlm>),
    /// A model of one's own making.
    Custom(Box<CustomModel>),
    /// A model on a server.
    Server(ServerModel),
}

/// A vision-language model in this process.
pub struct OpenVlm {
    /// Where it is.
    pub folder: JudgeFolder,
    /// The model.
    pub model: LocalVlm,
    /// Where it computes.
    pub device: Device,
}

impl RewardModel {
    /// Opens what is at a location.
    ///
    /// # Errors
    /// When it cannot be read, is not what the options say, or does not answer.
    pub fn open(location: &ModelLocation, options: OpenOptions) -> Result<Self, OpenError> {
        match location {
            ModelLocation::Classifier(path) => {
                let model = ClassifierCheckpoint::read(path)?.open(&options.network, options.device)?;
                Ok(Self::Classifier(Box::new(model)))
            }
            ModelLocation::VisionLanguage(folder) => {
                Ok(Self::VisionLanguage(Box::new(OpenVlm::open(folder.clone(), &options)?)))
            }
            ModelLocation::Custom(location) => {
                let model = CustomModel::open(location.clone(), &options.network, &options.python)?;
                Ok(Self::Custom(Box::new(model)))
            }
            ModelLocation::Server(address) => {
                let settings = EndpointSettings { api_base: address.clone(), ..options.server };
                Ok(Self::Server(ServerModel::open(settings, options.callbacks)?))
            }
        }
    }
}

impl OpenClassifier {
    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let input = ModelInput::frames(&self.card.settings.image_keys);
        Capabilities { input, device: self.device }
    }
}

impl OpenVlm {
    /// Opens the model in a folder.
    ///
    /// # Errors
    /// When the folder or the adapters are of something else, or broken.
    pub fn open(folder: JudgeFolder, options: &OpenOptions) -> Result<Self, OpenError> {
        let model = LocalVlm::open(LocalVlmSettings {
            folder: &folder.model,
            lora: folder.lora.as_deref(),
            device: options.device,
            precision: options.precision,
            quantization: options.quantization,
        })?;
        Ok(Self { folder, model, device: options.device })
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { input: ModelInput::Conversations, device: self.device }
    }
}

/// What a reward model in this process can do, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What it is shown.
    pub input: ModelInput,
    /// Where it computes.
    pub device: Device,
}

/// What a reward model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelInput {
    /// Frames of fixed views.
    Frames {
        /// The views: cameras, now or some steps ago.
        image_keys: Vec<String>,
        /// How many past frames it stacks with each frame; 0 for a single-frame model.
        history_len: usize,
    },
    /// Words and images: single frames, or windows of any cameras.
    Conversations,
}

impl ModelInput {
    fn frames(image_keys: &[String]) -> Self {
        let history_len = classifier::history_len(image_keys);
        Self::Frames { image_keys: image_keys.to_vec(), history_len }
    }
}
