//! Writing a tree for people (YAML, with places on request) and for programs (JSON).

use std::fmt::Write;

use plaudit_compose::{Key, Node, Value, parse_yaml};

/// The tree as YAML. With `origins`, each value is followed by the place it was written.
pub fn to_yaml(node: &Node, origins: bool) -> String {
    let mut text = String::new();
    match &node.value {
        Value::Map(map) if map.is_empty() => text.push_str("{}\n"),
        Value::List(items) if items.is_empty() => text.push_str("[]\n"),
        _ => block(node, 0, &mut text),
    }
    if !origins {
        return text;
    }
    with_origins(node, &text)
}

fn block(node: &Node, indent: usize, text: &mut String) {
    match &node.value {
        Value::Map(map) => {
            for (key, child) in map {
                let _ = write!(text, "{:indent$}{}:", "", key_text(key));
                child_of(child, indent + 2, text);
            }
        }
        Value::List(items) => {
            for item in items {
                let _ = write!(text, "{:indent$}-", "");
                list_item(item, indent + 2, text);
            }
        }
        _ => {
            let _ = writeln!(text, "{:indent$}{}", "", scalar(&node.value));
        }
    }
}

fn child_of(child: &Node, indent: usize, text: &mut String) {
    match &child.value {
        Value::Map(map) if !map.is_empty() => {
            text.push('\n');
            block(child, indent, text);
        }
        Value::List(items) if items.iter().any(is_nested) => {
            text.push('\n');
            block(child, indent, text);
        }
        other => {
            let _ = writeln!(text, " {}", flow(other));
        }
    }
}

/// A mapping inside a list starts on the dash's own line.
fn list_item(item: &Node, indent: usize, text: &mut String) {
    if !is_nested(item) {
        let _ = writeln!(text, " {}", flow(&item.value));
        return;
    }
    let mut inner = String::new();
    block(item, indent, &mut inner);
    text.push(' ');
    text.push_str(inner.trim_start());
}

fn is_nested(node: &Node) -> bool {
    match &node.value {
        Value::Map(map) => !map.is_empty(),
        Value::List(items) => items.iter().any(is_nested),
        _ => false,
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| flow_scalar(&item.value)).collect::<Vec<_>>().join(", "))
        }
        Value::Map(_) => "{}".into(),
        other => scalar(other),
    }
}

/// Inside brackets a comma or a bracket would end a plain word.
fn flow_scalar(value: &Value) -> String {
    match value {
        Value::Str(text) if text.contains([',', '[', ']', '{', '}']) => quoted(text),
        Value::List(_) => flow(value),
        other => flow(other),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => ".nan".into(),
        Value::Float(number) if number.is_infinite() => if *number > 0.0 { ".inf" } else { "-.inf" }.into(),
        Value::Float(number) => format!("{number:?}"),
        Value::Str(text) => word(text),
        Value::List(_) | Value::Map(_) => flow(value),
    }
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Str(text) => word(text),
        Key::Int(number) => number.to_string(),
        Key::Bool(flag) => flag.to_string(),
        Key::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
    }
}

/// Text is left bare only if reading it back gives the same text.
fn word(text: &str) -> String {
    let plain = !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || "_-./@ +".contains(c))
        && !text.starts_with([' ', '-', '.', '@', '+'])
        && !text.ends_with(' ')
        && matches!(parse_yaml("", &format!("k: {text}")).ok().as_ref().and_then(|node| node.get("k")).map(|node| &node.value), Some(Value::Str(back)) if back == text);
    if plain { text.into() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends `# file:line` to the lines of the YAML, aligned, in the order the leaves were written.
fn with_origins(node: &Node, text: &str) -> String {
    let mut places = Vec::new();
    collect_places(node, &mut places);
    let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0).min(70);
    let mut shown = String::new();
    for (line, place) in text.lines().zip(places) {
        match place {
            Some(place) => {
                let _ = writeln!(shown, "{line:width$}  # {place}");
            }
            None => {
                let _ = writeln!(shown, "{line}");
            }
        }
    }
    shown
}

/// One entry per line that [`block`] writes.
fn collect_places(node: &Node, places: &mut Vec<Option<String>>) {
    match &node.value {
        Value::Map(map) => map.values().for_each(|child| child_places(child, places)),
        Value::List(items) => {
            for item in items {
                if is_nested(item) {
                    collect_places(item, places);
                } else {
                    places.push(Some(place(item)));
                }
            }
        }
        _ => places.push(Some(place(node))),
    }
}

fn child_places(child: &Node, places: &mut Vec<Option<String>>) {
    if is_nested(child) {
        places.push(None);
        collect_places(child, places);
    } else {
        places.push(Some(place(child)));
    }
}

fn place(node: &Node) -> String {
    match node.origin.line {
        0 => node.origin.source.to_string(),
        line => format!("{}:{line}", node.origin.source),
    }
}

/// The tree as JSON. Infinity becomes `1e999`, which every reader of JSON turns back into infinity.
pub fn to_json(node: &Node) -> String {
    let mut text = String::new();
    json(node, 0, &mut text);
    text.push('\n');
    text
}

fn json(node: &Node, indent: usize, text: &mut String) {
    match &node.value {
        Value::Map(map) if !map.is_empty() => {
            text.push('{');
            for (at, (key, child)) in map.iter().enumerate() {
                let name = match key {
                    Key::Str(name) => name.clone(),
                    other => key_text(other),
                };
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(text, "{comma}\n{:1$}{2}: ", "", indent + 2, quoted(&name));
                json(child, indent + 2, text);
            }
            let _ = write!(text, "\n{:indent$}}}", "");
        }
        Value::List(items) if !items.is_empty() => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(text, "{comma}\n{:1$}", "", indent + 2);
                json(item, indent + 2, text);
            }
            let _ = write!(text, "\n{:indent$}]", "");
        }
        Value::Map(_) => text.push_str("{}"),
        Value::List(_) => text.push_str("[]"),
        Value::Str(string) => text.push_str(&quoted(string)),
        Value::Float(number) if number.is_nan() => text.push_str("null"),
        Value::Float(number) if number.is_infinite() => {
            text.push_str(if *number > 0.0 { "1e999" } else { "-1e999" });
        }
        other => text.push_str(&scalar(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let text = "a: 1\nb:\n  - x: 1.0\n    y: [1, two, null, [3]]\n  - []\n  - [a, {k: v}]\nc: {}\nd: 'yes'\ne: \"a: b\"\nf: 1e-06\ng: '012'\nh: '- x'\ni: .inf\nj: ''\nk: \"line\\nbreak\"\n1: one\ntrue: t\n\"it's\": null\n";
        let node = parse_yaml("test", text).unwrap();
        let again = parse_yaml("again", &to_yaml(&node, false)).unwrap();
        assert!(node.same_value(&again), "{}", to_yaml(&node, false));
    }

    #[test]
    fn places_stand_beside_their_values() {
        let node = parse_yaml("a.yaml", "a: 1\nb:\n  c: [1, 2]\n  d:\n    - e: 2\n      f: 3\n").unwrap();
        let shown = to_yaml(&node, true);
        let expected = "a: 1        # a.yaml:1\nb:\n  c: [1, 2] # a.yaml:3\n";
        for (line, start) in
            shown.lines().zip(["a: 1", "b:", "  c: [1, 2]", "  d:", "    - e: 2", "      f: 3"])
        {
            assert!(line.starts_with(start), "{shown}\n{expected}");
        }
        assert!(shown.lines().nth(5).unwrap().ends_with("# a.yaml:6"), "{shown}");
    }

    #[test]
    fn json_keeps_infinity() {
        let node = parse_yaml("test", "a: .inf\nb: [1, 2.5, x]\nc: {}\n").unwrap();
        let value: serde_json::Value = serde_json::from_str(&to_json(&node).replace("1e999", "1")).unwrap();
        assert_eq!(value["b"][2], "x");
        assert!(to_json(&node).contains("1e999"));
    }
}
