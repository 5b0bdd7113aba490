//! The robot that a process moves: what its entry among the hardware says, where the environments say nothing.

use plaudit_cluster::Process;

use crate::config::LoadedConfig;
use crate::config::blocks::cluster::RobotConfig;
use crate::config::blocks::env::EnvType;

/// Fills the robot's address into the environments of this process.
pub(super) fn adopt(loaded: &mut LoadedConfig, process: &Process) {
    let Some(own) = process.robots.first().and_then(|robot| entry(loaded, *robot)) else { return };
    for env in [&mut loaded.config.env.train, &mut loaded.config.env.eval] {
        if env.env_type != EnvType::Realworld {
            continue;
        }
        let robot = &mut env.override_cfg;
        robot.robot_ip = robot.robot_ip.take().or_else(|| own.robot_ip.clone());
        robot.server_url = robot.server_url.take().or_else(|| own.server_url.clone());
    }
}

/// Robots are numbered over all groups, in the order they are written.
fn entry(loaded: &LoadedConfig, number: usize) -> Option<RobotConfig> {
    let groups = loaded.config.cluster.node_groups.iter();
    let mut robots = groups.flat_map(|group| &group.hardware).flat_map(|hardware| &hardware.configs);
    robots.nth(number).cloned()
}
