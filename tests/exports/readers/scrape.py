"""Scrapes /metrics of a base URL twice, in both formats, with the parsers of Prometheus' client for
Python: what is there, and what would be no counter."""
import json
import sys
import time
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"


def scrape(url, accept):
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(families):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): (sample.value, family.type)
        for family in families
        for sample in family.samples
    }


def main(base):
    url = base + "/metrics"
    problems = []
    content_type, text = scrape(url, "text/plain")
    if not content_type.startswith("text/plain; version=0.0.4"):
        problems.append(content_type)
    first = samples(plain(text))
    for line in text.splitlines():
        if not line.startswith("#") and text.splitlines().count(line) > 1:
            problems.append("twice: " + line)
    time.sleep(1.5)
    content_type, text = scrape(url, OPENMETRICS)
    if not content_type.startswith("application/openmetrics-text"):
        problems.append(content_type)
    second = samples(openmetrics(text))
    for key, (value, kind) in first.items():
        # A gauge may leave with what it is of.
        if kind not in ("counter", "histogram", "summary"):
            continue
        if key not in second:
            problems.append(f"{key} is gone")
        elif second[key][0] < value:
            problems.append(f"{key} fell from {value} to {second[key][0]}")
    values = [[name, dict(labels), value] for (name, labels), (value, _) in second.items()]
    print(json.dumps({"problems": problems, "series": values}))


main(sys.argv[1])
