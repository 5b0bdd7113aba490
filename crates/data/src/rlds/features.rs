//! `features.json`: what an episode has, by name.

use serde_json::Value;

use super::error::RldsError;

const FILE: &str = "features.json";
/// Dicts within dicts, and sequences of them.
const MOST_DEPTH: usize = 16;

/// What numbers a tensor or image has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NumberType {
    U8,
    Bool,
    Other(String),
}

/// One feature of a step or an episode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Feature {
    /// A compressed image of bytes, with 1, 3 or 4 channels.
    Image,
    /// Numbers of a shape that is known.
    Tensor {
        shape: Vec<usize>,
        number: NumberType,
    },
    Text,
    /// Anything else: how it is called, or how it is stored.
    Other(String),
}

/// The features of an episode: those of each step, and those of the whole. Names of dicts within dicts are joined by `/`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Features {
    pub(crate) steps: Vec<(String, Feature)>,
    pub(crate) episode: Vec<(String, Feature)>,
}

impl Features {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, RldsError> {
        let wrong = |what: String| RldsError::Description { file: FILE, what };
        let value: Value = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        let whole = &value["featuresDict"]["features"];
        let step = &whole["steps"]["sequence"]["feature"];
        if step["featuresDict"]["features"].as_object().is_none() {
            return Err(wrong(
                "it has no `steps` that are a sequence of named features: it is no dataset of episodes"
                    .into(),
            ));
        }
        let mut features = Self::default();
        flatten(step, "", &mut features.steps, MOST_DEPTH)?;
        for (name, feature) in whole.as_object().into_iter().flatten().filter(|(name, _)| *name != "steps") {
            flatten(feature, name, &mut features.episode, MOST_DEPTH)?;
        }
        Ok(features)
    }

    /// A feature of each step.
    pub(crate) fn step(&self, name: &str) -> Option<&Feature> {
        self.steps.iter().find(|(found, _)| found == name).map(|(_, feature)| feature)
    }

    /// The features of each step that are called so, or are in a dict called so.
    pub(crate) fn steps_in<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a (String, Feature)> {
        let is_in = move |found: &str| {
            found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.steps.iter().filter(move |(found, _)| is_in(found))
    }
}

fn flatten(
    value: &Value,
    name: &str,
    into: &mut Vec<(String, Feature)>,
    depth: usize,
) -> Result<(), RldsError> {
    let Some(dict) = value["featuresDict"]["features"].as_object() else {
        into.push((name.into(), leaf(value)));
        return Ok(());
    };
    if depth == 0 {
        let what = format!("`{name}` is a dict in more than {MOST_DEPTH} others");
        return Err(RldsError::Description { file: FILE, what });
    }
    let mut names: Vec<&String> = dict.keys().collect();
    names.sort();
    for key in names {
        let name = if name.is_empty() { key.clone() } else { format!("{name}/{key}") };
        flatten(&dict[key], &name, into, depth - 1)?;
    }
    Ok(())
}

fn leaf(value: &Value) -> Feature {
    let class = || value["pythonClassName"].as_str().unwrap_or("something unnamed").to_owned();
    if value["text"].is_object() {
        return Feature::Text;
    }
    if let Some(image) = value["image"].as_object() {
        let sides = shape(&image.get("shape").cloned().unwrap_or_default(), true).unwrap_or_default();
        let is_bytes = image.get("dtype").and_then(Value::as_str).is_none_or(|dtype| dtype == "uint8");
        let is_image = is_bytes && matches!(sides[..], [] | [_, _, 1 | 3 | 4]);
        return if is_image {
            Feature::Image
        } else {
            Feature::Other(format!("an image of {}", image["dtype"]))
        };
    }
    let Some(tensor) = value["tensor"].as_object() else { return Feature::Other(class()) };
    let encoding = tensor.get("encoding").and_then(Value::as_str).unwrap_or("none");
    if encoding != "none" {
        return Feature::Other(format!("a tensor with encoding {encoding}"));
    }
    let number = match tensor.get("dtype").and_then(Value::as_str).unwrap_or("none") {
        "uint8" => NumberType::U8,
        "bool" => NumberType::Bool,
        // A tensor of strings.
        "string" | "object" => return Feature::Text,
        other => NumberType::Other(other.into()),
    };
    match shape(&tensor.get("shape").cloned().unwrap_or_default(), false) {
        Some(shape) => Feature::Tensor { shape, number },
        None => Feature::Other("a tensor of no fixed shape".into()),
    }
}

/// `{"dimensions": ["24", "32", "3"]}`; nothing where one varies and may not, or where it is too large.
fn shape(value: &Value, may_vary: bool) -> Option<Vec<usize>> {
    let sides = value["dimensions"].as_array().cloned().unwrap_or_default();
    let side = |side: &Value| match side.as_str()?.parse::<i64>().ok()? {
        -1 if may_vary => Some(0),
        number => usize::try_from(number).ok(),
    };
    let sides: Vec<usize> = sides.iter().map(side).collect::<Option<_>>()?;
    // As many numbers as can be counted.
    sides.iter().try_fold(1_usize, |count, side| count.checked_mul(*side)).map(|_| sides)
}
