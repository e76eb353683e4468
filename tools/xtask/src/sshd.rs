//! Finds an OpenSSH server for the tests of the sink, or unpacks Debian's packages of one into a folder that git ignores.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::debian;
use crate::tools;

/// Where Debian installs the server, and where its package has it.
const DEBIAN: &str = "usr/sbin/sshd";

/// Makes sure that there is a server. Returns its executable, or `None` if the tests find it by themselves: in the search
/// path, or where Debian installs it.
pub fn install() -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|directory| directory.join("sshd").is_file())
        || Path::new("/").join(DEBIAN).is_file()
    {
        return Ok(None);
    }
    let tools = tools::target_dir().join("tools/sshd");
    let script = tools.join("sshd");
    if script.is_file() {
        return Ok(Some(script));
    }
    // Without the C library: only the machine's own works with its loader. What configures a machine is not needed either.
    let needed = |_: &str, name: &str| name.starts_with("lib") && !name.starts_with("libc6");
    let root = debian::unpack(&["openssh-server"], needed, &tools)?;
    fs::create_dir_all(&tools)?;
    debian::write_script(&script, &root.join(DEBIAN), &root, &[])?;
    Ok(Some(script))
}
