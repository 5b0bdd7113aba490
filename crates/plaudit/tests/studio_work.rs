//! The studio's pages about work: models beside each other, mistakes and what is learned from them, runs.

use std::path::Path;
use std::time::Duration;

use plaudit_view::RunProcess;

use crate::browser::browser;
use crate::browser::devtools::Tab;
use crate::runs::{fresh_classifier, succeeds};
use crate::serve::tiny_vlm;
use crate::studio::{Running, collected, fits, picture, until};

/// What stands between two pieces of a text.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no `{before}` in {text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("no `{after}` after `{before}` in {text}")).0
}

fn posted(studio: &Running, path: &str, body: &str) -> String {
    let (status, text) = studio.own("POST", path, body);
    assert_eq!(status, 200, "{path} {body}: {text}");
    text
}

#[test]
fn models_are_compared_and_every_answer_outlives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "episodes", "6");
    // Two models that say the same at other thresholds: one rewards everything, the other nothing.
    for (name, threshold) in [("eager", 0.01), ("strict", 0.99)] {
        fresh_classifier(
            here.join(name).join("checkpoints/best_model"),
            &["main_images"],
            Some(threshold),
            1,
        );
    }
    let studio = Running::start(here, &["."]);
    until("the models were found", || studio.get("/compare?d=episodes").1.contains("strict"));
    let query = "d=episodes&n=6&m=eager&m=strict";
    posted(&studio, "/compare/score", query);
    let result = format!("/compare/result?{query}");
    until("all was scored", || studio.get(&result).1.contains("data-done=\"6\" data-all=\"6\""));
    let (_, text) = studio.get(&result);

    // One of them is right where the other is wrong, frame by frame, so that their agreements with the truth are one together.
    let table = between(&text, "id=\"agreement\"", "</table>");
    let of_truth = between(table, "<th scope=\"row\">truth</th>", "</tr>");
    let shares: Vec<f64> = of_truth
        .split("<td>")
        .skip(1)
        .map(|cell| cell.split(" %").next().unwrap().parse().unwrap())
        .collect();
    assert!(shares.len() == 2 && (shares[0] + shares[1] - 100.0).abs() < 0.11, "{of_truth}");
    let strict = between(&text, "<th scope=\"row\">strict</th><td>0.990</td>", "</tr>");
    assert!(strict.contains("<td>0.00</td><td>0 of 6 (0 to 39 %)</td><td>–</td><td>0</td>"), "{strict}");
    let eager = between(&text, "<th scope=\"row\">eager</th><td>0.010</td>", "</tr>");
    assert!(eager.ends_with("<td>0 of 6</td>") || !eager.contains("<td>6 of"), "it misses nothing: {eager}");

    let compared = format!("/compare?{query}");
    let blind = format!("/compare/blind?{query}");
    let player = "document.querySelector('.player')?.dataset.shown !== undefined";
    looked_at(&studio, &[(&compared, ALL_COMPARED, None), (&blind, player, None)]);

    // A question does not say whose curves it shows.
    let ask = || {
        let (status, text) = studio.get(&format!("/compare/blind?{query}"));
        assert_eq!(status, 200, "{text}");
        let charts = between(&text, "id=\"panels\"", "</main>");
        let charts = charts.split("Back to the comparison").next().unwrap();
        let charts = &charts[..charts.rfind("<p><a").unwrap()];
        assert!(charts.contains("Curve A") && charts.contains("Curve B"), "{charts}");
        assert!(!charts.contains("eager") && !charts.contains("strict"), "{charts}");
        between(&text, "data-trial=\"", "\"").to_string()
    };
    for verdict in ["first", "second", "tie"] {
        let trial = ask();
        posted(&studio, "/compare/answer", &format!("trial={trial}&says={verdict}&by=me"));
        let again = studio.own("POST", "/compare/answer", &format!("trial={trial}&says={verdict}"));
        assert_eq!(again.0, 409, "a question is answered once: {}", again.1);
    }
    assert_eq!(studio.own("POST", "/compare/answer", &format!("trial={}&says=perhaps", ask())).0, 400);
    studio.kill();
    let kept = std::fs::read_to_string(here.join("plaudit-labels/comparisons.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 3, "{kept}");

    // They count after a new start, and nobody adds to them where nothing is written.
    let studio = Running::start(here, &[".", "--read-only"]);
    until("the models were found", || studio.get("/compare?d=episodes").1.contains("strict"));
    posted(&studio, "/compare/score", query);
    until("the ratings are there", || studio.get(&result).1.contains("id=\"ratings\""));
    for (path, body) in [
        ("/compare/answer", "trial=1&says=first"),
        ("/models/accept", "m=eager&d=episodes&i=0&from=0&to=1"),
        ("/models/retrain", "m=eager&d=episodes"),
        ("/runs/start", "recipe=cartpole_ppo"),
        ("/runs/stop", "r=x"),
        ("/runs/resume", "r=x"),
        ("/runs/branch", "r=x&name=y&set=a%3D1"),
    ] {
        let (status, text) = studio.own("POST", path, body);
        assert!(status == 403 && text.contains("only reads"), "{path}: {text}");
    }
    assert_eq!(studio.get(&format!("/compare/blind?{query}")).0, 403);
}

/// The tiny vision-language model of the fixtures as a judge of a folder, tuned for success as its card says.
fn judge_in(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for entry in std::fs::read_dir(tiny_vlm()).unwrap().flatten() {
        std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let card = r#"{"format": "plaudit judge", "version": 1, "objectives": ["trend", "success"]}"#;
    std::fs::write(folder.join("plaudit_judge.json"), card).unwrap();
}

#[test]
fn a_judge_is_compared_with_a_classifier() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "episodes", "3");
    judge_in(&here.join("judge"));
    fresh_classifier(here.join("reward/checkpoints/best_model"), &["main_images"], Some(0.5), 1);
    let untuned = tiny_vlm();
    let studio = Running::start(here, &[".", "--model", untuned.to_str().unwrap()]);
    until("the judge was found", || studio.get("/models").1.contains(">judge<"));
    let (_, text) = studio.get("/models/show?m=judge");
    assert!(text.contains("vision-language judge") && text.contains("trend, success"), "{text}");
    assert!(!text.contains("id=\"retrain\""), "a judge is not retrained like a classifier: {text}");

    let query = "d=episodes&n=3&m=reward&m=judge";
    posted(&studio, "/compare/score", query);
    let result = format!("/compare/result?{query}");
    until("all was scored", || studio.get(&result).1.contains("data-done=\"3\" data-all=\"3\""));
    let (_, text) = studio.get(&result);
    assert!(text.contains("<th scope=\"row\">judge</th><td>0.500</td>"), "{text}");
    let curves = || studio.get("/episode/curves?d=episodes&i=0&s=0&kind=reward&m=judge").1;
    until("its curve is there", || curves().contains("asked at 16 points"));
    assert!(
        curves().contains("judge: threshold 0.500, which is taken as it has none of its own"),
        "{}",
        curves()
    );

    // One that was tuned for nothing is asked by TOPReward, and its curve goes to other tools as well.
    let name = format!("{}", untuned.display()).replace('/', "%2F");
    let curves = || studio.get(&format!("/episode/curves?d=episodes&i=0&s=0&kind=reward&m={name}")).1;
    posted(&studio, "/episode/score", &format!("d=episodes&i=0&s=0&m={name}"));
    until("the other's curve is there", || curves().contains("TOPReward"));
    let export = ["-q", "dataset", "export", "episodes", "--format", "mcap", "--reward-model", "judge"];
    succeeds(here, &[&export[..], &["--output-dir", "mcap"]].concat());
    assert_eq!(std::fs::read_dir(here.join("mcap")).unwrap().count(), 3);
}

#[test]
fn a_mistake_is_mended_and_the_model_learns_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    collected(here, "episodes", "10");
    let small =
        ["actor.model.arch=resnet10", "actor.model.image_size=[3,32,32]", "runner.second_model=false"];
    let train =
        ["-q", "reward", "train", "--data", "episodes", "runner.max_steps=4", "runner.val_check_interval=2"];
    succeeds(here, &[&train[..], &small, &["runner.logger.log_path=reward"]].concat());
    collected(here, "play", "6");
    let studio = Running::start(here, &["."]);
    let asked = "m=reward&d=play&n=6";
    until("the model was found", || studio.get(&format!("/models/show?{asked}")).0 == 200);
    let (_, text) = studio.get(&format!("/models/show?{asked}"));
    assert!(text.contains("resnet10") && text.contains("No audit"), "{text}");
    posted(&studio, "/models/score", asked);
    let gallery = || studio.get(&format!("/models/mistakes?{asked}")).1;
    until("all was scored", || gallery().contains("data-done=\"6\" data-all=\"6\""));
    let first = |text: &str| -> Option<String> {
        let card = text.split_once("card single mistake\" ")?.1;
        let of = |name: &str| between(card, &format!("data-{name}=\""), "\"").to_string();
        Some(format!(
            "d=play&i={}&s=0&start={}&end={}&answer={}",
            of("i"),
            of("from"),
            of("to"),
            of("answer")
        ))
    };
    let count = |text: &str| text.matches("card single mistake").count();
    let before = gallery();
    assert!(count(&before) >= 2, "a model of four steps makes mistakes: {before}");
    let refused = studio.own("POST", "/models/retrain", asked);
    assert!(refused.0 == 409 && refused.1.contains("fix a label first"), "{}", refused.1);

    // One label is mended, another mistake is accepted; neither is shown again.
    posted(&studio, "/label/add", &format!("{}&by=me", first(&before).unwrap()));
    let then = gallery();
    assert!(count(&then) < count(&before) && then.contains("<b>1</b> episodes labelled here"), "{then}");
    let accepted = first(&then).unwrap().replace("start=", "from=").replace("end=", "to=");
    posted(&studio, "/models/accept", &format!("m=reward&{accepted}"));
    assert_eq!(count(&gallery()) + 1, count(&then));
    assert_eq!(
        std::fs::read_to_string(here.join("plaudit-labels/accepted.jsonl")).unwrap().lines().count(),
        1
    );

    // The new model is measured where nobody labelled.
    let started = posted(&studio, "/models/retrain", asked);
    assert!(started.contains("logs/retrained"), "{started}");
    until("it has learned", || studio.get("/runs/state?r=logs/retrained").1.contains(">done<"));
    let asked_both = format!("{asked}&after=logs/retrained");
    until("it was found", || studio.own("POST", "/models/score", &asked_both).0 == 200);
    let measured = || studio.get(&format!("/models/measured?{asked_both}")).1;
    until("both were measured", || measured().contains("data-done=\"5\" data-all=\"5\""));
    assert!(measured().contains("on 5 of 5 episodes that nobody labelled"), "{}", measured());

    // In the browser: a mistake is accepted by keys.
    let show = format!("/models/show?{asked}");
    let is_there = "document.getElementById('looked')?.dataset.done === '6'";
    let both = "/compare?d=play&n=6&m=reward&m=logs%2Fretrained";
    let pages = [
        ("/models", "document.querySelector('td a') !== null", None),
        (&show, is_there, None),
        (both, ALL_COMPARED, Some("compared")),
    ];
    if let Some(mut tab) = looked_at(&studio, &pages) {
        tab.go(&studio.address(&show));
        tab.wait_for(is_there);
        tab.eval("document.getElementById('mistakes').scrollIntoView()");
        picture(&mut tab, "mistakes");
        let shown = count(&gallery());
        tab.key("j");
        tab.key("a");
        until("it was accepted", || count(&gallery()) + 1 == shown);
    }
}

/// The page has the last of six episodes.
const ALL_COMPARED: &str = "document.getElementById('compared')?.dataset.done === '6'";

/// Opens pages in a browser, on a phone and wide, dark and light, and takes the pictures that have a name; nothing where there is no
/// browser.
fn looked_at(studio: &Running, pages: &[(&str, &str, Option<&str>)]) -> Option<Tab> {
    let mut tab = Tab::open(&browser()?);
    tab.look(1400, 900, "light");
    tab.go(&studio.url());
    for (path, is_there, name) in pages {
        for (width, scheme) in [(400, "dark"), (1400, "light")] {
            tab.look(width, 900, scheme);
            tab.go(&studio.address(path));
            tab.wait_for(is_there);
            fits(&mut tab, &format!("{path} at {width}"));
        }
        if let Some(name) = name {
            picture(&mut tab, name);
        }
    }
    Some(tab)
}

/// A run that is ended with its test, also where that fails: it would go on for days.
struct EndedWithTest<'a>(&'a Path);

impl Drop for EndedWithTest<'_> {
    fn drop(&mut self) {
        if let Some(process) = RunProcess::of(self.0).filter(RunProcess::is_alive) {
            let _ = std::process::Command::new("kill").args(["-9", &process.id.to_string()]).status();
        }
    }
}

/// The newest checkpoint of a run.
fn newest_step(run: &Path) -> u64 {
    let names = std::fs::read_dir(run.join("checkpoints")).unwrap().map(|entry| entry.unwrap().file_name());
    let step = |name: std::ffi::OsString| name.to_str()?.strip_prefix("global_step_")?.parse().ok();
    names.filter_map(step).max().unwrap()
}

/// The process of a run.
fn process(run: &Path) -> RunProcess {
    RunProcess::of(run).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_is_started_outlives_the_studio_and_is_stopped_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let studio = Running::start(here, &["."]);
    let (status, text) = studio.get("/runs/new?recipe=cartpole_ppo");
    assert!(status == 200 && text.contains("name=\"runner.max_epochs\" data-was=\"60\""), "{text}");
    let bad = posted(&studio, "/runs/check", "recipe=cartpole_ppo&set=runner.max_epochs%3Dmany");
    assert!(bad.contains("\"can_start\":false") && bad.contains("whole number"), "{bad}");
    assert!(posted(&studio, "/runs/check", "recipe=cartpole_ppo").contains("\"can_start\":true"));
    for (body, expected) in [
        ("recipe=..%2Fcartpole_ppo", 400),
        ("recipe=cartpole_ppo&set=--resume", 400),
        ("recipe=cartpole_ppo&set=runner.max_epochs%3Dmany", 400),
        ("set=a%3D1", 400),
    ] {
        assert_eq!(studio.own("POST", "/runs/start", body).0, expected, "{body}");
    }

    let values =
        "set=runner.max_epochs%3D1000000&set=runner.save_interval%3D1&set=env.train.total_num_envs%3D2";
    let started = posted(&studio, "/runs/start", &format!("recipe=cartpole_ppo&name=my+run&{values}"));
    assert!(started.contains("logs/my_run"), "{started}");
    let run = here.join("logs/my_run");
    let _ended = EndedWithTest(&run);
    let state = |studio: &Running, word: &str| {
        studio.get("/runs/state?r=logs/my_run").1.contains(&format!(">{word}<"))
    };
    until("it runs", || state(&studio, "running"));
    until("it saves", || studio.get("/runs/state?r=logs/my_run").1.contains("saved at"));
    studio.kill();
    std::thread::sleep(Duration::from_millis(300));
    assert!(process(&run).is_alive(), "it goes on without the studio");

    let studio = Running::start(here, &["."]);
    until("it was found", || state(&studio, "running"));
    let charts = studio.get("/runs/curves?r=logs/my_run").1;
    assert!(charts.contains("<figure"), "{charts}");
    let pages = [
        ("/runs", "document.querySelector('a.run') !== null", None),
        ("/runs/show?r=logs/my_run", "document.querySelector('#first-curves figure') !== null", Some("run")),
        ("/runs/new?recipe=cartpole_ppo", "!document.getElementById('start').disabled", Some("new_run")),
    ];
    if let Some(mut tab) = looked_at(&studio, &pages) {
        tab.go(&studio.address("/runs/show?r=logs/my_run"));
        tab.wait_for("document.querySelector('[data-do=stop]') !== null");
        tab.eval("document.querySelector('[data-do=stop]').click()");
    } else {
        posted(&studio, "/runs/stop", "r=logs/my_run");
    }
    until("it has stopped", || state(&studio, "stopped"));
    assert!(!process(&run).is_alive());
    assert_eq!(studio.own("POST", "/runs/stop", "r=logs/my_run").0, 409, "nothing is there to stop");

    // A process that has the number of another run is not touched.
    let config = std::fs::read_to_string(run.join("process.json")).unwrap();
    let other = here.join("logs/other");
    std::fs::create_dir_all(&other).unwrap();
    let started = r#"{"wall_secs":1,"elapsed_secs":0.5,"event":"started","name":"o","job":"train","unit":"steps","step":0,"steps":9}"#;
    std::fs::write(other.join("events.jsonl"), format!("{started}\n")).unwrap();
    let id = std::process::id();
    let written = config.replacen(&process(&run).id.to_string(), &id.to_string(), 1);
    std::fs::write(other.join("process.json"), written).unwrap();
    until("it was found", || studio.get("/runs/state?r=logs/other").0 == 200);
    assert_eq!(studio.own("POST", "/runs/stop", "r=logs/other").0, 409);

    // From what it saved last, a run of its own with another schedule; what is refused starts nothing.
    for (set, why) in
        [("", "which keys"), ("set=algorithm.gamma%3Dhigh", "number"), ("set=no.such.key%3D1", "unknown key")]
    {
        let (status, text) = studio.own("POST", "/runs/branch", &format!("r=logs/my_run&name=slower&{set}"));
        assert!(status == 400 && text.contains(why), "{status} {text}");
    }
    let saved = newest_step(&run);
    let set = format!("set=algorithm.gamma%3D0.9&set=runner.max_epochs%3D{}", saved + 2);
    let started = posted(&studio, "/runs/branch", &format!("r=logs/my_run&name=slower&{set}"));
    assert!(started.contains("logs/slower"), "{started}");
    until("the other has ended", || studio.get("/runs/state?r=logs/slower").1.contains(">done<"));
    let slower = here.join("logs/slower");
    assert_eq!(newest_step(&slower), saved + 2, "it began where the first one had saved");
    assert!(std::fs::read_to_string(slower.join("config.yaml")).unwrap().contains("gamma: 0.9"));
    assert_eq!(newest_step(&run), saved);

    posted(&studio, "/runs/resume", "r=logs/my_run");
    until("it goes on", || state(&studio, "running"));
    posted(&studio, "/runs/stop", "r=logs/my_run");
    until("it has stopped again", || state(&studio, "stopped"));
    for path in [
        "/runs/file?r=logs/my_run&f=events.jsonl",
        "/runs/file?r=logs/my_run&f=..%2F..%2Fa.png",
        "/runs/show?r=..",
        "/runs/show",
    ] {
        assert_eq!(studio.get(path).0 / 100, 4, "{path}");
    }
}
