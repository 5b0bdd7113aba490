//! Models as ONNX: the files that onnxruntime ran (`onnx/make_expected.py`) are those that are written here,
//! and what it computed is what plaudit computes.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::collections::HashMap;

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, Pixels, ViewPixels};
use plaudit_reward::card::ModelCard;
use plaudit_reward::custom::{CustomCard, ImageScorer, OnnxScorer, OutputMeaning};
use plaudit_reward::onnx::{OPSET, OnnxError, to_onnx};
use sha2::{Digest, Sha256};

#[derive(serde::Deserialize)]
struct Expected {
    sha256: String,
    opset: i64,
    logit: Vec<f64>,
    score: Vec<f64>,
    #[serde(default)]
    distribution: Vec<f64>,
}

/// Rows and columns of the images of each camera: one as the network wants them, one larger, one smaller.
const SIZES: [[usize; 2]; 2] = [[41, 52], [20, 32]];
const BATCH: usize = 3;
/// Scores of models whose logits differ by rounding alone.
const CLOSE: f64 = 1e-4;

fn settings(arch: Arch) -> ClassifierSettings {
    ClassifierSettings { arch, image_size: [3, 32, 32], ..ClassifierSettings::default() }
}

fn cases() -> Vec<(&'static str, ClassifierSettings)> {
    let two = || vec!["main_images".to_string(), "extra_view_images@-2".to_string()];
    let spatial = |settings| ClassifierSettings { num_spatial_blocks: 2, hidden_dim: Some(16), ..settings };
    vec![
        ("resnet10", ClassifierSettings { hidden_dim: Some(16), ..settings(Arch::Resnet10) }),
        ("resnet10_as_it_is", ClassifierSettings { normalize: false, ..settings(Arch::Resnet10) }),
        ("resnet10_shared", ClassifierSettings { image_keys: two(), ..settings(Arch::Resnet10) }),
        (
            "resnet10_separate",
            ClassifierSettings { image_keys: two(), shared_trunk: false, ..settings(Arch::Resnet10) },
        ),
        ("resnet10_progress", ClassifierSettings { progress_bins: Some(5), ..settings(Arch::Resnet10) }),
        (
            "spatial",
            spatial(ClassifierSettings { image_size: [3, 64, 96], ..settings(Arch::Resnet10Spatial) }),
        ),
        (
            "spatial_averaged",
            spatial(ClassifierSettings {
                use_pretrain: Some(false),
                image_keys: two(),
                ..settings(Arch::Resnet10Spatial)
            }),
        ),
        ("resnet18", settings(Arch::Resnet18)),
        ("resnet18_hidden", ClassifierSettings { hidden_dim: Some(8), ..settings(Arch::Resnet18) }),
        ("resnet34", settings(Arch::Resnet34)),
        ("resnet50", settings(Arch::Resnet50)),
    ]
}

/// Fresh weights, with statistics, scales and shifts that are not those of a fresh network.
fn weights(settings: &ClassifierSettings) -> Weights {
    let fresh = Trainer::new(settings, AdamW::default(), 5).unwrap().weights().unwrap();
    let mut changed = Weights::new();
    for (name, array) in fresh.iter() {
        let Some(numbers) = fresh.f32(name) else { continue };
        let shape: Vec<usize> = array.shape().to_vec();
        let wave = |at: usize| ((at * 37 % 101) as f32 / 101.0 - 0.5) * 0.4;
        let is_vector = shape.len() == 1;
        let numbers: Vec<f32> = numbers
            .iter()
            .enumerate()
            .map(|(at, number)| if is_vector { number + wave(at) } else { *number })
            .collect();
        changed.insert_f32(name, &shape, &numbers);
    }
    changed
}

fn image_bytes(camera: usize) -> Vec<u8> {
    let [rows, columns] = SIZES[camera];
    (0..BATCH * rows * columns * 3).map(|at| ((at * 7919 + at / 97 * 31 + camera * 13) % 251) as u8).collect()
}

fn card(settings: &ClassifierSettings) -> ModelCard {
    ModelCard { temperature: Some(1.5), threshold: Some(0.4), ..ModelCard::of(settings.clone()) }
}

/// The settings with nothing left open, and plaudit's own logits.
fn own_logits(settings: &ClassifierSettings, weights: &Weights) -> (ClassifierSettings, Vec<f32>) {
    let scorer = Scorer::new(settings, weights, Device::Cpu).unwrap();
    let bytes: Vec<Vec<u8>> = (0..settings.image_keys.len()).map(image_bytes).collect();
    let mut views = Vec::new();
    for (camera, key) in settings.image_keys.iter().enumerate() {
        let [rows, columns] = SIZES[camera];
        views.push(ViewPixels::from_shape(key, Pixels::U8(&bytes[camera]), [BATCH, rows, columns, 3]));
    }
    let logits = scorer.logits(&ImageBatch::new(views).unwrap()).unwrap();
    (scorer.settings().clone(), logits)
}

/// For the generator: the models, and the inputs that they are run on.
fn write_for_oracle(folder: &str, models: &[(&str, Vec<u8>)]) {
    let folder = std::path::Path::new(folder);
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in models {
        std::fs::write(folder.join(format!("{name}.onnx")), bytes).unwrap();
    }
    let mut shapes = HashMap::new();
    for (camera, [rows, columns]) in SIZES.into_iter().enumerate() {
        std::fs::write(folder.join(format!("images_{camera}.bin")), image_bytes(camera)).unwrap();
        shapes.insert(format!("images_{camera}"), [BATCH, rows, columns, 3]);
    }
    std::fs::write(folder.join("shapes.json"), serde_json::to_string(&shapes).unwrap()).unwrap();
}

#[test]
fn onnxruntime_computes_what_plaudit_computes() {
    let expected: HashMap<String, Expected> =
        serde_json::from_str(include_str!("onnx/expected.json")).unwrap();
    let folder = std::env::var("PLAUDIT_ONNX_MODELS").ok();
    let mut models = Vec::new();
    for (name, settings) in cases() {
        let weights = weights(&settings);
        let (settings, logits) = own_logits(&settings, &weights);
        let bytes = to_onnx(&card(&settings), &weights).unwrap();
        if folder.is_some() {
            models.push((name, bytes));
            continue;
        }
        let expected = &expected[name];
        // After the version of plaudit, which is the field behind its name.
        let rest = &bytes[13 + usize::from(bytes[12])..];
        let digest: String = Sha256::digest(rest).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digest, expected.sha256,
            "{name}: another file than onnxruntime ran; run make_expected.py"
        );
        assert_eq!(expected.opset, OPSET, "{name}");
        assert_eq!(logits.len(), expected.logit.len(), "{name}");
        for ((own, logit), score) in logits.iter().zip(&expected.logit).zip(&expected.score) {
            let own = f64::from(*own);
            assert!((own - logit).abs() < CLOSE * own.abs().max(1.0), "{name}: {own} here, {logit} there");
            let own_score = 1.0 / (1.0 + (-own / 1.5).exp());
            assert!((own_score - score).abs() < CLOSE, "{name}: {own_score} here, {score} there");
        }
        if let Some(bins) = settings.progress_bins {
            assert_eq!(expected.distribution.len(), bins * BATCH);
        }
    }
    if let Some(folder) = folder {
        write_for_oracle(&folder, &models);
    }
}

/// What is written for other programs is a model of another making to plaudit as well, and gives the same numbers.
#[test]
fn what_is_written_can_be_read_again_as_anybodys_model() {
    let folder = tempfile::tempdir().unwrap();
    for (name, settings) in cases() {
        let weights = weights(&settings);
        let (settings, logits) = own_logits(&settings, &weights);
        let file = folder.path().join(format!("{name}.onnx"));
        std::fs::write(&file, to_onnx(&card(&settings), &weights).unwrap()).unwrap();
        let custom = CustomCard {
            image_keys: settings.image_keys.clone(),
            output: Some(OutputMeaning::Logit),
            output_name: Some("logit".into()),
            ..CustomCard::default()
        };
        let (scorer, assumed) = OnnxScorer::open(&file, &custom).unwrap();
        assert_eq!((assumed, scorer.image_size()), (None, None), "{name}: images of any size go in");
        let bytes: Vec<Vec<u8>> = (0..settings.image_keys.len()).map(image_bytes).collect();
        let view = |(camera, key): (usize, &'static str)| {
            let [rows, columns] = SIZES[camera];
            ViewPixels::from_shape(key, Pixels::U8(&bytes[camera]), [BATCH, rows, columns, 3])
        };
        let keys = ["main_images", "extra_view_images@-2"].into_iter().take(bytes.len());
        let batch = ImageBatch::new(keys.enumerate().map(view).collect()).unwrap();
        for (own, read) in logits.iter().zip(scorer.logits(&batch).unwrap()) {
            let far = f64::from((own - read).abs());
            assert!(far < CLOSE * f64::from(own.abs().max(1.0)), "{name}: {own} before, {read} after");
        }
    }
}

#[test]
fn weights_of_another_network_are_refused_by_name() {
    let resnet10 = settings(Arch::Resnet10);
    let error = to_onnx(&card(&settings(Arch::Resnet18)), &weights(&resnet10)).unwrap_err();
    assert!(
        matches!(&error, OnnxError::Missing { name, .. } if name.contains("bn1.running_mean")),
        "{error}"
    );
}
