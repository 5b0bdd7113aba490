//! Films of evaluations while a policy learns.

use std::path::Path;

use crate::runs::succeeds;
use plaudit_view::video::VideoTrack;

/// What ran under the films of a run.
fn tracks(at: &Path, run: &str, envs: &str) -> Vec<VideoTrack> {
    let log = format!("runner.logger.log_path={run}");
    let evaluated = format!("env.eval.total_num_envs={envs}");
    let words = [
        "-q",
        "train",
        "pickcube_ppo",
        &log,
        &evaluated,
        "runner.max_epochs=1",
        "runner.val_check_interval=1",
        "env.train.total_num_envs=2",
        "env.eval.init_params.sensor_configs={width: 16, height: 16}",
        "env.eval.video_cfg.save_video=true",
        "env.eval.video_cfg.format=mp4",
        "env.eval.video_cfg.max_envs=2",
    ];
    succeeds(at, &words);
    let folder = at.join(run).join("video");
    let seed = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let track = |number: u32| {
        let track = VideoTrack::read(&seed.join(format!("{number}.json"))).unwrap();
        assert!(seed.join(&track.video).is_file(), "{} is there", track.video);
        track
    };
    vec![track(0), track(1)]
}

/// A film has its own few environments where many are evaluated, and shows the same episodes as if all were rendered.
#[test]
fn a_film_shows_the_first_rows_of_an_evaluation_before_and_after_learning() {
    let folder = tempfile::tempdir().unwrap();
    let of_few = tracks(folder.path(), "apart", "5");
    let of_all = tracks(folder.path(), "whole", "2");
    assert_eq!(of_few.iter().map(|track| track.step).collect::<Vec<_>>(), [0, 1]);
    for (few, all) in of_few.iter().zip(&of_all) {
        assert_eq!(few.episodes, all.episodes, "at step {}", few.step);
        assert_eq!(few.episodes.len(), 2);
        let episode = &few.episodes[0];
        assert_eq!(episode.score.len(), 0, "no reward model is there to score");
        assert!(episode.at_secs.windows(2).all(|pair| pair[0] < pair[1]), "time goes on");
        assert!(*episode.at_secs.last().unwrap() < few.secs);
    }
}
