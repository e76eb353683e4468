"""Checks proofs of `batchctl prove` with the standard library only: verify_proof.py LAST-CHAIN-HASH-FILE PROOF...

Written from docs/proof.md alone. Prints a line of JSON for each proof, and ends with an error at one that does not hold.
"""
import hashlib, json, pathlib, sys


def sha256(*pieces):
    return hashlib.sha256(b"".join(pieces)).digest()


def read_hash(text):
    assert len(text) == 64 and set(text) <= set("0123456789abcdef"), text
    return bytes.fromhex(text)


def root_of(leaf, index, size, path):
    """Climbs from a leaf: on the left of the largest power of two below the size, or on the right."""
    if size == 1:
        assert not path, "the path is too long"
        return leaf
    left = 1 << (size - 1).bit_length() - 1
    if index < left:
        return sha256(b"\1", root_of(leaf, index, left, path[:-1]), path[-1])
    return sha256(b"\1", path[-1], root_of(leaf, index - left, size - left, path[:-1]))


def leaves_of(part, chain):
    leaves = []
    for leaf in part["leaves"]:
        assert leaf["index"] < chain["leaves"], "the leaf is not in the tree"
        event, body = read_hash(leaf["eventIdSha256"]), read_hash(leaf["bodySha256"])
        own = sha256(b"\0", event, body, leaf["record"].to_bytes(4, "big"))
        path = [read_hash(one) for one in leaf["path"]]
        root = root_of(own, leaf["index"], chain["leaves"], path)
        assert root == read_hash(chain["merkleRoot"]), "the leaf does not lead to the root"
        leaves.append((leaf["index"], event))
    return leaves


def verify(proof, last):
    target, at = sha256(proof["eventId"].encode()), read_hash(proof["previous"])
    statements = [part["statement"] for part in proof["parts"]]
    statements += [proof["next"]] if "next" in proof else []
    hashes = [sha256(one.encode()) for one in statements] + [read_hash(one) for one in proof["later"]]
    for statement in hashes:
        at = sha256(b"\2", at, statement)
    assert at == read_hash(last), "the links do not lead to the chain hash"
    assert "next" in proof or not proof["later"], "the next statement is missing"
    links = [json.loads(one + "}}")["chain"] for one in statements]
    for one, following in zip(links, links[1:]):
        assert following["after"] == one["number"], "a link is not after the one before it"
    found = [leaves_of(part, link) for part, link in zip(proof["parts"], links)]
    if proof["kind"] == "delivered":
        assert len(found) == 1 and [event for _, event in found[0]] == [target], "another event"
        return {"kind": "delivered", "number": links[0]["number"], "record": proof["parts"][0]["leaves"][0]["record"]}
    assert proof["kind"] == "not delivered"
    for link, leaves in zip(links, found):
        size, ids = link["leaves"], [event for _, event in leaves]
        indexes = [index for index, _ in leaves]
        is_absent = {
            0: lambda: size == 0 and read_hash(link["merkleRoot"]) == sha256(),
            1: lambda: (indexes == [0] and target < ids[0]) or (indexes == [size - 1] and ids[0] < target),
            2: lambda: indexes[0] + 1 == indexes[1] and ids[0] < target < ids[1],
        }[len(leaves)]()
        assert is_absent, "the leaves do not show that the event is absent"
    for one, following in zip(links, links[1:]):
        assert following["number"] == one["number"] + 1, "there is a gap"
    is_first = links[0]["number"] == 1 and read_hash(proof["previous"]) == bytes(32)
    return {"kind": "not delivered", "parts": len(found), "from": None if is_first else links[0]["takenAt"]}


last = pathlib.Path(sys.argv[1]).read_text()
for path in sys.argv[2:]:
    print(json.dumps(verify(json.loads(pathlib.Path(path).read_text()), last)))
