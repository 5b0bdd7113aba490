//! `plaudit reward sft` as a user types it: it learns what is plain to see, goes on where it stopped, and says what is wrong.

use crate::browser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::runs::{on_one_line, plaudit};
use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{Adapter, FrameSampling, Inputs, PromptLayout, QwenVl, RgbImage};
use plaudit_pyfiles::{Array, DType, PickleStyle, Protocol, PyValue, TensorStyle, pickle_bytes};
use serde_json::{Value, json};

const SIDE: usize = 32;
const QUESTION: &str = "Does the square go to the right? Answer positive, negative, or unclear.";

/// A model small enough to learn in seconds.
const SMALL: &str = "
defaults: [pickcube_trend_sft, _self_]
runner: {max_steps: 6, val_check_interval: 3, save_interval: 3}
actor:
  micro_batch_size: 4
  global_batch_size: 8
  model:
    text_config: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, intermediate_size: 64}
    vision_config: {hidden_size: 32, depth: 1, num_heads: 1, intermediate_size: 64, num_position_embeddings: 16}
  optim: {lr_warmup_steps: 1}
";

pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    /// Windows of a square that goes right, left, or nowhere.
    pub(crate) fn new(train: usize, val: usize) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.0.path().join("small.yaml"), SMALL).unwrap();
        for (part, count) in [("train", train), ("eval", val)] {
            fs::create_dir_all(place.windows(part).join("pkl")).unwrap();
            let rows: String = (0..count).map(|i| place.window(part, i, 5, true)).collect();
            fs::write(place.windows(part).join("segments.jsonl"), rows).unwrap();
        }
        place
    }

    fn windows(&self, part: &str) -> PathBuf {
        self.0.path().join("windows").join(part)
    }

    /// Writes a window; gives its line.
    fn window(&self, part: &str, number: usize, frames: usize, two_views: bool) -> String {
        let (answer, speed) = [("positive", 4), ("negative", -4), ("unclear", 0)][number % 3];
        let row = number / 3 % 16;
        let frame = |at: usize| {
            let left = (12 + speed * (at as i64 - 2)) as usize;
            let mut pixels = vec![0_u8; SIDE * SIDE * 3];
            for y in row..row + 8 {
                pixels[(y * SIDE + left) * 3..(y * SIDE + left + 8) * 3].fill(255);
            }
            PyValue::from(Array::new(DType::U8, &[SIDE, SIDE, 3], pixels).unwrap())
        };
        let mut entries = vec![("main_frames", PyValue::list((0..frames).map(frame)))];
        if two_views {
            entries.push(("extra_view_frames", PyValue::list((0..frames).map(frame))));
        }
        let style = PickleStyle { protocol: Protocol::Five, tensors: TensorStyle::Numpy };
        let pickle = self.windows(part).join(format!("pkl/{number}.pkl"));
        fs::write(&pickle, pickle_bytes(&PyValue::dict(entries), style).unwrap()).unwrap();
        let line = json!({
            "prompt": QUESTION, "answer": answer, "pkl_path": pickle, "source_episode_path": format!("{part}-{number}"),
            "segment_metadata": {"window_size": 5, "start_step": 0}, "supervision": {"score": speed as f64 / 100.0},
        });
        format!("{line}\n")
    }

    fn sft(&self, words: &[&str]) -> Output {
        let data = format!("data.data_root={}", self.0.path().join("windows").display());
        plaudit(self.0.path(), &[&["reward", "sft", "small.yaml", &data], words].concat())
    }

    /// Any command of `plaudit reward`.
    fn reward(&self, words: &[&str]) -> Output {
        plaudit(self.0.path(), &[&["reward"], words].concat())
    }

    /// Its result as JSON.
    pub(crate) fn learned(&self, run: &str, words: &[&str]) -> Value {
        let run = format!("runner.logger.log_path={run}");
        let output = self.sft(&[&["--json", "-q", &run], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.sft(words);
        assert!(!output.status.success(), "{words:?} went through");
        on_one_line(&output.stderr)
    }

    fn state(&self, run: &str, step: u64) -> Vec<u8> {
        let file = format!("{run}/checkpoints/global_step_{step}/actor/trainer.safetensors");
        fs::read(self.0.path().join(file)).unwrap()
    }
}

fn open(folder: &Path) -> QwenVl {
    QwenVl::open(folder, Device::Cpu, Precision::Fp32).unwrap()
}

#[test]
fn ranks_learn_what_one_learns() {
    let place = Place::new(16, 7);
    let one = place.learned("one", &[]);
    let sharded = "actor.sharding_strategy=shard_grad_op";
    let two = place.learned("two", &["--ranks", "2", sharded]);
    assert_eq!(one["metrics"], two["metrics"]);
    assert!(place.state("one", 6) == place.state("two", 6), "bit-exact");
    let log = fs::read_to_string(place.0.path().join("two/ranks/rank_1.log")).unwrap();
    assert!(log.contains("rank 1 of 2") && log.contains("ended after step 6: Finished"), "{log}");
}

#[test]
fn it_learns_which_way_a_square_goes() {
    let place = Place::new(96, 24);
    let words = ["runner.max_steps=120", "runner.val_check_interval=30", "runner.save_interval=-1"];
    let result = place.learned("run", &words);
    let metrics = &result["metrics"];
    let accuracy = metrics["balanced_accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.9, "{result}");
    let confusion: u64 = metrics["objectives"][0]["confusion"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(confusion, 24);
    let best = place.0.path().join(result["model"].as_str().unwrap());
    assert_eq!(open(&best).config().text.layers, 1);
    measured_as_in_training(&place, accuracy);
    audited(&place, &best);
    check_refusals(&place);
}

/// `reward eval` finds what training found, and writes every window down.
fn measured_as_in_training(place: &Place, accuracy: f64) {
    let output = place.reward(&["eval", "run", "windows", "--json", "-q", "--output-dir", "measured"]);
    assert!(output.status.success(), "{}", on_one_line(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((found["metrics"]["balanced_accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9, "{found}");
    assert_eq!(found["label_temperature"], 1.0);
    assert!(found["agreement"]["rank"]["value"].as_f64().unwrap() > 0.8, "{found}");
    let table = fs::read_to_string(place.0.path().join("measured/windows.csv")).unwrap();
    assert_eq!(table.lines().count(), 25);
    assert!(table.lines().nth(1).unwrap().contains(",eval-0,0,positive,"), "{table}");
    let words = String::from_utf8(place.reward(&["eval", "run", "windows", "-q"]).stdout).unwrap();
    assert!(words.contains("is \\ said") && words.contains("24 of 24 episodes"), "{words}");
}

/// `reward audit` passes a judge that sees, and stores its temperature, which the other commands read.
fn audited(place: &Place, best: &Path) {
    let audit = |words: &[&str]| place.reward(&[&["audit", "run", "windows/eval", "-q"], words].concat());
    let output = audit(&["--output", "audit"]);
    assert!(output.status.success(), "{}{}", on_one_line(&output.stdout), on_one_line(&output.stderr));
    let said = on_one_line(&output.stdout);
    assert!(said.starts_with("PASSED") && said.contains("these are windows that it was chosen on"), "{said}");
    let page = place.0.path().join("audit/audit.html");
    if let Some(seen) = browser::look_at(&[&page]) {
        assert_eq!(seen[0].charts, 3);
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Yes: this model may be used as a reward"));
    assert!(page.contains("What it says, and what is right") && page.contains("played backwards"));
    let read = |file: PathBuf| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let found = read(place.0.path().join("audit/audit.json"));
    let temperature = found["calibration"]["temperature"].as_f64().unwrap();
    assert_eq!(read(best.join("plaudit_judge.json"))["label_temperature"], temperature);
    assert_eq!(found["changed"].as_array().unwrap().len(), 4);
    let backwards = &found["changed"][0];
    assert!(backwards["right"].as_f64().unwrap() > 0.8, "{backwards}");
    let output = place.reward(&["eval", "run", "windows", "--json", "-q"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["label_temperature"], temperature);

    // Windows it learned from are no audit, and more than it can is too much to ask.
    let leaked = place.reward(&["audit", "run", "windows/train", "-q", "--output", "leaked"]);
    assert_eq!(leaked.status.code(), Some(3));
    assert!(on_one_line(&leaked.stdout).contains("it learned from windows of 96 of these 96 episodes"));
    assert!(on_one_line(&leaked.stdout).contains("cannot be believed"));
    assert_eq!(read(best.join("plaudit_judge.json"))["label_temperature"], temperature);
    let other = place.windows("eval").join("other.jsonl");
    let lines = fs::read_to_string(place.windows("eval").join("segments.jsonl")).unwrap();
    fs::write(&other, lines.replace("Does the square go", "Does the ball go")).unwrap();
    let asked = place.reward(&["audit", "run", other.to_str().unwrap(), "-q", "--output", "other"]);
    assert_eq!(asked.status.code(), Some(3));
    assert!(
        on_one_line(&asked.stdout).contains("`Does the ball go to the right?"),
        "{}",
        on_one_line(&asked.stdout)
    );
    assert_eq!(read(best.join("plaudit_judge.json"))["label_temperature"], temperature);
    let one_label = place.windows("eval").join("positive.jsonl");
    let positive: Vec<&str> = lines.lines().filter(|line| line.contains(r#""answer":"positive""#)).collect();
    fs::write(&one_label, positive.join("\n")).unwrap();
    let one = place.reward(&["audit", "run", one_label.to_str().unwrap(), "-q", "--output", "one"]);
    assert_eq!(one.status.code(), Some(3));
    assert!(
        on_one_line(&one.stdout).contains("directions cannot be measured"),
        "{}",
        on_one_line(&one.stdout)
    );
}

/// Wrong use of both commands.
fn check_refusals(place: &Place) {
    for (words, expected) in [
        (&["eval", "run", "nowhere"][..], "plaudit dataset windows"),
        (&["eval", "nowhere", "windows"], "give a run, a checkpoint folder, or a file"),
        (
            &["eval", "run", "windows", "--threshold", "0.5"],
            "--threshold means nothing for a vision-language judge",
        ),
        (
            &["audit", "run", "windows", "--max-fpr", "0.1"],
            "--max-fpr means nothing for a vision-language judge",
        ),
        (&["audit", "run", "windows", "--min-accuracy", "2"], "--min-accuracy is 2"),
        (&["eval", "run", "windows", "--lora", "windows"], "windows"),
    ] {
        let output = place.reward(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", on_one_line(&output.stderr));
        assert!(on_one_line(&output.stderr).contains(expected), "{words:?}: {}", on_one_line(&output.stderr));
    }
    fs::write(place.0.path().join("run/checkpoints/best_model/plaudit_judge.json"), "{}").unwrap();
    let output = place.reward(&["eval", "run", "windows"]);
    assert!(on_one_line(&output.stderr).contains("audit the judge again"), "{}", on_one_line(&output.stderr));
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bits() {
    let place = Place::new(24, 6);
    place.learned("whole", &[]);
    // The schedule is that of the whole run in both.
    place.learned("parts", &["runner.max_steps=3", "actor.optim.total_training_steps=6"]);
    let resume = format!("runner.resume_dir={}", place.0.path().join("parts").display());
    place.learned("parts", &[&resume, "actor.optim.total_training_steps=6"]);
    assert!(place.state("whole", 6) == place.state("parts", 6), "a pause changed the numbers");
}

#[test]
fn adapters_on_a_model_are_saved_as_peft_does() {
    let place = Place::new(12, 3);
    let base = place.learned("base", &["runner.max_steps=1"]);
    let base = format!("actor.model.model_path={}", base["model"].as_str().unwrap());
    let words = ["actor.model.init=pretrained", "actor.model.is_lora=true", "actor.model.lora_rank=2"];
    let result = place.learned("lora", &[&words[..], &[&base, "data.loss=rlinf"]].concat());
    let folder = place.0.path().join(result["model"].as_str().unwrap());
    let adapter = Adapter::open(&folder).unwrap();
    // Seven linear layers of the one text layer, two of the vision block and the layer that takes patches in; the head is
    // tied to the table.
    assert!(adapter.len() >= 10, "{} layers", adapter.len());
    let config: Value =
        serde_json::from_slice(&fs::read(folder.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!((config["r"].as_u64(), config["peft_type"].as_str()), (Some(2), Some("LORA")));
    assert!(!folder.join("model.safetensors").exists(), "the base was copied");
}

/// What the peft package makes of our adapters is what we make of them.
///
/// Runs when `PLAUDIT_ORACLE_PYTHON` names a Python with torch, transformers and peft.
#[test]
fn the_peft_package_loads_adapters_and_gives_the_same_logits() {
    let Some(python) = std::env::var_os("PLAUDIT_ORACLE_PYTHON") else {
        println!("skipped: PLAUDIT_ORACLE_PYTHON names no Python with torch, transformers and peft");
        return;
    };
    let importing = Command::new(&python).args(["-c", "import peft, transformers, torch"]).output().unwrap();
    if !importing.status.success() {
        println!(
            "skipped: {}",
            String::from_utf8_lossy(&importing.stderr).lines().last().unwrap_or_default()
        );
        return;
    }
    let place = Place::new(12, 3);
    let base = place.learned("base", &["runner.max_steps=1"]);
    let base = place.0.path().join(base["model"].as_str().unwrap());
    let words = ["actor.model.init=pretrained", "actor.model.is_lora=true", "actor.model.lora_rank=2"];
    let more = [
        &format!("actor.model.model_path={}", base.display()),
        "actor.model.lora_alpha=6",
        "actor.optim.lr=0.02",
    ];
    let result = place.learned("lora", &[&words[..], &more].concat());
    let adapters = place.0.path().join(result["model"].as_str().unwrap());

    let adapter = Adapter::open(&adapters).unwrap();
    let model = QwenVl::open_with(&base, Some(&adapter), Device::Cpu, Precision::Fp32).unwrap();
    let prompts = prompts(&model);
    let file = place.0.path().join("prompts.json");
    let shown: Vec<Value> = prompts.iter().map(for_python).collect();
    fs::write(&file, serde_json::to_vec(&shown).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peft/logits.py");
    let output = Command::new(python).arg(script).args([&base, &adapters, &file]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(theirs["layers"], adapter.len());
    let vocabulary: Vec<u32> = (0..model.config().text.vocab as u32).collect();
    let ours = model.label_logits(&prompts, &vocabulary).unwrap();
    let apart = |theirs: &Value| -> f64 {
        let theirs: Vec<Vec<f64>> = serde_json::from_value(theirs.clone()).unwrap();
        assert_eq!((theirs.len(), theirs[0].len()), (ours.len(), ours[0].len()));
        let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
        pairs.map(|(ours, theirs)| (f64::from(*ours) - theirs).abs()).fold(0.0, f64::max)
    };
    assert!(apart(&theirs["tuned"]) < 1e-4, "{}", apart(&theirs["tuned"]));
    assert!(apart(&theirs["plain"]) > 0.01, "the adapters change nothing");
}

/// A prompt of words, and one of a window.
fn prompts(model: &QwenVl) -> Vec<Inputs> {
    let processor = model.processor();
    let words =
        processor.encode("<|im_start|>user\nDoes it go to the right?<|im_end|>\n", Vec::new()).unwrap();
    let frames: Vec<Vec<u8>> = (0..4_u8)
        .map(|at| {
            (0..SIDE * SIDE * 3).map(|byte| (byte as u8).wrapping_mul(7).wrapping_add(at * 31)).collect()
        })
        .collect();
    let view: Vec<RgbImage<'_>> =
        frames.iter().map(|rgb| RgbImage { rgb, height: SIDE, width: SIDE }).collect();
    let views = [view.clone(), view];
    let window =
        processor.window(&views, 24.0, FrameSampling::All, QUESTION, PromptLayout::VideosFirst).unwrap();
    vec![words, window]
}

fn for_python(prompt: &Inputs) -> Value {
    let grids: Vec<[usize; 3]> = prompt.visuals.iter().map(|visual| visual.grid).collect();
    let patches: Vec<&[u8]> = prompt
        .visuals
        .iter()
        .flat_map(|visual| {
            let count: usize = visual.grid.iter().product();
            visual.patches.chunks_exact(visual.patches.len() / count)
        })
        .collect();
    json!({"ids": prompt.ids, "grids": grids, "patches": patches})
}

#[test]
fn what_cannot_be_learned_from_is_refused_before_the_first_step() {
    let place = Place::new(12, 3);
    let check = |words: &[&str], expected: &str| {
        let said = place.refused(words);
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    check(&["actor.model.init=pretrained"], "nothing is downloaded");
    check(&["actor.model.init=pretrained", "actor.model.model_path=windows"], "config.json");
    check(&["actor.model.is_lora=true"], "these are random");
    check(&["actor.model.device=cuda"], "all weights of a judge are trained on the CPU");
    check(&["actor.model.device=gpu"], "`gpu` is no device");
    check(&["actor.model.gradient_checkpointing=maybe"], "maybe");
    check(&["runner.early_stop.monitor=auc"], "a judge has three");
    check(&["data.data_root=nowhere"], "plaudit dataset windows");
    check(&["actor.model.text_config.head_dim=30"], "mrope_section");
    check(&["actor.model.model_type=resnet"], "plaudit reward train");

    let manifest = place.windows("train").join("segments.jsonl");
    let lines = fs::read_to_string(&manifest).unwrap();
    let positive: String = lines
        .lines()
        .filter(|line| line.contains(r#""answer":"positive""#))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&manifest, positive).unwrap();
    check(&[], "training windows are `positive`");
    fs::write(&manifest, "").unwrap();
    check(&[], "lists no windows");
    fs::write(&manifest, place.window("train", 0, 3, true) + &lines).unwrap();
    check(&[], "`main_frames` has 3 frames");
    fs::write(&manifest, place.window("train", 0, 5, false) + &lines).unwrap();
    check(&[], "has no `extra_view_frames`");
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_and_keeps_what_was_saved() {
    let place = Place::new(12, 3);
    let words = [
        "actor.optim.lr=1e30",
        "actor.optim.lr_warmup_steps=0",
        "actor.optim.clip_grad=0",
        "runner.save_interval=1",
    ];
    let words = [&words[..], &["runner.val_check_interval=-1", "runner.logger.log_path=run"]].concat();
    let said = place.refused(&words);
    assert!(said.contains("the loss of step") || said.contains("was not finite"), "{said}");
    assert!(said.contains("Lower the learning rate"), "{said}");
    assert!(place.0.path().join("run/checkpoints/global_step_1/model.safetensors").is_file());
}
