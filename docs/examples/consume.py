"""Stores the lines of each part below a directory once: python3 consume.py DIRECTORY DATABASE"""
import gzip, hashlib, json, pathlib, sqlite3, sys

directory, database = pathlib.Path(sys.argv[1]), sqlite3.connect(sys.argv[2])
database.execute("CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY)")
database.execute("CREATE TABLE IF NOT EXISTS lines (part TEXT, line BLOB)")
for path in sorted(directory.rglob("[0-9]*.manifest.json")):
    manifest = json.loads(path.read_bytes())
    part = f"{manifest['batchId']}/{manifest['part']}"
    if database.execute("SELECT 1 FROM parts WHERE part = ?", [part]).fetchone():
        continue  # It was stored before. The file may be gone since.
    content = (directory / manifest["key"]).read_bytes()
    content = gzip.decompress(content) if manifest["compression"] == "gzip" else content
    lines, sha256 = content.split(b"\n")[:-1], hashlib.sha256(content).hexdigest()
    is_right = {
        "formatVersion": manifest.get("formatVersion", 1) == 1,
        "sha256": manifest.get("sha256", sha256) == sha256,
        "count": manifest["count"] - manifest["rejected"] == len(lines),
    }
    if not all(is_right.values()):
        sys.exit(f"{path}: the part is not what its manifest says: {is_right}")
    with database:  # One transaction: the lines are stored with the name of their part, or not at all.
        database.execute("INSERT INTO parts VALUES (?)", [part])
        database.executemany("INSERT INTO lines VALUES (?, ?)", [(part, line) for line in lines])
    print(part, len(lines))
