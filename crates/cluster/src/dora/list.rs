//! What dora's lists say.

use serde::Deserialize;

/// A dataflow, as the coordinator knows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DataflowState {
    /// dora's name for this start of it.
    pub uuid: String,
    /// Our name for it.
    pub name: String,
    /// `Running`, `Finished`, `Failed`, …
    pub status: String,
}

/// A process, as its daemon knows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeState {
    /// Its name.
    pub node: String,
    /// `Running`, …
    pub status: String,
    /// Its number on its machine.
    pub pid: String,
    /// How busy it is.
    pub cpu: String,
    /// The memory it has.
    pub memory: String,
    /// How often it was started again.
    pub restarts: String,
}

/// The dataflows of a list in lines of JSON. Lines that are none are left out: dora prints notices too.
pub fn dataflows(list: &str) -> Vec<DataflowState> {
    list.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The processes of a list in lines of JSON.
pub fn nodes(list: &str) -> Vec<NodeState> {
    list.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

const UUID_LENGTH: usize = 36;

/// The machines of a table of daemons, with the milliseconds since each was heard of.
pub fn connected_machines(table: &str) -> Vec<(String, u64)> {
    let daemon = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, heard) = (words.next()?, words.next()?);
        // A daemon's own number follows the name of its machine.
        let machine = id.get(..id.len().checked_sub(UUID_LENGTH + 1)?)?;
        Some((machine.to_string(), heard.strip_suffix("ms")?.parse().ok()?))
    };
    table.lines().filter_map(daemon).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_notices_are_not() {
        let table = "DAEMON ID                                  LAST HEARTBEAT  RESTARTS\n\
                     node-0-01a1eafd-c00f-7287-9446-ef4022e60c6f  131ms ago  0 0 0 0\n\nActive dataflows: 1\n";
        assert_eq!(connected_machines(table), [("node-0".to_string(), 131)]);
        let list = "a notice\n{\"uuid\":\"u\",\"name\":\"n\",\"status\":\"Running\",\"nodes\":2,\"cpu\":1.5,\"memory\":0.2}\n";
        assert_eq!(dataflows(list)[0].status, "Running");
        let list = "{\"node\":\"env-0\",\"status\":\"Running\",\"pid\":\"7\",\"cpu\":\"1%\",\"memory\":\"3 MB\",\"restarts\":\"2\"}";
        assert_eq!(nodes(list)[0].restarts, "2");
    }
}
