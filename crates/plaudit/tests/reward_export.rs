//! `plaudit reward export`: what other programs get of a reward model. crates/reward/tests/onnx.rs checks the
//! numbers.

use plaudit_nn::Weights;
use plaudit_reward::open::ClassifierCheckpoint;

use crate::runs::{fresh_classifier, refused, succeeds};

#[test]
fn a_model_is_written_for_other_programs() {
    let root = tempfile::tempdir().unwrap();
    let model = fresh_classifier(root.path().join("model"), &["main_images"], Some(0.4), 3);
    let words = ["reward", "export", "model", "--format", "onnx", "--output", "out/reward.onnx"];
    assert_eq!(succeeds(root.path(), &words), "out/reward.onnx\n");
    let bytes = std::fs::read(root.path().join("out/reward.onnx")).unwrap();
    // The file's own version first, then who wrote it; the weights lie in it as they are.
    assert_eq!(bytes[..11], *b"\x08\x08\x12\x07plaudit");
    let weights = Weights::read(&model).unwrap();
    let fc: Vec<u8> =
        weights.f32("classifier.4.weight").unwrap().iter().flat_map(|number| number.to_le_bytes()).collect();
    assert!(bytes.windows(fc.len()).any(|window| window == fc), "the last layer's weights");
    for text in ["plaudit.input.layout", "NHWC", "main_images", "\"arch\":\"resnet10\"", "threshold"] {
        assert!(bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }

    let words = ["reward", "export", "model", "--format", "huggingface", "-o", "folder"];
    succeeds(root.path(), &words);
    let again = ClassifierCheckpoint::read(&root.path().join("folder")).unwrap();
    assert_eq!(again.card.unwrap().threshold, Some(0.4));
    assert_eq!(again.weights.f32("classifier.4.weight"), weights.f32("classifier.4.weight"));
    let card = std::fs::read_to_string(root.path().join("folder/README.md")).unwrap();
    assert!(card.contains("# folder") && card.contains("| threshold | 0.4000 |"), "{card}");
    let config = std::fs::read_to_string(root.path().join("folder/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["settings"]["image_size"], serde_json::json!([3, 32, 32]));
}

#[test]
fn what_cannot_be_exported_is_named() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("broken.safetensors"), b"\x08\0\0\0\0\0\0\0{\"a\":12}").unwrap();
    for (words, code, expected) in [
        (["nowhere", "--format", "onnx", "-o", "x.onnx"], 2, "nowhere"),
        (["broken.safetensors", "--format", "onnx", "-o", "x.onnx"], 2, "broken.safetensors"),
        (["http://127.0.0.1:1", "--format", "onnx", "-o", "x.onnx"], 2, "is a server"),
        (["nowhere", "--format", "gguf", "-o", "x"], 2, "huggingface"),
    ] {
        let said = refused(root.path(), &[&["reward", "export"], &words[..]].concat(), code);
        assert!(said.contains(expected), "{words:?}: {said}");
        assert!(!root.path().join("x.onnx").exists());
    }
}
