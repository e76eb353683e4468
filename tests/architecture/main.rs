//! Checks which crate imports which, and that no two files of a crate import each other in a circle.

mod circles;
mod files;
mod folders;
mod imports;

mod links;

mod commands;
mod commits;
mod configuration;
mod metrics;
mod profiles;
mod promises;
mod runbook;
mod security;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tests::root;

/// Every crate of the workspace, with the crates of the workspace that it may depend on. The rule holds for the tests
/// of a crate too.
const MAY_IMPORT: &str = "\
protocol:
console:
copybook:
emulators:
planner: protocol
stack: planner protocol
loadgen: planner protocol stack
shared: protocol
aws: protocol shared
aggregator: aws protocol shared
batchctl: aggregator aws batch-processor console copybook protocol shared sinks stack
forms: protocol shared
sinks: aws forms protocol shared
batch-processor: aws protocol shared sinks
local: aggregator aws batch-processor batchctl console emulators loadgen planner protocol shared sinks stack
sim: aggregator aws batch-processor batchctl protocol shared sinks stack
fuzz: aggregator console protocol shared
tests: aggregator aws batch-processor batchctl copybook emulators loadgen local planner protocol shared sinks
verify-proof:
xtask:";

/// Crates with which `protocol` could do more than decide: runtimes, SDKs, clocks, compression, logs.
const PROTOCOL_DEPENDS_ON: [&str; 6] = [
    "blake3",
    "roaring",
    "serde",
    "serde_bytes",
    "thiserror",
    "uuid",
];

/// The manifests of the workspace.
struct Manifests(Value);

impl Manifests {
    fn read() -> Manifests {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
            .current_dir(root())
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

    /// Returns a list of a crate.
    fn list(&self, package: &str, name_of_list: &str) -> impl Iterator<Item = &Value> {
        let package = self.packages().find(|each| name(each) == package);
        let list = package.expect("a crate")[name_of_list].as_array();
        list.expect("a list").iter()
    }

    /// Returns the root files of a crate's library and programs.
    fn roots(&self, package: &str) -> Vec<PathBuf> {
        let targets = self.list(package, "targets");
        let ships =
            |target: &&Value| target["kind"] == json!(["lib"]) || target["kind"] == json!(["bin"]);
        let root = |target: &Value| PathBuf::from(target["src_path"].as_str().expect("a path"));
        targets.filter(ships).map(root).collect()
    }

    /// Returns the dependencies of a crate by name, each with its kind: `None` for a dependency of the crate itself.
    fn dependencies(&self, package: &str) -> BTreeMap<&str, Option<&str>> {
        let dependencies = self.list(package, "dependencies");
        let dependencies = dependencies.map(|each| (name(each), each["kind"].as_str()));
        dependencies.collect()
    }
}

/// Returns the name of a package in short, as its users write it in code.
fn name(value: &Value) -> &str {
    let name = value["name"].as_str().expect("a name");
    name.trim_start_matches("unique-event-")
}

#[test]
fn crates_import_only_allowed_crates() {
    let manifests = Manifests::read();
    let crates = manifests.crates();
    let rows = MAY_IMPORT.lines().filter_map(|row| row.split_once(':'));
    let rows = BTreeMap::from_iter(rows);
    // Every crate of the workspace has a line here.
    assert!(crates.iter().eq(rows.keys()), "{crates:?}");
    for (name, may_import) in rows {
        let imports: BTreeSet<&str> = manifests.dependencies(name).into_keys().collect();
        let mut imports: BTreeSet<&str> = imports.intersection(&crates).copied().collect();
        // A crate may be its own dev-dependency, to switch on features for its tests.
        imports.remove(name);
        let may_import = BTreeSet::from_iter(may_import.split_whitespace());
        assert_eq!(imports, may_import, "the crates that `{name}` imports");
    }
}

#[test]
fn the_protocol_depends_on_no_crate_with_io_clocks_or_logs() {
    let manifests = Manifests::read();
    let dependencies = manifests.dependencies("protocol").into_iter();
    let of_itself = dependencies.filter(|(_, kind)| kind.is_none());
    let of_itself: Vec<&str> = of_itself.map(|(name, _)| name).collect();
    assert_eq!(of_itself, PROTOCOL_DEPENDS_ON);
}
