//! Runs executables for arm64 on another machine, with Debian's QEMU and its C library for arm64.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::debian;
use crate::tools;

/// The emulator, and the folder of the libraries that the executables need, by their paths in Debian's packages.
const EMULATOR: &str = "usr/bin/qemu-aarch64";
const LIBRARIES: &str = "usr/aarch64-linux-gnu";
/// The packages that have them.
const PACKAGES: [&str; 3] = ["qemu-user", "libc6-arm64-cross", "libgcc-s1-arm64-cross"];

/// Writes a script beside an executable for arm64 that runs it; returns its path.
///
/// # Errors
/// This is no x86-64 machine with Debian's packages.
pub fn script(executable: &Path) -> anyhow::Result<PathBuf> {
    ensure!(
        env::consts::ARCH == "x86_64",
        "`--arch`: this machine cannot run the functions: got `x86_64`, expected `arm64`"
    );
    let (emulator, libraries) = install()?;
    let script = executable.with_file_name("emulated");
    // The variable is for the emulator, which sets it for its own libraries.
    let text = format!(
        "#!/bin/sh\nexec '{}' -U LD_LIBRARY_PATH -L '{}' '{}' \"$@\"\n",
        emulator.display(),
        libraries.display(),
        executable.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// Returns the emulator and the folder of libraries: those of this machine, or unpacked ones in a folder that git ignores.
fn install() -> anyhow::Result<(PathBuf, PathBuf)> {
    let machine = Path::new("/");
    if machine.join(EMULATOR).is_file() && has_libraries(machine) {
        return Ok((machine.join(EMULATOR), machine.join(LIBRARIES)));
    }
    let tools = tools::target_dir().join("tools/qemu");
    let script = tools.join("qemu-aarch64");
    let root = tools.join("root");
    if !script.is_file() {
        // Without the C library for this machine: only its own works with its loader.
        let needed = |_: &str, name: &str| name.starts_with("lib") && !name.starts_with("libc6");
        debian::unpack(&PACKAGES, needed, &tools)?;
        // A package that is installed was not unpacked.
        let emulator = [&root, machine].map(|below| below.join(EMULATOR));
        let [unpacked, installed] = emulator;
        let emulator = if unpacked.is_file() {
            unpacked
        } else {
            installed
        };
        debian::write_script(&script, &emulator, &root, &[])?;
    }
    let below = if has_libraries(&root) { &root } else { machine };
    Ok((script, below.join(LIBRARIES)))
}

/// Returns whether both libraries are below a folder.
fn has_libraries(root: &Path) -> bool {
    let lib = root.join(LIBRARIES).join("lib");
    let mut libraries = ["libc.so.6", "libgcc_s.so.1"].iter();
    libraries.all(|name| lib.join(name).is_file())
}
