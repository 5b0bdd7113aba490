//! Checkpoints: read from whoever wrote them, refused with advice, and written so that PyTorch loads them.

#![allow(clippy::unwrap_used)]

#[path = "torch/formula.rs"]
mod formula;
#[path = "torch/made.rs"]
mod made;

use std::path::{Path, PathBuf};
use std::process::Command;

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use plaudit_nn::weights::{Array, DType};

fn torch_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch")
}

fn settings(arch: Arch) -> ClassifierSettings {
    ClassifierSettings { arch, hidden_dim: Some(32), image_size: [3, 64, 64], ..Default::default() }
}

fn trainer(settings: &ClassifierSettings) -> Trainer {
    Trainer::new(settings, AdamW::default(), 0).unwrap()
}

#[test]
fn files_of_training_scripts_are_read() {
    let read = |name: &str| Weights::read(torch_folder().join("checkpoints").join(name));
    let plain = read("plain.pt").unwrap();
    assert_eq!(
        plain.names().collect::<Vec<_>>(),
        ["backbone.fc.weight", "backbone.fc.bias", "backbone.bn1.num_batches_tracked"]
    );
    assert_eq!(plain.f32("backbone.fc.bias").unwrap(), [-1.5, 0.25]);
    assert_eq!(plain.get("backbone.bn1.num_batches_tracked"), Some(&Array::from_number(7i64)));
    for name in [
        "data_parallel",
        "compiled",
        "wrapped_model",
        "with_constants",
        "training_script",
        "step",
        "lightning",
        "nested",
        "parameters",
        "old_format",
    ] {
        assert_eq!(read(&format!("{name}.pt")).unwrap(), plain, "{name}");
    }
    let half = read("half.pt").unwrap();
    assert_eq!(half.get("backbone.fc.weight").unwrap().dtype(), DType::Bf16);
    assert_eq!(half.f32("backbone.fc.weight"), plain.f32("backbone.fc.weight"));
    let error = read("no_weights.pt").unwrap_err().to_string();
    assert!(error.contains("no weights in it, but a dict with the keys images, labels; expected"), "{error}");
    let error = read("absent.pt").unwrap_err().to_string();
    assert!(error.contains("absent.pt"), "{error}");
}

#[test]
fn a_checkpoint_of_another_network_says_which_setting_to_change() {
    let one = settings(Arch::Resnet18);
    let spatial = ClassifierSettings { use_pretrain: Some(true), ..settings(Arch::Resnet10Spatial) };
    let two = vec!["wrist".to_owned(), "side".to_owned()];
    let cases = [
        // What the model is, what the checkpoint is, what the error must say.
        (
            one.clone(),
            ClassifierSettings { hidden_dim: Some(256), ..one.clone() },
            vec!["`backbone.fc.0.weight` is [256, 512], the model has [32, 512]", "Set `hidden_dim: 256`"],
        ),
        (
            one.clone(),
            ClassifierSettings { hidden_dim: None, ..one.clone() },
            vec![
                "not in the checkpoint: `backbone.fc.0.weight`",
                "not in the model: `backbone.fc.weight`",
                "Set `hidden_dim: null`",
            ],
        ),
        (ClassifierSettings { hidden_dim: None, ..one.clone() }, one.clone(), vec!["Set `hidden_dim: 32`"]),
        (
            one.clone(),
            settings(Arch::Resnet34),
            vec!["not in the model: `backbone.layer1.2.conv1.weight`", "more. Set `arch: resnet34`"],
        ),
        (one.clone(), settings(Arch::Resnet50), vec!["Set `arch: resnet50`"]),
        (settings(Arch::Resnet34), one.clone(), vec!["Set `arch: resnet18`"]),
        (one.clone(), settings(Arch::Resnet10), vec!["Set `arch: resnet10`"]),
        (
            one.clone(),
            ClassifierSettings { image_keys: two.clone(), ..one.clone() },
            vec!["Name 2 camera(s) in `image_keys`"],
        ),
        (
            ClassifierSettings { image_keys: two.clone(), ..one.clone() },
            ClassifierSettings { image_keys: two.clone(), shared_trunk: false, ..one.clone() },
            vec!["Set `shared_trunk: false`"],
        ),
        (
            ClassifierSettings { image_keys: two.clone(), shared_trunk: false, ..one.clone() },
            ClassifierSettings { image_keys: two.clone(), ..one.clone() },
            vec!["Set `shared_trunk: true`"],
        ),
        (
            spatial.clone(),
            ClassifierSettings { image_keys: two.clone(), ..spatial.clone() },
            vec!["Set `image_keys: [wrist, side]`"],
        ),
        (
            spatial.clone(),
            ClassifierSettings { num_spatial_blocks: 4, ..spatial.clone() },
            vec!["Set `num_spatial_blocks: 4`"],
        ),
        (
            spatial.clone(),
            ClassifierSettings { use_pretrain: Some(false), ..spatial.clone() },
            vec!["Set `use_pretrain: false`"],
        ),
        (
            spatial.clone(),
            ClassifierSettings { image_size: [3, 128, 128], ..spatial.clone() },
            vec![
                "`encoders.main_images.pooling_layer.kernel` is [512, 4, 4, 8], the model has [512, 2, 2, 8]",
                "Set `image_size`",
                "128x128",
            ],
        ),
    ];
    for (model, checkpoint, expected) in cases {
        let weights = trainer(&checkpoint).weights().unwrap();
        let error = Scorer::new(&model, &weights, Device::Cpu).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{error}\nlacks: {part}");
        }
        let mut trainer = trainer(&model);
        let before = trainer.weights().unwrap();
        assert_eq!(trainer.load(&weights).unwrap_err().to_string(), error);
        assert_eq!(trainer.weights().unwrap(), before, "a refused checkpoint changed something");
    }
    let mut stranger = Weights::new();
    stranger.insert_f32("policy.weight", &[1], &[0.0]);
    let error = Scorer::new(&one, &stranger, Device::Cpu).unwrap_err().to_string();
    assert!(
        error.contains("not in the model: `policy.weight`. The checkpoint is of no architecture known here"),
        "{error}"
    );
}

#[test]
fn use_pretrain_is_read_off_the_pooling_kernel() {
    for use_pretrain in [true, false] {
        let made = ClassifierSettings { use_pretrain: Some(use_pretrain), ..settings(Arch::Resnet10Spatial) };
        let weights = trainer(&made).weights().unwrap();
        let open = ClassifierSettings { use_pretrain: None, ..made.clone() };
        let (adapted, notices) = open.adapted_to(&weights);
        assert_eq!(adapted, made);
        let positions = if use_pretrain { "2x2" } else { "1x1" };
        let expected = format!(
            "use_pretrain: {use_pretrain}, because `encoders.main_images.pooling_layer.kernel` in the checkpoint covers \
             {positions} positions"
        );
        assert_eq!(notices.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        assert_eq!(Scorer::new(&open, &weights, Device::Cpu).unwrap().settings(), &made);
        assert_eq!(made.adapted_to(&weights), (made.clone(), vec![]));
    }
}

/// A file as torchvision publishes them: a trunk without prefix, and a layer for ImageNet's classes.
fn published(trunk_of: &ClassifierSettings, prefix: &str, features: usize) -> Weights {
    let mut names = trainer(trunk_of).weights().unwrap().under(prefix);
    names.insert_f32("fc.weight", &[1000, features], &vec![0.0; 1000 * features]);
    names.insert_f32("fc.bias", &[1000], &[0.0; 1000]);
    let plain: Weights = names
        .iter()
        .filter(|(name, _)| !name.starts_with("fc.0") && !name.starts_with("fc.3"))
        .fold(Weights::new(), |mut kept, (name, tensor)| {
            kept.insert(name, tensor.clone());
            kept
        });
    made::weights(&plain)
}

#[test]
fn a_published_trunk_goes_into_every_trunk_and_leaves_the_head() {
    let two = vec!["wrist".to_owned(), "side".to_owned()];
    let apart =
        ClassifierSettings { image_keys: two.clone(), shared_trunk: false, ..settings(Arch::Resnet18) };
    let spatial = ClassifierSettings { image_keys: two, ..settings(Arch::Resnet10Spatial) };
    let cases = [
        (settings(Arch::Resnet18), "backbone.", vec!["backbone."]),
        (apart, "backbone.", vec!["backbones.wrist.", "backbones.side."]),
        (settings(Arch::Resnet10), "backbone.", vec!["backbone."]),
        (spatial, "backbone.", vec!["encoders.wrist.resnet_backbone.", "encoders.side.resnet_backbone."]),
    ];
    for (settings, prefix, trunks) in cases {
        let single = if settings.arch == Arch::Resnet18 { Arch::Resnet18 } else { Arch::Resnet10 };
        let file = published(&self::settings(single), prefix, 512);
        let mut trainer = trainer(&settings);
        let before = trainer.weights().unwrap();
        trainer.load_pretrained(&file).unwrap();
        let after = trainer.weights().unwrap();
        let from_file = |name: &str| trunks.iter().find_map(|trunk| file.get(name.strip_prefix(trunk)?));
        let mut replaced = 0;
        for (name, tensor) in after.iter() {
            let head = name.starts_with("backbone.fc.") && settings.arch == Arch::Resnet18;
            let expected = if head { None } else { from_file(name) };
            replaced += usize::from(expected.is_some());
            assert_eq!(tensor, expected.unwrap_or_else(|| before.get(name).unwrap()), "{name}");
        }
        let classes = if single == Arch::Resnet18 { 2 } else { 0 };
        assert_eq!(replaced, trunks.len() * (file.len() - classes), "{:?}", settings.arch);
    }
    let file = published(&settings(Arch::Resnet34), "backbone.", 512);
    let error = trainer(&settings(Arch::Resnet50)).load_pretrained(&file).unwrap_err().to_string();
    assert!(
        error.contains("`layer1.0.conv1.weight` is [64, 64, 3, 3]") && error.contains("Set `arch: resnet34`"),
        "{error}"
    );
}

#[test]
fn threads_share_a_scorer() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let settings = settings(Arch::Resnet10);
    let scorer = trainer(&settings).scorer().unwrap();
    shared(&scorer);
    let pixels = formula::bytes("shared", 5 * 64 * 64 * 3);
    let batch = batch(&settings, &pixels);
    let alone = scorer.logits(&batch).unwrap();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| scorer.logits(&batch).unwrap())).collect();
        asked.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), alone));
    });
}

fn batch<'a>(settings: &ClassifierSettings, pixels: &'a [u8]) -> ImageBatch<'a> {
    let [channels, height, width] = settings.image_size;
    let count = pixels.len() / (channels * height * width);
    let pixels = Pixels::U8(pixels);
    let view =
        ViewPixels { key: "main_images", pixels, layout: ImageLayout::Hwc, count, height, width, channels };
    ImageBatch::of(view).unwrap()
}

/// Runs when `PLAUDIT_ORACLE_PYTHON` names a Python with torch, torchvision and safetensors.
#[test]
fn pytorch_loads_what_was_written_strictly() {
    let Some(python) = std::env::var_os("PLAUDIT_ORACLE_PYTHON") else {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with torch, torchvision and safetensors");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (pt, safetensors) = (dir.path().join("model.pt"), dir.path().join("model.safetensors"));
    for arch in [Arch::Resnet18, Arch::Resnet34, Arch::Resnet50, Arch::Resnet10, Arch::Resnet10Spatial] {
        let settings = ClassifierSettings { use_pretrain: Some(true), ..settings(arch) };
        let mut trainer = trainer(&settings);
        trainer.weights().unwrap().write_pt(&pt).unwrap();
        trainer
            .weights()
            .unwrap()
            .write_safetensors(
                &safetensors,
                &[("arch", arch.name())].map(|(k, v)| (k.into(), v.into())).into(),
            )
            .unwrap();
        let output = Command::new(&python)
            .arg("-B")
            .arg(torch_folder().join("load_strictly.py"))
            .arg(serde_json::to_string(&settings).unwrap())
            .args([&pt, &safetensors])
            .current_dir(torch_folder())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arch:?}: {}", String::from_utf8_lossy(&output.stderr));
        let logits: Vec<Vec<f32>> = serde_json::from_slice(&output.stdout).unwrap();
        let pixels = formula::bytes("picture 0 main_images", 4 * 64 * 64 * 3);
        let ours = trainer.predict(&batch(&settings, &pixels)).unwrap();
        for theirs in logits {
            let off = theirs.iter().zip(&ours).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{arch:?}: {off:e} off");
        }
    }
}
