//! What a folder in Hugging Face's layout says about a reward model: config.json, and a card for people.

use std::fmt::Write as _;

use plaudit_reward::card::ModelCard;
use serde_json::{Value, json};

/// `config.json`: the network and how images are prepared.
pub(super) fn config(card: &ModelCard) -> Value {
    let header = card.header();
    let part = |key: &str| header.get(key).and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "model_type": "plaudit_reward_model",
        "architectures": [card.settings.arch.name()],
        "plaudit_version": env!("CARGO_PKG_VERSION"),
        "settings": part("settings"),
        "preprocessing": part("preprocessing"),
        "threshold": card.threshold,
        "temperature": card.temperature,
        "guarantee": part("guarantee"),
        "conditions": part("conditions"),
    })
}

/// `README.md`: what is known of the model, with the header that model hubs read. Paths of the training data
/// stay out.
pub(super) fn readme(name: &str, card: &ModelCard) -> String {
    let settings = &card.settings;
    let [_, height, width] = settings.image_size;
    let what = match settings.progress_bins {
        None => "a classifier of images: how probable it is that a frame shows success",
        Some(_) => "a model of progress: how far the task is in a frame, from 0 to 1",
    };
    let mut text = format!(
        "---\nlibrary_name: plaudit\npipeline_tag: robotics\ntags:\n- robotics\n- reward-model\n- {}\n---\n\n# {name}\n\n\
         This is {what}.\n\n| | |\n|---|---|\n| architecture | {} |\n| cameras | {} |\n| image size | {height} x {width} |\n\
         | training steps | {} |\n",
        settings.arch.name(),
        settings.arch.name(),
        settings.image_keys.join(", "),
        card.step
    );
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "| {name} | {value} |");
        }
    };
    row("threshold", card.threshold.map(|threshold| format!("{threshold:.4}")));
    row("temperature", card.temperature.map(|temperature| format!("{temperature:.4}")));
    let balance = card.class_balance.as_ref();
    row(
        "trained on",
        balance.map(|of| format!("{} success and {} failure frames", of.successes, of.failures)),
    );
    text + &measured(card) + &audited(card) + USE
}

fn measured(card: &ModelCard) -> String {
    let Some(metrics) = &card.metrics else {
        return "\n## Evaluation\n\nIt was not measured.\n".into();
    };
    let mut text = format!(
        "\n## Evaluation\n\nOn {} held-out frames ({} successes):\n\n| metric | value |\n|---|---|\n",
        metrics.frames, metrics.successes
    );
    let rows = [
        ("AUC", metrics.auc),
        ("average precision", metrics.average_precision),
        ("accuracy", Some(metrics.accuracy)),
        ("precision", metrics.precision),
        ("recall", metrics.recall),
        ("expected calibration error", Some(metrics.ece)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            let _ = writeln!(text, "| {name} | {value:.4} |");
        }
    }
    text
}

fn audited(card: &ModelCard) -> String {
    match &card.guarantee {
        None => {
            "\n## Audit\n\nNo audit has given a guarantee. Do not reward a policy with it before one has.\n"
                .into()
        }
        Some(found) => format!(
            "\n## Audit\n\nAbove a score of {:.4}, with {:.0} % confidence, at most {:.1} % of episodes like the {} audited ones are \
             rewarded without success ({} of them were).\n",
            found.threshold,
            100.0 * found.confidence,
            100.0 * found.max_rate,
            found.episodes,
            found.alarms
        ),
    }
}

const USE: &str = "\n## Use\n\n```bash\nplaudit serve . --port 8000\nplaudit reward eval . EPISODES\n```\n\n\
                   `model.safetensors` has PyTorch's names of the tensors, and everything above in its header.\n";

#[cfg(test)]
mod tests {
    use plaudit_nn::classifier::ClassifierSettings;

    use super::*;

    #[test]
    fn a_card_says_what_is_known_and_what_is_not() {
        let card = ModelCard { threshold: Some(0.25), ..ModelCard::of(ClassifierSettings::default()) };
        let text = readme("mine", &card);
        for expected in
            ["# mine", "| threshold | 0.2500 |", "was not measured", "No audit has given", "main_images"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.starts_with("---\nlibrary_name: plaudit\n"));
        let config = config(&card);
        assert_eq!(config["settings"]["arch"], "resnet18");
        assert_eq!(config["preprocessing"]["resize"], json!([224, 224]));
    }
}
