use shared::message_attributes::MessageAttribute;
use shared::quarantine_attributes::MORE;

use super::*;

fn wanted(expression: &str, body: &str) -> bool {
    let more = r#"{"tenant":{"dataType":"String","stringValue":"t"},"reason":{"dataType":"String","stringValue":"r"}}"#;
    let attributes = [(REASON, "sink says no"), (MORE, more)];
    let attribute = |(name, text): (&str, &str)| (name.to_owned(), MessageAttribute::string(text));
    let message = Received {
        message_id: "m".to_owned(),
        receipt: String::new(),
        body: body.to_owned(),
        attributes: attributes.map(attribute).into(),
        first_received_at: None,
        sent_at: Some(5),
    };
    let expression: Expression = expression.parse().unwrap();
    expression.find(&document(&message)).unwrap().is_truthy()
}

#[test]
fn an_expression_sees_body_attributes_and_reason() {
    assert!(wanted("body.kind == 'a'", r#"{"kind":"a"}"#));
    assert!(!wanted("body.kind == 'b'", r#"{"kind":"a"}"#));
    assert!(wanted("contains(reason, 'says no')", "no json"));
    assert!(wanted("body == 'no json'", "no json"));
    assert!(wanted("attributes.reason && sentAt < `6`", "{}"));
    assert!(wanted("attributes.tenant == 't'", "{}"));
    assert!(wanted("attributes.reason == 'sink says no'", "{}"));
}

#[test]
fn outcomes_are_counted_and_failures_always_listed() {
    let mut report = Report::default();
    let line = |outcome: &str| Line {
        message_id: "m".to_owned(),
        event_id: None,
        reason: None,
        outcome: outcome.to_owned(),
        body: None,
    };
    for _ in 0..LINES_MAX + 5 {
        report.add(line("redriven"));
    }
    report.add(line("failed: no reply"));
    assert_eq!(report.counts["redriven"], LINES_MAX + 5);
    assert_eq!((report.failed, report.messages.len()), (1, LINES_MAX + 1));
    assert!(report.has_work());
}
