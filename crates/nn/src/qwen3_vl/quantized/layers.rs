//! The tensors of a layer as one matrix, by the layout of each method.

use std::collections::HashSet;
use std::path::Path;

use super::super::error::VlmError;
use super::super::load::full_name;
use super::scheme::{CompressedScheme, Scheme, SharedScales};
use super::tensor::{AWQ_PLACES, Codes, Groups, Layout, QuantizedTensor, Zeros, word_code};
use crate::weights::{Array, DType, Weights};

/// The tensors of a folder, from which layers take theirs.
pub(in super::super) struct LayerTensors<'a> {
    folder: &'a Path,
    stored: &'a Weights,
    used: HashSet<String>,
}

impl<'a> LayerTensors<'a> {
    pub(in super::super) fn new(folder: &'a Path, stored: &'a Weights) -> Self {
        Self { folder, stored, used: HashSet::new() }
    }

    /// Whether a tensor became part of a layer's weights.
    pub(in super::super) fn is_used(&self, name: &str) -> bool {
        self.used.contains(name)
    }

    /// The weights `name` of this shape, if they are quantised.
    pub(in super::super) fn quantized(
        &mut self,
        scheme: &Scheme,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<QuantizedTensor>, VlmError> {
        let ([outputs, inputs], Some(layer)) = (shape, name.strip_suffix(".weight")) else { return Ok(None) };
        let mut layer = Layer { tensors: self, name: layer.to_owned(), outputs: *outputs, inputs: *inputs };
        match scheme {
            Scheme::Fp8 { block } => layer.fp8(*block),
            Scheme::Awq { group } => layer.awq(group.of(*inputs)),
            Scheme::Gptq { bits, group, zeros_less_one } => {
                layer.gptq(*bits, group.of(*inputs), *zeros_less_one)
            }
            Scheme::Compressed(scheme) => layer.compressed(scheme),
        }
    }
}

/// The tensors of one layer.
struct Layer<'t, 'a> {
    tensors: &'t mut LayerTensors<'a>,
    name: String,
    outputs: usize,
    inputs: usize,
}

const WORDS: [DType; 2] = [DType::I32, DType::U32];
const FLOATS: [DType; 3] = [DType::F16, DType::Bf16, DType::F32];
const WHOLE: [DType; 2] = [DType::I32, DType::I64];

impl Layer<'_, '_> {
    fn tensor_name(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    fn wrong(&self, part: &str, why: &str) -> VlmError {
        let problem = format!("`{}` {why}", full_name(&self.tensor_name(part)));
        VlmError::Shard { file: self.tensors.folder.to_owned(), problem }
    }

    fn dtype(&self, part: &str) -> Option<DType> {
        self.tensors.stored.get(&self.tensor_name(part)).map(Array::dtype)
    }

    /// A tensor that must be there, of one of these shapes and kinds.
    fn take(&mut self, part: &str, shapes: &[&[usize]], kinds: &[DType]) -> Result<Array, VlmError> {
        let name = self.tensor_name(part);
        let Some(found) = self.tensors.stored.get(&name) else {
            return Err(self.wrong(part, "is missing, beside other tensors of this quantised layer"));
        };
        if !shapes.contains(&found.shape()) {
            let (own, shapes) = (found.shape(), shapes.iter().map(|shape| format!("{shape:?}")));
            let shapes = shapes.collect::<Vec<_>>().join(" or ");
            return Err(self.wrong(part, &format!("is {own:?}, and {shapes} by config.json")));
        }
        if !kinds.contains(&found.dtype()) {
            let (own, kinds) = (found.dtype(), kinds.iter().map(|kind| format!("{kind:?}")));
            let kinds = kinds.collect::<Vec<_>>().join(" or ");
            return Err(self.wrong(part, &format!("holds {own:?}; {kinds} is expected")));
        }
        self.tensors.used.insert(name);
        Ok(found.clone())
    }

    fn floats(&mut self, part: &str, shapes: &[&[usize]]) -> Result<Vec<f32>, VlmError> {
        Ok(self.take(part, shapes, &FLOATS)?.to_f32().unwrap_or_default())
    }

    fn fp8(&mut self, block: [usize; 2]) -> Result<Option<QuantizedTensor>, VlmError> {
        if self.dtype("weight") != Some(DType::F8E4M3) {
            return Ok(None);
        }
        self.float8("weight_scale_inv", SharedScales::Block(block)).map(Some)
    }

    fn float8(&mut self, scale: &str, shared: SharedScales) -> Result<QuantizedTensor, VlmError> {
        let shape = [self.outputs, self.inputs];
        let stored = self.take("weight", &[&shape], &[DType::F8E4M3])?;
        let (scales, shared_rows, groups) = self.scales(scale, shared)?;
        Ok(QuantizedTensor { shape, codes: Codes::Float8(stored), scales, shared_rows, groups })
    }

    /// Scales, the rows that share them, and the groups of inputs that do.
    fn scales(&mut self, part: &str, shared: SharedScales) -> Result<(Vec<f32>, usize, Groups), VlmError> {
        let (outputs, inputs) = (self.outputs, self.inputs);
        let [rows, block] = match shared {
            SharedScales::Tensor => [outputs, inputs],
            SharedScales::Channel => [1, inputs],
            SharedScales::Group(group) => [1, group.of(inputs)],
            SharedScales::Block(block) => block,
        };
        let grid = [outputs.div_ceil(rows), inputs.div_ceil(block)];
        let scales = match grid {
            [1, 1] => self.floats(part, &[&grid, &[1], &[]])?,
            [_, 1] => self.floats(part, &[&grid, &grid[..1]])?,
            _ => self.floats(part, &[&grid])?,
        };
        Ok((scales, rows, Groups::Blocks(block)))
    }

    fn awq(&mut self, group: usize) -> Result<Option<QuantizedTensor>, VlmError> {
        const BITS: u32 = 4;
        const EACH: usize = 8;
        if self.dtype("qweight").is_none() {
            return Ok(None);
        }
        let (outputs, inputs) = (self.outputs, self.inputs);
        if !outputs.is_multiple_of(EACH) {
            return Err(self.wrong("qweight", "has outputs that are no multiple of 8"));
        }
        let (words, groups) = (outputs / EACH, inputs.div_ceil(group));
        let stored = self.take("qweight", &[&[inputs, words]], &WORDS)?;
        let packed_zeros = self.take("qzeros", &[&[groups, words]], &WORDS)?;
        let scales = self.floats("scales", &[&[groups, outputs]])?;
        let zeros = transposed(outputs, groups, |row, group| {
            word_code(packed_zeros.bytes(), group * words + row / EACH, AWQ_PLACES[row % EACH], BITS)
        });
        Ok(Some(QuantizedTensor {
            shape: [outputs, inputs],
            codes: Codes::Whole {
                stored,
                layout: Layout::WordsOfOutputs,
                bits: BITS,
                zeros: Zeros::OfGroups(zeros),
            },
            scales: transposed(outputs, groups, |row, group| scales[group * outputs + row]),
            shared_rows: 1,
            groups: Groups::Blocks(group),
        }))
    }

    fn gptq(
        &mut self,
        bits: u32,
        group: usize,
        zeros_less_one: bool,
    ) -> Result<Option<QuantizedTensor>, VlmError> {
        if self.dtype("qweight").is_none() {
            return Ok(None);
        }
        let (outputs, inputs, each) = (self.outputs, self.inputs, (32 / bits) as usize);
        if !outputs.is_multiple_of(each) || !inputs.is_multiple_of(each) {
            return Err(self.wrong("qweight", "has inputs or outputs that do not fill whole words"));
        }
        let (words, groups) = (outputs / each, inputs.div_ceil(group));
        let stored = self.take("qweight", &[&[inputs / each, outputs]], &WORDS)?;
        let packed_zeros = self.take("qzeros", &[&[groups, words]], &WORDS)?;
        let scales = self.floats("scales", &[&[groups, outputs]])?;
        // The writer of the first format takes one from every zero point of a word at once; so is it added again.
        let ones: u32 = (0..each).map(|place| 1 << (place as u32 * bits)).sum();
        let add = if zeros_less_one { ones } else { 0 };
        let (zero_words, _) = packed_zeros.bytes().as_chunks::<4>();
        let zero_words: Vec<u8> = zero_words
            .iter()
            .flat_map(|word| u32::from_le_bytes(*word).wrapping_add(add).to_le_bytes())
            .collect();
        let zeros = transposed(outputs, groups, |row, group| {
            word_code(&zero_words, group * words + row / each, row % each, bits)
        });
        let groups_of_inputs = self.listed_groups(group, groups)?;
        Ok(Some(QuantizedTensor {
            shape: [outputs, inputs],
            codes: Codes::Whole {
                stored,
                layout: Layout::WordsOfInputsTransposed,
                bits,
                zeros: Zeros::OfGroups(zeros),
            },
            scales: transposed(outputs, groups, |row, group| scales[group * outputs + row]),
            shared_rows: 1,
            groups: groups_of_inputs,
        }))
    }

    /// The groups that a list of them gives (activation order); blocks if it says the same, or is not there.
    fn listed_groups(&mut self, size: usize, count: usize) -> Result<Groups, VlmError> {
        let part = "g_idx";
        if self.dtype(part).is_none() {
            return Ok(Groups::Blocks(size));
        }
        let inputs = self.inputs;
        let listed = self.take(part, &[&[inputs]], &WHOLE)?.to_i64().unwrap_or_default();
        if let Some(other) = listed.iter().find(|group| !(0..count as i64).contains(*group)) {
            return Err(self.wrong(part, &format!("names group {other} of {count}")));
        }
        if listed.iter().enumerate().all(|(input, group)| *group as usize == input / size) {
            return Ok(Groups::Blocks(size));
        }
        Ok(Groups::Listed(listed.into_iter().map(|group| group as u32).collect(), count))
    }

    fn compressed(&mut self, scheme: &CompressedScheme) -> Result<Option<QuantizedTensor>, VlmError> {
        let (shape, shared) = ([self.outputs, self.inputs], scheme.shared);
        match (self.dtype("weight_packed"), self.dtype("weight")) {
            (Some(_), _) => self.packed(scheme).map(Some),
            (None, Some(DType::F8E4M3)) if scheme.is_float => self.float8("weight_scale", shared).map(Some),
            (None, Some(DType::I8)) if !scheme.is_float && scheme.bits == 8 => {
                let stored = self.take("weight", &[&shape], &[DType::I8])?;
                let (scales, shared_rows, groups) = self.scales("weight_scale", shared)?;
                let zeros = match scheme.symmetric {
                    true => Zeros::All(0),
                    false => Zeros::OfGroups(self.signed_zeros(&groups, shared_rows)?),
                };
                let codes = Codes::Whole { stored, layout: Layout::Bytes, bits: 8, zeros };
                Ok(Some(QuantizedTensor { shape, codes, scales, shared_rows, groups }))
            }
            _ => Ok(None),
        }
    }

    /// Words of codes that are stored with half of their range added.
    fn packed(&mut self, scheme: &CompressedScheme) -> Result<QuantizedTensor, VlmError> {
        let (shape, bits) = ([self.outputs, self.inputs], scheme.bits);
        if scheme.is_float {
            return Err(self.wrong("weight_packed", "holds floats by config.json, which is not supported"));
        }
        let each = (32 / bits) as usize;
        let stated = self.take("weight_shape", &[&[2]], &WHOLE)?.to_i64().unwrap_or_default();
        if stated != shape.map(|side| side as i64) {
            return Err(self.wrong("weight_shape", &format!("says {stated:?}, and config.json {shape:?}")));
        }
        let stored = self.take("weight_packed", &[&[shape[0], shape[1].div_ceil(each)]], &WORDS)?;
        let (scales, shared_rows, groups) = self.scales("weight_scale", scheme.shared)?;
        let zeros = match scheme.symmetric {
            true => Zeros::All(1 << (bits - 1)),
            false if self.dtype("weight_zero_point") == Some(DType::I8) => {
                // Earlier versions have them as bytes, without what is added.
                let zeros = self.signed_zeros(&groups, shared_rows)?;
                Zeros::OfGroups(zeros.into_iter().map(|zero| zero + (1 << (bits - 1))).collect())
            }
            false => self.packed_zeros(&groups, bits)?,
        };
        let codes = Codes::Whole { stored, layout: Layout::WordsOfInputs, bits, zeros };
        Ok(QuantizedTensor { shape, codes, scales, shared_rows, groups })
    }

    /// Zero points in words along the outputs, `[words, groups]`.
    fn packed_zeros(&mut self, groups: &Groups, bits: u32) -> Result<Zeros, VlmError> {
        let (each, groups) = ((32 / bits) as usize, groups.count(self.inputs));
        let stored = self.take("weight_zero_point", &[&[self.outputs.div_ceil(each), groups]], &WORDS)?;
        let zero = |row: usize, group: usize| {
            word_code(stored.bytes(), row / each * groups + group, row % each, bits)
        };
        Ok(Zeros::OfGroups(transposed(self.outputs, groups, zero)))
    }

    /// Zero points in bytes, where scales are.
    fn signed_zeros(&mut self, groups: &Groups, shared_rows: usize) -> Result<Vec<i16>, VlmError> {
        let (groups, rows) = (groups.count(self.inputs), self.outputs.div_ceil(shared_rows));
        let grid = [rows, groups];
        let stored = match grid {
            [1, 1] => self.take("weight_zero_point", &[&grid, &[1], &[]], &[DType::I8])?,
            _ => self.take("weight_zero_point", &[&grid], &[DType::I8])?,
        };
        let zero =
            |row: usize, group: usize| i16::from(stored.bytes()[row / shared_rows * groups + group] as i8);
        Ok(transposed(self.outputs, groups, zero))
    }
}

/// What a function gives for each row and group, row by row.
fn transposed<T>(rows: usize, groups: usize, of: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..rows)
        .flat_map(|row| (0..groups).map(move |group| (row, group)))
        .map(|(row, group)| of(row, group))
        .collect()
}
