# mypy: ignore-errors
# Its contexts and tasks stand in for Airflow's own types.
"""Sends what the notifier reports to a web hook; prints it."""

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


def said(run_id, **options):
    texts = []
    told = GravelerNotifier(send=texts.append, repo="{{ 'tel' + 'ling' }}", **options)
    told({"dag": dag, "run_id": run_id})
    return texts


chat = f"http://127.0.0.1:{server.server_port}/hook"
found = {
    "refused": said("r1", webhook=chat),
    "published": said("r2"),
    "failed": said("r3"),
    "unknown": said("r4"),
    "away": said("r5", graveler_conn_id="nowhere"),
}
with DAG("ticking") as dag:  # noqa: F811
    GravelerIngestOperator(task_id="hold", repo="telling", branch="ingest")
    GravelerIngestOperator(task_id="aside", repo="telling", branch="landing")
    GravelerIngestOperator(task_id="daily", repo="telling", branch="{{ ds }}")
    GravelerIngestOperator(task_id="other", repo="flights", branch="elsewhere")
found["ticking"] = said("r6")
try:
    said("r2", webhook="file:///etc/passwd")
except ValueError as error:
    found["no address"] = str(error)
found["posted"] = posted
server.shutdown()
print(json.dumps(found))
