"""Checks the manifest of a Kubernetes DaemonSet for what the API server would refuse."""

import json
import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    manifest = yaml.safe_load(file)
problems = []


def expect(found, wanted, what):
    if found != wanted:
        problems.append(f"{what}: {found!r} is not {wanted!r}")


expect(manifest["apiVersion"], "apps/v1", "apiVersion")
expect(manifest["kind"], "DaemonSet", "kind")
template = manifest["spec"]["template"]
expect(manifest["spec"]["selector"]["matchLabels"], template["metadata"]["labels"], "selector")
for key, value in template["metadata"]["annotations"].items():
    expect(type(value), str, key)
container = template["spec"]["containers"][0]
ports = {port["name"]: port["containerPort"] for port in container["ports"]}
expect(container["readinessProbe"]["httpGet"]["port"] in ports, True, "the probe's port is named")
expect(template["metadata"]["annotations"]["prometheus.io/port"], str(ports["http"]), "port")
listen = f"--listen=0.0.0.0:{ports['http']}"
expect(listen in container["command"], True, "convoy listens at the port")
volumes = {volume["name"] for volume in template["spec"]["volumes"]}
mounts = {mount["name"] for mount in container["volumeMounts"]}
expect(mounts, volumes, "volumes")
json.dump({"problems": problems}, sys.stdout)
