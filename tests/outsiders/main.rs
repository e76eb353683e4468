//! Programs of others read what the service writes: a COBOL reader with the copybook that the columns were made of, pyarrow and DuckDB.
//!
//! `cargo xtask test` installs them, and says where in `OUTSIDERS_PYTHON`. What each of them checks is said at the top of its script.

#[path = "../contract/parts.rs"]
mod parts;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};
use sinks::{Columns, Compression, Encoding, Format, Layout, LineEnd, ParquetFormat};
use tests::root;

use crate::parts::part;

/// Records and rows of each file.
const COUNT: usize = 10_000;

const COPYBOOK: &str = "\
000100 01  RECORD-OF-ALL-TYPES.
000200     05  RECORD-ID            PIC X(8).
000300     05  PACKED-ODD           PIC S9(7)V99 COMP-3.
000400     05  PACKED-EVEN          PIC S9(8)    COMP-3.
000500     05  PACKED-PLAIN         PIC 9(12)V999 COMP-3.
000600     05  PACKED-LONG          PIC S9(31)   COMP-3.
000700     05  BINARY-TWO           PIC S9(4)    COMP.
000800     05  BINARY-FOUR          PIC S9(7)V99 COMP.
000900     05  BINARY-EIGHT         PIC S9(18)   COMP.
001000     05  ZONED-PLAIN          PIC 9(5).
001100     05  ZONED-LAST           PIC S9(5)V99.
001200     05  ZONED-BESIDE         PIC S9(4)V9
001210             SIGN IS TRAILING SEPARATE CHARACTER.
001300     05  ZONED-FIRST          PIC S9(5) SIGN IS LEADING.
";
/// What the reader has instead: it does not know the clause `SIGN`, and finds no packed number without an `S`.
const FOR_THE_READER: [(&str, &str); 3] = [
    ("PIC 9(12)V999 COMP-3", "PIC S9(12)V999 COMP-3"),
    (
        "PIC S9(4)V9\n001210             SIGN IS TRAILING SEPARATE CHARACTER.",
        "PIC X(6).",
    ),
    ("PIC S9(5) SIGN IS LEADING.", "PIC X(5)."),
];

/// The numbers of the record: name, digits, digits after the point, whether there are negative ones.
const NUMBERS: [(&str, usize, usize, bool); 11] = [
    ("PACKED-ODD", 9, 2, true),
    ("PACKED-EVEN", 8, 0, true),
    ("PACKED-PLAIN", 15, 3, false),
    ("PACKED-LONG", 31, 0, true),
    ("BINARY-TWO", 4, 0, true),
    ("BINARY-FOUR", 9, 2, true),
    ("BINARY-EIGHT", 18, 0, true),
    ("ZONED-PLAIN", 5, 0, false),
    ("ZONED-LAST", 7, 2, true),
    ("ZONED-BESIDE", 5, 1, true),
    ("ZONED-FIRST", 5, 0, true),
];

/// Numbers that look random and are the same each time.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Returns a number that fits: each eighth is a limit or zero.
    fn number(&mut self, digits: usize, decimals: usize, is_signed: bool) -> String {
        let kind = self.below(24);
        let length = 1 + self.below(digits as u64) as usize;
        let figures = match kind {
            0 => "0".repeat(digits),
            1 | 2 => "9".repeat(digits),
            _ => {
                let figures = (0..length).map(|_| char::from(b'0' + self.below(10) as u8));
                format!("{:0>digits$}", String::from_iter(figures))
            }
        };
        let is_zero = figures.bytes().all(|figure| figure == b'0');
        let is_negative = is_signed && !is_zero && (kind == 2 || self.below(2) == 0);
        let (whole, fraction) = figures.split_at(digits - decimals);
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let sign = if is_negative { "-" } else { "" };
        match fraction {
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        }
    }
}

/// Runs a script; returns what it printed.
fn read_by(script: &str, files: &[&Path]) -> String {
    let python = std::env::var_os("OUTSIDERS_PYTHON");
    let python = python.expect(
        "`OUTSIDERS_PYTHON` is not set: `cargo xtask test` installs the readers, and sets it",
    );
    let script = root().join("tests/outsiders").join(script);
    let output = Command::new(python).arg(script).args(files).output();
    let output = output.expect("the interpreter runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn lines(rows: &[Map<String, Value>]) -> String {
    let mut text = String::new();
    for row in rows {
        writeln!(text, "{}", Value::from(row.clone())).expect("a text takes it");
    }
    text
}

#[test]
fn a_cobol_reader_finds_every_field_of_records_made_by_its_copybook() {
    let record = copybook::parse(COPYBOOK).expect("it is a copybook");
    let columns = serde_json::to_string(&record.columns).expect("they are JSON");
    let columns: Columns = columns.parse().expect("they are columns");
    let format = Format::FixedWidth(columns.fixed_width().expect("each has a width"));
    let layout = Layout {
        encoding: Encoding::EbcdicCp037,
        line_end: LineEnd::None,
        ..Layout::default()
    };
    let mut choices = Choices(40);
    let mut rows = Vec::with_capacity(COUNT);
    for number in 0..COUNT {
        let mut row = Map::new();
        row.insert("RECORD-ID".to_owned(), format!("R{number}").into());
        for (name, digits, decimals, is_signed) in NUMBERS {
            let number = choices.number(digits, decimals, is_signed);
            row.insert(name.to_owned(), number.into());
        }
        rows.push(row);
    }
    let bodies = rows.iter().map(|row| {
        let members = row.iter();
        let members = members.map(|(name, value)| (name.to_lowercase().replace('-', "_"), value));
        json!(Map::from_iter(
            members.map(|(name, value)| (name, value.clone()))
        ))
        .to_string()
    });
    let part = part(&Vec::from_iter(bodies));
    let mut written = Vec::new();
    let rejects = format.write_as(&layout, &part, &mut written);
    assert_eq!(rejects.expect("memory takes it"), []);
    assert_eq!(written.len(), COUNT * record.length);
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let [book, records, expected] =
        ["book.cob", "records", "expected"].map(|name| directory.path().join(name));
    let known = FOR_THE_READER.iter();
    let known = known.fold(COPYBOOK.to_owned(), |book, (clause, text)| {
        assert!(book.contains(clause), "{clause}");
        book.replace(clause, text)
    });
    fs::write(&book, known).expect("it can be written");
    fs::write(&records, &written).expect("it can be written");
    fs::write(&expected, lines(&rows)).expect("it can be written");
    let printed = read_by("read_records.py", &[&book, &records, &expected]);
    let beginning = format!("{COUNT} records of {} bytes, ", record.length);
    assert!(printed.starts_with(&beginning), "{printed}");
    // A wrong byte is found.
    written[9] ^= 0x10;
    fs::write(&records, &written).expect("it can be written");
    let wrong =
        std::panic::catch_unwind(|| read_by("read_records.py", &[&book, &records, &expected]));
    assert!(wrong.is_err());
}

const TYPED: &str = r#"[{"name":"int","json":"int","type":"int"},{"name":"small","json":"small","type":"decimal(18,4)"},
    {"name":"large","json":"large","type":"decimal(38,9)"},{"name":"day","json":"day","type":"date"},
    {"name":"at","json":"at","type":"timestamp"},{"name":"is","json":"is","type":"bool"},{"name":"text","json":"text"}]"#;

#[test]
fn pyarrow_and_duckdb_find_every_value_with_its_type() {
    let columns: Columns = TYPED.parse().expect("they are columns");
    let columns = columns.unpadded().expect("no file has other types");
    let format = ParquetFormat::new(columns, Compression::Zstd).expect("they make a schema");
    let mut choices = Choices(41);
    let mut rows = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let day = format!(
            "{:04}-{:02}-{:02}",
            1 + choices.below(9_999),
            1 + choices.below(12),
            1 + choices.below(28)
        );
        let time = format!(
            "{day}T{:02}:{:02}:{:02}.{:06}Z",
            choices.below(24),
            choices.below(60),
            choices.below(60),
            choices.below(1_000_000)
        );
        let int = match choices.below(8) {
            0 => i64::MAX,
            1 => i64::MIN,
            _ => choices.below(u64::MAX) as i64,
        };
        let values = [
            ("int", int.to_string()),
            ("small", choices.number(18, 4, true)),
            ("large", choices.number(38, 9, true)),
            ("day", day),
            ("at", time),
            ("is", (choices.below(2) == 0).to_string()),
            ("text", format!("Zoë \"{}\"\n", choices.below(100))),
        ];
        let row = values.map(|(name, value)| match choices.below(10) {
            0 => (name.to_owned(), Value::Null),
            _ => (name.to_owned(), value.into()),
        });
        rows.push(Map::from_iter(row));
    }
    let bodies = rows.iter().map(|row| Value::from(row.clone()).to_string());
    let part = part(&Vec::from_iter(bodies));
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let [file, expected] = ["part.parquet", "expected"].map(|name| directory.path().join(name));
    let mut to = fs::File::create(&file).expect("it can be written");
    let rejects = Format::Parquet(format).write(&part, &mut to);
    assert_eq!(rejects.expect("the file takes it"), []);
    fs::write(&expected, lines(&rows)).expect("it can be written");
    let printed = read_by("read_parquet.py", &[&file, &expected]);
    assert_eq!(printed, format!("{COUNT} rows\n"));
}

#[test]
fn a_script_that_knows_only_the_document_verifies_the_proofs_and_no_other() {
    let fixtures = root().join("tools/verify-proof/fixtures");
    let [last, delivered, absent, never] = [
        "last-chain-hash",
        "delivered.json",
        "not-delivered.json",
        "not-delivered-at-all.json",
    ]
    .map(|name| fixtures.join(name));
    let printed = read_by("verify_proof.py", &[&last, &delivered, &absent, &never]);
    let found = Vec::from_iter(printed.lines().map(|line| {
        let found: Value = serde_json::from_str(line).expect("it is JSON");
        (found["kind"].clone(), found["parts"].clone())
    }));
    let absent = |parts: u64| ("not delivered".into(), parts.into());
    let expected = [("delivered".into(), Value::Null), absent(3), absent(5)];
    assert_eq!(found, expected);
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let wrong = directory.path().join("wrong.json");
    let text = fs::read_to_string(&delivered).expect("it is there");
    let changed = text.replacen("\"record\": 2", "\"record\": 3", 1);
    assert_ne!(changed, text);
    fs::write(&wrong, changed).expect("it can be written");
    let refused = std::panic::catch_unwind(|| read_by("verify_proof.py", &[&last, &wrong]));
    assert!(refused.is_err());
}
