//! Rules about what a run would refuse, or take for something else, before its first step.

use plaudit_env::EnvId;

use super::{Findings, Remark, Severity};
use crate::build::{check_control_mode, nearest_id, unsupported_learner};
use crate::config::Purpose;
use crate::config::blocks::env::{EnvSettings, EnvType};

/// Unknown environments, and those that were probably meant to be one inside plaudit.
pub(super) fn environments(findings: &mut Findings<'_>) {
    for (path, env) in written_envs(findings) {
        let key = format!("{path}.init_params.id");
        let Some(id) = env.init_params.id.filter(|id| id.parse::<EnvId>().is_err()) else { continue };
        let near = nearest_id(&id);
        let severity = match (env.env_type, near) {
            (EnvType::Embedded, _) => Severity::Error,
            (EnvType::Maniskill | EnvType::Gymnasium, Some(_)) => Severity::Warning,
            _ => continue,
        };
        let known = EnvId::ALL.map(EnvId::as_str).join(", ");
        let fix = near.map_or(format!("choose one of {known}"), |near| format!("write {near}"));
        let what = format!("`{id}` is not inside plaudit");
        let why = match env.env_type {
            EnvType::Embedded => "the run stops before its first step",
            _ => "your Python would have to know it, and it looks like a typo",
        };
        findings.add("unknown-env", severity, &key, Remark { what, why: why.into(), fix });
    }
}

/// Control modes that the embedded arm does not have, and those that `policy_setup` overrules.
pub(super) fn control_modes(findings: &mut Findings<'_>) {
    for (path, env) in written_envs(findings) {
        let key = format!("{path}.init_params.control_mode");
        let is_arm = env.init_params.id.as_deref().is_some_and(is_arm);
        let Some(used) = env.init_params.control_mode.filter(|_| is_arm) else { continue };
        let written = findings.loaded.written_text(&key).filter(|name| !name.is_empty()).map(String::from);
        let (key, name) = match written {
            Some(name) => (key, name),
            None => ("actor.model.policy_setup".into(), used.clone()),
        };
        if let Err(error) = check_control_mode(&name) {
            let why = "the run stops before its first step, or moves the arm in another way".into();
            let fix = "write one of those, or leave it to actor.model.policy_setup".into();
            let what = error.to_string();
            findings.add("unknown-control-mode", Severity::Error, &key, Remark { what, why, fix });
        } else if name != used {
            let what = format!("it says {name}, and actor.model.policy_setup means {used}");
            let why = "the policy decides what its actions mean, as in RLinf".into();
            let fix = format!("write {used}, or change policy_setup");
            findings.add("control-mode-overruled", Severity::Warning, &key, Remark { what, why, fix });
        }
    }
}

/// Learners, advantages and policies that plaudit does not have.
pub(super) fn learner(findings: &mut Findings<'_>) {
    let config = &findings.loaded.config;
    if findings.loaded.purpose != Purpose::Rl || config.runner.only_eval {
        return;
    }
    if let Some(unsupported) = unsupported_learner(config) {
        let why = "plaudit swaps no algorithm for another: `plaudit train` refuses".into();
        let remark = Remark { what: unsupported.message, why, fix: unsupported.hint.into() };
        findings.add("unknown-learner", Severity::Error, unsupported.key, remark);
    }
}

/// Machines other than this one.
pub(super) fn machines(findings: &mut Findings<'_>) {
    if let Some(place) = findings.loaded.config.cluster.elsewhere() {
        let why = "`plaudit train` runs on one machine, and refuses to start".into();
        let fix =
            "`plaudit cluster run` runs it on all of them; --local runs everything on this machine".into();
        findings.add("other-machines", Severity::Error, &place.key, Remark { what: place.what, why, fix });
    }
}

/// The batches of environments that the config writes.
fn written_envs(findings: &Findings<'_>) -> Vec<(&'static str, EnvSettings)> {
    let envs = &findings.loaded.config.env;
    let both = [("env.train", envs.train.clone()), ("env.eval", envs.eval.clone())];
    both.into_iter().filter(|(path, _)| findings.loaded.is_written(path)).collect()
}

fn is_arm(id: &str) -> bool {
    id.parse::<EnvId>().is_ok_and(|id| id.full_state_width().is_some())
}
