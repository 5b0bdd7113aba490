//! `plaudit cluster`: plans, what cannot be placed, and a dora that is not the right one. Runs on real daemons are in
//! bench/cluster.

use std::path::Path;

use crate::runs::{refused, succeeds};

const TWO_MACHINES: &str = "\
defaults: [cartpole_ppo, _self_]
cluster:
  num_nodes: 2
  nodes:
    - {host: 10.255.0.1, gpus: 2, user: me}
    - {host: 10.255.0.2, gpus: 0}
  node_groups:
    - {label: \"4090\", node_ranks: 0}
    - label: franka
      node_ranks: 1
      env_configs: [{node_ranks: 1, env_vars: [{OMP_NUM_THREADS: 4}]}]
      hardware: {type: Franka, configs: [{robot_ip: 172.16.0.2, node_rank: 1}]}
  component_placement:
    actor: {node_group: \"4090\", placement: 0}
    reward: {node_group: \"4090\", placement: 1}
    env: {node_group: franka, placement: 0}
";

fn config(folder: &Path, text: &str) -> String {
    let path = folder.join("two.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_plan_is_a_picture_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), TWO_MACHINES);
    let picture = succeeds(folder.path(), &["cluster", "plan", &path]);
    assert!(picture.contains("2 processes on 2 machines"), "no reward model is used: {picture}");
    assert!(picture.contains("┌ node-0 · 10.255.0.1 · 4090 · 2 GPUs · coordinator"), "{picture}");
    assert!(picture.contains("(robot 0 of franka)"), "{picture}");
    assert!(picture.contains("actor-0 ⇄ env-0  commands ⇄ segments  network"), "{picture}");

    let json = succeeds(folder.path(), &["cluster", "plan", &path, "--json", "reward.use_reward_model=true"]);
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(plan["processes"].as_array().unwrap().len(), 3);
    assert_eq!(plan["processes"][1]["environment"]["OMP_NUM_THREADS"], "4");
    assert_eq!(plan["machines"][0]["ssh"], "me@10.255.0.1");
    assert_eq!(plan["processes"][2]["environment"]["CUDA_VISIBLE_DEVICES"], "1");
    assert!(!folder.path().join("logs").exists(), "a plan makes no run directory");

    // Without a word about machines, everything is here.
    let here = succeeds(folder.path(), &["cluster", "plan", "cartpole_ppo", "cluster.nodes=[{gpus:0}]"]);
    assert!(here.contains("2 processes on 1 machine") && here.contains("shared memory"), "{here}");
}

#[test]
fn robots_are_planned_for_a_learner_and_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/cluster/robot_two_machines.yaml");
    let picture = succeeds(folder.path(), &["cluster", "plan", path]);
    for expected in [
        "4 processes on 2 machines",
        "│ rollout-0  CPU      chooses actions",
        "│ env-0      robot 0  steps environment 0 ",
        "env-0 ⇄ rollout-0   observations ⇄ actions  network",
        "env-0 ⇄ reward-0    frames ⇄ scores         network",
    ] {
        assert!(picture.contains(expected), "{expected}\n{picture}");
    }
    let nodes = "cluster.nodes=[{host: 10.255.0.1, gpus: 1}, {host: 10.255.0.2, gpus: 0}]";
    let picture = succeeds(folder.path(), &["cluster", "plan", "realworld_teleop", nodes]);
    for expected in [
        "2 processes on 2 machines",
        "│ reward-0  GPU 0    scores frames",
        "│ env-0     robot 0  steps environment 0 ",
        "env-0 ⇄ reward-0  frames ⇄ scores  network",
    ] {
        assert!(picture.contains(expected), "{expected}\n{picture}");
    }
    assert!(!picture.contains("actor"), "nobody learns: {picture}");
    let asks = refused(folder.path(), &["cluster", "arm", "nowhere"], 1);
    assert!(asks.contains("plan.json"), "{asks}");
}

#[test]
fn scripts_for_schedulers_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), TWO_MACHINES);
    let words = [
        "cluster",
        "plan",
        &path,
        "runner.logger.log_path=/shared/run",
        "--slurm",
        "job.sh",
        "--kubernetes",
        "job.yml",
    ];
    succeeds(folder.path(), &words);
    let slurm = std::fs::read_to_string(folder.path().join("job.sh")).unwrap();
    assert!(slurm.contains("#SBATCH --nodes=2") && slurm.contains("#SBATCH --gpus-per-node=2"), "{slurm}");
    assert!(slurm.contains("cluster run /shared/run --joined"), "{slurm}");
    assert!(
        slurm.contains(&format!("cluster plan {path} runner.logger.log_path=/shared/run --hosts")),
        "{slurm}"
    );
    let kubernetes = std::fs::read_to_string(folder.path().join("job.yml")).unwrap();
    assert!(kubernetes.contains("replicas: 2") && kubernetes.contains("nvidia.com/gpu: 2"), "{kubernetes}");
    let ray = succeeds(folder.path(), &["cluster", "plan", &path, "--launcher", "ray"]);
    assert!(ray.contains("NodeAffinitySchedulingStrategy") && ray.contains("GPUS = [2, 0]"), "{ray}");

    // What the scripts do first: the plan again, on the machines they were given.
    let hosts = "10.255.1.1,10.255.1.2";
    succeeds(folder.path(), &["cluster", "plan", &path, "--hosts", hosts, "--write", "run"]);
    let plan = std::fs::read_to_string(folder.path().join("run/plan.json")).unwrap();
    assert!(plan.contains("\"host\": \"10.255.1.2\"") && plan.contains("\"gpus\": 2"), "{plan}");
    for file in ["config.yaml", "events.jsonl", "dora/graph.yml", "dora/cluster.yml", "dora/overlay.json"] {
        assert!(folder.path().join("run").join(file).exists(), "{file}");
    }
    // A job that is submitted again finds its run.
    succeeds(folder.path(), &["cluster", "plan", &path, "--hosts", hosts, "--write", "run"]);
}

/// What is changed in the config, and what is said of it.
const REFUSED: &[(&str, &str, &[&str])] = &[
    ("placement: 1}", "placement: 2}", &["two.yaml:15", "there is no GPU 2: there are 2, 0 to 1 in 4090"]),
    ("node_ranks: 0}", "node_ranks: 5}", &["two.yaml:8", "there is no machine 5"]),
    ("{node_group: franka", "{node_group: h100", &["two.yaml:16", "no group of machines is called `h100`"]),
    (
        "placement: 0}\n    reward",
        "placement: \"0,0\"}\n    reward",
        &["two.yaml:14", "GPU 0 is given twice"],
    ),
    (
        "env: {node_group: franka, placement: 0}",
        "env: {node_group: franka, placement: \"0:0-1\"}",
        &["two.yaml:16", "robot 0 is given to env-0 and to env-1"],
    ),
    (
        "{robot_ip: 172.16.0.2, node_rank: 1}",
        "{robot_ip: a, node_rank: 1}, {robot_ip: a, node_rank: 1}",
        &["two.yaml:12", "the robot at a is listed twice"],
    ),
    (
        "host: 10.255.0.2",
        "host: no-such-host.invalid",
        &["two.yaml:6", "`no-such-host.invalid` does not resolve"],
    ),
    ("host: 10.255.0.2", "host: localhost", &["two.yaml:6", "the others cannot reach it"]),
    ("user: me", "user: -oProxyCommand=x", &["two.yaml:5", "ssh would take it for an option"]),
    ("num_nodes: 2", "num_nodes: 3", &["two.yaml:3", "3 machines are asked for, and 2 have an address"]),
    (
        "{OMP_NUM_THREADS: 4}",
        "{LD_PRELOAD: x.so}",
        &["two.yaml:11", "dora passes this variable on to no process"],
    ),
    ("    actor:", "    critic: 0\n    actor:", &["two.yaml:14", "there is no component `critic`"]),
    (
        "    env: {node_group: franka, placement: 0}",
        "    env: {node_group: node, placement: \"1:0-4\"}",
        &["two.yaml:16", "32 environments cannot be shared out evenly among 5 env processes"],
    ),
];

#[test]
fn what_cannot_be_placed_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in REFUSED {
        assert!(TWO_MACHINES.contains(from), "{from}");
        let path = config(folder.path(), &TWO_MACHINES.replacen(from, to, 1));
        for command in ["plan", "run", "up"] {
            let said = refused(folder.path(), &["cluster", command, &path], 2);
            for words in *expected {
                assert!(said.contains(words), "{to}: {said}");
            }
        }
    }
    assert!(!folder.path().join("logs").exists(), "nothing was started");
}

/// A program in place of another.
fn fake(folder: &Path, name: &str, says: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{says}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn another_dora_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let old = format!("cluster.dora={}", fake(folder.path(), "dora", "echo dora-cli 0.3.12"));
    let words = ["cluster", "run", "cartpole_ppo", &old, "runner.logger.log_path=run"];
    let said = refused(folder.path(), &words, 2);
    assert!(said.contains("node-0 (127.0.0.1) has dora 0.3.12, and this needs 1.1.0"), "{said}");
    assert!(said.contains("pip install dora-rs-cli==1.1.0"), "{said}");
    let none = ["cluster", "up", "cartpole_ppo", "cluster.dora=/no/such/dora", "runner.logger.log_path=run2"];
    let said = refused(folder.path(), &none, 2);
    assert!(said.contains("has no dora: cannot start /no/such/dora"), "{said}");
}

#[test]
fn a_machine_that_is_not_as_planned_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let probe = |version: &str, gpus: usize, memory: u64, links: bool| {
        format!(
            "echo '{{\"plaudit\":\"{version}\",\"has_dora_links\":{links},\"dora\":{{\"Ok\":\"1.1.0\"}},\"gpus\":{gpus},\
             \"shared_memory_bytes\":{memory}}}'"
        )
    };
    let ours = env!("CARGO_PKG_VERSION");
    for (at, (says, expected)) in [
        (probe("0.0.9", 1, 1 << 40, true), "node-0 (127.0.0.1) has plaudit 0.0.9, and this is 0.1.0"),
        (probe(ours, 0, 1 << 40, true), "is said to have 1 GPUs, and has 0"),
        (
            probe(ours, 1, 64 << 20, true),
            "has 64 MB of shared memory (/dev/shm), and its processes need 128 MB",
        ),
        (probe(ours, 1, 1 << 40, false), "was built without the feature `cluster`"),
        ("echo unknown command >&2; exit 2".into(), "node-0 (127.0.0.1): unknown command"),
        ("echo nonsense".into(), "answered `nonsense"),
    ]
    .into_iter()
    .enumerate()
    {
        let program = fake(folder.path(), "other-plaudit", &says);
        let text = format!(
            "defaults: [cartpole_ppo, _self_]\ncluster:\n  nodes:\n    - {{gpus: 1, plaudit: {program}}}\n"
        );
        let path = config(folder.path(), &text);
        let run_dir = format!("runner.logger.log_path=run{at}");
        let said = refused(folder.path(), &["cluster", "run", &path, &run_dir], 2);
        assert!(said.contains(expected) && said.contains("two.yaml:4"), "{says}: {said}");
    }
}

#[test]
fn a_run_directory_without_a_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["status", "logs", "down", "join --wait 0 --rank 0"] {
        let mut words: Vec<&str> = vec!["cluster"];
        words.extend(command.split(' '));
        words.push("nowhere");
        let said = refused(folder.path(), &words, 1);
        assert!(said.contains("plan.json"), "{command}: {said}");
    }
    let path = config(folder.path(), TWO_MACHINES);
    succeeds(folder.path(), &["cluster", "plan", &path, "--write", "run"]);
    let said = refused(folder.path(), &["cluster", "logs", "run", "env-7"], 2);
    assert!(said.contains("no process is called `env-7`") && said.contains("actor-0, env-0"), "{said}");
    let plan = std::fs::read_to_string(folder.path().join("run/plan.json")).unwrap();
    let newer = plan.replacen(env!("CARGO_PKG_VERSION"), "99.0.0", 1);
    std::fs::write(folder.path().join("run/plan.json"), newer).unwrap();
    let said = refused(folder.path(), &["cluster", "status", "run"], 1);
    assert!(said.contains("was written by plaudit 99.0.0") && said.contains("same version"), "{said}");
}

#[test]
fn training_in_one_process_points_to_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), TWO_MACHINES);
    let said = refused(folder.path(), &["train", &path], 2);
    assert!(
        said.contains("this command runs on one machine") && said.contains("`plaudit cluster run`"),
        "{said}"
    );
}
