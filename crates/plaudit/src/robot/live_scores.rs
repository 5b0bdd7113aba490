//! A reward model on a thread of its own: the newest frame is scored, and nobody waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_core::{Obs, Score};
use plaudit_reward::{FrameStack, RewardModelError, VersionedModel};

/// How long the end of the thread is waited for: a request to a server may take far longer.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// What is to be scored.
struct AskedFrame {
    episode: u64,
    obs: Arc<Obs>,
    /// The newest first.
    history: Vec<Arc<Obs>>,
    taken: Instant,
}

/// A frame and its score.
#[derive(Debug, Clone)]
pub struct ScoredFrame {
    /// The episode it belongs to.
    pub episode: u64,
    /// What was seen.
    pub obs: Arc<Obs>,
    /// What the model says.
    pub score: Score,
    /// When the frame was taken, on the machine's clock.
    pub taken: Instant,
    /// How long the model took.
    pub took: Duration,
}

#[derive(Default)]
struct Slot {
    asked: Option<AskedFrame>,
    scored: Vec<ScoredFrame>,
    failed: Option<RewardModelError>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    woken: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scores the frames of a robot while it moves. A frame that comes while another one is scored waits; one that waits is
/// replaced by the next.
pub struct LiveScorer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    episode: u64,
    /// Frames of the episode that the model stacks, the newest first.
    history: VecDeque<Arc<Obs>>,
    history_len: usize,
    /// Frames that were replaced before they were scored.
    replaced: u64,
}

impl LiveScorer {
    /// Begins to score.
    pub fn start(model: Arc<VersionedModel>) -> std::io::Result<Self> {
        let (shared, history_len) = (Arc::<Shared>::default(), model.model.history_len());
        let seen = shared.clone();
        let thread =
            std::thread::Builder::new().name("live-scores".into()).spawn(move || score_all(&seen, &model))?;
        let history = VecDeque::with_capacity(history_len);
        Ok(Self { shared, thread: Some(thread), episode: 0, history, history_len, replaced: 0 })
    }

    /// Another episode begins: scores of the one before are of no interest.
    pub fn begin_episode(&mut self, episode: u64) {
        self.episode = episode;
        self.history.clear();
        let mut slot = self.shared.lock();
        slot.asked = None;
        slot.scored.clear();
    }

    /// Shows a frame that was taken so long ago. Never waits for the model.
    pub fn show(&mut self, obs: Obs, age: Duration) {
        let obs = Arc::new(obs);
        let now = Instant::now();
        let asked = AskedFrame {
            episode: self.episode,
            obs: obs.clone(),
            history: self.history.iter().cloned().collect(),
            taken: now.checked_sub(age).unwrap_or(now),
        };
        self.history.push_front(obs);
        self.history.truncate(self.history_len);
        self.replaced += u64::from(self.shared.lock().asked.replace(asked).is_some());
        self.shared.woken.notify_one();
    }

    /// The frames of this episode that were scored since the last call, in order. An error is the end of all scores.
    pub fn take(&mut self) -> Result<Vec<ScoredFrame>, RewardModelError> {
        self.check()?;
        let mut scored = std::mem::take(&mut self.shared.lock().scored);
        scored.retain(|frame| frame.episode == self.episode);
        Ok(scored)
    }

    /// Why no more scores come, if none do.
    pub fn check(&mut self) -> Result<(), RewardModelError> {
        if let Some(error) = self.shared.lock().failed.take() {
            return Err(error);
        }
        match self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            true => Err(RewardModelError::Backend("the thread that scores has ended".into())),
            false => Ok(()),
        }
    }

    /// Frames that were replaced by a newer one before they were scored.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }
}

impl Drop for LiveScorer {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.woken.notify_one();
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < ENDS_WITHIN {
            std::thread::sleep(LOOKS_EVERY);
        }
        if thread.is_finished() {
            // A thread that panicked has no more to say.
            let _ = thread.join();
        }
    }
}

fn score_all(shared: &Shared, model: &VersionedModel) {
    loop {
        let asked = {
            let mut slot = shared.lock();
            loop {
                if slot.ended {
                    return;
                }
                match slot.asked.take() {
                    Some(asked) => break asked,
                    None => slot = shared.woken.wait(slot).unwrap_or_else(PoisonError::into_inner),
                }
            }
        };
        let begun = Instant::now();
        let result = score(model, &asked);
        let mut slot = shared.lock();
        match result {
            Ok(score) => {
                let AskedFrame { episode, obs, taken, .. } = asked;
                slot.scored.push(ScoredFrame { episode, obs, score, taken, took: begun.elapsed() });
            }
            Err(error) => {
                slot.failed = Some(error);
                return;
            }
        }
    }
}

fn score(model: &VersionedModel, asked: &AskedFrame) -> Result<Score, RewardModelError> {
    let history = asked.history.iter().map(|obs| obs.row(0)).collect();
    let frames = [FrameStack::with_history(asked.obs.row(0), history)];
    let scores = model.model.scores(&frames)?;
    scores.first().copied().ok_or(RewardModelError::Answers { asked: 1, answers: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_reward::FrameRewardModel;

    /// Scores the state of the oldest frame that it sees, after a while.
    struct Slow {
        takes: Duration,
        back: usize,
    }

    impl FrameRewardModel for Slow {
        fn cameras(&self) -> &[Arc<str>] {
            &[]
        }

        fn history_len(&self) -> usize {
            self.back
        }

        fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
            std::thread::sleep(self.takes);
            let value = |frame: &FrameStack<'_>| frame.back(self.back).state[0];
            let score = |(at, frame)| {
                Score::new(value(frame)).ok_or(RewardModelError::NotAScore { value: value(frame), frame: at })
            };
            frames.iter().enumerate().map(score).collect()
        }
    }

    fn scorer(takes: Duration, back: usize) -> LiveScorer {
        LiveScorer::start(Arc::new(VersionedModel { model: Box::new(Slow { takes, back }), version: 0 }))
            .unwrap()
    }

    fn obs(value: f32) -> Obs {
        Obs::from_state(1, vec![value]).unwrap()
    }

    fn next(scorer: &mut LiveScorer) -> Result<Vec<f32>, RewardModelError> {
        let begun = Instant::now();
        loop {
            let scored = scorer.take()?;
            if !scored.is_empty() {
                return Ok(scored.iter().map(|frame| frame.score.get()).collect());
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no score came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn nobody_waits_for_a_slow_model_and_the_newest_frame_wins() {
        let mut scorer = scorer(Duration::from_millis(300), 0);
        let begun = Instant::now();
        for value in 0..50 {
            scorer.show(obs(value as f32 / 100.0), Duration::ZERO);
        }
        assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
        // The first frame may be scored before the others are there.
        let first = next(&mut scorer).unwrap();
        let last = if first.last() == Some(&0.49) { first } else { next(&mut scorer).unwrap() };
        assert_eq!(last.last(), Some(&0.49));
        assert!(scorer.replaced() >= 48, "{}", scorer.replaced());
    }

    #[test]
    fn past_frames_are_of_the_same_episode_and_scores_of_the_last_one_are_dropped() {
        let mut scorer = scorer(Duration::ZERO, 2);
        for (value, oldest) in [(0.1, 0.1), (0.2, 0.1), (0.3, 0.1), (0.4, 0.2)] {
            scorer.show(obs(value), Duration::ZERO);
            assert_eq!(next(&mut scorer).unwrap(), [oldest]);
        }
        scorer.show(obs(0.5), Duration::ZERO);
        scorer.begin_episode(1);
        scorer.show(obs(0.6), Duration::ZERO);
        assert_eq!(next(&mut scorer).unwrap(), [0.6]);
    }

    #[test]
    fn a_model_that_fails_is_told() {
        let mut scorer = scorer(Duration::ZERO, 0);
        scorer.show(obs(7.0), Duration::ZERO);
        assert!(next(&mut scorer).unwrap_err().to_string().contains("not a probability"));
        assert!(scorer.take().is_err(), "and no more scores come");
    }
}
