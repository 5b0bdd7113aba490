//! `config.json` of Qwen3-VL, Qwen3-VL-MoE and Qwen2.5-VL, in the spellings of the hub and of transformers 5.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::VlmError;

/// The sizes of a model and the tokens that stand for images and videos.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Whose model it is.
    #[serde(default)]
    pub family: Family,
    /// The language model.
    pub text: TextConfig,
    /// The vision tower.
    pub vision: VisionConfig,
    /// Whether the head that scores tokens is the table of their embeddings.
    pub tied: bool,
    /// The token that stands for a piece of an image.
    pub image_token: u32,
    /// The token that stands for a piece of a video.
    pub video_token: u32,
}

/// The models that can be opened, by `model_type`. What sets their networks apart is in the sizes; the family itself says how videos are
/// written into prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Qwen3-VL, dense.
    #[default]
    #[serde(rename = "qwen3_vl")]
    Qwen3Vl,
    /// Qwen3-VL with experts.
    #[serde(rename = "qwen3_vl_moe")]
    Qwen3VlMoe,
    /// Qwen2.5-VL.
    #[serde(rename = "qwen2_5_vl")]
    Qwen25Vl,
}

impl Family {
    const ALL: [Self; 3] = [Self::Qwen3Vl, Self::Qwen3VlMoe, Self::Qwen25Vl];

    /// `model_type` of config.json.
    #[must_use]
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen3Vl => "qwen3_vl",
            Self::Qwen3VlMoe => "qwen3_vl_moe",
            Self::Qwen25Vl => "qwen2_5_vl",
        }
    }

    /// transformers' class for it.
    fn architecture(self) -> &'static str {
        match self {
            Self::Qwen3Vl => "Qwen3VLForConditionalGeneration",
            Self::Qwen3VlMoe => "Qwen3VLMoeForConditionalGeneration",
            Self::Qwen25Vl => "Qwen2_5_VLForConditionalGeneration",
        }
    }
}

/// Which of the axes time, row and column the frequencies of a head follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeAxes {
    /// One after another in turn: Qwen3-VL.
    #[default]
    Interleaved,
    /// Those of time first, then rows, then columns: Qwen2.5-VL.
    Sections,
}

/// A mixture of experts in place of the feed-forward network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpertsConfig {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that each token goes to.
    pub per_token: usize,
    /// Intermediate size of an expert.
    pub inner: usize,
    /// Every so many layers have experts; the others have the plain network.
    pub every: usize,
    /// Layers that have the plain network all the same.
    pub dense_layers: Vec<usize>,
}

/// Attention of the vision tower within windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowConfig {
    /// Tokens along the side of a window.
    pub side: usize,
    /// Blocks that attend to the whole image all the same.
    pub full_blocks: Vec<usize>,
}

/// The sizes of the language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextConfig {
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// Hidden size: numbers per token between layers.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves several query heads.
    pub kv_heads: usize,
    /// Head dimension.
    pub head_width: usize,
    /// Intermediate size of the feed-forward network.
    pub inner: usize,
    /// Added to the mean square when numbers are normalised.
    pub epsilon: f64,
    /// Base of the rotary position embeddings (`rope_theta`).
    pub theta: f64,
    /// How many frequencies follow time, row and column.
    pub sections: [usize; 3],
    /// Which axis each frequency follows.
    #[serde(default)]
    pub rope_axes: RopeAxes,
    /// Positions that the model knows (`max_position_embeddings`), if that is written.
    #[serde(default)]
    pub max_positions: Option<usize>,
    /// Whether queries, keys and values have biases, and no norm of each head: Qwen2.5-VL.
    #[serde(default)]
    pub attention_bias: bool,
    /// Experts, if it has some.
    #[serde(default)]
    pub experts: Option<ExpertsConfig>,
}

impl TextConfig {
    /// The experts of layer `i`, if it has some.
    pub(super) fn experts_of(&self, i: usize) -> Option<&ExpertsConfig> {
        let experts = self.experts.as_ref()?;
        let has = (i + 1).is_multiple_of(experts.every) && !experts.dense_layers.contains(&i);
        has.then_some(experts)
    }
}

/// The sizes of the vision tower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisionConfig {
    /// Hidden size: numbers per patch between blocks.
    pub width: usize,
    /// Blocks.
    pub depth: usize,
    /// Heads.
    pub heads: usize,
    /// Intermediate size of the feed-forward network.
    pub inner: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in a patch.
    pub frames: usize,
    /// Patches along the side of a square that becomes one token.
    pub merge: usize,
    /// Side of the square of learned positions; not set: there are none.
    pub positions: Option<usize>,
    /// Blocks whose output also goes into the first layers of the language model.
    pub deepstack: Vec<usize>,
    /// Base of the rotary position embeddings (`rope_theta`).
    pub theta: f64,
    /// Windows of attention, if there are some. Such a tower has root mean square norms, gated feed-forward networks (SwiGLU) and patches
    /// without bias: Qwen2.5-VL.
    #[serde(default)]
    pub windows: Option<WindowConfig>,
    /// Positions in time that a second of a video takes, where positions say when a frame is shown; not set: words before it do.
    #[serde(default)]
    pub tokens_per_second: Option<f64>,
}

impl VisionConfig {
    /// Numbers in a patch: colours, frames and pixels.
    #[must_use]
    pub fn patch_len(&self) -> usize {
        3 * self.frames * self.patch * self.patch
    }

    /// Whether patches attend to all of an image in block `i`, and not within windows.
    pub(super) fn attends_fully(&self, i: usize) -> bool {
        self.windows.as_ref().is_none_or(|windows| windows.full_blocks.contains(&i))
    }

    /// Patches that become one token.
    #[must_use]
    pub fn merged(&self) -> usize {
        self.merge * self.merge
    }
}

/// A section of `config.json`, for error messages too.
struct ConfigSection<'a> {
    file: &'a Path,
    path: &'a str,
    value: &'a Value,
}

impl ConfigSection<'_> {
    fn wrong(&self, key: &str, why: &str) -> VlmError {
        let problem = format!("`{}{key}` {why}", self.path);
        VlmError::Config { file: self.file.to_owned(), problem }
    }

    fn size(&self, key: &str) -> Result<usize, VlmError> {
        let number = self.value.get(key).and_then(Value::as_u64).filter(|number| *number > 0);
        let number = number.ok_or_else(|| self.wrong(key, "must be a whole number above zero"))?;
        usize::try_from(number).map_err(|_| self.wrong(key, "is too large"))
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.value.get(key).and_then(Value::as_f64)
    }

    fn sizes(&self, key: &str) -> Option<Vec<usize>> {
        let sizes = self.value.get(key)?.as_array()?;
        sizes.iter().map(|size| usize::try_from(size.as_u64()?).ok()).collect()
    }

    fn expect(&self, key: &str, allowed: &[&str]) -> Result<(), VlmError> {
        match self.value.get(key).and_then(Value::as_str) {
            Some(found) if !allowed.contains(&found) => {
                Err(self.wrong(key, &format!("is `{found}`; only {} is supported", allowed.join(", "))))
            }
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// When it cannot be read, is not of this family, or has sizes that do not go together.
    pub fn read(file: &Path) -> Result<Self, VlmError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| VlmError::File { file: file.to_owned(), source })?;
        let value = serde_json::from_str(&text).map_err(|error| VlmError::Config {
            file: file.to_owned(),
            problem: format!("no JSON: {error}"),
        })?;
        Self::parse(file, &value)
    }

    /// Reads the contents of `config.json`; `file` is for messages.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(file: &Path, value: &Value) -> Result<Self, VlmError> {
        let top = ConfigSection { file, path: "", value };
        let kind = value.get("model_type").and_then(Value::as_str).unwrap_or("nothing");
        let family = Family::ALL.into_iter().find(|family| family.model_type() == kind);
        let Some(family) = family else {
            let known = Family::ALL.map(Family::model_type).join(", ");
            let why = format!(
                "is `{kind}`; models of {known} run here, those of other families behind a server that speaks the \
                 OpenAI chat protocol"
            );
            return Err(top.wrong("model_type", &why));
        };
        let section = |key: &'static str, path: &'static str| {
            let value = value.get(key).filter(|section| section.is_object());
            let value = value.ok_or_else(|| top.wrong(key, "is missing"))?;
            Ok::<_, VlmError>(ConfigSection { file, path, value })
        };
        // The hub's files of Qwen2.5-VL have the language model's settings beside the others.
        let is_flat = family == Family::Qwen25Vl && value.get("text_config").is_none();
        let text = match is_flat {
            true => ConfigSection { file, path: "", value },
            false => section("text_config", "text_config.")?,
        };
        let vision = section("vision_config", "vision_config.")?;
        let tied =
            [value, text.value].iter().find_map(|section| section.get("tie_word_embeddings")?.as_bool());
        let token = |key| top.size(key).map(|token| u32::try_from(token).unwrap_or(u32::MAX));
        let config = Self {
            family,
            tied: tied.unwrap_or(false),
            image_token: token("image_token_id")?,
            video_token: token("video_token_id")?,
            text: text_config(&text, family)?,
            vision: match family {
                Family::Qwen3Vl | Family::Qwen3VlMoe => vision_config(&vision)?,
                Family::Qwen25Vl => windowed_vision_config(&vision)?,
            },
        };
        config.check(&top)?;
        Ok(config)
    }

    fn check(&self, top: &ConfigSection<'_>) -> Result<(), VlmError> {
        let Self { text, vision, .. } = self;
        if !text.heads.is_multiple_of(text.kv_heads) {
            return Err(
                top.wrong("text_config.num_attention_heads", "is no multiple of `num_key_value_heads`")
            );
        }
        if text.sections.iter().sum::<usize>() * 2 != text.head_width {
            return Err(top.wrong("mrope_section", "does not add up to half of `head_dim`"));
        }
        if !vision.width.is_multiple_of(vision.heads) || !(vision.width / vision.heads).is_multiple_of(4) {
            return Err(top.wrong("vision_config.hidden_size", "is no multiple of four times `num_heads`"));
        }
        if vision.deepstack.iter().any(|block| *block >= vision.depth) {
            return Err(
                top.wrong("vision_config.deepstack_visual_indexes", "names a block that is not there")
            );
        }
        if !vision.deepstack.is_sorted_by(|before, after| before < after) {
            return Err(top.wrong(
                "vision_config.deepstack_visual_indexes",
                "is not in ascending order, which is not supported",
            ));
        }
        if let Some(WindowConfig { full_blocks, .. }) = &vision.windows
            && full_blocks.iter().any(|block| *block >= vision.depth)
        {
            return Err(top.wrong("vision_config.fullatt_block_indexes", "names a block that is not there"));
        }
        if text.experts.as_ref().is_some_and(|experts| experts.per_token > experts.count) {
            return Err(top.wrong("text_config.num_experts_per_tok", "is more than `num_experts`"));
        }
        if vision.deepstack.len() > text.layers {
            return Err(top.wrong("vision_config.deepstack_visual_indexes", "has more entries than layers"));
        }
        Ok(())
    }

    /// The contents of a `config.json` that this code and transformers 5 read.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { family, text, vision, tied, image_token, video_token } = self;
        let mut value = json!({
            "architectures": [family.architecture()],
            "model_type": family.model_type(),
            "dtype": "float32",
            "image_token_id": image_token,
            "video_token_id": video_token,
            "tie_word_embeddings": tied,
            "text_config": text.to_json(*family),
            "vision_config": vision.to_json(*family, text.width),
        });
        value["text_config"]["tie_word_embeddings"] = (*tied).into();
        value
    }
}

/// Adds the entries of one object to another.
fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}

impl TextConfig {
    fn to_json(&self, family: Family) -> Value {
        let mut value = json!({
            "model_type": format!("{}_text", family.model_type()),
            "vocab_size": self.vocab,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.inner,
            "hidden_act": "silu",
            "rms_norm_eps": self.epsilon,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.theta,
                "mrope_section": self.sections,
            },
        });
        if !self.attention_bias {
            extend(&mut value, json!({ "head_dim": self.head_width, "attention_bias": false }));
        }
        if self.rope_axes == RopeAxes::Interleaved {
            value["rope_parameters"]["mrope_interleaved"] = true.into();
        }
        if let Some(positions) = self.max_positions {
            value["max_position_embeddings"] = positions.into();
        }
        if let Some(experts) = &self.experts {
            let ExpertsConfig { count, per_token, inner, every, dense_layers } = experts;
            extend(
                &mut value,
                json!({
                    "num_experts": count,
                    "num_experts_per_tok": per_token,
                    "moe_intermediate_size": inner,
                    "decoder_sparse_step": every,
                    "mlp_only_layers": dense_layers,
                    "norm_topk_prob": true,
                }),
            );
        }
        value
    }
}

impl VisionConfig {
    fn to_json(&self, family: Family, text_width: usize) -> Value {
        let mut value = json!({
            "model_type": format!("{}_vision", family.model_type()),
            "hidden_size": self.width,
            "depth": self.depth,
            "num_heads": self.heads,
            "intermediate_size": self.inner,
            "in_channels": 3,
            "patch_size": self.patch,
            "temporal_patch_size": self.frames,
            "spatial_merge_size": self.merge,
            "out_hidden_size": text_width,
            "rope_parameters": { "rope_type": "axial", "rope_theta": self.theta },
        });
        let more = match &self.windows {
            Some(WindowConfig { side, full_blocks }) => json!({
                "hidden_act": "silu",
                "window_size": side * self.merge * self.patch,
                "fullatt_block_indexes": full_blocks,
                "tokens_per_second": self.tokens_per_second,
            }),
            None => json!({
                "hidden_act": "gelu_pytorch_tanh",
                "num_position_embeddings": self.positions.map(|side| side * side),
                "deepstack_visual_indexes": self.deepstack,
            }),
        };
        extend(&mut value, more);
        value
    }
}

fn text_config(section: &ConfigSection<'_>, family: Family) -> Result<TextConfig, VlmError> {
    let is_older = family == Family::Qwen25Vl;
    section.expect("hidden_act", &["silu"])?;
    for key in ["attention_bias", "use_sliding_window"] {
        if section.value.get(key).and_then(Value::as_bool) == Some(true) {
            return Err(section.wrong(key, "is true, which is not supported"));
        }
    }
    let rope = ["rope_parameters", "rope_scaling"];
    let rope = rope.iter().find_map(|key| section.value.get(*key).filter(|rope| rope.is_object()));
    let rope = ConfigSection { value: rope.unwrap_or(&Value::Null), ..*section };
    let kinds: &[&str] = if is_older { &["default", "mrope"] } else { &["default"] };
    rope.expect("rope_type", kinds)?;
    rope.expect("type", kinds)?;
    let theta = rope.number("rope_theta").or_else(|| section.number("rope_theta"));
    let sections = rope.sizes("mrope_section").and_then(|sections| sections.try_into().ok());
    let (width, heads) = (section.size("hidden_size")?, section.size("num_attention_heads")?);
    let head_width = if is_older { width / heads } else { section.size("head_dim").unwrap_or(width / heads) };
    Ok(TextConfig {
        vocab: section.size("vocab_size")?,
        width,
        layers: section.size("num_hidden_layers")?,
        heads,
        kv_heads: section.size("num_key_value_heads")?,
        head_width,
        inner: section.size("intermediate_size")?,
        epsilon: section.number("rms_norm_eps").unwrap_or(1e-6),
        theta: theta.ok_or_else(|| section.wrong("rope_theta", "is missing, also in `rope_parameters`"))?,
        sections: sections.ok_or_else(|| {
            section.wrong("mrope_section", "must be three numbers in `rope_parameters` or `rope_scaling`")
        })?,
        rope_axes: if is_older { RopeAxes::Sections } else { RopeAxes::Interleaved },
        max_positions: match section.value.get("max_position_embeddings") {
            None | Some(Value::Null) => None,
            Some(_) => Some(section.size("max_position_embeddings")?),
        },
        attention_bias: is_older,
        experts: (family == Family::Qwen3VlMoe).then(|| experts_config(section)).transpose()?,
    })
}

fn experts_config(section: &ConfigSection<'_>) -> Result<ExpertsConfig, VlmError> {
    if section.value.get("norm_topk_prob").and_then(Value::as_bool) == Some(false) {
        return Err(section.wrong("norm_topk_prob", "is false, which is not supported"));
    }
    let is_set = |key: &str| section.value.get(key).is_some_and(|value| !value.is_null());
    // transformers 5 writes the second.
    let count = if is_set("num_experts") { "num_experts" } else { "num_local_experts" };
    Ok(ExpertsConfig {
        count: section.size(count)?,
        per_token: section.size("num_experts_per_tok")?,
        inner: section.size("moe_intermediate_size")?,
        every: if is_set("decoder_sparse_step") { section.size("decoder_sparse_step")? } else { 1 },
        dense_layers: match is_set("mlp_only_layers") {
            true => section
                .sizes("mlp_only_layers")
                .ok_or_else(|| section.wrong("mlp_only_layers", "must be a list of layers"))?,
            false => Vec::new(),
        },
    })
}

fn vision_config(section: &ConfigSection<'_>) -> Result<VisionConfig, VlmError> {
    section.expect("hidden_act", &["gelu_pytorch_tanh"])?;
    let positions = section.size("num_position_embeddings")?;
    let side = positions.isqrt();
    if side * side != positions {
        return Err(section.wrong("num_position_embeddings", "is no square number"));
    }
    let rope = section.value.get("rope_parameters").unwrap_or(&Value::Null);
    let theta = ConfigSection { value: rope, ..*section }.number("rope_theta");
    Ok(VisionConfig {
        width: section.size("hidden_size")?,
        depth: section.size("depth")?,
        heads: section.size("num_heads")?,
        inner: section.size("intermediate_size")?,
        patch: section.size("patch_size")?,
        frames: section.size("temporal_patch_size")?,
        merge: section.size("spatial_merge_size")?,
        positions: Some(side),
        deepstack: section
            .sizes("deepstack_visual_indexes")
            .ok_or_else(|| section.wrong("deepstack_visual_indexes", "must be a list of blocks"))?,
        theta: theta.unwrap_or(10_000.0),
        windows: None,
        tokens_per_second: None,
    })
}

/// The tower of Qwen2.5-VL.
fn windowed_vision_config(section: &ConfigSection<'_>) -> Result<VisionConfig, VlmError> {
    section.expect("hidden_act", &["silu"])?;
    let rope = section.value.get("rope_parameters").unwrap_or(&Value::Null);
    let theta = ConfigSection { value: rope, ..*section }.number("rope_theta");
    let (patch, merge) = (section.size("patch_size")?, section.size("spatial_merge_size")?);
    let window = section.size("window_size")?;
    let side = window / merge / patch;
    if side == 0 {
        return Err(section.wrong("window_size", "is less than a token is wide"));
    }
    let full_blocks = section
        .sizes("fullatt_block_indexes")
        .ok_or_else(|| section.wrong("fullatt_block_indexes", "must be a list of blocks"))?;
    let tokens_per_second = section.number("tokens_per_second").filter(|number| *number > 0.0);
    Ok(VisionConfig {
        width: section.size("hidden_size")?,
        depth: section.size("depth")?,
        heads: section.size("num_heads")?,
        inner: section.size("intermediate_size")?,
        patch,
        frames: section.size("temporal_patch_size")?,
        merge,
        positions: None,
        deepstack: Vec::new(),
        theta: theta.unwrap_or(10_000.0),
        windows: Some(WindowConfig { side, full_blocks }),
        tokens_per_second: Some(
            tokens_per_second
                .ok_or_else(|| section.wrong("tokens_per_second", "must be a number above zero"))?,
        ),
    })
}
