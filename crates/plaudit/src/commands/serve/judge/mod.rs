//! A vision-language model as a model that is served.
//!
//! A chat is answered in words, or by the logits of labels. Frames of windows are scored by the probabilities of the three
//! labels. A judge that was tuned is asked as it was tuned (`as_tuned.rs`).

mod as_tuned;
mod budget;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use plaudit_core::Seed;
use plaudit_nn::qwen3_vl::{Inputs, Quantization, VlmError};
use plaudit_reward::endpoint::VISION_LANGUAGE_MODEL;
use plaudit_reward::open::{OpenOptions, OpenVlm};
use plaudit_reward::trend::{
    Completion, CompletionListener, CompletionOptions, CompletionToken, Conversation, JudgeCard, JudgeFolder,
    LabelLogits, LabelProbabilities, LocalVlm, Trend,
};
use plaudit_serve::{
    Answer, AnswerResult, ApiError, Asked, Chat, ChatAnswer, ChatChoice, ChatOptions, Cost, FrameBlock,
    Model, ModelInfo, Question, Scores, TextPiece, TokenLogprob,
};
use serde_json::json;

use self::as_tuned::{AskedAs, WindowQuestion};
use self::budget::{Work, WorkBudget};
use super::super::reward::{no_gpu, unopened};
use super::{ServeOptions, details};
use crate::build::judge_device;
use crate::failure::Failure;

/// The longest answer where a client does not say.
const DEFAULT_NEW_TOKENS: usize = 128;

/// A vision-language model that is served.
pub(super) struct ServedVlm {
    info: ModelInfo,
    model: LocalVlm,
    asked_as: AskedAs,
    budget: WorkBudget,
    /// The seed of the next answer that is sampled without one.
    seeds: AtomicU64,
}

/// The model in its folder, which was found where the user said (`path`).
pub(super) fn open(
    path: &Path,
    folder: JudgeFolder,
    options: &ServeOptions,
) -> Result<Arc<ServedVlm>, Failure> {
    let (device, precision) = judge_device(options.device, options.bf16).map_err(no_gpu)?;
    let folder = JudgeFolder { lora: options.lora.clone().or(folder.lora), ..folder };
    let quantization = if options.int8 { Quantization::Int8 } else { Quantization::None };
    let how = OpenOptions { device, precision, quantization, ..OpenOptions::default() };
    let opened = OpenVlm::open(folder, &how).map_err(unopened)?;
    let capabilities = opened.capabilities();
    let model = opened.model;
    // Where it was tuned is this machine's business.
    let card = JudgeCard {
        trained_on: Vec::new(),
        validated_on: Vec::new(),
        ..model.card().cloned().unwrap_or_default()
    };
    let own = json!({
        "kind": VISION_LANGUAGE_MODEL, "task": options.task, "label_temperature": model.temperature(), "judge": card,
    });
    let details = details(&capabilities, own);
    let info = ModelInfo { name: options.name_for(path), details };
    let asked_as = AskedAs::new(model.card(), options.cameras, options.task.as_deref());
    let budget = WorkBudget::measure(&model, options.max_time);
    let budget = budget.map_err(|error| Failure::runtime(error, None))?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    Ok(Arc::new(ServedVlm { info, model, asked_as, budget, seeds: AtomicU64::new(started) }))
}

fn refused(error: VlmError) -> ApiError {
    match error {
        VlmError::Input(why) => ApiError::invalid(why),
        error @ VlmError::TooLong { .. } => ApiError::too_large(error.to_string()),
        other => ApiError::failed(other.to_string()),
    }
}

/// What is wanted of a chat.
#[derive(PartialEq)]
enum Wanted<'a> {
    /// Words.
    Text,
    /// The logits of words.
    Logits(&'a [String]),
    /// The logarithms of their probabilities among all tokens.
    Logprobs(&'a [String]),
}

fn wanted(options: &ChatOptions) -> Wanted<'_> {
    match (options.label_logits.as_slice(), options.label_logprobs.as_slice()) {
        ([], []) => Wanted::Text,
        ([], words) => Wanted::Logprobs(words),
        (words, _) => Wanted::Logits(words),
    }
}

impl ServedVlm {
    /// What it is, in a line.
    pub(super) fn described(&self) -> String {
        let windows = match self.asked_as.question() {
            WindowQuestion::Task(task) => format!("; windows of frames are about: {task}"),
            WindowQuestion::Tuned(question) => format!("; windows of frames are asked: {question}"),
            WindowQuestion::Unknown => "; --task lets it score windows of frames".into(),
        };
        format!("`{}`: a vision-language model{windows}", self.info.name)
    }

    fn completion_options(&self, options: &ChatOptions, choice: usize) -> CompletionOptions {
        let seed = options.seed.unwrap_or_else(|| self.seeds.fetch_add(1, Ordering::Relaxed));
        let seed = Seed::new(seed).purpose("choice").index(choice as u64).rng().u64();
        CompletionOptions {
            top_p: options.top_p.unwrap_or(1.0),
            seed: Some(seed),
            stop: options.stop.clone(),
            logit_bias: options.logit_bias.clone(),
            presence_penalty: options.presence_penalty,
            frequency_penalty: options.frequency_penalty,
            top_logprobs: options.top_logprobs,
            ..CompletionOptions::at_temperature(options.temperature.unwrap_or(0.0), new_tokens(options))
        }
    }

    /// Answers in words. A question that cannot be encoded does not affect the others.
    fn said(&self, asked: &[(Asked<'_>, &Chat)]) -> Vec<AnswerResult> {
        let conversations: Result<Vec<_>, _> =
            asked.iter().map(|(_, chat)| self.asked_as.conversation(chat)).collect();
        let said = conversations.and_then(|conversations| self.complete(asked, &conversations));
        match said {
            Ok(said) => said.into_iter().map(|said| Ok(Answer::Chat(said))).collect(),
            Err(error) if asked.len() == 1 => vec![Err(error)],
            Err(_) => asked.iter().flat_map(|one| self.said(std::slice::from_ref(one))).collect(),
        }
    }

    fn complete(
        &self,
        asked: &[(Asked<'_>, &Chat)],
        conversations: &[Conversation<'_>],
    ) -> Result<Vec<ChatAnswer>, ApiError> {
        // One row for each choice of each question.
        let rows: Vec<(usize, usize)> = asked
            .iter()
            .enumerate()
            .flat_map(|(question, (_, chat))| (0..chat.options.choices).map(move |choice| (question, choice)))
            .collect();
        let options: Vec<CompletionOptions> = rows
            .iter()
            .map(|(question, choice)| self.completion_options(&asked[*question].1.options, *choice))
            .collect();
        let questions: Vec<_> = rows
            .iter()
            .zip(&options)
            .map(|((question, _), options)| (&conversations[*question], options))
            .collect();
        let readers = Readers { asked, rows: &rows };
        let said = self.model.complete(&questions, &readers).map_err(refused)?;
        let mut answers: Vec<ChatAnswer> =
            asked.iter().map(|_| ChatAnswer { choices: Vec::new(), prompt_tokens: 0 }).collect();
        for ((question, _), said) in rows.iter().zip(said) {
            answers[*question].prompt_tokens = said.prompt_tokens;
            answers[*question].choices.push(chat_choice(said));
        }
        Ok(answers)
    }

    /// The answers of chats that want the same words' logits.
    fn labelled(&self, asked: &[(Asked<'_>, &Chat)], wanted: &Wanted<'_>) -> Vec<AnswerResult> {
        let inputs: Vec<Result<Inputs, ApiError>> = asked
            .iter()
            .map(|(_, chat)| self.model.inputs(&self.asked_as.conversation(chat)?).map_err(refused))
            .collect();
        let all: Vec<Inputs> = inputs.iter().flatten().cloned().collect();
        let words: Vec<&str> = match wanted {
            Wanted::Text => &[][..],
            Wanted::Logits(words) | Wanted::Logprobs(words) => words,
        }
        .iter()
        .map(String::as_str)
        .collect();
        let told = all.chunks(self.model.batch_size()).map(|some| match wanted {
            Wanted::Logprobs(_) => self.model.word_logprobs(some, &words),
            Wanted::Logits(_) | Wanted::Text => self.model.word_logits(some, &words),
        });
        let told: Result<Vec<Vec<Vec<f32>>>, VlmError> = told.collect();
        let mut told = match told {
            Ok(told) => told.into_iter().flatten(),
            Err(error) => return vec![Err(refused(error)); asked.len()],
        };
        let mut answer = |inputs: Result<Inputs, ApiError>| {
            let prompt_tokens = inputs?.len();
            let numbers = told.next().unwrap_or_default();
            let likeliest =
                (0..numbers.len()).max_by(|a, b| numbers[*a].total_cmp(&numbers[*b])).unwrap_or(0);
            let text = words.get(likeliest).copied().unwrap_or_default().to_string();
            let (label_logits, label_logprobs) = match wanted {
                Wanted::Logprobs(_) => (None, Some(numbers)),
                Wanted::Logits(_) | Wanted::Text => (Some(numbers), None),
            };
            let choice = ChatChoice {
                text,
                completion_tokens: 1,
                label_logits,
                label_logprobs,
                ..ChatChoice::default()
            };
            Ok(Answer::Chat(ChatAnswer { choices: vec![choice], prompt_tokens }))
        };
        let answers: Vec<AnswerResult> = inputs.into_iter().map(&mut answer).collect();
        for ((asked, _), answer) in asked.iter().zip(&answers) {
            if let Ok(Answer::Chat(answer)) = answer {
                let text = answer.choices[0].text.clone();
                asked.client.piece(0, &TextPiece { text, token: None });
            }
        }
        answers
    }

    /// The scores of blocks; their windows go through the network together.
    fn scored(&self, blocks: &[&FrameBlock]) -> Vec<AnswerResult> {
        let inputs = |block: &&FrameBlock| {
            let asked = self.asked_as.block(block)?;
            asked.iter().map(|asked| self.model.inputs(asked).map_err(refused)).collect()
        };
        let asked: Vec<Result<Vec<Inputs>, ApiError>> = blocks.iter().map(inputs).collect();
        let all: Vec<Inputs> = asked.iter().flatten().flatten().cloned().collect();
        let logits: Result<Vec<_>, _> =
            all.chunks(self.model.batch_size()).map(|some| self.model.label_logits(some)).collect();
        let mut logits = match logits {
            Ok(logits) => logits.into_iter().flatten(),
            Err(error) => return vec![Err(refused(error)); blocks.len()],
        };
        let answer = |asked: Result<Vec<Inputs>, ApiError>| {
            let windows = asked?.len();
            scores(logits.by_ref().take(windows), self.model.temperature())
        };
        asked.into_iter().map(answer).collect()
    }

    /// Options that this model cannot follow.
    fn check_options(&self, options: &ChatOptions) -> Result<(), ApiError> {
        let vocabulary = self.model.config().text.vocab;
        if let Some((token, _)) = options.logit_bias.iter().find(|(token, _)| *token as usize >= vocabulary) {
            return Err(ApiError::invalid(format!(
                "logit_bias: the model has no token {token}, but {vocabulary}"
            )));
        }
        let words = match wanted(options) {
            Wanted::Text => return Ok(()),
            Wanted::Logits(words) | Wanted::Logprobs(words) => words,
        };
        let key = if options.label_logits.is_empty() { "label_logprobs" } else { "label_logits" };
        if options.choices > 1 {
            return Err(ApiError::invalid(format!("n: there is one answer with {key}")));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let checked = match options.label_logits.as_slice() {
            [] => self.model.word_passes(&words).map(drop),
            _ => self.model.processor().tokenizer().first_tokens(&words).map(drop),
        };
        checked.map_err(|error| ApiError::invalid(format!("{key}: {error}")))
    }

    /// What is computed of a chat.
    fn work(&self, options: &ChatOptions) -> Result<Work, ApiError> {
        match wanted(options) {
            Wanted::Text => Ok(Work { new_tokens: new_tokens(options), answers: options.choices, passes: 1 }),
            Wanted::Logits(_) => Ok(Work::READ_ONCE),
            Wanted::Logprobs(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let passes = self.model.word_passes(&words).map_err(refused)?;
                Ok(Work { passes, ..Work::READ_ONCE })
            }
        }
    }
}

fn new_tokens(options: &ChatOptions) -> usize {
    options.max_tokens.unwrap_or(DEFAULT_NEW_TOKENS)
}

/// Whoever waits for the answers of a batch: rows are choices of questions.
struct Readers<'a> {
    asked: &'a [(Asked<'a>, &'a Chat)],
    rows: &'a [(usize, usize)],
}

impl CompletionListener for Readers<'_> {
    fn is_waiting(&self, row: usize) -> bool {
        self.asked[self.rows[row].0].0.client.is_waiting()
    }

    fn piece(&self, row: usize, text: &str, token: Option<&CompletionToken>) {
        let (question, choice) = self.rows[row];
        let piece = TextPiece { text: text.into(), token: token.map(token_logprob) };
        self.asked[question].0.client.piece(choice, &piece);
    }
}

fn token_logprob(token: &CompletionToken) -> TokenLogprob {
    TokenLogprob { token: token.text.clone(), logprob: token.logprob, top: token.top.clone() }
}

fn chat_choice(said: Completion) -> ChatChoice {
    ChatChoice {
        text: said.text,
        tokens: said.tokens.map(|tokens| tokens.iter().map(token_logprob).collect()),
        completion_tokens: said.completion_tokens,
        is_truncated: said.is_truncated,
        ..ChatChoice::default()
    }
}

fn scores(logits: impl Iterator<Item = LabelLogits>, temperature: f64) -> AnswerResult {
    let mut numbers = Vec::new();
    for logits in logits {
        let probabilities = LabelProbabilities::of(logits, temperature);
        let probabilities =
            probabilities.ok_or_else(|| ApiError::failed("the model's weights are broken"))?;
        numbers.extend([probabilities.positive, probabilities.negative, probabilities.unclear]);
    }
    let columns = Trend::LABELS.map(|label| label.word().to_string()).to_vec();
    Ok(Answer::Scores(Scores { columns, numbers, success: None }))
}

impl Model for ServedVlm {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn cost(&self, question: &Question) -> Result<Cost, ApiError> {
        match question {
            Question::Chat(chat) => {
                self.check_options(&chat.options)?;
                let asked = [self.asked_as.conversation(chat)?];
                self.budget.cost(&self.model, &asked, self.work(&chat.options)?)
            }
            Question::Score(block) => {
                self.budget.cost(&self.model, &self.asked_as.block(block)?, Work::READ_ONCE)
            }
        }
    }

    fn answer(&self, questions: &[Asked<'_>]) -> Vec<AnswerResult> {
        let mut answers: Vec<AnswerResult> =
            vec![Err(ApiError::failed("the model did not see the request")); questions.len()];
        let mut put = |places: &[usize], given: Vec<AnswerResult>| {
            for (place, answer) in places.iter().zip(given) {
                answers[*place] = answer;
            }
        };
        let mut open: Vec<(usize, (Asked<'_>, &Chat))> = Vec::new();
        let mut blocks: Vec<(usize, &FrameBlock)> = Vec::new();
        for (place, asked) in questions.iter().enumerate() {
            match asked.question {
                Question::Chat(chat) => open.push((place, (*asked, chat))),
                Question::Score(block) => blocks.push((place, block)),
            }
        }
        let (places, shown): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        put(&places, self.scored(&shown));
        // What is wanted alike goes through the network together; a sample depends on nothing else.
        while let Some((_, (_, first))) = open.first() {
            let key = (wanted(&first.options), is_sampled(first));
            let (alike, others): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|(_, (_, chat))| (wanted(&chat.options), is_sampled(chat)) == key);
            let (places, chats): (Vec<_>, Vec<_>) = alike.into_iter().unzip();
            put(
                &places,
                if key.0 == Wanted::Text { self.said(&chats) } else { self.labelled(&chats, &key.0) },
            );
            open = others;
        }
        answers
    }
}

fn is_sampled(chat: &Chat) -> bool {
    chat.options.temperature.is_some_and(|temperature| temperature > 0.0)
}
