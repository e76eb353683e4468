"""Every check of the templates, one after the other, with the time each takes. `cargo xtask infra` installs what this needs.

What deploys is built meanwhile; the parts that need it are run after the others, by `main.py --packages`.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import cfn
import drift
import emulator
import faults
import iam
import package
import policy
import same
from rules.alarms import watched
from rules.functions import variables_bytes
from world import World

# It would tell its makers, who cannot be reached from everywhere.
os.environ["SAM_CLI_TELEMETRY"] = "0"

TOOLS = pathlib.Path(sys.executable).parent
TEXT = cfn.SAM.read_text()
# What synthesis made, for the parts after it.
CDK = {}


def run(*command, folder=cfn.INFRA):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [] if done.returncode == 0 else [f"{' '.join(map(str, command))} failed:", *done.stdout.splitlines()]


def texts(problems):
    return [": ".join(each) for each in problems]


def sam_validate():
    return run(TOOLS / "sam", "validate", "--lint", "--region", "eu-west-1", "--template", cfn.SAM), ""


def lint_transformed():
    # With each way of scaling, as CloudFormation would get it; and with the parameters left open.
    templates = [cfn.transform(TEXT), cfn.transform(TEXT, {}), cfn.transform(TEXT, same.WORLDS["Provisioned"])]
    return [f"cfn-lint: {each}" for template in templates for each in faults.lint_texts(json.dumps(template))], f"{len(templates)} templates"


def rules():
    return texts(policy.check_all(TEXT)), f"{len(policy.RULES)} rules, {len(cfn.worlds(cfn.parse(TEXT)))} sets of parameters"


def grants():
    return texts(iam.check_all(TEXT)), f"{iam.self_test(TEXT)} grants and calls added, taken away or widened, each noticed"


def variables():
    return texts(drift.check_all(TEXT)), f"{drift.self_test(TEXT)} changes of the code, each noticed"


def told():
    """Figures of docs/deploying.md that follow from the template."""
    page = " ".join((cfn.INFRA.parent / "docs" / "deploying.md").read_text().split())
    alarms = {how: cfn.by_type(cfn.resolve(TEXT, {"OnDuplicate": how}), "AWS::CloudWatch::Alarm") for how in ("drop", "requeue")}
    counts = {how: sum(len(list(watched(alarm))) for alarm in each.values()) for how, each in alarms.items()}
    wanted = [
        f"| {len(alarms['drop'])} alarms | {counts['drop']} metrics in alarms ({counts['requeue']} with `requeue`) at $0.10 | {counts['drop'] / 10:.2f} |",
        f"all parameters accept take {max(variables_bytes(World(TEXT)).values()):,} |",
        f"`SinkColumns` as a JSON list has room for {cfn.parse(TEXT)['Parameters']['SinkColumns']['MaxLength']} characters",
    ]
    return [f"docs/deploying.md does not say `{each}`" for each in wanted if each not in page], f"{len(wanted)} figures"


def headers():
    return [], f"{package.test_headers()} headers"


def planted():
    lines, missed = faults.table(everybody="--all" in sys.argv)
    print("\n".join(lines))
    return [f"caught by nobody: {each}" for each in missed], f"{len(faults.FAULTS)} wrong templates, {len(missed)} missed"


def planted_cdk():
    lines, missed = faults.table_cdk()
    print("\n".join(lines))
    return [f"caught by nobody: {each}" for each in missed], f"{len(faults.CDK_FAULTS)} wrong constructs, {len(missed)} missed"


def moto():
    problems, count = emulator.check_all(TEXT)
    problems += emulator.scaled_back(TEXT)
    return problems, f"{count} properties read back; {emulator.self_test(TEXT)} other templates, each noticed"


def cdk_build():
    return run(same.CDK / "node_modules" / ".bin" / "tsc", folder=same.CDK), ""


def cdk_tests():
    return run(same.CDK / "node_modules" / ".bin" / "vitest", "run", folder=same.CDK), "assertions, cdk-nag"


def sam_is_cdk():
    with tempfile.TemporaryDirectory() as folder:
        templates, listed, said = same.synthesize(pathlib.Path(folder))
    CDK.update(templates)
    problems = texts(same.check_all(TEXT, CDK, listed, said))
    problems += [f"no set of parameters chooses {each}" for each in same.used_worlds()]
    if problems:
        return problems, ""
    refused = len(same.REFUSED | same.REFUSED_BY_CDK)
    return problems, f"{len(same.WORLDS)} sets of parameters, {refused} refused, {same.self_test(TEXT, CDK, listed)} changes, each noticed"


def lint_cdk():
    names = ("Default", "Provisioned", "Requeue", "Key", "Warm", "Https", "Version")
    # W3005: CDK writes the dependency of a function on its role although the reference says it already.
    said = [f"{name}: {each}" for name in names for each in faults.lint_texts(json.dumps(CDK[name]))]
    return [each for each in said if ": W3005 " not in each], f"{len(names)} templates"


def packages():
    problems, figures = package.check_all()
    return problems, figures if problems else f"{figures}; {package.self_test()} wrong zips, each noticed"


def sam_built(template, folder):
    """What is wrong with what `sam build` makes of a template: each function's code must be what was packaged."""
    problems = run(TOOLS / "sam", "build", "--template", template, "--build-dir", folder, "--region", "eu-west-1")
    if problems:
        return problems
    resources = cfn.parse((folder / "template.yaml").read_text())["Resources"]
    for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor")):
        code = (folder / resources[name]["Properties"]["CodeUri"]).resolve()
        if not code.is_file() or code != package.zip_of(function).resolve():
            problems.append(f"{name} is built from {code}, wanted {package.zip_of(function)}")
    return problems


def sam_build():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        problems = sam_built(cfn.SAM, folder / "built")
        # From elsewhere, the template's paths lead to no package.
        elsewhere = folder / "infra" / "sam" / "template.yaml"
        elsewhere.parent.mkdir(parents=True)
        elsewhere.write_text(TEXT)
        if not sam_built(elsewhere, folder / "elsewhere"):
            problems.append("a template without its packages is built unnoticed")
    return problems, ""


def cdk_app():
    """The app itself, offline and with cdk-nag: it must take what was packaged, and neither nothing nor a wrong parameter."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"

        def synthesize(chosen):
            # As the CLI hands over `-c name=value`, and asks for paths.
            context = {"aws:cdk:enable-path-metadata": True} | chosen
            command = ["env", f"CDK_CONTEXT_JSON={json.dumps(context)}", f"CDK_OUTDIR={out}", "node", "dist/bin/app.js"]
            return run(*command, folder=same.CDK)

        problems = synthesize({"maxBatchSize": "1000"})
        if not problems:
            made = json.loads((out / "UniqueEventBatchAggregator.template.json").read_text())
            if '"MAX_BATCH_SIZE": "1000"' not in json.dumps(made):
                problems.append("the app does not take its parameters")
            names = same.names(made)
            code = {names[key]: each["Properties"]["Code"] for key, each in made["Resources"].items() if each["Type"] == "AWS::Lambda::Function"}
            for name, function in (("Aggregator", "aggregator"), ("BatchProcessor", "batch-processor")):
                asset = out / f"asset.{code[name]['S3Key']}"
                if not asset.is_file() or asset.read_bytes() != package.zip_of(function).read_bytes():
                    problems.append(f"{name} is deployed from {asset.name}, which is not what was packaged")
        if not synthesize({"maxBatchSize": "0"}):
            problems.append("the app takes a wrong parameter")
        if not synthesize({"code": folder}):
            problems.append("the app takes no code")
    return problems, ""


PARTS = [
    ("sam validate --lint", sam_validate),
    ("SAM, transformed: cfn-lint", lint_transformed),
    ("rules", rules),
    ("package: header", headers),
    ("docs/deploying.md", told),
    ("IAM: called against granted", grants),
    ("variables", variables),
    ("moto", moto),
    ("CDK: build", cdk_build),
    ("CDK: vitest", cdk_tests),
    ("SAM against CDK", sam_is_cdk),
    ("CDK: cfn-lint", lint_cdk),
    ("planted faults", planted),
    ("planted faults: CDK", planted_cdk),
]
PARTS_OF_PACKAGES = [
    ("packages", packages),
    ("sam build", sam_build),
    ("CDK: app", cdk_app),
]


def main():
    failed = 0
    times = []
    for name, part in PARTS_OF_PACKAGES if "--packages" in sys.argv else PARTS:
        started = time.monotonic()
        try:
            problems, note = part()
        except AssertionError as error:
            problems, note = [f"the check itself is wrong: {error}"], ""
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
