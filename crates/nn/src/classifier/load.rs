//! A checkpoint into a network: strictly, and with advice where it does not fit.

use super::error::{ClassifierError, Mismatch};
use super::network::trunk_prefixes;
use super::parameters::{Id, Parameters, Role, Spec, Value};
use super::settings::{Arch, ClassifierSettings, REDUCTION};
use crate::weights::{Array, Weights};

/// Something that was decided from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// `use_pretrain` was not set and was read off the pooling kernel.
    UsePretrain {
        /// What was read off.
        use_pretrain: bool,
        /// The name of the kernel.
        kernel: String,
        /// Its rows and columns.
        size: [usize; 2],
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::UsePretrain { use_pretrain, kernel, size: [rows, columns] } = self;
        write!(
            f,
            "use_pretrain: {use_pretrain}, because `{kernel}` in the checkpoint covers {rows}x{columns} positions"
        )
    }
}

impl ClassifierSettings {
    /// These settings with what was left open read off a checkpoint, and what was decided.
    #[must_use]
    pub fn adapted_to(&self, weights: &Weights) -> (Self, Vec<Notice>) {
        let mut settings = self.clone();
        let kernel = weights.iter().find(|(name, _)| name.ends_with("pooling_layer.kernel"));
        let (true, None, Some((name, kernel))) = (self.arch.pools_spatially(), self.use_pretrain, kernel)
        else {
            return (settings, Vec::new());
        };
        let [_, rows, columns, _] = kernel.shape() else { return (settings, Vec::new()) };
        let (size, use_pretrain) = ([*rows, *columns], [*rows, *columns] != [1, 1]);
        settings.use_pretrain = Some(use_pretrain);
        (settings, vec![Notice::UsePretrain { use_pretrain, kernel: name.to_owned(), size }])
    }

    /// The network that a checkpoint seems to be of, where nothing else says so. What it does not show (the size of
    /// images, unless its pooling is learned per position; whether they are normalised) is as RLinf's defaults have it.
    #[must_use]
    pub fn guessed(weights: &Weights) -> Self {
        let guess = Guess::of(weights);
        let arch = guess.arch.unwrap_or(Arch::Resnet18);
        let mut settings = Self { arch, hidden_dim: guess.hidden_dim.unwrap_or(None), ..Self::default() };
        if !guess.image_keys.is_empty() {
            settings.image_keys = guess.image_keys;
        }
        if let (true, Some([_, rows, columns, blocks])) = (arch.pools_spatially(), guess.kernel) {
            settings.normalize = false;
            settings.num_spatial_blocks = blocks;
            settings.image_size = match [rows, columns] {
                [1, 1] => [3, 64, 64],
                positions => [3, positions[0] * REDUCTION, positions[1] * REDUCTION],
            };
        }
        settings.adapted_to(weights).0
    }
}

/// Checks that a checkpoint has every parameter in its shape, and nothing else.
pub(super) fn check(
    settings: &ClassifierSettings,
    specs: &[Spec],
    weights: &Weights,
) -> Result<(), ClassifierError> {
    let mut mismatch = Mismatch { shapes: vec![], missing: vec![], unexpected: vec![], hints: vec![] };
    for spec in specs {
        match weights.get(&spec.name) {
            Some(stored) if same_shape(spec, stored.shape()) => {}
            Some(stored) => {
                mismatch.shapes.push((spec.name.clone(), stored.shape().to_vec(), spec.shape.clone()));
            }
            None if matches!(spec.role, Role::Unused | Role::Counter) => {}
            None => mismatch.missing.push(spec.name.clone()),
        }
    }
    let known: std::collections::HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    mismatch.unexpected = weights.names().filter(|name| !known.contains(name)).map(str::to_owned).collect();
    if mismatch.shapes.is_empty() && mismatch.missing.is_empty() && mismatch.unexpected.is_empty() {
        return Ok(());
    }
    mismatch.hints = Guess::of(weights).advice(settings);
    Err(ClassifierError::Mismatch(mismatch))
}

fn same_shape(spec: &Spec, stored: &[usize]) -> bool {
    stored == spec.shape || (spec.role == Role::Counter && stored.iter().product::<usize>() == 1)
}

/// Replaces the value of a parameter by that of a checkpoint that was checked.
pub(super) fn set(parameters: &mut Parameters, id: Id, stored: &Array) {
    let spec = &parameters.specs[id.0];
    let value = if spec.role == Role::Counter {
        Value::Count(stored.to_i64().and_then(|count| count.first().copied()).unwrap_or(0))
    } else {
        Value::Numbers(spec.to_own(stored.to_f32().unwrap_or_default()).into())
    };
    parameters.values[id.0] = value;
}

/// The parameters of the trunks that a pretrained file has, by the names they have in this network.
///
/// Such a file names its layers `conv1.weight`, `layer1.0.…`, with or without the trunk's prefix; its classes are
/// left out unless this network has room for them.
pub(super) fn pretrained(
    settings: &ClassifierSettings,
    specs: &[Spec],
    weights: &Weights,
) -> Result<Vec<(Id, Array)>, ClassifierError> {
    let prefixes = trunk_prefixes(settings);
    let mut found = Vec::new();
    let mut mismatch = Mismatch { shapes: vec![], missing: vec![], unexpected: vec![], hints: vec![] };
    for (i, spec) in specs.iter().enumerate() {
        let Some(plain) = prefixes.iter().find_map(|prefix| spec.name.strip_prefix(prefix.as_str())) else {
            continue;
        };
        if plain.starts_with("fc.") && spec.role != Role::Unused {
            continue;
        }
        let stored = [plain, &spec.name]
            .iter()
            .find_map(|name| weights.get(name))
            .or_else(|| weights.get(&format!("backbone.{plain}")));
        match stored {
            Some(stored) if same_shape(spec, stored.shape()) => found.push((Id(i), stored.clone())),
            Some(stored) => {
                mismatch.shapes.push((plain.to_owned(), stored.shape().to_vec(), spec.shape.clone()))
            }
            None if matches!(spec.role, Role::Unused | Role::Counter) => {}
            None => mismatch.missing.push(plain.to_owned()),
        }
    }
    if mismatch.shapes.is_empty() && mismatch.missing.is_empty() {
        return Ok(found);
    }
    mismatch.hints = Guess::of(weights).advice_on_arch(settings).into_iter().collect();
    Err(ClassifierError::Mismatch(mismatch))
}

/// What a checkpoint seems to have been made with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Guess {
    arch: Option<Arch>,
    /// The outer option: whether the head could be recognised.
    hidden_dim: Option<Option<usize>>,
    cameras: Option<usize>,
    image_keys: Vec<String>,
    kernel: Option<[usize; 4]>,
    /// Whether each camera has its own trunk, where there are several.
    separate: bool,
}

impl Guess {
    fn of(weights: &Weights) -> Self {
        let width = |name: &str, axis: usize| weights.get(name)?.shape().get(axis).copied();
        let arch = guess_arch(weights);
        let first =
            ["backbone.fc.0.weight", "classifier.1.weight", "classifier.0.weight", "backbone.fc.weight"]
                .into_iter()
                .find(|name| weights.get(name).is_some());
        let hidden_dim = first.map(|name| if name == "backbone.fc.weight" { None } else { width(name, 0) });
        let features = arch.map(|arch| match (arch, hidden_dim) {
            (Arch::Resnet10Spatial, Some(Some(hidden))) => hidden,
            (Arch::Resnet50 | Arch::Resnet101 | Arch::Resnet152, _) => 2048,
            (
                Arch::Resnet10Spatial | Arch::Resnet10 | Arch::Resnet18 | Arch::Resnet34,
                None | Some(None | Some(_)),
            ) => 512,
        });
        let inputs = first.and_then(|name| width(name, 1));
        let cameras =
            inputs.zip(features).map(|(inputs, features)| inputs / features).filter(|count| *count > 0);
        let kernel = weights.iter().find(|(name, _)| name.ends_with("pooling_layer.kernel"));
        let kernel = kernel.and_then(|(_, kernel)| <[usize; 4]>::try_from(kernel.shape()).ok());
        let separate = weights.names().any(|name| name.starts_with("backbones."));
        Self { arch, hidden_dim, cameras, image_keys: cameras_named(weights), kernel, separate }
    }

    fn advice(&self, settings: &ClassifierSettings) -> Vec<String> {
        let mut advice: Vec<String> = self.advice_on_arch(settings).into_iter().collect();
        match self.hidden_dim {
            Some(Some(width)) if settings.hidden_dim != Some(width) => {
                advice.push(format!("Set `hidden_dim: {width}`"))
            }
            Some(None) if settings.hidden_dim.is_some() => advice.push("Set `hidden_dim: null`".into()),
            _ => {}
        }
        if !self.image_keys.is_empty() && self.image_keys != settings.image_keys {
            advice.push(format!("Set `image_keys: [{}]`", self.image_keys.join(", ")));
        } else if let Some(cameras) = self.cameras.filter(|count| *count != settings.image_keys.len()) {
            advice.push(format!("Name {cameras} camera(s) in `image_keys`"));
        }
        let several = settings.image_keys.len() > 1 && !settings.arch.pools_spatially();
        if several && self.arch.is_some() && self.separate == settings.shared_trunk {
            advice.push(format!("Set `shared_trunk: {}`", !self.separate));
        }
        advice.extend(self.advice_on_kernel(settings));
        advice
    }

    fn advice_on_arch(&self, settings: &ClassifierSettings) -> Option<String> {
        let Some(arch) = self.arch else {
            return Some("The checkpoint is of no architecture known here".into());
        };
        (arch != settings.arch).then(|| format!("Set `arch: {}`", arch.name()))
    }

    fn advice_on_kernel(&self, settings: &ClassifierSettings) -> Option<String> {
        let [_, rows, columns, blocks] = self.kernel?;
        if !settings.arch.pools_spatially() {
            return None;
        }
        if blocks != settings.num_spatial_blocks {
            return Some(format!("Set `num_spatial_blocks: {blocks}`"));
        }
        let per_position = [rows, columns] != [1, 1];
        if per_position != settings.per_position() {
            return Some(format!("Set `use_pretrain: {per_position}`"));
        }
        let positions = settings.feature_size();
        (per_position && [rows, columns] != positions).then(|| {
            format!("Set `image_size` to the size it was trained on: {rows}x{columns} positions are about {}x{} pixels", rows * 32, columns * 32)
        })
    }
}

/// The cameras that have their own encoder or trunk.
fn cameras_named(weights: &Weights) -> Vec<String> {
    let mut cameras: Vec<String> = Vec::new();
    for name in weights.names() {
        let inside = name.strip_prefix("encoders.").or_else(|| name.strip_prefix("backbones."));
        let ends = [".resnet_backbone.", ".pooling_layer.", ".mlp.", ".conv1.", ".bn1.", ".layer"];
        let camera = inside.and_then(|inside| {
            ends.iter().filter_map(|end| inside.find(end)).min().map(|end| &inside[..end])
        });
        if let Some(camera) = camera.filter(|camera| !cameras.iter().any(|known| known == camera)) {
            cameras.push(camera.to_owned());
        }
    }
    cameras
}

fn guess_arch(weights: &Weights) -> Option<Arch> {
    let has = |end: &str| weights.names().any(|name| name == end || name.ends_with(&format!(".{end}")));
    if !has("layer4.0.conv1.weight") {
        return None;
    }
    if has("pooling_layer.kernel") {
        return Some(Arch::Resnet10Spatial);
    }
    Some(match (has("layer1.0.conv3.weight"), has("layer3.6.conv1.weight"), has("layer3.23.conv1.weight")) {
        (true, _, true) => Arch::Resnet152,
        (true, true, _) => Arch::Resnet101,
        (true, ..) => Arch::Resnet50,
        _ if has("layer3.2.conv1.weight") => Arch::Resnet34,
        _ if has("layer1.1.conv1.weight") => Arch::Resnet18,
        _ => Arch::Resnet10,
    })
}
