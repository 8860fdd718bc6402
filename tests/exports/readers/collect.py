"""A collector of OTLP metrics with OpenTelemetry's own messages. It refuses the first request with
503, writes its port at once and, after so many requests, what they had."""
import http.server
import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

WANTED = 3
problems = []
requests = []


def take(body):
    request = ExportMetricsServiceRequest()
    request.ParseFromString(body)
    found = {}
    for of_process in request.resource_metrics:
        for scope in of_process.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                if kind != "gauge":
                    if data.aggregation_temporality != AGGREGATION_TEMPORALITY_CUMULATIVE:
                        problems.append(f"{metric.name} is not cumulative")
                if kind == "sum" and not data.is_monotonic:
                    problems.append(f"{metric.name} is not monotonic")
                for point in data.data_points:
                    if point.start_time_unix_nano > point.time_unix_nano:
                        problems.append(f"{metric.name} ends before it begins")
                    if kind == "exponential_histogram":
                        if sum(point.positive.bucket_counts) + point.zero_count != point.count:
                            problems.append(f"{metric.name}: buckets do not add up")
                found[metric.name] = [kind, len(data.data_points)]
    requests.append(found)


class Collector(http.server.BaseHTTPRequestHandler):
    refused = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/metrics":
            problems.append(self.path)
        if self.headers["Content-Type"] != "application/x-protobuf":
            problems.append(self.headers["Content-Type"])
        if not Collector.refused:
            Collector.refused = True
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        take(body)
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
print(f"port {server.server_address[1]}", flush=True)
while len(requests) < WANTED:
    server.handle_request()
print(json.dumps({"problems": problems, "requests": requests}), file=sys.stdout, flush=True)
