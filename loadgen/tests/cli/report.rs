//! Tests of `loadgen report`: the file that it writes, and its errors.

use std::fs;

use planner::{Record, RecordKind};

use super::{json, loadgen, stderr};

fn record(title: &str) -> Record {
    Record::bare(RecordKind::Burst, title)
}

#[test]
fn a_report_is_written_beside_its_record_or_where_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for name in ["one", "two"] {
        fs::write(path(&format!("{name}.json")), record(name).to_json()).unwrap();
    }
    let [one, two, asked] = ["one.json", "two.json", "asked.html"].map(path);
    for (arguments, file, title) in [
        (vec![one.as_str()], path("one.html"), "one"),
        (
            vec![&one, &two],
            path("one-against-two.html"),
            "one against two",
        ),
        (vec![&two, "--out", &asked], asked.clone(), "two"),
    ] {
        let output = loadgen(&[&["report"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(json(&output)["report"], *file);
        let html = fs::read_to_string(&file).unwrap();
        assert!(html.contains(&format!("<h1>{title}</h1>")), "{file}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_and_ends_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("one.json");
    fs::write(&file, record("one").to_json()).unwrap();
    let below = file.join("out.html");
    let [file, below] = [&file, &below].map(|path| path.to_str().unwrap());
    let output = loadgen(&["report", file, "--out", below]);
    assert_eq!(output.status.code(), Some(2));
    let words = format!("`--out`: cannot be written: got `{below}`: ");
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    let output = loadgen(&["plan", "--record", below]);
    assert_eq!(output.status.code(), Some(2));
    let words = format!("`--record`: cannot be written: got `{below}`: ");
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
}

#[test]
fn a_file_that_is_no_record_and_one_of_another_version_are_named_and_end_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let [none, other, newer] = ["none.json", "other.json", "newer.json"].map(path);
    fs::write(&other, "{}").unwrap();
    let text = record("new")
        .to_json()
        .replace("\"version\":2", "\"version\":9");
    fs::write(&newer, text).unwrap();
    for (file, problem) in [
        (&none, "No such file"),
        (
            &other,
            "the record: not a record of a run: missing field `version`",
        ),
        (
            &newer,
            "the record: wrong version: got `9`, expected 1 to 2",
        ),
    ] {
        let output = loadgen(&["report", file]);
        assert_eq!(output.status.code(), Some(2));
        let error = stderr(&output);
        assert!(
            error.contains(problem) && error.contains(file.as_str()),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
}
