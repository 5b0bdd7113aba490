//! A part of an episode as a film: all cameras side by side, and below them the curves up to the frame that is shown.

use std::io::Cursor;

use plaudit_data::recording::Recording;
use plaudit_draw::{Canvas, Font, Rgb, Weight, colour};
use plaudit_mp4::{Encoder, Muxer, TICKS_PER_SEC};

use crate::http::Refusal;
use crate::images::{CameraView, cameras, frame};

/// The longest clip, and the slowest and the fastest one.
const MOST_FRAMES: usize = 3000;
const SLOWEST_FPS: f64 = 0.5;
const FASTEST_FPS: f64 = 120.0;
/// Pixels between images, and the height of the curves.
const GAP: usize = 8;
const CURVE_HEIGHT: usize = 120;
/// The narrowest film: names must fit.
const NARROWEST: usize = 320;
/// Frames between those that stand alone.
const KEY_EVERY: u32 = 30;
const BACKGROUND: Rgb = [12, 15, 18];
const TEXT: Rgb = [226, 230, 234];
const LEVEL: Rgb = [96, 104, 112];
/// The colours of curves: as far apart for people with poor colour vision as those of pages.
const COLOURS: [Rgb; 4] = [[86, 180, 233], [255, 140, 66], [47, 208, 160], [214, 143, 192]];

/// A curve that is drawn in, from 0 to 1.
pub(crate) struct ClipCurve {
    pub(crate) name: String,
    pub(crate) values: Vec<f32>,
    pub(crate) threshold: Option<f32>,
}

/// The frames from one up to another as an MP4 file.
pub(crate) fn film(
    recording: &Recording,
    (from, to): (usize, usize),
    fps: f64,
    curves: &[ClipCurve],
) -> Result<Vec<u8>, Refusal> {
    if to - from > MOST_FRAMES {
        return Err(Refusal::bad(format!(
            "a clip has {MOST_FRAMES} frames at most; look closer at a part of it"
        )));
    }
    if !(SLOWEST_FPS..=FASTEST_FPS).contains(&fps) {
        return Err(Refusal::bad(format!("a clip has {SLOWEST_FPS} to {FASTEST_FPS} frames a second")));
    }
    let scene = Scene::of(recording, (from, to), curves);
    let failed = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
    let mut encoder = Encoder::new(scene.size, KEY_EVERY).map_err(|error| failed(&error))?;
    let mut muxer = Muxer::new(Cursor::new(Vec::new())).map_err(|error| failed(&error))?;
    let ticks = (f64::from(TICKS_PER_SEC) / fps).round() as u32;
    for at in from..to {
        let sample = encoder.encode(scene.draw(recording, at)?.pixels()).map_err(|error| failed(&error))?;
        muxer.push(&sample.bytes, ticks, sample.is_key).map_err(|error| failed(&error))?;
    }
    let file = muxer.finish(encoder.size(), &encoder.config()).map_err(|error| failed(&error))?;
    Ok(file.into_inner())
}

/// Where everything is.
struct Scene<'a> {
    views: Vec<CameraView>,
    span: (usize, usize),
    curves: &'a [ClipCurve],
    /// Width and height, both even.
    size: (usize, usize),
    /// The height of the cameras.
    film_height: usize,
}

impl<'a> Scene<'a> {
    fn of(recording: &Recording, span: (usize, usize), curves: &'a [ClipCurve]) -> Self {
        let views = cameras(recording);
        let film_height = views.iter().map(|view| view.height).max().unwrap_or(0);
        let film_width = views.iter().map(|view| view.width + GAP).sum::<usize>().saturating_sub(GAP);
        let curve_height = if curves.is_empty() { 0 } else { CURVE_HEIGHT + GAP };
        let caption = Font::get(Weight::Regular, 14).line_height() + GAP;
        let width = film_width.max(NARROWEST).next_multiple_of(2);
        let height = (film_height + caption + curve_height).next_multiple_of(2);
        Self { views, span, curves, size: (width, height), film_height }
    }

    fn draw(&self, recording: &Recording, at: usize) -> Result<Canvas, Refusal> {
        let (width, height) = self.size;
        let mut image = Canvas::filled(width, height, BACKGROUND);
        let film_width = self.views.iter().map(|view| view.width + GAP).sum::<usize>().saturating_sub(GAP);
        let mut left = (width - film_width) / 2;
        for view in &self.views {
            let shown = frame(recording, at, &view.name, (view.height, view.width))?;
            image.put((left, self.film_height - view.height), &shown);
            left += view.width + GAP;
        }
        let font = Font::get(Weight::Regular, 14);
        let top = self.film_height + GAP / 2;
        let success = if recording.labels().get(at) == Some(&Some(true)) { ", success" } else { "" };
        font.draw(&mut image, (GAP, top), TEXT, &format!("{}, frame {at}{success}", recording.name()));
        if !self.curves.is_empty() {
            self.draw_curves(&mut image, at);
        }
        Ok(image)
    }

    fn draw_curves(&self, image: &mut Canvas, at: usize) {
        let (width, height) = self.size;
        let (top, bottom) = ((height - CURVE_HEIGHT) as f32, (height - GAP / 2) as f32);
        let font = Font::get(Weight::Regular, 12);
        let (from, to) = self.span;
        let steps = (to - from).saturating_sub(1).max(1) as f32;
        let across = |frame: usize| GAP as f32 + (width - 2 * GAP) as f32 * (frame - from) as f32 / steps;
        let down = |value: f32| bottom - (bottom - top - 18.0) * value.clamp(0.0, 1.0);
        for level in [0.0, 1.0] {
            image.line(
                [across(from), down(level)],
                [across(to - 1).max(across(from) + 1.0), down(level)],
                1.0,
                [44, 50, 56],
            );
        }
        let mut name_left = GAP;
        for (number, curve) in self.curves.iter().enumerate() {
            let tint = COLOURS[number % COLOURS.len()];
            if let Some(threshold) = curve.threshold {
                image.line(
                    [across(from), down(threshold)],
                    [(width - GAP) as f32, down(threshold)],
                    1.0,
                    LEVEL,
                );
            }
            for frame in from + 1..=at {
                if let (Some(before), Some(now)) = (curve.values.get(frame - 1), curve.values.get(frame)) {
                    image.line([across(frame - 1), down(*before)], [across(frame), down(*now)], 2.0, tint);
                }
            }
            let value = curve.values.get(at).map_or(String::new(), |value| format!(" {value:.2}"));
            let words = format!("{}{value}", curve.name);
            font.draw(image, (name_left, top as usize), tint, &words);
            name_left += font.width(&words) + 2 * GAP;
        }
        image.line([across(at), top + 18.0], [across(at), bottom], 1.0, colour::PAPER);
    }
}
