//! The commands of the bench against a simulated robot server.

use std::io::BufRead;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plaudit_robot::Faults;
use serde_json::Value;

use crate::runs::{ctrl_c, on_one_line};

// The bench that the library is tested on.
#[path = "../../robot/tests/bench/mod.rs"]
mod bench;

use bench::Bench;

/// A simulated PickCube that answers.
fn start() -> Bench {
    let bench = Bench::start(1.0);
    bench::eventually("the simulation begins", || bench.arm.pose().is_ok());
    bench
}

fn robot(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.arg("robot").args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An address at which nobody listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A simulated robot in a process of its own, ended with the test.
pub(crate) struct Elsewhere {
    process: std::process::Child,
    pub(crate) url: String,
}

impl Elsewhere {
    pub(crate) fn start(task: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
        command.args(["robot", "simulate", task, "--port", "0"]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        let mut words = lines
            .map_while(Result::ok)
            .flat_map(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>());
        let url = words.find(|word| word.starts_with("http://")).expect("it says where it is");
        Self { process, url }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A script in the place of a person moves the robot of another process, whichever task it has.
#[test]
fn a_simulated_robot_elsewhere_is_collected_from() {
    for (task, recipe) in
        [("pick-cube", "robot_pickcube_demos"), ("peg-insertion", "robot_peginsertion_demos")]
    {
        let (there, folder) = (Elsewhere::start(task), tempfile::tempdir().unwrap());
        let server = format!("env.eval.override_cfg.server_url={}", there.url);
        let collect = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
            command.args(["collect", recipe, &server, "env.eval.data_collection.save_dir=demos"]).args(words);
            command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap()
        };
        let output = collect(&["--episodes", "1"]);
        assert_eq!(output.status.code(), Some(0), "{task}: {}", text(&output.stderr));
        let written =
            std::fs::read_dir(folder.path().join("demos")).unwrap().map(|entry| entry.unwrap().path());
        let episodes = written.filter(|path| path.extension().is_some_and(|extension| extension == "pkl"));
        assert_eq!(episodes.count(), 1, "{task}");
        let output = collect(&["--episodes", "1", "env.eval.seed=5"]);
        let message = on_one_line(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("another seed"), "{task}: {message}");
    }
}

#[test]
fn the_pose_is_what_the_arm_reports() {
    let bench = start();
    let expected = bench.arm.pose().unwrap();
    let output = robot(&["pose", &bench.url, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let numbers = |key: &str| -> Vec<f64> {
        value[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    for (read, there) in numbers("xyz_quat").iter().zip(expected.to_xyz_quat()) {
        assert!((read - there).abs() < 0.01, "{value}");
    }
    assert_eq!(numbers("xyz_euler").len(), 6);
    assert!(value["moved_m"].as_f64().unwrap() < 0.01);

    let output = robot(&["pose", &bench.url, "--as", "reset"]);
    let page = text(&output.stdout);
    let [x, ..] = expected.to_xyz_euler();
    assert!(page.contains(&format!("      reset_ee_pose: [{x:.2}")), "{page}");
    // What is printed can be pasted: a config takes it.
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bench.yaml");
    std::fs::write(&config, format!("{page}    env_type: realworld\n")).unwrap();
    let show = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    let shown = { show }.args(["config", "show"]).arg(&config).output().unwrap();
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
}

#[test]
fn a_pose_that_cannot_be_read_is_an_error_with_advice() {
    let output = robot(&["pose", &nowhere()]);
    let message = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("does not answer getpos") && message.contains("plaudit robot simulate"),
        "{message}"
    );
    assert!(output.stdout.is_empty());
    let output = robot(&["pose", "https://robot"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(on_one_line(&output.stderr).contains("SERL's port is 5000"));
    let bench = start();
    bench.scene.set_faults(&Faults { error_rate: 1.0, ..Faults::default() }).unwrap();
    let output = robot(&["pose", &bench.url]);
    assert_eq!(output.status.code(), Some(1));
    assert!(on_one_line(&output.stderr).contains("status 500"));
}

#[test]
fn the_doctor_tells_a_healthy_bench_from_a_sick_one() {
    let bench = start();
    let words = ["doctor", "--server", &bench.url, "--camera", "base_camera", "--json"];
    let output = robot(&words);
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(report["server"]["dialect"], "simulated", "{report}");
    assert_eq!(report["server"]["missing"].as_array().unwrap().len(), 0);
    let state = &report["server"]["state"];
    assert!(state["median_ms"].as_f64().unwrap() <= state["p99_ms"].as_f64().unwrap());
    assert_eq!(report["cameras"][0]["size"], serde_json::json!([64, 64]));
    assert!(report["cameras"][0]["hz"].as_f64().unwrap() > 1.0);
    assert_eq!(report["e_stop"], "not_tested", "there is no terminal to ask in");
    // A busy machine may make the bench slow; the exit code says what the report says.
    let expected = i32::from(report["verdict"] == "wrong");
    assert_eq!(output.status.code(), Some(expected), "{report}");

    bench.scene.set_faults(&Faults { freeze_frames: true, ..Faults::default() }).unwrap();
    let output = robot(&["doctor", "--server", &bench.url, "--camera", "base_camera", "--yes"]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.lines().any(|line| line.starts_with("WRONG  camera")), "{page}");
    assert!(page.contains("The bench is not fit to be used"), "{page}");

    let output = robot(&["doctor", "--server", &nowhere()]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.starts_with("WRONG  server") && page.contains("plaudit robot simulate"), "{page}");
    assert_eq!(robot(&["doctor"]).status.code(), Some(2), "no robot is named");
}

#[test]
fn the_doctor_reads_the_box_and_the_compliance_of_a_config() {
    let bench = start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bench.yaml");
    let examined = |override_cfg: &str| {
        let yaml = format!(
            "env:\n  eval:\n    env_type: realworld\n    init_params: {{id: PegInsertionEnv-v1}}\n    override_cfg: {{{override_cfg}}}\n"
        );
        std::fs::write(&config, yaml).unwrap();
        text(&robot(&["doctor", config.to_str().unwrap(), "--server", &bench.url, "--yes"]).stdout)
    };
    let [x, y, z, roll, pitch, yaw] = bench.arm.pose().unwrap().to_xyz_euler();
    let here = format!("target_ee_pose: [{x}, {y}, {z}, {roll}, {pitch}, {yaw}]");
    let page = examined(&here);
    assert!(page.contains("full actions from here are cut towards -z (by -z)"), "{page}");
    let page = examined("target_ee_pose: [0.2, 0.3, 0.1, 3.14, 0.0, 0.0]");
    assert!(
        page.contains("WRONG  workspace") && page.contains("the tool is outside, beyond +x, -y"),
        "{page}"
    );
    let page = examined(&format!("{here}, compliance_param: {{translational_stiffness: 9000}}"));
    assert!(page.contains("WRONG  compliance") && page.contains("the controller takes 0 to 6000"), "{page}");
    // The config may name server and cameras itself.
    let camera = format!("{}/camera/base_camera", bench.url);
    let yaml = format!(
        "env:\n  eval:\n    env_type: realworld\n    override_cfg:\n      server_url: {}\n      camera_urls: {{wrist_1: \"{camera}\"}}\n",
        bench.url
    );
    let named = folder.path().join("named.yaml");
    std::fs::write(&named, yaml).unwrap();
    let page = text(&robot(&["doctor", named.to_str().unwrap(), "--yes"]).stdout);
    assert!(page.contains("plaudit's simulated robot") && page.contains("`wrist_1`:"), "{page}");
    let page = examined("target_ee_pose: TARGET_EE_POSE");
    assert!(page.contains("`override_cfg.target_ee_pose`: it is still TARGET_EE_POSE"), "{page}");
}

/// A session of labelling with keys through a pipe.
fn label(bench: &Bench, folder: &std::path::Path, words: &[&str]) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
    command.args(["robot", "label", "--server", &bench.url, "--camera", "base_camera", "--image-size", "32"]);
    command.arg("--output-dir").arg(folder).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn press(child: &mut std::process::Child, keys: &[u8]) {
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), keys).unwrap();
}

/// Waits until the journal has so many frames.
fn wait_for_frames(folder: &std::path::Path, count: usize) {
    let begun = Instant::now();
    let frames = || {
        let journal = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default();
        journal.lines().filter(|line| line.starts_with("{\"frame\"")).count()
    };
    while frames() < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "only {} frames", frames());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn labels_survive_kill_and_become_train_and_val() {
    let bench = start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = label(&bench, folder.path(), &[]);
    press(&mut child, b"a");
    wait_for_frames(folder.path(), 40);
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert!(!folder.path().join("train.pt").exists());

    let mut child = label(&bench, folder.path(), &["--block-secs", "1", "--gap-secs", "0.2"]);
    press(&mut child, b"c");
    wait_for_frames(folder.path(), 80);
    press(&mut child, b"q");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains('\r'), "no bar without a terminal");
    let page = text(&output.stdout);
    let counts = |page: &str, row: &str| -> Vec<usize> {
        let line = page.lines().find(|line| line.starts_with(row)).unwrap();
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let labelled = counts(&page, "labelled");
    assert!(labelled[0] >= 20 && labelled[1] >= 20, "both sessions: {page}");
    for part in ["train", "val"] {
        let counted = counts(&page, part);
        assert!(counted[0] > 0 && counted[1] > 0, "{page}");
        let file = plaudit_pyfiles::read(folder.path().join(format!("{part}.pt"))).unwrap();
        let images = file.get("images").and_then(|images| images.as_items()).unwrap();
        let labels = file.get("labels").and_then(|labels| labels.as_items()).unwrap();
        let successes = labels.iter().filter(|label| label.to_i64() == Some(1)).count();
        assert_eq!([successes, labels.len() - successes], counted[..2], "{page}");
        assert_eq!(images[0].as_array().unwrap().shape(), [32, 32, 3]);
    }

    // Without a robot: the same labels, a third of a second earlier.
    let words = ["label", "--rebuild", "--lag", "0.3", "--output-dir", folder.path().to_str().unwrap()];
    let output = robot(&words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("labels are moved back by 0.30 s"));
}

#[test]
fn ctrl_c_ends_labelling_and_loses_nothing() {
    let bench = start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = label(&bench, folder.path(), &[]);
    press(&mut child, b"c");
    wait_for_frames(folder.path(), 25);
    // A terminal stays open, and the end of the keys would mean that it is enough.
    let keys = child.stdin.take();
    Command::new("kill").args([ctrl_c(), &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(keys);
    let message = on_one_line(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("every label is in") && message.contains("--rebuild"), "{message}");
    let words = ["label", "--rebuild", "--output-dir", folder.path().to_str().unwrap()];
    let message = on_one_line(&robot(&words).stderr);
    assert!(
        message.contains("no failure is labelled that could be trained on (0 are labelled)"),
        "{message}"
    );
}

#[test]
fn labelling_says_what_is_missing() {
    let camera = format!("{}/camera/wrist_1", nowhere());
    for (words, code, says) in [
        (vec!["label"], 2, "which camera?"),
        (vec!["label", "--camera", "wrist_1"], 2, "where is camera `wrist_1`?"),
        (vec!["label", "--camera", "my camera"], 2, "neither an address, nor a path, nor a serial number"),
        (vec!["label", "--camera", "/dev/video-none"], 1, "there is no such device: is it plugged in?"),
        (vec!["label", "--camera", "replay:no/such/folder"], 1, "camera `wrist_1` at no/such/folder"),
        (vec!["label", "--camera", &camera], 1, "plaudit robot doctor"),
        (vec!["label", "--rebuild", "--output-dir", "/nowhere/at/all"], 1, "journal.jsonl"),
        (vec!["label", "--rate", "1000"], 2, "from 0.1 to 120"),
    ] {
        let output = robot(&words);
        let message = on_one_line(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {message}");
        assert!(message.contains(says), "{words:?}: {message}");
    }
}

/// A person at a terminal who lets an arm move, and what may happen then.
#[cfg(target_os = "linux")]
mod at_a_terminal {
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::Child;
    use std::sync::mpsc::{Receiver, channel};

    use plaudit_robot::ToolPose;

    use super::*;

    /// How far the start of episodes is from where the tool is, and how fast it gets there.
    const WAY_M: f64 = 0.10;
    const FULL_ACTION_M: f64 = 0.004;
    /// At that speed, a tenth of a second and what an arm under way still goes.
    const STOPS_WITHIN_M: f64 = 0.03;

    struct Session {
        child: Child,
        /// What a person types into.
        person: File,
        said: Receiver<String>,
    }

    /// `plaudit robot teleop` without a model, in a terminal of its own.
    fn teleop(bench: &Bench, folder: &std::path::Path) -> Session {
        let config = config(bench, folder);
        in_a_terminal(folder, &["robot", "teleop", config.to_str().unwrap()])
    }

    /// An arm whose episodes start at some distance from where it is.
    fn config(bench: &Bench, folder: &std::path::Path) -> std::path::PathBuf {
        let [x, y, z, roll, pitch, yaw] = bench.arm.pose().unwrap().to_xyz_euler();
        let (room, start) = (WAY_M + 0.05, x - WAY_M);
        let yaml = format!(
            "env:\n  eval:\n    env_type: realworld\n    init_params: {{id: FrankaEnv-v1}}\n    override_cfg:\n      server_url: {}\n      \
             camera_urls: {{wrist_1: \"{}/camera/base_camera\"}}\n      pilot: none\n      \
             target_ee_pose: [{x}, {y}, {z}, {roll}, {pitch}, {yaw}]\n      \
             reset_ee_pose: [{start}, {y}, {z}, {roll}, {pitch}, {yaw}]\n      clip_xy_range: {room}\n      clip_z_range_low: 0.05\n      \
             clip_z_range_high: 0.05\n      action_scale: [{FULL_ACTION_M}, 0.1, 1.0]\n",
            bench.url, bench.url
        );
        let config = folder.join("bench.yaml");
        std::fs::write(&config, yaml).unwrap();
        config
    }

    fn in_a_terminal(folder: &std::path::Path, words: &[&str]) -> Session {
        let nix::pty::OpenptyResult { master, slave } = nix::pty::openpty(None, None).unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_plaudit")]).args(words).current_dir(folder);
        command.stdin(slave).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (says, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        // What a terminal echoes has to be read by somebody.
        let (person, mut echo) = (File::from(master.try_clone().unwrap()), File::from(master));
        std::thread::spawn(move || while echo.read(&mut [0; 256]).is_ok_and(|read| read > 0) {});
        Session { child, person, said }
    }

    impl Session {
        fn wait_for(&self, words: &str) {
            let mut all = Vec::new();
            while !all.iter().any(|line: &String| line.contains(words)) {
                match self.said.recv_timeout(Duration::from_secs(60)) {
                    Ok(line) => all.push(line),
                    Err(_) => panic!("`{words}` was never said: {all:?}"),
                }
            }
        }

        /// Types every second, until something is so.
        fn types_until(&mut self, keys: &[u8], mut is_so: impl FnMut(&mut Child) -> bool) {
            let begun = Instant::now();
            while !is_so(&mut self.child) {
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "{:?}",
                    self.said.try_iter().collect::<Vec<_>>()
                );
                self.person.write_all(keys).unwrap();
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(50));
                    if is_so(&mut self.child) {
                        return;
                    }
                }
            }
        }

        fn signal(&self, signal: &str) {
            let pid = self.child.id().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        }
    }

    /// Lets the arm begin its way to the start, and stops it there. Where it was then, and where it is in the end.
    fn stopped(bench: &Bench, session: &mut Session, stop: impl Fn(&mut Session)) -> (ToolPose, ToolPose) {
        let begun = bench.arm.pose().unwrap();
        session.wait_for("Type `arm`");
        session.person.write_all(b"arm\n").unwrap();
        let waits = Instant::now();
        while bench.arm.pose().unwrap().distance_m(begun) < 0.01 {
            assert!(waits.elapsed() < Duration::from_secs(60), "the arm never moved");
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = bench.arm.pose().unwrap();
        stop(session);
        std::thread::sleep(Duration::from_secs(2));
        (before, bench.arm.pose().unwrap())
    }

    fn check_stop(how: &str, stop: impl Fn(&mut Session)) {
        let bench = start();
        let folder = tempfile::tempdir().unwrap();
        let mut session = teleop(&bench, folder.path());
        let (before, after) = stopped(&bench, &mut session, &stop);
        let went = after.distance_m(before);
        assert!(went < STOPS_WITHIN_M, "{how}: it went {went} m of {WAY_M}");
        std::thread::sleep(Duration::from_millis(500));
        let still = bench.arm.pose().unwrap().distance_m(after);
        assert!(still < 0.002, "{how}: it still goes, {still} m in half a second");
        let status = session.child.wait().unwrap();
        assert_eq!(status.code(), if how == "kill -9" { None } else { Some(0) }, "{how}: {status:?}");
    }

    #[test]
    fn sigterm_holds_the_arm() {
        check_stop("SIGTERM", |session| session.signal("-TERM"));
    }

    #[test]
    fn escape_holds_the_arm() {
        check_stop("Esc", |session| session.person.write_all(b"\x1b").unwrap());
    }

    #[test]
    fn the_server_holds_an_arm_whose_client_was_killed() {
        check_stop("kill -9", |session| session.signal("-KILL"));
    }

    #[test]
    fn an_arm_that_nobody_arms_stays_where_it_is() {
        let bench = start();
        let folder = tempfile::tempdir().unwrap();
        let before = bench.arm.pose().unwrap();
        let mut session = teleop(&bench, folder.path());
        session.wait_for("Type `arm`");
        session.person.write_all(b"no\n").unwrap();
        session.wait_for("nobody armed the robot");
        assert_eq!(session.child.wait().unwrap().code(), Some(1));
        assert!(bench.arm.pose().unwrap().distance_m(before) < 0.002);
        // Without a terminal nobody can be asked.
        let config = folder.path().join("bench.yaml");
        let output = robot(&["teleop", config.to_str().unwrap()]);
        let message = on_one_line(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("standard input is no terminal"), "{message}");
        assert!(bench.arm.pose().unwrap().distance_m(before) < 0.002);
    }

    /// How many episodes have been written under a folder in RLinf's way.
    fn pickles(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()));
        let is_pickle = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "pkl");
        let mut all: Vec<_> = entries.into_iter().flatten().filter(is_pickle).collect();
        all.sort();
        all
    }

    /// One success and one failure, said by key, are what every format holds.
    #[test]
    fn keys_label_and_end_episodes_that_are_collected() {
        let bench = start();
        let folder = tempfile::tempdir().unwrap();
        let config = config(&bench, folder.path());
        let mut session = in_a_terminal(
            folder.path(),
            &[
                "collect",
                config.to_str().unwrap(),
                "--episodes",
                "2",
                "env.eval.keyboard_reward_wrapper=single_stage",
                "env.eval.data_collection.export_format=[pickle,lerobot,npy,replay_buffer,store,frames]",
                "env.eval.data_collection.save_dir=kept",
            ],
        );
        session.wait_for("Type `arm`");
        session.person.write_all(b"arm\n").unwrap();
        let kept = folder.path().join("kept");
        session.types_until(b"c", |_| !pickles(&kept.join("pickle")).is_empty());
        session.types_until(b"a", |child| child.try_wait().unwrap().is_some());
        assert_eq!(
            session.child.wait().unwrap().code(),
            Some(0),
            "{:?}",
            session.said.try_iter().collect::<Vec<_>>()
        );

        let numbers = |episode: &plaudit_pyfiles::PyValue, key: &str| -> Vec<f64> {
            let list = episode.get(key).and_then(|list| list.as_items()).unwrap();
            list.iter().map(|number| number.to_f64().unwrap()).collect()
        };
        let episodes = pickles(&kept.join("pickle"));
        assert_eq!(episodes.len(), 2);
        for (path, label) in episodes.iter().zip([1.0, -1.0]) {
            let episode = plaudit_pyfiles::read(path).unwrap();
            assert_eq!(episode.get("success").and_then(|success| success.to_bool()), Some(label > 0.0));
            let (last, before) =
                numbers(&episode, "rewards").split_last().map(|(l, b)| (*l, b.to_vec())).unwrap();
            assert!(last == label && before.iter().all(|reward| *reward == 0.0), "{before:?} {last}");
            let ends = episode.get("terminated").and_then(|list| list.as_items()).unwrap();
            assert_eq!(ends.last().and_then(|end| end.to_bool()), Some(true));
        }
        for format in ["lerobot", "npy", "replay_buffer", "store", "frames"] {
            let place = kept.join(format);
            let mut command = Command::new(env!("CARGO_BIN_EXE_plaudit"));
            let output = command.args(["dataset", "inspect"]).arg(place).arg("--json").output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let (success, reward) = (&report["success"], &report["reward"]);
            let (has_success, has_reward) = (success["labelled"] == 2, !reward.is_null());
            assert!(report["episodes"] == 2 && (has_success || has_reward), "{format}: {report}");
            assert!(!has_success || success["once"] == 1, "{format}: {report}");
            let is_range = reward["min"].as_f64() == Some(-1.0) && reward["max"].as_f64() == Some(1.0);
            assert!(!has_reward || is_range, "{format}: {report}");
        }
    }

    /// Arrows and pages move the tool as they point, as long as they repeat.
    #[test]
    fn keys_of_the_terminal_move_the_arm() {
        let bench = start();
        let folder = tempfile::tempdir().unwrap();
        let config = config(&bench, folder.path());
        let words = ["robot", "teleop", config.to_str().unwrap(), "env.eval.override_cfg.pilot=terminal"];
        let mut session = in_a_terminal(folder.path(), &words);
        let begun = bench.arm.pose().unwrap().position_m;
        session.wait_for("Type `arm`");
        session.person.write_all(b"arm\n").unwrap();
        let place = || bench.arm.pose().unwrap().position_m;
        let waits = Instant::now();
        while (begun.x - place().x - WAY_M).abs() > 0.01 {
            assert!(waits.elapsed() < Duration::from_secs(60), "the arm never came to its start");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(1500)); // until it stands there
        let start = place();
        session.person.write_all(b"0").unwrap(); // full actions
        let (is_left, is_up) = (|| place().y > start.y + 0.02, || place().z > start.z + 0.02);
        for (key, is_there) in [(b"\x1b[D".as_slice(), &is_left as &dyn Fn() -> bool), (b"\x1b[5~", &is_up)] {
            let waits = Instant::now();
            while !is_there() {
                assert!(
                    waits.elapsed() < Duration::from_secs(60),
                    "{key:?} moved nothing: {start} {}",
                    place()
                );
                session.person.write_all(key).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        std::thread::sleep(Duration::from_millis(1500));
        let rests = place();
        std::thread::sleep(Duration::from_millis(500));
        assert!(place().distance(rests) < 0.002, "it goes on without keys");
        assert!((rests.x - start.x).abs() < 0.01, "along y and z alone: {start} {rests}");
        session.person.write_all(b"q").unwrap();
        assert_eq!(session.child.wait().unwrap().code(), Some(0));
    }
}
