//! Requests that wait for the model, and the thread that gathers them into batches.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::error::ApiError;
use crate::limits::Batching;
use crate::metrics::Metrics;
use crate::model::{AnswerResult, Asked, Cost, Model, Question, TextPiece, WaitingClient};

/// Requests in the order they came.
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    most: usize,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
    /// How many were told to wait, last.
    counted: usize,
}

struct Job {
    question: Question,
    images: usize,
    cost: Cost,
    client: JobClient,
}

/// The client of a job.
struct JobClient {
    reply: oneshot::Sender<AnswerResult>,
    /// For one that reads along.
    pieces: Option<PieceSender>,
}

/// Where the pieces of an answer go, each with the number of its choice.
pub(crate) type PieceSender = mpsc::UnboundedSender<(usize, TextPiece)>;

impl WaitingClient for JobClient {
    fn is_waiting(&self) -> bool {
        !self.reply.is_closed()
    }

    fn piece(&self, choice: usize, piece: &TextPiece) {
        if let Some(pieces) = &self.pieces {
            let _ = pieces.send((choice, piece.clone())); // a client that went away wants none
        }
    }
}

impl Queue {
    pub(crate) fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), most, metrics }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the answer will be; refuses when too many wait.
    pub(crate) fn put(
        &self,
        question: Question,
        cost: Cost,
        pieces: Option<PieceSender>,
    ) -> Result<oneshot::Receiver<AnswerResult>, ApiError> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.is_closed {
            return Err(ApiError::shutting_down());
        }
        if state.jobs.len() >= self.most {
            return Err(ApiError::overloaded("too many requests wait for the model"));
        }
        let images = question.images();
        state.jobs.push_back(Job { question, images, cost, client: JobClient { reply, pieces } });
        self.count(&mut state);
        self.arrived.notify_one();
        Ok(answer)
    }

    /// Tells how many wait now, instead of what was told before.
    fn count(&self, state: &mut State) {
        let waiting = state.jobs.len();
        self.metrics.queued(waiting, std::mem::replace(&mut state.counted, waiting));
    }

    /// No further requests; the thread stops when those that wait are answered.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.arrived.notify_all();
    }

    /// No further requests, and no answers to those that wait.
    pub(crate) fn abandon(&self) {
        self.state().jobs.clear();
        self.close();
    }

    /// Answers requests until the queue is closed and empty.
    pub(crate) fn work(&self, model: &dyn Model, batching: Batching) {
        while let Some(jobs) = self.next_batch(batching) {
            let images = jobs.iter().map(|job| job.images).sum();
            self.metrics.batch(jobs.len(), images);
            let asked: Vec<Asked<'_>> =
                jobs.iter().map(|job| Asked { question: &job.question, client: &job.client }).collect();
            let answers = answers(model, &asked);
            for (job, answer) in jobs.into_iter().zip(answers) {
                let _ = job.client.reply.send(answer); // a client that went away wants none
            }
        }
    }

    /// As many requests as go together, once there is one; `None` when there will be none.
    fn next_batch(&self, batching: Batching) -> Option<Vec<Job>> {
        let mut state = self.state();
        loop {
            state.jobs.retain(|job| job.client.is_waiting());
            match (state.jobs.is_empty(), state.is_closed) {
                (false, _) => break,
                (true, true) => return None,
                (true, false) => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        let until = Instant::now() + batching.wait;
        while batch_len(&state.jobs, batching).is_none() && !state.is_closed {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                break;
            };
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = batch_len(&state.jobs, batching).unwrap_or(state.jobs.len());
        let jobs = state.jobs.drain(..count).collect();
        self.count(&mut state);
        Some(jobs)
    }
}

/// How many of the first requests fill a batch, at least one; `None` while they do not.
///
/// Requests of a batch are padded to the longest, so that each may cost as much as the dearest.
fn batch_len(jobs: &VecDeque<Job>, batching: Batching) -> Option<usize> {
    let (mut images, mut dearest) = (0, 0);
    for (count, job) in jobs.iter().enumerate() {
        images += job.images;
        dearest = job.cost.bytes.max(dearest);
        if images > batching.images || dearest.saturating_mul(count + 1) > batching.work_bytes {
            return Some(count.max(1));
        }
    }
    (images == batching.images).then_some(jobs.len())
}

/// The model's answers; one that fails does not take the server with it.
fn answers(model: &dyn Model, questions: &[Asked<'_>]) -> Vec<AnswerResult> {
    let failed = |words: &str| vec![Err(ApiError::failed(words)); questions.len()];
    match catch_unwind(AssertUnwindSafe(|| model.answer(questions))) {
        Ok(answers) if answers.len() == questions.len() => answers,
        Ok(_) => failed("the model gave too few answers, or too many"),
        Err(_) => failed("the model failed"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Answer, FrameBlock, ModelInfo, Scores};

    /// Scores a block by its first byte, and remembers the sizes of batches.
    struct FirstByte(Mutex<Vec<usize>>);

    impl Model for FirstByte {
        fn info(&self) -> &ModelInfo {
            unreachable!("nobody asks")
        }

        fn cost(&self, _: &Question) -> Result<Cost, ApiError> {
            Ok(Cost::default())
        }

        fn answer(&self, asked: &[Asked<'_>]) -> Vec<AnswerResult> {
            self.0.lock().unwrap().push(asked.len());
            let answer = |asked: &Asked<'_>| match asked.question {
                Question::Score(block) if block.pixels[0] == 255 => panic!("a model that fails"),
                Question::Score(block) => {
                    let numbers = vec![f32::from(block.pixels[0])];
                    Ok(Answer::Scores(Scores { columns: vec!["first".into()], numbers, success: None }))
                }
                Question::Chat(_) => Err(ApiError::invalid("no words")),
            };
            asked.iter().map(answer).collect()
        }
    }

    fn question(first: u8, images: usize) -> Question {
        let pixels = vec![first; images * 3];
        Question::Score(FrameBlock { leading: vec![images], height: 1, width: 1, pixels })
    }

    fn queue(most: usize) -> Queue {
        Queue::new(most, Arc::default())
    }

    fn first(answer: &mut oneshot::Receiver<AnswerResult>) -> Result<f32, ApiError> {
        match answer.try_recv().unwrap()? {
            Answer::Scores(scores) => Ok(scores.numbers[0]),
            Answer::Chat(_) => panic!("scores"),
        }
    }

    #[test]
    fn requests_are_answered_together_up_to_a_size_and_in_order() {
        let (queue, model) = (queue(100), FirstByte(Mutex::default()));
        let mut answers: Vec<_> = [4, 4, 3, 9, 1]
            .into_iter()
            .zip(0..)
            .map(|(n, at)| queue.put(question(at, n), Cost::default(), None).unwrap())
            .collect();
        drop(answers.remove(2)); // a client that went away
        queue.close();
        queue.work(&model, Batching { images: 8, wait: Duration::ZERO, ..Batching::default() });
        let found: Vec<f32> = answers.iter_mut().map(|answer| first(answer).unwrap()).collect();
        assert_eq!(found, [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(*model.0.lock().unwrap(), [2, 1, 1], "eight images, one too large for a batch, and one");
    }

    #[test]
    fn dear_requests_are_not_answered_together() {
        let (queue, model) = (queue(100), FirstByte(Mutex::default()));
        let costs = [10, 40, 20, 20, 50, 200];
        let answers: Vec<_> = costs
            .into_iter()
            .zip(0..)
            .map(|(bytes, at)| queue.put(question(at, 1), Cost { bytes }, None).unwrap())
            .collect();
        queue.close();
        queue.work(&model, Batching { images: 64, wait: Duration::ZERO, work_bytes: 100 });
        // Two of 40; two of 20, which the one of 50 would make three of 50; that one; and one that is too dear for company.
        assert_eq!(*model.0.lock().unwrap(), [2, 2, 1, 1]);
        drop(answers);
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_too() {
        let queue = queue(2);
        let waiting: Vec<_> =
            (0..2).map(|at| queue.put(question(at, 1), Cost::default(), None).unwrap()).collect();
        let error = queue.put(question(9, 1), Cost::default(), None).unwrap_err();
        assert_eq!((error.status.as_u16(), error.retry_after), (503, Some(1)));
        drop(waiting);
        queue.close();
        assert!(queue.put(question(9, 1), Cost::default(), None).is_err());
    }

    #[test]
    fn a_model_that_fails_costs_its_batch_alone() {
        let (queue, model) = (queue(10), FirstByte(Mutex::default()));
        let mut answers = [255, 7].map(|at| queue.put(question(at, 1), Cost::default(), None).unwrap());
        queue.close();
        let silent = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        queue.work(&model, Batching { images: 1, wait: Duration::ZERO, ..Batching::default() });
        std::panic::set_hook(silent);
        assert_eq!(first(&mut answers[0]).unwrap_err().status.as_u16(), 500);
        assert_eq!(first(&mut answers[1]).unwrap(), 7.0);
    }

    #[test]
    fn the_first_request_waits_a_little_for_others() {
        let (queue, model) = (Arc::new(queue(10)), Arc::new(FirstByte(Mutex::default())));
        let (worker, asked) = (queue.clone(), model.clone());
        let wait = Duration::from_secs(20);
        let thread = std::thread::spawn(move || {
            worker.work(&*asked, Batching { images: 3, wait, ..Batching::default() })
        });
        let began = Instant::now();
        let _first = queue.put(question(0, 1), Cost::default(), None).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let _second = queue.put(question(1, 2), Cost::default(), None).unwrap();
        queue.close();
        thread.join().unwrap();
        assert_eq!(*model.0.lock().unwrap(), [2]);
        assert!(began.elapsed() < wait, "a full batch does not wait");
    }
}
