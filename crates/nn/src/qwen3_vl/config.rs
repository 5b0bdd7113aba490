//! `config.json` of the Qwen3-VL family, in the spellings of the hub and of transformers 5.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::VlmError;

/// The sizes of a model and the tokens that stand for images and videos.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
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
    /// Positions that the model knows (`max_position_embeddings`), if that is written.
    #[serde(default)]
    pub max_positions: Option<usize>,
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
    /// Side of the square of learned positions.
    pub positions: usize,
    /// Blocks whose output also goes into the first layers of the language model.
    pub deepstack: Vec<usize>,
    /// Base of the rotary position embeddings (`rope_theta`).
    pub theta: f64,
}

impl VisionConfig {
    /// Numbers in a patch: colours, frames and pixels.
    #[must_use]
    pub fn patch_len(&self) -> usize {
        3 * self.frames * self.patch * self.patch
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
        if kind != "qwen3_vl" {
            let why = format!("is `{kind}`, not `qwen3_vl`; only dense Qwen3-VL models can be opened");
            return Err(top.wrong("model_type", &why));
        }
        let section = |key: &'static str, path: &'static str| {
            let value = value.get(key).filter(|section| section.is_object());
            let value = value.ok_or_else(|| top.wrong(key, "is missing"))?;
            Ok::<_, VlmError>(ConfigSection { file, path, value })
        };
        let (text, vision) =
            (section("text_config", "text_config.")?, section("vision_config", "vision_config.")?);
        let tied =
            [value, text.value].iter().find_map(|section| section.get("tie_word_embeddings")?.as_bool());
        let token = |key| top.size(key).map(|token| u32::try_from(token).unwrap_or(u32::MAX));
        let config = Self {
            tied: tied.unwrap_or(false),
            image_token: token("image_token_id")?,
            video_token: token("video_token_id")?,
            text: text_config(&text)?,
            vision: vision_config(&vision)?,
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
        if vision.deepstack.len() > text.layers {
            return Err(top.wrong("vision_config.deepstack_visual_indexes", "has more entries than layers"));
        }
        Ok(())
    }

    /// The contents of a `config.json` that this code and transformers 5 read.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { text, vision, tied, image_token, video_token } = self;
        let mut value = json!({
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "model_type": "qwen3_vl",
            "dtype": "float32",
            "image_token_id": image_token,
            "video_token_id": video_token,
            "tie_word_embeddings": tied,
            "text_config": {
                "model_type": "qwen3_vl_text",
                "vocab_size": text.vocab,
                "hidden_size": text.width,
                "num_hidden_layers": text.layers,
                "num_attention_heads": text.heads,
                "num_key_value_heads": text.kv_heads,
                "head_dim": text.head_width,
                "intermediate_size": text.inner,
                "hidden_act": "silu",
                "rms_norm_eps": text.epsilon,
                "attention_bias": false,
                "tie_word_embeddings": tied,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": text.theta,
                    "mrope_section": text.sections,
                    "mrope_interleaved": true,
                },
            },
            "vision_config": {
                "model_type": "qwen3_vl_vision",
                "hidden_size": vision.width,
                "depth": vision.depth,
                "num_heads": vision.heads,
                "intermediate_size": vision.inner,
                "hidden_act": "gelu_pytorch_tanh",
                "in_channels": 3,
                "patch_size": vision.patch,
                "temporal_patch_size": vision.frames,
                "spatial_merge_size": vision.merge,
                "num_position_embeddings": vision.positions * vision.positions,
                "out_hidden_size": text.width,
                "deepstack_visual_indexes": vision.deepstack,
                "rope_parameters": { "rope_type": "axial", "rope_theta": vision.theta },
            },
        });
        if let Some(positions) = text.max_positions {
            value["text_config"]["max_position_embeddings"] = positions.into();
        }
        value
    }
}

fn text_config(section: &ConfigSection<'_>) -> Result<TextConfig, VlmError> {
    section.expect("hidden_act", &["silu"])?;
    if section.value.get("attention_bias").and_then(Value::as_bool) == Some(true) {
        return Err(section.wrong("attention_bias", "is true; models of this family have none"));
    }
    let rope = ["rope_parameters", "rope_scaling"];
    let rope = rope.iter().find_map(|key| section.value.get(*key).filter(|rope| rope.is_object()));
    let rope = ConfigSection { value: rope.unwrap_or(&Value::Null), ..*section };
    rope.expect("rope_type", &["default"])?;
    let theta = rope.number("rope_theta").or_else(|| section.number("rope_theta"));
    let sections = rope.sizes("mrope_section").and_then(|sections| sections.try_into().ok());
    let (width, heads) = (section.size("hidden_size")?, section.size("num_attention_heads")?);
    Ok(TextConfig {
        vocab: section.size("vocab_size")?,
        width,
        layers: section.size("num_hidden_layers")?,
        heads,
        kv_heads: section.size("num_key_value_heads")?,
        head_width: section.size("head_dim").unwrap_or(width / heads),
        inner: section.size("intermediate_size")?,
        epsilon: section.number("rms_norm_eps").unwrap_or(1e-6),
        theta: theta.ok_or_else(|| section.wrong("rope_theta", "is missing, also in `rope_parameters`"))?,
        sections: sections.ok_or_else(|| {
            section.wrong("mrope_section", "must be three numbers in `rope_parameters` or `rope_scaling`")
        })?,
        max_positions: match section.value.get("max_position_embeddings") {
            None | Some(Value::Null) => None,
            Some(_) => Some(section.size("max_position_embeddings")?),
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
        positions: side,
        deepstack: section
            .sizes("deepstack_visual_indexes")
            .ok_or_else(|| section.wrong("deepstack_visual_indexes", "must be a list of blocks"))?,
        theta: theta.unwrap_or(10_000.0),
    })
}
