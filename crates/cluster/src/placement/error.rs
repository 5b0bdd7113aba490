//! What can be wrong with a placement, and with which part of it.

use thiserror::Error;

/// A placement that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct PlacementError {
    /// The part that is wrong.
    pub culprit: Culprit,
    /// What is wrong with it.
    pub problem: Problem,
}

/// A part of what was asked for. Numbers count from zero, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprit {
    /// The places of a component, or of several that were written together.
    Component(String),
    /// A group of machines.
    Group(usize),
    /// The machines of a group.
    GroupRanks(usize),
    /// A robot of a group.
    Robot {
        /// The group.
        group: usize,
        /// The robot in it.
        robot: usize,
    },
    /// The environment of a group's machines.
    Environment {
        /// The group.
        group: usize,
        /// Which of its environments.
        environment: usize,
    },
    /// A machine.
    Machine(usize),
}

impl Culprit {
    pub(crate) fn err<T>(self, problem: Problem) -> Result<T, PlacementError> {
        Err(PlacementError { culprit: self, problem })
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Neither a rank nor a range.
    #[error(
        "`{text}` names no places: they are written as 0, 0-3, 0,2 or all, with processes after a colon (0-1:0-3)"
    )]
    NotRanks {
        /// What stands there.
        text: String,
    },
    /// `3-0`.
    #[error("the range {first}-{last} runs backwards")]
    Backwards {
        /// Where it begins.
        first: usize,
        /// Where it ends.
        last: usize,
    },
    /// More than anybody has.
    #[error("`{text}` names more than {most} ranks")]
    TooMany {
        /// What stands there.
        text: String,
        /// The most that are taken.
        most: usize,
    },
    /// A rank that is not there.
    #[error("there is no {kind} {rank}: {there}")]
    NoSuchRank {
        /// What is counted: GPU, robot, machine.
        kind: &'static str,
        /// The rank that was asked for.
        rank: usize,
        /// What there is.
        there: String,
    },
    /// The same place, twice for one component.
    #[error("{kind} {rank} is given twice")]
    GivenTwice {
        /// What is counted.
        kind: &'static str,
        /// Its rank.
        rank: usize,
    },
    /// Places that do not ascend.
    #[error("{kind} {rank} stands after {before}: places ascend, as the ranks of their processes do")]
    NotAscending {
        /// What is counted.
        kind: &'static str,
        /// The place that comes too late.
        rank: usize,
        /// The one before it.
        before: usize,
    },
    /// Ranks of processes that are not 0, 1, 2, …
    #[error(
        "process {expected} is left out: the ranks of processes run from 0 without a gap, and `{text}` goes on with {found}"
    )]
    ProcessGap {
        /// The rank that should come next.
        expected: usize,
        /// The rank that does.
        found: usize,
        /// What stands there.
        text: String,
    },
    /// Neither number divides the other.
    #[error("{processes} processes cannot be spread evenly over {places} places (`{text}`)")]
    Uneven {
        /// How many processes.
        processes: usize,
        /// How many places.
        places: usize,
        /// What stands there.
        text: String,
    },
    /// A process with places on two machines.
    #[error("process {process} would run on machines {first} and {second} at once")]
    AcrossMachines {
        /// Its rank.
        process: usize,
        /// One of them.
        first: usize,
        /// Another.
        second: usize,
    },
    /// A process with robots and GPUs.
    #[error("process {process} is given places of two kinds, {first} and {second}")]
    TwoKinds {
        /// Its rank.
        process: usize,
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A group that is not declared.
    #[error("no group of machines is called `{label}`: {there}")]
    NoSuchGroup {
        /// What was asked for.
        label: String,
        /// What there is.
        there: String,
    },
    /// Two groups of one name, or a name that means something already.
    #[error("a group cannot be called `{label}`: {why}")]
    BadLabel {
        /// The name.
        label: String,
        /// Why not.
        why: &'static str,
    },
    /// A component that plaudit does not have.
    #[error("there is no component `{name}`: a run has actor, env, rollout and reward")]
    NoSuchComponent {
        /// What was asked for.
        name: String,
    },
    /// A component that is placed twice.
    #[error("`{name}` is placed twice")]
    ComponentTwice {
        /// Its name.
        name: &'static str,
    },
    /// A machine outside of the group that the robot belongs to.
    #[error("the robot hangs on machine {machine}, which is not in its group ({there})")]
    RobotOutside {
        /// Where it hangs.
        machine: usize,
        /// The machines of the group.
        there: String,
    },
    /// One robot in two entries.
    #[error("the robot at {address} is listed twice")]
    RobotListedTwice {
        /// Its address.
        address: String,
    },
    /// One robot, two processes.
    #[error("robot {robot} is given to {first} and to {second}: one process moves a robot")]
    RobotPlacedTwice {
        /// Its number.
        robot: usize,
        /// A process.
        first: String,
        /// Another.
        second: String,
    },
    /// Only environments move robots.
    #[error("{component} is placed on robots, which only env moves")]
    NotForRobots {
        /// The component.
        component: &'static str,
    },
    /// A learner of several processes.
    #[error("the actor is given {processes} processes: a policy is learned in one")]
    SeveralActors {
        /// How many.
        processes: usize,
    },
    /// A component of learning, where a person moves a robot.
    #[error("{component} is placed, and there is nothing to learn: a person moves the robot")]
    NothingToLearn {
        /// The component.
        component: &'static str,
    },
    /// More rollouts than there are environments' processes to choose for.
    #[error(
        "{rollouts} rollout processes would choose for {envs} env processes: some would have nothing to do"
    )]
    IdleRollouts {
        /// Processes of rollout.
        rollouts: usize,
        /// Processes of env.
        envs: usize,
    },
    /// Environments that cannot be shared out.
    #[error("{envs} environments cannot be shared out evenly among {processes} env processes")]
    UnevenEnvs {
        /// Environments in all.
        envs: usize,
        /// Processes.
        processes: usize,
    },
    /// No machine at all.
    #[error("there is no machine")]
    NoMachine,
    /// Too many or too few.
    #[error("{declared} machines are asked for, and {listed} have an address")]
    MachineCount {
        /// How many there should be.
        declared: usize,
        /// How many are listed.
        listed: usize,
    },
}
