//! Columns from the description that the other side has. No stack is needed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::{Done, Failure};
use crate::outcome::Output;

#[derive(Args)]
pub struct ColumnsArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Turn a COBOL copybook into columns for `fixed-width`, and say how long a record is
    FromCopybook {
        /// The file with one record at level 01
        file: PathBuf,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'r> {
    record: &'r str,
    record_bytes: usize,
    columns: &'r [copybook::Column],
}

/// Runs the command. Without `--json`, standard output is the value of `SINK_COLUMNS`.
pub fn run(args: &ColumnsArgs, output: Output<'_>) -> Result<Done, Failure> {
    let Verb::FromCopybook { file } = &args.verb;
    let bytes = std::fs::read(file).map_err(Failure::file(file))?;
    // Comments may be in any encoding.
    let text = String::from_utf8_lossy(&bytes);
    let record = copybook::parse(&text)
        .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    let report = Report {
        record: &record.name,
        record_bytes: record.length,
        columns: &record.columns,
    };
    let lines = record.columns.iter().map(|column| {
        let column = serde_json::to_string(column).expect("texts and numbers are JSON");
        format!(" {column}")
    });
    let lines = Vec::from_iter(lines).join(",\n");
    output.print(&report, format!("[\n{lines}\n]\n"));
    output.tell(&format!(
        "record `{}`: {} bytes",
        record.name, record.length
    ));
    Ok(Done::Yes)
}

#[cfg(test)]
mod tests {
    use sinks::Columns;

    #[test]
    fn columns_of_a_copybook_are_columns_of_fixed_width() {
        let record = copybook::parse(
            "01 A. 02 ID PIC X(4). 02 AMOUNT PIC S9(3)V99 COMP-3. 02 LINE-ITEM OCCURS 2. 03 QUANTITY PIC 9(4) COMP. \n\
             02 BALANCE PIC S9(3). 02 FILLER PIC X(3). 02 FILLER PIC 9(2). 02 NOTE PIC X(2) JUSTIFIED RIGHT.",
        )
        .unwrap();
        let columns = serde_json::to_string(&record.columns).unwrap();
        let columns: Columns = columns.parse().unwrap();
        let columns = columns.fixed_width().unwrap();
        let width: usize = columns.iter().map(|column| column.width).sum();
        assert_eq!((columns.len(), width), (8, record.length));
    }
}
