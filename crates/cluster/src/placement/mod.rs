//! RLinf's grammar of places, and what it asks for.
//!
//! A component is given *places*: `0`, `0-3`, `0,2`, `all`, perhaps inside groups of machines. What a place is depends on
//! the group: a robot where the group has robots, else a GPU where its machines have GPUs, else a machine. After a colon
//! stand the ranks of processes: `0-3:0-7` is eight processes on four places, `0-1:0` one process that has two.
//!
//! ```
//! use plaudit_cluster::placement::{ComponentPlaces, Site, SiteMachine, resolve};
//!
//! let site = Site::new(vec![SiteMachine { host: "gpu".into(), gpus: 2 }], vec![]).unwrap();
//! let places = ComponentPlaces { components: "reward".into(), groups: vec![], places: "0-1".into() };
//! let placed = resolve(&site, &[places]).unwrap();
//! assert_eq!(placed[0].processes.len(), 2);
//! assert_eq!(placed[0].processes[1].gpus, [1]);
//! ```

mod error;
mod ranks;
mod resolve;
mod site;

pub use error::{Culprit, PlacementError, Problem};
pub use ranks::{MOST_RANKS, processes_by_place, ranks};
pub use resolve::{ComponentPlaces, PlacedComponent, PlacedProcess, resolve};
pub use site::{ALL_MACHINES, BY_MACHINE, Group, GroupAsWritten, GroupEnvironment, Robot, Site, SiteMachine};
