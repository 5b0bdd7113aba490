//! Event files that TensorBoard reads.

mod histogram;
mod proto;
mod tfrecord;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use plaudit_core::Event;

use crate::append::Append;
use crate::line::Stamp;
use crate::run_dir::RunError;
use histogram::Histogram;
use proto::Value;

/// An event file of TensorBoard, growing by one record per event.
#[derive(Debug)]
pub struct EventFile {
    file: Append,
}

impl EventFile {
    /// Starts a new event file in `directory`, `events.out.tfevents.<secs>.<host>.<pid>.<n>`. TensorBoard reads the
    /// files of a directory one after the other, so a resumed run adds a file.
    ///
    /// # Errors
    /// [`RunError::Write`] when it cannot be written.
    pub fn create(directory: &Path, wall_secs: f64) -> Result<Self, RunError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let host = gethostname::gethostname().to_string_lossy().replace(['/', '\\'], "_");
        let name = format!("events.out.tfevents.{:010}.{host}.{}.{n}", wall_secs as u64, std::process::id());
        let mut file = Append::open(&directory.join(name))?;
        file.push(&tfrecord::frame(&proto::file_version(wall_secs)))?;
        Ok(Self { file })
    }

    /// Adds an event, if it is of a kind that TensorBoard shows.
    ///
    /// # Errors
    /// [`RunError::Write`] when it cannot be written.
    pub fn add(&mut self, stamp: Stamp, event: &Event) -> Result<(), RunError> {
        match record(stamp.wall_secs, event) {
            Some(record) => self.file.push(&tfrecord::frame(&record)),
            None => Ok(()),
        }
    }
}

/// The record for an event, or nothing where TensorBoard has no place for it.
fn record(wall_secs: f64, event: &Event) -> Option<Vec<u8>> {
    let (step, values) = match event {
        // A run that starts again takes back what was logged after the step it starts from.
        Event::Started { step: 0, .. } => return Some(proto::session_start(wall_secs, 0)),
        Event::Started { step, .. } => return Some(proto::session_start(wall_secs, step.saturating_add(1))),
        Event::Metrics { step, values } if !values.is_empty() => {
            (*step, values.iter().map(|(name, value)| Value::scalar(name, *value)).collect())
        }
        Event::Histogram { step, name, values } => {
            (*step, vec![Value::histogram(name, &Histogram::of(values)?)])
        }
        Event::Image { step, name, height, width, png } => {
            (*step, vec![Value::image(name, *height, *width, png)])
        }
        Event::Text { step, name, text } => (*step, vec![Value::text(name, text)]),
        _ => return None,
    };
    Some(proto::summary(wall_secs, step, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scalar record, byte by byte.
    #[test]
    fn a_scalar_record_is_what_the_protocol_says() {
        let event = Event::Metrics { step: 300, values: vec![("loss".into(), 0.5)] };
        let value = [&[0x0a, 4][..], b"loss", &[0x15], &0.5_f32.to_le_bytes()].concat(); // tag = 1, simple_value = 2
        let summary = [&[0x0a, value.len() as u8][..], &value].concat(); // value = 1
        let expected = [
            &[0x09][..],
            &1.5_f64.to_le_bytes(), // wall_time = 1
            &[0x10, 0xac, 0x02],    // step = 2: 300 = 0b10_0101100
            &[0x2a, summary.len() as u8],
            &summary, // summary = 5
        ];
        assert_eq!(record(1.5, &event).unwrap(), expected.concat());
    }

    #[test]
    fn what_tensorboard_cannot_show_is_left_out() {
        let notice = Event::Notice { level: plaudit_core::Level::Info, text: "hello".into() };
        for event in [Event::Progress { step: 1 }, Event::Metrics { step: 1, values: vec![] }, notice] {
            assert_eq!(record(0.0, &event), None);
        }
    }
}
