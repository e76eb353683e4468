//! Parts as Parquet files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use protocol::batch::Status;
use serde_json::Value;

use crate::output::{json_of, manifests, sorted};
use crate::rig::{Setup, workload};

const COLUMNS: &str = r#"[{"name":"id","json":"id"},{"name":"body","field":"body"},{"name":"seq","field":"seq"},
    {"name":"nothing","json":"no_such_field"}]"#;

/// Returns the columns of a row by their names.
fn columns(row: &Row) -> BTreeMap<&str, &Field> {
    let columns = row.get_column_iter();
    let columns = columns.map(|(name, field)| (name.as_str(), field));
    columns.collect()
}

/// Checks a part below `out` against its manifest, and returns the ids and bodies of its rows.
fn rows(out: &Path, manifest: &Path) -> Vec<(String, String)> {
    let found = json_of(manifest);
    let key = found["key"].as_str().expect("it names the file");
    let file = fs::read(out.join(key)).expect("a part can be read");
    assert_eq!(found["bytes"], file.len(), "{found}");
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).expect("it is a Parquet file");
    let rows = reader.get_row_iter(None).expect("its schema can be read");
    let mut seqs = Vec::new();
    let rows: Vec<(String, String)> = rows
        .map(|row| {
            let row = row.expect("a row can be read");
            let columns = columns(&row);
            let (Field::Str(id), Field::Str(body), Field::Long(seq), Field::Null) = (
                columns["id"],
                columns["body"],
                columns["seq"],
                columns["nothing"],
            ) else {
                panic!("{columns:?}");
            };
            seqs.push(*seq);
            (id.clone(), body.clone())
        })
        .collect();
    assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
    assert_eq!(found["count"], rows.len(), "{found}");
    rows
}

#[tokio::test]
async fn every_event_is_in_one_row_of_one_file() {
    let setup = Setup::new().batches_of(100);
    let setup = setup.var("SINK_FORMAT", "parquet");
    let setup = setup.var("SINK_COMPRESSION", "zstd");
    let rig = setup.var("SINK_COLUMNS", COLUMNS).start().await;
    let workload = workload(71, 500, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    assert_eq!(rig.statuses().await[&Status::Error], 0);

    let manifests = manifests(&rig.stack.out).into_iter();
    let delivered = manifests.flat_map(|manifest| rows(&rig.stack.out, &manifest));
    let delivered = Vec::from_iter(delivered);
    for (id, body) in &delivered {
        let body: Value = serde_json::from_str(body).expect("a body of the burst is JSON");
        assert_eq!(body["id"], **id);
    }
    let sent = (0..workload.unique()).map(|number| workload.event_id(number));
    let found = sorted(delivered.into_iter().map(|(id, _)| id));
    assert_eq!(found, sorted(sent));
    rig.end().await;
}
