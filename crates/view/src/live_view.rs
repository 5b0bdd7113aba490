//! What a person sees of a run: a state fed with events, and the lines that show it.

use std::time::Duration;

use plaudit_core::{EndReason, Event};

use crate::format;
use crate::metric_table::MetricTable;
use crate::paint::{Row, TextStyle, wrap};
use crate::summary::Summary;

/// Lines do not grow wider than this; longer ones are hard to read.
const WIDEST: usize = 100;
/// Metrics shown by default.
const METRICS: usize = 12;

/// The state of a run according to its events. It draws nothing by itself: [`LiveView::render`] gives the lines.
///
/// Times are measured from any moment the caller likes, as long as it is always the same one.
#[derive(Debug, Clone)]
pub struct LiveView {
    name: String,
    job: String,
    unit: String,
    step: u64,
    steps: Option<u64>,
    began: Duration,
    pace: Pace,
    metrics: MetricTable,
    most_metrics: usize,
    saved: Option<(u64, String)>,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// No event yet.
    Waiting,
    Running,
    /// It ended, at this time.
    Over(EndReason, Duration),
    /// Seen from its log, which has no end.
    Unfinished(Duration),
}

impl Default for LiveView {
    fn default() -> Self {
        Self {
            name: String::new(),
            job: String::new(),
            unit: "steps".into(),
            step: 0,
            steps: None,
            began: Duration::ZERO,
            pace: Pace::default(),
            metrics: MetricTable::default(),
            most_metrics: METRICS,
            saved: None,
            phase: Phase::Waiting,
        }
    }
}

impl LiveView {
    /// Shows at most this many metrics.
    #[must_use]
    pub fn with_metrics(mut self, most: usize) -> Self {
        self.most_metrics = most;
        self
    }

    /// The view of a run that is over, or that another process runs.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let ran = Duration::try_from_secs_f64(summary.ran_secs).unwrap_or_default();
        let phase = match summary.end.clone() {
            Some(reason) => Phase::Over(reason, ran),
            None => Phase::Unfinished(ran),
        };
        let mut metrics = MetricTable::default();
        for (name, curve) in &summary.curves {
            curve.points.iter().for_each(|point| metrics.add(name, point.value));
        }
        Self {
            name: summary.name.clone(),
            job: summary.job.clone(),
            unit: summary.unit.clone(),
            step: summary.step,
            steps: summary.steps,
            metrics,
            saved: summary.saved.clone(),
            phase,
            ..Self::default()
        }
    }

    /// Updates the state with an event that happened at `at`.
    pub fn on_event(&mut self, event: &Event, at: Duration) {
        match event {
            Event::Started { name, job, unit, step, steps } => {
                *self = Self {
                    name: name.clone(),
                    job: job.clone(),
                    unit: unit.clone(),
                    step: *step,
                    steps: *steps,
                    began: at,
                    pace: Pace::starting(*step, at),
                    most_metrics: self.most_metrics,
                    phase: Phase::Running,
                    ..Self::default()
                };
            }
            Event::Progress { step } => self.reach(*step, at),
            Event::Metrics { step, values } => {
                self.reach(*step, at);
                values.iter().for_each(|(name, value)| self.metrics.add(name, *value));
            }
            Event::Saved { step, path } => self.saved = Some((*step, path.clone())),
            Event::Ended { step, reason } => {
                self.reach(*step, at);
                self.phase = Phase::Over(reason.clone(), at);
            }
            Event::Histogram { .. } | Event::Image { .. } | Event::Text { .. } | Event::Notice { .. } => {}
        }
    }

    fn reach(&mut self, step: u64, at: Duration) {
        self.step = self.step.max(step);
        self.pace.reach(step, at);
        if self.phase == Phase::Waiting {
            self.phase = Phase::Running;
        }
    }

    /// Whether time changes what is seen: the run has started and has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// The lines that show the run at time `at`, none wider than `width`.
    #[must_use]
    pub fn render(&self, at: Duration, width: usize, colour: bool) -> Vec<String> {
        self.rows(at, width, usize::MAX).iter().map(|row| row.paint(colour)).collect()
    }

    /// The same as rows, at most `height` of them if the metrics can give way.
    pub(crate) fn rows(&self, at: Duration, width: usize, height: usize) -> Vec<Row> {
        let width = width.min(WIDEST);
        let mut rows = vec![self.title(at, width)];
        rows.extend(self.bar(width));
        rows.push(self.facts(at, width));
        rows.extend(self.error(width));
        let footer = self.footer();
        let room = height.saturating_sub(rows.len() + footer.len() + 1);
        rows.extend(self.metric_rows(width, room));
        rows.extend(footer);
        rows.into_iter().map(|row| row.fit(width)).collect()
    }

    /// `⠹ reward_training  train                    12m 04s`
    fn title(&self, at: Duration, width: usize) -> Row {
        let (style, mark) = self.mark(at);
        let elapsed = format::duration(self.elapsed(at));
        let row =
            Row::default().add(style, mark).add(TextStyle::Plain, " ").add(TextStyle::Strong, &self.name);
        let row = row.add(TextStyle::Faint, format!("  {}", self.job));
        let room = width.saturating_sub(elapsed.len() + 1);
        row.fit(room).pad_to(room + 1).add(TextStyle::Faint, elapsed)
    }

    fn mark(&self, at: Duration) -> (TextStyle, &'static str) {
        const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        match &self.phase {
            Phase::Waiting | Phase::Running => {
                (TextStyle::Accent, SPINNER[(at.as_millis() / 100 % 10) as usize])
            }
            Phase::Unfinished(_) => (TextStyle::Warn, "…"),
            Phase::Over(EndReason::Done, _) => (TextStyle::Good, "✓"),
            Phase::Over(EndReason::Interrupted, _) => (TextStyle::Warn, "■"),
            Phase::Over(EndReason::Failed { .. }, _) => (TextStyle::Bad, "✗"),
        }
    }

    /// `  ━━━━━━━━━━━━━━━━╸──────────  63%`, when the end is known.
    fn bar(&self, width: usize) -> Option<Row> {
        let steps = self.steps.filter(|&steps| steps > 0)?;
        let done = (self.step as f64 / steps as f64).min(1.0);
        let percent = format!("{:>3}%", (done * 100.0).floor());
        let cells = width.saturating_sub(2 + 2 + percent.len());
        let halves = (done * cells as f64 * 2.0).floor() as usize;
        let mut filled = "━".repeat(halves / 2);
        if halves % 2 == 1 {
            filled.push('╸');
        }
        let rest = "─".repeat(cells - halves.div_ceil(2));
        let style = match &self.phase {
            Phase::Waiting | Phase::Running => TextStyle::Accent,
            _ => self.mark(Duration::ZERO).0,
        };
        let row = Row::default().add(TextStyle::Plain, "  ").add(style, filled).add(TextStyle::Faint, rest);
        Some(row.add(TextStyle::Strong, format!("  {percent}")))
    }

    /// `  630 of 1,000 updates · 12.4 updates/s · 29s left`; where that is too wide, the rate goes first.
    fn facts(&self, at: Duration, width: usize) -> Row {
        let row = |tempo: &[String]| {
            let row = Row::default().add(TextStyle::Plain, "  ").add(TextStyle::Plain, self.extent());
            tempo.iter().fold(row, |row, fact| row.add(TextStyle::Faint, " · ").add(TextStyle::Plain, fact))
        };
        let tempo = self.tempo(at);
        let without = |gone: usize| row(&tempo[gone.min(tempo.len())..]);
        (0..tempo.len()).map(without).find(|row| row.width() <= width).unwrap_or_else(|| row(&[]))
    }

    /// `630 of 1,000 updates`, or `1,000 updates` when that is all of them.
    fn extent(&self) -> String {
        let step = format::count(self.step);
        match self.steps {
            Some(steps) if steps != self.step => format!("{step} of {} {}", format::count(steps), self.unit),
            _ => format!("{step} {}", self.unit),
        }
    }

    /// How fast it goes and how long it will take, or how it went.
    fn tempo(&self, at: Duration) -> Vec<String> {
        let ending = match &self.phase {
            Phase::Waiting | Phase::Running => {
                let rate = self.pace.rate().map(|rate| format::rate(rate, &self.unit));
                let left = self.time_left(at).map(|left| format!("{} left", format::duration(left)));
                return rate.into_iter().chain(left).collect();
            }
            Phase::Unfinished(_) => "unfinished: still running, or killed",
            Phase::Over(EndReason::Done, _) => "done",
            Phase::Over(EndReason::Interrupted, _) => "interrupted",
            Phase::Over(EndReason::Failed { .. }, _) => "failed",
        };
        let overall = self.pace.overall(self.elapsed(at)).map(|rate| format::rate(rate, &self.unit));
        overall.into_iter().chain([ending.to_owned()]).collect()
    }

    fn time_left(&self, at: Duration) -> Option<Duration> {
        let steps = self.steps?.saturating_sub(self.step) as f64;
        let secs = steps / self.pace.rate().filter(|&rate| rate > 0.0)?;
        let since = at.saturating_sub(self.pace.at);
        Some(Duration::try_from_secs_f64(secs).ok()?.saturating_sub(since))
    }

    fn elapsed(&self, at: Duration) -> Duration {
        match self.phase {
            Phase::Waiting | Phase::Running => at,
            Phase::Over(_, end) | Phase::Unfinished(end) => end,
        }
        .saturating_sub(self.began)
    }

    /// What went wrong, by its first lines.
    fn error(&self, width: usize) -> Vec<Row> {
        let Phase::Over(EndReason::Failed { error }, _) = &self.phase else { return Vec::new() };
        let lines = wrap(error, width.saturating_sub(2)).into_iter().take(8);
        lines.map(|line| Row::default().add(TextStyle::Plain, "  ").add(TextStyle::Bad, line)).collect()
    }

    fn metric_rows(&self, width: usize, room: usize) -> Vec<Row> {
        let all = self.metrics.len();
        let limit = self.most_metrics.min(room);
        if all == 0 || limit == 0 {
            return Vec::new();
        }
        let shown = if all <= limit { all } else { limit - 1 };
        let mut rows = vec![Row::default()];
        rows.extend(self.metrics.rows(width, shown));
        if shown < all {
            rows.push(
                Row::default().add(TextStyle::Faint, format!("  … {} more in metrics.log", all - shown)),
            );
        }
        rows
    }

    /// `  saved step 600 in checkpoints/global_step_600`
    fn footer(&self) -> Vec<Row> {
        let Some((step, path)) = &self.saved else { return Vec::new() };
        let saved = format!("  saved step {} in {path}", format::count(*step));
        vec![Row::default(), Row::default().add(TextStyle::Faint, saved)]
    }

    /// The run in one line, for output that is not a terminal.
    #[must_use]
    pub fn line(&self, at: Duration) -> String {
        let elapsed = format::duration(self.elapsed(at));
        let facts = [vec![format!("{} {elapsed}", self.name), self.extent()], self.tempo(at)].concat();
        let metrics = self.metrics.last_values().into_iter().take(6);
        let metrics = metrics.map(|(name, value)| format!("{name} {}", format::number(value)));
        let parts = facts.into_iter().chain(metrics).collect::<Vec<_>>().join(" · ");
        let error =
            self.error(WIDEST).iter().map(|row| format!("\n{}", row.paint(false))).collect::<String>();
        Row::default().add(TextStyle::Plain, parts).paint(false) + &error
    }
}

/// How fast steps come: recent ones count most, and the past fades over [`Pace::MEMORY_SECS`].
#[derive(Debug, Clone, Default)]
struct Pace {
    first: u64,
    step: u64,
    at: Duration,
    /// Steps, and the seconds they took, both faded.
    steps: f64,
    secs: f64,
}

impl Pace {
    const MEMORY_SECS: f64 = 20.0;

    fn starting(step: u64, at: Duration) -> Self {
        Self { first: step, step, at, ..Self::default() }
    }

    fn reach(&mut self, step: u64, at: Duration) {
        if step <= self.step || at <= self.at {
            return;
        }
        let secs = (at - self.at).as_secs_f64();
        let fade = (-secs / Self::MEMORY_SECS).exp();
        self.steps = self.steps * fade + (step - self.step) as f64;
        self.secs = self.secs * fade + secs;
        (self.step, self.at) = (step, at);
    }

    /// Steps per second, lately.
    fn rate(&self) -> Option<f64> {
        (self.secs > 0.0).then(|| self.steps / self.secs)
    }

    /// Steps per second over the whole run.
    fn overall(&self, elapsed: Duration) -> Option<f64> {
        let steps = self.step - self.first;
        (steps > 0 && !elapsed.is_zero()).then(|| steps as f64 / elapsed.as_secs_f64())
    }
}
