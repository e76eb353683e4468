"""Reads commands of the AWS CLI from stdin, a JSON list of lists of words, and prints what the AWS CLI says against each: an empty text if it
would send a request. None is sent.

It is a program by itself, because the AWS CLI brings a botocore of its own, which boto3 must not use.
"""

import contextlib
import io
import json
import os
import sys
from unittest import mock

from awscli.clidriver import create_clidriver

# That of the AWS CLI, which must have been imported before.
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_MAX_ATTEMPTS": "1",
}
WOULD_SEND = "Could not connect to the endpoint URL"


def said_against(driver, words):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = driver.main(words)
        except SystemExit as ended:
            code = ended.code
    text = " ".join(said.getvalue().split())
    return "" if code == 0 or WOULD_SEND in text else text[-300:]


def main():
    os.environ.update(ENVIRONMENT)
    with mock.patch.object(URLLib3Session, "send", side_effect=EndpointConnectionError(endpoint_url="none")):
        driver = create_clidriver()
        print(json.dumps([said_against(driver, words) for words in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
