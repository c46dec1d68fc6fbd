"""All expressions of rules.yaml and dashboard.json in a folder, a line each, with variables of the dashboard filled in."""

import json
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
rules = (folder / "rules.yaml").read_text()
found = [line.split("expr:", 1)[1].strip() for line in rules.splitlines() if "expr:" in line]


def expressions(value):
    if isinstance(value, dict):
        if isinstance(value.get("expr"), str):
            yield value["expr"]
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


found += expressions(json.loads((folder / "dashboard.json").read_text()))
for expression in found:
    print(re.sub(r"\$__rate_interval", "1m", expression.replace("$instance", ".*")))
