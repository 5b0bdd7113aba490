//! What workers say to each other, and how it is written down.
//!
//! ```text
//! actor → env     Play, Finish            env → actor      Ready, Played, Need, Failed
//! env → reward    Describe, Score, Ask    reward → env     Described, Scored, Answered, NotScored
//! env → rollout   Weights, Act, Finish    rollout → env    Decided, Unknown, NotDecided, NoPolicy
//! ```

use plaudit_rl::{Experience, ExplorerParams, RolloutState};

use super::encoding::{
    put_experience, put_facts, put_obs, put_params, put_spec, put_state, take_experience, take_facts,
    take_obs, take_params, take_spec, take_state,
};
use crate::link::{Payload, Reader, WireError};
use plaudit_core::{Decision, EnvSpec, Facts, FrameShape, Obs, Seed};

/// From the actor to an environment's worker.
#[derive(Debug)]
pub enum ToEnv {
    /// Play a segment.
    Play(Box<Play>),
    /// There is nothing left to play.
    Finish,
}

/// One segment to play.
#[derive(Debug, Clone)]
pub struct Play {
    /// The process that asks. Whoever takes its place is not given what was played for it.
    pub asker: u64,
    /// Its number. Every segment of a worker has one, and none is counted twice.
    pub segment: u64,
    /// Steps of the rollout before it.
    pub start: u64,
    /// Its steps.
    pub steps: u64,
    /// The version of the policy to act with.
    pub version: u64,
    /// That policy, if the worker may not have it.
    pub params: Option<ExplorerParams>,
    /// Where the environments are, if the worker may not be there.
    pub state: Option<RolloutState>,
    /// Whether the reward looks for a newer model first.
    pub refresh: bool,
    /// Whether the learner needs the frames.
    pub keep_frames: bool,
    /// Whether somebody records what the environments know beside.
    pub keep_facts: bool,
}

/// From an environment's worker to the actor.
#[derive(Debug)]
pub enum FromEnv {
    /// It is there, and this is what it has.
    Ready(Box<EnvFacts>),
    /// A segment.
    Played(Box<Played>),
    /// It cannot play a segment without something.
    Need {
        /// The segment.
        segment: u64,
    },
    /// It could not play a segment.
    Failed {
        /// The segment.
        segment: u64,
        /// Whether the reward failed: environments and policy are all right.
        by_reward: bool,
        /// Why.
        problem: String,
    },
}

/// The environments of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvFacts {
    /// What they are like; `num_envs` is the worker's own.
    pub spec: EnvSpec,
    /// The row of the whole batch that its first one is.
    pub first_row: u64,
    /// Observations before a segment that its reward asks for.
    pub context: u64,
    /// Whether episodes may turn out to be worthless.
    pub may_break: bool,
}

/// A segment that was played and labelled.
#[derive(Debug)]
pub struct Played {
    /// The process that asked for it.
    pub asker: u64,
    /// Its number.
    pub segment: u64,
    /// Steps of the rollout before it.
    pub start: u64,
    /// The version of the policy that acted.
    pub version: u64,
    /// The segment, decisions and rewards.
    pub experience: Experience,
    /// What the environments know beside, step by step; empty where nobody records it.
    pub facts: Vec<Facts>,
    /// Whether the environments could not be restored and began anew.
    pub began_anew: bool,
    /// How long labelling took.
    pub reward_secs: f64,
    /// How long all of it took.
    pub secs: f64,
}

/// To a reward worker.
#[derive(Debug)]
pub enum ToReward {
    /// What does it score?
    Describe,
    /// Score frames.
    Score(ScoreRequest),
    /// Answer questions.
    Ask(QuestionRequest),
    /// There is nothing left to score.
    Finish,
}

/// Frames to score: u8, `[views, count, height, width, channels]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreRequest {
    /// Its number.
    pub id: u64,
    /// How many frames.
    pub count: u64,
    /// Views of each.
    pub views: u64,
    /// The shape of a view.
    pub shape: FrameShape,
    /// The pixels.
    pub pixels: Vec<u8>,
}

/// Questions to a model that answers them. What is in one is the business of whoever asks and of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionRequest {
    /// Its number.
    pub id: u64,
    /// How all of them are to be answered.
    pub mode: Vec<u8>,
    /// The questions.
    pub questions: Vec<Vec<u8>>,
}

/// From a reward worker.
#[derive(Debug, Clone, PartialEq)]
pub enum FromReward {
    /// What it scores.
    Described(ModelFacts),
    /// Scores, one for each frame.
    Scored {
        /// The request.
        id: u64,
        /// Grows when the model changes.
        version: u64,
        /// The scores.
        scores: Vec<f32>,
    },
    /// Answers, one for each question.
    Answered {
        /// The request.
        id: u64,
        /// Grows when the model changes.
        version: u64,
        /// The answers.
        answers: Vec<Vec<u8>>,
    },
    /// No scores, and no answers.
    NotScored {
        /// The request.
        id: u64,
        /// Why.
        problem: String,
    },
}

/// What a model says about itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFacts {
    /// Its views, in order; none of a model that answers questions.
    pub image_keys: Vec<String>,
    /// The score above which it means success, if it has one.
    pub threshold: Option<f32>,
    /// What is known of a model that answers questions, as whoever asks reads it; not set: it scores frames.
    pub card: Option<String>,
}

/// To a worker that chooses actions.
#[derive(Debug)]
pub enum ToRollout {
    /// The policy has changed.
    Weights {
        /// Its version.
        version: u64,
        /// The environments that it acts in, which decide its networks.
        spec: EnvSpec,
        /// The policy.
        params: ExplorerParams,
    },
    /// What is to be done?
    Act {
        /// The request.
        id: u64,
        /// The version of the policy to act with.
        version: u64,
        /// What is seen.
        obs: Obs,
        /// The seed of this step.
        seed: Seed,
    },
    /// Nothing more.
    Finish,
}

/// From a worker that chooses actions.
#[derive(Debug, Clone, PartialEq)]
pub enum FromRollout {
    /// What to do.
    Decided {
        /// The request.
        id: u64,
        /// The actions.
        decision: Decision,
    },
    /// It was not sent this policy, or its process was started again since.
    Unknown {
        /// The request.
        id: u64,
        /// The version of the policy that was asked for.
        version: u64,
    },
    /// Nothing was chosen.
    NotDecided {
        /// The request.
        id: u64,
        /// Why.
        problem: String,
    },
    /// The policy that was sent cannot be used.
    NoPolicy {
        /// Its version.
        version: u64,
        /// Why.
        problem: String,
    },
}

impl ToEnv {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Play(play) => {
                let mut to = Payload::new(1);
                [play.asker, play.segment, play.start, play.steps, play.version]
                    .into_iter()
                    .for_each(|number| to.u64(number));
                to.bool(play.refresh);
                to.bool(play.keep_frames);
                to.bool(play.keep_facts);
                put_option(&mut to, play.params.as_ref(), put_params);
                put_option(&mut to, play.state.as_ref(), put_state);
                to
            }
            Self::Finish => Payload::new(2),
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => Self::Play(Box::new(Play {
                asker: from.u64()?,
                segment: from.u64()?,
                start: from.u64()?,
                steps: from.u64()?,
                version: from.u64()?,
                refresh: from.bool()?,
                keep_frames: from.bool()?,
                keep_facts: from.bool()?,
                params: take_option(&mut from, take_params)?,
                state: take_option(&mut from, take_state)?,
            })),
            2 => Self::Finish,
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

impl FromEnv {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Ready(facts) => {
                let mut to = Payload::new(1);
                put_spec(&mut to, &facts.spec);
                to.u64(facts.first_row);
                to.u64(facts.context);
                to.bool(facts.may_break);
                to
            }
            Self::Played(played) => {
                let mut to = Payload::new(2);
                [played.asker, played.segment, played.start, played.version]
                    .into_iter()
                    .for_each(|number| to.u64(number));
                to.bool(played.began_anew);
                to.f64(played.reward_secs);
                to.f64(played.secs);
                put_facts(&mut to, played.facts);
                put_experience(&mut to, played.experience);
                to
            }
            Self::Need { segment } => {
                let mut to = Payload::new(3);
                to.u64(segment);
                to
            }
            Self::Failed { segment, by_reward, problem } => {
                let mut to = Payload::new(4);
                to.u64(segment);
                to.bool(by_reward);
                to.text(&problem);
                to
            }
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => Self::Ready(Box::new(EnvFacts {
                spec: take_spec(&mut from)?,
                first_row: from.u64()?,
                context: from.u64()?,
                may_break: from.bool()?,
            })),
            2 => Self::Played(Box::new(Played {
                asker: from.u64()?,
                segment: from.u64()?,
                start: from.u64()?,
                version: from.u64()?,
                began_anew: from.bool()?,
                reward_secs: from.f64()?,
                secs: from.f64()?,
                facts: take_facts(&mut from)?,
                experience: take_experience(&mut from)?,
            })),
            3 => Self::Need { segment: from.u64()? },
            4 => Self::Failed {
                segment: from.u64()?,
                by_reward: from.bool()?,
                problem: from.text()?.to_string(),
            },
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

impl ToReward {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Describe => Payload::new(1),
            Self::Score(request) => {
                let mut to = Payload::new(2);
                let FrameShape { height, width, channels } = request.shape;
                [request.id, request.count, request.views].into_iter().for_each(|number| to.u64(number));
                [height, width, channels].into_iter().for_each(|number| to.u64(number as u64));
                to.bytes(request.pixels);
                to
            }
            Self::Finish => Payload::new(3),
            Self::Ask(QuestionRequest { id, mode, questions }) => {
                let mut to = Payload::new(4);
                to.u64(id);
                to.bytes(mode);
                put_items(&mut to, questions);
                to
            }
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => Self::Describe,
            2 => Self::Score(take_score(&mut from)?),
            3 => Self::Finish,
            4 => Self::Ask(QuestionRequest {
                id: from.u64()?,
                mode: from.bytes()?.to_vec(),
                questions: take_items(&mut from)?,
            }),
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

fn take_score(from: &mut Reader<'_>) -> Result<ScoreRequest, WireError> {
    let (id, count, views) = (from.u64()?, from.u64()?, from.u64()?);
    let most = 1 << 16;
    let shape =
        FrameShape { height: from.count(most)?, width: from.count(most)?, channels: from.count(most)? };
    let pixels = from.bytes()?;
    let expected = count.checked_mul(views).and_then(|images| images.checked_mul(shape.bytes() as u64));
    if expected != Some(pixels.len() as u64) {
        return Err(from.problem(format!("{} bytes are not {count} frames of {views} views", pixels.len())));
    }
    Ok(ScoreRequest { id, count, views, shape, pixels: pixels.to_vec() })
}

impl FromReward {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Described(facts) => {
                let mut to = Payload::new(1);
                to.u64(facts.image_keys.len() as u64);
                facts.image_keys.iter().for_each(|key| to.text(key));
                put_option(&mut to, facts.threshold.as_ref(), |to, threshold| to.f32(*threshold));
                put_option(&mut to, facts.card.as_ref(), |to, card| to.text(card));
                to
            }
            Self::Answered { id, version, answers } => {
                let mut to = Payload::new(4);
                to.u64(id);
                to.u64(version);
                put_items(&mut to, answers);
                to
            }
            Self::Scored { id, version, scores } => {
                let mut to = Payload::new(2);
                to.u64(id);
                to.u64(version);
                to.floats(scores);
                to
            }
            Self::NotScored { id, problem } => {
                let mut to = Payload::new(3);
                to.u64(id);
                to.text(&problem);
                to
            }
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => {
                let keys = from.items(8)?;
                let keys = (0..keys).map(|_| from.text().map(String::from)).collect::<Result<_, _>>()?;
                let threshold = take_option(&mut from, |from| from.f32())?;
                let card = take_option(&mut from, |from| from.text().map(String::from))?;
                Self::Described(ModelFacts { image_keys: keys, threshold, card })
            }
            4 => Self::Answered { id: from.u64()?, version: from.u64()?, answers: take_items(&mut from)? },
            2 => Self::Scored { id: from.u64()?, version: from.u64()?, scores: from.floats()? },
            3 => Self::NotScored { id: from.u64()?, problem: from.text()?.to_string() },
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

impl ToRollout {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Weights { version, spec, params } => {
                let mut to = Payload::new(1);
                to.u64(version);
                put_spec(&mut to, &spec);
                put_params(&mut to, &params);
                to
            }
            Self::Act { id, version, obs, seed } => {
                let mut to = Payload::new(2);
                to.u64(id);
                to.u64(version);
                seed.to_parts().into_iter().for_each(|part| to.u64(part));
                put_obs(&mut to, obs);
                to
            }
            Self::Finish => Payload::new(3),
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => Self::Weights {
                version: from.u64()?,
                spec: take_spec(&mut from)?,
                params: take_params(&mut from)?,
            },
            2 => {
                let (id, version) = (from.u64()?, from.u64()?);
                let seed = Seed::from_parts([from.u64()?, from.u64()?]);
                Self::Act { id, version, seed, obs: take_obs(&mut from)? }
            }
            3 => Self::Finish,
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

impl FromRollout {
    /// As it travels.
    pub fn encode(self) -> Payload {
        match self {
            Self::Decided { id, decision } => {
                let mut to = Payload::new(1);
                to.u64(id);
                to.floats(decision.actions);
                to.floats(decision.log_probs);
                to.floats(decision.values);
                to
            }
            Self::NotDecided { id, problem } => {
                let mut to = Payload::new(2);
                to.u64(id);
                to.text(&problem);
                to
            }
            Self::Unknown { id, version } => {
                let mut to = Payload::new(3);
                to.u64(id);
                to.u64(version);
                to
            }
            Self::NoPolicy { version, problem } => {
                let mut to = Payload::new(4);
                to.u64(version);
                to.text(&problem);
                to
            }
        }
    }

    /// From what arrived.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let message = match from.u8()? {
            1 => {
                let id = from.u64()?;
                let decision =
                    Decision { actions: from.floats()?, log_probs: from.floats()?, values: from.floats()? };
                Self::Decided { id, decision }
            }
            2 => Self::NotDecided { id: from.u64()?, problem: from.text()?.to_string() },
            3 => Self::Unknown { id: from.u64()?, version: from.u64()? },
            4 => Self::NoPolicy { version: from.u64()?, problem: from.text()?.to_string() },
            other => return Err(unknown(&from, other)),
        };
        from.finish()?;
        Ok(message)
    }
}

fn unknown(from: &Reader<'_>, kind: u8) -> WireError {
    from.problem(format!("there is no message of kind {kind} here"))
}

fn put_items(to: &mut Payload, items: Vec<Vec<u8>>) {
    to.u64(items.len() as u64);
    items.into_iter().for_each(|item| to.bytes(item));
}

fn take_items(from: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, WireError> {
    let items = from.items(8)?;
    (0..items).map(|_| from.bytes().map(<[u8]>::to_vec)).collect()
}

fn put_option<T>(to: &mut Payload, value: Option<&T>, put: impl FnOnce(&mut Payload, &T)) {
    to.bool(value.is_some());
    if let Some(value) = value {
        put(to, value);
    }
}

fn take_option<'a, T>(
    from: &mut Reader<'a>,
    take: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    match from.bool()? {
        true => take(from).map(Some),
        false => Ok(None),
    }
}
