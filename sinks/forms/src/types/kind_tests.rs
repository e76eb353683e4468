use super::*;

fn read(kind: &str, format: Option<&str>, sign: Option<&str>) -> Result<ColumnType, String> {
    let kind = Some(kind);
    ColumnType::read(TypeWords { kind, format, sign }).map(|read| read.expect("no text"))
}

/// Returns what a column of this type writes; nothing if it does not take the text.
fn written(kind: &str, format: Option<&str>, text: &str) -> Option<String> {
    let kind = read(kind, format, None).unwrap();
    let value = kind.value(text)?;
    let zone = "Europe/Zurich".parse().unwrap();
    Some(match kind.stored(&value, &zone) {
        None => value.into_text().into_owned(),
        Some(Stored::Text(text)) => text,
        Some(Stored::Bytes(bytes)) => hex::encode(bytes),
    })
}

#[test]
fn each_type_writes_its_values_in_its_format() {
    for (kind, format, text, expected) in [
        ("int", None, "-7", "-7"),
        ("int", None, "9223372036854775807", "9223372036854775807"),
        ("decimal(9,2)", None, "12.5", "12.50"),
        ("decimal(9,2)", Some("implied"), "-0.5", "-50"),
        ("decimal(3,2)", Some("implied"), "0.05", "05"),
        ("date", None, "2026-11-30", "2026-11-30"),
        ("date", Some("%d%m%Y"), "2026-11-30", "30112026"),
        (
            "timestamp",
            None,
            "2026-11-30T23:30:00.5Z",
            "2026-11-30T23:30:00.5Z",
        ),
        (
            "timestamp",
            None,
            "2026-11-30T23:30:00+01:00",
            "2026-11-30T22:30:00Z",
        ),
        ("timestamp", None, "1795649400000", "2026-11-25T23:30:00Z"),
        (
            "timestamp",
            Some("%Y%m%d%H%M"),
            "1795649400000",
            "202611260030",
        ),
        ("bool", None, "true", "true"),
        ("bool", Some("Y/N"), "false", "N"),
        ("bool", Some("1/"), "false", ""),
        ("packed-decimal(5,2)", None, "-1.5", "00150d"),
        ("zoned-decimal(3)", None, "-12", "01K"),
        ("binary(4)", None, "1", "0001"),
    ] {
        let found = written(kind, format, text);
        assert_eq!(found.as_deref(), Some(expected), "{kind} {text}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    for (kind, texts) in [
        ("int", &["1.0", "9223372036854775808", "x", "", "1 "][..]),
        ("decimal(4,2)", &["100", "1.001", "1e1", "true"]),
        (
            "date",
            &[
                "2026-02-30",
                "2026-11-30T00:00:00",
                "20261130",
                "30.11.2026",
                "1",
            ],
        ),
        (
            "timestamp",
            &[
                "2026-11-30",
                "2026-11-30T12:00:00",
                "2026-11-30T12:00:00.0000001Z",
                "-1",
                "20261130",
                "20261130120000",
                "1795649400",
                "soon",
            ],
        ),
        ("bool", &["1", "TRUE", "yes", ""]),
        ("packed-decimal(2)", &["100", "0.1"]),
    ] {
        for text in texts {
            assert_eq!(written(kind, None, text), None, "{kind} {text}");
        }
    }
    // Forms that the parser of times takes as well, with something guessed or changed.
    for text in [
        "2016-12-31T23:59:60Z",
        "2026-11-30T12:00:00+05:00[Europe/Zurich]",
        "2026-11-30T12Z",
        "20261130T120000Z",
        "2026-11-30 12:00:00Z",
        "2026-11-30T12:00:00,5Z",
        "2026-11-30T12:00:00.Z",
        "2026-11-30T12:00:00+25:00",
        "0000-01-01T00:00:00Z",
        "2026-11-30T12:00:00\u{e9}",
    ] {
        assert_eq!(written("timestamp", None, text), None, "{text}");
    }
    assert_eq!(written("date", None, "0000-01-01"), None);
    let unsigned = read("binary(4)", None, Some("unsigned")).unwrap();
    assert_eq!(unsigned.value("-1"), None);
    assert_eq!(
        unsigned.expected(),
        "a number without a minus with at most 4 digits before the point and 0 after it"
    );
}

#[test]
fn a_wrong_type_is_refused_with_what_is_allowed() {
    for (kind, format, sign, words) in [
        (
            "integer",
            None,
            None,
            "`type`: wrong value: got `integer`, expected `text`, `int`, ",
        ),
        ("decimal", None, None, "expected digits such as `(9,2)`"),
        ("decimal(9,2", None, None, "expected `text`"),
        ("decimal(39)", None, None, "from 1 to 38"),
        ("int(3)", None, None, "expected `text`"),
        ("binary(19)", None, None, "expected 18 digits at most"),
        (
            "packed-decimal(32)",
            None,
            None,
            "expected 31 digits at most",
        ),
        (
            "decimal(9,2)",
            Some("comma"),
            None,
            "`format`: wrong value: got `comma`, expected `implied`",
        ),
        ("date", Some("%d%m%Y%H"), None, "without a time of day"),
        ("timestamp", Some("%Q"), None, "got `%Q`"),
        ("bool", Some("Y"), None, "such as `Y/N`"),
        ("bool", Some("Y/Y"), None, "such as `Y/N`"),
        ("int", Some("x"), None, "`format`: type `int` has none"),
        ("int", None, Some("signed"), "`sign`: type `int` has none"),
        (
            "zoned-decimal(3)",
            None,
            Some("signed"),
            "`trailing`, `leading`",
        ),
        (
            "binary(3)",
            None,
            Some("trailing"),
            "`signed` or `unsigned`",
        ),
    ] {
        let error = read(kind, format, sign).unwrap_err();
        assert!(error.contains(words), "{kind}: {error}");
    }
    let text = ColumnType::read(TypeWords::default());
    assert_eq!(text, Ok(None));
}

#[test]
fn numbers_that_may_have_lost_digits_are_found_wherever_they_are() {
    for json in [
        "0.1234567890123456",
        r#"{"a": [1, 1234567890123456.5]}"#,
        "-1234567890.1234567e2",
        r#"{"s": "\"", "n": 0.30000000000000000001}"#,
    ] {
        assert!(has_long_number(json), "{json}");
    }
    for json in [
        "12345678901234567890",
        "0.000000000000000000001",
        r#"{"s": "0.12345678901234567890", "t": "\\", "n": 0.1}"#,
        "[123456789.12, 123456789.12, true, false, null]",
    ] {
        assert!(!has_long_number(json), "{json}");
    }
}
