//! The files that a plan becomes, beside what they were when somebody last looked at them.
//!
//! `PLAUDIT_WRITE_GOLDEN=1 cargo test -p plaudit-cluster` writes them anew.

use std::fs;
use std::path::Path;

use plaudit_cluster::placement::{GroupAsWritten, Robot, Site};
use plaudit_cluster::plan::picture;
use plaudit_cluster::{Plan, dora};

use crate::placing::{group, machines, planned, teleoperated};

/// A robot's machine, and one with two GPUs.
fn two_machines() -> Plan {
    let robots = vec![Robot { address: Some("172.16.0.2".into()), machine: 1 }];
    let franka = GroupAsWritten { robots, ..group("franka", "1") };
    let site = Site::new(machines(&[2, 0]), vec![group("4090", "0"), franka]).unwrap();
    planned(&site, &["actor@4090=0", "reward@4090=1", "env@franka=0"]).unwrap()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("PLAUDIT_WRITE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs:\n{text}", path.display());
}

#[test]
fn files_are_as_they_were() {
    let plan = two_machines();
    let config = ["pickcube_ppo_resnet_reward.yaml".to_string(), "runner.max_epochs=5".to_string()];
    golden("graph.yml", &dora::graph(&plan));
    golden("cluster.yml", &dora::machines(&plan));
    golden("overlay.json", &dora::overlay());
    golden("plan.txt", &picture(&plan));
    golden("plan.json", &plan.to_json().unwrap());
    golden("slurm.sh", &dora::slurm(&plan, &config));
    golden("kubernetes.yml", &dora::kubernetes(&plan, &config));
    golden("ray.py", &dora::ray(&plan, &config));
}

/// The same two machines, with actions chosen beside the learner, or by a person.
#[test]
fn plans_of_robots_are_as_they_were() {
    let robots = vec![Robot { address: Some("172.16.0.2".into()), machine: 1 }];
    let franka = GroupAsWritten { robots, ..group("franka", "1") };
    let site = Site::new(machines(&[2, 0]), vec![group("4090", "0"), franka]).unwrap();
    let plan = planned(&site, &["actor,rollout@4090=0", "reward@4090=1", "env@franka=0"]).unwrap();
    let teleop = teleoperated(&site, &["env@franka=0", "reward@4090=0"]).unwrap();
    golden("teleop.txt", &picture(&teleop));
    golden("teleop.graph.yml", &dora::graph(&teleop));
    golden("rollout_apart.txt", &picture(&plan));
    golden("rollout_apart.graph.yml", &dora::graph(&plan));
}

#[test]
fn programs_are_bound_to_the_addresses_of_the_plan_and_never_without_the_settings() {
    let plan = two_machines();
    let coordinator = dora::coordinator(&plan).join(" ");
    assert_eq!(
        coordinator,
        "coordinator --auth --quiet --interface 10.0.0.1 --port 6013 --store redb:/runs/one/dora/coordinator.redb"
    );
    let daemon = dora::daemon(&plan, &plan.machines[1]).join(" ");
    assert_eq!(
        daemon,
        "daemon --quiet --zenoh-no-multicast --machine-id node-1 --coordinator-addr 10.0.0.1 --coordinator-port 6013 \
         --local-listen-port 53291 --zenoh-listen 10.0.0.2:5456 --zenoh-connect tcp/10.0.0.1:5456 \
         --zenoh-config-overlay /runs/one/dora/overlay.json"
    );
    let graph = dora::graph(&plan);
    assert_eq!(graph.matches("shared_memory_pool_size").count(), plan.processes.len());
}

#[test]
fn a_plan_is_read_by_the_version_that_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(Plan::FILE);
    let plan = two_machines();
    fs::write(&path, plan.to_json().unwrap()).unwrap();
    assert_eq!(Plan::read(&path, "0.1.0").unwrap(), plan);
    let error = Plan::read(&path, "0.2.0").unwrap_err().to_string();
    assert!(error.contains("was written by plaudit 0.1.0 (format 2), and this is 0.2.0"), "{error}");
    for (text, expected) in
        [("{", "is no plan"), ("{\"format\": 2, \"plaudit\": \"0.1.0\"}", "missing field")]
    {
        fs::write(&path, text).unwrap();
        assert!(Plan::read(&path, "0.1.0").unwrap_err().to_string().contains(expected));
    }
    let error = Plan::read(&folder.path().join("none"), "0.1.0").unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}
