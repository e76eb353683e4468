"""What deploys, looked into: each zip holds one executable `bootstrap` that provided.al2023 can run.

xtask/src/package.rs builds the zips. By itself (`cargo xtask package`) this also unpacks each executable beside its zip, for
what runs it without Lambda. Among the other checks, the zips must be for the processor that the template deploys.

    python package.py --arch ARCHITECTURE [FEATURES]
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
# Where the template and the CDK app look, whatever CARGO_TARGET_DIR says.
CODE = ROOT / "target" / "lambda"
FUNCTIONS = ("aggregator", "batch-processor")
# Of this machine, by its name in the template.
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
# By the name in the template: what the header of an executable calls it, in words and as a number.
MACHINES = {"x86_64": ("EM_X86_64", 62), "arm64": ("EM_AARCH64", 183)}
# Of the default features: Lambda takes 250 MB, but a cold start reads all of it, and nobody shall deploy a sink that he does
# not use. What `cargo xtask package --features` builds may be larger.
UNZIPPED_MAX_BYTES = 8_000_000
# Of provided.al2023. Source: <https://docs.aws.amazon.com/linux/al2023/ug/core-glibc.html>.
GLIBC_MAX = (2, 34)
# The loader is `ld-linux-x86-64.so.2` or `ld-linux-aarch64.so.1`.
GLIBC_LIBRARIES = ("libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "ld-linux-")


def zip_of(function):
    return CODE / function / "bootstrap.zip"


class Package:
    """One zip, and what is wrong with it."""

    def __init__(self, data, architecture, bytes_max=UNZIPPED_MAX_BYTES):
        self.problems = []
        self.zipped_bytes = len(data)
        self.unzipped_bytes = 0
        self.glibc = ()
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
            names = archive.namelist()
            if names != ["bootstrap"]:
                self.problems.append(f"holds {names}, wanted `bootstrap` alone")
                return
            entry = archive.getinfo("bootstrap")
            # Lambda runs it as another user than the one that owns it.
            if (entry.external_attr >> 16) & 0o555 != 0o555:
                self.problems.append(f"`bootstrap` has the mode {entry.external_attr >> 16:o}: not for everyone to read and execute")
            self.unzipped_bytes = entry.file_size
            if bytes_max and self.unzipped_bytes > bytes_max:
                self.problems.append(f"`bootstrap` has {self.unzipped_bytes} bytes, at most {bytes_max} wanted")
            self.look_into(ELFFile(io.BytesIO(archive.read(entry))), architecture)
        except (zipfile.BadZipFile, ELFError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def look_into(self, elf, architecture):
        if elf["e_machine"] != MACHINES[architecture][0]:
            is_for = next((name for name, (machine, _) in MACHINES.items() if machine == elf["e_machine"]), elf["e_machine"])
            self.problems.append(f"`bootstrap` is for {is_for}, wanted {architecture}: package with `--arch`, or deploy with `Architecture`, to match")
        dynamic = elf.get_section_by_name(".dynamic")
        if dynamic is None:
            self.problems.append("`bootstrap` is linked against nothing: its version of glibc cannot be told")
            return
        needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
        for library in needed:
            if not library.startswith(GLIBC_LIBRARIES):
                self.problems.append(f"`bootstrap` needs {library}, which is not glibc's")
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for _, versions in section.iter_versions():
                    for version in versions:
                        self.wants(version.name)
        if not self.glibc:
            self.problems.append("`bootstrap` names no version of glibc")
        if self.glibc > GLIBC_MAX:
            self.problems.append(f"`bootstrap` needs glibc {dotted(self.glibc)}, there is {dotted(GLIBC_MAX)}")

    def wants(self, version):
        family, _, number = version.partition("_")
        if family != "GLIBC" or not number[:1].isdigit():
            self.problems.append(f"`bootstrap` needs {version}, which is not glibc's")
            return
        self.glibc = max(self.glibc, tuple(map(int, number.split("."))))


def dotted(version):
    return ".".join(map(str, version))


def deployed():
    """The processor that the template deploys if nothing is chosen."""
    template = (ROOT / "infra" / "sam" / "template.yaml").read_text()
    return re.search(r"\n  Architecture:\n    Type: String\n    Default: (\w+)\n", template).group(1)


def check_all(architecture=None, features=None):
    """What is wrong with the zips, and their figures. With features besides the default ones, any size is right."""
    architecture = architecture or deployed()
    problems, figures = [], []
    for function in FUNCTIONS:
        if not zip_of(function).exists():
            problems.append(f"{function}: cargo lambda wrote no {zip_of(function).relative_to(ROOT)}")
            continue
        package = Package(zip_of(function).read_bytes(), architecture, None if features else UNZIPPED_MAX_BYTES)
        problems += [f"{function}: {each}" for each in package.problems]
        figures.append(
            f"{function} {package.zipped_bytes / 1e6:.1f} MB zipped, {package.unzipped_bytes / 1e6:.1f} MB, glibc {dotted(package.glibc)}"
        )
    return problems, "; ".join([architecture, *figures])


def zipped(files):
    """A zip of names with what is in them and their modes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            out.writestr(entry, data)
    return file.getvalue()


def header(architecture):
    """The header of an executable, and nothing behind it."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return struct.pack("<16sHHIQQQIHHHHHH", ident, 3, MACHINES[architecture][1], 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0)


def test_headers():
    """Needs no package. Each processor is told from the other by the header alone. Returns how many were tried."""
    for built in MACHINES:
        zip_of_header = zipped({"bootstrap": (header(built), 0o755)})
        for wanted in MACHINES:
            about = [each for each in Package(zip_of_header, wanted).problems if "is for" in each]
            expected = [] if built == wanted else [f"`bootstrap` is for {built}, wanted {wanted}"]
            assert [each.split(":")[0] for each in about] == expected, f"of {built} for {wanted}: {about}"
    return len(MACHINES) ** 2


def self_test():
    """Each wrong zip is noticed, and for what is wrong with it. Returns how many were tried."""
    bootstrap = zipfile.ZipFile(zip_of(FUNCTIONS[0])).read("bootstrap")
    built = deployed()
    good = Package(zipped({"bootstrap": (bootstrap, 0o755)}), built)
    assert not good.problems, "a zip of the same file is refused"
    # Names in the dynamic string table, replaced by others of the same length.
    newest = f"GLIBC_{dotted(good.glibc)}".encode()

    def renamed(old, new):
        assert old + b"\0" in bootstrap and len(old) == len(new), f"`bootstrap` has no {old} to be replaced by {new}"
        return zipped({"bootstrap": (bootstrap.replace(old + b"\0", new + b"\0"), 0o755)})

    wrong = [
        ("holds", zipped({"aggregator": (bootstrap, 0o755)})),
        ("holds", zipped({"bin/bootstrap": (bootstrap, 0o755)})),
        ("holds", zipped({"bootstrap": (bootstrap, 0o755), "notes.txt": (b"", 0o644)})),
        ("mode", zipped({"bootstrap": (bootstrap, 0o644)})),
        ("mode", zipped({"bootstrap": (bootstrap, 0o700)})),
        ("at most", zipped({"bootstrap": (bootstrap + bytes(UNZIPPED_MAX_BYTES), 0o755)})),
        ("ELFError", zipped({"bootstrap": (b"#!/bin/sh\n", 0o755)})),
        ("BadZipFile", zipped({"bootstrap": (bootstrap, 0o755)})[:-100]),
        ("which is not glibc's", renamed(b"libc.so.6", b"libz.so.6")),
        ("needs glibc 2.35", renamed(newest, b"GLIBC_2.35")),
        ("needs GLIBC_ABI", renamed(newest, b"GLIBC_ABI_"[: len(newest)])),
    ]
    # The other processor's number where this one's is.
    (other,) = set(MACHINES) - {built}
    wrong.append((f"is for {other}", zipped({"bootstrap": (bootstrap[:18] + struct.pack("<H", MACHINES[other][1]) + bootstrap[20:], 0o755)})))
    for said, data in wrong:
        found = Package(data, built).problems
        assert any(said in each for each in found), f"unnoticed: {said} in {found}"
    return len(wrong)


def unpack():
    for function in FUNCTIONS:
        bootstrap = CODE / function / "bootstrap"
        # Not over the old one: that may still be running.
        bootstrap.unlink(missing_ok=True)
        bootstrap.write_bytes(zipfile.ZipFile(zip_of(function)).read("bootstrap"))
        bootstrap.chmod(0o755)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--arch", choices=MACHINES, default=ARCHITECTURE)
    arguments.add_argument("features", nargs="?")
    told = arguments.parse_args()
    problems, figures = check_all(told.arch, told.features)
    if told.arch != deployed():
        print(f"deploy with Architecture={told.arch}: the template's default is {deployed()}")
    if not problems:
        unpack()
    print(*problems, figures, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
