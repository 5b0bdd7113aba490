//! A reward worker scores for several others, and may be killed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use plaudit_cluster::link::threads::Switchboard;
use plaudit_cluster::link::{Endpoint, Identity, StreamSettings};
use plaudit_cluster::worker::messages::ModelFacts;
use plaudit_cluster::worker::{
    FrameScorer, QuestionAnswerer, RewardWorker, ScoreClient, ServedModel, WorkerError,
};
use plaudit_core::FrameShape;

/// The mean brightness of the first view, and a tenth of the second's.
struct Brightness;

fn brightness(first: &[u8], second: &[u8]) -> f32 {
    let mean =
        |pixels: &[u8]| pixels.iter().map(|&pixel| f32::from(pixel)).sum::<f32>() / pixels.len() as f32;
    (mean(first) + 0.1 * mean(second)) / 300.0
}

impl FrameScorer for Brightness {
    fn facts(&self) -> ModelFacts {
        ModelFacts { image_keys: vec!["main".into(), "wrist".into()], threshold: Some(0.5), card: None }
    }

    fn scores(&self, pixels: &[u8], count: usize, shape: FrameShape) -> Result<(Vec<f32>, u64), String> {
        std::thread::sleep(Duration::from_millis(5)); // long enough for others to ask meanwhile
        let (first, second) = pixels.split_at(count * shape.bytes());
        let views = first.chunks_exact(shape.bytes()).zip(second.chunks_exact(shape.bytes()));
        Ok((views.map(|(first, second)| brightness(first, second)).collect(), 4))
    }
}

fn connect(board: &Switchboard, name: &str, peers: &[&str]) -> Endpoint {
    let (sender, receiver) = board.connect(name);
    let peers = peers.iter().map(|peer| Arc::from(*peer)).collect();
    let settings = StreamSettings { resend_after: Duration::from_millis(50), ..StreamSettings::default() };
    Endpoint::start(&Identity { version: "1".into(), peers, settings }, sender, receiver).unwrap()
}

/// What a client asks in its round: frames, and what they should score.
fn frames(client: usize, round: usize, shape: FrameShape) -> (Vec<(usize, Vec<u8>)>, Vec<f32>) {
    let counts = [3, 1, 2];
    let (mut batches, mut expected) = (Vec::new(), Vec::new());
    for (at, count) in counts.into_iter().enumerate() {
        let image = |view: usize, frame: usize| {
            let value = (client * 31 + round * 7 + at * 3 + view * 11 + frame) % 251;
            vec![value as u8; shape.bytes()]
        };
        let views: Vec<Vec<Vec<u8>>> =
            (0..2).map(|view| (0..count).map(|frame| image(view, frame)).collect()).collect();
        expected.extend((0..count).map(|frame| brightness(&views[0][frame], &views[1][frame])));
        batches.push((count, views.concat().concat()));
    }
    (batches, expected)
}

/// Three clients ask for many scores; the worker dies after so many batches each time, and is started again.
fn ask_all(lives: &[usize]) -> (usize, usize) {
    let (board, done) = (Switchboard::default(), AtomicBool::new(false));
    let (batches, requests) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = ["env-0", "env-1", "actor-0"];
    let shape = FrameShape::rgb(4, 4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for life in lives.iter().copied().map(Some).chain(std::iter::repeat(None)) {
                let scored = AtomicUsize::new(0);
                let should_stop = || {
                    done.load(Ordering::Relaxed)
                        || life.is_some_and(|life| scored.load(Ordering::Relaxed) >= life)
                };
                let worker = RewardWorker {
                    endpoint: connect(&board, "reward-0", &clients),
                    clients: clients.iter().map(|client| Arc::from(*client)).collect(),
                    model: ServedModel::Frames(&Brightness),
                    max_batch: 64,
                    should_stop: &should_stop,
                    on_batch: Box::new(|asked, _| {
                        scored.fetch_add(1, Ordering::Relaxed);
                        batches.fetch_add(1, Ordering::Relaxed);
                        requests.fetch_add(asked, Ordering::Relaxed);
                    }),
                };
                match worker.run() {
                    Ok(()) => return,
                    Err(WorkerError::Stopped) if !done.load(Ordering::Relaxed) => {}
                    Err(WorkerError::Stopped) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let board = &board;
        let asking: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || {
                    let endpoint = connect(board, client, &["reward-0"]);
                    let workers = vec!["reward-0".into()];
                    let asked =
                        ScoreClient::connect(endpoint, workers, Duration::from_secs(20), &|| false).unwrap();
                    assert_eq!(asked.facts().image_keys, ["main", "wrist"]);
                    for round in 0..20 {
                        let (batches, expected) = frames(number, round, shape);
                        let (scores, version) = asked.scores(batches, 2, shape).unwrap();
                        assert_eq!((scores, version), (expected, 4), "client {number}, round {round}");
                    }
                    asked.finish();
                })
            })
            .collect();
        asking.into_iter().for_each(|asking| asking.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    (batches.into_inner(), requests.into_inner())
}

#[test]
fn requests_of_several_workers_go_through_the_model_together() {
    let (batches, requests) = ask_all(&[]);
    assert_eq!(requests, 3 * 20 * 3, "each was asked once");
    assert!(batches < requests, "{batches} batches for {requests} requests");
}

#[test]
fn a_killed_reward_worker_loses_no_request() {
    let (_, requests) = ask_all(&[5, 1, 9]);
    assert!(requests >= 3 * 20 * 3);
}

/// Answers with the question backwards, after its mode.
struct Backwards;

fn backwards(mode: &[u8], question: &[u8]) -> Vec<u8> {
    mode.iter().chain(question.iter().rev()).copied().collect()
}

impl QuestionAnswerer for Backwards {
    fn facts(&self) -> ModelFacts {
        ModelFacts { card: Some("{}".into()), ..ModelFacts::default() }
    }

    fn answers(&self, mode: &[u8], questions: &[&[u8]]) -> Result<(Vec<Vec<u8>>, u64), String> {
        std::thread::sleep(Duration::from_millis(5)); // long enough for others to ask meanwhile
        Ok((questions.iter().map(|question| backwards(mode, question)).collect(), 2))
    }
}

#[test]
fn questions_of_several_workers_are_answered_together_and_by_mode() {
    let (board, batches, requests) = (Switchboard::default(), AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = ["env-0", "env-1", "actor-0"];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It is killed once on the way.
            for life in [4, usize::MAX] {
                let passes = AtomicUsize::new(0);
                let should_stop = || passes.load(Ordering::Relaxed) >= life;
                let worker = RewardWorker {
                    endpoint: connect(&board, "reward-0", &clients),
                    clients: clients.iter().map(|client| Arc::from(*client)).collect(),
                    model: ServedModel::Questions(&Backwards),
                    max_batch: 64,
                    should_stop: &should_stop,
                    on_batch: Box::new(|asked, _| {
                        passes.fetch_add(1, Ordering::Relaxed);
                        batches.fetch_add(1, Ordering::Relaxed);
                        requests.fetch_add(asked, Ordering::Relaxed);
                    }),
                };
                match worker.run() {
                    Ok(()) => return,
                    Err(WorkerError::Stopped) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for (number, client) in clients.into_iter().enumerate() {
            let board = &board;
            scope.spawn(move || {
                let endpoint = connect(board, client, &["reward-0"]);
                let workers = vec!["reward-0".into()];
                let asked =
                    ScoreClient::connect(endpoint, workers, Duration::from_secs(20), &|| false).unwrap();
                assert_eq!(asked.facts().card.as_deref(), Some("{}"));
                for round in 0..20u8 {
                    // More than go into one request, of two modes.
                    let (mode, count) = ([round % 2], 1 + usize::from(round));
                    let questions: Vec<Vec<u8>> =
                        (0..count).map(|at| vec![number as u8, round, at as u8]).collect();
                    let expected: Vec<Vec<u8>> =
                        questions.iter().map(|question| backwards(&mode, question)).collect();
                    assert_eq!(asked.answers(&mode, questions).unwrap(), (expected, 2));
                    assert_eq!(asked.waiting_for(), None);
                }
                asked.finish();
            });
        }
    });
    assert!(batches.into_inner() < requests.into_inner(), "several requests went through the model at once");
}

#[test]
fn a_model_that_is_asked_what_it_cannot_do_says_so() {
    let board = Switchboard::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let worker = RewardWorker {
                endpoint: connect(&board, "reward-0", &["env-0"]),
                clients: vec!["env-0".into()],
                model: ServedModel::Frames(&Brightness),
                max_batch: 64,
                should_stop: &|| done.load(Ordering::Relaxed),
                on_batch: Box::new(|_, _| {}),
            };
            worker.run()
        });
        let endpoint = connect(&board, "env-0", &["reward-0"]);
        let asked =
            ScoreClient::connect(endpoint, vec!["reward-0".into()], Duration::from_secs(20), &|| false);
        let error = asked.unwrap().answers(&[1], vec![vec![1]]).unwrap_err().to_string();
        assert!(error.contains("this model scores frames, and was asked a question"), "{error}");
        done.store(true, Ordering::Relaxed);
    });
}
