//! Training by workers on threads: bit for bit what one process computes, whatever gets lost or killed on the way.

mod lossy;
mod point;
mod rollouts_apart;
mod setup;
mod side_by_side;

use std::time::Duration;

use lossy::Loss;
use setup::{Fates, Task, Trained};

fn check(task: Task, workers: &[usize], loss: Loss, fates: Fates) -> Trained {
    let (here, learner_dies) = (task.train_here(), !fates.actor_lives.is_empty());
    let there = task.train_by_workers(workers, loss, fates);
    assert_eq!(here.weights, there.weights, "weights");
    assert_eq!(here.metrics.len(), there.metrics.len());
    for (step, (here, there)) in here.metrics.iter().zip(&there.metrics).enumerate() {
        assert_eq!(here, there, "step {step}");
    }
    if !learner_dies {
        assert_eq!(here.records.len(), there.records.len(), "steps that are recorded");
        assert!(here.records == there.records, "what is recorded");
    }
    let segments = plaudit_cluster::worker::verify(&there.ledger).unwrap();
    assert_eq!(segments, vec![task.segments(); workers.len()], "every segment once");
    there
}

#[test]
fn three_workers_in_step_compute_what_one_process_does() {
    check(Task::choices(4), &[2, 3, 1], Loss::NONE, Fates::default());
}

#[test]
fn one_worker_is_no_exception_and_actions_may_be_numbers() {
    check(Task::numbers(3), &[6], Loss::NONE, Fates::default());
    check(Task::numbers(3), &[1, 5], Loss::NONE, Fates::default());
}

#[test]
fn what_a_link_loses_repeats_delays_and_reorders_changes_nothing() {
    let loss = Loss { dropped: 0.15, repeated: 0.15, delayed: 0.2, seed: 7 };
    check(Task::choices(3), &[2, 2, 2], loss, Fates::default());
}

#[test]
fn killed_workers_play_their_segments_again() {
    let fates = Fates { env_lives: vec![vec![37, 5, 80], vec![], vec![61]], ..Fates::default() };
    let trained = check(Task::choices(4), &[2, 2, 2], Loss::NONE, fates);
    assert_eq!(trained.restarts, 4);
}

#[test]
fn a_killed_learner_goes_on_from_its_checkpoint() {
    let fates = Fates {
        actor_lives: vec![Duration::from_millis(300), Duration::from_millis(500)],
        ..Fates::default()
    };
    let trained = check(Task::choices(5).slow(), &[3, 3], Loss::NONE, fates);
    assert!(trained.restarts >= 1, "it was killed before it was done");
}

#[test]
fn everything_at_once() {
    let loss = Loss { dropped: 0.05, repeated: 0.05, delayed: 0.05, seed: 3 };
    let fates = Fates {
        env_lives: vec![vec![50, 70], vec![90]],
        actor_lives: vec![Duration::from_millis(400)],
        ..Fates::default()
    };
    check(Task::numbers(4).slow(), &[2, 4], loss, fates);
}
