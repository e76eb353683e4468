//! Runs the program in `infra/verify`, which asks AWS what only an account can say.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use crate::tools::{install_python, root};

#[derive(clap::Args)]
pub struct VerifyAws {
    /// Run against the emulator ministack, with small numbers, and interrupt two runs; needs no account
    #[arg(long)]
    emulator: bool,
    /// Flags of the program, `--help` lists them; with `--emulator`, also flags of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Installs missing tools, and becomes the program. It does not return unless the program cannot be started.
///
/// The program takes the place of this process, because a terminal sends Ctrl-C to both: this process would end, and the
/// shell would return, while the program still deletes what it created.
pub fn run(verify: &VerifyAws) -> anyhow::Result<()> {
    let python = install_python("infra", "infra/checks/requirements.txt")?;
    let mut command = Command::new(python);
    // Not its folder: paths in the arguments are relative to the user's.
    command.env("PYTHONPATH", root()?.join("infra"));
    if verify.emulator {
        command.args(["-m", "verify.on_ministack"]);
        command.arg(install_python(
            "ministack",
            "infra/checks/ministack-requirements.txt",
        )?);
    } else {
        command.args(["-m", "verify.main"]);
    }
    let error = command.args(&verify.arguments).exec();
    Err(error).context("run the program of `infra/verify`")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        verify: VerifyAws,
    }

    #[test]
    fn flags_of_the_program_are_passed_on() {
        let parsed = |line: &str| {
            let words = ["verify-aws"].into_iter().chain(line.split(' '));
            let verify = Cli::try_parse_from(words).unwrap().verify;
            (verify.emulator, verify.arguments.join(" "))
        };
        for flags in ["--dry-run --only 3,4", "--clean NAME --region eu-west-1"] {
            assert_eq!(parsed(flags), (false, flags.to_owned()));
        }
        let emulated = parsed("--emulator --zips folder");
        assert_eq!(emulated, (true, "--zips folder".to_owned()));
    }
}
