//! Files for a model that is trained from scratch: a tokenizer made of the texts it will read, and settings.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::config::Config;
use super::error::VlmError;
use super::processor::Processor;
use super::tokenizer::Tokenizer;

/// What a model needs besides weights.
#[derive(Clone, Debug)]
pub struct NewModelFiles {
    config: Config,
    tokenizer: String,
}

/// The tokens with a meaning of their own, in the order of the family's vocabulary.
const SPECIAL: [&str; 14] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
];

/// Where words end in this family's tokenizers.
const WORD_PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What prompts have besides the question.
const TEMPLATE_TEXTS: [&str; 3] = ["system\nuser\nassistant\n", "\n\n", "<0.0 seconds>"];

/// Rules of a tokenizer: two pieces that become one.
type Merges = Vec<(String, String)>;

impl NewModelFiles {
    /// A model of these sizes that reads these texts word by word. Other texts cost it a token per byte at worst.
    /// Vocabulary and special tokens of `sizes` are replaced.
    ///
    /// # Errors
    /// When the sizes do not go together.
    pub fn new(sizes: Config, texts: &[&str]) -> Result<Self, VlmError> {
        let letters = tokenizer_json(&Vec::new()).to_string();
        let letters = Tokenizer::parse(Path::new(TOKENIZER), letters.as_bytes())?;
        let mut words: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for text in texts.iter().chain(&TEMPLATE_TEXTS) {
            for word in letters.words(text)? {
                *words.entry(word).or_default() += 1;
            }
        }
        let json = tokenizer_json(&learn_merges(words.into_iter().collect()));
        let text = json.to_string();
        let tokenizer = Tokenizer::parse(Path::new(TOKENIZER), text.as_bytes())?;
        let special = tokenizer.special();
        let mut config = sizes;
        config.text.vocab = tokenizer.len();
        config.image_token = special.image;
        config.video_token = special.video;
        // What can be written can be read: the same checks as for a file.
        let config = Config::parse(Path::new(CONFIG), &config.to_json())?;
        Ok(Self { config, tokenizer: text })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its preprocessing of prompts and images, with the family's defaults.
    ///
    /// # Errors
    /// Never for what [`new`](Self::new) made.
    pub fn processor(&self) -> Result<Processor, VlmError> {
        let tokenizer = Tokenizer::parse(Path::new(TOKENIZER), self.tokenizer.as_bytes())?;
        Processor::with_tokenizer(tokenizer, &self.config)
    }

    /// Writes tokenizer and settings into a model's folder, as transformers reads them.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, folder: &Path) -> Result<(), VlmError> {
        let vision = &self.config.vision;
        let images = |kind: &str, pixels: [usize; 2]| {
            json!({
                kind: if kind == "image_processor_type" { "Qwen2VLImageProcessor" } else { "Qwen3VLVideoProcessor" },
                "do_convert_rgb": true, "do_resize": true, "do_rescale": true, "do_normalize": true,
                "rescale_factor": 1.0 / 255.0, "resample": 3,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                "patch_size": vision.patch, "temporal_patch_size": vision.frames, "merge_size": vision.merge,
                "size": { "shortest_edge": pixels[0], "longest_edge": pixels[1] },
            })
        };
        let mut video = images("video_processor_type", super::processor::VIDEO_PIXELS);
        for (key, value) in [
            ("fps", json!(2)),
            ("min_frames", json!(4)),
            ("max_frames", json!(768)),
            ("do_sample_frames", json!(true)),
        ] {
            video[key] = value;
        }
        let words = json!({
            "tokenizer_class": "Qwen2Tokenizer", "pad_token": SPECIAL[0], "eos_token": SPECIAL[2],
            "bos_token": null, "unk_token": null, "add_prefix_space": false, "model_max_length": 262_144,
            "processor_class": "Qwen3VLProcessor",
        });
        let ends = json!({
            "eos_token_id": [self.id("<|im_end|>"), self.id("<|endoftext|>")], "pad_token_id": self.id("<|endoftext|>"),
        });
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        for (name, text) in [
            (TOKENIZER, self.tokenizer.clone()),
            ("tokenizer_config.json", pretty(&words)),
            ("generation_config.json", pretty(&ends)),
            (
                "preprocessor_config.json",
                pretty(&images("image_processor_type", super::processor::IMAGE_PIXELS)),
            ),
            ("video_preprocessor_config.json", pretty(&video)),
        ] {
            let file = folder.join(name);
            std::fs::write(&file, text).map_err(|source| VlmError::File { file, source })?;
        }
        Ok(())
    }

    fn id(&self, special: &str) -> Option<usize> {
        let place = SPECIAL.iter().position(|token| *token == special)?;
        Some(self.config.text.vocab - SPECIAL.len() + place)
    }
}

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "config.json";

/// Byte-pair encoding: the pair that is seen most becomes one piece, until every word is one. Of pairs seen equally often,
/// the first in the alphabet.
fn learn_merges(mut words: Vec<(Vec<String>, usize)>) -> Merges {
    let mut merges = Merges::new();
    loop {
        let mut pairs: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (word, count) in &words {
            for pair in word.windows(2) {
                *pairs.entry((&pair[0], &pair[1])).or_default() += count;
            }
        }
        // The first of the greatest: `max_by_key` would give the last.
        let Some(((left, right), _)) = pairs.into_iter().rev().max_by_key(|(_, count)| *count) else {
            return merges;
        };
        let merge = (left.to_owned(), right.to_owned());
        words.iter_mut().for_each(|(word, _)| join(word, &merge));
        merges.push(merge);
    }
}

/// Joins a pair wherever a word has it, from the left.
fn join(word: &mut Vec<String>, (left, right): &(String, String)) {
    let mut at = 0;
    while at + 1 < word.len() {
        if word[at] == *left && word[at + 1] == *right {
            let joined = word.remove(at + 1);
            word[at] += &joined;
        }
        at += 1;
    }
}

/// A letter for each byte, as byte-level tokenizers have it since GPT-2: printable ones stand for themselves.
fn byte_letters() -> Vec<String> {
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    let mut letter = |byte: u32| if printable(byte) { Some(byte) } else { others.next() };
    let mut letters: Vec<u32> = (0..256).filter_map(&mut letter).collect();
    letters.sort_unstable();
    letters.into_iter().filter_map(char::from_u32).map(String::from).collect()
}

/// The contents of `tokenizer.json`.
fn tokenizer_json(merges: &Merges) -> Value {
    let mut pieces = byte_letters();
    pieces.extend(merges.iter().map(|(left, right)| format!("{left}{right}")));
    let count = pieces.len();
    let vocab: serde_json::Map<String, Value> =
        pieces.into_iter().enumerate().map(|(id, piece)| (piece, id.into())).collect();
    let added = SPECIAL.iter().enumerate().map(|(i, token)| {
        json!({ "id": count + i, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
    });
    let bytes = |regex: bool, prefix: bool| json!({ "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex });
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": WORD_PATTERN }, "behavior": "Isolated", "invert": false },
            bytes(false, false),
        ] },
        "post_processor": null,
        "decoder": bytes(true, true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab,
            "merges": merges.iter().map(|(left, right)| json!([left, right])).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::config::{Family, RopeAxes, TextConfig, VisionConfig};
    use super::*;

    fn sizes() -> Config {
        Config {
            family: Family::Qwen3Vl,
            tied: true,
            image_token: 0,
            video_token: 0,
            text: TextConfig {
                vocab: 1,
                width: 32,
                layers: 1,
                heads: 1,
                kv_heads: 1,
                head_width: 32,
                inner: 32,
                epsilon: 1e-6,
                theta: 1e4,
                sections: [6, 5, 5],
                rope_axes: RopeAxes::Interleaved,
                max_positions: None,
                attention_bias: false,
                experts: None,
            },
            vision: VisionConfig {
                width: 32,
                depth: 1,
                heads: 1,
                inner: 32,
                patch: 8,
                frames: 2,
                merge: 2,
                positions: Some(8),
                deepstack: vec![0],
                theta: 1e4,
                windows: None,
                tokens_per_second: None,
            },
        }
    }

    #[test]
    fn every_word_of_the_texts_is_one_token_and_other_words_come_back_too() {
        let files =
            NewModelFiles::new(sizes(), &["Is the trend positive, or not positive?", "positive", "unclear"])
                .unwrap();
        let processor = files.processor().unwrap();
        let tokenizer = processor.tokenizer();
        assert_eq!(tokenizer.encode("Is the trend positive, or not?").unwrap().len(), 8);
        assert_eq!(tokenizer.encode("<|im_start|>assistant\nunclear<|im_end|>").unwrap().len(), 5);
        let strange = "Größe 42 → naïve";
        assert_eq!(tokenizer.decode(&tokenizer.encode(strange).unwrap()).unwrap(), strange);
        assert_eq!(tokenizer.first_tokens(&["positive", "unclear"]).unwrap().len(), 2);
    }

    #[test]
    fn its_files_open_as_a_model_folder_does() {
        let files = NewModelFiles::new(sizes(), &["positive"]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path()).unwrap();
        let opened = Processor::open(folder.path(), files.config()).unwrap();
        let made = files.processor().unwrap();
        assert_eq!(
            opened.tokenizer().encode("a positive").unwrap(),
            made.tokenizer().encode("a positive").unwrap()
        );
        assert_eq!(files.id("<|im_end|>"), Some(opened.tokenizer().special().turn_end as usize));
    }

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let mut wrong = sizes();
        wrong.text.sections = [1, 1, 1];
        assert!(NewModelFiles::new(wrong, &[]).unwrap_err().to_string().contains("mrope_section"));
    }
}
