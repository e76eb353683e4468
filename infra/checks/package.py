"""What deploys, looked into: each zip holds one executable `bootstrap` that provided.al2023 can run.

xtask/src/package.rs builds the zips. By itself (`cargo xtask package`) this also unpacks each executable beside its zip, for
what runs it without Lambda.

    python package.py [FEATURES]
"""

import io
import pathlib
import platform
import sys
import zipfile

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Where the template and the CDK app look, whatever CARGO_TARGET_DIR says.
CODE = ROOT / "target" / "lambda"
FUNCTIONS = ("aggregator", "batch-processor")
# Without --arm64 or --x86-64, cargo lambda builds for the machine it runs on.
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
MACHINES = {"x86_64": "EM_X86_64", "arm64": "EM_AARCH64"}
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

    def __init__(self, data, architecture=ARCHITECTURE, bytes_max=UNZIPPED_MAX_BYTES):
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
            self.look_into(ELFFile(io.BytesIO(archive.read(entry))), MACHINES[architecture])
        except (zipfile.BadZipFile, ELFError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def look_into(self, elf, machine):
        if elf["e_machine"] != machine:
            self.problems.append(f"`bootstrap` is for {elf['e_machine']}, wanted {machine}")
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


def check_all(features=()):
    """What is wrong with the zips, and their figures. With features besides the default ones, any size is right."""
    problems, figures = [], []
    for function in FUNCTIONS:
        if not zip_of(function).exists():
            problems.append(f"{function}: cargo lambda wrote no {zip_of(function).relative_to(ROOT)}")
            continue
        package = Package(zip_of(function).read_bytes(), bytes_max=None if features else UNZIPPED_MAX_BYTES)
        problems += [f"{function}: {each}" for each in package.problems]
        figures.append(
            f"{function} {package.zipped_bytes / 1e6:.1f} MB zipped, {package.unzipped_bytes / 1e6:.1f} MB, glibc {dotted(package.glibc)}"
        )
    return problems, "; ".join([ARCHITECTURE, *figures])


def zipped(files):
    """A zip of names with what is in them and their modes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            out.writestr(entry, data)
    return file.getvalue()


def self_test():
    """Each wrong zip is noticed, and for what is wrong with it. Returns how many were tried."""
    bootstrap = zipfile.ZipFile(zip_of(FUNCTIONS[0])).read("bootstrap")
    assert not Package(zipped({"bootstrap": (bootstrap, 0o755)})).problems, "a zip of the same file is refused"
    other = {"x86_64": "arm64", "arm64": "x86_64"}[ARCHITECTURE]
    # Names in the dynamic string table, replaced by others of the same length.
    newest = f"GLIBC_{dotted(Package(zipped({'bootstrap': (bootstrap, 0o755)})).glibc)}".encode()

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
    for said, data in wrong:
        found = Package(data).problems
        assert any(said in each for each in found), f"unnoticed: {said} in {found}"
    # The other way round, which is as wrong and needs no other compiler.
    found = Package(zipped({"bootstrap": (bootstrap, 0o755)}), other).problems
    assert any(MACHINES[other] in each for each in found), f"unnoticed: the architecture in {found}"
    return len(wrong) + 1


def unpack():
    for function in FUNCTIONS:
        bootstrap = CODE / function / "bootstrap"
        # Not over the old one: that may still be running.
        bootstrap.unlink(missing_ok=True)
        bootstrap.write_bytes(zipfile.ZipFile(zip_of(function)).read("bootstrap"))
        bootstrap.chmod(0o755)


def main():
    problems, figures = check_all(sys.argv[1:])
    if not problems:
        unpack()
    print(*problems, figures, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
