//! Pages opened in a browser: everything on them loads, fits, and can be read, on a desk and on a phone, light and dark.
//!
//! These tests need Chromium (Debian: `apt-get install chromium`) and say so when it is not there.

use crate::browser;
use std::path::{Path, PathBuf};

use crate::runs::{plaudit, succeeds};

/// A short run of CartPole.
fn trained(here: &Path, name: &str, seed: u64, lr: &str) -> PathBuf {
    let (log, seed) = (format!("runner.logger.log_path={name}"), format!("actor.seed={seed}"));
    let lr = format!("actor.optim.lr={lr}");
    let short = ["runner.max_epochs=4", "runner.val_check_interval=2", "env.eval.total_num_envs=8"];
    succeeds(here, &[&["-q", "train", "cartpole_ppo", &log, &seed, &lr], &short[..]].concat());
    here.join(name)
}

/// The page about runs.
fn reported(here: &Path, name: &str, runs: &[&Path]) -> PathBuf {
    let output = here.join(format!("{name}.html"));
    let runs: Vec<&str> = runs.iter().map(|run| run.to_str().unwrap()).collect();
    succeeds(here, &[&["report", "--output", output.to_str().unwrap()], &runs[..]].concat());
    is_by_itself(&output);
    output
}

fn text(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap()
}

/// A page that reaches for nothing outside itself.
fn is_by_itself(page: &Path) {
    let text = text(page);
    for outside in
        ["src=\"http", "href=\"http", "url(", "<script src", "src=\"/", "@import", "<link rel=\"stylesheet"]
    {
        assert!(!text.contains(outside), "the page reaches outside itself: {outside}");
    }
    assert!(text.len() < 6 << 20, "the page has {} bytes", text.len());
}

/// The verdict of a page, without its markup.
fn verdict(page: &Path) -> String {
    let text = text(page);
    let inside = text.split("<h1").nth(1).unwrap().split("</h1>").next().unwrap();
    let mut plain = String::new();
    let mut in_tag = true; // of the heading itself
    for letter in inside.chars() {
        match letter {
            '<' => in_tag = true,
            '>' => (in_tag, plain) = (false, plain + " "),
            letter if !in_tag => plain.push(letter),
            _ => {}
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A copy of a run whose log ends in another way.
fn ended_otherwise(here: &Path, run: &Path, name: &str, end: &str) -> PathBuf {
    let log = text(&run.join("events.jsonl"));
    let mut lines: Vec<&str> = log.lines().filter(|line| !line.contains("\"event\":\"ended\"")).collect();
    assert!(lines.len() < log.lines().count(), "the log has an end");
    lines.extend([end].iter().filter(|end| !end.is_empty()));
    let folder = here.join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("events.jsonl"), lines.join("\n") + "\n").unwrap();
    std::fs::copy(run.join("config.yaml"), folder.join("config.yaml")).unwrap();
    folder
}

#[test]
fn a_report_of_any_runs_begins_with_its_verdict_and_fits_any_screen() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let [one, seed, other] = [("one", 1, "1.0e-3"), ("seed", 2, "1.0e-3"), ("other", 1, "5.0e-4")]
        .map(|(name, seed, lr)| trained(here, name, seed, lr));
    let killed = ended_otherwise(here, &one, "killed", "");
    let failed = r#"{"wall_secs":0,"elapsed_secs":9,"event":"ended","step":4,"reason":{"kind":"failed","error":"the disk\nis full"}}"#;
    let failed = ended_otherwise(here, &one, "failed", failed);
    let empty = here.join("empty");
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(empty.join("events.jsonl"), "").unwrap();

    let page = reported(here, "page_one", &[&one]);
    assert!(
        verdict(&page).contains("Trained by the environment’s own reward, the policy"),
        "{}",
        verdict(&page)
    );
    assert!(text(&page).contains("env × 1") && !text(&page).contains("Not part of the reward"));
    let time = text(&page)
        .split("Where the time goes")
        .nth(1)
        .unwrap()
        .split("</table>")
        .next()
        .unwrap()
        .to_string();
    assert!(time.contains("actor training") && !time.contains("per second"), "no rate among times: {time}");

    let seeds = reported(here, "page_seeds", &[&one, &seed]);
    assert!(
        verdict(&seeds).contains("interquartile mean of 2 seeds, too few for an interval"),
        "{}",
        verdict(&seeds)
    );
    assert!(text(&seeds).contains("2 runs of one config") && !text(&seeds).contains("Config differences"));

    let configs = reported(here, "page_configs", &[&one, &seed, &other]);
    assert!(verdict(&configs).contains("ends with the highest"), "{}", verdict(&configs));
    assert!(
        text(&configs).contains("<li><svg class=\"swatch\"") && text(&configs).contains("lr=0.0005"),
        "named in the legend"
    );
    assert!(
        text(&configs).contains("<td>actor.optim.lr</td><td>0.001</td><td>0.0005</td>"),
        "and in a table"
    );

    let unfinished = reported(here, "page_killed", &[&killed]);
    assert!(
        verdict(&unfinished)
            .starts_with("unfinished The run is still running, or was killed, after 4 of 4 steps"),
        "{}",
        verdict(&unfinished)
    );
    let broken = reported(here, "page_failed", &[&failed]);
    assert!(
        verdict(&broken).starts_with("failed The run failed after 4 of 4 steps: the disk is full"),
        "{}",
        verdict(&broken)
    );
    let nothing = reported(here, "page_empty", &[&empty]);
    assert!(verdict(&nothing).contains("has no metrics yet"), "{}", verdict(&nothing));

    let pages = [&page, &seeds, &configs, &unfinished, &broken, &nothing].map(PathBuf::as_path);
    let Some(seen) = browser::look_at(&pages) else { return };
    assert!(seen[0].charts > 20 && seen[2].charts > 20 && seen[5].charts == 0, "{seen:?}");
}

const SMALL: &str = "env.eval.init_params.sensor_configs={width: 32, height: 32}";

fn collected(here: &Path, name: &str, seed: u64, episodes: u64) {
    let (folder, seed) =
        (format!("env.eval.data_collection.save_dir={name}"), format!("env.eval.seed={seed}"));
    let episodes = episodes.to_string();
    succeeds(
        here,
        &[
            "-q",
            "collect",
            "pickcube_scripted",
            "--episodes",
            &episodes,
            "actor.model.noise=0.1",
            "env.eval.ignore_terminations=true",
            &folder,
            &seed,
            SMALL,
        ],
    );
}

fn audit(here: &Path, words: &[&str]) -> (Option<i32>, String) {
    let all = [&["-q", "reward", "audit", "run", "held", "--stress-frames", "6"], words].concat();
    let out = plaudit(here, &all);
    let text = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8(text).unwrap())
}

/// The page about a run that a model rewarded, with films of its policy before and after.
fn rewarded_by(here: &Path, model: &Path) -> PathBuf {
    let size = "init_params.sensor_configs={width: 32, height: 32}";
    let words = [
        "-q".to_string(),
        "train".into(),
        "pickcube_ppo_resnet_reward".into(),
        format!("reward.model.model_path={}", model.display()),
        "reward.model.image_size=[3,32,32]".into(),
        "reward.model.image_keys=[main_images]".into(),
        "algorithm.cloning=null".into(),
        "runner.logger.log_path=rewarded".into(),
        "runner.max_epochs=2".into(),
        "env.train.total_num_envs=4".into(),
        "env.eval.total_num_envs=4".into(),
        "env.eval.video_cfg.max_envs=2".into(),
        format!("env.train.{size}"),
        format!("env.eval.{size}"),
    ];
    succeeds(here, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let track = plaudit_view::video::VideoTrack::read(&here.join("rewarded/video/seed_0/0.json")).unwrap();
    assert_eq!((track.step, track.video.as_str(), track.episodes.len()), (0, "0.mp4", 2));
    let episode = &track.episodes[0];
    assert_eq!([episode.at_secs.len(), episode.score.len()], [50; 2], "every step has a place and a score");
    let page = reported(here, "page_rewarded", &[&here.join("rewarded")]);
    let text = text(&page);
    for shown in [
        "model × 1",
        "Not part of the reward (weight 0): env.",
        "The reward model did not pass its audit",
        "Before training",
        "After 2 steps",
        "Reward model’s score of each frame",
    ] {
        assert!(text.contains(shown), "{shown} is not on the page");
    }
    assert!(
        verdict(&page).contains("Trained by the learned reward alone")
            || verdict(&page).contains("learned reward"),
        "{}",
        verdict(&page)
    );
    page
}

/// From episodes to a page: a model that hardly learned is not passed, its checkpoint gets temperature and threshold and
/// keeps its weights, and what is measured with it afterwards goes by them.
#[test]
fn an_audit_is_a_page_json_an_exit_code_and_a_threshold_in_the_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "train", 1, 8);
    collected(here, "held", 2, 24);
    let small = ["actor.model.arch=resnet10", "actor.model.image_size=[3,32,32]", "runner.max_steps=6"];
    let words = ["-q", "reward", "train", "--data", "train", "runner.logger.log_path=run"];
    succeeds(here, &[&words[..], &small[..]].concat());
    let model = here.join("run/checkpoints/best_model/model.safetensors");
    let before = plaudit_nn::Weights::read(&model).unwrap();

    let (code, said) = audit(here, &["--max-fpr", "0.3", "--confidence", "0.9", "--output", "audit"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("NOT PASSED") && said.contains("audit.html"), "{said}");
    let page = here.join("audit/audit.html");
    is_by_itself(&page);
    assert!(
        verdict(&page).starts_with("not passed No: this model should not be used as a reward, because"),
        "{}",
        verdict(&page)
    );
    for shown in ["Guarantee", "data:image/png", "cube covered", "A typical success", ">threshold</span>"] {
        assert!(text(&page).contains(shown), "{shown} is not on the page");
    }
    let report = rewarded_by(here, &model);
    if let Some(seen) = browser::look_at(&[&page, &report]) {
        assert!(seen[0].charts >= 6 && seen[0].films == 0, "{seen:?}");
        assert_eq!(seen[1].films, 2, "{seen:?}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(here.join("audit/audit.json")).unwrap()).unwrap();
    assert_eq!(json["regions_known_by"], "simulator", "the scene was rendered again from its states");
    assert_eq!(json["episodes"], 24);
    assert_eq!(json["latency"].as_array().unwrap().len(), 2);

    let after = plaudit_nn::Weights::read(&model).unwrap();
    let tensors = |weights: &plaudit_nn::Weights| -> Vec<(String, Vec<u8>)> {
        weights.iter().map(|(name, tensor)| (name.to_string(), tensor.bytes().to_vec())).collect()
    };
    assert!(tensors(&before) == tensors(&after), "weights changed");
    let card = plaudit_reward::card::ModelCard::from_header(after.metadata()).unwrap().unwrap();
    assert_eq!(card.threshold, json["operating"]["threshold"].as_f64());
    assert_eq!(card.temperature, json["calibration"]["temperature"].as_f64());
    let guarantee = card.guarantee.unwrap();
    assert_eq!((guarantee.max_rate, guarantee.episodes), (0.3, 24));

    let words = ["-q", "reward", "eval", "run", "held", "--json", "--output-dir", "eval"];
    let out = plaudit(here, &words);
    let eval: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(eval["metrics"]["threshold"].as_f64(), card.threshold);
    let [measured, audited] =
        [&eval["metrics"]["brier"], &json["metrics"]["brier"]].map(|one| one.as_f64().unwrap());
    assert!((measured - audited).abs() < 1e-6, "the same scores: {measured} and {audited}");

    // What cannot be promised is not, and data that was learned from is refused its say.
    let (code, said) = audit(here, &["--output", "strict", "--no-store"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("24 episodes are too few to show a false-alarm rate of 0.01"), "{said}");
    let words = ["-q", "reward", "audit", "run", "train", "--output", "leak", "--stress-frames", "4"];
    let out = plaudit(here, &words);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8(out.stdout).unwrap().contains("cannot be believed"));
    assert_eq!(audit(here, &["--max-fpr", "1.5"]).0, Some(2));
}
