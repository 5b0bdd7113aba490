//! Films of evaluations, and what runs under them: rewards, success, and the reward model's score of each frame.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use plaudit_core::{Emit, Env, Event, Level, Obs, ObsRow, Policy, Score, Seed, Step};
use plaudit_reward::{FrameStack, ReloadableModel, RewardModelError};
use plaudit_rl::Rollout;
use plaudit_view::video::{StepView, TrackedEpisode, VideoError, VideoRecorder, VideoTrack};

use crate::failure::Failure;
use crate::run::Run;

/// Films evaluations, one file for each rollout, with a track beside it. What cannot be written or scored ends the filming
/// or the scoring, not the evaluation.
pub struct Film {
    video: Option<VideoRecorder>,
    /// Who scores the frames, if the policy learns by a model of single frames.
    scorer: Option<Arc<ReloadableModel>>,
    episodes: Vec<TrackedEpisode>,
    /// Whether each filmed environment is in its first episode still.
    open: Vec<bool>,
    /// What was seen before, the newest first, as far as the scorer's frame history reaches.
    past: VecDeque<Obs>,
}

impl Film {
    /// A film of nothing yet; without a recorder, it stays one.
    pub fn new(video: Option<VideoRecorder>, scorer: Option<Arc<ReloadableModel>>) -> Self {
        Self { video, scorer, episodes: Vec::new(), open: Vec::new(), past: VecDeque::new() }
    }

    /// What all environments start from.
    pub fn start(&mut self, run: &mut Run, obs: &Obs) {
        if let Some(scorer) = &self.scorer
            && let Err(error) = scorer.refresh()
        {
            self.stop_scoring(run, &error);
        }
        self.try_to(run, |video| video.start(obs));
        let shown = self.video.as_ref().map_or(0, VideoRecorder::shown_envs);
        self.episodes = vec![TrackedEpisode::default(); shown];
        self.open = vec![true; shown];
        self.past.clear();
        self.remember(obs);
    }

    /// What a step did.
    pub fn step(&mut self, run: &mut Run, step: &Step) {
        self.try_to(run, |video| video.step(StepView::from(step)));
        let Some(video) = &self.video else { return };
        let (at, _) = video.newest_secs();
        let scores = match self.scores(step) {
            Ok(scores) => scores,
            Err(error) => {
                self.stop_scoring(run, &error);
                Vec::new()
            }
        };
        let mut scores = scores.into_iter();
        let open = self.open.iter_mut().zip(&mut self.episodes).enumerate();
        for (row, (open, episode)) in open.filter(|(_, (open, _))| **open) {
            episode.at_secs.push(at);
            episode.env_reward.push(step.reward[row]);
            episode.success.push(step.success[row]);
            episode.score.extend(scores.next());
            *open = !step.end[row].is_end();
        }
        self.remember(&step.obs);
    }

    /// Films one episode in each of some environments of the film's own.
    pub fn play(
        &mut self,
        run: &mut Run,
        policy: &mut dyn Policy,
        env: &mut dyn Env,
        seed: Seed,
    ) -> Result<(), Failure> {
        if self.video.is_none() {
            return Ok(());
        }
        let failed = |error| Failure::runtime(error, None);
        let mut playing = vec![true; env.spec().num_envs];
        let mut rollout = Rollout::start(env, seed, 0).map_err(failed)?;
        self.start(run, rollout.obs());
        while playing.contains(&true) {
            let taken = rollout.advance(policy).map_err(failed)?;
            self.step(run, &taken.step);
            rollout.take_finished().iter().for_each(|episode| playing[episode.row] = false);
        }
        Ok(())
    }

    /// Completes the film of a rollout that was played at `step` of the run.
    pub fn cut(&mut self, run: &mut Run, step: u64) {
        let (mut path, mut secs) = (None, 0.0);
        self.try_to(run, |video| {
            // Rows that are behind the others show the rest of theirs first.
            path = video.flush()?;
            secs = video.newest_secs().1;
            Ok(())
        });
        let Some(path) = path else { return };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let threshold = self.scorer.as_ref().and_then(|scorer| scorer.current().model.threshold());
        let episodes = std::mem::take(&mut self.episodes);
        let track = VideoTrack { video: name, step, secs, threshold, episodes };
        if let Err(error) = write(&track, &path) {
            notify(run, Level::Warning, &format!("a video has no track: {error}"));
        }
    }

    /// Waits until every film is written, and says where they are.
    pub fn finish(self, run: &mut Run) {
        match self.video.map(VideoRecorder::close) {
            None => {}
            Some(Ok(files)) => {
                let text = match files.last() {
                    Some(last) => format!("{} videos, the last {}", files.len(), last.path.display()),
                    None => "no video: there were no frames".into(),
                };
                notify(run, Level::Info, &text);
            }
            Some(Err(error)) => notify(run, Level::Warning, &format!("a video is missing: {error}")),
        }
    }

    /// The score of what each filmed environment shows after a step, of those in their first episode.
    fn scores(&self, step: &Step) -> Result<Vec<f32>, RewardModelError> {
        let Some(scorer) = &self.scorer else { return Ok(Vec::new()) };
        let open = (0..self.open.len()).filter(|row| self.open[*row]);
        let stack = |row: usize| {
            let past = self.past.iter().map(|obs| obs.row(row)).collect();
            FrameStack::with_history(shown(step, row), past)
        };
        let stacks: Vec<FrameStack<'_>> = open.map(stack).collect();
        Ok(scorer.current().model.scores(&stacks)?.into_iter().map(Score::get).collect())
    }

    fn remember(&mut self, obs: &Obs) {
        let history_len = self.scorer.as_ref().map_or(0, |scorer| scorer.current().model.history_len());
        if history_len > 0 && self.video.is_some() {
            self.past.push_front(obs.clone());
            self.past.truncate(history_len);
        }
    }

    /// Scores of a part of an episode would look like those of all of it: the films of this rollout have none then.
    fn stop_scoring(&mut self, run: &mut Run, error: &RewardModelError) {
        self.scorer = None;
        self.episodes.iter_mut().for_each(|episode| episode.score.clear());
        notify(run, Level::Warning, &format!("videos have no scores from here on: {error}"));
    }

    fn try_to(&mut self, run: &mut Run, act: impl FnOnce(&mut VideoRecorder) -> Result<(), VideoError>) {
        let Some(video) = &mut self.video else { return };
        if let Err(error) = act(video) {
            self.video = None;
            notify(run, Level::Warning, &format!("no more videos: {error}"));
        }
    }
}

/// What a row shows after a step: the last real observation of an episode that ended.
fn shown(step: &Step, row: usize) -> ObsRow<'_> {
    let last = step.last.iter().find(|(ended, _)| *ended == row);
    last.map_or_else(|| step.obs.row(row), |(_, last)| last.row(0))
}

fn write(track: &VideoTrack, film: &Path) -> Result<(), plaudit_view::RunError> {
    if let Some(folder) = film.parent() {
        // The thread that writes the film may not have made its folder yet.
        std::fs::create_dir_all(folder)
            .map_err(|source| plaudit_view::RunError::Create { path: folder.into(), source })?;
    }
    track.write(film)
}

fn notify(run: &mut Run, level: Level, text: &str) {
    run.emit(Event::Notice { level, text: text.into() });
}
