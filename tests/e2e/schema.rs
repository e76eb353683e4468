//! Checks JSON values against a JSON schema, as far as `emf-schema.json` needs it. A keyword that is not known here fails.

use serde_json::{Map, Value};

/// Returns what is wrong with a value, if anything is: the place in the value, and the keyword that refuses it.
///
/// # Panics
/// If the schema has a keyword, type or pattern that this evaluator does not know.
pub fn problem(schema: &Value, value: &Value) -> Option<String> {
    problem_at(schema, value, "$")
}

fn problem_at(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = schema.as_object().expect("a schema is an object");
    let keywords = schema.iter();
    let mut problems = keywords.filter_map(|(keyword, wanted)| match keyword.as_str() {
        "properties" => members(wanted, value, at),
        "items" => items(wanted, value, at),
        keyword => (!allows(keyword, wanted, value)).then(|| format!("{at}: {keyword}: {value}")),
    });
    problems.next()
}

fn members(properties: &Value, value: &Value, at: &str) -> Option<String> {
    let none = Map::new();
    let present = value.as_object().unwrap_or(&none);
    let properties = properties.as_object().expect("properties are an object");
    let mut problems = properties.iter().filter_map(|(name, schema)| {
        let value = present.get(name)?;
        problem_at(schema, value, &format!("{at}.{name}"))
    });
    problems.next()
}

fn items(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let items = value.as_array().into_iter().flatten().enumerate();
    let mut problems =
        items.filter_map(|(index, item)| problem_at(schema, item, &format!("{at}[{index}]")));
    problems.next()
}

/// Returns whether a keyword allows a value. As the standard says, a keyword about another type allows it.
fn allows(keyword: &str, wanted: &Value, value: &Value) -> bool {
    let length = value.as_str().map(|text| text.chars().count() as u64);
    let count = value.as_array().map(|items| items.len() as u64);
    let limit = || wanted.as_u64().expect("a limit is a number");
    match keyword {
        "$comment" | "title" => true,
        "type" => is_of_type(value, wanted.as_str().expect("a type is a name")),
        "required" => {
            let names = wanted.as_array().expect("required is a list");
            let mut names = names.iter().filter_map(Value::as_str);
            value
                .as_object()
                .is_none_or(|object| names.all(|name| object.contains_key(name)))
        }
        "minItems" => count.is_none_or(|count| count >= limit()),
        "maxItems" => count.is_none_or(|count| count <= limit()),
        "minLength" => length.is_none_or(|length| length >= limit()),
        "maxLength" => length.is_none_or(|length| length <= limit()),
        "pattern" => {
            let pattern = wanted.as_str().expect("a pattern is a text");
            value.as_str().is_none_or(|text| matches(pattern, text))
        }
        other => panic!("the schema has the keyword `{other}`, which is not known here"),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the schema has the type `{other}`, which is not known here"),
    }
}

/// Returns whether a text is one of the words of a pattern `^(a|b)$`, or without a line break for `^(.*)$`.
fn matches(pattern: &str, text: &str) -> bool {
    let words = pattern
        .strip_prefix("^(")
        .and_then(|rest| rest.strip_suffix(")$"));
    match words.expect("the pattern has the form `^(…)$`") {
        ".*" => !text.contains('\n'),
        words => words
            .split('|')
            .any(|word| word.replace("\\/", "/") == text),
    }
}

#[test]
fn each_rule_of_the_schema_refuses_what_breaks_it() {
    use serde_json::json;

    let schema: Value = serde_json::from_str(include_str!("emf-schema.json")).expect("valid JSON");
    let directive = |change: &dyn Fn(&mut Value)| {
        let mut line = json!({
            "_aws": { "Timestamp": 1, "CloudWatchMetrics": [{
                "Namespace": "N", "Dimensions": [["d"]], "Metrics": [{ "Name": "M", "Unit": "Count" }],
            }] },
            "d": "x", "M": 1,
        });
        change(&mut line);
        problem(&schema, &line)
    };
    assert_eq!(directive(&|_| ()), None);
    let first = |line: &mut Value, name: &str, value: Value| {
        line["_aws"]["CloudWatchMetrics"][0][name] = value;
    };
    type Change<'a> = &'a dyn Fn(&mut Value);
    let changes: [(Change<'_>, &str); 9] = [
        (&|line: &mut Value| *line = json!([]), "type"),
        (&|line: &mut Value| *line = json!({}), "required"),
        (
            &|line: &mut Value| line["_aws"]["Timestamp"] = json!("1"),
            "type",
        ),
        (
            &|line: &mut Value| first(line, "Namespace", json!("")),
            "minLength",
        ),
        (
            &|line: &mut Value| first(line, "Namespace", json!("x".repeat(1_025))),
            "maxLength",
        ),
        (
            &|line: &mut Value| first(line, "Dimensions", json!([])),
            "minItems",
        ),
        (
            &|line: &mut Value| first(line, "Dimensions", json!([vec!["d"; 31]])),
            "maxItems",
        ),
        (
            &|line: &mut Value| first(line, "Metrics", json!([{ "Unit": "Count" }])),
            "required",
        ),
        (
            &|line: &mut Value| {
                first(line, "Metrics", json!([{ "Name": "M", "Unit": "Pieces" }]));
            },
            "pattern",
        ),
    ];
    for (change, keyword) in changes {
        let problem = directive(change).expect("refused");
        assert!(problem.contains(&format!(": {keyword}: ")), "{problem}");
    }
}
