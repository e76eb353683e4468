//! Columns of many types: a value is stored as the type reads it, and no value is cut to fit.

use local::postgres::TABLES;

use super::{Rig, delivered, part, permanent};

/// A type, a value that it accepts, the value as it is read back, and a value that it refuses.
const TYPES: &[(&str, &str, &str, &str)] = &[
    ("integer", "-7", "-7", "2147483648"),
    ("numeric(4,2)", "12.345", "12.35", "123"),
    ("real", "1.5", "1.5", "1e99"),
    ("boolean", "yes", "true", "perhaps"),
    ("varchar(3)", "abc", "abc", "abcd"),
    ("varchar(3)[]", "{abc,d}", "{abc,d}", "{abcd}"),
    ("char(3)", "ab", "ab ", "abcd"),
    ("bit(3)", "101", "101", "1011"),
    ("bit varying(3)", "10", "10", "1011"),
    ("short", "abc", "abc", "abcd"),
    ("shorter", "ab", "ab", "abc"),
    ("positive", "7", "7", "-7"),
    ("colour", "red", "red", "mauve"),
    ("point2", "(1,2)", "(1,2)", "(1)"),
    ("integer[]", "{1,NULL,3}", "{1,NULL,3}", "{1,x}"),
    ("int4range", "[1,5)", "[1,5)", "[5,1)"),
    ("date", "2026-02-28", "2026-02-28", "2026-02-30"),
    (
        "timestamptz",
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00+00",
        "soon",
    ),
    ("interval", "1 day 02:00", "1 day 02:00:00", "1 dy"),
    (
        "uuid",
        "0190163d-8694-739b-aea5-966c26f8ad91",
        "0190163d-8694-739b-aea5-966c26f8ad91",
        "0190",
    ),
    ("bytea", "\\\\x00ff", "\\x00ff", "\\\\x0"),
    ("json", "{\\\"a\\\":1}", "{\"a\":1}", "{a}"),
    ("jsonb", "{\\\"a\\\":1}", "{\"a\": 1}", "{a}"),
    ("inet", "10.0.0.1", "10.0.0.1/32", "10.0.0.256"),
];

#[tokio::test]
async fn a_column_of_any_type_takes_valid_values_and_refuses_values_that_it_would_cut() {
    let rig = Rig::start(&format!(
        "{TABLES} SET timezone = 'UTC'; ALTER DATABASE postgres SET timezone = 'UTC';
         CREATE DOMAIN short AS varchar(3);
         CREATE DOMAIN shorter AS short CHECK (length(VALUE) < 3);
         CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
         CREATE SCHEMA other;
         CREATE TYPE other.colour AS ENUM ('red');
         CREATE DOMAIN colour AS other.colour;
         CREATE TYPE point2 AS (x integer, y integer)"
    ))
    .await;
    let sink = rig.sink(Some(
        r#"[{"name":"id","field":"seq"},{"name":"an \"odd\" name","json":"value"}]"#,
    ));
    for (index, (kind, value, written, refused)) in TYPES.iter().enumerate() {
        rig.run(&format!(
            "DROP TABLE events; TRUNCATE events_rejects;
             CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, \"an \"\"odd\"\" name\" {kind},
                                  twice bigint GENERATED ALWAYS AS (id * 2) STORED)"
        ))
        .await;
        let body = |value: &str| format!(r#"{{"value":"{value}"}}"#);
        let mut part = part(&[body(value), body(refused), r#"{"value":null}"#.to_owned()]);
        part.part_index = index;
        let receipt = delivered(&sink, &part).await;
        let rows = "SELECT concat_ws(' ', id, twice, quote_nullable(\"an \"\"odd\"\" name\"::text)) FROM events ORDER BY id";
        let rows = rig.texts(rows).await;
        // A fixed-width value is read back without blanks at its end.
        let written = match *kind {
            "char(3)" => written.trim_end(),
            _ => *written,
        };
        let quoted = match written.contains('\\') {
            true => format!("E'{}'", written.replace('\\', "\\\\")),
            false => format!("'{written}'"),
        };
        let expected = [format!("0 0 {quoted}"), "2 4 NULL".to_owned()];
        assert_eq!(rows, expected, "{kind}");
        assert_eq!(receipt.rejected.len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_column_that_the_table_does_not_have_is_an_error_of_the_part() {
    let rig = Rig::start(TABLES).await;
    let sink = rig.sink(Some(r#"[{"name":"colour","json":"colour"}]"#));
    let reason = permanent(&sink, &part(&["{}"])).await;
    assert!(reason.contains("colour"), "{reason}");
}
