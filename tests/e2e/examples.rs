//! The example sinks of the `batch-processor` library, as executables of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use protocol::batch::Status;
use serde_json::json;
use tests::files_below;

use crate::events::body;
use crate::executables::bootstrap;
use crate::output::sorted;
use crate::rig::Setup;

#[tokio::test]
async fn the_nightly_file_has_a_record_of_one_length_for_each_event_between_header_and_trailer() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut setup = Setup::new()
        .var("NIGHTLY_DIRECTORY", directory.path().display())
        .batches_of(3)
        .one_aggregator_environment();
    setup.options.batch_processor = bootstrap("examples/nightly_file");
    let rig = setup.start().await;
    let long = "x".repeat(31);
    for (id, name) in [("e1", "Zo\u{eb}"), ("e2", "Kaylee"), ("e3", &*long)] {
        let record =
            json!({ "id": id, "customer": 42, "name": name, "cents": 1999, "currency": "EUR" });
        rig.send(record.to_string());
    }
    rig.until_drained().await;
    let files = files_below(directory.path(), "");
    let [data, rejected] = &files[..] else {
        panic!("{files:?}");
    };
    let text = fs::read_to_string(data).expect("the file can be read");
    let lines: Vec<&str> = text.lines().collect();
    let [header, records @ .., trailer] = &lines[..] else {
        panic!("{text}");
    };
    let day = data.parent().and_then(Path::file_name);
    let day = day.expect("a day is a directory").to_string_lossy();
    assert!(header.starts_with(&format!("H{day} ")), "{text}");
    assert_eq!(*trailer, "T0000000002");
    let expected = [
        "D0000000042Kaylee                        0000001999EUR",
        "D0000000042Zo\u{eb}                           0000001999EUR",
    ];
    assert_eq!(sorted(records.iter().copied()), expected);
    let rejected = fs::read_to_string(rejected).expect("the list can be read");
    assert!(rejected.contains("`31` characters"), "{rejected}");
    rig.end().await;
}

#[tokio::test]
async fn a_program_that_wants_a_part_again_gets_the_same_part() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let program = directory.path().join("import");
    let script = "#!/bin/sh\ncat >>\"$(dirname \"$0\")/$(echo \"$1\" | tr / -)\"\n\
                  test -e \"$0.again\" || { touch \"$0.again\"; exit 75; }\n";
    fs::write(&program, script).expect("it can be written");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, executable).expect("the test owns the file");
    let setup = Setup::new().var("IMPORT_PROGRAM", program.display());
    let setup = setup.batches_of(2).one_aggregator_environment();
    let mut setup = setup.redeliver(local::stack::BATCH_QUEUE, 100);
    setup.options.batch_processor = bootstrap("examples/program");
    let rig = setup.start().await;
    let bodies = [body("e1"), body("e2")];
    bodies.iter().for_each(|body| rig.send(body.as_str()));
    rig.until_drained().await;
    assert_eq!(rig.statuses().await[&Status::Error], 0);
    let mut parts = files_below(directory.path(), "");
    parts.retain(|path| path.extension().is_none() && *path != program);
    let [part] = &parts[..] else {
        panic!("{parts:?}");
    };
    let text = fs::read_to_string(part).expect("the part was written");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "given twice: {text}");
    assert_eq!(lines[..2], lines[2..], "given as before");
    assert_eq!(sorted(lines[..2].iter().copied()), sorted(bodies));
    rig.end_with_set_aside(0, 0).await;
}
