//! One environment's part of the image.

use plaudit_core::{End, ObsRow};

use super::VideoError;
use super::caption::{Field, PLAIN, caption};
use super::recorder::{StepView, VideoSettings};
use plaudit_draw::{Canvas, Rgb};

const GREEN: Rgb = [40, 200, 80];
const AMBER: Rgb = [245, 170, 30];
const RED: Rgb = [230, 60, 50];
/// The widest word for the end of an episode.
const WIDEST_END: &str = "terminated";

/// What is remembered of one environment between frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// Steps of its episode.
    steps: usize,
    /// Whether its episode succeeded at any step.
    succeeded: bool,
}

/// The result of the last step of one environment.
pub(super) struct Outcome<'a> {
    row: usize,
    step: &'a StepView<'a>,
}

impl<'a> Outcome<'a> {
    pub(super) fn of(step: &'a StepView<'a>, row: usize) -> Self {
        Self { row, step }
    }

    fn fact(&self, name: &str) -> Option<f32> {
        let (_, values) = self.step.facts.iter().find(|(fact, _)| &**fact == name)?;
        values.get(self.row).copied()
    }
}

impl Cell {
    /// Counts a step.
    pub(super) fn step(&mut self, success: bool) {
        self.steps += 1;
        self.succeeded |= success;
    }

    /// The colour around the last image of an episode, and around no other.
    fn border(&self, now: Option<&Outcome<'_>>) -> Option<Rgb> {
        let now = now.filter(|now| now.step.end[now.row].is_end())?;
        Some(match (now.step.success[now.row], self.succeeded) {
            (true, _) => GREEN,
            (false, true) => AMBER,
            (false, false) => RED,
        })
    }

    /// Draws what an environment shows.
    pub(super) fn draw(
        &self,
        shown: ObsRow<'_>,
        known: Vec<&str>,
        settings: &VideoSettings,
        now: Option<Outcome<'_>>,
    ) -> Result<Canvas, VideoError> {
        let mut canvas = views(shown, &known, &settings.cameras)?;
        let thick = (canvas.width().min(canvas.height()) / 40).max(2);
        let inset = if canvas.width().min(canvas.height()) > 8 * thick { thick } else { 0 };
        if let Some(colour) = self.border(now.as_ref()) {
            let size = canvas.size();
            canvas.border((0, 0), size, thick, colour);
        }
        if !settings.info {
            return Ok(canvas);
        }
        Ok(caption(canvas, inset, &self.fields(now, &settings.extra)))
    }

    fn fields(&self, now: Option<Outcome<'_>>, extra: &[String]) -> Vec<Field> {
        let now = now.as_ref();
        let end = match now.map_or(End::No, |now| now.step.end[now.row]) {
            End::No => Field::word("", WIDEST_END, PLAIN),
            End::Terminated => Field::word("terminated", WIDEST_END, AMBER),
            End::Truncated => Field::word("truncated", WIDEST_END, AMBER),
        };
        let success = now.is_some_and(|now| now.step.success[now.row]);
        let mut fields = vec![
            Field { widest: "99999", ..Field::number("step", Some(self.steps as f32)) },
            end,
            Field::number("reward", now.map(|now| now.step.reward[now.row])),
            Field::word(if success { "success" } else { "" }, "success", GREEN),
        ];
        fields.extend(extra.iter().map(|name| Field::number(name, now.and_then(|now| now.fact(name)))));
        fields
    }
}

/// The wanted cameras side by side, or the main one.
fn views(shown: ObsRow<'_>, known: &[&str], wanted: &[String]) -> Result<Canvas, VideoError> {
    let missing = |camera: &str| VideoError::Camera {
        camera: camera.to_owned(),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    };
    let wanted: Vec<&str> = match (wanted, known.first()) {
        ([], Some(main)) => vec![*main],
        ([], None) => return Err(missing("main")),
        (names, _) => names.iter().map(String::as_str).collect(),
    };
    let images: Result<Vec<_>, _> =
        wanted.iter().map(|name| shown.image(name).ok_or_else(|| missing(name))).collect();
    let images = images?;
    let width = images.iter().map(|(shape, _)| shape.width).sum();
    let height = images.iter().map(|(shape, _)| shape.height).max().unwrap_or(1);
    let mut canvas = Canvas::filled(width, height, [0; 3]);
    let mut left = 0;
    for (shape, image) in images {
        canvas.paste((left, 0), shape, image);
        left += shape.width;
    }
    Ok(canvas)
}
