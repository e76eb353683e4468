//! The executables under test, from the same build as the test.

use std::path::PathBuf;

use emulators::lambda::Bootstrap;

/// Returns the path of the executable `name` of this build.
///
/// # Panics
/// If the executable was not built.
pub fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // The path of the test is `<profile>/deps/e2e-<hash>`, and those of the executables are `<profile>/<name>`.
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

/// Returns the executable `name` as a Lambda bootstrap.
pub fn bootstrap(name: &str) -> Bootstrap {
    Bootstrap {
        program: executable(name),
        args: Vec::new(),
    }
}
