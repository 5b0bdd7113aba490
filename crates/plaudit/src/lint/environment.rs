//! Rules that ask the environment itself, where plaudit has it inside: what it can see, and what can be true in it.

use plaudit_core::{EnvSpec, Obs};
use plaudit_reward::Guard;

use super::{Findings, Remark, Severity};
use crate::build::{SCRIPTED_EPISODES, ScriptedState, camera_problems, embedded_spec, scripted_states};
use crate::config::blocks::reward::{RewardTerm, TermSource};

/// Cameras that a model needs and the environment does not have.
pub(super) fn cameras(findings: &mut Findings<'_>) {
    if !findings.uses_reward_model() {
        return;
    }
    let Some(spec) = embedded_spec(findings.loaded) else { return };
    for problem in camera_problems(findings.loaded, &spec) {
        let key = problem.key().unwrap_or("reward.model.image_keys").to_string();
        let fix = problem.hint().unwrap_or("name cameras of the environment").to_string();
        findings.add(
            "unknown-camera",
            Severity::Error,
            &key,
            Remark {
                what: problem.kind().to_string(),
                why: "the model would not be shown what it was trained on; plaudit refuses to start".into(),
                fix: format!(
                    "{fix}; a camera is added by env.train.init_params.sensor_configs: {{hand_camera: {{}}}}"
                ),
            },
        );
    }
}

/// Conditions on the state that cannot be read, or that never hold where they should.
pub(super) fn guards(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    let main = ("reward.guards".to_string(), reward.main_term());
    let further =
        reward.terms.iter().map(|(name, term)| (format!("reward.terms.{name}.guards"), term.clone()));
    let guarded: Vec<_> =
        std::iter::once(main).chain(further).filter(|(_, term)| !term.guards.is_empty()).collect();
    if !findings.uses_reward_model() || guarded.is_empty() {
        return;
    }
    let Some(spec) = embedded_spec(findings.loaded) else { return };
    let states = scripted_states(findings.loaded);
    for (key, term) in guarded {
        match conditions(&term, &spec) {
            Ok(guards) => never_holding(findings, &key, &term, &guards, &states),
            Err(why) => findings.add(
                "guard-unreadable",
                Severity::Error,
                &key,
                Remark {
                    what: why,
                    why: "plaudit refuses to start".into(),
                    fix: format!(
                        "name a part of the state, or write state[0] to state[{}]",
                        spec.state_width.saturating_sub(1)
                    ),
                },
            ),
        }
    }
}

fn conditions(term: &RewardTerm, spec: &EnvSpec) -> Result<Vec<Guard>, String> {
    let guard = |text: &String| {
        Guard::parse(text, &spec.state_parts, spec.state_width).map_err(|error| error.to_string())
    };
    term.guards.iter().map(guard).collect()
}

/// Guards that hold in none of the states that should be rewarded: those of success; of a term that goes by the state
/// alone, any.
fn never_holding(
    findings: &mut Findings<'_>,
    key: &str,
    term: &RewardTerm,
    guards: &[Guard],
    states: &[ScriptedState],
) {
    let counts = |state: &&ScriptedState| term.source == TermSource::State || state.is_success;
    let states: Vec<Obs> = states
        .iter()
        .filter(counts)
        .filter_map(|state| Obs::from_state(1, state.state.clone()).ok())
        .collect();
    if states.is_empty() {
        return;
    }
    let holds = |guard: &Guard| states.iter().any(|obs| guard.holds(&obs.row(0)));
    let never = guards.iter().position(|guard| !holds(guard));
    let together = states.iter().any(|obs| guards.iter().all(|guard| guard.holds(&obs.row(0))));
    let what = match never {
        Some(at) => format!("`{}` never holds", term.guards[at]),
        None if !together => format!(
            "{} never hold together",
            term.guards.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and ")
        ),
        None => return,
    };
    let seen = match term.source {
        TermSource::State => format!("{} states", states.len()),
        TermSource::Model => format!("{} states of success", states.len()),
    };
    findings.add("guard-never-holds", Severity::Warning, key, Remark {
        what,
        why: format!("in {SCRIPTED_EPISODES} episodes that a script plays, not one of {seen} meets it: success would go unrewarded"),
        fix: "check number, unit and sign: positions are in metres, and z points up".into(),
    });
}
