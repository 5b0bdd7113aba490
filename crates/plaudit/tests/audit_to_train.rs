//! From an audit through a config to the reward: the threshold that an audit gives, put where the audit says, makes `train` and

//! `reward eval` decide exactly as the audit counted, whatever kind of file the model is in.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::runs::plaudit;
use plaudit::build::{self, EnvBlock};
use plaudit::cli::ConfigArgs;
use plaudit::config;
use plaudit::load::RequestedConfig;
use plaudit_core::{End, FrameShape, Frames, Obs, Seed, Segment, StepRow};
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
use plaudit_pyfiles::{self as pyfiles, Array, ObjectArray, PyValue, Storages};
use plaudit_reward::card::ModelCard;
use serde_json::Value;

const SIDE: usize = 16;
const EPISODES: usize = 24;
const FRAMES: usize = 5;

/// Whether a frame of an episode shows success: in every other one, the last two.
fn success(episode: usize, frame: usize) -> bool {
    episode.is_multiple_of(2) && frame + 2 >= FRAMES
}

/// Noise that is brighter on the left where success is, most of the time.
fn pixels(episode: usize, frame: usize) -> Vec<u8> {
    let mut rng = Seed::new(11).index((episode * FRAMES + frame) as u64).rng();
    let is_left = success(episode, frame) != (rng.unit() < 0.2);
    let pixel = |at: usize, noise: usize| {
        let in_half = (at / 3 % SIDE < SIDE / 2) == is_left;
        (noise + if in_half { 120 } else { 0 }) as u8
    };
    (0..SIDE * SIDE * 3).map(|at| pixel(at, rng.below(100))).collect()
}

fn write_episodes(folder: &Path) {
    for episode in 0..EPISODES {
        let mut images = Vec::new();
        for frame in 0..FRAMES {
            let pixels = pixels(episode, frame);
            let plane = |channel: usize| pixels[channel..].iter().step_by(3);
            images.extend((0..3).flat_map(plane).map(|byte| f32::from(*byte) / 255.0));
        }
        let labels: Vec<f32> =
            (0..FRAMES).map(|frame| f32::from(u8::from(success(episode, frame)))).collect();
        let array = |array: Array| PyValue::Array(Arc::new(array));
        let images = array(Array::from_slice(&[FRAMES, 3, SIDE, SIDE], &images).unwrap());
        let content = PyValue::dict([
            ("images", PyValue::dict([("main_images", images)])),
            ("labels", array(Array::from_slice(&[FRAMES], &labels).unwrap())),
        ]);
        let place = folder.join(if episode % 2 == 0 { "episodes/positive" } else { "episodes/negative" });
        std::fs::create_dir_all(&place).unwrap();
        let file = place.join(format!("{episode:03}.npy"));
        pyfiles::write_npy(&file, &PyValue::ObjectArray(Arc::new(ObjectArray::around(content)))).unwrap();
    }
}

fn settings(arch: Arch) -> ClassifierSettings {
    ClassifierSettings {
        arch,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        normalize: false,
        ..ClassifierSettings::default()
    }
}

/// A network with fresh weights that is far too sure of itself, so that a temperature matters.
fn weights(arch: Arch) -> Weights {
    let mut weights = Trainer::new(&settings(arch), AdamW::default(), 3).unwrap().weights().unwrap();
    let last =
        weights.names().filter(|name| name.ends_with("classifier.4.weight")).last().unwrap().to_string();
    let scaled: Vec<f32> = weights.f32(&last).unwrap().iter().map(|number| number * 12.0).collect();
    weights.insert_f32(last, &[1, scaled.len()], &scaled);
    weights
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// How a checkpoint lies there, and what is said to the audit.
struct Kind {
    file: &'static str,
    write: fn(&Path),
    flags: &'static [&'static str],
    is_stored: bool,
    /// Whether it is also audited at a threshold that is asked for.
    is_asked: bool,
    /// The temperature that readers divide by, where the audit stores none.
    own_temperature: f64,
}

/// A file of RLinf's.
const FOREIGN_KIND: Kind = Kind {
    file: "reward_model_step_7.pt",
    write: write_wrapped,
    flags: &FOREIGN,
    is_stored: false,
    is_asked: false,
    own_temperature: 1.0,
};

const FOREIGN: [&str; 6] = ["--image-size", "3", "32", "32", "--normalize", "false"];

fn write_own(path: &Path) {
    let card =
        ModelCard { temperature: Some(2.0), threshold: Some(0.4), ..ModelCard::of(settings(Arch::Resnet10)) };
    weights(Arch::Resnet10).write_safetensors(path, &card.header()).unwrap();
}

fn write_wrapped(path: &Path) {
    let weights = weights(Arch::Resnet10);
    let tensors = weights.iter().map(|(name, tensor)| (name, PyValue::Tensor(Arc::new(tensor.clone()))));
    let wrapped =
        PyValue::dict([("model_state_dict", PyValue::dict(tensors)), ("global_step", PyValue::Int(7))]);
    pyfiles::write_pt(path, &wrapped, Storages::Shared).unwrap();
}

/// Audits a model at the threshold that the audit picks, or at one that is asked for.
fn audit(here: &Path, kind: &Kind, more: &[&str]) -> (Value, String) {
    let words = [
        "reward",
        "audit",
        kind.file,
        "episodes",
        "--max-fpr",
        "0.2",
        "--stress-frames",
        "2",
        "--grace", // what is counted here has no excuse
        "0",
        "--output",
        "audit",
    ];
    let output = plaudit(here, &[&words, kind.flags, more].concat());
    let said = String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    (read_json(&here.join("audit/audit.json")), said)
}

/// Whether `train`, with these overrides, takes each frame of each episode for success.
fn decided_in_train(here: &Path, overrides: &[String]) -> Vec<Vec<bool>> {
    let file = here.join("mine.yaml");
    // A recipe's values, which the overrides must beat.
    let config = "
env: {train: {env_type: embedded, total_num_envs: 1, max_episode_steps: 6, init_params: {id: PickCube-v1}}}
actor: {model: {model_type: random}}
reward: {use_reward_model: true, reward_type: binary, reward_mode: per_step}
";
    std::fs::write(&file, config).unwrap();
    let words = std::iter::once(file.display().to_string()).chain(overrides.iter().cloned()).collect();
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() }).unwrap();
    let loaded = config::load(&asked.disk, &asked.request).unwrap();
    let env = build::env(&loaded, EnvBlock::Train).unwrap();
    let built = build::reward(&loaded, env.spec()).unwrap();
    assert_eq!(built.notices, [], "the audit's overrides leave nothing to assume");
    let seen = |episode: usize, frame: usize| {
        let frames = Frames::new(FrameShape::rgb(SIDE, SIDE), pixels(episode, frame)).unwrap();
        let state = Obs::from_state(1, vec![0.0; env.spec().state_width]).unwrap();
        state.with_camera(env.spec().cameras[0].0.clone(), frames).unwrap()
    };
    let episode = |episode: usize| {
        let mut segment = Segment::starting_at(seen(episode, 0));
        for frame in 0..FRAMES {
            let is_last = frame + 1 == FRAMES;
            let end = if is_last { End::Truncated } else { End::No };
            let step =
                StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![end], success: vec![false] };
            let last = if is_last { vec![(0, seen(episode, frame))] } else { Vec::new() };
            segment.push(step, seen(episode, frame), last).unwrap();
        }
        built.reward.label(&segment).unwrap().success.unwrap()
    };
    (0..EPISODES).map(episode).collect()
}

/// Calls of frames: successes called so, failures called successes; and failures of an episode that are.
fn counted(decided: &[Vec<bool>]) -> (u64, u64, u64) {
    let frames = |wanted: bool| {
        let called = |episode: usize| {
            (0..FRAMES).filter(move |frame| success(episode, *frame) == wanted && decided[episode][*frame])
        };
        (0..EPISODES).map(|episode| called(episode).count() as u64).collect::<Vec<_>>()
    };
    let alarms = frames(false);
    (frames(true).iter().sum(), alarms.iter().sum(), alarms.iter().filter(|count| **count > 0).count() as u64)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn check(kind: &Kind) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_episodes(here);
    (kind.write)(&here.join(kind.file));
    let asked: &[Option<&str>] = if kind.is_asked { &[None, Some("0.3")] } else { &[None] };
    for asked in asked.iter().copied() {
        let more: Vec<&str> = asked.iter().flat_map(|asked| ["--threshold", asked]).collect();
        let (found, said) = audit(here, kind, &more);
        let operating = &found["operating"];
        let fitted = operating["at_fitted_temperature"]["temperature"].as_f64().unwrap();
        let expected = if kind.is_stored { fitted } else { kind.own_temperature };
        assert_eq!(operating["temperature"].as_f64(), Some(expected), "{said}");
        assert!((fitted / kind.own_temperature - 1.0).abs() > 0.1, "nothing would show at {fitted}");
        let mut overrides = vec![format!("reward.model.model_path={}", here.join(kind.file).display())];
        let manual_settings = &found["manual_settings"];
        assert_eq!(manual_settings.is_null(), kind.is_stored);
        if let Some(advised) = manual_settings["overrides"].as_array() {
            let advised: Vec<String> =
                advised.iter().map(|word| word.as_str().unwrap().to_string()).collect();
            assert!(advised.iter().all(|word| said.contains(word)), "{said}");
            overrides.extend(advised.into_iter().filter(|word| !word.starts_with("reward.model.model_path")));
        }
        // An asked threshold means the same number to whoever reads the file afterwards.
        if let Some(asked) = asked {
            overrides.push(format!("reward.reward_threshold={asked}"));
        }
        let (right, wrong, alarmed) = counted(&decided_in_train(here, &overrides));
        let confusion = &found["metrics"]["confusion"];
        assert_eq!(
            (right, wrong, alarmed),
            (
                number(&confusion["true_positives"]),
                number(&confusion["false_positives"]),
                number(&operating["alarms"]["raised"])
            ),
            "{overrides:?}\n{said}"
        );
        assert!(right + wrong > 0, "a threshold that nothing exceeds shows nothing: {said}");
        let mut words = vec!["reward", "eval", kind.file, "episodes", "--json", "--output-dir", "measured"];
        let flags = manual_settings["flags"].as_str().map(String::from);
        let flags = flags.or_else(|| asked.map(|asked| format!("--threshold {asked}"))).unwrap_or_default();
        words.extend(flags.split_whitespace());
        let output = plaudit(here, &words);
        let measured: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(&measured["metrics"]["confusion"], confusion);
        let notice = String::from_utf8_lossy(&output.stderr).contains("assumed");
        assert!(!notice, "nothing is left to assume");
    }
}

#[test]
fn a_checkpoint_that_the_audit_writes_into() {
    check(&Kind {
        file: "own.safetensors",
        write: write_own,
        flags: &[],
        is_stored: true,
        is_asked: true,
        own_temperature: 2.0,
    });
}

#[test]
fn a_checkpoint_that_is_left_as_it_is() {
    let flags = &["--no-store"];
    check(&Kind {
        file: "own.safetensors",
        write: write_own,
        flags,
        is_stored: false,
        is_asked: false,
        own_temperature: 2.0,
    });
}

#[test]
fn a_flat_state_dict_of_rlinf() {
    let write = |path: &Path| weights(Arch::Resnet10).write_pt(path).unwrap();
    check(&Kind {
        file: "full_weights.pt",
        write,
        flags: &FOREIGN,
        is_stored: false,
        is_asked: true,
        own_temperature: 1.0,
    });
}

#[test]
fn safetensors_without_a_header() {
    let write = |path: &Path| weights(Arch::Resnet10).write_safetensors(path, &BTreeMap::new()).unwrap();
    check(&Kind { file: "bare.safetensors", write, ..FOREIGN_KIND });
}

#[test]
fn a_state_dict_inside_a_checkpoint_of_older_trainers() {
    check(&FOREIGN_KIND);
}

#[test]
fn the_oldest_classifier_with_its_spatial_pooling() {
    let write = |path: &Path| weights(Arch::Resnet10Spatial).write_pt(path).unwrap();
    check(&Kind { file: "spatial.pt", write, ..FOREIGN_KIND });
}

/// A header that cannot be written costs nothing but the header: here the name is so long that no file can be made beside it
/// under a name of its own, which shows only when the header is written.
#[test]
fn a_checkpoint_that_cannot_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_episodes(here);
    let model = format!("{}.safetensors", "m".repeat(240));
    write_own(&here.join("own.safetensors"));
    std::fs::rename(here.join("own.safetensors"), here.join(&model)).unwrap();
    let before = std::fs::read(here.join(&model)).unwrap();
    let kind = Kind {
        file: Box::leak(model.into_boxed_str()),
        write: write_own,
        flags: &[],
        is_stored: true,
        is_asked: true,
        own_temperature: 2.0,
    };
    let (found, said) = audit(here, &kind, &[]);
    assert!(here.join("audit/audit.html").is_file());
    assert_eq!(found["operating"]["temperature"].as_f64(), Some(2.0), "as the file has it");
    let threshold = found["operating"]["threshold"].as_f64().unwrap() as f32;
    for words in ["cannot be written", &format!("reward.reward_threshold={threshold}"), "at temperature 2"] {
        assert!(said.contains(words), "`{words}` is not in: {said}");
    }
    assert!(std::fs::read(here.join(kind.file)).unwrap() == before, "and it is as it was");
}

/// What a file does not say is said by flags, or assumed aloud, once.
#[test]
fn what_rlinfs_files_do_not_say_is_given_or_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_episodes(here);
    weights(Arch::Resnet10).write_pt(here.join("full_weights.pt")).unwrap();
    write_own(&here.join("own.safetensors"));
    let eval = |model: &str, flags: &[&str]| {
        let output = plaudit(here, &[&["reward", "eval", model, "episodes"], flags].concat());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let (size, normalize) = (&FOREIGN[..4], &FOREIGN[4..]);
    let assumed_size =
        "frames resized to 3x224x224 (RLinf's default); if it was another, set --image-size C H W";
    let assumed_normal = "deviation: true (RLinf's default); if it was another, set --normalize true|false";
    for (flags, expected) in [
        (&[][..], &[assumed_size, assumed_normal][..]),
        (size, &[assumed_normal]),
        (normalize, &[assumed_size]),
        (&FOREIGN, &[]),
    ] {
        let (code, said) = eval("full_weights.pt", flags);
        assert_eq!(code, Some(0), "{said}");
        for words in [assumed_size, assumed_normal] {
            assert_eq!(
                said.matches(words).count(),
                usize::from(expected.contains(&words)),
                "{flags:?}: {said}"
            );
        }
    }
    let (_, said) = eval("own.safetensors", &FOREIGN);
    assert!(!said.contains("assumed"), "{said}");
    for (flags, expected) in [
        (&["--image-size", "3", "64", "64"][..], "was made with image_size: [3, 32, 32]"),
        (&["--normalize", "true"], "was made with normalize: false"),
        (&["--image-size", "64", "64", "3"], "3 64 64 was probably meant"),
    ] {
        let (code, said) = eval("own.safetensors", flags);
        assert!(code == Some(2) && said.contains(expected), "{flags:?}: {said}");
    }
}
