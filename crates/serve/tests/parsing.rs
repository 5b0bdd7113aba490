//! Whatever is sent, reading it ends in an answer or a refusal, never in a panic.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use plaudit_serve::{Limits, parsing};
use proptest::prelude::*;
use serde_json::{Value, json};

fn limits() -> Limits {
    Limits { image_pixels: 10_000, images: 4, ..Limits::default() }
}

/// Values that sit where others belong.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("user")),
        Just(json!("data:image/png;base64,iVBORw0KGgo")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop_oneof![
            Just("role".to_string()),
            Just("content".to_string()),
            Just("type".to_string()),
            Just("image_url".to_string()),
            Just("url".to_string()),
            Just("text".to_string()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A sound image with some bytes changed.
fn damaged(file: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((0..file.len(), any::<u8>()), 0..6);
    (changes, 0..=file.len()).prop_map(move |(changes, length)| {
        let mut bytes = file.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes.truncate(length.max(1));
        bytes
    })
}

fn url(bytes: &[u8]) -> String {
    use base64::Engine as _;
    format!("data:image/x;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_as_a_chat(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsing::chat(&body, &limits());
    }

    #[test]
    fn any_json_as_a_chat(
        model in anything(),
        messages in anything(),
        more in prop::collection::vec(anything(), 12),
    ) {
        let mut request = json!({"model": model, "messages": messages});
        let keys = [
            "n", "max_tokens", "temperature", "logprobs", "top_logprobs", "stop", "logit_bias", "seed",
            "response_format", "tools", "mm_processor_kwargs", "stream_options",
        ];
        for (key, value) in keys.iter().zip(more) {
            request[*key] = value;
        }
        let _ = parsing::chat(request.to_string().as_bytes(), &limits());
    }

    #[test]
    fn any_shape_and_bytes(
        shape in "[0-9,. x-]{0,30}",
        body in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        if let Ok(block) = parsing::score(&shape, body.clone(), &limits()) {
            prop_assert_eq!(block.images() * block.height * block.width * 3, body.len());
        }
    }

    #[test]
    fn damaged_images(
        bytes in prop_oneof![
            damaged(include_bytes!("images/red_16x8.jpg")),
            damaged(include_bytes!("images/grey_16bit_4x2.png")),
            damaged(include_bytes!("images/palette_alpha_4x2.png")),
        ]
    ) {
        if let Ok(image) = parsing::image(&url(&bytes), 10_000) {
            prop_assert_eq!(image.pixels.len(), image.height * image.width * 3);
            prop_assert!(image.height * image.width <= 10_000);
        }
    }
}
