//! Images, videos and prompts to what the model takes, as transformers' processors do it.

use std::path::Path;

use serde_json::Value;

use super::config::{Config, Family, VisionConfig};
use super::cost::QuestionSize;
use super::error::VlmError;
use super::patches::{RgbImage, Visual, VisualKind, patchify};
use super::positions::{Positions, positions};
use super::prompt::{self, PromptLayout};
use super::resize::{bicubic, smart_size};
use super::tokenizer::Tokenizer;

/// One prompt with its images, ready for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// The tokens; one for every square of patches.
    pub ids: Vec<u32>,
    /// Where each token is.
    pub positions: Positions,
    /// The images and videos, in the order of the prompt.
    pub visuals: Vec<Visual>,
}

impl Inputs {
    /// How many tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The same with the first tokens of an answer, which are words and show nothing.
    #[must_use]
    pub fn followed_by(&self, answer: &[u32]) -> Self {
        let mut longer = self.clone();
        longer.ids.extend_from_slice(answer);
        for _ in answer {
            let Positions { axes, next } = &mut longer.positions;
            axes.push([*next; 3]);
            *next += 1;
        }
        longer
    }
}

/// Which frames of a video the model sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameSampling {
    /// Evenly chosen, so many a second, as the processor's configuration says. Of five frames at 24 a second that is
    /// four, without the middle one.
    #[default]
    Sampled,
    /// All of them.
    All,
}

/// How a video is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoFormat {
    /// Frames per second, which timestamps go by.
    pub fps: f64,
    /// Which frames are seen.
    pub sampling: FrameSampling,
    /// Height and width that frames of other sizes are brought to; not set: as they are.
    pub size: Option<[usize; 2]>,
}

impl VideoFormat {
    /// Frames in their own size.
    #[must_use]
    pub fn new(fps: f64, sampling: FrameSampling) -> Self {
        Self { fps, sampling, size: None }
    }
}

/// How many pixels images may have, and how their bytes are normalized.
#[derive(Clone, Debug, PartialEq)]
struct PixelSettings {
    /// Fewest and most pixels, of all frames together.
    pixels: [usize; 2],
    mean: [f64; 3],
    std: [f64; 3],
}

/// How many frames of a video are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FrameSettings {
    /// Not set: all of them.
    per_second: Option<f64>,
    least: usize,
    most: usize,
}

/// The model's tokenizer and its rules for images.
#[derive(Clone, Debug)]
pub struct Processor {
    tokenizer: Tokenizer,
    config: Config,
    image: PixelSettings,
    video: PixelSettings,
    frames: FrameSettings,
}

/// The hub's bounds on pixels, where a folder says nothing.
pub(super) const IMAGE_PIXELS: [usize; 2] = [65_536, 16_777_216];
pub(super) const VIDEO_PIXELS: [usize; 2] = [4096, 25_165_824];

/// What processors of a family do where a folder says nothing, as transformers' classes have it.
struct Defaults {
    image_pixels: [usize; 2],
    video_pixels: [usize; 2],
    mean: [f64; 3],
    std: [f64; 3],
    frames_per_second: Option<f64>,
}

impl Defaults {
    fn of(family: Family) -> Self {
        match family {
            Family::Qwen3Vl | Family::Qwen3VlMoe => Self {
                image_pixels: IMAGE_PIXELS,
                video_pixels: VIDEO_PIXELS,
                mean: [0.5; 3],
                std: [0.5; 3],
                frames_per_second: Some(2.0),
            },
            Family::Qwen25Vl => Self {
                image_pixels: [56 * 56, 28 * 28 * 1280],
                video_pixels: [128 * 28 * 28, 28 * 28 * 768],
                mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
                std: [0.268_629_54, 0.261_302_58, 0.275_777_11],
                frames_per_second: None,
            },
        }
    }
}

/// A file of settings in a model's folder, if it is there.
fn settings(file: &Path) -> Result<Option<Value>, VlmError> {
    match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| VlmError::Config {
            file: file.to_owned(),
            problem: format!("no JSON: {error}"),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(VlmError::File { file: file.to_owned(), source }),
    }
}

impl PixelSettings {
    fn read(
        file: &Path,
        value: &Value,
        vision: &VisionConfig,
        (pixels, usual): ([usize; 2], &Defaults),
    ) -> Result<Self, VlmError> {
        let wrong = |problem: String| VlmError::Config { file: file.to_owned(), problem };
        for (key, own) in [
            ("patch_size", vision.patch),
            ("temporal_patch_size", vision.frames),
            ("merge_size", vision.merge),
        ] {
            match value.get(key).and_then(Value::as_u64) {
                Some(stored) if stored != own as u64 => {
                    return Err(wrong(format!("`{key}` is {stored}, but config.json says {own}")));
                }
                _ => {}
            }
        }
        refuse_other_steps(value).map_err(wrong)?;
        let bound = |named: &str, plain: &str, default: usize| {
            let number = value.get("size").and_then(|size| size.get(named)).or_else(|| value.get(plain));
            number.and_then(Value::as_u64).map_or(default, |number| number as usize)
        };
        let colours = |key: &str, usual: [f64; 3]| -> Result<[f64; 3], VlmError> {
            let Some(stored) = value.get(key) else { return Ok(usual) };
            let numbers: Option<Vec<f64>> =
                stored.as_array().and_then(|numbers| numbers.iter().map(Value::as_f64).collect());
            numbers
                .and_then(|numbers| numbers.try_into().ok())
                .ok_or_else(|| wrong(format!("`{key}` must be three numbers")))
        };
        Ok(Self {
            pixels: [
                bound("shortest_edge", "min_pixels", pixels[0]),
                bound("longest_edge", "max_pixels", pixels[1]),
            ],
            mean: colours("image_mean", usual.mean)?,
            std: colours("image_std", usual.std)?,
        })
    }
}

/// Steps of a processor that are not taken here, by their names. What is not written is as usual.
fn refuse_other_steps(value: &Value) -> Result<(), String> {
    const BICUBIC: u64 = 3;
    for (key, usual) in [
        ("do_resize", true),
        ("do_rescale", true),
        ("do_normalize", true),
        ("do_center_crop", false),
        ("do_pad", false),
        ("cap_pixels_per_frame", false),
    ] {
        match value.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(set)) if *set == usual => {}
            Some(other) => return Err(format!("`{key}` is {other}; only {usual} is supported")),
        }
    }
    match value.get("resample") {
        None | Some(Value::Null) => {}
        Some(resample) if resample.as_u64() == Some(BICUBIC) => {}
        Some(other) => return Err(format!("`resample` is {other}; only {BICUBIC} (bicubic) is supported")),
    }
    match value.get("rescale_factor").and_then(Value::as_f64) {
        Some(factor) if (factor * 255.0 - 1.0).abs() > 1e-6 => {
            return Err(format!("`rescale_factor` is {factor}; only 1/255 is supported"));
        }
        _ => {}
    }
    if let Some(frames) = value.get("num_frames").filter(|frames| !frames.is_null()) {
        return Err(format!("`num_frames` is {frames}; frames are sampled by `fps` here"));
    }
    let edges = ["shortest_edge", "longest_edge"];
    let sizes = value.get("size").and_then(Value::as_object).into_iter().flatten();
    match sizes.into_iter().find(|(key, _)| !edges.contains(&key.as_str())) {
        Some((key, _)) => Err(format!("`size` has `{key}`; only {} are supported", edges.join(" and "))),
        None => Ok(()),
    }
}

impl Processor {
    /// The processor of a model's folder.
    ///
    /// # Errors
    /// When the tokenizer is missing or another model's, or a file of settings contradicts `config.json`.
    pub fn open(folder: &Path, config: &Config) -> Result<Self, VlmError> {
        let tokenizer = Tokenizer::read(&folder.join("tokenizer.json"))?;
        check_tokens(folder, &tokenizer, config)?;
        let together = folder.join("processor_config.json");
        let both = settings(&together)?.unwrap_or(Value::Null);
        let usual = Defaults::of(config.family);
        let image_file = folder.join("preprocessor_config.json");
        let rules = |own: &str, key: &str, pixels| {
            let mut file = folder.join(own);
            let mut value = settings(&file)?.or_else(|| both.get(key).cloned());
            // The hub's folders of Qwen2.5-VL have one file for both.
            if value.is_none() && config.family == Family::Qwen25Vl {
                value = settings(&image_file)?;
                file.clone_from(&image_file);
            }
            let value = value.unwrap_or(Value::Null);
            Ok::<_, VlmError>((PixelSettings::read(&file, &value, &config.vision, (pixels, &usual))?, value))
        };
        let (image, _) = rules("preprocessor_config.json", "image_processor", usual.image_pixels)?;
        let (video, settings) =
            rules("video_preprocessor_config.json", "video_processor", usual.video_pixels)?;
        let whole =
            |key: &str, default| settings.get(key).and_then(Value::as_u64).map_or(default, |n| n as usize);
        let frames = FrameSettings {
            per_second: settings.get("fps").and_then(Value::as_f64).or(usual.frames_per_second),
            least: whole("min_frames", 4),
            most: whole("max_frames", 768),
        };
        Ok(Self { tokenizer, config: config.clone(), image, video, frames })
    }

    /// A processor by the family's usual rules.
    pub(super) fn with_tokenizer(tokenizer: Tokenizer, config: &Config) -> Result<Self, VlmError> {
        check_tokens(Path::new(""), &tokenizer, config)?;
        let usual = Defaults::of(config.family);
        let rules = |pixels| PixelSettings { pixels, mean: usual.mean, std: usual.std };
        let frames = FrameSettings { per_second: usual.frames_per_second, least: 4, most: 768 };
        let (image, video) = (rules(usual.image_pixels), rules(usual.video_pixels));
        Ok(Self { tokenizer, config: config.clone(), image, video, frames })
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The same with other bounds on the pixels of images, `[fewest, most]`.
    #[must_use]
    pub fn with_image_pixels(mut self, pixels: [usize; 2]) -> Self {
        self.image.pixels = pixels;
        self
    }

    /// Side of the squares that sides of images are rounded to.
    fn factor(&self) -> usize {
        self.config.vision.patch * self.config.vision.merge
    }

    /// An image as the model sees it.
    ///
    /// # Errors
    /// When it is empty or far too long.
    pub fn image(&self, image: RgbImage<'_>) -> Result<Visual, VlmError> {
        image.check()?;
        let size = smart_size([1, image.height, image.width], 1, self.factor(), self.image.pixels)?;
        let frame = resized(image, size);
        let (grid, patches) = patchify(&[frame], size, &self.config.vision);
        Ok(Visual { kind: VisualKind::Image, grid, times: Vec::new(), seconds_per_pair: 0.0, patches })
    }

    /// A video as the model sees it; `fps` says how many frames a second has.
    ///
    /// # Errors
    /// When it has too few frames, or frames of several sizes.
    pub fn video(&self, video: &[RgbImage<'_>], fps: f64, which: FrameSampling) -> Result<Visual, VlmError> {
        self.video_as(video, VideoFormat::new(fps, which))
    }

    /// A video in a format, as the model sees it.
    ///
    /// # Errors
    /// As [`video`](Self::video).
    pub fn video_as(&self, video: &[RgbImage<'_>], format: VideoFormat) -> Result<Visual, VlmError> {
        let VideoFormat { fps, sampling, size: shown_size } = format;
        let wrong = |what: String| Err(VlmError::Input(what));
        let Some(first) = video.first() else { return wrong("a video without frames".into()) };
        if fps <= 0.0 || !fps.is_finite() {
            return wrong(format!("a video of {fps} frames a second"));
        }
        video.iter().try_for_each(RgbImage::check)?;
        let (height, width) = (first.height, first.width);
        if let Some(i) = video.iter().position(|frame| (frame.height, frame.width) != (height, width)) {
            let RgbImage { height: h, width: w, .. } = video[i];
            return wrong(format!("frame {i} is {h}x{w} pixels, the first {height}x{width}"));
        }
        let sampled_frames = self.sampled_frames(video.len(), fps, sampling);
        let depth = self.config.vision.frames;
        if sampled_frames.len() < depth {
            return wrong(format!("a video of {} frames; at least {depth} are needed", sampled_frames.len()));
        }
        let size = self.video_size(sampled_frames.len(), shown_size.unwrap_or([height, width]))?;
        let frames: Vec<Vec<u8>> = sampled_frames.iter().map(|i| resized(video[*i], size)).collect();
        let (grid, patches) = patchify(&frames, size, &self.config.vision);
        let sampled_fps = sampled_frames.len() as f64 / video.len() as f64 * fps;
        Ok(Visual {
            kind: VisualKind::Video,
            grid,
            times: self.times(sampled_frames, fps),
            seconds_per_pair: depth as f64 / sampled_fps,
            patches,
        })
    }

    /// The size that frames of a video are brought to. Pixels of all frames count together, or of each by itself.
    fn video_size(&self, frames: usize, [height, width]: [usize; 2]) -> Result<[usize; 2], VlmError> {
        match self.config.family {
            Family::Qwen3Vl | Family::Qwen3VlMoe => {
                let depth = self.config.vision.frames;
                smart_size([frames, height, width], depth, self.factor(), self.video.pixels)
            }
            Family::Qwen25Vl => smart_size([1, height, width], 1, self.factor(), self.video.pixels),
        }
    }

    /// The frames of a video that the model gets.
    fn sampled_frames(&self, total: usize, fps: f64, which: FrameSampling) -> Vec<usize> {
        let FrameSettings { per_second, least, most } = self.frames;
        let per_second = per_second.filter(|_| which == FrameSampling::Sampled);
        let Some(per_second) = per_second else { return (0..total).collect() };
        if self.config.family == Family::Qwen25Vl {
            return evenly_by_step(
                total,
                self.config.vision.frames,
                total as f64 / fps * per_second,
                [least, most],
            );
        }
        let count = ((total as f64 / fps * per_second) as usize).max(least).min(most).min(total);
        // As numpy's linspace: the step first, and the last number exactly.
        let step = (total - 1) as f64 / (count.max(2) - 1) as f64;
        let place = |i: usize| (i as f64 * step).round_ties_even() as usize;
        (0..count).map(|i| if i + 1 == count && count > 1 { total - 1 } else { place(i) }).collect()
    }

    /// Seconds at the middle of each pair of frames.
    fn times(&self, mut sampled_frames: Vec<usize>, fps: f64) -> Vec<f64> {
        let depth = self.config.vision.frames;
        while !sampled_frames.len().is_multiple_of(depth) {
            sampled_frames.push(sampled_frames[sampled_frames.len() - 1]);
        }
        let time = |frame: usize| frame as f64 / fps;
        sampled_frames.chunks_exact(depth).map(|pair| (time(pair[0]) + time(pair[depth - 1])) / 2.0).collect()
    }

    /// A prompt with `<|image_pad|>` and `<|video_pad|>` where the visuals are shown, in their order.
    ///
    /// # Errors
    /// When the prompt shows more or fewer than there are.
    pub fn encode(&self, prompt: &str, visuals: Vec<Visual>) -> Result<Inputs, VlmError> {
        let ids = self.tokenizer.encode(&self.expand(prompt, &visuals)?)?;
        let positions = positions(&ids, &visuals, &self.config)?;
        self.check_positions(positions.next as usize)?;
        Ok(Inputs { ids, positions, visuals })
    }

    /// Whether the model knows so many positions.
    fn check_positions(&self, positions: usize) -> Result<(), VlmError> {
        match self.config.text.max_positions {
            Some(most) if positions > most => Err(VlmError::TooLong { positions, most }),
            _ => Ok(()),
        }
    }

    /// What an image would become: pairs of frames, rows and columns of patches.
    ///
    /// # Errors
    /// As [`image`](Self::image).
    pub fn image_grid(&self, height: usize, width: usize) -> Result<[usize; 3], VlmError> {
        let [height, width] = smart_size([1, height, width], 1, self.factor(), self.image.pixels)?;
        Ok([1, height / self.config.vision.patch, width / self.config.vision.patch])
    }

    /// What a video of so many frames would become: pairs of frames, rows and columns of patches.
    ///
    /// # Errors
    /// As [`video`](Self::video).
    pub fn video_grid(
        &self,
        frames: usize,
        [height, width]: [usize; 2],
        format: VideoFormat,
    ) -> Result<[usize; 3], VlmError> {
        let frames = self.sampled_frames(frames.max(1), format.fps, format.sampling).len();
        let (depth, patch) = (self.config.vision.frames, self.config.vision.patch);
        let [height, width] = self.video_size(frames, format.size.unwrap_or([height, width]))?;
        Ok([frames.div_ceil(depth), height / patch, width / patch])
    }

    /// The size of a question whose images and videos become these grids.
    ///
    /// # Errors
    /// When its text cannot be tokenized.
    pub fn question_size(&self, prompt: &str, grids: &[[usize; 3]]) -> Result<QuestionSize, VlmError> {
        /// Tokens of a pair of frames besides its patches: a time, and where it begins and ends.
        const PAIR_TOKENS: usize = 16;
        let merged = self.config.vision.merged();
        let patches: usize = grids.iter().map(|grid| grid.iter().product::<usize>()).sum();
        let pairs: usize = grids.iter().map(|grid| grid[0]).sum();
        let visual_tokens = patches / merged;
        let tokens = self.tokenizer.encode(prompt)?.len() + visual_tokens + pairs * PAIR_TOKENS;
        let largest_image = grids.iter().map(|[_, rows, columns]| rows * columns).max().unwrap_or(0);
        Ok(QuestionSize { tokens, visual_tokens, patches, largest_image })
    }

    /// The prompt with each pad repeated for every token of its visual.
    fn expand(&self, prompt: &str, visuals: &[Visual]) -> Result<String, VlmError> {
        const PADS: [(&str, VisualKind); 2] =
            [("<|image_pad|>", VisualKind::Image), ("<|video_pad|>", VisualKind::Video)];
        let mut text = String::with_capacity(prompt.len());
        let (mut rest, mut visuals) = (prompt, visuals.iter());
        let wrong = |what: &str| VlmError::Input(format!("the prompt shows {what} than were given"));
        loop {
            let next = PADS.iter().filter_map(|pad| Some((rest.find(pad.0)?, pad))).min_by_key(|(at, _)| *at);
            let Some((at, (pad, kind))) = next else { break };
            let visual = visuals.next().ok_or_else(|| wrong("more images and videos"))?;
            if visual.kind != *kind {
                return Err(wrong("images and videos in another order"));
            }
            text += &rest[..at];
            self.show(visual, pad, &mut text);
            rest = &rest[at + pad.len()..];
        }
        text += rest;
        if visuals.next().is_some() { Err(wrong("fewer images and videos")) } else { Ok(text) }
    }

    fn show(&self, visual: &Visual, pad: &str, text: &mut String) {
        let tokens = pad.repeat(visual.pair_patches() / self.config.vision.merged());
        if visual.kind == VisualKind::Image {
            *text += &tokens;
        } else if self.config.vision.tokens_per_second.is_some() {
            *text += &tokens.repeat(visual.grid[0]);
            return;
        }
        for time in &visual.times {
            *text += &format!("<{time:.1} seconds><|vision_start|>{tokens}<|vision_end|>");
        }
    }

    /// A trend window: one video per view, with a question about them.
    ///
    /// # Errors
    /// As [`video`](Self::video); the message names the view.
    pub fn window(
        &self,
        views: &[Vec<RgbImage<'_>>],
        fps: f64,
        which: FrameSampling,
        question: &str,
        layout: PromptLayout,
    ) -> Result<Inputs, VlmError> {
        self.window_as(views, VideoFormat::new(fps, which), question, layout)
    }

    /// A trend window whose videos have a format.
    ///
    /// # Errors
    /// As [`window`](Self::window).
    pub fn window_as(
        &self,
        views: &[Vec<RgbImage<'_>>],
        format: VideoFormat,
        question: &str,
        layout: PromptLayout,
    ) -> Result<Inputs, VlmError> {
        if views.is_empty() {
            return Err(VlmError::Input("a window without views".into()));
        }
        let video = |(i, view): (usize, &Vec<RgbImage<'_>>)| {
            let named = |error| VlmError::Input(format!("view {i}: {error}"));
            self.video_as(view, format).map_err(named)
        };
        let visuals = views.iter().enumerate().map(video).collect::<Result<_, _>>()?;
        self.encode(&self.in_template(prompt::window(views.len(), question, layout)), visuals)
    }

    /// A conversation (of [`chat`](super::chat) and the like) with what the template of the model's family adds. That of Qwen2.5-VL
    /// begins with a system message, and says where a video begins and ends, which Qwen3-VL's processor does when it writes the times of frames.
    #[must_use]
    pub fn in_template(&self, conversation: String) -> String {
        match self.config.family {
            Family::Qwen3Vl | Family::Qwen3VlMoe => conversation,
            Family::Qwen25Vl => prompt::qwen2_5_template(&conversation),
        }
    }

    /// Mean and standard deviation of each colour, in bytes.
    pub(super) fn mean_and_std(&self, kind: VisualKind) -> [[f32; 2]; 3] {
        let PixelSettings { mean, std, .. } = match kind {
            VisualKind::Image => &self.image,
            VisualKind::Video => &self.video,
        };
        std::array::from_fn(|c| [(mean[c] * 255.0) as f32, (std[c] * 255.0) as f32])
    }
}

/// About `wanted` frames, a multiple of `depth`, by a constant step as torch's `arange` has it.
fn evenly_by_step(total: usize, depth: usize, wanted: f64, [least, most]: [usize; 2]) -> Vec<usize> {
    let whole = |frames: f64| (frames / depth as f64).floor() * depth as f64;
    let most = whole(most.min(total) as f64);
    let count = whole(wanted.max(least as f64).min(most).min(total as f64));
    if count < 1.0 {
        return Vec::new();
    }
    let step = total as f64 / count;
    let frames = (0..(total as f64 / step).ceil() as usize).map(|i| (i as f64 * step) as f32 as usize);
    frames.map(|frame| frame.min(total - 1)).collect()
}

fn resized(image: RgbImage<'_>, size: [usize; 2]) -> Vec<u8> {
    bicubic(image.rgb, [image.height, image.width], size)
}

/// A tokenizer of another model gives tokens that mean something else.
fn check_tokens(folder: &Path, tokenizer: &Tokenizer, config: &Config) -> Result<(), VlmError> {
    let wrong = |problem| Err(VlmError::Config { file: folder.join("tokenizer.json"), problem });
    let special = tokenizer.special();
    for (name, own, stored) in [
        ("<|image_pad|>", config.image_token, special.image),
        ("<|video_pad|>", config.video_token, special.video),
    ] {
        if own != stored {
            return wrong(format!(
                "`{name}` is token {stored}, but {own} in config.json; is it another model's?"
            ));
        }
    }
    if tokenizer.len() > config.text.vocab {
        let (tokens, rows) = (tokenizer.len(), config.text.vocab);
        return wrong(format!(
            "{tokens} tokens, but config.json has `vocab_size` {rows}; is it another model's?"
        ));
    }
    Ok(())
}
