"""The base of tests that run the program on the emulator moto, which runs in this process, with no network."""

import contextlib
import functools
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import boto3
from moto import mock_aws

from verify import cleanup, ledger, main, registry, world

REGION = "eu-west-1"
ACCOUNT = "123456789012"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
BOUNDARY = ledger.ROOT / "infra" / "verify" / "boundary.json"


class OnMoto(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        enter = self.stack.enter_context
        folder = pathlib.Path(enter(tempfile.TemporaryDirectory()))
        enter(mock.patch.dict(os.environ, CREDENTIALS))
        enter(mock.patch.object(ledger, "RUNS", folder))
        enter(mock.patch.object(cleanup, "STACK_POLL_SECONDS", 0.05))
        enter(mock.patch.object(cleanup, "SETTLE_SECONDS", 0.05))
        enter(mock_aws(config={"lambda": {"use_docker": False}}))
        self.client = functools.cache(functools.partial(boto3.client, region_name=REGION))
        self.out, self.log = enter(contextlib.redirect_stdout(io.StringIO())), enter(contextlib.redirect_stderr(io.StringIO()))
        self.client("iam").create_policy(PolicyName=world.BOUNDARY, PolicyDocument=BOUNDARY.read_text())

    def run_with(self, *experiments, flags=("--yes",)):
        with mock.patch.object(registry, "select", lambda only, level: list(experiments)):
            return main.main(list(flags), emulator="moto")

    def assert_nothing_remains(self, name=ledger.PREFIX.rstrip("-")):
        found = {kind.name: names for kind in cleanup.KINDS if (names := kind(self.client, name).listed())}
        self.assertEqual(found, {}, self.log.getvalue())
