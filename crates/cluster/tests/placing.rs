//! Who runs where, from what people write.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use plaudit_cluster::placement::{
    ComponentPlaces, Culprit, GroupAsWritten, GroupEnvironment, PlacementError, Robot, Site, SiteMachine,
};
use plaudit_cluster::plan::{LEAST_POOL_BYTES, MachineAccess, PlanRequest, plan};
use plaudit_cluster::{Component, LinkSettings, Plan};

/// Machines with so many GPUs each.
pub(crate) fn machines(gpus: &[usize]) -> Vec<SiteMachine> {
    let machine = |(rank, gpus): (usize, &usize)| SiteMachine { host: format!("host{rank}"), gpus: *gpus };
    gpus.iter().enumerate().map(machine).collect()
}

pub(crate) fn group(label: &str, ranks: &str) -> GroupAsWritten {
    GroupAsWritten { label: Some(label.into()), machines: Some(ranks.into()), ..GroupAsWritten::default() }
}

fn robot(address: &str, machine: usize) -> Robot {
    Robot { address: Some(address.into()), machine }
}

/// `reward@4090=0`: components, groups, places.
pub(crate) fn places(text: &str) -> ComponentPlaces {
    let (who, places) = text.split_once('=').unwrap();
    let (components, groups) = who.split_once('@').unwrap_or((who, ""));
    let groups = groups.split('+').filter(|group| !group.is_empty()).map(String::from).collect();
    ComponentPlaces { components: components.into(), groups, places: places.into() }
}

pub(crate) fn request(site: &Site) -> PlanRequest {
    let access = |rank: usize| MachineAccess {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, rank as u8 + 1)),
        ssh: (rank > 0).then(|| format!("me@host{rank}")),
        ssh_port: None,
        plaudit: "/opt/plaudit".into(),
        dora: "/opt/dora".into(),
        data_port: 5456,
        daemon_port: 53291,
    };
    PlanRequest {
        plaudit: "0.1.0".into(),
        name: "pickcube".into(),
        run_dir: "/runs/one".into(),
        config: "config.yaml".into(),
        directory: "/home/me".into(),
        coordinator_port: 6013,
        access: (0..site.machines.len()).map(access).collect(),
        envs: 12,
        uses_reward: true,
        learns: true,
        link: LinkSettings::default(),
    }
}

pub(crate) fn planned(site: &Site, asked: &[&str]) -> Result<Plan, PlacementError> {
    let asked: Vec<ComponentPlaces> = asked.iter().map(|text| places(text)).collect();
    plan(site, &asked, &request(site))
}

/// A robot that a person moves.
pub(crate) fn teleoperated(site: &Site, asked: &[&str]) -> Result<Plan, PlacementError> {
    let asked: Vec<ComponentPlaces> = asked.iter().map(|text| places(text)).collect();
    plan(site, &asked, &PlanRequest { envs: 1, learns: false, ..request(site) })
}

/// `reward-1 on 0, GPU 1`, process by process.
fn described(plan: &Plan) -> Vec<String> {
    let describe = |process: &plaudit_cluster::Process| {
        let (gpus, robots) = (&process.gpus, &process.robots);
        format!("{} on {} {gpus:?} {robots:?} {:?}", process.id, process.machine, process.envs)
    };
    plan.processes.iter().map(describe).collect()
}

#[test]
fn the_guides_are_placed() {
    // Guide 003: the reward on GPUs of its own.
    let site = Site::new(machines(&[2]), vec![]).unwrap();
    let plan = planned(&site, &["actor=0-0", "env=0-0", "rollout=0-0", "reward=0-1"]).unwrap();
    assert_eq!(
        described(&plan),
        [
            "actor-0 on 0 [0] [] (0, 0)",
            "env-0 on 0 [0] [] (0, 12)",
            "reward-0 on 0 [0] [] (0, 0)",
            "reward-1 on 0 [1] [] (0, 0)",
        ]
    );
    assert_eq!(plan.processes[1].components, [Component::Env, Component::Rollout]);
    assert_eq!(plan.process(Component::Rollout, 0).unwrap().id, "env-0");
    assert_eq!(plan.processes[3].environment["CUDA_VISIBLE_DEVICES"], "1");
    assert_eq!(plan.processes[3].environment["RANK"], "1");

    // Guide 004: the robot's machine, and the one called 4090.
    let franka = GroupAsWritten { robots: vec![robot("172.16.0.2", 1)], ..group("franka", "1") };
    let site = Site::new(machines(&[1, 0]), vec![group("4090", "0"), franka]).unwrap();
    let plan = planned(&site, &["env@franka=0", "reward@4090=0"]).unwrap();
    assert_eq!(
        described(&plan),
        ["actor-0 on 0 [0] [] (0, 0)", "env-0 on 1 [] [0] (0, 12)", "reward-0 on 0 [0] [] (0, 0)"]
    );
    assert_eq!(plan.processes[1].why, "robot 0 of franka");
    assert!(!plan.processes[1].environment.contains_key("CUDA_VISIBLE_DEVICES"));
    assert_eq!(plan.leader().unwrap().id, "actor-0");

    // The same guide's teleoperation: nobody learns.
    let plan = teleoperated(&site, &["env@franka=0", "reward@4090=0"]).unwrap();
    assert_eq!(described(&plan), ["env-0 on 1 [] [0] (0, 1)", "reward-0 on 0 [0] [] (0, 0)"]);
    assert_eq!(plan.processes[0].components, [Component::Env]);
    assert_eq!(plan.leader().unwrap().id, "env-0");
    let talks: Vec<&str> = plan.edges.iter().map(|edge| edge.from.as_str()).collect();
    assert_eq!(talks, ["env-0", "reward-0"]);
    let error = teleoperated(&site, &["env@franka=0", "actor@4090=0"]).unwrap_err().to_string();
    assert!(error.contains("actor is placed, and there is nothing to learn"), "{error}");
}

#[test]
fn rlinfs_own_examples_are_placed() {
    // Accelerators are counted across machines; a comma gives several components the same places.
    let site = Site::new(machines(&[2, 2]), vec![]).unwrap();
    let plan = planned(&site, &["env,rollout=0-3", "actor=0", "reward=2-3:0"]).unwrap();
    assert_eq!(
        described(&plan),
        [
            "actor-0 on 0 [0] [] (0, 0)",
            "env-0 on 0 [0] [] (0, 3)",
            "env-1 on 0 [1] [] (3, 6)",
            "env-2 on 1 [0] [] (6, 9)",
            "env-3 on 1 [1] [] (9, 12)",
            "reward-0 on 1 [0, 1] [] (0, 0)",
        ]
    );
    // Several groups: places run on from one to the next.
    let site = Site::new(machines(&[0, 2, 1]), vec![group("a800", "1"), group("4090", "2")]).unwrap();
    let plan = planned(&site, &["env@node=0:0-2", "reward@a800+4090=0-2", "actor@4090=0"]).unwrap();
    assert_eq!(
        described(&plan),
        [
            "actor-0 on 2 [0] [] (0, 0)",
            "env-0 on 0 [] [] (0, 4)",
            "env-1 on 0 [] [] (4, 8)",
            "env-2 on 0 [] [] (8, 12)",
            "reward-0 on 1 [0] [] (0, 0)",
            "reward-1 on 1 [1] [] (0, 0)",
            "reward-2 on 2 [0] [] (0, 0)",
        ]
    );
    // Without GPUs, places are machines; hardware can be left out of account.
    let by_machine = GroupAsWritten { by_machine: true, ..group("cpus", "0-1") };
    let site = Site::new(machines(&[4, 4]), vec![by_machine]).unwrap();
    let plan = planned(&site, &["env@cpus=all"]).unwrap();
    assert_eq!(described(&plan)[1..3], ["env-0 on 0 [] [] (0, 6)", "env-1 on 1 [] [] (6, 12)"]);
}

#[test]
fn rollouts_elsewhere_are_processes_of_their_own() {
    // RLinf's robots: everything but the arm is on the machine with the GPU.
    let franka = GroupAsWritten { robots: vec![robot("172.16.0.2", 1)], ..group("franka", "1") };
    let site = Site::new(machines(&[1, 0]), vec![group("4090", "0"), franka]).unwrap();
    let plan = planned(&site, &["actor,rollout,reward@4090=0", "env@franka=0"]).unwrap();
    assert_eq!(
        described(&plan),
        [
            "actor-0 on 0 [0] [] (0, 0)",
            "env-0 on 1 [] [0] (0, 12)",
            "rollout-0 on 0 [0] [] (0, 0)",
            "reward-0 on 0 [0] [] (0, 0)",
        ]
    );
    assert_eq!(plan.processes[1].components, [Component::Env]);
    assert_eq!(plan.process(Component::Rollout, 0).unwrap().id, "rollout-0");
    // Neighbours share one.
    let site = Site::new(machines(&[2, 0]), vec![group("4090", "0"), group("sim", "1")]).unwrap();
    let plan = planned(&site, &["env@sim=0:0-3", "rollout@4090=0-1"]).unwrap();
    let talks: Vec<String> = plan
        .edges
        .iter()
        .filter(|edge| edge.to.starts_with("rollout"))
        .map(|edge| format!("{} {}", edge.from, edge.to))
        .collect();
    assert_eq!(talks, ["env-0 rollout-0", "env-1 rollout-0", "env-2 rollout-1", "env-3 rollout-1"]);
}

#[test]
fn environments_of_groups_reach_their_processes() {
    let variables = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let environments = vec![
        GroupEnvironment { machines: None, variables: variables(&[("OMP_NUM_THREADS", "32")]) },
        GroupEnvironment {
            machines: Some("1".into()),
            variables: variables(&[("OMP_NUM_THREADS", "8"), ("LD_LIBRARY_PATH", "/opt/lib")]),
        },
    ];
    let group = GroupAsWritten { environments, ..group("sim", "0-1") };
    let site = Site::new(machines(&[0, 0]), vec![group]).unwrap();
    let plan = planned(&site, &["env@sim=0-1"]).unwrap();
    assert_eq!(plan.process(Component::Env, 0).unwrap().environment["OMP_NUM_THREADS"], "32");
    let other = plan.process(Component::Env, 1).unwrap();
    assert_eq!(other.environment["OMP_NUM_THREADS"], "8");
    // Search paths work only from the daemon's environment.
    assert!(!other.environment.contains_key("LD_LIBRARY_PATH"));
    assert_eq!(plan.machines[1].environment["LD_LIBRARY_PATH"], "/opt/lib");
}

#[test]
fn who_talks_to_whom() {
    let site = Site::new(machines(&[0]), vec![]).unwrap();
    let talks = |asked: &[&str]| -> Vec<String> {
        let plan = planned(&site, asked).unwrap();
        for edge in &plan.edges {
            assert_eq!((&edge.output, &edge.input), (&edge.to, &edge.from));
            assert!(edge.queue > plan.link.window);
        }
        plan.edges.iter().step_by(2).map(|edge| format!("{} {}", edge.from, edge.to)).collect()
    };
    assert_eq!(
        talks(&["env=0:0-2", "reward=0:0-1"]),
        [
            "actor-0 env-0",
            "actor-0 env-1",
            "actor-0 env-2",
            "actor-0 reward-0",
            "actor-0 reward-1",
            "env-0 reward-0",
            "env-1 reward-1",
            "env-2 reward-0"
        ]
    );
    let more_rewards = talks(&["env=0:0-1", "reward=0:0-3"]);
    assert_eq!(more_rewards[6..], ["env-0 reward-0", "env-1 reward-1", "env-0 reward-2", "env-1 reward-3"]);
    let plan = planned(&site, &["env=0:0-2"]).unwrap();
    assert!(plan.processes.iter().all(|process| process.pool_bytes >= LEAST_POOL_BYTES));
    assert!(plan.processes[0].pool_bytes > 4 * 10 * (4 << 20), "a window for each of the four it sends to");
}

#[test]
fn a_placement_that_cannot_be_is_named() {
    let franka = || GroupAsWritten { robots: vec![robot("172.16.0.2", 1)], ..group("franka", "1") };
    let site = Site::new(machines(&[2, 0]), vec![group("4090", "0"), franka()]).unwrap();
    let cases: &[(&[&str], &str, &str)] = &[
        (&["reward=0-2"], "reward", "there is no GPU 2: there are 2, 0 to 1"),
        (&["reward@4090=2"], "reward", "there is no GPU 2: there are 2, 0 to 1 in 4090"),
        (&["reward@h100=0"], "reward", "no group of machines is called `h100`: there are 4090, franka"),
        (&["env@node=2"], "env", "there is no machine 2: there are 2, 0 to 1"),
        (&["env@franka=0:0-1"], "env", "robot 0 is given to env-0 and to env-1"),
        (&["reward@franka=0"], "reward", "reward is placed on robots, which only env moves"),
        (&["env@4090+franka=1-2:0"], "env", "process 0 would run on machines 0 and 1 at once"),
        (&["critic=0"], "critic", "there is no component `critic`"),
        (&["actor,env=0", "env=1"], "env", "`env` is placed twice"),
        (&["actor=0-1"], "actor", "the actor is given 2 processes"),
        (&["env=0:0-4"], "env", "12 environments cannot be shared out evenly among 5 env processes"),
        (&["reward=0,0"], "reward", "GPU 0 is given twice"),
        (
            &["env@node=1", "rollout=0-1"],
            "rollout",
            "2 rollout processes would choose for 1 env processes: some would have nothing to do",
        ),
    ];
    for (asked, component, expected) in cases {
        let error = planned(&site, asked).unwrap_err();
        assert_eq!(error.culprit, Culprit::Component(component.to_string()), "{asked:?}");
        assert!(error.to_string().contains(expected), "{asked:?}: {error}");
    }
    let sites: &[(Vec<GroupAsWritten>, Culprit, &str)] = &[
        (vec![group("a", "2")], Culprit::GroupRanks(0), "there is no machine 2"),
        (vec![group("a", "0"), group("a", "1")], Culprit::Group(1), "another group is called so"),
        (vec![group("node", "0")], Culprit::Group(0), "the name has a meaning already"),
        (
            vec![GroupAsWritten { robots: vec![robot("r", 0)], ..group("a", "1") }],
            Culprit::Robot { group: 0, robot: 0 },
            "hangs on machine 0, which is not in its group (machine 1)",
        ),
        (
            vec![franka(), GroupAsWritten { robots: vec![robot("172.16.0.2", 0)], ..group("b", "0") }],
            Culprit::Robot { group: 1, robot: 0 },
            "the robot at 172.16.0.2 is listed twice",
        ),
        (
            vec![GroupAsWritten {
                environments: vec![GroupEnvironment {
                    machines: Some("0".into()),
                    ..GroupEnvironment::default()
                }],
                ..group("a", "1")
            }],
            Culprit::Environment { group: 0, environment: 0 },
            "there is no machine 0: the group has machine 1",
        ),
    ];
    for (groups, culprit, expected) in sites {
        let error = Site::new(machines(&[2, 0]), groups.clone()).unwrap_err();
        assert_eq!(&error.culprit, culprit, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
