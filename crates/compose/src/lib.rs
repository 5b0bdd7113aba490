//! YAML composed the way Hydra 1.3 and OmegaConf 2.3 do it, with a memory of where each value came from.

pub mod de;
pub mod error;
pub mod node;
mod python;
mod scalar;
mod ser;
mod yaml;

pub use de::from_node;
pub use error::{ComposeError, ErrorKind, Result, Texts};
pub use node::{COMMAND_LINE, Key, Map, Node, Origin, Value};
pub use yaml::parse_yaml;
