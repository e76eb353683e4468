"""The zips of the functions: built by `cargo xtask package` for a run, and kept in its folder."""

import io
import os
import shutil
import subprocess
import zipfile

from verify import ledger
from verify.interrupt import say
from verify.unavailable import Unavailable

FUNCTIONS = ("aggregator", "batch-processor")


def zip_of(folder, arch, function):
    return folder / arch / f"{function}.zip"


def build(folder, arches):
    """Builds the zips for each architecture into the folder. Returns the reasons why some could not be built, by architecture."""
    problems = {}
    for arch in arches:
        say(f"building both functions for {arch}")
        command = [os.environ.get("CARGO", "cargo"), "xtask", "package", "--arch", arch]
        done = subprocess.run(command, cwd=ledger.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error")] or done.stderr.splitlines()[-1:]
            problems[arch] = lines[-1] if lines else f"cargo xtask package failed: {done.returncode}"
            say(f"  not built: {problems[arch]}")
            continue
        for function in FUNCTIONS:
            target = zip_of(folder, arch, function)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ledger.ROOT / "target" / "lambda" / function / "bootstrap.zip", target)
    return problems


def empty_zip():
    """Returns a zip for emulators that run no functions."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as out:
        out.writestr("bootstrap", "")
    return content.getvalue()


def read(world, arch, function):
    path = zip_of(world.zips, arch, function)
    if path.exists():
        return path.read_bytes()
    if world.emulator == "moto":
        return empty_zip()
    raise Unavailable(f"there is no zip of {function} for {arch}: {world.ledger.about.get('not_built', {}).get(arch, 'it was not built')}")
