//! The studio's page of a robot, against `plaudit robot simulate`: what the arm does is asked of the robot server itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plaudit_pyfiles as pyfiles;
use plaudit_robot::{RealClock, SerlArm, ToolPose};
use plaudit_view::RunProcess;
use serde_json::Value;

use crate::browser::browser;
use crate::browser::devtools::Tab;
use crate::robot_bench::Elsewhere;
use crate::runs::fresh_classifier;
use crate::studio::{Running, fits, picture, until};

/// An arm that is held moves less than this.
const STILL_M: f64 = 0.003;
/// How long a page may look away.
const LOOKS_WITHIN: Duration = Duration::from_secs(3);

/// A simulated robot of another process, and a folder whose config names it.
struct Bench {
    robot: Elsewhere,
    arm: SerlArm,
    folder: tempfile::TempDir,
}

impl Bench {
    /// With a script as the pilot, or as a real arm that nobody moves.
    fn start(is_real: bool) -> Self {
        let robot = Elsewhere::start("pick-cube");
        let clock = Arc::new(RealClock::new());
        let arm = SerlArm::new(&robot.url, clock).unwrap().with_timeout(Duration::from_secs(5));
        until("the simulation begins", || arm.pose().is_ok());
        let folder = tempfile::tempdir().unwrap();
        let url = &robot.url;
        let config = if is_real {
            let [x, y, z, roll, pitch, yaw] = arm.pose().unwrap().to_xyz_euler();
            format!(
                "env:\n  eval:\n    env_type: realworld\n    init_params: {{id: FrankaEnv-v1}}\n    override_cfg:\n      server_url: {url}\n      \
                 camera_urls: {{wrist_1: \"{url}/camera/base_camera\"}}\n      pilot: none\n      \
                 target_ee_pose: [{x}, {y}, {z}, {roll}, {pitch}, {yaw}]\n      \
                 reset_ee_pose: [{}, {y}, {z}, {roll}, {pitch}, {yaw}]\n      clip_xy_range: 0.2\n      clip_z_range_low: 0.05\n      \
                 clip_z_range_high: 0.05\n      action_scale: [0.004, 0.1, 1.0]\n",
                x - 0.12
            )
        } else {
            format!(
                "defaults:\n  - env/realworld_pick_cube@env.eval\n  - _self_\nenv:\n  eval:\n    max_episode_steps: 100000\n    \
                 override_cfg:\n      robot_ip: sim\n      server_url: {url}\n"
            )
        };
        std::fs::write(folder.path().join("bench.yaml"), config).unwrap();
        Self { robot, arm, folder }
    }

    fn here(&self) -> &Path {
        self.folder.path()
    }

    fn pose(&self) -> ToolPose {
        self.arm.pose().unwrap()
    }

    /// How far the arm goes in a while, at most.
    fn goes(&self, time: Duration) -> f64 {
        let (begun, from) = (Instant::now(), self.pose());
        let mut most = 0.0_f64;
        while begun.elapsed() < time {
            most = most.max(self.pose().distance_m(from));
            std::thread::sleep(Duration::from_millis(50));
        }
        most
    }

    fn stays(&self, why: &str) {
        std::thread::sleep(Duration::from_millis(600)); // until it stands
        let went = self.goes(Duration::from_millis(1500));
        assert!(went < STILL_M, "{why}: it went {went} m");
    }

    fn moves(&self, why: &str) {
        let from = self.pose();
        until(why, || self.pose().distance_m(from) > 0.01);
    }
}

/// What stands after the head of a reply.
fn json(text: &str) -> Value {
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn posted(studio: &Running, what: &str, body: &str) -> Value {
    let (status, text) = studio.own("POST", &format!("/robot/{what}"), body);
    assert_eq!(status, 200, "{what} {body}: {text}");
    json(&text)
}

fn refused(studio: &Running, what: &str, body: &str, expected: u16) -> String {
    let (status, text) = studio.own("POST", &format!("/robot/{what}"), body);
    assert_eq!(status, expected, "{what} {body}: {text}");
    text
}

fn look(studio: &Running, session: &str) -> Value {
    let (status, text) = studio.get(&format!("/robot/look?s={session}&watches=1"));
    assert_eq!(status, 200, "{text}");
    json(&text)
}

fn until_phase(studio: &Running, session: &str, phase: &str) -> Value {
    let mut seen = Value::Null;
    until(&format!("the phase is {phase}"), || {
        seen = look(studio, session);
        seen["phase"] == phase
    });
    seen
}

/// Looks at a session as a page does, as long as something is done.
fn while_watched<T>(studio: &Running, session: &str, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                look(studio, session);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        // A panic must end the other thread as well.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn signal(session: &Path, signal: &str) {
    let pid = RunProcess::of(session).unwrap().id.to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

fn pickles(session: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(session.join("data")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "pkl"))
        .collect();
    all.sort();
    all
}

/// Ends a session, and waits until its process has gone.
fn end_session(studio: &Running, bench: &Bench, session: &str) {
    posted(studio, "quit", &format!("s={session}"));
    let process = RunProcess::of(&bench.here().join(session)).unwrap();
    until("the session ends", || !process.is_alive());
    bench.stays("after its session ended");
}

#[test]
fn episodes_are_begun_labelled_and_ended_in_a_browser_and_the_space_bar_holds_the_arm() {
    let Some(browser) = browser() else { return };
    let bench = Bench::start(false);
    fresh_classifier(bench.here().join("reward/checkpoints/best_model"), &["main_images"], Some(0.5), 1);
    let studio = Running::start(bench.here(), &["."]);
    until("the model was found", || studio.get("/robot").1.contains("value=\"reward\""));
    let mut tab = Tab::open(&browser);
    tab.look(1400, 1000, "light");
    tab.go(&studio.url());
    tab.wait_for(
        "location.pathname === '/data' && document.querySelector('nav a[href=\"/robot\"]') !== null",
    );
    tab.go(&studio.address("/robot"));
    tab.wait_for("document.getElementById('begin') !== null");
    fits(&mut tab, "the form of a session");
    tab.eval("(form => { form.elements.model.value = 'reward'; form.requestSubmit(); })(document.getElementById('begin'))");
    let phase = |phase: &str| format!("document.getElementById('robot')?.dataset.phase === '{phase}'");
    tab.wait_for(&phase("ready"));
    let session = tab.eval("document.getElementById('robot').dataset.session").as_str().unwrap().to_string();
    let folder = bench.here().join(&session);
    bench.stays("before an episode begins");
    let shows =
        "[...document.querySelectorAll('#cameras img')].filter(image => image.naturalWidth > 0).length === 2";
    tab.wait_for(shows);

    // An episode: labelled by keys, moved by the script, ended as a success.
    tab.key("n");
    tab.wait_for(&phase("episode"));
    let is_at = |frames: u64| {
        format!("Number(/step (\\d+)/.exec(document.getElementById('episode').textContent)?.[1]) > {frames}")
    };
    tab.wait_for(&is_at(4));
    tab.key("a");
    tab.wait_for("document.querySelector('[data-label=failure]').getAttribute('aria-pressed') === 'true'");
    tab.wait_for(&is_at(12));
    for (width, scheme) in [(1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")] {
        tab.look(width, if width == 400 { 860 } else { 1150 }, scheme);
        tab.wait_for("document.querySelector('#curve .score') !== null && document.querySelector('#curve .threshold') !== null");
        tab.wait_for("document.querySelectorAll('#arm tr').length === 10");
        fits(&mut tab, &format!("the robot at {width}, {scheme}"));
        let hold = tab.eval(
            "(box => [box.bottom <= innerHeight + 1 && box.top >= 0, box.width * box.height])(document.getElementById('hold').getBoundingClientRect())",
        );
        assert_eq!(hold[0], true, "HOLD is seen without scrolling at {width}");
        let largest = tab.eval("Math.max(...[...document.querySelectorAll('button:not(#hold)')].map(one => one.getBoundingClientRect()).map(box => box.width * box.height))");
        assert!(
            hold[1].as_f64() > Some(4.0 * largest.as_f64().unwrap()),
            "HOLD is the largest: {hold} {largest}"
        );
        if (width, scheme) == (1400, "light") {
            picture(&mut tab, "robot");
        }
    }
    tab.look(1400, 1000, "light");
    tab.key("c");
    tab.wait_for("document.querySelectorAll('#timeline .success').length === 1");
    let at = tab
        .eval("Number(/step (\\d+)/.exec(document.getElementById('episode').textContent)[1])")
        .as_u64()
        .unwrap();
    tab.wait_for(&is_at(at + 5));
    tab.key("C");
    tab.wait_for(&phase("ready"));
    tab.wait_for("document.querySelector('#episodes tbody tr')?.innerText.includes('success')");
    until("the episode is on the disk", || pickles(&folder).len() == 1);
    recorded(&pickles(&folder)[0], &folder);
    bench.stays("between episodes");

    // HOLD while it moves, by the space bar, whatever has the focus.
    tab.key("n");
    tab.wait_for(&phase("to_start"));
    tab.wait_for(&phase("episode"));
    bench.moves("the script moves the arm");
    tab.eval("document.querySelector('[data-do=quit]').focus()");
    tab.key(" ");
    tab.wait_for(
        "document.getElementById('robot').dataset.held === 'yes' && !document.getElementById('held').hidden",
    );
    bench.stays("after HOLD");
    tab.key("n");
    bench.stays("after HOLD, and a wish for the next episode");
    tab.eval("document.querySelector('#go-on button').click()");
    tab.wait_for("document.getElementById('robot').dataset.held === 'no'");
    bench.moves("it goes on");
    tab.key("A");
    tab.wait_for(&phase("ready"));
    until("the second is on the disk", || pickles(&folder).len() == 2);
    tab.key("n");
    tab.wait_for(&phase("episode"));
    tab.key("X");
    tab.wait_for(&phase("ready"));
    tab.wait_for("document.querySelector('#episodes tbody tr')?.innerText.includes('discarded')");
    tab.errors(); // a wish that was refused
    end_session(&studio, &bench, &session);
    tab.wait_for(&phase("gone"));
    assert_eq!(pickles(&folder).len(), 2, "what was discarded was not kept");
    let second = pyfiles::read(&pickles(&folder)[1]).unwrap();
    assert_eq!(second.get("success").and_then(|success| success.to_bool()), Some(false));
}

/// The first episode: failures, then successes up to its end, and a journal that says the same.
fn recorded(path: &Path, folder: &Path) {
    let episode = pyfiles::read(path).unwrap();
    assert_eq!(episode.get("success").and_then(|success| success.to_bool()), Some(true));
    let list = |key: &str| episode.get(key).and_then(|list| list.as_items()).unwrap().to_vec();
    let rewards: Vec<f64> = list("rewards").iter().map(|reward| reward.to_f64().unwrap()).collect();
    let successes = rewards.iter().rev().take_while(|reward| **reward == 1.0).count();
    assert!((5..rewards.len()).contains(&successes), "{rewards:?}");
    assert!(rewards[..rewards.len() - successes].iter().all(|reward| *reward == 0.0), "{rewards:?}");
    assert_eq!(list("terminated").last().and_then(|end| end.to_bool()), Some(true));
    let journal = std::fs::read_to_string(folder.join("labels.jsonl")).unwrap();
    let lines: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [failure, success, end] = &lines[..] else { panic!("{journal}") };
    assert!(failure["label"] == "failure" && success["label"] == "success", "{journal}");
    assert!(end["end"] == "success" && end["spans"].as_array().unwrap().len() == 2, "{journal}");
    let first = success["frame"].as_u64().unwrap() as usize;
    assert_eq!(end["spans"][1][0].as_u64().unwrap() as usize, first);
    assert_eq!(rewards.len() - successes, first, "frames of the journal are those of the recording");
}

#[test]
fn a_hold_outlasts_a_session_that_stands_still_and_a_lost_studio_holds() {
    let bench = Bench::start(false);
    let studio = Running::start(bench.here(), &["."]);
    let session = posted(&studio, "begin", "robot=bench.yaml")["session"].as_str().unwrap().to_string();
    let (s, folder) = (format!("s={session}"), bench.here().join(&session));
    until_phase(&studio, &session, "ready");
    refused(&studio, "begin", "robot=bench.yaml", 409);
    posted(&studio, "start", &s);
    until_phase(&studio, &session, "episode");
    while_watched(&studio, &session, || bench.moves("the script moves the arm"));

    // The session stands still: the robot server is told, and what goes on later is held by then.
    signal(&folder, "-STOP");
    let said = posted(&studio, "hold", &s);
    assert_eq!(said["by"], "the robot server", "{said}");
    bench.stays("after HOLD of a session that stands still");
    signal(&folder, "-CONT");
    let seen = look(&studio, &session);
    assert!(!seen["held"].is_null(), "{seen}");
    while_watched(&studio, &session, || bench.stays("after the session went on"));
    refused(&studio, "start", &s, 409);
    posted(&studio, "go_on", &s);
    while_watched(&studio, &session, || bench.moves("a person lets it go on"));
    assert!(!folder.join("hold").exists());

    // Nobody looks any more, since the studio was killed.
    studio.kill();
    std::thread::sleep(LOOKS_WITHIN + Duration::from_millis(500));
    bench.stays("without a studio");
    let process = RunProcess::of(&folder).unwrap();
    assert!(process.is_alive(), "the session waits for somebody");
    let studio = Running::start(bench.here(), &["."]);
    let seen = look(&studio, &session);
    assert_eq!(seen["held"], "nobody looks at the page", "{seen}");
    bench.stays("a new studio looks, and lets nothing go on");

    // A session that is killed leaves an arm that its server holds, and HOLD goes there.
    posted(&studio, "go_on", &s);
    posted(&studio, "end", &format!("{s}&as=discard"));
    until_phase(&studio, &session, "ready");
    posted(&studio, "start", &s);
    until_phase(&studio, &session, "episode");
    while_watched(&studio, &session, || bench.moves("another episode"));
    signal(&folder, "-KILL");
    until("it is gone", || !process.is_alive());
    let said = posted(&studio, "hold", &s);
    assert_eq!(said["by"], "the robot server", "{said}");
    bench.stays("after HOLD of a session that was killed");
    assert_eq!(look(&studio, &session)["alive"], false);
}

#[test]
fn a_real_arm_asks_for_a_word_and_goes_to_its_start_when_a_person_says_so() {
    let bench = Bench::start(true);
    let studio = Running::start(bench.here(), &["."]);
    refused(&studio, "begin", "robot=bench.yaml&set=env.eval.max_episode_steps%3Dmany", 400);
    refused(&studio, "begin", "robot=../bench.yaml", 400);
    let began = bench.pose();
    let session =
        posted(&studio, "begin", "robot=bench.yaml&name=real")["session"].as_str().unwrap().to_string();
    let s = format!("s={session}");
    let seen = until_phase(&studio, &session, "asks");
    let number = seen["question"]["number"].as_u64().unwrap();
    let agree = |number: u64, word: &str| format!("{s}&number={number}&word={word}");
    assert!(refused(&studio, "agree", &agree(number, "yes"), 409).contains("type `arm`"));
    refused(&studio, "agree", &agree(number + 1, "arm"), 409);
    refused(&studio, "start", &s, 409);
    posted(&studio, "agree", &agree(number, "arm"));
    until_phase(&studio, &session, "ready");
    bench.stays("a person lets it move, and no episode begins");
    assert!(bench.pose().distance_m(began) < STILL_M);

    // It is held on its way to the start, and nothing but a person's word lets it go on.
    posted(&studio, "start", &s);
    while_watched(&studio, &session, || bench.moves("it goes to its start"));
    posted(&studio, "hold", &s);
    while_watched(&studio, &session, || bench.stays("held on its way"));
    assert!(bench.pose().distance_m(began) < 0.1, "it did not go all the way");
    assert!(refused(&studio, "go_on", &s, 409).contains("type `arm`"));
    posted(&studio, "go_on", &format!("{s}&word=arm"));
    until_phase(&studio, &session, "ready");
    while_watched(&studio, &session, || bench.stays("another start is another wish"));
    posted(&studio, "start", &s);
    let seen = until_phase(&studio, &session, "episode");
    assert!(seen["simulated"] == false && (bench.pose().distance_m(began) - 0.12).abs() < 0.02, "{seen}");
    end_session(&studio, &bench, &session);
}

#[test]
fn whoever_only_reads_or_is_elsewhere_holds_and_moves_nothing() {
    let bench = Bench::start(false);
    let studio = Running::start(bench.here(), &["."]);
    let session = posted(&studio, "begin", "robot=bench.yaml")["session"].as_str().unwrap().to_string();
    let s = format!("s={session}");
    until_phase(&studio, &session, "ready");

    // Another site, and whoever has no token, get nothing: no hold, either.
    let host = format!("Host: {}", studio.address("").trim_start_matches("http://"));
    let form = "Content-Type: application/x-www-form-urlencoded";
    let (cookie, evil) = (studio.cookie(), "Origin: http://evil.example");
    for what in ["begin", "hold", "start", "go_on", "end", "label", "quit"] {
        let path = format!("/robot/{what}");
        assert_eq!(studio.ask("POST", &path, &[&host, evil, &cookie, form], &s).0, 403, "{what}");
        let own = format!("Origin: {}", studio.address(""));
        assert_eq!(studio.ask("POST", &path, &[&host, &own, form], &s).0, 401, "{what}");
    }
    assert_eq!(studio.ask("GET", &format!("/robot/look?{s}"), &[&host, evil, &cookie], "").0, 403);
    for path in ["/robot/look?s=..", "/robot/look?s=logs", "/robot/frame?s=data&camera=0", "/robot/look"] {
        assert_eq!(studio.get(path).0 / 100, 4, "{path}");
    }
    posted(&studio, "start", &s);
    until("a frame is shown", || look(&studio, &session)["episode"]["steps"].as_u64() > Some(0));

    let reader = Running::start(bench.here(), &[".", "--read-only"]);
    let exposed = Running::start(bench.here(), &[".", "--bind", "0.0.0.0"]);
    while_watched(&studio, &session, || {
        for what in ["begin", "start", "go_on", "agree", "end", "label", "undo", "quit"] {
            let text = refused(&reader, what, &format!("{s}&as=success&number=1&robot=bench.yaml"), 403);
            assert!(text.contains("only reads"), "{what}: {text}");
        }
        for what in ["begin", "start", "go_on", "agree"] {
            let text = refused(&exposed, what, &format!("{s}&number=1&robot=bench.yaml"), 403);
            assert!(text.contains("begins no motion"), "{what}: {text}");
        }
        posted(&exposed, "label", &format!("{s}&as=failure"));
        assert!(look(&studio, &session)["held"].is_null());
        let said = posted(&reader, "hold", &s);
        assert_eq!(said["held"], true, "{said}");
        bench.stays("a page that only reads holds it");
    });
    end_session(&studio, &bench, &session);
    // Without a session the server of the config is told.
    let said = posted(&reader, "hold", "robot=bench.yaml");
    assert_eq!(said["by"], "the robot server", "{said}");
    assert!(bench.robot.url.starts_with("http://127.0.0.1:"));
}
