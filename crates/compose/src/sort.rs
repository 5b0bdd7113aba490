//! Order among values, as Python's `sorted` has it.

use std::cmp::Ordering;

use crate::node::{Node, Value};

/// The items in order, equal ones as they stood; nothing where two of them have no order.
pub(crate) fn sorted(mut items: Vec<Node>, reverse: bool) -> Option<Value> {
    let mut has_order = true;
    items.sort_by(|a, b| {
        let (a, b) = if reverse { (b, a) } else { (a, b) };
        compare(&a.value, &b.value).unwrap_or_else(|| {
            has_order = false;
            Ordering::Equal
        })
    });
    has_order.then_some(Value::List(items))
}

/// Numbers and booleans go together, text with text, and lists item by item.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::List(a), Value::List(b)) => {
            let different =
                a.iter().zip(b).find(|(a, b)| compare(&a.value, &b.value) != Some(Ordering::Equal));
            different.map_or_else(|| Some(a.len().cmp(&b.len())), |(a, b)| compare(&a.value, &b.value))
        }
        _ => match (whole(a), whole(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => number(a)?.partial_cmp(&number(b)?),
        },
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(flag) => Some(i128::from(*flag)),
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        other => whole(other).map(|number| number as f64),
    }
}
