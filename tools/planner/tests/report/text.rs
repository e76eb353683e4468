//! What the text of a report says, without a browser.

use planner::report::{compare, report};
use planner::{Record, RecordKind, Sample, Setting};

use crate::records::{self, FEW, SLOW};

/// Returns the section of a page with this id.
fn section<'h>(html: &'h str, id: &str) -> &'h str {
    let start = html
        .find(&format!("<section id=\"{id}\""))
        .expect("the section");
    let length = html[start..].find("</section>").expect("its end");
    &html[start..start + length]
}

/// Returns the data of a page, as its script reads them.
fn data(html: &str) -> serde_json::Value {
    let (_, data) = html.split_once("id=\"data\">").expect("the data");
    let (data, _) = data.split_once("</script>").expect("their end");
    serde_json::from_str(data).expect("the data are JSON")
}

#[test]
fn texts_of_a_record_stay_texts() {
    let hostile = "</script><script>alert(1)</script>\"'<!--";
    let mut record = records::full(hostile, FEW);
    record.notes.push(hostile.into());
    record.batches[0].batch_id = hostile.into();
    record.batches[0].batch_key = Some(hostile.into());
    record.latencies[0].name = hostile.into();
    record.throttles[0].resource = hostile.into();
    record.costs[0].purpose = hostile.into();
    record.settings.push(Setting {
        name: hostile.into(),
        value: hostile.into(),
    });
    let html = report(&record);
    assert!(!html.contains("alert(1)</script>"), "it would run");
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(data(&html)["shared"]["batches"][0]["batch_id"][0], hostile);
}

#[test]
fn what_was_not_observed_is_left_out_with_a_sentence() {
    let html = report(&records::bare());
    assert!(!html.contains("<figure>"));
    for (id, sentence) in [
        (
            "totals",
            "Not observed: sent, taken off the queue, claimed, delivered.",
        ),
        ("age", "Not observed: oldest message."),
        ("batches", "The record has no batches."),
        ("latencies", "The record has no latencies."),
        ("throttles", "The record has no throttled requests."),
        ("costs", "The record has no costs."),
    ] {
        let section = section(&html, id);
        assert!(section.contains(sentence), "{section}");
    }
    assert!(html.contains("<strong>NOT AUDITED</strong> whether"));
    assert!(!section(&html, "figures").contains("Lost"));
}

#[test]
fn a_line_without_values_is_left_out_of_its_chart_and_named() {
    let sample = |(at_secs, sent)| Sample {
        at_secs,
        sent: Some(sent),
        ..Sample::default()
    };
    let mut record = records::bare();
    record.samples = [(0.0, 0), (1.0, 9)].map(sample).into();
    let html = report(&record);
    let totals = &data(&html)["charts"][0];
    assert_eq!(totals["runs"][0]["lines"][0]["label"], "sent");
    assert_eq!(totals["runs"][0]["lines"].as_array().map(Vec::len), Some(1));
    let sentence = "Not observed: taken off the queue, claimed, delivered.";
    assert!(section(&html, "totals").contains(sentence));
}

#[test]
fn batches_of_which_something_is_not_known_are_counted() {
    let mut record = records::full("a run", FEW);
    record.batches[0].leased_secs = None;
    record.batches[1].flushed = None;
    record.batches[2].flushed = None;
    let html = report(&record);
    let section = section(&html, "batches");
    for sentence in [
        "Not known of 1 of 6 batches: when it was leased.",
        "Not known of 2 of 6 batches: why it was closed.",
    ] {
        assert!(section.contains(sentence), "{section}");
    }
}

#[test]
fn all_charts_come_before_the_tables_of_figures_costs_and_settings() {
    let html = report(&records::full("a run", FEW));
    let last_chart = html.rfind("<figure>").expect("there are charts");
    for id in ["figures", "throttles", "costs", "settings"] {
        let table = html.find(&format!("<section id=\"{id}\""));
        assert!(table > Some(last_chart), "{id}");
    }
}

#[test]
fn minutes_are_written_as_in_the_terminal() {
    let mut record = records::full("a run", FEW);
    record.outcome.drained_after_secs = Some(756.4);
    record.latencies[0].max_secs = 125.0;
    let html = report(&record);
    assert!(section(&html, "figures").contains(">12 min 36 s<"));
    assert!(html.contains("the last batch complete after 12 min 36 s."));
    assert!(section(&html, "latencies").contains(">2 min 05 s<"));
}

#[test]
fn the_verdict_has_every_reason_of_the_record() {
    let mut record = records::full("a run", FEW);
    record.outcome.ok = Some(false);
    let foreign = "1840 foreign (delivered, but not of this burst)";
    record.outcome.reasons = vec![foreign.into(), "2 batches in error".into()];
    let html = report(&record);
    let verdict = "<strong>FAILED</strong> 1840 foreign (delivered, but not of this burst); 2 batches in error</p>";
    assert!(html.contains(verdict), "{html}");
}

#[test]
fn the_verdict_says_what_is_wrong() {
    let mut record = records::full("a run", FEW);
    assert!(
        report(&record).contains(
            "<div class=\"verdict good\"><p><strong>OK</strong> nothing lost, nothing repeated</p>\
             <p>100,000 messages, 95,000 unique events, 95,000 delivered, 0 lost, 0 repeated, 0 set aside; \
             the last batch complete after 28.6 s.</p></div>"
        )
    );
    record.outcome.ok = Some(false);
    record.outcome.lost = Some(1_200);
    record.outcome.set_aside = Some(3);
    let verdict =
        "<div class=\"verdict bad\"><p><strong>FAILED</strong> 1,200 lost, 3 set aside</p>";
    assert!(report(&record).contains(verdict));
    record.outcome.lost = Some(0);
    record.outcome.set_aside = Some(0);
    assert!(report(&record).contains("<strong>FAILED</strong> none of the counts says why</p>"));
    record.kind = RecordKind::Plan;
    assert!(report(&record).contains("A plan, computed by a model: nothing was sent"));
}

#[test]
fn two_runs_have_their_figures_side_by_side_with_differences() {
    let mut a = records::full("one", FEW);
    let mut b = records::full("other", SLOW);
    a.outcome.drained_after_secs = Some(20.0);
    b.outcome.drained_after_secs = Some(25.0);
    b.outcome.send_retries = None;
    let html = compare(&a, &b);
    let figures = section(&html, "figures");
    let after = "Last batch complete after";
    for (name, cells) in [
        (after, ["20.0 s", "25.0 s", "+5.00 s (+25.0 %)"]),
        ("Lost", ["0", "0", "same"]),
        ("Batches", ["6", "9", "+3 (+50.0 %)"]),
        ("Retries of the sender", ["3", "not observed", ""]),
    ] {
        let cells = cells.map(|cell| format!("<td class=\"number\">{cell}</td>"));
        let cells = cells.concat();
        let html = format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>");
        assert!(figures.contains(&html), "{html} in {figures}");
    }
    let totals = &data(&html)["charts"][0]["runs"];
    assert_eq!(totals[0]["label"], "A");
    assert_eq!(totals[1]["label"], "B");
}

#[test]
fn settings_that_differ_are_marked_and_none_is_dropped() {
    let setting = |(name, value): (&str, &str)| Setting {
        name: name.into(),
        value: value.into(),
    };
    let with = |settings: [(&str, &str); 3]| Record {
        settings: settings.map(setting).into(),
        ..records::bare()
    };
    let a = with([("Same", "1"), ("Other", "2"), ("A", "3")]);
    let b = with([("B", "4"), ("Same", "1"), ("Other", "5")]);
    let html = compare(&a, &b);
    let settings = section(&html, "settings");
    for row in [
        ["Same", "1", "1", ""],
        ["Other", "2", "5", "differs"],
        ["A", "3", "–", "differs"],
        ["B", "–", "4", "differs"],
    ] {
        let [name, cells @ ..] = row;
        let cells = cells.map(|cell| format!("<td>{cell}</td>")).concat();
        let html = format!("<th scope=\"row\">{name}</th>{cells}");
        assert!(settings.contains(&html), "{html} in {settings}");
    }
}
