//! Nightly files for a mainframe: EBCDIC, a header, a trailer with totals, and numbers without gaps.

use std::fs;
use std::path::Path;

use protocol::batch::Status;
use serde_json::json;
use tests::files_below;

use crate::rig::{Rig, Setup};

/// Bytes of a record: 13 characters and the line end.
const RECORD_BYTES: usize = 14;

const COLUMNS: &str = r#"[{"name":"id","json":"id","width":3},{"name":"name","json":"name","width":2},
    {"name":"amount","json":"amount","width":8,"align":"right","pad":"0"}]"#;

/// A file, made by hand from the code page 037: its header, its records in the order of their bytes, and its trailer.
type Fixture<'f> = (&'f str, &'f [&'f str], &'f str);

const FILES: [Fixture<'_>; 3] = [
    (
        // H  O  R  D  E  R  S  0  0  0  1  two spaces, next line
        "C8 D6 D9 C4 C5 D9 E2 F0 F0 F0 F1 40 40 15",
        &[
            // a  1     Z  é  0  0  0  1  2  .  5  0
            "81 F1 40 E9 51 F0 F0 F0 F1 F2 4B F5 F0 15",
            // a  2     [  ]  0  0  0  0  7  .  2  5
            "81 F2 40 BA BB F0 F0 F0 F0 F7 4B F2 F5 15",
        ],
        // T  0  2  0  0  0  0  0  1  9  .  7  5
        "E3 F0 F2 F0 F0 F0 F0 F0 F1 F9 4B F7 F5 15",
    ),
    (
        // … 0002
        "C8 D6 D9 C4 C5 D9 E2 F0 F0 F0 F2 40 40 15",
        &[
            // b  1     Ñ  !  0  0  1  0  0  .  0  0
            "82 F1 40 69 5A F0 F0 F1 F0 F0 4B F0 F0 15",
            // b  2     {  }  0  0  0  0  0  .  0  1
            "82 F2 40 C0 D0 F0 F0 F0 F0 F0 4B F0 F1 15",
        ],
        // T  0  2  0  0  0  0  1  0  0  .  0  1
        "E3 F0 F2 F0 F0 F0 F0 F1 F0 F0 4B F0 F1 15",
    ),
    (
        // … 0003
        "C8 D6 D9 C4 C5 D9 E2 F0 F0 F0 F3 40 40 15",
        // c1 is rejected: the code page has no euro sign.
        &[
            // c  2     x  y  0  0  0  0  1  .  1  0
            "83 F2 40 A7 A8 F0 F0 F0 F0 F1 4B F1 F0 15",
        ],
        // T  0  1  0  0  0  0  0  0  1  .  1  0
        "E3 F0 F1 F0 F0 F0 F0 F0 F0 F1 4B F1 F0 15",
    ),
];

const SENT: [[(&str, &str, &str); 2]; 3] = [
    [("a1", "Zé", "12.50"), ("a2", "[]", "7.25")],
    [("b1", "Ñ!", "100.00"), ("b2", "{}", "0.01")],
    [("c1", "€x", "3.00"), ("c2", "xy", "1.10")],
];

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |text| u8::from_str_radix(text, 16).expect("the fixture has bytes");
    hex.split(' ').map(byte).collect()
}

fn name(number: u64) -> String {
    format!("ORDERS_{number:06}.dat")
}

/// Returns the records of a file.
fn records(directory: &Path, number: u64) -> Vec<Vec<u8>> {
    let file = fs::read(directory.join(name(number))).expect("the file can be read");
    assert_eq!(file.len() % RECORD_BYTES, 0, "{file:02X?}");
    file.chunks(RECORD_BYTES).map(<[u8]>::to_vec).collect()
}

fn send(rig: &Rig, (id, name, amount): (&str, &str, &str)) {
    rig.send(json!({ "id": id, "name": name, "amount": amount }).to_string());
}

#[tokio::test]
async fn files_in_ebcdic_are_numbered_without_gaps() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut setup = Setup::new()
        .batches_of(2)
        .var("SINK_FORMAT", "fixed-width")
        .var("SINK_COLUMNS", COLUMNS)
        .var("SINK_ENCODING", "ebcdic-cp037")
        .var("SINK_LINE_END", "nel")
        .var("SINK_HEADER_RECORD", "HORDERS{sequence:04}{space:2}")
        .var("SINK_TRAILER_RECORD", "T{count:02}{sum:amount:010.2}")
        .var("SINK_PATH", "daily/ORDERS_{sequence:06}.dat")
        .one_aggregator_environment();
    setup.options.out = Some(directory.path().to_owned());
    let rig = setup.start().await;
    let daily = directory.path().join("daily");
    for (number, (sent, (header, expected, trailer))) in (1..).zip(SENT.into_iter().zip(FILES)) {
        sent.into_iter().for_each(|event| send(&rig, event));
        rig.until_drained().await;
        let mut found = records(&daily, number);
        let last = found.pop().expect("there is a trailer");
        assert_eq!(found.remove(0), bytes(header));
        assert_eq!(last, bytes(trailer));
        // The order of two messages in a queue is not fixed.
        found.sort();
        let expected = Vec::from_iter(expected.iter().map(|hex| bytes(hex)));
        assert_eq!(found, expected);
    }
    // Now many batches at once.
    let ids: Vec<String> = (10..30).map(|id| format!("d{id}")).collect();
    ids.iter().for_each(|id| send(&rig, (id, "zz", "1.00")));
    rig.until_drained().await;
    assert_eq!(rig.statuses().await[&Status::Error], 0);
    let found = files_below(&daily, "");
    let files = found.len() as u64;
    let expected = (1..=files).map(|number| daily.join(name(number)));
    assert_eq!(found, Vec::from_iter(expected));
    // There is nothing else, such as an unfinished file.
    let entries = fs::read_dir(&daily).expect("the directory can be read");
    assert_eq!(entries.count() as u64, files);
    let mut all: Vec<Vec<u8>> = Vec::new();
    for number in 4..=files {
        let mut records = records(&daily, number);
        let digits = format!("{number:04}").into_bytes().into_iter();
        let expected: Vec<u8> = digits.map(|digit| digit - b'0' + 0xf0).collect();
        assert_eq!(records[0][7..11], expected);
        records.pop();
        all.extend(records.drain(1..));
    }
    let records_count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((records_count, all.len()), (ids.len(), ids.len()));
    rig.end().await;
}
