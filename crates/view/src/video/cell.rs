//! One environment's part of the picture.

use plaudit_core::{End, ObsRow};

use super::VideoError;
use super::caption::{Field, PLAIN, caption};
use super::picture::{Picture, Rgb};
use super::recorder::{Seen, VideoSettings};

const GREEN: Rgb = [40, 200, 80];
const AMBER: Rgb = [245, 170, 30];
const RED: Rgb = [230, 60, 50];

/// What is remembered of one environment between frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// Steps of its episode.
    steps: usize,
    /// Whether its episode succeeded at any step.
    succeeded: bool,
    /// The frame around it, and for how many pictures.
    frame: Option<(Rgb, usize)>,
}

/// What the last step brought one environment.
pub(super) struct Outcome<'a> {
    row: usize,
    seen: &'a Seen<'a>,
}

impl<'a> Outcome<'a> {
    pub(super) fn of(seen: &'a Seen<'a>, row: usize) -> Self {
        Self { row, seen }
    }

    fn fact(&self, name: &str) -> Option<f32> {
        let (_, values) = self.seen.facts.iter().find(|(fact, _)| &**fact == name)?;
        values.get(self.row).copied()
    }
}

impl Cell {
    /// Counts a step; an end is framed for `linger` pictures.
    pub(super) fn step(&mut self, success: bool, end: End, linger: usize) {
        self.steps += 1;
        self.succeeded |= success;
        self.frame = match (end.is_end(), self.frame) {
            (true, _) if success => Some((GREEN, linger)),
            (true, _) if self.succeeded => Some((AMBER, linger)),
            (true, _) => Some((RED, linger)),
            (false, Some((colour, left))) if left > 1 => Some((colour, left - 1)),
            (false, _) => None,
        };
    }

    /// Starts a new episode; the frame goes as well if the outcome was `held` long enough to be seen.
    pub(super) fn reset(&mut self, held: bool) {
        let frame = if held { None } else { self.frame };
        *self = Self { frame, ..Self::default() };
    }

    /// Draws what an environment shows.
    pub(super) fn draw(
        &self,
        shown: ObsRow<'_>,
        known: Vec<&str>,
        settings: &VideoSettings,
        now: Option<Outcome<'_>>,
    ) -> Result<Picture, VideoError> {
        let mut picture = views(shown, &known, &settings.cameras)?;
        let thick = (picture.width().min(picture.height()) / 40).max(2);
        let inset = if picture.width().min(picture.height()) > 8 * thick { thick } else { 0 };
        if let Some((colour, _)) = self.frame {
            let size = picture.size();
            picture.border((0, 0), size, thick, colour);
        }
        if !settings.info {
            return Ok(picture);
        }
        Ok(caption(picture, inset, &self.fields(now, &settings.extra)))
    }

    fn fields(&self, now: Option<Outcome<'_>>, extra: &[String]) -> Vec<Field> {
        let now = now.as_ref();
        let end = match now.map_or(End::No, |now| now.seen.end[now.row]) {
            End::No => Field::word("", 10, PLAIN),
            End::Terminated => Field::word("terminated", 10, AMBER),
            End::Truncated => Field::word("truncated", 10, AMBER),
        };
        let success = now.is_some_and(|now| now.seen.success[now.row]);
        let mut fields = vec![
            Field { room: 5, ..Field::number("step", Some(self.steps as f32)) },
            end,
            Field::number("reward", now.map(|now| now.seen.reward[now.row])),
            Field::word(if success { "success" } else { "" }, 7, GREEN),
        ];
        fields.extend(extra.iter().map(|name| Field::number(name, now.and_then(|now| now.fact(name)))));
        fields
    }
}

/// The wanted cameras side by side, or the main one.
fn views(shown: ObsRow<'_>, known: &[&str], wanted: &[String]) -> Result<Picture, VideoError> {
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
    let mut picture = Picture::filled(width, height, [0; 3]);
    let mut left = 0;
    for (shape, image) in images {
        picture.paste((left, 0), shape, image);
        left += shape.width;
    }
    Ok(picture)
}
