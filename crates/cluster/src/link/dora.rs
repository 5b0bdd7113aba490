//! Workers as dora's nodes: shared memory on one machine, TCP between machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dora_node_api::dora_core::config::DataId;
use dora_node_api::{DoraNode, Event, EventStream, MetadataParameters};

use super::{Incoming, LinkError, LinkReceiver, LinkSender};

/// A node's outputs and inputs, by the peer that each leads to or comes from.
#[derive(Debug, Clone, Default)]
pub struct Wiring {
    /// Output by receiver.
    pub outputs: BTreeMap<Arc<str>, String>,
    /// Sender by input.
    pub inputs: BTreeMap<String, Arc<str>>,
}

/// Both halves of the link of a node that dora started, and how often it was started before.
pub fn connect(wiring: Wiring) -> Result<(Box<dyn LinkSender>, Box<dyn LinkReceiver>, u32), LinkError> {
    let connected = DoraNode::init_from_env_force();
    let (node, events) = connected.map_err(|error| LinkError::Engine(error.to_string()))?;
    let restarts = node.restart_count();
    let outputs = wiring.outputs.into_iter().map(|(peer, output)| (peer, DataId::from(output))).collect();
    let (sender, receiver) = (DoraSender { node, outputs }, DoraReceiver { events, inputs: wiring.inputs });
    Ok((Box::new(sender), Box::new(receiver), restarts))
}

struct DoraSender {
    node: DoraNode,
    outputs: BTreeMap<Arc<str>, DataId>,
}

impl LinkSender for DoraSender {
    fn send(
        &mut self,
        peer: &Arc<str>,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LinkError> {
        let Some(output) = self.outputs.get(peer) else {
            return Err(LinkError::NoPeer { peer: peer.to_string() });
        };
        let sent =
            self.node.send_output_raw(output.clone(), MetadataParameters::default(), len, |into| fill(into));
        sent.map_err(|error| LinkError::Engine(error.to_string()))
    }
}

struct DoraReceiver {
    events: EventStream,
    inputs: BTreeMap<String, Arc<str>>,
}

impl LinkReceiver for DoraReceiver {
    fn recv(&mut self, timeout: Duration, on_bytes: &mut dyn FnMut(&str, &[u8])) -> Incoming {
        match self.events.recv_timeout(timeout) {
            None => Incoming::Stop("dora closed the node's events".into()),
            Some(Event::Input { id, data, .. }) => {
                let bytes: Result<&[u8], _> = (&data).try_into();
                if let (Some(peer), Ok(bytes)) = (self.inputs.get(id.as_str()), bytes) {
                    on_bytes(peer, bytes);
                }
                Incoming::Bytes
            }
            Some(Event::Stop(cause)) => Incoming::Stop(format!("dora: {cause:?}")),
            Some(Event::NodeRestarted { id }) => Incoming::PeerUp(id.to_string()),
            Some(Event::InputClosed { id }) => Incoming::PeerDown(id.to_string()),
            // A time-out is an error event, too, and what dora reports as an error is seen as silence or loss anyway.
            Some(_) => Incoming::Timeout,
        }
    }
}
