"""Checks a file against the schema of SARIF 2.1.0, which Microsoft's package for npm carries, and says what is in it."""

import json
import pathlib
import sys

import jsonschema

schemas = pathlib.Path(sys.prefix) / "npm/node_modules/@microsoft/jest-sarif/lib/schemas"
schema = json.loads(next(schemas.glob("sarif-2.1.0*.json")).read_text())
with open(sys.argv[1], encoding="utf-8") as file:
    log = json.load(file)
validator = jsonschema.validators.validator_for(schema)(schema)
json.dump({
    "problems": [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(log)],
    "results": [{key: result.get(key) for key in ("ruleId", "level", "baselineState")} for result in log["runs"][0]["results"]],
}, sys.stdout)
