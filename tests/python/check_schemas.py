# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks JSON documents against the schemas of docs/reference/schemas.json.

Arguments: the schemas, and a file {"NAME OF A SCHEMA": [DOCUMENT, ...], ...}. Prints what is wrong, a line each, and the names of results
that have no document.
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator


def main():
    schemas, documents = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
    Draft202012Validator.check_schema(schemas)
    definitions = schemas["$defs"]
    for name, all_of_it in documents.items():
        validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
        for document in all_of_it:
            for error in validator.iter_errors(document):
                print(f"{name}: {error.json_path}: {error.message[:300]}")
    # Results have the command that prints them in their description.
    results = {name for name, schema in definitions.items() if "`" in schema.get("description", "")}
    for name in sorted(results - documents.keys()):
        print(f"{name}: no command has printed one")


main()
