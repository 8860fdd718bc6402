"""Reads a profile for the Firefox Profiler: first by a JSON schema, then by following every index."""

import json
import pathlib
import sys

import jsonschema

with open(sys.argv[1], encoding="utf-8") as file:
    profile = json.load(file)
schema = json.loads((pathlib.Path(__file__).parent / "firefox.json").read_text())
jsonschema.validate(profile, schema)

problems = []


def check(condition, text):
    if not condition and len(problems) < 20:
        problems.append(text)


def column(table, key, limit, optional=False, none=None):
    """All of a column's indices lead into a table of `limit` rows."""
    for ix in table[key]:
        check((optional and ix in (None, none)) or (ix is not None and 0 <= ix < limit), f"{key}: {ix} of {limit}")


def lengths(table, name):
    for key, values in table.items():
        if isinstance(values, list):
            check(len(values) == table["length"], f"{name}.{key} has {len(values)} of {table['length']}")


shared = profile["shared"]
texts = shared["stringArray"]
for name in ["stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources"]:
    lengths(shared[name], name)
stacks, frames, functions = shared["stackTable"], shared["frameTable"], shared["funcTable"]
column(stacks, "frame", frames["length"])
for ix, prefix in enumerate(stacks["prefix"]):
    check(prefix is None or prefix < ix, "a stack before its prefix")
column(frames, "func", functions["length"])
column(frames, "category", len(profile["meta"]["categories"]), optional=True)
column(functions, "name", len(texts))
column(functions, "resource", shared["resourceTable"]["length"], optional=True, none=-1)
column(functions, "source", shared["sources"]["length"], optional=True)
column(shared["resourceTable"], "lib", len(profile["libs"]))
column(shared["sources"], "filename", len(texts))
check(any(c["color"] == "grey" for c in profile["meta"]["categories"]), "no grey category")

fields = {s["name"]: {f["key"]: f["format"] for f in s["fields"]} for s in profile["meta"]["markerSchema"]}
waiting = next(i for i, c in enumerate(profile["meta"]["categories"]) if c["name"] == "Waiting for a thread")
begins, ends, kinds, threads = {}, {}, {}, []
for thread in profile["threads"]:
    samples, markers = thread["samples"], thread["markers"]
    lengths(samples, "samples")
    lengths(markers, "markers")
    column(samples, "stack", stacks["length"], optional=True)
    check(samples["time"] == sorted(samples["time"]), "samples are not in order")
    column(markers, "name", len(texts))
    for data, start, end in zip(markers["data"], markers["startTime"], markers["endTime"]):
        check(end >= start, "a marker that ends before it begins")
        kinds[data["type"]] = kinds.get(data["type"], 0) + 1
        check(data["type"] in fields, f"no schema of {data['type']}")
        for key, value in data.items():
            form = fields[data["type"]].get(key)
            if form in ("unique-string", "flow-id", "terminating-flow-id"):
                check(0 <= value < len(texts), f"{key} is no text")
            if form == "flow-id":
                begins[value] = start
            if form == "terminating-flow-id":
                ends[value] = end
            if key == "cause":
                check(0 <= value["stack"] < stacks["length"], "a cause that is no stack")
    wait_ms = 0.0
    for stack, weight in zip(samples["stack"], samples["weight"]):
        if stack is not None and frames["category"][stacks["frame"][stack]] == waiting:
            wait_ms += weight
    threads.append({"tid": thread["tid"], "ms": sum(samples["weight"]), "wait_ms": wait_ms})
check(begins == ends, "a flow with one end, or ends at different times")

json.dump({"problems": problems, "threads": threads, "markers": kinds, "flows": len(begins)}, sys.stdout)
