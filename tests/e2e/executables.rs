//! The executables under test: those of this workspace, from the build this test is part of.

use std::path::PathBuf;

use emulators::lambda::Bootstrap;

/// The executable `name` of this build.
///
/// # Panics
/// When it was not built.
pub fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // The test is `<profile>/deps/e2e-<hash>`, the executables are `<profile>/<name>`.
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test is two directories deep");
    let path = profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.is_file(),
        "`{}` is not there: run `cargo build --workspace` first, with the same profile and target directory",
        path.display()
    );
    path
}

/// The executable `name` as a Lambda bootstrap.
pub fn bootstrap(name: &str) -> Bootstrap {
    Bootstrap {
        program: executable(name),
        args: Vec::new(),
    }
}
