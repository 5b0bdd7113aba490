//! Labels that are asked for: which questions come, what is kept, and when it ends.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use std::collections::BTreeSet;
use std::path::Path;

use plaudit_data::labelling::{ANSWERS_FILE, Annotator, Answer, Purpose};
use plaudit_data::recording::{Rules, UnlabelledFrames};
use plaudit_pyfiles::{Array, PickleStyle, PyValue, write_pickle};
use plaudit_reward::active_labels::{
    FrameScores, LabelEnd, LabelError, LabelSession, LabelSettings, ModelOpinions, Question, QuestionOrder,
};
use plaudit_reward::dataset::Frames;

const EPISODES: usize = 8;
const LENGTH: usize = 30;

/// Frame `at` of an episode is a success from the twentieth on. Pixels tell every frame apart.
fn truth(frame: usize) -> bool {
    frame % LENGTH >= 20
}

fn write_episodes(folder: &Path, cameras: &[&str], has_labels: bool) {
    for episode in 0..EPISODES {
        let seen = |at: usize| {
            let image = |camera: usize| {
                let pixels = [episode as u8, at as u8, camera as u8].repeat(4);
                Array::from_slice(&[2, 2, 3], &pixels).unwrap().into()
            };
            PyValue::dict(cameras.iter().enumerate().map(|(camera, name)| (*name, image(camera))))
        };
        let info = |at: usize| match has_labels {
            true => PyValue::dict([("success", truth(at).into())]),
            false => PyValue::dict::<&str>([]),
        };
        let episode_value = PyValue::dict([
            ("observations", PyValue::list((0..LENGTH).map(seen))),
            ("infos", PyValue::list((0..LENGTH).map(info))),
        ]);
        let path = folder.join(format!("episode_{episode}.pkl"));
        write_pickle(path, &episode_value, PickleStyle::default()).unwrap();
    }
}

fn read(folder: &Path, cameras: &[&str]) -> Frames {
    let views: Vec<_> = cameras.iter().map(|camera| camera.parse().unwrap()).collect();
    let rules = Rules { unlabelled_frames: UnlabelledFrames::Kept, ..Rules::default() };
    Frames::read(&views, &[folder], &rules, &|_| {}).unwrap()
}

/// Frames of one camera, and the folder they lie in.
fn play() -> (tempfile::TempDir, Frames) {
    let folder = tempfile::tempdir().unwrap();
    write_episodes(folder.path(), &["main_images"], true);
    let frames = read(folder.path(), &["main_images"]);
    (folder, frames)
}

fn settings(folder: &Path) -> LabelSettings {
    LabelSettings {
        folder: folder.into(),
        by: Annotator::Person,
        order: QuestionOrder::Active,
        check_every: 3,
        apart: 5,
        max_error: 0.05,
        confidence: 0.95,
        count: None,
        seed: 1,
    }
}

/// A model that is right about every frame but some, and least sure in the middle of episodes.
fn opinions(wrong: &[usize]) -> ModelOpinions {
    let logit = |frame: usize| {
        let margin = 0.1 + (frame % LENGTH).abs_diff(LENGTH / 2) as f64;
        if truth(frame) != wrong.contains(&frame) { margin } else { -margin }
    };
    let logits: Vec<f64> = (0..EPISODES * LENGTH).map(logit).collect();
    let model = FrameScores::of(&logits, 1.0, 0.5);
    ModelOpinions { model, second: None, is_learnable: None }
}

fn answer_truly(session: &mut LabelSession<'_>) -> Question {
    let question = session.question().unwrap();
    session.answer(question, truth(question.frame).into()).unwrap();
    question
}

/// The frames whose images lie in the folder, and their label.
fn images(folder: &Path) -> BTreeSet<(usize, bool)> {
    let of = |(name, success): (&str, bool)| {
        let files = std::fs::read_dir(folder.join(name)).unwrap();
        let number = |name: String| name[..6].parse().unwrap();
        files.map(move |file| (number(file.unwrap().file_name().into_string().unwrap()), success))
    };
    [("success", true), ("failure", false)].into_iter().flat_map(of).collect()
}

#[test]
fn every_frame_is_asked_about_once_and_checks_never_train() {
    let (_data, frames) = play();
    for check_every in [0, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        // No bound is ever as low as that.
        let settings = LabelSettings { max_error: 1e-9, check_every, ..settings(folder.path()) };
        let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings).unwrap();
        let mut asked = Vec::new();
        while let Ok(question) = session.question() {
            session.answer(question, truth(question.frame).into()).unwrap();
            asked.push(question);
        }
        assert_eq!(session.question(), Err(LabelEnd::AllAsked));
        let numbers: BTreeSet<usize> = asked.iter().map(|question| question.frame).collect();
        assert_eq!((asked.len(), numbers.len()), (frames.len(), frames.len()));
        for (at, question) in asked.iter().enumerate().take(30) {
            let is_due = check_every > 0 && at % check_every == check_every - 1;
            assert_eq!(question.purpose == Purpose::Check, is_due, "question {at}");
        }
        let trained = asked.iter().filter(|question| question.purpose == Purpose::Train);
        let expected: BTreeSet<_> = trained.map(|question| (question.frame, truth(question.frame))).collect();
        assert_eq!(images(folder.path()), expected, "images are of what is trained on, under its label");
        assert_eq!(session.status().labels(), expected.len());
    }
}

#[test]
fn questions_are_uncertain_first_and_not_of_the_same_moment() {
    let (_data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    let settings = LabelSettings { check_every: 0, ..settings(folder.path()) };
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings).unwrap();
    let first: Vec<usize> = (0..EPISODES).map(|_| answer_truly(&mut session).frame).collect();
    let middle = |episode: usize| episode * LENGTH + LENGTH / 2;
    assert_eq!(first, (0..EPISODES).map(middle).collect::<Vec<_>>(), "the middle of each episode");
    let next = answer_truly(&mut session).frame;
    assert_eq!((next % LENGTH).abs_diff(LENGTH / 2), 5, "five frames away");
    let mut of_first_episode: Vec<usize> = Vec::new();
    for _ in 0..30 {
        of_first_episode.push(answer_truly(&mut session).frame);
    }
    of_first_episode.retain(|frame| *frame < LENGTH);
    of_first_episode.sort_unstable();
    assert!(of_first_episode.windows(2).all(|pair| pair[1] - pair[0] >= 5), "{of_first_episode:?}");
}

#[test]
fn a_random_order_is_another_one_and_the_same_for_a_seed() {
    let (_data, frames) = play();
    let order = |order, seed| -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let settings = LabelSettings { order, seed, ..settings(folder.path()) };
        let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings).unwrap();
        (0..20).map(|_| answer_truly(&mut session).frame).collect()
    };
    assert_eq!(order(QuestionOrder::Random, 1), order(QuestionOrder::Random, 1));
    assert_ne!(order(QuestionOrder::Random, 1), order(QuestionOrder::Random, 2));
    assert_ne!(order(QuestionOrder::Random, 1), order(QuestionOrder::Active, 1));
}

#[test]
fn labelling_ends_when_the_bound_is_met_and_a_mistake_delays_it() {
    let (_data, frames) = play();
    let checks_needed = |wrong: &[usize]| {
        let folder = tempfile::tempdir().unwrap();
        let settings = LabelSettings { check_every: 2, max_error: 0.06, ..settings(folder.path()) };
        let mut session = LabelSession::open(&frames, "play", opinions(wrong), settings).unwrap();
        let mut first_check = None;
        let end = loop {
            match session.question() {
                Ok(question) => {
                    first_check =
                        first_check.or((question.purpose == Purpose::Check).then_some(question.frame));
                    session.answer(question, truth(question.frame).into()).unwrap();
                }
                Err(end) => break end,
            }
        };
        assert_eq!(end, LabelEnd::BoundMet);
        let status = session.status();
        assert!(status.error_bound <= 0.06);
        (status.checks, status.wrong, first_check.unwrap())
    };
    let (checks, wrong, first_check) = checks_needed(&[]);
    assert_eq!((checks, wrong), (60, 0), "1 - (0.05 / 2)^(1 / 60) is just below 0.06");
    let (checks, wrong, _) = checks_needed(&[first_check]);
    assert!(checks > 95 && wrong == 1, "{checks}");
}

#[test]
fn a_count_of_labels_ends_it_and_skipped_questions_are_no_labels() {
    let (_data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    let settings = LabelSettings { count: Some(5), ..settings(folder.path()) };
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings).unwrap();
    for _ in 0..3 {
        let question = session.question().unwrap();
        session.answer(question, Answer::Skip).unwrap();
    }
    assert!(images(folder.path()).is_empty());
    while let Ok(question) = session.question() {
        session.answer(question, truth(question.frame).into()).unwrap();
    }
    assert_eq!(session.question(), Err(LabelEnd::Count));
    let status = session.status();
    assert_eq!((status.labels(), status.skipped, images(folder.path()).len()), (5, 3, 5));
}

#[test]
fn a_killed_session_asks_what_it_would_have_asked() {
    let (_data, frames) = play();
    let whole = tempfile::tempdir().unwrap();
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings(whole.path())).unwrap();
    let expected: Vec<Question> = (0..12).map(|_| answer_truly(&mut session)).collect();
    let killed = tempfile::tempdir().unwrap();
    let journal = killed.path().join(ANSWERS_FILE);
    let mut asked = Vec::new();
    for _ in 0..12 {
        let mut session =
            LabelSession::open(&frames, "play", opinions(&[]), settings(killed.path())).unwrap();
        asked.push(answer_truly(&mut session));
        drop(session); // nothing is said at the end, as when it is killed
        // An answer in flight is lost, and no more.
        let mut bytes = std::fs::read(&journal).unwrap();
        bytes.extend(b"{\"answer\":{\"frame\":1,\"epi");
        std::fs::write(&journal, bytes).unwrap();
    }
    assert_eq!(asked, expected);
    assert_eq!(images(killed.path()), images(whole.path()));
}

#[test]
fn images_are_what_the_journal_says_whatever_happened_to_them() {
    let (_data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings(folder.path())).unwrap();
    let first = answer_truly(&mut session);
    let second = answer_truly(&mut session);
    session.undo().unwrap();
    drop(session);
    let before = images(folder.path());
    let place = |frame: usize, success: bool| {
        folder.path().join(if success { "success" } else { "failure" }).join(format!("{frame:06}.png"))
    };
    // Killed after the journal was written and before the images were.
    std::fs::remove_file(place(first.frame, truth(first.frame))).unwrap();
    std::fs::write(place(second.frame, truth(second.frame)), b"").unwrap();
    std::fs::write(place(999_999, true), b"somebody's own").unwrap();
    drop(LabelSession::open(&frames, "play", opinions(&[]), settings(folder.path())).unwrap());
    std::fs::remove_file(place(999_999, true)).unwrap();
    assert_eq!(images(folder.path()), before);
}

#[test]
fn what_is_taken_back_is_asked_again() {
    let (_data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings(folder.path())).unwrap();
    assert!(session.undo().unwrap().is_none(), "nothing to take back");
    for _ in 0..7 {
        let question = session.question().unwrap();
        session.answer(question, (!truth(question.frame)).into()).unwrap();
        let before = session.status();
        assert_eq!(session.undo().unwrap().unwrap().frame, question.frame);
        assert_eq!(session.question(), Ok(question));
        session.answer(question, truth(question.frame).into()).unwrap();
        assert_eq!(session.status().labels() + session.status().checks, before.labels() + before.checks);
    }
    assert!(images(folder.path()).iter().all(|(frame, success)| truth(*frame) == *success));
    assert_eq!(session.status().wrong, 0);
}

#[test]
fn checks_count_for_another_model_as_they_are() {
    let (_data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings(folder.path())).unwrap();
    let asked: Vec<Question> = (0..30).map(|_| answer_truly(&mut session)).collect();
    let checks: Vec<usize> =
        asked.iter().filter(|q| q.purpose == Purpose::Check).map(|question| question.frame).collect();
    assert_eq!((session.status().checks, session.status().wrong), (10, 0));
    session.set_opinions(opinions(&checks[..2]));
    assert_eq!((session.status().checks, session.status().wrong), (10, 2));
    drop(session);
    let again = LabelSession::open(&frames, "play", opinions(&checks[..4]), settings(folder.path())).unwrap();
    assert_eq!((again.status().checks, again.status().wrong), (10, 4));
}

#[test]
fn several_cameras_are_several_images_that_are_read_again() {
    let data = tempfile::tempdir().unwrap();
    let cameras = ["main_images", "extra_view_images"];
    write_episodes(data.path(), &cameras, false);
    let frames = read(data.path(), &cameras);
    assert_eq!(frames.len(), EPISODES * LENGTH, "frames without labels are there");
    let folder = tempfile::tempdir().unwrap();
    let settings = LabelSettings { check_every: 0, ..settings(folder.path()) };
    let mut session = LabelSession::open(&frames, "play", opinions(&[]), settings).unwrap();
    let asked: BTreeSet<usize> = (0..20).map(|_| answer_truly(&mut session).frame).collect();
    let views = cameras.map(|camera| camera.parse().unwrap());
    let labelled = Frames::read(&views, &[folder.path()], &Rules::default(), &|_| {}).unwrap();
    assert_eq!(labelled.len(), 20);
    for at in 0..labelled.len() {
        let frame: usize = labelled.origin(at).episode.parse().unwrap();
        assert!(asked.contains(&frame));
        assert_eq!(labelled.success(at), truth(frame));
        for view in 0..2 {
            assert_eq!(labelled.pixels(at, view).unwrap(), frames.pixels(frame, view).unwrap());
        }
    }
}

#[test]
fn a_frame_stack_and_other_data_are_refused() {
    let (data, frames) = play();
    let folder = tempfile::tempdir().unwrap();
    drop(LabelSession::open(&frames, "play", opinions(&[]), settings(folder.path())).unwrap());
    let stack = read(data.path(), &["main_images", "main_images@-2"]);
    let refused = |frames: &Frames, settings: LabelSettings| {
        LabelSession::open(frames, "other", opinions(&[]), settings).map(drop).unwrap_err()
    };
    let error = refused(&stack, settings(folder.path()));
    assert!(matches!(&error, LabelError::FrameStack { view } if view == "main_images@-2"), "{error}");
    let fewer = frames.clone().subsampled(50);
    let error = refused(&fewer, settings(folder.path())).to_string();
    assert!(error.contains("play (240 frames) there, other (48 frames) here"), "{error}");
    let error = refused(&frames, LabelSettings { seed: 9, ..settings(folder.path()) }).to_string();
    assert!(error.contains("seed: 1 there, 9 here"), "{error}");
}
