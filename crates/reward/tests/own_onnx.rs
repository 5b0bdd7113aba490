//! Reward models of another making, as torch writes them to ONNX: the numbers are those of onnxruntime (`own_onnx/make_models.py`), and
//! what a file and its card leave open is refused in words.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plaudit_nn::images::{ImageBatch, Pixels, ViewPixels};
use plaudit_reward::custom::{
    CustomCard, CustomLocation, ImageScorer, InputLayout, OnnxScorer, OutputMeaning,
};
use plaudit_reward::open::{ModelLocation, OpenOptions, RewardModel};

const BATCH: usize = 3;
const SIDE: usize = 16;
/// How far onnxruntime's numbers and these may lie apart.
const CLOSE: f64 = 1e-4;

#[derive(serde::Deserialize)]
struct Expected {
    shape: Vec<usize>,
    out: Vec<f64>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/own_onnx/{name}.onnx"))
}

/// As `images` of the generator has them.
fn image_bytes(camera: usize, height: usize, width: usize) -> Vec<u8> {
    let count = BATCH * height * width * 3;
    (0..count).map(|at| ((at * 7919 + at / 97 * 31 + camera * 13) % 251) as u8).collect()
}

fn logits(scorer: &dyn ImageScorer, keys: &[&str], [height, width]: [usize; 2]) -> Vec<f32> {
    let bytes: Vec<Vec<u8>> = (0..keys.len()).map(|camera| image_bytes(camera, height, width)).collect();
    let view = |(key, bytes)| ViewPixels::from_shape(key, Pixels::U8(bytes), [BATCH, height, width, 3]);
    let views = keys.iter().copied().zip(bytes.iter().map(Vec::as_slice)).map(view).collect();
    scorer.logits(&ImageBatch::new(views).unwrap()).unwrap()
}

fn of(output: OutputMeaning) -> CustomCard {
    CustomCard { output: Some(output), ..CustomCard::default() }
}

fn normalised() -> CustomCard {
    CustomCard { mean: Some([0.4, 0.5, 0.6]), std: Some([0.2, 0.25, 0.3]), ..of(OutputMeaning::Logit) }
}

fn two_cameras() -> CustomCard {
    CustomCard {
        image_keys: vec!["main".into(), "wrist".into()],
        success_class: Some(1),
        ..of(OutputMeaning::ClassProbabilities)
    }
}

#[test]
fn the_numbers_are_those_of_onnxruntime() {
    let expected: HashMap<String, Expected> =
        serde_json::from_str(include_str!("own_onnx/expected.json")).unwrap();
    let square = [SIDE, SIDE];
    let main: &[&str] = &["main_images"];
    let cases = [
        ("logit", normalised(), main, square),
        ("probability", of(OutputMeaning::Probability), main, square),
        ("two_cameras", two_cameras(), &["main", "wrist"], square),
        ("bytes", of(OutputMeaning::Logit), main, [24, 20]),
        ("attention", of(OutputMeaning::Logit), main, square),
        ("external", of(OutputMeaning::Logit), main, square),
        ("batch_of_one", of(OutputMeaning::Logit), main, square),
    ];
    assert_eq!(cases.len(), expected.len());
    for (name, card, keys, size) in cases {
        let (scorer, assumed) = OnnxScorer::open(&fixture(name), &card).unwrap();
        assert_eq!(assumed, None, "{name}");
        let logits = logits(&scorer, keys, size);
        let Expected { shape, out } = &expected[name];
        let rows: Vec<&[f64]> = out.chunks(out.len() / BATCH).collect();
        assert_eq!(logits.len(), shape[0], "{name}");
        for (logit, row) in logits.iter().zip(rows) {
            let (own, theirs) = match card.output.unwrap() {
                OutputMeaning::Logit => (f64::from(*logit), row[0]),
                _ => (1.0 / (1.0 + (-f64::from(*logit)).exp()), row[card.success_class.unwrap_or(0)]),
            };
            assert!((own - theirs).abs() < CLOSE, "{name}: {own} here, {theirs} there");
        }
    }
}

#[test]
fn a_batch_in_parts_and_images_of_other_sizes_are_scored() {
    let (scorer, _) = OnnxScorer::open(&fixture("logit"), &normalised()).unwrap();
    let bytes = image_bytes(0, 20, 30);
    let image = 20 * 30 * 3;
    let many: Vec<u8> = bytes[..image].repeat(130);
    let view = |pixels, count| ViewPixels::from_shape("main_images", Pixels::U8(pixels), [count, 20, 30, 3]);
    let all = scorer.logits(&ImageBatch::of(view(&many, 130)).unwrap()).unwrap();
    let one = scorer.logits(&ImageBatch::of(view(&many[..image], 1)).unwrap()).unwrap();
    assert_eq!(all.len(), 130);
    assert!(all.iter().all(|logit| (logit - one[0]).abs() < 1e-5));
    assert_eq!(scorer.logits(&ImageBatch::of(view(&[], 0)).unwrap()).unwrap(), Vec::<f32>::new());
}

#[test]
fn what_nobody_says_of_the_numbers_is_assumed_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.onnx");
    std::fs::copy(fixture("logit"), &file).unwrap();
    let open = || {
        let location = ModelLocation::find(&file, None).unwrap();
        assert_eq!(location, ModelLocation::Custom(CustomLocation::Onnx(file.clone())));
        RewardModel::open(&location, OpenOptions::default())
    };
    let Ok(RewardModel::Custom(model)) = open() else { panic!("it is a model of another making") };
    let assumed = model.assumed.unwrap();
    assert!(assumed.contains("assumed: a logit") && assumed.contains("mine.json"), "{assumed}");
    assert_eq!(model.image_size, Some([SIDE, SIDE]));
    std::fs::write(folder.path().join("mine.json"), r#"{"output": "logit", "threshold": 0.25}"#).unwrap();
    let Ok(RewardModel::Custom(model)) = open() else { panic!("it is still one") };
    assert_eq!((model.assumed, model.card.threshold), (None, Some(0.25)));
    std::fs::write(folder.path().join("mine.json"), r#"{"outputs": "logit"}"#).unwrap();
    let Err(error) = open() else { panic!("a mistake in the card is one") };
    assert!(error.to_string().contains("unknown field `outputs`"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let said = |name: &str, card: CustomCard| match OnnxScorer::open(&fixture(name), &card) {
        Ok(_) => panic!("{name} is opened with {card:?}"),
        Err(error) => error.to_string(),
    };
    let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (name, card, words) in [
        (
            "two_cameras",
            CustomCard::default(),
            "it has 2 inputs (main, wrist) and is given the images of one camera",
        ),
        (
            "two_cameras",
            CustomCard { image_keys: keys(&["main", "hand"]), ..CustomCard::default() },
            "it has no input `hand` for camera `hand`",
        ),
        (
            "two_cameras",
            CustomCard { success_class: None, ..two_cameras() },
            "`success_class` of its card must say which of them is success",
        ),
        ("two_cameras", CustomCard { success_class: Some(3), ..two_cameras() }, "it has the classes 0 to 2"),
        (
            "two_cameras",
            CustomCard { output: Some(OutputMeaning::Logit), success_class: None, ..two_cameras() },
            "3 numbers",
        ),
        ("logit", of(OutputMeaning::ClassLogits), "one number for each image"),
        (
            "logit",
            CustomCard { output_name: Some("score".into()), ..normalised() },
            "it has no output `score`",
        ),
        ("logit", CustomCard { image_size: Some([8, 8]), ..normalised() }, "16 x 16"),
        ("logit", CustomCard { layout: Some(InputLayout::Nhwc), ..normalised() }, "images of 16 colours"),
        ("bytes", normalised(), "takes bytes"),
        ("nowhere", CustomCard::default(), "nowhere.onnx"),
    ] {
        let error = said(name, card);
        assert!(error.contains(words), "{name}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.onnx");
    let whole = std::fs::read(fixture("logit")).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"", b"no model at all", &[0xff; 100]] {
        std::fs::write(&broken, bytes).unwrap();
        let error = OnnxScorer::open(&broken, &normalised()).map(drop).unwrap_err().to_string();
        assert!(error.contains("broken.onnx"), "{error}");
    }
}

#[test]
fn a_camera_is_an_input_by_its_name_by_the_card_or_by_its_place() {
    let logits_of = |card: CustomCard, keys: &[&str]| {
        let (scorer, _) = OnnxScorer::open(&fixture("two_cameras"), &card).unwrap();
        logits(&scorer, keys, [SIDE, SIDE])
    };
    let by_name = logits_of(two_cameras(), &["main", "wrist"]);
    let other = ["front_images", "hand_images"];
    let by_place = CustomCard { image_keys: other.map(String::from).to_vec(), ..two_cameras() };
    assert_eq!(logits_of(by_place.clone(), &other), by_name);
    let inputs = [(other[0].into(), "wrist".into()), (other[1].into(), "main".into())].into();
    let crossed = CustomCard { inputs, ..by_place };
    assert_ne!(logits_of(crossed, &other), by_name);
}
