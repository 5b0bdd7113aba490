//! An image classifier as a model that is served.
//!
//! Frames are scored as they are. In a chat, the pictures are frames of its cameras: all of the first camera, oldest first,
//! then all of the next; a model that looks back finds its past among them. Asked whether things get better (a question that names the three labels), it compares the last
//! moment with the first; asked anything else, it answers with the score of the last moment.

use std::path::Path;
use std::sync::Arc;

use plaudit_nn::classifier::{Arch, Device, Scorer};
use plaudit_nn::images::{ImageBatch, Layout, Pixels, View};
use plaudit_reward::card::ModelCard;
use plaudit_reward::dataset::ViewKey;
use plaudit_serve::{
    About, Answer, Answered, Chat, FrameBlock, Model, Picture, Question, Refusal, Said, Scores,
};
use serde_json::json;

use super::super::reward::{guessed, read, unfit};
use super::Wanted;
use crate::failure::Failure;

/// Scores that change by no more than this are called unclear.
const UNCLEAR: f32 = 0.05;

/// A classifier that is served.
pub(super) struct Served {
    about: About,
    scorer: Scorer,
    views: usize,
    /// How many cameras its views are of.
    cameras: usize,
    /// The camera of each view, and how many moments it looks back.
    sights: Vec<(usize, usize)>,
    threshold: f32,
    temperature: f32,
}

/// The model in a checkpoint.
pub(super) fn open(path: &Path, wanted: &Wanted) -> Result<Arc<Served>, Failure> {
    let (weights, card) = read(path)?;
    let card = match (card, wanted.image_size) {
        (Some(_), Some(_)) => {
            let message = format!("{} says itself which pictures it looks at", path.display());
            return Err(Failure::use_of(message, "leave --image-size out".to_string()));
        }
        (Some(card), None) => card,
        (None, Some([height, width])) => {
            let mut card = ModelCard::of(guessed(&weights));
            card.settings.image_size = [3, height, width];
            card
        }
        (None, None) => {
            let message = format!("{} does not say how large its pictures were", path.display());
            let help = "say it as in its training: --image-size 128 128".to_string();
            return Err(Failure::use_of(message, help));
        }
    };
    let scorer = Scorer::new(&card.settings, &weights, Device::Cpu).map_err(|error| unfit(path, &error))?;
    let settings = scorer.settings();
    let threshold = wanted.threshold.or(card.threshold.map(|threshold| threshold as f32)).unwrap_or(0.5);
    let [_, height, width] = settings.image_size;
    let details = json!({
        "kind": "image classifier",
        "arch": arch(settings.arch),
        "image_size": [height, width],
        "views": settings.image_keys,
        "threshold": threshold,
    });
    let details = details.as_object().cloned().unwrap_or_default();
    let (cameras, sights) = sights(&settings.image_keys);
    Ok(Arc::new(Served {
        about: About { name: wanted.name_for(path), details },
        views: sights.len(),
        cameras,
        sights,
        scorer,
        threshold,
        temperature: card.temperature() as f32,
    }))
}

fn arch(arch: Arch) -> serde_json::Value {
    serde_json::to_value(arch).unwrap_or_default()
}

/// The cameras of views, each once, and the camera and the past of each view.
fn sights(keys: &[String]) -> (usize, Vec<(usize, usize)>) {
    let mut cameras: Vec<String> = Vec::new();
    let sight = |key: &String| {
        let parsed = key.parse().map(|ViewKey { camera, back }| (camera, back));
        let (camera, back) = parsed.unwrap_or_else(|_| (key.clone(), 0));
        let known = cameras.iter().position(|other| *other == camera);
        let place = known.unwrap_or_else(|| {
            cameras.push(camera);
            cameras.len() - 1
        });
        (place, back)
    };
    let all: Vec<(usize, usize)> = keys.iter().map(sight).collect();
    if all.is_empty() { (1, vec![(0, 0)]) } else { (cameras.len(), all) }
}

impl Served {
    /// What it is, in a line.
    pub(super) fn described(&self) -> String {
        let settings = self.scorer.settings();
        let [_, height, width] = settings.image_size;
        let views = settings.image_keys.join(", ");
        format!(
            "`{}`: an image classifier of {height}x{width} pictures ({views}), success above {:.3}",
            self.about.name, self.threshold
        )
    }

    /// How many moments a block holds, if it is one this model can score.
    fn moments(&self, block: &FrameBlock) -> Result<usize, Refusal> {
        match (block.leading.as_slice(), self.views) {
            ([], 1) => Ok(1),
            ([moments], 1) => Ok(*moments),
            ([moments, views], expected) if *views == expected => Ok(*moments),
            _ => {
                let views = self.views;
                let shape = if views == 1 { "N,H,W,3".into() } else { format!("N,{views},H,W,3") };
                let keys = self.scorer.settings().image_keys.join(", ");
                Err(Refusal::invalid(format!("this model sees {keys}: send frames of shape {shape}")))
            }
        }
    }

    /// The pictures of a chat, moment by moment: each as many as there are views. Before the first moment, it is the first.
    fn chat_moments<'a>(&self, chat: &'a Chat) -> Result<Vec<Vec<&'a Picture>>, Refusal> {
        let pictures: Vec<&Picture> = chat.pictures().collect();
        let Some(first) = pictures.first() else {
            return Err(Refusal::invalid("this model judges pictures, and there are none in the request"));
        };
        if !pictures.len().is_multiple_of(self.cameras) {
            let (cameras, count) = (self.cameras, pictures.len());
            return Err(Refusal::invalid(format!(
                "{count} pictures for {cameras} cameras: send as many of each"
            )));
        }
        if pictures.iter().any(|picture| (picture.height, picture.width) != (first.height, first.width)) {
            return Err(Refusal::invalid("pictures of different sizes in one request"));
        }
        let moments = pictures.len() / self.cameras;
        let seen = |at: usize| {
            let view =
                |(camera, back): &(usize, usize)| pictures[camera * moments + at.saturating_sub(*back)];
            self.sights.iter().map(view).collect()
        };
        Ok((0..moments).map(seen).collect())
    }

    /// The scores of moments, each given as the pixels of its views.
    fn scores(&self, moments: &[Vec<&[u8]>], height: usize, width: usize) -> Result<Vec<f32>, Refusal> {
        let keys = &self.scorer.settings().image_keys;
        let pixels: Vec<Vec<u8>> = (0..self.views)
            .map(|view| moments.iter().map(|moment| moment[view]).collect::<Vec<_>>().concat())
            .collect();
        let views = pixels.iter().zip(keys).map(|(pixels, key)| View {
            key,
            pixels: Pixels::U8(pixels),
            layout: Layout::Hwc,
            count: moments.len(),
            height,
            width,
            channels: 3,
        });
        let batch = ImageBatch::new(views.collect()).map_err(|error| Refusal::invalid(error.to_string()))?;
        let logits = self.scorer.logits(&batch).map_err(|error| Refusal::failed(error.to_string()))?;
        let score = |logit: f32| 1.0 / (1.0 + (-logit / self.temperature).exp());
        Ok(logits.into_iter().map(score).collect())
    }

    /// What is said about moments with these scores.
    fn said(&self, chat: &Chat, scores: &[f32]) -> Said {
        let (first, last) = match scores {
            [first, .., last] => (*first, *last),
            [one] => (*one, *one),
            [] => (0.0, 0.0),
        };
        let question = chat.last_words().to_lowercase();
        let asks_for_trend = ["positive", "negative", "unclear"].iter().all(|word| question.contains(word));
        let text = match last - first {
            _ if !asks_for_trend => format!("{last:.4}"),
            change if change > UNCLEAR => "positive".into(),
            change if change < -UNCLEAR => "negative".into(),
            _ => "unclear".into(),
        };
        Said { text, tokens: None, prompt_tokens: 0, completion_tokens: 0, is_cut: false }
    }
}

/// The moments of one question, as pixels, with their size.
type Shown<'a> = (Vec<Vec<&'a [u8]>>, [usize; 2]);

impl Served {
    fn shown<'a>(&self, question: &'a Question) -> Result<Shown<'a>, Refusal> {
        match question {
            Question::Chat(chat) => {
                let moments = self.chat_moments(chat)?;
                let size = moments.first().map_or([0, 0], |moment| [moment[0].height, moment[0].width]);
                let pixels = |moment: Vec<&'a Picture>| {
                    moment.into_iter().map(|picture| picture.pixels.as_slice()).collect()
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
            Question::Chat(chat) => Answer::Said(self.said(chat, scores)),
            Question::Score(_) => Answer::Scores(Scores {
                columns: vec!["success".into()],
                numbers: scores.to_vec(),
                success: Some(scores.iter().map(|score| *score > self.threshold).collect()),
            }),
        }
    }
}

impl Model for Served {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self, question: &Question) -> Result<(), Refusal> {
        self.shown(question).map(|_| ())
    }

    fn answer(&self, questions: &[Question]) -> Vec<Answered> {
        let shown: Vec<_> = questions.iter().map(|question| self.shown(question)).collect();
        let mut answers: Vec<Option<Answered>> = vec![None; questions.len()];
        let mut sizes: Vec<[usize; 2]> = shown.iter().flatten().map(|(_, size)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // Pictures of one size go through the network together.
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
                let answer = |scores: &Vec<f32>| self.answered(&questions[at], &scores[from..from + count]);
                answers[at] = Some(scored.as_ref().map(answer).map_err(Clone::clone));
                from += count;
            }
        }
        let refused = |(at, answer): (usize, Option<Answered>)| match (&shown[at], answer) {
            (_, Some(answer)) => answer,
            (Err(refusal), None) => Err(refusal.clone()),
            (Ok(_), None) => Err(Refusal::failed("the model did not see the request")),
        };
        answers.into_iter().enumerate().map(refused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_one_camera_share_its_pictures() {
        let of = |keys: &[&str]| sights(&keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["main_images"]), (1, vec![(0, 0)]));
        assert_eq!(
            of(&["main_images", "extra_view_images", "main_images@-4"]),
            (2, vec![(0, 0), (1, 0), (0, 4)])
        );
        assert_eq!(of(&[]), (1, vec![(0, 0)]));
    }
}
