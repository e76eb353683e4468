"""Checks the commands of AWS in the documents against the programs themselves: the AWS CLI, the SAM CLI and the CDK.

Each shell block, and each command that a text names, is run in a shell that runs no program but records each command. The real
programs then parse that, the AWS CLI up to the request, which is not sent. `tests/architecture/commands.rs` knows who runs the others.
"""

import contextlib
import functools
import importlib
import json
import logging
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

import click

import cfn

# The SAM CLI prints what boto3 logs.
logging.getLogger("botocore").setLevel(logging.WARNING)

PROGRAMS = ("aws", "sam", "cdk")
# What a shell runs in place of a program: it writes the words down, and prints a word for a command around it.
SHELL = """
record() { printf '%s\\0' "$@" >&3; printf '\\n' >&3; printf x; }
aws() { record aws "$@"; }
sam() { record sam "$@"; }
cdk() { record cdk "$@"; }
npx() { record "$@"; }
cd() { :; }
npm() { :; }
gh() { :; }
alias() { :; }
date() { case "$*" in *%s*) printf 1767225600000 ;; *) printf 2026-01-01T00:00:00Z ;; esac; }
"""
# What the programs say against a command that a text only names, without its arguments.
INCOMPLETE = ("the following arguments are required", "Missing option '--stack-name'", "requires an argument")
# Files that commands name, by their path where somebody runs them.
FILES = {"template.yaml": cfn.SAM, "infra/sam/template.yaml": cfn.SAM, "infra/verify/boundary.json": cfn.INFRA / "verify" / "boundary.json"}
# Pages with a wrong command.
WRONG = (
    "```sh\naws sqs purge-queue\n```",
    "```sh\naws sqs purge-queues --queue-url ...\n```",
    "```sh\nx=$(aws lambda get-function --function-name <Name> --qualifiers 1)\n```",
    "```sh\naws cloudformation update-stack --use-previous-template\n```",
    "```sh\naws s3 rb --forced s3://x\n```",
    "`aws cloudformation create-change-sets`",
    "```sh\nsam deploy --stack events --template template.yaml\n```",
    "`sam deployed --guided`",
    "```sh\nnpx cdk deploy --contexts a=b\n```",
    "`cdk deployed`",
)
CDK = cfn.INFRA / "cdk" / "node_modules" / ".bin" / "cdk"


def documents():
    return [cfn.ROOT / "README.md", cfn.ROOT / "CONTRIBUTING.md", *sorted((cfn.ROOT / "docs").glob("*.md"))]


def scripts(page):
    """Yields (script, whether it is only named) for the shell blocks of a page, and for the commands that its text names."""
    for each in re.findall(r"(?s)```sh\n(.*?)```", page):
        yield each, False
    text = "".join(page.split("```")[::2])
    for each in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        # `cdk deploy` begins with a program, and `sam` is none by itself.
        if each.split()[0] in PROGRAMS and len(each.split()) > 1:
            yield " ".join(each.split()), True


def recorded(script):
    """Returns the commands that a script gives to `PROGRAMS`, each as its words."""
    # A name that is as long as the longest of the shortest that AWS takes, a UUID.
    script = re.sub(r"<[A-Za-z][^<>\n]*>", "0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d", script)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as record:
        # Redirections write into the folder, and no other program is found.
        command = f"exec 3>&{record.fileno()}\n{SHELL}\n{script}"
        subprocess.run(["/bin/sh", "-c", command], cwd=folder, env={"PATH": ""}, pass_fds=[record.fileno()], capture_output=True, check=False)
        record.seek(0)
        lines = record.read().decode().split("\0\n")
    return [line.split("\0") for line in lines if line]


def aws(commands):
    """Returns what the AWS CLI says against each command, without its first word."""
    program = pathlib.Path(__file__).with_name("aws_cli.py")
    done = subprocess.run([sys.executable, program], input=json.dumps(commands), text=True, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def sam(words):
    """Returns what the SAM CLI says against a command, without its first word."""
    try:
        command = importlib.import_module(f"samcli.commands.{words[0]}.command").cli
        command.make_context(words[0], words[1:])
    except ModuleNotFoundError:
        return f"no such command: {words[0]}"
    except (click.ClickException, SystemExit) as error:
        return getattr(error, "message", str(error))
    return ""


@functools.lru_cache(maxsize=None)
def cdk_help(*command):
    return subprocess.run([CDK, *command, "--help"], capture_output=True, text=True, check=False).stdout


def cdk(words):
    """Returns what the help of the CDK lacks of a command, without its first word."""
    text = cdk_help(words[0])
    if f"cdk {words[0]}" not in text:
        return f"no such command: {words[0]}"
    options = {word.split("=")[0] for word in words[1:] if word.startswith("-")}
    return "".join(f"no such option: {each}" for each in sorted(options) if not re.search(rf"(^|[\s,]){each}[\s,]", text))


def said_against(pages):
    """Returns, for each page, a list of (command, what a program says against it), which is an empty text if the command is right."""
    found = [(at, is_named, words) for at, page in enumerate(pages) for script, is_named in scripts(page) for words in recorded(script)]
    of_aws = iter(aws([words[1:] for *_, words in found if words[0] == "aws"]))
    said = [[] for _ in pages]
    for at, is_named, (program, *words) in found:
        text = next(of_aws) if program == "aws" else {"sam": sam, "cdk": cdk}[program](words)
        if is_named and any(each in text for each in INCOMPLETE):
            text = ""
        said[at].append((shlex.join([program, *words]), text))
    return said


@contextlib.contextmanager
def in_folder():
    """Changes into a folder that has the files of the commands."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, file in FILES.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, path)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def zipped(page):
    """Yields what is wrong with the command that puts the configuration file into a zip, `zip -j`, if this machine has `zip`."""
    command = re.search(r"`(zip -j \S+ \S+)`", page).group(1)
    if shutil.which("zip") is None:
        return
    _, _, archive, file = command.split()
    with in_folder():
        pathlib.Path(file).write_text("[batches]\n")
        pathlib.Path(archive).parent.mkdir(parents=True)
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr("bootstrap", "")
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        names = zipfile.ZipFile(archive).namelist()
        if done.returncode != 0 or names != ["bootstrap", "service.toml"]:
            yield f"docs/deploying.md: {command}: got {names}, expected bootstrap and service.toml; {done.stdout}{done.stderr}"


def check_all():
    """Returns the problems, the number of commands, and the number of planted mistakes, each of which must be noticed."""
    paths = documents()
    texts = [each.read_text() for each in paths]
    with in_folder():
        said = said_against([*texts, *WRONG])
    unnoticed = [page for page, found in zip(WRONG, said[len(paths) :], strict=True) if not any(text for _, text in found)]
    assert not unnoticed, f"not noticed: {unnoticed}"
    problems = list(zipped((cfn.ROOT / "docs" / "deploying.md").read_text()))
    for path, found in zip(paths, said, strict=False):
        problems += [f"{path.relative_to(cfn.ROOT)}: `{command}`: {text}" for command, text in found if text]
    return problems, sum(map(len, said[: len(paths)])), len(WRONG)


if __name__ == "__main__":
    problems, count, wrong = check_all()
    print(*problems or [f"{count} commands, {wrong} wrong ones noticed"], sep="\n")
    sys.exit(bool(problems))
