//! A page about a sweep: methods beside each other, over seeds and tasks, and how sure the difference is.

use plaudit_core::EndReason;

use super::outcome::MEASURES;
use super::series::metric_series;
use super::{Experiment, Interval, ReportError, RewardUsed, Run, status};
use crate::aggregate::{Aggregate, Scores, probability_of_improvement};
use crate::page::{Chart, Finding, Page, Series, Size, Tone, Unit, Verdict};
use crate::{RunDir, Summary, format};

/// Pairs of more methods than this are compared with the best alone.
const ALL_PAIRS: usize = 5;
/// Thresholds of a performance profile.
const THRESHOLDS: usize = 41;

/// A run of a sweep.
#[derive(Debug, Clone)]
pub struct SweptRun {
    /// Where it is.
    pub dir: RunDir,
    /// What it is called.
    pub name: String,
    /// What was chosen for it, seeds and tasks left out: runs of one method are compared with those of
    /// others.
    pub method: String,
    /// What it is trained on, where the sweep has several tasks.
    pub task: String,
}

/// What came of a method.
#[derive(Debug, Clone)]
pub struct MethodResult {
    /// What was chosen.
    pub method: String,
    /// Runs that have a score.
    pub runs: usize,
    /// Interquartile mean.
    pub interquartile_mean: Interval,
    /// Median over tasks of means over runs.
    pub median: Interval,
    /// Mean over tasks of means over runs.
    pub mean: Interval,
    scores: Scores,
}

/// What came of a sweep.
#[derive(Debug, Clone)]
pub struct SweepResult {
    /// The metric that is compared: its last value is a run's score. Higher is better.
    pub metric: String,
    /// The methods, the best first.
    pub methods: Vec<MethodResult>,
    /// How probable it is that a run of the first is better than one of the second: places in `methods`.
    pub improvements: Vec<(usize, usize, Interval)>,
}

/// What a page about a sweep shows.
pub struct SweepPage {
    title: String,
    runs: Vec<(SweptRun, Summary)>,
    result: SweepResult,
}

impl SweepPage {
    /// Reads the runs and compares their methods by `metric`, or by the first that people look for.
    ///
    /// # Errors
    /// [`ReportError`] when a run cannot be read, or none has the metric.
    pub fn read(title: &str, runs: &[SweptRun], metric: Option<&str>) -> Result<Self, ReportError> {
        let read = |run: &SweptRun| Ok((run.clone(), Summary::read(&run.dir)?));
        let runs = runs.iter().map(read).collect::<Result<Vec<_>, ReportError>>()?;
        let metric = chosen_metric(&runs, metric)?;
        let result = SweepResult::of(&runs, metric);
        Ok(Self { title: title.into(), runs, result })
    }

    /// What came of it.
    #[must_use]
    pub fn result(&self) -> &SweepResult {
        &self.result
    }

    /// The page, as HTML. `failures` are runs that have no result, each with why.
    #[must_use]
    pub fn render(&self, failures: &[(String, String)]) -> String {
        let mut page = Page::new("sweep", self.title.as_str(), self.subtitle(), self.verdict());
        let failed = |(name, why): &(String, String)| Finding {
            tone: Tone::Bad,
            word: "failed".into(),
            what: format!("{name}: {why}"),
            hint: "the same command runs it again".into(),
        };
        let body = &mut page.body;
        body.findings(&failures.iter().map(failed).collect::<Vec<_>>());
        body.heading(&format!("Learning curves of {}", self.result.metric)).charts(&self.curves());
        body.heading("Aggregates").table(
            &["method", "runs", "interquartile mean", "median", "mean"],
            &self.result.aggregate_rows(),
        );
        body.paragraph(
            "A run's score is its last value. Brackets are 95 % intervals of a stratified bootstrap (runs \
             sampled anew within each task). Where intervals overlap, the difference may be chance.",
        );
        if !self.result.improvements.is_empty() {
            body.heading("Probability of improvement")
                .table(&["is better than", "probability", "95 % interval"], &self.result.improvement_rows());
            body.paragraph(
                "How probable it is that a run of the first beats one of the second. 50 %: no difference.",
            );
        }
        body.heading("Performance profiles").charts([&self.profiles()]);
        body.heading("All runs")
            .table(&["run", "method", "task", "status", "steps", &self.result.metric], &self.run_rows());
        page.render()
    }

    fn subtitle(&self) -> String {
        let tasks = self.tasks().len();
        let on = if tasks > 1 { format!(" on {tasks} tasks") } else { String::new() };
        format!("{} runs of {}{on}", self.runs.len(), counted(self.result.methods.len(), "method"))
    }

    fn verdict(&self) -> Verdict {
        let [best, others @ ..] = &self.result.methods[..] else { return Verdict::default() };
        let reached = format!("{} ({})", self.words(best.interquartile_mean), best.method);
        let sure = self.result.improvements.iter().filter(|(one, _, _)| *one == 0);
        let doubtful = sure.filter(|(_, _, found)| found.low <= 0.5).count();
        let (tone, word, sentence) = match (others.len(), doubtful) {
            _ if self.result.methods.iter().any(|method| method.runs < 3) => {
                (Tone::Doubtful, "few seeds", format!("The best interquartile mean is {reached}"))
            }
            (0, _) => (Tone::Plain, "measured", format!("The interquartile mean is {reached}")),
            (_, 0) => (Tone::Good, "a difference", format!("The best interquartile mean is {reached}")),
            (_, _) => {
                (Tone::Doubtful, "no clear winner", format!("The best interquartile mean is {reached}"))
            }
        };
        let evidence = match (others.len(), doubtful) {
            (0, _) => format!("{} of {}", self.result.metric, counted(best.runs, "run")),
            (all, 0) => format!("it beats all {all} others with a probability whose interval is above 50 %"),
            (all, left) => {
                format!("{left} of {all} others may be as good: their interval of the probability holds 50 %")
            }
        };
        Verdict { tone, word: word.into(), sentence, evidence }
    }

    fn words(&self, interval: Interval) -> String {
        let number = |value| match self.unit() {
            Unit::Percent => format::percent(value),
            _ => format::number(value),
        };
        format!("{} [{}, {}]", number(interval.middle), number(interval.low), number(interval.high))
    }

    fn unit(&self) -> Unit {
        unit_of(&self.result.metric)
    }

    fn tasks(&self) -> Vec<&str> {
        tasks(&self.runs)
    }

    /// One chart for each task.
    fn curves(&self) -> Vec<Chart> {
        let tasks = self.tasks();
        let of_task = |task: &&str| {
            let lines = self.result.methods.iter().enumerate().map(|(look, method)| {
                let experiment = self.experiment(&method.method, task);
                metric_series(&experiment, &self.result.metric, &method.method, look, 1.0)
            });
            let lines: Vec<_> = lines.collect();
            let mut key: Vec<String> = lines.iter().filter_map(|line| line.key.clone()).collect();
            key.dedup();
            let unit = self.runs.first().map_or("", |(_, summary)| summary.unit.as_str());
            Chart {
                title: if task.is_empty() { self.result.metric.clone() } else { (*task).to_string() },
                caption: "One line per method. Where bands overlap, the difference is not significant."
                    .into(),
                x_label: if unit.is_empty() { "steps".into() } else { unit.into() },
                x_unit: Unit::Whole,
                y_unit: self.unit(),
                y_range: (self.unit() == Unit::Percent).then_some((0.0, 1.0)),
                size: if tasks.len() == 1 { Size::Large } else { Size::Small },
                series: lines.into_iter().flat_map(|line| line.series).collect(),
                key,
                ..Chart::default()
            }
        };
        tasks.iter().map(of_task).collect()
    }

    fn experiment(&self, method: &str, task: &str) -> Experiment {
        let is_one = |(run, _): &&(SweptRun, Summary)| run.method == method && run.task == task;
        let as_run = |(run, summary): &(SweptRun, Summary)| Run {
            dir: run.dir.clone(),
            summary: summary.clone(),
            config: Vec::new(),
            task: None,
            reward: RewardUsed::default(),
        };
        let runs = self.runs.iter().filter(is_one).map(as_run).collect();
        Experiment { label: method.into(), runs }
    }

    /// The share of runs above each score.
    fn profiles(&self) -> Chart {
        let all: Vec<f64> =
            self.runs.iter().filter_map(|(_, summary)| score(summary, &self.result.metric)).collect();
        let (low, high) = match self.unit() {
            Unit::Percent => (0.0, 1.0),
            _ => all.iter().fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(*one), high.max(*one))),
        };
        let at = |place: usize| low + (high - low) * place as f64 / (THRESHOLDS - 1) as f64;
        let thresholds: Vec<f64> = (0..THRESHOLDS).map(at).collect();
        let line = |(look, method): (usize, &MethodResult)| {
            let found = method.scores.profile(&thresholds);
            let points = thresholds.iter().zip(&found).map(|(at, found)| (*at, found.middle)).collect();
            let band =
                thresholds.iter().zip(&found).map(|(at, found)| (*at, found.low, found.high)).collect();
            Series { name: method.method.clone(), look, points, band, ..Series::default() }
        };
        let scored = self.result.methods.iter().enumerate().filter(|(_, method)| method.runs > 0);
        Chart {
            title: "Share of runs above a score".into(),
            caption: "Higher is better everywhere. Lines that cross: no method is better at every level."
                .into(),
            x_label: self.result.metric.clone(),
            x_unit: self.unit(),
            y_range: Some((0.0, 1.0)),
            y_unit: Unit::Percent,
            size: Size::Large,
            series: scored.map(line).collect(),
            key: vec!["band: 95 % bootstrap interval".into()],
            ..Chart::default()
        }
    }

    fn run_rows(&self) -> Vec<Vec<String>> {
        let row = |(run, summary): &(SweptRun, Summary)| {
            let value = score(summary, &self.result.metric).map_or("–".into(), format::number);
            let status = status(summary.end.as_ref()).to_string();
            let task = if run.task.is_empty() { "–".into() } else { run.task.clone() };
            vec![run.name.clone(), run.method.clone(), task, status, format::count(summary.step), value]
        };
        self.runs.iter().map(row).collect()
    }
}

impl SweepResult {
    fn of(runs: &[(SweptRun, Summary)], metric: String) -> Self {
        let tasks = tasks(runs);
        let mut names: Vec<&str> = Vec::new();
        for (run, _) in runs.iter().filter(|(run, _)| !run.method.is_empty()) {
            if !names.contains(&run.method.as_str()) {
                names.push(&run.method);
            }
        }
        let of_method = |method: &&str| {
            let of_task = |task: &&str| {
                let own = runs.iter().filter(|(run, _)| run.method == *method && run.task == *task);
                own.filter_map(|(_, summary)| score(summary, &metric)).collect()
            };
            let scores = Scores::new(tasks.iter().map(of_task).collect());
            MethodResult {
                method: (*method).to_string(),
                runs: scores.len(),
                interquartile_mean: scores.interval(Aggregate::InterquartileMean),
                median: scores.interval(Aggregate::Median),
                mean: scores.interval(Aggregate::Mean),
                scores,
            }
        };
        let mut methods: Vec<MethodResult> = names.iter().map(of_method).collect();
        let place = |method: &MethodResult| match method.interquartile_mean.middle {
            middle if middle.is_nan() => f64::NEG_INFINITY, // no run of it has a score
            middle => middle,
        };
        methods.sort_by(|one, two| place(two).total_cmp(&place(one)));
        let improvements = improvements(&methods);
        Self { metric, methods, improvements }
    }

    /// A row for each method: its name, runs, interquartile mean, median and mean, each with its interval.
    #[must_use]
    pub fn aggregate_rows(&self) -> Vec<Vec<String>> {
        let words = |found: Interval| match found.middle.is_nan() {
            true => "–".to_string(),
            false => format!(
                "{} [{}, {}]",
                format::number(found.middle),
                format::number(found.low),
                format::number(found.high)
            ),
        };
        let row = |one: &MethodResult| {
            let numbers = [one.interquartile_mean, one.median, one.mean].map(words);
            [vec![one.method.clone(), one.runs.to_string()], numbers.to_vec()].concat()
        };
        self.methods.iter().map(row).collect()
    }

    /// A row for each pair that is compared: both, the probability and its interval.
    #[must_use]
    pub fn improvement_rows(&self) -> Vec<Vec<String>> {
        let row = |(one, two, found): &(usize, usize, Interval)| {
            let pair = format!("{} > {}", self.methods[*one].method, self.methods[*two].method);
            let ends = format!("[{}, {}]", format::percent(found.low), format::percent(found.high));
            vec![pair, format::percent(found.middle), ends]
        };
        self.improvements.iter().map(row).collect()
    }
}

/// Each pair, the better one first; of many methods the best against each.
fn improvements(methods: &[MethodResult]) -> Vec<(usize, usize, Interval)> {
    let firsts = if methods.len() <= ALL_PAIRS { methods.len() } else { 1 };
    let pairs = (0..firsts).flat_map(|one| (one + 1..methods.len()).map(move |two| (one, two)));
    let compared = |(one, two): (usize, usize)| {
        Some((one, two, probability_of_improvement(&methods[one].scores, &methods[two].scores)?))
    };
    pairs.filter_map(compared).collect()
}

fn tasks(runs: &[(SweptRun, Summary)]) -> Vec<&str> {
    let mut tasks: Vec<&str> = Vec::new();
    for (run, _) in runs {
        if !tasks.contains(&run.task.as_str()) {
            tasks.push(&run.task);
        }
    }
    tasks
}

/// A run's score: the last value of the metric, once the run is done.
fn score(summary: &Summary, metric: &str) -> Option<f64> {
    let is_done = summary.end == Some(EndReason::Done);
    summary.curves.get(metric)?.last().filter(|value| is_done && value.is_finite())
}

fn unit_of(metric: &str) -> Unit {
    MEASURES.iter().find(|measure| measure.metric == metric).map_or(Unit::Number, |measure| measure.unit)
}

/// The metric that was asked for, or the first that people look for; success that no run ever has says
/// nothing where there is another.
fn chosen_metric(runs: &[(SweptRun, Summary)], asked: Option<&str>) -> Result<String, ReportError> {
    let values =
        |metric: &str| runs.iter().filter_map(|(_, summary)| score(summary, metric)).collect::<Vec<f64>>();
    let known = || {
        let mut names: Vec<String> = Vec::new();
        for name in runs.iter().flat_map(|(_, summary)| summary.curves.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    };
    if let Some(metric) = asked {
        return match values(metric).is_empty() {
            true => Err(ReportError::NoMetric { metric: metric.into(), known: known() }),
            false => Ok(metric.into()),
        };
    }
    let says_something = |metric: &str| {
        let values = values(metric);
        !values.is_empty() && (unit_of(metric) != Unit::Percent || values.iter().any(|value| *value > 0.0))
    };
    let names = || MEASURES.iter().map(|measure| measure.metric);
    let found = names().find(|name| says_something(name)).or_else(|| names().find(|n| !values(n).is_empty()));
    found.map(String::from).ok_or_else(|| ReportError::NoMetric { metric: "success".into(), known: known() })
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, Point, Stamp};

    fn run(method: &str, task: &str, values: &[(&str, f64)]) -> (SweptRun, Summary) {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::at(folder.path()).unwrap();
        let mut summary = Summary::default();
        summary.end = Some(EndReason::Done);
        for (name, value) in values {
            let stamp = Stamp { wall_secs: 0.0, elapsed_secs: 0.0 };
            let points = vec![Point { step: 1, stamp, value: *value }];
            summary.curves.insert((*name).to_string(), Curve { points });
        }
        (SweptRun { dir, name: "run".into(), method: method.into(), task: task.into() }, summary)
    }

    #[test]
    fn methods_are_ordered_and_compared_over_tasks() {
        let metric = "eval/success_once";
        let runs: Vec<_> = [("a", "x", 0.2), ("a", "y", 0.4), ("b", "x", 0.6), ("b", "y", 0.8)]
            .map(|(method, task, value)| run(method, task, &[(metric, value)]))
            .into();
        let result = SweepResult::of(&runs, chosen_metric(&runs, None).unwrap());
        let names: Vec<&str> = result.methods.iter().map(|one| one.method.as_str()).collect();
        assert_eq!((result.metric.as_str(), names), (metric, vec!["b", "a"]));
        assert!((result.methods[0].interquartile_mean.middle - 0.7).abs() < 1e-12);
        assert_eq!(result.improvement_rows(), [["b > a", "100 %", "[100 %, 100 %]"]]);
        let page = SweepPage { title: "<t>".into(), runs, result };
        let html = page.render(&[("lr=1".into(), "<why>".into())]);
        assert!(html.contains("Performance profiles") && html.contains("lr=1: &lt;why&gt;"));
        assert!(html.contains("few seeds") && !html.contains("<t>"));
    }

    #[test]
    fn runs_that_are_not_done_have_no_score_and_an_unknown_metric_is_named() {
        let (swept, mut summary) = run("a", "", &[("eval/return", 3.0)]);
        assert_eq!(chosen_metric(&[(swept.clone(), summary.clone())], None).unwrap(), "eval/return");
        summary.end = None;
        let runs = [(swept, summary)];
        let error = chosen_metric(&runs, Some("eval/succes")).unwrap_err().to_string();
        assert!(error.contains("eval/succes") && error.contains("eval/return"), "{error}");
        let result = SweepResult::of(&runs, "eval/return".into());
        assert_eq!(result.aggregate_rows(), [["a", "0", "–", "–", "–"]]);
    }

    #[test]
    fn success_that_nobody_has_gives_way_to_the_return() {
        let values = [("eval/success_once", 0.0), ("eval/return", 7.0)];
        assert_eq!(chosen_metric(&[run("a", "", &values)], None).unwrap(), "eval/return");
    }
}
