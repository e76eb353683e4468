//! Finds a Chromium for the tests of the report, or unpacks Debian's packages of one into a folder that git ignores.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::debian;
use crate::tools;

/// The names under which the tests find a browser in the search path.
const NAMES: [&str; 4] = [PACKAGE, "chromium", "chromium-browser", "google-chrome"];
/// Debian's package of the browser without windows, which needs the fewest others.
const PACKAGE: &str = "chromium-headless-shell";
/// The path of its program.
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";
/// A package that it needs, of whose dependencies none is needed: they are programs for desktops.
const COMMON: &str = "chromium-common";
/// Fonts; without any, the browser draws no text.
const FONTS: &str = "fonts-liberation";

/// Makes sure that there is a browser. Returns its executable, or `None` if the tests find it in the search path or by the
/// variable `CHROMIUM_BIN`.
pub fn install() -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = |name: &str| env::split_paths(&path).any(|each| each.join(name).is_file());
    if env::var_os("CHROMIUM_BIN").is_some() || NAMES.into_iter().any(in_path) {
        return Ok(None);
    }
    let folder = tools::target_dir().join("tools/chromium");
    let script = folder.join("chromium");
    if script.is_file() {
        return Ok(Some(script));
    }
    // Without the C library: only the machine's own works with its loader.
    let needed = |package: &str, name: &str| {
        let library = name.starts_with("lib") && !name.starts_with("libc6");
        package != COMMON && (library || name == COMMON)
    };
    let root = debian::unpack(&[PACKAGE, FONTS], needed, &folder).context(
        "unpack a Chromium for the tests of the report; elsewhere than on Debian, install one, or set CHROMIUM_BIN to its executable",
    )?;
    let program = root.join(PROGRAM);
    ensure!(
        program.is_file(),
        "find `{PROGRAM}` in Debian's package {PACKAGE}"
    );
    let fonts = folder.join("fonts.conf");
    // Every family that is not there is drawn in one of `FONTS`, so that pictures look alike on all machines.
    let text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>\n<dir>{}</dir>\n\
         <dir>/usr/share/fonts</dir>\n<cachedir>{}</cachedir>\n\
         <alias><family>monospace</family><prefer><family>Liberation Mono</family></prefer></alias>\n\
         <match target=\"pattern\"><edit name=\"family\" mode=\"append_last\"><string>Liberation Sans</string></edit></match>\n\
         </fontconfig>\n",
        root.join("usr/share/fonts").display(),
        folder.join("fonts").display(),
    );
    fs::write(&fonts, text)?;
    let fonts = ("FONTCONFIG_FILE", fonts.display().to_string());
    debian::write_script(&script, &program, &root, &[fonts])
        .context("write the script of Chromium")?;
    Ok(Some(script))
}
