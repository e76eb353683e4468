use super::*;
use crate::columns::Columns;
use crate::encoding::LineEnd;
use crate::layout::LayoutFailed;
use crate::template::TemplateUse;
use crate::tests_support::{assert_has, part};

fn written(format: &Format, bodies: &[&str]) -> (String, Vec<String>) {
    let mut bytes = Vec::new();
    let rejects = format.write(&part(2, bodies), &mut bytes).unwrap();
    let rejects = rejects.iter().map(ToString::to_string).collect();
    (String::from_utf8(bytes).unwrap(), rejects)
}

fn csv(columns: &str, header: bool) -> Format {
    let columns: Columns = columns.parse().unwrap();
    Format::Csv {
        columns: columns.unpadded().unwrap(),
        header,
    }
}

fn fixed_width(columns: &str) -> Format {
    let columns: Columns = columns.parse().unwrap();
    Format::FixedWidth(columns.fixed_width().unwrap())
}

const ENVELOPE: &str = concat!(
    r#"{"batchId":"0190163d-8694-739b-aea5-966c26f8ad91","part":2,"seq":0,"eventId":"e0","#,
    r#""sqsMessageId":"m0","source":"arn:q","sentAt":7,"body":"{\"a\":1}\n""#,
);

#[test]
fn an_envelope_has_all_fields_and_the_body_as_a_string() {
    let (text, rejects) = written(&Format::Envelope, &["{\"a\":1}\n"]);
    assert_eq!(text, format!("{ENVELOPE}}}\n"));
    assert!(rejects.is_empty());
}

#[test]
fn an_envelope_has_the_message_attributes_only_if_there_are_any() {
    const ATTRIBUTES: &str = r#"{"n":{"dataType":"Number","stringValue":"1"}}"#;
    let mut part = part(2, &["{\"a\":1}\n", "b"]);
    part.items[0].attributes = MessageAttributes::read(ATTRIBUTES).unwrap();
    let mut bytes = Vec::new();
    Format::Envelope.write(&part, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    assert_eq!(first, format!(r#"{ENVELOPE},"attributes":{ATTRIBUTES}}}"#));
    assert!(second.ends_with("\"body\":\"b\"}\n"), "{second}");
    let reject = Reject::of(&part.items[0], RejectReason::LineBreak);
    let line = String::from_utf8(reject_line(&part, &reject).unwrap()).unwrap();
    let start = format!(r#"{ENVELOPE},"attributes":{ATTRIBUTES},"reason":"#);
    assert!(line.starts_with(&start), "{line}");
}

#[test]
fn a_body_is_one_line_and_a_body_with_a_line_break_is_rejected() {
    assert_eq!(written(&Format::Body, &["a", "b"]).0, "a\nb\n");
    let (text, rejects) = written(&Format::Body, &["a", "b\nc", "d\r", "e"]);
    assert_eq!(text, "a\ne\n", "the others are written");
    assert_eq!(rejects.len(), 2);
    assert!(
        rejects[0].starts_with("event ‹e1› (seq 1): «body has a line break"),
        "{rejects:?}"
    );
}

#[test]
fn a_reject_list_has_envelopes_with_a_reason() {
    let part = part(2, &["{\"a\":1}\n", "b"]);
    let rejects = Format::Body.write(&part, &mut io::sink()).unwrap();
    let mut list = Vec::new();
    write_rejects(&part, &rejects, &mut list).unwrap();
    assert_eq!(
        String::from_utf8(list).unwrap(),
        format!("{ENVELOPE},\"reason\":\"{}\"}}\n", RejectReason::LineBreak)
    );
}

#[test]
fn columns_take_fields_of_the_envelope_and_results_of_expressions() {
    let format = csv(
        r#"[{"name":"event","field":"eventId"},{"name":"n, m","json":"n"},{"name":"list","json":"[n, s]"},
                {"name":"s","json":"s"},{"name":"t","json":"t"},{"name":"key","field":"batchKey"}]"#,
        true,
    );
    let (text, rejects) = written(
        &format,
        &[
            r#"{"n":1.5,"s":"a \"b\"","t":true}"#,
            "[]",
            "no JSON",
            r#"{"n":123456789012345678901234567890}"#,
        ],
    );
    assert_eq!(
        text,
        concat!(
            "event,\"n, m\",list,s,t,key\n",
            "e0,1.5,\"[1.5,\"\"a \\\"\"b\\\"\"\"\"]\",\"a \"\"b\"\"\",true,\n",
            "e1,,\"[null,null]\",,,\n",
        )
    );
    assert!(
        rejects[0].starts_with("event ‹e2› (seq 2): «body is not JSON: "),
        "{rejects:?}"
    );
    assert!(
        rejects[1].contains("column `n, m`: the number does not fit 64 bits"),
        "{rejects:?}"
    );
}

#[test]
fn csv_without_header_and_records_is_empty() {
    let columns = r#"[{"name":"a","json":"a"}]"#;
    assert_eq!(written(&csv(columns, false), &["no JSON"]).0, "");
    assert_eq!(written(&csv(columns, true), &["no JSON"]).0, "a\n");
    assert_eq!(
        written(&csv(columns, false), &["{}"]).0,
        "\"\"\n",
        "no blank line"
    );
}

#[test]
fn an_expression_that_fails_on_a_body_rejects_that_record() {
    let format = csv(r#"[{"name":"a","json":"abs(a)"}]"#, false);
    let (text, rejects) = written(&format, &[r#"{"a":-1}"#, r#"{"a":"x"}"#]);
    assert_eq!(text, "1\n");
    assert!(
        rejects[0].contains("(seq 1): «column `a`: `abs(a)` cannot be evaluated: "),
        "{rejects:?}"
    );
}

#[test]
fn a_fixed_width_column_is_padded_and_rejects_longer_values() {
    let format = fixed_width(
        r#"[{"name":"id","json":"id","width":4},{"name":"sum","json":"sum","width":6,"align":"right","pad":"0"},
                {"name":"seq","field":"seq","width":2,"align":"right"}]"#,
    );
    let (text, rejects) = written(
        &format,
        &[
            r#"{"id":"äö","sum":12}"#,
            r#"{"id":"abcd","sum":123456}"#,
            r#"{"id":"abcde","sum":1}"#,
            r#"{"id":"a\nb"}"#,
            "{}",
        ],
    );
    assert_eq!(text, "äö  000012 0\nabcd123456 1\n    000000 4\n");
    assert_eq!(
        rejects,
        [
            "event ‹e2› (seq 2): «column `id`: the value has `5` characters, the column a width of `4`»",
            "event ‹e3› (seq 3): «column `id`: the value has a line break (`3` characters, the column a width of `4`)»",
        ]
    );
}

fn written_as(layout: &Layout, format: &Format, bodies: &[&str]) -> (String, Vec<String>) {
    let mut bytes = Vec::new();
    let rejects = format.write_as(layout, &part(2, bodies), &mut bytes);
    let rejects = rejects.unwrap().iter().map(ToString::to_string).collect();
    (bytes.escape_ascii().to_string(), rejects)
}

#[test]
fn a_layout_says_how_characters_and_line_ends_are_written() {
    let layout = |encoding, line_end| Layout {
        encoding,
        line_end,
        ..Layout::default()
    };
    let latin = layout(Encoding::Iso8859_1, LineEnd::Crlf);
    let written = |layout, format: &Format| written_as(layout, format, &["\"é\"", "1"]).0;
    assert_eq!(written(&latin, &Format::Body), r#"\"\xe9\"\r\n1\r\n"#);
    let columns = r#"[{"name":"ü","json":"@","width":2}]"#;
    assert_eq!(
        written(&latin, &csv(columns, true)),
        r"\xfc\r\n\xe9\r\n1\r\n"
    );
    let ebcdic = layout(Encoding::EbcdicCp037, LineEnd::None);
    assert_eq!(written(&ebcdic, &fixed_width(columns)), r"Q@\xf1@");
    let nel = layout(Encoding::EbcdicCp037, LineEnd::Nel);
    assert_eq!(written(&nel, &fixed_width(columns)), r"Q@\x15\xf1@\x15");
}

fn template(text: &str) -> Option<Template> {
    let columns = ["id", "amount"];
    Some(Template::parse(text, TemplateUse::Record, &columns).unwrap())
}

#[test]
fn a_header_and_a_trailer_have_the_totals_of_the_records_between_them() {
    let layout = Layout {
        header: template("H{date:%d.%m.%Y} {count}"),
        trailer: template("T{count:03}{sum:amount:>8}"),
        ..Layout::default()
    };
    let columns = r#"[{"name":"id","json":"id"},{"name":"amount","json":"amount"}]"#;
    let bodies = [
        r#"{"id":1,"amount":"1.50"}"#,
        r#"{"id":2,"amount":"two"}"#,
        r#"{"id":3,"amount":2}"#,
        "no JSON",
    ];
    let (text, rejects) = written_as(&layout, &csv(columns, true), &bodies);
    assert_eq!(
        text,
        r"H25.11.2026 2\nid,amount\n1,1.50\n3,2\nT002    3.50\n"
    );
    assert_has(&rejects[0], &["column `amount`: not a number: got `two`"]);
    assert_eq!(rejects.len(), 2);
    let (text, _) = written_as(&layout, &csv(columns, false), &["no JSON"]);
    assert_eq!(text, r"H25.11.2026 0\nT000       0\n");
}

#[test]
fn a_trailer_that_does_not_fit_is_an_error_that_stays() {
    let layout = Layout {
        trailer: template("T{count:01}"),
        ..Layout::default()
    };
    let part = part(2, &["a"; 10]);
    let error = Format::Body
        .write_as(&layout, &part, &mut io::sink())
        .unwrap_err();
    assert!(LayoutFailed::is_cause_of(&error));
    assert_eq!(
        error.to_string(),
        format!(
            "part {}: trailer record: placeholder `{{count:01}}`: too long: got «10», expected at most 1 characters",
            part.key()
        )
    );
}

#[test]
fn a_record_that_cannot_be_encoded_is_rejected_with_its_column_and_character() {
    let latin = Layout {
        encoding: Encoding::Iso8859_1,
        ..Layout::default()
    };
    let bodies = [r#"{"n":"5 €"}"#, r#"{"n":"5"}"#];
    let columns = r#"[{"name":"n","json":"n","width":3}]"#;
    for format in [csv(columns, false), fixed_width(columns)] {
        let (text, rejects) = written_as(&latin, &format, &bodies);
        assert!(text.starts_with('5'), "{text}");
        assert_eq!(
            rejects,
            [
                "event ‹e0› (seq 0): «column `n`: `iso-8859-1` has no character U+20AC, the character `3` of the text»"
            ]
        );
    }
    let (_, rejects) = written_as(&latin, &Format::Body, &bodies);
    assert!(
        rejects[0].contains("body: `iso-8859-1` has no character U+20AC, the character `9`"),
        "{rejects:?}"
    );
}

const RECORD: &str = r#"[{"name":"id","json":"id","width":4},
    {"name":"amount","json":"amount","type":"packed-decimal(5,2)"},
    {"name":"count","json":"count","type":"binary(4)","sign":"unsigned"},
    {"name":"balance","json":"balance","type":"zoned-decimal(3)"},
    {"name":"due","json":"due","type":"date","format":"%d%m%y","width":6}]"#;
const BOOKED: &str = r#"{"id":"A1","amount":-1.5,"count":258,"balance":"-12","due":"2026-11-30"}"#;

fn in_ebcdic(line_end: LineEnd) -> Layout {
    Layout {
        encoding: Encoding::EbcdicCp037,
        line_end,
        ..Layout::default()
    }
}

fn bytes(layout: &Layout, bodies: &[&str]) -> (String, Vec<String>) {
    let mut bytes = Vec::new();
    let rejects = fixed_width(RECORD).write_as(layout, &part(2, bodies), &mut bytes);
    let rejects = rejects.unwrap().iter().map(ToString::to_string).collect();
    (hex::encode(bytes), rejects)
}

#[test]
fn numbers_of_mainframes_stand_between_texts_in_ebcdic() {
    let record = "c1f1404000150d0102f0f1d2f3f0f1f1f2f6";
    let bodies = [BOOKED, BOOKED];
    assert_eq!(
        bytes(&in_ebcdic(LineEnd::None), &bodies).0,
        record.repeat(2)
    );
    let (described, rejects) = bytes(&in_ebcdic(LineEnd::Rdw), &bodies);
    assert_eq!(described, format!("00160000{record}").repeat(2));
    assert!(rejects.is_empty());
}

#[test]
fn a_value_that_is_not_of_the_type_of_its_column_is_rejected_by_name() {
    let with = |member: &str, value: &str| {
        let mut body: serde_json::Value = serde_json::from_str(BOOKED).unwrap();
        body[member] = serde_json::from_str(value).unwrap();
        body.to_string()
    };
    for (member, value, expected) in [
        (
            "amount",
            "1000",
            "column `amount`: `packed-decimal(5,2)`: got `1000`, expected a number with at most 3 digits before the point and 2 after it",
        ),
        (
            "count",
            "-1",
            "column `count`: `binary(4,0)`: got `-1`, expected a number without a minus with at most 4 digits",
        ),
        (
            "balance",
            "null",
            "column `balance`: `zoned-decimal(3,0)`: no value, expected a number",
        ),
        (
            "due",
            "\"30.11.2026\"",
            "column `due`: `date`: got `30.11.2026`, expected a day such as `2026-11-30`",
        ),
    ] {
        let (written, rejects) = bytes(&in_ebcdic(LineEnd::None), &[&with(member, value)]);
        assert_eq!(written, "");
        assert_has(&rejects.join("\n"), &[expected]);
    }
    let long = BOOKED.replace("-1.5", "1.000000000000000001");
    let (_, rejects) = bytes(&in_ebcdic(LineEnd::None), &[&long]);
    assert_has(
        &rejects.join("\n"),
        &["column `amount`: the body has a number of more than 15 digits"],
    );
}

#[test]
fn zeros_that_pad_are_no_value() {
    let columns = r#"[{"name":"n","json":"n","type":"int","width":3,"align":"right","pad":"0"}]"#;
    let (text, rejects) = written(&fixed_width(columns), &["{}", r#"{"n":0}"#, r#"{"n":-7}"#]);
    assert_eq!(text, "000\n-07\n");
    assert_has(&rejects.join("\n"), &["column `n`: `int`: no value"]);
    let spaces = columns.replace(r#""pad":"0""#, r#""pad":" ""#);
    assert_eq!(written(&fixed_width(&spaces), &["{}"]).0, "   \n");
}

#[test]
fn totals_are_of_values_however_they_are_written() {
    let columns = r#"[{"name":"amount","json":"amount","type":"decimal(9,2)","format":"implied"}]"#;
    let names = ["amount"];
    let trailer = Template::parse("T{sum:amount:.2}", TemplateUse::Record, &names).unwrap();
    let layout = Layout {
        trailer: Some(trailer),
        ..Layout::default()
    };
    let mut bytes = Vec::new();
    let part = part(2, &[r#"{"amount":12.5}"#, r#"{"amount":"-0.05"}"#]);
    let rejects = csv(columns, false).write_as(&layout, &part, &mut bytes);
    assert!(rejects.unwrap().is_empty());
    assert_eq!(String::from_utf8(bytes).unwrap(), "1250\n-05\nT12.45\n");
}

#[test]
fn a_record_whose_length_cannot_be_said_is_rejected_and_not_counted() {
    let layout = Layout {
        line_end: LineEnd::Rdw,
        trailer: Some(Template::parse("{count}", TemplateUse::Record, &[]).unwrap()),
        ..Layout::default()
    };
    let long = "x".repeat(32_757);
    let mut bytes = Vec::new();
    let part = part(2, &[&long, "a", &long[1..]]);
    let rejects = Format::Body.write_as(&layout, &part, &mut bytes).unwrap();
    assert_eq!(rejects.len(), 1);
    assert!(
        rejects[0].to_string().contains("`32757` bytes"),
        "{rejects:?}"
    );
    assert!(
        bytes.starts_with(b"\0\x05\0\0a\x7f\xf8\0\0x"),
        "{:?}",
        &bytes[..12]
    );
    assert!(bytes.ends_with(b"x\0\x05\0\x002"));
}
