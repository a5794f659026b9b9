# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Sends the notifier's report to a web hook; prints it."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from airflow.sdk import DAG

from graveler_airflow import GravelerIngestOperator, GravelerNotifier

posted, dag = [], DAG("told")


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Chat)
threading.Thread(target=server.serve_forever, daemon=True).start()


def output(run_id, **options):
    texts = []
    events = GravelerNotifier(send=texts.append, repo="{{ 'tel' + 'ling' }}", **options)
    events({"dag": dag, "run_id": run_id})
    return texts


chat = f"http://127.0.0.1:{server.server_port}/hook"
results = {
    "refused": output("r1", webhook=chat),
    "published": output("r2"),
    "failed": output("r3"),
    "unknown": output("r4"),
    "away": output("r5", graveler_conn_id="nowhere"),
}
with DAG("ticking") as dag:  # noqa: F811
    GravelerIngestOperator(task_id="hold", repo="telling", branch="ingest")
    GravelerIngestOperator(task_id="aside", repo="telling", branch="landing")
    GravelerIngestOperator(task_id="daily", repo="telling", branch="{{ ds }}")
    GravelerIngestOperator(task_id="other", repo="flights", branch="elsewhere")
results["ticking"] = output("r6")


def deadline(**options):
    """Notify as the triggerer does when a DAG run misses its deadline."""
    texts = []
    events = GravelerNotifier(send=texts.append, repo="telling", **options)
    context = {"dag_run": {"dag_id": "told", "dag_run_id": "r1"}, "deadline": {"id": "d"}}
    asyncio.run(events.async_notify(context))
    return texts


results["deadline"] = [deadline(), deadline(graveler_conn_id="nowhere")]
try:
    output("r2", webhook="file:///etc/passwd")
except ValueError as error:
    results["no address"] = str(error)
results["posted"] = posted
server.shutdown()
print(json.dumps(results))
