//! What a question may cost: tokens by the model, memory and time by the server.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use plaudit_nn::qwen3_vl::{FrameSampling, QuestionSize, VlmError};
use plaudit_reward::trend::{AnswerPlace, ContentPart, Conversation, LocalVlm, RgbImage, Video};
use plaudit_serve::{ApiError, Cost};

/// Bytes of text beyond which a token cannot be long enough: it is not even tokenized.
const BYTES_PER_TOKEN: usize = 64;
/// Positions of a model whose configuration does not say how many it knows.
const DEFAULT_POSITIONS: usize = 32_768;
/// Sides of the images that a model's speed is measured with, and the time that is enough.
const PROBE_SIDES: [usize; 5] = [32, 64, 128, 256, 512];
const PROBE_TIME: Duration = Duration::from_millis(50);

/// What a question may cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkBudget {
    /// Tokens of a question and its answer.
    positions: usize,
    /// Operations per second, as measured.
    speed: f64,
    /// Seconds of computing.
    most_seconds: f64,
    threads: usize,
}

/// What is computed of a question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// The longest answer, in tokens.
    pub(super) new_tokens: usize,
    /// Answers, which are found together.
    pub(super) answers: usize,
    /// How often the network goes over the question, one time after another.
    pub(super) passes: usize,
}

impl Work {
    /// One look, and nothing generated.
    pub(super) const READ_ONCE: Self = Self { new_tokens: 0, answers: 1, passes: 1 };
}

impl WorkBudget {
    /// Measures the model's speed.
    pub(super) fn measure(model: &LocalVlm, most_seconds: f64) -> Result<Self, VlmError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut speed = f64::INFINITY;
        for side in PROBE_SIDES {
            let asked = probe(side);
            let operations = model.config().cost(model.question_size(&asked)?, 0, threads).operations;
            let began = Instant::now();
            let inputs = match model.inputs(&asked) {
                // It takes no larger images; what it takes was measured.
                Err(VlmError::TooLong { .. }) => break,
                inputs => inputs?,
            };
            model.label_logits(&[inputs])?;
            let took = began.elapsed();
            speed = operations / took.as_secs_f64().max(1e-9);
            if took >= PROBE_TIME {
                break;
            }
        }
        let positions = model.config().text.max_positions.unwrap_or(DEFAULT_POSITIONS);
        Ok(Self { positions, speed, most_seconds, threads })
    }

    /// What questions cost of which so much is computed; refused where it is too much.
    pub(super) fn cost(
        &self,
        model: &LocalVlm,
        asked: &[Conversation<'_>],
        work: Work,
    ) -> Result<Cost, ApiError> {
        let Work { new_tokens, answers, passes } = work;
        let (mut bytes, mut operations, mut largest) = (0, 0.0, QuestionSize::default());
        for question in asked {
            self.check_text(question)?;
            let size = model.question_size(question).map_err(|error| ApiError::invalid(error.to_string()))?;
            self.check_tokens(size, new_tokens)?;
            let cost = model.config().cost(size, new_tokens, self.threads);
            bytes = cost.bytes.max(bytes);
            operations += cost.operations * (answers * passes) as f64;
            if size.tokens > largest.tokens {
                largest = size;
            }
        }
        self.check_time(operations, largest)?;
        // So many go through the network at once.
        let together = (asked.len() * answers).min(model.batch_size()).max(1);
        Ok(Cost { bytes: bytes.saturating_mul(together) })
    }

    fn check_text(&self, question: &Conversation<'_>) -> Result<(), ApiError> {
        let system = question.system.as_ref().map_or(0, |words| words.len());
        let bytes = system + question.text().len();
        let most = self.positions.saturating_mul(BYTES_PER_TOKEN);
        if bytes <= most {
            return Ok(());
        }
        Err(ApiError::too_large(format!("{bytes} bytes of text, where {most} are allowed")))
    }

    fn check_tokens(&self, size: QuestionSize, new_tokens: usize) -> Result<(), ApiError> {
        let QuestionSize { tokens, visual_tokens, .. } = size;
        if tokens.saturating_add(new_tokens) <= self.positions {
            return Ok(());
        }
        Err(ApiError::too_large(format!(
            "the question has {tokens} tokens, {visual_tokens} of them of images, and its answer up to {new_tokens} (max_tokens); \
             the model takes {} in all",
            self.positions
        )))
    }

    fn check_time(&self, operations: f64, size: QuestionSize) -> Result<(), ApiError> {
        let seconds = operations / self.speed;
        if seconds <= self.most_seconds {
            return Ok(());
        }
        let QuestionSize { tokens, patches, .. } = size;
        Err(ApiError::too_large(format!(
            "the answer would take about {seconds:.0} s of computing, where {} s are allowed: {tokens} tokens, {patches} \
             patches of images",
            self.most_seconds
        )))
    }
}

/// A question with a video of two frames of this side.
fn probe(side: usize) -> Conversation<'static> {
    let frame = |level: usize| RgbImage {
        height: side,
        width: side,
        pixels: Cow::Owned((0..side * side * 3).map(|at| ((at + level) % 251) as u8).collect()),
    };
    let video = Video { frames: vec![frame(0), frame(1)], fps: 2.0, sampling: FrameSampling::All };
    let parts = vec![ContentPart::Video(video), ContentPart::Text("Well?".into())];
    Conversation { system: None, parts, answer: AnswerPlace::NextTurn }
}
