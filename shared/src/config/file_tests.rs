//! Values of the file, and the places of its problems. Both functions read these settings.

use super::*;
use crate::config::{Common, Reader, Settings};

/// Reads a file with tables and queues, and some variables.
fn read(text: &str, variables: &[(&str, &str)]) -> Result<Common, ConfigError> {
    let file = ConfigFile::parse("service.toml", text.to_owned())?;
    let lookup = |name: &str| {
        let set = variables.iter().find(|(key, _)| *key == name);
        let set = set.map(|(_, value)| (*value).to_owned());
        set.or_else(|| crate::config::placeholder(name))
    };
    let mut reader = Reader::of(Settings::new(&lookup, Some(&file)));
    let common = Common::read(&mut reader);
    reader.finish(common)
}

fn problems(text: &str) -> Vec<String> {
    read(text, &[]).unwrap_err().problems
}

#[test]
fn durations_numbers_words_and_switches_are_read_from_their_sections() {
    let text = "\
        events = { dedup_window = '1h30m' }\n\
        limits.deadline_margin = \"2s\"\n\
        [logs]\n\
        event_ids = true\n\
        level = 'debug'\n";
    let common = read(text, &[]).unwrap();
    assert_eq!(common.dedup_window.as_secs(), 5_400);
    assert_eq!(common.deadline_margin.as_secs(), 2);
    assert!(common.logs.event_ids);
    assert_eq!(common.logs.level, tracing::Level::DEBUG);
    let common = read("[events]\ndedup_window = 0x10\n", &[]).unwrap();
    assert_eq!(common.dedup_window.as_secs(), 16);
}

#[test]
fn a_variable_that_is_set_overrides_the_file_even_where_the_file_is_wrong() {
    let text = "[events]\ndedup_window = 'soon'\n[limits]\nwrite_concurrency = 5\n";
    let common = read(text, &[("DEDUP_WINDOW", "60")]).unwrap();
    assert_eq!(common.dedup_window.as_secs(), 60);
    assert_eq!(common.write_concurrency, 5);
    let error = read("", &[("DEDUP_WINDOW", "soon")]).unwrap_err();
    let words = "`DEDUP_WINDOW`: wrong value: got `soon`, expected a whole number of seconds from 0 to 1123200";
    assert_eq!(error.problems, [words]);
}

#[test]
fn every_problem_of_values_and_keys_has_its_line_and_column_and_all_are_reported_at_once() {
    let text = "\
        [events]\n\
        dedup_window = \"14d\"\n\
        dedup_windw = 5\n\
        [limits]\n\
        write_mode = \"both\"\n\
        write_concurrency = \"64\"\n\
        deadline_margin = 1.5\n\
        max_batch_size = 3\n\
        hours = \"Mon\"\n\
        [logs]\n  \
        event_ids = \"on\"\n\
        level = [\"info\"]\n\
        format = { a = 1 }\n\
        [delivrey]\n\
        hours = \"Mon\"\n\
        [sink.layuot]\n";
    assert_eq!(
        problems(text),
        [
            "service.toml:2:16: `events.dedup_window`: wrong value: got `\"14d\"`, expected a duration from `\"0s\"` to `\"13d\"`, or a whole number of seconds",
            "service.toml:3:1: `events.dedup_windw`: unknown key: expected `events.dedup_window`",
            "service.toml:5:14: `limits.write_mode`: wrong value: got `\"both\"`, expected `auto`, `batch` or `put`",
            "service.toml:6:21: `limits.write_concurrency`: wrong value: got `\"64\"`, expected a whole number of requests from 1 to 900",
            "service.toml:7:19: `limits.deadline_margin`: wrong value: got a number with a fraction, expected a duration from `\"100ms\"` to `\"1m\"`, or a whole number of milliseconds",
            "service.toml:8:1: `limits.max_batch_size`: unknown key: expected `batches.max_size`",
            "service.toml:9:1: `limits.hours`: unknown key: expected `delivery.hours`",
            "service.toml:11:15: `logs.event_ids`: wrong value: got `\"on\"`, expected `true` or `false`",
            "service.toml:12:9: `logs.level`: wrong value: got an array, expected `error`, `warn`, `info`, `debug` or `trace`",
            "service.toml:13:10: `logs.format`: wrong value: got a table, expected `json` or `text`",
            "service.toml:14:2: `delivrey`: unknown section: expected `delivery`",
            "service.toml:16:7: `sink.layuot`: unknown section: expected `sink.layout`",
        ]
    );
}

#[test]
fn a_key_that_was_removed_is_a_problem_that_says_what_happens_now() {
    let found = problems("[quota]\nbeyond = \"quarantine\"\n");
    let words = "service.toml:2:1: `quota.beyond`: removed key: delete it: an event beyond its quota always goes to the quarantine";
    assert!(found.concat().starts_with(words), "{found:?}");
}

#[test]
fn a_value_where_a_section_belongs_is_a_problem() {
    assert_eq!(
        problems("sink = \"s3://bucket/prefix\"\n"),
        ["service.toml:1:1: `sink`: wrong type: expected a section `[sink]` with keys"]
    );
}

#[test]
fn syntax_errors_and_repeated_keys_have_their_line_and_column() {
    for (text, place) in [
        ("[events]\nid = \"a\"\nid = \"b\"\n", "3:1"),
        ("[events]\nid = \n", "2:6"),
        ("[events\n", "1:8"),
        ("[sink]\n[sink]\n", "2:2"),
        ("[events]\nid = \"é\" x\n", "2:10"),
    ] {
        let problems = problems(text);
        let begins = format!("service.toml:{place}: ");
        let found = problems.iter().any(|problem| problem.starts_with(&begins));
        assert!(found, "{begins} in {problems:?}");
    }
    let two = problems("[events]\nid = \nid_prefix = =\n");
    assert!(two.len() >= 2, "{two:?}");
}

#[test]
fn a_password_in_the_file_is_not_shown() {
    let text = "[limits]\nwrite_mode = \"sftp://user:word@host/in\"\n";
    let problem = problems(text).concat();
    assert!(problem.contains("…@host/in"), "{problem}");
    assert!(!problem.contains("word@"), "{problem}");
}

#[test]
fn a_function_can_leave_settings_of_the_file_unread() {
    let text = "[sink]\nuri = \"log:\"\ntable = \"events\"\n";
    let file = ConfigFile::parse("service.toml", text.to_owned()).unwrap();
    let file = file.without(&["SINK_TABLE"]);
    assert!(file.value(Some("sink.uri")).is_some());
    assert!(file.value(Some("sink.table")).is_none());
}
