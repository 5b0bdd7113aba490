//! Adapters on disk: the peft package's folders, and what RLinf saves. Every tensor of a file is used or refused by name.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::adapter::{Adapter, CONFIG, LoraWeights, PREFIX, WEIGHTS};
use super::error::VlmError;
use crate::weights::{Array, Weights};

impl Adapter {
    /// Reads an adapter: a folder that the peft package saved, or a checkpoint of RLinf's fine-tuning (a
    /// `full_weights.pt`, or a folder of the run with one), whose scale is one and which brings the base along.
    ///
    /// # Errors
    /// When there is none, it is damaged, or of a kind that is not supported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VlmError> {
        let path = path.as_ref();
        let config = path.join(CONFIG);
        if config.is_file() {
            let file = path.join(WEIGHTS);
            let wrong = |problem| VlmError::Adapter { file: config.clone(), problem };
            let text = std::fs::read_to_string(&config)
                .map_err(|source| VlmError::File { file: config.clone(), source })?;
            let value = serde_json::from_str(&text).map_err(|error| wrong(format!("no JSON: {error}")))?;
            let scale = peft_scale(&value).map_err(wrong)?;
            return Self::from_weights(&file, &Weights::read(&file)?, &scale);
        }
        let file = Weights::locate(path)?;
        let found = Self::from_weights(&file, &Weights::read(&file)?, &|_| 1.0)?;
        // A checkpoint of RLinf may be all weights without adapters; a model's own folder is no adapter.
        let is_checkpoint = file.extension().is_some_and(|extension| extension == "pt");
        if found.layers.is_empty() && found.embeddings.is_none() && !is_checkpoint {
            let problem = "has no tensors named `lora_A`; is it an adapter?".into();
            return Err(VlmError::Adapter { file, problem });
        }
        Ok(found)
    }

    /// The adapter in a file's tensors; `scale` gives the factor of a rank.
    fn from_weights(file: &Path, weights: &Weights, scale: &dyn Fn(usize) -> f64) -> Result<Self, VlmError> {
        let wrong = |problem: String| VlmError::Adapter { file: file.to_owned(), problem };
        let mut layers: BTreeMap<String, LayerTensors<'_>> = BTreeMap::new();
        let mut embeddings = LayerTensors::default();
        let mut replaced = BTreeMap::new();
        for (name, tensor) in weights.iter() {
            let Some((layer, part)) = tensor_part(name) else {
                return Err(wrong(format!("has `{name}`, and nobody here knows what it does")));
            };
            match part {
                TensorPart::Down => layers.entry(layer).or_default().down = Some((name, tensor)),
                TensorPart::Up => layers.entry(layer).or_default().up = Some((name, tensor)),
                TensorPart::Magnitude => layers.entry(layer).or_default().magnitude = Some((name, tensor)),
                TensorPart::EmbeddingDown => embeddings.down = Some((name, tensor)),
                TensorPart::EmbeddingUp => embeddings.up = Some((name, tensor)),
                TensorPart::Base => drop(replaced.insert(layer, tensor.clone())),
                TensorPart::Unused => {}
            }
        }
        let layers = layers.into_iter().map(|(layer, tensors)| Ok((layer, tensors.lora(scale)?)));
        let layers: BTreeMap<String, LoraWeights> = layers.collect::<Result<_, String>>().map_err(wrong)?;
        let embeddings = embeddings.is_there().then(|| embeddings.lora(scale)).transpose().map_err(wrong)?;
        if layers.is_empty() && replaced.is_empty() && embeddings.is_none() {
            return Err(wrong("has no tensors; is it an adapter?".into()));
        }
        Ok(Self { source: file.to_owned(), layers, embeddings, replaced })
    }
}

/// What a tensor of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TensorPart {
    /// `A` of a layer.
    Down,
    /// `B` of a layer.
    Up,
    /// DoRA's norms of a layer.
    Magnitude,
    /// `A` of the table of tokens.
    EmbeddingDown,
    /// `B` of the table of tokens.
    EmbeddingUp,
    /// A tensor of the model itself.
    Base,
    /// What a replaced module was before.
    Unused,
}

/// The layer or tensor that a name is about, as the network calls it, and what it is of it. `None`: nobody knows.
fn tensor_part(stored: &str) -> Option<(String, TensorPart)> {
    let name = stored.strip_prefix("module.").unwrap_or(stored);
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let name = super::load::network_name(name.strip_prefix("model.").unwrap_or(name));
    // A name of the adapter may stand between, as long as it is in memory.
    let name = name.replace(".default", "");
    for (end, part) in [
        (".lora_A.weight", TensorPart::Down),
        (".lora_B.weight", TensorPart::Up),
        (".lora_magnitude_vector.weight", TensorPart::Magnitude),
        (".lora_magnitude_vector", TensorPart::Magnitude),
    ] {
        if let Some(layer) = name.strip_suffix(end) {
            return Some((layer.to_owned(), part));
        }
    }
    for (end, part) in
        [(".lora_embedding_A", TensorPart::EmbeddingDown), (".lora_embedding_B", TensorPart::EmbeddingUp)]
    {
        if let Some(layer) = name.strip_suffix(end) {
            return (layer == "language_model.embed_tokens").then(|| (layer.to_owned(), part));
        }
    }
    if name.contains(".original_module.") {
        return Some((name, TensorPart::Unused));
    }
    let is_of_model = name.ends_with(".weight") || name.ends_with(".bias");
    let name = name.replace(".base_layer", "").replace(".modules_to_save", "");
    (is_of_model && !name.contains("lora_")).then_some((name, TensorPart::Base))
}

/// The tensors of a layer's adapter, each with its name in the file.
#[derive(Default)]
struct LayerTensors<'a> {
    down: Option<(&'a str, &'a Array)>,
    up: Option<(&'a str, &'a Array)>,
    magnitude: Option<(&'a str, &'a Array)>,
}

impl LayerTensors<'_> {
    fn is_there(&self) -> bool {
        self.down.is_some() || self.up.is_some()
    }

    fn lora(&self, scale: &dyn Fn(usize) -> f64) -> Result<LoraWeights, String> {
        let any = [self.down, self.up, self.magnitude].into_iter().flatten().next();
        let any = any.map_or("", |(name, _)| name);
        let missing = |what: &str| format!("has `{any}` but no {what} beside it");
        let (name, down) = self.down.ok_or_else(|| missing("lora_A"))?;
        let (twin, up) = self.up.ok_or_else(|| missing("lora_B"))?;
        let rank = down.shape().first().copied().unwrap_or(0);
        if up.shape().get(1) != Some(&rank) || rank == 0 {
            let shapes = format!("{:?} and {:?}", down.shape(), up.shape());
            return Err(format!("`{name}` and `{twin}` are {shapes}: not of one rank"));
        }
        let numbers =
            |name: &str, tensor: &Array| tensor.to_f32().ok_or_else(|| format!("`{name}` holds no floats"));
        Ok(LoraWeights {
            rank,
            scale: scale(rank),
            down: numbers(name, down)?,
            up: numbers(twin, up)?,
            shapes: [down.shape().to_vec(), up.shape().to_vec()],
            magnitude: self.magnitude.map(|(name, tensor)| numbers(name, tensor)).transpose()?,
        })
    }
}

/// Switches of peft whose effect is all in the tensors, or in the scale.
const KNOWN_SWITCHES: [&str; 2] = ["use_dora", "use_rslora"];

/// The factor of a rank by peft's configuration.
fn peft_scale(config: &Value) -> Result<impl Fn(usize) -> f64 + use<>, String> {
    let truth = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    let switches = config.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let switches = switches.filter(|key| key.starts_with("use_") && !KNOWN_SWITCHES.contains(key));
    for key in switches.chain(["fan_in_fan_out", "lora_bias"]) {
        if truth(key) {
            return Err(format!("`{key}` is true, which is not supported"));
        }
    }
    if config.get("peft_type").and_then(Value::as_str).is_some_and(|kind| kind != "LORA") {
        return Err("`peft_type` is not `LORA`".into());
    }
    let filled = |key: &str| match config.get(key) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        _ => false,
    };
    for key in ["alpha_pattern", "layer_replication", "target_parameters", "trainable_token_indices"] {
        if filled(key) {
            return Err(format!("`{key}` is set, which is not supported"));
        }
    }
    let alpha = config.get("lora_alpha").and_then(Value::as_f64).ok_or("`lora_alpha` must be a number")?;
    let root = truth("use_rslora");
    Ok(move |rank: usize| if root { alpha / (rank as f64).sqrt() } else { alpha / rank as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_known_by_their_names() {
        let part = |name: &str| tensor_part(name).map(|(name, part)| format!("{name} {part:?}"));
        let layer = "language_model.layers.0.self_attn.q_proj";
        for (name, expected) in [
            ("base_model.model.model.{}.lora_A.weight", Some("{} Down")),
            ("module.base_model.model.model.{}.lora_B.default.weight", Some("{} Up")),
            ("base_model.model.model.{}.lora_magnitude_vector", Some("{} Magnitude")),
            ("base_model.model.model.{}.lora_magnitude_vector.default.weight", Some("{} Magnitude")),
            ("base_model.model.model.{}.base_layer.weight", Some("{}.weight Base")),
            ("base_model.model.model.{}.modules_to_save.default.weight", Some("{}.weight Base")),
            ("base_model.model.model.{}.original_module.weight", Some("{}.original_module.weight Unused")),
            ("base_model.model.lm_head.weight", Some("lm_head.weight Base")),
            ("model.{}.bias", Some("{}.bias Base")),
            ("base_model.model.model.{}.lora_B.bias", None),
            ("base_model.model.model.{}.lora_embedding_A", None),
            ("base_model.model.model.{}.ia3_l", None),
            ("base_model.model.model.{}.token_adapter.trainable_tokens_delta", None),
        ] {
            let found = part(&name.replace("{}", layer));
            assert_eq!(found, expected.map(|expected| expected.replace("{}", layer)), "{name}");
        }
        let table = "base_model.model.model.language_model.embed_tokens.lora_embedding_B";
        assert_eq!(part(table).unwrap(), "language_model.embed_tokens EmbeddingUp");
    }
}
