//! What `quantization_config` says.

use std::path::Path;

use serde_json::Value;

use super::super::error::VlmError;

/// How the layers of a folder are quantised.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Scheme {
    /// E4M3 with a scale for each block of so many rows and columns.
    Fp8 { block: [usize; 2] },
    /// AWQ of four bits, with a scale and a zero point for so many inputs.
    Awq { group: GroupSize },
    /// GPTQ; `zeros_less_one` of its first format has zero points stored less one.
    Gptq { bits: u32, group: GroupSize, zeros_less_one: bool },
    /// compressed-tensors.
    Compressed(CompressedScheme),
}

/// What compressed-tensors says of weights.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct CompressedScheme {
    pub(super) bits: u32,
    pub(super) is_float: bool,
    pub(super) symmetric: bool,
    pub(super) shared: SharedScales,
}

/// Which numbers share a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SharedScales {
    Tensor,
    Channel,
    Group(GroupSize),
    Block([usize; 2]),
}

/// Inputs that share a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum GroupSize {
    Inputs(usize),
    /// A whole row.
    Row,
}

impl GroupSize {
    pub(super) fn of(self, inputs: usize) -> usize {
        match self {
            Self::Inputs(size) => size,
            Self::Row => inputs,
        }
    }
}

/// A part of `config.json`, for error messages too.
struct Settings<'a> {
    file: &'a Path,
    path: String,
    value: &'a Value,
}

impl Settings<'_> {
    fn wrong(&self, key: &str, why: &str) -> VlmError {
        let problem = format!("`{}{key}` {why}", self.path);
        VlmError::Config { file: self.file.to_owned(), problem }
    }

    /// What is there, without `null`.
    fn get(&self, key: &str) -> Option<&Value> {
        self.value.get(key).filter(|found| !found.is_null())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Value::as_str).map(str::to_lowercase)
    }

    fn size(&self, key: &str) -> Result<usize, VlmError> {
        let found = self.get(key).and_then(Value::as_u64).filter(|number| (1..=1 << 20).contains(number));
        found
            .map(|number| number as usize)
            .ok_or_else(|| self.wrong(key, "must be a whole number above zero"))
    }

    /// A group size; -1 is a whole row.
    fn group(&self, keys: &[&str]) -> Result<GroupSize, VlmError> {
        let key = keys.iter().find(|key| self.get(key).is_some()).unwrap_or(&keys[0]);
        if self.get(key).and_then(Value::as_i64) == Some(-1) {
            return Ok(GroupSize::Row);
        }
        self.size(key).map(GroupSize::Inputs)
    }

    fn pair(&self, key: &str) -> Result<[usize; 2], VlmError> {
        let number = |value: &Value| value.as_u64().filter(|number| (1..=1 << 20).contains(number));
        let pair = self.get(key).and_then(Value::as_array).filter(|list| list.len() == 2);
        let pair = pair.and_then(|list| Some([number(&list[0])? as usize, number(&list[1])? as usize]));
        pair.ok_or_else(|| self.wrong(key, "must be two whole numbers above zero"))
    }

    /// Refuses what is there and none of these.
    fn expect(&self, key: &str, allowed: &[&str]) -> Result<(), VlmError> {
        let found = match self.get(key) {
            None => return Ok(()),
            Some(Value::String(text)) => text.to_lowercase(),
            Some(other) => other.to_string(),
        };
        if allowed.contains(&found.as_str()) {
            return Ok(());
        }
        Err(self.wrong(key, &format!("is `{found}`; only {} is supported", allowed.join(", "))))
    }

    /// Refuses anything but nothing, or an empty map or list.
    fn absent(&self, key: &str) -> Result<(), VlmError> {
        let is_filled = match self.get(key) {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Object(map)) => !map.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if is_filled { Err(self.wrong(key, "is set, which is not supported")) } else { Ok(()) }
    }
}

impl Scheme {
    /// What `config.json` says of quantisation, if it does.
    pub(in super::super) fn parse(file: &Path, config: &Value) -> Result<Option<Self>, VlmError> {
        let found = [("quantization_config", config), ("compression_config", config)];
        let text = config.get("text_config").into_iter().map(|text| ("quantization_config", text));
        let found = found.into_iter().chain(text);
        let found = found.filter_map(|(key, of)| Some((key, of.get(key).filter(|found| found.is_object())?)));
        let Some((key, value)) = found.into_iter().next() else { return Ok(None) };
        let settings = Settings { file, path: format!("{key}."), value };
        let method = settings.text("quant_method").unwrap_or_default();
        match method.as_str() {
            "fp8" => fp8(&settings),
            "awq" => awq(&settings),
            "gptq" => gptq(&settings),
            "compressed-tensors" => compressed(&settings),
            _ => {
                let why = format!(
                    "is `{method}`; weights quantised by fp8, awq, gptq or compressed-tensors can be opened, \
                     or the folder of the same model in bf16, fp16 or fp32"
                );
                Err(settings.wrong("quant_method", &why))
            }
        }
        .map(Some)
    }
}

fn fp8(settings: &Settings<'_>) -> Result<Scheme, VlmError> {
    settings.expect("activation_scheme", &["dynamic"])?;
    settings.expect("fmt", &["e4m3"])?;
    settings.expect("scale_fmt", &["float"])?;
    settings.expect("expert_dtype", &["fp8"])?;
    settings.absent("modules_to_convert")?;
    Ok(Scheme::Fp8 { block: settings.pair("weight_block_size")? })
}

fn awq(settings: &Settings<'_>) -> Result<Scheme, VlmError> {
    for key in ["version", "format", "checkpoint_format"] {
        settings.expect(key, &["gemm"])?;
    }
    for key in ["bits", "w_bit"] {
        settings.expect(key, &["4"])?;
    }
    settings.expect("zero_point", &["true"])?;
    settings.absent("desc_act")?;
    Ok(Scheme::Awq { group: settings.group(&["group_size", "q_group_size"])? })
}

fn gptq(settings: &Settings<'_>) -> Result<Scheme, VlmError> {
    settings.expect("bits", &["4", "8"])?;
    for key in ["checkpoint_format", "format"] {
        settings.expect(key, &["gptq", "gptq_v2"])?;
    }
    settings.expect("pack_dtype", &["int32"])?;
    let formats = ["checkpoint_format", "format"].map(|key| settings.text(key));
    let is_second = formats.iter().flatten().any(|format| format == "gptq_v2");
    Ok(Scheme::Gptq {
        bits: settings.size("bits")? as u32,
        group: settings.group(&["group_size"])?,
        zeros_less_one: !is_second,
    })
}

fn compressed(settings: &Settings<'_>) -> Result<Scheme, VlmError> {
    const FORMATS: [&str; 4] = ["pack-quantized", "float-quantized", "int-quantized", "naive-quantized"];
    settings.expect("format", &FORMATS)?;
    settings.absent("kv_cache_scheme")?;
    settings.absent("transform_config")?;
    if let Some(sparsity) = settings.get("sparsity_config") {
        let path = format!("{}sparsity_config.", settings.path);
        Settings { file: settings.file, path, value: sparsity }.expect("format", &["dense"])?;
    }
    let groups = settings.get("config_groups").and_then(Value::as_object).filter(|groups| !groups.is_empty());
    let groups = groups.ok_or_else(|| settings.wrong("config_groups", "must have a group"))?;
    let schemes: Vec<CompressedScheme> = groups
        .iter()
        .map(|(name, value)| {
            let path = format!("{}config_groups.{name}.", settings.path);
            compressed_group(&Settings { file: settings.file, path, value })
        })
        .collect::<Result<_, _>>()?;
    if schemes.iter().any(|scheme| *scheme != schemes[0]) {
        return Err(settings.wrong(
            "config_groups",
            "has groups of layers with other numbers of bits or other scales, which is not supported",
        ));
    }
    Ok(Scheme::Compressed(schemes[0].clone()))
}

fn compressed_group(group: &Settings<'_>) -> Result<CompressedScheme, VlmError> {
    let inside = |key: &str| {
        let value = group.get(key)?;
        Some(Settings { file: group.file, path: format!("{}{key}.", group.path), value })
    };
    group.absent("output_activations")?;
    if let Some(activations) = inside("input_activations") {
        activations.expect("dynamic", &["true"])?;
    }
    let weights = inside("weights").ok_or_else(|| group.wrong("weights", "is missing"))?;
    weights.expect("num_bits", &["4", "8"])?;
    weights.expect("type", &["int", "float"])?;
    weights.expect("dynamic", &["false"])?;
    weights.expect("actorder", &["weight", "static", "false"])?;
    let strategy = weights.text("strategy").unwrap_or_default();
    let shared = match strategy.as_str() {
        "tensor" => SharedScales::Tensor,
        "channel" => SharedScales::Channel,
        "group" => SharedScales::Group(weights.group(&["group_size"])?),
        "block" => SharedScales::Block(weights.pair("block_structure")?),
        _ => {
            let why = format!("is `{strategy}`; only tensor, channel, group and block are supported");
            return Err(weights.wrong("strategy", &why));
        }
    };
    let (bits, is_float) =
        (weights.size("num_bits")? as u32, weights.text("type").is_some_and(|kind| kind == "float"));
    if is_float && bits != 8 {
        return Err(weights.wrong("num_bits", "of floats is not 8, which is not supported"));
    }
    let symmetric = weights.get("symmetric").and_then(Value::as_bool).unwrap_or(true);
    Ok(CompressedScheme { bits, is_float, symmetric, shared })
}
