//! A process's links, as its plan has them.

use plaudit_cluster::link::{Endpoint, Identity, LinkReceiver, LinkSender, StreamSettings};
use plaudit_cluster::{Plan, Process};

use super::VERSION;
use crate::failure::Failure;

/// The process's end of its links.
pub(super) fn endpoint(plan: &Plan, process: &Process) -> Result<Endpoint, Failure> {
    let seconds = std::time::Duration::from_secs_f64;
    let settings = StreamSettings {
        window: plan.link.window.max(1),
        resend_after: seconds(plan.link.resend_secs.max(0.01)),
        dead_after: seconds(plan.link.dead_secs.max(0.1)),
    };
    let peers = plan.outputs(&process.id).map(|edge| edge.to.as_str().into()).collect();
    let identity = Identity { version: VERSION.into(), peers, settings };
    let (sender, receiver) = engine(plan, process)?;
    Endpoint::start(&identity, sender, receiver).map_err(|error| Failure::caused_by(&error))
}

type Engine = (Box<dyn LinkSender>, Box<dyn LinkReceiver>);

#[cfg(feature = "cluster")]
fn engine(plan: &Plan, process: &Process) -> Result<Engine, Failure> {
    use plaudit_cluster::link::dora::{Wiring, connect};

    let outputs = plan.outputs(&process.id).map(|edge| (edge.to.as_str().into(), edge.output.clone()));
    let inputs = plan.inputs(&process.id).map(|edge| (edge.input.clone(), edge.from.as_str().into()));
    let wiring = Wiring { outputs: outputs.collect(), inputs: inputs.collect() };
    let (sender, receiver, _) = connect(wiring).map_err(|error| Failure::caused_by(&error))?;
    Ok((sender, receiver))
}

#[cfg(not(feature = "cluster"))]
fn engine(_: &Plan, _: &Process) -> Result<Engine, Failure> {
    let message = "this plaudit was built without dora, which carries messages between processes";
    Err(Failure::usage(message, "build it with `cargo build --release --features cluster`".to_string()))
}
