//! Conversions to images, against what Python makes of the same episodes.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use plaudit_data::convert::{ConvertError, ImageOptions, ImageReport, convert_images};
use plaudit_pyfiles::{self as pyfiles, PyValue};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert").join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

fn convert(raw: &Path, out: &Path, options: &ImageOptions) -> Result<ImageReport, ConvertError> {
    convert_images(raw, &out.join("train.pt"), &out.join("val.pt"), options, &|_| {})
}

/// CRC-32 and label of each image, in order.
fn contents(path: &Path) -> Vec<(u64, u64)> {
    let data = pyfiles::read(path).unwrap();
    let images = data.get("images").and_then(PyValue::as_items).unwrap();
    let labels = data.get("labels").and_then(PyValue::as_items).unwrap();
    assert_eq!(images.len(), labels.len());
    let crc = |image: &PyValue| u64::from(crc32fast::hash(image.as_array().unwrap().bytes()));
    images.iter().zip(labels).map(|(image, label)| (crc(image), label.to_i64().unwrap() as u64)).collect()
}

fn pairs(value: &Value) -> Vec<(u64, u64)> {
    let pair = |pair: &Value| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap());
    value.as_array().unwrap().iter().map(pair).collect()
}

fn options(case: &Value) -> ImageOptions {
    let given = &case["options"];
    ImageOptions {
        num_samples_per_episode: given["num_samples_per_episode"].as_i64().unwrap(),
        keep_last_frame: given["keep_last_frame"].as_bool().unwrap(),
        val_split: given["val_split"].as_f64().unwrap(),
        fail_success_ratio: given["fail_success_ratio"].as_f64().unwrap(),
        seed: given["seed"].as_i64().unwrap(),
        ..ImageOptions::default()
    }
}

/// Every combination of options, on numpy arrays and on torch tensors: same images, same labels, same order.
#[test]
fn images_and_their_order_equal_pythons() {
    let out = tempfile::tempdir().unwrap();
    for (kind, stride) in [("numpy", 1), ("torch", 5)] {
        let raw = fixture(&format!("episodes_{kind}"));
        for case in
            expected(&format!("expected_{kind}.json"))["images"].as_array().unwrap().iter().step_by(stride)
        {
            let mut options = options(case);
            options.memory_bytes = 1000; // many small batches
            let report = convert(&raw, out.path(), &options).unwrap();
            assert_eq!(
                contents(&out.path().join("train.pt")),
                pairs(&case["train"]),
                "{kind} {}",
                case["options"]
            );
            assert_eq!(
                contents(&out.path().join("val.pt")),
                pairs(&case["val"]),
                "{kind} {}",
                case["options"]
            );
            assert_eq!(report.leakage.shared_episodes, 0);

            options.balance_val = true;
            options.memory_bytes = 1 << 20;
            let balanced = pairs(&case["val_balanced"]);
            match convert(&raw, out.path(), &options) {
                Ok(_) => {
                    assert_eq!(contents(&out.path().join("train.pt")), pairs(&case["train"]));
                    assert_eq!(contents(&out.path().join("val.pt")), balanced, "{kind} {}", case["options"]);
                }
                Err(ConvertError::EmptySplit { split: "val", .. }) => assert!(balanced.is_empty()),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn metadata_have_rlinfs_keys_first_and_the_leakage() {
    let out = tempfile::tempdir().unwrap();
    let raw = fixture("episodes_torch");
    let report = convert(&raw, out.path(), &ImageOptions::default()).unwrap();
    let keys: Vec<&String> = report.metadata.as_object().unwrap().keys().collect();
    let rlinf = [
        "raw_data_path",
        "num_samples_per_episode",
        "keep_last_frame",
        "val_split",
        "fail_success_ratio",
        "random_seed",
        "num_train_samples",
        "num_val_samples",
    ];
    assert_eq!(keys[..8], rlinf);
    let text = report.metadata_text();
    assert!(
        text.contains("\n  \"val_split\": 0.2,\n  \"fail_success_ratio\": 2.0,\n  \"random_seed\": 42,"),
        "{text}"
    );
    for name in ["train.pt", "val.pt"] {
        let metadata = pyfiles::read(out.path().join(name)).unwrap().get("metadata").cloned().unwrap();
        let leakage = metadata.get("leakage").unwrap();
        assert_eq!(leakage.get("exact_duplicates"), Some(&PyValue::Int(0)));
        assert_eq!(leakage.get("near_bits"), Some(&PyValue::Int(3)));
        assert_eq!(metadata.get("raw_data_path").and_then(PyValue::as_str), raw.to_str());
        assert_eq!(metadata.get("fail_success_ratio"), Some(&PyValue::Float(2.0)));
    }
}
