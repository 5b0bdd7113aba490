//! Windows judged by their trend: what a model is shown, and how its votes become rewards.
#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "shaping/rollout.rs"]
#[allow(dead_code)] // shared with other tests
mod rollout;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use plaudit_core::{End, FrameShape, Frames, Obs, Reward, RewardColumn, Segment, StepRow};
use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout, QwenVl};
use plaudit_reward::open::{OpenOptions, OpenVlm};
use plaudit_reward::trend::{
    Answer, AnswerMode, AnswerPlace, CachedModel, ContentPart, Conversation, FrameReadout, GenerationConfig,
    InputBuilder, JudgeFolder, LabelLogits, LabelRewards, LocalVlm, NonsenseGuard, PREFIX_FPS, Prompt,
    ReadoutSettings, RgbImage, TOPREWARD_PROMPT, Trend, TrendJudge, TrendModel, TrendReward, Video,
    VlmFrameJudge, WordJudge, WordReadout,
};
use plaudit_reward::{
    AtTermination, ClipRewardModel, FrameRewardModel, FrameStack, History, HistoryBuffer, RewardModelError,
    TermSettings, VoteCounting, VoteReward, WindowReward,
};
use proptest::prelude::*;
use rollout::{FakeRollout, joined, rollouts};

const ASK: AnswerMode = AnswerMode::Labels(GenerationConfig { max_new_tokens: 16, temperature: 0.0 });

/// Votes by how much brighter a video's last frame is than its first, and counts its batches.
#[derive(Default)]
struct Brightness {
    batches: Mutex<Vec<usize>>,
}

impl TrendModel for Brightness {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        _: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        self.batches.lock().unwrap().push(conversations.len());
        let answer = |conversation: &Conversation<'_>| {
            let ContentPart::Video(video) = &conversation.parts[0] else { panic!("a video first") };
            let brightness = |at: usize| f32::from(video.frames[at].pixels[0]);
            let change = brightness(video.frames.len() - 1) - brightness(0);
            Answer::Logits(LabelLogits([change / 64.0, -change / 64.0, 0.0]))
        };
        Ok(conversations.iter().map(answer).collect())
    }
}

/// Says the same whatever it is asked.
struct Parrot(Answer);

impl TrendModel for Parrot {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        _: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        Ok(vec![self.0.clone(); conversations.len()])
    }
}

fn input(cameras: &[&str]) -> InputBuilder {
    InputBuilder {
        cameras: cameras.iter().map(|camera| (*camera).into()).collect(),
        prompt: Prompt::Trend,
        window: 5,
        shown: None,
        default_task: Some("Lift it.".into()),
        system: None,
        layout: PromptLayout::VideosFirst,
        answer: AnswerPlace::NextTurn,
        fps: 24.0,
        sampling: FrameSampling::Sampled,
    }
}

fn history(size: usize, least: usize, interval: usize) -> History {
    History::new(vec![HistoryBuffer {
        name: "history_window".into(),
        history_size: NonZeroUsize::new(size).unwrap(),
        min_history_size: least,
        input_interval: NonZeroUsize::new(interval).unwrap(),
        input_on_done: false,
    }])
}

fn judge(model: Arc<dyn TrendModel>, reward: TrendReward) -> TrendJudge {
    let (input, readout) = (input(&["eye"]), ReadoutSettings::default());
    TrendJudge {
        model,
        input,
        ask: ASK,
        readout,
        reward,
        micro_batch: NonZeroUsize::new(7),
        nonsense: NonsenseGuard::new(1.0),
    }
}

fn votes(gamma: f32, soft: bool, at_termination: AtTermination) -> VoteReward {
    VoteReward {
        term: TermSettings::named("model"),
        model: Box::new(judge(Arc::new(Brightness::default()), TrendReward::Votes { soft })),
        history: history(3, 2, 1),
        gamma,
        potential_votes: 4.0,
        at_termination,
        longest_episode: 40,
        counting: VoteCounting::Sum,
    }
}

fn windows(reward: TrendReward) -> WindowReward {
    WindowReward {
        term: TermSettings::named("model"),
        model: Box::new(judge(Arc::new(Brightness::default()), reward)),
        history: history(2, 2, 1),
        interval_reward: 0.0,
        to_every_step: false,
    }
}

/// One environment that shows these brightnesses, without an end.
fn path(levels: &[u8]) -> Segment {
    let seen = |level: u8| {
        let shape = FrameShape { height: 1, width: 1, channels: 1 };
        let eye = Frames::new(shape, vec![level]).unwrap();
        Obs::from_state(1, vec![0.0]).unwrap().with_camera("eye", eye).unwrap()
    };
    let mut segment = Segment::starting_at(seen(levels[0]));
    for level in &levels[1..] {
        let step =
            StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
        segment.push(step, seen(*level), vec![]).unwrap();
    }
    segment
}

fn term<'a>(column: &'a RewardColumn, name: &str) -> &'a [f32] {
    &column.terms.iter().find(|term| &*term.name == name).unwrap().values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn going_back_and_forth_earns_nothing(
        start in prop::collection::vec(any::<u8>(), 2..6),
        away in 0u8..100,
        cycles in 1usize..10,
    ) {
        // After the start, forth by `away + 1` and back again, as often as you like.
        let (here, there) = (100, 100 + away + 1);
        let mut levels = start;
        levels.push(here);
        let before = levels.len();
        for _ in 0..cycles {
            levels.extend([there, here]);
        }
        for soft in [true, false] {
            let mut reward = votes(1.0, soft, AtTermination::Keep);
            reward.history = history(2, 2, 1);
            let rewards = reward.label(&path(&levels)).unwrap().total;
            let earned: f32 = rewards[before - 1..].iter().sum();
            prop_assert!(earned.abs() < 1e-5, "{cycles} cycles earn {earned}");
            prop_assert!(rewards.iter().sum::<f32>().abs() <= 1.0, "the potential is bounded");
        }
        let rlinf = windows(TrendReward::Hard(LabelRewards::RLINF)).label(&path(&levels)).unwrap().total;
        let earned: f32 = rlinf[before - 1..].iter().sum();
        prop_assert!((earned - 0.8 * cycles as f32).abs() < 1e-4, "where RLinf's rewards give {earned}");
    }

    #[test]
    fn discounted_reward_depends_only_on_where_an_episode_got(rollout in rollouts(3, 30)) {
        let gamma = 0.9f32;
        for at_termination in [AtTermination::Keep, AtTermination::Zero] {
            let reward = votes(gamma, true, at_termination);
            let segment = rollout.whole(&reward);
            let rewards = reward.label(&segment).unwrap().total;
            // A potential that starts at 0: the sum of gamma^k r_k telescopes to gamma^n phi_n.
            let undiscounted = VoteReward { gamma: 1.0, ..votes(1.0, true, AtTermination::Keep) };
            let changes = undiscounted.label(&segment).unwrap().total;
            for row in 0..segment.batch() {
                let (mut discounted, mut phi, mut power) = (0.0f64, 0.0f64, 1.0f64);
                for t in 0..segment.steps() {
                    let at = segment.at(t, row);
                    discounted += power * f64::from(rewards[at]);
                    phi += f64::from(changes[at]);
                    power *= f64::from(gamma);
                    let zero = at_termination == AtTermination::Zero && segment.end[at] == End::Terminated;
                    let worth = if zero { 0.0 } else { power * phi };
                    prop_assert!((discounted - worth).abs() < 1e-5, "{discounted} {worth}");
                    prop_assert!(phi.abs() <= 1.0 + 1e-5);
                    if segment.end[at].is_end() {
                        (discounted, phi, power) = (0.0, 0.0, 1.0);
                    }
                }
            }
        }
    }

    #[test]
    fn votes_are_rewarded_the_same_wherever_a_segment_is_cut(rollout in rollouts(3, 24), cut in 0usize..24) {
        let reward = votes(0.95, true, AtTermination::Keep);
        let whole = reward.label(&rollout.whole(&reward)).unwrap();
        let cut = cut.clamp(1, rollout.steps().max(2) - 1).min(rollout.steps());
        let part = |steps| reward.label(&rollout.segment(steps, reward.context(), reward.frames_needed())).unwrap();
        let mut parts = vec![part(0..cut)];
        if cut < rollout.steps() {
            parts.push(part(cut..rollout.steps()));
        }
        prop_assert_eq!(joined(parts), whole);
    }
}

#[test]
fn a_potential_does_not_ask_about_the_past_twice() {
    let model = Arc::new(Brightness::default());
    let cached: Arc<dyn TrendModel> = Arc::new(CachedModel::new(model.clone(), 100));
    let mut reward = votes(0.9, true, AtTermination::Keep);
    reward.model = Box::new(judge(cached, TrendReward::Votes { soft: true }));
    let levels: Vec<u8> = (0..20).map(|level| level * 7).collect();
    let rollout = rollout_of(&levels);
    let asked = |steps| {
        reward.label(&rollout.segment(steps, reward.context(), reward.frames_needed())).unwrap();
        model.batches.lock().unwrap().drain(..).sum::<usize>()
    };
    // Windows begin at the second outcome.
    assert_eq!((asked(0..10), asked(10..19), asked(10..19)), (9, 9, 0));
}

fn rollout_of(levels: &[u8]) -> FakeRollout {
    let steps = levels.len() - 1;
    let seen = levels.iter().map(|level| [*level, 0]).collect();
    let row = rollout::Row {
        seen,
        last: vec![[0, 0]; steps],
        end: vec![End::No; steps],
        success: vec![false; steps],
        env_reward: vec![0.0; steps],
    };
    FakeRollout { rows: vec![row] }
}

#[test]
fn windows_are_rewarded_by_label_or_by_probability() {
    let segment = path(&[0, 100, 164, 164, 36]);
    let hard = windows(TrendReward::Hard(LabelRewards::RLINF)).label(&segment).unwrap();
    // The first outcome alone is no window; then brighter, the same, darker.
    assert_eq!(hard.total, [0.0, 1.0, 0.0, -0.2]);
    for (name, said) in [
        ("model/positive", [0.0, 1.0, 0.0, 0.0]),
        ("model/negative", [0.0, 0.0, 0.0, 1.0]),
        ("model/unclear", [0.0, 0.0, 1.0, 0.0]),
        ("model/invalid", [0.0; 4]),
        ("model/unanswered", [0.0; 4]),
    ] {
        assert_eq!(term(&hard, name), said, "{name}");
    }
    assert_eq!(hard.success, None, "a trend is no success");
    let soft = windows(TrendReward::Soft(LabelRewards::RLINF)).label(&segment).unwrap().total;
    // Logits 1, -1 and 0: p+ - 0.2 p-, by hand.
    let (e, sum) = (std::f32::consts::E, std::f32::consts::E + 1.0 / std::f32::consts::E + 1.0);
    assert!((soft[1] - (e - 0.2 / e) / sum).abs() < 1e-6, "{soft:?}");
    assert!((soft[2] - 0.8 / 3.0).abs() < 1e-6, "all alike");
}

#[test]
fn invalid_answers_have_their_own_rewards_and_are_counted() {
    let rewards = LabelRewards { invalid: -5.0, missing: 3.0, ..LabelRewards::RLINF };
    for (answer, amount, name) in [
        (Answer::Text("hm".into()), -5.0, "model/invalid"),
        (Answer::Missing, 3.0, "model/unanswered"),
        (Answer::Text("It is NEGATIVE.".into()), -0.2, "model/negative"),
    ] {
        let mut reward = windows(TrendReward::Soft(rewards));
        reward.model = Box::new(judge(Arc::new(Parrot(answer)), TrendReward::Soft(rewards)));
        let column = reward.label(&path(&[0, 1, 2])).unwrap();
        assert_eq!((column.total[1], term(&column, name)[1]), (amount, 1.0), "{name}");
    }
}

#[test]
fn micro_batches_are_as_large_as_asked() {
    let model = Arc::new(Brightness::default());
    let mut reward = windows(TrendReward::Hard(LabelRewards::RLINF));
    reward.model = Box::new(judge(model.clone(), TrendReward::Hard(LabelRewards::RLINF)));
    reward.label(&path(&[0; 18])).unwrap();
    assert_eq!(*model.batches.lock().unwrap(), [7, 7, 2]);
}

/// Keeps what it is shown, in words.
struct Scribe(Mutex<Vec<String>>);

impl TrendModel for Scribe {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        _: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let part = |part: &ContentPart<'_>| match part {
            ContentPart::Text(text) => text.clone(),
            ContentPart::Image(image) => format!("image {:?}", image.pixels[0]),
            ContentPart::Video(video) => {
                let frames: Vec<_> = video.frames.iter().map(|frame| frame.pixels[0]).collect();
                format!("video {frames:?} at {}", video.fps)
            }
        };
        for conversation in conversations {
            let parts: Vec<_> = conversation.parts.iter().map(part).collect();
            self.0.lock().unwrap().push(format!("{:?} {}", conversation.system, parts.join(" | ")));
        }
        Ok(vec![Answer::Text("I would say 0.25.".into()); conversations.len()])
    }
}

/// Two cameras, one of them with opacity, and a task if there is one.
fn two_cameras(level: u8, task: Option<&str>) -> Obs {
    let shape = |channels| FrameShape { height: 1, width: 1, channels };
    let main = Frames::new(shape(3), vec![level; 3]).unwrap();
    let side = Frames::new(shape(4), vec![level + 100; 4]).unwrap();
    let obs = Obs::from_state(1, vec![0.0]).unwrap();
    let obs = obs.with_camera("main", main).unwrap().with_camera("side", side).unwrap();
    match task {
        Some(task) => obs.with_tasks(vec![task.into()]).unwrap(),
        None => obs,
    }
}

#[test]
fn a_window_is_asked_about_in_rlinfs_words() {
    let scribe = Arc::new(Scribe(Mutex::default()));
    let mut judge = judge(scribe.clone(), TrendReward::Hard(LabelRewards::RLINF));
    judge.input = input(&["main", "side"]);
    let mut segment = Segment::starting_at(two_cameras(0, None));
    for level in 1..4 {
        let step =
            StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
        segment.push(step, two_cameras(level, (level == 3).then_some(" push it ")), vec![]).unwrap();
    }
    let history = history(2, 2, 1);
    let clips = history.clips(&segment).unwrap();
    judge.score(&clips).unwrap();
    let shown = scribe.0.lock().unwrap();
    let words = "You are given two synchronized 5-frame videos from different camera views (main view and third-person \
                 view) of the same robot action window. Judge whether the action trend is positive, negative, or unclear. \
                 Answer with exactly one word: positive, negative, or unclear.";
    assert_eq!(
        *shown,
        [
            format!(
                "None video [1, 2] at 24 | video [101, 102] at 24 | You are currently performing the task: Lift it.. {words}"
            ),
            format!(
                "None video [2, 3] at 24 | video [102, 103] at 24 | You are currently performing the task: push it. {words}"
            ),
        ]
    );
}

/// Says of a window how bright its newest frame is.
struct NewestBrightness;

impl TrendModel for NewestBrightness {
    fn answer(&self, asked: &[Conversation<'_>], ask: &AnswerMode) -> Result<Vec<Answer>, RewardModelError> {
        assert!(matches!(ask, AnswerMode::Words(words) if words.len() == 1));
        let newest = |asked: &Conversation<'_>| asked.images().last().map_or(0, |image| image.pixels[0]);
        Ok(asked
            .iter()
            .map(|asked| Answer::WordLogprobs(vec![f32::from(newest(asked)) / 10.0 - 5.0]))
            .collect())
    }
}

#[test]
fn a_number_of_each_prefix_is_a_reward_or_a_potential() {
    let judge = || WordJudge {
        model: Arc::new(NewestBrightness),
        input: InputBuilder { prompt: Prompt::Own(TOPREWARD_PROMPT.into()), ..input(&["main"]) },
        readout: WordReadout::topreward(),
        missing: 0.0,
        micro_batch: None,
        nonsense: NonsenseGuard::new(0.5),
    };
    let levels = [0_u8, 10, 30, 20, 40];
    let obs = |level: u8| {
        let frame = Frames::new(FrameShape::rgb(1, 1), vec![level; 3]).unwrap();
        Obs::from_state(1, vec![0.0]).unwrap().with_camera("main", frame).unwrap()
    };
    let mut segment = Segment::starting_at(obs(levels[0]));
    for level in &levels[1..] {
        let step =
            StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
        segment.push(step, obs(*level), vec![]).unwrap();
    }
    let growing = || history(100, 2, 1);
    let plain = WindowReward {
        term: TermSettings::named("model"),
        model: Box::new(judge()),
        history: growing(),
        interval_reward: 0.0,
        to_every_step: false,
    };
    let values: Vec<f32> = levels[1..].iter().map(|level| f32::from(*level) / 10.0 - 5.0).collect();
    // One frame is no window.
    let rewarded: Vec<f32> = [0.0].into_iter().chain(values[1..].iter().copied()).collect();
    assert_eq!(plain.label(&segment).unwrap().total, rewarded);
    let potential = VoteReward {
        model: Box::new(judge()),
        history: growing(),
        counting: VoteCounting::Newest,
        ..votes(0.9, true, AtTermination::Keep)
    };
    let phi: Vec<f64> =
        values.iter().map(|value| f64::from(value / potential.potential_votes).tanh()).collect();
    let found = potential.label(&segment).unwrap().total;
    // Nothing to compare the first window with.
    let expected: Vec<f64> =
        (0..values.len()).map(|t| if t == 0 { 0.0 } else { 0.9 * phi[t] - phi[(t - 1).max(1)] }).collect();
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn a_frame_is_asked_about_in_rlinfs_words_and_answered_with_a_number() {
    let scribe = Arc::new(Scribe(Mutex::default()));
    let judge = |prompt: Prompt| VlmFrameJudge {
        model: scribe.clone(),
        input: InputBuilder { prompt, system: Some("be fair".into()), ..input(&["main", "side"]) },
        ask: ASK,
        readout: FrameReadout::Number,
        micro_batch: None,
        nonsense: NonsenseGuard::new(0.5),
    };
    let obs = two_cameras(9, None);
    let scores = judge(Prompt::Score).scores(&[FrameStack::single(obs.row(0))]).unwrap();
    assert_eq!(scores[0].get(), 0.25);
    judge(Prompt::Own("{task} in {frames}?".into())).scores(&[FrameStack::single(obs.row(0))]).unwrap();
    let shown = scribe.0.lock().unwrap();
    assert_eq!(
        *shown,
        [
            "Some(\"be fair\") image 9 | image 109 | Task: Lift it.\n\nEvaluate the task and return a reward score between 0 and 1.",
            "Some(\"be fair\") image 9 | image 109 | Lift it. in 5?",
        ]
    );
}

#[test]
fn what_cannot_be_shown_is_named() {
    let refused = |input: InputBuilder, obs: Obs| {
        let judge = VlmFrameJudge {
            model: Arc::new(Parrot(Answer::Missing)),
            input,
            ask: ASK,
            readout: FrameReadout::Number,
            micro_batch: None,
            nonsense: NonsenseGuard::new(0.5),
        };
        judge.scores(&[FrameStack::single(obs.row(0))]).unwrap_err().to_string()
    };
    let error = refused(input(&["wrist"]), two_cameras(0, None));
    assert_eq!(error, "the reward model needs camera `wrist`, which was not rendered");
    let error = refused(InputBuilder { default_task: None, ..input(&["main"]) }, two_cameras(0, Some("  ")));
    assert_eq!(error, "the environment does not say what the task is");
    let odd = Frames::new(FrameShape { height: 1, width: 1, channels: 2 }, vec![0; 2]).unwrap();
    let obs = Obs::from_state(1, vec![0.0]).unwrap().with_camera("main", odd).unwrap();
    assert!(refused(input(&["main"]), obs).contains("2 channels"));
}

/// The tiny vision-language model of the fixtures.
fn tiny_vlm() -> LocalVlm {
    OpenVlm::open(JudgeFolder::with(tiny_folder(), None), &OpenOptions::default()).unwrap().model
}

fn tiny_folder() -> &'static std::path::Path {
    std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../nn/tests/qwen3_vl/model"))
}

/// The same model, asked one window at a time, keeping nothing.
struct Forgetful(QwenVl);

impl TrendModel for Forgetful {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        _: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let labels = self.0.processor().tokenizer().first_tokens(&Trend::LABELS.map(Trend::word)).unwrap();
        let answer = |conversation: &Conversation<'_>| {
            let inputs = tiny_vlm().inputs(conversation).unwrap();
            let logits = self.0.label_logits(&[inputs], &labels).unwrap().remove(0);
            Answer::Logits(LabelLogits(logits.try_into().unwrap()))
        };
        Ok(conversations.iter().map(answer).collect())
    }
}

/// As transformers finds it; see `topreward/make_expected.py`.
#[test]
fn topreward_is_the_log_probability_that_the_statement_is_finished_by_true() {
    let expected: serde_json::Value = serde_json::from_str(include_str!("topreward/expected.json")).unwrap();
    let (height, width) = (64, 96);
    let frame = |number: u64| {
        let byte = |i: u64| (((i * 2_654_435_761 + number * 40_503 + 12_345) % (1 << 32)) >> 24) as u8;
        RgbImage { height, width, pixels: (0..(height * width * 3) as u64).map(byte).collect() }
    };
    let statement = TOPREWARD_PROMPT.replace("{task}", expected["task"].as_str().unwrap());
    let readout = WordReadout::topreward();
    let vlm = tiny_vlm();
    for (length, logprob) in
        expected["lengths"].as_array().unwrap().iter().zip(expected["logprobs"].as_array().unwrap())
    {
        let frames = (0..length.as_u64().unwrap()).map(frame).collect();
        let video = Video { frames, fps: PREFIX_FPS, sampling: FrameSampling::All };
        let parts = vec![ContentPart::Video(video), ContentPart::Text(statement.clone())];
        let asked = Conversation { system: None, parts, answer: AnswerPlace::SameTurn };
        let answers = vlm.answer(&[asked], &AnswerMode::Words(readout.words().into())).unwrap();
        let Answer::WordLogprobs(logprobs) = &answers[0] else { panic!("{answers:?}") };
        let found = readout.number(logprobs).unwrap();
        assert!((found - logprob.as_f64().unwrap()).abs() < 2e-5, "{length}: {found} {logprob}");
    }
}

/// One environment with two cameras of 32 pixels, whose images never repeat.
fn never_the_same(steps: usize) -> Segment {
    let seen = |at: usize| {
        let camera = |which: usize| {
            let pixels =
                (0..32 * 32 * 3).map(|byte| ((byte * 7 + at * 131 + which * 71) % 251) as u8).collect();
            Frames::new(FrameShape::rgb(32, 32), pixels).unwrap()
        };
        let obs = Obs::from_state(1, vec![0.0]).unwrap();
        obs.with_camera("eye", camera(0)).unwrap().with_camera("hand", camera(1)).unwrap()
    };
    let mut segment = Segment::starting_at(seen(0));
    for at in 1..=steps {
        let step =
            StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
        segment.push(step, seen(at), vec![]).unwrap();
    }
    segment
}

#[test]
fn what_windows_share_is_computed_once_and_changes_no_reward() {
    let segment = never_the_same(12);
    for layout in [PromptLayout::VideosFirst, PromptLayout::SharedPrefix] {
        let rewards = |model: Arc<dyn TrendModel>| {
            let judge = TrendJudge {
                input: InputBuilder { layout, ..input(&["eye", "hand"]) },
                ..judge(model, TrendReward::Soft(LabelRewards::RLINF))
            };
            let history = history(5, 5, 1);
            let reward = WindowReward {
                term: TermSettings::named("model"),
                model: Box::new(judge),
                history,
                interval_reward: 0.0,
                to_every_step: false,
            };
            reward.label(&segment).unwrap().total
        };
        let vlm = Arc::new(tiny_vlm());
        let kept = rewards(vlm.clone());
        let plain =
            rewards(Arc::new(Forgetful(QwenVl::open(tiny_folder(), Device::Cpu, Precision::Fp32).unwrap())));
        for (kept, plain) in kept.iter().zip(&plain) {
            assert!((kept - plain).abs() < 1e-5, "{layout:?}: {kept} and {plain}");
        }
        assert!(kept.iter().filter(|reward| **reward != 0.0).count() >= 8, "{kept:?}");
        // A window begins with the pair that another one, three steps before, ends with. Within the first seven windows,
        // which go through the network at once, and across the border to the others.
        let [found, asked] = vlm.pairs_found();
        assert!(asked >= 32 && found >= 2, "{layout:?}: {found} of {asked}");
        let again = rewards(vlm.clone());
        assert_eq!(again.len(), kept.len());
        assert_eq!(vlm.pairs_found()[0], found + asked, "{layout:?}: the second time all pairs are there");
    }
}
