//! The checkpoint of an image reward model, as commands open it.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::gpu::GpuError;
use plaudit_reward::audit::ConditionsError;
use plaudit_reward::open::{
    ClassifierCheckpoint, GivenNetwork, ModelLocation, OpenClassifier, OpenError, OpenFrameModel,
    OpenOptions, SettingDifference, wrong_order,
};

use super::data::views;
use crate::cli::Verbosity;
use crate::config::Notice;
use crate::console;
use crate::device::{DeviceChoice, GPU_HELP, GpuWork};
use crate::failure::Failure;
use crate::hints;
use crate::interpreter;

/// How frames are prepared for a model that does not say it.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::commands) struct PreparationArgs {
    /// Channels, height and width that frames are resized to, where the checkpoint does not say it [default: 3 224 224,
    /// as RLinf has it]
    #[arg(long, value_names = ["C", "H", "W"], num_args = 3, value_parser = side)]
    image_size: Option<Vec<usize>>,
    /// Whether ImageNet's mean is taken off frames and its deviation divided out, where the checkpoint does not say it
    /// [default: true, as RLinf has it]
    #[arg(long, value_name = "true|false")]
    normalize: Option<bool>,
    /// The cameras that the model looks through, in order, where the checkpoint does not say it, such as
    /// main_images,extra_view_images [default: main_images]
    #[arg(long, value_name = "KEY,KEY", value_delimiter = ',')]
    image_keys: Option<Vec<String>>,
    /// A function in Python (my_reward.py:score): the interpreter that runs it [default: the Python that plaudit is installed
    /// in, or python3]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

fn side(text: &str) -> Result<usize, String> {
    let meant = "give channels, height and width, such as --image-size 3 224 224";
    text.parse().ok().filter(|side| *side > 0).ok_or_else(|| meant.into())
}

/// Data that does not have the states which a model's conditions are about.
pub(super) fn without_states(error: &ConditionsError) -> Failure {
    Failure::usage(error, "give episodes that were recorded with the states of its training".to_string())
}

/// A score, as a flag takes it.
pub(in crate::commands) fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 1".into())
}

impl PreparationArgs {
    /// The first of these flags that was given, for models that are no image classifiers.
    pub(in crate::commands) fn given(&self) -> [(&'static str, bool); 4] {
        [
            ("--image-size", self.image_size.is_some()),
            ("--normalize", self.normalize.is_some()),
            ("--image-keys", self.image_keys.is_some()),
            ("--python", self.python.is_some()),
        ]
    }

    fn given_network(&self) -> Result<GivenNetwork, Failure> {
        let image_size = self.image_size.as_deref().and_then(|size| <[usize; 3]>::try_from(size).ok());
        if let Some((what, [channels, height, width])) = image_size.and_then(wrong_order) {
            let help = format!("{channels} {height} {width} was probably meant");
            return Err(Failure::usage(format!("--image-size: {what}"), help));
        }
        let image_keys = self.image_keys.clone();
        views(image_keys.as_deref().unwrap_or_default()).map_err(|error| {
            let help = "name cameras, such as --image-keys main_images,extra_view_images";
            Failure::usage(format!("--image-keys: {error}"), help.to_string())
        })?;
        Ok(GivenNetwork { image_size, normalize: self.normalize, image_keys, ..GivenNetwork::default() })
    }

    /// The model that scores frames at a location: an image classifier, or one of one's own making. Other kinds are the
    /// caller's, who has words for them.
    pub(in crate::commands) fn open_frames(
        &self,
        path: &Path,
        location: ModelLocation,
        choice: DeviceChoice,
        verbosity: Verbosity,
    ) -> Result<OpenFrameModel, Failure> {
        let ModelLocation::Custom(location) = location else {
            return Ok(OpenFrameModel::Classifier(Box::new(self.open(path, choice, verbosity)?)));
        };
        let file_says =
            [("--image-size", self.image_size.is_some()), ("--normalize", self.normalize.is_some())];
        if let Some((flag, _)) = file_says.iter().find(|(_, given)| *given) {
            let message = format!("{flag} means nothing for {}", location.kind());
            let help =
                format!("write it into {}, as docs/own-models.md says", location.card_file().display());
            return Err(Failure::usage(message, help));
        }
        let options = OpenOptions {
            network: self.given_network()?,
            python: self.python.clone().unwrap_or_else(interpreter::default),
            ..OpenOptions::default()
        };
        let model = OpenFrameModel::open_custom(location, &options).map_err(unopened)?;
        if let Some(text) = model.assumed() {
            console::notices(&[Notice { text }], verbosity);
        }
        Ok(model)
    }

    /// The image classifier in a checkpoint. What is assumed about one without a card is said once.
    pub(in crate::commands) fn open(
        &self,
        path: &Path,
        choice: DeviceChoice,
        verbosity: Verbosity,
    ) -> Result<OpenClassifier, Failure> {
        if self.python.is_some() {
            let message = "--python means nothing for an image classifier: it runs functions in Python";
            return Err(Failure::usage(message, None));
        }
        let given = self.given_network()?;
        let device = choice.resolve(GpuWork::Classifier).map_err(no_gpu)?;
        let opened = ClassifierCheckpoint::read(path).and_then(|found| found.open(&given, device));
        let model = opened.map_err(unopened)?;
        if let Some(assumed) = &model.assumed {
            let text = assumed.notice(&model.file, "--image-size C H W", "--normalize true|false");
            console::notices(&[Notice { text }], verbosity);
        }
        Ok(model)
    }
}

/// A model that cannot be opened.
pub(in crate::commands) fn unopened(error: OpenError) -> Failure {
    match error {
        OpenError::Weights(error) => Failure::usage(
            error,
            "give a run, a checkpoint folder, or a file (.safetensors, .pt)".to_string(),
        ),
        OpenError::Card { .. } => Failure::usage(error, None),
        // A checkpoint knows best: flags may repeat what it says, and no more.
        OpenError::Differs { file, differences } => {
            let SettingDifference { key, is } = &differences[0];
            let message = format!("{} was made with {key}: {is}", file.display());
            Failure::usage(message, format!("leave --{} out: the checkpoint knows", key.replace('_', "-")))
        }
        OpenError::Unfit { file, error } => unfit(&file, &error),
        OpenError::NoBaseModel(error) => {
            Failure::usage(error, "give that model's folder, and the adapters with --lora".to_string())
        }
        OpenError::Vlm(error) => {
            let help = match error.is_device_error() {
                true => GPU_HELP,
                false => "give the folder of a Qwen3-VL model, and adapters made for it",
            };
            let help = hints::join([hints::about(&error), Some(help.into())]);
            Failure::usage(error, help)
        }
        OpenError::Custom(error) => {
            let help = hints::about(&error)
                .unwrap_or_else(|| "docs/own-models.md says what such a model must be".into());
            Failure::usage(error, help)
        }
        OpenError::Endpoint(error) => Failure::usage(error, "start it, or correct the address".to_string()),
    }
}

/// A GPU that was asked for and cannot be used.
pub(in crate::commands) fn no_gpu(error: GpuError) -> Failure {
    Failure::usage(error, GPU_HELP.to_string())
}

/// A server, where the model itself is needed.
pub(in crate::commands) fn only_served(address: &str) -> Failure {
    let message = format!("{address} is a server: it gives scores, and logits are needed here");
    Failure::usage(message, "give the model that it serves".to_string())
}

/// A model and a network that do not fit each other, or a model of one's own making that failed.
pub(in crate::commands) fn unfit(model: &Path, error: &ClassifierError) -> Failure {
    if let ClassifierError::Custom(error) = error {
        return Failure::runtime(error, hints::about(error.as_ref()));
    }
    let help = match error.is_device_error() {
        true => GPU_HELP,
        false => {
            "the file is of another architecture, or its card was changed; of a model with several cameras and no card, \
             name them: --image-keys main_images,extra_view_images"
        }
    };
    let help = help.to_string();
    Failure::usage(format!("{}: {error}", model.display()), help)
}
