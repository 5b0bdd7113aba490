//! The reward's worker: scores frames for everybody, or answers questions about windows of them, and keeps nothing. Requests of
//! several workers that wait at the same time go through the model together.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::WorkerError;
use super::env_worker::refused;
use super::messages::{FromReward, ModelFacts, QuestionRequest, ScoreRequest, ToReward};
use crate::link::{Endpoint, Event, LinkError};

/// How often a worker that waits looks whether it should stop.
const POLL: Duration = Duration::from_millis(100);

/// A model of single frames.
pub trait FrameScorer {
    /// What it says about itself.
    fn facts(&self) -> ModelFacts;

    /// One score per frame, of pixels `[views, count, height, width, channels]`. The score of a frame does not depend on
    /// the others. Also the model's version, which grows when it changes.
    fn scores(
        &self,
        pixels: &[u8],
        count: usize,
        shape: plaudit_core::FrameShape,
    ) -> Result<(Vec<f32>, u64), String>;
}

/// A model that answers questions, such as a vision-language model that is shown windows.
pub trait QuestionAnswerer {
    /// What it says about itself.
    fn facts(&self) -> ModelFacts;

    /// One answer per question, all of one mode. An answer does not depend on the other questions. Also the model's version,
    /// which grows when it changes.
    fn answers(&self, mode: &[u8], questions: &[&[u8]]) -> Result<(Vec<Vec<u8>>, u64), String>;
}

/// What a reward worker has.
#[derive(Clone, Copy)]
pub enum ServedModel<'a> {
    /// A model of single frames.
    Frames(&'a dyn FrameScorer),
    /// One that answers questions.
    Questions(&'a dyn QuestionAnswerer),
}

impl ServedModel<'_> {
    fn facts(&self) -> ModelFacts {
        match self {
            Self::Frames(model) => model.facts(),
            Self::Questions(model) => model.facts(),
        }
    }
}

/// A model, and who asks it.
pub struct RewardWorker<'a> {
    /// Its links.
    pub endpoint: Endpoint,
    /// Who may ask. It ends when the last of them has said that it is done.
    pub clients: Vec<Arc<str>>,
    /// The model.
    pub model: ServedModel<'a>,
    /// Frames or questions that go through the model at once, at most.
    pub max_batch: usize,
    /// Whether somebody wants it to stop.
    pub should_stop: &'a dyn Fn() -> bool,
    /// How many requests, and frames or questions, each pass through the model had.
    pub on_batch: Box<dyn FnMut(usize, usize) + 'a>,
}

struct Waiting {
    client: Arc<str>,
    request: Request,
}

enum Request {
    Score(ScoreRequest),
    Ask(QuestionRequest),
}

impl Request {
    fn id(&self) -> u64 {
        match self {
            Self::Score(request) => request.id,
            Self::Ask(request) => request.id,
        }
    }

    /// Frames, or questions.
    fn count(&self) -> usize {
        match self {
            Self::Score(request) => request.count as usize,
            Self::Ask(request) => request.questions.len(),
        }
    }

    /// Whether both can go through a model at once.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Score(one), Self::Score(other)) => (one.views, one.shape) == (other.views, other.shape),
            (Self::Ask(one), Self::Ask(other)) => one.mode == other.mode,
            (Self::Score(_), Self::Ask(_)) | (Self::Ask(_), Self::Score(_)) => false,
        }
    }
}

/// What a model said: a score per frame, or an answer per question, and its version.
enum Reply {
    Scores(Vec<f32>, u64),
    Answers(Vec<Vec<u8>>, u64),
}

impl Reply {
    fn count(&self) -> usize {
        match self {
            Self::Scores(scores, _) => scores.len(),
            Self::Answers(answers, _) => answers.len(),
        }
    }

    /// What one request gets of it.
    fn part(&self, id: u64, of: Range<usize>) -> FromReward {
        match self {
            Self::Scores(scores, version) => {
                FromReward::Scored { id, version: *version, scores: scores[of].to_vec() }
            }
            Self::Answers(answers, version) => {
                FromReward::Answered { id, version: *version, answers: answers[of].to_vec() }
            }
        }
    }
}

impl RewardWorker<'_> {
    /// Works until nobody needs it.
    pub fn run(mut self) -> Result<(), WorkerError> {
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        let mut done = vec![false; self.clients.len()];
        while !done.iter().all(|done| *done) {
            if (self.should_stop)() {
                return Err(WorkerError::Stopped);
            }
            // Whatever has arrived is taken in before the model is asked.
            let patience = if waiting.is_empty() { POLL } else { Duration::ZERO };
            match self.endpoint.recv(&self.clients, patience)? {
                Some((client, event)) => self.take(client, event, &mut waiting, &mut done)?,
                None if waiting.is_empty() => {}
                None => self.score(&mut waiting)?,
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        client: Arc<str>,
        event: Event,
        waiting: &mut VecDeque<Waiting>,
        done: &mut [bool],
    ) -> Result<(), WorkerError> {
        let rank = self.clients.iter().position(|other| *other == client).unwrap_or(0);
        match event {
            Event::Message(message) => {
                let decoded = ToReward::decode(&message);
                match decoded.map_err(|error| WorkerError::Message { peer: client.to_string(), error })? {
                    ToReward::Describe => self.send(&client, FromReward::Described(self.model.facts()))?,
                    ToReward::Score(request) => {
                        waiting.push_back(Waiting { client, request: Request::Score(request) });
                    }
                    ToReward::Ask(request) => {
                        waiting.push_back(Waiting { client, request: Request::Ask(request) });
                    }
                    ToReward::Finish => done[rank] = true,
                }
            }
            // Its successor asks for what it needs.
            Event::Down => waiting.retain(|other| other.client != client),
            Event::Up { .. } => done[rank] = false,
            Event::Refused { theirs } => return Err(refused(&client, theirs)),
        }
        Ok(())
    }

    /// Does the first request, and all that wait and are like it as far as one batch goes.
    fn score(&mut self, waiting: &mut VecDeque<Waiting>) -> Result<(), WorkerError> {
        let Some(first) = waiting.pop_front() else { return Ok(()) };
        let mut count = first.request.count();
        let mut batch = vec![first];
        let mut later = VecDeque::new();
        for next in waiting.drain(..) {
            let more = next.request.count();
            if next.request.is_like(&batch[0].request) && count + more <= self.max_batch {
                count += more;
                batch.push(next);
            } else {
                later.push_back(next);
            }
        }
        *waiting = later;
        (self.on_batch)(batch.len(), count);
        let reply = self.reply(&batch, count).and_then(|reply| {
            let wrong = format!("the model gave {} answers to {count} questions", reply.count());
            if reply.count() == count { Ok(reply) } else { Err(wrong) }
        });
        let mut from = 0;
        for Waiting { client, request } in batch {
            let (id, of) = (request.id(), from..from + request.count());
            from = of.end;
            let answer = match &reply {
                Ok(reply) => reply.part(id, of),
                Err(problem) => FromReward::NotScored { id, problem: problem.clone() },
            };
            self.send(&client, answer)?;
        }
        Ok(())
    }

    /// What the model says to requests that are alike.
    fn reply(&self, batch: &[Waiting], count: usize) -> Result<Reply, String> {
        match self.model {
            ServedModel::Frames(model) => {
                let requests: Vec<&ScoreRequest> = batch.iter().filter_map(Waiting::frames).collect();
                let [first, ..] = requests[..] else {
                    return Err("this model scores frames, and was asked a question".into());
                };
                let joined: Vec<u8>;
                let pixels = match requests[..] {
                    [only] => &only.pixels,
                    _ => {
                        joined = join_views(&requests, first.views as usize, first.shape.bytes());
                        &joined
                    }
                };
                let (scores, version) = model.scores(pixels, count, first.shape)?;
                Ok(Reply::Scores(scores, version))
            }
            ServedModel::Questions(model) => {
                let requests: Vec<&QuestionRequest> = batch.iter().filter_map(Waiting::questions).collect();
                let [first, ..] = requests[..] else {
                    return Err("this model answers questions, and was shown frames".into());
                };
                let questions: Vec<&[u8]> =
                    requests.iter().flat_map(|request| request.questions.iter().map(Vec::as_slice)).collect();
                let (answers, version) = model.answers(&first.mode, &questions)?;
                Ok(Reply::Answers(answers, version))
            }
        }
    }

    fn send(&self, client: &str, answer: FromReward) -> Result<(), WorkerError> {
        match self.endpoint.send(client, Arc::new(answer.encode())) {
            Err(LinkError::Down { .. }) => Ok(()), // its successor asks anew
            other => Ok(other?),
        }
    }
}

impl Waiting {
    fn frames(&self) -> Option<&ScoreRequest> {
        match &self.request {
            Request::Score(request) => Some(request),
            Request::Ask(_) => None,
        }
    }

    fn questions(&self) -> Option<&QuestionRequest> {
        match &self.request {
            Request::Ask(request) => Some(request),
            Request::Score(_) => None,
        }
    }
}

/// The pixels of several requests, `[views, count, height, width, channels]` again.
fn join_views(requests: &[&ScoreRequest], views: usize, image_bytes: usize) -> Vec<u8> {
    let mut joined = Vec::with_capacity(requests.iter().map(|one| one.pixels.len()).sum());
    for view in 0..views {
        for one in requests {
            let bytes = one.count as usize * image_bytes;
            joined.extend_from_slice(&one.pixels[view * bytes..(view + 1) * bytes]);
        }
    }
    joined
}
