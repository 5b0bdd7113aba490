//! LeRobot arms through the bridge. Those that need lerobot run when `PLAUDIT_LEROBOT_PYTHON` names a Python with it; the
//! others put a shell script in Python's place.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plaudit_env::{BridgeError, PythonRobot, PythonRobotSettings};
use serde_json::{Value, json};

use super::stubs::script;
use super::{arguments, beside};

const WAIT: Duration = Duration::from_millis(500);

fn python() -> Option<PathBuf> {
    let python = std::env::var_os("PLAUDIT_LEROBOT_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: PLAUDIT_LEROBOT_PYTHON names no Python with lerobot");
    }
    python
}

/// Settings for the arm of `lerobot_desk_arm.py`, which keeps its calibration and its log in `folder`.
fn settings(python: PathBuf, folder: &tempfile::TempDir, robot: Value) -> PythonRobotSettings {
    let mut config =
        json!({"type": "desk_arm", "calibration_dir": folder.path(), "log": folder.path().join("log")});
    config.as_object_mut().unwrap().extend(arguments(robot));
    PythonRobotSettings {
        python,
        import: vec![beside("lerobot_desk_arm.py")],
        start_timeout_secs: 120.0,
        ..PythonRobotSettings::new(arguments(config))
    }
}

fn with_leader(
    mut settings: PythonRobotSettings,
    folder: &tempfile::TempDir,
    leader: Value,
) -> PythonRobotSettings {
    let mut config = json!({"type": "desk_leader", "calibration_dir": folder.path()});
    config.as_object_mut().unwrap().extend(arguments(leader));
    settings.teleop = Some(arguments(config));
    settings
}

fn log(folder: &tempfile::TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(settings: PythonRobotSettings) -> String {
    PythonRobot::start(settings).unwrap_err().to_string()
}

#[test]
fn an_arm_is_read_and_moved() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let settings = with_leader(settings(python, &folder, json!({})), &folder, json!({}));
    let mut robot = PythonRobot::start(settings).unwrap();
    let spec = robot.spec().clone();
    let names = |names: &[std::sync::Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&spec.state), ["shoulder.pos", "elbow.pos", "gripper.pos", "load"]);
    assert_eq!(names(&spec.joints), ["shoulder.pos", "elbow.pos", "gripper.pos"]);
    assert_eq!((&*spec.cameras[0].0, spec.cameras[0].1.height, spec.cameras[0].1.width), ("front", 48, 64));
    assert!(spec.has_teleop && !spec.has_events);
    let reading = robot.observe(WAIT).unwrap();
    assert_eq!(reading.state, [10.0, -20.0, 50.0, 0.5]);
    assert_eq!(reading.frames[0].pixels[..3], [200, 10, 0]);
    assert_eq!(reading.leader.unwrap().len(), 3);
    assert_eq!(robot.act(&[12.0, -21.0, 50.5], WAIT).unwrap(), [12.0, -21.0, 50.5]);
    std::thread::sleep(Duration::from_millis(400));
    let reading = robot.observe(WAIT).unwrap();
    assert!((reading.state[0] - 12.0).abs() < 0.1 && (reading.state[1] + 21.0).abs() < 0.1, "{reading:?}");
    for targets in [&[1.0, 2.0][..], &[1.0, f32::NAN, 2.0]] {
        assert!(robot.act(targets, WAIT).unwrap_err().to_string().contains("3 finite targets"));
    }
    drop(robot);
    let lines = log(&folder);
    assert_eq!(lines[0], json!({"connect": false}), "nobody is there to calibrate");
    assert_eq!(lines.iter().filter(|line| line.get("goal").is_some()).count(), 1, "{lines:?}");
    assert_eq!(lines[2], json!({"disconnect": false}), "an arm without torque falls");
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let robot = |robot: Value| settings(python.clone(), &folder, robot);
    let cases = [
        (robot(json!({"type": "desk_amr"})), "no robot of type 'desk_amr'; did you mean 'desk_arm'?"),
        (robot(json!({"prot": "x"})), "'desk_arm' has no setting 'prot'; it has"),
        (robot(json!({"fail_from": "soon"})), "the settings of the robot 'desk_arm' cannot be used"),
        (robot(json!({"extra_action": "x.vel"})), "action 'x.vel' is no joint position"),
        (robot(json!({"extra_action": "wrist.pos"})), "does not observe 'wrist.pos'"),
        (robot(json!({"depth": true})), "observation 'depth' is (48, 64, 1)"),
        (robot(json!({"calibrated": false})), "the robot is not calibrated"),
        (
            with_leader(robot(json!({})), &folder, json!({"names": "delta_x,delta_y"})),
            "gives 'delta_x', 'delta_y', not the robot's 'shoulder.pos', 'elbow.pos', 'gripper.pos'",
        ),
        (
            with_leader(robot(json!({})), &folder, json!({"type": "desk_ledear"})),
            "no teleoperator of type 'desk_ledear'; did you mean 'desk_leader'?",
        ),
    ];
    for (settings, words) in cases {
        let message = refused(settings);
        assert!(message.contains(words), "{message}\nshould contain {words}");
    }
    let connected = log(&folder).iter().filter(|line| line.get("connect").is_some()).count();
    assert_eq!(connected, 1, "only the one whose calibration had to be read was connected");
    let absent = PythonRobotSettings { import: vec!["no_such_plugin".into()], ..robot(json!({})) };
    assert!(refused(absent).contains("No module named 'no_such_plugin'"));
}

#[test]
fn lerobots_own_arms_are_found_and_say_what_they_miss() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let robot = json!({"type": "so101_follower", "calibration_dir": folder.path(), "port": "/dev/no-such-arm",
        "cameras": {"front": {"type": "opencv", "index_or_path": 99, "width": 64, "height": 48, "fps": 30}}});
    let settings = PythonRobotSettings { python, ..PythonRobotSettings::new(arguments(robot)) };
    let message = refused(settings);
    // Without the motors' library it says so; with it, that there is no such port.
    assert!(
        message.contains("scservo") || message.contains("feetech") || message.contains("/dev/no-such-arm"),
        "{message}"
    );
}

#[test]
fn failures_are_told_and_survived_where_they_can_be() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let fail = |how: &str| json!({"fail": how, "fail_from": 1, "fail_until": 2});
    for (how, words) in [("raise", "TimeoutError: camera `front`"), ("nan", "`elbow.pos` is NaN")] {
        let mut robot = PythonRobot::start(settings(python.clone(), &folder, fail(how))).unwrap();
        robot.observe(WAIT).unwrap();
        let message = robot.observe(WAIT).unwrap_err().to_string();
        assert!(message.contains("could not be read") && message.contains(words), "{message}");
        assert_eq!(robot.observe(WAIT).unwrap().state[0], 10.0);
    }
    let mut robot = PythonRobot::start(settings(python, &folder, fail("exit"))).unwrap();
    robot.observe(WAIT).unwrap();
    let message = robot.observe(WAIT).unwrap_err().to_string();
    assert!(message.contains("exited with status 3") && !message.contains("reset"), "{message}");
    assert!(matches!(robot.observe(WAIT), Err(BridgeError::Disconnected { .. })));
    robot.restart().unwrap();
    assert_eq!(robot.observe(WAIT).unwrap().state[0], 10.0);
}

#[test]
fn a_slow_answer_is_late_and_taken_later() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let robot = json!({"fail": "hang", "fail_from": 1, "fail_until": 2, "hang_secs": 0.6});
    let mut robot = PythonRobot::start(settings(python, &folder, robot)).unwrap();
    robot.observe(WAIT).unwrap();
    let (began, wait) = (Instant::now(), Duration::from_millis(50));
    for _ in 0..3 {
        assert!(matches!(robot.observe(wait), Err(BridgeError::Late { .. })));
    }
    assert!(began.elapsed() < Duration::from_millis(400), "three waits took {:?}", began.elapsed());
    assert!(matches!(robot.act(&[0.0; 3], wait), Err(BridgeError::Late { .. })), "it is busy");
    let reading = robot.observe(Duration::from_secs(5)).unwrap();
    assert!(reading.asked < began + Duration::from_millis(50), "it is as old as the question");
    assert_eq!(
        log(&folder).iter().filter(|line| line.get("goal").is_some()).count(),
        0,
        "nothing moved late"
    );
    assert!(robot.observe(WAIT).unwrap().asked > began);
}

/// A script that takes program and settings, says what its robot is like, takes the layout, and then does `then`.
fn stand_in(folder: &tempfile::TempDir, then: &str) -> PythonRobotSettings {
    let hello = r#"{"state":["a.pos"],"joints":["a.pos"],"cameras":[],"has_teleop":true,"has_events":true}"#;
    let skip = "skip() { head -c $(head -c 4 | od -An -tu4) >/dev/null; }";
    let text = format!(
        "{skip}\nskip; skip\nprintf 'j\\{:o}\\0\\0\\0%s' '{hello}' >&0\nskip\nprintf k >&0\n{then}",
        hello.len()
    );
    PythonRobotSettings {
        python: script(folder, &text),
        start_timeout_secs: 10.0,
        hang_secs: 1.0,
        ..PythonRobotSettings::new(arguments(json!({"type": "a"})))
    }
}

#[test]
fn the_protocol_needs_no_python() {
    let folder = tempfile::tempdir().unwrap();
    let orders = r#"while true; do head -c 2 | od -An -c >> "$0.log"; printf k >&0; done"#;
    let mut robot = PythonRobot::start(stand_in(&folder, orders)).unwrap();
    let reading = robot.observe(WAIT).unwrap();
    assert_eq!((reading.state, reading.leader), (vec![0.0], Some(vec![0.0])), "fresh memory is zero");
    assert_eq!(robot.act(&[1.0], WAIT).unwrap(), [0.0]);
    let log = std::fs::read_to_string(folder.path().join("python.log")).unwrap();
    assert_eq!(log.split_whitespace().collect::<Vec<_>>(), ["o", "\\0", "a", "\\0"]);
    let restarted = robot.restart();
    assert!(restarted.is_ok(), "{restarted:?}");
}

#[test]
fn a_process_that_hangs_is_late_and_then_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut robot = PythonRobot::start(stand_in(&folder, "exec sleep 60")).unwrap();
    let began = Instant::now();
    let wait = Duration::from_millis(100);
    let error = loop {
        let asked = Instant::now();
        match robot.observe(wait) {
            Err(BridgeError::Late { .. }) => assert!(asked.elapsed() < Duration::from_millis(300)),
            other => break other.unwrap_err(),
        }
    };
    assert!((0.9..5.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    assert!(!robot.is_running());
    assert!(matches!(robot.act(&[0.0], wait), Err(BridgeError::Disconnected { .. })));
}

#[test]
fn a_process_that_ends_or_talks_nonsense_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut robot = PythonRobot::start(stand_in(&folder, "head -c 2; echo sorry >&2; exit 5")).unwrap();
    let words = robot.observe(WAIT).unwrap_err().to_string();
    assert!(words.contains("exited with status 5") && words.contains("sorry"), "{words}");
    let mut robot = PythonRobot::start(stand_in(&folder, "printf zz >&0; exec sleep 60")).unwrap();
    let words = robot.observe(WAIT).unwrap_err().to_string();
    assert!(words.contains("an answer that starts with byte 122"), "{words}");
    assert!(!robot.is_running());
}

#[test]
fn a_python_that_is_not_there_is_named() {
    let robot = PythonRobotSettings::new(arguments(json!({"type": "so101_follower"})));
    let words = refused(PythonRobotSettings { python: "/nowhere/python".into(), ..robot });
    assert!(words.starts_with("cannot run `/nowhere/python`"), "{words}");
}
