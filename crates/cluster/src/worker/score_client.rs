//! A model that a reward worker has: frames or questions go there, scores or answers come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::WorkerError;
use super::env_worker::refused;
use super::messages::{FromReward, ModelFacts, QuestionRequest, ScoreRequest, ToReward};
use crate::link::{Endpoint, Event, LinkError, Payload};
use plaudit_core::FrameShape;

const POLL: Duration = Duration::from_millis(100);
/// Requests that wait for an answer at most.
const WINDOW: usize = 4;
/// Questions of one request, at most.
const QUESTIONS: usize = 8;

/// Asks one reward worker or several, in turn. Requests that a worker took with it when it was killed are asked again.
pub struct ScoreClient {
    endpoint: Endpoint,
    workers: Vec<Arc<str>>,
    give_up_after: Duration,
    next: Mutex<u64>,
    /// Since when scores are waited for, while they are.
    waiting_since: Mutex<Option<Instant>>,
    /// What the model said about itself, when it was first asked.
    facts: ModelFacts,
}

struct Asked {
    payload: Arc<Payload>,
    worker: Arc<str>,
    /// Frames or questions.
    count: usize,
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
        Ok(Self {
            endpoint,
            workers,
            give_up_after,
            next: Mutex::new(0),
            waiting_since: Mutex::new(None),
            facts: first,
        })
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

    /// How long nothing has come of what is asked now; nothing while nothing is asked.
    pub fn waiting_for(&self) -> Option<Duration> {
        self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    fn wait_from_now(&self) -> WaitGuard<'_> {
        self.set_waiting(Some(Instant::now()));
        WaitGuard(self)
    }

    fn set_waiting(&self, since: Option<Instant>) {
        *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// The scores of frames, in batches `[views, count, height, width, channels]`, and the model's version.
    pub fn scores(
        &self,
        batches: Vec<(usize, Vec<u8>)>,
        views: usize,
        shape: FrameShape,
    ) -> Result<(Vec<f32>, u64), WorkerError> {
        let request = |(count, pixels): (usize, Vec<u8>)| {
            let of = move |id| {
                let (count, views) = (count as u64, views as u64);
                ToReward::Score(ScoreRequest { id, count, views, shape, pixels }).encode()
            };
            (count, of)
        };
        let (replies, version) = self.exchange(batches.into_iter().map(request))?;
        let scores = replies.into_iter().flat_map(|reply| match reply {
            Reply::Scores(scores) => scores,
            Reply::Answers(_) => Vec::new(), // it was counted, and is none
        });
        Ok((scores.collect(), version))
    }

    /// The answers to questions of one mode, and the model's version.
    pub fn answers(&self, mode: &[u8], questions: Vec<Vec<u8>>) -> Result<(Vec<Vec<u8>>, u64), WorkerError> {
        let mut questions = questions.into_iter();
        let batches = std::iter::from_fn(|| {
            let batch: Vec<Vec<u8>> = questions.by_ref().take(QUESTIONS).collect();
            (!batch.is_empty()).then_some(batch)
        });
        let request = |questions: Vec<Vec<u8>>| {
            let (count, mode) = (questions.len(), mode.to_vec());
            let of = move |id| ToReward::Ask(QuestionRequest { id, mode, questions }).encode();
            (count, of)
        };
        let (replies, version) = self.exchange(batches.map(request))?;
        let answers = replies.into_iter().flat_map(|reply| match reply {
            Reply::Answers(answers) => answers,
            Reply::Scores(_) => Vec::new(),
        });
        Ok((answers.collect(), version))
    }

    /// Asks the workers in turn, and waits for all replies. A request is how many things it asks for, and its message.
    fn exchange<R: FnOnce(u64) -> Payload>(
        &self,
        requests: impl Iterator<Item = (usize, R)>,
    ) -> Result<(Vec<Reply>, u64), WorkerError> {
        // One call at a time: whoever waits would take the other's answers.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let _waiting = self.wait_from_now();
        let mut replies: Vec<Option<Reply>> = Vec::new();
        let (mut asked, mut version): (BTreeMap<u64, Asked>, u64) = (BTreeMap::new(), 0);
        let mut requests = requests;
        let mut last_news = Instant::now();
        loop {
            while asked.len() < WINDOW {
                let Some((count, message)) = requests.next() else { break };
                *next += 1;
                let worker = self.workers[*next as usize % self.workers.len()].clone();
                let payload = Arc::new(message(*next));
                send(&self.endpoint, &worker, &payload)?;
                asked.insert(*next, Asked { payload, worker, count, at: replies.len() });
                replies.push(None);
            }
            if asked.is_empty() {
                break;
            }
            match self.endpoint.recv(&self.workers, POLL)? {
                Some((worker, event)) => {
                    last_news = Instant::now();
                    if let Some((at, reply, of)) = self.take(&worker, event, &mut asked)? {
                        self.set_waiting(Some(Instant::now()));
                        version = if version == 0 { of } else { version.min(of) };
                        replies[at] = Some(reply);
                    }
                }
                None if last_news.elapsed() > self.give_up_after => {
                    let (peer, secs) = (self.workers[0].to_string(), self.give_up_after.as_secs_f64());
                    return Err(WorkerError::Gone { peer, secs });
                }
                None => {}
            }
        }
        Ok((replies.into_iter().flatten().collect(), version))
    }

    fn take(
        &self,
        worker: &Arc<str>,
        event: Event,
        asked: &mut BTreeMap<u64, Asked>,
    ) -> Result<Option<(usize, Reply, u64)>, WorkerError> {
        let (id, reply, version) = match event {
            Event::Up { .. } => {
                let mut own = asked.values().filter(|asked| asked.worker == *worker);
                own.try_for_each(|asked| send(&self.endpoint, worker, &asked.payload))?;
                return Ok(None);
            }
            Event::Down => return Ok(None),
            Event::Refused { theirs } => return Err(refused(worker, theirs)),
            Event::Message(message) => match decode(worker, &message)? {
                FromReward::Described(_) => return Ok(None),
                FromReward::NotScored { id, problem } if asked.contains_key(&id) => {
                    return Err(WorkerError::RewardFailed { peer: worker.to_string(), problem });
                }
                FromReward::NotScored { .. } => return Ok(None),
                FromReward::Scored { id, version, scores } => (id, Reply::Scores(scores), version),
                FromReward::Answered { id, version, answers } => (id, Reply::Answers(answers), version),
            },
        };
        let Some(Asked { at, count, .. }) = asked.remove(&id) else { return Ok(None) };
        if reply.count() != count {
            let problem = format!("gave {} answers to {count} questions", reply.count());
            return Err(WorkerError::Misfit { peer: worker.to_string(), problem });
        }
        Ok(Some((at, reply, version)))
    }
}

/// What a worker said to one request.
enum Reply {
    Scores(Vec<f32>),
    Answers(Vec<Vec<u8>>),
}

impl Reply {
    fn count(&self) -> usize {
        match self {
            Self::Scores(scores) => scores.len(),
            Self::Answers(answers) => answers.len(),
        }
    }
}

/// Nothing is waited for any more when it goes.
struct WaitGuard<'a>(&'a ScoreClient);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.set_waiting(None);
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
