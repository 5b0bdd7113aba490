//! Folders of quantised models and of other families, for a machine that has no fixtures.

#[path = "../../tests/qwen3_vl/folders.rs"]
mod assembled;

use std::error::Error;
use std::path::Path;

use serde_json::{Value, json};

/// Makes all of them, each in a folder of its own; says which.
pub(crate) fn make(fixtures: &Path, into: &Path) -> Result<Value, Box<dyn Error>> {
    let mut made = Vec::new();
    let mut folder = |name: &str| {
        let folder = into.join(name);
        made.push(folder.display().to_string());
        std::fs::create_dir_all(&folder).map(|()| folder)
    };
    let model = folder("model")?;
    for file in std::fs::read_dir(fixtures.join("model"))? {
        let file = file?;
        std::fs::copy(file.path(), model.join(file.file_name()))?;
    }
    // Room for prompts whose keys are split further.
    let mut config: Value = serde_json::from_slice(&std::fs::read(model.join("config.json"))?)?;
    config["text_config"]["max_position_embeddings"] = json!(8192);
    std::fs::write(model.join("config.json"), config.to_string())?;
    for name in assembled::QUANTIZED {
        assembled::quantized(fixtures, name, &folder(name)?, |_, _| ())?;
    }
    for name in ["qwen2_5_vl", "qwen3_vl_moe"] {
        assembled::family(fixtures, name, &folder(name)?, |_, _, _| ())?;
    }
    Ok(json!({ "made": made }))
}
