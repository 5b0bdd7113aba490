//! The network of a checkpoint: as its card says, or as its weights show; what the caller says must agree with that.
//!
//! A state dict without a card, such as RLinf's, holds neither the size of the frames nor whether they are normalised. What its
//! weights show is taken from them, what is given is used, and the rest is assumed, with a notice.

use std::path::Path;

use plaudit_nn::Weights;
use plaudit_nn::classifier::{Arch, ClassifierSettings, Precision};

use crate::card::ModelCard;

/// What a caller says about a network, as far as it says anything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenNetwork {
    /// The architecture.
    pub arch: Option<Arch>,
    /// Width of the head's hidden layer; the inner `None` is a head without one.
    pub hidden_dim: Option<Option<usize>>,
    /// Channels, height, width.
    pub image_size: Option<[usize; 3]>,
    /// Whether ImageNet's mean and deviation are taken off.
    pub normalize: Option<bool>,
    /// The views.
    pub image_keys: Option<Vec<String>>,
    /// What it computes with; this is the caller's choice, whatever the checkpoint says.
    pub precision: Option<Precision>,
}

/// The network of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointNetwork {
    /// What a scorer is built with.
    pub settings: ClassifierSettings,
    /// What the caller says otherwise than the checkpoint was made with.
    pub differences: Vec<SettingDifference>,
    /// What had to be assumed.
    pub assumed: Option<Assumed>,
}

/// A setting that a checkpoint was made with, and that a caller gives otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// The name of the setting.
    pub key: &'static str,
    /// What the checkpoint was made with, as YAML has it.
    pub is: String,
}

/// How frames are prepared, as far as it had to be assumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumed {
    size: Option<String>,
    normalize: Option<String>,
}

/// The network of weights with or without a card, next to what is given.
pub(super) fn network_of(
    weights: &Weights,
    card: Option<&ModelCard>,
    given: &GivenNetwork,
) -> CheckpointNetwork {
    let (mut settings, assumed) = match card {
        Some(card) => (card.settings.clone(), None),
        None => shown_by(weights, given),
    };
    if let Some(precision) = given.precision {
        settings.precision = precision;
    }
    let differences = differences(&settings, given);
    CheckpointNetwork { settings, differences, assumed }
}

/// The network of weights without a card, and what had to be assumed about it.
fn shown_by(weights: &Weights, given: &GivenNetwork) -> (ClassifierSettings, Option<Assumed>) {
    let shown = ClassifierSettings::guessed(weights);
    let (size_from, normalize_from) = match shown.arch {
        Arch::Resnet10Spatial => {
            ("the size that its pooling layer fits", "the default of its training script")
        }
        Arch::Resnet10
        | Arch::Resnet18
        | Arch::Resnet34
        | Arch::Resnet50
        | Arch::Resnet101
        | Arch::Resnet152 => ("RLinf's default", "RLinf's default"),
    };
    let [channels, height, width] = shown.image_size;
    let assumed = Assumed {
        size: given.image_size.is_none().then(|| format!("{channels}x{height}x{width} ({size_from})")),
        normalize: given.normalize.is_none().then(|| format!("{} ({normalize_from})", shown.normalize)),
    };
    let names_cameras = shown.image_keys != ClassifierSettings::default().image_keys;
    let image_keys = given.image_keys.clone().filter(|_| !names_cameras);
    let settings = ClassifierSettings {
        image_size: given.image_size.unwrap_or(shown.image_size),
        normalize: given.normalize.unwrap_or(shown.normalize),
        image_keys: image_keys.unwrap_or_else(|| shown.image_keys.clone()),
        ..shown
    };
    let is_any = assumed.size.is_some() || assumed.normalize.is_some();
    (settings, is_any.then_some(assumed))
}

/// Where the network that a checkpoint was made with is another than the one that is given.
fn differences(own: &ClassifierSettings, given: &GivenNetwork) -> Vec<SettingDifference> {
    fn differs<T: PartialEq>(own: &T, given: Option<&T>) -> bool {
        given.is_some_and(|given| given != own)
    }
    [
        ("arch", differs(&own.arch, given.arch.as_ref()), own.arch.name().to_string()),
        (
            "hidden_dim",
            differs(&own.hidden_dim, given.hidden_dim.as_ref()),
            own.hidden_dim.unwrap_or(0).to_string(),
        ),
        ("image_size", differs(&own.image_size, given.image_size.as_ref()), format!("{:?}", own.image_size)),
        ("normalize", differs(&own.normalize, given.normalize.as_ref()), own.normalize.to_string()),
        (
            "image_keys",
            differs(&own.image_keys, given.image_keys.as_ref()),
            format!("[{}]", own.image_keys.join(", ")),
        ),
    ]
    .into_iter()
    .filter(|(_, differs, _)| *differs)
    .map(|(key, _, is)| SettingDifference { key, is })
    .collect()
}

impl Assumed {
    /// The notice for the user; `size` and `normalize` are where each can be set.
    #[must_use]
    pub fn notice(&self, file: &Path, size: &str, normalize: &str) -> String {
        let line = |what: &str, value: &Option<String>, place: &str| {
            value.as_ref().map(|value| format!("\n  {what} {value}; if it was another, set {place}"))
        };
        let lines = [
            line("frames resized to", &self.size, size),
            line("frames normalised by ImageNet's mean and deviation:", &self.normalize, normalize),
        ];
        let file = file.display();
        format!(
            "{file} does not say how its frames were prepared; assumed:{}",
            lines.into_iter().flatten().collect::<String>()
        )
    }
}

/// What is wrong with a size as written, and what was probably meant.
#[must_use]
pub fn wrong_order(size: [usize; 3]) -> Option<(String, [usize; 3])> {
    let [height, width, channels] = size;
    match size {
        [3, ..] => None,
        [.., 3] => {
            let what = format!("{size:?} is height, width, channels; channels come first here");
            Some((what, [channels, height, width]))
        }
        [other, height, width] => {
            let what =
                format!("{other} channels; image reward models take 3, in the order channels, height, width");
            Some((what, [3, height, width]))
        }
    }
}

#[cfg(test)]
mod tests {
    use plaudit_nn::classifier::{AdamW, Trainer};

    use super::*;

    fn weights(arch: Arch, image_size: [usize; 3]) -> Weights {
        let settings =
            ClassifierSettings { arch, image_size, hidden_dim: Some(8), ..ClassifierSettings::default() };
        Trainer::new(&settings, AdamW::default(), 1).unwrap().weights().unwrap()
    }

    #[test]
    fn what_weights_do_not_show_is_given_or_assumed_with_a_notice() {
        let file = Path::new("full_weights.pt");
        let size = Some([3, 48, 48]);
        for (arch, said, expected, notice) in [
            (
                Arch::Resnet10,
                GivenNetwork::default(),
                ([3, 224, 224], true),
                vec!["3x224x224 (RLinf's", "true (RLinf's"],
            ),
            (
                Arch::Resnet10,
                GivenNetwork { image_size: size, ..GivenNetwork::default() },
                ([3, 48, 48], true),
                vec!["true (RLinf's"],
            ),
            (
                Arch::Resnet10,
                GivenNetwork { image_size: size, normalize: Some(false), ..GivenNetwork::default() },
                ([3, 48, 48], false),
                vec![],
            ),
            (
                Arch::Resnet10Spatial,
                GivenNetwork::default(),
                ([3, 64, 64], false),
                vec!["3x64x64 (the size", "false (the default"],
            ),
        ] {
            let found = network_of(&weights(arch, [3, 64, 64]), None, &said);
            let CheckpointNetwork { settings, assumed, differences } = found;
            assert_eq!(differences, []);
            assert_eq!((settings.image_size, settings.normalize), expected, "{said:?}");
            assert_eq!(settings.hidden_dim, Some(8), "what weights show is not assumed");
            let text = assumed.map(|assumed| assumed.notice(file, "--image-size", "--normalize"));
            assert_eq!(text.is_some(), !notice.is_empty(), "{said:?}");
            let text = text.unwrap_or_default();
            assert!(notice.iter().all(|words| text.contains(words)), "{text}");
            assert_eq!(text.contains("--image-size"), said.image_size.is_none() && !text.is_empty());
        }
    }

    #[test]
    fn the_order_of_a_size_is_recognised() {
        assert_eq!(wrong_order([3, 64, 48]), None);
        assert_eq!(wrong_order([64, 48, 3]).unwrap().1, [3, 64, 48]);
        assert_eq!(wrong_order([1, 64, 48]).unwrap().1, [3, 64, 48]);
    }
}
