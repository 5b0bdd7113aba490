//! Places that cannot be written: the message names the flag, the place and the reason.

use crate::runs::{on_one_line, plaudit, succeeds};

#[test]
fn an_output_that_cannot_be_written_is_reported_with_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("file"), "in the way").unwrap();
    let quick = ["env.eval.rollout_epoch=1", "env.eval.total_num_envs=2", "runner.logger.log_path=run"];
    succeeds(path, &[&["eval", "cartpole_random"][..], &quick].concat());
    let small =
        ["env.eval.init_params.sensor_configs.width=16", "env.eval.init_params.sensor_configs.height=16"];
    let kept = ["--episodes", "4", "actor.model.noise=0", "env.eval.data_collection.save_dir=kept"];
    succeeds(path, &[&["collect", "pickcube_scripted"][..], &small, &kept].concat());

    // Root may write anywhere, so the place is one that nobody can write: below a file.
    for (words, flag) in [
        (&["report", "run", "--output", "file/report.html"][..], "--output"),
        (&["config", "docs", "--output", "file/config.md"], "--output"),
        (&["dataset", "inspect", "kept", "--sheet", "file/sheet.png"], "--sheet"),
        (&["dataset", "images", "--raw-data-path", "kept", "--output-dir", "file/images"], "--output-dir"),
    ] {
        let output = plaudit(path, words);
        let said = on_one_line(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(
            said.contains(flag) && said.contains("file") && !said.contains("log path"),
            "{words:?}: {said}"
        );
        assert!(said.contains("os error") || said.contains("Not a directory"), "{words:?}: {said}");
    }
}

#[test]
fn a_dataset_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = [
        "collect",
        "pickcube_scripted",
        "--episodes",
        "3",
        "env.eval.total_num_envs=3",
        "env.eval.init_params.sensor_configs.width=16",
        "env.eval.init_params.sensor_configs.height=16",
        "env.eval.data_collection.save_dir=kept",
        "env.eval.data_collection.export_format=store",
    ];
    succeeds(path, &words);
    let whole = plaudit(path, &["dataset", "verify", "kept"]);
    assert_eq!(whole.status.code(), Some(0), "{}", on_one_line(&whole.stderr));
    assert!(String::from_utf8_lossy(&whole.stdout).contains("3 episodes are whole"));

    let file = std::fs::read_dir(path.join("kept/episodes")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = plaudit(path, &["dataset", "verify", "kept"]);
    let stdout = String::from_utf8_lossy(&damaged.stdout).into_owned();
    assert_eq!(damaged.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains(file.file_name().unwrap().to_str().unwrap()), "{stdout}");
    let inspected = plaudit(path, &["dataset", "inspect", "kept"]);
    assert!(String::from_utf8_lossy(&inspected.stdout).contains("not the one in its name"));
}
