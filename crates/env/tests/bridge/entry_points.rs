//! Environments that have no id: a class in a module or in a file.

use std::path::PathBuf;

use plaudit_core::{Env, Seed};
use plaudit_env::{BridgeSettings, Make};
use serde_json::json;

use super::{Bridge, beside, python, settings, start, with};

fn entry_point(python: PathBuf, name: &str, num_envs: usize) -> BridgeSettings {
    let name = format!("{}:{name}", beside("odd_envs.py"));
    BridgeSettings {
        import: Vec::new(),
        make: BridgeSettings::entry_point(name, 1).make,
        ..settings(python, "", num_envs)
    }
}

#[test]
fn a_class_of_a_file_steps_as_what_is_registered_does() {
    let Some(python) = python() else { return };
    let run = |settings: BridgeSettings| {
        let mut env = start(with(settings, json!({"length": 2})));
        let first = env.reset(Seed::new(3)).unwrap().state;
        let steps = [env.step(&[2.0, 1.0]).unwrap(), env.step(&[2.0, 1.0]).unwrap()];
        (first, steps.map(|step| (step.obs.state, step.reward, step.success)))
    };
    let by_id = run(settings(python.clone(), "odd/Counter-v0", 2));
    assert_eq!(by_id.1[1].2, [true, false]);
    assert_eq!(run(entry_point(python, "Counter", 2)), by_id);
}

#[test]
fn a_vector_class_steps_all_rows_itself() {
    let Some(python) = python() else { return };
    let mut env = start(entry_point(python, "CounterVector", 3));
    assert_eq!(env.reset(Seed::new(1)).unwrap().batch(), 3);
    assert_eq!(env.step(&[1.0, 2.0, 0.0]).unwrap().reward, [1.0, 2.0, 0.0]);
}

#[test]
fn what_an_entry_point_does_not_name_is_refused() {
    let Some(python) = python() else { return };
    let refused = |name: &str| {
        let make = Make::Gymnasium {
            id: String::new(),
            entry_point: Some(name.into()),
            kwargs: Default::default(),
            vectorization: Default::default(),
        };
        let settings = BridgeSettings { make, ..settings(python.clone(), "", 1) };
        Bridge::start(settings).unwrap_err().to_string()
    };
    let file = beside("odd_envs.py");
    for (name, words) in [
        ("Counter", "write module:Class or path/to/file.py:Class"),
        ("no/such.py:Counter", "there is no such file"),
        ("no_such_module:Counter", "No module named 'no_such_module'"),
        (&*format!("{file}:Countr"), "has no 'Countr'; it has Counter"),
        ("math:pi", "pi of math is a float"),
    ] {
        let said = refused(name);
        assert!(said.contains(words), "{name}: {said}");
    }
}
