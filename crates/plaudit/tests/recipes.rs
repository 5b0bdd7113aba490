//! Every recipe in `configs/` parses, resolves, and says the same when its resolved form is read again.

use plaudit::cli::ConfigArgs;
use plaudit::config::{self, LoadedConfig, recipes, yaml};
use plaudit::load::RequestedConfig;

fn load(words: &[&str]) -> LoadedConfig {
    let words = words.iter().map(|word| word.to_string()).collect();
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() }).unwrap();
    config::load(&asked.disk, &asked.request).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_recipe_resolves_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    assert!(recipes::summaries().len() >= 20);
    for (name, about) in recipes::summaries() {
        assert!(!about.is_empty(), "{name} does not start with a line that says what it is");
        let loaded = load(&[name]);
        let shown = yaml::to_yaml(&loaded.as_tree(), false);
        let path = directory.path().join(format!("{name}.yaml"));
        std::fs::write(&path, &shown).unwrap();
        let again = load(&[path.to_str().unwrap()]);
        assert_eq!(loaded.config, again.config, "{name}");
        assert_eq!(yaml::to_yaml(&again.as_tree(), false), shown, "{name}");
    }
}

#[test]
fn recipes_speak_todays_words() {
    for (name, _) in recipes::summaries() {
        for notice in load(&[name]).notices {
            assert!(!notice.text.starts_with("older"), "{name}: {}", notice.text);
        }
    }
}

#[test]
fn overrides_reach_the_resolved_config() {
    let loaded = load(&["maniskill_ppo_mlp", "algorithm.gamma=0.5", "runner.logger.experiment_name=mine"]);
    assert_eq!(loaded.config.algorithm.gamma, 0.5);
    assert_eq!(loaded.config.runner.logger.experiment_name.as_deref(), Some("mine"));
}
