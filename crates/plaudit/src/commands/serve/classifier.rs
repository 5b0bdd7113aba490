//! An image classifier as a model that is served.
//!
//! Frames are scored as they are. In a chat, the images are frames of its cameras: all of the first camera, oldest first,
//! then all of the next; a model with a frame history finds it among them. Asked whether things get better (a question that names the three labels), it compares the last
//! moment with the first; asked anything else, it answers with the score of the last moment.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::Score;
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use plaudit_reward::custom::ImageScorer;
use plaudit_reward::dataset::ViewKey;
use plaudit_reward::endpoint::IMAGE_CLASSIFIER;
use plaudit_reward::open::{ModelLocation, OpenFrameModel};
use plaudit_serve::{
    Answer, AnswerResult, ApiError, Asked, Chat, ChatAnswer, ChatChoice, Cost, FrameBlock, Image, Model,
    ModelInfo, Question, Scores, TextPiece,
};
use serde_json::json;

use super::{ServeOptions, details};
use crate::failure::Failure;

/// Scores that change by no more than this are called unclear.
const MAX_UNCLEAR_CHANGE: f32 = 0.05;
/// The threshold of a model without one.
const DEFAULT_THRESHOLD: f32 = 0.5;

/// A classifier that is served.
pub(super) struct ServedClassifier {
    info: ModelInfo,
    scorer: Arc<dyn ImageScorer>,
    /// Its views, by their names.
    image_keys: Vec<String>,
    /// What it is, in words.
    kind: String,
    views: usize,
    /// How many cameras its views are of.
    cameras: usize,
    /// The camera of each view, and how many frames it lies back.
    view_sources: Vec<(usize, usize)>,
    threshold: f32,
    temperature: f64,
}

/// A model that scores frames, in a checkpoint or of another making.
pub(super) fn open(
    path: &Path,
    location: ModelLocation,
    options: &ServeOptions,
) -> Result<Arc<ServedClassifier>, Failure> {
    let model = options.preparation.open_frames(path, location, options.device, options.verbosity)?;
    let (capabilities, known, image_keys) = (model.capabilities(), model.known(), model.image_keys());
    let fingerprint = model.fingerprint().map_err(|error| Failure::runtime(error, None))?;
    let threshold = options.threshold.or(known.threshold).map(|threshold| threshold as f32);
    let temperature = known.temperature;
    // A run that is rewarded from here goes by these: which frames to send, from which score on it is success, and that it
    // is still the same model after a restart.
    let mut own = json!({
        "kind": IMAGE_CLASSIFIER,
        "image_size": model.image_size(),
        "threshold": threshold,
        "sha256": fingerprint,
    });
    let (kind, scorer): (_, Arc<dyn ImageScorer>) = match model {
        OpenFrameModel::Classifier(model) => {
            let settings = model.scorer.settings();
            own["arch"] = settings.arch.name().into();
            own["normalize"] = settings.normalize.into();
            let [_, height, width] = settings.image_size;
            (format!("an image classifier of {height}x{width} images"), Arc::new(model.scorer))
        }
        OpenFrameModel::Custom(model) => {
            own["arch"] = "custom".into();
            (format!("{} that scores images", model.location.kind()), model.scorer)
        }
    };
    let details = details(&capabilities, own);
    let (cameras, view_sources) = view_sources(&image_keys);
    Ok(Arc::new(ServedClassifier {
        info: ModelInfo { name: options.name_for(path), details },
        views: view_sources.len(),
        cameras,
        view_sources,
        scorer,
        image_keys,
        kind,
        threshold: threshold.unwrap_or(DEFAULT_THRESHOLD),
        temperature,
    }))
}

/// The cameras of views, each once, and the camera and the past of each view.
fn view_sources(keys: &[String]) -> (usize, Vec<(usize, usize)>) {
    let mut cameras: Vec<String> = Vec::new();
    let view_source = |key: &String| {
        let parsed = key.parse().map(|ViewKey { camera, back }| (camera, back));
        let (camera, back) = parsed.unwrap_or_else(|_| (key.clone(), 0));
        let known = cameras.iter().position(|other| *other == camera);
        let place = known.unwrap_or_else(|| {
            cameras.push(camera);
            cameras.len() - 1
        });
        (place, back)
    };
    let all: Vec<(usize, usize)> = keys.iter().map(view_source).collect();
    if all.is_empty() { (1, vec![(0, 0)]) } else { (cameras.len(), all) }
}

impl ServedClassifier {
    /// What it is, in a line.
    pub(super) fn described(&self) -> String {
        let views = self.image_keys.join(", ");
        format!("`{}`: {} ({views}), success above {:.3}", self.info.name, self.kind, self.threshold)
    }

    /// How many moments a block holds, if it is one this model can score.
    fn moments(&self, block: &FrameBlock) -> Result<usize, ApiError> {
        match (block.leading.as_slice(), self.views) {
            ([], 1) => Ok(1),
            ([moments], 1) => Ok(*moments),
            ([moments, views], expected) if *views == expected => Ok(*moments),
            _ => {
                let views = self.views;
                let shape = if views == 1 { "N,H,W,3".into() } else { format!("N,{views},H,W,3") };
                let keys = self.image_keys.join(", ");
                Err(ApiError::invalid(format!("this model sees {keys}: send frames of shape {shape}")))
            }
        }
    }

    /// The images of a chat, moment by moment: each as many as there are views. Before the first moment, it is the first.
    fn chat_moments<'a>(&self, chat: &'a Chat) -> Result<Vec<Vec<&'a Image>>, ApiError> {
        let images: Vec<&Image> = chat.images().collect();
        let Some(first) = images.first() else {
            return Err(ApiError::invalid("this model scores images, and there are none in the request"));
        };
        if !images.len().is_multiple_of(self.cameras) {
            let (cameras, count) = (self.cameras, images.len());
            return Err(ApiError::invalid(format!(
                "{count} images for {cameras} cameras: send as many of each"
            )));
        }
        if images.iter().any(|image| (image.height, image.width) != (first.height, first.width)) {
            return Err(ApiError::invalid("images of different sizes in one request"));
        }
        let moments = images.len() / self.cameras;
        let seen = |at: usize| {
            let view = |(camera, back): &(usize, usize)| images[camera * moments + at.saturating_sub(*back)];
            self.view_sources.iter().map(view).collect()
        };
        Ok((0..moments).map(seen).collect())
    }

    /// The scores of moments, each given as the pixels of its views.
    fn scores(&self, moments: &[Vec<&[u8]>], height: usize, width: usize) -> Result<Vec<f32>, ApiError> {
        let keys = &self.image_keys;
        let pixels: Vec<Vec<u8>> = (0..self.views)
            .map(|view| moments.iter().map(|moment| moment[view]).collect::<Vec<_>>().concat())
            .collect();
        let views = pixels.iter().zip(keys).map(|(pixels, key)| ViewPixels {
            key,
            pixels: Pixels::U8(pixels),
            layout: ImageLayout::Hwc,
            count: moments.len(),
            height,
            width,
            channels: 3,
        });
        let batch = ImageBatch::new(views.collect()).map_err(|error| ApiError::invalid(error.to_string()))?;
        let logits = self.scorer.logits(&batch).map_err(|error| ApiError::failed(error.to_string()))?;
        let score = |logit: f32| {
            let score = Score::at_temperature(logit, self.temperature);
            score.map(Score::get).ok_or_else(|| ApiError::failed("the model gives a score that is no number"))
        };
        logits.into_iter().map(score).collect()
    }

    /// What is said about moments with these scores.
    fn said(&self, chat: &Chat, scores: &[f32]) -> ChatAnswer {
        let (first, last) = match scores {
            [first, .., last] => (*first, *last),
            [one] => (*one, *one),
            [] => (0.0, 0.0),
        };
        let question = chat.last_text().to_lowercase();
        let asks_for_trend = ["positive", "negative", "unclear"].iter().all(|word| question.contains(word));
        let text = match last - first {
            _ if !asks_for_trend => format!("{last:.4}"),
            change if change > MAX_UNCLEAR_CHANGE => "positive".into(),
            change if change < -MAX_UNCLEAR_CHANGE => "negative".into(),
            _ => "unclear".into(),
        };
        let choice = ChatChoice { text, ..ChatChoice::default() };
        ChatAnswer { choices: vec![choice; chat.options.choices], prompt_tokens: 0 }
    }
}

/// The moments of one question, as pixels, with their size.
type Shown<'a> = (Vec<Vec<&'a [u8]>>, [usize; 2]);

impl ServedClassifier {
    fn shown<'a>(&self, question: &'a Question) -> Result<Shown<'a>, ApiError> {
        match question {
            Question::Chat(chat) => {
                let moments = self.chat_moments(chat)?;
                let size = moments.first().map_or([0, 0], |moment| [moment[0].height, moment[0].width]);
                let pixels = |moment: Vec<&'a Image>| {
                    moment.into_iter().map(|image| image.pixels.as_slice()).collect()
                };
                Ok((moments.into_iter().map(pixels).collect(), size))
            }
            Question::Score(block) => {
                let moments = self.moments(block)?;
                let bytes = block.height * block.width * 3;
                let frames: Vec<&[u8]> = block.pixels.chunks_exact(bytes).collect();
                let moments = frames.chunks(self.views).take(moments).map(<[&[u8]]>::to_vec).collect();
                Ok((moments, [block.height, block.width]))
            }
        }
    }

    fn answered(&self, question: &Question, scores: &[f32]) -> Answer {
        match question {
            Question::Chat(chat) => Answer::Chat(self.said(chat, scores)),
            Question::Score(_) => Answer::Scores(Scores {
                columns: vec!["success".into()],
                numbers: scores.to_vec(),
                success: Some(scores.iter().map(|score| *score > self.threshold).collect()),
            }),
        }
    }
}

impl Model for ServedClassifier {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn cost(&self, question: &Question) -> Result<Cost, ApiError> {
        if let Question::Chat(chat) = question {
            refuse_token_options(chat)?;
        }
        self.shown(question).map(|_| Cost::default())
    }

    fn answer(&self, asked: &[Asked<'_>]) -> Vec<AnswerResult> {
        let questions: Vec<&Question> = asked.iter().map(|asked| asked.question).collect();
        let shown: Vec<_> = questions.iter().map(|question| self.shown(question)).collect();
        let mut answers: Vec<Option<AnswerResult>> = vec![None; questions.len()];
        let mut sizes: Vec<[usize; 2]> = shown.iter().flatten().map(|(_, size)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // Images of one size go through the network together.
        for size in sizes {
            let together: Vec<usize> = (0..shown.len())
                .filter(|at| shown[*at].as_ref().is_ok_and(|(_, other)| *other == size))
                .collect();
            let of = |at: &usize| shown[*at].as_ref().map_or(&[][..], |(moments, _)| moments.as_slice());
            let moments: Vec<_> = together.iter().flat_map(of).cloned().collect();
            let scored = self.scores(&moments, size[0], size[1]);
            let mut from = 0;
            for at in together {
                let count = of(&at).len();
                let answer = |scores: &Vec<f32>| self.answered(questions[at], &scores[from..from + count]);
                answers[at] = Some(scored.as_ref().map(answer).map_err(Clone::clone));
                from += count;
            }
        }
        let refused = |(at, answer): (usize, Option<AnswerResult>)| match (&shown[at], answer) {
            (_, Some(answer)) => answer,
            (Err(error), None) => Err(error.clone()),
            (Ok(_), None) => Err(ApiError::failed("the model did not see the request")),
        };
        let answers: Vec<AnswerResult> = answers.into_iter().enumerate().map(refused).collect();
        for (asked, answer) in asked.iter().zip(&answers) {
            tell(asked, answer);
        }
        answers
    }
}

/// A client that reads along gets the whole answer at once: it is one word.
fn tell(asked: &Asked<'_>, answer: &AnswerResult) {
    if let Ok(Answer::Chat(answer)) = answer {
        for (number, choice) in answer.choices.iter().enumerate() {
            asked.client.piece(number, &TextPiece { text: choice.text.clone(), token: None });
        }
    }
}

/// An answer that is a number or a word has no tokens that could be steered. What makes no difference to the only answer there is
/// (temperature, nucleus, seed, penalties) is taken.
fn refuse_token_options(chat: &Chat) -> Result<(), ApiError> {
    let options = &chat.options;
    let given = [
        ("stop", !options.stop.is_empty()),
        ("logit_bias", !options.logit_bias.is_empty()),
        ("label_logits", !options.label_logits.is_empty()),
        ("label_logprobs", !options.label_logprobs.is_empty()),
        ("mm_processor_kwargs", options.samples_frames.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            Err(ApiError::invalid(format!("{key}: this model is an image classifier, and has no tokens")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_one_camera_share_its_images() {
        let of = |keys: &[&str]| view_sources(&keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["main_images"]), (1, vec![(0, 0)]));
        assert_eq!(
            of(&["main_images", "extra_view_images", "main_images@-4"]),
            (2, vec![(0, 0), (1, 0), (0, 4)])
        );
        assert_eq!(of(&[]), (1, vec![(0, 0)]));
    }
}
