//! What is known of a session, and how a page is told.

use std::collections::VecDeque;
use std::time::Instant;

use plaudit_robot::{ArmState, Guard, Limits, Mode, Watched};
use serde::Serialize;
use serde_json::{Value, json};

use super::labels::{FrameAnswer, FrameLabels, PersonEnd};
use super::{LOOKS_WITHIN, RemoteArm, RemoteControl, WORD};

/// Scores that are kept; notices.
const MOST_SCORES: usize = 100_000;
const MOST_NOTICES: usize = 50;
/// Scores of one answer.
const SCORES_AT_ONCE: usize = 4000;

/// What goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The arm, its cameras and the reward model are looked for.
    Begins,
    /// A person is asked whether the arm may move.
    Asks,
    /// The next episode waits for the person.
    Ready,
    /// The arm goes to its start.
    ToStart,
    /// An episode.
    Episode,
    /// It is written.
    Writing,
    /// Nothing more comes.
    Ended,
}

/// How an episode went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct EpisodeDone {
    pub(crate) number: u64,
    /// How the person ended it; nothing where it broke off.
    pub(crate) end: Option<PersonEnd>,
    pub(crate) steps: u64,
    pub(crate) seconds: f64,
    /// Whether the model said success at its end; nothing without a model.
    pub(crate) model_success: Option<bool>,
    pub(crate) probability: Option<f32>,
    /// What was said of its frames.
    pub(crate) spans: Vec<(usize, usize, FrameAnswer)>,
}

/// What the reward model says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ModelNow {
    pub(crate) probability: f32,
    pub(crate) threshold: f32,
    pub(crate) streak: usize,
    pub(crate) hold: usize,
    pub(crate) is_success: bool,
    /// How long the model took.
    pub(crate) took_ms: f64,
}

/// Whether a real arm may move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ArmQuestion {
    pub(super) number: u64,
    pub(super) why: String,
}

/// What is known.
pub(super) struct State {
    robot: String,
    began: Instant,
    pub(super) arm: Option<RemoteArm>,
    pub(super) phase: Phase,
    /// Why the arm is held until a person lets it go on.
    pub(super) held: Option<String>,
    pub(super) question: Option<ArmQuestion>,
    pub(super) question_number: u64,
    pub(super) may_start: bool,
    pub(super) quits: bool,
    /// When a page that somebody looks at last asked.
    pub(super) seen: Option<Instant>,
    pub(super) episode: u64,
    pub(super) begun: Option<Instant>,
    pub(super) steps: u64,
    pub(super) end: Option<PersonEnd>,
    pub(super) labels: FrameLabels,
    pub(super) at_target: bool,
    /// Whether the guard let nothing move in the last step.
    pub(super) is_holding: bool,
    pub(super) rate_hz: f64,
    pub(super) episodes: Vec<EpisodeDone>,
    /// Successes and failures on the disk.
    pub(super) kept: [u64; 2],
    pub(super) recording: String,
    /// The threshold of the model, and for how many frames.
    pub(super) rule: Option<(f32, usize)>,
    model: Option<(ModelNow, Instant)>,
    /// Seconds, probability, and the episode; the number of the first.
    scores: VecDeque<(f64, f32, u64)>,
    first_score: u64,
    notices: VecDeque<(f64, String)>,
    shown_arm: Value,
    arm_seen: Option<Instant>,
    mode: (&'static str, String),
}

impl State {
    pub(super) fn of(robot: String) -> Self {
        Self {
            robot,
            began: Instant::now(),
            arm: None,
            phase: Phase::Begins,
            held: None,
            question: None,
            question_number: 0,
            may_start: false,
            quits: false,
            seen: None,
            episode: 0,
            begun: None,
            steps: 0,
            end: None,
            labels: FrameLabels::default(),
            at_target: false,
            is_holding: false,
            rate_hz: 0.0,
            episodes: Vec::new(),
            kept: [0; 2],
            recording: String::new(),
            rule: None,
            model: None,
            scores: VecDeque::new(),
            first_score: 0,
            notices: VecDeque::new(),
            shown_arm: Value::Null,
            arm_seen: None,
            mode: ("none", String::new()),
        }
    }

    pub(super) fn notice(&mut self, text: &str) {
        if self.notices.len() >= MOST_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back((self.began.elapsed().as_secs_f64(), text.into()));
    }

    /// Whether what was typed lets the arm move. A simulated one needs no word.
    pub(super) fn check_word(&self, word: &str) -> Result<(), String> {
        match self.needs_word() && word.trim() != WORD {
            true => Err(format!("type `{WORD}` to let a real arm move")),
            false => Ok(()),
        }
    }

    /// Whether there is an episode with a frame to say something of.
    pub(super) fn check_episode(&self) -> Result<(), String> {
        match self.phase == Phase::Episode && self.steps > 0 {
            true => Ok(()),
            false => Err("no episode is going on".into()),
        }
    }

    fn needs_word(&self) -> bool {
        self.arm.as_ref().is_none_or(|arm| !arm.is_simulated)
    }

    /// Whether the arm may move, and nobody looks.
    fn is_alone(&self) -> bool {
        let may_move = matches!(self.phase, Phase::ToStart | Phase::Episode) && self.held.is_none();
        may_move && self.seen.is_none_or(|seen| seen.elapsed() > LOOKS_WITHIN)
    }

    pub(super) fn scored(&mut self, now: ModelNow) {
        self.model = Some((now, Instant::now()));
        if self.scores.len() >= MOST_SCORES {
            self.scores.pop_front();
            self.first_score += 1;
        }
        self.scores.push_back((self.began.elapsed().as_secs_f64(), now.probability, self.episode));
    }

    pub(super) fn saw(
        &mut self,
        state: Option<(ArmState, Instant)>,
        mode: (&'static str, String),
        limits: &Limits,
    ) {
        self.mode = mode;
        let Some((state, at)) = state else { return };
        self.arm_seen = Some(at);
        self.shown_arm = json!({
            "pose": state.pose.to_xyz_euler(),
            "speed_m_s": state.velocity.linear_m_s.length(),
            "force_n": state.wrench.force_n.to_array(),
            "torque_nm": state.wrench.torque_nm.to_array(),
            "most_force_n": limits.max_force_n,
            "most_torque_nm": limits.max_torque_nm,
            "gripper_open": state.gripper_open,
            "joints_rad": state.joints_rad,
            "in_box": limits.workspace.contains(state.pose, 0.005, 0.05),
        });
    }

    /// What a page shows; scores from a number on.
    pub(super) fn shown(&mut self, since: u64, watches: bool) -> Value {
        if watches {
            self.seen = Some(Instant::now());
        }
        let skip = since.saturating_sub(self.first_score).min(self.scores.len() as u64) as usize;
        let scores: Vec<_> = self.scores.iter().skip(skip).take(SCORES_AT_ONCE).collect();
        let next = self.first_score + (skip + scores.len()) as u64;
        let cameras = self.arm.as_ref().map_or(&[][..], |arm| &arm.cameras);
        let cameras: Vec<Value> = cameras
            .iter()
            .map(|camera| {
                use plaudit_robot::Camera as _;
                let trouble = camera.trouble().map(|trouble| trouble.to_string());
                json!({"name": camera.name(), "trouble": trouble})
            })
            .collect();
        let spans = self.labels.spans();
        let notices: Vec<_> = self.notices.iter().rev().take(12).collect();
        json!({
            "robot": self.robot,
            "server": self.arm.as_ref().map(|arm| arm.server.clone()),
            "simulated": !self.needs_word(),
            "seconds": self.began.elapsed().as_secs_f64(),
            "phase": self.phase,
            "held": self.held,
            "question": self.question,
            "guard": {"mode": self.mode.0, "why": self.mode.1, "holding": self.is_holding},
            "arm": self.shown_arm,
            "arm_age_ms": self.arm_seen.map(|at| at.elapsed().as_millis()),
            "cameras": cameras,
            "rule": self.rule,
            "model": self.model.map(|(model, _)| model),
            "model_age_ms": self.model.map(|(_, at)| at.elapsed().as_millis()),
            "scores": scores,
            "next": next,
            "episode": self.begun.map(|begun| json!({
                "number": self.episode,
                "steps": self.steps,
                "seconds": begun.elapsed().as_secs_f64(),
                "label": self.labels.on(),
                "spans": spans,
                "at_target": self.at_target,
            })),
            "rate_hz": self.rate_hz,
            "episodes": self.episodes,
            "kept": self.kept,
            "recording": self.recording,
            "notices": notices,
        })
    }
}

impl RemoteControl {
    /// Holds an arm that may move while nobody looks.
    pub(super) fn hold_if_alone(&self) {
        if self.state().is_alone() {
            self.hold("nobody looks at the page");
        }
    }
}

/// What the guard lets happen, and why not.
pub(super) fn mode_words(guard: &Guard) -> (&'static str, String) {
    match guard.mode() {
        Mode::Disarmed => ("disarmed", String::new()),
        Mode::Armed => ("armed", String::new()),
        Mode::Reflex => ("reflex", "the arm has stopped itself".into()),
        Mode::NeedsPerson(cause) => ("needs a person", cause.to_string()),
        Mode::Stopped => ("stopped", String::new()),
    }
}
