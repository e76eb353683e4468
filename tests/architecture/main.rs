//! Which crate may import which, and that no two files of a crate import each other.

mod circles;
mod imports;

mod links;

mod configuration;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Every crate of the workspace with the crates of the workspace that it may depend on; tests of a crate are held to it
/// as well.
const MAY_IMPORT: [(&str, &[&str]); 12] = [
    ("protocol", &[]),
    ("emulators", &[]),
    ("loadgen", &[]),
    ("shared", &["protocol"]),
    ("aggregator", &["protocol", "shared"]),
    ("sinks", &["protocol", "shared"]),
    ("batch-processor", &["protocol", "shared", "sinks"]),
    (
        "local",
        &[
            "aggregator",
            "batch-processor",
            "emulators",
            "loadgen",
            "protocol",
            "shared",
            "sinks",
        ],
    ),
    (
        "sim",
        &[
            "aggregator",
            "batch-processor",
            "protocol",
            "shared",
            "sinks",
        ],
    ),
    ("fuzz", &["aggregator", "protocol", "shared"]),
    (
        "tests",
        &[
            "aggregator",
            "batch-processor",
            "emulators",
            "loadgen",
            "local",
            "protocol",
            "shared",
            "sinks",
        ],
    ),
    ("xtask", &[]),
];

/// What would make the protocol more than decisions: runtimes, SDKs, clocks, compression, logs.
const PROTOCOL_DEPENDS_ON: [&str; 5] = ["blake3", "roaring", "serde", "thiserror", "uuid"];

/// What each crate of the workspace depends on, with and without its tests.
struct Manifests(Value);

impl Manifests {
    fn read() -> Manifests {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
            .current_dir(root)
            .output()
            .expect("run cargo metadata");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata: {errors}");
        Manifests(serde_json::from_slice(&output.stdout).expect("metadata is JSON"))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().expect("packages").iter()
    }

    fn crates(&self) -> BTreeSet<&str> {
        self.packages().map(name).collect()
    }

    /// The first files of a crate's library and of its programs.
    fn roots(&self, package: &str) -> Vec<PathBuf> {
        let package = self.packages().find(|each| name(each) == package);
        let targets = package.expect("a crate")["targets"].as_array();
        let targets = targets.expect("targets").iter();
        let ships =
            |target: &&Value| target["kind"] == json!(["lib"]) || target["kind"] == json!(["bin"]);
        let root = |target: &Value| PathBuf::from(target["src_path"].as_str().expect("a path"));
        targets.filter(ships).map(root).collect()
    }

    /// The names of the dependencies of a kind: `None` for what the crate itself needs.
    fn dependencies(&self, package: &str) -> BTreeMap<&str, Option<&str>> {
        let package = self.packages().find(|each| name(each) == package);
        let dependencies = package.expect("a crate")["dependencies"].as_array();
        let dependencies = dependencies.expect("dependencies").iter();
        dependencies
            .map(|each| (name(each), each["kind"].as_str()))
            .collect()
    }
}

fn name(value: &Value) -> &str {
    value["name"].as_str().expect("a name")
}

#[test]
fn crates_import_only_what_they_may() {
    let manifests = Manifests::read();
    let crates = manifests.crates();
    let listed: BTreeSet<&str> = MAY_IMPORT.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        crates, listed,
        "every crate of the workspace has a line here"
    );
    for (name, may_import) in MAY_IMPORT {
        let imports: BTreeSet<&str> = manifests.dependencies(name).into_keys().collect();
        let mut imports: BTreeSet<&str> = imports.intersection(&crates).copied().collect();
        // The tests of a crate may switch its own features on.
        imports.remove(name);
        let may_import = BTreeSet::from_iter(may_import.iter().copied());
        assert_eq!(imports, may_import, "the crates that `{name}` imports");
    }
}

#[test]
fn the_protocol_is_made_of_decisions_alone() {
    let manifests = Manifests::read();
    let dependencies = manifests.dependencies("protocol").into_iter();
    let of_itself = dependencies.filter(|(_, kind)| kind.is_none());
    let of_itself: Vec<&str> = of_itself.map(|(name, _)| name).collect();
    assert_eq!(of_itself, PROTOCOL_DEPENDS_ON);
}
