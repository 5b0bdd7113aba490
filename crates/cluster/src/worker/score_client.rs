//! A model of single frames that a reward worker has: frames go there, scores come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::WorkerError;
use super::env_worker::refused;
use super::messages::{FromReward, ModelFacts, ScoreRequest, ToReward};
use crate::link::{Endpoint, Event, LinkError, Payload};
use plaudit_core::FrameShape;

const POLL: Duration = Duration::from_millis(100);
/// Requests that wait for an answer at most.
const WINDOW: usize = 4;

/// Asks one reward worker or several, in turn. Requests that a worker took with it when it was killed are asked again.
pub struct ScoreClient {
    endpoint: Endpoint,
    workers: Vec<Arc<str>>,
    give_up_after: Duration,
    next: Mutex<u64>,
    /// What the model said about itself, when it was first asked.
    facts: ModelFacts,
}

struct Asked {
    payload: Arc<Payload>,
    worker: Arc<str>,
    at: usize,
}

impl ScoreClient {
    /// Waits for the workers, and asks what they score.
    pub fn connect(
        endpoint: Endpoint,
        workers: Vec<Arc<str>>,
        give_up_after: Duration,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Self, WorkerError> {
        let mut facts: Vec<Option<ModelFacts>> = vec![None; workers.len()];
        let began = Instant::now();
        while let Some(missing) = facts.iter().position(Option::is_none) {
            if should_stop() {
                return Err(WorkerError::Stopped);
            }
            if began.elapsed() > give_up_after {
                let (peer, secs) = (workers[missing].to_string(), give_up_after.as_secs_f64());
                return Err(WorkerError::Gone { peer, secs });
            }
            let Some((worker, event)) = endpoint.recv(&workers, POLL)? else { continue };
            let rank = workers.iter().position(|other| *other == worker).unwrap_or(0);
            match event {
                Event::Up { .. } => send(&endpoint, &worker, &Arc::new(ToReward::Describe.encode()))?,
                Event::Message(message) => {
                    if let FromReward::Described(found) = decode(&worker, &message)? {
                        facts[rank] = Some(found);
                    }
                }
                Event::Refused { theirs } => return Err(refused(&worker, theirs)),
                Event::Down => {}
            }
        }
        let mut facts = facts.into_iter().flatten();
        let Some(first) = facts.next() else {
            return Err(WorkerError::Gone { peer: "every reward worker".into(), secs: 0.0 });
        };
        if facts.any(|other| other != first) {
            let problem = "has another model than the other reward workers".into();
            return Err(WorkerError::Misfit { peer: workers[0].to_string(), problem });
        }
        Ok(Self { endpoint, workers, give_up_after, next: Mutex::new(0), facts: first })
    }

    /// What the model says about itself.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// Tells the workers that nothing more will be asked.
    pub fn finish(&self) {
        for worker in &self.workers {
            let _ = self.endpoint.send(worker, Arc::new(ToReward::Finish.encode()));
            let _ = self.endpoint.flush(worker, Duration::from_secs(2));
        }
    }

    /// The scores of frames, in batches `[views, count, height, width, channels]`, and the model's version.
    pub fn scores(
        &self,
        batches: Vec<(usize, Vec<u8>)>,
        views: usize,
        shape: FrameShape,
    ) -> Result<(Vec<f32>, u64), WorkerError> {
        // One call at a time: whoever waits would take the other's answers.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let counts: Vec<usize> = batches.iter().map(|(count, _)| *count).collect();
        let mut answers: Vec<Option<Vec<f32>>> = vec![None; counts.len()];
        let (mut asked, mut version): (BTreeMap<u64, Asked>, u64) = (BTreeMap::new(), 0);
        let mut batches = batches.into_iter().enumerate();
        let mut last_news = Instant::now();
        loop {
            while asked.len() < WINDOW {
                let Some((at, (count, pixels))) = batches.next() else { break };
                *next += 1;
                let worker = self.workers[*next as usize % self.workers.len()].clone();
                let (count, views) = (count as u64, views as u64);
                let request = ScoreRequest { id: *next, count, views, shape, pixels };
                let payload = Arc::new(ToReward::Score(request).encode());
                send(&self.endpoint, &worker, &payload)?;
                asked.insert(*next, Asked { payload, worker, at });
            }
            if asked.is_empty() {
                break;
            }
            match self.endpoint.recv(&self.workers, POLL)? {
                Some((worker, event)) => {
                    last_news = Instant::now();
                    if let Some((at, scores, of)) = self.take(&worker, event, &mut asked, &counts)? {
                        version = if version == 0 { of } else { version.min(of) };
                        answers[at] = Some(scores);
                    }
                }
                None if last_news.elapsed() > self.give_up_after => {
                    let (peer, secs) = (self.workers[0].to_string(), self.give_up_after.as_secs_f64());
                    return Err(WorkerError::Gone { peer, secs });
                }
                None => {}
            }
        }
        Ok((answers.into_iter().flatten().flatten().collect(), version))
    }

    fn take(
        &self,
        worker: &Arc<str>,
        event: Event,
        asked: &mut BTreeMap<u64, Asked>,
        counts: &[usize],
    ) -> Result<Option<(usize, Vec<f32>, u64)>, WorkerError> {
        match event {
            Event::Up { .. } => {
                let mut own = asked.values().filter(|asked| asked.worker == *worker);
                own.try_for_each(|asked| send(&self.endpoint, worker, &asked.payload))?;
            }
            Event::Down => {}
            Event::Refused { theirs } => return Err(refused(worker, theirs)),
            Event::Message(message) => match decode(worker, &message)? {
                FromReward::Described(_) => {}
                FromReward::NotScored { id, problem } if asked.contains_key(&id) => {
                    return Err(WorkerError::RewardFailed { peer: worker.to_string(), problem });
                }
                FromReward::NotScored { .. } => {}
                FromReward::Scored { id, version, scores } => {
                    let Some(Asked { at, .. }) = asked.remove(&id) else { return Ok(None) };
                    if scores.len() != counts[at] {
                        let problem = format!("gave {} scores for {} frames", scores.len(), counts[at]);
                        return Err(WorkerError::Misfit { peer: worker.to_string(), problem });
                    }
                    return Ok(Some((at, scores, version)));
                }
            },
        }
        Ok(None)
    }
}

fn decode(peer: &str, message: &[u8]) -> Result<FromReward, WorkerError> {
    FromReward::decode(message).map_err(|error| WorkerError::Message { peer: peer.into(), error })
}

/// A worker that is not there is asked when it is back.
fn send(endpoint: &Endpoint, worker: &str, payload: &Arc<Payload>) -> Result<(), WorkerError> {
    match endpoint.send(worker, payload.clone()) {
        Err(LinkError::Down { .. }) => Ok(()),
        other => Ok(other?),
    }
}
