//! The curves of a run, as its log grows.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::Event;
use plaudit_view::{EventTail, LogError};

/// Points of one metric that are kept; beyond, every other one goes.
const MOST_POINTS: usize = 1 << 21;

/// Steps and values.
type Points = Vec<(f64, f64)>;

/// Every metric of a run, in order of appearance.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunCurves {
    metrics: Vec<(String, Arc<Points>)>,
}

impl RunCurves {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn of(&self, name: &str) -> Option<&[(f64, f64)]> {
        let found = self.metrics.iter().find(|(known, _)| known == name);
        found.map(|(_, points)| points.as_slice())
    }

    fn add(&mut self, event: Event) {
        match event {
            // A run that starts again takes back what came after the step it starts from.
            Event::Started { step, .. } => {
                for (_, points) in &mut self.metrics {
                    Arc::make_mut(points).retain(|point| step > 0 && point.0 <= step as f64);
                }
            }
            Event::Metrics { step, values } => {
                for (name, value) in values {
                    let at = self.metrics.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                        self.metrics.push((name, Arc::default()));
                        self.metrics.len() - 1
                    });
                    let points = Arc::make_mut(&mut self.metrics[at].1);
                    points.push((step as f64, value));
                    if points.len() > MOST_POINTS {
                        let mut is_kept = false;
                        points.retain(|_| {
                            is_kept = !is_kept;
                            is_kept
                        });
                    }
                }
            }
            _ => {}
        }
    }
}

/// A run whose curves somebody looks at.
pub(super) struct OpenRun {
    tail: EventTail,
    curves: Arc<RunCurves>,
}

impl OpenRun {
    pub(super) fn of(run: &Path) -> Self {
        Self { tail: EventTail::of(run), curves: Arc::default() }
    }

    /// The curves, with what is new.
    pub(super) fn news(&mut self) -> Result<Arc<RunCurves>, LogError> {
        loop {
            let entries = self.tail.news()?;
            if entries.is_empty() {
                return Ok(self.curves.clone());
            }
            let curves = Arc::make_mut(&mut self.curves);
            entries.into_iter().for_each(|entry| curves.add(entry.event));
        }
    }
}

/// Points for so many columns: all where they are few, else of each column the lowest and the highest, in order. A column of values that
/// are no numbers stays a gap.
pub(crate) fn thinned(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let columns = columns.max(1);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let width = (last.0 - first.0).max(f64::MIN_POSITIVE);
    let column_of =
        |point: &(f64, f64)| (((point.0 - first.0) / width * columns as f64) as usize).min(columns - 1);
    let mut thin = Vec::with_capacity(2 * columns);
    for column in points.chunk_by(|one, other| column_of(one) == column_of(other)) {
        let finite = || (0..column.len()).filter(|at| column[*at].1.is_finite());
        let low = finite().reduce(|a, b| if column[b].1 < column[a].1 { b } else { a });
        let high = finite().reduce(|a, b| if column[b].1 > column[a].1 { b } else { a });
        match (low, high) {
            (Some(low), Some(high)) if low == high => thin.push(column[low]),
            (Some(low), Some(high)) => thin.extend([column[low.min(high)], column[low.max(high)]]),
            _ => thin.push((column[0].0, f64::NAN)),
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_points_become_few_and_spikes_stay() {
        let mut points: Vec<(f64, f64)> = (0..1_000_000).map(|at| (f64::from(at) * 10.0, 0.0)).collect();
        points[123_456].1 = 5.0;
        points[700_001].1 = -5.0;
        let thin = thinned(&points, 300);
        assert!(thin.len() <= 600 && thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(thin.contains(&(1_234_560.0, 5.0)) && thin.contains(&(7_000_010.0, -5.0)));
        assert_eq!(thinned(&points[..50], 300), points[..50]);
        assert_eq!(thinned(&[(3.0, 1.0); 1000], 10).len(), 1, "all at one step");
    }

    #[test]
    fn a_resumed_run_takes_back_what_came_after() {
        let started = |step| Event::Started {
            name: "a".into(),
            job: "train".into(),
            unit: "steps".into(),
            step,
            steps: None,
        };
        let metrics = |step, value| Event::Metrics { step, values: vec![("loss".into(), value)] };
        let mut curves = RunCurves::default();
        for event in
            [started(0), metrics(1, 1.0), metrics(2, 2.0), metrics(3, 3.0), started(2), metrics(3, 4.0)]
        {
            curves.add(event);
        }
        assert_eq!(curves.of("loss"), Some(&[(1.0, 1.0), (2.0, 2.0), (3.0, 4.0)][..]));
        assert_eq!(curves.names().collect::<Vec<_>>(), ["loss"]);
    }
}
