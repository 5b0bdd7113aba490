//! The reward's worker: scores frames for everybody, and keeps nothing. Requests of several workers that wait at the same time
//! go through the model together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::WorkerError;
use super::env_worker::refused;
use super::messages::{FromReward, ModelFacts, ScoreRequest, ToReward};
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

/// A model, and who asks it.
pub struct RewardWorker<'a> {
    /// Its links.
    pub endpoint: Endpoint,
    /// Who may ask. It ends when the last of them has said that it is done.
    pub clients: Vec<Arc<str>>,
    /// The model.
    pub scorer: &'a dyn FrameScorer,
    /// Frames that go through the model at once, at most.
    pub max_batch: usize,
    /// Whether somebody wants it to stop.
    pub should_stop: &'a dyn Fn() -> bool,
    /// How many requests and frames each pass through the model had.
    pub on_batch: Box<dyn FnMut(usize, usize) + 'a>,
}

struct Waiting {
    client: Arc<str>,
    request: ScoreRequest,
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
                    ToReward::Describe => self.send(&client, FromReward::Described(self.scorer.facts()))?,
                    ToReward::Score(request) => waiting.push_back(Waiting { client, request }),
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

    /// Scores the first request, and all that wait with frames of its kind as far as one batch goes.
    fn score(&mut self, waiting: &mut VecDeque<Waiting>) -> Result<(), WorkerError> {
        let Some(first) = waiting.front() else { return Ok(()) };
        let kind = (first.request.views, first.request.shape);
        let mut batch = Vec::new();
        let mut frames = 0;
        let mut later = VecDeque::new();
        for next in waiting.drain(..) {
            let count = next.request.count as usize;
            let is_kind = (next.request.views, next.request.shape) == kind;
            if is_kind && (batch.is_empty() || frames + count <= self.max_batch) {
                frames += count;
                batch.push(next);
            } else {
                later.push_back(next);
            }
        }
        *waiting = later;
        (self.on_batch)(batch.len(), frames);
        let joined: Vec<u8>;
        let pixels = match &batch[..] {
            [only] => &only.request.pixels,
            several => {
                joined = join_views(several, kind.0 as usize, kind.1.bytes());
                &joined
            }
        };
        let scored = self.scorer.scores(pixels, frames, kind.1).and_then(|(scores, version)| {
            let wrong = format!("the model gave {} scores for {frames} frames", scores.len());
            if scores.len() == frames { Ok((scores, version)) } else { Err(wrong) }
        });
        self.answer(batch, scored)
    }

    fn answer(
        &self,
        batch: Vec<Waiting>,
        scored: Result<(Vec<f32>, u64), String>,
    ) -> Result<(), WorkerError> {
        let mut from = 0;
        for Waiting { client, request } in batch {
            let (id, count) = (request.id, request.count as usize);
            let answer = match &scored {
                Ok((scores, version)) => {
                    FromReward::Scored { id, version: *version, scores: scores[from..from + count].to_vec() }
                }
                Err(problem) => FromReward::NotScored { id, problem: problem.clone() },
            };
            from += count;
            self.send(&client, answer)?;
        }
        Ok(())
    }

    fn send(&self, client: &str, answer: FromReward) -> Result<(), WorkerError> {
        match self.endpoint.send(client, Arc::new(answer.encode())) {
            Err(LinkError::Down { .. }) => Ok(()), // its successor asks anew
            other => Ok(other?),
        }
    }
}

/// The pixels of several requests, `[views, count, height, width, channels]` again.
fn join_views(requests: &[Waiting], views: usize, image_bytes: usize) -> Vec<u8> {
    let mut joined = Vec::with_capacity(requests.iter().map(|one| one.request.pixels.len()).sum());
    for view in 0..views {
        for one in requests {
            let bytes = one.request.count as usize * image_bytes;
            joined.extend_from_slice(&one.request.pixels[view * bytes..(view + 1) * bytes]);
        }
    }
    joined
}
