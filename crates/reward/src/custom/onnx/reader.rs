//! What an ONNX file and the card beside it say about a network.

use std::path::Path;

use rten::{DataType, Dimension, Model, ModelOptions, NodeId, ValueType};

use super::{Input, InputKind, Output, refused, wire};
use crate::custom::card::InputLayout;
use crate::custom::error::CustomModelError;
use crate::custom::{CustomCard, OutputMeaning};

/// How a resizing by cubic curves is written. The runtime would take straight lines for it, and say nothing.
const CUBIC: &[u8] = b"\x22\x05cubic";

/// The network in a file.
pub(super) fn read(file: &Path) -> Result<Model, CustomModelError> {
    let bytes = std::fs::read(file).map_err(|source| CustomModelError::Io { path: file.into(), source })?;
    if !wire::is_model(&bytes) {
        return Err(refused(file, "it is no ONNX model, or not the whole of one"));
    }
    if bytes.windows(CUBIC.len()).any(|window| window == CUBIC) {
        let message =
            "it resizes by cubic curves, which is not computed here; resize linearly, or before the network";
        return Err(refused(file, message));
    }
    drop(bytes);
    ModelOptions::with_all_ops()
        .load_file(file)
        .map_err(|error| refused(file, format!("it is no ONNX model that can be run here: {error}")))
}

/// An ONNX file that was read, and the card beside it.
pub(super) struct Reader<'a> {
    pub(super) file: &'a Path,
    pub(super) network: &'a Model,
    pub(super) card: &'a CustomCard,
}

/// What a file says about an input of images.
struct Described {
    batch: Option<usize>,
    input: Input,
}

impl Reader<'_> {
    /// The input of each camera, and how many images a run takes if that is fixed.
    pub(super) fn inputs(
        &self,
        image_keys: &[String],
    ) -> Result<(Vec<Input>, Option<usize>), CustomModelError> {
        let ids = self.network.input_ids();
        let names: Vec<String> = ids.iter().map(|id| self.name(*id)).collect();
        if names.len() != image_keys.len() {
            return Err(self.refused(format!(
                "it has {} and is given the images of {} ({}); name the camera of each in `image_keys` of its card",
                counted(names.len(), "input", &names),
                if image_keys.len() == 1 { "one camera".into() } else { format!("{} cameras", image_keys.len()) },
                image_keys.join(", "),
            )));
        }
        if let Some(key) = self.card.inputs.keys().find(|key| !image_keys.contains(key)) {
            return Err(self
                .refused(format!("`inputs` of its card names a camera `{key}` that `image_keys` has not")));
        }
        let mut taken = Vec::new();
        for (at, key) in image_keys.iter().enumerate() {
            // By its name, or else in the order of the file where no name is a camera's.
            let has_names =
                image_keys.iter().any(|key| names.contains(key) || self.card.inputs.contains_key(key));
            let name = self.card.inputs.get(key).unwrap_or(if has_names { key } else { &names[at] });
            let Some(found) = names.iter().position(|one| one == name) else {
                let known = names.join(", ");
                return Err(self.refused(format!(
                    "it has no input `{name}` for camera `{key}` (it has {known}); write it into `inputs` of its card"
                )));
            };
            taken.push(self.input(ids[found], name)?);
        }
        let batch = taken.iter().find_map(|described| described.batch);
        if taken.iter().any(|described| described.batch != batch) {
            return Err(self.refused("its inputs take different numbers of images"));
        }
        Ok((taken.into_iter().map(|described| described.input).collect(), batch))
    }

    fn input(&self, id: NodeId, name: &str) -> Result<Described, CustomModelError> {
        let info = self.network.node_info(id);
        let dtype =
            info.as_ref().and_then(rten::NodeInfo::dtype).unwrap_or(ValueType::Tensor(DataType::Float));
        let kind = self.kind(name, dtype)?;
        let shape = info.and_then(|info| info.shape());
        let fixed: Vec<Option<usize>> = match &shape {
            Some(shape) => shape.iter().map(fixed).collect(),
            None => vec![None; 4],
        };
        let &[batch, first, second, third] = fixed.as_slice() else {
            let message = format!("its input `{name}` has {} axes; images have 4: NCHW or NHWC", fixed.len());
            return Err(self.refused(message));
        };
        if batch == Some(0) {
            return Err(self.refused(format!("its input `{name}` takes no images")));
        }
        let layout = self.layout(name, first, third)?;
        let (channels, height, width) = match layout {
            InputLayout::Nchw => (first, second, third),
            InputLayout::Nhwc => (third, first, second),
        };
        if let Some(channels) = channels.filter(|channels| *channels != 3) {
            return Err(self
                .refused(format!("its input `{name}` takes images of {channels} colours; cameras give 3")));
        }
        let size = self.size(name, [height, width])?;
        Ok(Described { batch, input: Input { id, kind, layout, size } })
    }

    fn kind(&self, name: &str, dtype: ValueType) -> Result<InputKind, CustomModelError> {
        match dtype {
            ValueType::Tensor(DataType::Float) => {
                let (mean, std) = (self.card.mean.unwrap_or([0.0; 3]), self.card.std.unwrap_or([1.0; 3]));
                Ok(InputKind::Floats { mean, std })
            }
            ValueType::Tensor(DataType::UInt8) if self.card.mean.is_some() || self.card.std.is_some() => {
                let message =
                    format!("its input `{name}` takes bytes; `mean` and `std` of its card are for floats");
                Err(self.refused(message))
            }
            ValueType::Tensor(DataType::UInt8) => Ok(InputKind::Bytes),
            other => {
                Err(self.refused(format!("its input `{name}` takes {other}; images are float32 or uint8")))
            }
        }
    }

    fn layout(
        &self,
        name: &str,
        first: Option<usize>,
        third: Option<usize>,
    ) -> Result<InputLayout, CustomModelError> {
        let said = match (first, third) {
            (Some(3), Some(3)) => None,
            (Some(3), _) => Some(InputLayout::Nchw),
            (_, Some(3)) => Some(InputLayout::Nhwc),
            _ => None,
        };
        self.card.layout.or(said).ok_or_else(|| {
            let why = "does not say which of its axes are the colours";
            self.refused(format!("its input `{name}` {why}; write `layout` (NCHW or NHWC) into its card"))
        })
    }

    /// Height and width of the file, or else of the card.
    fn size(&self, name: &str, of_file: [Option<usize>; 2]) -> Result<Option<[usize; 2]>, CustomModelError> {
        let of_card = self.card.image_size;
        let agrees = |of_card: [usize; 2]| {
            of_file.iter().zip(of_card).all(|(of_file, of_card)| of_file.is_none_or(|side| side == of_card))
        };
        match (of_file, of_card) {
            (_, Some(of_card)) if agrees(of_card) => Ok(Some(of_card)),
            ([Some(height), Some(width)], None) if height > 0 && width > 0 => Ok(Some([height, width])),
            ([None, None], None) => Ok(None),
            _ => {
                let side = |side: Option<usize>| side.map_or("any".into(), |side| side.to_string());
                let [height, width] = of_file.map(side);
                let card = of_card
                    .map_or(String::new(), |size| format!(", and `image_size` of its card is {size:?}"));
                Err(self.refused(format!(
                    "its input `{name}` takes images of {height} x {width}{card}; make them agree"
                )))
            }
        }
    }

    /// What is read of what comes out, and what of that had to be assumed.
    pub(super) fn output(&self) -> Result<(Output, Option<String>), CustomModelError> {
        let ids = self.network.output_ids();
        let names: Vec<String> = ids.iter().map(|id| self.name(*id)).collect();
        let at = match (&self.card.output_name, names.len()) {
            (None, 1) => 0,
            (None, _) => {
                let outputs = counted(names.len(), "output", &names);
                return Err(self.refused(format!(
                    "it has {outputs}; write `output_name`, the one that is the score, into its card"
                )));
            }
            (Some(name), _) => names.iter().position(|one| one == name).ok_or_else(|| {
                self.refused(format!(
                    "it has no output `{name}` (`output_name` of its card); it has {}",
                    names.join(", ")
                ))
            })?,
        };
        let info = self.network.node_info(ids[at]);
        let shape: Vec<Option<usize>> =
            info.and_then(|info| info.shape()).unwrap_or_default().iter().map(fixed).collect();
        let columns = shape.get(1..).and_then(|rest| rest.iter().copied().product::<Option<usize>>());
        let (assumed, words) = match columns {
            Some(2..) => (
                OutputMeaning::ClassLogits,
                "logits of classes; if they are probabilities, write \"output\": \"class_probabilities\"",
            ),
            _ => (OutputMeaning::Logit, "a logit; if it is a probability, write \"output\": \"probability\""),
        };
        let (meaning, notice) = match self.card.output {
            Some(meaning) => (meaning, None),
            None => {
                let card = self.file.with_extension("json");
                let file = self.file.display();
                (
                    assumed,
                    Some(format!(
                        "{file} does not say what its numbers mean; assumed: {words} into {}",
                        card.display()
                    )),
                )
            }
        };
        Ok((Output { id: ids[at], meaning, success_class: self.card.success_class }, notice))
    }

    fn name(&self, id: NodeId) -> String {
        self.network.node_info(id).and_then(|info| info.name()).unwrap_or_default().to_string()
    }

    fn refused(&self, message: impl Into<String>) -> CustomModelError {
        refused(self.file, message)
    }
}

fn fixed(side: &Dimension) -> Option<usize> {
    match side {
        Dimension::Fixed(side) => Some(*side),
        Dimension::Symbolic(_) => None,
    }
}

/// Such as "2 inputs (main, wrist)".
fn counted(count: usize, what: &str, names: &[String]) -> String {
    match names {
        [one] => format!("one {what} ({one})"),
        _ => format!("{count} {what}s ({})", names.join(", ")),
    }
}
