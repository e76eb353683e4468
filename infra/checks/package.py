"""Checks the zips: each must contain one executable `bootstrap` that the runtime provided.al2023 can run.

tools/xtask/src/package.rs builds the zips. Run as a program (`cargo xtask package`), this also unpacks each executable beside its zip,
for runs without Lambda. As one of the checks of main.py, it expects zips for the architecture in the template.

    python package.py --arch ARCHITECTURE
"""

import argparse
import io
import pathlib
import platform
import re
import struct
import sys
import zipfile

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The folder that the template and the CDK app name. It does not depend on CARGO_TARGET_DIR.
CODE = ROOT / "target" / "lambda"
FUNCTIONS = ("aggregator", "batch-processor")
# This machine's architecture, by its name in the template.
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
# Name of an architecture in the template, to its name and number in the header of an executable.
MACHINES = {"x86_64": ("EM_X86_64", 62), "arm64": ("EM_AARCH64", 183)}
# Lambda allows 250 MB, but a cold start reads the executable.
UNZIPPED_MAX_BYTES = 16_000_000
# The version of glibc in provided.al2023. Source: <https://docs.aws.amazon.com/linux/al2023/ug/core-glibc.html>.
GLIBC_MAX = (2, 34)
# The last one is the loader, `ld-linux-x86-64.so.2` or `ld-linux-aarch64.so.1`.
GLIBC_LIBRARIES = ("libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "ld-linux-")


def zip_of(function):
    return CODE / function / "bootstrap.zip"


class Package:
    """One zip and its problems."""

    def __init__(self, data, architecture):
        self.problems = []
        self.zipped_bytes = len(data)
        self.unzipped_bytes = 0
        self.glibc = ()
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
            names = archive.namelist()
            if names != ["bootstrap"]:
                self.problems.append(f"wrong files in the zip: got {names}, expected only `bootstrap`")
                return
            entry = archive.getinfo("bootstrap")
            # Lambda runs the executable as a user that does not own it.
            if (entry.external_attr >> 16) & 0o555 != 0o555:
                self.problems.append(f"`bootstrap`: wrong mode: got {entry.external_attr >> 16:o}, expected read and execute for everyone")
            self.unzipped_bytes = entry.file_size
            if self.unzipped_bytes > UNZIPPED_MAX_BYTES:
                self.problems.append(f"`bootstrap`: too large: got {self.unzipped_bytes} bytes, expected at most {UNZIPPED_MAX_BYTES}")
            self.check_elf(ELFFile(io.BytesIO(archive.read(entry))), architecture)
        except (zipfile.BadZipFile, ELFError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def check_elf(self, elf, architecture):
        if elf["e_machine"] != MACHINES[architecture][0]:
            is_for = next((name for name, (machine, _) in MACHINES.items() if machine == elf["e_machine"]), elf["e_machine"])
            self.problems.append(f"`bootstrap`: wrong architecture: got {is_for}, expected {architecture}; package with `--arch`, or deploy with `Architecture`")
        dynamic = elf.get_section_by_name(".dynamic")
        if dynamic is None:
            self.problems.append("`bootstrap`: statically linked, expected it to be linked against glibc")
            return
        needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
        for library in needed:
            if not library.startswith(GLIBC_LIBRARIES):
                self.problems.append(f"`bootstrap`: wrong library: got {library}, expected only libraries of glibc")
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for _, versions in section.iter_versions():
                    for version in versions:
                        self.needs(version.name)
        if not self.glibc:
            self.problems.append("`bootstrap`: needs no version of glibc, expected one")
        if self.glibc > GLIBC_MAX:
            self.problems.append(f"`bootstrap`: glibc too new: got {dotted(self.glibc)}, expected at most {dotted(GLIBC_MAX)}")

    def needs(self, version):
        family, _, number = version.partition("_")
        if family != "GLIBC" or not number[:1].isdigit():
            self.problems.append(f"`bootstrap`: wrong symbol version: got {version}, expected only those of glibc")
            return
        self.glibc = max(self.glibc, tuple(map(int, number.split("."))))


def dotted(version):
    return ".".join(map(str, version))


def deployed():
    """Returns the default architecture of the template."""
    template = (ROOT / "infra" / "sam" / "template.yaml").read_text()
    return re.search(r"\n  Architecture:\n    Type: String\n    Default: (\w+)\n", template).group(1)


def check_all(architecture=None):
    """Returns the problems of the zips, and their figures."""
    architecture = architecture or deployed()
    problems, figures = [], []
    for function in FUNCTIONS:
        if not zip_of(function).exists():
            problems.append(f"{function}: no zip: expected cargo lambda to write {zip_of(function).relative_to(ROOT)}")
            continue
        package = Package(zip_of(function).read_bytes(), architecture)
        problems += [f"{function}: {each}" for each in package.problems]
        figures.append(
            f"{function} {package.zipped_bytes / 1e6:.1f} MB zipped, {package.unzipped_bytes / 1e6:.1f} MB, glibc {dotted(package.glibc)}"
        )
    return problems, "; ".join([architecture, *figures])


def zipped(files):
    """Returns a zip of `files`: name to content and mode."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            out.writestr(entry, data)
    return file.getvalue()


def header(architecture):
    """Returns the header of an executable, without content."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return struct.pack("<16sHHIQQQIHHHHHH", ident, 3, MACHINES[architecture][1], 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0)


def test_headers():
    """Asserts that the check of the architecture reads the header correctly. Needs no zips. Returns how many headers were tried."""
    for built in MACHINES:
        zip_of_header = zipped({"bootstrap": (header(built), 0o755)})
        for wanted in MACHINES:
            about = [each for each in Package(zip_of_header, wanted).problems if "wrong architecture" in each]
            expected = [] if built == wanted else [f"`bootstrap`: wrong architecture: got {built}, expected {wanted}"]
            assert [each.split(";")[0] for each in about] == expected, f"built for {built}, wanted for {wanted}: got {about}"
    return len(MACHINES) ** 2


def self_test():
    """Asserts that each of some wrong zips has the right problem. Returns how many were tried."""
    bootstrap = zipfile.ZipFile(zip_of(FUNCTIONS[0])).read("bootstrap")
    built = deployed()
    good = Package(zipped({"bootstrap": (bootstrap, 0o755)}), built)
    assert not good.problems, f"a zip with the built executable has problems: {good.problems}"
    # Wrong executables are made by replacing names in the dynamic string table by others of the same length.
    newest = f"GLIBC_{dotted(good.glibc)}".encode()

    def renamed(old, new):
        assert old + b"\0" in bootstrap and len(old) == len(new), f"`bootstrap` has no {old}, or {new} has another length"
        return zipped({"bootstrap": (bootstrap.replace(old + b"\0", new + b"\0"), 0o755)})

    wrong = [
        ("wrong files", zipped({"aggregator": (bootstrap, 0o755)})),
        ("wrong files", zipped({"bin/bootstrap": (bootstrap, 0o755)})),
        ("wrong files", zipped({"bootstrap": (bootstrap, 0o755), "notes.txt": (b"", 0o644)})),
        ("wrong mode", zipped({"bootstrap": (bootstrap, 0o644)})),
        ("wrong mode", zipped({"bootstrap": (bootstrap, 0o700)})),
        ("too large", zipped({"bootstrap": (bootstrap + bytes(UNZIPPED_MAX_BYTES), 0o755)})),
        ("ELFError", zipped({"bootstrap": (b"#!/bin/sh\n", 0o755)})),
        ("BadZipFile", zipped({"bootstrap": (bootstrap, 0o755)})[:-100]),
        ("wrong library: got libz.so.6", renamed(b"libc.so.6", b"libz.so.6")),
        ("glibc too new: got 2.35", renamed(newest, b"GLIBC_2.35")),
        ("wrong symbol version: got GLIBC_ABI", renamed(newest, b"GLIBC_ABI_"[: len(newest)])),
    ]
    # The number of the other architecture in the header.
    (other,) = set(MACHINES) - {built}
    wrong.append((f"wrong architecture: got {other}", zipped({"bootstrap": (bootstrap[:18] + struct.pack("<H", MACHINES[other][1]) + bootstrap[20:], 0o755)})))
    for problem, data in wrong:
        found = Package(data, built).problems
        assert any(problem in each for each in found), f"a wrong zip: got {found}, expected a problem with `{problem}`"
    return len(wrong)


def unpack():
    for function in FUNCTIONS:
        bootstrap = CODE / function / "bootstrap"
        # A new file, because the old one may still be running.
        bootstrap.unlink(missing_ok=True)
        bootstrap.write_bytes(zipfile.ZipFile(zip_of(function)).read("bootstrap"))
        bootstrap.chmod(0o755)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--arch", choices=MACHINES, default=ARCHITECTURE)
    options = arguments.parse_args()
    problems, figures = check_all(options.arch)
    if options.arch != deployed():
        print(f"deploy with Architecture={options.arch}, because the template's default is {deployed()}")
    if not problems:
        unpack()
    print(*problems, figures, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
