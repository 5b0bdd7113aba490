//! Videos side by side, each over its curve.

use super::{Chart, Html, data_url, escape};

/// A video and the curves under it.
#[derive(Debug, Clone)]
pub struct PageVideo {
    /// What it shows, in a few words: `before training`.
    pub title: String,
    /// What came of it.
    pub outcome: String,
    /// The video.
    pub file: EmbeddedVideo,
    /// How long it runs, in seconds: the width of the curve.
    pub secs: f64,
    /// The curves under it.
    pub curve: Option<Chart>,
}

/// A video inside the page.
#[derive(Debug, Clone)]
pub enum EmbeddedVideo {
    /// One that can be stopped and wound.
    Mp4(Vec<u8>),
    /// An animated PNG.
    Apng(Vec<u8>),
}

impl Html {
    /// Videos side by side, in step.
    pub fn videos(&mut self, videos: &[PageVideo]) -> &mut Self {
        self.raw("<div class=\"films\"><div class=\"pair\">");
        for video in videos {
            let (title, outcome) = (escape(&video.title), escape(&video.outcome));
            self.raw(&format!(
                "<div class=\"film\"><p><b>{title}</b> <span class=\"soft\">{outcome}</span></p>{}{}</div>",
                video.element(),
                video.curve.as_ref().map_or(String::new(), Chart::html)
            ));
        }
        self.raw("</div>");
        if videos.iter().any(|video| matches!(video.file, EmbeddedVideo::Mp4(_))) {
            self.raw(
                "<div class=\"bar\" hidden><button type=\"button\">Play</button>\
                 <input type=\"range\" min=\"0\" max=\"1000\" value=\"0\" step=\"1\" aria-label=\"position in the videos\"></div>",
            );
        }
        self.raw("</div>")
    }
}

impl PageVideo {
    fn element(&self) -> String {
        let words = escape(&format!("video, {}", self.title));
        match &self.file {
            EmbeddedVideo::Mp4(bytes) => format!(
                "<video controls muted playsinline preload=\"auto\" data-secs=\"{:.3}\" src=\"{}\" aria-label=\"{words}\"></video>",
                self.secs,
                data_url("video/mp4", bytes)
            ),
            EmbeddedVideo::Apng(bytes) => {
                format!("<img src=\"{}\" alt=\"{words}\">", data_url("image/png", bytes))
            }
        }
    }
}
