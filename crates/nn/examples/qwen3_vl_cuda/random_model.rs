//! A model of real widths with random weights: what speed and rounding look like there.

use std::error::Error;
use std::path::Path;

use half::bf16;
use plaudit_nn::Weights;
use plaudit_nn::weights::Array;
use rayon::prelude::*;
use serde_json::{Value, json};

const HEADS: usize = 32;
const KV_HEADS: usize = 8;
const HEAD_WIDTH: usize = 128;
const VOCAB: usize = 151_936;

/// The widths of a size of Qwen3-VL.
pub(crate) struct Widths {
    hidden: usize,
    inner: usize,
    vision: usize,
    vision_inner: usize,
    /// Vision blocks whose features go into early layers of the language model, of a whole model.
    deepstack: [usize; 3],
    blocks: usize,
    has_own_head: bool,
}

impl Widths {
    pub(crate) fn of(size: &str) -> Option<Self> {
        match size {
            "4B" => Some(Self {
                hidden: 2560,
                inner: 9728,
                vision: 1024,
                vision_inner: 4096,
                deepstack: [5, 11, 17],
                blocks: 24,
                has_own_head: false,
            }),
            "8B" => Some(Self {
                hidden: 4096,
                inner: 12_288,
                vision: 1152,
                vision_inner: 4304,
                deepstack: [8, 16, 24],
                blocks: 27,
                has_own_head: true,
            }),
            _ => None,
        }
    }
}

/// Writes a folder with the files of a tiny model beside the widths of a large one.
pub(crate) fn make(
    tiny: &Path,
    folder: &Path,
    widths: &Widths,
    layers: usize,
    blocks: usize,
) -> Result<Value, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for file in std::fs::read_dir(tiny)? {
        let file = file?;
        if file.file_name().to_string_lossy().ends_with(".json") {
            std::fs::copy(file.path(), folder.join(file.file_name()))?;
        }
    }
    let mut config: Value = serde_json::from_slice(&std::fs::read(tiny.join("config.json"))?)?;
    let deepstack = if blocks == widths.blocks { widths.deepstack } else { [0, 1, 2] };
    for (key, value) in [
        ("hidden_size", json!(widths.hidden)),
        ("num_hidden_layers", json!(layers)),
        ("intermediate_size", json!(widths.inner)),
        ("num_attention_heads", json!(HEADS)),
        ("num_key_value_heads", json!(KV_HEADS)),
        ("head_dim", json!(HEAD_WIDTH)),
        ("vocab_size", json!(VOCAB)),
        ("max_position_embeddings", json!(262_144)),
    ] {
        config["text_config"][key] = value;
    }
    config["tie_word_embeddings"] = json!(!widths.has_own_head);
    config["text_config"]["tie_word_embeddings"] = json!(!widths.has_own_head);
    config["text_config"]["rope_parameters"]["mrope_section"] = json!([24, 20, 20]);
    for (key, value) in [
        ("hidden_size", json!(widths.vision)),
        ("depth", json!(blocks)),
        ("intermediate_size", json!(widths.vision_inner)),
        ("num_heads", json!(16)),
        ("out_hidden_size", json!(widths.hidden)),
        ("deepstack_visual_indexes", json!(deepstack)),
    ] {
        config["vision_config"][key] = value;
    }
    std::fs::write(folder.join("config.json"), config.to_string())?;
    let mut weights = Weights::new();
    let mut numbers = 0;
    for (i, (name, shape)) in widths.tensors(layers, blocks).into_iter().enumerate() {
        let count: usize = shape.iter().product();
        numbers += count;
        // Scales of norms are about one, as in trained models.
        let (mean, spread) =
            if name.contains("norm") && name.ends_with(".weight") { (1.0, 0.1) } else { (0.0, 0.035) };
        let of_chunk = |(chunk, numbers): (usize, &mut [bf16])| {
            let mut state = ((i as u64) << 32 | chunk as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for number in numbers {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let unit = (state >> 40) as f32 / (1 << 24) as f32;
                *number = bf16::from_f32(mean + (2.0 * unit - 1.0) * spread);
            }
        };
        let mut tensor = vec![bf16::ZERO; count];
        tensor.par_chunks_mut(1 << 16).enumerate().for_each(of_chunk);
        weights.insert(name, Array::from_slice(&shape, &tensor)?);
    }
    weights.write_safetensors(folder.join("model.safetensors"), &Default::default())?;
    Ok(json!({ "folder": folder.display().to_string(), "parameters": numbers }))
}

impl Widths {
    /// Names and shapes of all tensors.
    fn tensors(&self, layers: usize, blocks: usize) -> Vec<(String, Vec<usize>)> {
        let Self { hidden, inner, vision, vision_inner, .. } = *self;
        let mut all: Vec<(String, Vec<usize>)> = vec![
            ("language_model.embed_tokens.weight".into(), vec![VOCAB, hidden]),
            ("language_model.norm.weight".into(), vec![hidden]),
            ("visual.patch_embed.proj.weight".into(), vec![vision, 3, 2, 16, 16]),
            ("visual.patch_embed.proj.bias".into(), vec![vision]),
            ("visual.pos_embed.weight".into(), vec![2304, vision]),
        ];
        for i in 0..layers {
            for (part, shape) in [
                ("input_layernorm", vec![hidden]),
                ("post_attention_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![HEADS * HEAD_WIDTH, hidden]),
                ("self_attn.k_proj", vec![KV_HEADS * HEAD_WIDTH, hidden]),
                ("self_attn.v_proj", vec![KV_HEADS * HEAD_WIDTH, hidden]),
                ("self_attn.o_proj", vec![hidden, HEADS * HEAD_WIDTH]),
                ("self_attn.q_norm", vec![HEAD_WIDTH]),
                ("self_attn.k_norm", vec![HEAD_WIDTH]),
                ("mlp.gate_proj", vec![inner, hidden]),
                ("mlp.up_proj", vec![inner, hidden]),
                ("mlp.down_proj", vec![hidden, inner]),
            ] {
                all.push((format!("language_model.layers.{i}.{part}.weight"), shape));
            }
        }
        let mut with_bias = |name: String, shape: Vec<usize>| {
            all.push((format!("{name}.bias"), vec![shape[0]]));
            all.push((format!("{name}.weight"), shape));
        };
        for i in 0..blocks {
            for (part, shape) in [
                ("norm1", vec![vision]),
                ("norm2", vec![vision]),
                ("attn.qkv", vec![3 * vision, vision]),
                ("attn.proj", vec![vision, vision]),
                ("mlp.linear_fc1", vec![vision_inner, vision]),
                ("mlp.linear_fc2", vec![vision, vision_inner]),
            ] {
                with_bias(format!("visual.blocks.{i}.{part}"), shape);
            }
        }
        let merged = 4 * vision;
        let mergers = [("merger".to_owned(), vision)];
        let deepstack = (0..3).map(|i| (format!("deepstack_merger_list.{i}"), merged));
        for (merger, norm) in mergers.into_iter().chain(deepstack) {
            with_bias(format!("visual.{merger}.norm"), vec![norm]);
            with_bias(format!("visual.{merger}.linear_fc1"), vec![merged, merged]);
            with_bias(format!("visual.{merger}.linear_fc2"), vec![hidden, merged]);
        }
        for (name, _) in &mut all {
            name.insert_str(0, "model.");
        }
        if self.has_own_head {
            all.push(("lm_head.weight".into(), vec![VOCAB, hidden]));
        }
        all
    }
}
