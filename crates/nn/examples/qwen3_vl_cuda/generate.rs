//! Answers with kept keys and values compared with answers for which every token was computed again.

use std::error::Error;
use std::time::Instant;

use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{
    ContentPart, Inputs, Message, PromptLayout, QwenVl, RgbImage, Role, ScoreCache, VlmError, chat, likeliest,
};
use serde_json::{Value, json};

use crate::check::SHARE;
use crate::{folder, frame, open, window};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Chooses the next token by the number of the sequence, the number of the token, and the logits of all tokens.
type ChooseAt<'a> = dyn FnMut(usize, usize, &[f32]) -> Option<u32> + 'a;

/// Tokens of the longest prompt: its keys are more than one tile for each block that attends to them.
const LONG: usize = 4500;

/// An answer, and the logits before each of its tokens.
#[derive(Clone, Default, PartialEq)]
struct Answer {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

/// Compares, over prompts with and without images, alone and together. `kept` is what keys and values that are kept give, `recomputed` what
/// whole prompts give token by token, `exact` the CPU in fp32. Logits are compared along the recomputed answer; they may differ by
/// [`SHARE`] of the largest, and so may the most likely words only where two logits are closer than that.
pub(crate) fn check(name: &str, tokens: usize, with_cpu: bool) -> Outcome<Value> {
    let model = open(name)?;
    let exact = match with_cpu {
        true => Some(QwenVl::open(folder(name), Device::Cpu, Precision::Fp32)?),
        false => None,
    };
    let mut results = Vec::new();
    for (what, prompts) in prompts(&model, tokens)? {
        let result = compare(&model, exact.as_ref(), what, &prompts, tokens);
        let result = result.unwrap_or_else(|error| json!({ "prompts": what, "error": error.to_string() }));
        eprintln!("{name}: {what}: passes {}", result["passes"]); // what was done, should time run out
        results.push(result);
    }
    Ok(json!({ "cases": results, "refusals": refusals(&model)? }))
}

fn compare(
    model: &QwenVl,
    exact: Option<&QwenVl>,
    what: &str,
    prompts: &[Inputs],
    tokens: usize,
) -> Outcome<Value> {
    let recomputed = recomputed(model, prompts, tokens)?;
    let largest = recomputed.iter().flat_map(|answer| answer.logits.iter().flatten());
    let largest = largest.fold(0.0f32, |most, logit| most.max(logit.abs()));
    let along = |model: &QwenVl, ends: &dyn Fn(usize) -> usize| {
        answers(model, prompts, tokens, &mut |b, step, _| {
            (step + 1 < ends(b)).then(|| recomputed[b].tokens[step])
        })
    };
    let forced = along(model, &|_| tokens)?;
    // Sequences that end one after another.
    let staggered = along(model, &|b| tokens.min(2 + 3 * b))?;
    let again = along(model, &|_| tokens)?;
    let interleaved = answers(model, prompts, tokens, &mut |b, step, _| {
        // Another question between two tokens uses the same memory for activations.
        let _ = model.label_logits(&prompts[..1], &[0, 1]);
        (step + 1 < tokens).then(|| recomputed[b].tokens[step])
    })?;
    let greedy = answers(model, prompts, tokens, &mut |_, _, logits| Some(likeliest(logits)))?;
    let off = worst(&forced, &recomputed);
    let staggered_off = worst(&staggered, &recomputed);
    let unexplained = unexplained(&greedy, &recomputed, SHARE * largest);
    let exact_part = exact.map(|exact| against_cpu(exact, prompts, tokens, &recomputed, &forced, &greedy));
    let exact_part = exact_part.transpose()?;
    let is_near_cpu = exact_part.as_ref().is_none_or(|part| part["passes"] == true);
    let passes = off < SHARE * largest
        && staggered_off < SHARE * largest
        && forced == again
        && forced == interleaved
        && unexplained == 0
        && is_near_cpu;
    Ok(json!({
        "prompts": what, "lengths": prompts.iter().map(Inputs::len).collect::<Vec<_>>(), "passes": passes,
        "largest_logit": largest, "kept_from_recomputed": off, "share": off / largest,
        "share_by_step": by_step(&forced, &recomputed, largest), "staggered": staggered_off,
        "repeats": forced == again, "interleaved_is_the_same": forced == interleaved,
        "same_words": same_words(&greedy, &recomputed), "unexplained_words": unexplained, "cpu": exact_part,
        "speed": speed(model, prompts, tokens)?,
    }))
}

/// Kept and recomputed logits compared with those of the CPU, along the recomputed answer; and the words of all three.
fn against_cpu(
    exact: &QwenVl,
    prompts: &[Inputs],
    tokens: usize,
    recomputed: &[Answer],
    kept: &[Answer],
    greedy: &[Answer],
) -> Outcome<Value> {
    let expected = answers(exact, prompts, tokens, &mut |b, step, _| {
        (step + 1 < tokens).then(|| recomputed[b].tokens[step])
    })?;
    let own = answers(exact, prompts, tokens, &mut |_, _, logits| Some(likeliest(logits)))?;
    let largest = expected.iter().flat_map(|answer| answer.logits.iter().flatten());
    let largest = largest.fold(0.0f32, |most, logit| most.max(logit.abs()));
    let off = worst(kept, &expected);
    Ok(json!({
        "passes": off < SHARE * largest, "largest_logit": largest, "kept": off, "recomputed": worst(recomputed, &expected),
        "share": off / largest, "same_words_kept": same_words(greedy, &own), "same_words_recomputed": same_words(recomputed, &own),
    }))
}

/// Prompts by what they are.
fn prompts(model: &QwenVl, tokens: usize) -> Outcome<Vec<(&'static str, Vec<Inputs>)>> {
    let processor = model.processor();
    let layout = PromptLayout::VideosFirst;
    let windows = [([128, 128], 4), ([64, 96], 2), ([160, 64], 6)];
    let windows = windows
        .iter()
        .enumerate()
        .map(|(i, (size, frames))| window(processor, 8 * i, *frames, *size, layout));
    let windows = windows.collect::<Result<Vec<_>, _>>()?;
    let asked = |content| processor.in_template(chat(&[Message { role: Role::User, content }], true));
    let text = |words: usize| {
        let words = "put the red cube on the green spot ".split_inclusive(' ').cycle().take(words).collect();
        processor.encode(&asked(vec![ContentPart::Text(words)]), Vec::new())
    };
    let [first, second] = [(3, [90, 200]), (5, [56, 56])].map(|(number, size)| (frame(number, size), size));
    let images =
        [&first, &second].map(|(rgb, [height, width])| RgbImage { rgb, height: *height, width: *width });
    let images = images.into_iter().map(|image| processor.image(image)).collect::<Result<Vec<_>, _>>()?;
    let content = vec![ContentPart::Image, ContentPart::Image, ContentPart::Text("Which one?".into())];
    let images = processor.encode(&asked(content), images)?;
    let mut together = vec![text(3)?, images.clone(), text(200)?];
    together.extend(windows.iter().cloned());
    let longest = model.config().text.max_positions.unwrap_or(usize::MAX).min(LONG + tokens) - tokens;
    let (short, long) = (text(1)?.len(), text(101)?.len());
    let many = (longest - short) * 100 / (long - short);
    Ok(vec![
        ("a window", windows[..1].to_vec()),
        ("a few words", vec![text(3)?]),
        ("images", vec![images]),
        ("windows of three sizes", windows.clone()),
        ("all together", together),
        ("eight windows", vec![windows[0].clone(); 8]),
        ("many words", vec![text(many - 10)?, text(5)?]),
    ])
}

/// What `choose` makes of logits, by sequence and step; the answers with all logits they had.
fn answers(
    model: &QwenVl,
    prompts: &[Inputs],
    tokens: usize,
    choose: &mut ChooseAt<'_>,
) -> Result<Vec<Answer>, VlmError> {
    let mut answers = vec![Answer::default(); prompts.len()];
    model.generate_by(prompts, tokens, &mut |b, logits| {
        let answer = &mut answers[b];
        let token = choose(b, answer.logits.len(), logits);
        answer.logits.push(logits.to_vec());
        answer.tokens.extend(token);
        token
    })?;
    Ok(answers)
}

/// The most likely answers, every token from the whole prompt.
fn recomputed(model: &QwenVl, prompts: &[Inputs], tokens: usize) -> Result<Vec<Answer>, VlmError> {
    let vocabulary: Vec<u32> = (0..model.config().text.vocab as u32).collect();
    let mut answers = vec![Answer::default(); prompts.len()];
    let mut prompts = prompts.to_vec();
    let mut cache = ScoreCache::of_bytes(1 << 30);
    for _ in 0..tokens {
        let logits = model.score(&prompts, &vocabulary, &mut cache)?;
        for ((prompt, answer), logits) in prompts.iter_mut().zip(&mut answers).zip(logits) {
            let token = likeliest(&logits);
            answer.tokens.push(token);
            answer.logits.push(logits);
            prompt.ids.push(token);
            prompt.positions.axes.push([prompt.positions.next; 3]);
            prompt.positions.next += 1;
        }
    }
    Ok(answers)
}

fn largest_difference(one: &[f32], other: &[f32]) -> f32 {
    // What is no number counts as the largest.
    let differences = one.iter().zip(other).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, off| if off <= most { most } else { off })
}

/// The largest difference of logits, as far as both answers go.
fn worst(found: &[Answer], expected: &[Answer]) -> f32 {
    let steps = found.iter().zip(expected).flat_map(|(one, other)| one.logits.iter().zip(&other.logits));
    steps
        .map(|(one, other)| largest_difference(one, other))
        .fold(0.0, |most, off| if off <= most { most } else { off })
}

/// The largest difference after each token, as a share of the largest logit.
fn by_step(found: &[Answer], expected: &[Answer], largest: f32) -> Vec<f32> {
    let steps = found.iter().map(|answer| answer.logits.len()).max().unwrap_or(0);
    let at = |step: usize| {
        let pairs = found
            .iter()
            .zip(expected)
            .filter_map(|(one, other)| one.logits.get(step).zip(other.logits.get(step)));
        pairs
            .map(|(one, other)| largest_difference(one, other))
            .fold(0.0, |most, off| if off <= most { most } else { off })
    };
    (0..steps).map(|step| at(step) / largest).collect()
}

/// Words that are alike, and all.
fn same_words(found: &[Answer], expected: &[Answer]) -> [usize; 2] {
    let alike = |(one, other): (&Answer, &Answer)| {
        one.tokens.iter().zip(&other.tokens).filter(|(one, other)| one == other).count()
    };
    [found.iter().zip(expected).map(alike).sum(), expected.iter().map(|answer| answer.tokens.len()).sum()]
}

/// Answers whose first other word is no matter of rounding: its logit was further below the largest than this.
fn unexplained(found: &[Answer], expected: &[Answer], close: f32) -> usize {
    let is_unexplained = |(one, other): &(&Answer, &Answer)| {
        let step = one.tokens.iter().zip(&other.tokens).position(|(one, other)| one != other);
        step.is_some_and(|step| {
            let logits = &other.logits[step];
            logits[other.tokens[step] as usize] - logits[one.tokens[step] as usize] > close
        })
    };
    found.iter().zip(expected).filter(is_unexplained).count()
}

/// Tokens a second, all prompts together, prompts included; and milliseconds a token after the first.
fn speed(model: &QwenVl, prompts: &[Inputs], tokens: usize) -> Outcome<Value> {
    let mut kept = Vec::new();
    let mut per_token = Vec::new();
    for _ in 0..3 {
        let (start, mut first) = (Instant::now(), None);
        model.generate_by(prompts, tokens, &mut |_, logits| {
            first.get_or_insert_with(Instant::now);
            Some(likeliest(logits))
        })?;
        kept.push(start.elapsed().as_secs_f64());
        per_token.extend(first.map(|first| first.elapsed().as_secs_f64() * 1e3 / (tokens.max(2) - 1) as f64));
    }
    let start = Instant::now();
    recomputed(model, prompts, tokens)?;
    let again = start.elapsed().as_secs_f64();
    let all = (prompts.len() * tokens) as f64;
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(json!({
        "kept_tokens_per_s": all / least(&kept), "recomputed_tokens_per_s": all / again,
        "kept_ms_per_step": least(&per_token),
    }))
}

/// What is said to answers that no memory holds, to tokens that are not there, and to empty prompts.
fn refusals(model: &QwenVl) -> Outcome<Value> {
    let window = window(model.processor(), 0, 4, [128, 128], PromptLayout::VideosFirst)?;
    let prompts = [window];
    let said = |result: Result<(), VlmError>| result.err().map(|error| error.to_string());
    let mut empty = prompts.clone();
    empty[0].ids.clear();
    Ok(json!({
        "too_long": said(model.generate_by(&prompts, 1 << 40, &mut |_, _| None)),
        "no_token": said(model.generate_by(&prompts, 3, &mut |_, _| Some(u32::MAX))),
        "empty": said(model.generate_by(&empty, 3, &mut |_, _| None)),
    }))
}
