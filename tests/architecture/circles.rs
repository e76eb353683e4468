//! Checks that no two files of a crate import each other, directly or through other files.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Manifests;
use crate::imports::{self, Imports};

/// Returns the shortest circle of imports: each of its files imports the next one, and the last one the first.
fn circle(imports: &Imports) -> Option<Vec<&Path>> {
    let circles = imports.keys().filter_map(|file| way_back(imports, file));
    circles.min_by_key(Vec::len)
}

/// Returns the shortest circle through a file.
fn way_back<'i>(imports: &'i Imports, start: &'i Path) -> Option<Vec<&'i Path>> {
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut reached = VecDeque::from([start]);
    while let Some(file) = reached.pop_front() {
        for next in imports.get(file).into_iter().flatten() {
            if next == start {
                let mut way: Vec<&Path> = vec![file];
                while let Some(before) = came_from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next.as_path()) {
                came_from.insert(next, file);
                reached.push_back(next);
            }
        }
    }
    None
}

/// Describes a circle by the paths of its files.
fn description(circle: &[&Path], root: &Path) -> String {
    let folder = root.parent().unwrap_or(root);
    let name = |file: &&Path| {
        let file = file.strip_prefix(folder).unwrap_or(file);
        file.display().to_string()
    };
    let files: Vec<String> = circle.iter().chain(circle.first()).map(name).collect();
    files.join(" imports ")
}

#[test]
fn no_files_of_a_crate_import_each_other() {
    let manifests = Manifests::read();
    let mut circles = Vec::new();
    for package in manifests.crates() {
        for root in manifests.roots(package) {
            let imports = imports::of_crate(&root);
            if let Some(circle) = circle(&imports) {
                circles.push(format!("{package}: {}", description(&circle, &root)));
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Writes a crate with these files; returns its circle, if it has one.
fn circle_of(files: &[(&str, &str)]) -> Option<String> {
    let folder = tempfile::tempdir().expect("make a folder");
    for (name, text) in files {
        let file: PathBuf = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("make a folder");
        fs::write(file, text).expect("write a file");
    }
    let root = folder.path().join("lib.rs");
    let imports = imports::of_crate(&root);
    circle(&imports).map(|circle| description(&circle, &root))
}

#[test]
fn the_description_of_a_circle_has_its_files_in_order() {
    let found = circle_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        (
            "b.rs",
            "pub struct B; fn f() -> super::c::C { super::c::C }",
        ),
        (
            "c.rs",
            "pub struct C; fn g() { println!(\"{}\", crate::a::A::new()) }",
        ),
    ]);
    assert_eq!(
        found.as_deref(),
        Some("a.rs imports b.rs imports c.rs imports a.rs")
    );
}

#[test]
fn a_parent_and_its_child_are_a_circle_if_the_child_imports_an_item_of_the_parent() {
    let parent = |text: &str| {
        circle_of(&[
            ("lib.rs", "mod a;"),
            ("a.rs", &format!("mod b; {text}")),
            ("a/b.rs", "use super::Own; pub struct B(Own); pub fn g() {}"),
        ])
    };
    assert_eq!(parent("pub struct Own;"), None);
    let imported = Some("a/b.rs imports a.rs imports a/b.rs");
    assert_eq!(parent("pub struct Own; pub use b::B;").as_deref(), imported);
    assert_eq!(
        parent("pub struct Own; fn f() { b::g() }").as_deref(),
        imported
    );
}

#[test]
fn an_import_of_a_re_export_is_an_import_of_the_file_with_the_item() {
    let files = |of_c: &'static str| {
        circle_of(&[
            ("lib.rs", "mod a; pub use a::{B, c}; pub use a::c::*;"),
            (
                "a/mod.rs",
                "pub mod c; #[path = \"other.rs\"] mod b; pub use b::B as B;",
            ),
            ("a/other.rs", "pub struct B; use crate::D;"),
            ("a/c.rs", of_c),
        ])
    };
    assert_eq!(files("pub struct D; use crate::E;"), None);
    assert_eq!(
        files("pub struct D; use crate::B;").as_deref(),
        Some("a/c.rs imports a/other.rs imports a/c.rs")
    );
}

#[test]
fn imports_of_tests_make_no_circle() {
    let files = |of_b: &'static str| {
        circle_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", of_b),
        ])
    };
    let test =
        "pub struct B; #[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;";
    assert_eq!(files(test), None);
    assert!(files("pub struct B; mod inner { use crate::a::A; }").is_some());
}
