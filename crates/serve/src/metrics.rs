//! The server's metrics, in the Prometheus format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of request times, in seconds.
const SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Upper bounds of images in a batch.
const IMAGES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By route and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// By route.
    seconds: BTreeMap<&'static str, Histogram<10>>,
    batches: Histogram<8>,
    batched_requests: u64,
    queued: usize,
    connections: u64,
    /// By route.
    cancelled: BTreeMap<&'static str, u64>,
}

/// How many values were at most each of the bounds.
#[derive(Clone, Copy)]
struct Histogram<const N: usize> {
    buckets: [u64; N],
    sum: f64,
    count: u64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: [0; N], sum: 0.0, count: 0 }
    }
}

impl<const N: usize> Histogram<N> {
    fn add(&mut self, value: f64, bounds: &[f64; N]) {
        for (bucket, bound) in self.buckets.iter_mut().zip(bounds) {
            *bucket += u64::from(value <= *bound);
        }
        self.sum += value;
        self.count += 1;
    }

    fn write(&self, text: &mut String, name: &str, labels: &str, bounds: &[f64; N]) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {bucket}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", self.count);
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "{name}_sum{braces} {}\n{name}_count{braces} {}", self.sum, self.count);
    }
}

impl Metrics {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was answered, or refused.
    pub(crate) fn request(&self, route: &'static str, status: u16, took: Duration) {
        let mut counts = self.counts();
        *counts.requests.entry((route, status)).or_default() += 1;
        counts.seconds.entry(route).or_default().add(took.as_secs_f64(), &SECONDS);
    }

    /// The model is shown so many requests with so many images at once.
    pub(crate) fn batch(&self, requests: usize, images: usize) {
        let mut counts = self.counts();
        counts.batched_requests += requests as u64;
        counts.batches.add(images as f64, &IMAGES);
    }

    /// Requests wait that did not, or the other way round.
    pub(crate) fn queued(&self, more: usize, fewer: usize) {
        let mut counts = self.counts();
        counts.queued = (counts.queued + more).saturating_sub(fewer);
    }

    /// A client left before its answer was there.
    pub(crate) fn cancelled(&self, route: &'static str) {
        *self.counts().cancelled.entry(route).or_default() += 1;
    }

    /// A connection was opened.
    pub(crate) fn connected(&self) {
        self.counts().connections += 1;
    }

    /// All of it as text.
    pub(crate) fn page(&self) -> String {
        let counts = self.counts();
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(&mut text, "plaudit_requests_total", "counter", "Requests by route and status.");
        for ((route, status), number) in &counts.requests {
            let _ =
                writeln!(text, "plaudit_requests_total{{route=\"{route}\",status=\"{status}\"}} {number}");
        }
        head(&mut text, "plaudit_request_seconds", "histogram", "Time from request to answer.");
        for (route, seconds) in &counts.seconds {
            seconds.write(&mut text, "plaudit_request_seconds", &format!("route=\"{route}\""), &SECONDS);
        }
        head(&mut text, "plaudit_batch_images", "histogram", "Images that the model was shown at once.");
        counts.batches.write(&mut text, "plaudit_batch_images", "", &IMAGES);
        let cancelled = "plaudit_cancelled_requests_total";
        head(&mut text, cancelled, "counter", "Requests whose client left before the answer.");
        for (route, number) in &counts.cancelled {
            let _ = writeln!(text, "{cancelled}{{route=\"{route}\"}} {number}");
        }
        for (name, kind, help, number) in [
            (
                "plaudit_batched_requests_total",
                "counter",
                "Requests that reached the model.",
                counts.batched_requests,
            ),
            ("plaudit_queued_requests", "gauge", "Requests that wait for the model.", counts.queued as u64),
            ("plaudit_connections_total", "counter", "Connections that were opened.", counts.connections),
        ] {
            head(&mut text, name, kind, help);
            let _ = writeln!(text, "{name} {number}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_reported() {
        let metrics = Metrics::default();
        metrics.request("/v1/score", 200, Duration::from_millis(20));
        metrics.request("/v1/score", 200, Duration::from_millis(2000));
        metrics.request("/v1/score", 400, Duration::ZERO);
        metrics.batch(2, 8);
        metrics.queued(4, 0);
        metrics.queued(0, 1);
        metrics.connected();
        metrics.cancelled("/v1/score");
        let page = metrics.page();
        for line in [
            "plaudit_requests_total{route=\"/v1/score\",status=\"200\"} 2",
            "plaudit_requests_total{route=\"/v1/score\",status=\"400\"} 1",
            "plaudit_request_seconds_bucket{route=\"/v1/score\",le=\"0.025\"} 2",
            "plaudit_request_seconds_bucket{route=\"/v1/score\",le=\"+Inf\"} 3",
            "plaudit_request_seconds_sum{route=\"/v1/score\"} 2.02",
            "plaudit_request_seconds_count{route=\"/v1/score\"} 3",
            "plaudit_batch_images_bucket{le=\"4\"} 0",
            "plaudit_batch_images_bucket{le=\"8\"} 1",
            "plaudit_batch_images_sum 8",
            "plaudit_batched_requests_total 2",
            "plaudit_queued_requests 3",
            "plaudit_connections_total 1",
            "plaudit_cancelled_requests_total{route=\"/v1/score\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.lines().all(|line| line.starts_with('#') || line.split(' ').count() == 2), "{page}");
    }
}
