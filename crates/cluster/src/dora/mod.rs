//! dora: the files that it is started with, and its command line.
//!
//! dora places, starts, supervises and restarts the processes of a plan, and carries their messages: through shared memory
//! on one machine, by zenoh over TCP between machines. As it comes, it loses large messages without a word. Two settings
//! prevent that, and nothing here is ever written without them: a pool of shared memory that holds a whole window of
//! messages ([`graph()`]), and a data plane that waits instead of dropping ([`overlay()`]).

mod arguments;
mod graph;
mod kubernetes;
mod list;
mod machines;
mod overlay;
mod ray;
mod shell;
mod slurm;

pub use arguments::{
    coordinator, daemon, list_dataflows, list_machines, list_nodes, restart, start, stop, worker,
};
pub use graph::graph;
pub use kubernetes::kubernetes;
pub use list::{DataflowState, NodeState, connected_machines, dataflows, nodes};
pub use machines::machines;
pub use overlay::{OverlayError, check_overlay, overlay};
pub use ray::ray;
pub use shell::quoted;
pub use slurm::slurm;

/// The version of dora that plans are for: its command line, its daemons and the library in the workers alike.
pub const VERSION: &str = "1.1.0";

/// The variable that tells daemons, and through them workers, where the overlay is.
pub const OVERLAY_VARIABLE: &str = "DORA_ZENOH_CONFIG_OVERLAY";

/// The files of a run that are dora's, below the run directory.
pub mod files {
    /// The folder of all others, and the working directory of daemons.
    pub const FOLDER: &str = "dora";
    /// Who runs where, for dora.
    pub const GRAPH: &str = "graph.yml";
    /// The machines, for dora's own commands.
    pub const MACHINES: &str = "cluster.yml";
    /// Settings of the data plane.
    pub const OVERLAY: &str = "overlay.json";
    /// What a client must show to the coordinator. dora gives it its name, and looks for it in the working directory.
    pub const TOKEN: &str = ".dora-token";
    /// What the coordinator remembers over a restart.
    pub const STORE: &str = "coordinator.redb";
}
