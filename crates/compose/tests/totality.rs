//! No input may panic, hang or overflow the stack: the readers of user text are total.
#![allow(clippy::unwrap_used, reason = "the fixtures are ours, and a broken one should stop the test")]

use plaudit_compose::{ErrorKind, MemorySources, Request, compose, parse_yaml};
use proptest::prelude::*;

/// Pieces that mean something to one of the grammars, so that random text gets past the first character.
const PIECES: [&str; 56] = [
    "a",
    "b.c",
    "key",
    "0",
    "1",
    "-5",
    "1e-3",
    "0x1F",
    "12:30",
    ".inf",
    "true",
    "null",
    "~",
    "???",
    "_self_",
    ":",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "\n- ",
    " ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    "=",
    "+",
    "++",
    "@",
    "/",
    "|",
    ">",
    "\\",
    "'",
    "\"",
    "#",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!",
    "?",
    "%",
    "$",
    "${",
    "${a}",
    "${.b}",
    "${oc.env:A,1}",
    "${oc.create:[1]}",
    "é",
    "\u{0}",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40)
            .prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

/// The configs and overrides of the fixtures.
fn fixtures() -> Vec<(String, Vec<String>)> {
    let cases: serde_json::Value = serde_json::from_str(include_str!("hydra/cases.json")).unwrap();
    let strings = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    let cases = cases.as_array().unwrap().iter();
    cases
        .map(|case| {
            let files = case["files"].as_object().unwrap();
            let first = files.values().next().unwrap().as_str().unwrap().to_owned();
            (first, strings(&case["overrides"]))
        })
        .collect()
}

fn run(config: &str, overrides: &[String]) {
    let sources = MemorySources::new()
        .file("conf/config.yaml", config)
        .file("conf/env/x.yaml", "a: 1")
        .var("A", "${b}");
    let request = Request::new("conf", "config").with_overrides(overrides.iter().cloned());
    if let Ok(composition) = compose(&sources, &request) {
        let _ = composition.resolve(&sources);
    }
}

/// Cuts a piece out at one place and puts something in.
fn mutate(text: &str, at: usize, cut: usize, piece: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let start = at % (characters.len() + 1);
    let end = (start + cut).min(characters.len());
    let before: String = characters[..start].iter().collect();
    let after: String = characters[end..].iter().collect();
    format!("{before}{piece}{after}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_read_or_refused(text in text()) {
        let _ = parse_yaml("any.yaml", &text);
        run(&text, &[]);
    }

    #[test]
    fn any_override_is_read_or_refused(text in text(), key in "[a-c+~@./]{0,6}") {
        run("a: 1\nb: {c: [1, 2]}\n", std::slice::from_ref(&text));
        run("a: 1\nb: {c: [1, 2]}\n", &[format!("{key}={text}")]);
    }

    #[test]
    fn any_interpolation_is_read_or_refused(text in text()) {
        let quoted = serde_json::to_string(&format!("${{{text}}}")).unwrap();
        run(&format!("a: 1\nb: {{c: {quoted}}}\n"), &[]);
    }

    #[test]
    fn any_defaults_list_is_read_or_refused(text in text()) {
        let quoted = serde_json::to_string(&text).unwrap();
        run(&format!("defaults:\n  - {quoted}\n  - {quoted}: x\n  - env: {quoted}\n"), &[]);
    }

    #[test]
    fn mutated_fixtures_are_read_or_refused(
        case in 0usize..10_000, at in 0usize..2_000, cut in 0usize..5, piece in prop::sample::select(PIECES.to_vec())
    ) {
        let fixtures = fixtures();
        let (config, overrides) = &fixtures[case % fixtures.len()];
        run(&mutate(config, at, cut, piece), overrides);
        let overrides: Vec<String> = overrides.iter().map(|text| mutate(text, at, cut, piece)).collect();
        run(config, &overrides);
    }
}

fn yaml_error(text: &str) -> ErrorKind {
    parse_yaml("bomb.yaml", text).unwrap_err().kind().clone()
}

#[test]
fn alias_bombs_are_refused_early() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let below = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", ")));
    }
    assert!(matches!(yaml_error(&bomb), ErrorKind::TooLarge { .. }));
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 50_000].join(", "));
    assert!(matches!(yaml_error(&long), ErrorKind::TooLarge { .. }));
}

#[test]
fn deep_nesting_is_refused() {
    for depth in [200, 100_000] {
        let flow = format!("a: {}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(matches!(yaml_error(&flow), ErrorKind::TooDeep { .. }));
        let block: String = (0..depth.min(2_000)).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert!(matches!(yaml_error(&block), ErrorKind::TooDeep { .. }));
    }
    let deep_key = format!("+{}=1", vec!["a"; 50_000].join("."));
    let sources = MemorySources::new().file("conf/config.yaml", "a: 1").file("conf/env/x.yaml", "a: 1");
    let request = Request::new("conf", "config").with_overrides([deep_key]);
    assert!(matches!(compose(&sources, &request).unwrap_err().kind(), ErrorKind::TooDeep { .. }));
    let package = vec!["p"; 50_000].join(".");
    let sources = sources.file("conf/deep.yaml", format!("defaults:\n  - env/x@{package}\n"));
    let error = compose(&sources, &Request::new("conf", "deep")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }));
}

fn resolve_error(config: String) -> ErrorKind {
    let sources = MemorySources::new().file("conf/config.yaml", config);
    let composition = compose(&sources, &Request::new("conf", "config")).unwrap();
    composition.resolve(&sources).unwrap_err().kind().clone()
}

#[test]
fn interpolation_bombs_are_refused() {
    let mut text = String::from("a0: xxxxxxxxxx\n");
    let mut list = String::from("a0: [1]\n");
    for level in 1..60 {
        let below = level - 1;
        text.push_str(&format!("a{level}: ${{a{below}}}${{a{below}}}\n"));
        list.push_str(&format!("a{level}: ['${{a{below}}}', '${{a{below}}}']\n"));
    }
    assert!(matches!(resolve_error(text), ErrorKind::TooLarge { .. }));
    assert!(matches!(resolve_error(list), ErrorKind::TooLarge { .. }));
}

#[test]
fn merging_into_interpolations_cannot_explode() {
    let (mut base, mut top) = (String::from("k0: {x: 1}\n"), String::new());
    for level in 1..60 {
        let below = level - 1;
        base.push_str(&format!("k{level}: {{p: '${{k{below}}}', q: '${{k{below}}}'}}\n"));
        top.push_str(&format!("k{level}: {{p: {{}}, q: {{}}}}\n"));
    }
    let sources = MemorySources::new()
        .file("conf/config.yaml", "defaults:\n  - base\n  - top\n")
        .file("conf/base.yaml", base)
        .file("conf/top.yaml", top);
    let error = compose(&sources, &Request::new("conf", "config")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }));
}

#[test]
fn defaults_bombs_are_refused() {
    let mut sources = MemorySources::new().file("conf/config.yaml", "defaults: [a0]");
    for level in 0..40 {
        let below = format!("- a{}@x{level}\n- a{}@y{level}\n", level + 1, level + 1);
        sources = sources.file(format!("conf/a{level}.yaml"), format!("defaults:\n{below}"));
    }
    sources = sources.file("conf/a40.yaml", "v: 1");
    let error = compose(&sources, &Request::new("conf", "config")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }));
}
