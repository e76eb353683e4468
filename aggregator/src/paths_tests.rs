use jmespath::{Rcvar, Variable};
use proptest::prelude::*;

use super::*;

fn plain(expression: &str) -> Option<Plain> {
    expression.parse::<Expression>().unwrap().plain().cloned()
}

fn path(names: &str) -> Path {
    names.split('.').map(str::to_owned).collect()
}

/// What the one pass finds for each expression.
fn found(expressions: &[Expression], body: &str) -> Vec<Option<String>> {
    let paths = Paths::of(expressions).unwrap();
    let found = paths.search(body);
    let text = |expression| Some(paths.text(expression, found.as_ref()?)?.into_owned());
    expressions.iter().map(text).collect()
}

/// What the general way finds; the outer error is that of a body that is not JSON to it.
fn general(expression: &Expression, body: &str) -> Result<Option<String>, String> {
    let body = Rcvar::new(Variable::from_json(body)?);
    Ok(expression.text(&body).ok())
}

fn one(expression: &str, body: &str) -> Option<String> {
    let expression = expression.parse().unwrap();
    let text = found(std::slice::from_ref(&expression), body).remove(0);
    if let Ok(general) = general(&expression, body) {
        assert_eq!(text, general, "`{}` over {body}", "the same as ever");
    }
    text
}

#[test]
fn fields_and_lists_of_fields_are_plain_and_nothing_else_is() {
    for (expression, field) in [("id", "id"), ("a.b.c", "a.b.c"), ("a | \"b c\"", "a.b c")] {
        assert_eq!(plain(expression), Some(Plain::Field(path(field))));
    }
    assert_eq!(
        plain("[a, b.c]"),
        Some(Plain::List(vec![path("a"), path("b.c")]))
    );
    for other in [
        "@",
        "a[0]",
        "a[]",
        "a.*",
        "a || b",
        "'a'",
        "`1`",
        "length(a)",
        "a.[b]",
        "{a: b}",
        "[a, [b]]",
        "!a",
        "[a, 'x']",
        "a[?b]",
    ] {
        assert_eq!(plain(other), None, "{other}");
    }
}

#[test]
fn the_last_of_fields_with_one_name_counts_whole() {
    assert_eq!(one("a", r#"{"a":"x","\u0061":"y"}"#).as_deref(), Some("y"));
    assert_eq!(one("a", r#"{"a":"x","a":null}"#), None);
    assert_eq!(one("a.b", r#"{"a":{"b":"x"},"a":{"c":"y"}}"#), None);
    assert_eq!(one("a.b", r#"{"a":{"b":"x"},"a":7}"#), None);
    assert_eq!(one("a.b", r#"{"a":{"b":"x"},"a":[{"b":"y"}]}"#), None);
    assert_eq!(one("a.b", r#"{"a":7,"a":{"b":"x"}}"#).as_deref(), Some("x"));
}

#[test]
fn scalars_have_the_texts_they_have_the_general_way() {
    for (value, text) in [
        (r#""x|\\y\u00e9""#, Some("x|\\yé")),
        ("18446744073709551615", Some("18446744073709551615")),
        ("-9223372036854775808", Some("-9223372036854775808")),
        ("0", Some("0")),
        ("false", Some("false")),
        (r#""""#, None),
        ("-0", None),
        ("1.0", None),
        ("1e2", None),
        ("18446744073709551616", None),
        ("null", None),
        ("{}", None),
    ] {
        let body = format!(r#"{{"id":{value}}}"#);
        assert_eq!(one("id", &body).as_deref(), text, "{body}");
    }
    assert_eq!(
        one("[a, b]", r#"{"b":"","a":"|"}"#).as_deref(),
        Some("\\||")
    );
    assert_eq!(one("[a, b]", r#"{"a":"x"}"#), None);
}

#[test]
fn a_list_as_the_value_is_left_to_the_general_way() {
    let expression: Expression = "id".parse().unwrap();
    let body = r#"{"id":["x",7]}"#;
    assert_eq!(found(std::slice::from_ref(&expression), body), [None]);
    assert_eq!(general(&expression, body).unwrap().as_deref(), Some("x|7"));
}

#[test]
fn what_is_skipped_is_not_read() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for skipped in ["1e999", r#""\ud800""#, &deep] {
        let body = format!(r#"{{"skipped":{skipped},"id":"x"}}"#);
        assert!(general(&"id".parse().unwrap(), &body).is_err());
        assert_eq!(one("id", &body).as_deref(), Some("x"), "{body}");
        assert_eq!(one("skipped", &body), None, "{body}");
    }
    // It must still be JSON.
    for skipped in ["01", "+1", "nul", "\"\n\"", r#""\x""#, "[1,]", "{1:2}", ""] {
        let body = format!(r#"{{"skipped":{skipped},"id":"x"}}"#);
        assert_eq!(one("id", &body), None, "{body}");
    }
    assert_eq!(one("id", r#"{"id":"x"} {}"#), None);
}

#[test]
fn expressions_that_name_too_much_go_the_general_way() {
    let wide = |count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("a{index}")).collect();
        format!("[{}, a0]", names.join(", "))
            .parse::<Expression>()
            .unwrap()
    };
    assert!(Paths::of([&wide(PLACES_MAX)]).is_some());
    assert!(Paths::of([&wide(PLACES_MAX + 1)]).is_none());
    assert!(Paths::of([&wide(1), &"a[0]".parse().unwrap()]).is_none());
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#""a""#,
        r#""b""#,
        r#""c""#,
        r#""\u0061""#,
        r#""a.b""#,
        r#""""#,
        r#""\n""#,
        r#""A""#,
    ])
}

fn scalar() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "-7",
        "1.5",
        "-1e3",
        "1E400",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        r#""""#,
        r#""x|\\y""#,
        r#""\u00e9\ud83d\ude00""#,
        r#""\udc00""#,
        r#""é""#,
        "01",
        "nul",
        "\"\t\"",
    ]);
    prop_oneof![9 => words.prop_map(str::to_owned), 1 => any::<u64>().prop_map(|id| format!("\"{id}\""))]
}

fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        let field = (name(), inner.clone(), prop::sample::select(vec![":", " : "]))
            .prop_map(|(name, value, colon)| format!("{name}{colon}{value}"));
        prop_oneof![
            4 => prop::collection::vec(field, 0..6).prop_map(|fields| format!("{{{}}}", fields.join(","))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|members| format!("[{}]", members.join(" ,"))),
        ]
    })
}

/// Bodies, most of them JSON.
fn body() -> impl Strategy<Value = String> {
    let cut = |(json, at): (String, prop::sample::Index)| {
        let mut bytes = json.into_bytes();
        bytes.remove(at.index(bytes.len()));
        String::from_utf8(bytes).unwrap_or_default()
    };
    prop_oneof![
        8 => json(),
        1 => (json(), any::<prop::sample::Index>()).prop_map(cut),
        1 => json().prop_map(|json| format!(" {json} x")),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let field = prop::sample::select(vec!["a", "b", "c", r#""a.b""#, r#""""#, r#""\n""#]);
    let path = prop::collection::vec(field, 1..4).prop_map(|names| names.join("."));
    let list = prop::collection::vec(path.clone(), 1..4);
    let list = list.prop_map(|paths| format!("[{}]", paths.join(", ")));
    prop_oneof![2 => path, 1 => list].prop_map(|text| text.parse().unwrap())
}

fn finds_a_list(expression: &Expression, body: &str) -> bool {
    let Some(Plain::Field(path)) = expression.plain() else {
        return false;
    };
    let body = Rcvar::new(Variable::from_json(body).unwrap());
    let value = path.iter().fold(body, |value, name| value.get_field(name));
    value.is_array()
}

/// What the general way says of a body that only it reads whole.
const ONLY_SKIPPED: [&str; 4] = [
    "number out of range",
    "lone leading surrogate",
    "unexpected end of hex escape",
    "recursion limit exceeded",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn one_pass_finds_what_the_general_way_finds(
        expressions in prop::collection::vec(expression(), 1..3),
        body in body(),
    ) {
        for (expression, text) in expressions.iter().zip(found(&expressions, &body)) {
            match general(expression, &body) {
                Ok(general) => {
                    // A list as the value of a field is the only text that is left to the general way.
                    let expected = general.filter(|_| !finds_a_list(expression, &body));
                    prop_assert_eq!(text, expected);
                }
                Err(error) => {
                    let skipped = ONLY_SKIPPED.iter().any(|words| error.contains(words));
                    prop_assert!(text.is_none() || skipped, "{error}");
                }
            }
        }
    }
}
