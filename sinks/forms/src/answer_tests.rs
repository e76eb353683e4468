use super::*;

const PART: &str = "0190163d-8694-739b-aea5-966c26f8ad91/2";

fn part() -> PartName {
    PartName::Part(PART.to_owned().try_into().unwrap())
}

fn read(form: &str, bytes: &[u8]) -> Answer {
    let form: AnswerForm = form.parse().unwrap();
    form.read("in/orders-7.ack", bytes).unwrap()
}

/// Returns the lines about the part: what they are about, whether it was accepted, and the reason.
fn lines(answer: &Answer) -> Vec<(Named, bool, Option<&str>)> {
    let lines = answer.parts[&part()].iter();
    let line = lines.map(|line| (line.named.clone(), line.accepted, line.reason.as_deref()));
    line.collect()
}

#[test]
fn a_csv_answer_names_events_by_record_or_id_and_the_rest() {
    let text = format!(
        "part,record,event,result,reason,records\n\
         {PART},17,,rejected,\"unknown, account\",\n\
         {PART},,e-4,rejected,,\n\
         \n\
         {PART},,,accepted,,120\n"
    );
    let answer = read("{}", text.as_bytes());
    assert!(answer.unread.is_empty(), "{:?}", answer.unread);
    let expected = [
        (Named::Record(17), false, Some("unknown, account")),
        (Named::Event("e-4".parse().unwrap()), false, None),
        (Named::Rest, true, None),
    ];
    assert_eq!(lines(&answer), expected);
    assert_eq!(answer.parts[&part()][2].records, Some(120));
}

#[test]
fn fields_have_names_positions_or_expressions_of_their_own() {
    let expected = [(Named::Record(3), false, Some("E7"))];
    let csv = r#"{"delimiter":";","fields":{"part":"P","record":"N","result":"S","reason":"T"},"accepted":["00"],"rejected":["12"]}"#;
    let text = format!("N;S;T;P\r\n3;12;E7;{PART}\r\n");
    assert_eq!(lines(&read(csv, text.as_bytes())), expected);
    let fixed = r#"{"format":"fixed-width","fields":{"part":"1-38","record":"39-43","result":"44-45","reason":"46-60"},"rejected":["NO"]}"#;
    let text = format!("{PART}00003NOE7             \n");
    assert_eq!(lines(&read(fixed, text.as_bytes())), expected);
    let json = r#"{"format":"json-lines","fields":{"part":"of.part","record":"n","result":"ok","reason":"errors[0]"},"rejected":["no"]}"#;
    let text =
        format!("{{\"of\":{{\"part\":\"{PART}\"}},\"n\":3,\"ok\":\"no\",\"errors\":[\"E7\"]}}\n");
    assert_eq!(lines(&read(json, text.as_bytes())), expected);
}

#[test]
fn an_answer_without_a_part_is_about_the_file_whose_name_it_has() {
    let answer = read("{}", b"record,result\n1,rejected\n");
    let names = Vec::from_iter(answer.parts.keys());
    assert_eq!(names, [&PartName::OfAnswer("in/orders-7.ack".to_owned())]);
    let named = read("{}", b"\xef\xbb\xbffile,result\nout/a.txt,accepted\n");
    let names = Vec::from_iter(named.parts.keys());
    assert_eq!(names, [&PartName::File("out/a.txt".to_owned())]);
}

#[test]
fn a_line_that_cannot_be_read_is_reported_and_the_others_are_read() {
    let text = format!(
        "part,record,result,records\n\
         {PART},1,rejected,\n\
         {PART},2,maybe,\n\
         {PART},0,rejected,\n\
         {PART},x\n\
         no-part,1,accepted,\n\
         {PART},3,accepted,many\n\
         {PART},4,accepted,\n"
    );
    let answer = read("{}", text.as_bytes());
    assert_eq!(answer.parts[&part()].len(), 2);
    let expected = [
        "line 3: `result`: got `maybe`, expected one of `accepted`, `rejected`",
        "line 4: `record`: got `0`, expected a number from 1 on",
        "line 5: CSV error",
        "line 6: part: got `no-part`",
        "line 7: `records`: got `many`",
    ];
    for (words, unread) in expected.iter().zip(&answer.unread) {
        assert!(unread.starts_with(words), "{words} in {unread}");
    }
    assert_eq!(answer.unread.len(), expected.len());
}

#[test]
fn an_answer_in_ebcdic_is_decoded_and_one_with_other_bytes_is_refused() {
    let form: AnswerForm = r#"{"encoding":"ebcdic-cp037","accepted":["OK"]}"#.parse().unwrap();
    let text = format!("part,result\u{85}{PART},OK\u{85}");
    // The line end of EBCDIC has no byte for the writer.
    let mut bytes = Vec::new();
    for piece in text.split_inclusive('\u{85}') {
        let line = piece.trim_end_matches('\u{85}');
        bytes.extend_from_slice(&Encoding::EbcdicCp037.encoded(line));
        bytes.push(0x15);
    }
    let answer = form.read("a", &bytes).unwrap();
    assert_eq!(lines(&answer), [(Named::Rest, true, None)]);
    let refused = AnswerForm::default().read("a", b"ab\xff").unwrap_err();
    assert_eq!(refused, "byte 2 is no character of `utf-8`");
    let refused = AnswerForm::default()
        .read("a", b"part,state\n")
        .unwrap_err();
    assert_eq!(
        refused,
        "first line: no column `result`: got `part`, `state`"
    );
}

#[test]
fn a_wrong_form_is_refused_with_what_is_allowed() {
    for (form, words) in [
        ("7", "no form of answers"),
        (r#"{"form":"csv"}"#, "unknown field `form`"),
        (
            r#"{"format":"xml"}"#,
            "got `xml`, expected `csv`, `fixed-width` or `json-lines`",
        ),
        (r#"{"format":"fixed-width"}"#, "`fields`: missing"),
        (
            r#"{"format":"fixed-width","fields":{"result":"9-3"}}"#,
            "`result`: got `9-3`",
        ),
        (
            r#"{"format":"json-lines","fields":{"result":"a["}}"#,
            "`result`: not a JMESPath",
        ),
        (
            r#"{"format":"json-lines","delimiter":";"}"#,
            "only `csv` has one",
        ),
        (r#"{"fields":{"part":"P"}}"#, "`result` is missing"),
        (r#"{"fields":{"code":"P"}}"#, "unknown variant `code`"),
        (
            r#"{"encoding":"utf-16"}"#,
            "got `utf-16`, expected one of `utf-8`",
        ),
        (
            r#"{"unlisted":"rejected"}"#,
            "expected `awaited` or `accepted`",
        ),
        (
            r#"{"accepted":["X"],"rejected":["X"]}"#,
            "`X` is among `accepted` and `rejected`",
        ),
    ] {
        let error = form.parse::<AnswerForm>().unwrap_err();
        assert!(error.contains(words), "{words} in {error}");
    }
}
