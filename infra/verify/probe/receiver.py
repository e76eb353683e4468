"""The function `receiver`: a sink that fails until a time, as an endpoint does that answers 503. It logs every attempt."""

import json
import os
import time


class Closed(Exception):
    pass


def handler(event, _context):
    now = time.time()
    closed = now < float(os.environ["CLOSED_UNTIL"])
    key = event.get("key") or event.get("idempotencyKey") if isinstance(event, dict) else None
    print(json.dumps({"receiver": True, "at": now, "closed": closed, "key": key}), flush=True)
    if closed:
        raise Closed("closed for the experiment")
    return {}
